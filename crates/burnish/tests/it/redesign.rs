//! `[redesign]`: rounds of training between which an engineer redesigns the environment. Each round is a run, the loop
//! goes on wherever it was stopped, and an engineer that changes nothing is training in a fixed environment.

use crate::common;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use crate::common::{Scratch, timeless_metrics, wait_until};
use burnish_recipe::Source;
use burnish_run::redesign::{Design, Record};
use serde_json::Value;

/// Boards of two sizes, so that there are shares to move; two short steps a round.
const BOARDS: &str = "env.config.sizes={2={share=0.75, hole_ratio=0.0, wait_ratio=0.0}, 3={share=0.25, \
                      hole_ratio=0.2, wait_ratio=0.0}}";
const SHORT: [&str; 2] = ["train.max_steps=2", "checkpoint.every=1"];
/// Between the seeds of two rounds.
const STRIDE: u64 = 1 << 40;

fn train(scratch: &Scratch, changes: &[&str]) -> common::Finished {
    scratch.burnish(&[&["train", "grpo.toml", BOARDS][..], &SHORT, changes].concat())
}

fn record(scratch: &Scratch, dir: &str) -> Record {
    Record::read(&scratch.path(dir)).unwrap().unwrap()
}

fn weights(scratch: &Scratch, dir: &str) -> Vec<u8> {
    scratch.read(&format!("{dir}/checkpoints/step_2/model.safetensors"))
}

/// Run directories of a round in a cache.
fn rounds(scratch: &Scratch, cache: &str, round: usize) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(scratch.path(cache)) else { return Vec::new() };
    let name = format!("round{round}-");
    let is_own = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(&name);
    entries.map(|entry| entry.unwrap().path()).filter(is_own).collect()
}

fn steps_of(scratch: &Scratch, cache: &str, round: usize) -> usize {
    let text = rounds(scratch, cache, round).pop();
    let text = text.and_then(|dir| std::fs::read_to_string(dir.join("metrics.jsonl")).ok());
    text.map_or(0, |text| text.lines().filter(|line| line.contains("\"train\"")).count())
}

#[test]
fn an_engineer_that_changes_nothing_is_training_in_a_fixed_environment_to_the_bit() {
    let scratch = Scratch::with_policy();
    let identity = "redesign={engineer=\"identity\", rounds=3}";
    train(&scratch, &[identity, "run.dir=loop"]).succeeds();

    // The same by hand: each run starts from the one before, on other boards of the same kind.
    train(&scratch, &["run.dir=one"]).succeeds();
    for (round, from, dir) in [(2, "one", "two"), (3, "two", "three")] {
        let path = format!("policy.path={from}/checkpoints/step_2");
        let seed = format!("run.seed={}", 5 + (round - 1) * STRIDE);
        train(&scratch, &[&path, &seed, &format!("run.dir={dir}")]).succeeds();
    }
    assert!(weights(&scratch, "loop") == weights(&scratch, "three"));
    assert!(weights(&scratch, "one") != weights(&scratch, "three"), "the rounds have learnt");
    let metrics = |dir: &str| timeless_metrics(&scratch.path(dir).join("metrics.jsonl"));
    assert_eq!(metrics("loop"), metrics("three"));
    let [first] = &rounds(&scratch, "runs/cache", 1)[..] else { panic!("one first round") };
    assert_eq!(timeless_metrics(&first.join("metrics.jsonl")), metrics("one"));

    let record = record(&scratch, "loop");
    assert_eq!((record.rounds.len(), record.designs.len()), (2, 2));
    assert!(record.designs.iter().all(|design| design.is_taken && design.attempts[0].changes.is_empty()));
    assert_eq!(record.rounds[0].config, record.rounds[1].config);

    // A single round is the recipe without the table.
    train(&scratch, &["redesign={engineer=\"identity\", rounds=1}", "run.dir=single"]).succeeds();
    assert!(weights(&scratch, "single") == weights(&scratch, "one"));
    assert!(Record::read(&scratch.path("single")).unwrap().is_none());
}

