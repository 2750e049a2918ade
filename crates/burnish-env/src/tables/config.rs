//! The configuration of tables.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

use super::draw::{NAMES, NUMBERS, WORDS};
use crate::EnvError;
use crate::family::configuration;
use crate::settings::config_error;

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

configuration! {
    /// The configuration of tables and questions.
    #[derive(Eq)]
    pub struct Config {
        /// The header is not counted. Tasks are spread evenly over the range.
        rows: Range = Range { min: 4, max: 8 }, in 2..=16, "fewest rows" | "most rows";
        /// The column of names is counted.
        columns: Range = Range { min: 3, max: 5 }, in 3..=COLUMNS_MAX, "fewest columns" | "most columns";
        ops: Vec<Question> = Question::ALL.to_vec(), "questions, as often as each other";
        names: usize = 16, in 2..=NAMES.len(), "different names";
        /// No column has one twice.
        numbers: usize = 40, in 2..=90, "different numbers, from 10 on";
        words: usize = 4, in 2..=WORDS[0].1.len(), "different words of a column";
        numbered: bool = false, "each row begins with its number";
        /// The first is as it was drawn.
        permutations: usize = 1, in 1..=64, "versions of each task in different orders";
        shuffle: Shuffle = Shuffle::Rows, "parts that get another order";
        rewards: Vec<Component> = vec![Component::Answer], "reward components of the verdict";
        source: String = String::new(), "a directory with WikiTableQuestions or TabFact; empty for generated tables";
        file: String = String::new(), "file of questions in it; empty for the usual one";
        /// Questions about larger ones are left out.
        cells_max: usize = 64, in 1..=4096, "most cells of a real table";
    }
}

/// Most columns: that of names, and one for each other header.
const COLUMNS_MAX: usize = 1 + NUMBERS.len() + WORDS.len();

impl Config {
    /// Are the tables real, with proxies for masks?
    pub(super) fn is_real(&self) -> bool {
        !self.source.is_empty()
    }

    /// Checks what bounds do not express.
    ///
    /// # Errors
    /// Names the first key that contradicts another.
    pub(super) fn check(&self) -> Result<(), EnvError> {
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
    use crate::build;
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
            let found = build("tables", &given).map(drop).unwrap_err().to_string();
            assert!(found.starts_with(expected), "{given}: {found}");
        }
        assert!(build("tables", &json!({"names": 8, "numbers": 8, "words": 2})).is_ok());
    }
}
