//! An exhaustive search for a solution.

use std::collections::HashSet;

use super::expression::Expression;
use super::puzzle::Puzzle;
use super::rational::Rational;

/// Most numbers that [`solve`] accepts: the search grows faster than factorially.
pub const SOLVE_NUMBERS_MAX: usize = 6;

/// An expression that solves the puzzle, or `None` if there is none.
///
/// Joins every pair of the remaining parts with every operator, depth first, and visits each multiset of values once.
/// Refuses puzzles with more than [`SOLVE_NUMBERS_MAX`] numbers (also `None`).
pub fn solve(puzzle: &Puzzle) -> Option<Expression> {
    if puzzle.numbers.len() > SOLVE_NUMBERS_MAX {
        return None;
    }
    let parts = puzzle
        .numbers
        .iter()
        .map(|&number| (Rational::whole(i128::from(number)), Expression::Number(i128::from(number))))
        .collect();
    Search { puzzle, target: Rational::whole(i128::from(puzzle.target)), seen: HashSet::new() }.descend(parts)
}

struct Search<'a> {
    puzzle: &'a Puzzle,
    target: Rational,
    /// Multisets of values from which no solution was found. Only membership is tested, never order.
    seen: HashSet<Vec<Rational>>,
}

impl Search<'_> {
    fn descend(&mut self, mut parts: Vec<(Rational, Expression)>) -> Option<Expression> {
        let is_final = parts.len() == 1;
        if (is_final || !self.puzzle.use_all)
            && let Some((_, solution)) = parts.iter().find(|(value, _)| *value == self.target)
        {
            return Some(solution.clone());
        }
        parts.sort_by_key(|(value, _)| *value);
        if is_final || !self.seen.insert(parts.iter().map(|(value, _)| *value).collect()) {
            return None;
        }
        for i in 0..parts.len() {
            for j in (0..parts.len()).filter(|&j| j != i) {
                if let Some(solution) = self.join(&parts, i, j) {
                    return Some(solution);
                }
            }
        }
        None
    }

    /// Tries every operator on the parts at `i` and `j`, in this order.
    fn join(&mut self, parts: &[(Rational, Expression)], i: usize, j: usize) -> Option<Expression> {
        let (left, right) = (&parts[i], &parts[j]);
        for &operator in &self.puzzle.operators {
            if operator.is_commutative() && i > j {
                continue;
            }
            let Ok(value) = left.0.apply(operator, right.0) else { continue };
            if self.puzzle.whole_steps && value.as_whole().is_none() {
                continue;
            }
            let mut rest: Vec<_> =
                (0..parts.len()).filter(|&k| k != i && k != j).map(|k| parts[k].clone()).collect();
            rest.push((value, Expression::apply(left.1.clone(), operator, right.1.clone())));
            let solution = self.descend(rest);
            if solution.is_some() {
                return solution;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::countdown::Operator;

    fn puzzle(numbers: &[u32], target: u32) -> Puzzle {
        Puzzle {
            numbers: numbers.to_vec(),
            target,
            operators: Operator::ALL.to_vec(),
            use_all: true,
            whole_steps: false,
        }
    }

    fn check_solvable(puzzle: &Puzzle) {
        let solution = solve(puzzle).unwrap_or_else(|| panic!("{puzzle:?} has a solution"));
        assert!(puzzle.judge(&solution.to_string()).is_solution, "{solution}");
    }

    #[test]
    fn known_puzzles_are_solved_and_unsolvable_ones_are_not() {
        check_solvable(&puzzle(&[3, 3, 8, 8], 24));
        check_solvable(&puzzle(&[1, 5, 5, 5], 24));
        assert_eq!(solve(&Puzzle { whole_steps: true, ..puzzle(&[3, 3, 8, 8], 24) }), None);
        assert_eq!(solve(&puzzle(&[1, 1, 1, 1], 24)), None);
        assert_eq!(solve(&Puzzle { operators: vec![Operator::Add], ..puzzle(&[3, 4], 12) }), None);
        check_solvable(&Puzzle { use_all: false, ..puzzle(&[2, 9, 40], 18) });
        assert_eq!(solve(&puzzle(&[2, 9, 40], 18)), None);
    }

    #[test]
    fn six_numbers_are_solved() {
        // The puzzle of a well-known broadcast: make 952 from 25 50 75 100 3 6.
        check_solvable(&Puzzle {
            use_all: false,
            whole_steps: true,
            ..puzzle(&[3, 6, 25, 50, 75, 100], 952)
        });
    }
}
