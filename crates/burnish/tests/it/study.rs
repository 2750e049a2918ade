//! Whole studies: arms × seeds of the tiny policy, interrupted, continued and reported.

use crate::common;
use std::process::Stdio;

use crate::common::{Scratch, timeless_metrics, wait_until};
use crate::docs::files;
use burnish_recipe::{Recipe, Source};
use serde_json::Value;

const STUDY: &str = r#"
[study]
id = "tiny-study"
title = "A tiny study"
question = "Does a larger rate learn more?"
recipe = "grpo.toml"
set = ["train.max_steps=2", "train.epochs=1", "train.minibatches=1", "eval.tasks=6", "eval.every=1", "loss.beta=0"]
dir = "runs"
results = "results"
seeds = [7, 3]

[[arms]]
name = "slow"
role = "baseline"

[[arms]]
name = "fast"
set = ["optimizer.learning_rate=1e-2"]
note = "Ten times the rate."

[[arms]]
name = "once"
set = ["rollout.group_size=8"]
seeds = 1
"#;

/// All run directories, in the order in which they are made.
const RUNS: [&str; 5] =
    ["runs/slow/seed-7", "runs/fast/seed-7", "runs/once/seed-7", "runs/slow/seed-3", "runs/fast/seed-3"];

fn text(scratch: &Scratch, path: &str) -> String {
    String::from_utf8(scratch.read(path)).unwrap()
}

fn metrics(scratch: &Scratch) -> Vec<Vec<String>> {
    RUNS.map(|dir| timeless_metrics(&scratch.path(&format!("{dir}/metrics.jsonl")))).to_vec()
}

/// The findings, except for what depends on the clock.
fn findings(scratch: &Scratch) -> Value {
    fn drop_seconds(value: &mut Value) {
        match value {
            Value::Object(table) => {
                table.retain(|name, _| name != "seconds");
                table.values_mut().for_each(drop_seconds);
            }
            Value::Array(items) => items.iter_mut().for_each(drop_seconds),
            _ => {}
        }
    }
    let mut value = serde_json::from_str(&text(scratch, "runs/tiny-study.json")).unwrap();
    drop_seconds(&mut value);
    value
}

