//! The configuration of the environment.

use serde::{Deserialize, Serialize};

use super::instruction::Kind;
use crate::settings::{check_bounds, config_error};
use crate::{BoundRow, EnvError};

pub use crate::settings::PromptStyle;

/// The configuration of tasks on accounts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountsConfig {
    /// Number of accounts.
    pub accounts: usize,
    /// Number of instructions in a task; tasks are spread evenly over the range.
    pub steps: Steps,
    /// Shares of the kinds of instructions, relative to their sum.
    pub kinds: Kinds,
    /// The possible amounts.
    pub amounts: Amounts,
    /// Simulated duration of each call, in milliseconds.
    pub latency_ms: u64,
    /// The style of the prompt.
    pub prompt: PromptStyle,
    /// Share of the demonstrations that guess instead of looking, and so end wrong; the task's id decides which.
    pub demonstration_errors: f64,
}

/// A range for the number of instructions, both ends included.
pub type Steps = crate::settings::Range<usize>;

/// Shares of the kinds of instructions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kinds {
    /// Move 20 from Ann to Bob.
    pub fixed: f64,
    /// Move half of Ann's money to Bob.
    pub half: f64,
    /// Move all of Ann's money to Bob.
    pub all: f64,
    /// Move from Ann to Bob as much as Bob needs to have 50.
    pub fill: f64,
    /// Move 20 from the richer of Ann and Bob to Cid.
    pub richer: f64,
}

/// Amounts are multiples of `unit` up to `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Amounts {
    /// All amounts and balances are multiples of this.
    pub unit: u64,
    /// Largest opening balance of an account, and largest amount that an instruction states.
    pub max: u64,
}

impl Default for AccountsConfig {
    fn default() -> Self {
        AccountsConfig {
            accounts: 3,
            steps: Steps { min: 1, max: 2 },
            kinds: Kinds { fixed: 1.0, half: 1.0, all: 1.0, fill: 1.0, richer: 1.0 },
            amounts: Amounts { unit: 1, max: 99 },
            latency_ms: 0,
            prompt: PromptStyle::Short,
            demonstration_errors: 0.0,
        }
    }
}

impl Kinds {
    /// In the order of [`Kind::ALL`].
    pub(super) fn shares(self) -> [f64; 5] {
        [self.fixed, self.half, self.all, self.fill, self.richer]
    }
}

/// Names; the first `accounts` of them are used.
pub(super) const NAMES: [&str; 12] =
    ["Ann", "Bob", "Cid", "Dee", "Eve", "Fay", "Gus", "Hal", "Ida", "Jim", "Kay", "Lee"];

/// Fewest units in `amounts.max`, so that instructions of every kind can be made.
const UNITS_MIN: u64 = 4;

/// The bounds of the numeric keys that may be changed.
pub(super) const BOUNDS: &[BoundRow] = &[
    ("accounts", 2.0, NAMES.len() as f64, "accounts"),
    ("steps.min", 1.0, 8.0, "fewest instructions of a task"),
    ("steps.max", 1.0, 8.0, "most instructions of a task"),
    ("kinds.fixed", 0.0, 1.0, "share of: an amount that is stated"),
    ("kinds.half", 0.0, 1.0, "share of: half of what one has"),
    ("kinds.all", 0.0, 1.0, "share of: all that one has"),
    ("kinds.fill", 0.0, 1.0, "share of: what one needs to have so much"),
    ("kinds.richer", 0.0, 1.0, "share of: from the richer of two"),
    ("amounts.unit", 1.0, 1_000.0, "what all amounts are multiples of"),
    ("amounts.max", UNITS_MIN as f64, 1_000_000.0, "most that an account has at first"),
    ("latency_ms", 0.0, 3_600_000.0, "how long a call takes, in milliseconds"),
    ("demonstration_errors", 0.0, 1.0, "share of the demonstrations that guess and end wrong"),
];

impl AccountsConfig {
    /// Checks what the types do not express.
    ///
    /// # Errors
    /// Names the first key that is out of its bounds or contradicts another.
    pub fn check(&self) -> Result<(), EnvError> {
        check_bounds(self, BOUNDS)?;
        let Steps { min, max } = self.steps;
        if min > max {
            let problem = format!("{min} is above steps.max, which is {max}; nearest: {max}");
            return Err(config_error("steps.min", &problem));
        }
        if self.kinds.shares().iter().all(|share| *share == 0.0) {
            let problem = "no kind has a share above 0; give one, like `kinds.half = 1`";
            return Err(config_error("kinds", problem));
        }
        if self.kinds.richer > 0.0 && self.accounts < 3 {
            let problem = format!(
                "{} are too few for kinds.richer, which names three; nearest: 3 (or set kinds.richer = 0)",
                self.accounts
            );
            return Err(config_error("accounts", &problem));
        }
        let Amounts { unit, max } = self.amounts;
        let least = UNITS_MIN * unit;
        if max < least {
            let problem = format!("{max} is below {UNITS_MIN} times amounts.unit; nearest: {least}");
            return Err(config_error("amounts.max", &problem));
        }
        Ok(())
    }

    /// The kinds that are made, with their shares.
    pub(super) fn kinds(&self) -> (Vec<Kind>, Vec<f64>) {
        Kind::ALL.into_iter().zip(self.kinds.shares()).filter(|(_, share)| *share > 0.0).unzip()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::read;
    use serde_json::{Value, json};

    fn problem(given: Value) -> String {
        read::<AccountsConfig>(&given).and_then(|config| config.check()).unwrap_err().to_string()
    }

    #[test]
    fn a_wrong_configuration_is_an_error_that_names_the_key() {
        let none = json!({"fixed": 0, "half": 0, "all": 0, "fill": 0, "richer": 0});
        for (given, wanted) in [
            (json!({"accounts": 1}), "accounts: 1 is out of range: 2 to 12 are allowed; nearest: 2"),
            (json!({"accounts": 2}), "accounts: 2 are too few for kinds.richer"),
            (json!({"steps": {"min": 3}}), "steps.min: 3 is above steps.max, which is 2; nearest: 2"),
            (json!({"steps": {"max": 9}}), "steps.max: 9 is out of range"),
            (json!({"steps": {"most": 2}}), "steps.most: unknown field `most`"),
            (json!({"kinds": none}), "kinds: no kind has a share above 0"),
            (json!({"kinds": {"half": 1.5}}), "kinds.half: 1.5 is out of range"),
            (json!({"kinds": {"third": 1}}), "kinds.third: unknown field `third`"),
            (json!({"amounts": {"unit": 30}}), "amounts.max: 99 is below 4 times amounts.unit; nearest: 120"),
            (json!({"amounts": {"unit": 0}}), "amounts.unit: 0 is out of range"),
            (json!({"amounts": {"unit": 0.5}}), "amounts.unit: invalid type: floating point"),
            (json!({"latency_ms": -1}), "latency_ms: "),
            (json!({"latency_ms": 3_600_001}), "latency_ms: 3600001 is out of range"),
            (json!({"demonstration_errors": 2}), "demonstration_errors: 2 is out of range"),
            (json!({"prompt": "long"}), "prompt: unknown variant `long`"),
            (json!({"account": 3}), "account: unknown field"),
        ] {
            let problem = problem(given);
            assert!(problem.starts_with(wanted), "{problem}");
        }
    }
}
