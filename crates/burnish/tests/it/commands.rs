//! Every command does what it says, on a tiny policy.

use crate::common;
use crate::common::Scratch;

#[test]
fn a_run_directory_holds_everything_that_was_promised() {
    let scratch = Scratch::with_policy();
    let said = scratch.burnish(&["train", "grpo.toml"]).succeeds().stdout();
    assert!(said.contains("held-out tasks before") && said.contains("report.html"), "{said}");
    for file in ["recipe.toml", "metrics.jsonl", "run.db", "report.html", "checkpoints/step_6/config.json"] {
        assert!(scratch.path("grpo").join(file).exists(), "{file}");
    }
    let metrics = String::from_utf8(scratch.read("grpo/metrics.jsonl")).unwrap();
    let step: serde_json::Value = serde_json::from_str(metrics.lines().nth(1).unwrap()).unwrap();
    for name in [
        "reward",
        "reward_std",
        "frac_reward_zero_std",
        "rewards/plan/mean",
        "completions/mean_length",
        "completions/clipped_ratio",
        "entropy",
        "kl",
        "clip_ratio/region_mean",
        "loss",
        "grad_norm",
        "learning_rate",
        "num_tokens",
        "step_time",
        "sampling/sampling_logp_difference/max",
    ] {
        assert!(step.get(name).is_some_and(serde_json::Value::is_number), "{name} is not in {step}");
    }
    // The sampler and the trainer compute the same log-probs.
    assert!(step["sampling/sampling_logp_difference/max"].as_f64().unwrap() < 1e-5, "{step}");
    let report = String::from_utf8(scratch.read("grpo/report.html")).unwrap();
    assert!(report.contains("<svg"));
    // Nothing is fetched: the only addresses are names of XML namespaces.
    for fetched in ["src=\"http", "href=\"http", "url(http", "@import", "<script src", "<link"] {
        assert!(!report.contains(fetched), "{fetched}");
    }
}

#[test]
fn dry_run_prints_a_recipe_that_resolves_to_itself_and_starts_nothing() {
    let scratch = Scratch::with_policy();
    let text = scratch.burnish(&["train", "grpo.toml", "--dry-run", "run.seed=9"]).succeeds().stdout();
    assert!(text.contains("seed = 9"));
    scratch.write("again.toml", &text);
    assert_eq!(scratch.burnish(&["train", "again.toml", "--dry-run"]).succeeds().stdout(), text);
    assert!(!scratch.path("grpo").exists());
    let empty = Scratch::new();
    assert!(empty.burnish(&["train", "quickstart", "--dry-run"]).succeeds().stdout().contains("[env]"));
    assert!(!empty.path("quickstart").exists());
    empty
        .burnish(&["train", "quickstart", "--dry-run", "policy.path=no/such/dir"])
        .fails_with(&["policy.path: no/such/dir"]);
}

#[test]
fn runs_studies_and_evaluations_are_told_from_recipes_to_train() {
    let scratch = Scratch::with_policy();
    scratch.burnish(&["train", "tiny"]).fails_with(&["is a run", "train --resume tiny", "eval tiny"]);
    scratch.write("study.toml", "[study]\nid = \"a\"\nrecipe = \"grpo.toml\"\n");
    scratch.burnish(&["train", "study.toml"]).fails_with(&["is a study", "study study.toml"]);
    let env = "[env]\nid = \"countdown\"\n";
    scratch
        .write("eval.toml", format!("policy.path = \"tiny\"\neval.tasks = 4\nrollout.tokens_max = 8\n{env}"));
    assert!(scratch.burnish(&["eval", "eval.toml"]).succeeds().stdout().contains("tasks    4"));
    scratch.burnish(&["train", "eval.toml"]).fails_with(&["`train.max_steps` is missing"]);
}

#[test]
fn evaluating_a_run_gives_what_the_run_itself_found() {
    let scratch = Scratch::with_policy();
    scratch.burnish(&["train", "grpo.toml"]).succeeds();
    let json = scratch.burnish(&["eval", "grpo", "--json"]).succeeds().stdout();
    let summary: serde_json::Value = serde_json::from_str(&json).unwrap();
    let metrics = String::from_utf8(scratch.read("grpo/metrics.jsonl")).unwrap();
    let last: serde_json::Value = serde_json::from_str(metrics.lines().last().unwrap()).unwrap();
    assert_eq!(summary["success"]["mean"], last["eval/success"], "{summary} {last}");
}

