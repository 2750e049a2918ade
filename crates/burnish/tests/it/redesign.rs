//! Configurations of environments that a function makes between rounds: each round is a stage, the chain goes on wherever it was
//! stopped, and an engineer that changes nothing is training in a fixed environment.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use burnish_recipe::Source;
use serde_json::{Value, json};

use crate::common::{self, Scratch, TINY_GRPO, timeless_metrics, wait_until};

/// Boards of two sizes, so that there are shares to move; two short steps a round.
const SIZES: &str = "2 = { share = 0.75, hole_ratio = 0.0, wait_ratio = 0.0 }\n\
                     3 = { share = 0.25, hole_ratio = 0.2, wait_ratio = 0.0 }\n";
/// Between the seeds of two rounds.
const STRIDE: u64 = 1 << 40;

const ROUNDS: &str = r#"
[rounds]
count = 2
use = { "policy.from" = "round", "env.config_from" = "round" }

[[rounds.stage]]
name = "round"
recipe = "round.toml"
use = { "policy.from" = "round", "env.config_from" = "round" }
"#;

/// `round.toml` makes a configuration by the engineer `identity`, and `loop.toml` is the round after two of these.
fn scratch_with(policy: Scratch, start: &str) -> Scratch {
    let one_size = "2 = { share = 1.0, hole_ratio = 0.0, wait_ratio = 0.0 }\n";
    let steps = TINY_GRPO.replace(one_size, SIZES).replace("max_steps = 6", "max_steps = 2");
    let (of_policy, given) = ("path = \"tiny/checkpoints/step_120\"\n", format!("path = \"{start}\"\n"));
    let make = "\n[make]\nkind = \"config\"\nprogram = \"redesign\"\nconfig.engineer = \"identity\"\n";
    policy.write("round.toml", steps.replace(of_policy, &given) + make);
    let last =
        steps.replace("[policy]\n", "").replace(of_policy, "").replace("seed = 5", "seed = 2199023255557");
    policy.write("loop.toml", last + ROUNDS);
    policy
}

fn scratch() -> Scratch {
    scratch_with(Scratch::with_policy(), "tiny/checkpoints/step_120")
}

/// The override that gives the rounds of `loop.toml` these.
fn rounds_with(changes: &[&str]) -> String {
    format!("rounds.stage.0.set={}", json!(changes))
}

fn engineer(name: &str) -> String {
    rounds_with(&[&format!("make.config.engineer={name}")])
}

fn weights(scratch: &Scratch, dir: &str) -> Vec<u8> {
    scratch.read(&format!("{dir}/checkpoints/step_2/model.safetensors"))
}

