use burnish_core::{Episode, FunctionCall, Role, Sampling, ToolCall};
use serde_json::{Map, json};

use super::*;
use crate::Step;
use crate::rollout::{self, Overlong, RolloutSpec, SeedPlace, Spawn};
use crate::scripted::Scripted;

fn generator(config: Value) -> Worlds {
    Worlds::new(settings::read(&config).unwrap()).unwrap()
}

/// Plays messages of a policy, with the results of its calls.
fn play(generator: &Worlds, task: &Task, answers: &[Message]) -> burnish_core::Verdict {
    let mut environment = generator.environment();
    environment.reset(task, 0).unwrap();
    for answer in answers {
        if answer.tool_calls.is_empty() {
            environment.step(answer).unwrap();
            continue;
        }
        let said: Vec<Message> = answer
            .tool_calls
            .iter()
            .map(|call| Message::new(Role::Tool, environment.call(&call.function, "").unwrap()))
            .collect();
        environment.called(answer, &said);
    }
    environment.verify().unwrap()
}

fn answers(generator: &Worlds, task: &Task) -> Vec<Message> {
    let episode = generator.demonstrate_episode(task).unwrap();
    episode.into_iter().filter(|message| message.role == Role::Assistant).collect()
}

fn harmless(task: &Task) -> Message {
    let truth = Truth::of(task).unwrap();
    let call = truth.turns[0].calls[0].clone();
    let function = FunctionCall { name: call.name, arguments: Value::Object(Map::new()) };
    Message { tool_calls: vec![ToolCall { id: None, function }], ..Message::assistant("") }
}

#[test]
fn the_demonstrated_episode_is_worth_1_and_what_is_left_out_is_not() {
    let generator = generator(json!({}));
    for task in &generator.tasks(3, 30).unwrap().tasks {
        let gold = answers(&generator, task);
        let verdict = play(&generator, task, &gold);
        assert_eq!(
            (verdict.success, verdict.rewards["score"]),
            (true, 1.0),
            "{}",
            generator.draw(task, None)
        );
        assert!(!verdict.flags["unfinished"] && !verdict.flags["refused"] && !verdict.flags["untouched"]);

        // A call that is refused changes nothing and costs a twentieth.
        let mut more = gold.clone();
        more.insert(0, harmless(task));
        let verdict = play(&generator, task, &more);
        assert!((verdict.rewards["score"] - 0.95).abs() < 1e-12);
        assert!(verdict.flags["refused"] && verdict.success);

        let nothing: Vec<Message> = gold.iter().filter(|it| it.tool_calls.is_empty()).cloned().collect();
        let verdict = play(&generator, task, &nothing);
        assert!(!verdict.success && verdict.flags["untouched"]);
        assert_eq!(verdict.metrics["trace"], 0.0);
    }
}

/// An episode through the player, which is the same when it is played again on its record.
fn played(generator: &Worlds, task: &Task, mut said: Vec<(Message, Vec<String>)>) -> Episode {
    let place = SeedPlace { run: 3, stage: 0, step: 1, task_offset: 0 };
    let spawns = Spawn::of_tasks(std::slice::from_ref(task), 1, &Sampling::at(1.0, 16), place);
    let spec = RolloutSpec::new(generator, &spawns, 20, Overlong::Refuse);
    let episode = rollout::play(&mut Scripted::new(|_| said.remove(0)), &spec).unwrap().remove(0);
    assert_eq!(rollout::replay(&spec, &spawns[0], &episode).unwrap(), episode);
    episode
}

fn readable(answers: Vec<Message>) -> Vec<(Message, Vec<String>)> {
    answers.into_iter().map(|answer| (answer, Vec::new())).collect()
}

#[test]
fn each_call_that_can_not_be_read_costs_a_twentieth_and_all_of_them_at_most_a_half() {
    let generator = generator(json!({}));
    let task = generator.tasks(3, 1).unwrap().tasks.remove(0);
    // A reason may repeat several lines of the call.
    let why = |number: usize| format!("call {number}: after its JSON object there is more: `1\n2\r\n3`");
    let malformed = |count: usize| (1..=count).map(why).collect::<Vec<_>>();
    for count in [0, 1, 2, 10, 11, 40] {
        let mut said = readable(answers(&generator, &task));
        // One beside a call that is right, the others in an answer without any.
        if count > 0 {
            said[0].1 = vec![why(2)];
        }
        if count > 1 {
            said.insert(1, (Message::assistant("<tool_call>{\"name\": "), malformed(count - 1)));
        }
        let episode = played(&generator, &task, said);
        let penalty = (0.05 * count as f64).min(0.5);
        let verdict = &episode.verdict;
        assert_eq!(episode.record.calls.failed, count);
        assert!((verdict.rewards["score"] - (1.0 - penalty)).abs() < 1e-12, "{count}: {verdict:?}");
        assert!((verdict.metrics["format_penalty"] - penalty).abs() < 1e-12, "{count}: {verdict:?}");
        assert!(verdict.success && !verdict.flags["unfinished"], "{count}: {verdict:?}");
    }
}

