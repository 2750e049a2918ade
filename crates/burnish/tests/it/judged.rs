//! What is judged and what is not: prompts that do not fit, rewards that fail, environments that report no success.

use crate::common::{Scratch, TINY_GRPO, timeless_metrics};
use crate::test_server::{said, serve};
use serde_json::Value;

/// A recipe for rows of a file with its own verifier, derived from that of the tiny policy.
fn rows_recipe(config: &str) -> String {
    let recipe = TINY_GRPO
        .replace("id = \"mapf-frozenlake\"", "id = \"rows\"")
        .replace("agents = 2\nreward = { invalid = 0.0, valid = 0.5, optimal = 1.0 }", config);
    let lines =
        recipe.lines().filter(|line| !line.contains("[env.config.sizes]") && !line.contains("hole_ratio"));
    lines.map(|line| format!("{line}\n")).collect()
}

const COMMAND: &str = "path = \"rows.jsonl\"\nverifier = { command = [\"python3\", \"reward.py\"] }";

fn has_python() -> bool {
    let is_there = std::process::Command::new("python3").arg("--version").output().is_ok();
    if !is_there {
        println!("skipped: there is no python3");
    }
    is_there
}

fn rows(scratch: &Scratch, dir: &str) -> Vec<Value> {
    let lines = timeless_metrics(&scratch.path(&format!("{dir}/metrics.jsonl")));
    lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn prompts_that_do_not_fit_are_failures_in_every_place_and_named() {
    let scratch = Scratch::with_policy();
    let row = |at: usize| {
        let words = if at % 3 == 2 { "again and ".repeat(400) } else { String::new() };
        format!("{{\"prompt\": \"{words}What is {at} + {at}?\", \"answer\": \"{}\"}}\n", 2 * at)
    };
    scratch.write("rows.jsonl", (0..30).map(row).collect::<String>());
    let config = "path = \"rows.jsonl\"\nverifier = \"number\"";
    scratch.write("rows.toml", rows_recipe(config));
    let found = scratch.burnish(&["eval", "rows.toml", "eval.tasks=30", "--json"]).succeeds().stdout();
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!((found["tasks"].as_u64(), found["episodes"].as_u64()), (Some(30), Some(30)), "{found}");
    assert_eq!(
        (found["prompt_too_long"].as_u64(), found["unscored"].as_u64()),
        (Some(10), Some(0)),
        "{found}"
    );
    let said = scratch.burnish(&["eval", "rows.toml", "eval.tasks=30"]).succeeds().stdout();
    assert!(said.contains("tasks    30 (30 episodes)"), "{said}");
    let reason = "10 of 30 episodes counted as a failure: the prompt does not fit the context window";
    assert!(said.contains(reason), "{said}");

    // A run whose task is both held out and too long: its metrics and its report say so.
    let train = ["train", "rows.toml", "rollout.overlong=drop", "eval.tasks=12", "train.max_steps=2"];
    let said = scratch.burnish(&train).succeeds().stdout();
    assert!(
        said.contains("episodes counted as a failure")
            && said.contains("(95 %, paired bootstrap over 12 tasks)")
    );
    let evaluations: Vec<Value> =
        rows(&scratch, "grpo").into_iter().filter(|row| row["event"] == "eval").collect();
    assert!(
        evaluations.iter().all(|row| row["eval/prompt_too_long"].as_f64() > Some(0.0)),
        "{evaluations:?}"
    );
    let report = String::from_utf8(scratch.read("grpo/report.html")).unwrap();
    assert!(report.contains("Episodes whose prompt does not fit, counted as failures"));
}

/// Works, gives a reward without success, and logs each request. From request 22 on it fails until a file `mended`
/// exists.
const FAILING: &str = r#"
import json, os, sys
for line in sys.stdin:
    request = json.loads(line)
    with open("requests", "a") as log:
        log.write(".")
    if os.path.getsize("requests") > 22 and not os.path.exists("mended"):
        sys.exit("the licence has run out")
    text = request["completion"]
    print(json.dumps({"id": request["id"], "reward": 0.25 + sum(map(ord, text)) % 7}), flush=True)
"#;

#[test]
fn a_reward_that_fails_stops_the_run_which_goes_on_as_if_it_had_not() {
    let scratch = Scratch::with_policy();
    if !has_python() {
        return;
    }
    let row = |at: usize| format!("{{\"prompt\": \"Grid {at}\", \"n\": {at}}}\n");
    scratch.write("rows.jsonl", (0..24).map(row).collect::<String>());
    scratch.write("reward.py", FAILING);
    scratch.write("rows.toml", rows_recipe(COMMAND));
    let train = |dir: &str| {
        let dir = format!("run.dir={dir}");
        let sizes = ["eval.tasks=4", "eval.every=0", "rollout.tasks_per_step=2", "checkpoint.every=1"];
        scratch.burnish(&[&["train", "rows.toml", "train.max_steps=7", &dir], &sizes[..]].concat())
    };
    // A row on which it is tried, for training and for evaluation, 4 episodes before training, then 8 per step: it fails
    // from the third step on.
    let failed = train("failed").fails_with(&[
        "steps 3 to 5: no episode could be scored",
        "the licence has run out",
        "burnish train --resume failed` goes on after step 2",
        "`train.unscored_steps_max`",
    ]);
    assert!(!failed.stdout().contains("the trained policy"), "{}", failed.stdout());
    let report = String::from_utf8(scratch.read("failed/report.html")).unwrap();
    for text in [
        "<b class=\"stopped\">stopped</b> 5 of 7 steps are done. The last checkpoint is of step 2.",
        "It stopped with an error: ",
        "the licence has run out",
    ] {
        assert!(report.contains(text), "{text}: {report}");
    }
    scratch.write("mended", "");
    let said = scratch.burnish(&["train", "--resume", "failed"]).succeeds().stdout();
    assert!(said.contains("resuming failed after step 2") && said.contains("the trained policy"), "{said}");
    let whole = train("whole").succeeds().stdout();
    assert_eq!(rows(&scratch, "failed"), rows(&scratch, "whole"));
    for file in ["model.safetensors", "config.json"] {
        let of = |dir: &str| scratch.read(&format!("{dir}/checkpoints/step_7/{file}"));
        assert!(of("failed") == of("whole"), "{file}");
    }

    // The script reports no success, so everything is expressed in rewards.
    for line in
        ["held-out tasks before: reward ", "held-out tasks after:  reward ", "change:                "]
    {
        let line =
            whole.lines().find(|said| said.starts_with(line)).unwrap_or_else(|| panic!("{line}: {whole}"));
        assert!(!line.contains("points") && !line.contains("success"), "{line}");
    }
    assert!(!whole.contains("success"), "{whole}");
    let rows = rows(&scratch, "whole");
    assert!(rows.iter().all(|row| row["success"].is_null() && row["eval/success"].is_null()));
    assert!(rows.iter().filter(|row| row["event"] == "eval").all(|row| row["eval/reward"].is_number()));
    let report = String::from_utf8(scratch.read("whole/report.html")).unwrap();
    assert!(report.contains("Reward on 4 held-out tasks") && !report.contains("Success on"));
    let found = scratch.burnish(&["eval", "whole", "--json"]).succeeds().stdout();
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!((found["headline"].as_str(), found["success"].is_null()), (Some("reward"), true), "{found}");
    assert!(
        scratch.burnish(&["rollout", "--from", "whole"]).succeeds().stdout().contains("--- judged; rewards")
    );

    // An evaluation that nothing could judge is an error, before anything is sampled.
    std::fs::remove_file(scratch.path("mended")).unwrap();
    scratch.burnish(&["eval", "whole"]).fails_with(&["it judged none", "the licence has run out"]);
}

#[test]
fn steps_that_are_judged_in_part_are_said_and_counted() {
    let scratch = Scratch::with_policy();
    if !has_python() {
        return;
    }
    let row = |at: usize| format!("{{\"prompt\": \"Grid {at}\", \"n\": {at}}}\n");
    scratch.write("rows.jsonl", (0..24).map(row).collect::<String>());
    let reward = "import json, sys\nfor line in sys.stdin:\n    request = json.loads(line)\n    answer = {\"id\": request[\"id\"], \
                  \"reward\": len(request[\"completion\"]) % 5, \"success\": True}\n    if request[\"task\"][\"n\"] % 2:\n        \
                  answer = {\"id\": request[\"id\"], \"error\": \"row \" + str(request[\"task\"][\"n\"]) + \" has no gold\"}\n    \
                  print(json.dumps(answer), flush=True)\n";
    scratch.write("reward.py", reward);
    scratch.write("rows.toml", rows_recipe(COMMAND));
    let said =
        scratch.burnish(&["train", "rows.toml", "eval.tasks=6", "train.max_steps=3"]).succeeds().stdout();
    // Once per kind of reason, whatever row it names.
    assert_eq!(said.matches("episodes could not be scored, and are not learnt from").count(), 1, "{said}");
    assert!(said.contains("episodes of training could not be scored and taught nothing"), "{said}");
    assert!(said.contains("episodes unscored, in no mean: the verifier could not judge"), "{said}");
    let report = String::from_utf8(scratch.read("grpo/report.html")).unwrap();
    assert!(report.contains("Episodes left unscored") && report.contains("taught nothing"));
}

#[test]
fn a_recipe_that_holds_nothing_out_shows_episodes_of_training() {
    let scratch = Scratch::with_policy();
    let shown = scratch.burnish(&["rollout", "grpo.toml", "eval.tasks=0", "--count", "2"]).succeeds();
    assert_eq!(shown.stdout().matches("=== ").count(), 2, "{}", shown.stdout());
    assert!(shown.stderr().contains("tasks of training"), "{}", shown.stderr());
    let held_out = scratch.burnish(&["rollout", "grpo.toml", "--count", "2"]).succeeds();
    assert!(held_out.stderr().is_empty(), "{}", held_out.stderr());
    scratch.burnish(&["eval", "grpo.toml", "eval.tasks=0"]).fails_with(&["eval.tasks: is 0"]);
    // Counts so large that a process would be killed are refused before anything is made.
    for (change, bound) in
        [("env.tasks=1000000000", "1000000 or less"), ("run.threads=100000", "1024 or less")]
    {
        scratch.burnish(&["train", "grpo.toml", change]).fails_with(&[change, bound]);
        assert!(!scratch.path("grpo").exists());
    }
    scratch.burnish(&["env", "show", "countdown", "--tasks", "1000000000"]).fails_with(&["1000000 or less"]);
}

#[test]
fn a_run_asks_its_extractor_for_answers_that_nothing_marks() {
    let scratch = Scratch::with_policy();
    let row = |at: usize| format!("{{\"prompt\": \"What is {at} + {at}?\", \"answer\": \"{}\"}}\n", 2 * at);
    scratch.write("rows.jsonl", (0..30).map(row).collect::<String>());
    let config = "path = \"rows.jsonl\"\nverifier = \"text\"\nreading = \"judge\"";
    scratch.write("rows.toml", rows_recipe(config));
    let short = ["train", "rows.toml", "train.max_steps=1", "eval.tasks=4"];
    scratch.burnish(&short).fails_with(&["extractor", "is needed", "extractor.endpoint"]);

    // A model that copies the first word of a response.
    let (url, sent) = serve(|_, asked| {
        let question = asked["messages"][0]["content"].as_str().unwrap();
        let response = question.split("<response>").nth(1).unwrap().split("</response>").next().unwrap();
        said(response.split_whitespace().next().unwrap_or("NONE"))
    });
    let endpoint = format!("extractor.endpoint={{url=\"{url}\", model=\"m\", retries=0}}");
    scratch.burnish(&[&short[..], &[&endpoint]].concat()).succeeds();
    let asked: Vec<String> = sent.lock().unwrap().iter().map(ToString::to_string).collect();
    let distinct: std::collections::BTreeSet<&String> = asked.iter().collect();
    assert!(!asked.is_empty() && distinct.len() == asked.len(), "{} of {}", distinct.len(), asked.len());
    // What the model said is on the record: nobody is asked again.
    scratch.burnish(&["rollout", "--from", "grpo", "--replay"]).succeeds();
    assert_eq!(sent.lock().unwrap().len(), asked.len());

    // A reply of its own, and no reply, are no judgement.
    let (liar, _) = serve(|_, _| said("an answer of my own"));
    let (broken, _) = serve(|_, _| ("500 Internal Server Error", Value::Null));
    for (url, reason) in [(liar, "is not in the response"), (broken, "could not be judged")] {
        let endpoint = format!("extractor.endpoint={{url=\"{url}\", model=\"m\", retries=0}}");
        let told = scratch.burnish(&["eval", "rows.toml", "eval.tasks=4", "--json", &endpoint]);
        let told = told.stdout() + &told.stderr();
        assert!(told.contains(reason), "{told}");
    }
}
