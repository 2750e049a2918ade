//! Problems drawn step by step, so that every result stays in its range and every operand can be recovered.

use burnish_core::rng::{Address, Purpose, Stream};

use super::config::Config;
use super::facts::Facts;
use super::problem::{Direction, Operand, Operator, Problem, TaskKind};
use crate::shares::spread;

/// What kind of task to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cell {
    pub(super) kind: TaskKind,
    pub(super) language: usize,
    pub(super) is_reverse: bool,
    pub(super) steps: u64,
    /// Does the prompt show the skill?
    pub(super) shows_skill: bool,
    /// Does the prompt show a draft, and the task again?
    pub(super) shows_draft: bool,
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let direction = if self.is_reverse { "reverse" } else { "forward" };
        write!(
            f,
            "kind={} language={} direction={direction} steps={}",
            self.kind.name(),
            self.language,
            self.steps
        )
    }
}

/// The cells of `count` tasks in random order. The share of each key is met exactly overall, and nearly within each
/// combination of the keys before it, because each key is spread over the tasks sorted by those.
pub(super) fn cells(config: &Config, seed: u64, count: usize) -> Vec<Cell> {
    let blank = Cell {
        kind: TaskKind::Chain,
        language: 0,
        is_reverse: false,
        steps: 0,
        shows_skill: false,
        shows_draft: false,
    };
    let mut cells = vec![blank; count];
    let mut deal = |weights: &[f64], only_chains: bool, set: &dyn Fn(&mut Cell, usize)| {
        cells.sort_unstable();
        let mut some: Vec<&mut Cell> =
            cells.iter_mut().filter(|cell| !only_chains || cell.kind != TaskKind::Recall).collect();
        let dealt = spread(weights, some.len());
        for (cell, which) in some.iter_mut().zip(dealt) {
            set(cell, which);
        }
    };
    let languages: Vec<f64> = config.languages.iter().map(|language| language.share).collect();
    let steps = config.steps_of(TaskKind::Chain);
    deal(&config.kinds.shares(), false, &|cell, which| cell.kind = TaskKind::ALL[which]);
    deal(&languages, false, &|cell, which| cell.language = which);
    deal(&[1.0 - config.reverse, config.reverse], false, &|cell, which| cell.is_reverse = which == 1);
    deal(&vec![1.0; steps.len()], true, &|cell, which| cell.steps = steps[which]);
    deal(&[1.0 - config.skill_shown, config.skill_shown], false, &|cell, which| {
        cell.shows_skill = which == 1
    });
    if config.draft_shown > 0.0 {
        deal(&[1.0 - config.draft_shown, config.draft_shown], false, &|cell, which| {
            cell.shows_draft = which == 1
        });
    }
    Stream::new(Address::new(seed, Purpose::Shuffle).seed()).shuffle(&mut cells);
    cells
}

/// Draws a forward problem of a cell. `None` if no operation fits after those already drawn.
///
/// Only operations that can be undone are drawn: never a product with 0 or 1, nor a quotient of 0 or by 1.
pub(super) fn draw(config: &Config, facts: &Facts, cell: Cell, stream: &mut Stream) -> Option<Problem> {
    let stated = |value| Operand { value, name: None };
    let pool: Vec<Operand> = match cell.kind {
        TaskKind::Chain => (config.values.min..=config.values.max).map(stated).collect(),
        TaskKind::Recall | TaskKind::Memorised => facts.operands(),
    };
    let first = *pool.get(stream.index(pool.len()))?;
    let mut value = first.value;
    let (mut operands, mut operations) = (vec![first], Vec::new());
    for _ in 0..cell.steps {
        let fitting = |operator: Operator| -> Vec<Operand> {
            let fits = |next: &Operand| {
                let undoes =
                    !matches!(operator, Operator::Multiply | Operator::Divide) || value > 0 && next.value > 1;
                undoes
                    && operator.apply(value, next.value).is_some_and(|result| config.results.contains(result))
            };
            pool.iter().copied().filter(fits).collect()
        };
        let choices: Vec<(Operator, Vec<Operand>)> = config
            .operations
            .iter()
            .map(|&operator| (operator, fitting(operator)))
            .filter(|(_, fitting)| !fitting.is_empty())
            .collect();
        let (operator, fitting) = choices.get(stream.index(choices.len()))?;
        let next = *fitting.get(stream.index(fitting.len()))?;
        value = operator.apply(value, next.value)?;
        operands.push(next);
        operations.push(*operator);
    }
    let direction = Direction::Forward;
    Some(Problem { kind: cell.kind, direction, language: cell.language, operands, operations })
}
