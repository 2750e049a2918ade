//! Environments of other packages, played through their bridges to the last one.
#![allow(clippy::unwrap_used, clippy::panic)]

mod commanded;

use burnish_core::{Episode, Message, Role, Task, Turn};
use burnish_env::rollout::{Overlong, RolloutSpec, play, replay};
use burnish_env::{Generator, build};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use commanded::{answers_by, reason, spawns};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The bridge of a package. `None`, saying so, if the Python that `BURNISH_PYTHON` names (or `python3`) lacks it.
fn bridge(package: &str, settings: Value, timeout_seconds: f64) -> Option<Box<dyn Generator>> {
    let python = std::env::var("BURNISH_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let import = format!("import {package}");
    if !Command::new(&python).args(["-c", &import]).output().is_ok_and(|output| output.status.success()) {
        println!("skipped: {python} has no {package}; BURNISH_PYTHON can name one that has");
        return None;
    }
    let path = format!("PYTHONPATH={}", root().join("python").display());
    let module = format!("burnish.bridges.from_{package}");
    let config = json!({
        "command": ["env", path, python, "-W", "ignore", "-m", module],
        "settings": settings,
        "timeout_seconds": timeout_seconds,
        "workers": 4,
    });
    Some(build("command", &config).unwrap())
}

/// Plays the tasks with the answers of their demonstrations; a task without one is left out.
fn demonstrated(generator: &dyn Generator, tasks: &[Task]) -> Vec<(Task, Episode)> {
    let its = generator.demonstrations().unwrap();
    let shown = |task: &Task| Some((task.clone(), its.demonstrate_episode(task)?));
    let (tasks, episodes): (Vec<Task>, Vec<Vec<Message>>) = tasks.iter().filter_map(shown).unzip();
    let by_prompt: BTreeMap<String, Vec<Message>> =
        tasks.iter().map(|task| text(&task.prompt)).zip(episodes).collect();
    assert_eq!(by_prompt.len(), tasks.len(), "prompts differ");
    let answer = move |turn: &Turn| {
        let (opening, _) =
            by_prompt.iter().find(|(opening, _)| text(&turn.messages).starts_with(*opening)).unwrap();
        let episode = &by_prompt[opening];
        // What was said so far is what the demonstration saw.
        assert_eq!(text(&episode[..turn.messages.len()]), text(&turn.messages));
        episode[turn.messages.len()].clone()
    };
    let spawns = spawns(&tasks, 1);
    let spec =
        RolloutSpec { generator, partners: None, spawns: &spawns, turns_max: 60, overlong: Overlong::Refuse };
    let episodes = play(&mut answers_by(answer), &spec).unwrap();
    for (spawn, episode) in spawns.iter().zip(&episodes).step_by(7) {
        assert_eq!(replay(&spec, spawn, episode).unwrap(), *episode);
    }
    tasks.clone().into_iter().zip(episodes).collect()
}

fn text(messages: &[Message]) -> String {
    let line = |message: &Message| format!("{:?}: {}\n", message.role, message.content);
    messages.iter().map(line).collect()
}

#[test]
fn all_games_of_textworld_commonsense_are_won_by_a_player_with_a_plan() {
    let games = root().join("../shared/data/twc_games");
    if !games.is_dir() {
        println!("skipped: ../shared/data/twc_games is not there");
        return;
    }
    let cache = tempfile::tempdir().unwrap();
    let settings = json!({"games": games, "cache": cache.path()});
    let Some(generator) = bridge("textworld", settings, 60.0) else { return };
    let tasks = generator.tasks(1, 45).unwrap().tasks;
    let folders: BTreeMap<&str, usize> = tasks.iter().fold(BTreeMap::new(), |mut folders, task| {
        *folders.entry(&*task.labels["folder"]).or_default() += 1;
        folders
    });
    assert!(folders.len() == 9 && folders.values().all(|games| *games == 5), "{folders:?}");
    let played = demonstrated(&*generator, &tasks);
    let won = played.iter().filter(|(_, episode)| episode.verdict.success).count();
    let turns: usize = played.iter().map(|(_, episode)| episode.answers.len()).sum();
    println!("{won} of {} games won, in {turns} commands", tasks.len());
    assert_eq!(won, 45);
    assert!(played.iter().all(|(_, episode)| episode.verdict.rewards["reward"] == 1.0));

    // What is not a command of the game does not reach the interpreter.
    let commands = ["save", "\\n", "look. quit", "", "look \u{0}", "lo\u{6b63}k"];
    let mut said = Vec::new();
    let answer = |turn: &Turn| {
        let count = turn.messages.iter().filter(|message| message.role == Role::Assistant).count();
        said.extend(turn.messages.last().map(|message| message.content.clone()));
        Message::assistant(commands.get(count).copied().unwrap_or("look"))
    };
    let spawns = spawns(&tasks[..1], 1);
    let spec = RolloutSpec {
        generator: &*generator,
        partners: None,
        spawns: &spawns,
        turns_max: 8,
        overlong: Overlong::Refuse,
    };
    let episode = play(&mut answers_by(answer), &spec).unwrap().remove(0);
    assert_eq!((reason(&episode), episode.verdict.success), ("", false));
    assert_eq!(said[1..7], ["That is no command of this game."; 6]);
    assert!(said[7].starts_with("-= ") && !said[7].contains('>'), "{}", said[7]);
}

/// Datasets whose demonstrations are judged here: of every family, without the slow ones.
const DATASETS: [&str; 12] = [
    "leg_counting",
    "chain_sum",
    "basic_arithmetic",
    "gcd",
    "countdown",
    "word_sorting",
    "letter_counting",
    "syllogism",
    "family_relationships",
    "calendar_arithmetic",
    "maze",
    "number_sequence",
];

#[test]
fn answers_of_reasoning_gym_are_right_by_its_own_scorers() {
    let Some(generator) = bridge("reasoning_gym", json!({"datasets": DATASETS}), 60.0) else { return };
    let tasks = generator.tasks(3, 48).unwrap().tasks;
    assert_eq!(generator.tasks(3, 6).unwrap().tasks, tasks[..6]);
    let datasets: std::collections::BTreeSet<&str> =
        tasks.iter().map(|task| &*task.labels["dataset"]).collect();
    assert!(datasets.len() >= 9, "{datasets:?}");
    let played = demonstrated(&*generator, &tasks);
    assert_eq!(played.len(), 48);
    for (task, episode) in &played {
        let verdict = &episode.verdict;
        assert!(
            verdict.success && verdict.rewards["reward"] == 1.0,
            "{}: {verdict:?}",
            task.labels["dataset"]
        );
    }
    // And other answers are not.
    let spawns = spawns(&tasks, 1);
    let spec = RolloutSpec {
        generator: &*generator,
        partners: None,
        spawns: &spawns,
        turns_max: 1,
        overlong: Overlong::Refuse,
    };
    let wrong = play(&mut answers_by(|_: &Turn| Message::assistant("I don't know.")), &spec).unwrap();
    for episode in &wrong {
        assert_eq!(reason(episode), "");
        assert!(!episode.verdict.success && episode.verdict.flags["parse_error"], "{:?}", episode.verdict);
    }

    // A scorer that raises an exception on an answer has not been given a right one.
    let numbers = bridge(
        "reasoning_gym",
        json!({"datasets": {"prime_factorization": {"max_value": 90}}, "system": ""}),
        60.0,
    );
    let numbers = numbers.unwrap();
    let drawn = numbers.draw(&numbers.tasks(1, 1).unwrap().tasks[0], Some("<answer>prime</answer>"));
    assert!(drawn.starts_with("user: ") && drawn.ends_with("judged: {\"reward\": 0.0}"), "{drawn}");
    for (settings, expected) in [
        (json!({"datasets": ["leg_count"]}), "'leg_count' not registered"),
        (json!({"datasets": {"gcd": {"many": 1}}}), "unexpected keyword argument 'many'"),
        (json!({}), "missing 1 required positional argument: 'datasets'"),
    ] {
        let error = bridge("reasoning_gym", settings, 60.0).unwrap().ready().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
