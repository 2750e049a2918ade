//! Carries out a rollout plan: hints that answers begin with, and drafts that are sampled first.

use burnish_core::{Episode, Policy, Role, Sampling, Task, Verdict};
use burnish_env::Generator;
use burnish_env::rollout::{self, Opening, Plan, SeedPlace};
use burnish_model::Tokenizer;
use burnish_rl::plan::{About, Cycle, Draft, Outcome, RolloutPlan};

use crate::RunError;
use crate::recipe::Recipe;

/// Stage number in addresses of random numbers: drafts share none with the answers after them.
const DRAFT_STAGE: u64 = 1 << 33;

/// The plan of a run that has one.
pub(super) struct Planned(Option<Box<dyn RolloutPlan>>);

/// What the episodes of some tasks begin with.
#[derive(Default)]
pub(crate) struct Begun {
    /// One entry a task, or none at all.
    pub(crate) openings: Vec<Opening>,
    /// The draft of each task, where the plan has drafts.
    pub(crate) drafts: Vec<Episode>,
}

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

    /// Samples what has to be there before the rollouts of `plan`, and says how they begin. `progress` is the share of
    /// the run that is done.
    ///
    /// # Errors
    /// If the policy fails, or a task has no hint.
    pub(super) fn begin(
        &self,
        plan: &Plan<'_>,
        progress: f64,
        policy: &mut dyn Policy,
        tokenizer: &Tokenizer,
    ) -> Result<Begun, RunError> {
        let Some(own) = &self.0 else { return Ok(Begun::default()) };
        if let Some(draft) = own.draft() {
            return drafted(plan, &draft, policy);
        }
        let hinted = |task: &Task| -> Result<Opening, RunError> {
            let share = own.hint(&About { labels: &task.labels, progress });
            let prefix =
                if share > 0.0 { hint(plan.generator, task, share, tokenizer)? } else { String::new() };
            Ok(Opening { prefix, ..Opening::default() })
        };
        let openings = plan.tasks.iter().map(hinted).collect::<Result<_, _>>()?;
        Ok(Begun { openings, drafts: Vec::new() })
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

/// The drafts of held-out tasks, where the recipe asks for them: evaluation never reads a hint.
///
/// # Errors
/// If the policy fails.
pub(crate) fn drafts_of_evaluation(
    recipe: &Recipe,
    plan: &Plan<'_>,
    policy: &mut dyn Policy,
) -> Result<Begun, RunError> {
    let own = recipe.plan.as_ref().filter(|_| recipe.eval.draft).map(|config| config.build()).transpose()?;
    match own.and_then(|own| own.draft()) {
        Some(draft) => drafted(plan, &draft, policy),
        None => Ok(Begun::default()),
    }
}

/// The first `share` of the tokens of the task's hint.
fn hint(
    generator: &dyn Generator,
    task: &Task,
    share: f64,
    tokenizer: &Tokenizer,
) -> Result<String, RunError> {
    let Some(reasoning) = generator.reasoning(task) else {
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
    if kept >= ids.len() {
        return Ok(reasoning);
    }
    // A token may end inside a character, which belongs to the part that is left out.
    let text = tokenizer.decode(&ids[..kept], false).map_err(failed)?;
    Ok(text.trim_end_matches(char::REPLACEMENT_CHARACTER).to_owned())
}

/// One draft of each task of `plan`, and its answers' openings.
fn drafted(plan: &Plan<'_>, draft: &Draft, policy: &mut dyn Policy) -> Result<Begun, RunError> {
    let sampling =
        Sampling { tokens_max: draft.tokens.min(plan.sampling.tokens_max), ..plan.sampling.clone() };
    let seeds = SeedPlace { stage: DRAFT_STAGE, ..plan.seeds };
    let first = Plan { rollouts: 1, sampling: &sampling, turns_max: 1, seeds, openings: &[], ..*plan };
    let mut drafts = rollout::play(policy, &first)?;
    for draft in &mut drafts {
        draft.rollout = plan.rollouts;
        draft.verdict = Verdict::unscored("a draft: what follows it is judged");
    }
    let mut openings = Vec::with_capacity(drafts.len());
    for (at, episode) in drafts.iter().enumerate() {
        let said = episode.answers.first().map_or("", |answer| answer.content.as_str());
        let Some(template) = &draft.template else {
            openings.push(Opening { prefix: said.to_owned(), ..Opening::default() });
            continue;
        };
        let mut messages = rollout::opened(plan.generator, &plan.tasks[at], plan.seeds, at)?.messages;
        if let Some(last) = messages.iter_mut().rev().find(|message| message.role == Role::User) {
            last.content = template.replace("{prompt}", &last.content).replace("{draft}", said);
        }
        openings.push(Opening { messages: Some(messages), prefix: String::new() });
    }
    Ok(Begun { openings, drafts })
}