fn json_of(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The configuration that a run was given.
fn given(scratch: &Scratch, dir: &str) -> Value {
    json_of(&scratch.path(dir).join("start_config.json"))
}

/// Run directories of rounds in a cache.
fn rounds(scratch: &Scratch, cache: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(scratch.path(cache)) else { return Vec::new() };
    let is_own = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("round-");
    entries.map(|entry| entry.unwrap().path()).filter(is_own).collect()
}

fn share(config: &Value, size: &str) -> f64 {
    config["sizes"][size]["share"].as_f64().unwrap()
}

#[test]
fn an_engineer_that_changes_nothing_is_training_in_a_fixed_environment_to_the_bit() {
    let scratch = scratch();
    scratch.burnish(&["train", "loop.toml", "run.dir=loop"]).succeeds();

    // The same by hand: each run starts from the one before, on other boards of the same kind, and nobody makes anything.
    let plain = String::from_utf8(scratch.read("round.toml")).unwrap();
    scratch.write("plain.toml", plain.split("\n[make]").next().unwrap());
    scratch.burnish(&["train", "plain.toml", "run.dir=one"]).succeeds();
    for (seed, from, dir) in [(5 + STRIDE, "one", "two"), (5 + 2 * STRIDE, "two", "three")] {
        let path = format!("policy.path={from}/checkpoints/step_2");
        let seed = format!("run.seed={seed}");
        scratch.burnish(&["train", "plain.toml", &path, &seed, &format!("run.dir={dir}")]).succeeds();
    }
    assert!(weights(&scratch, "loop") == weights(&scratch, "three"));
    assert!(weights(&scratch, "one") != weights(&scratch, "three"), "the rounds have learnt");
    let metrics = |dir: &Path| timeless_metrics(&dir.join("metrics.jsonl"));
    assert_eq!(metrics(&scratch.path("loop")), metrics(&scratch.path("three")));
    let made = rounds(&scratch, "runs/cache");
    assert_eq!(made.len(), 2);
    for hand in ["one", "two"] {
        assert!(made.iter().any(|dir| metrics(dir) == metrics(&scratch.path(hand))), "{hand}");
    }

    let given = given(&scratch, "loop");
    assert_eq!(given["history"].as_array().unwrap().len(), 2);
    assert_eq!(given["history"][0]["values"], given["history"][1]["values"]);
    assert_eq!(given["attempts"][0]["changes"], json!([]));
    let plain = Source::read(&scratch.path("one/recipe.toml"), &[]).unwrap();
    assert_eq!(plain.get("env.config"), Some(&given["config"]));
}

#[test]
fn all_arms_play_equally_many_boards_and_are_evaluated_on_the_same_ones_and_rounds_are_shared() {
    let scratch = scratch();
    let mut all = Vec::new();
    for name in ["identity", "random", "monotone", "failure_guided"] {
        let dir = format!("run.dir={name}");
        let said = scratch.burnish(&["train", "loop.toml", &engineer(name), &dir]).succeeds().stdout();
        assert!(said.contains("round 1 of 2, round") && said.contains("round 2 of 2, round"), "{said}");
        all.push(given(&scratch, name));
    }
    let history = |of: &Value| of["history"].as_array().unwrap().clone();
    let played = all.iter().flat_map(history).map(|round| round["played"].as_u64().unwrap());
    assert_eq!(played.collect::<Vec<_>>(), [8; 8], "two steps of four boards");
    // The tasks that are held out, by what they are evaluated on before training.
    let held_out = |dir: &str| -> Vec<String> {
        let shown = scratch.burnish(&["rollout", "--from", dir, "--step", "0", "--eval", "--json"]);
        let tasks = shown.succeeds().stdout();
        let id = |line: &str| serde_json::from_str::<Value>(line).unwrap()["task"].to_string();
        tasks.lines().map(id).collect()
    };
    let first = held_out("identity");
    assert_eq!(first.len(), 8);
    for dir in ["random", "monotone", "failure_guided"] {
        assert_eq!(held_out(dir), first, "{dir}");
    }
    for dir in rounds(&scratch, "runs/cache") {
        assert_eq!(held_out(dir.to_str().unwrap()), first, "{}", dir.display());
    }

    let monotone = &all[2];
    let shares = history(monotone).into_iter().map(|round| round["values"]["sizes.3.share"].clone());
    assert_eq!(shares.collect::<Vec<_>>(), [0.25, 0.625]);
    assert!(share(&monotone["config"], "3") > 0.8, "{monotone}");
    let reasons = history(monotone).into_iter().map(|round| round["reason"].clone());
    assert_eq!(reasons.collect::<Vec<_>>(), ["", "Everything becomes harder."]);
    for of in &all {
        let told = of["told"].as_str().unwrap();
        assert!(told.contains("Round 2 in the environment mapf-frozenlake"), "{told}");
        assert!(told.contains("size=2") && told.contains("round 1 with") && !told.contains("Grid"), "{told}");
    }

    // The run has that environment, evaluates on the first one, and shows the rounds.
    let recipe = Source::read(&scratch.path("monotone/recipe.toml"), &[]).unwrap();
    assert_eq!(recipe.get("env.config"), Some(&monotone["config"]));
    assert_eq!(share(recipe.get("eval.config").unwrap(), "3"), 0.25);
    let report = String::from_utf8(scratch.read("monotone/report.html")).unwrap();
    for part in
        ["<h2>Rounds</h2>", "sizes.3.share", "Everything becomes harder.", "Round 2 in the environment"]
    {
        assert!(report.contains(part), "{part}");
    }
    scratch.burnish(&["eval", "monotone"]).succeeds();
    scratch.burnish(&["report", "monotone"]).succeeds();

    // Nothing is made twice, and a further round is made after those that are there.
    let before = rounds(&scratch, "runs/cache").len();
    assert_eq!(before, 8, "two of each engineer");
    let again = ["train", "loop.toml", &engineer("monotone"), "run.dir=again"];
    let said = scratch.burnish(&again).succeeds().stdout();
    assert!(!said.contains("begins"), "{said}");
    assert!(weights(&scratch, "again") == weights(&scratch, "monotone"));
    scratch
        .burnish(&["train", "loop.toml", &engineer("monotone"), "run.dir=more", "rounds.count=3"])
        .succeeds();
    assert_eq!(rounds(&scratch, "runs/cache").len(), before + 1);

    // The run goes on without the cache, from its own copies.
    std::fs::remove_dir_all(scratch.path("runs/cache")).unwrap();
    std::fs::remove_dir_all(scratch.path("again/checkpoints/step_2")).unwrap();
    scratch.burnish(&["train", "--resume", "again"]).succeeds();
    assert!(weights(&scratch, "again") == weights(&scratch, "monotone"));
    // Its recipe begins with the first round, and not with the configuration that it had.
    let said = scratch.burnish(&["train", "again/recipe.toml", "run.dir=from-run"]).succeeds().stdout();
    assert!(said.contains("round 1 of 2"), "{said}");
    assert!(weights(&scratch, "from-run") == weights(&scratch, "monotone"));
}

#[cfg(unix)]
#[test]
fn a_chain_that_is_killed_goes_on_at_the_same_point_with_the_same_bits() {
    let scratch = scratch();
    let longer = ["train.max_steps=30", "checkpoint.every=3"];
    let rounds_of = rounds_with(&[&["make.config.engineer=failure_guided"][..], &longer].concat());
    let spawn = |dir: &str, cache: &str| -> Child {
        let places = [format!("run.dir={dir}"), format!("run.cache={cache}")];
        let mut arguments = vec!["train", "loop.toml", &rounds_of];
        arguments.extend(longer);
        arguments.extend(places.iter().map(String::as_str));
        scratch.command(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let steps = |dir: &Path| {
        let text = std::fs::read_to_string(dir.join("metrics.jsonl")).unwrap_or_default();
        text.lines().filter(|line| line.contains("\"train\"")).count()
    };
    let begun = |count: usize| {
        let made = rounds(&scratch, "cache");
        made.len() == count && made.iter().all(|dir| steps(dir) >= 5)
    };
    // Killed in the first round, interrupted in the second, killed in the last.
    let mut child = spawn("killed", "cache");
    wait_until("the first round has begun", || begun(1));
    child.kill().unwrap();
    child.wait().unwrap();
    let child = spawn("killed", "cache");
    wait_until("the second round has begun", || begun(2));
    common::interrupt(&child);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    assert!(!scratch.path("killed/recipe.toml").exists(), "the last round has not begun");
    let mut child = spawn("killed", "cache");
    wait_until("the last round has begun", || steps(&scratch.path("killed")) >= 5);
    child.kill().unwrap();
    child.wait().unwrap();
    scratch.burnish(&["train", "--resume", "killed"]).succeeds();

    assert!(spawn("whole", "other").wait().unwrap().success());
    let policy = |dir: &str| scratch.read(&format!("{dir}/checkpoints/step_30/model.safetensors"));
    assert!(policy("killed") == policy("whole"));
    let metrics = |dir: &str| timeless_metrics(&scratch.path(dir).join("metrics.jsonl"));
    assert_eq!(metrics("killed"), metrics("whole"));
    assert_eq!(given(&scratch, "killed"), given(&scratch, "whole"));
}

/// The address of a server that answers every question with `answer`, and how often it was asked.
fn serve(answer: &str) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let (count, message) = (Arc::clone(&asked), json!({ "role": "assistant", "content": answer }));
    let choices = json!([{ "index": 0, "message": message, "finish_reason": "stop" }]);
    let body =
        json!({ "id": "x", "object": "chat.completion", "model": "m", "choices": choices }).to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            let (mut line, mut length) = (String::new(), 0);
            while reader.read_line(&mut line).unwrap() > 2 {
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            reader.read_exact(&mut vec![0; length]).unwrap();
            count.fetch_add(1, Ordering::SeqCst);
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close";
            let told = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            reader.get_mut().write_all(told.as_bytes()).unwrap();
        }
    });
    (url, asked)
}

