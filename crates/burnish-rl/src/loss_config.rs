//! `[loss]`: the settings of [`crate::PolicyLoss`], and of what a run does around it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::aggregation::Aggregation;
use crate::catalogue::{
    DISTILLATIONS, Entry, Further, OBJECTIVES, PREFERENCES, REWARD_MODELS, find_among, no_settings,
};
use crate::correction::{BehaviorSource, CorrectionConfig};
use crate::distillation::HeadLoss;
use crate::entropy::AdaptiveEntropy;
use crate::fact::Fact;
use crate::kl::{AdaptiveKl, KlEstimator};
use crate::settings::require;
use crate::terms::{LossTerm, PARTS_MAX, Terms};
use crate::{
    BatchConstant, Evaluation, Needs, Objective, PolicyLoss, SettingError, Streams, TokenLoss, Totals,
};

/// Settings of [`crate::PolicyLoss`], and of what a run does around it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LossConfig {
    /// Id of the token loss, or of a loss that stands alone: a preference loss, a distillation. Default: `ppo_clip`.
    pub objective: String,
    /// Its own settings.
    pub config: Value,
    /// The span of answers that is learned from, by its name in `[[spans]]`; tokens outside of it leave the loss. Default: none,
    /// whole answers.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub on: String,
    /// Weight of the KL divergence from the reference; 0 (default) needs no reference.
    pub beta: f64,
    /// The estimator of a token's KL divergence. Default: `k3`.
    pub kl_estimator: KlEstimator,
    /// Is the KL multiplied by the ratio of the objective ([`crate::Ratio`])? With k1 or k3 and the ratio of a token,
    /// its expected gradient is then that of the KL divergence, whatever policy sampled the tokens; see [`crate::kl`].
    /// Default: true, as in TRL 1.16 (earlier versions and the paper: false).
    pub use_bias_correction_kl: bool,
    /// Is the KL of a sequence subtracted from its reward before groups are compared, instead of added to the loss?
    /// [`crate::PolicyLoss`] then uses no reference. Default: false.
    pub use_kl_in_reward: bool,
    /// The greatest magnitude of the KL of a token in the loss, in nats; 0 (default) is no bound. See [`crate::kl`].
    pub kl_clamp: f64,
    /// How a run changes `beta` from step to step. Default: not at all.
    pub adaptive_kl: AdaptiveKl,
    /// Does a run leave truncated answers out of the loss and of token counts? As in TRL, they still count as
    /// sequences, and their rewards count in their groups. Default: false.
    pub mask_truncated_completions: bool,
    /// How token losses become one number. Default: `dapo`.
    pub aggregation: Aggregation,
    /// The constant of `aggregation = "dr_grpo"`, in tokens; 0 (default) takes the most tokens that a completion may
    /// have.
    pub loss_scale_factor: usize,
    /// What to do about tokens that another policy sampled. Default: nothing.
    pub correction: CorrectionConfig,
    /// Weight of the entropy bonus: this many times the mean entropy is subtracted from the loss. A negative weight
    /// makes the policy surer. Default: 0.
    pub entropy_coef: f64,
    /// Is the bonus averaged as `aggregation` says, as in verl, instead of over the tokens of the optimiser batch, as
    /// in TRL? Default: false.
    pub use_entropy_aggregation: bool,
    /// How a run changes `entropy_coef` from step to step. Default: not at all.
    pub adaptive_entropy: AdaptiveEntropy,
    /// Share of the tokens that are trained on, those with the highest entropy; see [`crate::entropy`]. Default: 1,
    /// all.
    pub top_entropy_quantile: f64,
    /// Further losses, each on a span of the answers or on whole ones; see [`crate::terms`]. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub terms: Vec<LossTerm>,
    /// Losses that `objective` can name besides those of this crate; the reader of a recipe knows them.
    #[serde(skip)]
    pub further: Further,
}

impl Default for LossConfig {
    fn default() -> Self {
        LossConfig {
            objective: "ppo_clip".to_owned(),
            config: no_settings(),
            on: String::new(),
            beta: 0.0,
            kl_estimator: KlEstimator::K3,
            use_bias_correction_kl: true,
            use_kl_in_reward: false,
            kl_clamp: 0.0,
            adaptive_kl: AdaptiveKl::default(),
            mask_truncated_completions: false,
            aggregation: Aggregation::default(),
            loss_scale_factor: 0,
            correction: CorrectionConfig::default(),
            entropy_coef: 0.0,
            use_entropy_aggregation: false,
            adaptive_entropy: AdaptiveEntropy::default(),
            top_entropy_quantile: 1.0,
            terms: Vec::new(),
            further: Further::default(),
        }
    }
}

