//! SDAR: GRPO beside a gated pull towards the policy itself with privileged context.
//!
//! **What it does.** The teacher is the policy that was also given a hint (a skill's text). In addition to the clipped
//! surrogate, the probability of a sampled token is raised: more, the likelier the teacher finds it compared with the
//! policy. Where the teacher likes it less, a gate closes, because a rejection may only mean that the hint was bad.
//!
//! **Formula.** For each token, with `lp` the policy's log-probability, `t` the teacher's, `H` the entropy, `V` the
//! size of the vocabulary, `σ` the logistic function, and `g` a constant of the derivative:
//!
//! ```text
//! ℓ = ppo_clip + λ·g·Δ,   Δ = t - lp,   h = H / ln V,   Δ₀₁ = Δ clamped to [0, 1]
//! g = σ(β·Δ)                                  `gate = "gap"`
//! g = σ(β·h)                                  `entropy`
//! g = σ(β·(1 - (1 - h)·(1 - Δ₀₁)))            `soft_or`
//! g = 1 where Δ > 0, else 0                   `hard`
//! g = 1                                       `none`: the ungated control
//! ```
//!
//! **Derivative.** That of [`super::PpoClip`], minus `λ·g`: the gated negative log-likelihood of the policy's own
//! tokens. The size of Δ enters only through the gate.
//!
//! **Reduces to.** `ppo_clip` for `λ = 0`. For `β = 0` (`gap`), and for an empty hint, where `Δ = 0`, `g = ½`
//! everywhere: the gradient is then that of `none` with `λ/2`, which is not zero for a token, but is zero in
//! expectation over tokens that the policy sampled. As `β → ∞`, `gap` becomes `hard`, except for tokens with `Δ = 0`.
//!
//! **Differs from the paper.** `λ` is that of the authors' scripts (0.01); their library's default is 0.1. That soft-OR
//! takes Δ clamped to [0, 1] is our decision: only there is the paper's formula a probability. The size of the
//! vocabulary is a setting: an objective sees entropies, not their largest possible value. Like everything in
//! [`crate::PolicyLoss`], the second term too is weighted by `loss.correction`, if that is on.
//!
//! *Baselines.* On-policy distillation from the same teacher (OPSD) is [`crate::distillation::Opd`]; with
//! `reward_weight` above 0 it is GRPO beside OPSD. `none` is not OPSD: it raises every sampled token alike, whatever
//! the teacher says.
//!
//! **Metrics.** Means over loss tokens: `gate_mean`, `gate_active_ratio` (`g > ½`), `teacher_gap_mean` (Δ).
//!
//! **References.** SDAR, arXiv:2605.15155; code: ZJU-REAL/SDAR.

use serde::{Deserialize, Serialize};

use super::PpoClip;
use crate::settings::require;
use crate::{Card, Check, Family, Losses, Metric, Needs, Part, SettingError, TokenLoss, Tokens};

/// What opens the gate of a token.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SdarGate {
    /// By how much the teacher finds the token likelier.
    #[default]
    Gap,
    /// How unsure the policy is.
    Entropy,
    /// Either of the two.
    SoftOr,
    /// Whether the teacher finds the token likelier.
    Hard,
    /// Nothing: it is always open.
    None,
}

/// GRPO beside gated self-distillation. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sdar {
    /// λ, the weight of the gated pull; 0 needs no teacher. Default: 0.01.
    pub sdar_coef: f64,
    /// What opens the gate. Default: `gap`.
    pub gate: SdarGate,
    /// β, how sharply it opens. Default: 5.
    pub gate_beta: f64,
    /// V, the number of tokens that the policy can choose from; 0 (default) means unknown, which `entropy` and
    /// `soft_or` refuse.
    pub vocabulary: usize,
    /// As in `ppo_clip`. Default: 0.2.
    pub epsilon_low: f64,
    /// As in `ppo_clip`. Default: 0.2.
    pub epsilon_high: f64,
    /// As in `ppo_clip`. Default: 0, no limit.
    pub dual_clip: f64,
}

