//! Properties of every task and every episode.

mod episodes;
mod plans;
mod skills;
mod task_sets;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use burnish_core::rng::Stream;
use burnish_core::{Message, Role, Task};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::play::Truth;
use super::world::{Action, World};
use super::*;
use crate::{Demonstrations, Generator, Step};

const SEED: u64 = 5;

fn environment(generator: &Household) -> ManyTurns<play::Episode> {
    ManyTurns::new(generator.family().clone())
}

fn world(environment: &ManyTurns<play::Episode>) -> Option<&World> {
    environment.episode().map(|episode| &episode.world)
}

fn generator(config: Value) -> Household {
    Household::new(settings::read(&config).unwrap()).unwrap()
}

fn tasks(generator: &Household, count: usize) -> Vec<Task> {
    generator.tasks(SEED, count).unwrap().tasks
}

/// Worlds that differ in size, in what is told, and in who demonstrates.
fn variants() -> Vec<Value> {
    let roomy =
        json!({"rooms": 3, "surfaces": 3, "containers": 3, "objects": 6, "plan_max": 14, "steps_max": 30});
    let with = |base: &Value, key: &str, value: Value| {
        let mut config = base.clone();
        config[key] = value;
        config
    };
    vec![
        json!({}),
        json!({"demonstrations": "explorer", "steps_max": 20}),
        json!({"hidden": 1.0, "containers": 0, "prompt": "full"}),
        with(&roomy, "observable", json!(true)),
        with(&roomy, "demonstrations", json!("explorer")),
        with(&with(&roomy, "demonstrations", json!("explorer")), "observable", json!(true)),
        roomy,
    ]
}

/// Every action that can be written, whether possible or not.
fn all_actions(truth: &Truth) -> Vec<Action> {
    let (rooms, places, objects) =
        (0..truth.house.rooms.len(), 0..truth.house.places.len(), 0..truth.house.objects.len());
    let mut all = vec![Action::Look];
    all.extend(rooms.map(Action::Enter));
    all.extend(places.clone().map(Action::Go));
    all.extend(places.clone().map(Action::Open));
    for it in objects {
        let alone = [Action::Take, Action::Clean, Action::Heat, Action::Cool, Action::Examine];
        all.extend(alone.map(|action| action(it)));
        all.extend(places.clone().map(|to| Action::Put(it, to)));
    }
    all
}
