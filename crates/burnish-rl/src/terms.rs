//! Several losses on one batch, each on a part of the tokens.
//!
//! **What it does.** Adds further losses to that of `[loss]`: imitation of what went well on the thoughts, a policy
//! gradient on the rest, and the like. Each sees the batch as if only the tokens of its part counted.
//!
//! **Formula.** With `L_0` the loss of `[loss]`, and `L_k` that of `[[loss.terms]]` number `k`,
//!
//! ```text
//! loss = L_0(part 0) + Σ_k weight_k · L_k(part k)
//! ```
//!
//! where `part k` means the loss mask, and the token counts of the optimiser batch, of the tokens in the span of term `k`
//! ([`crate::Streams::parts`]). Parts may overlap. A term is a token loss, averaged as `aggregation` says and corrected as
//! `correction` says, or one of two losses that stand in no catalogue. With `lp` and `old` the log-probabilities under the
//! policy and the proximal policy, `D` the divisor of [`crate::aggregation`], and `N⁺` the number of tokens in the part with an
//! advantage above 0:
//!
//! ```text
//! positive_nll = -Σ_{A > 0} lp / N⁺
//! proximal_kl  = Σ (exp(lp - old) - (lp - old) - 1) / D
//! ```
//!
//! `proximal_kl` estimates `KL(old ‖ π)` from tokens that the proximal policy sampled, without bias and never negative; it and
//! its derivative are 0 in the first pass over the episodes of a step. Both count every token of their part, also those that
//! `correction` rejects.
//!
//! **Derivative.** The same sum of the terms' own: `-1 / N⁺` where `A > 0`, and `(exp(lp - old) - 1) / D`.
//!
//! **Reduces to.** The loss of `[loss]` if every weight is 0.
//!
//! **Differs from the papers.** `positive_nll` is VAPO's on correct answers. Streams have no rewards, so here an answer is a
//! success if its advantage is above 0. In NeMo-RL (`positive_example_nll_weight`) it is one if its reward is above 0, so that
//! a group in which all succeed is imitated too; its `N⁺` is that of a micro-batch.
//!
//! **Metrics.** Those of `[loss]`, on its own part, and `loss/terms/K`: the loss of term `K`, counted from 1, without its weight.
//! `proximal_kl` adds the mean of its sum over tokens under its own name.
//!
//! **References.** `positive_nll`: Yue et al. 2025 (VAPO), arXiv:2504.05118, eq. 10. `proximal_kl`: SWITCH, arXiv:2606.13106,
//! the loss of phase 3, and as a penalty in place of clipping Schulman et al. 2017 (PPO), arXiv:1707.06347, eq. 8.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::catalogue::no_settings;
use crate::correction::CorrectionConfig;
use crate::fact::Fact;
use crate::settings::require;
use crate::{
    BatchConstant, Evaluation, LossConfig, Losses, Metric, Needs, Objective, PolicyLoss, SettingError,
    Streams, TokenLoss, Tokens, Totals,
};

/// The most parts of a batch, that of `[loss]` included.
pub const PARTS_MAX: usize = 8;

/// The objective of a term that imitates what went well.
pub const IMITATION: &str = "positive_nll";

/// The objective of a term that keeps later passes over a step's episodes near the policy of the first, and its metric.
pub const PROXIMAL_KL: &str = "proximal_kl";

/// The names of the terms' metrics.
const METRICS: [&str; PARTS_MAX] = [
    "loss",
    "loss/terms/1",
    "loss/terms/2",
    "loss/terms/3",
    "loss/terms/4",
    "loss/terms/5",
    "loss/terms/6",
    "loss/terms/7",
];

/// `[[loss.terms]]`: a further loss. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossTerm {
    /// Id of a token loss; or `positive_nll`, the negative log-likelihood of the tokens with an advantage above 0, as a mean
    /// over them; or `proximal_kl`, the divergence from the policy of the first pass over a step's episodes.
    pub objective: String,
    /// Its own settings.
    #[serde(default = "no_settings")]
    pub config: Value,
    /// The span whose tokens count, by its name in `[[spans]]`. Default: none, whole answers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub on: String,
    /// Its weight.
    pub weight: f64,
}

impl LossTerm {
    /// The same, with every setting of its objective written out. Token losses are averaged, and corrected for tokens of
    /// other policies, as `loss` says.
    pub(crate) fn complete(self, loss: &LossConfig) -> Result<Self, SettingError> {
        require("weight", self.weight, |_| true, "must be a number")?;
        if [IMITATION, PROXIMAL_KL].contains(&self.objective.as_str()) {
            return match self.config.as_object().and_then(|config| config.keys().next()) {
                Some(key) => Err(SettingError::new(
                    format!("config.{key}"),
                    format!("has no use: `{}` has no settings", self.objective),
                )),
                None => Ok(self),
            };
        }
        let own = self.policy_loss(loss);
        // Names the token losses if it is none.
        own.token_loss()?;
        Ok(LossTerm { config: own.complete()?.config, ..self })
    }

    fn policy_loss(&self, loss: &LossConfig) -> LossConfig {
        LossConfig {
            objective: self.objective.clone(),
            config: self.config.clone(),
            aggregation: loss.aggregation,
            loss_scale_factor: loss.loss_scale_factor,
            correction: loss.correction.clone(),
            further: loss.further,
            ..LossConfig::default()
        }
    }

