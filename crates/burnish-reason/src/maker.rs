//! Makers: functions over a task and its episodes that make rows, pairs or tasks for later runs.
//!
//! ```text
//! Task, its episodes ─> Maker ─> Made, Made, ...
//!                         │
//!                         └─ Bench: turns of the policy and of a teacher, verdicts, further tasks, seeds
//! ```
//!
//! A [`Maker`] is an async function. It reaches the world only through its [`Bench`], has no clock and no state, and its random
//! numbers are those of [`Bench::seed`]. So it makes the same however many others run beside it. Unlike a
//! [`Strategy`](crate::Strategy), which answers without knowing what is right, a maker sees verdicts and true answers: what it
//! makes is learned from, and nothing that it asks is evaluated.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::sync::Arc;

use burnish_core::settings::SettingError;
use burnish_core::{Message, PolicyError, Role, Sampling, Task, ToolSpec, Trace, Verdict, rng};
use burnish_episode::{Ask, ContactError, Handle};
use serde::{Deserialize, Serialize};

use crate::POLICY;

/// A model that is asked for better answers. Without one in the recipe, it is the policy.
pub const TEACHER: &str = "teacher";

/// A kind of things that a run makes for later runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MakeKind {
    /// Conversations to imitate: `messages`, and `tools` where there are any.
    Rows,
    /// A better and a worse answer to the same task: `prompt`, `chosen`, `rejected`.
    Pairs,
    /// Tasks to play.
    Tasks,
}

impl MakeKind {
    /// Its name in recipes.
    pub fn name(self) -> &'static str {
        match self {
            MakeKind::Rows => "rows",
            MakeKind::Pairs => "pairs",
            MakeKind::Tasks => "tasks",
        }
    }
}

/// One thing that a maker made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Made {
    /// A conversation to imitate.
    Row {
        /// The conversation, with at least one answer.
        messages: Vec<Message>,
        /// The tools that were offered in it.
        tools: Vec<ToolSpec>,
    },
    /// A better and a worse continuation of a conversation.
    Pair {
        /// The conversation before both.
        prompt: Vec<Message>,
        /// The better one.
        chosen: Vec<Message>,
        /// The worse one.
        rejected: Vec<Message>,
    },
    /// A task to play.
    Task(Task),
}

impl Made {
    /// Its kind.
    pub fn kind(&self) -> MakeKind {
        match self {
            Made::Row { .. } => MakeKind::Rows,
            Made::Pair { .. } => MakeKind::Pairs,
            Made::Task(_) => MakeKind::Tasks,
        }
    }

    /// The reason why nothing could be learned from it.
    fn fault(&self) -> Option<&'static str> {
        let has_answer =
            |messages: &[Message]| messages.iter().any(|message| message.role == Role::Assistant);
        match self {
            Made::Row { messages, .. } if !has_answer(messages) => Some("a row without an answer"),
            Made::Pair { chosen, rejected, .. } if !(has_answer(chosen) && has_answer(rejected)) => {
                Some("a pair without two answers")
            }
            Made::Pair { chosen, rejected, .. } if chosen == rejected => Some("a pair of equal answers"),
            _ => None,
        }
    }
}

/// A failure of a maker.
#[derive(Debug, thiserror::Error)]
pub enum MakerError {
    /// Somebody did not answer.
    #[error(transparent)]
    Contact(#[from] ContactError),
    /// It made something of another kind than the recipe asks for.
    #[error("the program made one of the {}, but `make.kind` is \"{}\": set it to the former", made.name(), asked.name())]
    Kind {
        /// The kind that it made.
        made: MakeKind,
        /// The kind that it should have made.
        asked: MakeKind,
    },
    /// It made something that nothing can be learned from.
    #[error("the program made {0}")]
    Faulty(&'static str),
    /// A setting does not fit the task.
    #[error("make.config.{0}")]
    Setting(#[from] SettingError),
    /// The environment could not judge, or could not draw tasks.
    #[error("{0}")]
    Environment(String),
}

/// An episode of the task, as far as makers need it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The policy's answers, turn by turn.
    pub answers: Vec<Message>,
    /// Did it succeed?
    pub success: bool,
    /// Its reward, with the weights of the recipe.
    pub reward: f64,
}

impl Outcome {
    /// The share of `episodes` that succeeded; 0 where there is none.
    pub fn success_rate(episodes: &[Outcome]) -> f64 {
        let successes = episodes.iter().filter(|episode| episode.success).count();
        successes as f64 / episodes.len().max(1) as f64
    }
}

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
}

/// Everything that the benches of a run share.
#[derive(Clone, Copy)]
pub struct Shop<'a> {
    /// The environment.
    pub world: &'a dyn World,
    /// The kind that is to be made.
    pub kind: MakeKind,
    /// Sampling of the run's episodes.
    pub sampling: &'a Sampling,
    /// Is there somebody called [`TEACHER`]?
    pub has_teacher: bool,
}

