//! Files of lines: each is one JSON object, or texts separated by tabs.

use burnish_core::json;
use serde_json::{Map, Value};
use std::io::BufRead;

use crate::Place;

/// Reads a stream line by line and skips lines without content.
pub(crate) struct Lines<R> {
    stream: R,
    /// Number of the line that was read last, from 1.
    number: u64,
    /// Bytes read so far.
    offset: u64,
    line: Vec<u8>,
}

/// One line that is not blank.
pub(crate) struct Line<'a> {
    pub(crate) place: Place,
    /// Position of its first byte in the stream.
    pub(crate) offset: u64,
    /// Its bytes, without its end.
    pub(crate) bytes: &'a [u8],
}

/// The byte-order mark that some editors put at the start of a file.
const BOM: &[u8] = b"\xef\xbb\xbf";

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(stream: R) -> Self {
        Lines { stream, number: 0, offset: 0, line: Vec::new() }
    }

    /// The next line; `None` at the end.
    ///
    /// # Errors
    /// If the stream can't be read. The error is after the last whole line, number [`Lines::number`].
    pub(crate) fn next(&mut self) -> std::io::Result<Option<Line<'_>>> {
        loop {
            self.line.clear();
            let offset = self.offset;
            let read = self.stream.read_until(b'\n', &mut self.line)?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            self.offset += read as u64;
            let skipped = if offset == 0 && self.line.starts_with(BOM) { BOM.len() } else { 0 };
            if !self.line[skipped..].trim_ascii().is_empty() {
                let place = Place::Line(self.number);
                let bytes = self.line[skipped..].trim_ascii_end();
                return Ok(Some(Line { place, offset: offset + skipped as u64, bytes }));
            }
        }
    }

    /// Bytes read so far.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Number of the line that was read last.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

/// The object on a line.
///
/// # Errors
/// If it is not UTF-8, not JSON or not an object: names the column.
pub(crate) fn parse(line: &[u8]) -> Result<Map<String, Value>, String> {
    let text = utf8(line)?;
    match json::parse(text) {
        Ok(Value::Object(columns)) => Ok(columns),
        _ if text.starts_with('[') => {
            Err("must be a JSON object; of a file that is one list, `jq -c '.[]'` makes lines".to_owned())
        }
        Ok(_) => Err("must be a JSON object".to_owned()),
        Err(error) => {
            // The parser has seen only this line, so its line number means nothing.
            let message = error.to_string();
            let message = message.rsplit_once(" at line ").map_or(&*message, |(message, _)| message);
            Err(format!("is not JSON: {message} at column {}", error.column()))
        }
    }
}

/// The texts between the tabs of a line, as columns `1`, `2` and so on. There are no quotes and no header.
///
/// # Errors
/// If the line is not UTF-8.
pub(crate) fn parse_tabs(line: &[u8]) -> Result<Map<String, Value>, String> {
    let columns = utf8(line)?.split('\t').enumerate();
    Ok(columns.map(|(index, text)| ((index + 1).to_string(), Value::from(text))).collect())
}

fn utf8(line: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(line)
        .map_err(|error| format!("is not UTF-8 text (byte {} of the line)", error.valid_up_to() + 1))
}
