#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::*;
use crate::offline::demonstrated;
use crate::tasks::Tasks;
use crate::test_server::{question, said, serve};
use burnish_recipe::{Recipe, Source};

/// Imitation of one part and reinforcement learning on the other, over 60 puzzles.
fn recipe(method: &str, keep: &str, mode: &str, cache: &Path) -> Recipe {
    recipe_with("{ rule = \"operations\" }", method, keep, mode, cache).unwrap()
}

fn recipe_with(scorer: &str, method: &str, keep: &str, mode: &str, cache: &Path) -> Result<Recipe, String> {
    let split = format!("{{ scorer = {scorer}, keep = \"{keep}\", {mode} }}");
    let split = split.replace(", , ", ", ").replace(",  }", " }");
    let config = "config = { numbers = { min = 3, max = 4 }, operations = { min = 1, max = 3 } }";
    // The two recipes have different seeds.
    let seed = if method == "sft" { 3 } else { 8 };
    let text = format!(
        "[run]\ndir = \"x\"\nseed = {seed}\ncache = \"{}\"\n[policy]\npath = \"m\"\n[train]\nmethod = \"{method}\"\n\
         max_steps = 1\n[env]\nid = \"countdown\"\ntasks = 60\n{config}\nsplit = {split}\n\
         [[data.demonstrations]]\nenv = \"countdown\"\ntasks = 60\n{config}\nsplit = {split}\n[eval]\ntasks = 10\n",
        cache.display()
    );
    let source = Source::parse("r.toml", &text, &[]).map_err(|error| error.to_string())?;
    Recipe::resolve(&source).map_err(|error| error.to_string())
}

fn sft(keep: &str, mode: &str) -> Result<Vec<Task>, String> {
    let recipe = recipe("sft", keep, mode, Path::new("none"));
    let held_out = Tasks::make(&recipe, false).unwrap();
    let held_out = held_out.held_out_ids();
    demonstrated(&recipe, 0, &held_out).map(|(_, tasks)| tasks).map_err(|error| error.to_string())
}

fn rl(keep: &str, mode: &str) -> Result<Vec<Task>, String> {
    let recipe = recipe("grpo", keep, mode, Path::new("none"));
    Tasks::make(&recipe, true).map(|tasks| tasks.train).map_err(|error| error.to_string())
}

fn ids(tasks: &[Task]) -> BTreeSet<&TaskId> {
    tasks.iter().map(|task| &task.id).collect()
}

fn sizes(tasks: &[Task], label: &str) -> BTreeMap<String, usize> {
    tasks.iter().fold(BTreeMap::new(), |mut sizes, task| {
        *sizes.entry(task.labels[label].clone()).or_default() += 1;
        sizes
    })
}

const MODES: [&str; 4] =
    ["", "mode = \"random\"", "mode = \"reversed\"", "mode = \"domain\", label = \"numbers\""];

#[test]
fn every_task_goes_to_one_of_the_two_stages_in_every_mode_and_none_that_is_held_out_to_any() {
    let whole = rl(">= 0", "").unwrap();
    let eval = Tasks::make(&recipe("grpo", ">= 0", "", Path::new("none")), false).unwrap();
    assert!(whole.len() > 50 && eval.held_out_ids().len() == 10);
    assert!(ids(&whole).is_disjoint(&eval.held_out_ids()));
    let hard = rl(">= 3", "").unwrap();
    for mode in MODES {
        let (imitated, played) = (sft("< 3", mode).unwrap(), rl(">= 3", mode).unwrap());
        assert!(ids(&imitated).is_disjoint(&ids(&played)), "{mode}");
        let both: BTreeSet<&TaskId> = ids(&imitated).union(&ids(&played)).copied().collect();
        assert_eq!(both, ids(&whole), "{mode}");
        assert_eq!(told(&rl(">= 3", mode).unwrap()), told(&played), "the same partition again");
        match mode {
            "" => {
                assert!(played.iter().all(|task| task.labels["operations"] == "3"));
                assert!(imitated.iter().all(|task| task.labels["operations"] != "3"));
            }
            "mode = \"reversed\"" => assert_eq!(ids(&imitated), ids(&hard)),
            _ => {
                assert_eq!(played.len(), hard.len(), "{mode}");
                assert!(sizes(&played, "operations").len() > 1, "{mode}: it says nothing about the score");
                if mode.contains("domain") {
                    assert_eq!(sizes(&played, "numbers"), sizes(&hard, "numbers"));
                }
            }
        }
    }
    // Hard puzzles all have four numbers, so a random split has other domains than the split under test.
    assert_ne!(sizes(&rl(">= 3", MODES[1]).unwrap(), "numbers"), sizes(&hard, "numbers"));
    assert_ne!(
        told(&rl(">= 3", "mode = \"random\"").unwrap()),
        told(&rl(">= 3", "mode = \"random\", seed = 1").unwrap())
    );
}

#[test]
fn a_threshold_at_either_end_leaves_one_stage_only() {
    assert_eq!(ids(&rl(">= 1", "").unwrap()), ids(&rl(">= 0", "").unwrap()));
    assert!(sft("< 1", "").unwrap_err().contains("data.demonstrations[0].split.keep: none of"));
    assert_eq!(ids(&sft("< 6", "").unwrap()), ids(&rl(">= 0", "").unwrap()));
    assert!(rl(">= 6", "").unwrap_err().contains("env.split.keep: none of"));
}

