//! One problem: its numbers and operations, its prompt, and the steps that solve it, forward and in reverse.

use serde::{Deserialize, Serialize};

use burnish_core::rng;

/// Greatest number that is read or computed.
pub const NUMBER_MAX: u64 = 999_999_999;

/// An operation on natural numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operator {
    /// `+`
    Add,
    /// `-`; undefined if the result would be negative.
    Subtract,
    /// `*`
    Multiply,
    /// `/`; undefined if the result would be a fraction.
    Divide,
}

impl Operator {
    /// All of them.
    pub const ALL: [Operator; 4] = [Operator::Add, Operator::Subtract, Operator::Multiply, Operator::Divide];

    /// Its sign.
    pub fn sign(self) -> char {
        match self {
            Operator::Add => '+',
            Operator::Subtract => '-',
            Operator::Multiply => '*',
            Operator::Divide => '/',
        }
    }

    /// The result, if it is a natural number up to [`NUMBER_MAX`].
    pub fn apply(self, left: u64, right: u64) -> Option<u64> {
        let result = match self {
            Operator::Add => left.checked_add(right),
            Operator::Subtract => left.checked_sub(right),
            Operator::Multiply => left.checked_mul(right),
            Operator::Divide => left.checked_div(right).filter(|quotient| quotient * right == left),
        };
        result.filter(|result| *result <= NUMBER_MAX)
    }

    /// The operation that undoes this one with the same right operand.
    fn inverse(self) -> Operator {
        match self {
            Operator::Add => Operator::Subtract,
            Operator::Subtract => Operator::Add,
            Operator::Multiply => Operator::Divide,
            Operator::Divide => Operator::Multiply,
        }
    }
}

/// The kind of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    /// A chain of operations on numbers that the prompt states.
    Chain,
    /// One memorised fact: the value of a name is asked for.
    Recall,
    /// A chain whose numbers are given by names; their values are facts that no prompt states.
    Memorised,
}

impl TaskKind {
    /// All of them.
    pub const ALL: [TaskKind; 3] = [TaskKind::Chain, TaskKind::Recall, TaskKind::Memorised];

    /// Its name in labels and configurations.
    pub fn name(self) -> &'static str {
        match self {
            TaskKind::Chain => "chain",
            TaskKind::Recall => "recall",
            TaskKind::Memorised => "memorised",
        }
    }
}

/// The direction of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Direction {
    /// The result is asked for.
    Forward,
    /// The result is stated; one operand is masked and asked for.
    Reverse {
        /// Index of the masked operand.
        masked: usize,
        /// The stated result, right or wrong.
        stated: u64,
    },
}

impl Direction {
    /// Its name in labels.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Forward => "forward",
            Direction::Reverse { .. } => "reverse",
        }
    }
}

/// A number of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operand {
    /// Its value.
    pub value: u64,
    /// The number of the name that stands for it in the prompt, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<u64>,
}

/// A problem: `operands[0]`, then each operation with its operand, from left to right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Problem {
    /// Its kind.
    pub kind: TaskKind,
    /// Its direction.
    pub direction: Direction,
    /// The language in which it is written.
    pub language: usize,
    /// The operands, one more than the operations. For a recall, the fact.
    pub operands: Vec<Operand>,
    /// Operations; none in a recall.
    pub operations: Vec<Operator>,
}

/// A step of work that was done: `left operator right = result`, which may be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Left operand.
    pub left: u64,
    /// Operation.
    pub operator: Operator,
    /// Right operand.
    pub right: u64,
    /// The stated result.
    pub result: u64,
}

impl Step {
    /// Is the arithmetic right?
    pub fn holds(self) -> bool {
        self.operator.apply(self.left, self.right) == Some(self.result)
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Step { left, operator, right, result } = self;
        write!(f, "{left}{}{right}={result}", operator.sign())
    }
}

/// An operand of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// A number of the problem.
    Number(u64),
    /// The result of an earlier step.
    Result(usize),
}

