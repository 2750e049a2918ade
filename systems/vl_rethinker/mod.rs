//! VL-Rethinker, for text: some rollouts are told to think again, and go on.
//!
//! **What it does.** After the rollouts of a task are over, a share of them gets a trigger after its answer, in place
//! of the end token, and the policy goes on from there. The whole is judged and trained on: both stretches that the
//! policy sampled, but not the trigger between them. It takes the place of the rollout that it extends.
//!
//! **Formula.**
//!
//! ```text
//! y_k ~ π(·|x)            k = 1..G
//! z_k ~ π(·|x, y_k, trigger),  y_k ← y_k ∘ trigger ∘ z_k       with probability q
//! ```
//!
//! **Reduces to.** No plan, for `q = 0`: the same samples to the bit.
//!
//! **Differs from the paper.** There is no image. Its other half, the replay of members that taught something, is
//! `[replay]` with `ssr`; a recipe that has both is the system.
//!
//! **References.** Wang et al. 2025 (VL-Rethinker), arXiv:2504.08837, section 3; the authors' code.

use burnish_core::rng::uniform;
use serde::{Deserialize, Serialize};

use burnish_rl::plan::{Beginning, Group, Program, Request, Role, RolloutPlan, Spawned, Start};
use burnish_rl::require;
use burnish_rl::{Card, Check, Family, Part, SettingError};

use crate::{Evidence, PartRef, Status, System};

/// Forced rethinking. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VlRethinker {
    /// The probability that a rollout is told to think again, `q`. Default: 0.25.
    pub share: f64,
    /// What it is told. Default: the paper's, `"\n\nWait, does it seem right?"`.
    pub trigger: String,
}

impl Default for VlRethinker {
    fn default() -> Self {
        VlRethinker { share: 0.25, trigger: "\n\nWait, does it seem right?".to_owned() }
    }
}

impl Part for VlRethinker {
    const CARD: Card = Card {
        id: "vl_rethinker",
        title: "VL-Rethinker: forced rethinking",
        family: Family::Plan,
        paper: "Wang et al. 2025, VL-Rethinker, arXiv:2504.08837",
        equation: "y_k ← y_k ∘ trigger ∘ z_k, z_k ~ π(·|x, y_k, trigger), with probability q",
        scope: "sequence",
        check: Check::Oracle("none: what is sampled is checked by its provenance"),
        reconstructed: None,
        reduces_to: &["no plan, for share = 0, to the bit"],
        file: "systems/vl_rethinker/mod.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("share", self.share, |share| (0.0..=1.0).contains(&share), "must be 0 to 1")?;
        if self.trigger.is_empty() {
            return Err(SettingError::new("trigger", "must not be empty".to_owned()));
        }
        Ok(())
    }
}

impl RolloutPlan for VlRethinker {
    fn play<'a>(&'a self, group: &'a Group<'a>) -> Program<'a> {
        Box::pin(async {
            group.play([Request::rollouts(group.rollouts)]).await?;
            let is_drawn = |of: &usize| uniform(group.seed, *of as u64) < self.share;
            let is_scored = |of: &usize| group.episode(*of).verdict.is_scored();
            let again = |of| Request {
                role: Role::Extension,
                start: Start::After { of },
                prefix: vec![Beginning::Text(self.trigger.clone())],
                ..Request::rollouts(1)
            };
            let count = group.episodes().len();
            group.play((0..count).filter(is_drawn).filter(is_scored).map(again)).await?;
            Ok(())
        })
    }

    fn tally(&self, groups: &[&[Spawned]]) -> Vec<(String, f64)> {
        let members = groups.iter().copied().flatten();
        let extended = members.clone().filter(|member| member.role == Role::Extension).count();
        let all = members.count();
        let share = (all > 0).then(|| ("plan/rethought".to_owned(), extended as f64 / all as f64));
        share.into_iter().collect()
    }
}

/// The whole system.
pub(crate) const SYSTEM: System = System {
    id: "vl_rethinker",
    title: "VL-Rethinker: forced rethinking, and selective sample replay",
    paper: "VL-Rethinker, NeurIPS 2025, arXiv:2504.08837; code: TIGER-AI-Lab/VL-Rethinker",
    evidence: Evidence::Notes,
    reconstructed: &["how many members are replayed: as many as have no advantage in the step"],
    parts: &[
        PartRef { family: Family::Plan, id: "vl_rethinker" },
        PartRef { family: Family::Replay, id: "ssr" },
    ],
    uses: &[],
    environments: &["chains"],
    recipe: Some("systems/vl_rethinker/recipe.toml"),
    set: &[],
    study: None,
    results: &[],
    reduces_to: &["GRPO, for share = 0 and an empty queue, to the bit"],
    run: None,
    status: Status::Runs,
};

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