#[test]
fn what_is_wrong_with_a_split_names_its_key() {
    let none = Path::new("none");
    for (scorer, keep, mode, parts) in [
        ("{ rule = \"operations\" }", "4 or more", "", &["env.split.keep", "a bound such as"][..]),
        ("{ rule = \"operations\" }", ">= 4", "mode = \"domain\"", &["`env.split.label`", "must name"]),
        ("{ rule = \"operations\" }", ">= 4", "label = \"numbers\"", &["`env.split.label`", "no use"]),
        ("{ rules = \"operations\" }", ">= 4", "", &["env.split.scorer", "rule"]),
        ("{ judge = { } }", ">= 4", "", &["`env.split.scorer.judge.endpoint`"]),
        (
            "{ judge = { path = \"m\", prompt = \"?\" } }",
            ">= 4",
            "",
            &["`env.split.scorer.judge.prompt`", "{task}"],
        ),
        (
            "{ judge = { endpoint = { url = \"here\", model = \"m\" } } }",
            ">= 4",
            "",
            &["`env.split.scorer.judge.endpoint.url`", "http://"],
        ),
    ] {
        let error = recipe_with(scorer, "grpo", keep, mode, none).unwrap_err();
        assert!(parts.iter().all(|part| error.contains(part)), "{scorer} {keep} {mode}: {error}");
    }
    let recipe = recipe_with("{ rule = \"steps\" }", "grpo", ">= 4", "", none).unwrap();
    let error = Tasks::make(&recipe, true).err().unwrap().to_string();
    assert!(error.contains("env.split.scorer.rule") && error.contains("numbers, operations"), "{error}");
}

#[test]
fn a_column_of_a_row_is_a_score() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows.jsonl");
    let rows: Vec<String> = (1..=6)
        .map(|at| json!({"prompt": format!("question {at}"), "completion": "a", "level": at}).to_string())
        .collect();
    std::fs::write(&path, rows.join("\n")).unwrap();
    let generator = burnish_env::build("rows", &json!({ "path": path })).unwrap();
    let tasks = generator.tasks(1, 12).unwrap().tasks;
    let split: Split = serde_json::from_value(json!({"scorer": {"rule": "level"}, "keep": "> 4"})).unwrap();
    let part = part(&split, &*generator, tasks, dir.path(), "env").unwrap();
    let mut kept: Vec<&str> = part.iter().map(|task| task.prompt[0].content.as_str()).collect();
    kept.sort_unstable();
    assert_eq!(kept, ["question 5", "question 6"], "each once, although the rows came twice");
}

fn judged(url: &str, more: &str, cache: &Path) -> Recipe {
    let judge = format!("{{ judge = {{ endpoint = {{ url = \"{url}\", model = \"m\" }}{more} }} }}");
    recipe_with(&judge, "grpo", ">= 4", "", cache).unwrap()
}

#[test]
fn a_judge_is_asked_once_about_each_task_and_never_sees_its_truth() {
    // It judges by the length of the question.
    let (url, sent) =
        serve(|_, asked| said(if question(asked).len().is_multiple_of(2) { "Score: 5" } else { "Score: 2" }));
    let dir = tempfile::tempdir().unwrap();
    let recipe = judged(&url, "", dir.path());
    let first = Tasks::make(&recipe, true).unwrap().train;
    let whole = rl(">= 0", "").unwrap();
    let asked: Vec<String> = sent.lock().unwrap().iter().map(Value::to_string).collect();
    assert_eq!(asked.len(), whole.len());
    for task in &whole {
        let solution = task.truth["solution"].as_str().unwrap();
        assert!(asked.iter().all(|question| !question.contains(solution)), "{solution}");
        let prompt = serde_json::to_string(&task.prompt[0].content).unwrap();
        assert!(asked.iter().any(|question| question.contains(prompt.trim_matches('"'))));
    }

    // Frozen: the same scores without a question, also for the other part, and even if the end of the file is lost.
    assert_eq!(told(&Tasks::make(&recipe, true).unwrap().train), told(&first));
    assert_eq!(sent.lock().unwrap().len(), whole.len());
    let files: Vec<PathBuf> =
        std::fs::read_dir(dir.path().join("scores")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [file] = &files[..] else { panic!("{files:?}") };
    let text = std::fs::read_to_string(file).unwrap();
    assert_eq!(text.lines().count(), whole.len());
    std::fs::write(file, &text[..text.len() - 4]).unwrap();
    assert_eq!(told(&Tasks::make(&recipe, true).unwrap().train), told(&first));
    assert_eq!(sent.lock().unwrap().len(), whole.len() + 1);
    // A judge with another prompt is another judge.
    Tasks::make(&judged(&url, ", prompt = \"Rate: {task}\"", dir.path()), true).unwrap();
    assert_eq!(std::fs::read_dir(dir.path().join("scores")).unwrap().count(), 2);
}

#[test]
fn a_judge_that_rambles_is_asked_again_and_given_up_with_what_it_said() {
    let (url, sent) = serve(|count, _| said(if count == 0 { "hard to say" } else { "4" }));
    let dir = tempfile::tempdir().unwrap();
    let part = Tasks::make(&judged(&url, "", dir.path()), true).unwrap().train;
    assert_eq!(sent.lock().unwrap().len(), part.len() + 1);

    let (url, sent) = serve(|_, _| said("between 3 and 4"));
    let error = Tasks::make(&judged(&url, "", dir.path()), true).err().unwrap().to_string();
    assert!(error.contains("no score from 1 to 5") && error.contains("between 3 and 4"), "{error}");
    assert_eq!(sent.lock().unwrap().len(), 3);
}
