//! TensorBoard event files: the same numbers, for TensorBoard's curves.
//!
//! An event file is a sequence of TFRecords, each an `Event` message of protocol buffers:
//!
//! ```text
//! record     length: u64   masked CRC32C of length: u32   Event   masked CRC32C of Event: u32   (little endian)
//! Event      1 wall_time: double   2 step: int64   3 file_version: string   5 summary   7 session_log
//! summary    1 value, repeated { 1 tag: string   2 simple_value: float }
//! ```
//!
//! Source: TensorFlow's `event.proto`, `summary.proto` and `lib/io/record_writer.cc`. A file starts with its
//! version and a `session_log` that says which steps are to come: it makes a TensorBoard that is open while a run
//! resumes forget what the interrupted run had drawn of them. Readers take half a record at the end as the end.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::crc32c::masked_crc32c;
use crate::files::{FileError, sync_dir};

const PREFIX: &str = "events.out.tfevents.";
const SUFFIX: &str = ".burnish";

/// Appends scalars to a new event file in a directory.
#[derive(Debug)]
pub(super) struct EventsLog {
    dir: PathBuf,
    /// The first step that can come.
    step_first: u64,
    /// Made with the first scalars, so that a run that writes none leaves no file.
    open: Option<(PathBuf, File)>,
}

impl EventsLog {
    /// A log in `dir` for steps from `step_first` on.
    pub(super) fn new(dir: PathBuf, step_first: u64) -> Self {
        EventsLog { dir, step_first, open: None }
    }

    /// Appends one event. It then survives the end of the process, however that ends.
    ///
    /// # Errors
    /// If it can't be written; the file is then as it was.
    pub(super) fn append(&mut self, step: u64, scalars: &[(String, f64)]) -> Result<(), FileError> {
        let (path, file) = match &mut self.open {
            Some(open) => open,
            closed => closed.insert(create(&self.dir, self.step_first)?),
        };
        let failed = || FileError::on("append to", path);
        let len = file.metadata().map_err(failed())?.len();
        let written = file.write_all(&record(&scalars_event(step, scalars)));
        if written.is_err() {
            // Half a record hides all that follow. Should this fail too, the first error is the one to report.
            let _ = file.set_len(len);
        }
        written.map_err(failed())
    }

    /// Makes all events durable against a power cut.
    ///
    /// # Errors
    /// If the file can't be synced.
    pub(super) fn sync(&self) -> Result<(), FileError> {
        let Some((path, file)) = &self.open else { return Ok(()) };
        file.sync_all().and_then(|()| sync_dir(&self.dir)).map_err(FileError::on("sync", path))
    }
}

/// Drops the events of steps after `step`, and half a record at the end, from the files of earlier processes in
/// `dir`. A file that holds nothing else is removed.
///
/// Within a file steps never fall, so that what is dropped is always its end: cutting it is atomic.
///
/// # Errors
/// If a file can't be read or written.
pub(super) fn truncate_after(dir: &Path, step: u64) -> Result<(), FileError> {
    for path in event_files(dir)? {
        let bytes = fs::read(&path).map_err(FileError::on("read", &path))?;
        let kept: Vec<Record> = records(&bytes).take_while(|record| record.step <= step).collect();
        match kept.iter().rposition(|record| record.has_summary) {
            None => fs::remove_file(&path).map_err(FileError::on("remove", &path))?,
            Some(last) => OpenOptions::new()
                .write(true)
                .open(&path)
                .and_then(|file| file.set_len(kept[last].end as u64).and_then(|()| file.sync_all()))
                .map_err(FileError::on("cut", &path))?,
        }
    }
    Ok(())
}

/// Removes the event files of earlier processes in `dir`.
///
/// # Errors
/// If one can't be removed.
pub(super) fn clear(dir: &Path) -> Result<(), FileError> {
    event_files(dir)?
        .into_iter()
        .try_for_each(|path| fs::remove_file(&path).map_err(FileError::on("remove", &path)))
}

