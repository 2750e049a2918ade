//! What to do about tokens that were sampled by another policy than the one the update starts from.
//!
//! **What it does.** The tokens of an update were sampled by a *behavior* policy: older weights, or the same weights
//! in an engine that rounds differently, or with filters and penalties. There are three remedies, each off by default:
//! to multiply the loss of a token by an importance weight ([`WeightConfig`]), to leave out tokens or sequences that
//! are too far away ([`Rejection`]), and to leave out sequences with a negative advantage from which the policy has
//! moved away (OPSM, below). All are constants of the derivative, and all act on the objective's own loss, before the
//! KL penalty is added.
//!
//! **Formula.** With `lp` the policy's log-probability, `old` the proximal's and `roll` the behavior's, the log-ratio
//! of the correction over the loss tokens of a sequence is
//!
//! ```text
//! x[t] = old[t] - roll[t]     decoupled, the default: three policies
//! x[t] = lp[t]  - roll[t]     with `bypass`: `roll` takes the place of `old` everywhere; two policies
//! ```
//!
//! and the loss of token `t` is multiplied by `w[t] · Π_i kept_i[t] · opsm[t]`, with
//!
//! ```text
//! opsm[t] = 0 where A[t] < 0 and mean_t(roll - lp) > off_policy_mask_threshold, else 1
//! ```
//!
//! **Behavior** enters in one place only: `roll`, the log-probability that is taken for that of the policy that
//! sampled. A trace has two for every token, and the key `behavior` says which one is used:
//!
//! | `behavior` | `roll` is that of | `exp(lp - roll)` makes up for |
//! | --- | --- | --- |
//! | `"model"`, the default | the whole softmax at the temperature, under the weights that sampled | weights that are behind, rounding |
//! | `"sampled"` | what the token was drawn from: after `min_tokens`, penalties and filters | that, and what these changed |
//!
//! Objectives that themselves use the policy that sampled are given the same `roll`: `m2po`, `prime_rl_symmetric`,
//! `dppo_tv` and `dppo_kl` with `anchor = "behavior"`, `opd` and `aopd` (there `b`). The proximal policy is a whole
//! softmax in any case: `proximal = "sampling"` is the model's log-probability, whatever `behavior` says. So on policy,
//! with `behavior = "sampled"`, `x[t] = old[t] - roll[t]` is only what filters and penalties changed. In expectation
//! over what is drawn, `w·f` with `w = exp(x)` is the sum of `π·f` over the tokens that can be drawn: over all tokens
//! with penalties alone, without the tokens that filters cut. Bounds on weights and rejections take more away, as
//! always.
//!
//! **Rejected tokens** still count in the denominators of [`crate::aggregation`] (`rejected = "zero"`, the default:
//! TRL, AReaL), so a batch with many rejected tokens makes a small step. Or they leave the loss as if they had no loss
//! mask (`rejected = "remove"`: verl, whose `response_mask` shrinks): their KL and their entropy go too, and they no
//! longer count in denominators (the sequence's own token count, the tokens of its group, those of the optimiser
//! batch). Counts of sequences stay. For `dapo`, the tokens of the generation shrink in the same proportion as those of
//! the optimiser batch. (In its bypass mode verl rejects within the loss, after it has counted the tokens of the batch:
//! `token-mean` does not shrink there, `seq-mean-token-mean` does.)
//!
//! **Reduces to.** Nothing at all where `old = roll`: every `x` is exactly 0, every weight exactly 1. With one token
//! per sequence, `token`, `sequence` and `geometric` are the same.
//!
//! **How the frameworks' settings are written here.**
//!
//! | theirs | here |
//! | --- | --- |
//! | TRL `vllm_importance_sampling_mode = "token_truncate"` (`sequence_truncate`) | `weight = { level = "token", max = 3.0 }` (`"sequence"`) |
//! | TRL `token_mask` (`sequence_mask`) | the same with `action = "mask"` |
//! | TRL `vllm_importance_sampling_clip_min` | `weight.min` |
//! | TRL, slime: OPSM | `off_policy_mask_threshold` |
//! | verl `rollout_is = "token"`, `rollout_is_threshold = 2.0` | `weight = { level = "token", max = 2.0 }` |
//! | verl `rollout_is_threshold = "0.5_5"` (IcePop) | `weight = { action = "mask", min = 0.5, max = 5.0 }` |
//! | verl `rollout_rs = "seq_mean_k1"`, `rollout_rs_threshold = "0.99_1.01"` | `reject = [{ statistic = "seq_mean_k1", min = 0.99, max = 1.01 }]`, `rejected = "remove"` |
//! | verl `bypass_mode` | `bypass = true` |
//! | NeMo `seq-mask-tis` with bounds `lo`, `hi` | `weight = { level = "token", max = 1e30 }`, `reject = [{ statistic = "seq_mean_k1", min = 1/hi, max = 1/lo }]` |
//! | verl's `old_log_prob` pass, AReaL `prox_logp_method = "recompute"` | `proximal = "recompute"` |
//! | AReaL `prox_logp_method = "loglinear"` | `proximal = "loglinear"` ([`loglinear_proximal`]) |
//! | vLLM `logprobs_mode = "processed_logprobs"`, which TRL and verl set | `behavior = "sampled"` |
//!
//! (vLLM's own default, `"raw_logprobs"`, is the softmax before the temperature: at temperature 1 that is `"model"`, at
//! others it is neither.)
//!
//! **Differs from the frameworks.** SkyRL's `rollout_is` does not multiply the clipped loss by a ratio of its own: the
//! ratio to the behavior *replaces* that to the proximal, which is `bypass` without a weight. In TRL the VESPO
//! objective has the weight in its own formula. verl normalises weights over a whole step, burnish over an optimiser
//! batch. With `bypass_mode` and PPO's clipping, verl computes weights and does not use them, which is refused here.
//! TRL gives a token without a log-probability from the engine the weight 1; here every token has one.
//!
//! **References.** Truncated weights: Ionides 2008; Yao et al. 2025, "Your efficient RL framework secretly brings you
//! off-policy RL training". Masked weights (IcePop): Ling team 2025, arXiv:2510.18855. Rejection and the statistics:
//! Liu et al. 2025, "When speed kills stability". OPSM: DeepSeek-AI 2025 (DeepSeek-V3.2), arXiv:2512.02556. Three
//! policies: Hilton et al. 2021, arXiv:2110.00641; Fu et al. 2025 (AReaL), arXiv:2505.24298.

