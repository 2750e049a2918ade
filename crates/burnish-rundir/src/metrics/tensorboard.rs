//! TensorBoard event files: the same numbers, for TensorBoard's curves.
//!
//! A file starts with its version and with the first step to come. If TensorBoard is open while a run resumes, this
//! makes it forget what the interrupted run had drawn from that step on.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::event::{Record, record, records, scalars_event, start_event, version_event};
use crate::files::{FileError, sync_dir};

const PREFIX: &str = "events.out.tfevents.";
const SUFFIX: &str = ".burnish";

/// Appends scalars to a new event file in a directory.
#[derive(Debug)]
pub(super) struct EventsLog {
    dir: PathBuf,
    /// The first step that can come.
    step_first: u64,
    /// Created with the first scalars, so that a run that writes none leaves no file.
    open: Option<(PathBuf, File)>,
}

impl EventsLog {
    /// A log in `dir` for steps from `step_first` on.
    pub(super) fn new(dir: PathBuf, step_first: u64) -> Self {
        EventsLog { dir, step_first, open: None }
    }

    /// Appends one event. Once written, it survives the end of the process, however that ends.
    ///
    /// # Errors
    /// If it can't be written; the file is then unchanged.
    pub(super) fn append(&mut self, step: u64, scalars: &[(String, f64)]) -> Result<(), FileError> {
        let (path, file) = match &mut self.open {
            Some(open) => open,
            closed => closed.insert(create(&self.dir, self.step_first)?),
        };
        let failed = || FileError::on("append to", path);
        let len = file.metadata().map_err(failed())?.len();
        let written = file.write_all(&record(&scalars_event(wall_time(), step, scalars)));
        if written.is_err() {
            // An incomplete record hides all that follow. If removing it fails too, the first error is the one to
            // report.
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

/// Drops the events of steps after `step`, and an incomplete record at the end, from the files of earlier processes
/// in `dir`. A file that holds nothing else is removed.
///
/// Steps never decrease within a file, so what is dropped is always its end, and cutting it is atomic.
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

/// The event files of burnish in `dir`, oldest first; none if the directory does not exist.
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

/// Creates an event file whose name sorts after the existing ones, because TensorBoard reads them in that order.
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
    let mut head = record(&version_event(wall_time()));
    head.extend(record(&start_event(wall_time(), step_first)));
    file.write_all(&head).map_err(failed())?;
    Ok((path, file))
}

/// Seconds since 1970.
fn wall_time() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |elapsed| elapsed.as_secs_f64())
}

/// Name of this machine, restricted to characters that are valid in file names everywhere.
fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .or_else(|| std::env::var("HOSTNAME").or_else(|_| std::env::var("COMPUTERNAME")).ok())
        .unwrap_or_default();
    let name: String =
        name.trim().chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
    if name.is_empty() { "localhost".into() } else { name }
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
        // Cut back to before the second process: nothing of that process is left.
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
    }
}
