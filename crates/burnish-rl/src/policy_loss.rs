//! What all objectives on rollouts share: off-policy corrections, the distance from the reference, entropy and the
//! mean, around a token loss.
//!
//! **What it does.** Picks the tokens that count from the streams, asks a [`TokenLoss`] for their losses, weights them,
//! adds the KL penalty and the other terms, and divides.
//!
//! **Formula.** For each token with a loss mask, in nats, with `ℓ` the token loss of `objective`, `lp`, `old` and `ref`
//! the log-probabilities under the policy, the proximal policy and the reference, `H` the entropy:
//!
//! ```text
//! loss = Σ (w·ℓ + β·kl) / D  -  entropy_coef·Σ H / N
//! kl   = r·k      (or k alone, without `use_bias_correction_kl`)
//! ```
//!
//! with `k` an estimator of [`crate::kl`], by default `k3 = exp(ref - lp) - (ref - lp) - 1`, and `D` that of
//! [`crate::aggregation`]. `w` is 1 unless [`crate::correction`] or `top_entropy_quantile` ([`crate::entropy`]) says
//! otherwise. `N` is the number of tokens of the optimiser batch that have the bonus: all, or those within the
//! quantile; with `use_entropy_aggregation` it is `D`. `r` is the ratio of the objective: each token's `exp(lp - old)`, but
//! in [`crate::objective::Gspo`] and [`crate::objective::Luspo`] the sequence's ratio `s`, as in TRL ([`crate::Ratio`]).
//! In `luspo`, `ℓ` has the length of the sequence as a factor; the KL gets the same factor. Further losses are
//! [`crate::terms`].
//!
//! **Derivative.** `w·∂ℓ/∂lp`, plus `β` times `∂kl/∂lp`, that is `r·(k + ∂k/∂lp)` (for k3: `-r·(ref - lp)`), or
//! `∂k/∂lp` alone; with respect to the entropy, `-entropy_coef / N`. `w` is a constant.
//! Each of the `n` tokens of a sequence moves `s`, and with it the KL of all tokens:
//! `∂(Σ s·k)/∂lp_t = s·(∂k_t/∂lp_t + Σ k / n)`.
//!
//! **Differs from the papers.** The defaults are TRL's: `β = 0`, `dapo` aggregation. GRPO's paper averages over each
//! sequence and does not correct the KL: `aggregation = "grpo"`, `beta = 0.04`, `use_bias_correction_kl = false`. With
//! several micro-batches, TRL's bonus is the mean of their means.
//!
//! **Metrics**, named and defined as in TRL 1.16, each the mean over loss tokens: `clip_ratio/low_mean`,
//! `clip_ratio/high_mean`, `clip_ratio/region_mean`, `entropy`, and `kl` (as in the formula, without `luspo`'s factor)
//! if `β > 0`. If sequences are clipped as a whole, `clip_ratio/*` are means over sequences, including those without a
//! loss token. Tokens clipped by the third bound of dual-clip PPO count in none of these, but in
//! `clip_ratio/dual_mean`, which TRL does not have. Without an entropy bonus, TRL's `policy_loss` is the loss. With
//! `top_entropy_quantile`, `entropy_top` is the entropy of the tokens within it. A correction adds the metrics of
//! [`crate::correction::Diagnostics`].
//!
//! **Example.**
//! ```
//! use burnish_rl::{LossConfig, Objective, PolicyLoss, Streams, Totals, aggregation::Aggregation};
//! let config = LossConfig { aggregation: Aggregation::Grpo, ..LossConfig::default() };
//! let grpo = PolicyLoss::new(&config)?;
//! let (policy, entropy) = ([-0.5, -1.5], [0.0; 2]);
//! let streams = Streams {
//!     policy: &policy, proximal: &policy, behavior: &policy, reference: None, teacher: None, entropy: &entropy,
//!     advantage: &[2.0, 2.0], loss_mask: &[true, true], sequences: &[0..2], groups: &[], directions: &[],
//!     parts: &[], facts: &[], batch_constants: &[],
//! };
//! let totals = Totals { sequences: 1, tokens: 2, tokens_generation: 2, minibatches: 1, ..Totals::default() };
//! let evaluation = grpo.evaluate(&streams, &totals);
//! assert_eq!((evaluation.loss, evaluation.d_policy), (-2.0, vec![-1.0, -1.0]));
//! # Ok::<(), burnish_rl::SettingError>(())
//! ```
//!
//! **References.** The correction of the KL: DeepSeek-AI 2025 (DeepSeek-V3.2), arXiv:2512.02556. Objectives: see their
//! files.

