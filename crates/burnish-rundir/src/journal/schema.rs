//! The tables, and the check that a file has them.

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use super::JournalProblem;

/// Version of the tables. Increase it with every change to [`TABLES`] or to what is stored in them, and let
/// [`upgrade`] and [`adapt`] handle journals of the version before.
const VERSION: i64 = 4;

/// The table that marks a file as a journal is `burnish_journal`.
const TABLES: &str = "
CREATE TABLE burnish_journal (version INTEGER NOT NULL);

CREATE TABLE tasks (
    id TEXT PRIMARY KEY,
    step INTEGER NOT NULL,
    environment TEXT NOT NULL,
    prompt TEXT NOT NULL,
    truth TEXT NOT NULL,
    labels TEXT NOT NULL
);

CREATE TABLE episodes (
    id INTEGER PRIMARY KEY,
    step INTEGER NOT NULL,
    kind TEXT NOT NULL,
    task TEXT NOT NULL REFERENCES tasks (id),
    task_index INTEGER NOT NULL,
    rollout INTEGER NOT NULL,
    ending TEXT NOT NULL,
    answers TEXT NOT NULL,
    success INTEGER NOT NULL,
    reward REAL,
    advantage REAL,
    verdict TEXT NOT NULL,
    traces INTEGER NOT NULL,
    record TEXT
);
CREATE INDEX episodes_of_step ON episodes (step, kind);
CREATE INDEX episodes_of_task ON episodes (task);

CREATE TABLE nodes (
    id INTEGER PRIMARY KEY,
    episode INTEGER NOT NULL REFERENCES episodes (id) ON DELETE CASCADE,
    trace INTEGER NOT NULL,
    node INTEGER NOT NULL,
    parent INTEGER,
    text TEXT NOT NULL,
    ids BLOB NOT NULL,
    sources BLOB NOT NULL,
    logprobs BLOB,
    policy_version INTEGER,
    temperature REAL,
    stop TEXT,
    sampled_logprobs BLOB,
    latents BLOB
);
CREATE UNIQUE INDEX nodes_of_episode ON nodes (episode, trace, node);

CREATE TABLE updates (
    step INTEGER NOT NULL,
    minibatch INTEGER NOT NULL,
    metrics TEXT NOT NULL,
    PRIMARY KEY (step, minibatch)
);
";

/// Creates the tables in an empty database.
pub(super) fn create(db: &Connection) -> Result<(), JournalProblem> {
    let entries: i64 = db.query_row("SELECT COUNT(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if entries > 0 {
        return Err(JournalProblem::Exists);
    }
    // Stays set in the file.
    db.pragma_update(None, "journal_mode", "WAL")?;
    // One transaction, so that a process that is killed here leaves all tables or none.
    db.execute_batch(&format!(
        "BEGIN IMMEDIATE; {TABLES} INSERT INTO burnish_journal VALUES ({VERSION}); COMMIT;"
    ))?;
    Ok(())
}

/// Checks that this is a journal, and adds what a journal of an earlier version lacks.
pub(super) fn upgrade(db: &Connection) -> Result<(), JournalProblem> {
    if version(db)? == VERSION {
        return Ok(());
    }
    let transaction = Transaction::new_unchecked(db, TransactionBehavior::Immediate)?;
    // Another process may have done it meanwhile.
    let found = version(&transaction)?;
    if found < 2 {
        transaction.execute("ALTER TABLE nodes ADD COLUMN sampled_logprobs BLOB", [])?;
    }
    if found < 3 {
        transaction.execute("ALTER TABLE episodes ADD COLUMN record TEXT", [])?;
    }
    if found < 4 {
        transaction.execute("ALTER TABLE nodes ADD COLUMN latents BLOB", [])?;
    }
    transaction.execute("UPDATE burnish_journal SET version = ?1", [VERSION])?;
    transaction.commit()?;
    Ok(())
}

/// Checks that this is a journal, and makes one of an earlier version readable as one of this. The file does not
/// change.
pub(super) fn adapt(db: &Connection) -> Result<(), JournalProblem> {
    let found = version(db)?;
    // Views that only this connection sees; it finds them before the tables.
    let lacking = [(2, "nodes", "sampled_logprobs"), (3, "episodes", "record"), (4, "nodes", "latents")];
    for of in ["nodes", "episodes"] {
        let own = lacking.into_iter().filter(|(since, table, _)| found < *since && *table == of);
        let columns: String = own.map(|(.., column)| format!(", NULL AS {column}")).collect();
        if !columns.is_empty() {
            db.execute(&format!("CREATE TEMP VIEW {of} AS SELECT *{columns} FROM main.{of}"), [])?;
        }
    }
    Ok(())
}

/// The version of a journal, if this program can read it. Changes nothing in any file.
fn version(db: &Connection) -> Result<i64, JournalProblem> {
    let is_ours: bool = db.query_row(
        "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'burnish_journal')",
        [],
        |row| row.get(0),
    )?;
    if !is_ours {
        return Err(JournalProblem::Foreign);
    }
    let version: Option<i64> =
        db.query_row("SELECT version FROM burnish_journal", [], |row| row.get(0)).optional()?;
    match version {
        Some(known @ 1..=VERSION) => Ok(known),
        Some(found) => Err(JournalProblem::Version { found, newest: VERSION }),
        None => Err(JournalProblem::Foreign),
    }
}
