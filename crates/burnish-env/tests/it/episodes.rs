//! Episodes and their records: replayed, continued from within, with tools and with others who are asked.
#![allow(clippy::unwrap_used, clippy::panic)]

use burnish_core::{
    Abilities, Answered, Ending, Episode, FunctionCall, Message, Node, NodeId, Piece, Policy, Repeating,
    Role, Sampled, Sampling, Source, StopReason, Task, TaskId, Told, ToolCall, ToolSpec, Trace, Turn, TurnId,
    TurnOutput, Validity, Verdict,
};
use burnish_env::rollout::{
    Overlong, POLICY, RolloutError, RolloutSpec, SeedPlace, Spawn, Start, play, play_with, replay,
};
use burnish_env::{Bound, EnvError, Environment, Generator, Question, Step, TaskSet};
use burnish_episode::{Cast, Outside, Simulated};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A till: `add` changes it, `read` reads it, `pay` is never done twice. An answer that is a question is passed on to
/// the user; an answer that says `done` ends the episode. The reward is what is in the till.
#[derive(Default)]
pub(crate) struct Till {
    /// Payments of all episodes.
    pub(crate) paid: Arc<AtomicUsize>,
    /// What `add` adds to its amount, to simulate a different till.
    pub(crate) more: i64,
    pub(crate) latency: Duration,
    pub(crate) is_slow: bool,
}

struct TillGame {
    till: Arc<AtomicUsize>,
    more: i64,
    latency: Duration,
    is_slow: bool,
    sum: i64,
    keys: Vec<String>,
}

impl Generator for Till {
    fn id(&self) -> &'static str {
        "till"
    }
    fn config(&self) -> Value {
        Value::Null
    }
    fn bounds(&self) -> Vec<Bound> {
        Vec::new()
    }
    fn tasks(&self, _: u64, _: usize) -> Result<TaskSet, EnvError> {
        Err(EnvError::Failed("not needed".into()))
    }
    fn environment(&self) -> Box<dyn Environment> {
        let Till { paid, more, latency, is_slow } = self;
        let till = Arc::clone(paid);
        Box::new(TillGame {
            till,
            more: *more,
            latency: *latency,
            is_slow: *is_slow,
            sum: 0,
            keys: Vec::new(),
        })
    }
    fn draw(&self, _: &Task, _: Option<&str>) -> String {
        String::new()
    }
}

impl Environment for TillGame {
    fn reset(&mut self, task: &Task, seed: u64) -> Result<Vec<Message>, EnvError> {
        (self.sum, self.keys) = (i64::from(seed.is_multiple_of(2)), Vec::new());
        Ok(task.prompt.clone())
    }
    fn tools(&self) -> Vec<ToolSpec> {
        let tool = |name: &str| ToolSpec {
            name: name.into(),
            description: String::new(),
            parameters: json!({"type": "object"}),
            more: Default::default(),
        };
        ["add", "read", "pay", "break"].map(tool).into()
    }
    fn repeating(&self, tool: &str) -> Option<Repeating> {
        match tool {
            "add" | "break" => Some(Repeating::Rebuilt),
            "read" => Some(Repeating::Repeatable),
            "pay" => Some(Repeating::Outside),
            _ => None,
        }
    }
    fn latency(&self, _: &FunctionCall) -> Duration {
        self.latency
    }
    fn is_slow(&self) -> bool {
        self.is_slow
    }
    fn call(&mut self, call: &FunctionCall, key: &str) -> Result<String, EnvError> {
        self.keys.push(key.to_owned());
        match call.name.as_str() {
            "add" => {
                self.sum += call.arguments["amount"].as_i64().unwrap_or(0) + self.more;
                Ok(format!("{}", self.sum))
            }
            "read" => Ok(format!("read {}", self.sum)),
            "pay" => Ok(format!("paid {}", self.till.fetch_add(1, Ordering::SeqCst))),
            _ => Err(EnvError::Failed("the till is broken".into())),
        }
    }
    fn step(&mut self, action: &Message) -> Result<Step, EnvError> {
        Ok(match action.content.strip_prefix("ask ") {
            Some(question) => {
                let messages = vec![Message::user(question)];
                Step::Ask(Question { who: "user".into(), messages, is_for_verdict: false })
            }
            None if action.content == "done" => Step::Done,
            None => Step::Continue(vec![Message::user(format!("{} so far", self.sum))]),
        })
    }
    fn hear(&mut self, said: &Message) -> Result<Step, EnvError> {
        Ok(match said.content.as_str() {
            "bye" => Step::Done,
            "what?" => Step::Ask(Question {
                who: "user".into(),
                messages: vec![Message::user("again")],
                is_for_verdict: false,
            }),
            said => Step::Continue(vec![Message::user(said)]),
        })
    }
    fn verify(&mut self) -> Result<Verdict, EnvError> {
        let mut verdict = Verdict::scored("sum", self.sum as f64, self.sum > 0);
        // A turn of the number that is above 1000 is rewarded.
        if self.sum >= 1000 {
            verdict.reward_turn((self.sum - 1000) as usize, "late", 1.0);
        }
        Ok(verdict)
    }
}