use std::ops::Range;

use crate::columns::Columns;
use crate::correction::{Corrected, Diagnostics};
use crate::entropy::quantile;
use crate::fact::Fact;
use crate::kl;
use crate::{
    BatchConstant, Bound, Evaluation, LossConfig, Losses, Metric, Needs, Objective, Ratio, RatioBounds,
    SettingError, Streams, TokenLoss, Tokens, Totals, seam,
};

/// The objective. See the head of this file.
pub struct PolicyLoss {
    token_loss: Box<dyn TokenLoss>,
    config: LossConfig,
}

impl PolicyLoss {
    /// The objective of a configuration.
    ///
    /// # Errors
    /// As [`LossConfig::complete`].
    pub fn new(config: &LossConfig) -> Result<Self, SettingError> {
        let config = config.clone().complete()?;
        let token_loss = config.token_loss()?.build_config(&config.config)?;
        Ok(PolicyLoss::of(token_loss, config))
    }

    /// The objective around a token loss that need not be the one that `config` names.
    pub(crate) fn of(token_loss: Box<dyn TokenLoss>, config: LossConfig) -> Self {
        PolicyLoss { token_loss, config }
    }

    /// The KL of each token of a sequence, and the derivative of their *sum* with respect to the token's
    /// log-probability.
    fn kls(&self, tokens: &Tokens<'_>, reference: impl Iterator<Item = f64>) -> Vec<(f64, f64)> {
        let LossConfig { kl_estimator, kl_clamp, use_bias_correction_kl, .. } = self.config;
        let kl =
            |(policy, reference): (&f64, f64)| kl_estimator.evaluate_clamped(*policy, reference, kl_clamp);
        let mut kls: Vec<(f64, f64)> = tokens.policy.iter().zip(reference).map(kl).collect();
        let ratio = self.token_loss.ratio();
        match ratio {
            _ if !use_bias_correction_kl => {}
            Ratio::Token => {
                let all = kls.iter_mut().enumerate();
                all.for_each(|(at, kl)| *kl = kl::times_ratio(*kl, tokens.log_ratio(at)));
            }
            Ratio::Sequence | Ratio::SequenceAtToken => {
                let log_ratio = tokens.mean_log_ratio();
                let mean = kls.iter().map(|(kl, _)| kl).sum::<f64>() / tokens.len().max(1) as f64;
                for kl in &mut kls {
                    let moved = if ratio == Ratio::Sequence { mean } else { kl.0 };
                    *kl = (log_ratio.exp() * kl.0, log_ratio.exp() * (kl.1 + moved));
                }
            }
        }
        kls
    }

    fn trains_on_forks_only(&self) -> bool {
        self.config.top_entropy_quantile < 1.0
    }

    /// The tokens of a sequence that count, with their weights.
    fn sequence(&self, streams: &Streams<'_>, range: Range<usize>) -> Sequence {
        let correction = &self.config.correction;
        let all = Columns::of_sequence(streams, range, correction.bypass);
        if !correction.is_on() || all.positions.is_empty() {
            let weights = vec![1.0; all.positions.len()];
            return Sequence { columns: all, weights, corrected: None };
        }
        let corrected = correction.correct(&all.tokens());
        let mut weights: Vec<f64> = corrected
            .weights
            .iter()
            .zip(corrected.kept.iter().zip(&corrected.unmasked))
            .map(|(weight, (kept, unmasked))| if *kept && *unmasked { *weight } else { 0.0 })
            .collect();
        let columns = match correction.removes() {
            true => {
                let mut kept = corrected.kept.iter();
                weights.retain(|_| kept.next() == Some(&true));
                let kept = all.positions.iter().zip(&corrected.kept).filter(|(_, kept)| **kept);
                let mut columns = Columns::default();
                columns.push(streams, kept.map(|(at, _)| *at), correction.bypass);
                columns
            }
            false => all.clone(),
        };
        Sequence { columns, weights, corrected: Some((all, corrected)) }
    }

