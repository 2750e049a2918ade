//! How a function contacts the world.

use std::any::Any;
use std::cell::Cell;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use burnish_core::digest::Rule;
use burnish_core::rng::{self, Address, Purpose};
use burnish_core::{
    Fork, Message, NodeId, Piece, Place, PolicyError, RecordedTurn, Repeating, Sampling, Told, ToolSpec,
    Trace, Turn, TurnOutput,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::desk::{Arrived, Before, Inner, Question, Shared, Waiting};
use crate::outside::Job;
use crate::run::{Finished, Known, RunError};

/// Why a contact failed.
#[derive(Debug, thiserror::Error)]
pub enum ContactError {
    /// The policy could not answer.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The record belongs to another function.
    #[error("the record does not fit the episode: at {place}, {problem}")]
    Unlike {
        /// Where.
        place: Place,
        /// What differs.
        problem: String,
    },
    /// Work that was repeated had another result.
    #[error("{what} was repeated at {place} with a different result")]
    Lost {
        /// Where.
        place: Place,
        /// What.
        what: String,
    },
    /// The work must not be repeated, and it is unknown whether it was done.
    #[error("{what} was begun at {place}, its outcome is unknown, and it must not be repeated")]
    Unfinished {
        /// Where.
        place: Place,
        /// What.
        what: String,
    },
    /// The work panicked, or its result can't be written as JSON.
    #[error("{what} failed: {problem}")]
    Failed {
        /// What.
        what: String,
        /// What the panic or the error said.
        problem: String,
    },
}

impl ContactError {
    pub(crate) fn unlike(place: &Place, problem: impl Into<String>) -> Self {
        ContactError::Unlike { place: place.clone(), problem: problem.into() }
    }
}

/// A participant that takes turns in an episode, with a trace of its own.
#[derive(Debug, Clone)]
pub struct Agent {
    place: Place,
    /// Its policy: a name in the [`Cast`](crate::Cast).
    policy: Arc<str>,
}

impl Agent {
    /// The name of its policy.
    pub fn policy(&self) -> &Arc<str> {
        &self.policy
    }
}

/// What a turn is asked with, apart from the trace.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The whole conversation so far.
    pub messages: Arc<Vec<Message>>,
    /// Tools that may be called.
    pub tools: Arc<Vec<ToolSpec>>,
    /// The beginning of the answer.
    pub prefix: Vec<Piece>,
    /// How to choose tokens.
    pub sampling: Arc<Sampling>,
    /// Seed of the turn ([`Handle::seed`]).
    pub seed: u64,
}

/// Its digest identifies a turn's question. The trace is not part of it, since it follows from the turns before. Seed
/// and beginning are not part of it either: an episode that branches off within another has the other's turns, but its
/// own seed and beginning.
#[derive(Serialize)]
struct TurnQuestion<'a> {
    policy: &'a str,
    messages: &'a [Message],
    tools: &'a [ToolSpec],
    sampling: &'a Sampling,
}

/// A piece of work, as the record and the worker see it.
#[derive(Debug, Clone, Copy)]
pub struct Work<'a, Q: ?Sized> {
    /// A word or two that name it (`the call of transfer`).
    pub what: &'a str,
    /// Everything that determines the result.
    pub question: &'a Q,
    /// What it means to repeat it.
    pub repeating: Repeating,
    /// Whether it runs beside everything else. If not, the function and all others wait for it.
    pub is_slow: bool,
    /// Whether a result ends the episode. If it is on the record, it is taken, whatever `repeating` says: nothing comes
    /// after it that would need the work to be done.
    pub is_end: fn(&serde_json::Value) -> bool,
}

/// The answer to a question for a turn, at its place.
enum Answer {
    /// From the record.
    Known(Place, Box<Told>),
    /// From the policy, with the trace that it extended.
    New(Place, Box<(Trace, Result<TurnOutput, PolicyError>)>),
}

/// An episode's access to the world, in one branch of the episode. A clone is in the same branch.
#[derive(Clone)]
pub struct Handle {
    desk: Shared,
    branch: Vec<Fork>,
    address: Address,
}

impl Handle {
    pub(crate) fn new(desk: &Shared) -> Self {
        let address = desk.borrow().address;
        Handle { desk: Rc::clone(desk), branch: Vec::new(), address }
    }