impl Default for Sdar {
    fn default() -> Self {
        let PpoClip { epsilon_low, epsilon_high, dual_clip } = PpoClip::default();
        Sdar {
            sdar_coef: 0.01,
            gate: SdarGate::Gap,
            gate_beta: 5.0,
            vocabulary: 0,
            epsilon_low,
            epsilon_high,
            dual_clip,
        }
    }
}

impl Part for Sdar {
    const CARD: Card = Card {
        id: "sdar",
        title: "SDAR: gated self-distillation from privileged context",
        family: Family::Objective,
        paper: "SDAR, 2026, arXiv:2605.15155; code: ZJU-REAL/SDAR",
        equation: "ppo_clip + λ·sg(g)·(t - lp), g = σ(β·(t - lp))",
        scope: "token",
        check: Check::Oracle("the authors' formula, by finite differences with the gate frozen"),
        reconstructed: None,
        reduces_to: &[
            "ppo_clip, for sdar_coef = 0",
            "gate = none with half the weight, for gate_beta = 0 or a teacher that is the policy",
            "gate = hard, for gate_beta to infinity",
        ],
        file: "crates/burnish-rl/src/objective/sdar.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("sdar_coef", self.sdar_coef, |coef| coef >= 0.0, "must be 0 or more")?;
        require("gate_beta", self.gate_beta, |beta| beta >= 0.0, "must be 0 or more")?;
        if matches!(self.gate, SdarGate::Entropy | SdarGate::SoftOr) && self.vocabulary < 2 {
            let rule = "must be the number of tokens of the vocabulary, 2 or more, with `gate = \"entropy\"` or \
                        \"soft_or\": entropies are divided by its logarithm";
            return Err(SettingError::new("vocabulary", format!("{rule}, not {}", self.vocabulary)));
        }
        self.ppo_clip().check()
    }
}

impl Sdar {
    fn ppo_clip(&self) -> PpoClip {
        let Sdar { epsilon_low, epsilon_high, dual_clip, .. } = *self;
        PpoClip { epsilon_low, epsilon_high, dual_clip }
    }

    /// The gate of a token; `gap` is a constant of the derivative.
    fn open(&self, gap: f64, entropy: f64) -> f64 {
        let unsure = || entropy / (self.vocabulary as f64).ln();
        match self.gate {
            SdarGate::Gap => logistic(self.gate_beta * gap),
            SdarGate::Entropy => logistic(self.gate_beta * unsure()),
            SdarGate::SoftOr => {
                let either = 1.0 - (1.0 - unsure()) * (1.0 - gap.clamp(0.0, 1.0));
                logistic(self.gate_beta * either)
            }
            SdarGate::Hard => f64::from(gap > 0.0),
            SdarGate::None => 1.0,
        }
    }
}

impl TokenLoss for Sdar {
    fn needs(&self) -> Needs {
        let is_gated_by_entropy = matches!(self.gate, SdarGate::Entropy | SdarGate::SoftOr);
        let is_on = self.sdar_coef > 0.0;
        Needs { teacher: is_on, entropies: is_on && is_gated_by_entropy, ..Needs::default() }
    }

    fn losses(&self, tokens: &Tokens<'_>, losses: &mut Losses) {
        self.ppo_clip().losses(tokens, losses);
        if self.sdar_coef == 0.0 {
            return;
        }
        let (mut open, mut active, mut gaps) = (0.0, 0.0, 0.0);
        for at in 0..tokens.len() {
            let teacher = tokens.teacher[at];
            let gate = self.open(teacher - tokens.detached[at], tokens.entropy[at]);
            losses.value[at] += self.sdar_coef * gate * (teacher - tokens.policy[at]);
            losses.d_policy[at] -= self.sdar_coef * gate;
            open += gate;
            active += f64::from(gate > 0.5);
            gaps += teacher - tokens.policy[at];
        }
        let weight = tokens.len() as f64;
        let means = [("gate_mean", open), ("gate_active_ratio", active), ("teacher_gap_mean", gaps)];
        losses.metrics.extend(means.map(|(name, sum)| Metric { name, sum, weight }));
    }
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}