    /// For each sequence, the number of tokens that count in what its loss is averaged over: the sequence, or its
    /// group.
    fn unit_tokens(&self, sequences: &[Sequence], groups: &[Range<usize>]) -> Vec<usize> {
        let tokens = |sequence: &Sequence| sequence.columns.positions.len();
        if !self.config.aggregation.needs_groups() {
            return sequences.iter().map(tokens).collect();
        }
        let of_group = |group: &Range<usize>| {
            let total = sequences[group.clone()].iter().map(tokens).sum();
            vec![total; group.len()]
        };
        groups.iter().flat_map(of_group).collect()
    }

    /// The least entropy that a token needs to be trained on, from the entropies of an optimiser batch.
    fn fork_entropy(&self, entropies: &[f64]) -> f64 {
        match self.trains_on_forks_only() {
            true => quantile(entropies, 1.0 - self.config.top_entropy_quantile),
            false => f64::NEG_INFINITY,
        }
    }
}

impl Objective for PolicyLoss {
    fn needs(&self) -> Needs {
        let own = self.token_loss.needs();
        let config = &self.config;
        Needs {
            reference: own.reference || config.beta_in_loss() != 0.0,
            behavior: config.correction.behavior,
            entropies: own.entropies || config.entropy_coef != 0.0 || self.trains_on_forks_only(),
            batch_constants: own.batch_constants
                || config.correction.needs_batch()
                || self.trains_on_forks_only(),
            groups: own.groups || config.aggregation.needs_groups(),
            ..own
        }
    }

