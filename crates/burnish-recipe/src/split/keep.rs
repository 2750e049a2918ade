//! A bound on scores, as people write it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// `">= 4"`
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Keep {
    relation: Relation,
    bound: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    AtLeast,
    AtMost,
    Above,
    Below,
    Is,
}

/// Longer signs come first, so that `>=` is not read as `>`.
const SIGNS: [(&str, Relation); 5] = [
    (">=", Relation::AtLeast),
    ("<=", Relation::AtMost),
    ("==", Relation::Is),
    (">", Relation::Above),
    ("<", Relation::Below),
];

impl Keep {
    /// Whether a task with this score stays.
    pub fn holds(&self, score: f64) -> bool {
        match self.relation {
            Relation::AtLeast => score >= self.bound,
            Relation::AtMost => score <= self.bound,
            Relation::Above => score > self.bound,
            Relation::Below => score < self.bound,
            Relation::Is => score == self.bound,
        }
    }
}

impl TryFrom<String> for Keep {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let read = SIGNS.iter().find_map(|(sign, relation)| {
            let bound: f64 = text.trim().strip_prefix(sign)?.trim().parse().ok()?;
            bound.is_finite().then_some(Keep { relation: *relation, bound })
        });
        read.ok_or_else(|| format!("must be a bound such as \">= 4\" or \"< 4\" (it is {text:?})"))
    }
}

impl From<Keep> for String {
    fn from(keep: Keep) -> String {
        keep.to_string()
    }
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = SIGNS.iter().find(|(_, relation)| *relation == self.relation).map_or("", |(sign, _)| sign);
        write!(f, "{sign} {}", self.bound)
    }
}