    /// The address of the episode; turn and purpose are set where a seed is needed.
    pub fn address(&self) -> Address {
        self.address
    }

    /// The branch `at` below this one, which counts its own contacts.
    pub fn branch(&self, at: u32) -> Handle {
        self.below([Fork::Named(at)])
    }

    /// Plays the function `episode` within this one, at an address of its own, and continues from what is known of it. Its record
    /// and its traces are its own, and leave none on this one's record. It begins when fewer are running than
    /// [`run_programs`](crate::run_programs) allows.
    ///
    /// # Errors
    /// If the function returns an error, or ends before its record does.
    pub async fn episode<T, E>(
        &self,
        address: Address,
        known: Known,
        episode: impl AsyncFnOnce(Handle) -> Result<T, E>,
    ) -> Result<Finished<T>, RunError<E>> {
        let place = self.place();
        Waiting::ask(&self.desk, &place, Question::Begin).await;
        self.inner(&place, address, known, true, episode).await
    }

    /// As [`Handle::episode`], for what touches no environment: it begins at once, however many episodes are running.
    ///
    /// # Errors
    /// As [`Handle::episode`].
    pub async fn aside<T, E>(
        &self,
        address: Address,
        episode: impl AsyncFnOnce(Handle) -> Result<T, E>,
    ) -> Result<Finished<T>, RunError<E>> {
        self.inner(&self.place(), address, Known::default(), false, episode).await
    }

    async fn inner<T, E>(
        &self,
        place: &Place,
        address: Address,
        known: Known,
        takes_room: bool,
        episode: impl AsyncFnOnce(Handle) -> Result<T, E>,
    ) -> Result<Finished<T>, RunError<E>> {
        let inner = Inner::new((&self.desk, place), address, (known.record, known.traces), takes_room);
        let value = episode(Handle::new(&inner.desk)).await.map_err(RunError::Episode)?;
        let closed = inner.desk.borrow_mut().close();
        let (record, traces) = closed.map_err(|source| RunError::Contact { at: 0, source })?;
        Ok(Finished { value, record, traces })
    }

    /// Waits until every function waits for this, and nothing is running. So what many functions leave can be worked on at once.
    pub async fn quiet(&self) {
        let place = self.place();
        Waiting::ask(&self.desk, &place, Question::Quiet).await;
    }

    fn below<const N: usize>(&self, forks: [Fork; N]) -> Handle {
        let branch = self.branch.iter().copied().chain(forks).collect();
        Handle { desk: Rc::clone(&self.desk), branch, address: self.address }
    }

    fn place(&self) -> Place {
        self.desk.borrow_mut().place(&self.branch)
    }

    /// The seed of one turn of an agent.
    pub fn seed(&self, agent: &Agent, turn: u64) -> u64 {
        let root = Address { turn, purpose: Purpose::Sample, ..self.address() }.seed();
        let forks = agent.place.branch.iter().chain(&self.branch).map(|fork| match *fork {
            Fork::Named(branch) => u64::from(branch),
            Fork::Opened(number) => 1 << 32 | u64::from(number),
        });
        // The first agent of the root uses the address's own seed.
        let who = (agent.place.number > 0).then_some(1 << 33 | u64::from(agent.place.number));
        forks.chain(who).fold(root, |seed, fork| rng::bits(seed, fork + 1))
    }

    /// Adds an agent that answers by the policy of that name and continues from `trace`.
    pub fn agent(&self, policy: &Arc<str>, trace: Trace) -> Agent {
        let place = self.place();
        let mut desk = self.desk.borrow_mut();
        desk.traces.insert(place.clone(), trace);
        desk.policies.insert(place.clone(), Arc::clone(policy));
        Agent { place, policy: Arc::clone(policy) }
    }

    /// Replaces an agent's trace; the next turn continues from it.
    pub fn set_trace(&self, agent: &Agent, trace: Trace) {
        self.desk.borrow_mut().traces.insert(agent.place.clone(), trace);
    }

    /// An agent's trace, as far as it got.
    pub fn trace(&self, agent: &Agent) -> Trace {
        self.desk.borrow().traces.get(&agent.place).cloned().unwrap_or_default()
    }