mod diagnostics;
mod loglinear;
mod rejection;
mod weights;

use serde::{Deserialize, Serialize};

pub use diagnostics::Diagnostics;
pub use loglinear::{loglinear_proximal, loglinear_share};
pub use rejection::{Rejection, Scope, Statistic};
pub use weights::{WeightAction, WeightConfig, WeightLevel};

use crate::settings::require;
use crate::{SettingError, Tokens};

/// `[loss.correction]`. See the head of this file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CorrectionConfig {
    /// Does the behavior policy take the place of the proximal one, also in the ratio of the objective? The proximal's
    /// log-probabilities are then not needed. Default: false.
    pub bypass: bool,
    /// Which log-probabilities of the tokens are taken for those of the policy that sampled. Default: `model`.
    #[serde(skip_serializing_if = "BehaviorSource::is_model")]
    pub behavior: BehaviorSource,
    /// Where the log-probabilities of the proximal policy come from if earlier weights sampled. Default: `sampling`.
    #[serde(skip_serializing_if = "ProximalSource::is_sampling")]
    pub proximal: ProximalSource,
    /// What the loss of a token is multiplied by. Default: nothing.
    pub weight: WeightConfig,
    /// Criteria that leave out tokens or whole sequences: a token must pass all of them. Default: none.
    pub reject: Vec<Rejection>,
    /// Do tokens left out by `reject` still count in denominators? Default: `zero`: they do.
    pub rejected: Rejected,
    /// How far the policy may move away from a sequence with a negative advantage before the sequence is left out: nats
    /// per token from the behavior policy, averaged over the sequence; 0 (default) is no limit. Such a sequence still
    /// counts in denominators, whatever `rejected` says.
    pub off_policy_mask_threshold: f64,
}

