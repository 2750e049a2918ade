//! How far the training policy is from the one that sampled: verl's `rollout_corr/*` metrics.
//!
//! With `x` the log-ratio of the correction, `n` the loss tokens of a sequence, and every mean over the optimiser
//! batch:
//!
//! | metric | mean over | of |
//! | --- | --- | --- |
//! | `kl`, `k3_kl` | tokens | `-x`, `exp(x) - x - 1` |
//! | `chi2_token` | tokens | `exp(2x) - 1` |
//! | `training_ppl`, `rollout_ppl` | sequences | `exp(-mean log-probability)` of the training policy, of the behavior |
//! | `training_log_ppl`, `rollout_log_ppl` | sequences | their logarithms |
//! | `log_ppl_diff`, `log_ppl_abs_diff`, `ppl_ratio` | sequences | `d = -Σx / n`, `\|d\|`, `exp(d)` |
//! | `chi2_seq` | sequences | `exp(2 Σx) - 1` |
//! | `rollout_is_mean` | tokens | the weight, before it is normalised |
//! | `rollout_is_seq_mean` | sequences | the mean weight of the sequence |
//! | `rollout_is_ratio_fraction_high`, `_low` | tokens, or sequences with `level = "sequence"` | is the ratio above `max`, below `min` (or `1 / max`)? |
//! | `rollout_is_seq_fraction_high`, `_low` | sequences | the same of the mean ratio of the sequence |
//! | `rollout_rs_masked_fraction` | tokens | is it rejected? |
//! | `rollout_rs_seq_masked_fraction` | sequences | is any of its tokens rejected? |
//! | `opsm_masked_fraction` | tokens | is it left out by `off_policy_mask_threshold`? |
//!
//! **Left out** of verl's list: metrics that are not means over tokens or sequences and so can't be put together from
//! micro-batches: every `_min` and `_max`, `_std`, `rollout_is_eff_sample_size`. **Differs:** a sequence without a loss
//! token does not count here; verl counts it as one of perplexity 1 and, in `rollout_is_seq_*`, of weight 0. As in
//! verl, the log-ratios of `chi2_*` are clamped to ±20.

use super::{Corrected, CorrectionConfig, WeightLevel};
use crate::{Metric, Tokens};

/// Metrics of the sequences of a part of the batch.
#[derive(Debug, Default)]
pub struct Diagnostics {
    metrics: Vec<Metric>,
}

const LOG_RATIO_MAX: f64 = 20.0;

fn chi2(log_ratio: f64) -> f64 {
    (2.0 * log_ratio.clamp(-LOG_RATIO_MAX, LOG_RATIO_MAX)).exp_m1()
}

fn share(of: impl Iterator<Item = bool>) -> f64 {
    of.map(f64::from).sum()
}

impl Diagnostics {
    /// Adds a sequence, which has at least one loss token, and its correction.
    pub fn add(&mut self, config: &CorrectionConfig, tokens: &Tokens<'_>, corrected: &Corrected) {
        let x = config.log_ratios(tokens);
        let count = x.len() as f64;
        let sum: f64 = x.iter().sum();
        let rollout_log_ppl = -tokens.behavior.iter().sum::<f64>() / count;
        let log_ppl_diff = -sum / count;
        let training_log_ppl = rollout_log_ppl + log_ppl_diff;

        self.token("rollout_corr/kl", -sum, count);
        self.token("rollout_corr/k3_kl", x.iter().map(|x| x.exp_m1() - x).sum(), count);
        self.token("rollout_corr/chi2_token", x.iter().map(|x| chi2(*x)).sum(), count);
        self.sequence("rollout_corr/training_ppl", training_log_ppl.exp());
        self.sequence("rollout_corr/rollout_ppl", rollout_log_ppl.exp());
        self.sequence("rollout_corr/training_log_ppl", training_log_ppl);
        self.sequence("rollout_corr/rollout_log_ppl", rollout_log_ppl);
        self.sequence("rollout_corr/log_ppl_diff", log_ppl_diff);
        self.sequence("rollout_corr/log_ppl_abs_diff", log_ppl_diff.abs());
        self.sequence("rollout_corr/ppl_ratio", log_ppl_diff.exp());
        self.sequence("rollout_corr/chi2_seq", chi2(sum));
        if config.weight.is_on() {
            self.weights(config, &x, corrected);
        }
        if !config.reject.is_empty() {
            let rejected = share(corrected.kept.iter().map(|kept| !kept));
            self.token("rollout_corr/rollout_rs_masked_fraction", rejected, count);
            self.sequence("rollout_corr/rollout_rs_seq_masked_fraction", f64::from(rejected > 0.0));
        }
        if config.off_policy_mask_threshold > 0.0 {
            let masked = share(corrected.unmasked.iter().map(|unmasked| !unmasked));
            self.token("rollout_corr/opsm_masked_fraction", masked, count);
        }
    }

    fn weights(&mut self, config: &CorrectionConfig, log_ratios: &[f64], corrected: &Corrected) {
        let weight = &config.weight;
        let count = log_ratios.len() as f64;
        let ratios = weight.ratios(log_ratios);
        let low = if weight.min > 0.0 { weight.min } else { 1.0 / weight.max };
        let sum: f64 = corrected.weights.iter().sum();
        self.token("rollout_corr/rollout_is_mean", sum, count);
        self.sequence("rollout_corr/rollout_is_seq_mean", sum / count);

        let of_sequence = weight.level != WeightLevel::Token;
        let counted = if of_sequence { &ratios[..1] } else { &ratios[..] };
        let (highs, lows) =
            (counted.iter().map(|ratio| *ratio > weight.max), counted.iter().map(|ratio| *ratio < low));
        let counted = counted.len() as f64;
        self.token("rollout_corr/rollout_is_ratio_fraction_high", share(highs), counted);
        self.token("rollout_corr/rollout_is_ratio_fraction_low", share(lows), counted);
        let mean = ratios.iter().sum::<f64>() / count;
        self.sequence("rollout_corr/rollout_is_seq_fraction_high", f64::from(mean > weight.max));
        self.sequence("rollout_corr/rollout_is_seq_fraction_low", f64::from(mean < low));
    }

    fn token(&mut self, name: &'static str, sum: f64, weight: f64) {
        crate::seam::add(&mut self.metrics, Metric { name, sum, weight });
    }

    fn sequence(&mut self, name: &'static str, value: f64) {
        self.token(name, value, 1.0);
    }

    /// All metrics; none if no sequence was added.
    pub fn metrics(self) -> Vec<Metric> {
        self.metrics
    }
}
