//! The journal: every task, episode, verdict and update of a run, in one SQLite file (`run.db`).
//!
//! ```text
//! tasks     id, step, environment, prompt, truth, labels                        JSON: prompt, truth, labels, answers
//! episodes  id, step, kind, task, task_index, rollout, ending, answers, success, reward, advantage, verdict, traces,
//!           record                                                            JSON: verdict, record
//! nodes     episode, trace, node, parent, text, ids, sources, logprobs, policy_version, temperature, stop,
//!           sampled_logprobs, latents
//! updates   step, minibatch, metrics
//! ```
//!
//! A token stream is a blob with one entry per token, little-endian: `ids` as u32, `sources` as the u8 of
//! [`burnish_core::Source`], `logprobs` (the model's) and `sampled_logprobs` as f32. `sampled_logprobs` is null if it
//! equals `logprobs`, and empty if it is all 0, as in a greedy answer. `latents` has the hidden states that latent steps
//! read, as f32, a row for each; null without any. What is read back equals what was recorded, bit for bit.
//!
//! # Versions
//! Version 1 had no `sampled_logprobs`, version 2 no `record`, version 3 no `latents`. Such a journal is read as if
//! these were all null. When it is opened for writing, it gets the columns and becomes a journal of this version, which
//! an older burnish refuses.
//!
//! # What survives what
//! The file is in WAL mode with `synchronous = NORMAL`. When a call returns, the operating system has what it
//! recorded, so that this survives any end of the process (`kill -9` too). A power cut or a crash of the operating
//! system never damages the file, but may take back the newest calls, in order, up to the last [`Journal::sync`].

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

/// Why episodes were played.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EpisodeKind {
    /// To learn from.
    Train,
    /// To measure, in the main evaluation.
    Eval,
    /// To measure, in the evaluation of `[[eval.extra]]` with this name.
    Extra(String),
}

impl EpisodeKind {
    /// Its name in the journal.
    pub fn name(&self) -> Cow<'static, str> {
        match self {
            EpisodeKind::Train => "train".into(),
            EpisodeKind::Eval => "eval".into(),
            EpisodeKind::Extra(name) => format!("eval/{name}").into(),
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        match name {
            "train" => Some(EpisodeKind::Train),
            "eval" => Some(EpisodeKind::Eval),
            _ => name.strip_prefix("eval/").map(|name| EpisodeKind::Extra(name.to_owned())),
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
    /// Creates a new journal at `path`. If a process was killed in the middle of this, it left an empty file, which
    /// is used.
    ///
    /// # Errors
    /// If there is a journal or another database already, or the file can't be created.
    pub fn create(path: &Path) -> Result<Self, JournalError> {
        let connect = || {
            let db = connect(path, OpenFlags::SQLITE_OPEN_CREATE)?;
            schema::create(&db)?;
            Ok::<_, JournalProblem>(db)
        };
        Ok(Journal { path: path.to_owned(), db: connect().on(path)? })
    }

    /// Opens the journal at `path`, and upgrades one of an earlier version. Another process may have it open too.
    ///
    /// # Errors
    /// If there is none, it is damaged, it is another program's database, or a later version wrote it.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let connect = || {
            if !path.is_file() {
                return Err(JournalProblem::Missing);
            }
            let db = connect(path, OpenFlags::empty())?;
            schema::upgrade(&db)?;
            Ok(db)
        };
        Ok(Journal { path: path.to_owned(), db: connect().on(path)? })
    }

    /// Opens the journal at `path` for reading only, without the need to write files beside it. Another process may
    /// record in it meanwhile.
    ///
    /// # Errors
    /// As [`Journal::open`].
    pub fn open_to_read(path: &Path) -> Result<Self, JournalError> {
        let connect = || {
            if !path.is_file() {
                return Err(JournalProblem::Missing);
            }
            let db = read_only(path)?;
            schema::adapt(&db).map_err(|problem| match problem {
                // The log can't be read without a file of shared memory, which can't be created here.
                JournalProblem::Sqlite(error) if has_log(path) => JournalProblem::Log(error),
                other => other,
            })?;
            check_pages(&db)?;
            Ok(db)
        };
        Ok(Journal { path: path.to_owned(), db: connect().on(path)? })
    }

    /// Opens the journal of a run that continues, in any case: creates it if it is missing, and replaces it by a new
    /// one if it is damaged, setting the old one aside. Also returns what a person should be told about that.
    ///
    /// # Errors
    /// If it is another program's database, a later version wrote it, or a file can't be created.
    pub fn recover(path: &Path) -> Result<(Self, Option<String>), JournalError> {
        let opened = Journal::open_or_create(path).and_then(|journal| {
            check_pages(&journal.db).on(path)?;
            Ok(journal)
        });
        let problem = match opened {
            Err(JournalError { problem: problem @ JournalProblem::Corrupt(_), .. }) => problem,
            opened => return Ok((opened?, None)),
        };
        let aside = set_aside(path)
            .map_err(|error| JournalError { path: path.to_owned(), problem: JournalProblem::Aside(error) })?;
        let told = format!(
            "damaged journal: `{}`: {problem}; it is kept as `{}`, and a new one begins here, without the episodes of \
             earlier steps",
            path.display(),
            aside.display()
        );
        Ok((Journal::create(path)?, Some(told)))
    }

    /// Opens the journal at `path`. Creates it if it is missing, or if a process was killed while creating it.
    ///
    /// # Errors
    /// As [`Journal::open`], and if the file can't be created.
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

    /// Makes everything recorded so far durable against a power cut. Call it before a checkpoint appears, so that no
    /// checkpoint is ahead of its journal.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn sync(&mut self) -> Result<(), JournalError> {
        // The log is synced before anything is moved out of it. Other readers decide how much can be moved, because
        // they must never hold up a run: what they hold back stays in the log, synced.
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

/// Opens a database that may not be written. SQLite reads a log only with a file of shared memory beside it, which it
/// creates. Without a log, nobody is writing, and the file alone is complete.
fn read_only(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = if has_log(path) {
        Connection::open_with_flags(path, flags)?
    } else {
        let uri = format!("file:{}?immutable=1", escaped(&path.to_string_lossy()));
        Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)?
    };
    db.busy_timeout(BUSY_TIMEOUT)?;
    Ok(db)
}

/// Whether some records are only in the log so far.
fn has_log(path: &Path) -> bool {
    std::fs::metadata(beside(path, "-wal")).is_ok_and(|log| log.len() > 0)
}

/// A path as a part of a URI.
fn escaped(path: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-~".contains(&byte);
    let byte = |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    path.bytes().map(byte).collect()
}

/// The file of the same name with this ending.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Checks the whole file, to find damage that no statement happens to touch.
fn check_pages(db: &Connection) -> Result<(), JournalProblem> {
    let found: String = db.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if found == "ok" { Ok(()) } else { Err(JournalProblem::Corrupt(found.replace('\n', " "))) }
}

/// Renames the database and its log out of the way, and returns the new path of the database.
fn set_aside(path: &Path) -> std::io::Result<PathBuf> {
    let free = (1..).map(|at| beside(path, &format!(".damaged-{at}"))).find(|aside| !aside.exists());
    let aside = free.unwrap_or_else(|| beside(path, ".damaged"));
    for ending in ["-wal", "-shm", ""] {
        match std::fs::rename(beside(path, ending), beside(&aside, ending)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(aside)
}

#[cfg(test)]
mod tests;
