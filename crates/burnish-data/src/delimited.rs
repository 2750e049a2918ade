//! Files of fields between commas or tabs, with a header and quoting (RFC 4180).

use std::collections::VecDeque;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

use csv::{ByteRecord, Reader, ReaderBuilder};
use serde_json::{Map, Value};

use crate::stream::{BUFFER_BYTES, Record};
use crate::{DataError, Place};

/// Put after a file's end, on a line of its own: if it turns up inside a field, a quote was not closed.
const END: &[u8] = b"\x01end of the file\x01";

/// The rows of such a file, one after the other; the columns have the header's names. Fields are kept as texts; an
/// empty one is null.
pub(crate) struct DelimitedRows {
    path: PathBuf,
    reader: Reader<Lined>,
    header: Vec<String>,
    record: ByteRecord,
}

impl DelimitedRows {
    /// Reads the header of `file`, whose fields stand between `delimiter`s.
    ///
    /// # Errors
    /// If it can't be read, or does not give every column a name of its own.
    pub(crate) fn open(path: &Path, file: Box<dyn Read + Send>, delimiter: u8) -> Result<Self, DataError> {
        let end = [&b"\n"[..], END].concat();
        let reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(delimiter)
            .buffer_capacity(BUFFER_BYTES)
            .from_reader(Lined::new(Box::new(file.chain(Cursor::new(end)))));
        let (header, record) = (Vec::new(), ByteRecord::new());
        let mut rows = DelimitedRows { path: path.to_owned(), reader, header, record };
        if let Some(place) = rows.read()? {
            rows.header = header_of(&rows.record, delimiter).map_err(|problem| rows.wrong(place, problem))?;
        }
        Ok(rows)
    }

    /// The next row.
    pub(crate) fn next(&mut self) -> Option<Result<Record, DataError>> {
        let row = self.read().and_then(|place| {
            let Some(place) = place else { return Ok(None) };
            let columns = self.columns().map_err(|problem| self.wrong(place, problem))?;
            Ok(Some(Record { place, columns }))
        });
        row.transpose()
    }

    /// Reads a record, and returns where it begins; `None` at the end.
    fn read(&mut self) -> Result<Option<Place>, DataError> {
        // Blank lines before it are skipped, and the reader's own position does not account for them.
        let begin = self.reader.position().byte();
        let is_there = self.reader.read_byte_record(&mut self.record);
        let place = Place::Line(self.reader.get_mut().line_from(begin));
        let is_there = is_there.map_err(|error| self.wrong(place, format!("can't be read: {error}")))?;
        let last = self.record.iter().next_back().unwrap_or_default();
        match (is_there, last.ends_with(END)) {
            (false, _) => Ok(None),
            (true, true) if self.record.len() == 1 && last == END => Ok(None),
            (true, true) => {
                let problem =
                    "has a quote (\") that is not closed; a quote inside a quoted field is doubled (\"\")";
                Err(self.wrong(place, problem.to_owned()))
            }
            (true, false) => Ok(Some(place)),
        }
    }

    fn columns(&self) -> Result<Map<String, Value>, String> {
        let (found, named) = (self.record.len(), self.header.len());
        if found != named {
            let names = self.header.join(", ");
            let more = if found > named { "; a field that holds a delimiter stands in quotes" } else { "" };
            return Err(format!("has {found} fields, and the header names {named} columns ({names}){more}"));
        }
        let value = |(name, field): (&String, &[u8])| {
            let text =
                std::str::from_utf8(field).map_err(|_| format!("column `{name}`: is not UTF-8 text"))?;
            Ok((name.clone(), if text.is_empty() { Value::Null } else { Value::from(text) }))
        };
        self.header.iter().zip(&self.record).map(value).collect()
    }

    fn wrong(&self, place: Place, problem: String) -> DataError {
        DataError::at(&self.path, place, problem)
    }
}

/// The names of the columns. A column without a name, such as pandas' index, is named by its number.
fn header_of(record: &ByteRecord, delimiter: u8) -> Result<Vec<String>, String> {
    let mut names: Vec<String> = Vec::new();
    for (index, field) in record.iter().enumerate() {
        let name = std::str::from_utf8(field).map_err(|_| "is not UTF-8 text".to_owned())?.trim();
        let name = if name.is_empty() { (index + 1).to_string() } else { name.to_owned() };
        if names.contains(&name) {
            return Err(format!("the header names two columns `{name}`"));
        }
        names.push(name);
    }
    let other = [';', '\t', ','].into_iter().find(|other| {
        names.len() == 1 && !u8::try_from(*other).is_ok_and(|it| it == delimiter) && names[0].contains(*other)
    });
    match other {
        Some(other) => Err(format!(
            "the header names one column, `{}`: fields stand between commas in a file called .csv, and between tabs in one \
             called .tsv, not between {other:?}",
            names[0]
        )),
        None => Ok(names),
    }
}

/// Notes where lines with content begin while the stream is read.
struct Lined {
    stream: Box<dyn Read + Send>,
    /// Bytes read so far.
    offset: u64,
    /// Number of the line that is being read, from 1.
    line: u64,
    /// Has this line no content so far?
    is_blank: bool,
    /// Position and number of the lines that were read and not asked for yet.
    begun: VecDeque<(u64, u64)>,
}

impl Lined {
    fn new(stream: Box<dyn Read + Send>) -> Self {
        Lined { stream, offset: 0, line: 1, is_blank: true, begun: VecDeque::new() }
    }

    /// Number of the first line with content that begins at or after `offset`. Offsets must not decrease from call to
    /// call.
    fn line_from(&mut self, offset: u64) -> u64 {
        while self.begun.pop_front_if(|(begin, _)| *begin < offset).is_some() {}
        self.begun.front().map_or(self.line, |(_, line)| *line)
    }
}

impl Read for Lined {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.stream.read(buffer)?;
        for byte in &buffer[..read] {
            match byte {
                b'\n' => {
                    self.line += 1;
                    self.is_blank = true;
                }
                b'\r' => {}
                _ if self.is_blank => {
                    self.begun.push_back((self.offset, self.line));
                    self.is_blank = false;
                }
                _ => {}
            }
            self.offset += 1;
        }
        Ok(read)
    }
}
