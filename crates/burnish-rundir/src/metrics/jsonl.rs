//! `metrics.jsonl`: one JSON object per line.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::Row;
use crate::files::{FileError, write_atomic};

/// Appends rows to the file.
#[derive(Debug)]
pub(super) struct LinesLog {
    path: PathBuf,
    file: File,
}

impl LinesLog {
    /// Opens `path` to append to it, or creates it. After an interrupted run, call [`truncate_after`] first.
    ///
    /// # Errors
    /// If the file can't be opened.
    pub(super) fn open(path: &Path) -> Result<Self, FileError> {
        let file =
            OpenOptions::new().create(true).append(true).open(path).map_err(FileError::on("open", path))?;
        Ok(LinesLog { path: path.to_owned(), file })
    }

    /// Appends a row. Once written, it survives the end of the process, however that ends.
    ///
    /// # Errors
    /// If the row can't be written; the file is then unchanged.
    pub(super) fn append(&mut self, row: &Row) -> Result<(), FileError> {
        let failed = || FileError::on("append to", &self.path);
        let len = self.file.metadata().map_err(failed())?.len();
        let written = self.file.write_all(row.to_line().as_bytes());
        if written.is_err() {
            // Half a line would spoil the next one. If removing it fails too, the first error is the one to report.
            let _ = self.file.set_len(len);
        }
        written.map_err(failed())
    }

    /// Makes all rows durable against a power cut. Call it before a checkpoint of their step appears, so that no
    /// checkpoint is ahead of its metrics.
    ///
    /// # Errors
    /// If the file can't be synced.
    pub(super) fn sync(&self) -> Result<(), FileError> {
        self.file.sync_all().map_err(FileError::on("sync", &self.path))
    }
}

/// Reads all rows of `path`; none if the file does not exist. A half-written last line is left out.
///
/// # Errors
/// If the file can't be read, or a line is not a row: the error names the line.
pub fn read(path: &Path) -> Result<Vec<Row>, FileError> {
    let text = match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        text => text.map_err(FileError::on("read", path))?,
    };
    let mut rows = Vec::new();
    for (at, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        match Row::from_line(line) {
            Ok(row) => rows.push(row),
            // An object is complete only with its last byte, so half a line can't be mistaken for a row.
            Err(_) if !line.ends_with(b"\n") => {}
            Err(problem) => {
                let problem = format!("line {}: {problem}; repair or remove that line", at + 1);
                return Err(FileError::on("read", path)(io::Error::new(ErrorKind::InvalidData, problem)));
            }
        }
    }
    Ok(rows)
}

/// Drops the rows of steps after `step` and a half-written last line. A run calls this when it resumes from the
/// checkpoint of `step`. The file is replaced as a whole or stays as it was.
///
/// # Errors
/// As [`read`], or if the file can't be written.
pub(super) fn truncate_after(path: &Path, step: u64) -> Result<(), FileError> {
    let kept: String = read(path)?.iter().filter(|row| row.step <= step).map(Row::to_line).collect();
    write_atomic(path, kept.as_bytes())
}

impl Row {
    /// The row as a line of JSON.
    pub fn to_line(&self) -> String {
        let mut object = Map::new();
        object.insert("step".into(), self.step.into());
        object.insert("event".into(), self.event.as_str().into());
        // `Value::from` turns numbers that are not finite into null.
        object.extend(self.values.iter().map(|(name, number)| (name.clone(), Value::from(*number))));
        format!("{}\n", Value::Object(object))
    }

