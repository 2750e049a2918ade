//! Dynamic sampling, overlong answers and the KL penalty in whole runs, read back from the run directories.

use std::collections::BTreeSet;

use crate::common::Scratch;
use burnish_core::{Ending, Episode};
use burnish_rundir::journal::{EpisodeKind, Journal, StoredEpisode};
use serde_json::Value;

const GROUP_SIZE: usize = 4;
const TASKS_PER_STEP: usize = 4;
const TOKENS_MAX: usize = 48;
/// Punishes answers of more than 22 tokens: in some groups of the tiny policy this makes a difference, in some not.
const OVERLONG: &str = "reward.overlong_buffer.length=26";

/// Runs the tiny recipe with `overrides` in `dir`, and returns its output.
fn run(scratch: &Scratch, dir: &str, overrides: &[&str]) -> String {
    let dir = format!("run.dir={dir}");
    let arguments = [&["train", "grpo.toml", &dir, "env.tasks=400", "eval.tasks=4"], overrides].concat();
    scratch.burnish(&arguments).succeeds().stdout()
}

/// The metrics of the steps.
fn metrics(scratch: &Scratch, dir: &str) -> Vec<Value> {
    let text = String::from_utf8(scratch.read(&format!("{dir}/metrics.jsonl"))).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.filter(|row| row["event"] == "train").collect()
}

fn episodes(scratch: &Scratch, dir: &str, step: u64, kind: EpisodeKind) -> Vec<StoredEpisode> {
    Journal::open(&scratch.path(&format!("{dir}/run.db"))).unwrap().episodes(step, kind).unwrap()
}

fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or(f64::NAN)
}

fn sampled(episodes: &[StoredEpisode]) -> usize {
    episodes.iter().map(|stored| stored.episode.sampled_tokens()).sum()
}

#[test]
fn dynamic_sampling_fills_every_step_with_groups_that_vary_and_records_what_it_leaves_out() {
    let scratch = Scratch::with_policy();
    // Slow enough that lengths stay different.
    let dynamic = ["rollout.dynamic_sampling.max_rounds=90", "optimizer.learning_rate=1e-4", OVERLONG];
    let said = run(&scratch, "dynamic", &dynamic);
    assert!(!said.contains("groups differ"), "{said}");
    run(&scratch, "plain", &[OVERLONG, "train.max_steps=1"]);
    let rows = metrics(&scratch, "dynamic");
    assert_eq!(rows.len(), 6);
    for (step, row) in (1..).zip(&rows) {
        let stored = episodes(&scratch, "dynamic", step, EpisodeKind::Train);
        let groups: Vec<&[StoredEpisode]> = stored.chunks(GROUP_SIZE).collect();
        let (kept, dropped): (Vec<&[StoredEpisode]>, Vec<&[StoredEpisode]>) =
            groups.iter().partition(|group| group.iter().any(|stored| stored.advantage.is_some()));
        assert_eq!(kept.len(), TASKS_PER_STEP);
        for group in kept {
            assert!(group.iter().any(|stored| stored.advantage != Some(0.0)));
        }
        for group in &dropped {
            assert!(group.iter().all(|stored| stored.advantage.is_none()));
            assert!(group.iter().all(|stored| stored.reward == group[0].reward && stored.reward.is_some()));
        }
        let tasks: BTreeSet<&str> = groups.iter().map(|group| &*group[0].task.id.0).collect();
        assert_eq!(tasks.len(), groups.len(), "no task comes twice in a step");
        assert_eq!(number(row, "dynamic_sampling/dropped_groups"), dropped.len() as f64);
        assert_eq!(number(row, "tasks"), groups.len() as f64);
        assert_eq!(number(row, "tokens/sampled"), sampled(&stored) as f64);
        assert_eq!(number(row, "dynamic_sampling/rounds") > 1.0, groups.len() > TASKS_PER_STEP);
        let share = dropped.len() as f64 / groups.len() as f64;
        assert_eq!(number(row, "frac_reward_zero_std"), share, "of all that was sampled");
    }
    assert!(rows.iter().any(|row| number(row, "dynamic_sampling/rounds") > 1.0), "nothing was tested");
    // The episodes without the feature are those of the first round with it.
    let first = |dir| -> Vec<Episode> {
        let stored = episodes(&scratch, dir, 1, EpisodeKind::Train);
        stored.into_iter().take(TASKS_PER_STEP * GROUP_SIZE).map(|stored| stored.episode).collect()
    };
    assert_eq!(first("dynamic"), first("plain"));
}

