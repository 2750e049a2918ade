//! Thoughts that try answers, doubt them and try again: how demonstrations write them, and what the tries of an answer
//! came to.
//!
//! The kinds of reflection are those of "First Try Matters" (arXiv:2510.08308): what follows a try either confirms it,
//! corrects it, spoils it, or goes from one wrong answer to another.

use burnish_core::Message;
use burnish_core::rng::Stream;
use serde::{Deserialize, Serialize};

use super::config::Thoughts;
use super::expression::{Expression, Operator, parse};
use super::puzzle::Puzzle;
use super::rational::Fault;

/// What stands before a try.
const AFTER: &str = "answer is";

/// The settings of thoughts with tries.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tries {
    /// Most wrong tries before the right one; each number from 0 on is as likely as any other.
    pub wrong: u32,
    /// How often a right try is doubted too, though nothing comes of it.
    pub doubted: f64,
}

impl Tries {
    /// Greatest number of wrong tries.
    const WRONG_MAX: u32 = 8;

    /// What is out of its range: the key, and what is allowed.
    pub(super) fn problem(self) -> Option<(&'static str, String)> {
        if self.wrong > Tries::WRONG_MAX {
            let allowed = format!("{} is out of range: 0 to {} are allowed", self.wrong, Tries::WRONG_MAX);
            return Some(("thoughts.tries.wrong", allowed));
        }
        let is_share = (0.0..=1.0).contains(&self.doubted);
        (!is_share).then(|| {
            ("thoughts.tries.doubted", format!("{} is out of range: 0 to 1 are allowed", self.doubted))
        })
    }
}

/// What the tries of an answer's thoughts came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reflection {
    /// Whether the first try was right; `None` without a try.
    pub first: Option<bool>,
    /// Tries that repeat the one before them, right or wrong, or replace a right one by another right one.
    pub confirmed: usize,
    /// Right tries after a wrong one.
    pub corrected: usize,
    /// Wrong tries after a right one.
    pub harmed: usize,
    /// Wrong tries after another wrong one.
    pub switched: usize,
}

impl Reflection {
    /// Number of tries after the first.
    pub fn count(&self) -> usize {
        self.confirmed + self.corrected + self.harmed + self.switched
    }

    /// Its findings, by name.
    pub(super) fn flags(&self) -> [(&'static str, bool); 5] {
        [
            ("first_try", self.first == Some(true)),
            ("reflected", self.count() > 0),
            ("confirmed", self.confirmed > 0),
            ("corrected", self.corrected > 0),
            ("harmed", self.harmed > 0),
        ]
    }
}

impl Puzzle {
    /// An answer whose thoughts state `solution` after wrong tries, each of which is checked and found wrong. `stream`
    /// decides how many and which.
    ///
    /// # Errors
    /// If the solution has no value.
    pub fn tried(&self, solution: &Expression, tries: Tries, stream: &mut Stream) -> Result<Message, Fault> {
        let mut others = self.near(solution);
        stream.shuffle(&mut others);
        others.truncate(stream.below(u64::from(tries.wrong) + 1) as usize);
        let mut thoughts = String::new();
        for wrong in &others {
            thoughts += &format!(
                "The {AFTER} {wrong}.\n\nWait, {}, not {}.\n\n",
                wrong.steps()?.join(", "),
                self.target
            );
        }
        thoughts += &format!("The {AFTER} {solution}.\n\n");
        if stream.uniform() < tries.doubted {
            thoughts += &format!("Wait, {}. The {AFTER} {solution}.\n\n", solution.steps()?.join(", "));
        }
        Ok(Message::assistant(format!("<think>\n{thoughts}</think>\n{solution}")))
    }

    /// Expressions by the rules that differ from `solution` in one place or two and miss the target, each once.
    fn near(&self, solution: &Expression) -> Vec<Expression> {
        let once = self.changed(solution);
        let twice = once.iter().flat_map(|expression| self.changed(expression));
        let mut found: Vec<Expression> = Vec::new();
        for expression in once.iter().cloned().chain(twice) {
            let finding = self.judge_expression(&expression);
            let misses = finding.flags.iter().all(|(_, is_set)| !is_set);
            if misses && expression.is_natural() && !found.contains(&expression) {
                found.push(expression);
            }
        }
        found
    }

