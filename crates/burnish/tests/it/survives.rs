//! What happens to a run whose recipe was edited, whose files were damaged, or that failed before it had begun.

use crate::common;
use std::time::Duration;

use crate::common::{Scratch, timeless_metrics};
use burnish_rundir::journal::{EpisodeKind, Journal};

/// A scratch directory with a run `one` of the tiny recipe that has done 4 of its 6 steps.
fn begun(more: &[&str]) -> Scratch {
    let scratch = Scratch::with_policy();
    for dir in ["one", "whole"] {
        let dir = format!("run.dir={dir}");
        scratch.burnish(&[&["train", "grpo.toml", &dir][..], more].concat()).succeeds();
    }
    std::fs::remove_dir_all(scratch.path("one/checkpoints/step_6")).unwrap();
    scratch
}

#[track_caller]
fn assert_same_weights(scratch: &Scratch, one: &str, other: &str, step: u64) {
    for file in ["model.safetensors", "trainer/trainer.safetensors"] {
        let of = |dir: &str| scratch.read(&format!("{dir}/checkpoints/step_{step}/{file}"));
        assert!(of(one) == of(other), "{file} of {one} differs from that of {other}");
    }
}

fn edit(scratch: &Scratch, from: &str, to: &str) {
    let text = String::from_utf8(scratch.read("one/recipe.toml")).unwrap();
    assert!(text.contains(from), "{text}");
    scratch.write("one/recipe.toml", text.replace(from, to));
}

fn flip(scratch: &Scratch, file: &str, at: impl Fn(usize) -> usize) {
    let mut bytes = scratch.read(file);
    let at = at(bytes.len());
    bytes[at] ^= 4;
    scratch.write(file, bytes);
}

#[test]
fn an_edited_recipe_is_compared_with_what_the_run_began_with() {
    let scratch = begun(&[]);
    edit(&scratch, "learning_rate = 0.001", "learning_rate = 0.002");
    edit(&scratch, "group_size = 4", "group_size = 2");
    edit(&scratch, "every = 3", "every = 1");
    let resume = |more: &[&str]| scratch.burnish(&[&["train", "--resume", "one"], more].concat());
    resume(&[]).fails_with(&[
        "`optimizer.learning_rate`: 0.001 when the run began, 0.002 now (one/recipe.toml:",
        "`rollout.group_size`: 4 when the run began, 2 now",
        "`policy.path` is `one/checkpoints/step_4`",
        "`train.max_steps`",
    ]);
    assert!(!scratch.path("one/checkpoints/step_6").exists());
    edit(&scratch, "learning_rate = 0.002", "learning_rate = 0.001");
    edit(&scratch, "group_size = 2", "group_size = 4");
    resume(&["loss.beta=0.5"]).fails_with(&["`loss.beta`: 0.01 when the run began, 0.5 now", "override"]);
    resume(&["train.max_step=9"]).fails_with(&["train.max_step", "did you mean"]);
    resume(&["checkpoint.keep=0"]).fails_with(&["checkpoint.keep", "1 or more"]);
    resume(&["run.dir=two"]).fails_with(&["run.dir", "move or rename"]);
    resume(&["grpo.toml"]).fails_with(&["grpo.toml", "changes only"]);
    // A change that affects nothing is accepted, and reported once.
    let said = resume(&["run.threads=1"]).succeeds().stdout();
    assert!(
        said.contains("changed: `eval.every` was 3, and is 1") && said.contains("`run.threads`"),
        "{said}"
    );
    assert_same_weights(&scratch, "one", "whole", 6);
    assert!(!resume(&[]).succeeds().stdout().contains("changed:"));
    let text = String::from_utf8(scratch.read("one/recipe.toml")).unwrap();
    assert!(text.contains("threads = 1"), "{text}");
}

#[test]
fn a_finished_run_can_be_made_longer() {
    let scratch = Scratch::with_policy();
    let train = |dir: &str, steps: &str, schedule: &str| {
        let (dir, steps) = (format!("run.dir={dir}"), format!("train.max_steps={steps}"));
        let schedule = format!("optimizer.schedule={schedule}");
        scratch.burnish(&["train", "grpo.toml", &dir, &steps, &schedule]).succeeds();
    };
    let extend = |dir: &str, steps: &str| {
        scratch.burnish(&["train", "--resume", dir, &format!("train.max_steps={steps}")])
    };
    train("one", "3", "constant");
    train("whole", "5", "constant");
    let said = extend("one", "5").succeeds().stdout();
    assert!(said.contains("`train.max_steps` was 3, and is 5") && !said.contains("follow"), "{said}");
    assert_same_weights(&scratch, "one", "whole", 5);
    let steps = |dir: &str| -> Vec<String> {
        let lines = timeless_metrics(&scratch.path(&format!("{dir}/metrics.jsonl")));
        lines.into_iter().filter(|line| line.contains("\"train\"")).collect()
    };
    assert_eq!(steps("one"), steps("whole"));
    assert!(scratch.path("one/report.html").exists());
    extend("one", "4").fails_with(&["`train.max_steps` = 4", "5 steps already"]);
    // For a schedule that depends on the end of the run, this is reported.
    train("falling", "3", "cosine");
    let said = extend("falling", "5").succeeds().stdout();
    assert!(said.contains("`optimizer.schedule` = \"cosine\"") && said.contains("from step 4 on"), "{said}");
}

