//! Houses of rooms whose commands are listed, explored and played by programs.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::notes::{Notes, gap};
use super::play::{EXPLORE, MAP};
use super::*;
use crate::TaskSet;
use crate::mapping::DONE;
use burnish_core::rng::Stream;
use burnish_core::{TaskId, Verdict};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const WAYS: [&str; 4] = ["north", "east", "south", "west"];

/// Rooms with ways between them, coins in some, and a button in one, which wins the game.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct House {
    exits: Vec<[Option<usize>; 4]>,
    coins: Vec<bool>,
    button: usize,
}

#[derive(Default)]
struct Houses {
    /// Environments that exist.
    alive: Arc<AtomicUsize>,
}

struct Played {
    house: House,
    at: usize,
    won: bool,
    alive: Arc<AtomicUsize>,
}

impl Drop for Played {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Generator for Houses {
    fn id(&self) -> &'static str {
        "houses"
    }
    fn config(&self) -> Value {
        json!({})
    }
    fn bounds(&self) -> Vec<crate::Bound> {
        Vec::new()
    }
    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        let mut stream = Stream::new(seed);
        let task = |index: usize| {
            let rooms = 2 + stream.index(5);
            let mut exits = vec![[None; 4]; rooms];
            for (from, exits) in exits.iter_mut().enumerate() {
                // From each room there is a way to the next one, and perhaps others.
                let next = stream.index(4);
                for (way, exit) in exits.iter_mut().enumerate() {
                    let to = stream.index(rooms);
                    *exit = (way == next).then_some((from + 1) % rooms).or((to != from).then_some(to));
                }
            }
            let coins = (0..rooms).map(|_| stream.index(2) == 0).collect();
            let house = House { exits, coins, button: stream.index(rooms) };
            let truth = settings::to_value(&house).unwrap();
            let played = Played { house, at: 0, won: false, alive: Arc::default() };
            played.alive.fetch_add(1, Ordering::SeqCst);
            let prompt = vec![Message::system("Find the button."), Message::user(played.see())];
            let id = TaskId(format!("houses/{seed}-{index}"));
            Task { id, environment: "houses".into(), prompt, labels: Default::default(), truth }
        };
        Ok(TaskSet { tasks: (0..count).map(task).collect(), cells: Vec::new() })
    }
    fn environment(&self) -> Box<dyn Environment> {
        self.alive.fetch_add(1, Ordering::SeqCst);
        let house = House { exits: Vec::new(), coins: Vec::new(), button: 0 };
        Box::new(Played { house, at: 0, won: false, alive: Arc::clone(&self.alive) })
    }
    fn draw(&self, _: &Task, _: Option<&str>) -> String {
        String::new()
    }
}

impl Played {
    fn possible(&self) -> Vec<String> {
        let exits = WAYS.iter().zip(self.house.exits[self.at]).filter(|(_, exit)| exit.is_some());
        let mut all: Vec<String> = exits.map(|(way, _)| format!("go {way}")).collect();
        all.extend(["look", "wave arms", "wave legs"].map(str::to_owned));
        all.extend(self.house.coins[self.at].then(|| "take coin".to_owned()));
        all.extend((self.at == self.house.button).then(|| "press button".to_owned()));
        all
    }

    fn see(&self) -> String {
        format!("-= Room {} =-\nYou can't miss it. It is dull.\n\n{}", self.at, self.list())
    }

    fn list(&self) -> String {
        format!("Possible: {}", self.possible().join(", "))
    }
}

