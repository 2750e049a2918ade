//! VinePPO: measures what each part of an answer was worth by playing on from both of its ends.
//!
//! **What it does.** An answer is cut every few tokens. From each cut the policy plays on to the end several times, and
//! the mean reward is what the answer was worth at that point. A part of the answer is credited with how much it raised
//! that. This is dense Monte-Carlo credit, without a critic, at the price of many more answers.
//!
//! **Formula.** For an answer of `T` tokens cut after `every`, `2·every`, ... below `T`, with `V̂_0` the mean reward of
//! its group and `V̂_j` the mean reward of the `K` answers that go on from cut `j`:
//!
//! ```text
//! A_t = V̂_(j+1) - V̂_j        for the tokens between cut j and cut j + 1
//! A_t = R - V̂_J               for those after the last cut J
//! ```
//!
//! The advantages of the step are then standardised together (`whiten`).
//!
//! **Conventions.** A cut from which no answer has a reward is left out, as if it had not been made. `V̂_j` has the
//! variance `V·(1 - V)/K` for rewards of 0 and 1: between two cuts that differ by less, the sign of the credit is left
//! to chance.
//!
//! **Reduces to.** With `every` at least the length of the answers, and `whiten = none`: `R - mean`, which is `grpo`
//! with `scale = none`, to the bit. Without whitening the parts of an answer always add up to that.
//!
//! **Differs from the paper.** The paper cuts at the ends of reasoning steps, burnish after a number of tokens. The
//! paper estimates `V̂_0` with answers sampled for it, burnish with the group's.
//!
//! **Tokens.** What goes on from within an answer begins with the ids that were sampled there. (Runs up to version 2 of
//! the journal began with their text, tokenised again, which may give other ids.)
//!
//! **Example.**
//! ```
//! use burnish_rl::advantage::{Advantage, Estimator, Rollout, Rollouts, Vineppo, Whiten};
//! use burnish_rl::fact::CONTINUED;
//! let answer = |reward, continued: &[f64]| {
//!     Rollout { tokens: 5, ..Rollout::of_reward(Some(reward)) }.with(&CONTINUED, continued)
//! };
//! // Both were as good as ever after two tokens; then one spoilt it, in the next two.
//! let all = [answer(1.0, &[0.5, 1.0]), answer(0.0, &[0.5, 0.0])];
//! let dense = Vineppo { every: 2, whiten: Whiten::None, ..Vineppo::default() };
//! let credit = dense.advantages(&Rollouts { all: &all, groups: &[0..2] });
//! assert_eq!(credit[0], Some(Advantage::Tokens(vec![0.0, 0.0, 0.5, 0.5, 0.0])));
//! assert_eq!(credit[1], Some(Advantage::Tokens(vec![0.0, 0.0, -0.5, -0.5, 0.0])));
//! ```
//!
//! **References.** Kazemnejad et al. 2024 (VinePPO), arXiv:2410.01679, section 4.

use serde::{Deserialize, Serialize};

use super::common::{mean, varies};
use super::{Advantage, Estimator, Rollout, Rollouts, Whiten};
use crate::fact::{CONTINUED, Continuations, Need};
use crate::settings::require;
use crate::{Card, Check, Family, Part, SettingError};

/// Dense credit by playing on. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Vineppo {
    /// Tokens between two cuts. Default: 16, for tiny policies.
    pub every: usize,
    /// How many answers go on from each cut, K. Default: 9, the paper's.
    pub rollouts: usize,
    /// How the advantages of a step are standardised together. Default: `tokens`.
    pub whiten: Whiten,
}

impl Default for Vineppo {
    fn default() -> Self {
        Vineppo { every: 16, rollouts: 9, whiten: Whiten::Tokens }
    }
}

impl Part for Vineppo {
    const CARD: Card = Card {
        id: "vineppo",
        title: "VinePPO: dense credit by playing on",
        family: Family::Advantage,
        paper: "Kazemnejad et al. 2024, VinePPO, arXiv:2410.01679",
        equation: "V̂_(j+1) - V̂_j between two cuts, R - V̂_J after the last; then standardised over the step",
        scope: "token",
        check: Check::Oracle("NumPy, tests/golden/make_credit.py"),
        reconstructed: None,
        reduces_to: &["grpo with scale = none, for answers without a cut and whiten = none, to the bit"],
        file: "crates/burnish-rl/src/advantage/vineppo.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        for (key, value) in [("every", self.every), ("rollouts", self.rollouts)] {
            require(key, value as f64, |value| value >= 1.0, "must be 1 or more")?;
        }
        Ok(())
    }
}

impl Vineppo {
    /// Advantage of each token of a rollout that earned `reward`, in a group with the mean reward `start`.
    fn credit(&self, rollout: &Rollout, start: f64, reward: f64) -> Vec<f64> {
        let mut credit = Vec::with_capacity(rollout.tokens);
        let mut before = start;
        for (at, worth) in rollout.facts.of(&CONTINUED).iter().enumerate() {
            let cut = self.every * (at + 1);
            if worth.is_finite() && cut < rollout.tokens {
                credit.resize(cut, worth - before);
                before = *worth;
            }
        }
        credit.resize(rollout.tokens, reward - before);
        credit
    }
}

impl Estimator for Vineppo {
    fn needs(&self) -> Vec<Need> {
        vec![Continuations { every: self.every, rollouts: self.rollouts }.need()]
    }

    fn advantages(&self, rollouts: &Rollouts<'_>) -> Vec<Option<Advantage>> {
        let credit = rollouts.by_group(|group| {
            let scored = group.scored();
            // The mean of equal rewards is exactly theirs.
            let start = if varies(&scored) { mean(&scored) } else { scored.first().copied() };
            let credit =
                |rollout: &Rollout| Some(Advantage::Tokens(self.credit(rollout, start?, rollout.score()?)));
            group.all.iter().map(credit).collect()
        });
        self.whiten.apply(credit, rollouts)
    }
}
