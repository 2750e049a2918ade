//! Identity preference optimisation: DPO that stops at a margin.
//!
//! **What it does.** Pulls the difference of log-ratios of a pair to a set margin, from below and from above, so that a
//! certain preference does not drive the policy arbitrarily far from the reference.
//!
//! **Formula.** For a pair, with `h_w`, `h_l` the log-ratios `Σ_t (log π_θ - log π_ref)` of the chosen and the
//! rejected answer and `n_w`, `n_l` their tokens (at least 1):
//!
//! ```text
//! ℓ = (h_w/n_w - h_l/n_l - 1/(2β))²         (h_w - h_l without `length_normalised`)
//! ```
//!
//! The loss is the mean over pairs. `β` is the paper's `τ`.
//!
//! **Derivative.** With `m` the bracket: `2·m/n_w` of each token of the chosen answer, `-2·m/n_l` of each of the
//! rejected.
//!
//! **Reduces to.** With `length_normalised` and answers of `n` tokens each, the loss without it at `β/n`, divided
//! by `n²`. Where both answers are as likely as under the reference, `1/(4β²)`.
//!
//! **Differs from the paper.** Equation 17 has sums of log-probs, but its authors used means (as they told TRL's
//! authors), which are TRL's only form and the default here. The implicit rewards of the metrics are `β·h`, as in TRL,
//! though the loss has means.
//!
//! **References.** Azar et al. 2023 (IPO), arXiv:2310.12036, eq. 17.

use serde::{Deserialize, Serialize};

use super::common::{PairLoss, mean_over_pairs};
use crate::settings::require;
use crate::{Card, Check, Evaluation, Family, Needs, Objective, Part, SettingError, Streams, Totals};

/// Identity preference optimisation. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ipo {
    /// The margin is `1/(2β)` nats; nats per token if `length_normalised`. Default: 0.1.
    pub beta: f64,
    /// Are log-ratios means over tokens? Default: true, as in TRL.
    pub length_normalised: bool,
}

impl Default for Ipo {
    fn default() -> Self {
        Ipo { beta: 0.1, length_normalised: true }
    }
}

impl Part for Ipo {
    const CARD: Card = Card {
        id: "ipo",
        title: "Identity preference optimisation",
        family: Family::Preference,
        paper: "Azar et al. 2023, A General Theoretical Paradigm to Understand Learning from Human Preferences, \
                arXiv:2310.12036",
        equation: "(h_w/n_w - h_l/n_l - 1/(2β))², h = Σ_t (log π_θ - log π_ref)",
        scope: "pair",
        check: Check::Golden("TRL 1.16 DPOTrainer.compute_loss, loss_type ipo"),
        reconstructed: None,
        reduces_to: &["the form with sums at β/n, divided by n², for answers of n tokens"],
        file: "crates/burnish-rl/src/preference/ipo.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("beta", self.beta, |beta| beta > 0.0, "must be above 0")
    }
}

impl Objective for Ipo {
    fn needs(&self) -> Needs {
        Needs { reference: true, groups: true, pairs: true, ..Needs::default() }
    }

    /// # Panics
    /// If a group is not a pair, or the streams lack a reference.
    fn evaluate(&self, streams: &Streams<'_>, totals: &Totals) -> Evaluation {
        mean_over_pairs(streams, totals, true, |chosen, rejected| {
            let (h_w, h_l) = (chosen.log_ratio(), rejected.log_ratio());
            let (n_w, n_l) =
                if self.length_normalised { (chosen.tokens, rejected.tokens) } else { (1.0, 1.0) };
            let miss = h_w / n_w - h_l / n_l - 0.5 / self.beta;
            PairLoss {
                value: miss * miss,
                d: [2.0 * miss / n_w, -2.0 * miss / n_l],
                rewards: [self.beta * h_w, self.beta * h_l],
                logps: [chosen.policy, rejected.policy],
                metrics: Vec::new(),
            }
        })
    }
}
