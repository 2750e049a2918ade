//! Learning from rows without an environment: imitation, text, preferences, reward models.

use std::process::Stdio;

use crate::common::{Scratch, timeless_metrics, wait_until};
use serde_json::{Value, json};

/// All that a recipe has to say, in the order in which a person would.
const RECIPE: &str = r#"
run.dir = "run"
policy.path = "starter"
[train]
method = "sft"
num_train_epochs = 2
sequences_per_step = 8
[data]
path = "rows.jsonl"
held_out_share = 0.2
[optimizer]
learning_rate = 3e-3
[eval]
every = 5
"#;

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    let starter = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/starter");
    scratch.write("sft.toml", RECIPE.replace("\"starter\"", &format!("{starter:?}")));
    scratch
        .write("rows.jsonl", lines((0..100).map(|at| json!({"prompt": ask(at), "completion": answer(at)}))));
    scratch
}

fn lines(rows: impl Iterator<Item = Value>) -> String {
    rows.map(|row| row.to_string() + "\n").collect()
}

fn ask(at: usize) -> String {
    format!("say {} and {}", at % 7, at % 5)
}

fn answer(at: usize) -> String {
    format!("{} {}", at % 7, at % 5)
}

fn pairs() -> String {
    let pair =
        |at: usize| json!({"prompt": ask(at), "chosen": answer(at), "rejected": format!("no {}", at % 3)});
    lines((0..96).map(pair))
}

fn labelled() -> String {
    let row = |at: usize| {
        let is_right = !at.is_multiple_of(3);
        let completion = if is_right { answer(at) } else { "no".to_owned() };
        json!({"prompt": ask(at), "completion": completion, "label": is_right})
    };
    lines((0..96).map(row))
}

/// The numbers of a name in the metrics of a run, by step.
fn metric(scratch: &Scratch, run: &str, event: &str, name: &str) -> Vec<(u64, f64)> {
    let text = String::from_utf8(scratch.read(&format!("{run}/metrics.jsonl"))).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let rows = rows.filter(|row| row["event"] == event);
    rows.filter_map(|row| Some((row["step"].as_u64()?, row[name].as_f64()?))).collect()
}

fn checkpoint(scratch: &Scratch, run: &str, step: u64) -> Vec<u8> {
    scratch.read(&format!("{run}/checkpoints/step_{step}/model.safetensors"))
}

#[test]
fn a_recipe_of_ten_lines_imitates_rows_and_keeps_the_best_of_the_held_out_loss() {
    let scratch = scratch();
    // Some rows are there several times, so fewer than 80 are trained on.
    let said = scratch.burnish(&["train", "sft.toml", "checkpoint.best=loss"]).succeeds().stdout();
    assert!(said.contains("held out for evaluation") && said.contains("on 20 held-out rows"), "{said}");
    assert!(said.contains("equal rows that are held out"), "{said}");
    assert!(
        said.contains("models/starter, 1.2 million parameters, all trained")
            && said.contains("run       run; its report.html"),
        "{said}"
    );
    let result =
        |when: &str| said.lines().find(|line| line.starts_with(when)).map(|line| line[when.len()..].trim());
    let (before, after) = (result("held-out rows before:"), result("held-out rows after:"));
    assert!(before.is_some_and(|line| line.starts_with("loss ")) && before != after, "{said}");
    // The change is that between the two lines, and training that far leaves no doubt about its sign.
    let number = |line: &str| line["loss ".len()..].split(' ').next().unwrap().parse::<f64>().unwrap();
    let change = result("change:").unwrap();
    assert!((number(change) - (number(after.unwrap()) - number(before.unwrap()))).abs() < 2e-4, "{said}");
    assert!(change.contains(", -") && change.ends_with("paired bootstrap over 20 rows)"), "{said}");
    assert!(!said.contains("drawn episodes"), "{said}");
    let losses = metric(&scratch, "run", "eval", "eval/loss");
    let steps = losses.last().unwrap().0;
    let trained = metric(&scratch, "run", "train", "loss");
    assert_eq!(trained.len() as u64, steps);
    assert!(losses.len() >= 3 && losses.last().unwrap().1 < 0.5 * losses[0].1, "{losses:?}");
    let recipe = String::from_utf8(scratch.read("run/recipe.toml")).unwrap();
    assert!(
        recipe.contains(&format!("max_steps = {steps}")) && recipe.contains("num_train_epochs"),
        "{recipe}"
    );
    assert!(!recipe.contains("[env]"), "{recipe}");

    let (best, _) = losses.iter().copied().min_by(|one, other| one.1.total_cmp(&other.1)).unwrap();
    assert!(scratch.path(&format!("run/best/step_{best}/config.json")).is_file());
    assert_eq!(std::fs::read_dir(scratch.path("run/best")).unwrap().count(), 1);
    // A stage gives what was best.
    scratch.burnish(&["eval", "run"]).fails_with(&["env.id", "held-out rows"]);
}

