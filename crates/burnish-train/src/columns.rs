//! Samples as the streams that an objective sees.

use std::collections::BTreeMap;
use std::ops::Range;

use burnish_rl::correction::{BehaviorSource, loglinear_proximal};
use burnish_rl::{BatchConstant, Metric, Objective, Streams, TokenFact};

use crate::{Proximal, Sample};

/// The streams of some samples, in f64, one entry per scored token.
#[derive(Default)]
pub(crate) struct Columns {
    pub(crate) policy: Vec<f64>,
    pub(crate) proximal: Vec<f64>,
    behavior: Vec<f64>,
    reference: Option<Vec<f64>>,
    teacher: Option<Vec<f64>>,
    pub(crate) entropy: Vec<f64>,
    advantage: Vec<f64>,
    loss_mask: Vec<bool>,
    /// One entry per sample.
    directions: Vec<u8>,
    /// Empty if no sample has parts.
    parts: Vec<u8>,
    facts: Vec<TokenFact>,
}

impl Columns {
    /// The scored tokens of `samples`, with their log-probs and entropies, and what `objective` needs to know about them.
    pub(crate) fn of(
        samples: &[&Sample],
        policy: Vec<f64>,
        entropy: Vec<f64>,
        objective: &dyn Objective,
    ) -> Self {
        let behavior = objective.needs().behavior;
        let parts = || samples.iter().copied();
        let given = |stream: fn(&Sample) -> Option<&Vec<f32>>| {
            let value = |sample: &Sample, at: usize| stream(sample).map_or(0.0, |all| all[at]);
            parts().all(|sample| stream(sample).is_some()).then(|| column(parts(), value))
        };
        let tokens = parts().flat_map(|sample| sample.scored().map(move |at| (sample, at)));
        let proximal = |((sample, at), policy): ((&Sample, usize), &f64)| {
            let old = f64::from(sample.old(at));
            match &sample.proximal {
                Proximal::Between(shares) => loglinear_proximal(old, *policy, f64::from(shares[at])),
                Proximal::Sampling | Proximal::Known(_) => old,
            }
        };
        let loss_mask = vec![true; policy.len()];
        let has_parts = parts().any(|sample| !sample.parts.is_empty());
        let in_parts = |sample: &Sample, at: usize| sample.parts.get(at).copied().unwrap_or(u8::MAX);
        let in_parts = |sample| Sample::scored(sample).map(move |at| in_parts(sample, at));
        let in_parts: Vec<u8> = if has_parts { parts().flat_map(in_parts).collect() } else { Vec::new() };
        let fact = |id: String| {
            let numbers = column(parts(), |sample, at| sample.facts.get(&id).map_or(0.0, |all| all[at]));
            TokenFact { id, numbers }
        };
        Columns {
            facts: objective.token_facts().into_iter().map(fact).collect(),
            proximal: tokens.zip(&policy).map(proximal).collect(),
            policy,
            behavior: column(parts(), |sample, at| match behavior {
                BehaviorSource::Model => sample.model_logprobs[at],
                BehaviorSource::Sampled => sample.sampled_logprobs[at],
            }),
            reference: given(|sample| sample.reference.as_ref()),
            teacher: given(|sample| sample.teacher.as_ref()),
            entropy,
            advantage: column(parts(), |sample, at| sample.advantages[at]),
            loss_mask,
            directions: parts().map(|sample| sample.direction).collect(),
            parts: in_parts,
        }
    }

    pub(crate) fn append(&mut self, other: Columns) {
        self.policy.extend(other.policy);
        self.proximal.extend(other.proximal);
        self.behavior.extend(other.behavior);
        for (own, other) in [(&mut self.reference, other.reference), (&mut self.teacher, other.teacher)] {
            match (own, other) {
                (Some(own), Some(other)) => own.extend(other),
                (own, other) => *own = other,
            }
        }
        self.entropy.extend(other.entropy);
        self.advantage.extend(other.advantage);
        self.loss_mask.extend(other.loss_mask);
        self.directions.extend(other.directions);
        self.parts.extend(other.parts);
        match self.facts.is_empty() {
            true => self.facts = other.facts,
            false => {
                let both = self.facts.iter_mut().zip(other.facts);
                both.for_each(|(own, other)| own.numbers.extend(other.numbers));
            }
        }
    }

    pub(crate) fn streams<'a>(
        &'a self,
        sequences: &'a [Range<usize>],
        groups: &'a [Range<usize>],
        batch_constants: &'a [BatchConstant],
    ) -> Streams<'a> {
        Streams {
            policy: &self.policy,
            proximal: &self.proximal,
            behavior: &self.behavior,
            reference: self.reference.as_deref(),
            teacher: self.teacher.as_deref(),
            entropy: &self.entropy,
            advantage: &self.advantage,
            loss_mask: &self.loss_mask,
            sequences,
            groups,
            directions: &self.directions,
            parts: &self.parts,
            facts: &self.facts,
            batch_constants,
        }
    }
}

/// How far log-probs of the scored tokens are from those of the model that sampled them: the sum, and the largest.
pub(crate) fn from_sampling(policy: &[f64], samples: &[&Sample]) -> (f64, f64) {
    let sampling = column(samples.iter().copied(), |sample, at| sample.model_logprobs[at]);
    let differences = policy.iter().zip(sampling).map(|(policy, sampling)| (policy - sampling).abs());
    differences.fold((0.0, 0.0), |(sum, max), difference| (sum + difference, difference.max(max)))
}

/// The ranges of neighbours that belong to one group.
pub(crate) fn groups(samples: &[&Sample]) -> Vec<Range<usize>> {
    let mut start = 0;
    samples
        .chunk_by(|a, b| a.group == b.group)
        .map(|group| {
            start += group.len();
            start - group.len()..start
        })
        .collect()
}

fn column<'a>(parts: impl Iterator<Item = &'a Sample>, value: impl Fn(&Sample, usize) -> f32) -> Vec<f64> {
    let value = &value;
    parts.flat_map(|sample| sample.scored().map(move |at| f64::from(value(sample, at)))).collect()
}

pub(crate) fn widen(values: &[f32]) -> Vec<f64> {
    values.iter().map(|value| f64::from(*value)).collect()
}

/// Metrics of the parts, put together as [`Metric`] says.
#[derive(Default)]
pub(crate) struct MetricSums(BTreeMap<&'static str, (f64, f64)>);

impl MetricSums {
    pub(crate) fn add(&mut self, metrics: &[Metric]) {
        for metric in metrics {
            let (sum, weight) = self.0.entry(metric.name).or_default();
            *sum += metric.sum;
            *weight += metric.weight;
        }
    }

    pub(crate) fn means(self) -> BTreeMap<String, f64> {
        self.0
            .into_iter()
            .filter(|(_, (_, weight))| *weight != 0.0)
            .map(|(name, (sum, weight))| (name.to_owned(), sum / weight))
            .collect()
    }
}
