//! The derivative of an objective by log-probs that are known, where another machine has the weights.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::Range;

use burnish_rl::{Evaluation, Objective, RatioBounds, Totals};

use crate::columns::{Columns, MetricSums, from_sampling, groups};
use crate::gradient::check_streams;
use crate::{Drift, Proximal, Sample, TrainError};

/// What an objective makes of samples whose log-probs are known.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Slope {
    /// The objective's value.
    pub loss: f64,
    /// Its named numbers, except entropies, which nobody knows.
    pub metrics: BTreeMap<String, f64>,
    /// Tokens that were scored.
    pub tokens_scored: usize,
    /// How far the log-probs are from those of the model that sampled.
    pub drift: Drift,
    /// For each sample, ∂loss/∂log-prob of its tokens, one entry per token: 0 where it is not scored.
    pub d_logprobs: Vec<Vec<f64>>,
}

/// Differentiates `objective` on `samples` by `logprobs`, which have one entry per token, as those of
/// [`score`](crate::score). Fed into a backward pass, whoever runs it, the derivative gives the gradient of
/// [`accumulate`](crate::accumulate).
///
/// # Errors
/// If a sample does not fit the objective, the objective needs more than log-probs, or a number is not finite.
pub fn differentiate<S: Borrow<Sample>>(
    samples: &[S],
    logprobs: &[Vec<f32>],
    objective: &dyn Objective,
    totals: &Totals,
) -> Result<Slope, TrainError> {
    let samples: Vec<&Sample> = samples.iter().map(Borrow::borrow).collect();
    for (index, sample) in samples.iter().enumerate() {
        sample.check().map_err(|source| TrainError::Sample { sample: index, source })?;
    }
    check_streams(&samples, objective)?;
    let needs = objective.needs();
    let more = [(needs.head.is_some(), "whole distributions"), (needs.entropies, "entropies")];
    if let Some((_, needs)) = more.into_iter().find(|(is_needed, _)| *is_needed) {
        return Err(TrainError::Elsewhere { needs });
    }
    let mut slope = Slope {
        d_logprobs: samples.iter().map(|sample| vec![0.0; sample.ids.len()]).collect(),
        ..Slope::default()
    };
    // As in a pass here, a sample without a scored token is in no sequence.
    let places: Vec<usize> = (0..samples.len()).filter(|at| samples[*at].scored_tokens() > 0).collect();
    let parts: Vec<&Sample> = places.iter().map(|at| samples[*at]).collect();
    let mut policy = Vec::new();
    let mut sequences: Vec<Range<usize>> = Vec::new();
    for (sample, place) in parts.iter().zip(&places) {
        let start = policy.len();
        policy.extend(sample.scored().map(|at| f64::from(logprobs[*place][at])));
        sequences.push(start..policy.len());
    }
    let tokens = policy.len();
    let (sum, max) = from_sampling(&policy, &parts);
    slope.tokens_scored = tokens;
    slope.drift = Drift { mean: sum / tokens.max(1) as f64, max };
    let (columns, groups) = (Columns::of(&parts, policy, vec![0.0; tokens], objective), groups(&parts));
    let constants = match needs.batch_constants {
        true => objective.batch_constants(&columns.streams(&sequences, &groups, &[]), totals),
        false => Vec::new(),
    };
    let evaluation = objective.evaluate(&columns.streams(&sequences, &groups, &constants), totals);
    let Evaluation { loss, d_policy, metrics, .. } = evaluation;
    if d_policy.len() != tokens {
        return Err(TrainError::Derivatives { given: d_policy.len(), tokens });
    }
    for (range, (sample, place)) in sequences.iter().zip(parts.iter().zip(&places)) {
        for (token, at) in sample.scored().zip(range.clone()) {
            slope.d_logprobs[*place][token] = d_policy[at];
        }
    }
    let mut sums = MetricSums::default();
    sums.add(&metrics);
    slope.loss = loss;
    slope.metrics = sums.means();
    slope.metrics.retain(|name, _| !name.starts_with("entropy"));
    Ok(slope)
}

/// An objective that is PPO's clipped surrogate, in the terms of somebody else who has that loss
/// ([`Objective::surrogate`]): its derivative at any log-probs, without their being known here.
#[derive(Debug, Clone, PartialEq)]
pub struct Surrogate {
    /// Beyond these a token no longer counts.
    pub bounds: RatioBounds,
    /// For each sample, the log-probs that the ratio is to, one entry per token: 0 where it is not scored.
    pub proximal: Vec<Vec<f32>>,
    /// For each sample, ∂loss/∂log-prob at a ratio of 1, one entry per token: 0 where it is not scored.
    pub d_logprobs: Vec<Vec<f64>>,
}

/// `objective` on `samples` as PPO's clipped surrogate; `None` if it is something else.
///
/// # Errors
/// As [`differentiate`].
pub fn surrogate<S: Borrow<Sample>>(
    samples: &[S],
    objective: &dyn Objective,
    totals: &Totals,
) -> Result<Option<Surrogate>, TrainError> {
    let moves = |sample: &S| matches!(sample.borrow().proximal, Proximal::Between(_));
    let Some(bounds) = objective.surrogate().filter(|_| !samples.iter().any(moves)) else {
        return Ok(None);
    };
    let proximal = |sample: &S| {
        let sample = sample.borrow();
        sample.check().map(|()| {
            let mut proximal = vec![0.0; sample.ids.len()];
            sample.scored().for_each(|at| proximal[at] = sample.old(at));
            proximal
        })
    };
    let numbered = samples.iter().map(proximal).enumerate();
    let proximal: Result<Vec<Vec<f32>>, TrainError> =
        numbered.map(|(sample, made)| made.map_err(|source| TrainError::Sample { sample, source })).collect();
    let proximal = proximal?;
    let d_logprobs = differentiate(samples, &proximal, objective, totals)?.d_logprobs;
    Ok(Some(Surrogate { bounds, proximal, d_logprobs }))
}
