//! `burnish eval NAME`: its records, their summary, and that an evaluation survives being killed.

use crate::common;
use std::path::Path;
use std::process::Stdio;

use crate::common::{Scratch, wait_until};
use serde_json::{Value, json};

const STARTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/starter");

/// Sums in the columns of GSM8K.
fn sums(count: usize) -> String {
    (0..count)
        .map(|n| {
            let (a, b) = (n % 7 + 2, n % 5 + 11);
            let row = json!({
                "question": format!("Anna has {a} pens and buys {b} more. How many has she?"),
                "answer": format!("{a} + {b} = {}\n#### {}", a + b, a + b),
            });
            format!("{row}\n")
        })
        .collect()
}

const ITEMS: usize = 24;

/// 24 items with 4 samples each, two items per chunk.
fn arguments(out: &str) -> Vec<&str> {
    let fixed = "eval gsm8k --data sums.jsonl --samples 4 --k 1,2,4 --temperature 0.9 --tokens-max 48 --batch 8 --seed 5";
    fixed.split(' ').chain(["--policy", STARTER, "--out", out]).collect()
}

fn lines(scratch: &Scratch, file: &str) -> Vec<Value> {
    let text = String::from_utf8(scratch.read(file)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn line_count(scratch: &Scratch, out: &str) -> usize {
    std::fs::read(scratch.path(&format!("{out}/items.jsonl")))
        .map_or(0, |bytes| bytes.iter().filter(|byte| **byte == b'\n').count())
}

#[track_caller]
fn assert_same(scratch: &Scratch, out: &str, whole: &str) {
    for file in ["items.jsonl", "summary.json", "eval.json"] {
        let of = |dir: &str| scratch.read(&format!("{dir}/{file}"));
        assert!(of(out) == of(whole), "{file} of {out} differs from that of {whole}");
    }
}

#[test]
fn an_evaluation_killed_at_any_point_and_started_again_equals_an_uninterrupted_one_bit_for_bit() {
    let scratch = Scratch::new();
    scratch.write("sums.jsonl", sums(ITEMS));
    scratch.burnish(&arguments("whole")).succeeds();
    assert_eq!(line_count(&scratch, "whole"), ITEMS);
    let mut midway = 0;
    for after in [0, 2, 8, 16] {
        let out = format!("killed_{after}");
        let mut command = scratch.command(&arguments(&out));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_until("it has come that far", || {
            scratch.path(&format!("{out}/eval.json")).exists() && line_count(&scratch, &out) >= after
                || child.try_wait().unwrap().is_some()
        });
        child.kill().unwrap();
        child.wait().unwrap();
        midway += usize::from((1..ITEMS).contains(&line_count(&scratch, &out)));
        // What a kill in the middle of a write would leave: an item of an incomplete chunk, and half a line.
        let path = scratch.path(&format!("{out}/items.jsonl"));
        let mut bytes = std::fs::read(&path).unwrap();
        let whole = scratch.read("whole/items.jsonl");
        let rest = &whole[bytes.len()..];
        let next = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |end| end + 1);
        bytes.extend_from_slice(&rest[..rest.len().min(next + 20)]);
        std::fs::write(&path, bytes).unwrap();
        let again = [&arguments(&out)[..], &["--threads", "1"]].concat();
        let said = scratch.burnish(&again).succeeds().stdout();
        if after == 16 {
            assert!(said.contains("of 24 items are there already"), "{said}");
        }
        assert_same(&scratch, &out, "whole");
    }
    assert!(midway > 0, "no evaluation was killed midway");
    // Once it is complete, nothing is played again; another k is only another view of the same records.
    let before = scratch.read("whole/items.jsonl");
    let mut again = arguments("whole");
    let k = again.iter().position(|argument| *argument == "1,2,4").unwrap();
    again[k] = "3";
    let said = scratch.burnish(&again).succeeds().stdout();
    assert!(said.contains("pass@3") && !said.contains("pass@4"), "{said}");
    assert!(before == scratch.read("whole/items.jsonl"));
}

#[cfg(unix)]
#[test]
fn an_interrupt_finishes_the_chunk_and_says_how_to_go_on() {
    let scratch = Scratch::new();
    scratch.write("sums.jsonl", sums(ITEMS));
    scratch.burnish(&arguments("whole")).succeeds();
    let mut command = scratch.command(&arguments("asked"));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("it has come that far", || line_count(&scratch, "asked") >= 2);
    common::interrupt(&child);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("of 24 items") && said.contains("burnish eval gsm8k --data sums.jsonl"), "{said}");
    let kept = line_count(&scratch, "asked");
    assert!(kept.is_multiple_of(2) && (2..ITEMS).contains(&kept), "{kept}");
    assert!(!scratch.path("asked/summary.json").exists());
    scratch.burnish(&arguments("asked")).succeeds();
    assert_same(&scratch, "asked", "whole");
}

