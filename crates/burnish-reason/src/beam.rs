//! Beam search over turns: several ways on from each position of an episode, of which the best few are followed.
//!
//! **What it does.** At each kept position it samples `width` answers and scores them as best of N does. The `keep` ways with the
//! highest mean score are acted on, so each goes on with what the environment says to it, and from there the same begins
//! again. Of the ways that reached their end, the one with the highest mean score is the episode. The environment is
//! brought to a position by giving it the same answers again, so it must be one whose actions can be repeated.
//!
//! **Formula.**
//!
//! ```text
//! B_0 = {x};   C_t = {(b, y) : b ∈ B_t, y ~ π(·|b), width times};   v(b, y) = mean of s along the way
//! K_t = the `keep` best of C_t by v, of equal ones the first;   B_{t+1} = the ways of K_t that are not over
//! the episode: the best by v of all that are over
//! ```
//!
//! **Reduces to.** Best of N with `samples = width` where an episode is one turn; the plain policy for `width = 1` and
//! `keep = 1`, to the bit.
//!
//! **References.** Lowerre 1976 (beam search); Yao et al. 2023 (arXiv:2305.10601) search breadth first over thoughts that the
//! model grades. Whole turns in place of thoughts, and the mean along the way, are ours.

use std::collections::BTreeMap;

use burnish_core::Sampling;
use burnish_core::settings::SettingError;
use burnish_episode::ContactError;
use serde::{Deserialize, Serialize};

use crate::card::{CANDIDATES_MAX, Card, Part, require, require_temperature};
use crate::record::{Role, Selection};
use crate::sampling::{at, check_spread};
use crate::scorer::{Scoring, best};
use crate::session::{POLICY, Request, Session};
use crate::strategy::{Answering, Strategy};

/// Beam search over turns. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Beam {
    /// Answers at each position. Default: 4.
    pub width: usize,
    /// Ways that are followed. Default: 2.
    pub keep: usize,
    /// The temperature of answers. Default: that of the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// How answers are scored.
    pub score: Scoring,
}

impl Default for Beam {
    fn default() -> Self {
        Beam { width: 4, keep: 2, temperature: None, score: Scoring::default() }
    }
}

impl Part for Beam {
    const CARD: Card = Card {
        id: "beam",
        title: "beam search over turns",
        paper: "Lowerre 1976; Yao et al. 2023, arXiv:2305.10601",
        equation: "K_t = the `keep` best of `width` answers at each position of K_{t-1}, by the mean of s along the way",
        reads: "the mean log-prob of its tokens, or the number that a judge or a reward model gives it",
        reconstructed: Some("whole turns in place of thoughts, and the mean of scores along the way"),
        reduces_to: &[
            "best_of_n with samples = width, where an episode is one turn",
            "the plain policy, for width = 1 and keep = 1, to the bit",
        ],
        file: "crates/burnish-reason/src/beam.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("width", self.width, 1, CANDIDATES_MAX)?;
        require("keep", self.keep, 1, CANDIDATES_MAX)?;
        require_temperature("temperature", self.temperature)?;
        self.score.check("score")
    }
}

impl Strategy for Beam {
    fn check_sampling(&self, sampling: &Sampling) -> Result<(), SettingError> {
        check_spread("temperature", self.width, self.temperature, sampling)
    }

    fn scoring(&self) -> Option<&Scoring> {
        Some(&self.score)
    }

    fn answer<'a>(&'a self, session: &'a Session<'_>) -> Answering<'a> {
        Box::pin(self.search(session))
    }
}

/// The scores along a way.
#[derive(Debug, Clone, Copy, Default)]
struct Value {
    sum: f64,
    turns: f64,
}

impl Value {
    /// After an answer with this score; one without a score is worth less than any other.
    fn after(self, score: Option<f64>) -> Value {
        Value { sum: self.sum + score.unwrap_or(f64::NEG_INFINITY), turns: self.turns + 1.0 }
    }

    fn mean(self) -> f64 {
        self.sum / self.turns.max(1.0)
    }
}

/// A way, by its last answer.
#[derive(Debug, Clone, Copy)]
struct Way {
    candidate: usize,
    value: Value,
}

impl Beam {
    async fn search(&self, session: &Session<'_>) -> Result<usize, ContactError> {
        let mut open: BTreeMap<usize, Option<Way>> = BTreeMap::from([(0, None)]);
        let mut over: Vec<Way> = Vec::new();
        for stage in 0.. {
            let ways = self.answers(session, &open, stage).await?;
            // Where nothing more can be said, the way ends.
            let is_open = |at: &usize| ways.iter().any(|(from, _)| from == at);
            over.extend(open.iter().filter(|(at, _)| !is_open(at)).filter_map(|(_, way)| *way));
            let mut ways: Vec<Way> = ways.into_iter().map(|(_, way)| way).collect();
            if let ([only], 1) = (&ways[..], self.width * self.keep) {
                return Ok(only.candidate);
            }
            let (among, scores) = ways.iter().map(|way| (way.candidate, Some(way.value.mean()))).unzip();
            ways.sort_by(|one, other| other.value.mean().total_cmp(&one.value.mean()));
            ways.truncate(self.keep);
            if ways.is_empty() {
                break;
            }
            let chosen: Vec<usize> = ways.iter().map(|way| way.candidate).collect();
            let places = session.act(&chosen).await?;
            session.note(Selection { rule: "beam".into(), among, answers: Vec::new(), scores, chosen });
            open.clear();
            for (place, way) in places.into_iter().zip(ways) {
                match session.is_over(place) {
                    true => over.push(way),
                    false => {
                        open.insert(place, Some(way));
                    }
                }
            }
            if open.is_empty() {
                break;
            }
        }
        let (among, scores): (Vec<usize>, Vec<Option<f64>>) =
            over.iter().map(|way| (way.candidate, Some(way.value.mean()))).unzip();
        Ok(session.choose("best_score", among, best(&scores), Vec::new(), scores))
    }

    /// `width` answers at each open position, with what their ways are worth.
    async fn answers(
        &self,
        session: &Session<'_>,
        open: &BTreeMap<usize, Option<Way>>,
        stage: u32,
    ) -> Result<Vec<(usize, Way)>, ContactError> {
        let questions = open.keys().flat_map(|at| std::iter::repeat_n(*at, self.width));
        let request = Request {
            role: Role::Draft,
            who: POLICY,
            stage,
            first: 0,
            questions: questions.map(|at| session.question(at)).collect(),
            sampling: at(session.sampling(), self.temperature),
        };
        let drafts = session.sample(request).await?;
        let scores = match self.width * self.keep {
            1 => vec![None; drafts.len()],
            _ => self.score.score(session, &drafts).await?,
        };
        let ways = drafts.into_iter().zip(scores).map(|(candidate, score)| {
            let from = session.read(|candidates| candidates[candidate].position);
            let before = open.get(&from).copied().flatten().map(|way| way.value).unwrap_or_default();
            (from, Way { candidate, value: before.after(score) })
        });
        Ok(ways.collect())
    }
}