/// Answers by a function of the turn, and records one node of ids for the prompt and one for the answer.
struct Speaker<F> {
    answer: F,
    over: Vec<Answered>,
    turns: u64,
}

pub(crate) fn speaker(answer: impl FnMut(&Turn) -> Message) -> impl Policy {
    Speaker { answer, over: Vec::new(), turns: 0 }
}

impl<F: FnMut(&Turn) -> Message> Policy for Speaker<F> {
    fn abilities(&self) -> Abilities {
        Abilities::ALL
    }
    fn version(&self) -> u64 {
        0
    }
    fn submit(&mut self, mut turn: Turn) -> TurnId {
        let id = TurnId(self.turns);
        self.turns += 1;
        let message = (self.answer)(&turn);
        let node = |parent, ids: Vec<u32>, sampled: Option<Sampled>| Node {
            parent,
            text: String::new(),
            sources: vec![if sampled.is_some() { Source::Policy } else { Source::User }; ids.len()],
            ids,
            sampled,
        };
        let prompt = vec![turn.messages.len() as u32];
        // Already read, if the turn continues within another's.
        if turn.trace.head().is_none_or(|head| turn.trace.nodes()[head.0].ids != prompt) {
            turn.trace.push(node(turn.trace.head(), prompt, None)).unwrap();
        }
        for piece in turn.prefix {
            turn.trace.push(node(turn.trace.head(), piece.ids, piece.sampled)).unwrap();
        }
        let ids: Vec<u32> = (0..4).map(|at| (turn.seed >> (8 * at)) as u32 & 255).collect();
        let sampled = Sampled {
            model_logprobs: vec![-0.5; 4],
            sampled_logprobs: None,
            policy_version: 0,
            temperature: 1.0,
            stop: StopReason::EndToken,
            latents: Vec::new(),
        };
        turn.trace.push(node(turn.trace.head(), ids, Some(sampled))).unwrap();
        let result = Ok(TurnOutput::new(message, StopReason::EndToken));
        self.over.push(Answered { id, trace: turn.trace, result });
        id
    }
    fn poll(&mut self) -> Vec<Answered> {
        std::mem::take(&mut self.over)
    }
    fn wait(&mut self) -> Vec<Answered> {
        self.poll()
    }
    fn cancel(&mut self, _: TurnId) -> bool {
        false
    }
}

pub(crate) fn calls(calls: &[(&str, Value)]) -> Message {
    let call = |(name, arguments): &(&str, Value)| ToolCall {
        id: Some(format!("id-{name}")),
        function: FunctionCall { name: (*name).into(), arguments: arguments.clone() },
    };
    Message { tool_calls: calls.iter().map(call).collect(), ..Message::assistant("") }
}

pub(crate) fn task() -> Task {
    Task {
        id: TaskId("till/1".into()),
        environment: "till".into(),
        prompt: vec![Message::user("go")],
        truth: Value::Null,
        labels: BTreeMap::new(),
    }
}

const SEEDS: SeedPlace = SeedPlace { run: 3, stage: 0, step: 1, task_offset: 0 };