#[test]
fn a_teacher_is_asked_once_for_each_round_and_never_again() {
    let scratch = scratch();
    let (url, asked) =
        serve("{\"reason\": \"small boards\", \"config\": {\"sizes.3.share\": 0, \"sizes.9.share\": 1}}");
    let teacher = format!("make.teacher={{url=\"{url}\", model=\"m\", retries=0}}");
    let by = rounds_with(&["make.config={engineer=\"model\", without=[\"summary\"]}", &teacher]);
    scratch.burnish(&["train", "loop.toml", &by, "run.dir=one"]).succeeds();
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    let given = given(&scratch, "one");
    assert_eq!((share(&given["config"], "3"), given["reason"].as_str()), (0.0, Some("small boards")));
    assert_eq!(given["attempts"][0]["rejected"][0]["key"], "sizes.9.share");
    scratch.burnish(&["train", "loop.toml", &by, "run.dir=two"]).succeeds();
    assert_eq!(asked.load(Ordering::SeqCst), 2, "a second run asks nobody");

    // A round that was killed before its configuration was written down.
    let made = rounds(&scratch, "runs/cache");
    let [one, other] = &made[..] else { panic!("two rounds") };
    for dir in [one, other] {
        let text = std::fs::read(dir.join("config.json")).unwrap();
        let lineage = json_of(&dir.join("made.json"));
        assert_eq!((&lineage["kind"], &lineage["program"]["id"]), (&json!("config"), &json!("redesign")));
        scratch.burnish(&["train", "--resume", dir.to_str().unwrap()]).succeeds();
        assert_eq!(asked.load(Ordering::SeqCst), 2, "the model is not asked again");
        assert_eq!(std::fs::read(dir.join("config.json")).unwrap(), text);
    }
}

