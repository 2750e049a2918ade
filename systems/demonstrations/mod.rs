//! Demonstrations: a right answer joins the group where too few of its own are right.
//!
//! **What it does.** Samples all but `count` answers of a group. If at most `successes_max` of them succeed, the last `count`
//! members are right answers that the environment gives; otherwise the policy samples these too. A given answer is judged by the
//! environment, compared with the others of its group, and trained on with its advantage times `weight`, as if the policy had
//! sampled it: before the first update its ratio is 1. So groups in which everything fails have something to learn from.
//!
//! **Formula.**
//!
//! ```text
//! y_k ~ π(·|x), k = 1..G-n        s = |{k : y_k succeeds}|
//! y_k = y*(x) if s ≤ s_max, else y_k ~ π(·|x), k = G-n+1..G
//! ```
//!
//! **Reduces to.** No plan, for `count = 0`, to the bit.
//!
//! **Differs from the papers.** LUFFY adds off-policy traces to every group and shapes their ratio, `f(π) = π/(π + γ)`; here
//! `successes_max = G` with a ratio to the policy itself. MM-HELIX (AHPO) has the gate, and adds the negative log-likelihood of
//! the given answer, which is not compared with the group.
//!
//! **References.** Yan et al. 2025, LUFFY, arXiv:2504.14945. MM-HELIX, its gate.

use burnish_rl::fact::{DEMONSTRATED, Need};
use burnish_rl::plan::{Group, Program, Request, Role, RolloutPlan, Spawned, Start};
use burnish_rl::{Card, Check, Family, Part, SettingError, require};
use serde::{Deserialize, Serialize};

/// Demonstrations. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Demonstrations {
    /// Given answers of a group, n; fewer than the group has members. Default: 1.
    pub count: usize,
    /// Most successes of the others with which answers are given, s_max. Default: 0, where all fail.
    pub successes_max: usize,
    /// Weight of their advantages. Default: 1.
    pub weight: f64,
}

impl Default for Demonstrations {
    fn default() -> Self {
        Demonstrations { count: 1, successes_max: 0, weight: 1.0 }
    }
}

impl Part for Demonstrations {
    const CARD: Card = Card {
        id: "demonstrations",
        title: "demonstrations: right answers for groups that fail",
        family: Family::Plan,
        paper: "Yan et al. 2025, LUFFY, arXiv:2504.14945; MM-HELIX",
        equation: "y_k = y*(x) for the last n of a group if at most s_max of the others succeed",
        scope: "group",
        check: Check::Oracle("none: what is trained on is checked by its provenance"),
        reconstructed: None,
        reduces_to: &["no plan, for count = 0, to the bit"],
        file: "systems/demonstrations/mod.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("weight", self.weight, |weight| weight >= 0.0, "must be 0 or more")
    }
}

impl RolloutPlan for Demonstrations {
    fn needs(&self) -> Vec<Need> {
        if self.count > 0 { Need::all(&[&DEMONSTRATED]) } else { Vec::new() }
    }

    fn gives_answers(&self) -> bool {
        self.count > 0
    }

    fn play<'a>(&'a self, group: &'a Group<'a>) -> Program<'a> {
        Box::pin(async {
            let count = self.count.min(group.rollouts.saturating_sub(1));
            group.play([Request::rollouts(group.rollouts - count)]).await?;
            if count == 0 {
                return Ok(());
            }
            let is_success = |own: &&Spawned| own.episode.verdict.is_scored() && own.episode.verdict.success;
            let successes = group.episodes().iter().filter(is_success).count();
            let rest = match successes <= self.successes_max {
                true => Request {
                    role: Role::Expert,
                    start: Start::Demonstration,
                    weight: self.weight,
                    ..Request::rollouts(count)
                },
                false => Request::rollouts(count),
            };
            group.play([rest]).await?;
            Ok(())
        })
    }

    /// The share of groups to which answers were given.
    fn tally(&self, groups: &[&[Spawned]]) -> Vec<(String, f64)> {
        let has_given = |group: &&&[Spawned]| group.iter().any(|own| own.role == Role::Expert);
        let given = groups.iter().filter(has_given).count();
        let share = (!groups.is_empty()).then(|| given as f64 / groups.len() as f64);
        share.map(|share| ("plan/demonstrated".to_owned(), share)).into_iter().collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
