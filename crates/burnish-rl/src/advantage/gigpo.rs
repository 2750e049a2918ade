//! GiGPO: whole episodes are compared, and within them the turns that were taken in the same state.
//!
//! **What it does.** Rollouts of one task pass through some states of the environment more than once. What the siblings
//! did next in the same state can be compared turn by turn, without a critic.
//!
//! **Formula.** For turn `t` of rollout `i` in group `g`, with `r` the rewards of turns and `x` the states in which
//! they were taken:
//!
//! ```text
//! G_it = r_it + γ·G_i(t+1)
//! A^E_i  = (R_i - mean_g(R)) / (std_g(R) + ε)
//! A^S_it = (G_it - mean(G in x_it)) / (std(G in x_it) + ε)     over all turns of the group in the state x_it
//! A_it   = w_E·A^E_i + w_S·A^S_it
//! ```
//!
//! Standard deviations divide by n - 1. `normalisation` says whether both parts are divided by them, bounded, or taken
//! as they are.
//!
//! **Conventions.** A rollout without a reward counts as absent, also in states, and gets no advantage. A state that
//! was seen only once adds exactly 0, as does every comparison of equal numbers.
//!
//! **Reduces to.** With `step_weight = 0`, GRPO with the same `ε` (the same number for each turn). With
//! `episode_weight = 0`, `normalisation = identity`: discounted returns. Where all states are equal, `step_episode`.
//!
//! **Differs from the paper.** The paper allows 1 in place of the standard deviation (`normalisation = "mean"`).
//! verl-agent and ROLL count a rollout once per turn in the mean and standard deviation of the episode part
//! (`count_steps = true`). The paper and verl-agent give the only rollout of a group its raw reward; ROLL and burnish
//! give 0. ROLL also gives 0 where a standard deviation is at most 1e-6. Its `asym_clip` and `identity` are the same as
//! here. verl-agent can also count similar states as equal; here, whoever numbers the states decides.
//!
//! **Example.**
//! ```
//! use burnish_rl::advantage::{Advantage, Estimator, Gigpo, Normalisation, Rollout, Rollouts};
//! use burnish_rl::fact::{TURN_REWARDS, TURN_STATES};
//! // Both begin in state 1. Only the first earns something, in a state that the other never saw.
//! let rollout = |reward: f64, second: f64| {
//!     let turns = Rollout::of_reward(Some(reward)).with_turns(&[1, 1]);
//!     turns.with(&TURN_REWARDS, [0.0, reward]).with(&TURN_STATES, [1.0, second])
//! };
//! let all = [rollout(1.0, 2.0), rollout(0.0, 3.0)];
//! let gigpo = Gigpo { gamma: 0.5, normalisation: Normalisation::Mean, ..Gigpo::default() };
//! let credit = gigpo.advantages(&Rollouts { all: &all, groups: &[0..2] });
//! assert_eq!(credit[0], Some(Advantage::Steps(vec![0.75, 0.5])));
//! assert_eq!(credit[1], Some(Advantage::Steps(vec![-0.75, -0.5])));
//! ```
//!
//! **References.** Feng et al. 2025 (GiGPO), arXiv:2505.10978. ROLL, `roll/pipeline/agentic/utils.py`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::common::{check_steps, discounted_returns};
use super::{Advantage, Estimator, Normalisation, Rollout, Rollouts};
use crate::fact::{Need, TURN_REWARDS, TURN_STATES};
use crate::{Card, Check, Family, Part, SettingError};

/// Credit for the episode and for each turn. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Gigpo {
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
    /// Does a rollout count once per turn when episodes are compared? Default: false.
    pub count_steps: bool,
}

impl Default for Gigpo {
    fn default() -> Self {
        Gigpo {
            episode_weight: 1.0,
            step_weight: 1.0,
            gamma: 0.95,
            normalisation: Normalisation::MeanStd,
            epsilon: 1e-6,
            count_steps: false,
        }
    }
}

impl Part for Gigpo {
    const CARD: Card = Card {
        id: "gigpo",
        title: "GiGPO: groups of equal states in groups of episodes",
        family: Family::Advantage,
        paper: "Feng et al. 2025, Group-in-Group Policy Optimization, arXiv:2505.10978",
        equation: "w_E·(R_i - mean_g(R))/(std_g(R) + ε) + w_S·(G_it - mean(G in x_it))/(std(G in x_it) + ε)",
        scope: "group",
        check: Check::Oracle("NumPy, from the paper and ROLL's compute_response_level_rewards"),
        reconstructed: None,
        reduces_to: &["GRPO, with step_weight = 0", "step_episode, where all states are equal"],
        file: "crates/burnish-rl/src/advantage/gigpo.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        check_steps(self.episode_weight, self.step_weight, self.epsilon, self.gamma)
    }
}

impl Estimator for Gigpo {
    fn needs(&self) -> Vec<Need> {
        Need::all(&[&TURN_REWARDS, &TURN_STATES])
    }

    fn advantages(&self, rollouts: &Rollouts<'_>) -> Vec<Option<Advantage>> {
        rollouts.by_group(|group| {
            let scored = || group.all.iter().filter_map(|rollout| Some((rollout, rollout.score()?)));
            let count = |rollout: &Rollout| if self.count_steps { rollout.turns.len() } else { 1 };
            let episodes = scored().flat_map(|(own, reward)| std::iter::repeat_n(reward, count(own)));
            let episode = self.normalisation.by(episodes, self.epsilon);

            let mut states: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
            for (rollout, _) in scored() {
                for (state, own) in states_of(rollout).zip(discounted_returns(rollout, self.gamma)) {
                    states.entry(state).or_default().push(own);
                }
            }
            let states: BTreeMap<u64, _> = states
                .into_iter()
                .map(|(state, returns)| (state, self.normalisation.by(returns, self.epsilon)))
                .collect();

            let credit = |rollout: &Rollout| {
                let whole = self.episode_weight * episode.of(rollout.score()?);
                let returns = discounted_returns(rollout, self.gamma);
                let steps = states_of(rollout).zip(returns).map(|(state, own)| {
                    whole + self.step_weight * states.get(&state).map_or(0.0, |state| state.of(own))
                });
                Some(Advantage::Steps(steps.collect()))
            };
            group.all.iter().map(credit).collect()
        })
    }
}

/// The state in which each turn was taken, as a key that equal states share.
fn states_of(rollout: &Rollout) -> impl Iterator<Item = u64> {
    rollout.facts.of(&TURN_STATES).iter().map(|state| state.to_bits())
}