    fn facts(&self) -> Vec<&'static Fact> {
        self.token_loss.facts()
    }

    fn spans(&self) -> Vec<String> {
        self.token_loss.spans()
    }

    fn surrogate(&self) -> Option<RatioBounds> {
        let config = &self.config;
        let LossConfig { entropy_coef, correction, .. } = config;
        let adds = config.beta_in_loss() != 0.0 || *entropy_coef != 0.0;
        let weighs_by_policy = correction.bypass || correction.off_policy_mask_threshold > 0.0;
        let is_plain = !adds && !weighs_by_policy && !self.trains_on_forks_only();
        self.token_loss.surrogate().filter(|_| is_plain)
    }

    fn batch_constants(&self, whole: &Streams<'_>, totals: &Totals) -> Vec<BatchConstant> {
        let config = &self.config;
        let sequences: Vec<Sequence> =
            whole.sequences.iter().map(|range| self.sequence(whole, range.clone())).collect();
        let mut batch = Columns::default();
        for sequence in &sequences {
            batch.push(whole, sequence.columns.positions.iter().copied(), config.correction.bypass);
        }
        let tokens = batch.tokens();
        let corrected = sequences.iter().filter_map(|sequence| sequence.corrected.as_ref());
        let normaliser = config.correction.weight.normaliser(corrected.map(|(_, said)| &said.weights[..]));

        // Denominators count every token, but the tokens that remain must weigh as if only they had been counted.
        let all = totals.tokens as f64;
        let is_counted = config.correction.removes() && config.aggregation.counts_batch_tokens();
        let share = if is_counted && !tokens.is_empty() { all / tokens.len() as f64 } else { 1.0 };
        let fork_entropy = self.fork_entropy(tokens.entropy);
        let forks = tokens.entropy.iter().filter(|entropy| **entropy >= fork_entropy).count();
        let bonus = if config.use_entropy_aggregation { share } else { all / forks.max(1) as f64 };

        let values = match self.token_loss.needs().batch_constants {
            true => self.token_loss.batch_constants(&tokens, totals.seed),
            false => vec![0.0; tokens.len()],
        };
        let mut batch_constants = vec![BatchConstant::default(); whole.policy.len()];
        for (own, at) in batch.positions.iter().copied().enumerate() {
            let is_fork = f64::from(tokens.entropy[own] >= fork_entropy);
            batch_constants[at] = BatchConstant {
                weight: is_fork * share * normaliser,
                kl: share,
                entropy: is_fork * bonus,
                value: values[own],
            };
        }
        batch_constants
    }

    /// # Panics
    /// If the streams lack what [`Objective::needs`] asks for: the reference if `beta` is not 0, groups if the
    /// aggregation needs them.
    fn evaluate(&self, streams: &Streams<'_>, totals: &Totals) -> Evaluation {
        let config = &self.config;
        let beta = config.beta_in_loss();
        assert!(beta == 0.0 || streams.reference.is_some(), "beta is {beta}: the streams need a reference");
        let reference = streams.reference.filter(|_| beta != 0.0);
        let mut totals = *totals;
        if config.loss_scale_factor > 0 {
            totals.completion_tokens_max = config.loss_scale_factor;
        }

        let sequences: Vec<Sequence> =
            streams.sequences.iter().map(|range| self.sequence(streams, range.clone())).collect();
        let unit_tokens = self.unit_tokens(&sequences, streams.groups);
        assert_eq!(unit_tokens.len(), sequences.len(), "the aggregation needs groups");
        let mut evaluation = Evaluation::zero(streams.policy.len());
        let clips_sequences = self.token_loss.ratio() == Ratio::Sequence;
        let (mut means, mut diagnostics) = (Means::default(), Diagnostics::default());
        for (sequence, unit_tokens) in sequences.iter().zip(unit_tokens) {
            if let Some((all, corrected)) = &sequence.corrected {
                diagnostics.add(&config.correction, &all.tokens(), corrected);
            }
            let columns = &sequence.columns;
            if columns.positions.is_empty() {
                continue;
            }
            let tokens = columns.tokens();
            let mut losses = Losses::zero(tokens.len());
            self.token_loss.losses(&tokens, &mut losses);
            let denominator = config.aggregation.denominator(unit_tokens, &totals);
            let kls = reference.map(|all| self.kls(&tokens, columns.positions.iter().map(|at| all[*at])));
            let kl_weight = self.token_loss.kl_weight(tokens.len());
            for (own, &at) in columns.positions.iter().enumerate() {
                let constant = streams.batch_constants.get(at).copied().unwrap_or_default();
                let weight = constant.weight * sequence.weights[own];
                let mut value = times(weight, losses.value[own]);
                let mut derivative = times(weight, losses.d_policy[own]);
                if let Some(kls) = &kls {
                    let (kl, d_kl) = kls[own];
                    value += constant.kl * beta * kl_weight * kl;
                    derivative += constant.kl * beta * kl_weight * d_kl;
                    means.kl += kl;
                }
                evaluation.loss += value / denominator;
                evaluation.d_policy[at] = derivative / denominator;
                if config.entropy_coef != 0.0 {
                    let of_batch = totals.tokens.max(1) as f64;
                    let denominator = if config.use_entropy_aggregation { denominator } else { of_batch };
                    let d_entropy = -config.entropy_coef * constant.entropy / denominator;
                    evaluation.loss += d_entropy * tokens.entropy[own];
                    evaluation.d_entropy[at] = d_entropy;
                }
                means.add(tokens.entropy[own], constant.entropy != 0.0);
            }
            means.clip(&losses.clipped, clips_sequences);
            losses.metrics.into_iter().for_each(|metric| seam::add(&mut evaluation.metrics, metric));
        }
        // This part's share of all sequences, including those without a loss token, which are in no part.
        let tokens = streams.loss_mask.iter().filter(|in_loss| **in_loss).count() as f64;
        let share = totals.sequences as f64 * tokens / totals.tokens.max(1) as f64;
        let clipped = if clips_sequences { share } else { means.tokens };
        evaluation.metrics.extend(means.metrics(clipped, reference.is_some(), self.trains_on_forks_only()));
        evaluation.metrics.extend(diagnostics.metrics());
        evaluation
    }
}

/// A sequence, ready to be evaluated.
struct Sequence {
    /// The tokens that count.
    columns: Columns,
    /// What their losses are multiplied by.
    weights: Vec<f64>,
    /// The correction of all its tokens, if there is one.
    corrected: Option<(Columns, Corrected)>,
}

/// The loss of a token that is left out is 0, even where it is infinite.
fn times(weight: f64, value: f64) -> f64 {
    if weight == 0.0 { 0.0 } else { weight * value }
}

/// Sums over loss tokens; for clipping, over sequences if these are clipped as a whole.
#[derive(Default)]
struct Means {
    tokens: f64,
    entropy: f64,
    forks: f64,
    fork_entropy: f64,
    kl: f64,
    clipped_low: f64,
    clipped_high: f64,
}

