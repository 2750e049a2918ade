//! Direct preference optimisation, and the losses on the same two log-ratios that share DPO's trainer in TRL.
//!
//! **What it does.** Raises the log-ratio of the chosen answer over that of the rejected one, until the margin
//! between them is plain; the reference holds both in place.
//!
//! **Formula.** For a pair, with `h_w`, `h_l` the log-ratios `Σ_t (log π_θ - log π_ref)` of the chosen and the
//! rejected answer, `n_w`, `n_l` their tokens, `x = β·(h_w - h_l)`, `σ` the logistic function and `ε` the label
//! smoothing:
//!
//! | `loss_type` | loss of the pair |
//! | --- | --- |
//! | `sigmoid` | `-(1 - ε)·log σ(x) - ε·log σ(-x)` |
//! | `sigmoid_norm` | the same with `x = β·(h_w/n_w - h_l/n_l)` |
//! | `robust` | `(-(1 - ε)·log σ(x) + ε·log σ(-x)) / (1 - 2ε)` |
//! | `hinge` | `max(0, 1 - x)` |
//! | `exo_pair` | `σ(x)·(log σ(x) - log(1 - ε)) + σ(-x)·(log σ(-x) - log ε)` |
//! | `discopop` | `-(1 - m)·log σ(x) + m·exp(-x)`, `m = σ(x/τ)` |
//! | `nca_pair` | `-log σ(β·h_w) - ½·log σ(-β·h_w) - ½·log σ(-β·h_l)` |
//! | `bco_pair` | `-log σ(β·h_w) - log σ(-β·h_l)` |
//! | `sppo_hard` | `(h_w - 1/(2β))² + (h_l + 1/(2β))²` |
//! | `apo_zero` | `1 - σ(β·h_w) + σ(β·h_l)` |
//! | `apo_down` | `σ(β·h_w) + 1 - σ(x)` |
//!
//! The loss is the mean over pairs. With `reference_free`, `log π_ref` is 0. An answer without a token in the loss
//! has `h = 0`.
//!
//! **Derivative.** For `sigmoid` without smoothing `∂ℓ/∂lp = -β·σ(-x)` of each token of the chosen answer and
//! `β·σ(-x)` of each token of the rejected one. At the kink of `hinge`, `x` exactly 1, the derivative is that of
//! the side that still learns (torch gives 0 there).
//!
//! **Reduces to.** As `β → 0`, the gradient becomes `β/2` times the difference of the gradients of the two log-probs.
//! `sigmoid_norm` is `sigmoid` with `β/n` where both answers have `n` tokens; `robust` is `sigmoid` for `ε = 0`.
//!
//! **Differs from the paper and from TRL 1.16.** The paper has `sigmoid` without smoothing. In TRL 1.16 `sigmoid`
//! and `sigmoid_norm` know no smoothing (earlier versions did, and so does the authors' code: cDPO); here it is 0
//! unless set. TRL has no `reference_free` any more. Not here: its `ipo` ([`super::Ipo`]), `sft` ([`crate::nll`]),
//! `aot` and `aot_unpaired` (which sort the whole batch), other f-divergences, `ld_alpha` and `use_weighting`.
//! TRL's `discopop` overflows below `x = -709`, this one does not.
//!
//! **Metrics**, named as in TRL, each a mean over pairs: `rewards/chosen` (`β·h_w`), `rewards/rejected`,
//! `rewards/accuracies`, `rewards/margins`, `logps/chosen`, `logps/rejected`; and `entropy`, over loss tokens.
//!
//! **Example.**
//! ```
//! use burnish_rl::{Objective, Streams, Totals, preference::Dpo};
//! // An answer of two tokens against one of one; the policy is still the reference.
//! let (policy, zeros) = ([-0.5, -1.5, -1.0], [0.0; 3]);
//! let streams = Streams {
//!     policy: &policy, proximal: &policy, behavior: &policy, reference: Some(&policy), teacher: None, entropy: &zeros,
//!     advantage: &zeros, loss_mask: &[true; 3], sequences: &[0..2, 2..3], groups: &[0..2], directions: &[],
//!     parts: &[], facts: &[], batch_constants: &[],
//! };
//! let evaluation = Dpo::default().evaluate(&streams, &Totals { sequences: 2, ..Totals::default() });
//! assert_eq!(evaluation.loss, 2.0f64.ln());
//! assert_eq!(evaluation.d_policy, [-0.05, -0.05, 0.05]);
//! ```
//!
//! **References.** Rafailov et al. 2023 (DPO), arXiv:2305.18290, eq. 7. Smoothing: Mitchell 2023, a note on DPO
//! with noisy preferences (cDPO). `robust`: Chowdhury et al. 2024, arXiv:2403.00409. `hinge`: Zhao et al. 2023
//! (SLiC), arXiv:2305.10425, and Liu et al. 2023 (RSO), arXiv:2309.06657. `exo_pair`: Ji et al. 2024,
//! arXiv:2402.00856, eq. 16. `discopop`: Lu et al. 2024, arXiv:2406.08414, eq. 5. `nca_pair`: Chen et al. 2024,
//! arXiv:2402.05369. `bco_pair`: Jung et al. 2024, arXiv:2404.04656, without its moving baseline. `sppo_hard`: Wu
//! et al. 2024, arXiv:2405.00675. `apo_*`: D'Oosterlinck et al. 2024, arXiv:2408.06266, eq. 7 and 8.
//! `sigmoid_norm`: the name is TRL's, the idea that of [`super::Simpo`] with a reference.

