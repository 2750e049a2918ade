//! Programs that ask the policy at an address by themselves.

use crate::commanded;
use burnish_core::{Ending, Episode, Message, Policy, PolicyError, Role, Sampling, Script, StopReason, Turn};
use burnish_env::rollout::{RolloutSpec, SeedPlace, Spawn, Start, play, replay};
use burnish_env::{Generator, build};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::rc::Rc;

use crate::commanded::{Fixture, answers_by, reason, says};

/// An agent whose settings say what it does.
const PROGRAM: &str = r##"
import json, os, sys, threading, time, urllib.error, urllib.request
from environment import Agent, serve

class Tested(Agent):
    def __init__(self, does="guess", repeating="rebuilt"):
        self.does, self.repeating = does, repeating

    def task(self, seed):
        return {"prompt": f"Task {seed % 7}", "data": seed % 7, "name": str(seed)}

    def run(self, task, model, seed):
        return getattr(self, self.does)(task, model)

    def guess(self, task, model):
        """Three guesses, each answered; the second conversation has tools."""
        said, guesses = [{"role": "user", "content": f"Guess {self.data}."}], []
        tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
        while len(guesses) < 3:
            more = {"tools": tools, "max_tokens": 5, "stop": ["."], "temperature": 0.3} if guesses else {}
            answer = model.chat(said, **more)
            guesses.append(answer["content"])
            said += [answer, {"role": "user", "content": "Again."}]
        with open("played", "a") as file:
            file.write(json.dumps(guesses) + "\n")
        return {"rewards": {"last": float(len(guesses[-1]))}, "success": guesses[-1] == "c",
                "metrics": {"guesses": len(guesses)}, "flags": {"short": True}, "feedback": "played"}

    def branches(self, task, model):
        """Asks in two conversations in turn."""
        first, second = [{"role": "user", "content": "A"}], [{"role": "user", "content": "B"}]
        for said in (first, second, first, second):
            said += [model.chat(said), {"role": "user", "content": "and?"}]
        return 1.0

    def calls(self, task, model):
        said = [{"role": "user", "content": "go"}]
        answer = model.chat(said, tools=[{"type": "function", "function": {"name": "look"}}])
        call = answer["tool_calls"][0]
        said += [answer, {"role": "tool", "tool_call_id": call["id"], "content": "a " + json.loads(call["function"]["arguments"])["at"]}]
        return {"reward": 1.0, "feedback": model.chat(said)["content"]}

    def together(self, task, model):
        """Asks twice at the same time."""
        answers = []
        ask = lambda text: answers.append(model.chat(text)["content"])
        threads = [threading.Thread(target=ask, args=(text,)) for text in ("A", "B")]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        return {"reward": 1.0, "feedback": " ".join(sorted(answers))}

    def nothing(self, task, model):
        return 1.0

    def crash(self, task, model):
        model.chat("hi")
        print("the end is near")
        os._exit(3)

    def fail(self, task, model):
        model.chat("hi")
        raise ValueError("no luck")

    def hang(self, task, model):
        model.chat("hi")
        time.sleep(60)

    def flood(self, task, model):
        model.chat("hi")
        return {"reward": 1.0, "feedback": "x" * 100000}

    def late(self, task, model):
        """Asks at the address of the episode before, which is over."""
        before, self.before = getattr(self, "before", None), (model.base_url, model.api_key)
        model.chat("hi")
        if before is None:
            return 1.0
        head = {"Content-Type": "application/json", "Authorization": "Bearer " + before[1]}
        body = json.dumps({"model": model.name, "messages": [{"role": "user", "content": "hi"}]}).encode()
        try:
            urllib.request.urlopen(urllib.request.Request(before[0] + "/chat/completions", body, head))
        except urllib.error.HTTPError as error:
            return {"reward": 0.5, "feedback": json.load(error)["error"]["code"]}

    def forever(self, task, model):
        """Asks until it is refused, and says why."""
        count = 0
        try:
            while True:
                model.chat("more")
                count += 1
        except urllib.error.HTTPError as error:
            said = json.load(error)["error"]
        return {"reward": float(count), "feedback": said["code"]}

    def stubborn(self, task, model):
        while True:
            try:
                model.chat("more")
            except urllib.error.HTTPError:
                pass

    def refused(self, task, model):
        codes = []
        for fields in ({"n": 2}, {"logprobs": True}, {"temprature": 1}):
            try:
                model.chat("hi", **fields)
            except urllib.error.HTTPError as error:
                codes.append(json.load(error)["error"]["param"])
        model.chat("hi")
        return {"reward": 1.0, "feedback": " ".join(codes)}

    def malformed(self, task, model):
        while True:
            try:
                model.chat([{"role": "robot"}])
            except urllib.error.HTTPError:
                pass