impl Means {
    fn add(&mut self, entropy: f64, is_fork: bool) {
        self.tokens += 1.0;
        self.entropy += entropy;
        if is_fork {
            self.forks += 1.0;
            self.fork_entropy += entropy;
        }
    }

    /// Adds a sequence whose tokens crossed these bounds.
    fn clip(&mut self, clipped: &[Option<Bound>], by_sequence: bool) {
        let count = |bound| clipped.iter().filter(|clipped| **clipped == Some(bound)).count() as f64;
        let share = if by_sequence { clipped.len() as f64 } else { 1.0 };
        self.clipped_low += count(Bound::Low) / share;
        self.clipped_high += count(Bound::High) / share;
    }

    /// `clipped` is the number of tokens, or of sequences, that could have been clipped.
    fn metrics(&self, clipped: f64, with_kl: bool, with_forks: bool) -> Vec<Metric> {
        let mut sums = vec![
            ("entropy", self.entropy, self.tokens),
            ("clip_ratio/low_mean", self.clipped_low, clipped),
            ("clip_ratio/high_mean", self.clipped_high, clipped),
            ("clip_ratio/region_mean", self.clipped_low + self.clipped_high, clipped),
        ];
        if with_kl {
            sums.push(("kl", self.kl, self.tokens));
        }
        let mut metrics: Vec<Metric> =
            sums.into_iter().map(|(name, sum, weight)| Metric { name, sum, weight }).collect();
        if with_forks {
            metrics.push(Metric { name: "entropy_top", sum: self.fork_entropy, weight: self.forks });
        }
        metrics
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TokenFact;
    use crate::fact::VALUES;

    /// The squared distance of log-probs from values, inside of a span.
    struct InSpan;

    impl TokenLoss for InSpan {
        fn facts(&self) -> Vec<&'static Fact> {
            vec![&VALUES]
        }

        fn spans(&self) -> Vec<String> {
            vec!["thoughts".to_owned()]
        }

        fn losses(&self, tokens: &Tokens<'_>, losses: &mut Losses) {
            let (Some(values), Some(inside)) = (tokens.fact(&VALUES), tokens.span("thoughts")) else {
                return;
            };
            assert_eq!(tokens.span("answer"), None);
            for at in 0..tokens.len() {
                let distance = tokens.policy[at] - values[at];
                losses.value[at] = inside[at] * distance.powi(2);
                losses.d_policy[at] = inside[at] * 2.0 * distance;
            }
        }
    }

    #[test]
    fn a_token_loss_has_the_facts_and_spans_that_it_asks_for_at_the_tokens_of_the_loss() {
        let loss = PolicyLoss::of(Box::new(InSpan), LossConfig::default());
        assert_eq!(loss.token_facts(), ["critic.values", "span.thoughts"]);
        let (policy, entropy) = ([-0.5, -1.5, -1.0, -2.0, -0.25], [0.0; 5]);
        let numbers = [[9.0, -1.0, 9.0, -1.0, -1.0], [1.0, 1.0, 1.0, 0.0, 1.0]];
        let ids = loss.token_facts().into_iter();
        let facts: Vec<TokenFact> =
            ids.zip(numbers).map(|(id, numbers)| TokenFact { id, numbers: numbers.to_vec() }).collect();
        let streams = Streams {
            policy: &policy,
            proximal: &policy,
            behavior: &policy,
            reference: None,
            teacher: None,
            entropy: &entropy,
            advantage: &[1.0; 5],
            loss_mask: &[false, true, false, true, true],
            sequences: &[0..3, 3..5],
            groups: &[],
            directions: &[],
            parts: &[],
            facts: &facts,
            batch_constants: &[],
        };
        let totals =
            Totals { sequences: 2, tokens: 3, tokens_generation: 3, minibatches: 1, ..Totals::default() };
        let found = loss.evaluate(&streams, &totals);
        assert_eq!(found.d_policy, [0.0, -1.0 / 3.0, 0.0, 0.0, 1.5 / 3.0]);
        assert!((found.loss - (0.25 + 0.5625) / 3.0).abs() < 1e-15);
    }
}
