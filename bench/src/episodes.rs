//! Episodes of several turns with slow tools: side by side, in lock-step, and sampling alone; and what an episode holds
//! that waits.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use burnish_core::{
    Abilities, Answered, Episode, FunctionCall, Message, Policy, Repeating, Role, Sampling, Script,
    StopReason, Task, TaskId, ToolCall, ToolSpec, Trace, Turn, TurnId, TurnOutput, Verdict, answer_all,
};
use burnish_engine::{Limits, LocalPolicy};
use burnish_env::rollout::{self, Overlong, POLICY, RolloutSpec, SeedPlace, Spawn};
use burnish_env::{Bound, EnvError, Environment, Generator, Step, TaskSet};
use burnish_episode::{Cast, Done as JobDone, Job, JobId, Outside, Simulated};
use burnish_model::Trains;
use clap::Args;
use serde_json::{Value, json};

use crate::{Done, policy};

/// What is played.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A model directory of `bench/peers/make_model.py`.
    model: PathBuf,
    /// Episodes at once.
    #[arg(long, default_value_t = 512)]
    episodes: usize,
    /// Turns of an episode; all but the last call the tool.
    #[arg(long, default_value_t = 4)]
    turns: usize,
    /// Tokens of a turn.
    #[arg(long, default_value_t = 32)]
    new: usize,
    /// How long a tool takes.
    #[arg(long, default_value_t = 500)]
    latency_ms: u64,
    /// Sequences that are sampled at once.
    #[arg(long, default_value_t = 128)]
    batch: usize,
    /// Episodes that wait while their memory is measured; 0 leaves it out.
    #[arg(long, default_value_t = 20_000)]
    waiting: usize,
}

/// Prints one line: seconds of each way, tokens a second, and bytes of an episode that waits.
pub(crate) fn run(arguments: &Arguments) -> Done {
    let Arguments { episodes, turns, new, latency_ms, batch, waiting, .. } = *arguments;
    let model = Arc::new(policy::load(&arguments.model, false, Trains::Nothing)?);
    let chat = Arc::new(policy::plain_chat(&arguments.model)?);
    let limits = Limits { batch_max: batch, ..Limits::default() };
    let local = || LocalPolicy::new(&model, &chat, 0).with_limits(limits.clone());
    let sampling = Sampling { ignore_eos: true, ..Sampling::at(1.0, new) };
    let tasks = [task()];
    let spawns = Spawn::of_tasks(&tasks, episodes, &sampling, SEEDS);
    let latency = Duration::from_millis(latency_ms);

    let side_by_side = |latency: Duration| -> Done<(f64, Vec<Episode>)> {
        let ticking = Ticking { turns, latency };
        let spec = spec(&ticking, &spawns, turns);
        let mut policy = Calling { policy: local(), turns };
        let start = Instant::now();
        let played = rollout::play(&mut policy, &spec)?;
        Ok((start.elapsed().as_secs_f64(), played))
    };
    // The first pass has memory to get from the system.
    drop(side_by_side(Duration::ZERO)?);
    let (sampling_seconds, alone) = side_by_side(Duration::ZERO)?;
    let (open_seconds, open) = side_by_side(latency)?;
    let is_same = alone.iter().zip(&open).all(|(one, other)| one.traces == other.traces);
    let tokens: usize = open.iter().map(Episode::sampled_tokens).sum();
    if tokens != episodes * turns * new {
        return Err(
            format!("{tokens} tokens were sampled in {episodes} episodes of {turns} turns of {new}").into()
        );
    }
    drop((alone, open));
    let lockstep_seconds = lockstep(&mut Calling { policy: local(), turns }, &spawns, turns, latency);
    let tools_seconds = (turns - 1) as f64 * latency.as_secs_f64();
    let waiting_bytes = (waiting > 0).then(|| bytes_of_waiting(waiting)).transpose()?;
    let longer = sampling_seconds.max(tools_seconds);
    println!(
        "{}",
        json!({
            "open_seconds": open_seconds,
            "sampling_seconds": sampling_seconds,
            "tools_seconds": tools_seconds,
            "lockstep_seconds": lockstep_seconds,
            "open_over_longer": open_seconds / longer,
            "lockstep_over_longer": lockstep_seconds / longer,
            "tokens_per_second": tokens as f64 / open_seconds,
            "tokens_per_second_lockstep": tokens as f64 / lockstep_seconds,
            "traces_are_the_same": is_same,
            "waiting_episode_bytes": waiting_bytes,
        })
    );
    Ok(())
}

