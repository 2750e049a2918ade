//! Random access to rows without holding them in memory.

use serde_json::{Map, Value};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::delimited::DelimitedRows;
use crate::lines::Lines;
use crate::parquet::ParquetRows;
use crate::stream::{Format, Layout, open, unpacked};
use crate::{Columns, DataError, Place, Record};

/// The rows of one file, with random access.
///
/// It holds 8 bytes per row: where its line begins. A jsonl file, or a tsv file without a header, is read in place.
/// Files without such lines (csv, gzip, parquet) are unpacked once, row by row, as jsonl into an unnamed temporary
/// file, which is deleted with the table; otherwise a shuffled pass would unpack a whole row group for every row.
/// `TMPDIR` chooses the folder, which should be on a disk.
#[derive(Debug)]
pub struct Table {
    path: PathBuf,
    lines: Mutex<File>,
    /// Where each row begins, and where the last one ends.
    offsets: Vec<u64>,
    format: Format,
}

impl Table {
    /// Opens a file and finds where its rows begin, without parsing them. A `.tsv` file is taken to have no header.
    ///
    /// # Errors
    /// If the file can't be read or unpacked.
    pub fn open(path: &Path) -> Result<Self, DataError> {
        Table::with_header(path, false)
    }

    /// Opens a file from which `columns` are read: a `.tsv` file has a header unless they are given by number.
    ///
    /// # Errors
    /// As [`Table::open`].
    pub fn of(path: &Path, columns: &Columns) -> Result<Self, DataError> {
        Table::with_header(path, !columns.are_numbers())
    }

    fn with_header(path: &Path, is_headed: bool) -> Result<Self, DataError> {
        let (file, format) = open(path, is_headed)?;
        let unpack = || tempfile::tempfile().map_err(DataError::io(path, "unpacked into a temporary file"));
        let (lines, offsets) = match format.layout {
            Layout::Jsonl | Layout::Tabs if format.is_packed => {
                let mut unpacked = unpack()?;
                copy_lines(path, file, &mut unpacked)?;
                let offsets = find_rows(path, &unpacked)?;
                (unpacked, offsets)
            }
            Layout::Jsonl | Layout::Tabs => {
                let offsets = find_rows(path, &file)?;
                (file, offsets)
            }
            Layout::Delimited(delimiter) => {
                let mut rows = DelimitedRows::open(path, Box::new(unpacked(file, format)), delimiter)?;
                let unpacked = unpack()?;
                let offsets = write_rows(path, || rows.next(), &unpacked)?;
                (unpacked, offsets)
            }
            Layout::Parquet => {
                let mut rows = ParquetRows::open(path, file)?;
                let unpacked = unpack()?;
                let offsets = write_rows(path, || rows.next(), &unpacked)?;
                (unpacked, offsets)
            }
        };
        Ok(Table { path: path.to_owned(), lines: Mutex::new(lines), offsets, format })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Are there no rows?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory held for finding rows: the only part that grows with the file.
    pub fn index_bytes(&self) -> usize {
        size_of_val(&*self.offsets)
    }

    /// Row number `index`, from 0.
    ///
    /// # Errors
    /// If there is no such row, it can't be read, or it is not a JSON object: names file, line and column.
    pub fn get(&self, index: usize) -> Result<Map<String, Value>, DataError> {
        let Some([begin, end]) = self.offsets.get(index..).and_then(|rest| rest.first_chunk::<2>()) else {
            let problem = format!("has {} rows, so none has the index {index}", self.len());
            return Err(DataError::file(&self.path, problem));
        };
        let mut line = vec![0; (end - begin) as usize];
        let failed = DataError::io(&self.path, "read again");
        {
            let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            lines.seek(SeekFrom::Start(*begin)).map_err(&failed)?;
            lines.read_exact(&mut line).map_err(&failed)?;
        }
        let first = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        // Places are looked up only for errors, because finding a line's number means counting the lines before it.
        self.format.layout.parser()(first.trim_ascii_end()).map_err(|problem| self.error(index, problem))
    }

    /// An error about row number `index`.
    pub fn error(&self, index: usize, problem: impl Into<String>) -> DataError {
        match self.place(index) {
            Ok(place) => DataError::at(&self.path, place, problem),
            Err(unreadable) => unreadable,
        }
    }

    /// The place of row number `index` in the file. Costs a pass over a file of lines.
    ///
    /// # Errors
    /// If the file can't be read.
    pub fn place(&self, index: usize) -> Result<Place, DataError> {
        let failed = DataError::io(&self.path, "read again");
        match self.format.layout {
            Layout::Parquet => return Ok(Place::Row(index as u64 + 1)),
            Layout::Delimited(delimiter) => {
                let file = File::open(&self.path).map_err(&failed)?;
                let bytes = Box::new(unpacked(file, self.format));
                let mut rows = DelimitedRows::open(&self.path, bytes, delimiter)?;
                let mut place = Place::Line(1);
                for _ in 0..=index {
                    match rows.next() {
                        Some(row) => place = row?.place,
                        None => break,
                    }
                }
                return Ok(place);
            }
            Layout::Jsonl | Layout::Tabs => {}
        }
        let begin = self.offsets.get(index).copied().unwrap_or_default();
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.rewind().map_err(&failed)?;
        let mut before = BufReader::new((&mut *lines).take(begin));
        let mut newlines = 0;
        let mut chunk = [0; 1 << 16];
        loop {
            match before.read(&mut chunk).map_err(&failed)? {
                0 => return Ok(Place::Line(newlines + 1)),
                read => newlines += chunk[..read].iter().filter(|byte| **byte == b'\n').count() as u64,
            }
        }
    }
}

/// Where each line with content begins, and the end.
fn find_rows(path: &Path, mut file: &File) -> Result<Vec<u64>, DataError> {
    let failed = DataError::io(path, "read");
    file.rewind().map_err(&failed)?;
    let mut lines = Lines::new(BufReader::with_capacity(1 << 17, file));
    let mut offsets = Vec::new();
    while let Some(line) = lines.next().map_err(&failed)? {
        offsets.push(line.offset);
    }
    offsets.push(lines.offset());
    offsets.shrink_to_fit();
    Ok(offsets)
}

fn copy_lines(path: &Path, packed: File, unpacked_file: &mut File) -> Result<(), DataError> {
    let mut stream = unpacked(packed, Format { layout: Layout::Jsonl, is_packed: true });
    std::io::copy(&mut stream, unpacked_file)
        .map(drop)
        .map_err(DataError::io(path, "unpacked into a temporary file"))
}

fn write_rows(
    path: &Path,
    mut next: impl FnMut() -> Option<Result<Record, DataError>>,
    unpacked: &File,
) -> Result<Vec<u64>, DataError> {
    let failed = DataError::io(path, "unpacked into a temporary file");
    let mut file = BufWriter::with_capacity(1 << 17, unpacked);
    let mut offsets = vec![0];
    let mut end = 0;
    while let Some(record) = next() {
        let line = format!("{}\n", Value::Object(record?.columns));
        file.write_all(line.as_bytes()).map_err(&failed)?;
        end += line.len() as u64;
        offsets.push(end);
    }
    file.flush().map_err(&failed)?;
    offsets.shrink_to_fit();
    Ok(offsets)
}
