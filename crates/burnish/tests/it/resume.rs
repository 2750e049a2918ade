//! A run survives anything: however it is stopped, once resumed it ends with the same bits.

use crate::common;
use std::process::{Child, Stdio};

use crate::common::{Scratch, as_before, timeless_metrics, timeless_scalars, wait_until};
use burnish_rundir::journal::{EpisodeKind, Journal};
use burnish_rundir::run_dir::is_finished;
use serde_json::Value;

/// Weights, optimiser state and metrics of the run in `dir` equal those of the run in `whole`.
#[track_caller]
fn assert_same_run(scratch: &Scratch, dir: &str, whole: &str, step: u64) {
    for file in ["model.safetensors", "trainer/trainer.safetensors"] {
        let of = |dir: &str| scratch.read(&format!("{dir}/checkpoints/step_{step}/{file}"));
        assert!(of(dir) == of(whole), "{file} of {dir} differs from that of {whole}");
    }
    let metrics = |dir: &str| timeless_metrics(&scratch.path(&format!("{dir}/metrics.jsonl")));
    assert_eq!(metrics(dir), metrics(whole), "metrics of {dir}");
    let events = |dir: &str| timeless_scalars(&scratch.path(&format!("{dir}/tensorboard")));
    assert!(!events(whole).is_empty() && events(dir) == events(whole), "events of {dir}");
}

/// Checks that the run has learnt something: otherwise equal weights would prove nothing.
#[track_caller]
fn assert_has_learnt(scratch: &Scratch, dir: &str, policy: &str, step: u64) {
    let weights = |dir: &str| scratch.read(&format!("{dir}/model.safetensors"));
    assert!(
        weights(&format!("{dir}/checkpoints/step_{step}")) != weights(policy),
        "{dir} has learnt nothing"
    );
}

fn start(scratch: &Scratch, recipe: &str, dir: &str) -> Child {
    scratch
        .command(&["train", recipe, &format!("run.dir={dir}")])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn metric_lines(scratch: &Scratch, dir: &str) -> usize {
    std::fs::read_to_string(scratch.path(&format!("{dir}/metrics.jsonl")))
        .map_or(0, |text| text.matches('\n').count())
}

/// Starts the run in `dir` with `arguments`, kills it once it has logged `lines` rows, and resumes it to its end.
fn kill_and_resume(scratch: &Scratch, dir: &str, arguments: &[&str], lines: usize) {
    let mut child = scratch.command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the run has come that far", || {
        metric_lines(scratch, dir) >= lines || child.try_wait().unwrap().is_some()
    });
    child.kill().unwrap();
    child.wait().unwrap();
    scratch.burnish(&["train", "--resume", dir]).succeeds();
}

#[test]
fn a_run_killed_at_any_point_and_resumed_equals_an_uninterrupted_one_bit_for_bit() {
    let scratch = Scratch::with_policy();
    scratch.burnish(&["train", "grpo.toml", "run.dir=whole"]).succeeds();
    assert_has_learnt(&scratch, "whole", "tiny/checkpoints/step_120", 6);
    // 8 or 9 rows in all: the evaluations after 0, 3 and 6 steps, and six steps.
    for lines in [0, 1, 3, 5, 7] {
        let dir = format!("killed_{lines}");
        let mut child = start(&scratch, "grpo.toml", &dir);
        wait_until("the run has come that far", || {
            scratch.path(&format!("{dir}/recipe.toml")).exists() && metric_lines(&scratch, &dir) >= lines
                || child.try_wait().unwrap().is_some()
        });
        child.kill().unwrap();
        child.wait().unwrap();
        // A second interruption in between is survived too.
        if lines == 3 {
            let mut child = scratch
                .command(&["train", "--resume", &dir])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            wait_until("it has gone on", || {
                metric_lines(&scratch, &dir) >= 6 || child.try_wait().unwrap().is_some()
            });
            child.kill().unwrap();
            child.wait().unwrap();
        }
        scratch.burnish(&["train", "--resume", &dir]).succeeds();
        assert_same_run(&scratch, &dir, "whole", 6);
    }
}