    /// The expression with one operator or one number replaced, or the operands of one operation exchanged.
    fn changed(&self, expression: &Expression) -> Vec<Expression> {
        match expression {
            Expression::Number(number) => {
                let others = self.numbers.iter().map(|&given| i128::from(given));
                others.filter(|given| given != number).map(Expression::Number).collect()
            }
            Expression::Apply(left, operator, right) => {
                let whole = |left: &Expression, operator: Operator, right: &Expression| {
                    Expression::apply(left.clone(), operator, right.clone())
                };
                let operators = self.operators.iter().filter(|other| *other != operator);
                let mut all: Vec<Expression> = operators.map(|other| whole(left, *other, right)).collect();
                all.push(whole(right, *operator, left));
                all.extend(self.changed(left).iter().map(|left| whole(left, *operator, right)));
                all.extend(self.changed(right).iter().map(|right| whole(left, *operator, right)));
                all
            }
        }
    }

    /// What the tries in the thoughts of an answer came to. A try is an expression that stands behind the words "answer
    /// is", up to a full stop or the end of the line; what is no expression is a wrong try.
    pub fn reflection(&self, answer: &str) -> Reflection {
        let thoughts = answer.rsplit_once("</think>").map_or(answer, |(thoughts, _)| thoughts);
        let tries = thoughts.split(AFTER).skip(1).map(|rest| {
            let text = rest.split(['.', '\n', '<']).next().unwrap_or_default().trim();
            let parsed = parse(text, i128::from(self.target)).ok();
            (text, parsed.is_some_and(|expression| self.judge_expression(&expression).is_solution))
        });
        let mut reflection = Reflection::default();
        let mut before: Option<(&str, bool)> = None;
        for now in tries {
            match before {
                None => reflection.first = Some(now.1),
                Some((text, was_right)) => match (was_right, now.1) {
                    (true, true) => reflection.confirmed += 1,
                    (false, true) => reflection.corrected += 1,
                    (true, false) => reflection.harmed += 1,
                    (false, false) if text == now.0 => reflection.confirmed += 1,
                    (false, false) => reflection.switched += 1,
                },
            }
            before = Some(now);
        }
        reflection
    }
}

impl Expression {
    /// Its operations in words, in the order of evaluation.
    fn steps(&self) -> Result<Vec<String>, Fault> {
        Ok(self.operations()?.iter().map(ToString::to_string).collect())
    }

    /// Whether every result on the way is a whole number that is not negative.
    fn is_natural(&self) -> bool {
        let whole = |operations: Vec<super::Operation>| {
            operations.iter().all(|it| it.result.as_whole().is_some_and(|result| result >= 0))
        };
        self.operations().is_ok_and(whole)
    }
}

impl Thoughts {
    /// Whether they are the steps of the solution.
    pub(super) fn are_steps(&self) -> bool {
        *self == Thoughts::Steps
    }

