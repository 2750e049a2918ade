//! The configuration of the environment.

use burnish_sandbox::{Limits, Settings};
use serde::{Deserialize, Serialize};

use super::families::FAMILIES;
use crate::settings::{check_bounds, config_error};
use crate::{BoundRow, EnvError};

/// Where tasks come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Track {
    /// Small functions of families whose parameters are drawn.
    Generated,
    /// The functions, contracts and inputs of EvalPlus, read from files; for evaluation only.
    Evalplus,
    /// Small repositories with a bug, and hooks around the function that has it.
    Repo,
}

/// What counts as a rejection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rejects {
    /// Any exception, as in CodeSpecBench: `assert n > 0` on a text raises `TypeError`, and the text is rejected.
    AnyException,
    /// `AssertionError` alone. Any other exception is then neither accepting nor rejecting.
    AssertionError,
}

/// The configuration of specification tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where tasks come from.
    pub track: Track,
    /// Families of generated tasks, which take turns; none means all.
    pub families: Vec<String>,
    /// Most cases of each pool.
    pub cases: u32,
    /// Seconds of processor time that a case may take; by the clock it may take four times as long.
    pub seconds: f64,
    /// Cases that may take too long before the others are not run.
    pub hangs: u32,
    /// What counts as a rejection.
    pub rejects: Rejects,
    /// Files or folders of the track `evalplus`.
    pub path: Vec<String>,
    /// The interpreter, and what to do where the system can't isolate.
    pub sandbox: Settings,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            track: Track::Generated,
            families: Vec::new(),
            cases: 6,
            seconds: 3.0,
            hangs: 3,
            rejects: Rejects::AnyException,
            path: Vec::new(),
            sandbox: Settings::default(),
        }
    }
}

/// The bounds of the numeric keys.
pub(super) const BOUNDS: &[BoundRow] = &[
    ("cases", 1.0, 64.0, "most cases of each pool"),
    ("seconds", 0.1, 60.0, "seconds of processor time that a case may take"),
    ("hangs", 1.0, 100.0, "cases that may take too long before the others are not run"),
];

impl Config {
    /// Checks what the types do not express.
    ///
    /// # Errors
    /// Names the first key that is out of bounds or contradicts another.
    pub(super) fn check(&self) -> Result<(), EnvError> {
        check_bounds(self, BOUNDS)?;
        let known = || FAMILIES.iter().map(|family| family.id);
        if let Some(unknown) = self.families.iter().find(|name| !known().any(|id| id == name.as_str())) {
            let known = known().collect::<Vec<_>>().join(", ");
            return Err(config_error(
                "families",
                &format!("there is no family `{unknown}`; there are: {known}"),
            ));
        }
        match self.track {
            Track::Evalplus if self.path.is_empty() => Err(config_error(
                "path",
                "name EvalPlus's files (HumanEvalPlus.jsonl with HumanEvalPlusInputs.jsonl and HumanEval.jsonl, or \
                 MbppPlus.jsonl) or folders that hold them",
            )),
            Track::Generated | Track::Repo if !self.path.is_empty() => {
                Err(config_error("path", "only the track `evalplus` reads files; leave it out"))
            }
            Track::Evalplus | Track::Repo if !self.families.is_empty() => {
                Err(config_error("families", "only generated tasks have families; leave it out"))
            }
            _ => Ok(()),
        }
    }

    /// What one case may use.
    pub(super) fn limits(&self) -> Limits {
        Limits {
            // On a busy machine a case takes longer by the clock, so what it computes is bounded by the other.
            wall_seconds: 4.0 * self.seconds,
            cpu_seconds: self.seconds,
            memory_bytes: 256 << 20,
            processes: 4,
            ..Limits::default()
        }
    }
}
