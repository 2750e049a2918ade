//! Programs that are environments: tasks, episodes, records.
#![allow(clippy::unwrap_used, clippy::panic)]

use burnish_core::{Ending, Sampling, Task};
use burnish_env::redesign::knobs;
use burnish_env::rollout::{Partners, RolloutSpec, Spawn, Start, play, replay};
use burnish_env::{Generator, build};
use serde_json::json;

use crate::commanded::{Fixture, played, reason, says, spawns, spec};

/// A till that counts. Its tasks say what the policy is to answer, turn by turn; `data` is the sum that is right. It writes
/// down what it is asked.
const TILL: &str = r#"
import os, random
from environment import Ask, Done, Environment, serve, tool

class Till(Environment):
    def __init__(self, more=0, repeating="rebuilt"):
        self.more, self.repeating = more, repeating

    def note(self, what):
        with open("asked", "a") as log:
            print(what, file=log)

    def task(self, seed):
        amounts = [random.Random(seed).randint(1, 9) for _ in range(3)]
        return {"prompt": "add " + " ".join(map(str, amounts)), "data": sum(amounts), "labels": {"first": amounts[0]}}

    def reset(self, task, seed):
        print("not an answer")
        os.system("echo not one either")
        self.note("reset")
        self.sum = 0

    @tool(repeating="repeatable")
    def read(self) -> str:
        "Reads the till."
        self.note("read")
        return f"{self.sum} in the till"

    @tool
    def add(self, amount: int, times: int = 1):
        "Adds an amount."
        self.note("add")
        self.sum += amount * times + self.more
        return {"sum": self.sum}

    @tool(repeating="outside")
    def pay(self) -> str:
        "Pays it out."
        self.note("pay")
        return "paid"

    def step(self, message):
        self.note("step")
        text = message["content"]
        if text.startswith("ask "):
            return Ask("user", text[4:])
        if text.startswith("stop"):
            return Done
        self.sum += int(text) + self.more
        return f"{self.sum} so far"

    def hear(self, message):
        self.note("hear")
        return "the user says " + message["content"]

    def verify(self):
        self.note("verify")
        right = self.sum == self.data
        return {"rewards": {"right": float(right), "sum": self.sum}, "success": right, "feedback": "counted"}

    def close(self):
        self.note("close")

    def demonstrate(self, task):
        return ["stop"] if task["data"] == 0 else None

serve(Till)
"#;

#[test]
fn an_episode_goes_through_the_program_and_comes_back_on_its_record() {
    let Some(fixture) = Fixture::new(TILL) else { return };
    let generator = fixture.generator(json!({}));
    let tasks = generator.tasks(3, 2).unwrap().tasks;
    let episodes = played(&*generator, &tasks, &["4", "5", "stop"]);
    for (episode, task) in episodes.iter().zip(&tasks) {
        assert_eq!((episode.ending, reason(episode)), (Ending::Completed, ""));
        assert_eq!(episode.verdict.rewards["sum"], 9.0);
        assert_eq!(episode.verdict.success, task.truth == json!(9));
        assert_eq!(episode.verdict.feedback.as_deref(), Some("counted"));
    }
    let mut asked = fixture.written("asked");
    asked.sort_unstable();
    let times = |what: &str, count: usize| vec![what.to_owned(); count];
    assert_eq!(asked, [times("close", 2), times("reset", 2), times("step", 6), times("verify", 2)].concat());

    // Again in a new process: all of it is asked again, only the verdict is taken from the record.
    let again = fixture.generator(json!({}));
    let spawn = &spawns(&tasks, 1)[0];
    assert_eq!(replay(&spec(&*again, &[]), spawn, &episodes[0]).unwrap(), episodes[0]);
    assert_eq!(fixture.written("asked").len(), 12 + 4);
    // A program that does something else is noticed.
    let other = fixture.generator(json!({"settings": {"more": 1}}));
    let lost = replay(&spec(&*other, &[]), spawn, &episodes[0]).unwrap();
    assert_eq!(lost.ending, Ending::Lost);
    assert!(reason(&lost).contains("a step"), "{}", reason(&lost));
}

