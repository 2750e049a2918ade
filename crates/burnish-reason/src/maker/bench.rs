//! The access of a maker to the world.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use burnish_core::digest::Rule;
use burnish_core::rng::Address;
use burnish_core::{Memory, Message, Note, PolicyError, Sampling, Task, Trace, Verdict, json, rng};
use burnish_episode::{Ask, ContactError, Handle, RunError, Waited};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::design::Design;
use super::{Made, MakeKind, MakerError, Outcome, Played};
use crate::{POLICY, StrategyConfig};

/// A model that is asked for better answers. Without one in the recipe, it is the policy.
pub const TEACHER: &str = "teacher";

/// The environment of a bench.
pub trait World {
    /// Up to `count` tasks that the run neither plays nor holds out, after the first `skip` of the order that `seed` gives them:
    /// fewer if there are no more.
    ///
    /// # Errors
    /// If none can be drawn: the reason.
    fn fresh(&self, seed: u64, skip: usize, count: usize) -> Result<Vec<Task>, String>;

    /// The verdict on these answers to a task, turn by turn.
    ///
    /// # Errors
    /// If it can't be had: the reason.
    fn judge(&self, task: &Task, answers: &[Message]) -> Result<Verdict, String>;

    /// Plays an episode of a task by a strategy, within a function. An episode that could not be judged has failed, with a
    /// reward of 0. Every strategy meets the same random numbers.
    fn play<'a>(
        &'a self,
        handle: &'a Handle,
        task: &'a Task,
        strategy: &'a StrategyConfig,
    ) -> Waited<'a, Result<Outcome, String>>;

    /// The environment's configuration, with what came of the run, for a function that may change the keys `only`, or all that
    /// the environment names.
    ///
    /// # Errors
    /// If it has no such keys, or the run was not evaluated: the reason.
    fn design(&self, _only: &[String]) -> Result<Design, String> {
        Err("nothing is known of a configuration".into())
    }

    /// The configuration `config` with all of its keys.
    ///
    /// # Errors
    /// If there are no such tasks: the reason.
    fn check_config(&self, _config: &Value) -> Result<Value, String> {
        Err("there is no configuration".into())
    }
}

/// What functions were told, kept while the artefact is not complete. So a run that was killed asks nothing twice.
pub trait Ledger {
    /// The answer to question number `number` of a function, if it was `question`.
    fn told(&self, function: &str, number: u64, question: &str) -> Option<Value>;

    /// Keeps an answer.
    ///
    /// # Errors
    /// If it can't be written.
    fn keep(&self, function: &str, number: u64, question: &str, answer: Value) -> Result<(), String>;
}

/// Everything that the benches of a run share.
#[derive(Clone, Copy)]
pub struct Shop<'a> {
    /// The environment.
    pub world: &'a dyn World,
    /// Keeps answers.
    pub ledger: &'a dyn Ledger,
    /// The kind that is to be made.
    pub kind: MakeKind,
    /// Sampling of the run's episodes.
    pub sampling: &'a Sampling,
    /// Is there somebody called [`TEACHER`]?
    pub has_teacher: bool,
    /// The notes that the run reads, if it has a memory.
    pub memory: Option<&'a dyn Memory>,
}

/// Tasks with their episodes, and everything that a maker can do.
pub struct Bench<'a> {
    handle: Handle,
    /// Identifies the function and what it is run on, for the ledger.
    name: &'a str,
    played: &'a [Played],
    shop: Shop<'a>,
    contacts: Cell<u32>,
    /// Tasks of [`Bench::fresh`] so far.
    drawn: Cell<usize>,
    finished: RefCell<Finished>,
}

/// Everything that a function left.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Finished {
    /// Everything that was made, in order.
    pub made: Vec<Made>,
    /// What it found out on the way, for people ([`Bench::report`]).
    pub report: Option<Value>,
}

/// The number of the choice of fresh tasks. Those that makers count from 0 on stay below it.
const FRESH: u64 = 1 << 63;

impl<'a> Bench<'a> {
    /// The bench of a function that is called `name` in the ledger, over at least one task; `handle` is that of an episode with an
    /// address of its own.
    pub fn new(handle: Handle, name: &'a str, played: &'a [Played], shop: Shop<'a>) -> Self {
        let (contacts, drawn, finished) = (Cell::new(0), Cell::new(0), RefCell::default());
        Bench { handle, name, played, shop, contacts, drawn, finished }
    }

