//! Tasks, episodes, groups of plans and benches of makers, for tests.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::task::{Context, Poll, Waker};

use burnish_core::rng::{Address, Purpose};
use burnish_core::{Ending, Episode, Memory, Message, Note, Policy, Record, Sampling, Task, TaskId, Verdict};
use burnish_episode::{Cast, Known, Started, Threads, run};
use burnish_reason::{Bench, Finished, Ledger, Made, MakeKind, Maker, Outcome, Played, Shop, TEACHER, World};
use burnish_rl::plan::{self, Group, PlanError, Request, Role, RolloutPlan, Spawned, Waited};
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

/// A group to play: its task, how many rollouts, how far the run is, the seed of random choices.
pub(crate) struct Case {
    pub(crate) task: Task,
    pub(crate) rollouts: usize,
    pub(crate) progress: f64,
    pub(crate) seed: u64,
}

impl From<(usize, u64)> for Case {
    fn from((rollouts, seed): (usize, u64)) -> Self {
        Case { task: task(), rollouts, progress: 0.0, seed }
    }
}

/// What comes of a group.
pub(crate) struct Shown {
    /// What the plan asked for, batch by batch.
    pub(crate) batches: Vec<Vec<Request>>,
    pub(crate) episodes: Vec<Spawned>,
    /// The error with which it ended.
    pub(crate) error: Option<PlanError>,
}

/// What comes of number so many of the episodes of a request.
type Answer<'a> = &'a mut dyn FnMut(&Request, usize) -> Episode;

/// Answers requests at once. The reverse of a task is called by the answer that leads there, and a note says what is asked
/// about and its number, unless that is nothing.
struct Answers<'a> {
    task: &'a Task,
    answer: RefCell<Answer<'a>>,
    batches: RefCell<Vec<Vec<Request>>>,
}

impl plan::World for Answers<'_> {
    fn opening(&self) -> Result<Vec<Message>, PlanError> {
        Ok(self.task.prompt.clone())
    }

    fn counterpart(&self) -> Result<Task, PlanError> {
        Ok(Task { id: TaskId("turned".into()), ..self.task.clone() })
    }

    fn reversed(&self, task: &Task, answer: &str) -> Option<Task> {
        (!answer.is_empty())
            .then(|| Task { id: TaskId(format!("{} by {answer}", task.id.0)), ..task.clone() })
    }

    fn recall(&self, about: &str, count: usize) -> Result<Vec<Note>, PlanError> {
        let note = |number: usize| Note { about: about.to_owned(), text: number.to_string(), task: None };
        Ok((0..count).filter(|_| !about.is_empty()).map(note).collect())
    }

    fn play<'a>(
        &'a self,
        _: &'a Group<'a>,
        requests: &'a [(Request, usize)],
    ) -> Waited<'a, Result<Vec<Episode>, PlanError>> {
        let (mut answer, requests) = (self.answer.borrow_mut(), requests.iter().map(|(request, _)| request));
        let episodes = requests.clone().flat_map(|request| (0..request.count).map(move |at| (request, at)));
        let episodes = episodes.map(|(request, at)| answer(request, at)).collect();
        self.batches.borrow_mut().push(requests.cloned().collect());
        Box::pin(std::future::ready(Ok(episodes)))
    }
}

/// Plays a group on after some episodes. `answer` says what comes of number `at` of the episodes of a request.
pub(crate) fn go_on(
    plan: &dyn RolloutPlan,
    case: impl Into<Case>,
    begun: Vec<Spawned>,
    mut answer: impl FnMut(&Request, usize) -> Episode,
) -> Shown {
    let Case { task, rollouts, progress, seed } = case.into();
    let (answer, batches) = (RefCell::new(&mut answer as _), RefCell::default());
    let answers = Answers { task: &task, answer, batches };
    let group = Group::new(&task, (rollouts, progress, seed), &answers, begun);
    let Poll::Ready(over) = plan.play(&group).as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("it waits for nothing");
    };
    let episodes = group.finish();
    let batches = answers.batches.into_inner().into_iter().filter(|batch| !batch.is_empty()).collect();
    Shown { batches, episodes, error: over.err() }
}

/// As [`go_on`], from the start.
pub(crate) fn play(
    plan: &dyn RolloutPlan,
    case: impl Into<Case>,
    answer: impl FnMut(&Request, usize) -> Episode,
) -> Shown {
    go_on(plan, case, Vec::new(), answer)
}

/// What a plan asks for where every episode is right, batch by batch.
pub(crate) fn batches(plan: &dyn RolloutPlan, case: impl Into<Case>) -> Vec<Vec<Request>> {
    let said = |request: &Request| if request.role == Role::Draft { "a draft" } else { "y" };
    play(plan, case, |request, _| answered(said(request), true)).batches
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

/// What a maker leaves of tasks, with a teacher and a memory if there are any.
pub(crate) fn left(
    maker: &dyn Maker,
    kind: MakeKind,
    played: &[Played],
    world: &dyn World,
    teacher: Option<&mut dyn Policy>,
    memory: Option<&dyn Memory>,
) -> Result<Finished, String> {
    let (sampling, has_teacher) = (Sampling::at(1.0, 8), teacher.is_some());
    let shop = Shop { world, ledger: &Nothing, kind, sampling: &sampling, has_teacher, memory };
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
    left(maker, kind, &own, world, None, None).map(|finished| finished.made)
}