#[test]
fn all_arms_play_equally_many_boards_and_are_evaluated_on_the_same_ones_and_rounds_are_shared() {
    let scratch = Scratch::with_policy();
    let mut records = Vec::new();
    for engineer in ["identity", "random", "monotone", "failure_guided"] {
        let redesign = format!("redesign={{engineer=\"{engineer}\", rounds=3}}");
        let said = train(&scratch, &[&redesign, &format!("run.dir={engineer}")]).succeeds().stdout();
        assert!(said.contains("design of round 2") && said.contains("design of round 3"), "{said}");
        records.push(record(&scratch, engineer));
    }
    assert_eq!(rounds(&scratch, "runs/cache", 1).len(), 1, "the first round is the same for all");
    let played: Vec<usize> = records.iter().flat_map(|it| &it.rounds).map(|round| round.played).collect();
    assert_eq!(played, [8; 8], "two steps of four boards");
    assert!(records.iter().all(|it| it.validation == records[0].validation));
    let held_out = |it: &Record| it.rounds.iter().map(|round| round.evaluation.all.tasks).collect::<Vec<_>>();
    assert!(records.iter().all(|it| held_out(it) == held_out(&records[0])));

    let share = |config: &Value, size: &str| config["sizes"][size]["share"].as_f64().unwrap();
    let monotone: Vec<f64> = records[2].rounds.iter().map(|round| share(&round.config, "3")).collect();
    assert_eq!(monotone, [0.25, 0.625]);
    let last = records[2].designs.last().unwrap();
    assert!(share(&last.config, "3") > 0.8, "{}", last.config);
    for (design, rounds) in records.iter().flat_map(|it| it.designs.iter().zip([1, 2])) {
        assert!(design.saw.contains(&format!("Round {rounds} of 3")), "{}", design.saw);
        assert!(design.saw.contains("size=2") && !design.saw.contains("Grid"), "{}", design.saw);
    }

    // The run of the last round has that environment, evaluates on the first one, and shows the rounds.
    let recipe = Source::read(&scratch.path("monotone/recipe.toml"), &[]).unwrap();
    assert_eq!(recipe.get("env.config"), Some(&last.config));
    assert_eq!(recipe.get("eval.config"), Some(&records[2].rounds[0].config));
    let report = String::from_utf8(scratch.read("monotone/report.html")).unwrap();
    for part in ["<h2>Rounds</h2>", "sizes.3.share", "Everything becomes harder.", "this run"] {
        assert!(report.contains(part), "{part}");
    }
    scratch.burnish(&["eval", "monotone"]).succeeds();
    scratch.burnish(&["report", "monotone"]).succeeds();

    // Nothing is made twice.
    let again = "redesign={engineer=\"monotone\", rounds=3}";
    let said = train(&scratch, &[again, "run.dir=again"]).succeeds().stdout();
    assert!(said.contains("there") && !said.contains("training (") && !said.contains(": training"), "{said}");
    assert!(weights(&scratch, "again") == weights(&scratch, "monotone"));

    // The run goes on without the cache, from its own copy of the policy of the round before.
    std::fs::remove_dir_all(scratch.path("runs/cache")).unwrap();
    std::fs::remove_dir_all(scratch.path("again/checkpoints/step_2")).unwrap();
    scratch.burnish(&["train", "--resume", "again"]).succeeds();
    assert!(weights(&scratch, "again") == weights(&scratch, "monotone"));
    // Its recipe begins with the first round.
    let said = scratch.burnish(&["train", "again/recipe.toml", "run.dir=from-run"]).succeeds().stdout();
    assert!(said.contains("round 1 of 3"), "{said}");
    assert!(weights(&scratch, "from-run") == weights(&scratch, "monotone"));
}