    fn build(&self, loss: &LossConfig) -> Result<Box<dyn Objective>, SettingError> {
        match self.objective.as_str() {
            IMITATION => Ok(Box::new(PositiveNll)),
            PROXIMAL_KL => {
                let bypass = loss.correction.bypass;
                let correction = CorrectionConfig { bypass, ..CorrectionConfig::default() };
                let LossConfig { aggregation, loss_scale_factor, .. } = *loss;
                let config =
                    LossConfig { aggregation, loss_scale_factor, correction, ..LossConfig::default() };
                Ok(Box::new(PolicyLoss::of(Box::new(ProximalKl), config)))
            }
            _ => Ok(Box::new(PolicyLoss::new(&self.policy_loss(loss))?)),
        }
    }
}

/// The sum of losses. See the head of this file.
pub(crate) struct Terms {
    /// That of `[loss]` first, each with its weight.
    terms: Vec<(f64, Box<dyn Objective>)>,
}

impl Terms {
    /// `main` and the terms of `loss`.
    ///
    /// # Errors
    /// If one can't be built, or a term looks at the whole optimiser batch first: only the loss of `[loss]` has batch
    /// constants.
    pub(crate) fn new(main: Box<dyn Objective>, loss: &LossConfig) -> Result<Self, SettingError> {
        let further = loss.terms.iter().map(|term| Ok((term.weight, term.build(loss)?)));
        let terms = std::iter::once(Ok((1.0, main))).chain(further);
        let terms: Vec<(f64, Box<dyn Objective>)> = terms.collect::<Result<_, _>>()?;
        if let Some(at) = terms.iter().skip(1).position(|(_, term)| term.needs().batch_constants) {
            let problem = "can't be one that looks at the whole batch first: make it `loss.objective`";
            return Err(SettingError::new(format!("terms[{at}].objective"), problem));
        }
        Ok(Terms { terms })
    }
}

/// The loss mask of a part.
fn mask(streams: &Streams<'_>, part: usize) -> Vec<bool> {
    let is_inside = |at: usize| streams.parts.get(at).is_none_or(|parts| parts >> part & 1 == 1);
    let masks = streams.loss_mask.iter().enumerate();
    masks.map(|(at, is_on)| *is_on && is_inside(at)).collect()
}

impl Objective for Terms {
    /// Those of all terms. Token losses ask for no pairs or whole distributions.
    fn needs(&self) -> Needs {
        let all = self.terms.iter().map(|(_, objective)| objective.needs());
        let union = |one: Needs, other: Needs| Needs {
            reference: one.reference || other.reference,
            teacher: one.teacher || other.teacher,
            entropies: one.entropies || other.entropies,
            groups: one.groups || other.groups,
            ..one
        };
        all.reduce(union).unwrap_or_default()
    }

    fn facts(&self) -> Vec<&'static Fact> {
        self.terms.iter().flat_map(|(_, objective)| objective.facts()).collect()
    }

    fn spans(&self) -> Vec<String> {
        self.terms.iter().flat_map(|(_, objective)| objective.spans()).collect()
    }

    /// The constants of the loss of `[loss]`, on its part.
    fn batch_constants(&self, whole: &Streams<'_>, totals: &Totals) -> Vec<BatchConstant> {
        let main = Streams { loss_mask: &mask(whole, 0), ..*whole };
        self.terms.first().map_or_else(Vec::new, |(_, own)| own.batch_constants(&main, &totals.of_part(0)))
    }

    fn evaluate(&self, streams: &Streams<'_>, totals: &Totals) -> Evaluation {
        let mut whole = Evaluation::zero(streams.policy.len());
        for (part, (weight, objective)) in self.terms.iter().enumerate() {
            let loss_mask = mask(streams, part);
            let counts = totals.of_part(part);
            let batch_constants = if part == 0 { streams.batch_constants } else { &[] };
            let of_part = Streams { loss_mask: &loss_mask, batch_constants, ..*streams };
            let own = objective.evaluate(&of_part, &counts);
            whole.loss += weight * own.loss;
            for (sum, own) in [(&mut whole.d_policy, own.d_policy), (&mut whole.d_entropy, own.d_entropy)] {
                sum.iter_mut().zip(own).for_each(|(sum, own)| *sum += weight * own);
            }
            if part == 0 {
                whole.metrics = own.metrics;
            } else {
                // The parts' weights add up to 1, so that their losses do too.
                let tokens = loss_mask.iter().filter(|is_on| **is_on).count() as f64;
                let weight = tokens / counts.tokens.max(1) as f64;
                whole.metrics.push(Metric { name: METRICS[part], sum: own.loss, weight });
                whole.metrics.extend(own.metrics.into_iter().filter(|metric| metric.name == PROXIMAL_KL));
            }
        }
        whole
    }
}

/// `-Σ_{A > 0} log π / N⁺`, with `N⁺` the number of tokens in the part with an advantage above 0.
struct PositiveNll;

impl Objective for PositiveNll {
    fn evaluate(&self, streams: &Streams<'_>, totals: &Totals) -> Evaluation {
        let mut evaluation = Evaluation::zero(streams.policy.len());
        let count = totals.tokens_positive.max(1) as f64;
        let tokens = streams.loss_positions(0..streams.policy.len());
        for at in tokens.filter(|at| streams.advantage[*at] > 0.0) {
            evaluation.loss -= streams.policy[at] / count;
            evaluation.d_policy[at] = -1.0 / count;
        }
        evaluation
    }
}

/// `exp(lp - old) - (lp - old) - 1` of each token.
struct ProximalKl;

impl TokenLoss for ProximalKl {
    fn losses(&self, tokens: &Tokens<'_>, losses: &mut Losses) {
        for at in 0..tokens.len() {
            let log_ratio = tokens.log_ratio(at);
            losses.value[at] = log_ratio.exp_m1() - log_ratio;
            losses.d_policy[at] = log_ratio.exp_m1();
        }
        let (sum, weight) = (losses.value.iter().sum(), tokens.len() as f64);
        losses.metrics.push(Metric { name: PROXIMAL_KL, sum, weight });
    }
}