impl Environment for Played {
    fn reset(&mut self, task: &Task, _: u64) -> Result<Vec<Message>, EnvError> {
        self.house = House::deserialize(&task.truth).unwrap();
        (self.at, self.won) = (0, false);
        Ok(task.prompt.clone())
    }
    fn step(&mut self, action: &Message) -> Result<Step, EnvError> {
        let command = &*action.content;
        if !self.possible().iter().any(|it| it == command) {
            return Ok(Step::Continue(vec![Message::user(format!("You can't do that.\n\n{}", self.list()))]));
        }
        let said = match command {
            "press button" => {
                self.won = true;
                return Ok(Step::Done);
            }
            "take coin" => {
                self.house.coins[self.at] = false;
                "You take it. It shines. Your score has gone up.".to_owned()
            }
            "wave arms" | "wave legs" => "You wave.".to_owned(),
            "look" => return Ok(Step::Continue(vec![Message::user(self.see())])),
            go => {
                let way = WAYS.iter().position(|way| go.ends_with(way)).unwrap();
                self.at = self.house.exits[self.at][way].unwrap();
                return Ok(Step::Continue(vec![Message::user(self.see())]));
            }
        };
        Ok(Step::Continue(vec![Message::user(format!("{said}\n\n{}", self.list()))]))
    }
    fn verify(&mut self) -> Result<Verdict, EnvError> {
        Ok(Verdict::scored("won", f64::from(u8::from(self.won)), self.won))
    }
}

fn houses(config: Value) -> (MappedTasks, Arc<AtomicUsize>) {
    let config: MappedConfig = settings::read(&config).unwrap();
    config.check().unwrap();
    let inner = Houses::default();
    let alive = Arc::clone(&inner.alive);
    (MappedTasks::around(config, Arc::new(inner)).unwrap(), alive)
}

/// What is said after each command, until the end.
fn transcript(environment: &mut dyn Environment, commands: &[String]) -> Vec<Vec<Message>> {
    let mut said = Vec::new();
    for command in commands {
        match environment.step(&Message::assistant(command)).unwrap() {
            Step::Continue(messages) => said.push(messages),
            _ => break,
        }
    }
    said
}

fn any_commands(stream: &mut Stream, count: usize) -> Vec<String> {
    let all = ["go north", "go east", "go south", "go west", "look", "take coin", "press button", "fly"];
    (0..count).map(|_| all[stream.index(all.len())].to_owned()).collect()
}

/// The lines of the map in an opening.
fn map_of(opening: &[Message]) -> Vec<String> {
    let text = &opening.last().unwrap().content;
    let Some(rest) = text.strip_prefix(MAP) else { return Vec::new() };
    rest.split("\n\n").next().unwrap().lines().skip(1).map(str::to_owned).collect()
}

#[test]
fn without_exploring_it_is_the_inner_environment_to_the_bit() {
    for (id, config) in [("household", json!({})), ("orders", json!({}))] {
        let inner = crate::build(id, &config).unwrap();
        for explorer in ["curious", "random", "policy"] {
            let of = json!({"id": id, "config": config});
            let mapped =
                crate::build("mapped", &json!({"of": of, "explore_max": 0, "explorer": explorer})).unwrap();
            let (own, others) = (inner.tasks(3, 5).unwrap().tasks, mapped.tasks(3, 5).unwrap().tasks);
            for (task, other) in own.iter().zip(&others) {
                assert_eq!((&task.prompt, &task.labels), (&other.prompt, &other.labels));
                let (mut one, mut two) = (inner.environment(), mapped.environment());
                assert_eq!(one.reset(task, 7).unwrap(), two.reset(other, 7).unwrap());
                let steps = [one.step(&Message::assistant("look")), two.step(&Message::assistant("look"))];
                let [first, second] = steps.map(Result::unwrap);
                assert_eq!(first, second);
                let (one, two) = (one.verify().unwrap(), two.verify().unwrap());
                assert_eq!(
                    (&one.rewards, one.success, &one.feedback),
                    (&two.rewards, two.success, &two.feedback)
                );
                assert!(one.flags.iter().all(|(name, is_set)| two.flags[name] == *is_set));
                assert_eq!((two.metrics["explored"], two.metrics["acted"]), (0.0, 1.0));
            }
        }
    }
}

