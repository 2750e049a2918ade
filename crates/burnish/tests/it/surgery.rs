//! `[weights]`: a policy that is made of those of other recipes, as a run of its own and as a stage of another.

use std::path::PathBuf;

use crate::common::{Scratch, TINY_GRPO, TINY_SFT};
use serde_json::Value;

/// Surgery between `sft.toml` and `more.toml`, which goes on from it; nothing is trained.
const SURGERY: &str = r#"
[run]
dir = "mixed"

[weights]
method = "wise_ft"
base_model = { from = "sft.toml" }
models = [{ from = "more.toml" }]
parameters = { alpha = 0.5 }

[train]
method = "none"

"#;

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    let sft = TINY_SFT.replace("max_steps = 120", "max_steps = 8");
    scratch.write("sft.toml", &sft);
    let (before, after) = sft.split_once("[policy.new]").unwrap();
    let (_, after) = after.split_once("\n[").unwrap();
    scratch.write("more.toml", format!("{before}[policy]\nfrom = \"sft.toml\"\n\n[{after}"));
    let grpo = TINY_GRPO.replace("max_steps = 6", "max_steps = 2");
    let (_, env) = grpo.split_once("[env]").unwrap();
    let env = format!("[env]{env}");
    // What is played and held out stays; what belongs to learning goes.
    let (env, _) = env.split_once("[train]").unwrap_or((&env, ""));
    let played = "[rollout]\ntokens_max = 48\n\n[eval]\ntasks = 8\n";
    scratch.write("mixed.toml", format!("{SURGERY}{env}{played}"));
    let from = "from = { recipe = \"mixed.toml\" }";
    scratch.write("grpo.toml", grpo.replace("path = \"tiny/checkpoints/step_120\"", from));
    scratch
}

/// What lies in the cache under a name that begins with `name`.
fn cached(scratch: &Scratch, name: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(scratch.path("runs/cache")) else { return Vec::new() };
    let of_name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(name);
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).filter(of_name).collect();
    found.sort();
    found
}

fn norm(scratch: &Scratch, from: &str, to: &str) -> f64 {
    let said = scratch.burnish(&["weights", "diff", from, to, "--json"]).succeeds().stdout();
    serde_json::from_str::<Value>(&said).unwrap()["norm"].as_f64().unwrap()
}

#[test]
fn surgery_is_a_stage_like_others() {
    let scratch = scratch();
    scratch.burnish(&["eval", "mixed.toml"]).fails_with(&[
        "wise_ft",
        "is not there yet",
        "burnish train mixed.toml",
    ]);
    let said = scratch.burnish(&["train", "grpo.toml", "run.dir=one"]).succeeds().stdout();
    assert!(said.contains("merging by wise_ft"), "{said}");
    for name in ["sft-", "more-", "mixed-", "wise_ft-"] {
        assert_eq!(cached(&scratch, name).len(), 1, "{name}: {said}");
    }
    // Half of the way, as an ordinary merge makes it; the run that was made of it trains on.
    let stage = |name: &str| cached(&scratch, name)[0].join("checkpoints").display().to_string();
    let (first, last) = (format!("{}/step_8", stage("sft-")), format!("{}/step_8", stage("more-")));
    let options = ["--method", "wise_ft", "--base", &first, "--model", &last, "--set", "alpha=0.5", "merged"];
    scratch.burnish(&[&["weights", "merge"], &options[..]].concat()).succeeds();
    let mixed = format!("{}/step_1", stage("mixed-"));
    assert_eq!(norm(&scratch, "merged", &mixed), 0.0);
    assert!(norm(&scratch, &first, &mixed) > 0.0 && norm(&scratch, &last, &mixed) > 0.0);
    assert_eq!(norm(&scratch, &mixed, "one/start"), 0.0);

    // Nothing is made twice, another parameter makes another result of the same stages.
    let said = scratch.burnish(&["train", "grpo.toml", "run.dir=two"]).succeeds().stdout();
    assert!(!said.contains("merging") && said.contains("there"), "{said}");
    let other = "policy.from.set=[\"weights.parameters.alpha=1\"]";
    scratch.burnish(&["train", "grpo.toml", "run.dir=three", other]).succeeds();
    assert_eq!([cached(&scratch, "wise_ft-").len(), cached(&scratch, "more-").len()], [2, 1]);
    assert_eq!(norm(&scratch, &last, "three/start"), 0.0);

    // By itself it is a run that is evaluated once, and whose recipe can be evaluated now.
    scratch.burnish(&["train", "mixed.toml"]).succeeds();
    let metrics = String::from_utf8(scratch.read("mixed/metrics.jsonl")).unwrap();
    assert_eq!(metrics.matches("\"event\":\"eval\"").count(), 1, "{metrics}");
    let of_recipe = scratch.burnish(&["eval", "mixed.toml", "--json"]).succeeds().stdout();
    std::fs::remove_dir_all(scratch.path("runs/cache")).unwrap();
    assert_eq!(scratch.burnish(&["eval", "mixed", "--json"]).succeeds().stdout(), of_recipe);
    scratch.burnish(&["train", "--resume", "one"]).succeeds();
}

