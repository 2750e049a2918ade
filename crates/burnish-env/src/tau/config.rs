//! The configuration of the environment.

use serde::{Deserialize, Serialize};

use crate::settings::{check_bounds, config_error, to_value};
use crate::{Bound, EnvError};

/// The configuration of the tau-bench world.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TauConfig {
    /// The folder with the benchmark's data, laid out as `docs/environments/tau.md` says.
    pub path: String,
    /// Whose customers are served; with several, the tasks of one come after those of the other.
    pub domain: Vec<Domain>,
    /// Which version of the benchmark the folder holds; `auto` looks at its files.
    pub set: SetChoice,
    /// Name of a split in `split_tasks.json`; all tasks if it is empty.
    pub split: String,
    /// Who plays the user.
    pub user: User,
    /// Messages after which the user leaves, and the episode has failed.
    pub turns: usize,
}

/// Whose customers are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Domain {
    /// An airline: reservations.
    Airline,
    /// A shop: orders.
    Retail,
}

impl Domain {
    /// Its name in paths and labels.
    pub fn name(self) -> &'static str {
        match self {
            Domain::Airline => "airline",
            Domain::Retail => "retail",
        }
    }
}

/// A version of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Set {
    /// tau-bench (arXiv:2406.12045).
    Tau,
    /// tau2-bench (arXiv:2506.07982).
    Tau2,
}

impl Set {
    /// Its name in labels.
    pub fn name(self) -> &'static str {
        match self {
            Set::Tau => "tau",
            Set::Tau2 => "tau2",
        }
    }

    /// Whether this version has the tool.
    pub(super) fn has(self, tool: &str) -> bool {
        match self {
            Set::Tau => !["get_item_details", "get_flight_status"].contains(&tool),
            Set::Tau2 => tool != "think",
        }
    }
}

/// A version of the benchmark, or whichever a folder holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SetChoice {
    /// Whichever the folder holds.
    Auto,
    /// tau-bench.
    Tau,
    /// tau2-bench.
    Tau2,
}

/// Who plays the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum User {
    /// The environment itself, by rules: it says what the instruction says, if it is asked for.
    Rule,
    /// Another policy or an endpoint, named `user` in the run.
    Policy,
}

impl Default for TauConfig {
    fn default() -> Self {
        TauConfig {
            path: String::new(),
            domain: vec![Domain::Retail],
            set: SetChoice::Auto,
            split: String::new(),
            user: User::Rule,
            turns: 30,
        }
    }
}

/// The bounds of the numeric keys that may be changed.
pub(super) fn bounds() -> Vec<Bound> {
    Bound::of(&[("turns", 1.0, 200.0, "messages after which the user leaves")])
}

impl TauConfig {
    /// Checks what the types do not express.
    ///
    /// # Errors
    /// Names the first key that is out of its bounds, or missing.
    pub fn check(&self) -> Result<(), EnvError> {
        check_bounds(&to_value(self)?, &bounds())?;
        if self.path.is_empty() {
            let problem = "name the folder with the tasks and the database: data/tau2/domains of \
                https://github.com/sierra-research/tau2-bench, or one laid out like it (docs/environments/tau.md)";
            return Err(config_error("path", problem));
        }
        let is_twice = |(at, domain): (usize, &Domain)| self.domain[..at].contains(domain);
        if self.domain.is_empty() || self.domain.iter().enumerate().any(is_twice) {
            return Err(config_error("domain", "name `airline`, `retail` or both, each once"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::read;
    use serde_json::json;

    #[test]
    fn a_wrong_configuration_is_an_error_that_names_the_key() {
        for (given, wanted) in [
            (json!({}), "path: name the folder"),
            (json!({"path": "x", "turns": 0}), "turns: 0 is out of range: 1 to 200 are allowed; nearest: 1"),
            (json!({"path": "x", "domain": ["telecom"]}), "domain: unknown variant `telecom`"),
            (json!({"path": "x", "domain": []}), "domain: name `airline`, `retail` or both"),
            (
                json!({"path": "x", "domain": ["retail", "retail"]}),
                "domain: name `airline`, `retail` or both",
            ),
            (json!({"path": "x", "set": "tau3"}), "set: unknown variant `tau3`"),
            (json!({"path": "x", "user": "me"}), "user: unknown variant `me`"),
            (json!({"path": 3}), "path: invalid type"),
            (json!({"pat": "x"}), "pat: unknown field"),
        ] {
            let problem =
                read::<TauConfig>(&given).and_then(|config| config.check()).unwrap_err().to_string();
            assert!(problem.starts_with(wanted), "{problem}");
        }
    }
}
