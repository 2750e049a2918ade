//! Thinkless: the choice of a mode and the answer in it are paid apart (DeGRPO).
//!
//! **What it does.** A policy begins its answer by a control token that says whether it thinks. In the mean over an answer's
//! tokens that token weighs one over the length, so long answers hardly teach the choice, and the shorter mode wins because its
//! control token weighs more. Here the control tokens and the rest of an answer are averaged apart, and the former get a weight
//! that does not depend on the length. Control tokens are those of a span of the answer (`[[spans]]`).
//!
//! **Formula.** With `ℓ_t` PPO's clipped surrogate of token `t`, `C` the tokens of the span and `R` the others of an answer:
//!
//! ```text
//! L = α · 1/|C| Σ_{t∈C} ℓ_t + 1/|R| Σ_{t∈R} ℓ_t,    then the mean over answers
//! ```
//!
//! An answer without tokens of one kind has only the other mean.
//!
//! **Reduces to.** GRPO's objective with `decoupled = false`, and for answers without a token of the span.
//!
//! **Differs from the frameworks.** The rewards of the paper (1 for a right short answer, 0.5 for a right long one, -1 for a wrong
//! one) are the environment's, and its advantages are `advantage.config.scale = "none"`.
//!
//! **Reconstructed.** That both means are taken over each answer, and not over the tokens of a batch.
//!
//! **References.** Fang et al. 2025, Thinkless: LLM Learns When to Think, arXiv:2505.13379.

use burnish_rl::aggregation::Aggregation;
use burnish_rl::objective::PpoClip;
use burnish_rl::{Card, Check, Family, Losses, Part, SettingError, TokenLoss, Tokens, require};
use serde::{Deserialize, Serialize};

use crate::{Evidence, PartRef, Status, System};

/// DeGRPO. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Degrpo {
    /// The span of the control tokens, by its name in `[[spans]]`. Default: `control`.
    pub span: String,
    /// Are they averaged apart? If not, every token weighs the same. Default: true.
    pub decoupled: bool,
    /// The weight of their mean, α. Default: 0.001.
    pub alpha: f64,
    /// How far below 1 the ratio may fall, ε_low. Default: 0.2.
    pub epsilon_low: f64,
    /// How far above 1 the ratio may rise, ε_high. Default: 0.2.
    pub epsilon_high: f64,
}

impl Default for Degrpo {
    fn default() -> Self {
        let PpoClip { epsilon_low, epsilon_high, .. } = PpoClip::default();
        Degrpo { span: "control".to_owned(), decoupled: true, alpha: 0.001, epsilon_low, epsilon_high }
    }
}

impl Part for Degrpo {
    const CARD: Card = Card {
        id: "degrpo",
        title: "DeGRPO: control tokens and answers apart",
        family: Family::Objective,
        paper: "Fang et al. 2025, Thinkless: LLM Learns When to Think, arXiv:2505.13379",
        equation: "α·mean of ppo_clip over control tokens + mean of ppo_clip over the other tokens, of each answer",
        scope: "sequence",
        check: Check::Oracle("the formula, computed again in systems/thinkless/tests.rs"),
        reconstructed: Some("both means are taken over each answer"),
        reduces_to: &["ppo_clip, for decoupled = false", "ppo_clip, for answers without control tokens"],
        file: "systems/thinkless/mod.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("alpha", self.alpha, |alpha| alpha >= 0.0, "must be 0 or more")?;
        self.surrogate().check()
    }
}

impl Degrpo {
    fn surrogate(&self) -> PpoClip {
        PpoClip { epsilon_low: self.epsilon_low, epsilon_high: self.epsilon_high, ..PpoClip::default() }
    }
}

impl TokenLoss for Degrpo {
    fn spans(&self) -> Vec<String> {
        vec![self.span.clone()]
    }

    fn aggregation(&self) -> Option<Aggregation> {
        Some(Aggregation::Grpo)
    }

    fn losses(&self, tokens: &Tokens<'_>, losses: &mut Losses) {
        self.surrogate().losses(tokens, losses);
        let Some(inside) = tokens.span(&self.span).filter(|_| self.decoupled) else { return };
        // What the mean over all tokens divides by too much.
        let all = tokens.len() as f64;
        let control = inside.iter().filter(|inside| **inside > 0.0).count() as f64;
        let parts = losses.value.iter_mut().zip(&mut losses.d_policy).zip(inside);
        for ((value, d_policy), inside) in parts {
            let weight = if *inside > 0.0 { self.alpha * all / control } else { all / (all - control) };
            *value *= weight;
            *d_policy *= weight;
        }
    }
}

/// The whole system.
pub(crate) const SYSTEM: System = System {
    id: "thinkless",
    title: "Thinkless: control tokens are paid apart from the answers that they begin",
    paper: Degrpo::CARD.paper,
    evidence: Evidence::Paper,
    reconstructed: &["both means are taken over each answer"],
    parts: &[PartRef { family: Family::Objective, id: "degrpo" }],
    uses: &["spans"],
    environments: &["mapf-frozenlake"],
    recipe: Some("systems/thinkless/recipe.toml"),
    set: &[],
    study: None,
    results: &[],
    reduces_to: Degrpo::CARD.reduces_to,
    run: None,
    status: Status::Runs,
};

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
