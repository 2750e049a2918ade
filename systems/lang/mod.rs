//! Hints in the language of the question, withdrawn over time, and earlier from languages that manage without.
//!
//! **What it does.** Every rollout of a task begins with the first part of a given solution in the task's own language.
//! The part shrinks over the run. As soon as a group of languages solves enough of its tasks, it gets no more hints,
//! for good. Hints are part of the prompt: they are neither sampled nor trained on, and evaluation never sees one.
//!
//! **Formula.** At step `t` of `T`, with a hint of `L` tokens:
//!
//! ```text
//! p = (1 + cos(π t/T)) / 2        (`linear`: 1 - t/T; `exponential`: exp(-5 t/T); `constant`: 1)
//! k = floor(p·L) tokens,          0 once the group g of the task's language is switched off
//! u = share of g's tasks in the batch with a rollout of positive advantage
//! ū = α ū + (1 - α) u             from ū = 0; a batch without tasks of g leaves it
//! off for good as soon as ū ≥ τ
//! ```
//!
//! **Reduces to.** GRPO with no hint (`decay = "off"`): the same samples to the bit.
//!
//! **Differs from the paper.** The paper's reward is 1 if language, format and answer are all right: that is a reward
//! of the environment (`all` of `chains` and `rows`), not of the plan. The hint is a prefix of the answer; it ends
//! before the final answer. A task in which all rollouts succeed has no positive advantage, so it counts as unsolved in
//! `u`, as in the paper's definition.
//!
//! **Reconstructed.** `α = 0.9` and `τ = 0.6`, which the source does not give, and the rate of `exponential`.
//!
//! **References.** LANG, ACL 2026, arXiv:2605.22567. QuestA, of which `constant` is the fixed hint.

use std::collections::BTreeMap;

use burnish_core::settings::{read, to_value};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use burnish_rl::fact::{HINT, Need};
use burnish_rl::plan::{Beginning, Group, Outcome, Program, Request, RolloutPlan};
use burnish_rl::require;
use burnish_rl::{Card, Check, Family, Part, SettingError};

use crate::{Evidence, PartRef, Status, System};

/// How the share of a hint falls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decay {
    /// `(1 + cos(π t/T)) / 2`.
    #[default]
    Cosine,
    /// `1 - t/T`.
    Linear,
    /// `exp(-5 t/T)`.
    Exponential,
    /// All of it, always.
    Constant,
    /// None of it, ever.
    Off,
}

impl Decay {
    /// Share of the hint at `progress = t/T`.
    pub fn share(self, progress: f64) -> f64 {
        match self {
            Decay::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * progress).cos()),
            Decay::Linear => 1.0 - progress,
            Decay::Exponential => (-5.0 * progress).exp(),
            Decay::Constant => 1.0,
            Decay::Off => 0.0,
        }
    }
}

/// Hints with decay and switch. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Lang {
    /// How the share of a hint falls. Default: `cosine`.
    pub decay: Decay,
    /// The label that names a task's group of languages; tasks without it are one group. Default: `resource`.
    pub label: String,
    /// Are groups switched off? Default: true.
    pub switch: bool,
    /// Weight of the past in `ū`. Default: 0.9.
    pub alpha: f64,
    /// The `ū` at which a group is switched off, `τ`. Default: 0.6.
    pub tau: f64,
    #[serde(skip)]
    groups: BTreeMap<String, Known>,
}

/// What is known about a group of languages.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    useful: f64,
    is_off: bool,
}

impl Default for Lang {
    fn default() -> Self {
        Lang {
            decay: Decay::Cosine,
            label: "resource".to_owned(),
            switch: true,
            alpha: 0.9,
            tau: 0.6,
            groups: BTreeMap::new(),
        }
    }
}

impl Part for Lang {
    const CARD: Card = Card {
        id: "lang",
        title: "LANG: hints in the language of the question",
        family: Family::Plan,
        paper: "LANG, ACL 2026, arXiv:2605.22567",
        equation: "k = floor((1 + cos(π t/T))/2 · L) tokens of the hint; 0 once ū ≥ τ",
        scope: "task",
        check: Check::Oracle("the published formula, at points worked out by hand"),
        reconstructed: Some("α, τ and the rate of the exponential decay"),
        reduces_to: &["no plan, for decay = off, to the bit"],
        file: "systems/lang/mod.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("alpha", self.alpha, |alpha| (0.0..1.0).contains(&alpha), "must be at least 0 and below 1")?;
        require("tau", self.tau, |tau| tau > 0.0, "must be above 0")
    }
}

impl Lang {
    /// The share of its task's hint that every rollout of a group begins with.
    pub fn share(&self, labels: &BTreeMap<String, String>, progress: f64) -> f64 {
        let is_off = self.groups.get(self.group(labels)).is_some_and(|known| known.is_off);
        if is_off { 0.0 } else { self.decay.share(progress) }
    }

    fn group<'a>(&self, labels: &'a BTreeMap<String, String>) -> &'a str {
        labels.get(&self.label).map_or("", String::as_str)
    }
}

impl RolloutPlan for Lang {
    fn needs(&self) -> Vec<Need> {
        if self.decay == Decay::Off { Vec::new() } else { Need::all(&[&HINT]) }
    }

    fn play<'a>(&'a self, group: &'a Group<'a>) -> Program<'a> {
        Box::pin(async {
            let share = self.share(&group.task.labels, group.progress);
            let prefix = if share > 0.0 { vec![Beginning::Hint(share)] } else { Vec::new() };
            group.play([Request { prefix, ..Request::rollouts(group.rollouts) }]).await?;
            Ok(())
        })
    }

    fn observe(&mut self, groups: &[Outcome<'_>]) {
        let mut seen: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        for outcome in groups {
            let (positive, all) = seen.entry(self.group(outcome.labels)).or_default();
            *positive += f64::from(outcome.is_positive);
            *all += 1.0;
        }
        for (group, (positive, all)) in seen {
            let known = self.groups.entry(group.to_owned()).or_default();
            known.useful = self.alpha * known.useful + (1.0 - self.alpha) * positive / all;
            known.is_off |= self.switch && known.useful >= self.tau;
        }
    }

    fn metrics(&self) -> Vec<(String, f64)> {
        let named = |group: &str| if group.is_empty() { "all".to_owned() } else { group.to_owned() };
        self.groups
            .iter()
            .flat_map(|(group, known)| {
                let group = named(group);
                [
                    (format!("plan/useful/{group}"), known.useful),
                    (format!("plan/off/{group}"), f64::from(known.is_off)),
                ]
            })
            .collect()
    }

    fn state(&self) -> Value {
        to_value(&self.groups).unwrap_or_default()
    }

    fn restore(&mut self, state: &Value) -> Result<(), SettingError> {
        self.groups = read(state)?;
        Ok(())
    }
}

/// The whole system.
pub(crate) const SYSTEM: System = System {
    id: "lang",
    title: "LANG: hints in the language of the question, withdrawn by language",
    paper: "LANG, ACL 2026, arXiv:2605.22567",
    evidence: Evidence::Notes,
    reconstructed: &["alpha and tau of the switch, and the rate of the exponential decay"],
    parts: &[PartRef { family: Family::Plan, id: "lang" }],
    uses: &[],
    environments: &["chains", "rows"],
    recipe: Some("systems/lang/recipe.toml"),
    set: &[],
    study: Some("systems/lang/study.toml"),
    results: &["systems/lang/results.md"],
    reduces_to: &["GRPO, for decay = off, to the bit"],
    run: None,
    status: Status::Runs,
};

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