#[test]
fn what_happens_outside_is_never_asked_again() {
    let Some(fixture) = Fixture::new(TILL) else { return };
    let generator = fixture.generator(json!({"settings": {"repeating": "outside"}}));
    let tasks = generator.tasks(3, 1).unwrap().tasks;
    let episode = played(&*generator, &tasks, &["4", "5", "stop"]).remove(0);
    let asked = fixture.written("asked").len();
    let again = fixture.generator(json!({"settings": {"repeating": "outside", "more": 1}}));
    assert_eq!(replay(&spec(&*again, &[]), &spawns(&tasks, 1)[0], &episode).unwrap(), episode);
    assert_eq!(fixture.written("asked").len(), asked);
    // It can't be brought to where an episode within it would start.
    let spawn = Spawn { start: Start::Within { episode: &episode, turn: 1 }, ..spawns(&tasks, 1).remove(0) };
    let within = play(&mut says(&["1"]), &spec(&*generator, &[spawn])).unwrap().remove(0);
    assert_eq!((within.ending, within.verdict.is_scored()), (Ending::Lost, false));
}

#[test]
fn an_episode_starts_within_another_one() {
    let Some(fixture) = Fixture::new(TILL) else { return };
    let generator = fixture.generator(json!({}));
    let tasks = generator.tasks(3, 1).unwrap().tasks;
    let episode = played(&*generator, &tasks, &["4", "5", "stop"]).remove(0);
    let spawn = Spawn { start: Start::Within { episode: &episode, turn: 1 }, ..spawns(&tasks, 1).remove(0) };
    let within = play(&mut says(&["-", "3", "stop"]), &spec(&*generator, &[spawn])).unwrap().remove(0);
    assert_eq!((reason(&within), within.verdict.rewards["sum"]), ("", 7.0));
}

#[test]
fn tasks_follow_from_the_seed_alone() {
    let Some(fixture) = Fixture::new(TILL) else { return };
    let generator = fixture.generator(json!({}));
    let tasks = generator.tasks(3, 20).unwrap().tasks;
    assert_eq!(fixture.generator(json!({})).tasks(3, 8).unwrap().tasks, tasks[..8]);
    assert_ne!(generator.tasks(4, 8).unwrap().tasks, tasks[..8]);
    assert!(tasks.iter().all(|task| task.id.0.starts_with("command/") && task.labels["first"].len() == 1));
    assert!(generator.demonstrations().unwrap().demonstrate(&tasks[0]).is_none());
    let drawn = generator.draw(&tasks[0], Some("stop"));
    assert!(
        drawn.contains("user: add ") && drawn.contains("judged: {\"right\": 0.0, \"sum\": 0.0}"),
        "{drawn}"
    );
}

/// Three tasks by number.
const FEW: &str = r#"
from environment import *
class Few(Environment):
    tasks = 3
    def task(self, index):
        return {"prompt": "again" if index == SAME else f"task {index}", "name": "x" if SAME else f"{index}"}
    def verify(self):
        return self.answers == ["yes"]
    def demonstrate(self, task):
        return ["yes", {"role": "user", "content": "sure?"}, "yes"]
serve(Few)
"#;

