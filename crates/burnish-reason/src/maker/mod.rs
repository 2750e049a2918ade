//! Makers: functions over tasks and their episodes that make rows, pairs, tasks, notes, a strategy or a configuration for
//! later runs.
//!
//! ```text
//! Task, its episodes ─> Maker ─> Made, Made, ...
//!                         │
//!                         └─ Bench: turns of the policy and of a teacher, episodes by a strategy, verdicts, further tasks, seeds
//! ```
//!
//! A [`Maker`] is an async function. It reaches the world only through its [`Bench`], has no clock and no state, and its random
//! numbers are those of [`Bench::seed`]. So it makes the same however many others run beside it. Unlike a
//! [`Strategy`](crate::Strategy), which answers without knowing what is right, a maker sees verdicts and true answers: what it
//! makes is learned from, and nothing that it asks is evaluated.

mod bench;
pub mod design;

use std::pin::Pin;

use burnish_core::knob::Knob;
use burnish_core::settings::SettingError;
use burnish_core::{Message, Note, Role, Task, ToolSpec};
use burnish_episode::ContactError;
use serde::{Deserialize, Serialize};

use crate::StrategyConfig;
use design::Configuration;

pub use bench::{Bench, Finished, Ledger, Shop, TEACHER, World};

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
    /// A strategy to answer by, with its settings.
    Strategy,
    /// Notes for programs to read: `about`, `text`.
    Memory,
    /// A configuration of the environment to play in.
    Config,
}

impl MakeKind {
    /// Its name in recipes.
    pub fn name(self) -> &'static str {
        match self {
            MakeKind::Rows => "rows",
            MakeKind::Pairs => "pairs",
            MakeKind::Tasks => "tasks",
            MakeKind::Strategy => "strategy",
            MakeKind::Memory => "notes",
            MakeKind::Config => "config",
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
    /// A strategy to answer by. A run makes one.
    Strategy(StrategyConfig),
    /// A note for a memory.
    Note(Note),
    /// A configuration of the environment to play in. A run makes one.
    Config(Box<Configuration>),
}

impl Made {
    /// Its kind.
    pub fn kind(&self) -> MakeKind {
        match self {
            Made::Row { .. } => MakeKind::Rows,
            Made::Pair { .. } => MakeKind::Pairs,
            Made::Task(_) => MakeKind::Tasks,
            Made::Strategy(_) => MakeKind::Strategy,
            Made::Note(_) => MakeKind::Memory,
            Made::Config(_) => MakeKind::Config,
        }
    }

    /// The reason why it is of no use, if it is not.
    fn fault(&self) -> Option<String> {
        let has_answer =
            |messages: &[Message]| messages.iter().any(|message| message.role == Role::Assistant);
        match self {
            Made::Row { messages, .. } if !has_answer(messages) => Some("a row without an answer".into()),
            Made::Pair { chosen, rejected, .. } if !(has_answer(chosen) && has_answer(rejected)) => {
                Some("a pair without two answers".into())
            }
            Made::Pair { chosen, rejected, .. } if chosen == rejected => {
                Some("a pair of equal answers".into())
            }
            Made::Strategy(strategy) => {
                let error = strategy.build().err()?;
                Some(format!("a strategy that can't be used: {error}"))
            }
            Made::Note(note) if note.about.trim().is_empty() || note.text.trim().is_empty() => {
                Some("a note that says nothing, or is about nothing".into())
            }
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
    /// It made something of no use.
    #[error("the program made {0}")]
    Faulty(String),
    /// A setting does not fit the task.
    #[error("make.config.{0}")]
    Setting(#[from] SettingError),
    /// The environment could not play, judge or draw tasks, or an answer could not be kept.
    #[error("{0}")]
    Environment(String),
}

/// An episode of a task, as far as makers need it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The policy's answers, turn by turn.
    pub answers: Vec<Message>,
    /// Did it succeed?
    pub success: bool,
    /// Its reward, with the weights of the recipe.
    pub reward: f64,
    /// Tokens that were generated in it, those of answers that were not chosen included.
    pub tokens: usize,
}

impl Outcome {
    /// The share of `episodes` that succeeded; 0 where there is none.
    pub fn success_rate(episodes: &[Outcome]) -> f64 {
        let successes = episodes.iter().filter(|episode| episode.success).count();
        successes as f64 / episodes.len().max(1) as f64
    }
}

/// A task that the run played.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Played {
    /// The task.
    pub task: Task,
    /// Its episodes that were judged, in the order in which they were played.
    pub episodes: Vec<Outcome>,
}

/// A running maker.
pub type Making<'a> = Pin<Box<dyn Future<Output = Result<(), MakerError>> + 'a>>;

/// Makes something of tasks and their episodes.
pub trait Maker: Send + Sync {
    /// The kinds that it can make, of which the recipe asks for one.
    fn kinds(&self) -> &'static [MakeKind];

