//! One puzzle: its rules, its text, and the judgement of an answer.

use burnish_core::{Message, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use super::config::{PromptStyle, Reward};
use super::expression::{Expression, Operation, Operator, parse};
use super::rational::{Fault, Rational};

/// A puzzle with its rules: the truth of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Puzzle {
    /// The given numbers, in ascending order; a number may occur several times.
    pub numbers: Vec<u32>,
    /// The number to reach.
    pub target: u32,
    /// Operators that may be used.
    pub operators: Vec<Operator>,
    /// Whether every number must be used.
    pub use_all: bool,
    /// Whether every intermediate result must be an integer.
    pub whole_steps: bool,
}

/// The findings about an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Named findings: `parse_error`, `wrong_numbers`, `wrong_operator`, `fraction`, `division_by_zero`, `reached`. All
    /// are always present.
    pub flags: BTreeMap<String, bool>,
    /// Whether the answer reaches the target by the rules.
    pub is_solution: bool,
    /// The value of the expression, if it has one.
    pub value: Option<Rational>,
    /// What is wrong, in words; `None` for a solution.
    pub feedback: Option<String>,
}

impl Puzzle {
    /// The message that presents the puzzle.
    pub fn prompt(&self, style: PromptStyle) -> String {
        match style {
            PromptStyle::Short => self.short_prompt(),
            PromptStyle::Full => self.full_prompt(),
        }
    }

    fn short_prompt(&self) -> String {
        let all = if self.use_all { "\nUse all" } else { "" };
        format!("Numbers {}\nTarget {}{all}", join(&self.numbers, " "), self.target)
    }

    fn full_prompt(&self) -> String {
        let times = if self.use_all { "exactly once" } else { "at most once" };
        let whole = if self.whole_steps { " Every intermediate result must be a whole number." } else { "" };
        format!(
            "Reach {} from the numbers {}.\nUse each number {times}; the operators are {}, and parentheses may \
             be used.{whole}\nThink first if you like, and close your thoughts with </think>. Then write one \
             expression and nothing else.",
            self.target,
            join(&self.numbers, ", "),
            join(&self.operators, " "),
        )
    }

    /// An answer that thinks through the steps of `solution` and then writes it.
    ///
    /// # Errors
    /// If the expression has no value.
    pub fn demonstration(&self, solution: &Expression) -> Result<Message, Fault> {
        let steps: String =
            solution.operations()?.iter().map(|step: &Operation| format!("{step}\n")).collect();
        Ok(Message::assistant(format!("<think>\n{steps}</think>\n{solution}")))
    }

    /// Judges an answer: the text after the last `</think>` must be one expression, optionally followed by `= target`.
    pub fn judge(&self, answer: &str) -> Finding {
        let text = answer.rsplit_once("</think>").map_or(answer, |(_, rest)| rest);
        match parse(text, i128::from(self.target)) {
            Ok(expression) => self.judge_expression(&expression),
            Err(error) => {
                finding(&[("parse_error", true)], None, Some(format!("Not an expression: {error}.")))
            }
        }
    }

    /// Judges an expression.
    pub fn judge_expression(&self, expression: &Expression) -> Finding {
        let value = expression.value();
        let wrong_number = self.wrong_number(&expression.numbers());
        let wrong_operator = expression.operators().into_iter().find(|used| !self.operators.contains(used));
        let fraction = if self.whole_steps { first_fraction(expression) } else { None };
        let is_reached = value == Ok(Rational::whole(i128::from(self.target)));
        let flags = [
            ("wrong_numbers", wrong_number.is_some()),
            ("wrong_operator", wrong_operator.is_some()),
            ("fraction", fraction.is_some()),
            ("division_by_zero", value == Err(Fault::DivisionByZero)),
            ("reached", is_reached),
        ];
        let feedback = wrong_number
            .or_else(|| wrong_operator.map(|operator| format!("The operator {operator} may not be used.")))
            .or_else(|| value.err().map(|fault| format!("The expression has no value: {fault}.")))
            .or_else(|| fraction.map(|step| format!("{step} is not a whole number.")))
            .or_else(|| match value {
                Ok(value) if !is_reached => Some(format!("The value is {value}, not {}.", self.target)),
                _ => None,
            });
        finding(&flags, value.ok(), feedback)
    }

    /// What is wrong with the numbers used, if anything.
    fn wrong_number(&self, used: &[i128]) -> Option<String> {
        let mut left: Vec<i128> = self.numbers.iter().map(|&number| i128::from(number)).collect();
        for number in used {
            let Some(at) = left.iter().position(|given| given == number) else {
                let is_given = self.numbers.iter().any(|&given| i128::from(given) == *number);
                let problem = if is_given { "is used too often" } else { "is not one of the numbers" };
                return Some(format!("{number} {problem}."));
            };
            left.remove(at);
        }
        match left.first() {
            Some(unused) if self.use_all => Some(format!("{unused} is not used.")),
            _ => None,
        }
    }
}

impl Finding {
    /// The verdict for the finding, with the reward component `answer`.
    pub fn verdict(self, reward: &Reward) -> Verdict {
        let earned = match self.is_solution {
            true => reward.correct,
            false if self.flags.get("parse_error") == Some(&true) => reward.wrong_format,
            false => reward.wrong,
        };
        let mut verdict = Verdict::scored("answer", earned, self.is_solution);
        verdict.error_turn = (!self.is_solution).then_some(0);
        verdict.flags = self.flags;
        verdict.feedback = self.feedback;
        verdict
    }
}

