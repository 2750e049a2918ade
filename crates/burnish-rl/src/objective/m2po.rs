//! M2PO: a bound on the second moment of the log-ratio, instead of a bound on each ratio.
//!
//! **What it does.** Learns from stale rollouts. Of the tokens that have moved, the farthest are left out until the
//! mean square of the rest is below a threshold. So a few outliers go and everything else counts in full.
//!
//! **Formula.** With `lp` the policy's log-probability, `old` the proximal, `beh` that of the policy that sampled,
//! `A` the advantage, over the loss tokens of the optimiser batch:
//!
//! ```text
//! moment = "policy":    x = lp - beh        candidates: A > 0 and x > 0, or A < 0 and x < 0
//!                       ℓ = -exp(x)·A
//! moment = "proximal":  x = beh - old       candidates: every token
//!                       ℓ = ppo_clip
//! left out: the candidates with the largest x², as few as make the mean x² of the other candidates at most
//!           `m2_threshold`; ℓ = 0
//! ```
//!
//! Which tokens are left out is a constant of the derivative, chosen once per optimiser batch; of tokens with equal
//! `x²`, the first stay.
//!
//! **Derivative.** `∂ℓ/∂lp = ℓ`, or 0 where `ppo_clip` is clipped; 0 for a token that is left out.
//!
//! **Reduces to.** `ppo_clip` for `moment = "proximal"` where `beh = old`; `-r·A` without any bound for a threshold
//! above every `x²`. Both to the bit.
//!
//! **Differs from the paper and from the frameworks.** `policy` is algorithm 1 of the paper, and Trinity-RFT's. The
//! authors' code searches for the bound on `|x|` with the same budget and clips there, but never more tightly than at
//! the ratios 0.7 and 1.5. `proximal` is AReaL's, which keeps at least one token whatever its moment (as here), takes
//! the moment of a micro-batch, and divides by the number of tokens that are left; here the denominator counts all loss
//! tokens, as in the paper. Trinity clamps log-ratios to ±20. With `policy`, the ratio is already the one to the policy
//! that sampled: a further off-policy weight would count it twice.
//!
//! **References.** Zheng et al. 2025, "Prosperity before Collapse: How Far Can Off-Policy RL Reach with Stale Data on
//! LLMs?", arXiv:2510.01161, algorithm 1.

use serde::{Deserialize, Serialize};

use super::clip_cov::is_marked;
use super::clipped_surrogate;
use crate::settings::require;
use crate::{Bound, Card, Check, Family, Losses, Metric, Needs, Part, SettingError, TokenLoss, Tokens};

/// Between which policies the second moment is taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// From the policy that sampled to the one that is trained.
    #[default]
    Policy,
    /// From the proximal policy to the one that sampled.
    Proximal,
}

/// The surrogate under a bound on the second moment. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct M2po {
    /// Bound on the mean squared log-ratio of the candidates. Default: 0.04.
    pub m2_threshold: f64,
    /// Between which policies the second moment is taken. Default: `policy`.
    pub moment: Moment,
    /// With `proximal`, as in `ppo_clip`; no effect otherwise. Default: 0.2.
    pub epsilon_low: f64,
    /// With `proximal`, as in `ppo_clip`; no effect otherwise. Default: 0.2.
    pub epsilon_high: f64,
}

impl Default for M2po {
    fn default() -> Self {
        M2po { m2_threshold: 0.04, moment: Moment::Policy, epsilon_low: 0.2, epsilon_high: 0.2 }
    }
}

impl Part for M2po {
    const CARD: Card = Card {
        id: "m2po",
        title: "Second-moment trust policy optimisation (M2PO)",
        family: Family::Objective,
        paper: "Zheng et al. 2025, Prosperity before Collapse, arXiv:2510.01161",
        equation: "-exp(lp - beh)·A, 0 for the farthest candidates until the mean of their squared log-ratios is small",
        scope: "batch",
        check: Check::Golden(
            "AReaL 1.0.4 _apply_m2po_masking (proximal); an independent implementation of algorithm 1 (policy)",
        ),
        reconstructed: None,
        reduces_to: &[
            "ppo_clip, for moment = proximal where the proximal policy sampled",
            "ppo_clip without bounds, for a large m2_threshold",
        ],
        file: "crates/burnish-rl/src/objective/m2po.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("m2_threshold", self.m2_threshold, |threshold| threshold >= 0.0, "must be 0 or more")?;
        require("epsilon_low", self.epsilon_low, |low| (0.0..=1.0).contains(&low), "must be 0 to 1")?;
        require("epsilon_high", self.epsilon_high, |high| high >= 0.0, "must be 0 or more")
    }
}

impl M2po {
    /// `x²` of a token, if it is a candidate.
    fn moment(&self, batch: &Tokens<'_>, at: usize) -> Option<f64> {
        match self.moment {
            Moment::Policy => {
                let (x, advantage) = (batch.policy[at] - batch.behavior[at], batch.advantage[at]);
                let is_candidate = (x > 0.0 && advantage > 0.0) || (x < 0.0 && advantage < 0.0);
                is_candidate.then_some(x * x)
            }
            Moment::Proximal => Some((batch.behavior[at] - batch.proximal[at]).powi(2)),
        }
    }
}

impl TokenLoss for M2po {
    fn needs(&self) -> Needs {
        Needs { batch_constants: true, ..Needs::default() }
    }

    /// 1 for a token that is left out, 0 for another.
    fn batch_constants(&self, batch: &Tokens<'_>, _seed: u64) -> Vec<f64> {
        let mut candidates: Vec<(usize, f64)> =
            (0..batch.len()).filter_map(|at| Some((at, self.moment(batch, at)?))).collect();
        candidates.sort_by(|one, other| one.1.total_cmp(&other.1));
        let least = match self.moment {
            Moment::Policy => 0,
            Moment::Proximal => 1,
        };
        let (mut kept, mut sum) = (0, 0.0);
        // In ascending order, the mean of the first `n` never falls as `n` grows.
        for (_, moment) in &candidates {
            sum += moment;
            if sum > self.m2_threshold * (kept + 1) as f64 {
                break;
            }
            kept += 1;
        }
        let mut batch_constants = vec![0.0; batch.len()];
        for (at, _) in candidates.into_iter().skip(kept.max(least)) {
            batch_constants[at] = 1.0;
        }
        batch_constants
    }

    fn losses(&self, tokens: &Tokens<'_>, losses: &mut Losses) {
        let mut left_out = 0.0;
        for at in 0..tokens.len() {
            let advantage = tokens.advantage[at];
            let (log_ratio, low, high) = match self.moment {
                Moment::Policy => (tokens.policy[at] - tokens.behavior[at], 0.0, f64::INFINITY),
                Moment::Proximal => (tokens.log_ratio(at), 1.0 - self.epsilon_low, 1.0 + self.epsilon_high),
            };
            if is_marked(tokens, at) {
                left_out += 1.0;
                if self.moment == Moment::Policy {
                    losses.clipped[at] = Some(if advantage > 0.0 { Bound::High } else { Bound::Low });
                }
                continue;
            }
            let (value, clipped) = clipped_surrogate(log_ratio.exp(), advantage, low, high);
            losses.value[at] = value;
            losses.d_policy[at] = if clipped.is_some() { 0.0 } else { value };
            losses.clipped[at] = clipped;
        }
        losses.metrics.push(Metric { name: "m2po/masked_mean", sum: left_out, weight: tokens.len() as f64 });
    }
}
