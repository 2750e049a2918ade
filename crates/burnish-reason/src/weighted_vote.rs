//! Weighted vote: as majority, but each answer has the weight of its score.
//!
//! **What it does.** Samples N answers, each on its own, and gives the first of those whose final answer has the greatest
//! sum of weights. A weight is the probability of a token (`logprob`: the geometric mean over the answer's tokens), the
//! number that a judge says, or what a reward model's number is worth beside those of the other answers: the chance that such a
//! model gives an answer to be the best of them (Bradley–Terry, Plackett–Luce).
//!
//! **Formula.**
//!
//! ```text
//! y = the first y_i with a(y_i) = argmax_a Σ_{j : a(y_j) = a} w_j
//! w_j = exp(mean_t log π(y_j,t))   or   w_j = max(0, grade_j)   or   w_j ∝ exp(r(x, y_j))
//! ```
//!
//! **Reduces to.** Majority where all weights are equal; the plain answer for `samples = 1`, to the bit.
//!
//! **References.** Wang et al. 2022 (arXiv:2203.11171, section 3.1: normalised weighted sum); Li et al. 2023 (arXiv:2206.02336:
//! a verifier's weights).

use burnish_core::Sampling;
use burnish_core::settings::SettingError;
use burnish_verify::Verifier;
use serde::{Deserialize, Serialize};

use crate::card::{CANDIDATES_MAX, Card, Part, require, require_temperature};
use crate::equality::winner;
use crate::sampling::{at, check_spread, drafts};
use crate::scorer::{By, Scoring};
use crate::session::Session;
use crate::strategy::{Answering, Strategy};

/// Weighted vote. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WeightedVote {
    /// Answers, N. Default: 8.
    pub samples: usize,
    /// Their temperature. Default: that of the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// The verifier that finds and compares final answers. Default: `math`.
    pub equality: Verifier,
    /// What a vote weighs.
    pub score: Scoring,
}

impl Default for WeightedVote {
    fn default() -> Self {
        WeightedVote { samples: 8, temperature: None, equality: Verifier::Math, score: Scoring::default() }
    }
}

impl Part for WeightedVote {
    const CARD: Card = Card {
        id: "weighted_vote",
        title: "weighted vote",
        paper: "Wang et al. 2022, arXiv:2203.11171, section 3.1",
        equation: "y = the first y_i with a(y_i) = argmax_a Σ_{j : a(y_j) = a} w_j, w_j = exp(mean_t log π(y_j,t)), a judge's number, or exp(r(x, y_j))",
        reads: "its final answer, and the mean log-prob of its tokens or the number that a judge or a reward model gives it",
        reconstructed: None,
        reduces_to: &[
            "majority, where all weights are equal",
            "the plain answer, for samples = 1, to the bit",
        ],
        file: "crates/burnish-reason/src/weighted_vote.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("samples", self.samples, 1, CANDIDATES_MAX)?;
        require_temperature("temperature", self.temperature)?;
        self.score.check("score")
    }
}

impl Strategy for WeightedVote {
    fn check_sampling(&self, sampling: &Sampling) -> Result<(), SettingError> {
        check_spread("temperature", self.samples, self.temperature, sampling)
    }

    fn scoring(&self) -> Option<&Scoring> {
        Some(&self.score)
    }

    fn answer<'a>(&'a self, session: &'a Session<'_>) -> Answering<'a> {
        Box::pin(async move {
            let among = drafts(session, self.samples, &at(session.sampling(), self.temperature)).await?;
            let scores = self.score.score(session, &among).await?;
            let answers = session.answers(&among, self.equality);
            // A reward has no zero: only differences mean something, so the highest weighs 1.
            let highest = scores.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max);
            let weight = |score: &Option<f64>| match (score, self.score.by) {
                (Some(score), By::Logprob) => score.exp(),
                (Some(score), By::Judge) => score.max(0.0),
                (Some(score), By::RewardModel) => (score - highest).exp(),
                (None, _) => 0.0,
            };
            let weights: Vec<f64> = scores.iter().map(weight).collect();
            Ok(session.choose("greatest_weight", among, winner(&answers, &weights), answers, scores))
        })
    }
}