    fn from_line(line: &[u8]) -> Result<Self, String> {
        let mut object: Map<String, Value> =
            serde_json::from_slice(line).map_err(|error| error.to_string())?;
        let step = object.shift_remove("step").and_then(|step| step.as_u64());
        let step = step.ok_or("`step` is missing or not a whole number")?;
        let event = match object.shift_remove("event") {
            Some(Value::String(event)) => event,
            _ => return Err("`event` is missing or not a text".into()),
        };
        let values = object.into_iter().map(|(name, value)| match value {
            Value::Null => Ok((name, f64::NAN)),
            value => match value.as_f64() {
                Some(number) => Ok((name, number)),
                None => Err(format!("`{name}` is not a number")),
            },
        });
        Ok(Row { step, event, values: values.collect::<Result<_, String>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row(step: u64, event: &str, values: &[(&str, f64)]) -> Row {
        let values = values.iter().map(|(name, value)| ((*name).into(), *value)).collect();
        Row { step, event: event.into(), values }
    }

    fn file_with(rows: &[Row]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        let mut log = LinesLog::open(&path).unwrap();
        for row in rows {
            log.append(row).unwrap();
        }
        log.sync().unwrap();
        (dir, path)
    }

    #[test]
    fn step_and_event_come_first_then_numbers_by_name_with_null_for_what_is_not_finite() {
        let rows = [row(3, "train", &[("reward", 0.5), ("a", f64::NAN), ("b", f64::INFINITY)])];
        let (_dir, path) = file_with(&rows);
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, "{\"step\":3,\"event\":\"train\",\"a\":null,\"b\":null,\"reward\":0.5}\n");
        assert!(read(&path).unwrap()[0].values["a"].is_nan());
    }

    #[test]
    fn every_row_is_in_the_file_as_soon_as_it_is_appended() {
        let (_dir, path) = file_with(&[row(1, "train", &[])]);
        let mut log = LinesLog::open(&path).unwrap();
        log.append(&row(2, "eval", &[("success", 1.0)])).unwrap();
        assert_eq!(read(&path).unwrap(), [row(1, "train", &[]), row(2, "eval", &[("success", 1.0)])]);
    }

    #[test]
    fn resuming_drops_later_rows_and_half_a_line_and_the_log_goes_on_cleanly() {
        let rows = [row(0, "eval", &[]), row(1, "train", &[]), row(2, "train", &[]), row(3, "train", &[])];
        let (_dir, path) = file_with(&rows);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"step\":1,\"event\":\"tr").unwrap();
        truncate_after(&path, 2).unwrap();
        LinesLog::open(&path).unwrap().append(&row(3, "train", &[("reward", 1.0)])).unwrap();
        let mut expected = rows[..3].to_vec();
        expected.push(row(3, "train", &[("reward", 1.0)]));
        assert_eq!(read(&path).unwrap(), expected);
    }

    #[test]
    fn a_run_that_was_stopped_before_its_first_row_can_be_truncated() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        assert!(read(&path).unwrap().is_empty());
        truncate_after(&path, 0).unwrap();
        assert!(read(&path).unwrap().is_empty());
    }

    #[test]
    fn a_spoilt_line_in_the_middle_is_named() {
        for (line, problem) in [
            ("{\"step\":1", "EOF"),
            ("{\"step\":-1,\"event\":\"x\"}", "`step`"),
            ("{\"step\":1,\"event\":7}", "`event`"),
            ("{\"step\":1,\"event\":\"x\",\"loss\":\"low\"}", "`loss`"),
        ] {
            let (_dir, path) = file_with(&[row(1, "train", &[])]);
            let mut text = fs::read_to_string(&path).unwrap();
            text.push_str(&format!("{line}\n{{\"step\":2,\"event\":\"train\"}}\n"));
            fs::write(&path, &text).unwrap();
            let error = truncate_after(&path, 9).unwrap_err().to_string();
            assert!(error.contains("metrics.jsonl`: line 2: ") && error.contains(problem), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }

    proptest! {
        #[test]
        fn rows_are_read_back_exactly(
            step in 0..=u64::MAX,
            event in "\\PC{0,8}",
            // Upper case, so that no name is `step` or `event`.
            values in prop::collection::btree_map(
                "[A-Z/_\"é]{1,6}",
                prop::num::f64::NORMAL | prop::num::f64::ZERO,
                0..6,
            ),
        ) {
            let row = Row { step, event, values };
            prop_assert_eq!(Row::from_line(row.to_line().as_bytes()), Ok(row));
        }

        #[test]
        fn no_prefix_of_a_line_passes_for_a_row(cut in 0usize..60) {
            let line = row(3, "train", &[("reward", 0.5), ("loss", -1.25e-7)]).to_line();
            let cut = cut.min(line.len() - 2);
            prop_assert!(Row::from_line(&line.as_bytes()[..cut]).is_err());
        }
    }
}
