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

/// The Python that has a package: that of `BURNISH_PYTHON`, or `python3`.
fn python_with(package: &str) -> Option<String> {
    let python = std::env::var("BURNISH_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let import = format!("import {package}");
    if !std::process::Command::new(&python).args(["-c", &import]).output().is_ok_and(|it| it.status.success())
    {
        println!("skipped: {python} has no {package}; BURNISH_PYTHON can name one that has");
        return None;
    }
    Some(python)
}

/// The override that names a bridge of this repository.
fn bridge(python: &str, name: &str) -> String {
    let helper = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python");
    let module = format!("burnish.bridges.{name}");
    let path = format!("PYTHONPATH={}", helper.display());
    format!("env.config.command={}", serde_json::json!(["env", path, python, "-m", module]))
}

#[test]
fn bfcl_is_played_by_its_package() {
    let Some(python) = python_with("bfcl_eval") else { return };
    let scratch = Scratch::new();
    let (url, _) = serve(helpless);
    // Where no function fits, saying so is right; nowhere else.
    for (category, right) in [("irrelevance", 1.0), ("simple_python", 0.0), ("multi_turn_base", 0.0)] {
        let category = format!("env.config.settings.category=[\"{category}\"]");
        let ask = ["eval", "bfcl", "--policy", &url, "--model", "m", "--limit", "20", "--json"];
        let more = [bridge(&python, "from_bfcl"), category];
        let more = more.each_ref().map(String::as_str);
        let found = parsed(&scratch.burnish(&[&ask[..], &more].concat()).succeeds().stdout());
        assert_eq!((&found["success"]["mean"], &found["tasks"]), (&right.into(), &20.into()), "{found}");
    }
}

#[test]
fn tau2_is_played_by_its_package() {
    let Some(python) = python_with("tau2") else { return };
    let scratch = Scratch::new();
    let (url, sent) = serve(helpless);
    // A customer who is content with everything.
    let (customer, _) = serve(|_: usize, _: &Value| said("###STOP###"));
    let user = format!("user={{endpoint={{url=\"{customer}\", model=\"m\"}}}}");
    let ask = ["eval", "tau2", "--policy", &url, "--model", "m", "--json"];
    let more = [bridge(&python, "from_tau2"), user, "env.config.settings.domain=\"airline\"".to_owned()];
    let more = more.each_ref().map(String::as_str);
    let found = parsed(&scratch.burnish(&[&ask[..], &more].concat()).succeeds().stdout());
    // 23 of 50 tasks change nothing and tell nothing.
    assert_eq!((&found["tasks"], &found["unscored"]), (&50.into(), &0.into()), "{found}");
    assert!((found["success"]["mean"].as_f64().unwrap() - 23.0 / 50.0).abs() < 1e-9, "{found}");
    let sent = sent.lock().unwrap();
    assert!(sent.iter().all(|asked| asked["tools"].as_array().unwrap().len() > 10));
    assert!(sent[0]["messages"][0]["content"].as_str().unwrap().contains("<policy>"));
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
    refused(&["eval", "codespec", "--policy", "tiny"], &["codespec needs its data", "BURNISH_DATA/codespec"]);
    refused(&["eval", "bfcl", "--data", "tiny", "--policy", "tiny"], &["the tasks of bfcl come with"]);
    refused(&["eval", "tau3", "--policy", "tiny"], &["did you mean `tau2`?"]);
    refused(&["eval", "bfcl", "--policy", "tiny", "--lang", "en"], &["--lang", "bfcl"]);
    refused(&["eval", "bfcl"], &["which policy?"]);
    refused(&["eval", "bfcl", "--policy", "tiny", "env.config.nothing=1"], &["env.config.nothing"]);
}
