//! The configuration of the environment.

use serde::{Deserialize, Serialize};

use super::{Operator, Tries};
use crate::EnvError;
use crate::family::{Bounded, configuration};
use crate::redesign::{Harder, Knob, KnobKind};
use crate::settings::{check_range, config_error};

pub use crate::settings::PromptStyle;

/// A range of whole numbers, both ends included.
pub type Range = crate::settings::Range<u32>;

configuration! {
    /// The rewards of an answer.
    #[derive(Copy)]
    pub struct Reward {
        wrong_format: f64 = 0.0, in -10.0..=10.0, "reward of what is not an expression";
        /// The expression breaks a rule or misses the target.
        wrong: f64 = 0.1, in -10.0..=10.0, "reward of an expression that is not a solution";
        correct: f64 = 1.0, in -10.0..=10.0, "reward of a solution";
    }
}

/// What the thoughts of demonstrations are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Thoughts {
    /// The steps of the solution.
    #[default]
    Steps,
    /// Tries of answers, wrong ones among them, each doubted and checked. Verdicts then have flags that say what the tries
    /// of an answer came to.
    Tries(Tries),
}

configuration! {
    /// The configuration of countdown tasks. Tasks are spread evenly over every allowed pair of (number of numbers, number
    /// of operations in the hidden solution).
    pub struct Config {
        numbers: Range = Range { min: 3, max: 4 }, in 2..=8, "fewest numbers given" | "most numbers given";
        values: Range = Range { min: 1, max: 50 }, in 1..=1_000,
            "least number that may be given" | "greatest number that may be given";
        target: Range = Range { min: 10, max: 100 }, in 1..=1_000_000, "least target" | "greatest target";
        /// Their number sets the difficulty. It is at most one less than the number of numbers.
        operations: Range = Range { min: 2, max: 3 }, in 1..=7,
            "fewest operations in the hidden solution" | "most operations in the hidden solution";
        operators: Vec<Operator> = Operator::ALL.to_vec(), "operators that an answer may use";
        use_all: bool = false, "every number must be used";
        whole_steps: bool = true, "every intermediate result must be an integer";
        reward: Reward, "rewards of an answer";
        prompt: PromptStyle = PromptStyle::Full, "style of the prompt";
        /// Steps are omitted, so that hashes of stages and configurations of older runs stay the same.
        #[serde(default, skip_serializing_if = "Thoughts::are_steps")]
        thoughts: Thoughts = Thoughts::Steps, "thoughts of demonstrations";
    }
}

/// One kind of instance, by the number of numbers and the number of operations in the hidden solution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cell {
    pub(super) numbers: u32,
    pub(super) operations: u32,
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "numbers={} operations={}", self.numbers, self.operations)
    }
}

/// The keys that may be redesigned. Numbers and operations act on the tasks that have the least or the most of them.
pub(super) fn knobs(config: &Config) -> Vec<Knob> {
    let bounds = Config::bounds();
    let knob = |key: &str, menu: &[f64], label: Option<(&str, u32)>| {
        let bound = bounds.iter().find(|bound| bound.key == key);
        let (min, max, help) = bound.map_or((0.0, 0.0, ""), |bound| (bound.min, bound.max, &bound.help));
        Knob {
            key: key.to_owned(),
            kind: KnobKind::Whole,
            of: String::new(),
            min,
            max,
            menu: menu.to_vec(),
            harder: Harder::Up,
            tasks: label.iter().map(|(name, value)| ((*name).to_owned(), value.to_string())).collect(),
            help: help.to_owned(),
        }
    };
    let counts = [2.0, 3.0, 4.0, 5.0, 6.0];
    let Config { numbers, operations, .. } = config;
    vec![
        knob("numbers.min", &counts, Some(("numbers", numbers.min))),
        knob("numbers.max", &counts, Some(("numbers", numbers.max))),
        knob("operations.min", &[1.0, 2.0, 3.0, 4.0, 5.0], Some(("operations", operations.min))),
        knob("operations.max", &[1.0, 2.0, 3.0, 4.0, 5.0], Some(("operations", operations.max))),
        knob("values.max", &[10.0, 20.0, 30.0, 50.0, 100.0], None),
        knob("target.max", &[20.0, 50.0, 100.0, 200.0, 500.0], None),
    ]
}

