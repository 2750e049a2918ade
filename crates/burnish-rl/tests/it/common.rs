//! Batches of streams, by hand or at random.

use burnish_rl::{Evaluation, Objective, Streams, Totals};
use proptest::prelude::*;
use std::ops::Range;

/// The streams of some sequences, owned.
#[derive(Debug, Clone, Default)]
pub(crate) struct Batch {
    pub(crate) policy: Vec<f64>,
    pub(crate) proximal: Vec<f64>,
    pub(crate) reference: Vec<f64>,
    pub(crate) entropy: Vec<f64>,
    pub(crate) advantage: Vec<f64>,
    pub(crate) loss_mask: Vec<bool>,
    pub(crate) sequences: Vec<Range<usize>>,
}

impl Batch {
    pub(crate) fn streams(&self) -> Streams<'_> {
        Streams {
            policy: &self.policy,
            proximal: &self.proximal,
            behavior: &self.proximal,
            reference: Some(&self.reference),
            entropy: &self.entropy,
            advantage: &self.advantage,
            loss_mask: &self.loss_mask,
            sequences: &self.sequences,
        }
    }

    /// Totals of an optimiser batch that is this batch, a third of its generation.
    pub(crate) fn totals(&self) -> Totals {
        let tokens = self.loss_mask.iter().filter(|in_loss| **in_loss).count();
        Totals {
            sequences: self.sequences.len(),
            tokens,
            tokens_generation: 3 * tokens + 5,
            minibatches: 3,
            completion_tokens_max: 9,
        }
    }

    pub(crate) fn evaluate(&self, objective: &dyn Objective) -> Evaluation {
        objective.evaluate(&self.streams(), &self.totals())
    }

    /// The given sequences alone.
    pub(crate) fn part(&self, sequences: Range<usize>) -> Batch {
        let mut part = Batch::default();
        for range in &self.sequences[sequences] {
            let start = part.policy.len();
            part.policy.extend(&self.policy[range.clone()]);
            part.proximal.extend(&self.proximal[range.clone()]);
            part.reference.extend(&self.reference[range.clone()]);
            part.entropy.extend(&self.entropy[range.clone()]);
            part.advantage.extend(&self.advantage[range.clone()]);
            part.loss_mask.extend(&self.loss_mask[range.clone()]);
            part.sequences.push(start..part.policy.len());
        }
        part
    }

    /// The same, before the policy has moved.
    pub(crate) fn on_policy(mut self) -> Batch {
        self.proximal = self.policy.clone();
        self
    }

    /// The same, with everything in the loss.
    pub(crate) fn unmasked(mut self) -> Batch {
        self.loss_mask.fill(true);
        self
    }
}

/// Ragged sequences with holes in the mask; the policy has moved by up to `log_ratio_max` either way.
pub(crate) fn batches(log_ratio_max: f64) -> impl Strategy<Value = Batch> {
    let moved = prop_oneof![1 => Just(0.0), 3 => -log_ratio_max..log_ratio_max];
    let token = (-6.0..0.0f64, moved, -1.0..1.0f64, 0.0..3.0f64, prop::bool::weighted(0.7));
    let advantage = prop_oneof![1 => Just(0.0), 4 => -3.0..3.0f64];
    let sequence = (advantage, prop::collection::vec(token, 1..9));
    prop::collection::vec(sequence, 1..7).prop_map(|sequences| {
        let mut batch = Batch::default();
        for (advantage, tokens) in sequences {
            let start = batch.policy.len();
            for (policy, moved, to_reference, entropy, in_loss) in tokens {
                batch.policy.push(policy);
                batch.proximal.push(policy - moved);
                batch.reference.push(policy + to_reference);
                batch.entropy.push(entropy);
                batch.advantage.push(advantage);
                batch.loss_mask.push(in_loss);
            }
            batch.sequences.push(start..batch.policy.len());
        }
        batch
    })
}

/// Is `found` within `tolerance` of `expected`, relative to it where it is above 1?
pub(crate) fn is_near(found: f64, expected: f64, tolerance: f64) -> bool {
    found == expected || (found - expected).abs() <= tolerance * expected.abs().max(1.0)
}