#[test]
fn a_game_after_exploring_is_a_fresh_one_and_everything_is_counted() {
    let mut reached = 0;
    for seed in 0..60 {
        let mut stream = Stream::new(seed);
        let explore_max = 1 + stream.index(25);
        let explorer = ["curious", "random"][stream.index(2)];
        let (tasks, alive) =
            houses(json!({"explorer": explorer, "explore_max": explore_max, "converged": 0.0}));
        let task = &tasks.tasks(seed, 1).unwrap().tasks[0];
        let inner = inner(ID, task).unwrap();
        let (mut mapped, mut fresh) = (tasks.environment(), Houses::default().environment());
        let opening = mapped.reset(task, seed).unwrap();
        let sight = fresh.reset(&inner, seed).unwrap();
        // The environment of the exploring is gone.
        assert_eq!(alive.load(Ordering::SeqCst), 1);
        assert_eq!(opening[..opening.len() - 1], sight[..sight.len() - 1]);
        assert!(opening.last().unwrap().content.ends_with(&sight.last().unwrap().content));
        let commands = any_commands(&mut stream, 12);
        let said = transcript(&mut *mapped, &commands);
        assert_eq!(said, transcript(&mut *fresh, &commands));
        let (verdict, plain) = (mapped.verify().unwrap(), fresh.verify().unwrap());
        assert_eq!((verdict.success, &verdict.rewards), (plain.success, &plain.rewards));
        let metric = |name: &str| verdict.metrics[name];
        let acted = (said.len() + 1).min(commands.len()) as f64;
        assert!(metric("explored") >= 1.0 && metric("explored") <= explore_max as f64);
        assert_eq!((metric("acted"), metric("steps")), (acted, acted + metric("explored")));
        // Only the end of the game, which is won then, ends exploring sooner.
        assert!(metric("explored") == explore_max as f64 || verdict.flags["reached_exploring"]);
        reached += usize::from(verdict.flags["reached_exploring"]);
        // Again, it is the same.
        assert_eq!(tasks.environment().reset(task, seed).unwrap(), opening);
        drop(mapped);
        assert_eq!(alive.load(Ordering::SeqCst), 0);
    }
    assert!(reached > 5 && reached < 60, "{reached}");
}

#[test]
fn everything_on_a_map_is_true_and_each_part_can_be_left_out() {
    let mut lines = [0; 3];
    for seed in 0..60 {
        let keys = |sections: Value, map_max: usize| {
            let limits = json!({"explore_max": 30, "converged": 0.0, "map_max": map_max});
            let mut keys = json!({"explorer": "curious", "sections": sections});
            keys.as_object_mut().unwrap().extend(limits.as_object().unwrap().clone());
            keys
        };
        let all = json!(["rules", "affordances", "layout"]);
        let (tasks, _) = houses(keys(all.clone(), 1000));
        let task = &tasks.tasks(seed, 1).unwrap().tasks[0];
        let house = House::deserialize(&inner(ID, task).unwrap().truth).unwrap();
        let map = map_of(&tasks.environment().reset(task, seed).unwrap());
        assert_eq!(map.iter().collect::<BTreeSet<_>>().len(), map.len(), "{map:?}");
        let room = |text: &str| text.strip_prefix("Room ").unwrap().parse::<usize>().unwrap();
        for line in &map {
            let (section, fact) = line.split_once(' ').unwrap();
            let parts: Vec<&str> = fact.split(": ").collect();
            match (section, &parts[..]) {
                ("layout", [from, go, to]) => {
                    let way = WAYS.iter().position(|way| go.ends_with(way)).unwrap();
                    assert_eq!(house.exits[room(from)][way], Some(room(to)));
                    lines[0] += 1;
                }
                ("affordances", [at, "take coin", "You take it. Your score has gone up."]) => {
                    assert!(house.coins[room(at)]);
                    lines[1] += 1;
                }
                ("affordances", [at, "press button", "that was the end"]) => {
                    assert_eq!(room(at), house.button)
                }
                ("rules", [command, never]) => {
                    assert!(["look", "wave ...", "wave arms", "wave legs"].contains(command), "{line}");
                    assert!(never.starts_with("never did anything ("), "{line}");
                    lines[2] += 1;
                }
                _ => panic!("{line}"),
            }
        }
        for section in ["rules", "affordances", "layout"] {
            let others: Vec<&str> =
                ["rules", "affordances", "layout"].into_iter().filter(|other| *other != section).collect();
            let (without, _) = houses(keys(json!(others), 1000));
            let left: Vec<String> = map.iter().filter(|line| !line.starts_with(section)).cloned().collect();
            assert_eq!(map_of(&without.environment().reset(task, seed).unwrap()), left);
        }
        let (bounded, _) = houses(keys(all, 3));
        assert_eq!(map_of(&bounded.environment().reset(task, seed).unwrap()), map[..map.len().min(3)]);
    }
    assert!(lines.iter().all(|count| *count > 20), "{lines:?}");
}