#[test]
fn the_loss_on_held_out_rows_does_not_depend_on_how_many_are_measured_together() {
    let scratch = scratch();
    let loss = |sequences: usize| {
        let (dir, together) =
            (format!("run.dir=by{sequences}"), format!("train.sequences_per_step={sequences}"));
        scratch.burnish(&["train", "sft.toml", "train.num_train_epochs=0.01", &dir, &together]).succeeds();
        metric(&scratch, &format!("by{sequences}"), "eval", "eval/loss")[0].1
    };
    let (one, seven) = (loss(1), loss(7));
    assert!((one - seven).abs() < 1e-5 && one > 0.0, "{one} {seven}");
    // Rows that are held out have the loss that they have where they are trained on, before the first update.
    let text = String::from_utf8(scratch.read("rows.jsonl")).unwrap();
    let (few, rest): (Vec<_>, Vec<_>) = text.lines().enumerate().partition(|(at, _)| *at < 10);
    for (name, rows) in [("few.jsonl", few), ("rest.jsonl", rest)] {
        scratch.write(name, rows.into_iter().map(|(_, row)| format!("{row}\n")).collect::<String>());
    }
    let run = |dir: &str, more: &[&str]| {
        let dir = format!("run.dir={dir}");
        let short = ["train", "sft.toml", "train.num_train_epochs=0.01", "data.held_out_share=0.0", &dir];
        scratch.burnish(&[&short[..], more].concat()).succeeds();
    };
    run("apart", &["data.path=rest.jsonl", "data.held_out=few.jsonl", "train.sequences_per_step=3"]);
    run("within", &["data.path=few.jsonl", "train.sequences_per_step=10"]);
    let (apart, within) = (
        metric(&scratch, "apart", "eval", "eval/loss")[0].1,
        metric(&scratch, "within", "train", "loss")[0].1,
    );
    assert!((apart - within).abs() < 1e-5, "{apart} {within}");
}

#[test]
fn a_run_over_rows_that_is_killed_goes_on_to_the_same_bits() {
    let scratch = scratch();
    let arguments = ["train", "sft.toml", "checkpoint.every=3", "checkpoint.best=loss", "train.patience=90"];
    scratch.burnish(&[&arguments[..], &["run.dir=whole"]].concat()).succeeds();
    let steps = metric(&scratch, "whole", "train", "loss").len() as u64;
    let mut child = scratch
        .command(&[&arguments[..], &["run.dir=killed"]].concat())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let rows = || {
        let text = std::fs::read_to_string(scratch.path("killed/metrics.jsonl"));
        text.map_or(0, |text| text.lines().count())
    };
    wait_until("some steps are made", || rows() > 7);
    child.kill().unwrap();
    child.wait().unwrap();
    scratch.burnish(&["train", "--resume", "killed"]).succeeds();
    assert!(checkpoint(&scratch, "whole", steps) == checkpoint(&scratch, "killed", steps));
    let logged = |run: &str| timeless_metrics(&scratch.path(&format!("{run}/metrics.jsonl")));
    assert_eq!(logged("whole"), logged("killed"));
}

