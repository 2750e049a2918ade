//! `burnish probe --cells`: what attention says of plans over tables, from left to right and from masks.

use crate::common::{Scratch, new_policy};
use serde_json::Value;

/// Tables of two rows, about which one kind of question is asked.
const TABLES: &str = r#"
[run]
dir = "run"
seed = 1

[env]
id = "tables"

[env.config]
rows = { min = 2, max = 2 }
columns = { min = 3, max = 3 }
ops = ["lookup"]
permutations = 2

[[data.demonstrations]]
env = "tables"
tasks = 2000

[data.demonstrations.config]
rows = { min = 2, max = 2 }
columns = { min = 3, max = 3 }
ops = ["lookup"]

[train]
method = "sft"
max_steps = 150
sequences_per_step = 16

[rollout]
tokens_max = 24

[optimizer]
learning_rate = 5e-3

[eval]
every = 0
tasks = 40
"#;

#[test]
fn plans_are_compared_with_what_was_looked_at() {
    let scratch = Scratch::new();
    scratch.write("tables.toml", new_policy(400, 2) + TABLES);
    for (dir, masked) in [("causal", "false"), ("masked", "true")] {
        let (dir, masked) = (format!("run.dir={dir}"), format!("policy.new.masked={masked}"));
        scratch.burnish(&["train", "tables.toml", &dir, &masked]).succeeds();
    }
    for dir in ["causal", "masked"] {
        let out = scratch.burnish(&["probe", dir, "--cells", "--samples", "3", "--json"]).succeeds().stdout();
        let profile: Value = serde_json::from_str(&out).unwrap();
        let number = |value: &Value| value.as_f64().unwrap();
        let (tasks, malformed) = (number(&profile["tasks"]), number(&profile["malformed"]));
        assert_eq!(tasks, 40.0, "{dir}");
        assert!(malformed < 30.0, "{dir}: {malformed}");
        // Each plan has two steps, and is compared as far as it goes.
        assert!(number(&profile["steps"]) <= 2.0 * (tasks - malformed), "{profile}");
        assert!(number(&profile["steps"]) >= tasks - malformed, "{profile}");
        let layers = profile["layers"].as_array().unwrap();
        assert_eq!(layers.len(), 2);
        let verifier = &profile["verifier"];
        for agreement in layers.iter().chain([&verifier["agreement"], &verifier["best_layer"]]) {
            assert!((0.0..=1.0).contains(&number(&agreement["auroc"])), "{profile}");
            assert!(agreement["spread"].is_null() || number(&agreement["spread"]) >= 0.0);
        }
        let choices = &verifier["choices"];
        let of = |name: &str| number(&choices[name]);
        assert_eq!(of("samples"), 3.0);
        assert!((4.0..=16.0).contains(&of("tasks")), "of 20 tables those that it was not fitted on");
        for name in ["first", "by_verifier", "by_logprob", "by_majority"] {
            assert!(of(name) <= of("any") + 1e-9, "{dir} {name}: {choices}");
        }
        let table = scratch.burnish(&["probe", dir, "--cells", "--tasks", "6"]).succeeds().stdout();
        assert!(table.contains("tasks    6;") && table.contains("layer 1"), "{table}");
    }
    // Layer by layer there is no last token of the prompt to ask in a model that reads in both directions.
    scratch.burnish(&["probe", "masked"]).fails_with(&["masked diffusion"]);
    scratch.burnish(&["probe", "causal", "--cells", "eval.tasks=0"]).fails_with(&["eval.tasks"]);
}

#[test]
fn other_environments_have_no_cells() {
    let scratch = Scratch::with_policy();
    scratch.burnish(&["train", "grpo.toml", "run.dir=run", "train.max_steps=1"]).succeeds();
    scratch.burnish(&["probe", "run", "--cells"]).fails_with(&["env.id", "tables"]);
}