#[test]
fn a_damaged_checkpoint_is_said_and_the_one_before_it_used() {
    let scratch = begun(&[]);
    // The second moment of the last parameter: it is readable, but would lead to other weights.
    flip(&scratch, "one/checkpoints/step_4/trainer/trainer.safetensors", |len| len - 1);
    let parts = ["step_4", "trainer/trainer.safetensors is damaged", "the one of step 2 is used"];
    let said = scratch.burnish(&["train", "--resume", "one"]).succeeds().stdout();
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    assert_same_weights(&scratch, "one", "whole", 6);
    // The weights that are read by whoever only uses the model.
    flip(&scratch, "one/checkpoints/step_6/model.safetensors", |len| len / 2);
    let eval = scratch.burnish(&["eval", "one"]).succeeds();
    let said = format!("{}{}", eval.stderr(), eval.stdout());
    assert!(said.contains("model.safetensors is damaged") && said.contains("step_4"), "{said}");
    scratch.burnish(&["eval", "one", "--step", "6"]).fails_with(&["step_6", "model.safetensors is damaged"]);
    for step in [2, 4] {
        flip(&scratch, &format!("one/checkpoints/step_{step}/config.json"), |len| len / 2);
    }
    scratch.burnish(&["train", "--resume", "one"]).fails_with(&["step_6", "model.safetensors is damaged"]);
}

