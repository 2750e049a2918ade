//! Plans: steps of an operation and a mask of cells, and their text.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::table::{Order, ordered};

/// What is between the steps of a plan.
pub(super) const STEP_END: char = ';';

/// Most steps of a plan.
pub const STEPS_MAX: usize = 4;

/// What a step does with the cells that it looks at; [`super::execute`] says how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Takes the row of one name.
    Find,
    /// Reads one cell.
    Read,
    /// Takes the row of the largest number of a column.
    Max,
    /// Takes the row of the smallest number of a column.
    Min,
    /// Looks through a column for a value.
    Filter,
    /// Counts the cells with the value.
    Count,
    /// Adds up numbers in the rows with the value.
    Sum,
    /// Says whether what was read is larger.
    Larger,
    /// Says whether what was read is smaller.
    Smaller,
}

impl Op {
    /// All of them.
    pub const ALL: [Op; 9] =
        [Op::Find, Op::Read, Op::Max, Op::Min, Op::Filter, Op::Count, Op::Sum, Op::Larger, Op::Smaller];

    /// Its word in plans.
    pub fn name(self) -> &'static str {
        match self {
            Op::Find => "find",
            Op::Read => "read",
            Op::Max => "max",
            Op::Min => "min",
            Op::Filter => "filter",
            Op::Count => "count",
            Op::Sum => "sum",
            Op::Larger => "larger",
            Op::Smaller => "smaller",
        }
    }
}

/// A step: an operation, and the cells that it looks at. These are the product of a set of rows and a set of columns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// What it does.
    pub op: Op,
    /// Which rows it looks at, of all rows of the table.
    pub rows: Vec<bool>,
    /// Which columns it looks at, of all columns.
    pub columns: Vec<bool>,
}

/// The positions of the set bits.
fn set(bits: &[bool]) -> impl Iterator<Item = usize> + Clone {
    bits.iter().enumerate().filter(|(_, bit)| **bit).map(|(at, _)| at)
}

impl Step {
    /// A step that looks at `rows` × `columns` of a table of `size` rows and columns.
    pub(super) fn at(op: Op, (height, width): (usize, usize), rows: &[usize], columns: &[usize]) -> Self {
        Step {
            op,
            rows: (0..height).map(|row| rows.contains(&row)).collect(),
            columns: (0..width).map(|column| columns.contains(&column)).collect(),
        }
    }

    /// The cells that it looks at, row by row: pairs of row and column.
    pub fn cells(&self) -> impl Iterator<Item = (usize, usize)> {
        set(&self.rows).flat_map(|row| set(&self.columns).map(move |column| (row, column)))
    }

    /// Its mask M ∈ {0,1}^(R×C), row by row.
    pub fn mask(&self) -> Vec<bool> {
        self.rows.iter().flat_map(|&row| self.columns.iter().map(move |&column| row && column)).collect()
    }

    /// F1 of its cells against those of `gold`: 2 |A ∩ B| / (|A| + |B|), and 1 if both look at nothing. The operations do
    /// not matter.
    pub fn f1(&self, gold: &Step) -> f64 {
        let size = |bits: &[bool]| set(bits).count();
        let shared = |own: &[bool], other: &[bool]| own.iter().zip(other).filter(|(a, b)| **a && **b).count();
        let both = shared(&self.rows, &gold.rows) * shared(&self.columns, &gold.columns);
        let each = |step: &Step| size(&step.rows) * size(&step.columns);
        match each(self) + each(gold) {
            0 => 1.0,
            all => 2.0 * both as f64 / all as f64,
        }
    }

    fn permuted(&self, order: &Order) -> Step {
        Step {
            op: self.op,
            rows: ordered(&self.rows, &order.rows),
            columns: ordered(&self.columns, &order.columns),
        }
    }
}

/// A plan: steps in the order in which they are executed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Plan(pub Vec<Step>);

