//! SKPO: the beginning of an answer is credited with what followed from it, and what followed is compared with its
//! siblings.
//!
//! **What it does.** A group is one beginning ([`Phase::Upstream`]) and the answers that were sampled after it. The
//! answers get the group-relative advantage. The beginning has no siblings to be compared with, so the mean reward of
//! its answers is compared with what the task earned before.
//!
//! **Formula.** For a task `x` with a beginning `u`, and `r_k` the rewards of the `K` answers that go on from it:
//!
//! ```text
//! R^up   = (1/K) Σ_k r_k                                      an estimate of V(x, u), with variance V·(1 - V)/K
//! v̂(x)   = α_x / (α_x + β_x)                                  before this step
//! A^up   = c_up·norm(R^up - v̂(x))                             norm: mean 0, std 1 over the step's beginnings, once
//! A_k    = (r_k - mean) / (std + ε)                           within the group: the estimator `grpo`
//! α_x ← ρ·α_x + Σ r,  β_x ← ρ·β_x + Σ (1 - r)                 after the step; ρ = 2^(-KL_x / kl_half), at least ρ_min
//! ```
//!
//! `KL_x` is how far the policy has moved since it last played `x`. The tracker of a task starts from the prior.
//!
//! **State.** `α` and `β` of each task; [`Estimator::learn`] updates them, once per step and task.
//!
//! **Conventions.** The tracker estimates a probability, so rewards are clamped to `reward_min..reward_max` for `R^up`
//! and for the tracker, and mapped from there to 0..1. The group-relative advantage sees rewards as they are. A
//! beginning none of whose answers has a reward gets no advantage. If all beginnings of a step are better than their
//! tasks by the same amount (or there is only one), they get 0, unless `upstream_normalisation = "identity"`. Answers
//! and beginnings are added up in one loss, in which `c_up` weights the beginnings.
//!
//! **Settings as baselines.** `upstream_weight = 0`: no upstream loss (its tokens still count in a mean over tokens; an
//! estimator that ignores phases gives beginnings no advantage at all, and so leaves them out of the loss).
//! `single_stream = true`, without beginnings: SPO, where each answer is compared with what its task earned before.
//!
//! **Metrics.** With `measure_every`, every so many steps the policy answers each task and goes on from each beginning
//! `measure_answers` times, which gives `V(x)` and `V(x, u)`. Nobody learns from these answers.
//!
//! ```text
//! upstream/from_task     Cov(R^up - v̂(x), V(x) - v̂(x)) / Var(R^up - v̂(x))      over the step's beginnings
//! upstream/told_apart    share of beginnings with |V(x, u) - V(x)| above two standard errors
//! upstream/sign_errors   of these, the share whose A^up has another sign than V(x, u) - V(x)
//! ```
//!
//! The first is the share of the variance that the task explains, whatever the beginning: it is low if the tracker knows
//! what tasks are worth.
//!
//! **Reduces to.** Without beginnings, GRPO, to the bit.
//!
//! **Reconstructed.** We did not have the paper's text. Known are one split, Monte-Carlo rewards for a single-stream
//! upstream, and a group-relative downstream. The tracker is SPO's; the prior, `kl_half`, `ρ_min` and `c_up` are ours.
//!
//! **Differs from the paper.** No difference is known. SPO starts from an estimate with rollouts of its own instead of
//! a prior. No framework has it.
//!
//! **Example.**
//! ```
//! use burnish_rl::advantage::{Advantage, Estimator, Normalisation, Phase, Rollout, Rollouts, Skpo};
//! let beginning = Rollout { phase: Phase::Upstream, task: "7 + 5".into(), ..Rollout::default() };
//! let answer = |reward| Rollout { task: "7 + 5".into(), ..Rollout::of_reward(Some(reward)) };
//! let all = [beginning, answer(1.0), answer(1.0), answer(1.0), answer(1.0)];
//! let rollouts = Rollouts { all: &all, groups: &[0..5] };
//! let mut skpo = Skpo { upstream_normalisation: Normalisation::Identity, ..Skpo::default() };
//! // The answers can't be told apart; the beginning is better than the prior's half.
//! assert_eq!(skpo.advantages(&rollouts), [0.5, 0.0, 0.0, 0.0, 0.0].map(|value| Some(Advantage::Whole(value))));
//! skpo.learn(&rollouts);
//! assert_eq!(skpo.value("7 + 5"), 5.0 / 6.0);
//! ```
//!
//! **References.** SKPO, arXiv:2604.08690. The tracker: Xu and Ding 2025 (SPO), arXiv:2509.13232, section 3.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::common::{Normaliser, mean, scored, sum};
use super::{Advantage, Estimator, Grpo, Normalisation, Phase, Rollout, Rollouts, Scale};
use crate::fact::{Need, TASK_DRIFT, WORTH, Worths};
use crate::settings::require;
use crate::tracker::{BetaTracker, retention};
use crate::{Card, Check, Family, Part, SettingError};
use burnish_core::settings::to_value;

