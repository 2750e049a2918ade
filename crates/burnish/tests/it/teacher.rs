//! A teacher in a whole run: its effect, and that nothing it reads reaches the policy.

use std::collections::BTreeSet;

use crate::common::Scratch;
use burnish_rundir::journal::{EpisodeKind, Journal, StoredEpisode};
use serde_json::{Value, json};

const OPD: [&str; 5] =
    ["loss.objective=opd", "loss.beta=0", "train.epochs=1", "train.minibatches=1", "train.max_steps=2"];

fn run(scratch: &Scratch, name: &str, overrides: &[&str]) -> Vec<Value> {
    let dir = format!("run.dir=runs/{name}");
    scratch.burnish(&[&["train", "grpo.toml", &dir, "eval.tasks=4"], overrides].concat()).succeeds();
    let text = String::from_utf8(scratch.read(&format!("runs/{name}/metrics.jsonl"))).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.filter(|row| row["event"] == "train").collect()
}

/// Prompts of the first step, in the policy's form.
fn prompts(scratch: &Scratch, name: &str) -> Vec<Vec<u32>> {
    let journal = Journal::open(&scratch.path(&format!("runs/{name}/run.db"))).unwrap();
    let stored = journal.episodes(1, EpisodeKind::Train).unwrap();
    stored.iter().map(|stored| stored.episode.traces[0].nodes()[0].ids.clone()).collect()
}

#[test]
fn a_teacher_that_is_the_policy_says_what_the_policy_says_and_one_that_knows_more_does_not() {
    let scratch = Scratch::with_policy();
    let plain = run(&scratch, "plain", &["loss.beta=0", "train.max_steps=1"]);
    let agreement = "metrics.teacher_agreement=true";
    let copy = [&OPD[..], &["teacher.path=tiny/checkpoints/step_120", agreement]].concat();
    let copied = run(&scratch, "copy", &copy);
    let kl = |row: &Value| row["teacher_kl"].as_f64().unwrap();
    // The same weights that sampled: the only difference is the rounding in another batch.
    assert!(kl(&copied[0]).abs() < 1e-4 && copied[0]["grad_norm"].as_f64().unwrap() < 1e-2, "{}", copied[0]);
    let choices =
        |row: &Value| ["same_choice", "choice_unlikely"].map(|name| row[format!("teacher/{name}")].as_f64());
    assert_eq!(choices(&copied[0]), [Some(1.0), Some(0.0)]);
    let told = run(&scratch, "told", &[&OPD[..], &["teacher.context=demonstration", agreement]].concat());
    assert!(kl(&told[0]).abs() > 1e-3, "{}", told[0]);
    let [same, unlikely] = choices(&told[0]).map(Option::unwrap);
    assert!(same > 0.0 && same < 1.0 && unlikely > 0.0 && unlikely <= 1.0 - same, "{}", told[0]);
    assert!(told[0]["grad_norm"].as_f64().unwrap() > 0.0);
    // The teacher is told the answer, but the policy reads and samples the same as without a teacher.
    assert_eq!(prompts(&scratch, "told"), prompts(&scratch, "plain"));
    assert_eq!(told[0]["reward"], plain[0]["reward"]);
    assert_eq!(told[0]["tokens/total"], plain[0]["tokens/total"]);
    scratch
        .burnish(&["train", "grpo.toml", agreement, "--dry-run"])
        .fails_with(&["metrics.teacher_agreement", "`[teacher]`"]);
}

/// One update on the episodes of each step, by GRPO unless told otherwise; the first one is not of a warm-up, whose
/// learning rate is 0.
const ONCE: [&str; 5] = [
    "loss.beta=0",
    "train.epochs=1",
    "train.minibatches=1",
    "train.max_steps=2",
    "optimizer.warmup_updates=0",
];
const SDAR: [&str; 2] = ["teacher.context=skill", "loss={objective=\"sdar\", config={sdar_coef=0.1}}"];

/// An environment with skills.
struct Place {
    id: &'static str,
    config: Value,
}