#[cfg(unix)]
#[test]
fn a_loop_that_is_killed_goes_on_at_the_same_point_with_the_same_bits() {
    let scratch = Scratch::with_policy();
    let changes = |dir: &str, cache: &str| -> Vec<String> {
        let redesign = "redesign={engineer=\"failure_guided\", rounds=3}".to_owned();
        let steps = ["train.max_steps=30".to_owned(), "checkpoint.every=3".to_owned()];
        let places = [format!("run.dir={dir}"), format!("run.cache={cache}")];
        [
            vec!["train".to_owned(), "grpo.toml".to_owned(), BOARDS.to_owned(), redesign],
            steps.to_vec(),
            places.to_vec(),
        ]
        .concat()
    };
    let spawn = |dir: &str, cache: &str| -> Child {
        let arguments = changes(dir, cache);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        scratch.command(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    // Killed in the first round, interrupted in the second, killed in the last.
    let mut child = spawn("killed", "cache");
    wait_until("the first round has begun", || steps_of(&scratch, "cache", 1) >= 5);
    child.kill().unwrap();
    child.wait().unwrap();
    let child = spawn("killed", "cache");
    wait_until("the second round has begun", || steps_of(&scratch, "cache", 2) >= 5);
    common::interrupt(&child);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    assert!(!scratch.path("killed/recipe.toml").exists(), "the last round has not begun");
    let mut child = spawn("killed", "cache");
    let last = scratch.path("killed/metrics.jsonl");
    let lines = || std::fs::read_to_string(&last).map_or(0, |text| text.lines().count());
    wait_until("the last round has begun", || lines() >= 6);
    child.kill().unwrap();
    child.wait().unwrap();
    scratch.burnish(&["train", "--resume", "killed"]).succeeds();

    assert!(spawn("whole", "other").wait().unwrap().success());
    let policy = |dir: &str| scratch.read(&format!("{dir}/checkpoints/step_30/model.safetensors"));
    assert!(policy("killed") == policy("whole"));
    let metrics = |dir: &str| timeless_metrics(&scratch.path(dir).join("metrics.jsonl"));
    assert_eq!(metrics("killed"), metrics("whole"));
    let said = |dir: &str| record(&scratch, dir).designs;
    assert_eq!(said("killed"), said("whole"));
}

#[test]
fn a_policy_chooses_from_the_menus_and_the_loop_works_on_countdown_too() {
    let scratch = Scratch::with_policy_of_chains();
    let countdown = "env={id=\"countdown\", tasks=40, config={numbers={min=2,max=3}, operations={min=1,max=2}, \
                     prompt=\"short\"}}";
    let run = |engineer: &str, dir: &str, cache: &str| {
        let redesign = format!("redesign={{engineer=\"{engineer}\", rounds=2}}");
        let changes = [
            "policy.path=tiny/checkpoints/step_40",
            countdown,
            redesign.as_str(),
            &format!("run.dir={dir}"),
            &format!("run.cache={cache}"),
        ]
        .map(str::to_owned);
        let changes: Vec<&str> = changes.iter().map(String::as_str).collect();
        scratch.burnish(&[&["train", "grpo.toml"][..], &SHORT, &changes].concat()).succeeds();
        record(&scratch, dir).designs.remove(0)
    };
    let design: Design = run("checkpoint", "one", "cache");
    let said = &design.attempts[0].said;
    let read: Value = serde_json::from_str(said).unwrap();
    let menus = [
        ("numbers.min", &[2, 3, 4, 5, 6][..]),
        ("numbers.max", &[2, 3, 4, 5, 6]),
        ("operations.min", &[1, 2, 3, 4, 5]),
        ("operations.max", &[1, 2, 3, 4, 5]),
        ("values.max", &[10, 20, 30, 50, 100]),
        ("target.max", &[20, 50, 100, 200, 500]),
    ];
    for (key, menu) in menus {
        let value = read["config"][key].as_i64().unwrap();
        assert!(menu.contains(&value), "{key}: {value} in {said}");
    }
    assert!(design.attempts[0].rejected.is_empty());
    assert_eq!(run("checkpoint", "two", "other"), design, "the likeliest values are always the same ones");

    let random = run("random", "three", "cache");
    assert!(random.is_taken, "{:?}", random.attempts.last());
    assert!(random.saw.contains("operations=1") && random.saw.contains("numbers.max"), "{}", random.saw);
}

#[test]
fn a_recipe_with_rounds_is_a_stage_like_any_other() {
    let scratch = Scratch::with_policy();
    let loops =
        String::from_utf8(scratch.read("grpo.toml")).unwrap().replace("max_steps = 6", "max_steps = 2");
    let redesign = "\n[redesign]\nrounds = 2\nengineer = \"monotone\"\n";
    let sizes = "2 = { share = 1.0, hole_ratio = 0.0, wait_ratio = 0.0 }";
    let two = "2 = { share = 0.75, hole_ratio = 0.0, wait_ratio = 0.0 }\n3 = { share = 0.25, hole_ratio = 0.2, \
               wait_ratio = 0.0 }";
    scratch.write("loop.toml", loops.replace(sizes, two) + redesign);
    let after = "policy={from=\"loop.toml\"}";
    let said = train(&scratch, &[after, "run.dir=one"]).succeeds().stdout();
    assert!(said.contains("round 1 of 2") && said.contains("loop.toml"), "{said}");
    let said = train(&scratch, &[after, "run.dir=two"]).succeeds().stdout();
    assert!(!said.contains("round 1 of 2"), "it is there: {said}");
    assert!(weights(&scratch, "one") == weights(&scratch, "two"));
    // Whatever its rounds train on, they leave out what they hold out themselves, and no more.
    train(&scratch, &[after, "eval.seed=77", "run.dir=three"]).fails_with(&[
        "policy.from",
        "loop.toml",
        "redesigns its environment",
        "eval.seed",
    ]);
}

const STUDY: &str = r#"
[study]
id = "engineers"
title = "Engineers"
question = "Does it matter who redesigns?"
recipe = "grpo.toml"
set = ["train.max_steps=2", "redesign={engineer=\"identity\", rounds=2}", "run.cache=cache"]
dir = "runs"
results = "results"
seeds = [7]

[[arms]]
name = "nobody"
role = "baseline"

[[arms]]
name = "harder"
set = ["redesign.engineer=monotone"]
"#;

#[test]
fn a_study_compares_engineers_and_knows_its_runs_again() {
    let scratch = Scratch::with_policy();
    scratch.write(
        "study.toml",
        STUDY.replace("\"run.cache=cache\"", &format!("\"run.cache=cache\", {BOARDS:?}")),
    );
    scratch.burnish(&["study", "study.toml", "--draft"]).succeeds();
    assert_eq!(rounds(&scratch, "cache", 1).len(), 1, "both arms have the same first round");
    let config = |arm: &str| {
        Source::read(&scratch.path(&format!("runs/{arm}/seed-7/recipe.toml")), &[])
            .unwrap()
            .get("env.config")
            .cloned()
    };
    assert_ne!(config("nobody"), config("harder"));
    assert_eq!(record(&scratch, "runs/harder/seed-7").rounds.len(), 1);
    // Finished runs are those of the study, although their recipes were redesigned.
    let said = scratch.burnish(&["study", "study.toml", "--draft", "--report-only"]).succeeds().stdout();
    assert!(!said.contains("another recipe"), "{said}");
}

#[test]
fn what_can_not_be_redesigned_is_refused_before_anything_is_made() {
    let scratch = Scratch::with_policy();
    for (redesign, parts) in [
        (
            "engineer=\"random\", keys=[\"sizes.9.share\"]",
            &["redesign.keys", "sizes.9.share", "sizes.3.share"][..],
        ),
        ("engineer=\"endpoint\"", &["redesign.endpoint"]),
        ("engineer=\"nobody\"", &["redesign", "identity"]),
    ] {
        train(&scratch, &[&format!("redesign={{{redesign}}}"), "run.dir=no"]).fails_with(parts);
    }
    let chains = "env={id=\"chains\", tasks=40, config={steps={min=2,max=2}}}";
    let with = |redesign: &str| {
        scratch.burnish(&["train", "grpo.toml", chains, &format!("redesign={{{redesign}}}"), "run.dir=no"])
    };
    with("engineer=\"random\"").fails_with(&["redesign.keys", "does not say which", "steps.max"]);
    with("engineer=\"monotone\", keys=[\"steps.max\"]").fails_with(&["redesign.engineer", "harder"]);
    assert!(!scratch.path("runs/cache").exists() && !scratch.path("no").exists());
}
