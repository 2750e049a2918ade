//! Text games of a program that are explored and mapped before they are played.
#![allow(clippy::unwrap_used, clippy::panic)]

use burnish_core::Ending;
use burnish_env::rollout::{play, replay};
use burnish_env::{Generator, build};
use serde_json::{Value, json};

use crate::commanded::{Fixture, reason, says, spawns, spec};

/// A corridor of rooms with a lamp in each; the last one is to be lit. It writes down what it is asked. A trap ends the
/// program, or makes it wait.
const CORRIDOR: &str = r#"
import os, time
from environment import Done, Environment, serve

class Corridor(Environment):
    tasks = 6

    def __init__(self, trap="", repeating="rebuilt"):
        self.trap, self.repeating = trap, repeating

    def note(self, what):
        with open("asked", "a") as log:
            print(self.data, what, file=log)

    def see(self):
        lamp = [] if self.at in self.lit else ["light lamp"]
        trap = [self.trap] if self.trap and self.data == 2 else []
        return f"-= Room {self.at} =-\nDull.\n\nPossible: " + ", ".join(["go on", "go back", *lamp, *trap])

    def task(self, index):
        self.at, self.lit, self.data = 0, set(), index
        return {"prompt": self.see(), "data": index}

    def reset(self, task, seed):
        self.at, self.lit = 0, set()
        self.note("reset")

    def step(self, message):
        command = message["content"]
        self.note(command)
        if command == "crash":
            os._exit(3)
        if command == "hang":
            time.sleep(60)
        if command == "light lamp":
            self.lit.add(self.at)
            if self.at == 2:
                return Done
        self.at = max(0, self.at - 1) if command == "go back" else min(2, self.at + (command == "go on"))
        return self.see()

    def verify(self):
        self.note("verify")
        return {"reward": len(self.lit), "success": 2 in self.lit}

    def close(self):
        self.note("close")

serve(Corridor)
"#;

fn mapped(fixture: &Fixture, settings: Value, keys: Value) -> Box<dyn Generator> {
    let inner = json!({
        "command": ["python3", "env.py"],
        "base_dir": fixture.folder.path(),
        "settings": settings,
        "timeout_seconds": 2.0,
        "startup_seconds": 30.0,
        "workers": 1,
    });
    let mut config =
        json!({"of": {"id": "command", "config": inner}, "explorer": "curious", "converged": 0.0});
    config.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    build("mapped", &config).unwrap()
}

const PLAN: &[&str] = &["go on", "go on", "light lamp"];

#[test]
fn a_program_is_explored_in_one_episode_and_played_in_another_and_both_are_closed() {
    let Some(fixture) = Fixture::new(CORRIDOR) else { return };
    let generator = mapped(&fixture, json!({}), json!({"explore_max": 4}));
    generator.ready().unwrap();
    let tasks = generator.tasks(1, 6).unwrap().tasks;
    assert!(fixture.written("asked").is_empty(), "tasks are made before anything is explored");
    let spawns = spawns(&tasks[..1], 1);
    let spec = spec(&*generator, &spawns);
    let episode = play(&mut says(PLAN), &spec).unwrap().remove(0);
    assert_eq!((reason(&episode), episode.verdict.success), ("", true));
    // The lamps that were lit while exploring are not lit in the game.
    assert_eq!(episode.verdict.rewards["reward"], 1.0);
    let metrics = &episode.verdict.metrics;
    assert_eq!((metrics["explored"], metrics["acted"], metrics["steps"]), (4.0, 3.0, 7.0));
    let asked = fixture.written("asked");
    let what: Vec<&str> = asked.iter().map(|line| line.split_once(' ').unwrap().1).collect();
    let (explored, played) = what.split_at(7);
    assert_eq!((explored[0], &explored[5..]), ("reset", &["verify", "close"][..]));
    assert_eq!(played, [&["reset"][..], PLAN, &["verify", "close"]].concat());
    assert_eq!(replay(&spec, &spawns[0], &episode).unwrap(), episode);
}

#[test]
fn a_program_that_ends_or_hangs_while_it_is_explored_costs_one_episode() {
    let Some(fixture) = Fixture::new(CORRIDOR) else { return };
    for (trap, why) in [("crash", "ended"), ("hang", "2")] {
        let generator = mapped(&fixture, json!({"trap": trap}), json!({"explore_max": 6}));
        let tasks = generator.tasks(1, 6).unwrap().tasks;
        let spawns = spawns(&tasks, 1);
        let spec = spec(&*generator, &spawns);
        let episodes = play(&mut says(PLAN), &spec).unwrap();
        let failed: Vec<usize> = (0..6).filter(|at| !reason(&episodes[*at]).is_empty()).collect();
        let [at] = failed[..] else { panic!("{trap}: {failed:?}") };
        assert!(
            tasks[at].id.0.starts_with("mapped/command/") && reason(&episodes[at]).contains(why),
            "{}",
            reason(&episodes[at])
        );
        assert_eq!(episodes[at].ending, Ending::EnvironmentError);
        assert!(episodes.iter().enumerate().all(|(other, episode)| other == at || episode.verdict.success));
        for (spawn, episode) in spawns.iter().zip(&episodes) {
            assert_eq!(replay(&spec, spawn, episode).unwrap(), *episode);
        }
    }
}

#[test]
fn a_policy_explores_a_program_and_the_episode_is_replayed() {
    let Some(fixture) = Fixture::new(CORRIDOR) else { return };
    let generator = mapped(&fixture, json!({}), json!({"explore_max": 10, "explorer": "policy"}));
    let tasks = generator.tasks(1, 2).unwrap().tasks;
    let spawns = spawns(&tasks, 1);
    let spec = spec(&*generator, &spawns);
    let lines: &[&str] = &["light lamp", "go on", "done", "go on", "go on", "light lamp"];
    for (spawn, episode) in spawns.iter().zip(play(&mut says(lines), &spec).unwrap()) {
        let metrics = &episode.verdict.metrics;
        assert_eq!((metrics["explored"], metrics["acted"]), (2.0, 3.0));
        assert_eq!((episode.verdict.success, episode.verdict.rewards["reward"]), (true, 1.0));
        assert_eq!((metrics["map_layout"], metrics["map_affordances"]), (1.0, 1.0));
        assert_eq!(replay(&spec, spawn, &episode).unwrap(), episode);
    }
}

#[test]
fn what_changes_the_world_can_be_played_but_not_explored() {
    let Some(fixture) = Fixture::new(CORRIDOR) else { return };
    let outside = json!({"repeating": "outside"});
    let error = mapped(&fixture, outside.clone(), json!({"explore_max": 4})).ready().unwrap_err().to_string();
    assert!(error.contains("changes the world") && error.contains("explore_max to 0"), "{error}");
    let generator = mapped(&fixture, outside, json!({"explore_max": 0}));
    generator.ready().unwrap();
    let tasks = generator.tasks(1, 1).unwrap().tasks;
    let spawns = spawns(&tasks, 1);
    let spec = spec(&*generator, &spawns);
    let episode = play(&mut says(PLAN), &spec).unwrap().remove(0);
    assert_eq!((episode.verdict.success, episode.verdict.metrics["steps"]), (true, 3.0));
    let asked = fixture.written("asked").len();
    assert_eq!(replay(&spec, &spawns[0], &episode).unwrap(), episode);
    assert_eq!(fixture.written("asked").len(), asked);
}
