//! What tasks are made of: in words, as Python, and as what they do.

use burnish_core::rng::Stream;

use super::config::Range;

/// One step: a list becomes another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Keeps the even numbers.
    Even,
    /// Keeps the odd numbers.
    Odd,
    /// Keeps numbers above this.
    Above(i64),
    /// Keeps numbers below this.
    Below(i64),
    /// Adds this to each.
    Add(i64),
    /// Multiplies each by this.
    Times(i64),
    /// Squares each.
    Square,
    /// Drops the first.
    DropFirst,
    /// Drops the last.
    DropLast,
    /// Reverses the list.
    Reverse,
    /// Sorts the list.
    Sort,
}

/// What is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The list.
    List,
    /// Its sum.
    Sum,
    /// Its length.
    Length,
    /// Its largest number, or 0.
    Largest,
}

impl Step {
    /// A random step.
    pub(super) fn draw(stream: &mut Stream, values: Range) -> Self {
        let span = u64::from(values.max - values.min) + 1;
        let value = i64::from(values.min) + i64::try_from(stream.below(span)).unwrap_or_default();
        match stream.below(11) {
            0 => Step::Even,
            1 => Step::Odd,
            2 => Step::Above(value),
            3 => Step::Below(value),
            4 => Step::Add(value),
            5 => Step::Times(value),
            6 => Step::Square,
            7 => Step::DropFirst,
            8 => Step::DropLast,
            9 => Step::Reverse,
            _ => Step::Sort,
        }
    }

    /// In words.
    pub(super) fn words(self) -> String {
        match self {
            Step::Even => "keep even".into(),
            Step::Odd => "keep odd".into(),
            Step::Above(value) => format!("keep above {value}"),
            Step::Below(value) => format!("keep below {value}"),
            Step::Add(value) => format!("add {value}"),
            Step::Times(value) => format!("times {value}"),
            Step::Square => "square".into(),
            Step::DropFirst => "drop first".into(),
            Step::DropLast => "drop last".into(),
            Step::Reverse => "reverse".into(),
            Step::Sort => "sort".into(),
        }
    }

    /// The Python expression of the new `xs`.
    pub(super) fn python(self) -> String {
        match self {
            Step::Even => "[x for x in xs if x % 2 == 0]".into(),
            Step::Odd => "[x for x in xs if x % 2 == 1]".into(),
            Step::Above(value) => format!("[x for x in xs if x > {value}]"),
            Step::Below(value) => format!("[x for x in xs if x < {value}]"),
            Step::Add(value) => format!("[x + {value} for x in xs]"),
            Step::Times(value) => format!("[x * {value} for x in xs]"),
            Step::Square => "[x * x for x in xs]".into(),
            Step::DropFirst => "xs[1:]".into(),
            Step::DropLast => "xs[:-1]".into(),
            Step::Reverse => "xs[::-1]".into(),
            Step::Sort => "sorted(xs)".into(),
        }
    }

    /// What it does. Numbers stay far below the largest i64: at most 8 steps, on small numbers; what is beyond it wraps
    /// and is dropped by the generator's bound.
    pub(super) fn apply(self, mut list: Vec<i64>) -> Vec<i64> {
        match self {
            Step::Even => list.retain(|x| x.rem_euclid(2) == 0),
            Step::Odd => list.retain(|x| x.rem_euclid(2) == 1),
            Step::Above(value) => list.retain(|x| *x > value),
            Step::Below(value) => list.retain(|x| *x < value),
            Step::Add(value) => list.iter_mut().for_each(|x| *x = x.saturating_add(value)),
            Step::Times(value) => list.iter_mut().for_each(|x| *x = x.saturating_mul(value)),
            Step::Square => list.iter_mut().for_each(|x| *x = x.saturating_mul(*x)),
            Step::DropFirst => drop(list.drain(..list.len().min(1))),
            Step::DropLast => drop(list.pop()),
            Step::Reverse => list.reverse(),
            Step::Sort => list.sort_unstable(),
        }
        list
    }
}

impl End {
    /// All of them.
    pub(super) const ALL: [End; 4] = [End::List, End::Sum, End::Length, End::Largest];

    /// In words.
    pub(super) fn words(self) -> &'static str {
        match self {
            End::List => "list",
            End::Sum => "sum",
            End::Length => "length",
            End::Largest => "largest",
        }
    }

    /// The Python expression.
    pub(super) fn python(self) -> &'static str {
        match self {
            End::List => "xs",
            End::Sum => "sum(xs)",
            End::Length => "len(xs)",
            End::Largest => "max(xs, default=0)",
        }
    }

    /// What it is, as Python prints it. `None` if a number is beyond [`LARGEST`].
    pub(super) fn of(self, list: &[i64]) -> Option<String> {
        let is_small = |x: &i64| (-LARGEST..=LARGEST).contains(x);
        if !list.iter().all(is_small) {
            return None;
        }
        Some(match self {
            End::List => shown(list),
            End::Sum => list.iter().sum::<i64>().to_string(),
            End::Length => list.len().to_string(),
            End::Largest => list.iter().max().copied().unwrap_or(0).to_string(),
        })
    }
}

/// Largest number in a result.
const LARGEST: i64 = 1 << 40;

/// A list as Python prints it.
pub(super) fn shown(list: &[i64]) -> String {
    let numbers: Vec<String> = list.iter().map(i64::to_string).collect();
    format!("[{}]", numbers.join(", "))
}
