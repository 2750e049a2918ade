//! A model of goals beside what an environment pays.

use crate::common::Scratch;
use burnish_rundir::journal::{EpisodeKind, Journal};

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