impl Config {
    /// Checks what bounds do not express.
    ///
    /// # Errors
    /// Names the first key that contradicts another.
    pub(super) fn check(&self) -> Result<(), EnvError> {
        check_range("numbers", self.numbers)?;
        check_range("values", self.values)?;
        check_range("target", self.target)?;
        check_range("operations", self.operations)?;
        if let Some((key, problem)) = self.thoughts.tries().and_then(Tries::problem) {
            return Err(config_error(key, &problem));
        }
        if self.operators.is_empty() {
            return Err(config_error("operators", "name at least one of \"+\", \"-\", \"*\", \"/\""));
        }
        if self.cells().is_empty() {
            return Err(self.no_cell());
        }
        Ok(())
    }

    /// Every allowed pair of counts, in ascending order.
    pub(super) fn cells(&self) -> Vec<Cell> {
        let pairs = (self.numbers.min..=self.numbers.max).flat_map(|numbers| {
            (self.operations.min..=self.operations.max).map(move |operations| Cell { numbers, operations })
        });
        pairs
            .filter(|cell| match self.use_all {
                true => cell.operations + 1 == cell.numbers,
                false => cell.operations < cell.numbers,
            })
            .collect()
    }

    fn no_cell(&self) -> EnvError {
        let most = self.numbers.max - 1;
        if self.operations.min > most {
            let problem = format!(
                "{} operations need {} numbers, but at most {} are given (numbers.max); nearest: {most}",
                self.operations.min,
                self.operations.min + 1,
                self.numbers.max
            );
            return config_error("operations.min", &problem);
        }
        // The only remaining reason is `use_all`: using n numbers takes n - 1 operations.
        let least = self.numbers.min - 1;
        let problem = format!(
            "{} operations at most can't use all of {} numbers at least (use_all); nearest: {least}",
            self.operations.max, self.numbers.min
        );
        config_error("operations.max", &problem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn problem(given: Value) -> String {
        crate::build("countdown", &given).map(drop).unwrap_err().to_string()
    }

    #[test]
    fn a_contradiction_is_named_with_the_nearest_value_that_would_do() {
        assert_eq!(
            problem(json!({"numbers": {"max": 9}})),
            "numbers.max: 9 is out of range: 2 to 8 are allowed; nearest: 8"
        );
        assert_eq!(
            problem(json!({"values": {"min": 60}})),
            "values.max: 50 is below values.min, which is 60; nearest: 60"
        );
        assert_eq!(
            problem(json!({"operations": {"min": 4, "max": 5}})),
            "operations.min: 4 operations need 5 numbers, but at most 4 are given (numbers.max); nearest: 3"
        );
        let too_few = json!({"numbers": {"min": 6, "max": 6}, "use_all": true});
        assert_eq!(
            problem(too_few),
            "operations.max: 3 operations at most can't use all of 6 numbers at least (use_all); nearest: 5"
        );
        let tries =
            |wrong: u32, doubted: f64| json!({"thoughts": {"tries": {"wrong": wrong, "doubted": doubted}}});
        assert!(problem(tries(9, 0.5)).starts_with("thoughts.tries.wrong: 9 is out of range: 0 to 8"));
        assert!(problem(tries(2, 1.5)).starts_with("thoughts.tries.doubted: 1.5 is out of range"));
        assert!(problem(json!({"operators": []})).starts_with("operators: name at least one"));
        assert!(problem(json!({"operators": ["^"]})).starts_with("operators: unknown variant `^`"));
        assert!(problem(json!({"numbers": {"min": -1}})).starts_with("numbers.min: invalid value"));
    }

    #[test]
    fn using_all_numbers_fixes_the_number_of_operations() {
        let config = Config { use_all: true, ..Config::default() };
        let cells: Vec<String> = config.cells().iter().map(Cell::to_string).collect();
        assert_eq!(cells, ["numbers=3 operations=2", "numbers=4 operations=3"]);
        assert_eq!(Config::default().cells().len(), 3);
    }
}