#[test]
fn rollouts_are_shown_fresh_and_stored() {
    let scratch = Scratch::with_policy();
    scratch.burnish(&["train", "grpo.toml"]).succeeds();
    let fresh = scratch.burnish(&["rollout", "grpo.toml", "--count", "2"]).succeeds().stdout();
    assert_eq!(fresh.matches("=== mapf-frozenlake/").count(), 2, "{fresh}");
    let stored =
        scratch.burnish(&["rollout", "--from", "grpo", "--step", "3", "--count", "3"]).succeeds().stdout();
    assert_eq!(stored.matches("=== mapf-frozenlake/").count(), 3, "{stored}");
    assert!(stored.contains("advantage"), "{stored}");
    scratch.burnish(&["rollout", "--from", "grpo", "--step", "99"]).fails_with(&["step 99", "1 to 6"]);
}

#[test]
fn environments_are_listed_and_shown_with_their_acceptance() {
    let scratch = Scratch::new();
    let list = scratch.burnish(&["env", "list"]).succeeds().stdout();
    for id in [
        "accounts",
        "agent",
        "associative",
        "chains",
        "clarify",
        "countdown",
        "household",
        "mapf-frozenlake",
        "mapped",
        "mapping",
        "orders",
        "programs",
        "recall",
        "rows",
        "scenes",
        "skilled",
        "tables",
        "timed_facts",
        "timeqa",
        "worlds",
    ] {
        assert!(list.contains(id), "{list}");
    }
    let shown = scratch.burnish(&["env", "show", "mapf-frozenlake", "--tasks", "20"]).succeeds().stdout();
    assert!(shown.contains("acceptance") && shown.contains("bounds") && shown.contains("a task"), "{shown}");
    scratch.burnish(&["env", "show", "rows"]).succeeds();
    scratch.burnish(&["env", "show", "chess"]).fails_with(&["chess", "countdown"]);
}

#[test]
fn a_verifier_in_python_is_enough_to_bring_a_reward() {
    let scratch = Scratch::with_policy();
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: there is no python3");
        return;
    }
    let rows: Vec<String> = (0..24).map(|n| format!("{{\"prompt\": \"Grid {n}\", \"n\": {n}}}")).collect();
    scratch.write("rows.jsonl", rows.join("\n"));
    scratch.write(
        "reward.py",
        r#"
import json, os, sys
for line in sys.stdin:
    request = json.loads(line)
    if request["task"]["n"] % 4 == 3:
        os._exit(3)
    text = request["completion"]
    rewards = {"length": min(len(text), 40) / 40, "letters": sum(c.isalpha() for c in text) / max(len(text), 1)}
    print(json.dumps({"id": request["id"], "rewards": rewards}), flush=True)
"#,
    );
    let recipe = common::TINY_GRPO.replace("id = \"mapf-frozenlake\"", "id = \"rows\"").replace(
        "agents = 2\nreward = { invalid = 0.0, valid = 0.5, optimal = 1.0 }",
        "path = \"rows.jsonl\"\nverifier = { command = [\"python3\", \"reward.py\"] }",
    );
    let recipe: String = recipe
        .lines()
        .filter(|line| !line.contains("[env.config.sizes]") && !line.contains("hole_ratio"))
        .map(|line| format!("{line}\n"))
        .collect();
    scratch.write("rows.toml", recipe + "[reward]\nweights = { length = 2.0 }\n");
    scratch.burnish(&["train", "rows.toml", "eval.tasks=0"]).succeeds();
    let metrics = String::from_utf8(scratch.read("grpo/metrics.jsonl")).unwrap();
    let rows: Vec<serde_json::Value> =
        metrics.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(
        rows.iter()
            .all(|row| row["rewards/length/mean"].is_number() && row["rewards/letters/mean"].is_number())
    );
    // A quarter of the rows make the verifier crash: their episodes are unscored, and the run goes on.
    let unscored: f64 = rows.iter().map(|row| row["episodes/unscored"].as_f64().unwrap()).sum();
    assert!(unscored >= 4.0 && unscored % 4.0 == 0.0, "{unscored}");

    // Only the first step shows which components such a verifier has.
    let few = ["train", "rows.toml", "eval.tasks=0", "rollout.tasks_per_step=2", "rollout.group_size=2"];
    let typo = ["run.dir=typo", "reward.weights={lenght=2.0}"];
    scratch
        .burnish(&[&few[..], &typo].concat())
        .fails_with(&["`reward.weights.lenght`", "did you mean `reward.weights.length`?"]);

    // A verifier that no longer works once it was tried is reported at every step, and ends the run.
    let once = r#"
