//! The configuration of tables.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

use super::draw::{NAMES, NUMBERS, WORDS};
use crate::settings::{check_bounds, config_error};
use crate::{BoundRow, EnvError};

/// A range of sizes, both ends included.
pub type Range = crate::settings::Range<usize>;

/// What is asked of a generated table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// `what is the age of ada`
    Lookup,
    /// `how many have city rome`
    Count,
    /// `who has the largest age`
    Max,
    /// `who has the smallest age`
    Min,
    /// `is the age of ada larger than the age of bob`, or smaller
    Compare,
    /// `what is the total age where city is rome`
    Sum,
}

impl Question {
    /// All of them.
    pub const ALL: [Question; 6] =
        [Question::Lookup, Question::Count, Question::Max, Question::Min, Question::Compare, Question::Sum];

    /// Its name in labels and configurations.
    pub fn name(self) -> &'static str {
        match self {
            Question::Lookup => "lookup",
            Question::Count => "count",
            Question::Max => "max",
            Question::Min => "min",
            Question::Compare => "compare",
            Question::Sum => "sum",
        }
    }
}

/// What gets another order in the versions of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shuffle {
    /// The rows.
    Rows,
    /// The columns.
    Columns,
    /// Rows and columns.
    Both,
}

/// A reward component. Each is in 0..=1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Component {
    /// 1 if the executor's answer is right. Real tables don't have it.
    Answer,
    /// F1 of the cells that steps look at, averaged over steps ([`super::Plan::mask_f1`]).
    MaskF1,
    /// 1 if the plan is the gold plan.
    Plan,
}

impl Component {
    /// Its name in verdicts; of real tables, whose masks are proxies, it says so.
    pub(super) fn name(self, is_proxy: bool) -> &'static str {
        match (self, is_proxy) {
            (Component::Answer, _) => "answer",
            (Component::MaskF1, false) => "mask_f1",
            (Component::MaskF1, true) => "proxy_mask_f1",
            (Component::Plan, false) => "plan",
            (Component::Plan, true) => "proxy_plan",
        }
    }
}

/// How tables and questions are made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Rows of a table, without the header; tasks are spread evenly over the range.
    pub rows: Range,
    /// Columns of a table, with that of names.
    pub columns: Range,
    /// What is asked, as often as each other.
    pub ops: Vec<Question>,
    /// Different names.
    pub names: usize,
    /// Different numbers, from 10 on. No column has one twice.
    pub numbers: usize,
    /// Different words of a column.
    pub words: usize,
    /// Does each row begin with its number?
    pub numbered: bool,
    /// Versions of each task in different orders; the first is as it was drawn.
    pub permutations: usize,
    /// What gets another order.
    pub shuffle: Shuffle,
    /// The reward components of the verdict.
    pub rewards: Vec<Component>,
    /// A directory with WikiTableQuestions or TabFact; empty for generated tables.
    pub source: String,
    /// The file of questions in it; empty for the usual one.
    pub file: String,
    /// Most cells of a real table; questions about larger ones are left out.
    pub cells_max: usize,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            rows: Range { min: 4, max: 8 },
            columns: Range { min: 3, max: 5 },
            ops: Question::ALL.to_vec(),
            names: 16,
            numbers: 40,
            words: 4,
            numbered: false,
            permutations: 1,
            shuffle: Shuffle::Rows,
            rewards: vec![Component::Answer],
            source: String::new(),
            file: String::new(),
            cells_max: 64,
        }
    }
}

/// Most columns: that of names, and one for each other header.
const COLUMNS_MAX: usize = 1 + NUMBERS.len() + WORDS.len();

/// The bounds of the numeric keys that may be changed.
pub(super) const BOUNDS: &[BoundRow] = &[
    ("rows.min", 2.0, 16.0, "fewest rows"),
    ("rows.max", 2.0, 16.0, "most rows"),
    ("columns.min", 3.0, COLUMNS_MAX as f64, "fewest columns"),
    ("columns.max", 3.0, COLUMNS_MAX as f64, "most columns"),
    ("names", 2.0, NAMES.len() as f64, "different names"),
    ("numbers", 2.0, 90.0, "different numbers, from 10 on"),
    ("words", 2.0, WORDS[0].1.len() as f64, "different words of a column"),
    ("permutations", 1.0, 64.0, "versions of each task in different orders"),
    ("cells_max", 1.0, 4096.0, "most cells of a real table"),
];

