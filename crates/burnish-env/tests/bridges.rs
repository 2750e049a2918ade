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

/// A taskset of `tests/verifiers`, played by a policy that answers by a function.
fn verifiers(
    env: &str,
    turns_max: usize,
    answer: impl FnMut(&Turn) -> Message,
) -> Option<(Vec<Task>, Vec<Episode>)> {
    let python = std::env::var("BURNISH_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let import = Command::new(&python).args(["-c", "import verifiers.v1"]).output();
    if !import.is_ok_and(|output| output.status.success()) {
        println!("skipped: {python} has no verifiers 0.4; BURNISH_PYTHON can name one that has");
        return None;
    }
    // verifiers starts its programs by uv, which lies beside the Python that has it.
    let beside = Path::new(&python).parent().unwrap_or(Path::new(""));
    let path = format!("PATH={}:{}", beside.display(), std::env::var("PATH").unwrap());
    let folders = [root().join("python"), root().join("crates/burnish-env/tests/verifiers")];
    let folders = folders.map(|folder| folder.canonicalize().unwrap().display().to_string());
    let config = json!({
        "command":
            ["env", path, format!("PYTHONPATH={}", folders.join(":")), python, "-m", "burnish.bridges.from_verifiers"],
        "settings": {"env": {"taskset": {"id": env}, "agent": {"max_turns": turns_max}}},
        "timeout_seconds": 120,
        "workers": 2,
    });
    let generator = build("agent", &config).unwrap();
    generator.ready().unwrap();
    let tasks = generator.tasks(1, 2).unwrap().tasks;
    let spawns = spawns(&tasks, 1);
    let spec = RolloutSpec {
        generator: &*generator,
        partners: None,
        spawns: &spawns,
        turns_max,
        overlong: Overlong::Refuse,
    };
    let episodes = play(&mut answers_by(answer), &spec).unwrap();
    for (spawn, episode) in spawns.iter().zip(&episodes) {
        assert_eq!(reason(episode), "");
        assert_eq!(replay(&spec, spawn, episode).unwrap(), *episode);
    }
    Some((tasks, episodes))
}

/// The number that a text has before `after`.
fn number(text: &str, after: &str) -> i64 {
    text.split(after).next().unwrap().rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_taskset_of_verifiers_with_one_turn_gives_its_weighted_reward() {
    let answer = |turn: &Turn| {
        assert_eq!((turn.messages.len(), turn.messages[0].role), (2, Role::System));
        let number = number(&turn.messages[1].content, " + 1?");
        // Only even numbers are answered rightly.
        Message::assistant((number + 1 + number % 2).to_string())
    };
    let Some((tasks, episodes)) = verifiers("vf_one_turn", 1, answer) else { return };
    for (task, episode) in tasks.iter().zip(&episodes) {
        let number = number(&task.prompt[1].content, " + 1?");
        assert_eq!(episode.verdict.rewards["right"], if number % 2 == 0 { 2.0 } else { 0.0 });
        assert_eq!(episode.verdict.metrics["letters"], 1.0);
        assert_eq!((episode.answers.len(), episode.verdict.has_success), (1, false));
    }
}

#[test]
fn an_environment_of_verifiers_with_several_turns_answers_each() {
    let answer = |turn: &Turn| {
        let said = turn.messages.last().unwrap();
        Message::assistant(match &*said.content {
            "Guess a number from 1 to 9." => "5",
            "Higher." => "7",
            other => panic!("{other}"),
        })
    };
    let Some((_, episodes)) = verifiers("vf_turns", 4, answer) else { return };
    let mut found: Vec<(usize, f64)> =
        episodes.iter().map(|it| (it.answers.len(), it.verdict.rewards["quick"])).collect();
    found.sort_by_key(|(turns, _)| *turns);
    assert_eq!(found, [(1, 1.0), (2, 0.5)]);
}

#[test]
fn a_taskset_of_verifiers_with_tools_runs_them() {
    let answer = |turn: &Turn| {
        let last = turn.messages.last().unwrap();
        if last.role == Role::Tool {
            return Message::assistant(last.content.clone());
        }
        assert_eq!((turn.tools.len(), &*turn.tools[0].description), (1, "The price of a thing."));
        let thing = last.content.split(' ').nth(2).unwrap();
        let function = burnish_core::FunctionCall {
            name: turn.tools[0].name.clone(),
            arguments: json!({"thing": thing}),
        };
        let tool_calls = vec![burnish_core::ToolCall { id: None, function }];
        Message { tool_calls, ..Message::assistant("") }
    };
    let Some((_, episodes)) = verifiers("vf_tools", 3, answer) else { return };
    for episode in episodes {
        assert_eq!((episode.verdict.rewards["right"], episode.verdict.metrics["lookups"]), (1.0, 1.0));
        assert_eq!(episode.answers.len(), 2);
    }
}
