//! FAPO: a right answer that was reached by a wrong step earns less than one without a wrong step.
//!
//! **What it does.** Early on, answers that are right for a wrong reason (flawed positives) are steps towards right
//! ones; later they teach the wrong reason. A detector reads the steps of every answer. A right answer with a flaw
//! loses `λ` of its reward; with `λ = 1` it is halfway between right and wrong. Whether it is still better than its
//! group depends on the group, so the penalty sets in as the policy improves, without a schedule.
//!
//! **Formula.** With `r_i` the reward, and `flaw_i` 1 where the detector finds a wrong step:
//!
//! ```text
//! R_i  = 1 if r_i ≥ right_min, else -1
//! R'_i = R_i - λ·[R_i = 1]·flaw_i
//! A_i  = GRPO of R'
//! ```
//!
//! With `λ = 1`, in a group with `α` right answers without a flaw and `β` wrong ones, a flawed answer has `A > 0` if
//! and only if `α < β`, and `A = 0` if `α = β`.
//!
//! **Conventions.** An unknown flaw counts as no flaw: a detector that fails, or that can't read the steps, changes
//! nothing. A flaw in a wrong answer does not count.
//!
//! **Reduces to.** GRPO of rewards of ±1, for `λ = 0`, to the bit; then no detector is asked.
//!
//! **Differs from the paper.** The paper's detector is a generative reward model (FAPO-GenRM), trained for the purpose.
//! Here the detector reads equations in whole numbers, one per line, and can be made to err:
//! `detector.miss` and `detector.false_alarm`.
//!
//! **Example.**
//! ```
//! use burnish_rl::advantage::{Advantage, Estimator, Fapo, Grpo, Rollout, Rollouts, Scale};
//! use burnish_rl::fact::FLAW;
//! let answer = |reward, flaw| Rollout::of_reward(Some(reward)).with(&FLAW, [flaw]);
//! let fapo = Fapo { group: Grpo { scale: Scale::None, ..Grpo::default() }, ..Fapo::default() };
//! // One right, one right with a flaw, two wrong: the flawed one is still worth more than its group.
//! let all = [answer(1.0, 0.0), answer(1.0, 1.0), answer(0.0, 0.0), answer(0.0, 0.0)];
//! let credit = fapo.advantages(&Rollouts { all: &all, groups: &[0..4] });
//! assert_eq!(credit[1], Some(Advantage::Whole(0.25)));
//! ```
//!
//! **References.** Ding et al. 2025 (FAPO), arXiv:2510.22543; the authors' code.

use burnish_core::settings::to_value;
use serde::{Deserialize, Serialize};

use super::{Advantage, Estimator, Grpo, Rollout, Rollouts, Scale};
use crate::fact::{FLAW, Need};
use crate::settings::require;
use crate::{Card, Check, Family, Part, SettingError};

/// A lower reward for flawed right answers. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fapo {
    /// What a flaw costs a right answer, `λ`. Default: 1.
    pub lambda: f64,
    /// The least reward of a right answer. Default: 0.5, for rewards of 0 and 1.
    pub right_min: f64,
    /// How the detector errs. Default: never.
    pub detector: Detector,
    /// How rewards are compared within the group.
    pub group: Grpo,
}

/// A detector of flaws that errs on purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Detector {
    /// Share of the flawed answers that it lets pass.
    pub miss: f64,
    /// Share of the answers without a flaw that it calls flawed.
    pub false_alarm: f64,
}

impl Default for Fapo {
    fn default() -> Self {
        Fapo { lambda: 1.0, right_min: 0.5, detector: Detector::default(), group: Grpo::default() }
    }
}

impl Part for Fapo {
    const CARD: Card = Card {
        id: "fapo",
        title: "FAPO: right answers with wrong steps earn less",
        family: Family::Advantage,
        paper: "Ding et al. 2025, FAPO, arXiv:2510.22543",
        equation: "GRPO of R_i - λ·[R_i = 1]·flaw_i, R_i = ±1",
        scope: "group",
        check: Check::Oracle("NumPy, tests/golden/make_credit.py"),
        reconstructed: None,
        reduces_to: &["GRPO of rewards of ±1, for λ = 0, to the bit"],
        file: "crates/burnish-rl/src/advantage/fapo.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        self.group.check().map_err(|error| SettingError { key: format!("group.{}", error.key), ..error })?;
        require("lambda", self.lambda, |lambda| lambda >= 0.0, "must be 0 or more")?;
        require("right_min", self.right_min, |_| true, "must be a finite number")?;
        let Detector { miss, false_alarm } = self.detector;
        for (key, share) in [("detector.miss", miss), ("detector.false_alarm", false_alarm)] {
            require(key, share, |share| (0.0..=1.0).contains(&share), "must be 0 to 1")?;
        }
        Ok(())
    }
}

impl Estimator for Fapo {
    fn needs(&self) -> Vec<Need> {
        if self.lambda == 0.0 {
            return Vec::new();
        }
        vec![Need { fact: &FLAW, settings: to_value(&self.detector).unwrap_or_default() }]
    }

    fn scale(&self) -> Scale {
        self.group.scale
    }

    fn advantages(&self, rollouts: &Rollouts<'_>) -> Vec<Option<Advantage>> {
        let shaped: Vec<Rollout> = rollouts.all.iter().map(|rollout| self.shaped(rollout)).collect();
        self.group.advantages(&Rollouts { all: &shaped, groups: rollouts.groups })
    }
}

impl Fapo {
    /// The rollout with `R'` as its reward.
    fn shaped(&self, rollout: &Rollout) -> Rollout {
        let outcome = |reward: f64| {
            let is_flawed = rollout.facts.number(&FLAW).is_some_and(|flaw| flaw > 0.0);
            match (reward >= self.right_min, is_flawed) {
                (true, true) => 1.0 - self.lambda,
                (true, false) => 1.0,
                (false, _) => -1.0,
            }
        };
        Rollout::of_reward(rollout.score().map(outcome))
    }
}
