//! The loss tokens of some sequences, packed together.

use std::ops::Range;

use crate::{Streams, TokenFact, Tokens};

/// Loss tokens, and their positions in the streams.
#[derive(Debug, Clone, Default)]
pub(crate) struct Columns {
    pub(crate) positions: Vec<usize>,
    policy: Vec<f64>,
    proximal: Vec<f64>,
    behavior: Vec<f64>,
    teacher: Vec<f64>,
    entropy: Vec<f64>,
    advantage: Vec<f64>,
    facts: Vec<TokenFact>,
    batch_constants: Vec<f64>,
    sequences: Vec<Range<usize>>,
}

impl Columns {
    /// The loss tokens of one sequence. With `bypass`, the behavior policy takes the place of the proximal one.
    pub(crate) fn of_sequence(streams: &Streams<'_>, sequence: Range<usize>, bypass: bool) -> Self {
        let mut columns = Columns::default();
        columns.push(streams, streams.loss_positions(sequence), bypass);
        columns
    }

    /// Adds the tokens at `positions` as one sequence.
    pub(crate) fn push(
        &mut self,
        streams: &Streams<'_>,
        positions: impl IntoIterator<Item = usize>,
        bypass: bool,
    ) {
        let start = self.positions.len();
        self.positions.extend(positions);
        let positions = &self.positions[start..];
        let proximal = if bypass { streams.behavior } else { streams.proximal };
        for (column, stream) in [
            (&mut self.policy, streams.policy),
            (&mut self.proximal, proximal),
            (&mut self.behavior, streams.behavior),
            (&mut self.entropy, streams.entropy),
            (&mut self.advantage, streams.advantage),
        ] {
            column.extend(positions.iter().map(|at| stream[*at]));
        }
        if let Some(teacher) = streams.teacher {
            self.teacher.extend(positions.iter().map(|at| teacher[*at]));
        }
        for (at, TokenFact { id, numbers }) in streams.facts.iter().enumerate() {
            if self.facts.len() == at {
                self.facts.push(TokenFact { id: id.clone(), numbers: Vec::new() });
            }
            self.facts[at].numbers.extend(positions.iter().map(|at| numbers[*at]));
        }
        if !streams.batch_constants.is_empty() {
            self.batch_constants.extend(positions.iter().map(|at| streams.batch_constants[*at].value));
        }
        self.sequences.push(start..self.positions.len());
    }

    pub(crate) fn tokens(&self) -> Tokens<'_> {
        Tokens {
            policy: &self.policy,
            detached: &self.policy,
            proximal: &self.proximal,
            behavior: &self.behavior,
            teacher: &self.teacher,
            entropy: &self.entropy,
            advantage: &self.advantage,
            facts: &self.facts,
            batch_constants: &self.batch_constants,
            sequences: &self.sequences,
        }
    }
}
