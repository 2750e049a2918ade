//! SSR: members that teach nothing are replaced by members of earlier steps that did.
//!
//! **What it does.** As a policy gets better, more and more groups tie and their members have an advantage of 0: the
//! batch silently shrinks. Members whose advantage is not 0 are kept in a queue. Each later update trains on the
//! members of its step that teach something, and replaces the others with draws from the queue. The larger the
//! advantage of a kept member, the likelier it is drawn.
//!
//! **Formula.** For a step with `B` members, `E` those with `A ≠ 0`, and a queue `Q` of at most `buffer·B` members:
//!
//! ```text
//! batch = E  ∪  {B - |E| draws from Q, with repetition}       P(j) = |A_j|^α / Σ_{k ∈ Q} |A_k|^α
//! Q ← the newest of Q ∪ E
//! ```
//!
//! **Conventions.** Nothing is drawn from an empty queue; the batch is then that of the step, ties included. A step
//! never replays its own members.
//!
//! **Reduces to.** The step without a replay, as long as the queue is empty: to the bit. With `buffer = 0` it always
//! is.
//!
//! **Differs from the paper.** There, up to a tenth of the batch may be members of groups in which all answers are
//! right; here they have an advantage of 0 and teach nothing. The authors' code multiplies its weights by 0.8, which
//! cancels: `α = 1`.
//!
//! **Reconstructed.** How many are drawn: as many as there are members with `A = 0`.
//!
//! **References.** Wang et al. 2025 (VL-Rethinker), arXiv:2504.08837, section 3; the authors' code.

use burnish_core::rng::Stream;
use serde::{Deserialize, Serialize};

use super::{Mixture, Replay};
use crate::settings::require;
use crate::{Card, Check, Family, Part, SettingError};

/// Selective sample replay. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ssr {
    /// How strongly the size of an advantage counts, `α`. Default: 1.
    pub alpha: f64,
    /// The length of the queue, as a share of the members of a step. Default: 0.5.
    pub buffer: f64,
}

impl Default for Ssr {
    fn default() -> Self {
        Ssr { alpha: 1.0, buffer: 0.5 }
    }
}

impl Part for Ssr {
    const CARD: Card = Card {
        id: "ssr",
        title: "SSR: selective sample replay",
        family: Family::Replay,
        paper: "Wang et al. 2025, VL-Rethinker, arXiv:2504.08837",
        equation: "P(j) = |A_j|^α / Σ_k |A_k|^α, for as many draws as members of the step have A = 0",
        scope: "batch",
        check: Check::Oracle("how often each is drawn, by a χ² test"),
        reconstructed: Some("how many are drawn"),
        reduces_to: &["no replay, for an empty queue, to the bit"],
        file: "crates/burnish-rl/src/replay/ssr.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("alpha", self.alpha, |alpha| alpha >= 0.0, "must be 0 or more")?;
        require("buffer", self.buffer, |buffer| (0.0..=100.0).contains(&buffer), "must be 0 to 100")
    }
}

impl Replay for Ssr {
    fn mix(&self, fresh: &[f64], kept: &[f64], seed: u64) -> Mixture {
        if kept.is_empty() {
            return Mixture { fresh: (0..fresh.len()).collect(), kept: Vec::new() };
        }
        let effective: Vec<usize> = (0..fresh.len()).filter(|at| self.keeps(fresh[*at])).collect();
        let ends: Vec<f64> = kept
            .iter()
            .scan(0.0, |sum, advantage| {
                *sum += advantage.abs().powf(self.alpha);
                Some(*sum)
            })
            .collect();
        let whole = ends.last().copied().unwrap_or(0.0);
        let mut stream = Stream::new(seed);
        let draw = |_| {
            let at = stream.uniform() * whole;
            ends.partition_point(|end| *end <= at).min(kept.len() - 1)
        };
        Mixture { kept: (effective.len()..fresh.len()).map(draw).collect(), fresh: effective }
    }

    fn keeps(&self, advantage: f64) -> bool {
        advantage != 0.0 && advantage.is_finite()
    }

    fn capacity(&self, members: usize) -> usize {
        (self.buffer * members as f64).floor() as usize
    }
}