const SEEDS: SeedPlace = SeedPlace { run: 1, stage: 0, step: 0, task_offset: 0 };

fn spec<'a>(ticking: &'a Ticking, spawns: &'a [Spawn<'a>], turns: usize) -> RolloutSpec<'a> {
    RolloutSpec::new(ticking, spawns, turns + 1, Overlong::Refuse)
}

fn task() -> Task {
    Task {
        id: TaskId("ticking/0".into()),
        environment: "ticking".into(),
        prompt: vec![Message::user("tick until the end, and say what you hear: ".repeat(2))],
        truth: Value::Null,
        labels: Default::default(),
    }
}

/// All turns, then all tools, as many times as an episode has turns: everybody waits for the slowest.
fn lockstep(policy: &mut dyn Policy, spawns: &[Spawn<'_>], turns: usize, latency: Duration) -> f64 {
    let start = Instant::now();
    let mut episodes: Vec<(Trace, Vec<Message>)> = spawns
        .iter()
        .flat_map(|spawn| (0..spawn.count).map(|_| (Trace::new(), spawn.task.prompt.clone())))
        .collect();
    for turn in 0..turns {
        let asked = episodes.iter_mut().enumerate().map(|(at, (trace, messages))| Turn {
            trace: std::mem::take(trace),
            messages: Arc::new(messages.clone()),
            tools: Arc::new(tools()),
            prefix: Vec::new(),
            sampling: Arc::clone(&spawns[0].sampling),
            seed: (turn * spawns[0].count + at) as u64,
        });
        let asked: Vec<Turn> = asked.collect();
        let answers = answer_all(policy, asked);
        for ((trace, messages), (grown, output)) in episodes.iter_mut().zip(answers) {
            *trace = grown;
            messages.extend(output.ok().map(|output| output.message));
            messages.push(Message::new(Role::Tool, "tick"));
        }
        if turn + 1 < turns {
            std::thread::sleep(latency);
        }
    }
    start.elapsed().as_secs_f64()
}

/// What an episode holds while it waits for its tool: the growth of the process, shared out.
fn bytes_of_waiting(episodes: usize) -> Done<f64> {
    let tasks = [task()];
    let spawns = Spawn::of_tasks(&tasks, episodes, &Sampling::at(1.0, 1), SEEDS);
    let ticking = Ticking { turns: 2, latency: Duration::from_secs(1) };
    let script = Script::new(|_: &Turn| Ok(("now".to_owned(), StopReason::EndToken)));
    let mut policy = Calling { policy: script, turns: 2 };
    let mut outside = Watched { inner: Simulated::new(|_| Duration::ZERO), resident: None };
    let before = resident()?;
    let cast = Cast::default().with(POLICY, &mut policy);
    rollout::play_with(cast, &mut outside, &spec(&ticking, &spawns, 2))?;
    let most = outside.resident.ok_or("nobody waited")?;
    Ok((most as f64 - before as f64) / episodes as f64)
}

/// Bytes of memory that the process holds.
fn resident() -> Done<u64> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = text.split(' ').nth(1).ok_or("/proc/self/statm has no second number")?.parse()?;
    Ok(4096 * pages)
}

/// Notes the memory when everybody waits for the first time.
struct Watched<O> {
    inner: O,
    resident: Option<u64>,
}

