//! Rows one after the other, in bounded memory.

use flate2::read::MultiGzDecoder;
use serde_json::{Map, Value};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::path::{Path, PathBuf};

use crate::lines::{Lines, parse, parse_tabs};
use crate::parquet::ParquetRows;
use crate::{DataError, Place};

/// Bytes that are read from a file at once.
const BUFFER_BYTES: usize = 1 << 17;

/// How a file is written. Its first bytes decide, not its name; only tab-separated text is known by `.tsv`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// One JSON object a line.
    Jsonl,
    /// The same, packed with gzip.
    GzippedJsonl,
    /// Texts between tabs, one row a line, without a header.
    Tsv,
    Parquet,
}

/// Reads the columns of one line.
pub(crate) type Parser = fn(&[u8]) -> Result<Map<String, Value>, String>;

impl Format {
    /// What reads a line of this format, unpacked. Parquet is unpacked to JSON.
    pub(crate) fn parser(self) -> Parser {
        match self {
            Format::Tsv => parse_tabs,
            Format::Jsonl | Format::GzippedJsonl | Format::Parquet => parse,
        }
    }
}

/// Opens `path` and finds out how it is written.
///
/// # Errors
/// If it can't be read, or is named `.parquet` or `.gz` and is not.
pub(crate) fn open(path: &Path) -> Result<(File, Format), DataError> {
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
    let format = match magic {
        [b'P', b'A', b'R', b'1'] => Format::Parquet,
        [0x1f, 0x8b, ..] => Format::GzippedJsonl,
        _ => Format::Jsonl,
    };
    let named = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
    match (named.as_deref(), format) {
        (Some("tsv"), Format::Jsonl) => Ok((file, Format::Tsv)),
        (Some("parquet"), Format::Jsonl | Format::GzippedJsonl | Format::Tsv) => {
            Err(DataError::file(path, "is not a parquet file: it does not begin with `PAR1`"))
        }
        (Some("gz"), Format::Jsonl | Format::Tsv | Format::Parquet) => {
            Err(DataError::file(path, "is not packed with gzip, as its name says"))
        }
        _ => Ok((file, format)),
    }
}

/// The bytes of a file of lines, unpacked.
pub(crate) fn unpacked(file: File, format: Format) -> Box<dyn BufRead + Send> {
    let file = BufReader::with_capacity(BUFFER_BYTES, file);
    match format {
        Format::GzippedJsonl => Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(file))),
        Format::Jsonl | Format::Tsv | Format::Parquet => Box::new(file),
    }
}

/// One row as it stands in its file.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Where it stands.
    pub place: Place,
    /// Its columns, in their order.
    pub columns: Map<String, Value>,
}

/// Reads a jsonl file, one packed with gzip, a tsv file, or a parquet file, row by row. Holds one line, or one page of each
/// column; the size of the file does not matter.
///
/// After an error no more rows come.
pub struct Stream {
    path: PathBuf,
    rows: Rows,
}

enum Rows {
    Lines(Lines<Box<dyn BufRead + Send>>, Parser),
    Parquet(Box<ParquetRows>),
    Over,
}

impl Stream {
    /// Opens a file.
    ///
    /// # Errors
    /// If it can't be read, or is not of the kind that its name says.
    pub fn open(path: &Path) -> Result<Self, DataError> {
        let (file, format) = open(path)?;
        let rows = match format {
            Format::Parquet => Rows::Parquet(Box::new(ParquetRows::open(path, file)?)),
            lines => Rows::Lines(Lines::new(unpacked(file, lines)), lines.parser()),
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