#[test]
fn a_policy_explores_and_its_game_begins_afresh_with_the_map() {
    for seed in 0..40 {
        let mut stream = Stream::new(seed);
        let explore_max = 1 + stream.index(8);
        let (tasks, alive) = houses(json!({"explore_max": explore_max, "converged": 0.0}));
        let task = &tasks.tasks(seed, 1).unwrap().tasks[0];
        let inner = inner(ID, task).unwrap();
        assert!(task.prompt.last().unwrap().content.ends_with(EXPLORE));
        let mut mapped = tasks.environment();
        assert_eq!(mapped.reset(task, seed).unwrap(), task.prompt);
        let commands = any_commands(&mut stream, explore_max);
        let stops = stream.index(explore_max);
        let mut explored = 0;
        let begun = loop {
            let (is_done, command) = (explored == stops, &commands[explored]);
            let answer = if is_done { format!("<think>{command}</think> {DONE}") } else { command.clone() };
            let Step::Continue(said) = mapped.step(&Message::assistant(answer)).unwrap() else { panic!() };
            explored += usize::from(!is_done);
            let text = said.last().unwrap().content.clone();
            if text.contains("Now it counts.") {
                break text;
            }
        };
        assert!(explored <= explore_max);
        assert_eq!(alive.load(Ordering::SeqCst), 1);
        assert!(begun.ends_with(&inner.prompt.last().unwrap().content), "{begun}");
        let mut fresh = Houses::default().environment();
        fresh.reset(&inner, seed).unwrap();
        let commands = any_commands(&mut stream, 6);
        assert_eq!(transcript(&mut *mapped, &commands), transcript(&mut *fresh, &commands));
        let verdict = mapped.verify().unwrap();
        assert_eq!((verdict.success, verdict.flags["unplayed"]), (fresh.verify().unwrap().success, false));
        assert_eq!(verdict.metrics["explored"], explored as f64);
    }
}

#[test]
fn what_was_only_explored_counts_for_nothing() {
    let (tasks, alive) = houses(json!({"explore_max": 50, "converged": 0.0}));
    for task in &tasks.tasks(5, 20).unwrap().tasks {
        let mut mapped = tasks.environment();
        mapped.reset(task, 0).unwrap();
        let Step::Continue(_) = mapped.step(&Message::assistant("take coin")).unwrap() else { panic!() };
        let verdict = mapped.verify().unwrap();
        assert!(verdict.flags["unplayed"] && !verdict.success && verdict.metrics["acted"] == 0.0);
    }
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}

#[test]
fn a_program_tries_everything_before_anything_again_and_stops_when_it_is_dull() {
    let config = MappedConfig { explorer: crate::mapping::Explorer::Curious, ..MappedConfig::default() };
    let sight = "-= Hall =-\nPossible: a x, b y, c z";
    let mut notes = Notes::new(sight, &config);
    let mut stream = Stream::new(1);
    let mut taken: Vec<String> = Vec::new();
    while !notes.is_dull(&config) {
        let command = notes.choose(config.explorer, &mut stream).unwrap();
        notes.note(&command, Some(sight), &config);
        taken.push(command);
        assert!(taken.len() < 100);
    }
    for round in taken.chunks_exact(3) {
        assert_eq!(round.iter().collect::<BTreeSet<_>>().len(), 3, "{taken:?}");
    }
    // Nothing is new after three steps; the mean of 1 / sqrt(N) of the last three visits is below 0.4 at visits 6, 7 and 8.
    assert_eq!(taken.len(), 7);
    let expected = ["a x", "b y", "c z"].map(|it| taken.iter().filter(|other| *other == it).count());
    let lines: Vec<String> = notes.map(&config).into_iter().map(|(_, line)| line).collect();
    for (command, count) in ["a x", "b y", "c z"].iter().zip(expected) {
        assert!(lines.contains(&format!("{command}: never did anything ({count} tries)")), "{lines:?}");
    }
}