import json, os, sys
if os.path.exists("tried"):
    raise SystemExit("no licence")
open("tried", "w").close()
request = json.loads(sys.stdin.readline())
print(json.dumps({"id": request["id"], "reward": 1.0}), flush=True)
"#;
    scratch.write("reward.py", once);
    let failed = scratch.burnish(&[&few[..], &["run.dir=broken"]].concat()).fails_with(&[
        "steps 1 to 3",
        "no licence",
        "burnish train --resume broken",
    ]);
    let said = failed.stdout();
    assert_eq!(said.matches("no episode could be scored").count(), 3, "{said}");
    assert!(said.contains("no licence") && !said.contains("the trained policy"), "{said}");
}

#[test]
fn conversations_from_a_file_are_imitated() {
    let scratch = Scratch::with_policy();
    // Two turns: both answers are trained on, the user's words are not.
    let row = serde_json::json!({ "messages": [
        { "role": "user", "content": "Grid" },
        { "role": "assistant", "content": "A: RIGHT" },
        { "role": "user", "content": "again" },
        { "role": "assistant", "content": "B: DOWN" },
    ]});
    scratch.write("rows.jsonl", format!("{row}\n").repeat(8));
    let recipe = common::TINY_GRPO
        .replace("method = \"grpo\"", "method = \"sft\"")
        .replace("max_steps = 6", "max_steps = 30");
    scratch.write("rows.toml", recipe + "[data]\npath = \"rows.jsonl\"\n");
    scratch.burnish(&["sft", "rows.toml", "eval.tasks=0", "train.sequences_per_step=4"]).succeeds();
    let metrics = String::from_utf8(scratch.read("grpo/metrics.jsonl")).unwrap();
    let rows: Vec<serde_json::Value> =
        metrics.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (first, last) = (&rows[0], &rows[rows.len() - 1]);
    assert!(last["loss"].as_f64().unwrap() < 0.5 * first["loss"].as_f64().unwrap(), "{first} {last}");
    // Fewer tokens are trained on than are read.
    assert!(first["tokens/trained"].as_f64() < first["tokens/forward"].as_f64(), "{first}");
}

/// Twenty words that occur only with this `mark` and `n`.
fn question(mark: &str, n: usize) -> String {
    (0..20).map(|at| format!("{mark}{n}x{at}")).collect::<Vec<_>>().join(" ")
}

/// Rows to imitate: `own` rows that are unique, and `copied` rows whose prompt is also in the evaluation data.
fn answered(own: usize, copied: usize) -> String {
    let prompts = (0..own).map(|n| question("t", n)).chain((0..copied).map(|n| question("e", n)));
    prompts.map(|prompt| format!("{}\n", serde_json::json!({"question": prompt, "reply": "A"}))).collect()
}