/// The credit of beginnings and of what follows from them. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Skpo {
    /// How the answers of a group are compared. Default: as `grpo`.
    pub group: Grpo,
    /// Are answers compared with what their task earned before, instead of with each other? Default: false.
    pub single_stream: bool,
    /// What the advantages of beginnings are multiplied by, c_up. Default: 1.
    pub upstream_weight: f64,
    /// How the comparisons with the tasks' past are put on one scale over the step. Default: `mean_std`.
    pub upstream_normalisation: Normalisation,
    /// What is added to the standard deviation of that normalisation. Default: 1e-4.
    pub upstream_epsilon: f64,
    /// The reward of a failure. Default: 0.
    pub reward_min: f64,
    /// The reward of a success. Default: 1.
    pub reward_max: f64,
    /// Successes that a task's tracker starts with, α. Default: 1.
    pub prior_successes: f64,
    /// Failures that a task's tracker starts with, β. Default: 1.
    pub prior_failures: f64,
    /// How far the policy must move, in nats per token, for half of the past to be forgotten, D_half. Default: 0.1.
    pub kl_half: f64,
    /// The least share of the past that is kept, ρ_min. Default: 0.5.
    pub retention_min: f64,
    /// In how many steps the credit of beginnings is compared once with what they are worth; 0 is never. Default: 0.
    pub measure_every: u64,
    /// How many answers that takes of each beginning, and of each task. Default: 256.
    pub measure_answers: usize,
    /// What was learned in earlier steps; not a setting.
    #[serde(skip)]
    pub learned: Trackers,
}

impl Default for Skpo {
    fn default() -> Self {
        Skpo {
            group: Grpo::default(),
            single_stream: false,
            upstream_weight: 1.0,
            upstream_normalisation: Normalisation::MeanStd,
            upstream_epsilon: 1e-4,
            reward_min: 0.0,
            reward_max: 1.0,
            prior_successes: 1.0,
            prior_failures: 1.0,
            kl_half: 0.1,
            retention_min: 0.5,
            measure_every: 0,
            measure_answers: 256,
            learned: Trackers::default(),
        }
    }
}

/// What each task earned in earlier steps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trackers {
    tasks: BTreeMap<String, BetaTracker>,
}

impl Part for Skpo {
    const CARD: Card = Card {
        id: "skpo",
        title: "SKPO: credit of beginnings by what follows",
        family: Family::Advantage,
        paper: "SKPO, Skip-Connected Policy Optimization, arXiv:2604.08690; SPO, arXiv:2509.13232",
        equation: "upstream: mean_k r_k - v̂(x), standardised over the step; downstream: (r_k - mean_g) / (std_g + ε)",
        scope: "batch",
        check: Check::Oracle("NumPy, tests/golden/make_credit.py"),
        reconstructed: Some(
            "all formulas, from the abstract and SPO: known are one split, single-stream Monte-Carlo credit upstream, \
             group-relative credit downstream",
        ),
        reduces_to: &["GRPO, without upstream rollouts"],
        file: "crates/burnish-rl/src/advantage/skpo.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        self.group.check().map_err(|error| SettingError { key: format!("group.{}", error.key), ..error })?;
        for (key, value) in
            [("upstream_weight", self.upstream_weight), ("upstream_epsilon", self.upstream_epsilon)]
        {
            require(key, value, |value| value >= 0.0, "must be 0 or more")?;
        }
        require("reward_min", self.reward_min, |_| true, "must be a finite number")?;
        require("reward_max", self.reward_max, |most| most > self.reward_min, "must be above `reward_min`")?;
        for (key, value) in [
            ("prior_successes", self.prior_successes),
            ("prior_failures", self.prior_failures),
            ("kl_half", self.kl_half),
        ] {
            require(key, value, |value| value > 0.0, "must be above 0")?;
        }
        require("retention_min", self.retention_min, |share| (0.0..=1.0).contains(&share), "must be 0 to 1")?;
        let answers = self.measure_answers as f64;
        require("measure_answers", answers, |answers| (2.0..=4096.0).contains(&answers), "must be 2 to 4096")
    }
}