#[test]
fn a_run_ends_when_no_evaluation_is_better_any_more() {
    let scratch = scratch();
    let still = ["optimizer.learning_rate=1e-30", "checkpoint.best=loss", "train.patience=2", "eval.every=2"];
    let said = scratch.burnish(&[&["train", "sft.toml"], &still[..]].concat()).succeeds().stdout();
    assert!(
        said.contains("ended after step 4 by `train.patience`") && said.contains("since step 0"),
        "{said}"
    );
    assert_eq!(metric(&scratch, "run", "train", "loss").len(), 4);
    let report = String::from_utf8(scratch.read("run/report.html")).unwrap();
    for text in ["Ended after step 4 of", "held-out rows: loss", "imitation (SFT) from"] {
        assert!(report.contains(text), "{text}: {report}");
    }
    // It stays ended.
    scratch.burnish(&["train", "--resume", "run"]).succeeds();
    assert_eq!(metric(&scratch, "run", "train", "loss").len(), 4);
}

#[test]
fn packed_rows_are_learned_as_well_as_single_ones() {
    let scratch = scratch();
    let fixed =
        ["data.held_out_share=0.0", "train.num_train_epochs=1", "data.max_length=64", "data.shuffle=false"];
    let fixed = [&fixed[..], &["train.sequences_per_step=1", "eval.every=0"]].concat();
    let said = scratch
        .burnish(&[&["train", "sft.toml", "data.packing=true", "run.dir=packed"], &fixed[..]].concat())
        .succeeds()
        .stdout();
    assert!(said.contains("100 samples are packed into"), "{said}");
    scratch.burnish(&[&["train", "sft.toml", "run.dir=single"], &fixed[..]].concat()).succeeds();
    let tokens = |run: &str| metric(&scratch, run, "train", "num_tokens").last().unwrap().1;
    assert_eq!(tokens("packed"), tokens("single"), "one pass over the same tokens");
    let steps = |run: &str| metric(&scratch, run, "train", "loss").len();
    assert_eq!(steps("single"), 100);
    assert!(2 * steps("packed") <= steps("single"), "{}", steps("packed"));
}

#[test]
fn plain_text_is_learned_to_its_end() {
    let scratch = scratch();
    scratch.write("text.jsonl", lines((0..40).map(|at| json!({"text": format!("count {} up", at % 4)}))));
    let text = ["data.path=text.jsonl", "data.held_out_share=0.0", "train.num_train_epochs=8"];
    scratch.burnish(&[&["train", "sft.toml"], &text[..]].concat()).succeeds();
    let losses = metric(&scratch, "run", "train", "loss");
    assert!(losses.last().unwrap().1 < 0.5 * losses[0].1, "{losses:?}");
}

#[test]
fn pairs_and_labels_are_learned_and_told_apart_on_rows_that_were_held_out() {
    let scratch = scratch();
    scratch.write("pairs.jsonl", pairs());
    scratch.write("labelled.jsonl", labelled());
    for (objective, data) in
        [("dpo", "pairs"), ("ipo", "pairs"), ("orpo", "pairs"), ("simpo", "pairs"), ("kto", "labelled")]
    {
        let own = [
            format!("run.dir={objective}"),
            format!("data.path={data}.jsonl"),
            format!("loss.objective={objective}"),
            "train.method=preference".into(),
            "optimizer.learning_rate=3e-4".into(),
        ];
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        scratch.burnish(&[&["train", "sft.toml"], &own[..]].concat()).succeeds();
        let losses = metric(&scratch, objective, "eval", "eval/loss");
        assert!(losses.last().unwrap().1 < losses[0].1, "{objective}: {losses:?}");
    }
    let mismatched = ["run.dir=mismatched", "loss.config={baseline=\"mismatched\"}"];
    let kto = ["data.path=labelled.jsonl", "loss.objective=kto", "train.method=preference"];
    let rate = ["optimizer.learning_rate=3e-4"];
    scratch.burnish(&[&["train", "sft.toml"], &kto[..], &rate, &mismatched].concat()).succeeds();
    let [own, other] = ["kto", "mismatched"].map(|run| metric(&scratch, run, "train", "kl"));
    assert_eq!((own[0].1, other[0].1), (0.0, 0.0), "nothing is learned yet");
    assert!(other.iter().any(|(_, kl)| *kl > 0.0) && other.iter().all(|(_, kl)| *kl >= 0.0), "{other:?}");
    assert!(own != other, "{own:?}");
    let right = metric(&scratch, "dpo", "eval", "eval/rewards/accuracies");
    assert!(right.last().unwrap().1 > 0.9, "{right:?}");
}

