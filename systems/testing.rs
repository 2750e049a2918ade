//! Tasks, episodes, and programs of plans under way, for tests, and benches of makers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Waker};

use burnish_core::rng::{Address, Purpose};
use burnish_core::{Ending, Episode, Message, Policy, Record, Sampling, Task, TaskId, Verdict};
use burnish_episode::{Cast, Known, Started, Threads, run};
use burnish_reason::{Bench, Finished, Ledger, Made, MakeKind, Maker, Outcome, Played, Shop, TEACHER, World};
use burnish_rl::SettingError;
use burnish_rl::plan::{Group, Request, Role, RolloutPlan, Spawned};
use serde_json::Value;

pub(crate) fn task() -> Task {
    Task {
        id: TaskId("x".into()),
        environment: "none".into(),
        prompt: vec![Message::user("How many?")],
        truth: Value::Null,
        labels: BTreeMap::new(),
    }
}

/// An episode of one answer.
pub(crate) fn answered(answer: &str, success: bool) -> Episode {
    Episode {
        task: TaskId("x".into()),
        rollout: 0,
        traces: Vec::new(),
        partners: Vec::new(),
        verdict: Verdict::scored("right", f64::from(success), success),
        ending: Ending::Completed,
        answers: vec![Message::assistant(answer)],
        record: Record::default(),
    }
}

/// The group of a task with this many rollouts, at the beginning of a run.
pub(crate) fn group(task: &Task, rollouts: usize, seed: u64) -> Group<'_> {
    Group::new(task, (rollouts, 0.0, seed), Box::new(|| Ok(task.prompt.clone())), Vec::new())
}

/// Plays a group to its end. `answer` says what comes of number `at` of the episodes of a request. Returns what was asked for,
/// batch by batch, and the error with which the plan ended, if any.
pub(crate) fn play(
    plan: &dyn RolloutPlan,
    group: &Group<'_>,
    mut answer: impl FnMut(&Request, usize) -> Episode,
) -> (Vec<Vec<Request>>, Option<SettingError>) {
    let mut batches = Vec::new();
    let mut program = plan.play(group);
    loop {
        let over = program.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if let std::task::Poll::Ready(over) = over {
            return (batches, over.err());
        }
        let requests = group.take_requests();
        let mut episodes = group.take_episodes();
        for request in &requests {
            for at in 0..request.count {
                let of = match request.start {
                    burnish_rl::plan::Start::Reversed { of } => Some(of),
                    _ => None,
                };
                let (role, weight) = (request.role, request.weight);
                episodes.push(Spawned { role, of, episode: Arc::new(answer(request, at)), weight });
            }
        }
        group.give(episodes);
        batches.push(requests);
    }
}

/// As [`play`], where every episode is right.
pub(crate) fn batches(plan: &dyn RolloutPlan, group: &Group<'_>) -> Vec<Vec<Request>> {
    play(plan, group, |request, _| answered(if request.role == Role::Draft { "a draft" } else { "y" }, true))
        .0
}

/// Why a [`World`] of a test does not do what the test does not need.
pub(crate) const NOWHERE: &str = "there is no environment";

/// No earlier try has left anything.
struct Nothing;

impl Ledger for Nothing {
    fn told(&self, _: &str, _: u64, _: &str) -> Option<Value> {
        None
    }

    fn keep(&self, _: &str, _: u64, _: &str, _: Value) -> Result<(), String> {
        Ok(())
    }
}

/// What a maker leaves of tasks, with a teacher if there is one.
pub(crate) fn left(
    maker: &dyn Maker,
    kind: MakeKind,
    played: &[Played],
    world: &dyn World,
    teacher: Option<&mut dyn Policy>,
) -> Result<Finished, String> {
    let (sampling, has_teacher) = (Sampling::at(1.0, 8), teacher.is_some());
    let shop = Shop { world, ledger: &Nothing, kind, sampling: &sampling, has_teacher };
    let started = Started::new(Address::new(1, Purpose::Perturb), Known::default(), async |handle| {
        let bench = Bench::new(handle, "maker", played, shop);
        maker.make(&bench).await.map(|()| bench.finish())
    });
    let cast = Cast::default();
    let cast = if let Some(teacher) = teacher { cast.with(TEACHER, teacher) } else { cast };
    let over = run(vec![started], cast, &mut Threads::default());
    over.map(|mut over| over.remove(0).value).map_err(|error| error.to_string())
}

/// What a maker that asks nobody makes of a task whose answers succeed as `successes` says.
pub(crate) fn make(
    maker: &dyn Maker,
    kind: MakeKind,
    task: &Task,
    successes: &[bool],
    world: &dyn World,
) -> Result<Vec<Made>, String> {
    let outcome = |success: &bool| {
        let answers = vec![Message::assistant("y")];
        Outcome { answers, success: *success, reward: f64::from(*success), tokens: 1 }
    };
    let own = [Played { task: task.clone(), episodes: successes.iter().map(outcome).collect() }];
    left(maker, kind, &own, world, None).map(|finished| finished.made)
}
