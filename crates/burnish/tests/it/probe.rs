//! `burnish probe`: what it says of the last layer is what the policy does.

use crate::common::{Scratch, new_policy};
use serde_json::Value;

/// A policy for toy images of three places, which learns a little in seconds.
const SCENES: &str = r#"
[run]
dir = "run"
seed = 1

[env]
id = "scenes"

[env.config]
rows = 1
columns = 3
objects = 1
shapes = 2
colours = 2
usual = 0.5
questions = { present = 0, colour = 1, caption = 0 }

[[data.demonstrations]]
env = "scenes"
tasks = 400

[data.demonstrations.config]
rows = 1
columns = 3
objects = 1
shapes = 2
colours = 2
usual = 0.9
questions = { present = 0, colour = 1, caption = 0 }

[train]
method = "sft"
max_steps = 40
sequences_per_step = 16

[rollout]
tokens_max = 8

[optimizer]
learning_rate = 5e-3

[eval]
every = 0
tasks = 10

[checkpoint]
every = 40
"#;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn the_last_layer_is_right_where_the_policy_is() {
    let scratch = Scratch::new();
    scratch.write("scenes.toml", new_policy(280, 3) + SCENES);
    scratch.burnish(&["sft", "scenes.toml"]).succeeds();
    let marks = ["--after", "<image>", "--before", "</image>", "--by", "prior"];
    let probe = |more: &[&str]| scratch.burnish(&[&["probe", "run"], &marks[..], more].concat());
    let profile = json(&probe(&["--json"]).succeeds().stdout());
    let layers = profile["layers"].as_array().unwrap();
    assert_eq!((layers.len(), &profile["marked_tasks"]), (3, &profile["tasks"]));
    for layer in layers {
        let share = layer["attention"].as_f64().unwrap();
        assert!(share > 0.0 && share < 1.0, "{share}");
        let of_prior = |value: &str| layer["right_by_label"][value].as_f64().unwrap();
        let mean = f64::midpoint(of_prior("with"), of_prior("against"));
        assert!((layer["right"].as_f64().unwrap() - mean).abs() < 0.1);
    }
    // Every colour is told by its first token here, so the last layer is right where the greedy answer is.
    let result = json(&scratch.burnish(&["eval", "run", "--json"]).succeeds().stdout());
    let success = result["success"]["mean"].as_f64().unwrap();
    assert!(success > 0.2, "{success}");
    assert!((layers[2]["right"].as_f64().unwrap() - success).abs() < 1e-9, "{profile} {success}");

    let table = probe(&["--tasks", "3"]).succeeds().stdout();
    assert!(table.contains("tasks    3") && table.contains("against"), "{table}");
    let plain = scratch.burnish(&["probe", "run", "--json"]).succeeds().stdout();
    assert!(json(&plain)["layers"][0]["attention"].is_null(), "{plain}");

    assert!(json(&plain)["lags"].is_null(), "{plain}");

    let lags = json(&probe(&["--tasks", "4", "--lags", "--json"]).succeeds().stdout());
    let lags = lags["lags"].as_array().unwrap();
    assert_eq!(lags.iter().map(|layer| layer["layer"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1, 2]);
    for layer in lags {
        let numbers = |key: &str| -> Vec<f64> {
            layer[key].as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
        };
        let (gradient, counts) = (numbers("gradient"), numbers("counts"));
        assert!(gradient.len() == counts.len() && gradient.len() > 8, "{}", gradient.len());
        assert!(gradient.iter().all(|mean| *mean > 0.0) && counts.is_sorted_by(|more, less| more > less));
    }
    let table = probe(&["--tasks", "3", "--lags"]).succeeds().stdout();
    assert!(table.contains("the window W") && table.contains(" 8-15"), "{table}");

    scratch.burnish(&["probe", "run", "--by", "size"]).fails_with(&["--by size", "labels prior, question"]);
    scratch.burnish(&["probe", "run", "eval.tasks=0"]).fails_with(&["eval.tasks"]);
}

#[test]
fn an_evaluation_can_contrast_layers() {
    let scratch = Scratch::new();
    scratch.write("scenes.toml", new_policy(280, 3) + SCENES);
    scratch.burnish(&["sft", "scenes.toml"]).succeeds();
    let contrast = |name: &str| format!("eval.contrast={{{name}}}");
    let daid = "daid={marked={after=\"<image>\", before=\"</image>\"}}";
    let vcd = daid.replace("daid", "vcd");
    for name in [daid, &vcd, "dola={}", "dola={layers=[1]}"] {
        scratch.burnish(&["eval", "run", &contrast(name)]).succeeds();
    }
    let nothing = daid.replace("marked", "alpha=0, beta=0, marked");
    let of = |overrides: &[&str]| {
        json(&scratch.burnish(&[&["eval", "run", "--json"], overrides].concat()).succeeds().stdout())["success"].clone()
    };
    assert_eq!(of(&[&contrast(&nothing)]), of(&[]));
    for (name, reason) in [
        ("dola={gamma=2}", "gamma"),
        ("daid={marked={after=\"\", before=\"x\"}}", "marked"),
        ("daid={}", "marked"),
        ("vcd={}", "marked"),
        ("vcd={noise=2, marked={after=\"a\", before=\"b\"}}", "noise"),
        ("opera={}", "opera"),
        ("dola={layers=[3]}", "layer 3, but the model has 3"),
    ] {
        scratch.burnish(&["eval", "run", &contrast(name)]).fails_with(&["contrast", reason]);
    }
    scratch
        .burnish(&["eval", "run", "eval.extra=[{name=\"a\", contrast={dola={gamma=2}}}]"])
        .fails_with(&["extra[0]", "gamma"]);
}
