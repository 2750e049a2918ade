//! Draft, then solve: a short upstream segment, and downstream answers that see it and may ignore it.
//!
//! **What it does.** Samples one draft `u` of at most `L_up` tokens for each task. The group of the task then answers a
//! prompt that shows the task, the draft, and the task again: the skip connection, which lets an answer pass over a
//! flawed draft. The estimator of the same name gives drafts and answers their advantages.
//!
//! **Formula.**
//!
//! ```text
//! u ~ π(·|x), |u| ≤ L_up      x' = skip(x, u)      y_k ~ π(·|x'),  k = 1..K
//! ```
//!
//! **Reduces to.** GRPO with groups of K, for `draft_tokens = 0`: `x' = x`, no draft, to the bit. Without the skip
//! (`skip = false`), an answer goes on where the draft ends: plain continuation.
//!
//! **Differs from the paper.** A draft ends at `L_up` tokens or at its own end, not at the next delimiter.
//!
//! **Tokens.** Without the skip, an answer begins with the ids that the draft sampled. (Runs up to version 2 of the
//! journal began with the draft's text, tokenised again, which may give other ids.)
//!
//! **Reconstructed.** All of it but the idea, from the abstract and SPO: the wording of the skip prompt, `L_up`.
//!
//! **References.** SKPO, arXiv:2604.08690. SPO, arXiv:2509.13232.

use serde::{Deserialize, Serialize};

use burnish_core::{Episode, Message};

use burnish_rl::plan::{Beginning, Group, Program, Request, Role, RolloutPlan, Spawned, Start};
use burnish_rl::{Card, Check, Family, Part, SettingError};

use crate::{Evidence, PartRef, Status, System};

/// Draft, then solve. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Skpo {
    /// The most tokens of a draft, `L_up`. Default: 16, for tiny policies; 256 to 512 at 7B.
    pub draft_tokens: usize,
    /// Is the draft shown in the prompt? Otherwise each answer goes on from it. Default: true.
    pub skip: bool,
    /// What replaces the task's last message: `{prompt}` stands for that message, `{draft}` for the draft.
    pub template: String,
}

impl Default for Skpo {
    fn default() -> Self {
        Skpo {
            draft_tokens: 16,
            skip: true,
            template: "{prompt}\nDraft: {draft}\n{prompt}\nThe draft may be wrong. Solve it.".to_owned(),
        }
    }
}

impl Part for Skpo {
    const CARD: Card = Card {
        id: "skpo",
        title: "SKPO: a draft with a skip connection",
        family: Family::Plan,
        paper: "SKPO, arXiv:2604.08690",
        equation: "u ~ π(·|x), |u| ≤ L_up; y_k ~ π(·|skip(x, u))",
        scope: "group",
        check: Check::Oracle("none: what is sampled is checked by its provenance"),
        reconstructed: Some("the skip prompt, its length and where a draft ends"),
        reduces_to: &["no plan, for draft_tokens = 0, to the bit", "continuation, for skip = false"],
        file: "systems/skpo/mod.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        let has_both = ["{prompt}", "{draft}"].iter().all(|name| self.template.contains(name));
        if has_both {
            return Ok(());
        }
        Err(SettingError::new("template", "must have {prompt} and {draft}".to_owned()))
    }
}

impl RolloutPlan for Skpo {
    /// Where a draft is there already, it only answers.
    fn play<'a>(&'a self, group: &'a Group<'a>) -> Program<'a> {
        Box::pin(async {
            let answers = Request::rollouts(group.rollouts);
            if self.draft_tokens == 0 {
                group.play([answers]).await?;
                return Ok(());
            }
            if group.of_role(Role::Draft).is_empty() {
                let tokens_max = Some(self.draft_tokens);
                group.play([Request { role: Role::Draft, tokens_max, ..Request::rollouts(1) }]).await?;
            }
            let answers = match self.skip {
                true => {
                    let prompt = shown(group.opening()?, &self.template, &group.episode(0));
                    Request { start: Start::Messages(prompt), ..answers }
                }
                false => Request { prefix: vec![Beginning::Answer(0)], ..answers },
            };
            group.play([answers]).await?;
            Ok(())
        })
    }

    fn plays_evaluations(&self) -> bool {
        self.draft_tokens > 0
    }

    fn tally(&self, groups: &[&[Spawned]]) -> Vec<(String, f64)> {
        let episodes = groups.iter().copied().flatten();
        let lengths: Vec<usize> = episodes
            .filter(|spawned| spawned.role == Role::Draft)
            .map(|draft| draft.episode.sampled_tokens())
            .collect();
        if lengths.is_empty() {
            return Vec::new();
        }
        vec![("drafts/mean_length".to_owned(), lengths.iter().sum::<usize>() as f64 / lengths.len() as f64)]
    }
}

/// `messages` with the last user message replaced by `template`, which shows the first answer of `draft`.
fn shown(mut messages: Vec<Message>, template: &str, draft: &Episode) -> Vec<Message> {
    let answer = draft.answers.first().map_or("", |answer| answer.content.as_str());
    if let Some(last) = messages.iter_mut().rev().find(|message| message.role == burnish_core::Role::User) {
        last.content = template.replace("{prompt}", &last.content).replace("{draft}", answer);
    }
    messages
}

/// The whole system.
pub(crate) const SYSTEM: System = System {
    id: "skpo",
    title: "SKPO: credit upstream and downstream of a draft, with a skip connection",
    paper: "Skip-Connected Policy Optimization, arXiv:2604.08690",
    evidence: Evidence::Abstract,
    reconstructed: &[
        "all formulas, from the abstract and SPO (arXiv:2509.13232)",
        "the skip prompt, its length and where a draft ends",
    ],
    parts: &[PartRef { family: Family::Plan, id: "skpo" }, PartRef { family: Family::Advantage, id: "skpo" }],
    uses: &[],
    environments: &["chains", "countdown"],
    recipe: Some("systems/skpo/recipe.toml"),
    set: &[],
    study: Some("systems/skpo/study.toml"),
    results: &["systems/skpo/results.md", "systems/skpo/results-diagnostic.md"],
    reduces_to: &[
        "GRPO, for draft_tokens = 0, to the bit",
        "plain continuation of the draft, for skip = false",
    ],
    run: None,
    status: Status::Runs,
};

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