    /// Does it run once, over all tasks ([`Bench::all`])? If not, it runs once for each.
    fn is_over_all(&self) -> bool {
        false
    }

    /// Of a maker of configurations: the keys of the environment's configuration that it may change; empty for all that the
    /// environment names.
    fn keys(&self) -> &[String] {
        &[]
    }

    /// Refuses keys with which it can't work, before the run begins.
    ///
    /// # Errors
    /// The setting that does not fit them.
    fn check_knobs(&self, _knobs: &[Knob]) -> Result<(), SettingError> {
        Ok(())
    }

    /// The function.
    fn make<'a>(&'a self, bench: &'a Bench<'a>) -> Making<'a>;
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::collections::BTreeMap;

    use burnish_core::rng::{Address, Purpose};
    use std::cell::RefCell;

    use burnish_core::{Sampling, Script, StopReason, TaskId, Turn, Verdict};
    use burnish_episode::{Ask, Cast, Handle, Known, RunError, Started, Threads, Waited, run_programs};
    use serde_json::{Value, json};

    use super::*;
    use crate::POLICY;

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

        /// The policy's answer to a question of the strategy's name, at an address of the task's name.
        fn play<'a>(
            &'a self,
            handle: &'a Handle,
            task: &'a Task,
            strategy: &'a StrategyConfig,
        ) -> Waited<'a, Result<Outcome, String>> {
            Box::pin(async move {
                let address = Address { task: task.id.0.len() as u64, ..handle.address() };
                let played = async |handle: Handle| {
                    let agent = handle.agent(&POLICY.into(), burnish_core::Trace::new());
                    let messages = vec![Message::user(&*strategy.strategy)].into();
                    let sampling = Sampling::greedy(4).into();
                    let (seed, prefix) = (handle.seed(&agent, 0), Vec::new());
                    let tools = std::sync::Arc::default();
                    handle.sample(&agent, Ask { messages, tools, prefix, sampling, seed }).await
                };
                let over = handle.episode(address, Known::default(), played).await;
                let said = over.map_err(|error| error.to_string())?.value;
                Ok(Outcome { answers: vec![said.message], success: true, reward: 1.0, tokens: 1 })
            })
        }
    }

    /// Keeps answers as lines of a file would.
    #[derive(Default)]
    struct Lines {
        told: RefCell<BTreeMap<(String, u64, String), Value>>,
        /// Most episodes that run at once; 0 stands for any number.
        within: usize,
    }

    impl Ledger for Lines {
        fn told(&self, function: &str, number: u64, question: &str) -> Option<Value> {
            self.told.borrow().get(&(function.to_owned(), number, question.to_owned())).cloned()
        }

        fn keep(&self, function: &str, number: u64, question: &str, answer: Value) -> Result<(), String> {
            self.told.borrow_mut().insert((function.to_owned(), number, question.to_owned()), answer);
            Ok(())
        }
    }

    /// What comes of a function on the bench of a task; the policy says what it is and how often it was asked, and the teacher
    /// `yes`.
    fn on_bench(
        kind: MakeKind,
        has_teacher: bool,
        function: impl AsyncFn(&Bench<'_>) -> Result<(), MakerError>,
    ) -> Result<Vec<Made>, String> {
        on_bench_with(&Lines::default(), kind, has_teacher, function).map(|(finished, _)| finished.made)
    }

    /// As [`on_bench`], with what is left of an earlier try; also returns how often the policy was asked.
    fn on_bench_with(
        lines: &Lines,
        kind: MakeKind,
        has_teacher: bool,
        function: impl AsyncFn(&Bench<'_>) -> Result<(), MakerError>,
    ) -> Result<(Finished, usize), String> {
        let sampling = Sampling::greedy(4);
        let world = Names;
        let shop =
            Shop { world: &world, ledger: lines, kind, sampling: &sampling, has_teacher, memory: None };
        let outcome = |success| Outcome { answers: Vec::new(), success, reward: 1.0, tokens: 2 };
        let own = [Played { task: task("own"), episodes: [false, true].map(outcome).into() }];
        let address = Address { task: 3, ..Address::new(7, Purpose::Perturb) };
        let started = Started::new(address, Known::default(), async |handle| {
            let bench = Bench::new(handle, "name", &own, shop);
            function(&bench).await.map(|()| bench.finish())
        });
        let mut asked = 0;
        let mut policy = Script::new(|turn: &Turn| {
            asked += 1;
            Ok((format!("policy {}", turn.seed), StopReason::EndToken))
        });
        let mut teacher = Script::new(|_: &Turn| Ok(("yes".to_owned(), StopReason::EndToken)));
        let cast = Cast::default().with(POLICY, &mut policy).with(TEACHER, &mut teacher);
        let within = if lines.within == 0 { usize::MAX } else { lines.within };
        let over: Result<_, RunError<MakerError>> =
            run_programs(1, within, vec![started], cast, &mut Threads::default());
        drop(policy);
        let over = over.map_err(|error| error.to_string())?.remove(0);
        assert!(over.record.contacts.is_empty() && over.traces.is_empty(), "the ledger has what was told");
        Ok((over.value, asked))
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
    fn what_was_told_before_is_not_asked_again_and_leaves_later_seeds_alone() {
        let own = ["a", "bb", "ccc"].map(task);
        let function = async |bench: &Bench<'_>| {
            let first = bench.ask(POLICY, vec![Message::user("a")], bench.sampling()).await?;
            let played = bench.play(&StrategyConfig::new("majority"), &own.each_ref()).await?;
            let last = bench.ask(POLICY, vec![Message::user("b")], bench.sampling()).await?;
            let said = played.into_iter().flat_map(|played| played.answers).chain([first, last]);
            let said: Vec<String> = said.map(|message| message.content).collect();
            let different: std::collections::BTreeSet<&String> = said.iter().collect();
            assert_eq!(different.len(), said.len(), "each has a seed of its own");
            bench.report(json!(said));
            Ok(())
        };
        let lines = Lines { within: 2, ..Lines::default() };
        let (whole, asked) = on_bench_with(&lines, MakeKind::Rows, false, function).unwrap();
        assert_eq!((asked, lines.told.borrow().len()), (5, 5), "each episode is kept by itself");
        let wide = Lines::default();
        assert_eq!(on_bench_with(&wide, MakeKind::Rows, false, function).unwrap(), (whole.clone(), 5));
        assert_eq!(*wide.told.borrow(), *lines.told.borrow(), "however many are played at once");
        // Everything is known; then all but the first answer; then nothing, since another question was asked there.
        assert_eq!(on_bench_with(&lines, MakeKind::Rows, false, function).unwrap(), (whole.clone(), 0));
        lines.told.borrow_mut().retain(|(_, number, _), _| *number == 0);
        assert_eq!(on_bench_with(&lines, MakeKind::Rows, false, function).unwrap(), (whole.clone(), 4));
        let known = std::mem::take(&mut *lines.told.borrow_mut());
        let moved = known
            .into_iter()
            .map(|((name, number, question), answer)| ((name, number + (1 << 32), question), answer));
        lines.told.borrow_mut().extend(moved);
        assert_eq!(on_bench_with(&lines, MakeKind::Rows, false, function).unwrap(), (whole, 5));
    }

    /// A note of each task.
    struct Own(Vec<Note>);

    impl burnish_core::Memory for Own {
        fn notes(&self) -> &[Note] {
            &self.0
        }

        fn recall(&self, _: &str, count: usize, except: Option<&TaskId>) -> Vec<Note> {
            self.0.iter().filter(|note| note.task.as_ref() != except).take(count).cloned().collect()
        }
    }

    #[test]
    fn a_function_over_one_task_recalls_no_note_of_it() {
        let note = |id: &str| Note { about: "a".into(), text: id.into(), task: Some(TaskId(id.into())) };
        let memory = Own(vec![note("own"), note("other")]);
        let (sampling, lines) = (Sampling::greedy(4), Lines::default());
        let shop = Shop {
            world: &Names,
            ledger: &lines,
            kind: MakeKind::Memory,
            sampling: &sampling,
            has_teacher: false,
            memory: Some(&memory),
        };
        let recalled = |ids: &[&str]| -> Vec<String> {
            let played: Vec<Played> =
                ids.iter().map(|id| Played { task: task(id), episodes: Vec::new() }).collect();
            let address = Address::new(7, Purpose::Perturb);
            let started = Started::new(address, Known::default(), async |handle| {
                let bench = Bench::new(handle, "name", &played, shop);
                assert!(bench.has_memory() && bench.notes().len() == 2);
                Ok::<_, MakerError>(bench.recall("a", 9).into_iter().map(|note| note.text).collect())
            });
            run_programs(1, 1, vec![started], Cast::default(), &mut Threads::default())
                .unwrap()
                .remove(0)
                .value
        };
        assert_eq!(recalled(&["own"]), ["other"]);
        assert_eq!(recalled(&["own", "other"]), ["own", "other"]);
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
        let unknown = Made::Strategy(StrategyConfig::new("majorty"));
        assert!(emit(MakeKind::Strategy, &unknown).unwrap_err().contains("did you mean `majority`"));
    }
}
