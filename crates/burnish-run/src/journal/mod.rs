//! The journal: every task, episode, verdict and update of a run, in one SQLite file (`run.db`).
//!
//! ```text
//! tasks     id, step, environment, prompt, truth, labels                        JSON: prompt, truth, labels, answers
//! episodes  id, step, kind, task, task_index, rollout, ending, answers, success, reward, advantage, verdict, traces
//! nodes     episode, trace, node, parent, text, ids, sources, logprobs, policy_version, temperature, stop
//! updates   step, minibatch, metrics
//! ```
//!
//! A token stream is a blob with one entry a token, little-endian: `ids` as u32, `sources` as the u8 of
//! [`burnish_core::Source`], `logprobs` as f32. What is read back equals what was recorded, bit for bit.
//!
//! # What survives what
//! The file is in WAL mode with `synchronous = NORMAL`. What a call recorded survives the end of the process,
//! however it ends (`kill -9` too), because it is in the operating system's hands when the call returns. A power
//! cut or a crash of the operating system never damages the file, but may take back the newest calls, in
//! order, up to the last [`Journal::sync`].

mod codec;
mod error;
mod read;
mod schema;
mod write;

pub use error::{JournalError, JournalProblem};
pub use read::{StepEntry, StoredEpisode, StoredUpdate, Tally};
pub use write::EpisodeRow;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use error::OnPath;

/// How long a statement waits for another process that reads or writes the same journal.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// What episodes were played for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EpisodeKind {
    /// To learn from.
    Train,
    /// To measure: the main evaluation.
    Eval,
    /// To measure: the evaluation of `[[eval.also]]` with this name.
    Also(String),
}

impl EpisodeKind {
    /// The name in the journal.
    pub fn name(&self) -> Cow<'static, str> {
        match self {
            EpisodeKind::Train => "train".into(),
            EpisodeKind::Eval => "eval".into(),
            EpisodeKind::Also(name) => format!("eval/{name}").into(),
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        match name {
            "train" => Some(EpisodeKind::Train),
            "eval" => Some(EpisodeKind::Eval),
            _ => name.strip_prefix("eval/").map(|name| EpisodeKind::Also(name.to_owned())),
        }
    }
}

impl std::fmt::Display for EpisodeKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}

/// The journal of a run, open for writing and reading.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    db: Connection,
}

impl Journal {
    /// Makes a new journal at `path`. The empty file that a process leaves when it is killed right here is taken
    /// over.
    ///
    /// # Errors
    /// If there is a journal or another database already, or the file can't be made.
    pub fn create(path: &Path) -> Result<Self, JournalError> {
        let connect = || {
            let db = connect(path, OpenFlags::SQLITE_OPEN_CREATE)?;
            schema::create(&db)?;
            Ok::<_, JournalProblem>(db)
        };
        Ok(Journal { path: path.to_owned(), db: connect().on(path)? })
    }

    /// Opens the journal at `path`. Another process may have it open too.
    ///
    /// # Errors
    /// If there is none, it is damaged, it is another program's database, or another version wrote it.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let connect = || {
            if !path.is_file() {
                return Err(JournalProblem::Missing);
            }
            let db = connect(path, OpenFlags::empty())?;
            schema::check(&db)?;
            Ok(db)
        };
        Ok(Journal { path: path.to_owned(), db: connect().on(path)? })
    }

    /// Opens the journal at `path`; makes it where there is none, or where a process was killed while it made it.
    ///
    /// # Errors
    /// As [`Journal::open`], and if the file can't be made.
    pub fn open_or_create(path: &Path) -> Result<Self, JournalError> {
        match Journal::create(path) {
            Err(JournalError { problem: JournalProblem::Exists, .. }) => Journal::open(path),
            created => created,
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes everything recorded so far durable against a power cut. To be called before a checkpoint appears,
    /// so that no checkpoint is ahead of its journal.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn sync(&mut self) -> Result<(), JournalError> {
        // The log is synced before anything is moved from it. How much can be moved is up to other readers, who
        // must never hold up a run: what they hold back stays, synced, in the log.
        self.db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).on(&self.path)
    }
}

/// Opens a database, with settings that last as long as the connection and change nothing in the file.
fn connect(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let flags = flags | OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(BUSY_TIMEOUT)?;
    db.pragma_update(None, "synchronous", "NORMAL")?;
    db.pragma_update(None, "foreign_keys", true)?;
    Ok(db)
}

#[cfg(test)]
mod tests;
