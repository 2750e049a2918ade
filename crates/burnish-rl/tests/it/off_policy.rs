//! Batches whose tokens another policy sampled, and the golden numbers of `tests/golden/make_correction.py`.

use crate::common::{Batch, Rows, batches};
use burnish_rl::correction::{Corrected, CorrectionConfig};
use burnish_rl::entropy::AdaptiveEntropy;
use burnish_rl::{Evaluation, LossConfig, Objective, PolicyLoss, Streams, Tokens, Totals};
use proptest::prelude::*;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Both sides compute in f64, and the file has 14 digits.
pub(crate) const TOLERANCE: f64 = 1e-11;
/// verl adds 1e-8 to the numbers that it divides by.
pub(crate) const TOLERANCE_MEANS: f64 = 1e-7;

#[derive(Deserialize)]
pub(crate) struct Golden {
    pub(crate) tokens_max: usize,
    pub(crate) batch: Rows,
    pub(crate) verl_corrections: Vec<CorrectionCase>,
    pub(crate) verl_losses: Vec<VerlLoss>,
    pub(crate) aggregations: Vec<AggregationCase>,
    pub(crate) trl_losses: Vec<TrlLoss>,
    pub(crate) adaptive_entropy: AdaptiveCase,
    pub(crate) loglinear: Vec<LoglinearCase>,
}

#[derive(Deserialize)]
pub(crate) struct CorrectionCase {
    pub(crate) correction: CorrectionConfig,
    pub(crate) weights: Option<Vec<Vec<f64>>>,
    pub(crate) kept: Vec<Vec<u8>>,
    pub(crate) metrics: BTreeMap<String, f64>,
}

#[derive(Deserialize)]
pub(crate) struct VerlLoss {
    pub(crate) correction: CorrectionConfig,
    pub(crate) loss_agg_mode: String,
    pub(crate) kl_loss_coef: f64,
    pub(crate) loss: f64,
    pub(crate) gradient: Vec<Vec<f64>>,
}

#[derive(Deserialize)]
pub(crate) struct AggregationCase {
    pub(crate) loss_agg_mode: String,
    pub(crate) value: f64,
    pub(crate) gradient: Vec<Vec<f64>>,
}

#[derive(Deserialize)]
pub(crate) struct TrlLoss {
    pub(crate) loss: LossConfig,
    pub(crate) value: f64,
    pub(crate) gradient: Vec<Vec<f64>>,
    pub(crate) d_entropy: Vec<Vec<f64>>,
}

#[derive(Deserialize)]
pub(crate) struct AdaptiveCase {
    pub(crate) settings: AdaptiveEntropy,
    pub(crate) steps: Vec<AdaptiveStep>,
}

#[derive(Deserialize)]
pub(crate) struct AdaptiveStep {
    pub(crate) coef: f64,
    pub(crate) entropy: f64,
    pub(crate) applied: f64,
    pub(crate) next: f64,
}

#[derive(Deserialize)]
pub(crate) struct LoglinearCase {
    pub(crate) behavior: f64,
    pub(crate) policy: f64,
    pub(crate) sampled: i64,
    pub(crate) current: u64,
    pub(crate) proximal: f64,
}

#[expect(clippy::unwrap_used, reason = "the file is part of the test")]
pub(crate) fn golden() -> Golden {
    serde_json::from_str(include_str!("../golden/correction.json")).unwrap()
}

/// A batch whose tokens another policy sampled.
#[derive(Debug, Clone)]
pub(crate) struct OffPolicy {
    pub(crate) batch: Batch,
    pub(crate) behavior: Vec<f64>,
    pub(crate) groups: Vec<std::ops::Range<usize>>,
}

impl OffPolicy {
    /// The batch of a golden file: a group of two, and one of all others.
    pub(crate) fn of_rows(rows: &Rows) -> OffPolicy {
        let groups = vec![0..2, 2..rows.policy.len()];
        OffPolicy { batch: rows.batch(), behavior: rows.behavior.concat(), groups }
    }

    pub(crate) fn streams(&self) -> Streams<'_> {
        Streams { behavior: &self.behavior, groups: &self.groups, ..self.batch.streams() }
    }

    pub(crate) fn totals(&self, completion_tokens_max: usize) -> Totals {
        let totals = self.batch.totals();
        Totals {
            groups: self.groups.len(),
            tokens_generation: totals.tokens,
            minibatches: 1,
            completion_tokens_max,
            ..totals
        }
    }

    pub(crate) fn marked(&self, objective: &PolicyLoss) -> OffPolicy {
        let mut marked = self.clone();
        if objective.needs().batch_constants {
            marked.batch.batch_constants = objective.batch_constants(&self.streams(), &self.totals(9));
        }
        marked
    }

    pub(crate) fn evaluate(&self, objective: &PolicyLoss, completion_tokens_max: usize) -> Evaluation {
        objective.evaluate(&self.marked(objective).streams(), &self.totals(completion_tokens_max))
    }

    /// The correction of the loss tokens of each sequence, and their positions.
    pub(crate) fn corrected(&self, config: &CorrectionConfig) -> Vec<(Vec<usize>, Corrected)> {
        let streams = self.streams();
        let said = |range: &std::ops::Range<usize>| {
            let positions: Vec<usize> = streams.loss_positions(range.clone()).collect();
            let column = |stream: &[f64]| -> Vec<f64> { positions.iter().map(|at| stream[*at]).collect() };
            let [policy, proximal, behavior, entropy, advantage] =
                [streams.policy, streams.proximal, streams.behavior, streams.entropy, streams.advantage]
                    .map(column);
            let whole = 0..positions.len();
            let corrected = config.correct(&Tokens {
                policy: &policy,
                detached: &policy,
                proximal: &proximal,
                behavior: &behavior,
                teacher: &[],
                entropy: &entropy,
                advantage: &advantage,
                facts: &[],
                batch_constants: &[],
                sequences: std::slice::from_ref(&whole),
            });
            (positions, corrected)
        };
        streams.sequences.iter().map(said).filter(|(positions, _)| !positions.is_empty()).collect()
    }
}

pub(crate) fn mean(found: &Evaluation, name: &str) -> Option<f64> {
    let metric = found.metrics.iter().find(|metric| metric.name == name)?;
    Some(metric.sum / metric.weight)
}

/// Batches whose tokens were sampled by a policy at most `far` away, in groups of up to two.
pub(crate) fn off_policy(far: f64) -> impl Strategy<Value = OffPolicy> {
    (batches(1.0), prop::collection::vec(-far..far, 64)).prop_map(|(batch, moved)| {
        let behavior = batch.proximal.iter().zip(&moved).map(|(old, moved)| old - moved).collect();
        let sequences = batch.sequences.len();
        let groups = (0..sequences).step_by(2).map(|start| start..(start + 2).min(sequences)).collect();
        OffPolicy { batch, behavior, groups }
    })
}

impl OffPolicy {
    /// The given groups alone.
    pub(crate) fn part(&self, groups: std::ops::Range<usize>) -> OffPolicy {
        let groups = &self.groups[groups];
        let (Some(first), Some(last)) = (groups.first(), groups.last()) else {
            return OffPolicy { batch: Batch::default(), behavior: Vec::new(), groups: Vec::new() };
        };
        let (start, sequences) = (first.start, first.start..last.end);
        let positions = self.batch.sequences[start].start..self.batch.sequences[sequences.end - 1].end;
        OffPolicy {
            batch: self.batch.part(sequences),
            behavior: self.behavior[positions].to_vec(),
            groups: groups.iter().map(|group| group.start - start..group.end - start).collect(),
        }
    }
}
