//! Benchmarks that are played in environments, by servers and by policies, on the benchmarks' own files.

use std::path::{Path, PathBuf};

use crate::common::Scratch;
use crate::test_server::{Reply, said, serve};
use serde_json::Value;

fn data(name: &str) -> Option<String> {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(name);
    if !folder.is_dir() {
        println!("skipped: there is no shared/data/{name}");
        return None;
    }
    Some(folder.display().to_string())
}

/// A server that can't do anything.
fn helpless(_: usize, _: &Value) -> Reply {
    said("I can't help with that.")
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// What a command prints that runs programs; `None` where they can't be kept apart.
fn judged(scratch: &Scratch, arguments: &[&str]) -> Option<Value> {
    let output = scratch.command(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    if error.contains("be kept apart here") {
        println!("skipped: programs can't be kept apart here");
        return None;
    }
    assert!(output.status.success(), "{error}");
    Some(parsed(&String::from_utf8(output.stdout).unwrap()))
}

#[test]
fn tau2_has_its_known_floor() {
    let Some(data) = data("tau2_bench") else { return };
    let scratch = Scratch::new();
    let (url, sent) = serve(helpless);
    let ask = ["eval", "tau2", "--data", &data, "--policy", &url, "--model", "served", "--json"];
    let found = parsed(&scratch.burnish(&ask).succeeds().stdout());
    // 7 of 114 tasks of the shop and 23 of 50 of the airline change nothing and tell nothing.
    assert_eq!(found["tasks"], 164);
    assert!((found["success"]["mean"].as_f64().unwrap() - 30.0 / 164.0).abs() < 1e-9, "{found}");
    let of = |domain: &str| found["by_label"]["domain"][domain]["success"]["mean"].as_f64().unwrap();
    assert!((of("airline") - 23.0 / 50.0).abs() < 1e-9 && (of("retail") - 7.0 / 114.0).abs() < 1e-9);
    // The server was given the tools of the domain and its policy.
    let sent = sent.lock().unwrap();
    assert!(sent.iter().all(|asked| asked["tools"].as_array().unwrap().len() > 10));
    assert!(sent[0]["messages"][0]["content"].as_str().unwrap().contains("policy"));
}

#[test]
fn bfcl_is_played_by_category() {
    let Some(data) = data("bfcl_v4") else { return };
    let scratch = Scratch::new();
    let (url, _) = serve(helpless);
    let ask = |category: &str| {
        let category = format!("env.config.category=[\"{category}\"]");
        let ask =
            ["eval", "bfcl", "--data", &data, "--policy", &url, "--model", "m", "--limit", "20", "--json"];
        parsed(&scratch.burnish(&[&ask[..], &[&category]].concat()).succeeds().stdout())
    };
    // Where no function fits, saying so is right; nowhere else.
    assert_eq!(ask("irrelevance")["success"]["mean"], 1.0);
    for category in ["simple_python", "parallel", "multi_turn_base"] {
        let found = ask(category);
        assert_eq!((&found["success"]["mean"], &found["tasks"]), (&0.0.into(), &20.into()), "{category}");
    }
}

#[test]
fn a_policy_of_ones_own_plays_what_a_server_plays() {
    let (Some(bfcl), Some(tau)) = (data("bfcl_v4"), data("tau2_bench")) else { return };
    let scratch = Scratch::with_policy();
    // Long enough for a policy in prose and a dozen tools; what it says is noise.
    let longer = ["policy.new.max_position_embeddings=32768", "train.max_steps=1", "checkpoint.every=1"];
    scratch.burnish(&[&["sft", "sft.toml", "--overwrite"], &longer[..]].concat()).succeeds();
    let play = |name: &str, data: &str, more: &[&str]| {
        let ask = ["eval", name, "--data", data, "--policy", "tiny", "--json", "rollout.tokens_max=8"];
        let found = parsed(&scratch.burnish(&[&ask[..], more].concat()).succeeds().stdout());
        assert!(found.get("prompt_too_long").is_none() && found["unscored"] == 0, "{found}");
        (found["tasks"].as_u64().unwrap(), found["success"]["mean"].as_f64().unwrap())
    };
    assert_eq!(play("bfcl", &bfcl, &["--limit", "4", "env.config.category=[\"irrelevance\"]"]), (4, 1.0));
    assert_eq!(play("bfcl", &bfcl, &["--limit", "4", "env.config.category=[\"simple_python\"]"]), (4, 0.0));
    let short = ["--limit", "2", "env.config.domain=[\"retail\"]", "env.config.turns=2"];
    assert_eq!(play("tau2", &tau, &short), (2, 0.0));
}

#[test]
fn specifications_of_real_functions_are_judged() {
    let (Some(plus), Some(own)) = (data("evalplus_history"), data("humaneval")) else { return };
    let scratch = Scratch::new();
    let trivial = "```python\ndef preconditions(*inputs):\n    assert True\n\ndef postconditions(*inputs):\n    assert True\n```";
    let (url, _) = serve(move |_, _| said(trivial));
    // HumanEval's own file lies beside the others.
    let folder = scratch.path("functions");
    std::fs::create_dir(&folder).unwrap();
    for from in [&plus, &own] {
        for file in std::fs::read_dir(from).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), folder.join(file.file_name())).unwrap();
        }
    }
    let ask = [
        "eval",
        "codespec",
        "--data",
        "functions",
        "--policy",
        &url,
        "--model",
        "m",
        "--limit",
        "4",
        "--json",
    ];
    let Some(found) = judged(&scratch, &ask) else { return };
    assert_eq!((&found["tasks"], &found["success"]["mean"]), (&4.into(), &0.0.into()), "{found}");
    assert_eq!((&found["rewards"]["correct"], &found["rewards"]["complete"]), (&1.0.into(), &0.0.into()));
}

