//! Rows from files: what a policy is asked, imitates, prefers or is judged by.
//!
//! A [`Table`] reaches any row of a jsonl, csv, tsv or parquet file by its number and holds 8 bytes a row; a
//! [`Stream`] reads one after the other. [`Columns`] says which column is what: the names of TRL, verl, OpenRLHF,
//! slime and verifiers are known, others can be given. A [`Dataset`] is several files as [`Row`]s; [`order`]
//! shuffles them; [`overlap`] compares training rows with evaluation rows.

mod columns;
mod dataset;
mod delimited;
mod error;
mod lines;
mod messages;
pub mod overlap;
mod parquet;
mod paths;
mod row;
mod shuffle;
mod stream;
mod table;
mod template;
mod words;

pub use columns::{ColumnNames, Columns};
pub use dataset::{Dataset, for_each_row};
pub use error::{DataError, Place};
pub use paths::Paths;
pub use row::Row;
pub use shuffle::order;
pub use stream::{Record, Stream};
pub use table::Table;
pub use template::Template;