impl Config {
    /// Are the tables real, with proxies for masks?
    pub(super) fn is_real(&self) -> bool {
        !self.source.is_empty()
    }

    /// Checks what the types do not express.
    ///
    /// # Errors
    /// Names the first key that is out of its bounds or contradicts another.
    pub(super) fn check(&self) -> Result<(), EnvError> {
        check_bounds(self, BOUNDS)?;
        for (key, Range { min, max }) in [("rows", self.rows), ("columns", self.columns)] {
            if min > max {
                let problem = format!("{min} is above {key}.max, which is {max}; nearest: {max}");
                return Err(config_error(&format!("{key}.min"), &problem));
            }
        }
        for (key, count) in [("names", self.names), ("numbers", self.numbers)] {
            let rows = self.rows.max;
            if count < rows {
                let problem = format!(
                    "{rows} rows, of which no two are alike, need {rows}, not {count}; nearest: {rows}"
                );
                return Err(config_error(key, &problem));
            }
        }
        once("ops", &self.ops.iter().map(|op| op.name()).collect::<Vec<_>>(), "a question")?;
        let rewards: Vec<&str> = self.rewards.iter().map(|component| component.name(false)).collect();
        once("rewards", &rewards, "a component")?;
        if self.is_real() && self.rewards.contains(&Component::Answer) {
            let problem = "real tables (`source`) come without plans that could be executed, so there is no \
                           `answer`; name `mask_f1` or `plan`, which compare with a proxy";
            return Err(config_error("rewards", problem));
        }
        if !self.is_real() && !self.file.is_empty() {
            return Err(config_error("file", "is a file of real questions; name its directory in `source`"));
        }
        Ok(())
    }
}

/// Checks that a list names something, and nothing twice.
fn once<T: PartialEq + Display>(key: &str, list: &[T], what: &str) -> Result<(), EnvError> {
    if list.is_empty() {
        return Err(config_error(key, &format!("name at least {what}")));
    }
    match list.iter().enumerate().find(|(at, one)| list[..*at].contains(one)) {
        Some((_, one)) => Err(config_error(key, &format!("`{one}` is named twice; leave one out"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::read;
    use serde_json::json;

    #[test]
    fn a_contradiction_is_named_with_a_value_that_would_do() {
        for (given, expected) in [
            (json!({"rows": {"min": 1}}), "rows.min: 1 is out of range: 2 to 16 are allowed; nearest: 2"),
            (json!({"rows": {"min": 9}}), "rows.min: 9 is above rows.max, which is 8; nearest: 8"),
            (json!({"columns": {"max": 12}}), "columns.max: 12 is out of range: 3 to 11"),
            (json!({"columns": {"min": 5, "max": 4}}), "columns.min: 5 is above columns.max"),
            (json!({"names": 7}), "names: 8 rows, of which no two are alike, need 8, not 7; nearest: 8"),
            (json!({"numbers": 7}), "numbers: 8 rows"),
            (json!({"words": 9}), "words: 9 is out of range: 2 to 8"),
            (json!({"ops": []}), "ops: name at least a question"),
            (json!({"ops": ["max", "max"]}), "ops: `max` is named twice"),
            (json!({"rewards": []}), "rewards: name at least a component"),
            (json!({"permutations": 0}), "permutations: 0 is out of range"),
            (json!({"source": "x"}), "rewards: real tables (`source`) come without plans"),
            (json!({"file": "x.tsv"}), "file: is a file of real questions"),
            (json!({"row": {}}), "row: unknown field"),
        ] {
            let found = read::<Config>(&given).and_then(|config| config.check()).unwrap_err().to_string();
            assert!(found.starts_with(expected), "{given}: {found}");
        }
        assert!(read::<Config>(&json!({"names": 8, "numbers": 8, "words": 2})).unwrap().check().is_ok());
    }
}