/// The event files of burnish in `dir`, oldest first; none where the directory does not exist.
fn event_files(dir: &Path) -> Result<Vec<PathBuf>, FileError> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(FileError::on("list", dir))?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        let entry = entry.map_err(FileError::on("list", dir))?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(PREFIX) && name.ends_with(SUFFIX) {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

/// Makes an event file whose name sorts after those that are there: TensorBoard reads them in that order.
fn create(dir: &Path, step_first: u64) -> Result<(PathBuf, File), FileError> {
    fs::create_dir_all(dir).map_err(FileError::on("create directory", dir))?;
    let seconds_of = |path: &PathBuf| -> Option<u64> {
        path.file_name()?.to_str()?.strip_prefix(PREFIX)?.split('.').next()?.parse().ok()
    };
    let newest = event_files(dir)?.iter().filter_map(seconds_of).max();
    let seconds = (wall_time() as u64).max(newest.map_or(0, |newest| newest.saturating_add(1)));
    let path = dir.join(format!("{PREFIX}{seconds:010}.{}{SUFFIX}", host()));
    let failed = || FileError::on("create", &path);
    let mut file = OpenOptions::new().append(true).create_new(true).open(&path).map_err(failed())?;
    let mut head = record(&version_event());
    head.extend(record(&start_event(step_first)));
    file.write_all(&head).map_err(failed())?;
    Ok((path, file))
}

/// Seconds since 1970.
fn wall_time() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |elapsed| elapsed.as_secs_f64())
}

/// Name of this machine, in characters that a file name takes everywhere.
fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .or_else(|| std::env::var("HOSTNAME").or_else(|_| std::env::var("COMPUTERNAME")).ok())
        .unwrap_or_default();
    let name: String =
        name.trim().chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
    if name.is_empty() { "localhost".into() } else { name }
}

fn version_event() -> Vec<u8> {
    let mut event = Message::default();
    event.double(1, wall_time());
    event.bytes(3, b"brain.Event:2");
    event.0
}

fn start_event(step_first: u64) -> Vec<u8> {
    let mut session = Message::default();
    // SessionLog.START
    session.varint(1, 1);
    let mut event = Message::default();
    event.double(1, wall_time());
    event.varint(2, step_first);
    event.bytes(7, &session.0);
    event.0
}

fn scalars_event(step: u64, scalars: &[(String, f64)]) -> Vec<u8> {
    let mut summary = Message::default();
    for (tag, number) in scalars {
        let mut value = Message::default();
        value.bytes(1, tag.as_bytes());
        value.float(2, *number as f32);
        summary.bytes(1, &value.0);
    }
    let mut event = Message::default();
    event.double(1, wall_time());
    event.varint(2, step);
    event.bytes(5, &summary.0);
    event.0
}

fn record(event: &[u8]) -> Vec<u8> {
    let length = (event.len() as u64).to_le_bytes();
    let mut record = Vec::with_capacity(event.len() + 16);
    record.extend(length);
    record.extend(masked_crc32c(&length).to_le_bytes());
    record.extend(event);
    record.extend(masked_crc32c(event).to_le_bytes());
    record
}

/// A message of protocol buffers under construction.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn key(&mut self, field: u64, wire_type: u64) {
        self.raw_varint(field << 3 | wire_type);
    }

    fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn varint(&mut self, field: u64, value: u64) {
        self.key(field, 0);
        self.raw_varint(value);
    }

    fn double(&mut self, field: u64, value: f64) {
        self.key(field, 1);
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, value: &[u8]) {
        self.key(field, 2);
        self.raw_varint(value.len() as u64);
        self.0.extend(value);
    }

    fn float(&mut self, field: u64, value: f32) {
        self.key(field, 5);
        self.0.extend(value.to_le_bytes());
    }
}

/// What cutting needs to know of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Record {
    /// Step of its event.
    step: u64,
    /// Does it hold scalars?
    has_summary: bool,
    /// Byte after it.
    end: usize,
}

/// The records of a file up to the first that is incomplete or damaged, as TensorBoard reads them.
fn records(bytes: &[u8]) -> impl Iterator<Item = Record> {
    let mut end = 0;
    std::iter::from_fn(move || {
        let (event, size) = event_at(&bytes[end..])?;
        let (step, has_summary) = step_and_summary(event)?;
        end += size;
        Some(Record { step, has_summary, end })
    })
}

/// The event of the record at the start of `bytes`, and the size of the record.
fn event_at(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let (length_crc, rest) = rest.split_first_chunk::<4>()?;
    if masked_crc32c(length) != u32::from_le_bytes(*length_crc) {
        return None;
    }
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (event, rest) = rest.split_at_checked(length)?;
    let (crc, _) = rest.split_first_chunk::<4>()?;
    (masked_crc32c(event) == u32::from_le_bytes(*crc)).then_some((event, length + 16))
}

