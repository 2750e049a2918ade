//! What a strategy was good for, once somebody who knows what is right has judged its candidates.

use burnish_verify::Verifier;
use serde::{Deserialize, Serialize};

use crate::equality::{answer_of, majority, numbered};
use crate::record::{Considered, Role};

/// Shares of right answers of one turn, or their means over turns (HeavySkill, arXiv:2605.02396, section 4).
///
/// `hm - vote = rectified - regressed`, always.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// Drafts that were read, K; a mean over turns.
    pub drafts: f64,
    /// Answers of the last stage, M; a mean over turns.
    pub answers: f64,
    /// M@K: the mean over the drafts.
    pub mean: f64,
    /// Vote@K: is the majority of the drafts right? Answers are compared as the strategy does, by `math` if it compares none.
    pub vote: f64,
    /// P@K: is any draft right?
    pub any: f64,
    /// HM@M: the mean over the answers of the last stage.
    pub hm: f64,
    /// HP@M: is any of them right?
    pub hp: f64,
    /// The share of the answers of the last stage that are right where the vote is wrong.
    pub rectified: f64,
    /// The share of them that are wrong where the vote is right.
    pub regressed: f64,
}

impl Rates {
    /// The rates of one turn; `is_right` has one entry per candidate. `None` if there are no drafts.
    pub fn of(considered: &Considered, is_right: &[bool]) -> Option<Rates> {
        let drafts = considered.drafts_read();
        let last: Vec<usize> = match considered.of(Role::Deliberation, None).is_empty() {
            // Without deliberation the answer is what was chosen among the drafts.
            true => vec![considered.chosen],
            false => considered.last(),
        };
        if drafts.is_empty() {
            return None;
        }
        let right = |at: &usize| is_right.get(*at).copied().unwrap_or(false);
        let share = |among: &[usize], holds: &dyn Fn(&usize) -> bool| {
            among.iter().filter(|at| holds(at)).count() as f64 / among.len() as f64
        };
        let equality = considered.equality.unwrap_or(Verifier::Math);
        let answer = |at: &usize| answer_of(equality, &considered.candidates[*at].message);
        let answers: Vec<Option<String>> = drafts.iter().map(answer).collect();
        let vote = drafts[majority(&numbered(equality, &answers))];
        let vote = right(&vote);
        let any = |among: &[usize]| f64::from(u8::from(among.iter().any(right)));
        Some(Rates {
            drafts: drafts.len() as f64,
            answers: last.len() as f64,
            mean: share(&drafts, &right),
            vote: f64::from(u8::from(vote)),
            any: any(&drafts),
            hm: share(&last, &right),
            hp: any(&last),
            rectified: share(&last, &|at| !vote && right(at)),
            regressed: share(&last, &|at| vote && !right(at)),
        })
    }

    /// The means over turns; `None` of none.
    pub fn mean_of(all: &[Rates]) -> Option<Rates> {
        let mean = |of: fn(&Rates) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
        (!all.is_empty()).then(|| Rates {
            drafts: mean(|rates| rates.drafts),
            answers: mean(|rates| rates.answers),
            mean: mean(|rates| rates.mean),
            vote: mean(|rates| rates.vote),
            any: mean(|rates| rates.any),
            hm: mean(|rates| rates.hm),
            hp: mean(|rates| rates.hp),
            rectified: mean(|rates| rates.rectified),
            regressed: mean(|rates| rates.regressed),
        })
    }
}
