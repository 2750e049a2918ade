//! The gradient of an objective with respect to all parameters.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;

use burnish_core::rng;
use burnish_model::Model;
use burnish_rl::kl::KlEstimator;
use burnish_rl::{BatchConstant, Evaluation, Objective, Totals};
use burnish_tensor::{GradientsMut, HostReadback, Tape, TokenScores, Var, Visibility, Vocab, in_pool};

use crate::columns::{Columns, MetricSums, from_sampling, groups, widen};
use crate::head_rows::{Divergence, HeadRows};
use crate::{
    Checkpointing, CheckpointingBySize, MicroBatch, Sample, TrainError, latents, pack, pack_groups, target,
};

/// What a pass over some samples gives in addition to the gradient.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pass {
    /// The objective's value.
    pub loss: f64,
    /// The objective's named numbers, without those whose weight is 0.
    pub metrics: BTreeMap<String, f64>,
    /// Rows that went through the model, after sharing prefixes.
    pub tokens: usize,
    /// Tokens that were scored.
    pub tokens_scored: usize,
    /// Number of micro-batches.
    pub micro_batches: usize,
    /// How far the policy's log-probs are from those of the model that sampled.
    pub drift: Drift,
    /// Mean of `k3` over the scored tokens, which estimates the divergence of the policy from the proximal one; 0
    /// without tokens.
    pub kl: f64,
    /// Mean entropy at the scored tokens, in nats; 0 without tokens.
    pub entropy: f64,
}

/// Absolute differences, in nats, between the policy's log-probs and those of the model that sampled, over the scored
/// tokens. Before the first update after sampling, this shows how well sampler and trainer agree.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Drift {
    /// Mean over the tokens; 0 without tokens.
    pub mean: f64,
    /// The largest.
    pub max: f64,
}

/// How samples go through the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassConfig {
    /// The most rows of one micro-batch. It bounds memory and never changes what is learned.
    pub tokens_max: usize,
    /// What the backward pass computes again, for the same gradient. A micro-batch with latent steps keeps everything.
    pub checkpointing: CheckpointingBySize,
    /// Seed of the adapters' dropout; `None` leaves it off. What is dropped at a token depends on the seed and on the
    /// tokens read so far, so neither micro-batches nor shared prefixes change it.
    pub dropout: Option<u64>,
}

impl PassConfig {
    /// Micro-batches of at most `tokens_max` rows, everything kept, no dropout.
    pub fn new(tokens_max: usize) -> Self {
        PassConfig { tokens_max, checkpointing: Checkpointing::Off.always(), dropout: None }
    }
}

/// Adds the gradient of `objective` on `samples` to `grads`, which is laid out like the model's parameters and on the
/// same device.
///
/// Each micro-batch goes forward once while the tape records. The objective turns the log-probs and entropies into a
/// loss and its derivative (in f64), which goes backward. A loss on whole distributions is evaluated in the backward
/// pass, where the logits are. The size of the micro-batches does not change the result beyond f32 rounding, because
/// whatever the objective knows about the whole batch is in `totals`.
///
/// # Errors
/// If a sample does not fit the model or the objective (checked before anything is computed), or the loss is
/// not finite.
pub fn accumulate<'g, S: Borrow<Sample>>(
    model: &Model,
    samples: &[S],
    objective: &dyn Objective,
    totals: &Totals,
    config: PassConfig,
    grads: impl Into<GradientsMut<'g>>,
) -> Result<Pass, TrainError> {
    accumulate_with_share(model, samples, objective, totals, config, grads, None)
}