/// A task with its episodes, and everything that a maker can do.
pub struct Bench<'a> {
    handle: Handle,
    task: &'a Task,
    episodes: &'a [Outcome],
    shop: Shop<'a>,
    /// Tasks of [`Bench::fresh`] so far.
    drawn: Cell<usize>,
    made: RefCell<Vec<Made>>,
}

/// The number of the choice of fresh tasks. Those that makers count from 0 on stay below it.
const FRESH: u64 = 1 << 63;

impl<'a> Bench<'a> {
    /// The bench of a task; `handle` is that of an episode with an address of its own.
    pub fn new(handle: Handle, task: &'a Task, episodes: &'a [Outcome], shop: Shop<'a>) -> Self {
        Bench { handle, task, episodes, shop, drawn: Cell::new(0), made: RefCell::default() }
    }

    /// The task.
    pub fn task(&self) -> &'a Task {
        self.task
    }

    /// Its episodes that were judged, in the order in which they were played.
    pub fn episodes(&self) -> &'a [Outcome] {
        self.episodes
    }

    /// The share of them that succeeded; 0 where there is none.
    pub fn success_rate(&self) -> f64 {
        Outcome::success_rate(self.episodes)
    }

    /// Sampling of the run's episodes.
    pub fn sampling(&self) -> &'a Sampling {
        self.shop.sampling
    }

    /// The seed of random choice number `number` of this task.
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
    ) -> Result<Message, ContactError> {
        ask(&self.handle, self.called(who)?, messages, sampling).await
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
    ) -> Result<Vec<Message>, ContactError> {
        let who = self.called(who)?;
        let said = self.handle.all(conversations.len() as u32, |at, handle| async move {
            ask(&handle, who, conversations[at as usize].clone(), sampling).await
        });
        said.await.into_iter().collect()
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

    /// Makes something.
    ///
    /// # Errors
    /// If it is not of the kind that the recipe asks for, or nothing can be learned from it.
    pub fn emit(&self, made: Made) -> Result<(), MakerError> {
        if made.kind() != self.shop.kind {
            return Err(MakerError::Kind { made: made.kind(), asked: self.shop.kind });
        }
        if let Some(fault) = made.fault() {
            return Err(MakerError::Faulty(fault));
        }
        self.made.borrow_mut().push(made);
        Ok(())
    }

    /// Everything that was made, in order.
    pub fn finish(self) -> Vec<Made> {
        self.made.into_inner()
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

/// A running maker.
pub type Making<'a> = Pin<Box<dyn Future<Output = Result<(), MakerError>> + 'a>>;

/// Makes rows, pairs or tasks of a task and its episodes.
pub trait Maker: Send + Sync {
    /// The kinds that it can make, of which the recipe asks for one.
    fn kinds(&self) -> &'static [MakeKind];

    /// The function.
    fn make<'a>(&'a self, bench: &'a Bench<'a>) -> Making<'a>;
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::collections::BTreeMap;

    use burnish_core::rng::{Address, Purpose};
    use burnish_core::{Script, StopReason, TaskId, Turn};
    use burnish_episode::{Cast, Known, RunError, Started, Threads, run};
    use serde_json::Value;

    use super::*;

    fn task(id: &str) -> Task {
        Task {
            id: TaskId(id.into()),
            environment: "none".into(),
            prompt: vec![Message::user("?")],
            truth: Value::Null,
            labels: BTreeMap::new(),
        }
    }

    /// Its tasks are called by the seed that drew them; answers are right that say `yes`.
    struct Names;

    impl World for Names {
        fn fresh(&self, seed: u64, skip: usize, count: usize) -> Result<Vec<Task>, String> {
            Ok((skip..skip + count).map(|at| task(&format!("{seed}/{at}"))).collect())
        }

        fn judge(&self, _: &Task, answers: &[Message]) -> Result<Verdict, String> {
            let [answer] = answers else { return Err("one answer is judged".into()) };
            Ok(Verdict::scored("right", 1.0, answer.content == "yes"))
        }
    }

    /// What comes of a function on the bench of a task; the policy says what it is, and the teacher `yes`.
    fn on_bench(
        kind: MakeKind,
        has_teacher: bool,
        function: impl AsyncFn(&Bench<'_>) -> Result<(), MakerError>,
    ) -> Result<Vec<Made>, String> {
        let (own, sampling) = (task("own"), Sampling::greedy(4));
        let shop = Shop { world: &Names, kind, sampling: &sampling, has_teacher };
        let episodes = [false, true].map(|success| Outcome { answers: Vec::new(), success, reward: 1.0 });
        let address = Address { task: 3, ..Address::new(7, Purpose::Perturb) };
        let started = Started::new(address, Known::default(), async |handle| {
            let bench = Bench::new(handle, &own, &episodes, shop);
            function(&bench).await.map(|()| bench.finish())
        });
        let mut policy =
            Script::new(|turn: &Turn| Ok((format!("policy {}", turn.seed), StopReason::EndToken)));
        let mut teacher = Script::new(|_: &Turn| Ok(("yes".to_owned(), StopReason::EndToken)));
        let cast = Cast::default().with(POLICY, &mut policy).with(TEACHER, &mut teacher);
        let over: Result<_, RunError<MakerError>> = run(vec![started], cast, &mut Threads::default());
        over.map(|mut over| over.remove(0).value).map_err(|error| error.to_string())
    }

    fn row(answer: Message) -> Made {
        Made::Row { messages: vec![Message::user("?"), answer], tools: Vec::new() }
    }

    #[test]
    fn a_function_asks_judges_and_makes() {
        let function = async |bench: &Bench<'_>| {
            assert_eq!((bench.success_rate(), &*bench.task().id.0), (0.5, "own"));
            let prompts = [vec![Message::user("a")], vec![Message::user("a")]];
            let said = bench.ask_each(POLICY, &prompts, bench.sampling()).await?;
            assert_ne!(said[0], said[1], "each has a seed of its own");
            let better = bench.ask(TEACHER, prompts[0].clone(), bench.sampling()).await?;
            for answer in [said[0].clone(), better] {
                if bench.judge(bench.task(), std::slice::from_ref(&answer))?.success {
                    bench.emit(row(answer))?;
                }
            }
            Ok(())
        };
        assert_eq!(on_bench(MakeKind::Rows, true, function), Ok(vec![row(Message::assistant("yes"))]));
        // Without a teacher, the policy is asked in its place.
        assert_eq!(on_bench(MakeKind::Rows, false, function), Ok(Vec::new()));
        let unknown = async |bench: &Bench<'_>| {
            bench.ask("techer", Vec::new(), bench.sampling()).await?;
            Ok(())
        };
        assert!(on_bench(MakeKind::Rows, true, unknown).unwrap_err().contains("nobody is called `techer`"));
    }

    #[test]
    fn fresh_tasks_are_others_at_each_call_and_the_same_again() {
        let draw = || {
            on_bench(MakeKind::Tasks, false, async |bench: &Bench<'_>| {
                assert_ne!(bench.seed(0), bench.seed(1));
                for task in [bench.fresh(2)?, bench.fresh(1)?].concat() {
                    bench.emit(Made::Task(task))?;
                }
                Ok(())
            })
        };
        let made = draw().unwrap();
        assert_eq!(made.len(), 3);
        assert_ne!(made[0], made[2]);
        assert_eq!(draw(), Ok(made));
    }

    #[test]
    fn what_is_of_another_kind_or_teaches_nothing_is_refused() {
        let emit = |kind: MakeKind, made: &Made| {
            on_bench(kind, false, async |bench: &Bench<'_>| bench.emit(made.clone()))
        };
        let own = row(Message::assistant("yes"));
        assert_eq!(emit(MakeKind::Rows, &own), Ok(vec![own.clone()]));
        let other = emit(MakeKind::Tasks, &own).unwrap_err();
        assert!(other.contains("one of the rows") && other.contains("`make.kind` is \"tasks\""), "{other}");
        let empty = row(Message::user("and?"));
        assert!(emit(MakeKind::Rows, &empty).unwrap_err().contains("a row without an answer"));
        let (prompt, answer) = (vec![Message::user("?")], vec![Message::assistant("yes")]);
        let equal = Made::Pair { prompt, chosen: answer.clone(), rejected: answer };
        assert!(emit(MakeKind::Pairs, &equal).unwrap_err().contains("equal answers"));
    }
}