#[test]
fn a_step_that_finds_too_few_groups_that_vary_says_so_and_trains_on_those() {
    let scratch = Scratch::with_policy();
    // No board is solved by chance in one step, so no group has successes and failures.
    let said = run(
        &scratch,
        "few",
        &["rollout.dynamic_sampling={max_rounds=2, metric=\"success\"}", OVERLONG, "train.max_steps=1"],
    );
    assert!(said.contains("step 1: 0 of 4 groups differ") && said.contains("after 2 rounds"), "{said}");
    let row = &metrics(&scratch, "few")[0];
    assert_eq!(number(row, "dynamic_sampling/dropped_groups"), 8.0);
    assert!(row.get("loss").is_none(), "there was no update: {row}");
    // The lengths differ, but the metric looks at something else.
    assert!(number(row, "frac_reward_zero_std") < 1.0);
}

#[test]
fn truncated_answers_leave_the_loss_but_not_their_groups() {
    let scratch = Scratch::with_policy();
    let short = ["rollout.tokens_max=22", "reward.overlong_buffer.length=8", "train.max_steps=1"];
    run(&scratch, "all", &short);
    run(&scratch, "masked", &[&short[..], &["loss.mask_truncated_completions=true"]].concat());
    let stored = episodes(&scratch, "masked", 1, EpisodeKind::Train);
    let (cut, whole): (Vec<_>, Vec<_>) =
        stored.clone().into_iter().partition(|stored| stored.episode.ending == Ending::Truncated);
    assert!(!cut.is_empty() && !whole.is_empty());
    let epochs = 2;
    let trained = |dir| number(&metrics(&scratch, dir)[0], "tokens/trained");
    assert_eq!(trained("all"), (epochs * sampled(&stored)) as f64);
    assert_eq!(trained("masked"), (epochs * sampled(&whole)) as f64);
    // Groups are compared as they were.
    assert!(cut.iter().any(|stored| stored.advantage.is_some_and(|advantage| advantage != 0.0)));
    assert_eq!(stored, episodes(&scratch, "all", 1, EpisodeKind::Train));
}

#[test]
fn overlong_answers_are_punished_in_training_as_the_equation_says_and_not_in_evaluation() {
    let scratch = Scratch::with_policy();
    run(&scratch, "shaped", &[OVERLONG, "reward.weights.overlong=3", "train.max_steps=1"]);
    let stored = episodes(&scratch, "shaped", 1, EpisodeKind::Train);
    let mut lost = Vec::new();
    for stored in &stored {
        let tokens = stored.episode.sampled_tokens();
        let expected = -((tokens.saturating_sub(TOKENS_MAX - 26)) as f64 / 26.0);
        let rewards = &stored.episode.verdict.rewards;
        assert_eq!(rewards["overlong"], expected, "{tokens} tokens");
        assert_eq!(stored.reward, Some(rewards["plan"] + 3.0 * expected));
        lost.push(expected);
    }
    assert!(lost.iter().any(|lost| *lost < 0.0) && lost.contains(&0.0));
    let mean = lost.iter().sum::<f64>() / lost.len() as f64;
    let found = number(&metrics(&scratch, "shaped")[0], "rewards/overlong/mean");
    assert!((found - mean).abs() < 1e-12, "{found} for {mean}");
    for stored in episodes(&scratch, "shaped", 1, EpisodeKind::Eval) {
        assert!(!stored.episode.verdict.rewards.contains_key("overlong"));
    }
}