/// As [`accumulate`]; also adds to `share` the part of the gradient that the head's matrix gets in its role as the head
/// ([`Tape::backward_with`]).
pub(crate) fn accumulate_with_share<'g, S: Borrow<Sample>>(
    model: &Model,
    samples: &[S],
    objective: &dyn Objective,
    totals: &Totals,
    config: PassConfig,
    grads: impl Into<GradientsMut<'g>>,
    share: Option<GradientsMut<'_>>,
) -> Result<Pass, TrainError> {
    let samples: Vec<&Sample> = samples.iter().map(Borrow::borrow).collect();
    check_for(model, &samples, objective)?;
    let grads = grads.into();
    in_pool(|| accumulate_checked(model, &samples, objective, totals, config, grads, share))
}

/// Checks that samples fit the model, and have what the objective needs.
pub(crate) fn check_for(
    model: &Model,
    samples: &[&Sample],
    objective: &dyn Objective,
) -> Result<(), TrainError> {
    check(model, samples)?;
    check_streams(samples, objective)?;
    if let Some(target) = objective.needs().head {
        target::check(model, samples, target)?;
    }
    Ok(())
}

/// Checks that samples have the log-probs of other models and the facts that the objective needs.
pub(crate) fn check_streams(samples: &[&Sample], objective: &dyn Objective) -> Result<(), TrainError> {
    let needs = objective.needs();
    let missing = |stream: fn(&Sample) -> bool| samples.iter().position(|sample| stream(sample));
    if let Some(sample) = needs.reference.then(|| missing(|sample| sample.reference.is_none())).flatten() {
        return Err(TrainError::Missing { sample, stream: "reference" });
    }
    if let Some(sample) = needs.teacher.then(|| missing(|sample| sample.teacher.is_none())).flatten() {
        return Err(TrainError::Missing { sample, stream: "teacher" });
    }
    for id in objective.token_facts() {
        if let Some(sample) = samples.iter().position(|sample| !sample.facts.contains_key(&id)) {
            return Err(TrainError::MissingFact { sample, id });
        }
    }
    Ok(())
}

fn accumulate_checked(
    model: &Model,
    samples: &[&Sample],
    objective: &dyn Objective,
    totals: &Totals,
    config: PassConfig,
    mut grads: GradientsMut<'_>,
    mut share: Option<GradientsMut<'_>>,
) -> Result<Pass, TrainError> {
    let mut pass = Pass::default();
    let mut metrics = MetricSums::default();
    let mut drift_sum = 0.0;
    let needs = objective.needs();
    let batches =
        if needs.groups { pack_groups(samples, config.tokens_max) } else { pack(samples, config.tokens_max) };
    let mut batch_constants = Vec::new();
    if needs.batch_constants && batches.len() > 1 {
        batch_constants = batch_constants_of(model, samples, &batches, objective, totals)?;
    }
    let mut marked = 0;
    for batch in batches {
        let mut tape = Tape::recording(&model.params);
        if let Some(seed) = config.dropout {
            tape = tape.with_dropout(row_keys(&batch, seed));
        }
        let hidden = batch.forward(&mut tape, model, config.checkpointing.of(batch.ids.len()));
        let scores = score_rows(&mut tape, model, &batch, &hidden)?;
        drop(hidden);
        let parts = batch.parts(samples);
        let columns = Columns::of(&parts, widen(scores.numbers()), scores.entropies(), objective);
        let (sum, max) = from_sampling(&columns.policy, &parts);
        drift_sum += sum;
        pass.drift.max = pass.drift.max.max(max);
        for (policy, proximal) in columns.policy.iter().zip(&columns.proximal) {
            pass.kl += KlEstimator::K3.evaluate(*proximal, *policy).0;
        }
        pass.entropy += columns.entropy.iter().sum::<f64>();
        let groups = groups(&parts);
        if needs.batch_constants && batch_constants.is_empty() {
            batch_constants =
                objective.batch_constants(&columns.streams(&batch.sequences, &groups, &[]), totals);
        }
        let own = batch_constants.get(marked..marked + batch.rows.len()).unwrap_or_default();
        let evaluation = objective.evaluate(&columns.streams(&batch.sequences, &groups, own), totals);
        marked += batch.rows.len();
        let head_loss = HeadRows::of(objective, &evaluation, &batch, samples)?;
        let share = share.as_mut().map(GradientsMut::again);
        let divergence = seed_backward(tape, &scores, &evaluation, head_loss, grads.again(), share)?;
        // A GPU failure in the backward pass would otherwise show up as a loss of NaN.
        model.params.device().check()?;
        pass.loss += evaluation.loss + divergence.weighted;
        pass.tokens += batch.ids.len();
        pass.tokens_scored += batch.rows.len();
        pass.micro_batches += 1;
        metrics.add(&evaluation.metrics);
        metrics.add(&divergence.metrics());
    }
    let tokens = pass.tokens_scored.max(1) as f64;
    pass.drift.mean = drift_sum / tokens;
    pass.kl /= tokens;
    pass.entropy /= tokens;
    pass.metrics = metrics.means();
    Ok(pass)
}