#[test]
fn specifications_in_small_repositories_need_no_data() {
    let scratch = Scratch::new();
    let (url, _) = serve(move |_, _| said("I can't say."));
    let ask = ["eval", "codespec-repo", "--policy", &url, "--model", "m", "--json"];
    let Some(found) = judged(&scratch, &ask) else { return };
    assert_eq!((&found["tasks"], &found["success"]["mean"]), (&5.into(), &0.0.into()), "{found}");
    let ask = ["eval", "codespec-repo", "--data", ".", "--policy", &url, "--model", "m"];
    let error = String::from_utf8(scratch.command(&ask).output().unwrap().stderr).unwrap();
    assert!(error.contains("the tasks of codespec-repo come with burnish"), "{error}");
}

#[test]
fn what_is_missing_or_has_no_meaning_is_named() {
    let scratch = Scratch::with_policy();
    let refused = |arguments: &[&str], parts: &[&str]| {
        let output = scratch.command(arguments).env_remove("BURNISH_DATA").output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && parts.iter().all(|part| error.contains(part)), "{error}");
    };
    refused(&["eval", "tau2", "--policy", "tiny"], &["tau2 needs its data", "BURNISH_DATA/tau2", "MIT"]);
    refused(
        &["eval", "bfcl", "--data", "tiny", "--policy", "tiny"],
        &["there is no `possible_answer` in `tiny`"],
    );
    refused(&["eval", "tau3", "--policy", "tiny"], &["did you mean `tau2`?"]);
    refused(&["eval", "bfcl", "--policy", "tiny", "--lang", "en"], &["--lang", "bfcl"]);
    let Some(data) = data("bfcl_v4") else { return };
    refused(&["eval", "bfcl", "--data", &data], &["which policy?"]);
    refused(
        &["eval", "bfcl", "--data", &data, "--policy", "tiny", "env.config.nothing=1"],
        &["env.config.nothing"],
    );
}