fn step_and_summary(mut event: &[u8]) -> Option<(u64, bool)> {
    let (mut step, mut has_summary) = (0, false);
    while !event.is_empty() {
        let key = take_varint(&mut event)?;
        let skipped = match key & 7 {
            0 => {
                let value = take_varint(&mut event)?;
                if key >> 3 == 2 {
                    step = value;
                }
                0
            }
            1 => 8,
            2 => {
                has_summary |= key >> 3 == 5;
                usize::try_from(take_varint(&mut event)?).ok()?
            }
            5 => 4,
            _ => return None,
        };
        event = event.split_at_checked(skipped)?.1;
    }
    Some((step, has_summary))
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scalars(number: f64) -> Vec<(String, f64)> {
        vec![("train/reward".into(), number), ("train/loss".into(), -number)]
    }

    fn steps(dir: &Path) -> Vec<Vec<u64>> {
        let of_file = |path: PathBuf| {
            let bytes = fs::read(path).unwrap();
            records(&bytes).filter(|record| record.has_summary).map(|record| record.step).collect()
        };
        event_files(dir).unwrap().into_iter().map(of_file).collect()
    }

    fn write(dir: &Path, step_first: u64, steps: std::ops::RangeInclusive<u64>) {
        let mut log = EventsLog::new(dir.to_owned(), step_first);
        for step in steps {
            log.append(step, &scalars(step as f64)).unwrap();
        }
        log.sync().unwrap();
    }

    #[test]
    fn resuming_keeps_each_step_once_whatever_came_of_the_processes_before() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("tensorboard");
        write(&dir, 0, 0..=5);
        truncate_after(&dir, 4).unwrap();
        write(&dir, 5, 5..=6);
        assert_eq!(steps(&dir), [vec![0, 1, 2, 3, 4], vec![5, 6]]);
        // Back to before the second process: nothing of it is left.
        truncate_after(&dir, 2).unwrap();
        assert_eq!(steps(&dir), [vec![0, 1, 2]]);
        write(&dir, 3, 3..=3);
        assert_eq!(steps(&dir), [vec![0, 1, 2], vec![3]]);
        clear(&dir).unwrap();
        assert!(steps(&dir).is_empty());
    }

    #[test]
    fn two_events_of_a_step_are_both_kept() {
        let scratch = tempfile::tempdir().unwrap();
        write(scratch.path(), 0, 0..=2);
        let mut log = EventsLog::new(scratch.path().to_owned(), 0);
        for step in [3, 3, 4] {
            log.append(step, &scalars(0.5)).unwrap();
        }
        truncate_after(scratch.path(), 3).unwrap();
        assert_eq!(steps(scratch.path()), [vec![0, 1, 2], vec![3, 3]]);
    }

    #[test]
    fn a_log_without_scalars_makes_no_file_and_files_of_others_stay() {
        let scratch = tempfile::tempdir().unwrap();
        EventsLog::new(scratch.path().join("none"), 0).sync().unwrap();
        assert!(!scratch.path().join("none").exists());
        truncate_after(&scratch.path().join("none"), 3).unwrap();
        let other = scratch.path().join("events.out.tfevents.1.host.7.0");
        fs::write(&other, "of another program").unwrap();
        truncate_after(scratch.path(), 0).unwrap();
        clear(scratch.path()).unwrap();
        assert!(other.exists());
    }

    #[test]
    fn a_record_is_what_the_formats_say() {
        // By hand, from event.proto: field 2 (varint) 300; field 5 { field 1 { field 1 "a", field 2 (float) 1 } }.
        let event = scalars_event(300, &[("a".into(), 1.0)]);
        assert_eq!(event[0], 1 << 3 | 1);
        assert_eq!(event[9..], [0x10, 0xac, 0x02, 0x2a, 10, 0x0a, 8, 0x0a, 1, b'a', 0x15, 0, 0, 0x80, 0x3f]);
        let record = record(&event);
        assert_eq!(record[..8], 24u64.to_le_bytes());
        assert_eq!(record.len(), 24 + 16);
        assert_eq!(event_at(&record), Some((&event[..], 40)));
    }

    proptest! {
        #[test]
        fn a_file_cut_or_spoilt_anywhere_keeps_all_before(at in 0usize..900, spoil in any::<bool>()) {
            let scratch = tempfile::tempdir().unwrap();
            write(scratch.path(), 0, 0..=8);
            let path = event_files(scratch.path()).unwrap().remove(0);
            let mut bytes = fs::read(&path).unwrap();
            let at = at % bytes.len();
            let whole: Vec<u64> = records(&bytes)
                .filter(|record| record.has_summary && record.end <= at)
                .map(|record| record.step)
                .collect();
            if spoil { bytes[at] ^= 0x10 } else { bytes.truncate(at) }
            fs::write(&path, bytes).unwrap();
            truncate_after(scratch.path(), 99).unwrap();
            let expected: Vec<Vec<u64>> = if whole.is_empty() { Vec::new() } else { vec![whole] };
            prop_assert_eq!(steps(scratch.path()), expected);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = step_and_summary(&bytes);
            prop_assert!(records(&bytes).count() <= 4);
        }
    }
}