/// A step that is not done yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// Left operand.
    pub left: Part,
    /// Operation.
    pub operator: Operator,
    /// Right operand.
    pub right: Part,
}

/// Does the moves in order. `slip` is a step and the wrong result that it is given. `None` if a step has no natural
/// result.
pub fn carry_out(moves: &[Move], slip: Option<(usize, u64)>) -> Option<Vec<Step>> {
    let mut steps: Vec<Step> = Vec::with_capacity(moves.len());
    for (index, Move { left, operator, right }) in moves.iter().enumerate() {
        let value = |part: Part| match part {
            Part::Number(value) => Some(value),
            Part::Result(at) => Some(steps.get(at)?.result),
        };
        let (left, right) = (value(left.to_owned())?, value(right.to_owned())?);
        let result = match slip {
            Some((at, wrong)) if at == index => wrong,
            _ => operator.apply(left, right)?,
        };
        steps.push(Step { left, operator: *operator, right, result });
    }
    Some(steps)
}

impl Problem {
    /// The prompt in plain signs: `7 +5 -3 =?`, masked `7 +? -3 =9`, for a fact `@4 =?`, masked `@? =31`.
    pub fn prompt(&self) -> String {
        let (masked, stated) = match self.direction {
            Direction::Forward => (None, "?".to_owned()),
            Direction::Reverse { masked, stated } => (Some(masked), stated.to_string()),
        };
        let shown = |index: usize, operand: &Operand| match operand.name {
            _ if masked == Some(index) && self.kind == TaskKind::Recall => "@?".to_owned(),
            _ if masked == Some(index) => "?".to_owned(),
            Some(name) => format!("@{name}"),
            None => operand.value.to_string(),
        };
        let mut text = String::new();
        for (index, operand) in self.operands.iter().enumerate() {
            if let Some(operator) = index.checked_sub(1).and_then(|at| self.operations.get(at)) {
                text.push(' ');
                text.push(operator.sign());
            }
            text += &shown(index, operand);
        }
        text + " =" + &stated
    }

    /// The moves that solve it: forward up to the mask, backward from the stated result to the mask, then the masked
    /// operand from the two numbers that meet there. There are as many moves as operations.
    pub fn plan(&self) -> Vec<Move> {
        let Some(first) = self.operands.first() else { return Vec::new() };
        let mut moves: Vec<Move> = Vec::with_capacity(self.operations.len());
        let mut push = |left, operator, right| {
            moves.push(Move { left, operator, right });
            Part::Result(moves.len() - 1)
        };
        let links: Vec<(Operator, u64)> = self
            .operations
            .iter()
            .copied()
            .zip(self.operands.iter().skip(1).map(|next| next.value))
            .collect();
        let (masked, stated) = match self.direction {
            Direction::Forward => (links.len() + 1, 0),
            Direction::Reverse { masked, stated } => (masked.min(links.len()), stated),
        };
        let mut before = Part::Number(first.value);
        for &(operator, value) in links.iter().take(masked.saturating_sub(1)) {
            before = push(before, operator, Part::Number(value));
        }
        if masked > links.len() {
            return moves;
        }
        let mut after = Part::Number(stated);
        for &(operator, value) in links[masked..].iter().rev() {
            after = push(after, operator.inverse(), Part::Number(value));
        }
        if let Some(&(operator, _)) = masked.checked_sub(1).and_then(|at| links.get(at)) {
            match operator {
                Operator::Add => push(after, Operator::Subtract, before),
                Operator::Multiply => push(after, Operator::Divide, before),
                Operator::Subtract | Operator::Divide => push(before, operator, after),
            };
        }
        moves
    }

    /// The result of the whole chain, if every step has a natural one.
    pub fn result(&self) -> Option<u64> {
        let first = self.operands.first()?.value;
        let links = self.operations.iter().zip(self.operands.iter().skip(1));
        links.into_iter().try_fold(first, |value, (operator, next)| operator.apply(value, next.value))
    }