#[cfg(unix)]
#[test]
fn a_signal_ends_a_run_after_its_step_and_the_exit_status_says_which() {
    use rustix::process::Signal;
    let scratch = Scratch::with_policy();
    for (name, signal, status) in
        [("hangup", Signal::HUP, 129), ("ctrl_c", Signal::INT, 130), ("terminated", Signal::TERM, 143)]
    {
        let arguments =
            ["train", "grpo.toml", &format!("run.dir={name}"), "train.max_steps=500", "checkpoint.every=0"];
        let run = scratch.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        wait_until("the run has begun", || metric_lines(&scratch, name) >= 2);
        common::signal(&run, signal);
        let output = run.wait_with_output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(status), "{said}");
        let saved = std::fs::read_dir(scratch.path(&format!("{name}/checkpoints"))).unwrap().count();
        assert!(said.contains(&format!("train --resume {name}")) && saved == 1, "{said}");
    }
    // The same signal, where nobody is there to be told (`nohup`), ends nothing: see `is_hangup_ignored`.
    let mut ignoring = std::process::Command::new("nohup");
    ignoring.arg(env!("CARGO_BIN_EXE_burnish")).args([
        "train",
        "grpo.toml",
        "run.dir=nohup",
        "train.max_steps=6",
    ]);
    let run =
        ignoring.current_dir(scratch.path(".")).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the run has begun", || metric_lines(&scratch, "nohup") >= 2);
    common::signal(&run, Signal::HUP);
    assert_eq!(run.wait_with_output().unwrap().status.code(), Some(0));
}

#[test]
fn what_dynamic_sampling_draws_and_what_the_kl_coefficient_has_become_survive_a_kill() {
    let scratch = Scratch::with_policy();
    let overrides = [
        "rollout.dynamic_sampling.max_rounds=3",
        "reward.overlong_buffer.length=26",
        "loss.adaptive_kl={target_kl=0.01, horizon=64}",
        "run.dir=whole",
    ];
    scratch.burnish(&[&["train", "grpo.toml"], &overrides[..]].concat()).succeeds();
    let killed = [&["train", "grpo.toml"], &overrides[..3], &["run.dir=killed"]].concat();
    // Past the first checkpoint, which is made after 2 of the 6 steps.
    kill_and_resume(&scratch, "killed", &killed, 5);
    assert_same_run(&scratch, "killed", "whole", 6);
    let metrics = timeless_metrics(&scratch.path("whole/metrics.jsonl"));
    let steps: Vec<serde_json::Value> =
        metrics.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| steps.iter().filter_map(|row| row[name].as_f64()).collect::<Vec<_>>();
    assert!(of("kl_coef").windows(2).all(|pair| pair[0] != pair[1]), "the coefficient moves: {metrics:?}");
    assert!(of("dynamic_sampling/rounds").iter().any(|rounds| *rounds > 1.0), "{metrics:?}");
}