#[test]
fn a_policy_redesigns_its_own_environment_with_values_of_the_menus() {
    let demonstrations = "data.demonstrations=[{env=\"chains\", tasks=300, config={steps={min=2,max=2}}}]";
    // Long enough for the question.
    let longer = "policy.new.max_position_embeddings=4096";
    let shorter = ["train.max_steps=40", "checkpoint.every=0", "eval.tasks=0"];
    let policy = Scratch::with_taught(&[&[common::CHAINS, demonstrations, longer][..], &shorter].concat());
    let scratch = scratch_with(policy, "tiny/checkpoints/step_40");
    let countdown = "env={id=\"countdown\", tasks=40, config={numbers={min=2,max=3}, operations={min=1,max=2}, \
                     prompt=\"short\"}}";
    let made = |config: &str, dir: &str| {
        let by = format!("make.config={{{config}}}");
        scratch.burnish(&["train", "round.toml", countdown, &by, &format!("run.dir={dir}")]).succeeds();
        json_of(&scratch.path(dir).join("config.json"))
    };
    let brief =
        "without=[\"summary\", \"breakdown\", \"history\", \"training\", \"guideline\"], tokens_max=1500";
    let by_policy = made(&format!("engineer=\"model\", {brief}"), "one");
    let said = by_policy["attempts"][0]["said"].as_str().unwrap();
    let read: Value = serde_json::from_str(said).unwrap_or_else(|_| panic!("{by_policy}"));
    for (key, menu) in [("numbers.min", &[2, 3, 4, 5, 6][..]), ("target.max", &[20, 50, 100, 200, 500])] {
        let value = read["config"][key].as_i64().unwrap();
        assert!(menu.contains(&value), "{key}: {value} in {said}");
    }
    assert_eq!(by_policy["attempts"][0]["rejected"], json!([]));
    // It can't read more than its context holds.
    let nothing = made("engineer=\"model\"", "two");
    let problem = nothing["attempts"][0]["problem"].as_str().unwrap();
    assert!(problem.contains("the prompt has"), "{problem}");
    assert_eq!(nothing["config"]["numbers"]["max"], 3);

    let random = made("engineer=\"random\"", "three");
    let last = random["attempts"].as_array().unwrap().last().unwrap();
    assert!(last.get("problem").is_none(), "{last}");
    let told = random["told"].as_str().unwrap();
    assert!(told.contains("operations=1") && told.contains("numbers.max"), "{told}");
}

