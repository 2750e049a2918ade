//! Majority: several answers, of which the most frequent one counts.
//!
//! **What it does.** Samples N answers, each on its own, and gives the first of those whose final answer occurs most often.
//! Final answers are found and compared by a verifier, each with the first that it equals; nothing is compared with a
//! reference. Of answers that are equally frequent, the one that was given first wins, by number and not by time.
//!
//! **Formula.**
//!
//! ```text
//! y_i ~ π(·|x), i = 1..N        y = the first y_i with a(y_i) = argmax_a |{j : a(y_j) = a}|
//! ```
//!
//! **Reduces to.** The plain answer for `samples = 1`, to the bit.
//!
//! **References.** Wang et al. 2022, self-consistency, arXiv:2203.11171.

use burnish_core::Sampling;
use burnish_core::settings::SettingError;
use burnish_verify::Verifier;
use serde::{Deserialize, Serialize};

use crate::card::{CANDIDATES_MAX, Card, Part, require, require_temperature};
use crate::equality::majority;
use crate::sampling::{at, check_spread, drafts};
use crate::session::Session;
use crate::strategy::{Answering, Strategy};

/// Majority. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Majority {
    /// Answers, N. Default: 8.
    pub samples: usize,
    /// Their temperature. Default: that of the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// The verifier that finds and compares final answers. Default: `math`.
    pub equality: Verifier,
}

impl Default for Majority {
    fn default() -> Self {
        Majority { samples: 8, temperature: None, equality: Verifier::Math }
    }
}

impl Part for Majority {
    const CARD: Card = Card {
        id: "majority",
        title: "majority (self-consistency)",
        paper: "Wang et al. 2022, arXiv:2203.11171",
        equation: "y = the first y_i with a(y_i) = argmax_a |{j : a(y_j) = a}|, i = 1..N",
        reads: "its final answer",
        reconstructed: None,
        reduces_to: &["the plain answer, for samples = 1, to the bit"],
        file: "crates/burnish-reason/src/majority.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("samples", self.samples, 1, CANDIDATES_MAX)?;
        require_temperature("temperature", self.temperature)
    }
}

impl Strategy for Majority {
    fn check_sampling(&self, sampling: &Sampling) -> Result<(), SettingError> {
        check_spread("temperature", self.samples, self.temperature, sampling)
    }

    fn answer<'a>(&'a self, session: &'a Session<'_>) -> Answering<'a> {
        Box::pin(async move {
            let among = drafts(session, self.samples, &at(session.sampling(), self.temperature)).await?;
            Ok(vote(session, among, self.equality))
        })
    }
}

/// The candidate that most others agree with; the choice goes on the record.
pub(crate) fn vote(session: &Session<'_>, among: Vec<usize>, equality: Verifier) -> usize {
    let answers = session.answers(&among, equality);
    session.choose("majority", among, majority(&answers), answers, Vec::new())
}