#[test]
fn further_evaluations_change_nothing_else_and_survive_a_kill() {
    let scratch = Scratch::with_policy();
    let also = "eval.extra=[{name=\"sampled\", temperature=1.0, rollouts=4, tasks=5}, {name=\"numbers\", env=\"chains\", \
                tasks=3}]";
    scratch.burnish(&["train", "grpo.toml", "run.dir=plain"]).succeeds();
    let said = scratch.burnish(&["train", "grpo.toml", also, "run.dir=whole"]).succeeds().stdout();
    assert!(said.contains("evaluation `sampled` after 6 steps"), "{said}");
    // 3 rows of evaluations, 3 steps, and not yet all evaluations after them.
    kill_and_resume(&scratch, "killed", &["train", "grpo.toml", also, "run.dir=killed"], 7);
    assert_same_run(&scratch, "killed", "whole", 6);

    let rows = |dir: &str| -> Vec<Value> {
        let lines = timeless_metrics(&scratch.path(&format!("{dir}/metrics.jsonl")));
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let is_further = |row: &Value| {
        row.as_object().unwrap().keys().any(|name| name.contains("/sampled/") || name.contains("/numbers/"))
    };
    let whole = rows("whole");
    let (further, others): (Vec<Value>, Vec<Value>) = whole.into_iter().partition(is_further);
    assert_eq!(others, rows("plain"), "what is measured beside a run changes nothing of it");
    // After 0, 3 and 6 steps.
    assert_eq!(further.len(), 2 * 3);
    let last = |name: &str| further.iter().rev().find_map(|row| row[name].as_f64());
    for name in
        ["eval/sampled/success", "eval/sampled/pass@2", "eval/sampled/pass@4", "eval/sampled/distinct"]
    {
        assert!(last(name).is_some_and(|rate| (0.0..=1.0).contains(&rate)), "{name}");
    }
    assert!(last("eval/sampled/entropy").is_some() && last("eval/numbers/entropy").is_none());

    let journal = Journal::open(&scratch.path("whole/run.db")).unwrap();
    let stored = |name: &str| journal.episodes(6, EpisodeKind::Extra(name.to_owned())).unwrap();
    let sampled = stored("sampled");
    assert_eq!((sampled.len(), stored("numbers").len()), (5 * 4, 3));
    let share = sampled.iter().filter(|stored| stored.episode.verdict.success).count() as f64 / 20.0;
    assert!((share - last("eval/sampled/success").unwrap()).abs() < 1e-12);
    assert!(stored("numbers").iter().all(|stored| stored.task.environment == "chains"));
    let html = String::from_utf8(scratch.read("whole/report.html")).unwrap();
    assert!(html.contains("Further evaluation: <code>sampled</code>") && html.contains("Success: numbers"));

    let json = scratch.burnish(&["eval", "whole", "--extra", "sampled", "--json"]).succeeds().stdout();
    let summary: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(summary["success"]["mean"].as_f64(), last("eval/sampled/success"));
    assert_eq!(summary["pass_at"]["4"]["mean"].as_f64(), last("eval/sampled/pass@4"));
    let shown = scratch.burnish(&["rollout", "--from", "whole", "--extra", "numbers"]).succeeds().stdout();
    assert_eq!(shown.matches("=== chains/").count(), 3, "{shown}");
    scratch.burnish(&["eval", "whole", "--extra", "sample"]).fails_with(&["`sample`", "sampled, numbers"]);
}

#[test]
fn what_a_gate_has_seen_and_where_the_weights_began_survive_a_kill() {
    let scratch = Scratch::with_policy();
    let gated = [
        "train",
        "grpo.toml",
        "train.epochs=4",
        "gate={gate=\"dgg\", config={warmup=3}}",
        "metrics.weight_divergence=true",
    ];
    scratch.burnish(&[&gated[..], &["run.dir=whole"]].concat()).succeeds();
    assert_has_learnt(&scratch, "whole", "tiny/checkpoints/step_120", 6);
    let killed = [&gated[..], &["run.dir=killed"]].concat();
    // Past the first checkpoint, which is made after 2 of the 6 steps.
    kill_and_resume(&scratch, "killed", &killed, 5);
    assert_same_run(&scratch, "killed", "whole", 6);
    let metrics = timeless_metrics(&scratch.path("whole/metrics.jsonl"));
    let rows: Vec<serde_json::Value> =
        metrics.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| rows.iter().filter_map(|row| row[name].as_f64()).collect::<Vec<_>>();
    assert!(of("gate/closed").contains(&1.0), "the gate has closed: {:?}", of("gate/z"));
    assert!(of("divergence/lm_head").windows(2).all(|pair| pair[0] != pair[1]), "{rows:?}");
    // A missing state is not taken for an empty one.
    as_before(&scratch.path("whole/checkpoints/step_6"));
    let record = "whole/checkpoints/step_6/trainer.json";
    let mut saved: serde_json::Value = serde_json::from_slice(&scratch.read(record)).unwrap();
    saved["state"]["stage"]["gate"] = serde_json::Value::Null;
    scratch.write(record, serde_json::to_vec(&saved).unwrap());
    scratch.burnish(&["train", "--resume", "whole"]).fails_with(&["gate", "dgg"]);
}

#[test]
fn a_run_with_a_critic_goes_on_with_what_the_critic_has_learnt() {
    let scratch = Scratch::with_policy();
    let ppo = [
        "train",
        "grpo.toml",
        "advantage={estimator=\"gae\", config={lambda=0.95}}",
        "critic={learning_rate=1e-3, warmup_steps=1}",
        "rollout.group_size=1",
        "rollout.tasks_per_step=16",
    ];
    scratch.burnish(&[&ppo[..], &["run.dir=whole"]].concat()).succeeds();
    assert_has_learnt(&scratch, "whole", "tiny/checkpoints/step_120", 6);
    let killed = [&ppo[..], &["run.dir=killed"]].concat();
    // Past the first checkpoint, which is made after 2 of the 6 steps.
    kill_and_resume(&scratch, "killed", &killed, 5);
    assert_same_run(&scratch, "killed", "whole", 6);
    for file in ["model.safetensors", "trainer/trainer.safetensors"] {
        let of = |dir: &str| scratch.read(&format!("{dir}/checkpoints/step_6/value_model/{file}"));
        assert!(of("killed") == of("whole"), "{file} of the critic differs");
    }
    let metrics = timeless_metrics(&scratch.path("whole/metrics.jsonl"));
    let rows: Vec<serde_json::Value> =
        metrics.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let values: Vec<f64> = rows.iter().filter_map(|row| row["critic/vpred_mean"].as_f64()).collect();
    assert!(values.len() == 6 && values[0] == 0.0 && values[5] != 0.0, "{values:?}");
    let policy_losses = rows.iter().filter(|row| row["clip_ratio/low_mean"].is_number()).count();
    assert_eq!(policy_losses, 5, "in the first step the policy waits");
}

#[test]
fn a_run_that_samples_with_earlier_weights_has_the_same_ones_after_a_kill() {
    let scratch = Scratch::with_policy();
    let lagged = [
        "train",
        "grpo.toml",
        "rollout.policy_lag=2",
        "loss.correction={proximal=\"recompute\", weight={level=\"token\"}}",
    ];
    scratch.burnish(&[&lagged[..], &["run.dir=whole"]].concat()).succeeds();
    assert_has_learnt(&scratch, "whole", "tiny/checkpoints/step_120", 6);
    let killed = [&lagged[..], &["run.dir=killed"]].concat();
    // Past the first checkpoint, which is made after 2 of the 6 steps.
    kill_and_resume(&scratch, "killed", &killed, 5);
    assert_same_run(&scratch, "killed", "whole", 6);
}

/// Prompts are shared in sampling and in training, so states fork in both.
#[test]
fn a_hybrid_goes_on_to_the_same_bits_and_is_trained_on_what_it_sampled() {
    let scratch = Scratch::with_hybrid(None);
    let lora = "policy={path=\"tiny/checkpoints/step_120\", lora={rank=2, alpha=4}}";
    for (whole, killed, more) in [("whole", "killed", "run.seed=5"), ("adapted", "killed-adapted", lora)] {
        let train = ["train", "grpo.toml", more];
        scratch.burnish(&[&train[..], &[&format!("run.dir={whole}")]].concat()).succeeds();
        let rows = timeless_metrics(&scratch.path(&format!("{whole}/metrics.jsonl")));
        let drift = |row: &String| {
            let row: Value = serde_json::from_str(row).unwrap();
            row["sampling/sampling_logp_difference/max"].as_f64()
        };
        let drifts: Vec<f64> = rows.iter().filter_map(drift).collect();
        assert!(drifts.len() == 6 && drifts.iter().all(|drift| *drift < 1e-4), "{drifts:?}");
        let dir = format!("run.dir={killed}");
        kill_and_resume(&scratch, killed, &[&train[..], &[&dir]].concat(), 5);
        if more != lora {
            assert_same_run(&scratch, killed, whole, 6);
            assert_has_learnt(&scratch, whole, "tiny/checkpoints/step_120", 6);
            continue;
        }
        let weights =
            |dir: &str| scratch.read(&format!("{dir}/checkpoints/step_6/adapter_model.safetensors"));
        assert!(weights(killed) == weights(whole), "the adapter differs");
    }
}

#[test]
fn a_hybrid_of_another_rule_goes_on_to_the_same_bits() {
    let scratch = Scratch::with_hybrid(Some("fg2_gdn_plus"));
    scratch.burnish(&["train", "grpo.toml", "run.dir=whole"]).succeeds();
    kill_and_resume(&scratch, "killed", &["train", "grpo.toml", "run.dir=killed"], 5);
    assert_same_run(&scratch, "killed", "whole", 6);
    assert_has_learnt(&scratch, "whole", "tiny/checkpoints/step_120", 6);
}

#[test]
fn a_run_that_chooses_its_tasks_chooses_the_same_ones_after_a_kill() {
    let scratch = Scratch::with_policy();
    for (selector, more) in [("insight", "rollout.dynamic_sampling.max_rounds=2"), ("mopps", "eval.every=3")]
    {
        let (whole, killed) = (format!("whole_{selector}"), format!("killed_{selector}"));
        let selection = format!(
            "selection={{selector=\"{selector}\", config={{pool_factor=4, beliefs={{decay=0.9, fades_to=\"prior\"}}}}}}"
        );
        let arguments =
            ["train", "grpo.toml", "env.tasks=24", "reward.overlong_buffer.length=26", &selection, more];
        let run = |dir: &str| [&arguments[..], &[&format!("run.dir={dir}")]].concat().join("\n");
        let whole_arguments = run(&whole);
        scratch.burnish(&whole_arguments.lines().collect::<Vec<_>>()).succeeds();
        assert_has_learnt(&scratch, &whole, "tiny/checkpoints/step_120", 6);
        // Past the first checkpoint, which is made after 2 of the 6 steps.
        let killed_arguments = run(&killed);
        kill_and_resume(&scratch, &killed, &killed_arguments.lines().collect::<Vec<_>>(), 5);
        assert_same_run(&scratch, &killed, &whole, 6);
        let tasks = |dir: &str, step| -> Vec<String> {
            let journal = Journal::open(&scratch.path(&format!("{dir}/run.db"))).unwrap();
            let stored = journal.episodes(step, EpisodeKind::Train).unwrap();
            stored.into_iter().map(|stored| stored.episode.task.0).collect()
        };
        let played: Vec<Vec<String>> = (1..=6).map(|step| tasks(&whole, step)).collect();
        assert_eq!((1..=6).map(|step| tasks(&killed, step)).collect::<Vec<_>>(), played, "{selector}");
        assert_ne!(played[0], played[1], "{selector}");
        let metrics = timeless_metrics(&scratch.path(&format!("{whole}/metrics.jsonl")));
        let rows: Vec<serde_json::Value> =
            metrics.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        let of = |name: &str| rows.iter().filter_map(|row| row[name].as_f64()).collect::<Vec<_>>();
        let (pool, expected) = (of("selection/pool"), of("selection/mean_success"));
        assert!(pool.len() == 6 && pool.iter().all(|pool| *pool >= 16.0), "{pool:?}");
        assert_eq!(expected[0], 0.5, "nothing is known before the first step: {expected:?}");
        assert!(expected[1..].iter().any(|expected| *expected != 0.5), "{expected:?}");
    }
}

#[test]
fn sft_resumes_to_the_same_bits_and_repeats_itself() {
    let scratch = Scratch::with_policy();
    // Past the first checkpoint, which is made after 40 of the 120 steps: the run resumes from it.
    kill_and_resume(&scratch, "killed", &["train", "sft.toml", "run.dir=killed"], 50);
    assert!(scratch.path("killed/checkpoints/step_40").exists());
    assert_same_run(&scratch, "killed", "tiny", 120);
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let scratch = Scratch::with_policy();
    for threads in ["1", "2", "3"] {
        let dir = format!("run.dir=threads_{threads}");
        scratch
            .burnish(&["train", "grpo.toml", &dir, &format!("run.threads={threads}"), "train.max_steps=2"])
            .succeeds();
    }
    for other in ["threads_2", "threads_3"] {
        assert_same_run(&scratch, other, "threads_1", 2);
    }
}

#[cfg(unix)]
#[test]
fn an_interrupt_finishes_the_step_saves_and_says_how_to_go_on() {
    let scratch = Scratch::with_policy();
    scratch.burnish(&["train", "grpo.toml", "run.dir=whole", "train.max_steps=40"]).succeeds();
    let child = scratch
        .command(&["train", "grpo.toml", "run.dir=asked", "train.max_steps=40"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the run has come that far", || metric_lines(&scratch, "asked") >= 4);
    let report = || String::from_utf8(scratch.read("asked/report.html")).unwrap();
    assert!(report().contains("<b class=\"running\">running</b>"), "a report can be read while it runs");
    assert!(!is_finished(&scratch.path("asked")));
    common::interrupt(&child);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(130), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("burnish train --resume asked"), "{said}");
    let stopped = report();
    for text in [
        "<b class=\"stopped\">stopped</b>",
        " of 40 steps are done.",
        "Go on with <code>burnish train --resume asked</code>.",
    ] {
        assert!(stopped.contains(text), "{text}: {stopped}");
    }
    assert!(!is_finished(&scratch.path("asked")) && !stopped.contains("<script>"));
    // Written anew it says the same, and the run is not changed by it.
    assert_eq!(scratch.burnish(&["report", "asked"]).succeeds().stdout().trim(), "asked/report.html");
    assert!(report().contains("<b class=\"stopped\">stopped</b>"));
    scratch.burnish(&["train", "--resume", "asked"]).succeeds();
    assert_same_run(&scratch, "asked", "whole", 40);
    let finished = report();
    for text in [
        "<b class=\"finished\">finished</b> All 40 steps are done.",
        "in 2 sessions",
        "tiny: GRPO on multi-agent FrozenLake",
        "<div class=\"who\">policy</div>",
        "after (step 40)",
    ] {
        assert!(finished.contains(text), "{text}: {finished}");
    }
    assert!(is_finished(&scratch.path("asked")) && !finished.contains("<script>"));
}

#[test]
fn two_processes_never_share_a_run_directory() {
    let scratch = Scratch::with_policy();
    let mut child = start(&scratch, "grpo.toml", "shared");
    wait_until("the run has begun", || scratch.path("shared/recipe.toml").exists());
    scratch.burnish(&["train", "--resume", "shared"]).fails_with(&["shared", "in use"]);
    for more in [&[][..], &["--overwrite"]] {
        let again = [&["train", "grpo.toml", "run.dir=shared"], more].concat();
        // Whether or not the first process has done a step meanwhile.
        let error = scratch.burnish(&again).fails_with(&["shared"]).stderr();
        assert!(error.contains("in use") || (more.is_empty() && error.contains("--resume")), "{error}");
    }
    wait_until("it has done a step", || metric_lines(&scratch, "shared") >= 2);
    child.kill().unwrap();
    child.wait().unwrap();
    scratch.burnish(&["train", "grpo.toml", "run.dir=shared"]).fails_with(&["shared", "--resume"]);
}

#[test]
fn what_plans_and_estimators_have_learned_survives_a_kill() {
    let chains = "env={id=\"chains\", tasks=9, config={steps={min=1,max=2}, rewards=[\"answer\",\"length\",\"style\"]}}";
    let lang = ["plan={plan=\"lang\", config={alpha=0.5, tau=0.3}}", "advantage.estimator=rdpo"];
    let skpo = ["plan={plan=\"skpo\", config={draft_tokens=4}}", "advantage.estimator=skpo"];
    for own in [lang, skpo] {
        let scratch = Scratch::with_policy();
        let overrides =
            [&["train", "grpo.toml", chains, "reward.overlong_buffer.length=44"], &own[..]].concat();
        scratch.burnish(&[&overrides[..], &["run.dir=whole"]].concat()).succeeds();
        assert_has_learnt(&scratch, "whole", "tiny/checkpoints/step_120", 6);
        kill_and_resume(&scratch, "killed", &[&overrides[..], &["run.dir=killed"]].concat(), 5);
        assert_same_run(&scratch, "killed", "whole", 6);
    }
}
