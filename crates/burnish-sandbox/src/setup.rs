//! What a guard is told, what it reports, and the way in.

use serde::{Deserialize, Serialize};

use crate::python::Interpreter;

/// What to do where the operating system lacks something that keeps programs apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Refuse, with the reason.
    #[default]
    Required,
    /// Go on with what there is. A program may then reach what the missing part would have kept from it.
    BestEffort,
}

/// What holds a program back here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Namespaces of its own: files, processes, network.
    pub namespaces: bool,
    /// Landlock: which files it may read and write.
    pub landlock: bool,
    /// seccomp: which system calls it may make.
    pub seccomp: bool,
    /// What is missing, each with the reason. Empty under [`Isolation::Required`].
    pub missing: Vec<String>,
}

/// The first argument of a guard.
pub(crate) const COMMAND: &str = "sandbox-guard";

/// What a guard is told, as its second argument.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Setup {
    pub(crate) isolation: Isolation,
    pub(crate) python: Interpreter,
    /// Bytes of the scratch folder.
    pub(crate) scratch_bytes: u64,
    /// Parts to do without, for tests of what then happens.
    pub(crate) without: Vec<String>,
    /// The interpreter's seed of hashes.
    pub(crate) hash_seed: u32,
    /// How far the guard is.
    pub(crate) stage: Stage,
    /// What was missing so far.
    pub(crate) missing: Vec<String>,
}

/// The two processes that a guard is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stage {
    /// It watches over the other, outside the namespaces.
    Outside,
    /// It becomes the interpreter, and was started by root.
    InsideAsRoot,
    /// The same, started by anybody else.
    InsideAsUser,
    /// The same, without namespaces.
    Bare,
}

/// The first line that a guard prints.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Greeting {
    /// It is about to become the interpreter.
    Isolated(Report),
    /// Why it is not.
    Refused(String),
}

/// Must be called first in `main` of a program that uses a [`Sandbox`](crate::Sandbox), before any thread is started. If
/// the program was started as a guard, this becomes the interpreter and never returns.
pub fn enter() {
    CAN_GUARD.store(true, std::sync::atomic::Ordering::Relaxed);
    #[cfg(target_os = "linux")]
    {
        let mut arguments = std::env::args().skip(1);
        if arguments.next().as_deref() == Some(COMMAND) {
            std::process::exit(crate::guard::run(&arguments.next().unwrap_or_default()));
        }
    }
}

/// Has this program called [`enter`]?
static CAN_GUARD: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// Can this program be started as a guard?
pub(crate) fn can_guard() -> bool {
    CAN_GUARD.load(std::sync::atomic::Ordering::Relaxed)
}