/// What `objective` fixes about every scored token after a look at all of them. This costs a forward pass if they do
/// not fit into one micro-batch.
pub(crate) fn batch_constants_of(
    model: &Model,
    samples: &[&Sample],
    batches: &[MicroBatch],
    objective: &dyn Objective,
    totals: &Totals,
) -> Result<Vec<BatchConstant>, TrainError> {
    let mut whole = Columns::default();
    let (mut sequences, mut all_groups) = (Vec::new(), Vec::new());
    for batch in batches {
        let mut tape = Tape::inference(&model.params);
        let hidden = batch.forward(&mut tape, model, Checkpointing::Off);
        let scores = score_rows(&mut tape, model, batch, &hidden)?;
        let (tokens, count) = (whole.policy.len(), sequences.len());
        sequences.extend(batch.sequences.iter().map(|range| range.start + tokens..range.end + tokens));
        let parts = batch.parts(samples);
        all_groups.extend(groups(&parts).iter().map(|range| range.start + count..range.end + count));
        whole.append(Columns::of(&parts, widen(scores.numbers()), scores.entropies(), objective));
    }
    Ok(objective.batch_constants(&whole.streams(&sequences, &all_groups, &[]), totals))
}

pub(crate) fn check(model: &Model, samples: &[&Sample]) -> Result<(), TrainError> {
    let tokens_max = model.context_tokens_max();
    for (index, sample) in samples.iter().enumerate() {
        sample.check().map_err(|source| TrainError::Sample { sample: index, source })?;
        let reads_both_ways = model.visibility() == Visibility::Bidirectional;
        if sample.noised.is_some() != reads_both_ways {
            return Err(TrainError::Direction { sample: index, is_noised: sample.noised.is_some() });
        }
        let inputs = sample.inputs();
        if inputs.len() > tokens_max {
            return Err(TrainError::TooLong { sample: index, tokens: inputs.len(), tokens_max });
        }
        let is_unknown = |token: &usize| inputs[*token] as usize >= model.vocab().len();
        let is_excluded = |token: &usize| !model.vocab().contains(sample.ids[*token]);
        let unknown = (0..inputs.len()).find(is_unknown).or_else(|| sample.scored().find(is_excluded));
        if let Some(token) = unknown {
            let id =
                if token < inputs.len() && is_unknown(&token) { inputs[token] } else { sample.ids[token] };
            return Err(TrainError::UnknownToken { sample: index, token, id });
        }
    }
    latents::check(samples, model.config.hidden_size)
}

/// What the head computes for each scored token.
pub(crate) enum Scores {
    /// Its log-prob and the entropy of its distribution.
    Tokens(TokenScores),
    /// The value of the state before it, `[S, 1]`, and the same numbers on the host.
    Values(Var, Vec<f32>),
}

impl Scores {
    /// Log-probs, or values: what an objective differentiates.
    pub(crate) fn numbers(&self) -> &[f32] {
        match self {
            Scores::Tokens(scores) => &scores.logprobs,
            Scores::Values(_, values) => values,
        }
    }

