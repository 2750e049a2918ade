//! The rows of several files, by number.

use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

use crate::{ColumnNames, Columns, DataError, Place, Record, Row, Stream, Table};

/// The rows of one or more files, with random access; see [`Table`] for what is held in memory.
///
/// Each file has its own columns, found from its first row; all its rows must have the same ones.
#[derive(Debug)]
pub struct Dataset {
    files: Vec<(Table, Dialect)>,
    len: usize,
}

/// How the rows of one file are read.
#[derive(Debug)]
struct Dialect {
    columns: Columns,
    /// The columns of the file's first row.
    names: ColumnNames,
}

impl Dialect {
    fn of_first(columns: &Columns, first: &Map<String, Value>) -> Result<Self, String> {
        let names = columns.of(first)?;
        for (what, template) in names.templates() {
            template.check(first).map_err(|problem| format!("{problem} (`columns.{what}` reads it)"))?;
        }
        Ok(Dialect { columns: columns.clone(), names })
    }

    /// Reads a row, which must have the same columns as the first.
    fn read(&self, row: &Map<String, Value>) -> Result<Row, String> {
        let read = Row::read(row, &self.names)?;
        match self.columns.of(row)? {
            names if names.is_like(&self.names) => Ok(read),
            names => Err(format!(
                "is of another kind than the file's first row: there {} would be read, here {}; give such rows a \
                 file of their own, or name the columns with `columns`",
                self.names, names
            )),
        }
    }
}

impl Dataset {
    /// Opens files. Only the first row of each file is parsed now; the others are parsed when they are read.
    ///
    /// # Errors
    /// If no file is given, a file can't be used or has no rows, or its columns are unknown.
    pub fn open(paths: &[PathBuf], columns: &Columns) -> Result<Self, DataError> {
        let mut files = Vec::new();
        for path in paths {
            let table = Table::of(path, columns)?;
            if table.is_empty() {
                return Err(empty(path));
            }
            let dialect =
                Dialect::of_first(columns, &table.get(0)?).map_err(|problem| table.error(0, problem))?;
            files.push((table, dialect));
        }
        let len = files.iter().map(|(table, _)| table.len()).sum();
        Ok(Dataset { files, len })
    }

    /// Number of rows in all files.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Are there no rows?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The file that holds row number `index`, with the row's number in that file.
    fn find(&self, index: usize) -> Option<(&(Table, Dialect), usize)> {
        let mut left = index;
        for file in &self.files {
            if left < file.0.len() {
                return Some((file, left));
            }
            left -= file.0.len();
        }
        None
    }

    fn beyond(&self, index: usize) -> DataError {
        let names: Vec<String> =
            self.files.iter().map(|(table, _)| table.path().display().to_string()).collect();
        let problem = format!("{} rows, so none has the index {index}", self.len);
        DataError { file: names.join(", "), place: None, problem }
    }

    /// Row number `index`.
    ///
    /// # Errors
    /// If there is no such row, or it does not fit its file's columns: names file, line and column.
    pub fn row(&self, index: usize) -> Result<Row, DataError> {
        self.entry(index).map(|(_, row)| row)
    }

    /// Row number `index`, together with its columns as they are in the file.
    ///
    /// # Errors
    /// As [`Dataset::row`].
    pub fn entry(&self, index: usize) -> Result<(Map<String, Value>, Row), DataError> {
        let ((table, dialect), at) = self.find(index).ok_or_else(|| self.beyond(index))?;
        let columns = table.get(at)?;
        let row = dialect.read(&columns).map_err(|problem| table.error(at, problem))?;
        Ok((columns, row))
    }

    /// The place of row number `index` in its file. Costs a pass over a file of lines.
    ///
    /// # Errors
    /// If there is no such row, or the file can't be read.
    pub fn place(&self, index: usize) -> Result<Place, DataError> {
        let ((table, _), at) = self.find(index).ok_or_else(|| self.beyond(index))?;
        table.place(at)
    }

    /// The path of the file that holds row number `index`.
    pub fn path(&self, index: usize) -> Option<&Path> {
        self.find(index).map(|((table, _), _)| table.path())
    }

    /// An error about row number `index`.
    pub fn error(&self, index: usize, problem: impl Into<String>) -> DataError {
        match self.find(index) {
            Some(((table, _), at)) => table.error(at, problem),
            None => self.beyond(index),
        }
    }
}

/// Reads the rows of a file one after the other, in bounded memory, and calls `each` with every row and its place.
///
/// # Errors
/// If the file can't be used or has no rows, or if a row does not fit the columns of the first.
pub fn for_each_row(
    path: &Path,
    columns: &Columns,
    mut each: impl FnMut(Place, Row),
) -> Result<(), DataError> {
    let mut dialect = None;
    for record in Stream::of(path, columns)? {
        let Record { place, columns: row } = record?;
        let wrong = |problem: String| DataError::at(path, place, problem);
        let dialect = match &dialect {
            Some(dialect) => dialect,
            None => dialect.insert(Dialect::of_first(columns, &row).map_err(wrong)?),
        };
        each(place, dialect.read(&row).map_err(wrong)?);
    }
    if dialect.is_none() { Err(empty(path)) } else { Ok(()) }
}

fn empty(path: &Path) -> DataError {
    DataError::file(path, "has no rows")
}
