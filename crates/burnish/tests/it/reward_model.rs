//! A reward model as the judge of rollouts.

use crate::common::Scratch;
use burnish_core::{Trace, Validity};
use burnish_model::{Loading, Model};
use burnish_rundir::journal::{EpisodeKind, Journal, StoredEpisode};
use burnish_train::{Sample, score};
use serde_json::{Value, json};

const RECIPE: &str = r#"
run.dir = "run"
policy.path = STARTER
[train]
method = "grpo"
max_steps = 12
[rollout]
tasks_per_step = 4
group_size = 8
tokens_max = 12
[env]
id = "rows"
tasks = 40
[env.config]
path = "prompts.jsonl"
verifier = "none"
[reward.model]
path = "rm"
[optimizer]
learning_rate = 1e-3
[eval]
tasks = 8
every = 0
[checkpoint]
every = 6
"#;

/// A policy's starter, and a reward model that was trained on pairs: the more of an answer is `up`, the better.
fn scratch() -> Scratch {
    let scratch = Scratch::new();
    let starter = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/starter");
    scratch.write("grpo.toml", RECIPE.replace("STARTER", &format!("{starter:?}")));
    let prompts = (0..48).map(|at| json!({"prompt": format!("move {} {}", at % 7, at)}));
    scratch.write("prompts.jsonl", lines(prompts));
    let pairs = (0..64).map(|at| {
        let (better, worse) = (vec!["up"; 1 + at % 4].join(" "), vec!["down"; 1 + at % 3].join(" "));
        json!({"prompt": format!("move {} {}", at % 7, at), "chosen": better, "rejected": worse})
    });
    scratch.write("pairs.jsonl", lines(pairs));
    let recipe = format!(
        "run.dir = \"rm\"\npolicy.path = {starter:?}\n[train]\nmethod = \"reward\"\nmax_steps = 30\nsequences_per_step = 8\n\
         [data]\npath = \"pairs.jsonl\"\n[optimizer]\nlearning_rate = 1e-3\n"
    );
    scratch.write("rm.toml", recipe);
    scratch.burnish(&["train", "rm.toml"]).succeeds();
    scratch
}

fn lines(rows: impl Iterator<Item = Value>) -> String {
    rows.map(|row| row.to_string() + "\n").collect()
}

/// The newest checkpoint of the reward model.
fn reward_model(scratch: &Scratch) -> Model {
    Model::load_as(&scratch.path("rm/checkpoints/step_30"), &Loading::default()).unwrap()
}

/// The value of a conversation, computed here.
fn value(model: &Model, trace: &Trace) -> f64 {
    let ids = trace.branches().pop().unwrap().ids;
    let mut scored = ids.clone();
    scored.push(0);
    let mut sample = Sample::of_text(scored);
    sample.loss_mask.fill(false);
    *sample.loss_mask.last_mut().unwrap() = true;
    f64::from(score(model, &[sample], 4096).unwrap()[0][ids.len()])
}

#[test]
fn rollouts_and_evaluations_earn_what_the_reward_model_gives_and_learn_to_earn_more() {
    let scratch = scratch();
    scratch.burnish(&["train", "grpo.toml"]).succeeds();
    let model = reward_model(&scratch);
    let journal = Journal::open_to_read(&scratch.path("run/run.db")).unwrap();
    let mut means = Vec::new();
    for (step, kind) in [(0, EpisodeKind::Eval), (1, EpisodeKind::Train), (12, EpisodeKind::Eval)] {
        let episodes = journal.episodes(step, kind.clone()).unwrap();
        assert!(!episodes.is_empty(), "{step} {kind}");
        let mut sum = 0.0;
        for stored in &episodes {
            let verdict = &stored.episode.verdict;
            let expected = value(&model, &stored.episode.traces[0]);
            let given = verdict.rewards["reward_model"];
            assert!((given - expected).abs() < 1e-4, "{given} for {expected}");
            assert_eq!((verdict.rewards.len(), stored.reward), (1, Some(given)));
            assert!(!verdict.has_success && verdict.is_scored());
            sum += given;
        }
        means.push(sum / episodes.len() as f64);
    }
    assert!(means[2] > means[0], "{means:?}");
    for kind in [&["--eval"][..], &[]] {
        scratch.burnish(&[&["rollout", "--from", "run", "--replay"], kind].concat()).succeeds();
    }
    // The stored run evaluates again to the same reward, with the reward model that it names.
    let again = scratch.burnish(&["eval", "run", "--json"]).succeeds().stdout();
    let again: Value = serde_json::from_str(&again).unwrap();
    let reward = again["rewards"]["reward_model"].as_f64().or(again["reward"]["mean"].as_f64());
    assert!(reward.is_some_and(|reward| (reward - means[2]).abs() < 1e-6), "{again} for {}", means[2]);
    // As lines for programs.
    let lines = scratch.burnish(&["rollout", "--from", "run", "--eval", "--json"]).succeeds().stdout();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 8);
    assert_eq!(
        (&lines[0]["step"], &lines[0]["kind"], &lines[0]["success"]),
        (&json!(12), &json!("eval"), &Value::Null)
    );
    assert!(
        lines[0]["reward"] == lines[0]["rewards"]["reward_model"] && lines[0]["tokens"].as_u64().unwrap() > 0
    );
}

