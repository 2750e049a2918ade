//! DGG: stops using a batch as soon as the gradient of the log-prob head jumps.
//!
//! **What it does.** Several updates on the same rollouts save sampling, until the policy collapses. Just before, the
//! gradient of the head jumps, while the KL, the share of clipped tokens and the norm of the whole gradient stay calm.
//! So the change of a watched number from one update to the next is compared with the changes seen so far. If it stands
//! out, the update is dropped and the batch is not used again. The first use of a batch is always applied.
//!
//! **Formula.** With `g` the watched number of an update (by default `‖∇_{W_head} L‖_F`, before clipping), over the
//! updates that were applied:
//!
//! ```text
//! Δ = g - g_before        (0 for the very first update)
//! z = (Δ - μ) / (s + ε)   μ, s: running mean and standard deviation of Δ
//! closed if z > τ, at the second use of a batch or later
//! ```
//!
//! Why the head: with `E_i = A_i·ρ_i·(onehot(y_i) - π_i)`, its gradient is `Σ E_i h_iᵀ / N`, so
//! `‖g‖_F ≤ C·mean(ρ)`, `C = √2·max|A|·max‖h‖`, and the divergence `χ² = mean(ρ²) - 1` is at least `(‖g‖_F / C)² - 1`.
//!
//! **Conventions.** A `z` that is not finite counts as +∞: the gate closes for every `τ` below ∞. Before there are
//! statistics there is no `z`, and the gate is open unless `τ = -∞`. A number that is not finite does not enter the statistics.
//!
//! **Reduces to.** `τ = "inf"`: every use is applied. `τ = "-inf"` and `warmup = 0`: only the first is. Both to the bit.
//! With a falling learning rate, mind that the schedule counts applied updates, but is as long as if all were applied.
//!
//! **Differs from the paper.** The paper watches the head only; `signal` puts another number under the same rule: the
//! paper's baselines. With tied embeddings, `g` is the part that comes from the head. For a head that is frozen or has
//! an adapter, it is the gradient that the whole matrix would have.
//!
//! **Reconstructed.** That only applied updates enter the statistics; the form of the statistics: weights `decay^age`,
//! so that `decay = 1` gives Welford's over all updates, and a smaller one an average that is right from the first
//! value on; `decay = 0.99`; `warmup = 8` updates, two batches of four uses, so that a short run is gated too; `τ = 0.5`,
//! the middle one of the paper's three; that for every signal it is a rise that counts; that only changes between two
//! uses of one batch enter `μ` and `s` (`statistics = "reuse"`). With small batches the change from batch to batch is
//! larger than those and hides them: with `statistics = "all"`, where `g_before` of a batch's first use is the last `g`
//! of the batch before, the gate never closed in our runs.
//!
//! **References.** "When to Stop Reusing", arXiv:2605.19425. The running variance: West 1979, "Updating mean and
//! variance estimates: an improved method".

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Gate, Proposal, Ruling, infinite};
use crate::settings::require;
use crate::{Card, Check, Family, Part, SettingError};

/// What a gate watches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// [`Proposal::head_grad_norm`].
    #[default]
    HeadGradNorm,
    /// [`Proposal::grad_norm`].
    GradNorm,
    /// [`Proposal::kl`].
    Kl,
    /// [`Proposal::clip_fraction`].
    ClipFraction,
    /// [`Proposal::entropy`].
    Entropy,
}

impl Signal {
    fn of(self, proposal: &Proposal) -> f64 {
        match self {
            Signal::HeadGradNorm => proposal.head_grad_norm,
            Signal::GradNorm => proposal.grad_norm,
            Signal::Kl => proposal.kl,
            Signal::ClipFraction => proposal.clip_fraction,
            Signal::Entropy => proposal.entropy,
        }
    }
}

/// Which changes enter the statistics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Statistics {
    /// Those between any two successive applied updates, also from one batch to the next.
    All,
    /// Those between two uses of one batch.
    #[default]
    Reuse,
}

