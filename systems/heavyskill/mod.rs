//! HeavySkill: the group deliberates over drafts of its own policy.
//!
//! **What it does.** Samples K drafts of each task. The group then answers a prompt that shows the task with these drafts, as
//! the strategy of the same name does, and is rewarded as usual. Only its answers are trained on: the policy learns to
//! deliberate, over drafts as it writes them at that step.
//!
//! **Formula.**
//!
//! ```text
//! y_i ~ π(·|x), i = 1..K        C = shuffle(prune(y, B))        z_j ~ π(·|skill(x, C)), j = 1..G; GRPO on z
//! ```
//!
//! **Reduces to.** GRPO without a plan, for `drafts = 0`, to the bit.
//!
//! **Differs from the paper.** Drafts are sampled as the group's answers are, by the rollout's settings, without the paper's
//! `top_p` of 0.95 and `top_k` of 10.
//!
//! **Reconstructed.** That the drafts are those of the policy at that step (the notes leave open whether prompts are made
//! before training), and the wording of the skill file.
//!
//! **References.** HeavySkill, arXiv:2605.02396.

use burnish_core::Episode;
use burnish_reason::heavyskill::{Draft, Showing, Skill};
use burnish_verify::Verifier;
use serde::{Deserialize, Serialize};

use burnish_rl::plan::{Group, Program, Request, Role, RolloutPlan, Spawned, Start};
use burnish_rl::{Card, Check, Family, Part, SettingError};

use crate::{Evidence, PartRef, Status, System};

/// Finds the final answers of drafts that don't fit as a whole.
const EQUALITY: Verifier = Verifier::Math;

/// Deliberation over drafts. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Heavyskill {
    /// Drafts of a task, K. Default: 8.
    pub drafts: usize,
    /// Most tokens of drafts that an answer reads, B. Default: 80 000.
    pub cache_tokens: usize,
    /// Most tokens of a draft. Default: as many as of an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft_tokens: Option<usize>,
    /// What replaces the task's last message: `{prompt}` stands for that message, `{drafts}` for the drafts. Default: that of
    /// the skill file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// How a draft is shown: `{number}` is its place, `{draft}` its text. Default: that of the skill file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft: Option<String>,
}

impl Default for Heavyskill {
    fn default() -> Self {
        Heavyskill { drafts: 8, cache_tokens: 80_000, draft_tokens: None, template: None, draft: None }
    }
}

impl Part for Heavyskill {
    const CARD: Card = Card {
        id: "heavyskill",
        title: "HeavySkill: deliberation over drafts",
        family: Family::Plan,
        paper: "HeavySkill, arXiv:2605.02396",
        equation: "y_i ~ π(·|x), i = 1..K; z_j ~ π(·|skill(x, shuffle(prune(y, B)))), j = 1..G",
        scope: "group",
        check: Check::Oracle("none: what is sampled is checked by its provenance"),
        reconstructed: Some("drafts are those of the policy at that step; the wording of the skill file"),
        reduces_to: &["no plan, for drafts = 0, to the bit"],
        file: "systems/heavyskill/mod.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        if self.drafts > 256 {
            return Err(SettingError::new("drafts", format!("must be 0 to 256, not {}", self.drafts)));
        }
        if self.draft_tokens == Some(0) {
            return Err(SettingError::new("draft_tokens", "must be 1 or more"));
        }
        for (key, text, places) in [
            ("template", &self.template, &["{prompt}", "{drafts}"][..]),
            ("draft", &self.draft, &["{draft}"][..]),
        ] {
            let missing = text.as_ref().and_then(|text| places.iter().find(|place| !text.contains(**place)));
            if let Some(place) = missing {
                return Err(SettingError::new(key, format!("must have {place}")));
            }
        }
        Ok(())
    }
}

impl RolloutPlan for Heavyskill {
    fn play<'a>(&'a self, group: &'a Group<'a>) -> Program<'a> {
        Box::pin(async {
            let mut answers = Request::rollouts(group.rollouts);
            if self.drafts > 0 {
                let tokens_max = self.draft_tokens;
                group
                    .play([Request { role: Role::Thought, tokens_max, ..Request::rollouts(self.drafts) }])
                    .await?;
                let drafts: Vec<Draft> =
                    group.of_role(Role::Thought).into_iter().map(|at| draft(&group.episode(at))).collect();
                let skill = Skill::with(self.template.as_deref(), self.draft.as_deref());
                let (budget, seed) = (self.cache_tokens, group.seed);
                let showing = Showing { skill: &skill, budget, equality: EQUALITY, seed };
                answers.start = Start::Messages(showing.show(&group.opening()?, &drafts).0);
            }
            group.play([answers]).await?;
            Ok(())
        })
    }

    fn plays_evaluations(&self) -> bool {
        self.drafts > 0
    }

    fn tally(&self, groups: &[&[Spawned]]) -> Vec<(String, f64)> {
        let spawned = || groups.iter().copied().flatten();
        let drafts: Vec<_> = spawned().filter(|spawned| spawned.role == Role::Thought).collect();
        if drafts.is_empty() {
            return Vec::new();
        }
        let mean = |of: &dyn Fn(&Spawned) -> f64| {
            drafts.iter().map(|draft| of(draft)).sum::<f64>() / drafts.len() as f64
        };
        vec![
            ("drafts/mean_length".to_owned(), mean(&|draft| draft.episode.sampled_tokens() as f64)),
            (
                "drafts/success".to_owned(),
                mean(&|draft| {
                    f64::from(u8::from(draft.episode.verdict.is_scored() && draft.episode.verdict.success))
                }),
            ),
        ]
    }
}

/// The first answer of an episode as a draft for a deliberation.
fn draft(episode: &Episode) -> Draft {
    let answer = episode.answers.first();
    let text = answer.map(burnish_reason::text_of).unwrap_or_default();
    let last = answer.and_then(|answer| EQUALITY.answer(&answer.content));
    Draft { text, tokens: episode.sampled_tokens(), answer: last }
}

/// The whole system.
pub(crate) const SYSTEM: System = System {
    id: "heavyskill",
    title: "HeavySkill: parallel thinking, then deliberation, as a strategy and as what is learned",
    paper: "HeavySkill, arXiv:2605.02396",
    evidence: Evidence::Notes,
    reconstructed: &[
        "the rules of selection from a pool beyond their names",
        "what is kept of a draft that does not fit the cache",
        "the wording of the skill file",
        "the majority of the deliberations as the answer of a turn",
        "training on drafts of the policy at that step",
    ],
    parts: &[PartRef { family: Family::Plan, id: "heavyskill" }],
    uses: &["eval.draft"],
    environments: &["chains", "countdown"],
    recipe: Some("systems/heavyskill/recipe.toml"),
    set: &[],
    study: Some("systems/heavyskill/study.toml"),
    results: &["systems/heavyskill/results.md"],
    reduces_to: &[
        "the plain answer, for drafts = 0 and deliberations = 1, to the bit",
        "self-refinement, for drafts = 1 and deliberations = 1, to the bit",
        "GRPO, for plan.config.drafts = 0, to the bit",
    ],
    run: None,
    status: Status::Runs,
};

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