#[test]
fn a_study_runs_every_arm_with_every_seed_reports_them_and_goes_on_where_it_was_interrupted() {
    let scratch = Scratch::with_policy();
    scratch.write("study.toml", STUDY);
    let planned = scratch.burnish(&["study", "study.toml", "--dry-run"]).succeeds().stdout();
    let places: Vec<usize> = RUNS.iter().map(|dir| planned.find(dir).unwrap()).collect();
    assert!(places.is_sorted(), "seed by seed over the arms: {planned}");
    assert!(!scratch.path("runs").exists());
    scratch.burnish(&["study", "study.toml", "--draft", "--report-only"]).fails_with(&["no finished run"]);

    scratch.burnish(&["study", "study.toml", "--draft"]).succeeds();
    let (whole, found) = (metrics(&scratch), findings(&scratch));
    let page = text(&scratch, "runs/tiny-study.md");
    assert!(
        page.contains("# A tiny study") && page.contains("Question: Does a larger rate learn more?"),
        "{page}"
    );
    assert!(
        page.contains("`burnish study study.toml`") && page.contains("5 of 5 runs, 6 held-out tasks"),
        "{page}"
    );
    assert!(page.contains("**A draft: ") && page.contains("A survey: nothing is claimed"), "{page}");
    assert!(page.contains("Unequal budgets, compared with `slow`: `once` +"), "{page}");
    assert!(!scratch.path("results").exists(), "the page of a draft stays with its runs");
    assert!(page.contains("tiny-study.svg") && page.contains("Ten times the rate."), "{page}");
    let svg = text(&scratch, "runs/tiny-study.svg");
    for arm in ["slow", "fast", "once"] {
        assert!(page.contains(&format!("| {arm} | ")) && svg.contains(&format!("{arm}: ")), "{page}{svg}");
    }
    // The budget in the table is what the run logged.
    let logged: f64 = whole[0]
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter_map(|row| row["tokens/sampled"].as_f64())
        .sum();
    let run = &found["arms"][0]["runs"][0];
    assert_eq!((run["seed"].as_u64(), run["budget"]["generated"].as_f64()), (Some(7), Some(logged)));
    // 2 steps of 4 tasks with 4 episodes each; an agent answers for both.
    assert_eq!(run["budget"]["episodes"].as_f64(), Some(32.0));
    assert_eq!(run["budget"]["updates"].as_f64(), Some(2.0));
    assert!(found["arms"][1]["effects"]["success"]["difference"]["spread"].is_number(), "{found}");
    assert_ne!(whole[0], whole[1], "the arms differ");
    assert_ne!(whole[0], whole[3], "the seeds differ");

    // Adding metrics to a study with finished runs needs no new run.
    let more = [
        "study",
        "study.toml",
        "--report-only",
        "--draft",
        "study.metrics=[\"flags_by_label.size.2.parse_error\", \"by_label.agents.2.success\", \"std(tokens/sampled)\", \"entropy\", \
         \"kl\", \"rollouts_to(eval/success, 1.0)\"]",
    ];
    scratch.burnish(&more).succeeds();
    let page = text(&scratch, "runs/tiny-study.md");
    let section = |name: &str| {
        let section = page.split(&format!("\n## `{name}`\n")).nth(1).unwrap();
        section.split("\n## ").next().unwrap().to_owned()
    };
    // 2 steps of 4 tasks with 4 episodes each (8 in the last arm). No policy of this size is always right.
    let until = section("rollouts_to(eval/success, 1.0)");
    assert!(
        until.contains("| slow | 2 | > 32.000 [32.000, 32.000] | 2 of 2 never came that far |"),
        "{until}"
    );
    assert!(until.contains("| once | 1 | > 64.000 | 1 of 1 never"), "{until}");
    assert!(page.contains("`kl` is in no run that is finished"), "a metric of others: {page}");
    assert!(section("kl").contains("| fast | 0 | – | – | – |"), "{page}");
    let more: Value = serde_json::from_slice(&scratch.read("runs/tiny-study.json")).unwrap();
    let fast = more["arms"][1].clone();
    let mean = |name: &str| {
        let of = |run: usize| fast["runs"][run]["numbers"][name].as_f64().unwrap();
        (of(0) + of(1)) / 2.0
    };
    // All boards have two agents, so this equals the success in the table.
    let success = fast["effects"]["success"]["level"]["mean"].as_f64().unwrap();
    assert!((mean("by_label.agents.2.success") - success).abs() < 1e-12, "{more}");
    let shown = format!("| fast | 2 | {:.3} [", mean("entropy"));
    assert!(section("entropy").contains(&shown), "{page}");
    let errors = format!("| fast | 2 | {:.1} %", 100.0 * mean("flags_by_label.size.2.parse_error"));
    assert!(section("flags_by_label.size.2.parse_error").contains(&errors), "{page}");
    let steps: Vec<Value> = whole[1].iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let tokens: Vec<f64> = steps.iter().filter_map(|row| row["tokens/sampled"].as_f64()).collect();
    let std = fast["runs"][0]["numbers"]["std(tokens/sampled)"].as_f64().unwrap();
    // Of two numbers.
    assert!(
        (std - (tokens[0] - tokens[1]).abs() / 2f64.sqrt()).abs() < 1e-9 && tokens.len() == 2 && std > 0.0,
        "{tokens:?}"
    );
    let typing = ["study", "study.toml", "--report-only", "--draft", "study.metrics=[\"flags.parse_eror\"]"];
    let near = ["the study names `flags.parse_eror`", "near it: `flags.parse_error`", "slow/seed-7"];
    scratch.burnish(&typing).fails_with(&near);
    let readme = scratch.burnish(&["study", "--index", "runs"]).succeeds().stdout();
    assert_eq!(readme.trim(), "runs/README.md");
    let index = text(&scratch, "runs/README.md");
    assert!(index.contains("- [A tiny study](tiny-study.md): Does a larger rate learn more?\n"), "{index}");
    scratch.burnish(&["study", "--index", "nowhere"]).fails_with(&["nowhere"]);

    // Finished runs are not repeated. Missing or interrupted ones are made, in parallel, with the same numbers.
    let untouched = std::fs::metadata(scratch.path("runs/once/seed-7/run.db")).unwrap().modified().unwrap();
    std::fs::remove_dir_all(scratch.path("runs/fast/seed-7")).unwrap();
    std::fs::remove_file(scratch.path("runs/slow/seed-3/report.html")).unwrap();
    std::fs::remove_dir_all(scratch.path("runs/slow/seed-3/checkpoints/step_2")).unwrap();
    let plan = scratch.burnish(&["study", "study.toml", "--dry-run"]).succeeds().stdout();
    let states: Vec<&str> =
        plan.lines().filter(|line| line.contains("seed-")).map(|line| line[..14].trim()).collect();
    assert_eq!(states, ["finished", "to run", "finished", "to go on with", "finished"]);
    scratch.burnish(&["study", "study.toml", "--draft", "--report-only"]).succeeds();
    assert!(text(&scratch, "runs/tiny-study.md").contains("Not complete: 3 of 5 runs are finished."));
    scratch.burnish(&["study", "study.toml", "--draft", "--jobs", "2"]).succeeds();
    assert_eq!(metrics(&scratch), whole);
    assert_eq!(findings(&scratch), found);
    let modified = std::fs::metadata(scratch.path("runs/once/seed-7/run.db")).unwrap().modified().unwrap();
    assert_eq!(modified, untouched);

    // A run of another recipe is not accepted as this study's.
    let other = STUDY.replace("1e-2", "2e-2");
    scratch.write("other.toml", other);
    scratch.burnish(&["study", "other.toml", "--draft"]).fails_with(&[
        "runs/fast/seed-7",
        "runs/fast/seed-3",
        "`optimizer.learning_rate`: 0.01 there, 0.02 now",
        "move it away",
    ]);
}