#[test]
fn what_is_broken_or_was_changed_is_refused() {
    let scratch = scratch();
    scratch.burnish(&["train", "mixed.toml"]).succeeds();
    let [made] = &cached(&scratch, "wise_ft-")[..] else { panic!("one result") };
    let tensors = made.join("model.safetensors");
    let whole = std::fs::read(&tensors).unwrap();
    std::fs::write(&tensors, &whole[..whole.len() / 2]).unwrap();
    scratch.burnish(&["train", "mixed.toml", "run.dir=again"]).fails_with(&[
        "wise_ft-",
        "is broken",
        "remove the folder",
    ]);
    std::fs::remove_dir_all(made).unwrap();
    scratch.burnish(&["train", "mixed.toml", "run.dir=again"]).succeeds();
    assert!(std::fs::read(&tensors).unwrap() == whole);
    // Tasks that are held out here must be held out in every stage.
    scratch
        .burnish(&["train", "mixed.toml", "run.dir=leak", "eval.seed=77"])
        .fails_with(&["weights.base_model.from", "held out"]);
}

#[test]
fn a_wrong_surgery_names_its_key_before_anything_is_made() {
    let scratch = scratch();
    for (change, parts) in [
        ("weights.method=wise", &["`weights.method`", "did you mean wise_ft?"][..]),
        ("weights.parameters={alfa=0.5}", &["weights.parameters", "did you mean `alpha`?"]),
        ("weights.parameters.alpha=often", &["weights.parameters.alpha", "must be a number from 0 to 1"]),
        ("weights.parameters.alpha={x=1}", &["weights.parameters.alpha", "must be a number, a text"]),
        ("weights.models=[]", &["weights", "wise_ft takes 1 model besides its base, and 0 are given"]),
        ("weights.models=[{path=\"a\", from=\"sft.toml\"}]", &["weights.models[0]", "and not both"]),
        ("weights.models=[{}]", &["weights.models[0]", "needs `path`"]),
        ("weights.models=[{form=\"sft.toml\"}]", &["weights.models[0].form", "did you mean `from`?"]),
        ("weights.dtype=int8", &["weights.dtype", "float32, bfloat16 and float16"]),
        ("policy.path=tiny", &["weights", "excludes `policy.path`"]),
        ("train.max_steps=7", &["train.max_steps", "leave it out"]),
        ("weights.models=[{from=\"missing.toml\"}]", &["missing.toml"]),
    ] {
        scratch.burnish(&["train", "mixed.toml", change]).fails_with(parts);
    }
    let mixed = String::from_utf8(scratch.read("mixed.toml")).unwrap();
    scratch.write("circle.toml", mixed.replace("more.toml", "circle.toml"));
    scratch.burnish(&["train", "circle.toml"]).fails_with(&[
        "weights.models[0].from",
        "in a circle",
        "circle.toml <- circle.toml",
    ]);
    assert!(!scratch.path("runs").exists() && !scratch.path("mixed").exists());
}

/// `stream.toml`: the models that `more.toml` passes at 4 and at 8 steps, merged one after the other into `sft.toml`.
fn stream() -> Scratch {
    let scratch = scratch();
    let mixed = String::from_utf8(scratch.read("mixed.toml")).unwrap();
    let (_, played) = mixed.split_once("[env]").unwrap();
    let (_, config) = TINY_SFT.split_once("[data.demonstrations.config]").unwrap();
    let (config, _) = config.split_once("[train]").unwrap();
    let config = config.replace("[data.demonstrations.config", "[weights.calibration.config");
    let at = |steps| {
        format!(
            "{{ from = {{ recipe = \"more.toml\", set = [\"train.max_steps={steps}\", \"optimizer.schedule=constant\"] }} }}"
        )
    };
    let stream = format!(
        "[run]\ndir = \"stream\"\n[weights]\nmethod = \"arm\"\nbase_model = {{ from = \"sft.toml\" }}\n\
         models = [{}, {}]\nparameters = {{ eta = 1.0 }}\ndtype = \"float32\"\n\
         [weights.calibration]\nenv = \"mapf-frozenlake\"\ntasks = 24\n[weights.calibration.config]{config}\
         [train]\nmethod = \"none\"\n[env]{played}",
        at(4),
        at(8)
    );
    scratch.write("stream.toml", stream);
    scratch
}