pub(crate) fn spawn(task: &Task, count: usize) -> Spawn<'_> {
    Spawn::of_tasks(std::slice::from_ref(task), count, &Sampling::at(1.0, 16), SEEDS).remove(0)
}

pub(crate) fn spec<'a>(till: &'a Till, spawns: &'a [Spawn<'a>]) -> RolloutSpec<'a> {
    RolloutSpec::new(till, spawns, 6, Overlong::Refuse)
}

/// Says what the script says at each turn, and `done` after its end.
pub(crate) fn scripted(script: &[Message]) -> impl Policy {
    speaker(move |turn: &Turn| {
        let said = turn.messages.iter().filter(|message| message.role == Role::Assistant).count();
        script.get(said).cloned().unwrap_or_else(|| Message::assistant("done"))
    })
}

fn played(till: &Till, script: &[Message]) -> Episode {
    let task = task();
    play(&mut scripted(script), &spec(till, &[spawn(&task, 1)])).unwrap().remove(0)
}

#[test]
fn calls_are_run_in_their_order_and_their_results_return_as_messages_of_tools() {
    let till = Till::default();
    let script = [
        calls(&[("add", json!({"amount": 5})), ("fly", json!({})), ("read", json!({}))]),
        Message::assistant("hm"),
        calls(&[("add", json!({"amount": 2}))]),
    ];
    let mut read = Vec::new();
    let task = task();
    let mut policy = scripted(&script);
    let mut listening = speaker(|turn: &Turn| {
        read = turn.messages.to_vec();
        let said = turn.messages.iter().filter(|message| message.role == Role::Assistant).count();
        script.get(said).cloned().unwrap_or_else(|| Message::assistant("done"))
    });
    let episode = play(&mut listening, &spec(&till, &[spawn(&task, 1)])).unwrap().remove(0);
    drop(listening);
    let start = read[2].content.parse::<i64>().unwrap() - 5;
    let said = |name: &str, said: String| Message {
        tool_call_id: Some(format!("id-{name}")),
        name: Some(name.into()),
        ..Message::new(Role::Tool, said)
    };
    assert_eq!(read[2], said("add", format!("{}", start + 5)));
    let unknown = "there is no tool `fly`; there are `add`, `read`, `pay`, `break`";
    assert_eq!(read[3], said("fly", unknown.into()));
    assert_eq!(read[4], said("read", format!("read {}", start + 5)));
    assert_eq!(read[6], Message::user(format!("{} so far", start + 5)));
    assert_eq!((episode.ending, episode.verdict.rewards["sum"]), (Ending::Completed, (start + 7) as f64));
    // An answer that only calls tools that are not run here is left to the environment.
    let foreign = [calls(&[("fly", json!({}))])];
    let episode = play(&mut scripted(&foreign), &spec(&till, &[spawn(&task, 1)])).unwrap().remove(0);
    assert_eq!(episode.turns(), 2);
    drop(policy.poll());
}

#[test]
fn a_played_episode_is_played_again_on_its_record_and_asks_nobody() {
    for is_slow in [false, true] {
        let till = Till { is_slow, ..Till::default() };
        let script = [calls(&[("add", json!({"amount": 5})), ("pay", json!({})), ("read", json!({}))])];
        let episode = played(&till, &script);
        assert_eq!(till.paid.load(Ordering::SeqCst), 1);
        let task = task();
        let spawns = [spawn(&task, 1)];
        let again = replay(&spec(&till, &spawns), &spawns[0], &episode).unwrap();
        assert_eq!(again, episode);
        assert_eq!(till.paid.load(Ordering::SeqCst), 1, "it is never done twice");
        // Through JSON, as in a journal.
        let kept: Episode = serde_json::from_str(&serde_json::to_string(&episode).unwrap()).unwrap();
        assert_eq!(replay(&spec(&till, &spawns), &spawns[0], &kept).unwrap(), episode);
    }
}