    /// Entropies in f64; zeros for values, which have none.
    pub(crate) fn entropies(&self) -> Vec<f64> {
        match self {
            Scores::Tokens(scores) => widen(&scores.entropies),
            Scores::Values(_, values) => vec![0.0; values.len()],
        }
    }
}

pub(crate) fn score_rows(
    tape: &mut Tape<'_>,
    model: &Model,
    batch: &MicroBatch,
    hidden: &Var,
) -> Result<Scores, TrainError> {
    score_rows_over(tape, model, batch, hidden, model.vocab())
}

/// As [`score_rows`], where only the ids of `vocab` exist.
pub(crate) fn score_rows_over(
    tape: &mut Tape<'_>,
    model: &Model,
    batch: &MicroBatch,
    hidden: &Var,
    vocab: &Arc<Vocab>,
) -> Result<Scores, TrainError> {
    let hidden = tape.gather(hidden, &batch.rows);
    let scores = if model.is_value_model() {
        let values = tape.head(&hidden, model.head());
        let numbers = HostReadback::default().read(&values)?.to_vec();
        Scores::Values(values, numbers)
    } else {
        let (targets, temperatures) = (&batch.targets, &batch.temperatures);
        Scores::Tokens(tape.token_scores(&hidden, model.head(), targets, temperatures, vocab))
    };
    model.params.device().check()?;
    Ok(scores)
}

/// A key for each row that depends on the seed and the tokens read so far.
fn row_keys(batch: &MicroBatch, seed: u64) -> Arc<[u64]> {
    let mut keys = vec![0; batch.ids.len()];
    // Parents come before their children.
    for segment in batch.layout.segments() {
        let parent = segment.parent.map(|parent| &batch.layout.segments()[parent]);
        let mut key = parent.map_or(seed, |parent| keys[parent.start + parent.len - 1]);
        let rows = segment.start..segment.start + segment.len;
        for (own, id) in keys[rows.clone()].iter_mut().zip(&batch.ids[rows]) {
            key = rng::bits(key, u64::from(*id));
            *own = key;
        }
    }
    keys.into()
}

fn seed_backward(
    tape: Tape<'_>,
    scores: &Scores,
    evaluation: &Evaluation,
    head_loss: Option<HeadRows<'_>>,
    grads: GradientsMut<'_>,
    share: Option<GradientsMut<'_>>,
) -> Result<Divergence, TrainError> {
    let tokens = scores.numbers().len();
    let given = evaluation.d_policy.len();
    let given_entropy = evaluation.d_entropy.len();
    if given != tokens || (given_entropy != tokens && given_entropy != 0) {
        let given = if given == tokens { given_entropy } else { given };
        return Err(TrainError::Derivatives { given, tokens });
    }
    let d_logprob = narrow(&evaluation.d_policy);
    let d_entropy = narrow(&evaluation.d_entropy);
    // Groups in which every rollout earned the same often have no derivative at all.
    if d_logprob.is_empty() && d_entropy.is_empty() && head_loss.is_none() {
        return Ok(Divergence::default());
    }
    let d_logprob = if d_logprob.is_empty() { vec![0.0; tokens] } else { d_logprob };
    match (scores, head_loss) {
        (Scores::Tokens(scores), None) => {
            tape.backward_with(scores, &d_logprob, &d_entropy, None, share, grads);
        }
        (Scores::Tokens(scores), Some(rows)) => {
            let values = rows.backward(tape, scores, &d_logprob, &d_entropy, share, grads);
            return Ok(Divergence::of(&evaluation.head_weights, &values));
        }
        (Scores::Values(values, _), _) => tape.backward_from(values, d_logprob, grads),
    }
    Ok(Divergence::default())
}

/// `values` in f32; empty where all are zero.
fn narrow(values: &[f64]) -> Vec<f32> {
    if values.iter().all(|value| *value == 0.0) {
        return Vec::new();
    }
    values.iter().map(|value| *value as f32).collect()
}