/// Why a text is not a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// There is no step.
    #[error("there is no plan")]
    Empty,
    /// Too many steps.
    #[error("the plan has {0} steps; at most {STEPS_MAX} are allowed")]
    Steps(usize),
    /// A step does not begin with an operation.
    #[error("step {step} begins with `{found}`, which is no operation")]
    Op {
        /// Number of the step, from 1.
        step: usize,
        /// What it begins with.
        found: String,
    },
    /// A step has not one colon between rows and columns.
    #[error("step {step} has {found} `:`; there is one, between the bits of rows and those of columns")]
    Colons {
        /// Number of the step, from 1.
        step: usize,
        /// Colons that it has.
        found: usize,
    },
    /// Something else stands where a bit is expected.
    #[error("step {step} has `{found}` where 0 or 1 is expected")]
    Bit {
        /// Number of the step, from 1.
        step: usize,
        /// What stands there.
        found: String,
    },
    /// Too many or too few bits.
    #[error("step {step} has {found} bits for {expected} {what}")]
    Bits {
        /// Number of the step, from 1.
        step: usize,
        /// `rows` or `columns`.
        what: &'static str,
        /// Bits that it has.
        found: usize,
        /// Rows or columns of the table.
        expected: usize,
    },
}

/// The beginning of a word of an answer, for a message about it.
fn beginning(word: Option<&&str>) -> String {
    word.map_or("", |word| word).chars().take(16).collect()
}

impl Plan {
    /// Reads a plan for a table with so many rows and columns. Blanks and line breaks only separate.
    ///
    /// # Errors
    /// Says what is wrong with the first step that is malformed.
    pub fn parse(text: &str, rows: usize, columns: usize) -> Result<Plan, Malformed> {
        if text.trim().is_empty() {
            return Err(Malformed::Empty);
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let steps: Vec<&[&str]> = words.split(|word| *word == ";").collect();
        if steps.len() > STEPS_MAX {
            return Err(Malformed::Steps(steps.len()));
        }
        let of = |(at, words): (usize, &&[&str])| Plan::parse_step(at + 1, words, rows, columns);
        Ok(Plan(steps.iter().enumerate().map(of).collect::<Result<_, _>>()?))
    }

    fn parse_step(step: usize, words: &[&str], rows: usize, columns: usize) -> Result<Step, Malformed> {
        let op = Op::ALL.into_iter().find(|op| words.first() == Some(&op.name()));
        let op = op.ok_or_else(|| Malformed::Op { step, found: beginning(words.first()) })?;
        let parts: Vec<&[&str]> = words[1..].split(|word| *word == ":").collect();
        let [row_words, column_words] = parts[..] else {
            return Err(Malformed::Colons { step, found: parts.len() - 1 });
        };
        let bits = |words: &[&str], what, expected| {
            let bit = |word: &&str| match *word {
                "0" => Ok(false),
                "1" => Ok(true),
                _ => Err(Malformed::Bit { step, found: beginning(Some(word)) }),
            };
            let bits = words.iter().map(bit).collect::<Result<Vec<bool>, _>>()?;
            let found = bits.len();
            (found == expected).then_some(bits).ok_or(Malformed::Bits { step, what, found, expected })
        };
        let rows = bits(row_words, "rows", rows)?;
        Ok(Step { op, rows, columns: bits(column_words, "columns", columns)? })
    }

    /// F1 of cells, averaged over steps that are aligned by position; a step that only one of the two plans has counts
    /// as 0. Two empty plans have 1.
    pub fn mask_f1(&self, gold: &Plan) -> f64 {
        let steps = self.0.len().max(gold.0.len());
        let sum: f64 = self.0.iter().zip(&gold.0).map(|(step, gold)| step.f1(gold)).sum();
        if steps == 0 { 1.0 } else { sum / steps as f64 }
    }

    /// The plan for the same table in another order.
    pub fn permuted(&self, order: &Order) -> Plan {
        Plan(self.0.iter().map(|step| step.permuted(order)).collect())
    }
}

impl fmt::Display for Plan {
    /// `find 1 0 0 0 : 1 0 0 ; read 1 0 0 0 : 0 1 0`: one word for each bit, so that each can be one token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.0.iter().enumerate() {
            f.write_str(if at > 0 { " ; " } else { "" })?;
            f.write_str(step.op.name())?;
            step.rows.iter().try_for_each(|&bit| write!(f, " {}", u8::from(bit)))?;
            f.write_str(" :")?;
            step.columns.iter().try_for_each(|&bit| write!(f, " {}", u8::from(bit)))?;
        }
        Ok(())
    }
}