impl LossConfig {
    /// The same, with every setting of the objective written out.
    ///
    /// # Errors
    /// If there is no such objective, or a value is unknown, of the wrong type or out of range. Combinations are
    /// checked by [`crate::rules`].
    pub fn complete(mut self) -> Result<Self, SettingError> {
        self.config = match self.whole() {
            Some(entry) => entry.complete_config(&self.config)?,
            None => self.token_loss()?.complete_config(&self.config)?,
        };
        require("beta", self.beta, |beta| beta >= 0.0, "must be 0 or more")?;
        require("kl_clamp", self.kl_clamp, |clamp| clamp >= 0.0, "must be 0 (no bound) or more")?;
        require("entropy_coef", self.entropy_coef, |_| true, "must be a number")?;
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        require("top_entropy_quantile", self.top_entropy_quantile, is_share, "must be 0 to 1")?;
        self.adaptive_kl.check()?;
        self.adaptive_entropy.check()?;
        self.correction.check()?;
        if self.terms.len() >= PARTS_MAX {
            return Err(SettingError::new("terms", format!("must be {} at most", PARTS_MAX - 1)));
        }
        let terms = std::mem::take(&mut self.terms).into_iter().enumerate();
        let complete = |(at, term): (usize, LossTerm)| {
            let wrong =
                |error: SettingError| SettingError { key: format!("terms[{at}].{}", error.key), ..error };
            term.complete(&self).map_err(wrong)
        };
        self.terms = terms.map(complete).collect::<Result<_, _>>()?;
        if !self.terms.is_empty() {
            let main = PolicyLoss::new(&LossConfig { terms: Vec::new(), ..self.clone() })?;
            Terms::new(Box::new(main), &self)?;
        }
        Ok(self)
    }

    /// The objective: a token loss with everything that [`crate::PolicyLoss`] adds to it; or a preference loss or a
    /// distillation, for which only its own settings and `correction.behavior` count.
    ///
    /// # Errors
    /// As [`LossConfig::complete`].
    pub fn build(&self) -> Result<Box<dyn Objective>, SettingError> {
        match self.whole() {
            Some(entry) => {
                let objective = entry.build_config(&self.config)?;
                Ok(Box::new(Whole { objective, behavior: self.correction.behavior }))
            }
            None if self.terms.is_empty() => Ok(Box::new(PolicyLoss::new(self)?)),
            None => Ok(Box::new(Terms::new(Box::new(PolicyLoss::new(self)?), self)?)),
        }
    }

    /// The entry of a token loss.
    ///
    /// # Errors
    /// If the objective is not a token loss.
    pub(crate) fn token_loss(&self) -> Result<&'static Entry<dyn TokenLoss>, SettingError> {
        find_among(OBJECTIVES, self.further.objectives, "objective", &self.objective)
    }

    /// The entry of a preference loss, if the objective is one.
    pub fn preference(&self) -> Option<&'static Entry<dyn Objective>> {
        PREFERENCES.iter().find(|entry| entry.card.id == self.objective)
    }

    /// The entry of a distillation, if the objective is one.
    pub fn distillation(&self) -> Option<&'static Entry<dyn Objective>> {
        DISTILLATIONS.iter().find(|entry| entry.card.id == self.objective)
    }

    /// The entry of a reward model's loss, if the objective is one.
    pub fn reward_model(&self) -> Option<&'static Entry<dyn Objective>> {
        REWARD_MODELS.iter().find(|entry| entry.card.id == self.objective)
    }

    /// The entry of an objective that stands alone, without what [`crate::PolicyLoss`] adds to a token loss.
    pub(crate) fn whole(&self) -> Option<&'static Entry<dyn Objective>> {
        self.preference().or_else(|| self.reward_model()).or_else(|| self.distillation())
    }

    /// The weight of the KL in the loss; 0 if it is part of the reward.
    pub fn beta_in_loss(&self) -> f64 {
        if self.use_kl_in_reward { 0.0 } else { self.beta }
    }
}

/// An objective that stands alone, with the choice of log-probs for the policy that sampled.
struct Whole {
    objective: Box<dyn Objective>,
    behavior: BehaviorSource,
}

impl Objective for Whole {
    fn needs(&self) -> Needs {
        Needs { behavior: self.behavior, ..self.objective.needs() }
    }

    fn facts(&self) -> Vec<&'static Fact> {
        self.objective.facts()
    }

    fn spans(&self) -> Vec<String> {
        self.objective.spans()
    }

    fn batch_constants(&self, whole: &Streams<'_>, totals: &Totals) -> Vec<BatchConstant> {
        self.objective.batch_constants(whole, totals)
    }

    fn head(&self) -> Option<&dyn HeadLoss> {
        self.objective.head()
    }

    fn evaluate(&self, streams: &Streams<'_>, totals: &Totals) -> Evaluation {
        self.objective.evaluate(streams, totals)
    }
}