#[test]
fn training_rows_that_hold_evaluation_rows_are_reported_and_dropped() {
    let scratch = Scratch::with_policy();
    scratch.write("train.jsonl", answered(12, 3));
    let evaluation: String = (0..6)
        .map(|n| format!("{}\n", serde_json::json!({"prompt": question("e", n), "completion": "A"})))
        .collect();
    scratch.write("eval.jsonl", evaluation);
    let columns = ["--columns", "prompt=question,completion=reply", "--against-columns", "auto"];
    let check = ["data", "check", "train.jsonl", "--against", "eval.jsonl"];
    let said = scratch.burnish(&[&check[..], &columns[..]].concat()).succeeds().stdout();
    assert!(
        said.contains("train.jsonl: 3 of 15 rows overlap") && said.contains("line 13, evaluation row 1"),
        "{said}"
    );
    let json = scratch.burnish(&[&check[..], &columns[..], &["--json"]].concat()).succeeds().stdout();
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&report["files"][0]["overlapping"], &report["evaluation_rows_found"]),
        (&3.into(), &3.into())
    );

    let recipe = "[run]\ndir = \"run\"\n[policy]\npath = \"tiny/checkpoints/step_120\"\n[train]\nmethod = \"sft\"\n\
         max_steps = 2\nsequences_per_step = 4\n[env]\nid = \"rows\"\n[env.config]\npath = \"eval.jsonl\"\n\
         [data]\npath = \"train.jsonl\"\ncolumns = { prompt = \"question\", completion = \"reply\" }\n\
         [rollout]\ntokens_max = 4\n";
    scratch.write("rows.toml", recipe);
    let run = |dir: &str, action: &str| {
        let dir_override = format!("run.dir={dir}");
        let action = format!("data.decontaminate.action={action}");
        let said = scratch.burnish(&["sft", "rows.toml", &dir_override, &action]).succeeds().stdout();
        let metrics = String::from_utf8(scratch.read(&format!("{dir}/metrics.jsonl"))).unwrap();
        let first: serde_json::Value = serde_json::from_str(metrics.lines().next().unwrap()).unwrap();
        assert_eq!((&first["event"], &first["data/overlap/rows"]), (&"data".into(), &15.0.into()), "{first}");
        assert_eq!(first["data/overlap/overlapping"], 3.0);
        let report = String::from_utf8(scratch.read(&format!("{dir}/report.html"))).unwrap();
        assert!(report.contains("3 of 15 training rows") && report.contains("line 13"), "the report says it");
        (said, metrics)
    };
    let (said, reported) = run("reported", "report");
    assert!(
        said.contains("3 of 15 training rows (20.00 %) overlap with 3 of 6 evaluation rows (13-grams)\n"),
        "{said}"
    );
    let (said, dropped) = run("dropped", "drop");
    assert!(said.contains("(13-grams): dropped"), "{said}");
    assert_ne!(reported.lines().nth(2), dropped.lines().nth(2), "other rows are trained on");
    scratch.write("train.jsonl", answered(0, 3));
    let all = ["sft", "rows.toml", "run.dir=all", "data.decontaminate.action=drop"];
    scratch.burnish(&all).fails_with(&["every row overlaps", "data.decontaminate.action"]);

    // Tasks of an environment that reads files are compared in the same way.
    scratch.write("train.jsonl", answered(12, 3));
    let grpo = [
        "train",
        "rows.toml",
        "run.dir=tasks",
        "train.method=grpo",
        "train.max_steps=1",
        "rollout.tasks_per_step=1",
        "env.tasks=15",
        "env.config={path=\"train.jsonl\", columns={prompt=\"question\", completion=\"reply\"}}",
        "eval.config={path=\"eval.jsonl\"}",
        "eval.tasks=6",
        "data.decontaminate.action=drop",
    ];
    // Nothing judges them, so the run ends after its first evaluation.
    let said = scratch.burnish(&grpo).fails_with(&["before training", "no verifier is set"]).stdout();
    assert!(said.contains("3 of 15 training rows") && said.contains("dropped"), "{said}");
}

#[test]
fn a_data_file_is_shown_as_it_is_understood() {
    let scratch = Scratch::new();
    scratch.write("rows.jsonl", "{\"question\": \"1+1?\", \"answer\": 2, \"level\": 3}\n".repeat(9));
    let said = scratch.burnish(&["data", "show", "rows.jsonl", "--count", "1"]).succeeds().stdout();
    for part in [
        "prompt from \"question\", answer from \"answer\"",
        "prompt user          1+1?",
        "extra level",
        "9 rows",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(said.matches("1+1?").count(), 1);
}
