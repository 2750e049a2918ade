//! Rows one after the other, in bounded memory.

use flate2::read::MultiGzDecoder;
use serde_json::{Map, Value};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::path::{Path, PathBuf};

use crate::delimited::DelimitedRows;
use crate::lines::{Lines, parse, parse_tabs};
use crate::parquet::ParquetRows;
use crate::{Columns, DataError, Place};

/// Bytes that are read from a file at once.
pub(crate) const BUFFER_BYTES: usize = 1 << 17;

/// What a file packed by gzip begins with.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The format of a file. Its first bytes decide, not its name; only files with fields between commas or tabs are
/// recognised by their names (`.csv` and `.tsv`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) layout: Layout,
    /// Is it compressed with gzip?
    pub(crate) is_packed: bool,
}

/// The layout of a file's uncompressed content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// One JSON object per line.
    Jsonl,
    /// Texts between tabs, one row per line, without a header and without quoting.
    Tabs,
    /// Fields separated by this byte, with a header and quoting.
    Delimited(u8),
    Parquet,
}

/// Reads the columns of one line.
pub(crate) type Parser = fn(&[u8]) -> Result<Map<String, Value>, String>;

impl Layout {
    /// The parser for one line of this layout. A file that is not a file of lines is unpacked to JSON lines.
    pub(crate) fn parser(self) -> Parser {
        match self {
            Layout::Tabs => parse_tabs,
            Layout::Jsonl | Layout::Delimited(_) | Layout::Parquet => parse,
        }
    }
}

/// Opens `path` and detects its format. A `.tsv` file has a header if `is_headed`.
///
/// # Errors
/// If it can't be read, or is named `.parquet` or `.gz` but has another format.
pub(crate) fn open(path: &Path, is_headed: bool) -> Result<(File, Format), DataError> {
    let failed = DataError::io(path, "read");
    let mut file = File::open(path).map_err(&failed)?;
    let mut magic = [0; 4];
    let mut length = 0;
    while length < magic.len() {
        match file.read(&mut magic[length..]).map_err(&failed)? {
            0 => break,
            read => length += read,
        }
    }
    file.rewind().map_err(&failed)?;
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let is_packed = magic.starts_with(&GZIP);
    if name.ends_with(".gz") && !is_packed {
        return Err(DataError::file(path, "is not packed with gzip, as its name says"));
    }
    let layout = match name.trim_end_matches(".gz").rsplit_once('.').map(|(_, extension)| extension) {
        _ if &magic == b"PAR1" => Layout::Parquet,
        Some("parquet") => {
            return Err(DataError::file(path, "is not a parquet file: it does not begin with `PAR1`"));
        }
        Some("csv") => Layout::Delimited(b','),
        Some("tsv") if is_headed => Layout::Delimited(b'\t'),
        Some("tsv") => Layout::Tabs,
        _ => Layout::Jsonl,
    };
    Ok((file, Format { layout, is_packed }))
}

/// The whole content of a file, which may be packed by gzip.
///
/// # Errors
/// If it can't be read or unpacked.
pub fn read_whole(path: &Path) -> Result<Vec<u8>, DataError> {
    let wrong = |problem: String| DataError::file(path, problem);
    let bytes = std::fs::read(path).map_err(|error| wrong(format!("can't be read: {error}")))?;
    if !bytes.starts_with(&GZIP) {
        return Ok(bytes);
    }
    let mut unpacked = Vec::new();
    let read = MultiGzDecoder::new(&bytes[..]).read_to_end(&mut unpacked);
    read.map_err(|error| wrong(format!("can't be unpacked: {error}")))?;
    Ok(unpacked)
}

/// The bytes of a file, uncompressed.
pub(crate) fn unpacked(file: File, format: Format) -> Box<dyn BufRead + Send> {
    let file = BufReader::with_capacity(BUFFER_BYTES, file);
    match format.is_packed {
        true => Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(file))),
        false => Box::new(file),
    }
}

/// One row as it is in its file.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Its place.
    pub place: Place,
    /// Its columns, in order.
    pub columns: Map<String, Value>,
}

/// Reads a jsonl, csv or tsv file (compressed with gzip or not) or a parquet file, row by row. Holds one line, or one
/// page of each column, whatever the size of the file.
///
/// After an error no more rows come.
pub struct Stream {
    path: PathBuf,
    rows: Rows,
}

enum Rows {
    Lines(Lines<Box<dyn BufRead + Send>>, Parser),
    Delimited(Box<DelimitedRows>),
    Parquet(Box<ParquetRows>),
    Over,
}

impl Stream {
    /// Opens a file. A `.tsv` is taken to have no header.
    ///
    /// # Errors
    /// If it can't be read, or does not have the format that its name says.
    pub fn open(path: &Path) -> Result<Self, DataError> {
        Stream::with_header(path, false)
    }

    /// Opens a file from which `columns` are read: a `.tsv` file has a header unless they are given by number.
    ///
    /// # Errors
    /// As [`Stream::open`].
    pub fn of(path: &Path, columns: &Columns) -> Result<Self, DataError> {
        Stream::with_header(path, !columns.are_numbers())
    }

    fn with_header(path: &Path, is_headed: bool) -> Result<Self, DataError> {
        let (file, format) = open(path, is_headed)?;
        let rows = match format.layout {
            Layout::Parquet => Rows::Parquet(Box::new(ParquetRows::open(path, file)?)),
            Layout::Delimited(delimiter) => {
                let bytes = Box::new(unpacked(file, format));
                Rows::Delimited(Box::new(DelimitedRows::open(path, bytes, delimiter)?))
            }
            Layout::Jsonl | Layout::Tabs => {
                Rows::Lines(Lines::new(unpacked(file, format)), format.layout.parser())
            }
        };
        Ok(Stream { path: path.to_owned(), rows })
    }
}

impl Iterator for Stream {
    type Item = Result<Record, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = match &mut self.rows {
            Rows::Over => None,
            Rows::Parquet(rows) => rows.next(),
            Rows::Delimited(rows) => rows.next(),
            Rows::Lines(lines, parser) => match lines.next() {
                Ok(None) => None,
                Ok(Some(line)) => Some(match parser(line.bytes) {
                    Ok(columns) => Ok(Record { place: line.place, columns }),
                    Err(problem) => Err(DataError::at(&self.path, line.place, problem)),
                }),
                Err(error) => {
                    let problem = format!("can't be read beyond line {}: {error}", lines.number());
                    Some(Err(DataError::file(&self.path, problem)))
                }
            },
        };
        if !matches!(next, Some(Ok(_))) {
            self.rows = Rows::Over;
        }
        next
    }
}