impl Estimator for Skpo {
    fn needs(&self) -> Vec<Need> {
        let mut needs = Need::all(&[&TASK_DRIFT]);
        if self.measure_every > 0 {
            needs.push(Worths { every: self.measure_every, answers: self.measure_answers }.need());
        }
        needs
    }

    fn compares_within_groups(&self) -> bool {
        !self.single_stream
    }

    fn scale(&self) -> Scale {
        if self.single_stream { Scale::None } else { self.group.scale }
    }

    fn advantages(&self, rollouts: &Rollouts<'_>) -> Vec<Option<Advantage>> {
        let mut credit = if self.single_stream {
            let better = |rollout: &Rollout| Some(self.clamped(rollout.score()?) - self.value(&rollout.task));
            let better: Vec<Option<f64>> = rollouts.all.iter().map(better).collect();
            let scale =
                self.upstream_normalisation.by(better.iter().copied().flatten(), self.upstream_epsilon);
            better.into_iter().map(|own| Some(Advantage::Whole(scale.of(own?)))).collect()
        } else {
            self.group.advantages(rollouts)
        };
        let (better, scale) = self.better(rollouts);
        for (range, better) in rollouts.groups.iter().zip(better) {
            for at in range.clone().filter(|at| rollouts.all[*at].phase == Phase::Upstream) {
                credit[at] = better.map(|own| Advantage::Whole(self.upstream_weight * scale.of(own)));
            }
        }
        credit
    }

    fn metrics(&self, rollouts: &Rollouts<'_>) -> Vec<(String, f64)> {
        let (better, scale) = self.better(rollouts);
        let measured = rollouts.each_group().zip(better).filter_map(|(group, better)| {
            let upstream = upstream_of(group)?;
            let [own, task] = *upstream.facts.of(&WORTH) else { return None };
            let better = better.filter(|_| own.is_finite() && task.is_finite())?;
            let share = |reward: f64| self.share(reward);
            Some(Measured {
                better,
                credit: scale.of(better),
                better_for_the_task: self.clamped(task) - self.value(&upstream.task),
                worth: share(own),
                worth_of_task: share(task),
            })
        });
        let measured: Vec<Measured> = measured.collect();
        metrics(&measured, self.measure_answers)
    }

    fn learn(&mut self, rollouts: &Rollouts<'_>) {
        let mut tasks: BTreeMap<&str, Vec<&Rollout>> = BTreeMap::new();
        for rollout in rollouts.all.iter().filter(|rollout| rollout.score().is_some()) {
            tasks.entry(&rollout.task).or_default().push(rollout);
        }
        for (task, members) in tasks {
            let shares: Vec<f64> = members.iter().filter_map(|own| Some(self.share(own.score()?))).collect();
            let successes = sum(shares.iter().copied());
            let failures = sum(shares.iter().map(|share| 1.0 - share));
            let kl = sum(members.iter().map(|own| own.facts.number(&TASK_DRIFT).unwrap_or(0.0)))
                / members.len() as f64;
            let mut tracker = self.tracker(task);
            tracker.observe(successes, failures, retention(kl, self.kl_half, self.retention_min));
            self.learned.tasks.insert(task.to_owned(), tracker);
        }
    }

    fn state(&self) -> Value {
        to_value(&self.learned).unwrap_or_default()
    }

    fn restore(&mut self, state: &Value) -> Result<(), SettingError> {
        let learned: Trackers = serde_json::from_value(state.clone())
            .map_err(|error| SettingError::new("state", format!("is not a state of `skpo`: {error}")))?;
        if let Some((task, _)) = learned.tasks.iter().find(|(_, tracker)| !tracker.is_valid()) {
            return Err(SettingError::new(
                format!("tasks.{task}"),
                "must have an `alpha` and a `beta` of 0 or more, not both 0",
            ));
        }
        self.learned = learned;
        Ok(())
    }
}

