//! Replays stored episodes from their records: nothing is sampled, and everything must come out as before.

use std::cell::RefCell;
use std::path::Path;
use std::task::{Context, Waker};

use burnish_core::{Episode, Message, Note, Sampling, Task, Trace};
use burnish_env::rollout::{self, Overlong, Partners, Playing, RolloutSpec, SeedPlace, Spawn};
use burnish_reason::Player;
use burnish_rl::SettingError;
use burnish_rl::plan::{Group, PlanError, Request, Role, RolloutPlan, Waited, World};

use crate::RunError;
use crate::evaluate::strategy_of;
use crate::inspect::{environment_of, recorded_step};
use crate::notes;
use crate::online::plan_of;
use crate::others;
use crate::stored;
use burnish_recipe::{GOAL_INFORMATION, Recipe};
use burnish_rl::overlong::OVERLONG;
use burnish_rundir::journal::{EpisodeKind, Journal, StoredEpisode};

/// The result of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replayed {
    /// The step.
    pub step: u64,
    /// Number of episodes that came out as before.
    pub episodes: usize,
    /// Number of episodes without a record: they are older than records, or never started.
    pub without_record: usize,
}

/// Replays the stored episodes of one kind in a run, those of `step` or of the newest step that has any, and compares
/// traces, answers, ending, record and the environment's verdict. Writes nothing and asks no policy.
///
/// # Errors
/// If there is no run in `dir`, nothing is stored for the step, its environment can't be made any more, or an episode
/// comes out differently: says which, and where.
pub fn replay(dir: &Path, step: Option<u64>, kind: &EpisodeKind) -> Result<Replayed, RunError> {
    let recipe = stored::read(dir)?;
    let journal = Journal::open_to_read(&burnish_rundir::run_dir::journal_in(dir))?;
    let step = recorded_step(dir, &journal, step, kind)?;
    let (env, config) = environment_of(&recipe, kind);
    let generator = burnish_env::build(env, config)?;
    let turns_max = recipe.rollout.turns_max;
    let overlong = if *kind == EpisodeKind::Train { recipe.rollout.overlong } else { Overlong::Drop };
    let partners = others::recorded(&recipe);
    let strategy = if *kind == EpisodeKind::Train { None } else { strategy_of(&recipe)? };
    let player = match strategy {
        Some(strategy) => {
            let memory = if strategy.recalls() { notes::of_recipe(&recipe)? } else { None };
            Some(Player::new(strategy, Vec::new()).with_memory(memory))
        }
        None => None,
    };
    let nobody = Partners::default();
    let spec = RolloutSpec {
        generator: &*generator,
        partners: Some(&partners),
        spawns: &[],
        turns_max,
        overlong,
        program: player.as_ref().map(|program| Playing { program, others: &nobody }),
    };
    let own = plan_of(&recipe)?;
    let judges = own.judges() || recipe.eval.cycle || recipe.reward.model.is_some();
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

/// How the tokens of an episode were sampled; `draft` is the request for the draft, if the episode is one.
fn sampling_of(recipe: &Recipe, kind: &EpisodeKind, draft: Option<&Request>) -> Sampling {
    let sampling = match kind {
        EpisodeKind::Train => recipe.rollout_sampling(),
        EpisodeKind::Eval => recipe.evaluation().sampling,
        EpisodeKind::Extra(name) => {
            let further = recipe.further_evaluations().into_iter().find(|plan| plan.name == Some(name));
            further.unwrap_or_else(|| recipe.evaluation()).sampling
        }
    };
    let tokens_max = draft.and_then(|draft| draft.tokens_max).unwrap_or(usize::MAX);
    Sampling { tokens_max: tokens_max.min(sampling.tokens_max), ..sampling }
}

/// What differs between an episode and its replay. `is_judged_elsewhere` if its verdict is not the environment's.
fn difference(again: &Episode, was: &Episode, is_judged_elsewhere: bool) -> Option<&'static str> {
    // A held-out episode also has its draft's trace. The journal does not keep where a trace goes on, which is somewhere in the
    // tree of what a strategy sampled.
    let nodes = |traces: &[Trace]| traces.iter().map(|trace| trace.nodes().to_vec()).collect::<Vec<_>>();
    let is_same_trace = nodes(&was.traces).starts_with(&nodes(&again.traces));
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
    // Parts of the verdict that the run itself adds or replaces do not come from the environment.
    let mut verdict = was.verdict.clone();
    verdict.rewards.remove(OVERLONG);
    verdict.rewards.remove(GOAL_INFORMATION);
    (!is_judged_elsewhere && verdict != again.verdict).then_some("verdict")
}

/// The request of a plan for the draft of a task, if the plan has drafts.
fn draft_of(plan: &dyn RolloutPlan, task: &Task, recipe: &Recipe) -> Option<Request> {
    let first = First::default();
    let group = Group::new(task, (recipe.rollout.group_size, 0.0, 0), &first, Vec::new());
    let _ = plan.play(&group).as_mut().poll(&mut Context::from_waker(Waker::noop()));
    first.0.take().into_iter().find(|request| request.role == Role::Draft)
}

/// Sees what a plan requests first, and lets it wait.
#[derive(Default)]
struct First(RefCell<Vec<Request>>);

impl World for First {
    fn opening(&self) -> Result<Vec<Message>, PlanError> {
        Ok(Vec::new())
    }

    fn counterpart(&self) -> Result<Task, PlanError> {
        Err(SettingError::new("plan", "nothing is played here").into())
    }

    fn reversed(&self, _: &Task, _: &str) -> Option<Task> {
        None
    }

    fn recall(&self, _: &str, _: usize) -> Result<Vec<Note>, PlanError> {
        Ok(Vec::new())
    }

    fn play<'a>(
        &'a self,
        _: &'a Group<'a>,
        requests: &'a [(Request, usize)],
    ) -> Waited<'a, Result<Vec<Episode>, PlanError>> {
        self.0.borrow_mut().extend(requests.iter().map(|(request, _)| request.clone()));
        Box::pin(std::future::pending())
    }
}