serve(Tested)
"##;

fn generator(fixture: &Fixture, settings: Value, keys: Value) -> Box<dyn Generator> {
    let mut config = json!({
        "command": ["python3", "env.py"], "base_dir": fixture.folder.path(), "settings": settings, "workers": 3,
    });
    config.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    build("agent", &config).unwrap()
}

fn spec<'a>(generator: &'a dyn Generator, spawns: &'a [Spawn<'a>]) -> RolloutSpec<'a> {
    RolloutSpec { turns_max: 4, ..commanded::spec(generator, spawns) }
}

/// Plays two tasks, each once, with the defaults of `keys`.
fn episodes(fixture: &Fixture, does: &str, keys: Value, policy: &mut dyn Policy) -> Vec<Episode> {
    let generator = generator(fixture, json!({"does": does}), keys);
    let tasks = generator.tasks(1, 2).unwrap().tasks;
    let seeds = SeedPlace { run: 1, stage: 0, step: 0, task_offset: 0 };
    let spawns = Spawn::of_tasks(&tasks, 1, &Sampling::at(1.0, 8), seeds);
    play(policy, &spec(&*generator, &spawns)).unwrap()
}

/// Plays, and returns why the first episode was not judged.
fn failure(fixture: &Fixture, does: &str, keys: Value) -> String {
    let episodes = episodes(fixture, does, keys, &mut says(&["a"]));
    assert_eq!(episodes[0].ending, Ending::EnvironmentError, "{does}: {:?}", episodes[0].verdict);
    reason(&episodes[0]).to_owned()
}