use serde::{Deserialize, Serialize};

use super::common::{Answer, PairLoss, log_sigmoid, mean_over_pairs, sigmoid};
use crate::settings::require;
use crate::{Card, Check, Evaluation, Family, Needs, Objective, Part, SettingError, Streams, Totals};

/// Which function of the two log-ratios the loss is. Names are those of TRL's `loss_type`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DpoLoss {
    /// Logistic, on the difference of log-ratios: DPO.
    #[default]
    Sigmoid,
    /// The same on mean log-ratios.
    SigmoidNorm,
    /// Unbiased where labels are flipped with the probability `label_smoothing`.
    Robust,
    /// A margin of 1, and no more.
    Hinge,
    /// Reverse KL divergence to the smoothed label.
    ExoPair,
    /// A blend of logistic and exponential, found by search.
    Discopop,
    /// Noise-contrastive: each answer on its own, and both lowered.
    NcaPair,
    /// A classifier of single answers.
    BcoPair,
    /// Squared distance of each log-ratio from ±1/(2β).
    SppoHard,
    /// Raises the chosen, lowers the rejected.
    ApoZero,
    /// Lowers both, the rejected more.
    ApoDown,
}

/// Direct preference optimisation. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dpo {
    /// How strongly the reference holds the policy back. Default: 0.1.
    pub beta: f64,
    /// Which function of the log-ratios. Default: `sigmoid`.
    pub loss_type: DpoLoss,
    /// Probability that a label is wrong: below 0.5; above 0 for `exo_pair`, whose paper has 0.001. Default: 0.
    pub label_smoothing: f64,
    /// Temperature of the blend of `discopop`. Default: 0.05.
    pub discopop_tau: f64,
    /// Is the reference taken to be uniform? Default: false.
    pub reference_free: bool,
}

impl Default for Dpo {
    fn default() -> Self {
        Dpo {
            beta: 0.1,
            loss_type: DpoLoss::Sigmoid,
            label_smoothing: 0.0,
            discopop_tau: 0.05,
            reference_free: false,
        }
    }
}

impl Part for Dpo {
    const CARD: Card = Card {
        id: "dpo",
        title: "Direct preference optimisation",
        family: Family::Preference,
        paper: "Rafailov et al. 2023, Direct Preference Optimization, arXiv:2305.18290",
        equation: "-log σ(β·(h_w - h_l)), h = Σ_t (log π_θ - log π_ref)",
        scope: "pair",
        check: Check::Golden("TRL 1.16 DPOTrainer.compute_loss"),
        reconstructed: None,
        reduces_to: &["β/2 times the difference of log-prob gradients, for β → 0"],
        file: "crates/burnish-rl/src/preference/dpo.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("beta", self.beta, |beta| beta > 0.0, "must be above 0")?;
        let (smoothing, tau) = (self.label_smoothing, self.discopop_tau);
        require("label_smoothing", smoothing, |it| (0.0..0.5).contains(&it), "must be 0 to below 0.5")?;
        match self.loss_type {
            DpoLoss::Sigmoid | DpoLoss::SigmoidNorm | DpoLoss::Robust => {}
            DpoLoss::ExoPair => {
                let rule = "must be above 0 with `loss_type = \"exo_pair\"`, as 0.001";
                require("label_smoothing", smoothing, |it| it > 0.0, rule)?;
            }
            _ => {
                let rule = "must be 0: this `loss_type` knows no label smoothing";
                require("label_smoothing", smoothing, |it| it == 0.0, rule)?;
            }
        }
        require("discopop_tau", tau, |tau| tau > 0.0 && tau <= 1.0, "must be above 0 and at most 1")
    }
}