/// Which of a token's two log-probabilities counts as the one it was sampled with. See the head of this file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BehaviorSource {
    /// The model's: that of the whole softmax at the temperature.
    #[default]
    Model,
    /// That of the distribution that it was drawn from, after penalties and filters.
    Sampled,
}

impl BehaviorSource {
    /// A key that came later is left out where it says nothing, so that what was made before keeps its hash.
    fn is_model(&self) -> bool {
        *self == BehaviorSource::Model
    }
}

/// Where the log-probabilities of the proximal policy come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProximalSource {
    /// From sampling: the model that sampled is the proximal one. (Recipes used to say `behavior`.)
    #[default]
    #[serde(alias = "behavior")]
    Sampling,
    /// From a forward pass with the weights that the update starts from.
    Recompute,
    /// Interpolated between those of sampling and of the policy, by the age of the token: [`loglinear_proximal`].
    Loglinear,
}

impl ProximalSource {
    /// A key that came later is left out where it says nothing, so that what was made before keeps its hash.
    fn is_sampling(&self) -> bool {
        *self == ProximalSource::Sampling
    }
}

/// What happens to a token that is left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rejected {
    /// Its loss is 0.
    #[default]
    Zero,
    /// It is treated as if it had no loss mask.
    Remove,
}

/// The correction of each loss token of a sequence.
#[derive(Debug, Clone, PartialEq)]
pub struct Corrected {
    /// The importance weight, before it is normalised.
    pub weights: Vec<f64>,
    /// Has the token passed every rejection?
    pub kept: Vec<bool>,
    /// Has it passed the mask of `off_policy_mask_threshold`?
    pub unmasked: Vec<bool>,
}

impl CorrectionConfig {
    /// Does it do anything?
    pub fn is_on(&self) -> bool {
        self.bypass || self.weight.is_on() || !self.reject.is_empty() || self.off_policy_mask_threshold > 0.0
    }

    /// Does it need to see the whole optimiser batch first?
    pub fn needs_batch(&self) -> bool {
        self.weight.batch_normalize || self.removes()
    }

    /// Can it take tokens out of the denominators?
    pub fn removes(&self) -> bool {
        self.rejected == Rejected::Remove && !self.reject.is_empty()
    }

    /// # Errors
    /// If a value is out of range.
    pub fn check(&self) -> Result<(), SettingError> {
        self.weight.check()?;
        for (at, rejection) in self.reject.iter().enumerate() {
            rejection.check()?;
            if self.reject[..at].iter().any(|earlier| earlier.statistic == rejection.statistic) {
                let name = rejection.statistic.name();
                return Err(SettingError::new("correction.reject", format!("has `{name}` twice")));
            }
        }
        let threshold = self.off_policy_mask_threshold;
        let key = "correction.off_policy_mask_threshold";
        require(key, threshold, |threshold| threshold >= 0.0, "must be 0 (off) or more")
    }

    /// `x[t]` of the loss tokens of a sequence.
    pub fn log_ratios(&self, tokens: &Tokens<'_>) -> Vec<f64> {
        let training = if self.bypass { tokens.policy } else { tokens.proximal };
        training.iter().zip(tokens.behavior).map(|(training, behavior)| training - behavior).collect()
    }

    /// The correction of the loss tokens of one sequence, which has at least one.
    pub fn correct(&self, tokens: &Tokens<'_>) -> Corrected {
        let log_ratios = self.log_ratios(tokens);
        let mut kept = vec![true; tokens.len()];
        self.reject.iter().for_each(|rejection| rejection.reject(&log_ratios, &mut kept));
        Corrected { weights: self.weight.weights(&log_ratios), kept, unmasked: self.unmasked(tokens) }
    }

    fn unmasked(&self, tokens: &Tokens<'_>) -> Vec<bool> {
        let threshold = self.off_policy_mask_threshold;
        let moved_away: f64 = tokens.behavior.iter().zip(tokens.policy).map(|(roll, lp)| roll - lp).sum();
        let is_far = threshold > 0.0 && moved_away / tokens.len() as f64 > threshold;
        tokens.advantage.iter().map(|advantage| !(is_far && *advantage < 0.0)).collect()
    }
}
