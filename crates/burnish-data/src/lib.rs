//! Rows from files: what a policy is asked, imitates, prefers or is judged by.
//!
//! A [`Table`] gives random access to the rows of a jsonl, csv, tsv or parquet file and holds 8 bytes per row; a
//! [`Stream`] reads them one after the other. [`Columns`] says what each column means: the names of TRL, verl,
//! OpenRLHF, slime and verifiers are known, others can be given. A [`Dataset`] presents several files as [`Row`]s;
//! [`order`] and [`passes`] shuffle them; [`overlap`] compares training rows with evaluation rows.

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
pub use messages::tools;
pub use paths::Paths;
pub use row::Row;
pub use shuffle::{order, passes};
pub use stream::{Record, Stream, read_whole};
pub use table::Table;
pub use template::Template;