impl Place {
    /// Both that there are: one of single answers, one of several turns.
    fn all() -> [Place; 2] {
        let steps = json!({ "steps": { "min": 2, "max": 2 } });
        [
            Place { id: "chains", config: steps },
            Place { id: "household", config: json!({ "skill_detail": "location" }) },
        ]
    }

    fn with(&self, key: &str, value: Value) -> Place {
        let mut config = self.config.clone();
        config[key] = value;
        Place { config, ..*self }
    }

    /// Trains the policy that has seen chains here.
    fn run(&self, scratch: &Scratch, name: &str, overrides: &[&str]) -> Vec<Value> {
        let env = format!("env={{id={:?}, tasks=40, config={}}}", self.id, inline(&self.config));
        let fixed = ["policy.path=tiny/checkpoints/step_40", "rollout.turns_max=3", "eval.every=1", &env];
        run(scratch, name, &[&fixed[..], &ONCE, overrides].concat())
    }
}

/// A configuration as an override of a recipe.
fn inline(config: &Value) -> String {
    match config.as_object() {
        Some(table) => {
            let entries: Vec<String> =
                table.iter().map(|(key, value)| format!("{key}={}", inline(value))).collect();
            format!("{{{}}}", entries.join(", "))
        }
        None => config.to_string(),
    }
}

fn played(scratch: &Scratch, name: &str, kind: EpisodeKind, step: u64) -> Vec<StoredEpisode> {
    Journal::open(&scratch.path(&format!("runs/{name}/run.db"))).unwrap().episodes(step, kind).unwrap()
}

/// The names of the numbers in which two rows differ, without those that depend on the clock.
fn differing<'a>(one: &'a Value, other: &'a Value) -> Vec<&'a str> {
    let names = [one, other].map(|row| row.as_object().unwrap().keys().map(String::as_str));
    let names: BTreeSet<&str> = names.into_iter().flatten().filter(|name| !name.contains("time")).collect();
    names.into_iter().filter(|name| one[*name] != other[*name]).collect()
}

#[test]
fn a_skill_is_read_by_the_teacher_and_by_nobody_else() {
    let scratch = Scratch::with_policy_of_chains();
    for place in Place::all() {
        let generator = burnish_env::build(place.id, &place.config).unwrap();
        let skills = generator.skills().unwrap();
        let [told, plain] = ["told", "plain"].map(|name| format!("{}-{name}", place.id));
        let told_rows = place.run(&scratch, &told, &SDAR);
        let plain_rows = place.run(&scratch, &plain, &[]);
        assert!(told_rows[0]["teacher_gap_mean"].as_f64().unwrap().abs() > 1e-3, "{}", told_rows[0]);
        // What is trained on is as long, and as likely to those who sampled it, as without a teacher.
        let of_loss = ["gate_active_ratio", "gate_mean", "grad_norm", "loss", "teacher_gap_mean"];
        assert_eq!(differing(&told_rows[0], &plain_rows[0]), of_loss, "{}", place.id);

        let mut prompts = 0;
        for (kind, steps) in [(EpisodeKind::Train, 1..=2), (EpisodeKind::Eval, 0..=2)] {
            for step in steps {
                let [told, plain] = [&told, &plain].map(|name| played(&scratch, name, kind.clone(), step));
                assert_eq!(told.len(), plain.len());
                for (told, plain) in told.iter().zip(&plain) {
                    assert_eq!((&told.task, told.episode.rollout), (&plain.task, plain.episode.rollout));
                    let [own, other] = [told, plain].map(|stored| stored.episode.traces[0].nodes());
                    assert_eq!(own[0].ids, other[0].ids, "{} {kind:?} {step}", place.id);
                    // Until the first update, the policies are the same, and so is all that they do.
                    let is_first = step == u64::from(kind == EpisodeKind::Train);
                    assert!(!is_first || told.episode == plain.episode, "{} {kind:?}", place.id);
                    let skill = skills.skill(&told.task).unwrap();
                    let nodes = told.episode.traces.iter().flat_map(|trace| trace.nodes());
                    let read = nodes.filter(|node| node.sampled.is_none());
                    let read: String = read.map(|node| node.text.as_str()).collect();
                    assert!(!read.is_empty() && !read.contains(&skill), "{skill} in {read}");
                    prompts += 1;
                }
            }
        }
        assert_eq!(prompts, 2 * 16 + 3 * 4);
    }
}