#[test]
fn other_settings_in_the_same_directory_are_refused_by_name() {
    let scratch = Scratch::new();
    scratch.write("sums.jsonl", sums(4));
    scratch.burnish(&arguments("out")).succeeds();
    let other = |from: &str, to: &'static str| -> Vec<String> {
        arguments("out")
            .iter()
            .map(|argument| if *argument == from { to } else { argument }.to_owned())
            .collect()
    };
    for (from, to, parts) in [
        ("5", "6", vec!["`seed` was 5 and is 6"]),
        ("0.9", "0.5", vec!["`sampling.temperature`", "0.5"]),
        ("48", "47", vec!["`sampling.tokens_max` was 48 and is 47"]),
        ("8", "16", vec!["`batch` was 8 and is 16"]),
    ] {
        let changed = other(from, to);
        let changed: Vec<&str> = changed.iter().map(String::as_str).collect();
        scratch.burnish(&changed).fails_with(&parts);
    }
    let limited = [&arguments("out")[..], &["--limit", "2"]].concat();
    scratch.burnish(&limited).fails_with(&["`limit` was null and is 2", "another --out"]);
    // The same data elsewhere is the same data; other data in the same place is not.
    scratch.write("copy.jsonl", sums(4));
    let copy = other("sums.jsonl", "copy.jsonl");
    scratch.burnish(&copy.iter().map(String::as_str).collect::<Vec<_>>()).succeeds();
    scratch.write("sums.jsonl", sums(4).replace("pens", "hats"));
    scratch.burnish(&arguments("out")).fails_with(&["`data.0.digest` was"]);
    scratch.write("sums.jsonl", sums(4));

    let items = String::from_utf8(scratch.read("out/items.jsonl")).unwrap();
    scratch.write("out/items.jsonl", items.replacen("{\"id\"", "{\"name\"", 1));
    scratch.burnish(&arguments("out")).fails_with(&["items.jsonl, line 1", "is no record"]);
    scratch.write("out/items.jsonl", items.split_inclusive('\n').skip(1).collect::<String>());
    scratch.burnish(&arguments("out")).fails_with(&["line 1", "`gsm8k/1`", "`gsm8k/0` must be"]);
    std::fs::create_dir(scratch.path("thesis")).unwrap();
    scratch.write("thesis/thesis.tex", "x");
    scratch.burnish(&arguments("thesis")).fails_with(&["thesis.tex", "another --out"]);
    assert_eq!(std::fs::read_dir(scratch.path("thesis")).unwrap().count(), 1);
}