impl<O: Outside> Outside for Watched<O> {
    fn now(&self) -> Duration {
        self.inner.now()
    }

    fn begin(&mut self, id: JobId, job: Job) {
        self.inner.begin(id, job);
    }

    fn over(&mut self, until: Option<Duration>) -> Vec<(JobId, JobDone)> {
        if until.is_some_and(|until| until > self.inner.now()) && self.resident.is_none() {
            self.resident = resident().ok();
        }
        self.inner.over(until)
    }
}

/// Calls the tool at every turn but the last.
struct Calling<P> {
    policy: P,
    turns: usize,
}

impl<P: Policy> Calling<P> {
    fn with_calls(&self, mut answered: Vec<Answered>) -> Vec<Answered> {
        for Answered { trace, result, .. } in &mut answered {
            let turns = trace.nodes().iter().filter(|node| node.sampled.is_some()).count();
            if let Ok(TurnOutput { message, stop, .. }) = result.as_mut()
                && turns < self.turns
            {
                let function = FunctionCall { name: "tick".into(), arguments: json!({}) };
                message.tool_calls = vec![ToolCall { id: None, function }];
                // Answers have a length and no end of their own, and what is cut off calls nothing.
                *stop = StopReason::EndToken;
            }
        }
        answered
    }
}

impl<P: Policy> Policy for Calling<P> {
    fn abilities(&self) -> Abilities {
        self.policy.abilities()
    }

    fn version(&self) -> u64 {
        self.policy.version()
    }

    fn submit(&mut self, turn: Turn) -> TurnId {
        self.policy.submit(turn)
    }

    fn poll(&mut self) -> Vec<Answered> {
        let answered = self.policy.poll();
        self.with_calls(answered)
    }

    fn wait(&mut self) -> Vec<Answered> {
        let answered = self.policy.wait();
        self.with_calls(answered)
    }

    fn cancel(&mut self, id: TurnId) -> bool {
        self.policy.cancel(id)
    }
}

fn tools() -> Vec<ToolSpec> {
    vec![ToolSpec {
        name: "tick".into(),
        description: String::new(),
        parameters: json!({ "type": "object" }),
        more: Default::default(),
    }]
}

/// Has a tool that takes its time.
struct Ticking {
    turns: usize,
    latency: Duration,
}

impl Generator for Ticking {
    fn id(&self) -> &'static str {
        "ticking"
    }

    fn config(&self) -> Value {
        json!({ "turns": self.turns })
    }

    fn bounds(&self) -> Vec<Bound> {
        Vec::new()
    }

    fn tasks(&self, _seed: u64, _count: usize) -> Result<TaskSet, EnvError> {
        Ok(TaskSet { tasks: vec![task()], cells: Vec::new() })
    }

    fn environment(&self) -> Box<dyn Environment> {
        Box::new(Clock { latency: self.latency })
    }

    fn draw(&self, _task: &Task, answer: Option<&str>) -> String {
        answer.unwrap_or_default().into()
    }
}

struct Clock {
    latency: Duration,
}

impl Environment for Clock {
    fn reset(&mut self, task: &Task, _seed: u64) -> Result<Vec<Message>, EnvError> {
        Ok(task.prompt.clone())
    }

    fn tools(&self) -> Vec<ToolSpec> {
        tools()
    }

    fn repeating(&self, _tool: &str) -> Option<Repeating> {
        Some(Repeating::Repeatable)
    }

    fn latency(&self, _call: &FunctionCall) -> Duration {
        self.latency
    }

    fn call(&mut self, _call: &FunctionCall, _key: &str) -> Result<String, EnvError> {
        Ok("tick".to_owned())
    }

    fn step(&mut self, _action: &Message) -> Result<Step, EnvError> {
        Ok(Step::Done)
    }

    fn verify(&mut self) -> Result<Verdict, EnvError> {
        Ok(Verdict::scored("ticks", 1.0, true))
    }
}
