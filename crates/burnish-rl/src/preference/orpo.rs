//! Odds-ratio preference optimisation: imitation and preference in one step, without a reference.
//!
//! **What it does.** Imitates the chosen answer, and raises its odds over those of the rejected one.
//!
//! **Formula.** For a pair, with `m_w`, `m_l` the means over tokens of `log π_θ` of the chosen and the rejected
//! answer:
//!
//! ```text
//! p = exp(m)      log odds = log(p / (1 - p)) = m - log(1 - exp(m))
//! x = log odds_w - log odds_l
//! ℓ = -m_w - β·log σ(x)
//! ```
//!
//! The loss is the mean over pairs; `β` is the paper's `λ`. A pair with an answer that has no token in the loss
//! adds nothing, since it has no odds. `m` is taken to be at most -2.2e-16, where `1 - p` is the smallest step
//! below 1: an answer that is certain has no finite odds.
//!
//! **Derivative.** `-(1 + β·σ(-x)/(1 - p_w))/n_w` of each of the `n_w` tokens of the chosen answer,
//! `β·σ(-x)/(1 - p_l)/n_l` of each of the rejected.
//!
//! **Reduces to.** The negative log-likelihood of the chosen answer, [`crate::nll::Nll`], for `β = 0` and one pair.
//! (With more pairs, `Nll` is a mean over all tokens, this one a mean over answers of means over tokens.)
//!
//! **Differs from the paper and from TRL.** Not from the paper. TRL 1.16's experimental trainer imitates the prompt
//! too, averages over all tokens of a micro-batch, and computes the odds in f32; with one pair per micro-batch and no
//! prompt, the two agree. Here `∂/∂m` of `log σ(x)` is exact even where `p` is near 1.
//!
//! **Metrics**, named as in TRL: those of [`super::Dpo`] with `β·m` as reward and `m` as `logps`, and `nll_loss`,
//! `log_odds_ratio` (`log σ(x)`), `log_odds_chosen` (`x`).
//!
//! **References.** Hong et al. 2024 (ORPO), arXiv:2403.07691, eq. 4, 6 and 7.

use serde::{Deserialize, Serialize};

use super::common::{PairLoss, log_sigmoid, mean_over_pairs, sigmoid};
use crate::settings::require;
use crate::{Card, Check, Evaluation, Family, Needs, Objective, Part, SettingError, Streams, Totals};

/// Odds-ratio preference optimisation. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Orpo {
    /// Weight of the odds ratio. Default: 0.1.
    pub beta: f64,
}

impl Default for Orpo {
    fn default() -> Self {
        Orpo { beta: 0.1 }
    }
}

impl Part for Orpo {
    const CARD: Card = Card {
        id: "orpo",
        title: "Odds-ratio preference optimisation",
        family: Family::Preference,
        paper: "Hong et al. 2024, ORPO, arXiv:2403.07691",
        equation: "-m_w - β·log σ(logodds(m_w) - logodds(m_l)), m = mean_t log π_θ",
        scope: "pair",
        check: Check::Golden(
            "TRL 1.16 experimental ORPOTrainer.get_batch_loss_metrics, one pair a micro-batch",
        ),
        reconstructed: None,
        reduces_to: &["the negative log-likelihood of the chosen answer, for β = 0"],
        file: "crates/burnish-rl/src/preference/orpo.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("beta", self.beta, |beta| beta >= 0.0, "must be 0 or more")
    }
}

/// The log-odds of an answer with the mean log-prob `mean`, and `1 - p`: the derivative of the log-odds is `1/(1 - p)`.
fn odds(mean: f64) -> (f64, f64) {
    let mean = mean.min(-f64::EPSILON);
    let against = -mean.exp_m1();
    let log_against = if mean < -std::f64::consts::LN_2 { (-mean.exp()).ln_1p() } else { against.ln() };
    (mean - log_against, against)
}

impl Objective for Orpo {
    fn needs(&self) -> Needs {
        Needs { groups: true, pairs: true, ..Needs::default() }
    }

    /// # Panics
    /// If a group is not a pair.
    fn evaluate(&self, streams: &Streams<'_>, totals: &Totals) -> Evaluation {
        mean_over_pairs(streams, totals, false, |chosen, rejected| {
            if chosen.is_empty() || rejected.is_empty() {
                return PairLoss::default();
            }
            let logps = [chosen.policy / chosen.tokens, rejected.policy / rejected.tokens];
            let [(odds_w, against_w), (odds_l, against_l)] = logps.map(odds);
            let x = odds_w - odds_l;
            let push = self.beta * sigmoid(-x);
            PairLoss {
                value: -logps[0] - self.beta * log_sigmoid(x),
                d: [-(1.0 + push / against_w) / chosen.tokens, push / against_l / rejected.tokens],
                rewards: logps.map(|mean| self.beta * mean),
                logps,
                metrics: vec![
                    ("nll_loss", -logps[0]),
                    ("log_odds_ratio", log_sigmoid(x)),
                    ("log_odds_chosen", x),
                ],
            }
        })
    }
}