    /// The answer to a chain: the only natural number that fits. `None` if there is none, or several; a recall is
    /// answered by its facts.
    pub fn solution(&self) -> Option<u64> {
        let answer = carry_out(&self.plan(), None)?.last()?.result;
        if let Direction::Reverse { masked, stated } = self.direction {
            let mut filled = self.clone();
            filled.operands.get_mut(masked)?.value = answer;
            return (filled.result()? == stated).then_some(answer);
        }
        Some(answer)
    }

    /// The operand that [`Direction::Reverse`] masks in this problem: decided by its numbers, the same in every
    /// language.
    pub fn mask(&self) -> usize {
        let text = Problem { direction: Direction::Forward, ..self.clone() }.prompt();
        let hash = rng::fold_bytes(text.len() as u64, text.as_bytes());
        (hash % self.operands.len().max(1) as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(direction: Direction) -> Problem {
        let operands = [7, 5, 3, 2].map(|value| Operand { value, name: None }).to_vec();
        let operations = vec![Operator::Add, Operator::Subtract, Operator::Multiply];
        Problem { kind: TaskKind::Chain, direction, language: 0, operands, operations }
    }

    fn work(problem: &Problem) -> String {
        let steps = carry_out(&problem.plan(), None).unwrap();
        steps.iter().map(Step::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_chain_is_worked_forward_and_back_to_the_mask() {
        let forward = chain(Direction::Forward);
        assert_eq!(forward.prompt(), "7 +5 -3 *2 =?");
        assert_eq!(work(&forward), "7+5=12 12-3=9 9*2=18");
        assert_eq!((forward.solution(), forward.result()), (Some(18), Some(18)));
        for (masked, prompt, steps, answer) in [
            (0, "? +5 -3 *2 =18", "18/2=9 9+3=12 12-5=7", 7),
            (1, "7 +? -3 *2 =18", "18/2=9 9+3=12 12-7=5", 5),
            (2, "7 +5 -? *2 =18", "7+5=12 18/2=9 12-9=3", 3),
            (3, "7 +5 -3 *? =18", "7+5=12 12-3=9 18/9=2", 2),
        ] {
            let reverse = chain(Direction::Reverse { masked, stated: 18 });
            assert_eq!((reverse.prompt().as_str(), work(&reverse).as_str()), (prompt, steps));
            assert_eq!(reverse.solution(), Some(answer));
        }
    }

    #[test]
    fn a_stated_result_that_no_number_gives_has_no_solution() {
        // 7 + 5 - 3 = 9, and 9 times no number is 20; 12 minus no number is 13.
        assert_eq!(chain(Direction::Reverse { masked: 3, stated: 20 }).solution(), None);
        assert_eq!(chain(Direction::Reverse { masked: 2, stated: 26 }).solution(), None);
        assert_eq!(chain(Direction::Reverse { masked: 3, stated: 0 }).solution(), Some(0));
    }

    #[test]
    fn a_masked_factor_of_zero_has_no_single_solution() {
        let operands = [3, 3, 4].map(|value| Operand { value, name: None }).to_vec();
        let operations = vec![Operator::Subtract, Operator::Multiply];
        let direction = Direction::Reverse { masked: 2, stated: 0 };
        let problem = Problem { kind: TaskKind::Chain, direction, language: 0, operands, operations };
        assert_eq!(problem.solution(), None);
    }

    #[test]
    fn a_slip_is_carried_on() {
        let steps = carry_out(&chain(Direction::Forward).plan(), Some((0, 13))).unwrap();
        let text: Vec<String> = steps.iter().map(Step::to_string).collect();
        assert_eq!(text, ["7+5=13", "13-3=10", "10*2=20"]);
        assert_eq!(steps.iter().map(|step| step.holds()).collect::<Vec<_>>(), [false, true, true]);
    }
}