#[test]
fn a_recipe_with_rounds_is_a_stage_like_any_other() {
    let scratch = scratch();
    let after = |dir: &str, more: &[&str]| {
        let dir = format!("run.dir={dir}");
        scratch.burnish(&[&["train", "round.toml", "policy={from=\"loop.toml\"}", &dir][..], more].concat())
    };
    let said = after("one", &[]).succeeds().stdout();
    assert!(said.contains("round 1 of 2") && said.contains("loop.toml"), "{said}");
    let said = after("two", &[]).succeeds().stdout();
    assert!(!said.contains("round 1 of 2"), "it is there: {said}");
    assert!(weights(&scratch, "one") == weights(&scratch, "two"));
    // Whatever its rounds train on, they leave out what they hold out themselves, and no more.
    after("three", &["eval.seed=77"]).fails_with(&[
        "policy.from",
        "loop.toml",
        "plays in a configuration that another recipe makes",
        "eval.seed",
    ]);
    // A configuration is of use without rounds too.
    let from =
        ["env.config_from={recipe=\"round.toml\", set=[\"make.config.engineer=monotone\"]}", "run.dir=four"];
    scratch.burnish(&[&["train", "round.toml"][..], &from].concat()).succeeds();
    assert_eq!(share(&given(&scratch, "four")["config"], "3"), 0.625);
    let recipe = Source::read(&scratch.path("four/recipe.toml"), &[]).unwrap();
    assert_eq!(share(recipe.get("env.config").unwrap(), "3"), 0.625);
    scratch
        .burnish(&["train", "round.toml", "env.config_from=plain.toml", "run.dir=no"])
        .fails_with(&["plain.toml"]);
    let other = "env.config_from={recipe=\"round.toml\", set=[\"make={kind=\\\"tasks\\\"}\"]}";
    scratch
        .burnish(&["train", "round.toml", other, "run.dir=no"])
        .fails_with(&["its kind is \"tasks\"", "\"config\""]);
    let chains = "env={id=\"chains\", tasks=40, config={steps={min=2,max=2}}, config_from=\"round.toml\"}";
    scratch
        .burnish(&["train", "loop.toml", "policy.path=one", "rounds={}", chains, "run.dir=no"])
        .fails_with(&["rounds"]);
}

const STUDY: &str = r#"
[study]
id = "engineers"
title = "Engineers"
question = "Does it matter who redesigns?"
recipe = "loop.toml"
set = ["rounds.count=1", "run.cache=cache"]
dir = "runs"
results = "results"
seeds = [7]

[[arms]]
name = "nobody"
role = "baseline"

[[arms]]
name = "harder"
set = ["rounds.stage.0.set=[\"make.config.engineer=monotone\"]"]
"#;

#[test]
fn a_study_compares_engineers_and_knows_its_runs_again() {
    let scratch = scratch();
    scratch.write("study.toml", STUDY);
    scratch.burnish(&["study", "study.toml", "--draft"]).succeeds();
    assert_eq!(rounds(&scratch, "cache").len(), 2, "each arm has a round");
    let config = |arm: &str| given(&scratch, &format!("runs/{arm}/seed-7"));
    assert_eq!(share(&config("nobody")["config"], "3"), 0.25);
    assert_eq!(share(&config("harder")["config"], "3"), 0.625);
    assert_eq!(config("harder")["history"].as_array().unwrap().len(), 1);
    // Finished runs are those of the study, although their recipes have other configurations.
    let said = scratch.burnish(&["study", "study.toml", "--draft", "--report-only"]).succeeds().stdout();
    assert!(!said.contains("another recipe"), "{said}");
}

#[test]
fn what_can_not_be_redesigned_is_refused_before_anything_is_made() {
    let scratch = scratch();
    for (config, parts) in [
        (
            "engineer=\"random\", keys=[\"sizes.9.share\"]",
            &["make.config.keys", "sizes.9.share", "sizes.3.share"][..],
        ),
        ("engineer=\"nobody\"", &["make.config", "identity"]),
        ("engineer=\"random\", key=[\"a\"]", &["make.config.key", "keys"]),
    ] {
        let by = format!("make.config={{{config}}}");
        scratch.burnish(&["train", "loop.toml", &rounds_with(&[&by]), "run.dir=no"]).fails_with(parts);
    }
    let chains = "env={id=\"chains\", tasks=40, config={steps={min=2,max=2}}}";
    let with = |config: &str| {
        let by = format!("make.config={{{config}}}");
        scratch.burnish(&["train", "round.toml", chains, &by, "run.dir=no"])
    };
    with("engineer=\"random\"").fails_with(&["make.config.keys", "does not say which", "steps.max"]);
    with("engineer=\"monotone\", keys=[\"steps.max\"]").fails_with(&["make.config.engineer", "harder"]);
    for (change, parts) in [
        ("eval.tasks=0", &["eval.tasks", "above 0"][..]),
        ("train={method=\"none\", max_steps=2}", &["train.method", "\"grpo\""]),
        ("make.kind=tasks", &["make.kind", "\"config\""]),
        ("redesign.engineer=random", &["redesign", "`[rounds]` now"]),
    ] {
        scratch.burnish(&["train", "round.toml", change, "run.dir=no"]).fails_with(parts);
    }
    assert!(!scratch.path("runs/cache").exists() && !scratch.path("no").exists());
}
