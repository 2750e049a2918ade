//! A model of goals beside what an environment pays.

use crate::common::Scratch;
use burnish_core::{Message, Task, Trace};
use burnish_model::{Chat, Model};
use burnish_rundir::journal::{EpisodeKind, Journal};
use burnish_train::{Sample, score};
use serde_json::json;

const RECIPE: &str = r#"
run.dir = "run"
policy.path = STARTER
[train]
method = "grpo"
max_steps = 1
[rollout]
tasks_per_step = 2
group_size = 2
tokens_max = 8
turns_max = 4
[env]
id = "clarify"
tasks = 20
config.prompt = "short"
[reward]
goal = { path = STARTER }
weights = { information = 0.0 }
[eval]
tasks = 3
every = 0
[checkpoint]
every = 1
"#;

#[test]
fn what_a_model_of_goals_gives_is_stored_and_episodes_replay_without_it() {
    let scratch = Scratch::new();
    let starter = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/starter");
    scratch.write("goal.toml", RECIPE.replace("STARTER", &format!("{starter:?}")));
    scratch.burnish(&["train", "goal.toml"]).succeeds();
    let journal = Journal::open_to_read(&scratch.path("run/run.db")).unwrap();
    for (step, kind) in [(0, EpisodeKind::Eval), (1, EpisodeKind::Train), (1, EpisodeKind::Eval)] {
        let episodes = journal.episodes(step, kind.clone()).unwrap();
        assert!(!episodes.is_empty(), "{step} {kind}");
        for stored in &episodes {
            let verdict = &stored.episode.verdict;
            // The policy plans paths and asks nothing.
            assert_eq!((verdict.rewards["goal_information"], verdict.rewards["information"]), (0.0, 0.0));
        }
    }
    for kind in [&["--eval"][..], &[]] {
        scratch.burnish(&[&["rollout", "--from", "run", "--replay"], kind].concat()).succeeds();
    }
    let wrong =
        scratch.burnish(&["train", "goal.toml", "env.id=countdown", "env.config={}", "run.dir=other"]);
    wrong.fails_with(&["reward.goal", "countdown"]);
    let both = r#"reward.goal={path="x", endpoint={url="http://x", model="m"}}"#;
    scratch
        .burnish(&["train", "goal.toml", both, "run.dir=other"])
        .fails_with(&["reward.goal.endpoint", "excludes"]);
}

/// The tiny policy asks customers questions, and is its own model of goals as it was before it learnt.
const ASKS: [&str; 3] = [
    "policy.new.max_position_embeddings=512",
    "env={id=\"clarify\", config={prompt=\"short\"}}",
    "data.demonstrations=[{env=\"clarify\", tasks=500, config={prompt=\"short\", demonstrations=\"random\"}}]",
];

/// What a model takes an episode's questions to have told, summed over the goal's tokens.
fn information((model, chat): &(Model, Chat), task: &Task, answers: &[Message]) -> f64 {
    let generator = burnish_env::build("clarify", &json!({"prompt": "short"})).unwrap();
    let of = |answers: &[Message]| -> f64 {
        let wanted = generator.goals().unwrap().wanted(task, answers).unwrap();
        let mut ids = chat.extend(&mut Trace::default(), &[Message::user(wanted.known)], &[]).unwrap();
        let first = ids.len();
        ids.extend(chat.tokenizer.encode(&wanted.goal).unwrap());
        let loss_mask = (0..ids.len()).map(|at| at >= first).collect();
        let sample = Sample { loss_mask, ..Sample::of_text(ids) };
        let logprobs = score(model, &[sample], 1024).unwrap().remove(0);
        logprobs[first..].iter().map(|logprob| f64::from(*logprob)).sum()
    };
    of(answers) - of(&[])
}

#[test]
fn the_model_of_goals_stays_as_it_was_while_the_policy_learns() {
    let scratch = Scratch::with_policy();
    scratch.burnish(&[&["sft", "sft.toml", "--overwrite"], &ASKS[..]].concat()).succeeds();
    let run = [
        "train",
        "grpo.toml",
        "env={id=\"clarify\", tasks=40, config={prompt=\"short\"}}",
        "reward={goal={path=\"tiny/checkpoints/step_120\", over=\"sum\"}, weights={information=0.0}}",
        "rollout.tokens_max=16",
        "rollout.turns_max=4",
        "train.max_steps=3",
        "checkpoint.every=3",
        "eval.tasks=0",
    ];
    scratch.burnish(&run).succeeds();
    let [before, after] = ["tiny/checkpoints/step_120", "grpo/checkpoints/step_3"]
        .map(|path| burnish_model::load_policy(&scratch.path(path)).unwrap());
    let journal = Journal::open_to_read(&scratch.path("grpo/run.db")).unwrap();
    let (mut apart, mut told) = (0.0_f64, 0);
    for stored in journal.episodes(3, EpisodeKind::Train).unwrap() {
        let episode = stored.episode;
        let task = journal.task(&episode.task).unwrap().unwrap();
        let paid = episode.verdict.rewards["goal_information"];
        let expected = information(&before, &task, &episode.answers);
        assert!((paid - expected).abs() < 1e-3, "{paid} {expected}: {:?}", episode.answers);
        apart = apart.max((paid - information(&after, &task, &episode.answers)).abs());
        told += usize::from(paid != 0.0);
    }
    assert!(told > 0, "nothing was asked");
    assert!(apart > 0.01, "the policy has not changed: {apart}");
}