#[test]
fn requests_are_turns_and_the_programs_verdict_is_that_of_the_episode() {
    let Some(fixture) = Fixture::new(PROGRAM) else { return };
    let asked = Rc::new(RefCell::new(Vec::new()));
    let log = Rc::clone(&asked);
    let mut policy = answers_by(move |turn: &Turn| {
        log.borrow_mut().push((turn.messages.clone(), turn.tools.len(), turn.sampling.clone()));
        let said = turn.messages.iter().filter(|message| message.role == Role::Assistant).count();
        Message::assistant(["a", "bb", "c"][said])
    });
    let episodes = episodes(&fixture, "guess", json!({}), &mut policy);
    for episode in &episodes {
        let verdict = &episode.verdict;
        assert_eq!((reason(episode), episode.ending), ("", Ending::Completed));
        assert_eq!((verdict.rewards["last"], verdict.success, verdict.flags["short"]), (1.0, true, true));
        assert_eq!((verdict.metrics["guesses"], verdict.feedback.as_deref()), (3.0, Some("played")));
        let said: Vec<&str> = episode.answers.iter().map(|answer| &*answer.content).collect();
        assert_eq!(said, ["a", "bb", "c"]);
    }
    assert_eq!(fixture.written("played"), [r#"["a", "bb", "c"]"#; 2]);
    let asked = asked.borrow();
    let (messages, tools, sampling) = asked.iter().find(|(messages, ..)| messages.len() == 3).unwrap();
    assert_eq!(messages[1..], [Message::assistant("a"), Message::user("Again.")]);
    // The program may shorten an answer; how it is drawn is the recipe's decision.
    assert_eq!(*tools, 1);
    assert_eq!(**sampling, Sampling { stop: vec![".".into()], tokens_max: 5, ..Sampling::at(1.0, 8) });
    let (_, tools, sampling) = asked.iter().find(|(messages, ..)| messages.len() == 1).unwrap();
    assert_eq!((*tools, &**sampling), (0, &Sampling::at(1.0, 8)));
}

#[test]
fn an_episode_is_played_again_on_its_record_if_the_program_allows_it() {
    let Some(fixture) = Fixture::new(PROGRAM) else { return };
    for (repeating, plays) in [("rebuilt", 2), ("outside", 1)] {
        let _ = std::fs::remove_file(fixture.folder.path().join("played"));
        let generator = generator(&fixture, json!({"repeating": repeating}), json!({}));
        let tasks = generator.tasks(1, 1).unwrap().tasks;
        let seeds = SeedPlace { run: 1, stage: 0, step: 0, task_offset: 0 };
        let mut spawns = Spawn::of_tasks(&tasks, 1, &Sampling::at(1.0, 8), seeds);
        let episode = play(&mut says(&["a", "bb", "c"]), &spec(&*generator, &spawns)).unwrap().remove(0);
        assert_eq!(reason(&episode), "");
        assert_eq!(replay(&spec(&*generator, &spawns), &spawns[0], &episode).unwrap(), episode);
        assert_eq!(fixture.written("played").len(), plays, "{repeating}");
        // An episode that starts within this one, at its second turn.
        spawns[0].start = Start::Within { episode: &episode, turn: 1 };
        let within = play(&mut says(&["x", "y", "z"]), &spec(&*generator, &spawns)).unwrap().remove(0);
        match repeating {
            "rebuilt" => {
                let said: Vec<&str> = within.answers.iter().map(|answer| &*answer.content).collect();
                assert_eq!(said, ["a", "y", "z"]);
            }
            _ => assert_eq!(within.ending, Ending::Lost),
        }
        // The program opens the conversation.
        spawns[0].start = Start::Messages(vec![Message::user("hi")]);
        let other = play(&mut says(&["a"]), &spec(&*generator, &spawns)).unwrap().remove(0);
        assert!(reason(&other).contains("can't start with other messages"), "{:?}", other.verdict);
    }
}

#[test]
fn calls_of_tools_and_their_results_go_through_the_program() {
    let Some(fixture) = Fixture::new(PROGRAM) else { return };
    let asked = Rc::new(RefCell::new(Vec::new()));
    let log = Rc::clone(&asked);
    let mut policy = answers_by(move |turn: &Turn| {
        log.borrow_mut().push(turn.messages.clone());
        if turn.messages.len() == 1 {
            let function =
                burnish_core::FunctionCall { name: "look".into(), arguments: json!({"at": "door"}) };
            let tool_calls = vec![burnish_core::ToolCall { id: None, function }];
            return Message { tool_calls, ..Message::assistant("") };
        }
        Message::assistant("seen")
    });
    let episodes = episodes(&fixture, "calls", json!({}), &mut policy);
    assert_eq!((reason(&episodes[0]), episodes[0].verdict.feedback.as_deref()), ("", Some("seen")));
    let asked = asked.borrow();
    let messages = asked.iter().find(|messages| messages.len() == 3).unwrap();
    // As it was said, so that the trace goes on: without the ids that the wire needs.
    assert_eq!(messages[1], episodes[0].answers[0]);
    let result = Message { name: Some("look".into()), ..Message::new(Role::Tool, "a door") };
    assert_eq!(messages[2], result);
}

#[test]
fn requests_at_the_same_time_are_answered_one_after_the_other() {
    let Some(fixture) = Fixture::new(PROGRAM) else { return };
    let mut policy = answers_by(|turn: &Turn| Message::assistant(turn.messages[0].content.to_lowercase()));
    for episode in episodes(&fixture, "together", json!({}), &mut policy) {
        assert_eq!((reason(&episode), episode.verdict.feedback.as_deref()), ("", Some("a b")));
        assert_eq!(episode.answers.len(), 2);
    }
}

#[test]
fn a_program_that_asks_too_often_is_told_and_may_come_to_its_end() {
    let Some(fixture) = Fixture::new(PROGRAM) else { return };
    for episode in episodes(&fixture, "forever", json!({}), &mut says(&["a"])) {
        assert_eq!((reason(&episode), episode.ending), ("", Ending::TurnsMax));
        assert_eq!((episode.verdict.rewards["reward"], episode.answers.len()), (4.0, 4));
        assert_eq!(episode.verdict.feedback.as_deref(), Some("episode_over"));
    }
    let episodes = episodes(&fixture, "stubborn", json!({}), &mut says(&["a"]));
    assert!(reason(&episodes[0]).contains("goes on asking after the last turn"), "{:?}", episodes[0].verdict);
}

#[test]
fn what_can_not_be_answered_is_refused_and_the_episode_goes_on() {
    let Some(fixture) = Fixture::new(PROGRAM) else { return };
    let episodes = episodes(&fixture, "refused", json!({}), &mut says(&["a"]));
    assert_eq!(episodes[0].verdict.feedback.as_deref(), Some("n logprobs temprature"));
    assert_eq!(episodes[0].answers.len(), 1);
    let reason = failure(&fixture, "malformed", json!({"timeout_seconds": 3}));
    assert!(reason.contains("did nothing within 3 s"), "{reason}");
    // What the policy itself can't do ends the episode, not the run.
    let refuse = |_: &Turn| Err(PolicyError::Render("no tools here".into()));
    let episodes = self::episodes(&fixture, "guess", json!({}), &mut Script::new(refuse));
    assert!(commanded::reason(&episodes[0]).contains("asked for what can't be answered"));
    let long = |_: &Turn| Err(PolicyError::PromptTooLong { tokens: 9, tokens_max: 5 });
    let episodes = self::episodes(&fixture, "guess", json!({}), &mut Script::new(long));
    assert_eq!(episodes[0].ending, Ending::ContextOverflow);
    // A cut answer is the program's affair.
    let cut = |_: &Turn| Ok(("c".to_owned(), StopReason::TokensMax));
    let episodes = self::episodes(&fixture, "guess", json!({}), &mut Script::new(cut));
    assert_eq!((episodes[0].ending, episodes[0].answers.len()), (Ending::Truncated, 3));
    assert!(episodes[0].verdict.success);
}

#[test]
fn a_failure_costs_its_episode_alone() {
    let Some(fixture) = Fixture::new(PROGRAM) else { return };
    let quick = || json!({"timeout_seconds": 3});
    for (does, expected) in [
        ("nothing", "ended without having asked the policy"),
        ("crash", "ended without an answer (asked to `run`); its stderr ends:\nthe end is near"),
        ("fail", "the environment says: ValueError: no luck"),
        ("hang", "did nothing within 3 s; raise timeout_seconds"),
    ] {
        let reason = failure(&fixture, does, quick());
        assert!(reason.contains(expected), "{does}: {reason}");
    }
    let reason = failure(&fixture, "flood", json!({"line_bytes": 4096}));
    assert!(reason.contains("4096") && reason.contains("line"), "{reason}");
}

#[test]
fn the_address_of_an_episode_ends_with_it() {
    let Some(fixture) = Fixture::new(PROGRAM) else { return };
    let episodes = episodes(&fixture, "late", json!({"workers": 1}), &mut says(&["a"]));
    let said: Vec<Option<&str>> =
        episodes.iter().map(|episode| episode.verdict.feedback.as_deref()).collect();
    assert_eq!(said, [None, Some("no_episode")]);
}

#[test]
fn what_is_wrong_is_said_before_anything_is_played() {
    let Some(fixture) = Fixture::new("import sys; sys.exit('no')") else { return };
    let error = generator(&fixture, json!({}), json!({})).ready().unwrap_err().to_string();
    assert!(error.contains("ended without an answer") && error.contains("no"), "{error}");
    for (key, value) in [("waiting", json!(0)), ("request_bytes", json!(1)), ("command", json!([]))] {
        let mut config = json!({"command": ["python3", "env.py"]});
        config[key] = value;
        assert!(build("agent", &config).err().unwrap().to_string().contains(key));
    }
}