/// The gate on a jump of one number. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dgg {
    /// What is watched. Default: `head_grad_norm`.
    pub signal: Signal,
    /// `τ`, in standard deviations; `"inf"` never closes, `"-inf"` always does. Default: 0.5.
    #[serde(with = "infinite")]
    pub tau: f64,
    /// Which changes enter `μ` and `s`. Default: `reuse`.
    pub statistics: Statistics,
    /// How many updates are applied before the gate may close. Default: 8.
    pub warmup: u64,
    /// What the weight of a change is multiplied by with each later change; 1 weighs all alike. Default: 0.99.
    pub decay: f64,
    /// `ε`, added to the standard deviation. Default: 1e-8.
    pub epsilon: f64,
    /// What has been seen.
    #[serde(skip)]
    seen: Seen,
}

impl Default for Dgg {
    fn default() -> Self {
        Dgg {
            signal: Signal::HeadGradNorm,
            tau: 0.5,
            statistics: Statistics::Reuse,
            warmup: 8,
            decay: 0.99,
            epsilon: 1e-8,
            seen: Seen::default(),
        }
    }
}

/// Statistics of the changes between applied updates.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seen {
    /// How many updates were applied.
    updates: u64,
    /// Sum of the weights of the changes.
    weight: f64,
    /// Weighted mean of the changes.
    mean: f64,
    /// Weighted sum of squared distances from the mean.
    squares: f64,
    /// The watched number of the last update.
    before: Option<f64>,
}

impl Seen {
    fn add(&mut self, change: f64, decay: f64) {
        self.weight = decay * self.weight + 1.0;
        let distance = change - self.mean;
        self.mean += distance / self.weight;
        self.squares = decay * self.squares + distance * (change - self.mean);
    }

    /// How far a change stands out; `None` before there was any.
    fn score(&self, change: f64, epsilon: f64) -> Option<f64> {
        (self.weight > 0.0).then(|| {
            let deviation = (self.squares / self.weight).max(0.0).sqrt();
            let score = (change - self.mean) / (deviation + epsilon);
            if score.is_finite() { score } else { f64::INFINITY }
        })
    }
}

impl Part for Dgg {
    const CARD: Card = Card {
        id: "dgg",
        title: "Gate on the head's gradient (DGG)",
        family: Family::Gate,
        paper: "When to Stop Reusing, arXiv:2605.19425",
        equation: "z = (Δg - μ) / (s + ε) of g = ‖∇L‖_F of the head; closed if z > τ at the second use of a batch or later",
        scope: "batch",
        check: Check::Oracle("z from weighted sums over all updates, in two passes"),
        reconstructed: Some(
            "form and decay of the statistics, the warm-up, g before a batch's first use, the default τ",
        ),
        reduces_to: &[
            "every use of a batch, for tau = \"inf\"",
            "the first use only, for tau = \"-inf\" and warmup = 0",
        ],
        file: "crates/burnish-rl/src/gate/dgg.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        let is_decay = |decay| decay > 0.0 && decay <= 1.0;
        require("decay", self.decay, is_decay, "must be above 0, and 1 or less")?;
        require("epsilon", self.epsilon, |epsilon| epsilon > 0.0, "must be above 0")
    }
}

impl Gate for Dgg {
    fn rule(&mut self, reuse: usize, proposal: &Proposal) -> Ruling {
        let level = self.signal.of(proposal);
        let change = level - self.seen.before.unwrap_or(level);
        let counts = self.statistics == Statistics::All || reuse >= 2;
        let score = self.seen.score(change, self.epsilon).filter(|_| counts);
        // Always closing needs no statistics.
        let stands_out = score.map_or(counts && self.tau == f64::NEG_INFINITY, |score| score > self.tau);
        let is_open = reuse < 2 || self.seen.updates < self.warmup || !stands_out;
        if is_open && change.is_finite() {
            if counts {
                self.seen.add(change, self.decay);
            }
            self.seen.updates += 1;
            self.seen.before = Some(level);
        }
        let score = score.map(|score| [("gate/z", score), ("gate/alarm", f64::from(stands_out))]);
        Ruling { is_open, metrics: score.into_iter().flatten().collect() }
    }

    fn state(&self) -> Value {
        serde_json::to_value(&self.seen).unwrap_or_default()
    }

    fn restore(&mut self, state: &Value) -> Result<(), SettingError> {
        let wrong = |error: serde_json::Error| {
            SettingError::new("gate", format!("the saved state is not one of `dgg`: {error}"))
        };
        self.seen = Seen::deserialize(state).map_err(wrong)?;
        Ok(())
    }
}
