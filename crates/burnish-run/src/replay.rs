//! Plays stored episodes again on their records: nothing is sampled, and all must come out as it did.

use std::path::Path;

use burnish_core::{Episode, Sampling, Task};
use burnish_env::rollout::{self, Overlong, RolloutSpec, SeedPlace, Spawn};
use burnish_rl::plan::{Played, Request, Role, RolloutPlan};

use crate::RunError;
use crate::inspect::{environment_of, recorded_step};
use crate::online::plan_of;
use crate::stored;
use burnish_recipe::Recipe;
use burnish_rl::overlong::OVERLONG;
use burnish_rundir::journal::{EpisodeKind, Journal, StoredEpisode};

/// What was played again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replayed {
    /// The step.
    pub step: u64,
    /// Episodes that came out as they did.
    pub episodes: usize,
    /// Episodes that have no record: what was played before there were records, or never began.
    pub without_record: usize,
}

/// Plays the stored episodes of a run of one kind again, of `step` or of the newest step that has any, and compares traces, answers,
/// ending, record and what the environment finds. Nothing is written, and no policy is asked.
///
/// # Errors
/// If there is no run in `dir`, nothing is stored for the step, its environment can't be made any more, or an episode comes out
/// otherwise: which, and where.
pub fn replay(dir: &Path, step: Option<u64>, kind: &EpisodeKind) -> Result<Replayed, RunError> {
    let recipe = stored::read(dir)?;
    let journal = Journal::open_to_read(&burnish_rundir::run_dir::journal_in(dir))?;
    let step = recorded_step(dir, &journal, step, kind)?;
    let (env, config) = environment_of(&recipe, kind);
    let generator = burnish_env::build(env, config)?;
    let turns_max = recipe.rollout.turns_max;
    let overlong = if *kind == EpisodeKind::Train { recipe.rollout.overlong } else { Overlong::Drop };
    let spec = RolloutSpec { generator: &*generator, partners: None, spawns: &[], turns_max, overlong };
    let own = plan_of(&recipe)?;
    let judges = own.judges() || recipe.eval.cycle;
    let mut replayed = Replayed { step, episodes: 0, without_record: 0 };
    for StoredEpisode { task, episode, .. } in journal.episodes(step, kind.clone())? {
        let drafts = (*kind == EpisodeKind::Train).then(|| draft_of(&*own, &task, &recipe)).flatten();
        if episode.record.contacts.is_empty() {
            replayed.without_record += 1;
            continue;
        }
        let draft = drafts.as_ref().filter(|_| episode.rollout >= recipe.rollout.group_size);
        let sampling = sampling_of(&recipe, kind, draft);
        let seeds = SeedPlace { run: recipe.run.seed, stage: 0, step, task_offset: 0 };
        let tasks = [task];
        let spawn = Spawn::of_tasks(&tasks, 1, &sampling, seeds).remove(0);
        let is_draft = draft.is_some();
        let spec = if is_draft { RolloutSpec { turns_max: 1, ..spec } } else { spec };
        let again = rollout::replay(&spec, &spawn, &episode)?;
        if let Some(what) = difference(&again, &episode, is_draft || judges) {
            return Err(RunError::Refused(format!(
                "{}: step {step}, {kind} episode {} of task {}: played again on its record, it has another {what}: its \
                 environment is not what it was",
                dir.display(),
                episode.rollout,
                episode.task
            )));
        }
        replayed.episodes += 1;
    }
    Ok(replayed)
}

/// How the tokens of an episode were chosen; `draft` is how it was requested, where it is one.
fn sampling_of(recipe: &Recipe, kind: &EpisodeKind, draft: Option<&Request>) -> Sampling {
    let sampling = match kind {
        EpisodeKind::Train => recipe.rollout.sampling(),
        EpisodeKind::Eval => recipe.evaluation().sampling,
        EpisodeKind::Extra(name) => {
            let further = recipe.further_evaluations().into_iter().find(|plan| plan.name == Some(name));
            further.unwrap_or_else(|| recipe.evaluation()).sampling
        }
    };
    let tokens_max = draft.and_then(|draft| draft.tokens_max).unwrap_or(usize::MAX);
    Sampling { tokens_max: tokens_max.min(sampling.tokens_max), ..sampling }
}

/// What of an episode is otherwise than it was. `is_judged_elsewhere` where its verdict is not its environment's.
fn difference(again: &Episode, was: &Episode, is_judged_elsewhere: bool) -> Option<&'static str> {
    // A held-out episode has its draft's trace beside its own.
    let is_same_trace = was.traces.starts_with(&again.traces);
    if !is_same_trace || again.partners != was.partners {
        return Some("trace");
    }
    if again.answers != was.answers {
        return Some("answer");
    }
    if again.ending != was.ending {
        return Some("ending");
    }
    if again.record != was.record {
        return Some("record");
    }
    // What the run itself adds to verdicts, or puts in their place, is not the environment's.
    let mut verdict = was.verdict.clone();
    verdict.rewards.remove(OVERLONG);
    (!is_judged_elsewhere && verdict != again.verdict).then_some("verdict")
}

/// How a plan requests the draft of a task, where it has drafts.
fn draft_of(plan: &dyn RolloutPlan, task: &Task, recipe: &Recipe) -> Option<Request> {
    let rollouts = recipe.rollout.group_size;
    let first = plan.wave(&Played { task, rollouts, progress: 0.0, seed: 0, episodes: &[] }, 0);
    first.into_iter().find(|request| request.role == Role::Draft)
}