/// Greedy answers do not depend on the references, so items that get these answers as references are solved.
#[test]
fn records_say_what_was_answered_and_right_answers_count() {
    let scratch = Scratch::new();
    scratch.write("sums.jsonl", sums(12));
    let base = ["eval", "gsm8k", "--policy", STARTER, "--tokens-max", "8"];
    scratch.burnish(&[&base[..], &["--data", "sums.jsonl", "--out", "first"]].concat()).succeeds();
    let first = lines(&scratch, "first/items.jsonl");
    let rows: Vec<Value> = sums(12).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut met = 0;
    let mended: String = first
        .iter()
        .zip(rows)
        .enumerate()
        .map(|(index, (item, mut row))| {
            let sample = &item["samples"][0];
            // Every other reference becomes the answer that was given.
            if index % 2 == 0
                && sample["outcome"] == "different"
                && let Some(number) =
                    sample["answer"].as_str().and_then(|answer| answer.split(' ').next_back())
                && number.parse::<f64>().is_ok()
            {
                met += 1;
                row["answer"] = json!(number);
            }
            format!("{row}\n")
        })
        .collect();
    assert!(met >= 2, "the starter gives too few plain numbers: {first:?}");
    scratch.write("mended.jsonl", mended);
    let json = scratch
        .burnish(&[&base[..], &["--data", "mended.jsonl", "--out", "second", "--json"]].concat())
        .succeeds()
        .stdout();
    let report: Value = serde_json::from_str(&json).unwrap();
    let right_before = first.iter().filter(|item| item["samples"][0]["outcome"] == "correct").count();
    assert_eq!(report["outcomes"]["correct"], json!(met + right_before), "{report}");
    let mean = report["pass_at"]["1"]["mean"].as_f64().unwrap();
    assert!((mean - (met + right_before) as f64 / 12.0).abs() < 1e-12, "{report}");
    assert_eq!(report, serde_json::from_slice::<Value>(&scratch.read("second/summary.json")).unwrap());
    for (before, after) in first.iter().zip(lines(&scratch, "second/items.jsonl")) {
        assert_eq!(before["samples"][0]["text"], after["samples"][0]["text"]);
        assert_eq!(before["samples"][0]["tokens"], after["samples"][0]["tokens"]);
        assert!(after["prompt"][0]["content"].as_str().unwrap().contains("\\boxed{}"));
    }
}