/// A finding with these flags; all others are false. An answer with feedback is no solution.
fn finding(flags: &[(&str, bool)], value: Option<Rational>, feedback: Option<String>) -> Finding {
    const NAMES: [&str; 6] =
        ["parse_error", "wrong_numbers", "wrong_operator", "fraction", "division_by_zero", "reached"];
    let flags = NAMES.map(|name| (name.to_owned(), flags.contains(&(name, true))));
    Finding { flags: BTreeMap::from(flags), is_solution: feedback.is_none(), value, feedback }
}

/// The first operation whose result is not an integer. An expression without a value has none.
fn first_fraction(expression: &Expression) -> Option<Operation> {
    expression.operations().ok()?.into_iter().find(|operation| operation.result.as_whole().is_none())
}

fn join<T: ToString>(items: &[T], separator: &str) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn puzzle() -> Puzzle {
        Puzzle {
            numbers: vec![3, 7, 25, 50],
            target: 76,
            operators: Operator::ALL.to_vec(),
            use_all: false,
            whole_steps: true,
        }
    }

    /// The flags that are set, and the feedback.
    fn judged(puzzle: &Puzzle, answer: &str) -> (Vec<String>, String) {
        let finding = puzzle.judge(answer);
        assert_eq!(finding.flags.len(), 6);
        let set = finding.flags.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name).collect();
        (set, finding.feedback.unwrap_or_default())
    }

    fn check(puzzle: &Puzzle, answer: &str, flags: &[&str], feedback: &str) {
        let (set, said) = judged(puzzle, answer);
        assert_eq!(
            (set, said.as_str()),
            (flags.iter().map(|f| f.to_string()).collect(), feedback),
            "{answer}"
        );
    }

    #[test]
    fn a_solution_is_accepted_in_every_form_that_is_allowed() {
        let solvable = Puzzle { numbers: vec![1, 3, 25, 50], ..puzzle() };
        for answer in [
            "50 + 25 + 1",
            "(50+25)+1 = 76",
            "<think>\n50 * 3?\n</think>\n25 + 50 + 1\n",
            "<think>a</think> no <think>b</think>1+25+50",
        ] {
            check(&solvable, answer, &["reached"], "");
        }
    }

    #[test]
    fn every_way_of_being_wrong_has_its_flag_and_its_words() {
        let p = puzzle();
        check(&p, "I give up", &["parse_error"], "Not an expression: `I` does not belong in an expression.");
        let unclosed = "Not an expression: `<` does not belong in an expression.";
        check(&p, "<think> 50 + 25", &["parse_error"], unclosed);
        check(&p, "50 + 25 + 1", &["reached", "wrong_numbers"], "1 is not one of the numbers.");
        check(&p, "50 + 50", &["wrong_numbers"], "50 is used too often.");
        check(&p, "7 / (25 - 25)", &["division_by_zero", "wrong_numbers"], "25 is used too often.");
        check(&p, "7 + 3", &[], "The value is 10, not 76.");
        check(&p, "25 / 3", &["fraction"], "25 / 3 = 25/3 is not a whole number.");
        check(&Puzzle { whole_steps: false, ..p.clone() }, "25 / 3", &[], "The value is 25/3, not 76.");
        let all = Puzzle { use_all: true, ..p.clone() };
        check(&all, "50 + 25", &["wrong_numbers"], "3 is not used.");
        let plus = Puzzle { operators: vec![Operator::Add], ..p };
        check(&plus, "50 - 25", &["wrong_operator"], "The operator - may not be used.");
        let zero = Puzzle { numbers: vec![4, 4, 7], ..puzzle() };
        let none = "The expression has no value: division by zero.";
        check(&zero, "7 / (4 - 4)", &["division_by_zero"], none);
    }

    #[test]
    fn numbers_beyond_128_bits_are_wrong_and_not_a_crash() {
        let huge = format!("{0} * {0} * {0}", "9".repeat(30));
        let finding = puzzle().judge(&huge);
        assert!(finding.flags["wrong_numbers"] && !finding.is_solution && finding.value.is_none());
    }

    #[test]
    fn rewards_tell_bad_form_from_a_wrong_answer_and_from_a_solution() {
        let reward = Reward { wrong_format: -1.0, wrong: 0.25, correct: 2.0 };
        let earned = |answer: &str| puzzle().judge(answer).verdict(&reward).rewards["answer"];
        assert_eq!((earned("?"), earned("50 + 25"), earned("76")), (-1.0, 0.25, 0.25));
        let easy = Puzzle { numbers: vec![70, 6], ..puzzle() };
        let verdict = easy.judge("70 + 6").verdict(&reward);
        assert!(verdict.success && verdict.rewards["answer"] == 2.0 && verdict.error_turn.is_none());
    }

    #[test]
    fn prompts_state_numbers_target_and_rules() {
        assert_eq!(puzzle().prompt(PromptStyle::Short), "Numbers 3 7 25 50\nTarget 76");
        let strict = Puzzle { use_all: true, operators: vec![Operator::Add, Operator::Multiply], ..puzzle() };
        assert_eq!(strict.prompt(PromptStyle::Short), "Numbers 3 7 25 50\nTarget 76\nUse all");
        let full = strict.prompt(PromptStyle::Full);
        for part in ["76", "3, 7, 25, 50", "exactly once", "+ *", "whole number"] {
            assert!(full.contains(part), "{part}: {full}");
        }
        assert!(
            !Puzzle { whole_steps: false, ..puzzle() }.prompt(PromptStyle::Full).contains("whole number")
        );
    }

    #[test]
    fn a_demonstration_thinks_in_the_steps_of_its_solution() {
        let solution = parse("(50 + 25) - 7 * 3", 0).unwrap();
        assert_eq!(
            puzzle().demonstration(&solution).unwrap().content,
            "<think>\n50 + 25 = 75\n7 * 3 = 21\n75 - 21 = 54\n</think>\n(50 + 25) - (7 * 3)"
        );
    }
}
