//! Carries out a rollout plan: says how episodes start, after drafts that are sampled first.

use burnish_core::rng::Address;
use burnish_core::{Episode, Piece, Policy, Role, Sampling, StopReason, Task, Verdict};
use burnish_env::Generator;
use burnish_env::rollout::{self, Plan, Spawn, Start};
use burnish_model::Tokenizer;
use burnish_rl::plan::{About, Cycle, Draft, Outcome, RolloutPlan};

use crate::RunError;
use crate::recipe::Recipe;

/// Stage number in addresses of random numbers: drafts share none with the answers after them.
const DRAFT_STAGE: u64 = 1 << 33;

/// The plan of a run that has one.
pub(super) struct Planned(Option<Box<dyn RolloutPlan>>);

impl Planned {
    /// The plan of `recipe`, which goes on from `state`; null for a new run.
    ///
    /// # Errors
    /// If it is not a state of this plan.
    pub(super) fn new(recipe: &Recipe, state: &serde_json::Value) -> Result<Self, RunError> {
        let mut plan = recipe.plan.as_ref().map(|config| config.build()).transpose()?;
        if let (Some(plan), false) = (&mut plan, state.is_null()) {
            plan.restore(state)?;
        }
        Ok(Planned(plan))
    }

    /// What it has learned.
    pub(super) fn state(&self) -> serde_json::Value {
        self.0.as_ref().map(|plan| plan.state()).unwrap_or_default()
    }

    /// Samples what has to be there before `spawns`, which are to be played as `plan` says, and changes how they start.
    /// `progress` is the share of the run that is done. Gives the draft of each, where the plan has drafts.
    ///
    /// # Errors
    /// If the policy fails, or a task has no hint.
    pub(super) fn begin(
        &self,
        plan: &Plan<'_>,
        spawns: &mut [Spawn<'_>],
        progress: f64,
        policy: &mut dyn Policy,
        tokenizer: &Tokenizer,
    ) -> Result<Vec<Episode>, RunError> {
        let Some(own) = &self.0 else { return Ok(Vec::new()) };
        if let Some(draft) = own.draft() {
            return drafted(plan, spawns, &draft, policy);
        }
        for spawn in spawns {
            let share = own.hint(&About { labels: &spawn.task.labels, progress });
            if share > 0.0 {
                spawn.prefix = hint(plan.generator, spawn.task, share, tokenizer)?;
            }
        }
        Ok(Vec::new())
    }

    /// The directions in which tasks are played, where that is not as ever.
    pub(super) fn cycle(&self) -> Option<Cycle> {
        self.0.as_ref().and_then(|plan| plan.cycle())
    }

    /// Learns from the groups of a step: the tasks that were trained on, and whether any rollout of each has a positive
    /// advantage.
    pub(super) fn observe<'a>(&mut self, groups: impl Iterator<Item = (&'a Task, bool)>) {
        if let Some(plan) = &mut self.0 {
            let outcomes: Vec<Outcome<'_>> =
                groups.map(|(task, is_positive)| Outcome { labels: &task.labels, is_positive }).collect();
            plan.observe(&outcomes);
        }
    }

    /// Named numbers for the run's metrics.
    pub(super) fn metrics(&self) -> Vec<(String, f64)> {
        self.0.as_ref().map(|plan| plan.metrics()).unwrap_or_default()
    }
}

/// The drafts of held-out tasks, where the recipe asks for them, and how `spawns` start after them: evaluation never reads a hint.
///
/// # Errors
/// If the policy fails.
pub(crate) fn drafts_of_evaluation(
    recipe: &Recipe,
    plan: &Plan<'_>,
    spawns: &mut [Spawn<'_>],
    policy: &mut dyn Policy,
) -> Result<Vec<Episode>, RunError> {
    let own = recipe.plan.as_ref().filter(|_| recipe.eval.draft).map(|config| config.build()).transpose()?;
    match own.and_then(|own| own.draft()) {
        Some(draft) => drafted(plan, spawns, &draft, policy),
        None => Ok(Vec::new()),
    }
}

/// The first `share` of the tokens of the task's hint.
fn hint(
    generator: &dyn Generator,
    task: &Task,
    share: f64,
    tokenizer: &Tokenizer,
) -> Result<Vec<Piece>, RunError> {
    let Some(reasoning) = generator.hints().and_then(|hints| hints.reasoning(task)) else {
        return Err(RunError::Refused(format!(
            "plan: needs hints, and the environment {} has no reasoning for task {}; leave `[plan]` out, or take an \
             environment that has",
            generator.id(),
            task.id
        )));
    };
    let failed =
        |error: burnish_model::ChatError| RunError::Refused(format!("plan: task {}: {error}", task.id));
    let ids = tokenizer.encode(&reasoning).map_err(failed)?;
    let kept = (share * ids.len() as f64).floor() as usize;
    // A token may end inside a character, which belongs to the part that is left out.
    let text = if kept >= ids.len() {
        reasoning
    } else {
        tokenizer.piece_of_ids(&ids[..kept]).map_err(failed)?.text
    };
    Ok(if text.is_empty() { Vec::new() } else { vec![tokenizer.piece_of_text(&text).map_err(failed)?] })
}

/// One draft of each of `spawns`, which then start with it: in the prompt, or as the beginning of the answer.
fn drafted(
    plan: &Plan<'_>,
    spawns: &mut [Spawn<'_>],
    draft: &Draft,
    policy: &mut dyn Policy,
) -> Result<Vec<Episode>, RunError> {
    let firsts: Vec<Spawn<'_>> = spawns.iter().map(|spawn| first(draft, spawn)).collect();
    let mut drafts = rollout::play(policy, &Plan { spawns: &firsts, turns_max: 1, ..*plan })?;
    drop(firsts);
    for (spawn, episode) in spawns.iter_mut().zip(&mut drafts) {
        episode.rollout = spawn.count;
        episode.verdict = Verdict::unscored("a draft: what follows it is judged");
        let Some(template) = &draft.template else {
            spawn.prefix = said(episode).into_iter().collect();
            continue;
        };
        let said = episode.answers.first().map_or("", |answer| answer.content.as_str());
        let mut messages = rollout::opened(plan.generator, spawn.task, spawn.place)?.messages;
        if let Some(last) = messages.iter_mut().rev().find(|message| message.role == Role::User) {
            last.content = template.replace("{prompt}", &last.content).replace("{draft}", said);
        }
        spawn.start = Start::Messages(messages);
    }
    Ok(drafts)
}

/// What the policy sampled in an episode of one answer, without its end token: the ids, which are not made of the text again.
fn said(draft: &Episode) -> Option<Piece> {
    let answer = draft.traces.iter().flat_map(|trace| trace.nodes()).find(|node| node.sampled.is_some())?;
    let is_ended = answer.sampled.as_ref().is_some_and(|sampled| sampled.stop == StopReason::EndToken);
    let ids = &answer.ids[..answer.ids.len() - usize::from(is_ended)];
    let text = draft.answers.first().map(|answer| answer.content.clone()).unwrap_or_default();
    (!ids.is_empty()).then(|| Piece { ids: ids.to_vec(), text, sampled: None })
}

/// The draft before a spawn.
fn first<'a>(draft: &Draft, spawn: &Spawn<'a>) -> Spawn<'a> {
    let tokens_max = draft.tokens.min(spawn.sampling.tokens_max);
    let sampling = Sampling { tokens_max, ..Sampling::clone(&spawn.sampling) };
    let place = Address { stage: DRAFT_STAGE, ..spawn.place };
    Spawn { role: "draft", count: 1, sampling: sampling.into(), place, ..spawn.clone() }
}