    /// The tries, if there are any.
    pub(super) fn tries(self) -> Option<Tries> {
        match self {
            Thoughts::Steps => None,
            Thoughts::Tries(tries) => Some(tries),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::countdown::{Config, Countdown, Operator};
    use crate::{Demonstrations, Generator};

    fn puzzle() -> Puzzle {
        Puzzle {
            numbers: vec![3, 7, 25, 50],
            target: 78,
            operators: Operator::ALL.to_vec(),
            use_all: false,
            whole_steps: true,
        }
    }

    #[test]
    fn a_demonstration_states_wrong_tries_finds_them_wrong_and_ends_with_the_solution() {
        let (puzzle, mut lengths) = (puzzle(), [0; 3]);
        let solution = parse("50 + 25 + 3", 78).unwrap();
        for seed in 0..60 {
            let tries = Tries { wrong: 2, doubted: 0.5 };
            let message = puzzle.tried(&solution, tries, &mut Stream::new(seed)).unwrap();
            assert!(puzzle.judge(&message.content).is_solution);
            let reflection = puzzle.reflection(&message.content);
            let wrong = message.content.matches("not 78.").count();
            lengths[wrong] += 1;
            assert_eq!(reflection.first, Some(wrong == 0));
            assert_eq!((reflection.corrected, reflection.harmed), (usize::from(wrong > 0), 0));
            assert_eq!(reflection.switched, wrong.saturating_sub(1));
        }
        assert!(lengths.iter().all(|count| *count > 8), "{lengths:?}");
    }

    #[test]
    fn a_demonstration_reads_so() {
        let solution = parse("50 + 25 + 3", 78).unwrap();
        let tries = Tries { wrong: 0, doubted: 1.0 };
        let message = puzzle().tried(&solution, tries, &mut Stream::new(1)).unwrap();
        let said = "<think>\nThe answer is (50 + 25) + 3.\n\nWait, 50 + 25 = 75, 75 + 3 = 78. The answer is (50 + 25) + \
                    3.\n\n</think>\n(50 + 25) + 3";
        assert_eq!(message.content, said);
        let tries = Tries { wrong: 1, doubted: 0.0 };
        let doubted = (0..20).map(|seed| puzzle().tried(&solution, tries, &mut Stream::new(seed)).unwrap());
        let doubted: Vec<Message> = doubted.filter(|message| message.content.contains("Wait")).collect();
        assert!(
            !doubted.is_empty() && doubted.iter().all(|message| message.content.contains(", not 78.\n\n"))
        );
    }

    #[test]
    fn what_follows_a_try_confirms_corrects_harms_or_switches() {
        let seen = |text: &str| puzzle().reflection(text);
        let (right, wrong, other) = ("answer is 50 + 25 + 3.", "answer is 50 + 25.", "the answer is 7\n");
        assert_eq!(seen("no try </think> answer is 3"), Reflection::default());
        let first = |first| Reflection { first: Some(first), ..Reflection::default() };
        assert_eq!(seen(right), first(true));
        assert_eq!(seen(&[right, right].concat()), Reflection { confirmed: 1, ..first(true) });
        assert_eq!(
            seen(&[right, "answer is 25 + 50 + 3."].concat()),
            Reflection { confirmed: 1, ..first(true) }
        );
        assert_eq!(seen(&[wrong, right].concat()), Reflection { corrected: 1, ..first(false) });
        assert_eq!(seen(&[right, wrong].concat()), Reflection { harmed: 1, ..first(true) });
        assert_eq!(seen(&[wrong, other].concat()), Reflection { switched: 1, ..first(false) });
        assert_eq!(seen(&[wrong, wrong].concat()), Reflection { confirmed: 1, ..first(false) });
        assert_eq!(seen("answer is nothing at all."), first(false));
    }

    #[test]
    fn the_same_task_is_always_demonstrated_alike_and_keeps_its_name() {
        let plain = Countdown::new(Config::default()).unwrap();
        let thoughts = Thoughts::Tries(Tries { wrong: 3, doubted: 0.5 });
        let tried = Countdown::new(Config { thoughts, ..Config::default() }).unwrap();
        for (task, same) in plain.tasks(5, 20).unwrap().tasks.iter().zip(tried.tasks(5, 20).unwrap().tasks) {
            assert_eq!(*task, same);
            assert_eq!(tried.demonstrate(task), tried.demonstrate(&same));
            assert!(!plain.demonstrate(task).unwrap().content.contains("answer is"));
        }
    }

    proptest! {
        /// Text behind the last try changes no count, and there is one kind for each try after the first.
        #[test]
        fn counts_sum_to_the_tries_after_the_first(picks in prop::collection::vec(0_usize..3, 0..8)) {
            let said = ["The answer is 50 + 25 + 3.\n\n", "The answer is 50 + 25.\n\n", "The answer is 7.\n\n"];
            let text: String = picks.iter().map(|pick| said[*pick]).collect();
            let reflection = puzzle().reflection(&text);
            prop_assert_eq!(reflection.count(), picks.len().saturating_sub(1));
            prop_assert_eq!(reflection.first.is_some(), !picks.is_empty());
            let more = format!("{text}Wait, 50 + 25 = 75, not 78.\n\n</think>\n7");
            prop_assert_eq!(puzzle().reflection(&more), reflection);
        }
    }
}
