//! The optimal token baseline: at each token, the mean of the group's returns, weighted by the size of their gradients.
//!
//! **What it does.** The baseline of least variance weighs the return of each rollout by the squared norm of its
//! gradient. Here that norm is estimated from the forward pass alone, up to each token, so each position has a baseline
//! of its own.
//!
//! **Formula.** For token `t` of rollout `i`, with `π` the probability of the sampled token and `Σp²` the sum of
//! squared probabilities of its distribution:
//!
//! ```text
//! w_it = 1 - 2·π_it + Σp²_it                 (the squared norm of ∂ log π / ∂ logits)
//! W_it = w_i0 + … + w_it
//! A_it = R_i - B_t,   B_t = Σ_j R_j·W_jt / (Σ_j W_jt + ε)   over the members with a token t
//! ```
//!
//! Beyond the end of the second-longest member, the longest one has nothing to be compared with: there `B_t = 0` with
//! `handle_zero_tail` (otherwise it is compared with itself, and `A = 0`).
//!
//! **Conventions.** A rollout without a reward counts as absent, and gets no advantage. A group whose scored rewards
//! are all equal (such as a group of one) has advantages of exactly 0, also in the tail.
//!
//! **Reduces to.** The mean over the members that have a token `t`, if all `W` are equal and `ε = 0`.
//!
//! **Differs from the paper.** The norm is the paper's *logit-gradient proxy*. verl takes `π` from the policy before
//! the update; here that is so with `loss.correction.proximal = "recompute"`, otherwise `π` is that of sampling. verl's
//! `optimal_token_baseline` counts positions over tokens from tools too, its `tir_optimal_token_baseline` only over
//! sampled tokens, as here. verl can multiply `W` by squared off-policy weights, which are not known here. It gives a
//! group of one, and the tail of a group whose rewards are all equal, the raw reward.
//!
//! **References.** Li et al. 2026 (OTB), arXiv:2602.07078.

use serde::{Deserialize, Serialize};

use super::common::{of_tokens, sum, varies};
use super::{Advantage, Estimator, Rollout, Rollouts};
use crate::fact::{LOGPROBS, Need, SQUARES};
use crate::settings::require;
use crate::{Card, Check, Family, Part, SettingError};

/// The distance from the weighted baseline of each position. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OptimalTokenBaseline {
    /// Does the longest member have no baseline where it is alone? Default: true, as in verl.
    pub handle_zero_tail: bool,
    /// What is added to the sum of weights. Default: 1e-8, as in verl.
    pub epsilon: f64,
}

impl Default for OptimalTokenBaseline {
    fn default() -> Self {
        OptimalTokenBaseline { handle_zero_tail: true, epsilon: 1e-8 }
    }
}

impl Part for OptimalTokenBaseline {
    const CARD: Card = Card {
        id: "optimal_token_baseline",
        title: "Optimal token baseline",
        family: Family::Advantage,
        paper: "Li et al. 2026, The Optimal Token Baseline, arXiv:2602.07078",
        equation: "R_i - Σ_j R_j·W_jt / (Σ_j W_jt + ε), W the running sum of 1 - 2·π + Σp²",
        scope: "group",
        check: Check::Golden(
            "verl 0.9 compute_optimal_token_baseline_advantage, compute_multi_turn_optimal_token_baseline_advantage",
        ),
        reconstructed: None,
        reduces_to: &["the mean of the members with a token t, where all W are equal"],
        file: "crates/burnish-rl/src/advantage/optimal_token_baseline.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("epsilon", self.epsilon, |epsilon| epsilon >= 0.0, "must be 0 or more")
    }
}

impl Estimator for OptimalTokenBaseline {
    fn needs(&self) -> Vec<Need> {
        Need::all(&[&LOGPROBS, &SQUARES])
    }

    fn advantages(&self, rollouts: &Rollouts<'_>) -> Vec<Option<Advantage>> {
        rollouts.by_group(|group| {
            let baselines = self.baselines(group);
            let credit = |rollout: &Rollout| {
                let reward = rollout.score()?;
                let values = baselines[..rollout.tokens].iter();
                Some(Advantage::Tokens(values.map(|own| own.map_or(0.0, |own| reward - own)).collect()))
            };
            group.all.iter().map(credit).collect()
        })
    }
}

impl OptimalTokenBaseline {
    /// The baseline of each position; `None` where nothing differs from it.
    fn baselines(&self, group: Rollouts<'_>) -> Vec<Option<f64>> {
        let rewards = group.scored();
        let members: Vec<(f64, Vec<f64>)> =
            group.all.iter().filter_map(|own| Some((own.score()?, energies(own)))).collect();
        let mut lengths: Vec<usize> = members.iter().map(|(_, energies)| energies.len()).collect();
        lengths.sort_unstable();
        let longest = lengths.last().copied().unwrap_or(0);
        if !varies(&rewards) {
            return vec![None; longest];
        }
        let tail = lengths.len().checked_sub(2).map_or(0, |second| lengths[second]);
        let baseline = |at: usize| {
            if self.handle_zero_tail && at >= tail {
                return Some(0.0);
            }
            let here = || members.iter().filter_map(|(reward, own)| Some((*reward, *own.get(at)?)));
            let first = here().next()?.0;
            if here().all(|(reward, _)| reward == first) {
                return None;
            }
            let total = sum(here().map(|(_, energy)| energy)) + self.epsilon;
            // Only certain tokens: they have no gradient, and so need no baseline.
            let weighted = sum(here().map(|(reward, energy)| reward * energy));
            Some(if total > 0.0 { weighted / total } else { 0.0 })
        };
        (0..longest).map(baseline).collect()
    }
}

/// The running sum `W`. Rounding may make the term of a certain token negative, which a norm can't be.
fn energies(rollout: &Rollout) -> Vec<f64> {
    let mut total = 0.0;
    let tokens = of_tokens(rollout, &LOGPROBS).iter().zip(of_tokens(rollout, &SQUARES));
    let addends = tokens.map(|(logprob, squares)| 1.0 - 2.0 * logprob.exp() + squares);
    addends
        .map(|addend| {
            total += addend.max(0.0);
            total
        })
        .collect()
}