#[test]
fn languages_are_played_from_a_folder_and_a_prompt_that_does_not_fit_counts_as_not_answered() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path("data/mgsm")).unwrap();
    scratch.write("data/mgsm/mgsm_de.tsv", "Wie viel ist 1+1?\t2\nUnd 2+2?\t4\n");
    scratch
        .write("data/mgsm/mgsm_en.tsv", format!("What is 1+1?\t2\n{}\t1,000\n", "And so on. ".repeat(400)));
    let run = |arguments: &[&str]| {
        let base = ["eval", "mgsm", "--policy", STARTER, "--tokens-max", "16"];
        let all = [&base[..], arguments].concat();
        let output = scratch.command(&all).env("BURNISH_DATA", scratch.path("data")).output().unwrap();
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr),
        )
    };
    let (fine, said) = run(&["--lang", "de,en", "--out", "out"]);
    assert!(fine && said.contains("language=de (2 items)") && said.contains("1 not begun"), "{said}");
    let items = lines(&scratch, "out/items.jsonl");
    let ids: Vec<&str> = items.iter().map(|item| item["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["mgsm/de/0", "mgsm/de/1", "mgsm/en/0", "mgsm/en/1"]);
    assert_eq!(items[3]["samples"][0]["outcome"], "prompt_too_long");
    assert_eq!(items[3]["samples"][0]["stop"], Value::Null);
    // Each answer is checked for the language of its item.
    assert!(
        said.contains("language=de (2 items): kept ") && said.contains("language=all (4 items): kept"),
        "{said}"
    );
    let language = |item: usize| &items[item]["samples"][0]["language"];
    assert_eq!(*language(3), json!({"found": "undecided", "share": 0.0, "is_kept": false}));
    let summary: Value = serde_json::from_slice(&scratch.read("out/summary.json")).unwrap();
    for (slice, of) in [("de", 0..2), ("en", 2..4), ("all", 0..4)] {
        let kept = of.clone().filter(|item| language(*item)["is_kept"] == true).count();
        let found = &summary["languages"][slice];
        assert_eq!(found["in_language"]["mean"], json!(kept as f64 / of.len() as f64), "{slice}: {found}");
        assert_eq!(
            found["correct"],
            summary["by_label"]["language"].get(slice).unwrap_or(&summary)["pass_at"]["1"]
        );
    }
    // Records from before the check say nothing about languages, so nothing is added to them.
    let settings: Value = serde_json::from_slice(&scratch.read("out/eval.json")).unwrap();
    assert_eq!(settings["language_share"], 0.8);
    let mut old = settings;
    old.as_object_mut().unwrap().remove("language_share");
    scratch.write("out/eval.json", old.to_string());
    let (fine, said) = run(&["--lang", "de,en", "--out", "out"]);
    assert!(
        !fine && said.contains("`language_share` was absent and is 0.8") && said.contains("another --out"),
        "{said}"
    );
    let (fine, said) = run(&[]);
    assert!(!fine && said.contains("mgsm_bn.tsv") && said.contains("CC-BY-4.0"), "{said}");
}

#[test]
fn a_name_counts_where_no_path_has_it_and_options_that_do_not_fit_are_refused() {
    let scratch = Scratch::new();
    scratch.write("sums.jsonl", sums(2));
    let list = scratch.burnish(&["eval", "--list"]).succeeds().stdout();
    assert!(
        ["gsm8k", "math500", "mgsm", "MIT", "CC-BY-4.0", "bn, de"].iter().all(|part| list.contains(part)),
        "{list}"
    );
    scratch.burnish(&["eval", "gsm9k"]).fails_with(&["did you mean `gsm8k`", "math500"]);
    scratch.burnish(&["eval", "gsm8k"]).fails_with(&["--policy"]);
    let refuse = |more: &[&str], parts: &[&str]| {
        let base = ["eval", "gsm8k", "--policy", STARTER, "--data", "sums.jsonl"];
        scratch.burnish(&[&base[..], more].concat()).fails_with(parts);
    };
    refuse(&["--samples", "4"], &["temperature above 0"]);
    refuse(&["--samples", "4", "--temperature", "0"], &["temperature above 0"]);
    refuse(&["--samples", "2", "--temperature", "1", "--k", "1,3"], &["--k 3", "1 to 2"]);
    refuse(&["--temperature=-1"], &["temperature", "0 or more"]);
    refuse(&["--lang", "de"], &["one language only"]);
    refuse(&["--step", "3"], &["--step 3", "model directory"]);
    refuse(&["--limit", "0"], &["--limit"]);
    scratch.burnish(&["eval", "gsm8k", "a=1", "--policy", STARTER]).fails_with(&["a=1", "no keys"]);
    scratch.burnish(&["eval", "gsm8k", "--policy", "nowhere", "--data", "sums.jsonl"]).fails_with(&[
        "--policy nowhere",
        "no such directory",
        "`hf download nowhere`",
    ]);
    scratch.write("r.toml", common::TINY_GRPO);
    scratch
        .burnish(&["eval", "r.toml", "--samples", "4"])
        .fails_with(&["--samples is for benchmarks", "eval.rollouts=N"]);
    std::fs::create_dir(scratch.path("gsm8k")).unwrap();
    scratch.burnish(&["eval", "gsm8k"]).fails_with(&["recipe.toml"]);
}

#[test]
fn the_models_own_sampling_is_taken_as_its_file_says_or_refused() {
    let scratch = Scratch::new();
    scratch.write("sums.jsonl", sums(2));
    std::fs::create_dir(scratch.path("model")).unwrap();
    for entry in std::fs::read_dir(Path::new(STARTER)).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, scratch.path("model").join(path.file_name().unwrap())).unwrap();
    }
    let base = "eval gsm8k --policy model --data sums.jsonl --sampling model --json";
    let run = |config: Value, more: &[&str]| {
        let mut config = config;
        config["eos_token_id"] = json!([2]);
        scratch.write("model/generation_config.json", config.to_string());
        scratch.burnish(&[&base.split(' ').collect::<Vec<_>>()[..], more].concat())
    };
    let said = |config: Value, more: &[&str]| {
        let report: Value = serde_json::from_str(&run(config, more).succeeds().stdout()).unwrap();
        report["sampling"].as_str().unwrap().to_owned()
    };
    let from = "(the model's generation_config.json)";
    let full = json!({"do_sample": true, "temperature": 0.5, "top_k": 20, "top_p": 0.75, "repetition_penalty": 1.25, "max_new_tokens": 9});
    let expected =
        format!("temperature 0.5, top_k 20, top_p 0.75, repetition_penalty 1.25, at most 9 tokens {from}");
    assert_eq!(said(full, &["--samples", "2"]), expected);
    // The value that transformers uses if the file gives none.
    assert_eq!(
        said(json!({"do_sample": true}), &["--tokens-max", "8"]),
        format!("temperature 1, top_k 50, at most 8 tokens {from}")
    );
    assert_eq!(
        said(json!({"temperature": 0.5}), &["--tokens-max", "8"]),
        format!("greedy, at most 8 tokens {from}")
    );
    run(json!({"num_beams": 4}), &[]).fails_with(&["num_beams"]);
    run(json!({"max_length": 100}), &[]).fails_with(&["max_length", "--tokens-max"]);
    run(json!({"do_sample": true, "temperature": 0.0}), &[]).fails_with(&["do_sample", "contradict"]);
    run(json!({}), &["--samples", "2"]).fails_with(&["asks for greedy sampling"]);
}