#[test]
fn a_stream_is_merged_step_by_step_by_what_its_models_read() {
    let scratch = stream();
    let train = |dir: &str, changes: &[&str]| {
        let dir = format!("run.dir={dir}");
        scratch.burnish(&[&["train", "stream.toml", &dir][..], changes].concat()).succeeds().stdout()
    };
    let said = train("ones", &["weights.parameters.eta=1", "weights.parameters.rank=0"]);
    assert!(said.contains("merging by arm (1 of 2)") && said.contains("merging by arm (2 of 2)"), "{said}");
    let stages = cached(&scratch, "more-");
    let of = |step: &str| {
        let dir = |stage: &PathBuf| stage.join("checkpoints").join(step);
        stages.iter().map(dir).find(|dir| dir.is_dir()).unwrap().display().to_string()
    };
    let (early, last) = (of("step_4"), of("step_8"));
    let base = cached(&scratch, "sft-")[0].join("checkpoints/step_8").display().to_string();
    let all = norm(&scratch, &base, &last);
    assert!(norm(&scratch, "ones/start", &last) < 1e-5 * all, "increments add up to the last checkpoint");

    // The early checkpoint is one that the later run passes.
    let whole =
        ["train.max_steps=8", "optimizer.schedule=constant", "checkpoint.every=4", "checkpoint.keep=9"];
    scratch.burnish(&[&["sft", "more.toml", "run.dir=whole"][..], &whole].concat()).succeeds();
    assert_eq!(norm(&scratch, "whole/checkpoints/step_4", &early), 0.0);
    assert_eq!(norm(&scratch, "whole/checkpoints/step_8", &last), 0.0);

    train("zeros", &["weights.parameters.eta=0"]);
    assert_eq!(norm(&scratch, "zeros/start", &base), 0.0);

    // Turned increments lead elsewhere, by no more than their lengths.
    train("far", &["weights.parameters.eta=3", "weights.parameters.rank=0"]);
    let said = train("turned", &["weights.parameters.eta=3"]);
    assert!(said.contains("(2 of 2)"), "{said}");
    let apart = norm(&scratch, "far/start", "turned/start");
    assert!(apart > 1e-4 * all && apart < 6.0 * all, "{apart} of {all}");

    // What came of the first model is used again; so is the whole.
    let count = cached(&scratch, "arm-").len();
    let others = "weights.parameters={eta=3.0, energy=1.0}";
    let one = [
        "weights.models=[{from={recipe=\"more.toml\", set=[\"train.max_steps=4\", \"optimizer.schedule=constant\"]}}]",
    ];
    train("first", &[&one[..], &[others]].concat());
    let said = train("both", &[others]);
    assert!(!said.contains("(1 of 2)") && said.contains("(2 of 2)"), "{said}");
    assert_eq!(cached(&scratch, "arm-").len(), count + 2);
    assert!(!train("again", &[others]).contains("merging"));

    // The same bytes, made anew; other texts, another result.
    let made = |dir: &str| scratch.read(&format!("{dir}/start/model.safetensors"));
    cached(&scratch, "arm-").iter().for_each(|dir| std::fs::remove_dir_all(dir).unwrap());
    train("anew", &[others, "run.threads=1"]);
    assert!(made("anew") == made("both"), "the same bytes");
    train("other", &[others, "weights.calibration.tasks=3"]);
    assert!(made("other") != made("both"), "other texts");

    // A model's own parameter comes before that of all.
    let own = one[0].replace("}}]", "}, parameters={eta=0.0}}]");
    train("own", &[&own]);
    assert_eq!(norm(&scratch, "own/start", &base), 0.0);
}

#[test]
fn a_wrong_stream_names_its_key_before_anything_is_made() {
    let scratch = stream();
    for (change, parts) in [
        ("weights.method=ties", &["weights.parameters.eta", "of ties"][..]),
        ("weights.calibration.env=chain", &["weights.calibration.env", "chains"]),
        ("weights.calibration.tasks=0", &["weights.calibration.tasks", "1 or more"]),
        ("weights.calibration.agents=0", &["weights.calibration.agents"]),
        ("weights.calibration.config.agents=0", &["weights.calibration.config.agents"]),
        ("weights.models=[]", &["weights.models", "at least one model"]),
        (
            "weights.models=[{from=\"sft.toml\", parameters={eta=\"much\"}}]",
            &["eta", "must be a finite number"],
        ),
    ] {
        scratch.burnish(&["train", "stream.toml", change]).fails_with(parts);
    }
    let other = ["weights.method=ties", "weights.parameters={weight=1.0}"];
    scratch
        .burnish(&[&["train", "stream.toml"], &other[..]].concat())
        .fails_with(&["weights.calibration", "ties does not ask what maps read"]);
    assert!(!scratch.path("runs").exists() && !scratch.path("stream").exists());
}