#[test]
fn what_a_server_takes_for_weights_is_the_model_alone() {
    let scratch = begun(&[
        "rollout.policy_lag=1",
        "loss.correction={proximal=\"recompute\", weight={level=\"token\"}}",
    ]);
    let entries = std::fs::read_dir(scratch.path("one/checkpoints/step_4")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let weights: Vec<String> = names.filter(|name| name.ends_with(".safetensors")).collect();
    assert_eq!(weights, ["model.safetensors"]);
}

#[test]
fn a_damaged_journal_is_said_and_set_aside() {
    let scratch = begun(&[]);
    let mut bytes = scratch.read("one/run.db");
    // Overwrites the heads of database pages.
    bytes.chunks_mut(4096).skip(2).for_each(|page| page[..8].fill(0x55));
    scratch.write("one/run.db", bytes);
    scratch.burnish(&["rollout", "--from", "one"]).fails_with(&["one/run.db", "damaged"]);
    let said = scratch.burnish(&["train", "--resume", "one"]).succeeds().stdout();
    assert!(said.contains("damaged journal: `one/run.db`") && said.contains("run.db.damaged-1"), "{said}");
    assert!(scratch.path("one/run.db.damaged-1").is_file());
    assert_same_weights(&scratch, "one", "whole", 6);
    let of = |dir: &str, step| {
        let journal = Journal::open(&scratch.path(&format!("{dir}/run.db"))).unwrap();
        journal.episodes(step, EpisodeKind::Train).unwrap()
    };
    assert!(of("one", 2).is_empty() && of("one", 6) == of("whole", 6));
    // A missing journal is reported.
    std::fs::remove_file(scratch.path("one/run.db")).unwrap();
    std::fs::remove_dir_all(scratch.path("one/checkpoints/step_6")).unwrap();
    let said = scratch.burnish(&["train", "--resume", "one"]).succeeds().stdout();
    assert!(said.contains("`one/run.db` is gone or empty") && !said.contains("metrics.jsonl"), "{said}");
    // Invalid lines in the metrics are named.
    let metrics = String::from_utf8(scratch.read("one/metrics.jsonl")).unwrap();
    scratch.write("one/metrics.jsonl", metrics.replacen("\"event\"", "\"evnt\"", 1));
    for command in [&["metrics", "one"][..], &["train", "--resume", "one"]] {
        scratch.burnish(command).fails_with(&["metrics.jsonl", "line 1"]);
    }
    scratch.write("one/run.json", "{");
    for command in [&["eval", "one"][..], &["train", "--resume", "one"]] {
        scratch.burnish(command).fails_with(&["one/run.json", "damaged"]);
    }
}

#[test]
fn a_run_that_failed_before_its_first_step_blocks_nothing() {
    let scratch = Scratch::with_policy();
    // No prompt fits the model's context, which shows when the first one is played.
    let config = "tiny/checkpoints/step_120/config.json";
    let text = String::from_utf8(scratch.read(config)).unwrap();
    let short_sighted = text.replace("\"max_position_embeddings\": 256", "\"max_position_embeddings\": 12");
    scratch.write(config, short_sighted);
    scratch.burnish(&["train", "grpo.toml", "run.dir=one", "eval.tasks=0"]).fails_with(&["overlong"]);
    scratch.write(config, text);
    assert!(scratch.path("one/recipe.toml").exists(), "it had begun");
    let short = ["train", "grpo.toml", "run.dir=one", "train.max_steps=1"];
    scratch.burnish(&short).succeeds();
    scratch.burnish(&short).fails_with(&["one", "--resume", "--overwrite"]);
    // A recipe that can't start removes nothing.
    let weights = scratch.read("one/checkpoints/step_1/model.safetensors");
    let over = |more: &str| scratch.burnish(&[&short[..], &["--overwrite", more]].concat());
    over("policy.path=nowhere").fails_with(&["nowhere"]);
    over("policy.path=one/checkpoints/step_1").fails_with(&["`policy.path`", "run directory"]);
    assert!(scratch.read("one/checkpoints/step_1/model.safetensors") == weights);
    scratch.write("one/notes.md", "mine");
    over("run.seed=9").fails_with(&["notes.md", "no run"]);
    std::fs::remove_file(scratch.path("one/notes.md")).unwrap();
    over("run.seed=9").succeeds();
    assert!(scratch.read("one/checkpoints/step_1/model.safetensors") != weights);
    std::fs::create_dir(scratch.path("mine")).unwrap();
    scratch.write("mine/recipe.toml", "[run]\n");
    let over = ["train", "grpo.toml", "run.dir=mine", "--overwrite"];
    scratch.burnish(&over).fails_with(&["mine", "recipe.toml"]);
    assert_eq!(scratch.read("mine/recipe.toml"), b"[run]\n");
}

#[test]
fn a_run_killed_in_its_first_milliseconds_begins_again_or_goes_on() {
    let scratch = Scratch::with_policy();
    let from = "policy={from={recipe=\"sft.toml\"}}";
    let short = [from, "policy.from.set=[\"eval.tasks=2\"]", "train.max_steps=1", "eval.tasks=2"];
    let train = |dir: &str| {
        let dir = format!("run.dir={dir}");
        let mut command = scratch.command(&["train", "grpo.toml", &dir]);
        command.args(short).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        command
    };
    // The stage is made beforehand.
    assert!(train("first").status().unwrap().success());
    let mut left = std::collections::BTreeSet::new();
    for at in 0..24 {
        let dir = format!("killed_{at}");
        let mut child = train(&dir).spawn().unwrap();
        // At any point of its start, which is recognised by the files that exist.
        let until = scratch.path(&dir);
        common::wait_until("it has begun", || until.exists() || child.try_wait().unwrap().is_some());
        std::thread::sleep(Duration::from_micros(at * 900));
        child.kill().unwrap();
        child.wait().unwrap();
        let names: Vec<String> = std::fs::read_dir(&until)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.insert(names.contains(&"recipe.toml".to_owned()));
        if names.contains(&"recipe.toml".to_owned()) && at % 2 == 0 {
            scratch.burnish(&["train", "--resume", &dir]).succeeds();
        } else if !scratch.path(&format!("{dir}/checkpoints/step_1")).exists() {
            // On a fast machine it may have done its step, and not yet saved it: then it is there to be resumed.
            let has_checkpoints = std::fs::read_dir(until.join("checkpoints"))
                .is_ok_and(|mut entries| entries.next().is_some());
            let metrics = std::fs::read_to_string(until.join("metrics.jsonl")).unwrap_or_default();
            let has_begun = metrics.contains("\"event\":\"train\"") || has_checkpoints;
            let run_dir = format!("run.dir={dir}");
            let again = scratch.burnish(&[&["train", "grpo.toml", &run_dir][..], &short[..]].concat());
            if has_begun && names.contains(&"recipe.toml".to_owned()) {
                again.fails_with(&[&dir, "--resume"]);
                scratch.burnish(&["train", "--resume", &dir]).succeeds();
            } else {
                again.succeeds();
            }
        }
        assert!(
            scratch.read(&format!("{dir}/checkpoints/step_1/model.safetensors"))
                == scratch.read("first/checkpoints/step_1/model.safetensors"),
            "{dir}"
        );
    }
    assert!(left.contains(&false), "none was killed before it had its recipe");
}
