//! Worlds of tools: checked, written by a model on a server, and trained on.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{Scratch, new_policy};
use crate::test_server::{said, serve};
use burnish_rundir::metrics::{self, Row};
use serde_json::Value;

const SMALL: &str = include_str!("../../../burnish-worlds/tests/small.toml");

#[test]
fn files_are_checked_and_what_is_wrong_is_named() {
    let scratch = Scratch::new();
    scratch.write("good.toml", SMALL);
    scratch.write("bad.toml", SMALL.replace("result = { balance = 15 }", "result = { balance = 16 }"));
    scratch.write("worse.toml", "name = \"x\"");
    let good = scratch.burnish(&["world", "check", "good.toml"]).succeeds().stdout();
    assert_eq!(good, "good.toml: `till`, 1 tables, 2 tools, of which 1 change the state, 4 tests passed\n");
    let bad = scratch
        .burnish(&["world", "check", "good.toml", "bad.toml", "worse.toml", "none.toml"])
        .fails_with(&["3 of 4 files are not accepted"])
        .stdout();
    for part in ["bad.toml: results: `deposit`: ", "worse.toml: ", "missing field `about`", "none.toml: "] {
        assert!(bad.contains(part), "{bad}");
    }
}

#[test]
fn a_model_on_a_server_writes_a_world_in_spite_of_broken_proposals() {
    let scratch = Scratch::new();
    let proposals = [
        "Sorry, what?".to_owned(),
        format!("```toml\n{}```", SMALL.replace("owner == $owner", "owner == $name")),
        format!("```toml\n{}```", SMALL.replace("balance + $amount", "balance - $amount")),
        format!("```toml\n{SMALL}```"),
    ];
    let next = AtomicUsize::new(0);
    let (url, sent) = serve(move |_, _| said(&proposals[next.fetch_add(1, Ordering::SeqCst) % 4]));
    let build = |more: &[&str]| {
        let arguments = ["world", "build", &url, "--model", "m", "--about", "a till", "--out", "till.toml"];
        scratch.burnish(&[&arguments[..], more].concat())
    };
    build(&["--attempts", "3"]).fails_with(&["none of 3 proposals is accepted; nothing was written"]);
    assert!(!scratch.path("till.toml").exists());
    // The server goes on with the proposal that is right, and then from the beginning.
    build(&[]).succeeds();
    assert_eq!(scratch.read("till.toml"), SMALL.as_bytes());
    build(&[]).fails_with(&["till.toml: exists already"]);
    let asked: Vec<Value> = sent.lock().unwrap().clone();
    assert_eq!(asked.len(), 4);
    let told = asked[2]["messages"][2]["content"].as_str().unwrap();
    assert!(told.contains("there is no parameter `name`"), "{told}");
    assert!(asked[0]["messages"][0]["content"].as_str().unwrap().contains("a till"));

    let shown =
        ["env", "show", "worlds", "worlds=[]", "path=[\"till.toml\"]", "calls={min=2,max=2}", "--tasks", "5"];
    let shown = scratch.burnish(&shown).succeeds().stdout();
    assert!(shown.contains("find_till {") && shown.contains("deposit {"), "{shown}");
}

#[test]
fn a_policy_imitates_and_then_learns_in_a_world_of_ones_own_free_and_held_to_its_tools() {
    let scratch = Scratch::new();
    // Two amounts, so that a policy that guesses is right now and then.
    scratch.write("till.toml", SMALL.replace("draw = [1, 50]", "draw = [1, 2]"));
    let template = concat!(env!("CARGO_MANIFEST_DIR"), "/../../recipes/templates/tools.jinja");
    let env = "id = \"worlds\"\n[env.config]\nworlds = []\npath = [\"till.toml\"]\ncalls = { min = 2, max = 2 }\nprompt = \"short\"\n";
    let sft = format!(
        "[run]\ndir = \"sft\"\nseed = 1\n[policy]\nchat_template = \"{template}\"\n{}\n[env]\n{env}\n[[data.demonstrations]]\n\
         env = \"worlds\"\ntasks = 60\n[data.demonstrations.config]\nworlds = []\npath = [\"till.toml\"]\n\
         calls = {{ min = 2, max = 2 }}\nprompt = \"short\"\n[train]\nmethod = \"sft\"\nmax_steps = 200\n\
         sequences_per_step = 8\n[optimizer]\nlearning_rate = 1e-2\n[rollout]\ntokens_max = 40\nturns_max = 4\n\
         [eval]\nevery = 100\ntasks = 4\n",
        new_policy(330, 1).replace("max_position_embeddings = 256", "max_position_embeddings = 1024"),
    );
    scratch.write("sft.toml", sft);
    scratch.burnish(&["sft", "sft.toml"]).succeeds();
    let grpo = format!(
        "[run]\ndir = \"grpo\"\nseed = 1\n[policy]\npath = \"sft/checkpoints/step_200\"\n[env]\ntasks = 20\n{env}\n[train]\n\
         method = \"grpo\"\nmax_steps = 2\n[rollout]\ntasks_per_step = 4\ngroup_size = 4\ntokens_max = 40\nturns_max = 4\n\
         [eval]\nevery = 2\ntasks = 4\n"
    );
    scratch.write("grpo.toml", grpo);
    scratch.burnish(&["train", "grpo.toml"]).succeeds();
    scratch.burnish(&["rollout", "--from", "grpo", "--replay"]).succeeds();

    // Held to its tools, as recipes/worlds.toml has it, the same policy makes no call that can't be read or does not fit.
    let held = [
        "rollout.grammar=tools",
        "eval.grammar=tools",
        "rollout.allow_off_policy=true",
        "loss.correction={behavior=\"sampled\", weight={level=\"token\", max=2.0}}",
        "run.dir=held",
    ];
    scratch.burnish(&[&["train", "grpo.toml"][..], &held].concat()).succeeds();
    scratch.burnish(&["rollout", "--from", "held", "--replay"]).succeeds();
    let trained = |dir: &str| -> Vec<Row> {
        let rows = metrics::read(&scratch.path(dir).join("metrics.jsonl")).unwrap();
        rows.into_iter().filter(|row| row.event == metrics::TRAIN).collect()
    };
    let (free, held) = (trained("grpo"), trained("held"));
    assert_eq!((free.len(), held.len()), (2, 2));
    let sum = |rows: &[Row], name: &str| rows.iter().map(|row| row.values[name]).sum::<f64>();
    assert!(sum(&free, "environment/format_penalty") > 0.0, "{free:?}");
    assert!(sum(&held, "tools/call_frequency") > 1.0 && sum(&held, "grad_norm") > 0.0, "{held:?}");
    for name in ["tools/failure_frequency", "environment/format_penalty"] {
        assert_eq!(sum(&held, name), 0.0, "{name}: {held:?}");
    }
    scratch.write("till.toml", SMALL.replace("draw = [1, 50]", "draw = [1, 40]"));
    scratch.burnish(&["train", "grpo.toml", "env.config.path=[\"tills.toml\"]"]).fails_with(&["tills.toml"]);
}
