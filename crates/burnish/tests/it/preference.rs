//! Learning from preferences in a file.

use crate::common::Scratch;
use serde_json::{Value, json};

/// Pairs of a right and a wrong path over an empty board, in the tiny policy's words.
fn pairs() -> Vec<(String, String, String)> {
    let words = ["left", "right", "up", "down"];
    let all = words.iter().flat_map(|good| words.iter().map(move |bad| (*good, *bad)));
    all.filter(|(good, bad)| good != bad)
        .map(|(good, bad)| {
            (format!("which way, {good} or {bad}?"), format!("go {good}"), format!("go {bad}"))
        })
        .collect()
}

fn jsonl(rows: impl Iterator<Item = Value>) -> String {
    rows.map(|row| row.to_string() + "\n").collect()
}

const ARGUMENTS: [&str; 10] = [
    "train",
    "grpo.toml",
    "train.method=preference",
    "train.max_steps=30",
    "train.epochs=1",
    "train.minibatches=1",
    "train.sequences_per_step=24",
    "loss.beta=0",
    "eval.tasks=0",
    "optimizer.learning_rate=1e-3",
];

fn rows(scratch: &Scratch, name: &str) -> Vec<Value> {
    let text = String::from_utf8(scratch.read(&format!("runs/{name}/metrics.jsonl"))).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.filter(|row| row["event"] == "train").collect()
}

#[test]
fn pairs_and_labels_are_learnt_from_a_file() {
    let scratch = Scratch::with_policy();
    let chosen = jsonl(pairs().into_iter().map(
        |(prompt, chosen, rejected)| json!({ "prompt": prompt, "chosen": chosen, "rejected": rejected }),
    ));
    scratch.write("pairs.jsonl", &chosen);
    let labels = pairs().into_iter().flat_map(|(prompt, chosen, rejected)| {
        [(chosen, true), (rejected, false)]
            .map(|(said, label)| json!({ "prompt": prompt, "completion": said, "label": label }))
    });
    scratch.write("labels.jsonl", jsonl(labels));
    for (objective, data) in [("dpo", "pairs"), ("simpo", "pairs"), ("kto", "pairs"), ("kto", "labels")] {
        let name = format!("{objective}-{data}");
        let own = [
            format!("run.dir=runs/{name}"),
            format!("loss.objective={objective}"),
            format!("data.path={data}.jsonl"),
        ];
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        scratch.burnish(&[&ARGUMENTS[..], &own].concat()).succeeds();
        let rows = rows(&scratch, &name);
        assert_eq!(rows.len(), 30);
        // Every step has every row.
        let margin =
            |row: &Value| row["rewards/chosen"].as_f64().unwrap() - row["rewards/rejected"].as_f64().unwrap();
        assert!(margin(&rows[29]) > margin(&rows[0]) + 0.1, "{name}: {} {}", rows[0], rows[29]);
        if objective == "dpo" {
            // The policy is its own reference before the first update: every margin is 0.
            assert!((rows[0]["loss"].as_f64().unwrap() - 2f64.ln()).abs() < 1e-5, "{}", rows[0]);
        }
    }
}

#[test]
fn rows_that_say_no_preference_and_losses_that_learn_from_none_are_refused() {
    let scratch = Scratch::with_policy();
    scratch.write("plain.jsonl", "{\"prompt\": \"a\", \"completion\": \"b\"}\n");
    scratch.write("labels.jsonl", "{\"prompt\": \"a\", \"completion\": \"b\", \"label\": true}\n");
    for (objective, data, parts) in [
        ("dpo", "plain", ["plain.jsonl", "line 1", "`chosen`"]),
        ("dpo", "labels", ["labels.jsonl", "line 1", "kto"]),
        ("ppo_clip", "labels", ["`loss.objective`", "loss of preferences", "simpo"]),
    ] {
        let own = [format!("loss.objective={objective}"), format!("data.path={data}.jsonl")];
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let dir = ["run.dir=runs/wrong"];
        scratch.burnish(&[&ARGUMENTS[..], &own, &dir].concat()).fails_with(&parts);
        assert!(!scratch.path("runs/wrong").exists());
    }
}