#[test]
fn finitely_many_tasks_are_shuffled_in_every_pass() {
    let Some(fixture) = Fixture::new(&FEW.replace("SAME", "None")) else { return };
    let generator = fixture.generator(json!({}));
    let tasks = generator.tasks(1, 6).unwrap().tasks;
    let names = |tasks: &[Task]| {
        let mut names: Vec<String> = tasks.iter().map(|task| task.id.0.clone()).collect();
        names.sort_unstable();
        names
    };
    for pass in tasks.chunks(3) {
        assert_eq!(names(pass), ["command/0", "command/1", "command/2"]);
    }
    let shown = generator.demonstrations().unwrap().demonstrate_episode(&tasks[0]).unwrap();
    assert_eq!(
        shown.iter().map(|message| &*message.content).collect::<Vec<_>>()[1..],
        ["yes", "sure?", "yes"]
    );
    let verdict = &played(&*generator, &tasks[..1], &["yes"])[0].verdict;
    assert!(verdict.success && verdict.has_success && verdict.rewards["reward"] == 1.0);

    let Some(fixture) = Fixture::new(&FEW.replace("SAME", "1")) else { return };
    let error = fixture.generator(json!({})).tasks(1, 3).unwrap_err().to_string();
    assert!(error.contains("two different tasks have the name `command/x`"), "{error}");
}

#[test]
fn its_tools_are_called_by_their_schema_and_repeated_as_it_says() {
    let Some(fixture) = Fixture::new(TILL) else { return };
    let generator = fixture.generator(json!({}));
    let tasks = generator.tasks(3, 1).unwrap().tasks;
    let lines = &["add {\"amount\": 4}", "add {\"amuont\": 4}", "pay {}", "read {}", "stop"];
    let episode = played(&*generator, &tasks, lines).remove(0);
    assert_eq!((reason(&episode), episode.verdict.rewards["sum"]), ("", 4.0));
    assert_eq!((episode.record.calls.made, episode.record.calls.failed), (4, 1));
    let text = serde_json::to_string(&episode.record).unwrap();
    assert!(text.contains("{\\\"sum\\\": 4}") && text.contains("4 in the till"), "{text}");
    let before = fixture.written("asked");
    let again = fixture.generator(json!({}));
    assert_eq!(replay(&spec(&*again, &[]), &spawns(&tasks, 1)[0], &episode).unwrap(), episode);
    assert_eq!(fixture.written("asked")[before.len()..], ["reset", "add", "step"]);
}

#[test]
fn it_asks_the_user_of_the_recipe() {
    let Some(fixture) = Fixture::new(TILL) else { return };
    let generator = fixture.generator(json!({}));
    let tasks = generator.tasks(3, 1).unwrap().tasks;
    let lines = &["ask how much?", "4", "stop"];
    let partners = Partners::default().with("user", Box::new(says(&["four"])), Sampling::greedy(1));
    let spawns = spawns(&tasks, 1);
    let with_user = RolloutSpec { partners: Some(&partners), ..spec(&*generator, &spawns) };
    let episode = play(&mut says(lines), &with_user).unwrap().remove(0);
    assert_eq!((reason(&episode), episode.verdict.rewards["sum"]), ("", 4.0));
    let text = serde_json::to_string(&episode.record).unwrap();
    assert!(text.contains("the user says four"), "{text}");
    assert_eq!(replay(&spec(&*generator, &[]), &spawns[0], &episode).unwrap(), episode);
    let alone = played(&*generator, &tasks, lines).remove(0);
    assert_eq!(alone.ending, Ending::EnvironmentError);
    assert!(reason(&alone).contains("it asks `user`, who takes no part"), "{}", reason(&alone));
}

/// A program that says which of its settings may be redesigned.
const SUMS: &str = r#"
import random
from environment import Environment, serve

class Sums(Environment):
    redesign = [
        {"key": "most", "kind": "whole", "min": 1, "max": 99, "menu": [9, 20, 50], "harder": "up", "help": "greatest number"},
        {"key": "parts.easy", "kind": "share", "of": "parts", "min": 0, "max": 1, "menu": [0, 0.5, 1]},
        {"key": "parts.hard", "kind": "share", "of": "parts", "min": 0, "max": 1, "menu": [0, 0.5, 1]},
    ]

    def __init__(self, most=9, parts=None):
        self.most = most

    def task(self, seed):
        number = random.Random(seed).randint(1, self.most)
        return {"prompt": f"{number}", "data": number}

    def verify(self):
        return 1.0

if __name__ == "__main__":
    serve(Sums)
"#;