    /// Samples a turn of an agent and extends its trace.
    ///
    /// # Errors
    /// If the policy can't answer, or the record belongs to another function.
    pub async fn sample(&self, agent: &Agent, ask: Ask) -> Result<TurnOutput, ContactError> {
        let before = || {
            let mut desk = self.desk.borrow_mut();
            let trace = desk.traces.remove(&agent.place).unwrap_or_default();
            if !self.branch.is_empty() {
                // A branch may lose a race while its turn is under way; the turns before it stay.
                desk.traces.insert(agent.place.clone(), trace.clone());
            }
            trace
        };
        match self.turn(agent, before, ask).await? {
            Answer::Known(place, told) => self.told_again(&place, agent, *told),
            Answer::New(place, arrived) => self.take(&place, agent, arrived.0, arrived.1),
        }
    }

    /// Samples turns of an agent side by side, each from a node of the agent's trace (from its start without one). The trace then
    /// holds all of them, in this order; each comes with its own end in the trace.
    pub async fn sample_each(
        &self,
        agent: &Agent,
        asks: Vec<(Option<NodeId>, Ask)>,
    ) -> Vec<Result<(TurnOutput, Option<NodeId>), ContactError>> {
        let before = self.trace(agent);
        let known = before.nodes().len();
        let count = asks.len() as u32;
        let asks: Vec<Cell<_>> = asks.into_iter().map(|ask| Cell::new(Some(ask))).collect();
        let answers = self.all(count, |at, handle| {
            let ask = asks[at as usize].take();
            let before = &before;
            async move {
                let (from, ask) = ask?;
                let before = || before.before(known, from).unwrap_or_default();
                Some(handle.turn(agent, before, ask).await)
            }
        });
        let answers = answers.await.into_iter().flatten().map(|answer| {
            let output = match answer? {
                Answer::Known(place, told) => self.told_again(&place, agent, *told)?,
                Answer::New(place, arrived) => {
                    let (own, result) = *arrived;
                    let mut tree = self.trace(agent);
                    if result.is_ok() {
                        tree.graft(&own, known);
                    }
                    self.take(&place, agent, tree, result)?
                }
            };
            Ok((output, self.trace(agent).head()))
        });
        answers.collect()
    }

    /// Asks for a turn that follows the trace that `before` returns.
    async fn turn(
        &self,
        agent: &Agent,
        before: impl FnOnce() -> Trace,
        ask: Ask,
    ) -> Result<Answer, ContactError> {
        let place = self.place();
        let Ask { messages, tools, prefix, sampling, seed } = ask;
        let question =
            TurnQuestion { policy: &agent.policy, messages: &messages, tools: &tools, sampling: &sampling };
        let question = digest("a turn", &question)?;
        let known = self.desk.borrow_mut().begin(&place, question)?;
        if let Before::Answered(told) = known {
            return Ok(Answer::Known(place, told));
        }
        let turn = Box::new(Turn { trace: before(), messages, tools, prefix, sampling, seed });
        let question = Question::Turn { policy: Arc::clone(&agent.policy), turn };
        match Waiting::ask(&self.desk, &place, question).await {
            Arrived::Turn(arrived) => Ok(Answer::New(place, arrived)),
            _ => Err(ContactError::unlike(&place, "the answer is not a turn")),
        }
    }

    /// Puts a turn on the record, after which an agent's trace is `trace`.
    fn take(
        &self,
        place: &Place,
        agent: &Agent,
        trace: Trace,
        result: Result<TurnOutput, PolicyError>,
    ) -> Result<TurnOutput, ContactError> {
        let mut desk = self.desk.borrow_mut();
        match &result {
            Ok(output) => desk.note(place, recorded(agent, &trace, output)),
            Err(PolicyError::PromptTooLong { tokens, tokens_max }) => {
                desk.note(place, Told::TooLong { tokens: *tokens, tokens_max: *tokens_max });
            }
            // A failed turn is asked again.
            Err(_) => {}
        }
        desk.traces.insert(agent.place.clone(), trace);
        Ok(result?)
    }

