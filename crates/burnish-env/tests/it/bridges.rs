//! Environments of other packages, played through their bridges to the last one.
#![allow(clippy::unwrap_used, clippy::panic)]

use burnish_core::{Episode, Message, Role, Task, Turn};
use burnish_env::rollout::{Overlong, RolloutSpec, play, replay};
use burnish_env::{Generator, Step, build};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::commanded::{answers_by, reason, spawns};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The bridge of a package. `None`, saying so, if the Python that `BURNISH_PYTHON` names (or `python3`) lacks it.
fn bridge(package: &str, settings: Value, timeout_seconds: f64) -> Option<Box<dyn Generator>> {
    Some(build("command", &bridged(package, settings, timeout_seconds)?).unwrap())
}

/// As [`bridge`], the configuration of `command`.
fn bridged(package: &str, settings: Value, timeout_seconds: f64) -> Option<Value> {
    let python = std::env::var("BURNISH_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let import = format!("import {package}");
    if !Command::new(&python).args(["-c", &import]).output().is_ok_and(|output| output.status.success()) {
        println!("skipped: {python} has no {package}; BURNISH_PYTHON can name one that has");
        return None;
    }
    let path = format!("PYTHONPATH={}", root().join("python").display());
    let module = format!("burnish.bridges.from_{package}");
    Some(json!({
        "command": ["env", path, python, "-W", "ignore", "-m", module],
        "settings": settings,
        "timeout_seconds": timeout_seconds,
        "workers": 4,
    }))
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
    let spec = RolloutSpec::new(generator, &spawns, 60, Overlong::Refuse);
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
    let spec = RolloutSpec::new(&*generator, &spawns, 8, Overlong::Refuse);
    let episode = play(&mut answers_by(answer), &spec).unwrap().remove(0);
    assert_eq!((reason(&episode), episode.verdict.success), ("", false));
    assert_eq!(said[1..7], ["That is no command of this game."; 6]);
    assert!(said[7].starts_with("-= ") && !said[7].contains('>'), "{}", said[7]);
}

/// What a player of tidying up knows, from a map and from what it has read.
#[derive(Default)]
struct Tidier {
    /// Commands that put a thing somewhere, by room: whether the score went up.
    placings: BTreeMap<(String, String), bool>,
    /// Where a way leads.
    ways: BTreeMap<(String, String), String>,
    /// Commands of the game that counts, by room; how often.
    taken: BTreeMap<(String, String), usize>,
    room: String,
    possible: Vec<String>,
}

impl Tidier {
    /// Reads a conversation from its beginning.
    fn of(messages: &[Message]) -> Self {
        let mut tidier = Tidier::default();
        let mut command = None;
        for message in messages {
            match message.role {
                Role::Assistant => command = Some(message.content.clone()),
                _ => tidier.read(command.take(), &message.content),
            }
        }
        tidier
    }

    fn read(&mut self, command: Option<String>, text: &str) {
        // After exploring, everything is where it was; what is known stays known.
        let (before, now) =
            text.split_once("Now it counts.").map_or((text, None), |(before, now)| (before, Some(now)));
        self.learn(command, before);
        if let Some(now) = now {
            self.taken.clear();
            self.learn(None, now);
        }
    }

    fn learn(&mut self, command: Option<String>, text: &str) {
        for line in text.lines() {
            let Some((section, fact)) = line.split_once(' ') else { continue };
            match (section, &fact.splitn(3, ": ").collect::<Vec<_>>()[..]) {
                ("layout", [from, go, to]) => {
                    self.ways.insert((from.to_string(), go.to_string()), to.to_string());
                }
                ("affordances", [room, command, did]) => self.placed(room.to_string(), command, did),
                _ => {}
            }
        }
        let before = self.room.clone();
        if let Some(line) = text.lines().rfind(|line| line.starts_with("-= ")) {
            self.room = line.trim_matches(['-', '=', ' ']).to_owned();
        }
        if let Some((_, list)) = text.rsplit_once("Possible: ") {
            self.possible = list.lines().next().unwrap().split(", ").map(str::to_owned).collect();
        }
        let Some(command) = command else { return };
        self.placed(before.clone(), &command, text);
        if self.room != before {
            self.ways.insert((before.clone(), command.clone()), self.room.clone());
        }
        *self.taken.entry((before, command)).or_default() += 1;
    }

    fn placed(&mut self, room: String, command: &str, did: &str) {
        if thing(command).is_some() {
            // Nothing but the last thing in its place ends these games.
            let rises = did.contains("score has just gone up") || did.contains("that was the end");
            let known = self.placings.entry((room, command.to_owned())).or_default();
            *known |= rises;
        }
    }

    fn count(&self, command: &str) -> usize {
        self.taken.get(&(self.room.clone(), command.to_owned())).copied().unwrap_or(0)
    }

    /// What it does next: places that raised the score first, then such as were not tried, with things that lie about.
    fn next(&self) -> String {
        let here = |command: &str| self.placings.get(&(self.room.clone(), command.to_owned()));
        let is_done =
            |room: &str, command: &str| self.taken.contains_key(&(room.to_owned(), command.to_owned()));
        let good: Vec<_> =
            self.placings.iter().filter(|(_, rises)| **rises).map(|(placing, _)| placing).collect();
        // Things that are where they belong stay there.
        let tidy = |it: &str| {
            good.iter().any(|(room, command)| thing(command) == Some(it) && is_done(room, command))
        };
        let open: Vec<_> = good.iter().filter(|(room, command)| !is_done(room, command)).collect();
        let can =
            |wanted: &dyn Fn(&str) -> bool| self.possible.iter().find(|command| wanted(command)).cloned();
        let placeable = can(&|command| here(command) == Some(&true) && !is_done(&self.room, command));
        let takes = |command: &str, it: &str| {
            command == format!("take {it}") || command.starts_with(&format!("take {it} from "))
        };
        let wanted = can(&|command| {
            open.iter().any(|(_, placing)| thing(placing).is_some_and(|it| takes(command, it)))
        });
        if let Some(command) = placeable.or(wanted) {
            return command;
        }
        // One that it holds, to where it belongs.
        let held = |it: &str| self.possible.iter().any(|command| *command == format!("drop {it}"));
        for (room, placing) in &open {
            if thing(placing).is_some_and(held)
                && *room != self.room
                && let Some(way) = self.towards(room)
            {
                return way;
            }
        }
        let known = |it: &str| open.iter().any(|(_, placing)| thing(placing) == Some(it));
        let untried = can(&|command| {
            thing(command).is_some_and(|it| !tidy(it) && !known(it)) && here(command).is_none()
        });
        let shut = can(&|command| command.starts_with("open ") && self.count(command) == 0);
        let is_loose = |command: &str| {
            let it = command.strip_prefix("take ").map(|rest| rest.split(" from ").next().unwrap_or(rest));
            it.is_some_and(|it| !tidy(it) && self.count(command) < 12)
        };
        let loose = can(&|command| is_loose(command) && !command.contains(" from "));
        let other = can(&is_loose);
        let mut ways: Vec<&String> =
            self.possible.iter().filter(|command| command.starts_with("go ")).collect();
        ways.sort_by_key(|command| self.count(command));
        let unseen = ways.iter().find(|way| self.count(way) == 0).map(|way| (*way).clone());
        let any = ways.first().map(|way| (*way).clone());
        untried.or(shut).or(loose).or(unseen).or(other).or(any).unwrap_or_else(|| "look".to_owned())
    }

    /// The first step of a shortest known way to a room.
    fn towards(&self, goal: &str) -> Option<String> {
        let mut reached = vec![(self.room.clone(), None::<String>)];
        let mut at = 0;
        while let Some((room, first)) = reached.get(at).cloned() {
            if room == goal {
                return first;
            }
            for ((from, command), to) in &self.ways {
                if *from == room && !reached.iter().any(|(known, _)| known == to) {
                    reached.push((to.clone(), first.clone().or_else(|| Some(command.clone()))));
                }
            }
            at += 1;
        }
        None
    }
}

/// The thing that a command puts somewhere.
fn thing(command: &str) -> Option<&str> {
    let put = command.strip_prefix("put ").and_then(|rest| rest.split_once(" on "));
    Some(put.or_else(|| command.strip_prefix("insert ").and_then(|rest| rest.split_once(" into ")))?.0)
}

/// Steps of exploring and of playing.
const EXPLORED: usize = 20;
const ACTED: usize = 15;

#[test]
fn games_of_textworld_commonsense_are_mapped_and_then_played_afresh() {
    let games = root().join("../shared/data/twc_games");
    if !games.is_dir() {
        println!("skipped: there is no ../shared/data/twc_games");
        return;
    }
    let cache = tempfile::tempdir().unwrap();
    let settings = json!({"games": games, "cache": cache.path(), "commands": true});
    let Some(inner) = bridged("textworld", settings, 60.0) else { return };
    let plain = build("command", &inner).unwrap();
    let mapped = |explorer: &str, explore_max: usize| {
        let of = json!({"id": "command", "config": inner});
        let keys = json!({"of": of, "explorer": explorer, "explore_max": explore_max, "converged": 0.0, "map_max": 200});
        build("mapped", &keys).unwrap()
    };
    let mut rates = Vec::new();
    for (name, explorer, explore_max, turns_max) in [
        ("ReAct", "curious", 0, ACTED),
        ("ReAct with as many steps as MAP", "curious", 0, ACTED + EXPLORED),
        ("MAP, a program explores", "curious", EXPLORED, ACTED),
        ("MAP, the player explores", "policy", EXPLORED, ACTED + EXPLORED),
    ] {
        let generator = mapped(explorer, explore_max);
        generator.ready().unwrap();
        let tasks = generator.tasks(1, 45).unwrap().tasks;
        let spawns = spawns(&tasks, 1);
        let spec = RolloutSpec::new(&*generator, &spawns, turns_max, Overlong::Refuse);
        let answer = |turn: &Turn| Message::assistant(Tidier::of(&turn.messages).next());
        let episodes = play(&mut answers_by(answer), &spec).unwrap();
        for (spawn, episode) in spawns.iter().zip(&episodes).step_by(15) {
            assert_eq!(replay(&spec, spawn, episode).unwrap(), *episode);
        }
        let (mut won, mut score, mut steps, mut found) = (0, 0.0, 0.0, 0);
        for episode in &episodes {
            assert_eq!(reason(episode), "");
            let verdict = &episode.verdict;
            let (explored, acted) = (verdict.metrics["explored"], verdict.metrics["acted"]);
            assert!(explored <= explore_max as f64 && acted <= turns_max as f64);
            let answers = if explorer == "policy" { explored + acted } else { acted };
            assert_eq!((answers, verdict.metrics["steps"]), (episode.answers.len() as f64, explored + acted));
            assert!(explore_max > 0 || !verdict.flags["reached_exploring"]);
            won += usize::from(verdict.success);
            score += verdict.rewards["reward"];
            steps += verdict.metrics["steps"];
            found += usize::from(verdict.flags["reached_exploring"]);
        }
        let of = episodes.len() as f64;
        println!(
            "{name}: {won} of {} games won, score {:.2}, {:.1} steps on average, {found} games won while exploring",
            episodes.len(),
            score / of,
            steps / of
        );
        rates.push(won);
    }
    // More steps of the same player are never worse.
    assert!(rates[0] <= rates[1], "{rates:?}");

    // Whatever was explored, the game is the one that it is without: the demonstration reads the same and wins.
    let generator = mapped("curious", EXPLORED);
    let (tasks, own) = (generator.tasks(1, 45).unwrap().tasks, plain.tasks(1, 45).unwrap().tasks);
    for (task, own) in tasks.iter().zip(&own).step_by(6) {
        let shown = plain.demonstrations().unwrap().demonstrate_episode(own).unwrap();
        let mut environment = generator.environment();
        let opening = environment.reset(task, 1).unwrap();
        let (first, sight) = (&opening.last().unwrap().content, &own.prompt.last().unwrap().content);
        assert!(first.ends_with(sight) && first.starts_with("Found by exploring"), "{first}");
        let mut said = own.prompt.clone();
        for answer in shown.iter().filter(|message| message.role == Role::Assistant) {
            said.push(answer.clone());
            if let burnish_env::Step::Continue(messages) = environment.step(answer).unwrap() {
                said.extend(messages);
            }
        }
        assert_eq!(said, shown);
        assert!(environment.verify().unwrap().success);
    }
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
    let spec = RolloutSpec::new(&*generator, &spawns, 1, Overlong::Refuse);
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
    let spec = RolloutSpec::new(&*generator, &spawns, turns_max, Overlong::Refuse);
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

#[test]
fn bfcl_is_played_by_its_package() {
    let Some(mut config) = bridged("bfcl_eval", json!({"category": ["multi_turn_base"]}), 60.0) else {
        return;
    };
    config["command"][6] = json!("burnish.bridges.from_bfcl");
    let generator = build("agent", &config).unwrap();
    assert!(generator.evaluation_only().is_some());
    let tasks = generator.tasks(1, 20).unwrap().tasks;
    let played = demonstrated(&*generator, &tasks);
    assert!(played.len() == 20 && played.iter().all(|(_, episode)| episode.verdict.success));
}

#[test]
fn tau2_is_played_by_its_package_with_a_customer_of_ours() {
    let Some(mut config) = bridged("tau2", json!({"domain": "airline"}), 60.0) else { return };
    config["command"][6] = json!("burnish.bridges.from_tau2");
    let generator = build("command", &config).unwrap();
    assert!(generator.evaluation_only().is_some());
    let tasks = generator.tasks(1, 4).unwrap().tasks;
    let its = generator.demonstrations().unwrap();
    for task in &tasks {
        let shown = its.demonstrate_episode(task).unwrap();
        let gold: Vec<Message> =
            shown.into_iter().skip(task.prompt.len()).filter(|it| it.role == Role::Assistant).collect();
        let mut environment = generator.environment();
        environment.reset(task, 0).unwrap();
        assert!(environment.tools().len() > 10);
        let mut said = Step::Done;
        for answer in &gold {
            said = environment.step(answer).unwrap();
        }
        let Step::Ask(question) = said else { panic!("{said:?}") };
        assert_eq!(question.who, "user");
        assert_eq!(environment.hear(&Message::assistant("###STOP###")).unwrap(), Step::Done);
        assert!(environment.verify().unwrap().success, "{}", task.id);
    }
}