#[test]
fn a_program_says_which_of_its_settings_may_be_redesigned_and_gets_other_values() {
    let Some(fixture) = Fixture::new(SUMS) else { return };
    let settings = json!({"settings": {"most": 9, "parts": {"easy": 0.5, "hard": 0.5}}});
    let generator = fixture.generator(settings);
    let declared = knobs(&*generator, &[]).unwrap();
    let keys: Vec<&str> = declared.iter().map(|knob| knob.key.as_str()).collect();
    assert_eq!(keys, ["settings.most", "settings.parts.easy", "settings.parts.hard"]);
    let mut config = generator.config();
    config["settings"]["most"] = 99.into();
    let greatest = |generator: &dyn Generator| {
        let tasks = generator.tasks(1, 40).unwrap().tasks;
        tasks.iter().map(|task| task.truth.as_u64().unwrap()).max().unwrap()
    };
    assert!(greatest(&*generator) <= 9);
    assert!(greatest(&*build("command", &config).unwrap()) > 9);

    // One that names none has nothing to redesign.
    let Some(plain) = Fixture::new(TILL) else { return };
    let error = knobs(&*plain.generator(json!({})), &[]).unwrap_err().to_string();
    assert!(error.contains("has no key that can be redesigned"), "{error}");
}

/// One answer ends an episode. Writes down that a process has started, which takes as long as imports do.
const BRIEF: &str = r#"
import os, time
print(os.getpid(), file=open("started", "a"))
time.sleep(0.3)
from environment import Done, Environment, serve

class Brief(Environment):
    def task(self, seed):
        return {"prompt": str(seed)}

    def step(self, message):
        return Done

    def verify(self):
        return 1.0

serve(Brief)
"#;

#[test]
fn processes_are_started_only_while_all_others_are_busy() {
    let Some(fixture) = Fixture::new(BRIEF) else { return };
    let generator = fixture.generator(json!({ "workers": 200 }));
    let tasks = generator.tasks(3, 200).unwrap().tasks;
    let episodes = played(&*generator, &tasks, &["4"]);
    assert!(episodes.iter().all(|episode| episode.verdict.rewards["reward"] == 1.0));
    assert!(episodes.iter().all(|episode| episode.verdict.flags.is_empty()));
    let silent = played(&*generator, &tasks[..1], &[""]);
    assert!(silent[0].verdict.flags["empty_answer"]);
    let started = fixture.written("started").len();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).max(2);
    assert!(started < 20 * cores, "{started} processes for 200 short episodes on {cores} cores");
}

const STEPPED: &str = r#"
from environment import Done, Environment, serve

class Stepped(Environment):
    evaluation_only = True
    offered = [{"name": "look", "description": "Looks.",
                "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}}]

    def task(self, seed):
        return "Look."

    def reset(self, task, seed):
        self.seen = []

    def step(self, message):
        calls = message.get("tool_calls", [])
        self.seen += [call["function"]["name"] for call in calls]
        return [{"role": "tool", "name": "look", "content": "fog"}] if calls else Done

    def verify(self):
        return {"reward": float(len(self.seen)), "feedback": " ".join(self.seen)}

serve(Stepped)
"#;

#[test]
fn a_program_may_take_calls_as_steps_and_say_that_its_tasks_are_a_test_set() {
    let Some(fixture) = Fixture::new(STEPPED) else { return };
    let generator = fixture.generator(json!({}));
    assert!(generator.evaluation_only().unwrap().contains("never for training"));
    let tasks = generator.tasks(1, 1).unwrap().tasks;
    // Also a call that does not fit the schema, and one of a tool that is not there.
    let episodes = played(&*generator, &tasks, &["look {\"at\": 3}", "lock {}", "That is all."]);
    assert_eq!((reason(&episodes[0]), episodes[0].verdict.rewards["reward"]), ("", 2.0));
    assert_eq!(episodes[0].verdict.feedback.as_deref(), Some("look lock"));
    assert_eq!(episodes[0].record.calls.made, 0);
}
