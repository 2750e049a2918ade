//! `burnish eval` on a recipe with another policy, and with a record of every task.

use crate::common::Scratch;
use crate::test_server::{Reply, question, said, serve};
use serde_json::{Value, json};

fn summary(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn another_policy_plays_a_recipes_held_out_tasks_and_records_are_kept() {
    let scratch = Scratch::with_policy();
    let own = summary(&scratch.burnish(&["eval", "grpo.toml", "--json"]).succeeds().stdout());
    // The run, its newest checkpoint and the model directory are the same policy.
    for policy in [
        &["--policy", "tiny"][..],
        &["--policy", "tiny", "--step", "120"],
        &["--policy", "tiny/checkpoints/step_120"],
    ] {
        let arguments = [&["eval", "grpo.toml", "--json"], policy].concat();
        assert_eq!(summary(&scratch.burnish(&arguments).succeeds().stdout()), own, "{policy:?}");
    }
    let earlier = ["eval", "grpo.toml", "--json", "--policy", "tiny", "--step", "40"];
    assert_ne!(summary(&scratch.burnish(&earlier).succeeds().stdout()), own);

    // Batches of 1, so that 8 tasks are two chunks. Another process continues after one was stopped.
    let keep = ["eval", "grpo.toml", "rollout.batch_max=1", "--policy", "tiny", "--out", "kept"];
    let said = scratch.burnish(&keep).succeeds().stdout();
    assert!(said.contains("records  kept/items.jsonl"), "{said}");
    let (items, found) = (scratch.read("kept/items.jsonl"), scratch.read("kept/summary.json"));
    let records: Vec<Value> = String::from_utf8(items.clone())
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(records.len(), 8);
    let successes = records.iter().filter(|record| record["samples"][0]["outcome"] == "success").count();
    assert_eq!(own["success"]["mean"].as_f64().unwrap(), successes as f64 / 8.0);
    for record in &records {
        let sample = &record["samples"][0];
        assert!(
            record["prompt"][0]["content"].is_string() && sample["answers"][0]["content"].is_string(),
            "{record}"
        );
        assert!(sample["reward"].is_number() && sample["tokens"].as_u64() > Some(0), "{record}");
    }
    let kept = summary(&String::from_utf8(found.clone()).unwrap());
    for name in
        ["success", "reward", "rewards", "flags", "by_label", "completion_tokens_mean", "truncated_rate"]
    {
        assert_eq!(kept[name], own[name], "{name}");
    }
    let lines: Vec<usize> =
        items.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
    for cut in [0, lines[2], lines[3], lines[5] + 7] {
        scratch.write("kept/items.jsonl", &items[..cut]);
        std::fs::remove_file(scratch.path("kept/summary.json")).unwrap();
        let said = scratch.burnish(&keep).succeeds().stdout();
        assert_eq!(said.contains("4 of 8 tasks are there already"), cut >= lines[3], "{said}");
        assert!(
            scratch.read("kept/items.jsonl") == items && scratch.read("kept/summary.json") == found,
            "{cut}"
        );
    }
    let other = [&keep[..], &["eval.seed=5"]].concat();
    scratch.burnish(&other).fails_with(&["holds an evaluation with other settings", "`evaluation.seed`"]);
    let other = [&keep[..], &["--step", "40"]].concat();
    scratch.burnish(&other).fails_with(&["`policy.files.model.safetensors`"]);
    scratch.burnish(&["eval", "grpo.toml", "--samples", "4"]).fails_with(&["--samples", "`eval.rollouts=N`"]);
    scratch.burnish(&["eval", "grpo.toml", "--policy", "nowhere"]).fails_with(&["--policy nowhere"]);
    scratch.burnish(&["eval", "grpo.toml", "--model", "m"]).fails_with(&["--model is for a server"]);
}

#[test]
fn an_adapter_is_a_policy_and_a_recipe_needs_none_of_its_own() {
    let scratch = Scratch::with_policy();
    let lora = ["policy.lora={rank=4, alpha=8.0}", "train.max_steps=2", "run.dir=adapted"];
    scratch.burnish(&[&["train", "grpo.toml"], &lora[..]].concat()).succeeds();
    let own = summary(&scratch.burnish(&["eval", "adapted", "--json"]).succeeds().stdout());
    let found = ["eval", "grpo.toml", "--json", "--policy", "adapted"];
    assert_eq!(summary(&scratch.burnish(&found).succeeds().stdout()), own);
    // `policy.new` gives no policy before it is trained, but another policy can be evaluated.
    let of_new = ["eval", "sft.toml", "--json", "--policy", "adapted"];
    assert_eq!(summary(&scratch.burnish(&of_new).succeeds().stdout())["tasks"].as_u64(), Some(8));
    scratch.burnish(&["eval", "sft.toml"]).fails_with(&["policy.path"]);
}

/// Answers every question with its first number; refuses prompts longer than its context.
fn answered(_: usize, asked: &Value) -> Reply {
    let text = question(asked);
    if text.len() > 500 {
        let message = "This model's maximum context length is 100 tokens. However, you requested 700 tokens";
        return ("400 Bad Request", json!({"error": {"message": message}}));
    }
    let number: String =
        text.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    said(&format!("It is {number}"))
}

#[test]
fn a_server_is_asked_for_every_answer() {
    let scratch = Scratch::new();
    let row = |at: usize| {
        let words = if at == 7 { "again and ".repeat(100) } else { String::new() };
        let gold = at + at % 2;
        format!("{{\"prompt\": \"{words}What is {at} + 0?\", \"answer\": \"{gold}\"}}\n")
    };
    scratch.write("rows.jsonl", (0..12).map(row).collect::<String>());
    scratch.write(
        "rows.toml",
        "[run]\ndir = \"x\"\n[policy]\npath = \"none\"\n[train]\nmethod = \"grpo\"\nmax_steps = 1\n[env]\nid = \"rows\"\n\
         config = { path = \"rows.jsonl\", verifier = \"number\" }\n[rollout]\ntokens_max = 9\n[eval]\ntasks = 12\n",
    );
    let (url, sent) = serve(answered);
    let ask = ["eval", "rows.toml", "--policy", &url, "--model", "served", "--out", "asked"];
    let said = scratch.burnish(&ask).succeeds().stdout();
    assert!(said.contains(&format!("policy   served at {url}")), "{said}");
    assert!(
        said.contains("success 50.0 %") && said.contains("1 of 12 episodes counted as a failure"),
        "{said}"
    );
    let found = summary(&String::from_utf8(scratch.read("asked/summary.json")).unwrap());
    assert!(found["completion_tokens_mean"].is_null() && found["surprisal_mean"].is_null(), "{found}");
    let sent = sent.lock().unwrap().clone();
    assert_eq!(sent.len(), 12);
    assert!(
        sent.iter().all(|asked| asked["model"] == "served"
            && asked["max_tokens"] == 9
            && asked["temperature"] == 0.0)
    );

    let refused = |more: &[&str], parts: &[&str]| {
        let arguments = [&["eval", "rows.toml", "--policy", &url], more].concat();
        scratch.burnish(&arguments).fails_with(parts);
    };
    refused(&[], &["which model", "--model NAME"]);
    refused(&["--model", "m", "--step", "3"], &["--step", "a server"]);
    refused(&["eval.top_k=5", "--model", "m", "--out", "no"], &["--policy", "top_k"]);
    assert!(!scratch.path("no").exists(), "nothing is written where nothing can be played");
    refused(&["--model", "m", "--api-key-env", "BURNISH_NO_SUCH_KEY"], &["BURNISH_NO_SUCH_KEY"]);
    scratch
        .burnish(&["eval", "gsm8k", "--policy", &url, "--model", "m"])
        .fails_with(&["needs a model or run directory"]);
}
