//! The configuration of the environment.

use super::instruction::Kind;
use crate::EnvError;
use crate::family::configuration;
use crate::settings::config_error;

pub use crate::settings::PromptStyle;

configuration! {
    /// The configuration of tasks on accounts.
    pub struct AccountsConfig {
        accounts: usize = 3, in 2..=NAMES.len(), "accounts";
        /// Tasks are spread evenly over the range.
        steps: Steps = Steps { min: 1, max: 2 }, in 1..=8,
            "fewest instructions of a task" | "most instructions of a task";
        kinds: Kinds, "shares of the kinds of instructions, relative to their sum";
        amounts: Amounts, "possible amounts";
        /// The duration is simulated.
        latency_ms: u64 = 0, in 0..=3_600_000, "how long a call takes, in milliseconds";
        prompt: PromptStyle = PromptStyle::Short, "style of the prompt";
        /// Such a demonstration does not look first. The task's id decides which do.
        demonstration_errors: f64 = 0.0, in 0.0..=1.0, "share of the demonstrations that guess and end wrong";
    }
}

/// A range for the number of instructions, both ends included.
pub type Steps = crate::settings::Range<usize>;

configuration! {
    /// Shares of the kinds of instructions.
    #[derive(Copy)]
    pub struct Kinds {
        /// Move 20 from Ann to Bob.
        fixed: f64 = 1.0, in 0.0..=1.0, "share of: an amount that is stated";
        /// Move half of Ann's money to Bob.
        half: f64 = 1.0, in 0.0..=1.0, "share of: half of what one has";
        /// Move all of Ann's money to Bob.
        all: f64 = 1.0, in 0.0..=1.0, "share of: all that one has";
        /// Move from Ann to Bob as much as Bob needs to have 50.
        fill: f64 = 1.0, in 0.0..=1.0, "share of: what one needs to have so much";
        /// Move 20 from the richer of Ann and Bob to Cid.
        richer: f64 = 1.0, in 0.0..=1.0, "share of: from the richer of two";
    }
}

configuration! {
    /// Amounts are multiples of `unit` up to `max`.
    #[derive(Copy, Eq)]
    pub struct Amounts {
        unit: u64 = 1, in 1..=1_000, "what all amounts are multiples of";
        /// It is also the largest amount that an instruction states.
        max: u64 = 99, in UNITS_MIN..=1_000_000, "most that an account has at first";
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

impl AccountsConfig {
    /// Checks what bounds do not express.
    ///
    /// # Errors
    /// Names the first key that contradicts another.
    pub(super) fn check(&self) -> Result<(), EnvError> {
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
    use serde_json::{Value, json};

    fn problem(given: Value) -> String {
        crate::build("accounts", &given).map(drop).unwrap_err().to_string()
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