/// Rows in the columns of HumanEval, and of MBPP inside and outside the test set.
const FUNCTIONS: [&str; 2] = [
    r#"{"task_id": "HumanEval/0", "prompt": "def one():\n    \"\"\"1\"\"\"\n", "entry_point": "one", "canonical_solution": "    return 1\n", "test": "def check(f):\n    assert f() == 1\n"}"#,
    r#"{"task_id": 10, "text": "Not asked.", "code": "x = 1", "test_setup_code": "", "test_list": ["assert 1"]}
{"task_id": 11, "text": "Write one.", "code": "def one(): return 1", "test_setup_code": "", "test_list": ["assert one() == 1", "assert one() > 0"]}"#,
];

#[test]
fn programs_are_judged_by_running_them() {
    let scratch = Scratch::new();
    for (name, rows) in ["humaneval", "mbpp"].iter().zip(FUNCTIONS) {
        let file = format!("{name}.jsonl");
        scratch.write(&file, rows);
        let arguments = [
            "eval",
            name,
            "--data",
            &file,
            "--tokens-max",
            "16",
            "--policy",
            STARTER,
            "--out",
            name,
            "--json",
        ];
        let done = scratch.burnish(&arguments);
        if done.stderr().contains("can't be kept apart here") || done.stderr().contains("as the interpreter")
        {
            println!("skipped: {}", done.stderr());
            return;
        }
        done.succeeds();
        let items = lines(&scratch, &format!("{name}/items.jsonl"));
        assert_eq!(items.len(), 1);
        // The starter can't program; whatever it says was run.
        let sample = &items[0]["samples"][0];
        assert!(["raised", "failed", "no_answer"].contains(&sample["outcome"].as_str().unwrap()), "{sample}");
        let settings: Value = serde_json::from_slice(&scratch.read(&format!("{name}/eval.json"))).unwrap();
        assert!(settings["verifier"]["code"]["limits"]["wall_seconds"].as_f64().unwrap() > 0.0);
        let prompt = items[0]["prompt"][0]["content"].as_str().unwrap();
        match *name {
            "humaneval" => assert!(prompt.contains("```python\ndef one():\n"), "{prompt}"),
            _ => {
                assert!(prompt.contains("these tests:\n\nassert one() == 1\nassert one() > 0\n"), "{prompt}")
            }
        }
        assert_eq!(items[0]["id"], if *name == "mbpp" { "mbpp/1" } else { "humaneval/0" });
    }
}