    /// The task; the first one of a function over all of them.
    pub fn task(&self) -> &'a Task {
        &self.played[0].task
    }

    /// The task's episodes that were judged, in the order in which they were played.
    pub fn episodes(&self) -> &'a [Outcome] {
        &self.played[0].episodes
    }

    /// The share of them that succeeded; 0 where there is none.
    pub fn success_rate(&self) -> f64 {
        Outcome::success_rate(self.episodes())
    }

    /// All tasks of a function over all of them ([`Maker::is_over_all`](super::Maker::is_over_all)); else, the one task.
    pub fn all(&self) -> &'a [Played] {
        self.played
    }

    /// The notes of the memory that the run reads: none if it has no memory.
    pub fn notes(&self) -> &'a [Note] {
        self.shop.memory.map_or(&[], |memory| memory.notes())
    }

    /// Those of them that are nearest to what is asked about: at most `count`, and none that were made of the task, of
    /// a function over one task.
    pub fn recall(&self, about: &str, count: usize) -> Vec<Note> {
        let own = if let [own] = self.played { Some(&own.task.id) } else { None };
        self.shop.memory.map_or_else(Vec::new, |memory| memory.recall(about, count, own))
    }

    /// Does the run read notes?
    pub fn has_memory(&self) -> bool {
        self.shop.memory.is_some()
    }

    /// Sampling of the run's episodes.
    pub fn sampling(&self) -> &'a Sampling {
        self.shop.sampling
    }

    /// The seed of random choice number `number` of this function.
    pub fn seed(&self, number: u64) -> u64 {
        rng::bits(self.handle.address().seed(), number)
    }

    /// Asks the policy that the run ended with ([`POLICY`]) or the [`TEACHER`] for one turn.
    ///
    /// # Errors
    /// If there is no answer, or nobody is called `who`.
    pub async fn ask(
        &self,
        who: &str,
        messages: Vec<Message>,
        sampling: &Sampling,
    ) -> Result<Message, MakerError> {
        let said = self.ask_each(who, &[messages], sampling).await?;
        let nothing = || ContactError::from(PolicyError::Failed(format!("`{who}` said nothing")));
        Ok(said.into_iter().next().ok_or_else(nothing)?)
    }

    /// As [`Bench::ask`], for several turns that are answered side by side: none sees another.
    ///
    /// # Errors
    /// As [`Bench::ask`].
    pub async fn ask_each(
        &self,
        who: &str,
        conversations: &[Vec<Message>],
        sampling: &Sampling,
    ) -> Result<Vec<Message>, MakerError> {
        let who = self.called(who)?;
        let questions: Vec<_> = conversations.iter().map(|messages| (who, messages, sampling)).collect();
        self.contacts(&questions, async |handle, key, (who, messages, sampling)| {
            // Episodes of tasks have the rollout 0.
            let address = Address { rollout: key + 1, ..self.handle.address() };
            let asked = async |handle: Handle| ask(&handle, who, messages.clone(), sampling).await;
            let over = handle.aside(address, asked).await;
            over.map(|finished| finished.value).map_err(|error| match error {
                RunError::Episode(error) => error.into(),
                other => MakerError::Environment(other.to_string()),
            })
        })
        .await
    }

    fn called(&self, who: &str) -> Result<&'static str, ContactError> {
        match who {
            POLICY => Ok(POLICY),
            TEACHER if self.shop.has_teacher => Ok(TEACHER),
            TEACHER => Ok(POLICY),
            _ => Err(PolicyError::Failed(format!("nobody is called `{who}`: ask `{POLICY}` or `{TEACHER}`"))
                .into()),
        }
    }

    /// Plays one episode of each task with the policy that the run ended with, by a strategy, side by side. Every strategy meets
    /// the same random numbers.
    ///
    /// # Errors
    /// If an episode can't be played.
    pub async fn play(&self, strategy: &StrategyConfig, tasks: &[&Task]) -> Result<Vec<Outcome>, MakerError> {
        let world = self.shop.world;
        let questions: Vec<_> = tasks.iter().map(|task| (strategy, *task)).collect();
        self.contacts(&questions, async |handle, _, (strategy, task)| {
            world.play(&handle, task, strategy).await.map_err(MakerError::Environment)
        })
        .await
    }

    /// The answers to questions that are asked side by side: from the ledger, or else from `answer`. A question's key
    /// depends only on its number and on how many contacts there were before.
    async fn contacts<Q: Serialize + Copy, T: Serialize + DeserializeOwned>(
        &self,
        questions: &[Q],
        answer: impl AsyncFn(Handle, u64, Q) -> Result<T, MakerError>,
    ) -> Result<Vec<T>, MakerError> {
        let contact = self.contacts.replace(self.contacts.get() + 1);
        let told = self.handle.all(questions.len() as u32, |number, handle| {
            let key = u64::from(contact) << 32 | u64::from(number);
            self.contact((handle, key), questions[number as usize], &answer)
        });
        told.await.into_iter().collect()
    }

    async fn contact<Q: Serialize + Copy, T: Serialize + DeserializeOwned>(
        &self,
        (handle, key): (Handle, u64),
        question: Q,
        answer: &impl AsyncFn(Handle, u64, Q) -> Result<T, MakerError>,
    ) -> Result<T, MakerError> {
        let unwritable = |error: serde_json::Error| MakerError::Environment(error.to_string());
        let asked = Rule::Xxh3.digest(json::text(&question).map_err(unwritable)?.as_bytes());
        let ledger = self.shop.ledger;
        let told = ledger.told(self.name, key, &asked);
        if let Some(told) = told.and_then(|told| serde_json::from_value(told).ok()) {
            return Ok(told);
        }
        let told = answer(handle, key, question).await?;
        let value = serde_json::to_value(&told).map_err(unwritable)?;
        ledger.keep(self.name, key, &asked, value).map_err(MakerError::Environment)?;
        Ok(told)
    }

    /// Up to `count` further tasks of the environment: none that the run plays or holds out, and other ones at each call. They
    /// are fewer if the environment has no more.
    ///
    /// # Errors
    /// If the environment can't draw any.
    pub fn fresh(&self, count: usize) -> Result<Vec<Task>, MakerError> {
        let skip = self.drawn.replace(self.drawn.get().saturating_add(count));
        self.shop.world.fresh(self.seed(FRESH), skip, count).map_err(MakerError::Environment)
    }

    /// The environment's verdict on answers to a task: this one, or one of [`Bench::fresh`].
    ///
    /// # Errors
    /// If it can't judge them.
    pub fn judge(&self, task: &Task, answers: &[Message]) -> Result<Verdict, MakerError> {
        self.shop.world.judge(task, answers).map_err(MakerError::Environment)
    }

    /// The environment's configuration, the keys that may change (`only`, or all that the environment names), and what
    /// came of the run: rates over tasks, and never a task.
    ///
    /// # Errors
    /// If it has no such keys, or the run was not evaluated.
    pub fn design(&self, only: &[String]) -> Result<Design, MakerError> {
        self.shop.world.design(only).map_err(MakerError::Environment)
    }

    /// The configuration `config` with all of its keys, if a later run can play in it.
    ///
    /// # Errors
    /// The reason why the environment has no such tasks: something for whoever chose it to read.
    pub fn check_config(&self, config: &Value) -> Result<Value, String> {
        self.shop.world.check_config(config)
    }

    /// Makes something.
    ///
    /// # Errors
    /// If it is not of the kind that the recipe asks for, or of no use.
    pub fn emit(&self, made: Made) -> Result<(), MakerError> {
        if made.kind() != self.shop.kind {
            return Err(MakerError::Kind { made: made.kind(), asked: self.shop.kind });
        }
        if let Some(fault) = made.fault() {
            return Err(MakerError::Faulty(fault));
        }
        self.finished.borrow_mut().made.push(made);
        Ok(())
    }

    /// Tells people what the function found out: it stands in the lineage of the artefact. A later report replaces an earlier one.
    pub fn report(&self, report: Value) {
        self.finished.borrow_mut().report = Some(report);
    }

    /// Everything that the function left.
    pub fn finish(self) -> Finished {
        self.finished.into_inner()
    }
}

async fn ask(
    handle: &Handle,
    who: &'static str,
    messages: Vec<Message>,
    sampling: &Sampling,
) -> Result<Message, ContactError> {
    let agent = handle.agent(&Arc::from(who), Trace::new());
    let (messages, sampling) = (Arc::new(messages), Arc::new(sampling.clone()));
    let seed = handle.seed(&agent, 0);
    let ask = Ask { messages, tools: Arc::default(), prefix: Vec::new(), sampling, seed };
    Ok(handle.sample(&agent, ask).await?.message)
}