#[test]
fn transformers_gives_the_same_numbers() {
    let Ok(python) = std::env::var("BURNISH_PYTHON") else {
        println!("skipped: BURNISH_PYTHON names no python with transformers");
        return;
    };
    let scratch = scratch();
    scratch.burnish(&["train", "grpo.toml", "train.max_steps=1"]).succeeds();
    let journal = Journal::open_to_read(&scratch.path("run/run.db")).unwrap();
    for stored in journal.episodes(1, EpisodeKind::Eval).unwrap().iter().take(3) {
        let ids = stored.episode.traces[0].branches().pop().unwrap().ids;
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/score_with_transformers.py");
        let output = std::process::Command::new(&python)
            .arg(script)
            .arg(scratch.path("rm/checkpoints/step_30"))
            .args(ids.iter().map(u32::to_string))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let theirs: f64 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
        let ours = stored.episode.verdict.rewards["reward_model"];
        assert!((ours - theirs).abs() < 1e-4, "{ours}, transformers: {theirs}");
    }
}

#[test]
fn what_it_can_not_read_is_unscored_with_the_reason() {
    let scratch = scratch();
    // Of many lengths, since an untrained policy's answers are all cut off.
    let prompts = (0..48).map(|at| json!({"prompt": format!("move {at}{}", " and on".repeat(at % 6))}));
    scratch.write("prompts.jsonl", lines(prompts));
    let step = ["train", "grpo.toml", "train.max_steps=1"];
    let played = |run: &str| {
        let journal = Journal::open_to_read(&scratch.path(run).join("run.db")).unwrap();
        let stored = journal.episodes(1, EpisodeKind::Train).unwrap().into_iter();
        let with_length =
            |stored: StoredEpisode| (stored.episode.traces[0].branches().pop().unwrap().ids.len(), stored);
        stored.map(with_length).collect::<Vec<_>>()
    };
    scratch.burnish(&[&step[..], &["run.dir=all"]].concat()).succeeds();
    let mut lengths: Vec<usize> = played("all").iter().map(|(length, _)| *length).collect();
    lengths.sort_unstable();
    let longest = lengths[lengths.len() / 2];
    assert!(lengths[lengths.len() - 1] > longest, "{lengths:?}");

    std::fs::create_dir(scratch.path("small")).unwrap();
    for entry in std::fs::read_dir(scratch.path("rm/checkpoints/step_30")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            std::fs::copy(&path, scratch.path("small").join(path.file_name().unwrap())).unwrap();
        }
    }
    let mut config: Value = serde_json::from_slice(&scratch.read("small/config.json")).unwrap();
    config["max_position_embeddings"] = longest.into();
    scratch.write("small/config.json", config.to_string());
    scratch.burnish(&[&step[..], &["reward.model.path=small"]].concat()).succeeds();
    let reason_is = format!("the reward model reads at most {longest}");
    for (length, stored) in played("run") {
        match &stored.episode.verdict.validity {
            Validity::Scored => assert!(length <= longest && stored.reward.is_some(), "{length}"),
            Validity::Unscored { reason } => {
                assert!(reason.contains(&reason_is), "{reason}");
                assert!(length > longest && stored.reward.is_none(), "{length}");
            }
        }
    }
}

#[test]
fn it_goes_with_a_verifier_and_with_weights_and_is_refused_where_it_can_not_be_meant() {
    let scratch = scratch();
    let short = ["train", "grpo.toml", "train.max_steps=1"];
    let both = [
        "env.id=countdown",
        "env.config={}",
        "reward.weights={reward_model=0.5}",
        "advantage.estimator=remax",
        "run.dir=both",
    ];
    scratch.burnish(&[&short[..], &both].concat()).succeeds();
    let journal = Journal::open_to_read(&scratch.path("both/run.db")).unwrap();
    for stored in journal.episodes(1, EpisodeKind::Train).unwrap() {
        let rewards = &stored.episode.verdict.rewards;
        let weighed: f64 =
            rewards.iter().map(|(name, own)| if name == "reward_model" { 0.5 * own } else { *own }).sum();
        assert!(rewards.len() > 1 && (stored.reward.unwrap() - weighed).abs() < 1e-12, "{rewards:?}");
    }
    let starter = concat!("reward.model.path=", env!("CARGO_MANIFEST_DIR"), "/../../models/starter");
    for (changes, parts) in [
        (&[starter][..], &["reward.model.path", "model with logits", "train.method = \"reward\""][..]),
        (&["reward.model.path=nowhere"], &["reward.model.path", "nowhere"]),
        (&["reward.model.scale=2"], &["reward.model.scale"]),
        (&["reward.weights={reward_modle=2.0}"], &["reward.weights.reward_modle", "did you mean"]),
        (&["env.config.verifier=nine"], &["no verifier is called `nine`", "none"]),
    ] {
        scratch.burnish(&[&short[..], changes].concat()).fails_with(parts);
        assert!(!scratch.path("run").exists(), "{changes:?}");
    }
    let without = String::from_utf8(scratch.read("grpo.toml")).unwrap();
    scratch.write("without.toml", without.replace("[reward.model]\npath = \"rm\"\n", ""));
    scratch.burnish(&["train", "without.toml"]).fails_with(&[
        "env.config",
        "gives no reward",
        "[reward.model]",
    ]);
}