#[test]
fn a_reward_model_learns_pairs_or_labels_and_is_saved_as_transformers_saves_one() {
    let scratch = scratch();
    scratch.write("pairs.jsonl", pairs());
    scratch.write("labelled.jsonl", labelled());
    for (run, data, objective) in [("rm", "pairs", "bradley_terry"), ("orm", "labelled", "outcome")] {
        let own = [
            format!("run.dir={run}"),
            format!("data.path={data}.jsonl"),
            format!("loss.objective={objective}"),
            "train.method=reward".into(),
        ];
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        scratch.burnish(&[&["train", "sft.toml"], &own[..]].concat()).succeeds();
        let losses = metric(&scratch, run, "eval", "eval/loss");
        assert!((losses[0].1 - 2f64.ln()).abs() < 1e-6, "a head of zeros: {losses:?}");
        let right = metric(&scratch, run, "eval", "eval/accuracy");
        assert!(right.last().unwrap().1 > 0.9, "{run}: {right:?}");
        let steps = losses.last().unwrap().0;
        let config = scratch.read(&format!("{run}/checkpoints/step_{steps}/config.json"));
        let config: Value = serde_json::from_slice(&config).unwrap();
        assert_eq!(config["architectures"][0], "Qwen3ForSequenceClassification");
        // It goes on as what it is.
        scratch.burnish(&["train", "--resume", run, &format!("train.max_steps={}", steps + 2)]).succeeds();
    }
    scratch.burnish(&["generate", "rm", "hello"]).fails_with(&["model of values"]);
}

#[test]
fn what_cannot_be_meant_is_refused_with_its_key() {
    let scratch = scratch();
    scratch.write("labelled.jsonl", labelled());
    for (changes, parts) in [
        (&["train.method=grpo"][..], &["num_train_epochs", "train.max_steps"][..]),
        (&["train.max_steps=3"], &["train.num_train_epochs", "excludes `train.max_steps`"]),
        (&["train.num_train_epochs=0"], &["train.num_train_epochs", "above 0"]),
        (&["data.held_out=rows.jsonl"], &["data.held_out_share", "excludes"]),
        (&["data.held_out_share=1.0"], &["data.held_out_share", "below 1"]),
        (&["data.packing=true"], &["data.packing", "data.max_length"]),
        (&["data.max_length=1"], &["data.max_length", "2 or more"]),
        (&["train.patience=2"], &["train.patience", "checkpoint.best"]),
        (&["checkpoint.best=los"], &["checkpoint.best", "`los`", "there are:", "loss"]),
        (&["checkpoint.best=loss", "data.held_out_share=0.0"], &["checkpoint.best", "data.held_out"]),
        (&["eval.tasks=5"], &["eval.tasks", "env.id"]),
        (&["train.method=reward"], &["rows.jsonl", "line 1", "has no preference"]),
        (&["train.method=reward", "data.path=labelled.jsonl"], &["labelled.jsonl, line", "outcome"]),
        (&["train.method=reward", "env.id=countdown"], &["env", "has no use"]),
        (
            &[
                "train.method=preference",
                "loss={objective=\"kto\", config={baseline=\"mismatched\"}}",
                "data.path=labelled.jsonl",
                "train.sequences_per_step=1",
            ],
            &["train.sequences_per_step", "2 or more"],
        ),
        (&["data.max_length=3"], &["nothing can be learned", "data.max_length", "truncate"]),
    ] {
        let all = [&["train", "sft.toml"], changes].concat();
        scratch.burnish(&all).fails_with(parts);
        assert!(
            !scratch.path("run").exists() || changes[0].starts_with("checkpoint.best=los"),
            "{changes:?}"
        );
        let _ = std::fs::remove_dir_all(scratch.path("run"));
    }
}