#[test]
fn what_is_rebuilt_must_answer_alike_and_what_may_not_be_repeated_must_have_ended() {
    let till = Till::default();
    let episode = played(&till, &[calls(&[("add", json!({"amount": 5})), ("pay", json!({}))])]);
    let task = task();
    let spawns = [spawn(&task, 1)];

    let other = Till { more: 1, ..Till::default() };
    let lost = replay(&spec(&other, &spawns), &spawns[0], &episode).unwrap();
    assert_eq!(lost.ending, Ending::Lost);
    let Validity::Unscored { reason } = &lost.verdict.validity else { panic!("{lost:?}") };
    assert!(
        reason.contains("the call of `add` was repeated") && reason.contains("a different result"),
        "{reason}"
    );

    let mut begun = episode.clone();
    let pay =
        begun.record.contacts.iter().position(|it| it.answer == Some(Told::Value(json!({"Ok": "paid 0"}))));
    begun.record.contacts.truncate(pay.unwrap() + 1);
    begun.record.contacts[pay.unwrap()].answer = None;
    let lost = replay(&spec(&till, &spawns), &spawns[0], &begun).unwrap();
    assert_eq!((lost.ending, till.paid.load(Ordering::SeqCst)), (Ending::Lost, 1));

    // The record of another task does not fit.
    let mut foreign = task.clone();
    foreign.id = TaskId("till/2".into());
    let spawns = [spawn(&foreign, 1)];
    let error = replay(&spec(&till, &spawns), &spawns[0], &episode).unwrap_err();
    assert!(matches!(&error, RolloutError::Record { .. }), "{error}");
    assert_eq!(
        error.to_string(),
        "task till/2, rollout 0: the record does not fit the episode: at 1, something else was asked there"
    );
}

#[test]
fn a_tool_that_fails_ends_its_own_episode() {
    for is_slow in [false, true] {
        let till = Till { is_slow, ..Till::default() };
        let episode = played(&till, &[calls(&[("break", json!({}))])]);
        assert_eq!(episode.ending, Ending::EnvironmentError);
        let reason = Validity::Unscored { reason: "the till is broken".into() };
        assert_eq!(episode.verdict.validity, reason);
    }
}

#[test]
fn only_turns_that_were_taken_are_rewarded() {
    let till = Till::default();
    // The till begins with 0 or 1, and the policy has two turns.
    let first = |amount: i64| played(&till, &[calls(&[("add", json!({"amount": amount}))])]);
    let begins = first(0).verdict.rewards["sum"] as i64;
    let rewarded = first(1001 - begins);
    assert!(
        rewarded.verdict.is_scored() && rewarded.verdict.turns[&1]["late"] == 1.0,
        "{:?}",
        rewarded.verdict
    );
    let beyond = first(1002 - begins).verdict;
    assert!(
        format!("{:?}", beyond.validity).contains("turn 2, counted from 0, of an episode of 2 turns"),
        "{beyond:?}"
    );
}

#[test]
fn another_policy_is_asked_and_keeps_a_trace_of_its_own() {
    let till = Till::default();
    let script = [Message::assistant("ask size?"), Message::assistant("ask anything else?")];
    let (mut policy, task) = (scripted(&script), task());
    let mut user = speaker(|turn: &Turn| {
        Message::assistant(match turn.messages.last().unwrap().content.as_str() {
            "size?" => "what?",
            "again" => "large",
            _ => "bye",
        })
    });
    let cast = Cast::default().with(POLICY, &mut policy).with("user", &mut user);
    let spawns = [spawn(&task, 1)];
    let spec = spec(&till, &spawns);
    let episode = play_with(cast, &mut Simulated::new(|_| Duration::ZERO), &spec).unwrap().remove(0);
    assert_eq!((episode.ending, episode.turns()), (Ending::Completed, 2));
    let nodes = |traces: &[Trace]| traces.iter().map(|trace| trace.nodes().len()).collect::<Vec<_>>();
    assert_eq!(
        (nodes(&episode.traces), nodes(&episode.partners)),
        (vec![4], vec![6]),
        "the policy took two turns and the user three"
    );
    assert_eq!(replay(&spec, &spawns[0], &episode).unwrap(), episode);
    // Nobody is there to be asked.
    let error = play(&mut scripted(&script), &spec).unwrap_err().to_string();
    assert!(error.contains("nobody answers as `user`"), "{error}");
}