#[test]
fn other_words_of_a_skill_change_the_gate_and_what_it_lets_through_and_nothing_else() {
    let scratch = Scratch::with_policy_of_chains();
    let [chains, household] = Place::all();
    for places in [
        [0.0, 1.0].map(|wrong| chains.with("skill_errors", json!(wrong))),
        ["order", "location"].map(|detail| household.with("skill_detail", json!(detail))),
    ] {
        let id = places[0].id;
        let weights = |name: &str| scratch.read(&format!("runs/{name}/checkpoints/step_1/model.safetensors"));
        let names = |gate: &str| [0, 1].map(|at| format!("{id}-{gate}-{at}"));
        let rows = |gate: &str| {
            let loss = format!("loss={{objective=\"sdar\", config={{sdar_coef=0.1, gate=\"{gate}\"}}}}");
            let more = [SDAR[0], &loss, "train.max_steps=1", "reward.overlong_buffer.length=44"];
            let ([one, other], [first, second]) = (&places, names(gate));
            [(one, first), (other, second)].map(|(place, name)| place.run(&scratch, &name, &more).remove(0))
        };
        let [one, other] = rows("gap");
        let found = differing(&one, &other);
        let must = ["gate_mean", "teacher_gap_mean", "grad_norm"];
        assert!(must.iter().all(|name| found.contains(name)), "{id}: {found:?}");
        let may = ["gate_active_ratio", "loss"];
        assert!(found.iter().all(|name| must.contains(name) || may.contains(name)), "{id}: {found:?}");
        let [one, other] = names("gap");
        let sampled = |name: &str| -> Vec<_> {
            let all = played(&scratch, name, EpisodeKind::Train, 1).into_iter();
            all.map(|stored| (stored.episode, stored.reward, stored.advantage)).collect()
        };
        assert!(sampled(&one) == sampled(&other), "{id}: the policy has read the skill");
        assert!(weights(&one) != weights(&other), "{id}: the gate has no effect");

        // Through the gate alone: where it is always open, the same is learned whatever the teacher is told.
        let [open, still] = rows("none");
        assert!(differing(&open, &still).contains(&"teacher_gap_mean"), "{id}");
        assert_eq!(open["grad_norm"], still["grad_norm"], "{id}");
        let [open, still] = names("none");
        assert!(weights(&open) == weights(&still), "{id}");
    }
}

#[test]
fn a_context_that_the_environment_has_not_is_refused_with_what_to_do() {
    let scratch = Scratch::with_policy();
    let arguments = ["train", "grpo.toml", "run.dir=runs/x", "eval.tasks=0", "teacher.context=skill"];
    let parts = ["teacher.context", "mapf-frozenlake", "another context"];
    scratch.burnish(&[&arguments[..], &OPD].concat()).fails_with(&parts);
}

#[test]
fn remax_measures_each_task_against_a_greedy_answer() {
    let scratch = Scratch::with_policy();
    let rows = run(&scratch, "remax", &["advantage.estimator=remax", "train.max_steps=2"]);
    let journal = Journal::open(&scratch.path("runs/remax/run.db")).unwrap();
    let stored = journal.episodes(1, EpisodeKind::Train).unwrap();
    let mut greedy = Vec::new();
    for group in stored.chunks(4) {
        // The advantage is the reward minus one number per task: the greedy answer's reward.
        let baselines: Vec<f64> =
            group.iter().map(|stored| stored.reward.unwrap() - stored.advantage.unwrap()).collect();
        assert!(baselines.iter().all(|baseline| (baseline - baselines[0]).abs() < 1e-9), "{baselines:?}");
        assert!([0.0, 0.5, 1.0].iter().any(|reward| (reward - baselines[0]).abs() < 1e-9), "{baselines:?}");
        greedy.push(baselines[0]);
    }
    let mean = greedy.iter().sum::<f64>() / greedy.len() as f64;
    assert!((rows[0]["greedy_reward"].as_f64().unwrap() - mean).abs() < 1e-9);
}