#[test]
fn gaps_are_found_in_the_last_line_that_has_them() {
    let text = "-= Hall =-\nPossible: a\n\n-= Old Kitchen =- (dark)\nx Possible: a b, c ";
    assert_eq!(gap("-= {} =-", text), Some("Old Kitchen"));
    assert_eq!(gap("Possible: {}", text), Some("a b, c"));
    assert_eq!(gap("{} (dark)", text), Some("-= Old Kitchen =-"));
    assert_eq!(gap("at {}.", text), None);
    assert_eq!(gap("-= {} =-", "-=  =-\n"), None);
}

#[test]
fn what_cannot_be_explored_is_refused() {
    let problem = |config: Value| {
        let read = settings::read::<MappedConfig>(&config);
        read.and_then(MappedTasks::new).err().unwrap().to_string()
    };
    for id in ["mapped", "mapping", "skilled"] {
        assert!(problem(json!({"of": {"id": id}})).starts_with(&format!("of.id: `{id}` can't be explored")));
    }
    assert!(
        problem(json!({"commands": "Possible"}))
            .starts_with("commands: `Possible` has to be a text with one gap")
    );
    assert!(problem(json!({"place": "{}"})).starts_with("place: `{}` has to be"));
    assert!(problem(json!({"separator": ""})).starts_with("separator: "));
    assert!(problem(json!({"nothing": ["no", ""]})).starts_with("nothing: an empty text"));
    assert!(problem(json!({"explore_max": 900})).starts_with("explore_max: 900 is out of range"));

    // A house that does not list its commands is no game for a program.
    let read = settings::read(&json!({"explorer": "curious"})).unwrap();
    let tasks = MappedTasks::new(read).unwrap();
    let task = &tasks.tasks(1, 1).unwrap().tasks[0];
    let error = tasks.environment().reset(task, 0).unwrap_err().to_string();
    assert!(error.starts_with("commands: `Possible: {}` is not in what `household` says first"), "{error}");
    // Nor is what is played by calls.
    let tools = crate::build("mapped", &json!({"of": {"id": "accounts"}})).unwrap();
    let error = tools.ready().unwrap_err().to_string();
    assert!(error.starts_with("`accounts` is played by calls ("), "{error}");
}

#[test]
fn a_house_is_demonstrated_after_a_policy_had_nothing_to_explore() {
    let mapped = crate::build("mapped", &json!({})).unwrap();
    let plain = crate::build("household", &json!({})).unwrap();
    let (tasks, inner) = (mapped.tasks(4, 6).unwrap().tasks, plain.tasks(4, 6).unwrap().tasks);
    for (task, inner) in tasks.iter().zip(&inner) {
        let demonstrations = mapped.demonstrations().unwrap();
        let shown = demonstrations.demonstrate_episode(task).unwrap();
        let own = plain.demonstrations().unwrap().demonstrate_episode(inner).unwrap();
        assert_eq!(demonstrations.demonstrate(task).unwrap().content, DONE);
        assert_eq!(shown[task.prompt.len() + 2..], own[inner.prompt.len()..]);
        let mut environment = mapped.environment();
        environment.reset(task, 0).unwrap();
        for answer in shown[task.prompt.len()..].iter().filter(|it| it.role == Role::Assistant) {
            environment.step(answer).unwrap();
        }
        assert!(environment.verify().unwrap().success);
    }
}