impl Objective for Dpo {
    fn needs(&self) -> Needs {
        Needs { reference: !self.reference_free, groups: true, pairs: true, ..Needs::default() }
    }

    /// # Panics
    /// If a group is not a pair, or the streams lack the reference that [`Objective::needs`] asks for.
    fn evaluate(&self, streams: &Streams<'_>, totals: &Totals) -> Evaluation {
        mean_over_pairs(streams, totals, !self.reference_free, |chosen, rejected| self.pair(chosen, rejected))
    }
}

impl Dpo {
    pub(super) fn pair(&self, chosen: &Answer, rejected: &Answer) -> PairLoss {
        let (h_w, h_l) = (chosen.log_ratio(), rejected.log_ratio());
        let (n_w, n_l) = match self.loss_type {
            DpoLoss::SigmoidNorm => (chosen.tokens, rejected.tokens),
            _ => (1.0, 1.0),
        };
        let rewards = [self.beta * h_w, self.beta * h_l];
        let (value, d) = match self.of_margin(self.beta * (h_w / n_w - h_l / n_l)) {
            Some((value, slope)) => (value, [self.beta * slope / n_w, -self.beta * slope / n_l]),
            None => {
                let (value, [d_w, d_l]) = self.of_rewards(rewards);
                (value, [self.beta * d_w, self.beta * d_l])
            }
        };
        PairLoss { value, d, rewards, logps: [chosen.policy, rejected.policy], metrics: Vec::new() }
    }

    /// The losses that depend only on the difference of rewards `x`, with the derivative.
    fn of_margin(&self, x: f64) -> Option<(f64, f64)> {
        let smoothing = self.label_smoothing;
        let (up, down) = (sigmoid(x), sigmoid(-x));
        let (log_up, log_down) = (log_sigmoid(x), log_sigmoid(-x));
        Some(match self.loss_type {
            DpoLoss::Sigmoid | DpoLoss::SigmoidNorm => (
                -(1.0 - smoothing) * log_up - smoothing * log_down,
                -(1.0 - smoothing) * down + smoothing * up,
            ),
            DpoLoss::Robust => {
                let clean = 1.0 - 2.0 * smoothing;
                (
                    (-(1.0 - smoothing) * log_up + smoothing * log_down) / clean,
                    (-(1.0 - smoothing) * down - smoothing * up) / clean,
                )
            }
            DpoLoss::Hinge if x > 1.0 => (0.0, 0.0),
            DpoLoss::Hinge => (1.0 - x, -1.0),
            DpoLoss::ExoPair => {
                let (chosen, rejected) = (log_up - (-smoothing).ln_1p(), log_down - smoothing.ln());
                (up * chosen + down * rejected, up * down * (chosen - rejected))
            }
            DpoLoss::Discopop => {
                let tau = self.discopop_tau;
                let (blend, rest) = (sigmoid(x / tau), sigmoid(-x / tau));
                // m·exp(-x): each factor alone may overflow.
                let exponential = (log_sigmoid(x / tau) - x).exp();
                let value = -rest * log_up + exponential;
                let d_blend = blend * rest / tau;
                (value, -rest * down + d_blend * log_up + exponential * (rest / tau - 1.0))
            }
            _ => return None,
        })
    }

    /// The losses that depend on each reward by itself, with both derivatives.
    fn of_rewards(&self, [r_w, r_l]: [f64; 2]) -> (f64, [f64; 2]) {
        let bell = |x: f64| sigmoid(x) * sigmoid(-x);
        match self.loss_type {
            DpoLoss::NcaPair => (
                -log_sigmoid(r_w) - 0.5 * log_sigmoid(-r_w) - 0.5 * log_sigmoid(-r_l),
                [-sigmoid(-r_w) + 0.5 * sigmoid(r_w), 0.5 * sigmoid(r_l)],
            ),
            DpoLoss::BcoPair => (-log_sigmoid(r_w) - log_sigmoid(-r_l), [-sigmoid(-r_w), sigmoid(r_l)]),
            DpoLoss::SppoHard => {
                // In rewards: h - 1/(2β) = (r - ½)/β.
                let (up, down) = ((r_w - 0.5) / self.beta, (r_l + 0.5) / self.beta);
                (up * up + down * down, [2.0 * up / self.beta, 2.0 * down / self.beta])
            }
            DpoLoss::ApoZero => (sigmoid(-r_w) + sigmoid(r_l), [-bell(r_w), bell(r_l)]),
            // The others depend on the margin alone.
            _ => {
                let margin = bell(r_w - r_l);
                (sigmoid(r_w) + sigmoid(r_l - r_w), [bell(r_w) - margin, margin])
            }
        }
    }
}
