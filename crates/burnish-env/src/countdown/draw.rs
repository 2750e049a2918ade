//! Draws puzzles from a hidden solution, so that they are solvable.

use burnish_core::rng::Stream;

use super::config::{Cell, Config};
use super::expression::{Expression, Operator};
use super::puzzle::Puzzle;
use super::rational::Rational;

/// Why a candidate is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Miss {
    /// No allowed operator can join the remaining parts, or only without effect (`x * 1`, `x - 0`, `4 - 2`).
    NoOperation,
    /// The value is not an integer above 0.
    NotWhole,
    /// The value is outside the range of targets.
    OutOfRange(i128),
    /// The target is one of the numbers.
    Given,
    /// One operation reaches the target, although several were required.
    OneStep,
}

impl Miss {
    pub(super) fn name(self) -> &'static str {
        match self {
            Miss::NoOperation => "no_operation",
            Miss::NotWhole => "not_whole",
            Miss::OutOfRange(_) => "target_out_of_range",
            Miss::Given => "target_given",
            Miss::OneStep => "one_step",
        }
    }
}

/// Draws one candidate of a cell: a puzzle, and the expression that it was made from.
pub(super) fn draw(config: &Config, cell: Cell, stream: &mut Stream) -> Result<(Puzzle, Expression), Miss> {
    let span = u64::from(config.values.max - config.values.min) + 1;
    // Below `span`, so it fits 32 bits.
    let mut numbers: Vec<u32> =
        (0..cell.numbers).map(|_| config.values.min + stream.below(span) as u32).collect();
    let solution = hidden_solution(config, &numbers[..=cell.operations as usize], stream)?;
    let value = solution.value().ok().and_then(Rational::as_whole).filter(|value| *value > 0);
    let value = value.ok_or(Miss::NotWhole)?;
    let target = u32::try_from(value).ok().filter(|target| config.target.contains(*target));
    let target = target.ok_or(Miss::OutOfRange(value))?;
    if numbers.contains(&target) {
        return Err(Miss::Given);
    }
    numbers.sort_unstable();
    let puzzle = Puzzle {
        numbers,
        target,
        operators: config.operators.clone(),
        use_all: config.use_all,
        whole_steps: config.whole_steps,
    };
    if cell.operations > 1 && !config.use_all && is_one_step(&puzzle) {
        return Err(Miss::OneStep);
    }
    Ok((puzzle, solution))
}

/// Joins `numbers` by random operations until one expression remains.
fn hidden_solution(config: &Config, numbers: &[u32], stream: &mut Stream) -> Result<Expression, Miss> {
    let mut parts: Vec<(Expression, Rational)> = numbers
        .iter()
        .map(|&number| (Expression::Number(i128::from(number)), Rational::whole(i128::from(number))))
        .collect();
    while parts.len() > 1 {
        let one = parts.swap_remove(stream.index(parts.len()));
        let other = parts.swap_remove(stream.index(parts.len()));
        // The larger operand comes first, so that no intermediate result is negative.
        let (left, right) = if one.1 >= other.1 { (one, other) } else { (other, one) };
        let candidates: Vec<(Operator, Rational)> = config
            .operators
            .iter()
            .filter_map(|&operator| Some((operator, useful(left.1, operator, right.1, config.whole_steps)?)))
            .collect();
        let &(operator, value) = candidates.get(stream.index(candidates.len())).ok_or(Miss::NoOperation)?;
        parts.push((Expression::apply(left.0, operator, right.0), value));
    }
    parts.pop().map(|(solution, _)| solution).ok_or(Miss::NoOperation)
}

/// The result of an operation that is allowed and has an effect: the result exists, is not 0, equals neither operand,
/// and is an integer if that is required.
fn useful(left: Rational, operator: Operator, right: Rational, whole: bool) -> Option<Rational> {
    left.apply(operator, right)
        .ok()
        .filter(|result| *result != left && *result != right && *result != Rational::whole(0))
        .filter(|result| !whole || result.as_whole().is_some())
}

/// Does one operation on two of the numbers reach the target?
fn is_one_step(puzzle: &Puzzle) -> bool {
    let values: Vec<Rational> = puzzle.numbers.iter().map(|&n| Rational::whole(i128::from(n))).collect();
    let target = Ok(Rational::whole(i128::from(puzzle.target)));
    let reaches = |a: Rational, b: Rational| puzzle.operators.iter().any(|&op| a.apply(op, b) == target);
    values.iter().enumerate().any(|(i, &a)| values.iter().enumerate().any(|(j, &b)| i != j && reaches(a, b)))
}
