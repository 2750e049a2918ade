//! Credit for each turn from its return, plus credit for the episode as a whole.
//!
//! **What it does.** If turns earn rewards of their own, the return from a turn on says more about that turn than the
//! sum over the episode. All turns of a group are compared with each other, whatever state they were taken in.
//!
//! **Formula.** For turn `t` of rollout `i` in group `g`, with `r` the rewards of turns:
//!
//! ```text
//! G_it = r_it + γ·G_i(t+1)
//! A_it = w_E·norm_g(R)_i + w_S·norm(G)_it
//! norm(v) = (v - mean) / (std + ε)         std with n - 1
//! ```
//!
//! `norm(G)` is over all turns of the group, or of everything sampled in the step (`batch`). `normalisation` says
//! whether both parts are divided, bounded, or taken as they are.
//!
//! **Conventions.** A rollout without a reward counts in no mean, and gets no advantage. Numbers that are all equal are
//! normalised to exactly 0.
//!
//! **Reduces to.** With `step_weight = 0`, GRPO with the same `ε`. `gigpo` where all states are equal.
//!
//! **Reconstructed.** ROLL has the part of turns alone: normalised (`step_reinforce`, here `episode_weight = 0`) or not
//! (the returns of `agentic_reinforce`: also `normalisation = "identity"`). The sum with the episode's part is from
//! GiGPO; using it for turns that are not grouped by state is our choice.
//!
//! **Differs from ROLL.** See above. ROLL gives 0 where a standard deviation is at most 1e-6, and for
//! `agentic_reinforce` it normalises before the returns, on the rewards of episodes.
//!
//! **References.** ROLL, `roll/pipeline/agentic/utils.py`. The sum: Feng et al. 2025 (GiGPO), arXiv:2505.10978.

use serde::{Deserialize, Serialize};

use super::common::{Normaliser, check_steps, discounted_returns};
use super::{Advantage, Estimator, Normalisation, Rollout, Rollouts};
use crate::fact::{Need, TURN_REWARDS};
use crate::{Card, Check, Family, Part, SettingError};

/// Returns of turns, and the episode. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StepEpisode {
    /// Weight of the comparison of episodes (`w_E`). Default: 1.
    pub episode_weight: f64,
    /// Weight of the comparison of turns (`w_S`). Default: 1.
    pub step_weight: f64,
    /// What a turn's reward is worth one turn earlier. Default: 0.95.
    pub gamma: f64,
    /// How both comparisons are put on a scale. Default: `mean_std`.
    pub normalisation: Normalisation,
    /// What is added to standard deviations. Default: 1e-6.
    pub epsilon: f64,
    /// Are turns compared with those of the whole step instead of the group's? Default: false.
    pub batch: bool,
}

impl Default for StepEpisode {
    fn default() -> Self {
        StepEpisode {
            episode_weight: 1.0,
            step_weight: 1.0,
            gamma: 0.95,
            normalisation: Normalisation::MeanStd,
            epsilon: 1e-6,
            batch: false,
        }
    }
}

impl Part for StepEpisode {
    const CARD: Card = Card {
        id: "step_episode",
        title: "Returns of turns plus the episode's advantage",
        family: Family::Advantage,
        paper: "ROLL 2025, step_reinforce and agentic_reinforce",
        equation: "w_E·norm_g(R)_i + w_S·norm(G)_it, G_it = r_it + γ·G_i(t+1)",
        scope: "group",
        check: Check::Oracle("NumPy, from ROLL's compute_discounted_returns and grouped_reward_norm"),
        reconstructed: Some("the sum of both parts; ROLL has only that of turns"),
        reduces_to: &["GRPO, with step_weight = 0", "gigpo, where all states are equal"],
        file: "crates/burnish-rl/src/advantage/step_episode.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        check_steps(self.episode_weight, self.step_weight, self.epsilon, self.gamma)
    }
}

impl StepEpisode {
    /// A normaliser over the returns of all turns of scored rollouts.
    fn by_steps(&self, rollouts: Rollouts<'_>) -> Normaliser {
        let scored = rollouts.all.iter().filter(|rollout| rollout.score().is_some());
        let returns = scored.flat_map(|rollout| discounted_returns(rollout, self.gamma));
        self.normalisation.by(returns, self.epsilon)
    }
}

impl Estimator for StepEpisode {
    fn needs(&self) -> Vec<Need> {
        Need::all(&[&TURN_REWARDS])
    }

    fn advantages(&self, rollouts: &Rollouts<'_>) -> Vec<Option<Advantage>> {
        rollouts.by_group(|group| {
            let episode = self.normalisation.by(group.scored(), self.epsilon);
            let step = self.by_steps(if self.batch { *rollouts } else { group });
            let credit = |rollout: &Rollout| {
                let whole = self.episode_weight * episode.of(rollout.score()?);
                let returns = discounted_returns(rollout, self.gamma).into_iter();
                let steps = returns.map(|own| whole + self.step_weight * step.of(own));
                Some(Advantage::Steps(steps.collect()))
            };
            group.all.iter().map(credit).collect()
        })
    }
}