#[test]
fn slow_tools_of_many_episodes_take_the_time_of_one() {
    let till = Till { latency: Duration::from_millis(500), ..Till::default() };
    let script: Vec<Message> = (0..4).map(|_| calls(&[("add", json!({"amount": 1}))])).collect();
    let task = task();
    let mut policy = scripted(&script);
    let mut outside = Simulated::new(|_| Duration::ZERO);
    let cast = Cast::default().with(POLICY, &mut policy);
    let episodes = play_with(cast, &mut outside, &spec(&till, &[spawn(&task, 512)])).unwrap();
    assert!(episodes.len() == 512 && episodes.iter().all(|episode| episode.turns() == 5));
    assert_eq!(outside.now(), Duration::from_secs(2));
}

/// The ids of the first trace up to its node `end`.
fn ids(trace: &Trace, end: usize) -> Vec<u32> {
    trace.path(NodeId(end)).iter().flat_map(|node| trace.nodes()[node.0].ids.clone()).collect()
}

proptest! {
    #[test]
    fn a_child_goes_on_from_within_its_parent_with_its_parents_ids(
        amounts in prop::collection::vec(0..9i64, 0..4), turn in 0usize..5, tokens in 0usize..5, payments in 0usize..2,
    ) {
        let till = Till::default();
        let script: Vec<Message> = amounts
            .iter()
            .map(|amount| match payments {
                0 => calls(&[("add", json!({"amount": amount}))]),
                _ => calls(&[("pay", json!({})), ("add", json!({"amount": amount}))]),
            })
            .collect();
        let parent = played(&till, &script);
        let paid = till.paid.load(Ordering::SeqCst);
        prop_assert_eq!(paid, payments * amounts.len());
        let turn = turn.min(parent.turns() - 1);
        let trace = &parent.traces[0];
        let (_, recorded) = parent.record.first_agents_turns().nth(turn).unwrap();
        let answer = &trace.nodes()[recorded.head.unwrap()];
        let cut = |own: &Sampled| Sampled { model_logprobs: own.model_logprobs[..tokens].to_vec(), ..own.clone() };
        let piece = Piece {
            ids: answer.ids[..tokens.min(4)].to_vec(),
            text: String::new(),
            sampled: answer.sampled.as_ref().filter(|_| tokens > 0).map(|own| match tokens {
                5.. => own.clone(),
                _ => cut(own),
            }),
        };
        let task = task();
        let mut child = spawn(&task, 2);
        child.start = Start::Within { episode: &parent, turn };
        child.prefix = if tokens > 0 { vec![piece] } else { Vec::new() };
        child.place.stage = 9;
        let children = play(&mut scripted(&script), &spec(&till, &[child])).unwrap();
        for child in &children {
            let (_, own) = child.record.first_agents_turns().nth(turn).unwrap();
            let read = ids(trace, answer.parent.unwrap().0);
            let said = ids(&child.traces[0], own.head.unwrap());
            prop_assert_eq!(&said[..read.len()], &read[..]);
            prop_assert_eq!(&said[read.len()..read.len() + tokens.min(4)], &answer.ids[..tokens.min(4)]);
            let branch = &child.traces[0].branches()[0];
            let spliced = read.len()..read.len() + tokens.min(4);
            prop_assert!(branch.sources[spliced].iter().all(|source| *source == Source::Policy));
            // The environment is where it was: it started alike and got the same inputs.
            prop_assert_eq!(&child.verdict, &parent.verdict);
            prop_assert_eq!(&child.answers, &parent.answers);
        }
        // Payments before the place are not made again; later ones are.
        let after = amounts.len() - turn.min(amounts.len());
        prop_assert_eq!(till.paid.load(Ordering::SeqCst) - paid, 2 * payments * after);
        if children[0].sampled_tokens() > 0 {
            prop_assert_ne!(&children[0].traces, &children[1].traces, "their seeds differ");
        }
    }
}
