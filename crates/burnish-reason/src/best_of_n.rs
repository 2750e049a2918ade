//! Best of N: several answers, of which the one with the highest score counts.
//!
//! **What it does.** Samples N answers, each on its own, scores them, and gives the best one. The score is the model's own
//! mean log-prob, a judge's word, or a reward model's number; none of them knows what is right.
//!
//! **Formula.**
//!
//! ```text
//! y_i ~ π(·|x), i = 1..N        y = y_k,  k = argmax_i s(x, y_i), of equal scores the least k
//! ```
//!
//! **Reduces to.** The plain answer for `samples = 1`, to the bit.
//!
//! **References.** Stiennon et al. 2020 (arXiv:2009.01325) rank samples by a reward model; Cobbe et al. 2021
//! (arXiv:2110.14168) by a verifier.

use burnish_core::Sampling;
use burnish_core::settings::SettingError;
use serde::{Deserialize, Serialize};

use crate::card::{CANDIDATES_MAX, Card, Part, require, require_temperature};
use crate::sampling::{at, check_spread, drafts};
use crate::scorer::{Scoring, best};
use crate::session::Session;
use crate::strategy::{Answering, Strategy};

/// Best of N. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BestOfN {
    /// Answers, N. Default: 8.
    pub samples: usize,
    /// Their temperature. Default: that of the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// How they are scored.
    pub score: Scoring,
}

impl Default for BestOfN {
    fn default() -> Self {
        BestOfN { samples: 8, temperature: None, score: Scoring::default() }
    }
}

impl Part for BestOfN {
    const CARD: Card = Card {
        id: "best_of_n",
        title: "best of N",
        paper: "Stiennon et al. 2020, arXiv:2009.01325",
        equation: "y = y_k, k = argmax_i s(x, y_i), i = 1..N",
        reads: "the mean log-prob of its tokens, or the number that a judge or a reward model gives it",
        reconstructed: None,
        reduces_to: &["the plain answer, for samples = 1, to the bit"],
        file: "crates/burnish-reason/src/best_of_n.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("samples", self.samples, 1, CANDIDATES_MAX)?;
        require_temperature("temperature", self.temperature)?;
        self.score.check("score")
    }
}

impl Strategy for BestOfN {
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
            Ok(session.choose("best_score", among, best(&scores), Vec::new(), scores))
        })
    }
}