#[test]
fn the_kl_in_the_reward_moves_advantages_and_its_coefficient_follows_the_target() {
    let scratch = Scratch::with_policy();
    let (target, horizon) = (0.01, 64.0);
    let adaptive = format!("loss.adaptive_kl={{target_kl={target}, horizon={horizon}}}");
    let kl = [
        "loss.beta=0.05",
        "loss.kl_estimator=k1",
        "loss.use_kl_in_reward=true",
        "advantage.config.scale=none",
    ];
    run(&scratch, "adaptive", &[&kl[..], &[&adaptive, "train.max_steps=4", OVERLONG]].concat());
    let rows = metrics(&scratch, "adaptive");
    let mut coef = 0.05;
    for row in &rows {
        assert_eq!(number(row, "kl_coef"), coef);
        let kl = number(row, "reward_kl_penalty");
        coef *= 1.0 + (kl / target - 1.0).clamp(-0.2, 0.2) * 16.0 / horizon;
        assert!(row.get("kl").is_none(), "there is no KL in the loss");
    }
    assert!(rows[0]["reward_kl_penalty"].as_f64().unwrap().abs() < 1e-6, "the policy is still the reference");
    assert!(rows.iter().any(|row| number(row, "kl_coef") > 0.05), "{rows:?}");
    // From the second step on, the advantages do not follow from the journal's rewards alone.
    let stored = episodes(&scratch, "adaptive", 4, EpisodeKind::Train);
    let mut moved = 0;
    for group in stored.chunks(GROUP_SIZE) {
        let mean = group.iter().map(|stored| stored.reward.unwrap()).sum::<f64>() / GROUP_SIZE as f64;
        let sum: f64 = group.iter().map(|stored| stored.advantage.unwrap()).sum();
        assert!(sum.abs() < 1e-12, "the penalty is compared inside the group too");
        moved += usize::from(
            group
                .iter()
                .any(|stored| (stored.advantage.unwrap() - (stored.reward.unwrap() - mean)).abs() > 1e-4),
        );
    }
    assert_eq!(moved, TASKS_PER_STEP);
}

#[test]
fn a_loss_on_a_span_learns_from_its_tokens_alone() {
    let scratch = Scratch::with_policy();
    let weights = |dir: &str| scratch.read(&format!("{dir}/checkpoints/step_2/model.safetensors"));
    let share = |dir: &str| -> Vec<f64> {
        metrics(&scratch, dir).iter().map(|row| number(row, "loss/span_share")).collect()
    };
    let short = ["train.max_steps=2", "loss.beta=0", "optimizer.weight_decay=0", "eval.tasks=0"];
    let run = |dir: &str, more: &[&str]| run(&scratch, dir, &[&short[..], more].concat());
    run("plain", &[]);
    // A span without an end in the text is the whole answer.
    let span = |end: &str| format!("spans=[{{name=\"part\", {end}}}]");
    run("whole", &[&span("end=\"never there\""), "loss.on=part"]);
    assert_eq!(weights("whole"), weights("plain"));
    assert_eq!(share("whole"), [1.0, 1.0]);
    run("part", &[&span("end=\"R\""), "loss.on=part"]);
    assert_ne!(weights("part"), weights("plain"));
    assert!(share("part").iter().all(|share| *share > 0.0 && *share < 1.0), "{:?}", share("part"));
    // Nothing is learned from a span that no answer has.
    run("none", &[&span("begin=\"never there\""), "loss.on=part"]);
    run("still", &["optimizer.learning_rate=1e-30"]);
    assert_eq!((weights("none"), share("none")), (weights("still"), vec![0.0, 0.0]));

    // A further loss on a span: without a weight it changes nothing, and with one it does.
    let term = |weight: &str| format!("loss.terms=[{{objective=\"cispo\", on=\"part\", weight={weight}}}]");
    run("weightless", &[&span("end=\"R\""), &term("0.0")]);
    assert_eq!(weights("weightless"), weights("plain"));
    assert_eq!(share("weightless"), [1.0, 1.0]);
    run("both", &[&span("end=\"R\""), &term("2.0")]);
    assert_ne!(weights("both"), weights("plain"));
    assert!(metrics(&scratch, "both").iter().all(|row| number(row, "loss/terms/1").is_finite()));

    let refused = |overrides: &[&str], parts: &[&str]| {
        scratch.burnish(&[&["train", "grpo.toml", "run.dir=bad"], overrides].concat()).fails_with(parts);
    };
    refused(&["loss.on=part"], &["loss.on", "[[spans]]"]);
    refused(&[&span("end=\"R\""), "loss.on=prat"], &["loss.on", "did you mean `part`?"]);
    refused(&[&span("end=\"R\"")], &["spans", "has no use", "loss.on"]);
    refused(
        &[&span("end=\"R\""), &term("1.0").replace("part", "parts")],
        &["loss.terms[0].on", "did you mean `part`?"],
    );
    refused(&[&span("marks=true"), "loss.on=part"], &["spans[0].begin", "is needed"]);
}