    /// Takes a turn from the record: the trace becomes what it was after that turn.
    fn told_again(&self, place: &Place, agent: &Agent, told: Told) -> Result<TurnOutput, ContactError> {
        match told {
            Told::Turn(RecordedTurn {
                agent: of,
                nodes,
                head,
                message,
                stop,
                malformed,
                logprobs,
                aside,
            }) => {
                if of != agent.place {
                    return Err(ContactError::unlike(place, "another agent's turn was recorded"));
                }
                let mut desk = self.desk.borrow_mut();
                let trace = desk.known_trace(&agent.place, nodes, head);
                let trace = trace.ok_or_else(|| {
                    ContactError::unlike(place, format!("its trace has {nodes} nodes, but fewer are there"))
                })?;
                desk.traces.insert(agent.place.clone(), trace);
                Ok(TurnOutput { message, malformed, stop, logprobs, aside })
            }
            Told::TooLong { tokens, tokens_max } => {
                Err(PolicyError::PromptTooLong { tokens, tokens_max }.into())
            }
            Told::Value(_) => Err(ContactError::unlike(place, "the recorded answer to a turn is not a turn")),
        }
    }

    /// Does a piece of work on `state` and returns the state with the result. The work receives its key, which is the
    /// same when the work is repeated.
    ///
    /// # Errors
    /// If the work failed, must not be repeated, or had another result when it was repeated; or if the record belongs
    /// to another function.
    pub async fn work<Q, S, T>(
        &self,
        work: Work<'_, Q>,
        mut state: S,
        how: impl FnOnce(&mut S, &str) -> T + Send + 'static,
    ) -> Result<(S, T), ContactError>
    where
        Q: Serialize + ?Sized,
        S: Send + 'static,
        T: Serialize + DeserializeOwned + Send + 'static,
    {
        let place = self.place();
        let Work { what, question, repeating, is_slow, is_end } = work;
        let before = self.desk.borrow_mut().begin(&place, digest(what, question)?)?;
        let known = match before {
            Before::New => None,
            Before::Begun if repeating == Repeating::Outside => {
                self.desk.borrow_mut().is_lost = true;
                return Err(ContactError::Unfinished { place, what: what.to_owned() });
            }
            Before::Begun => None,
            Before::Answered(told) => match *told {
                Told::Value(value) => Some(value),
                _ => return Err(ContactError::unlike(&place, format!("{what} was no turn"))),
            },
        };
        let is_taken = |value: &&serde_json::Value| repeating != Repeating::Rebuilt || is_end(value);
        if let Some(value) = known.as_ref().filter(is_taken) {
            let told = serde_json::from_value(value.clone());
            let told = told.map_err(|error| ContactError::unlike(&place, format!("{what}: {error}")))?;
            return Ok((state, told));
        }
        let key = self.key(&place);
        let told = if is_slow {
            let job: Job = Box::new(move || {
                let told = how(&mut state, &key);
                Box::new((state, told)) as Box<dyn Any + Send>
            });
            let failed = |problem: String| ContactError::Failed { what: what.to_owned(), problem };
            let Arrived::Work(done) = Waiting::ask(&self.desk, &place, Question::Work(job)).await else {
                return Err(ContactError::unlike(&place, "the result belongs to other work"));
            };
            let done = done.map_err(failed)?.downcast::<(S, T)>();
            let (given_back, told) = *done.map_err(|_| failed("it returned something else".into()))?;
            state = given_back;
            told
        } else {
            how(&mut state, &key)
        };
        let value = serde_json::to_value(&told)
            .map_err(|error| ContactError::Failed { what: what.to_owned(), problem: error.to_string() })?;
        if known.is_some_and(|known| known != value) {
            self.desk.borrow_mut().is_lost = true;
            return Err(ContactError::Lost { place, what: what.to_owned() });
        }
        self.desk.borrow_mut().note(&place, Told::Value(value));
        Ok((state, told))
    }

    /// Ends the episode before its record does: it can't be brought to where it should go on.
    pub fn lose(&self) {
        self.desk.borrow_mut().is_lost = true;
    }

    /// The key of the work at a place, unique among all work of all runs with other seeds.
    fn key(&self, place: &Place) -> String {
        let Address { run, stage, step, task, rollout, .. } = self.address();
        let outer = &self.desk.borrow().key;
        format!("{run:x}-{stage:x}-{step}-{task}-{rollout}/{outer}{place}")
    }