#[test]
fn a_lookup_that_was_refused_is_refused_on_the_record_too() {
    let generator = generator(json!({"worlds": ["bank"], "distractors": 64}));
    let task = generator.tasks(3, 1).unwrap().tasks.remove(0);
    let function = FunctionCall { name: "find_account".to_owned(), arguments: json!({"person": "Nobody"}) };
    let lookup = Message { tool_calls: vec![ToolCall { id: None, function }], ..Message::assistant("") };
    let mut said = vec![lookup];
    said.extend(answers(&generator, &task));
    let verdict = played(&generator, &task, readable(said)).verdict;
    assert!(verdict.flags["refused"] && verdict.success, "{verdict:?}");
    assert!((verdict.rewards["score"] - 0.95).abs() < 1e-12, "{verdict:?}");
}

#[test]
fn the_user_asks_for_one_thing_after_the_other() {
    let generator = generator(json!({"calls": {"min": 3, "max": 5}, "turn": 1}));
    let task = &generator.tasks(1, 1).unwrap().tasks[0];
    let truth = Truth::of(task).unwrap();
    let mut environment = generator.environment();
    environment.reset(task, 0).unwrap();
    for turn in &truth.turns[1..] {
        let step = environment.step(&Message::assistant("done")).unwrap();
        assert_eq!(step, Step::Continue(vec![Message::user(&turn.words)]));
    }
    assert_eq!(environment.step(&Message::assistant("done")).unwrap(), Step::Done);
}

#[test]
fn needed_tools_are_offered_and_as_many_others_as_are_asked_for() {
    for distractors in [0, 3, 64] {
        let generator = generator(json!({"distractors": distractors}));
        for task in &generator.tasks(2, 10).unwrap().tasks {
            let truth = Truth::of(task).unwrap();
            let needed: std::collections::BTreeSet<String> =
                truth.gold().into_iter().map(|call| call.name).collect();
            assert!(needed.iter().all(|name| truth.tools.contains(name)));
            let of_worlds: usize = truth
                .worlds
                .iter()
                .map(|it| generator.worlds.iter().find(|world| world.name == it.name).unwrap().tools.len())
                .sum();
            assert_eq!(truth.tools.len(), (needed.len() + distractors).min(of_worlds));
        }
    }
}

#[test]
fn sessions_share_nothing() {
    let generator = generator(json!({}));
    let tasks = generator.tasks(5, 1).unwrap().tasks;
    let gold = answers(&generator, &tasks[0]);
    let mut other = generator.environment();
    other.reset(&tasks[0], 0).unwrap();
    play(&generator, &tasks[0], &gold);
    assert!(other.verify().unwrap().flags["untouched"]);
}

#[test]
fn bad_configurations_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let path = path.to_str().unwrap();
    let refused = |config: Value, said: &str| {
        let error = (KIND.build)(&config).err().unwrap().to_string();
        assert!(error.contains(said), "{error}");
    };
    refused(json!({"worlds": ["hotels"]}), "there is no world `hotels`; there are ");
    refused(json!({"worlds": []}), "no world is named, and there is none in `path`");
    refused(json!({"worlds": ["hotel", "hotel"]}), "`hotel` has the name or a tool of the world `hotel`");
    refused(json!({"worlds": [], "path": [path]}), "mine.toml");
    refused(json!({"calls": {"min": 5, "max": 2}}), "calls.min");
    refused(json!({"turn": 0}), "turn");
    refused(json!({"rewards": ["scores"]}), "rewards");
    refused(json!({"likeness": 1.0}), "at a likeness of 1");

    std::fs::write(path, "name = \"mine\"").unwrap();
    refused(json!({"worlds": [], "path": [path]}), "mine.toml: ");
    let small = include_str!("../../../burnish-worlds/tests/small.toml");
    std::fs::write(path, small.replace("result = { balance = 15 }", "result = { balance = 16 }")).unwrap();
    refused(json!({"worlds": [], "path": [path]}), "the world is not accepted: results: `deposit`");
    std::fs::write(path, small).unwrap();
    let mine = generator(json!({"worlds": [], "path": [path], "calls": {"min": 2, "max": 2}}));
    assert_eq!(mine.tasks(1, 5).unwrap().tasks.len(), 5);
    assert_eq!(mine.files(), [PathBuf::from(path)]);
    let error = Worlds::new(
        settings::read(&json!({"worlds": [], "path": [path], "calls": {"min": 9, "max": 9}})).unwrap(),
    );
    let error = error.unwrap().tasks(1, 1).unwrap_err().to_string();
    assert!(error.contains("no problem of 9 to 9 calls"), "{error}");
}
