//! ReMax: each rollout is compared with the greedy answer to its task.
//!
//! **What it does.** Subtracts from each reward that of the answer that the policy finds likeliest, token by token. It
//! costs one more answer per task, and needs no group.
//!
//! **Formula.** With `R_greedy` the reward of the greedy answer to the same task:
//!
//! ```text
//! A_i = R_i - R_greedy
//! ```
//!
//! **Conventions.** If the greedy answer has no reward, there is nothing to compare with: no advantage.
//!
//! **Reduces to.** REINFORCE (`A = R`) where the greedy answer earns 0.
//!
//! **Differs from the paper.** It does not. verl takes the return from each token on instead of `R`, which is the same
//! as long as the reward is given at the last token. A KL penalty in the rewards of tokens would make a difference
//! (here `loss.use_kl_in_reward` subtracts the KL of the whole sequence from `R`).
//!
//! **References.** Li et al. 2023 (ReMax), arXiv:2310.10505.

use serde::{Deserialize, Serialize};

use super::{Advantage, Estimator, Rollouts};
use crate::fact::{GREEDY_REWARD, Need};
use crate::{Card, Check, Family, Part};

/// The distance from the greedy answer's reward. See the head of this file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Remax {}

impl Part for Remax {
    const CARD: Card = Card {
        id: "remax",
        title: "ReMax: the greedy answer as baseline",
        family: Family::Advantage,
        paper: "Li et al. 2023, ReMax, arXiv:2310.10505",
        equation: "R_i - R_greedy",
        scope: "sequence",
        check: Check::Golden("verl 0.9 compute_remax_outcome_advantage"),
        reconstructed: None,
        reduces_to: &["REINFORCE where the greedy answer earns 0"],
        file: "crates/burnish-rl/src/advantage/remax.rs",
    };
}

impl Estimator for Remax {
    fn compares_within_groups(&self) -> bool {
        false
    }

    fn needs(&self) -> Vec<Need> {
        Need::all(&[&GREEDY_REWARD])
    }

    fn advantages(&self, rollouts: &Rollouts<'_>) -> Vec<Option<Advantage>> {
        let compare = |rollout: &super::Rollout| {
            let greedy = rollout.facts.number(&GREEDY_REWARD).filter(|reward| reward.is_finite())?;
            Some(Advantage::Whole(rollout.score()? - greedy))
        };
        rollouts.all.iter().map(compare).collect()
    }
}