    /// Lets time pass.
    ///
    /// # Errors
    /// If the record belongs to another function.
    pub async fn wait(&self, time: Duration) -> Result<(), ContactError> {
        let place = self.place();
        let question = digest("a wait", &time)?;
        let before = self.desk.borrow_mut().begin(&place, question)?;
        if !matches!(before, Before::Answered(_)) {
            Waiting::ask(&self.desk, &place, Question::Wait(time)).await;
            self.desk.borrow_mut().note(&place, Told::Value(serde_json::Value::Null));
        }
        Ok(())
    }

    /// Continues in `count` branches at once and returns their results in order.
    pub async fn all<T, F: Future<Output = T>>(
        &self,
        count: u32,
        branch: impl Fn(u32, Handle) -> F,
    ) -> Vec<T> {
        let number = self.place().number;
        let open = |at| Box::pin(branch(at, self.below([Fork::Opened(number), Fork::Named(at)])));
        let mut open: Vec<_> = (0..count).map(|at| Some(open(at))).collect();
        let mut over: Vec<Option<T>> = open.iter().map(|_| None).collect();
        std::future::poll_fn(move |context| {
            for (open, over) in open.iter_mut().zip(&mut over) {
                if let Some(Poll::Ready(value)) = open.as_mut().map(|open| open.as_mut().poll(context)) {
                    (*over, *open) = (Some(value), None);
                }
            }
            match over.iter().all(Option::is_some) {
                true => Poll::Ready(over.iter_mut().filter_map(Option::take).collect()),
                false => Poll::Pending,
            }
        })
        .await
    }

    /// Continues in `count` branches (at least one) at once until the first is over; returns its index and its result.
    /// The others are cancelled. The record holds which came first.
    ///
    /// # Errors
    /// If the record belongs to another function.
    pub async fn first<T, F: Future<Output = T>>(
        &self,
        count: u32,
        branch: impl Fn(u32, Handle) -> F,
    ) -> Result<(u32, T), ContactError> {
        let place = self.place();
        let count = count.max(1);
        let open = |at| branch(at, self.below([Fork::Opened(place.number), Fork::Named(at)]));
        let before = self.desk.borrow_mut().begin(&place, digest("a race", &count)?)?;
        let won = match before {
            Before::Answered(told) => {
                let Told::Value(value) = *told else {
                    return Err(ContactError::unlike(&place, "it was no race"));
                };
                let winner = value.as_u64().and_then(|at| u32::try_from(at).ok()).filter(|at| *at < count);
                let winner =
                    winner.ok_or_else(|| ContactError::unlike(&place, "who came first took no part"))?;
                let won = pin!(open(winner)).await;
                let opened: Vec<Fork> =
                    place.branch.iter().copied().chain([Fork::Opened(place.number)]).collect();
                self.desk.borrow_mut().keep_below(&opened);
                (winner, won)
            }
            Before::New | Before::Begun => {
                Race { open: (0..count).map(|at| Some(Box::pin(open(at)))).collect() }.await
            }
        };
        self.desk.borrow_mut().note(&place, Told::Value(won.0.into()));
        Ok(won)
    }
}

/// Runs branches until the first of them is over.
struct Race<F> {
    open: Vec<Option<Pin<Box<F>>>>,
}

impl<F: Future> Future for Race<F> {
    type Output = (u32, F::Output);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        for (at, open) in (0..).zip(&mut self.open) {
            if let Some(Poll::Ready(value)) = open.as_mut().map(|open| open.as_mut().poll(context)) {
                self.open.clear();
                return Poll::Ready((at, value));
            }
        }
        Poll::Pending
    }
}

fn recorded(agent: &Agent, trace: &Trace, output: &TurnOutput) -> Told {
    Told::Turn(RecordedTurn {
        agent: agent.place.clone(),
        nodes: trace.nodes().len(),
        head: trace.head().map(|head| head.0),
        message: output.message.clone(),
        stop: output.stop,
        malformed: output.malformed.clone(),
        logprobs: output.logprobs.clone(),
        aside: output.aside,
    })
}

fn digest(what: &str, question: &(impl Serialize + ?Sized)) -> Result<String, ContactError> {
    let text = serde_json::to_vec(question);
    let text =
        text.map_err(|error| ContactError::Failed { what: what.to_owned(), problem: error.to_string() })?;
    Ok(Rule::Xxh3.digest(&text))
}
