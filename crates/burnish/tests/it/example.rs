//! The algorithm on one page is the real one: its steps equal those of `burnish train`, number by number.

#[path = "../../examples/grpo.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is a program")]
mod grpo;

use crate::common::{Scratch, timeless_metrics};
use burnish_core::Task;
use burnish_core::rng::{Address, Purpose};
use burnish_train::Update;
use grpo::Learner;
use serde_json::Value;

/// They pack the samples of a step in different orders, so sums round differently.
const ROUNDING: f64 = 1e-2;

/// Number of steps to compare.
const STEPS: usize = 3;

/// The example as a recipe, on a fixed set of tasks.
const RECIPE: &str = r#"
[run]
dir = "run"
seed = 1
threads = 2

[env]
id = "mapf-frozenlake"
tasks = 48

[train]
method = "grpo"
max_steps = 3
epochs = 2

[rollout]
tasks_per_step = 16
group_size = 8
tokens_max = 160

[loss]
config = { epsilon_low = 0.2, epsilon_high = 0.2 }
beta = 0.04
use_bias_correction_kl = false
aggregation = "grpo"

[optimizer]
learning_rate = 1e-4
schedule = "constant"

[eval]
tasks = 0
"#;

fn recipe(policy: &str) -> String {
    format!("{RECIPE}\n[policy]\npath = {policy:?}\n")
}

#[test]
fn each_step_is_that_of_a_run() {
    let policy = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/starter");
    let scratch = Scratch::new();
    scratch.write("recipe.toml", recipe(policy));
    scratch.burnish(&["train", "recipe.toml"]).succeeds();
    let rows = timeless_metrics(&scratch.path("run/metrics.jsonl"));
    let rows = rows.iter().map(|row| serde_json::from_str::<Value>(row).unwrap());
    let run: Vec<Value> = rows.filter(|row| row["event"] == "train").collect();
    assert_eq!(run.len(), STEPS);

    let mut learner = Learner::load(policy).unwrap();
    let seed = Address::new(grpo::SEED, Purpose::Task).seed();
    let made = learner.env.tasks(seed, STEPS * grpo::TASKS).unwrap().tasks;
    let order = burnish_data::order(made.len(), grpo::SEED, 0);
    let tasks: Vec<Task> = order.into_iter().map(|at| made[at].clone()).collect();
    for ((step, tasks), row) in (0..).zip(tasks.chunks(grpo::TASKS)).zip(&run) {
        let (reward, updates) = learner.step(step, tasks).unwrap();
        let mean =
            |number: &dyn Fn(&Update) -> f64| updates.iter().map(number).sum::<f64>() / updates.len() as f64;
        let metric = |name: &'static str| mean(&|update| update.metrics[name]);
        for (name, number) in [
            ("reward", reward),
            ("loss", mean(&|update| update.loss)),
            ("grad_norm", mean(&|update| update.grad_norm.unwrap())),
            ("kl", metric("kl")),
            ("entropy", metric("entropy")),
            ("clip_ratio/region_mean", metric("clip_ratio/region_mean")),
        ] {
            let expected = row[name].as_f64().unwrap();
            let bound = ROUNDING * expected.abs();
            assert!((number - expected).abs() <= bound, "step {step}: {name} is {number}, not {expected}");
        }
    }
}