impl Skpo {
    /// `v̂` of a task, as a reward: what it earned in earlier steps.
    pub fn value(&self, task: &str) -> f64 {
        self.reward_min + (self.reward_max - self.reward_min) * self.tracker(task).mean()
    }

    /// For each group, by how much its beginning is better than its task's past, and the scale for these numbers. One
    /// number per beginning, even if its group has several upstream members.
    fn better(&self, rollouts: &Rollouts<'_>) -> (Vec<Option<f64>>, Normaliser) {
        let better = |group: Rollouts<'_>| {
            let upstream = upstream_of(group)?;
            let rewards =
                scored(group.all.iter().map(|rollout| rollout.score().map(|own| self.clamped(own))));
            Some(mean(&rewards)? - self.value(&upstream.task))
        };
        let better: Vec<Option<f64>> = rollouts.each_group().map(better).collect();
        let scale = self.upstream_normalisation.by(better.iter().copied().flatten(), self.upstream_epsilon);
        (better, scale)
    }

    fn tracker(&self, task: &str) -> BetaTracker {
        let prior = BetaTracker { alpha: self.prior_successes, beta: self.prior_failures };
        self.learned.tasks.get(task).copied().unwrap_or(prior)
    }

    fn clamped(&self, reward: f64) -> f64 {
        reward.clamp(self.reward_min, self.reward_max)
    }

    /// A reward as a fraction of a success, 0 to 1.
    fn share(&self, reward: f64) -> f64 {
        (self.clamped(reward) - self.reward_min) / (self.reward_max - self.reward_min)
    }
}

/// The beginning of a group, if it has one.
fn upstream_of(group: Rollouts<'_>) -> Option<&Rollout> {
    group.all.iter().find(|rollout| rollout.phase == Phase::Upstream)
}

/// A beginning, its credit, and what it and its task are worth.
struct Measured {
    /// By how much its answers were better than what its task earned before.
    better: f64,
    /// Its advantage, unweighted.
    credit: f64,
    /// By how much its task is better than what it earned before, whatever the beginning.
    better_for_the_task: f64,
    /// Its chance of success, estimated.
    worth: f64,
    /// That of its task.
    worth_of_task: f64,
}

/// The metrics of the beginnings of a step, whose worth was estimated from so many `answers` each; those that there is
/// nothing to tell of are left out.
fn metrics(measured: &[Measured], answers: usize) -> Vec<(String, f64)> {
    let is_told_apart = |own: &&Measured| {
        let variance = |chance: f64| chance * (1.0 - chance) / answers as f64;
        let error = (variance(own.worth) + variance(own.worth_of_task)).sqrt();
        (own.worth - own.worth_of_task).abs() > 2.0 * error
    };
    let told_apart: Vec<&Measured> = measured.iter().filter(is_told_apart).collect();
    let is_wrong = |own: &&&Measured| own.credit * (own.worth - own.worth_of_task) <= 0.0;
    let wrong = told_apart.iter().filter(is_wrong).count();
    let share = |part: usize, of: usize| (of > 0).then(|| part as f64 / of as f64);
    [
        ("upstream/from_task", from_task(measured)),
        ("upstream/told_apart", share(told_apart.len(), measured.len())),
        ("upstream/sign_errors", share(wrong, told_apart.len())),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.to_owned(), value?)))
    .collect()
}

/// The share of the variance that the task explains. The answers that say what the task is worth are not those of the
/// beginning, so their noise is in no product; a squared estimate would count it as explained.
fn from_task(measured: &[Measured]) -> Option<f64> {
    let better = mean(&measured.iter().map(|own| own.better).collect::<Vec<f64>>())?;
    let of_task = mean(&measured.iter().map(|own| own.better_for_the_task).collect::<Vec<f64>>())?;
    let over = |term: &dyn Fn(&Measured) -> f64| measured.iter().map(term).sum::<f64>();
    let variance = over(&|own| (own.better - better).powi(2));
    let explained = over(&|own| (own.better - better) * (own.better_for_the_task - of_task));
    (variance > 0.0).then(|| explained / variance)
}