#[cfg(unix)]
#[test]
fn an_interrupt_saves_and_begins_no_further_run_and_a_run_that_fails_does_not_end_the_others() {
    let scratch = Scratch::with_policy();
    scratch.write("long.toml", STUDY.replace("train.max_steps=2", "train.max_steps=60"));
    let child = scratch
        .command(&["study", "long.toml", "--draft", "study.dir=long"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let first = scratch.path("long/slow/seed-7");
    let lines =
        || std::fs::read_to_string(first.join("metrics.jsonl")).map_or(0, |text| text.lines().count());
    wait_until("the first run has come that far", || lines() >= 4);
    common::interrupt(&child);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let again = said.lines().find(|line| line.contains("goes on from here: ")).unwrap_or_default();
    assert!(
        output.status.code() == Some(130)
            && again.ends_with("burnish study long.toml --draft study.dir=long"),
        "{said}"
    );
    assert!(std::fs::read_dir(first.join("checkpoints")).unwrap().next().is_some(), "it saved");
    assert!(!burnish_rundir::run_dir::is_finished(&first) && !scratch.path("long/fast").exists());
    assert!(!scratch.path("long/tiny-study.md").exists(), "nothing is reported of half a run");

    // A misspelt metric ends a study with its first run.
    let wrong = ["study", "study.toml", "--draft", "study.dir=wrong", "study.metrics=[\"std(grad_nrm)\"]"];
    scratch.write("study.toml", STUDY);
    scratch.burnish(&wrong).fails_with(&[
        "the study names `grad_nrm`",
        "near it: `grad_norm`",
        "wrong/slow/seed-7",
    ]);
    assert!(scratch.path("wrong/slow/seed-7/report.html").exists() && !scratch.path("wrong/fast").exists());
    scratch.burnish(&wrong).fails_with(&["`grad_norm`"]);
    assert!(!scratch.path("wrong/fast").exists() && !scratch.path("wrong/tiny-study.md").exists());

    scratch.write("gone.toml", STUDY.replace("optimizer.learning_rate=1e-2", "policy.path=gone"));
    let finished = scratch.burnish(&["study", "gone.toml", "--draft", "study.dir=gone"]);
    finished.fails_with(&["arm `fast`, seed 7", "arm `fast`, seed 3", "2 runs could not go on"]);
    let page = text(&scratch, "gone/tiny-study.md");
    assert!(
        page.contains("Not complete: 3 of 5 runs") && page.contains("| fast | 0 | – | – | – |"),
        "{page}"
    );
}

#[test]
fn what_is_wrong_with_a_study_is_said_before_anything_starts() {
    let scratch = Scratch::new();
    scratch.write("grpo.toml", common::TINY_GRPO);
    scratch.write("model.txt", "");
    for (from, to, parts) in [
        ("1e-2", "-1", &["arm `fast`", "override `optimizer.learning_rate=-1`", "above 0"][..]),
        (
            "optimizer.learning_rate=1e-2",
            "optimizer.learning_rat=1",
            &["arm `fast`", "did you mean `learning_rate`"],
        ),
        ("rollout.group_size=8", "run.seed=9", &["arm `once`", "the study sets `run.seed`"]),
        ("rollout.group_size=8", "eval.seed=9", &["arm `once`", "`eval.seed`", "other tasks"]),
        (
            "rollout.group_size=8",
            "env.config.reward.valid=0.6",
            &["arm `once`", "`eval.config`", "other tasks", "study.ways"],
        ),
        ("dir = \"runs\"", "ways = [\"rewards\"]", &["study.ways", "`rewards`", "env.config"]),
        ("eval.tasks=6", "eval.tasks=1", &["arm `slow`", "arm `fast`", "arm `once`", "eval.tasks"]),
        ("name = \"fast\"", "name = \"slow\"", &["study.toml:17", "as that of another arm"]),
        ("name = \"fast\"", "name = \"a/b\"", &["study.toml:17", "letters, digits"]),
        ("role = \"baseline\"", "role = \"method\"", &["role = \"baseline\""]),
        ("role = \"baseline\"", "role = \"base\"", &["study.toml:14", "`baseline`"]),
        ("dir = \"runs\"", "baseline = \"slow\"", &["study.toml:8", "role = \"baseline\""]),
        ("question = ", "claim = ", &["study.toml:5", "is a table now"]),
        ("question = ", "note = ", &["study.toml:5"]),
        ("question = \"Does a larger rate learn more?\"\n", "", &["study.claim", "`question`"]),
        ("name = \"fast\"", "name = \"tuning\"", &["study.toml:17", "folder of every study"]),
        ("seeds = [7, 3]", "seeds = [7, 7]", &["study.toml:10", "study.seeds", "different"]),
        ("seeds = [7, 3]", "seeds = 0", &["study.toml:10", "study.seeds"]),
        ("seeds = 1\n", "seeds = 0\n", &["study.toml:24", "1 or more"]),
        ("seeds = 1\n", "seed = 1\n", &["study.toml:24", "did you mean `seeds`"]),
        ("dir = \"runs\"", "jobs = 0", &["study.toml:8", "study.jobs"]),
        (
            "dir = \"runs\"",
            "metrics = [\"median(kl)\"]",
            &["study.toml:8", "study.metrics", "median(...)", "std"],
        ),
        ("dir = \"runs\"", "reach = 0.5", &["study.toml:8", "rollouts_to(eval/success, 0.5)"]),
        ("grpo.toml", "none.toml", &["none.toml", "can't be read"]),
        ("dir = \"runs\"", "dir = \"\"", &["study.toml:8", "`study.dir` is empty"]),
        ("dir = \"runs\"", "dir = \"~eve/runs\"", &["study.toml:8", "`study.dir`", "`eve`"]),
    ] {
        let changed = STUDY.replacen(from, to, 1);
        assert_ne!(changed, STUDY);
        scratch.write("study.toml", changed);
        scratch.burnish(&["study", "study.toml", "--draft"]).fails_with(parts);
        assert!(!scratch.path("runs").exists(), "{from}: {to}");
    }
    scratch.write("study.toml", STUDY);
    scratch
        .burnish(&["study", "study.toml", "--draft", "--only", "slo"])
        .fails_with(&["`slo`", "slow, fast, once"]);
    // In how a task is played, arms may differ.
    let ways = STUDY
        .replace("dir = \"runs\"", "ways = [\"reward\"]")
        .replace("rollout.group_size=8", "env.config.reward.valid=0.6");
    scratch.write("study.toml", ways);
    scratch.burnish(&["study", "study.toml", "--dry-run"]).succeeds();
}

/// Two rates against each other, from a policy that each seed makes itself.
const CLAIM: &str = r#"
[study]
id = "rates"
title = "Rates"
recipe = "grpo.toml"
set = [
    "policy={from={recipe=\"sft.toml\", set=[\"train.max_steps=8\"]}}",
    "train.max_steps=2", "train.epochs=1", "train.minibatches=1", "eval.tasks=6", "eval.every=1", "loss.beta=0",
]
seeds = [1, 2]
minutes = 0.1

[study.claim]
text = "Groups of eight learn more."
metric = "area(eval/success)"
spread = 0.02

[study.disease]
seeds = [101]
least_gain = 0
gauges = [{ name = "it is not right yet", arm = "four", metric = "at(eval/success, 1)", at_most = 1.0 }]

[study.tuning]
seeds = [201, 202]
grid = { "optimizer.learning_rate" = [1e-3, 1e-2] }

[[arms]]
name = "four"
role = "baseline"

[[arms]]
name = "eight"
role = "method"
set = ["rollout.group_size=8"]
"#;

fn claim_scratch(study: &str) -> Scratch {
    let scratch = Scratch::new();
    scratch.write("sft.toml", common::TINY_SFT);
    let of_path = "\n[policy]\npath = \"tiny/checkpoints/step_120\"\n";
    assert!(common::TINY_GRPO.contains(of_path));
    scratch.write("grpo.toml", common::TINY_GRPO.replace(of_path, ""));
    scratch.write("study.toml", study);
    scratch
}

/// What `recipe.toml` of a run says.
fn recipe(scratch: &Scratch, dir: &str) -> Recipe {
    let source = Source::read_of_run(&scratch.path(&format!("{dir}/recipe.toml")), &[]).unwrap();
    Recipe::resolve(&source).unwrap()
}

#[test]
fn where_the_disease_is_not_there_the_method_is_not_run() {
    let scratch = claim_scratch(&CLAIM.replace("at_most = 1.0", "at_least = 1.5"));
    let planned = scratch.burnish(&["study", "study.toml", "--dry-run"]).succeeds().stdout();
    for line in [
        "disease  1 runs, 0 finished",
        "tuning   8 runs, 0 finished",
        "results  4 runs, 0 finished",
        "machine time: about 0.0 hours for 13 runs of 0.1 minutes (as the file expects)",
        "where it differs by 0.02 between seeds (as the file expects)",
        "no verdict: 2 seeds, of 5 that are needed",
    ] {
        assert!(planned.contains(line), "{planned}");
    }
    let said = scratch.burnish(&["study", "study.toml", "--draft"]).succeeds().stdout();
    assert!(said.contains("not testable here (it is not right yet: "), "{said}");
    assert!(scratch.path("runs/rates/disease/four/seed-101/report.html").exists());
    for never in ["runs/rates/tuning", "runs/rates/four", "runs/rates/disease/eight"] {
        assert!(!scratch.path(never).exists(), "{never}");
    }
    let page = text(&scratch, "runs/rates/rates.md");
    assert!(page.contains("| at least 150.0 % |") && page.contains("| **not there** |"), "{page}");
    let found: Value = serde_json::from_slice(&scratch.read("runs/rates/rates.json")).unwrap();
    assert_eq!(found["claim"]["contrasts"][0]["verdict"], "not_testable");
}

#[test]
fn arms_are_tuned_alike_on_other_tasks_and_every_seed_begins_anew() {
    let scratch = claim_scratch(CLAIM);
    scratch.burnish(&["study", "study.toml", "--draft"]).succeeds();
    let page = text(&scratch, "runs/rates/rates.md");
    assert!(page.contains("4 of 4 runs") && page.contains("| `eight` against `four` | 2 | "), "{page}");
    assert!(page.contains("| none: a draft |"), "{page}");
    // The best point of the grid is what the curves say, and it is what was run.
    let found: Value = serde_json::from_slice(&scratch.read("runs/rates/rates.json")).unwrap();
    for (at, arm) in ["four", "eight"].into_iter().enumerate() {
        let area = |point: usize, seed: u64| {
            let metrics =
                text(&scratch, &format!("runs/rates/tuning/{arm}/point-{point}/seed-{seed}/metrics.jsonl"));
            let rows: Vec<Value> = metrics.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let levels: Vec<f64> = rows.iter().filter_map(|row| row["eval/success"].as_f64()).collect();
            assert_eq!(levels.len(), 3);
            (levels[0] / 2.0 + levels[1] + levels[2] / 2.0) / 2.0
        };
        let means = [1, 2].map(|point| (area(point, 201) + area(point, 202)) / 2.0);
        let tuned = &found["claim"]["tuned"][at];
        let values = |point: usize| -> f64 {
            tuned["values"][point].as_array().unwrap().iter().map(|value| value.as_f64().unwrap() / 2.0).sum()
        };
        assert!(
            (values(0) - means[0]).abs() < 1e-12 && (values(1) - means[1]).abs() < 1e-12,
            "{tuned} {means:?}"
        );
        let best = usize::from(means[1] > means[0]);
        assert_eq!(tuned["best"], best);
        let rate = recipe(&scratch, &format!("runs/rates/{arm}/seed-2")).optimizer.learning_rate;
        assert!((rate - [1e-3, 1e-2][best]).abs() < 1e-9, "{rate}");
    }
    // A seed has its own tasks and its own start; the arms share them.
    let of = |dir: &str| {
        let recipe = recipe(&scratch, &format!("runs/rates/{dir}"));
        let from = recipe.policy.from.unwrap().hash.unwrap();
        (recipe.run.seed, recipe.eval.seed, from)
    };
    assert_eq!(of("four/seed-1"), of("eight/seed-1"));
    let dirs = ["four/seed-1", "four/seed-2", "disease/four/seed-101", "tuning/four/point-1/seed-201"];
    for (at, one) in dirs.iter().enumerate() {
        for other in &dirs[..at] {
            let (one, other) = (of(one), of(other));
            assert!(one.0 != other.0 && one.1 != other.1 && one.2 != other.2, "{one:?} {other:?}");
        }
    }
    let start = |dir: &str| scratch.read(&format!("runs/rates/{dir}/start/model.safetensors"));
    assert!(start("four/seed-1") == start("eight/seed-1") && start("four/seed-1") != start("four/seed-2"));
}

/// What git says in the folder; none where there is no git.
fn git(scratch: &Scratch, arguments: &[&str]) -> Option<String> {
    let who = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"];
    let output = std::process::Command::new("git")
        .args(who)
        .args(arguments)
        .current_dir(scratch.path(""))
        .output()
        .ok()?;
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

#[test]
fn what_is_tested_stands_in_a_commit_before_the_first_run_and_does_not_change() {
    let scratch = claim_scratch(CLAIM);
    let version = scratch.burnish(&["--version"]).succeeds().stdout();
    let run = ["study", "study.toml", "--only", "four"];
    if version.contains("-dirty") {
        scratch
            .burnish(&run)
            .fails_with(&["this program was built from code that is not committed", "--draft"]);
        assert!(!scratch.path("runs").exists());
        println!("the rest was not tested: this program was built from code that is not committed");
        return;
    }
    scratch.burnish(&run).fails_with(&["`study.toml` is not committed", "--draft"]);
    if git(&scratch, &["init", "-q"]).is_none() {
        println!("the rest was not tested: there is no git");
        return;
    }
    git(&scratch, &["add", "study.toml", "grpo.toml"]);
    git(&scratch, &["commit", "-q", "-m", "plan"]);
    scratch.burnish(&run).fails_with(&["`sft.toml` is not committed"]);
    git(&scratch, &["add", "sft.toml"]);
    git(&scratch, &["commit", "-q", "-m", "all of it"]);
    scratch
        .burnish(&["study", "study.toml", "study.seeds=3"])
        .fails_with(&["`study.seeds=3` is in no commit"]);
    assert!(!scratch.path("runs").exists(), "nothing began");

    // Other gauges on the way: none of the runs is finished, and the plan stands.
    let failing = CLAIM.replace("at_most = 1.0", "at_least = 1.5");
    scratch.write("study.toml", &failing);
    scratch.burnish(&run).fails_with(&["`study.toml` is not committed"]);
    git(&scratch, &["commit", "-q", "-a", "-m", "stricter"]);
    scratch.burnish(&run).succeeds();
    let commit = git(&scratch, &["rev-parse", "HEAD"]).unwrap();
    let page = text(&scratch, "docs/results/rates.md");
    assert!(page.contains(&format!("Planned in commit {commit}, before the first run")), "{page}");
    assert!(page.contains("not testable here") && !page.contains("A draft"), "{page}");
    let draft = ["study", "study.toml", "--draft"];
    scratch.burnish(&draft).fails_with(&["holds a study with a plan", "`study.dir=DIR`"]);
    scratch.write("study.toml", CLAIM);
    git(&scratch, &["commit", "-q", "-a", "-m", "afterwards"]);
    let changed = ["the plan has changed since the first run", "test.disease.gauges", "runs/rates/plan.json"];
    scratch.burnish(&run).fails_with(&changed);
    scratch.write("study.toml", failing.replace("title = \"Rates\"", "title = \"Two rates\""));
    scratch.burnish(&["study", "study.toml", "--report-only"]).succeeds();
    assert!(text(&scratch, "docs/results/rates.md").contains("# Two rates"), "words may change");
    // A page that has a path of its own has its plot and its data beside it.
    scratch.burnish(&["study", "study.toml", "--report-only", "study.results=pages/found.md"]).succeeds();
    assert!(text(&scratch, "pages/found.md").contains("(found.svg)"));
    assert!(scratch.path("pages/found.svg").is_file() && scratch.path("pages/found.json").is_file());
    // Runs without a plan are no beginning.
    std::fs::remove_file(scratch.path("runs/rates/plan.json")).unwrap();
    scratch.burnish(&run).fails_with(&["no plan was written down before them"]);
}

#[test]
fn what_is_wrong_with_a_claim_is_said_before_anything_starts() {
    let scratch = claim_scratch(CLAIM);
    let without = |section: &str| {
        let start = CLAIM.find(section).unwrap();
        let end = start + 1 + CLAIM[start + 1..].find("\n[").unwrap();
        format!("{}{}", &CLAIM[..start], &CLAIM[end..])
    };
    for (study, parts) in [
        (without("[study.disease]"), &["study.disease", "is missing"][..]),
        (without("[study.tuning]"), &["study.tuning", "is missing", "none"]),
        (CLAIM.replace("role = \"method\"\n", ""), &["study.toml:31", "role", "\"ablation\""]),
        (CLAIM.replace("\"method\"", "\"control\""), &["study.claim.contrasts", "nothing to compare"]),
        (CLAIM.replace("spread = 0.02", "spread = -1"), &["study.toml:16", "above 0"]),
        (
            CLAIM.replace("spread = 0.02", "contrasts = [{ arm = \"eigt\", against = \"four\" }]"),
            &["study.toml:16", "names `eigt`", "four, eight"],
        ),
        (
            CLAIM.replace("spread = 0.02", "contrasts = [{ arm = \"four\", against = \"four\" }]"),
            &["study.toml:16", "with itself"],
        ),
        (CLAIM.replace(", at_most = 1.0", ""), &["study.toml:21", "needs a bound"]),
        (CLAIM.replace("arm = \"four\", metric", "arm = \"for\", metric"), &["study.toml:21", "names `for`"]),
        (
            CLAIM.replace("at(eval/success, 1)", "at(eval/success)"),
            &["study.toml:21", "takes a metric and a number"],
        ),
        (CLAIM.replace("[1e-3, 1e-2]", "[1e-3]"), &["study.toml:23", "two or more"]),
        (CLAIM.replace("[1e-3, 1e-2]", "[1e-3, -1]"), &["arm `four`", "optimizer.learning_rate=-1"]),
        (CLAIM.replace("seeds = [201, 202]", "seeds = [1, 202]"), &["study.toml:10", "has 1", "fresh seeds"]),
        (CLAIM.replace("seeds = [201, 202]", "none = \"no time\""), &["study.tuning", "either `grid`"]),
        (
            CLAIM.replace("minutes = 0.1", "question = \"Which is better?\""),
            &["study.toml:11", "for studies that test no claim"],
        ),
    ] {
        assert_ne!(study, CLAIM);
        scratch.write("study.toml", study);
        scratch.burnish(&["study", "study.toml", "--draft"]).fails_with(parts);
        assert!(!scratch.path("runs").exists());
    }
}

#[test]
fn the_studies_of_this_repository_can_be_read_and_planned() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut studies = 0;
    for path in [files("recipes", &["toml"]), files("systems", &["toml"])].concat() {
        if !std::fs::read_to_string(&path).unwrap().contains("[study]") {
            continue;
        }
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_burnish"))
            .args(["study", path.to_str().unwrap(), "--dry-run"])
            .arg("study.dir=\"runs/of-no-study\"")
            .current_dir(&root)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let runs = said.lines().filter(|line| line.contains("/seed-")).count();
        assert!(runs > 0, "{}: {said}", path.display());
        studies += 1;
    }
    assert!(studies > 35, "{studies}");
}
