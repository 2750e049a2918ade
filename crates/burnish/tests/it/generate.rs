//! `burnish generate`: prompts from everywhere, answers as text and as rows, by every kind of policy.

use std::io::Write;
use std::process::Stdio;

use crate::common::{Finished, Scratch};
use crate::test_server::{events, piece, question, said, serve, serve_text};
use serde_json::{Value, json};

const STARTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/starter");

fn generate(scratch: &Scratch, arguments: &[&str]) -> Finished {
    scratch.burnish(&[&["generate", STARTER], arguments].concat())
}

fn rows(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The content of a row's answer.
fn content(row: &Value) -> &str {
    row["completion"][0]["content"].as_str().unwrap()
}

fn with_stdin(scratch: &Scratch, arguments: &[&str], stdin: &str) -> Finished {
    let mut command = scratch.command(arguments);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    Finished::of(arguments, child.wait_with_output().unwrap())
}

#[test]
fn one_prompt_is_answered_as_text_or_as_a_row() {
    let scratch = Scratch::new();
    let short = ["left or right", "--max-tokens", "20"];
    let text = generate(&scratch, &short).succeeds().stdout();
    assert!(text.ends_with('\n') && text.len() > 1, "{text:?}");
    let row = rows(&generate(&scratch, &[&short[..], &["--json"]].concat()).succeeds().stdout()).remove(0);
    assert_eq!(content(&row).trim_end_matches('\n'), text.trim_end_matches('\n'));
    assert_eq!(row["prompt"], json!([{"role": "user", "content": "left or right"}]));
    let tokens = row["tokens"].as_u64().unwrap();
    assert!((1..=20).contains(&tokens) && row["prompt_tokens"].as_u64().unwrap() > 3, "{row}");
    let (sum, mean) = (row["logprob_sum"].as_f64().unwrap(), row["logprob_mean"].as_f64().unwrap());
    assert!(sum < 0.0 && (sum / tokens as f64 - mean).abs() < 1e-9, "{row}");
    assert!(["stop", "length"].contains(&row["finish_reason"].as_str().unwrap()));
    // The prompt on standard input, without the end of its last line.
    let arguments = ["generate", STARTER, "--max-tokens", "20"];
    assert_eq!(with_stdin(&scratch, &arguments, "left or right\n").succeeds().stdout(), text);
    with_stdin(&scratch, &arguments, "").fails_with(&["standard input is empty", "--file"]);
    // A system message and the beginning of the answer.
    let more = ["--system", "Be brief.", "--prefix", "I say: ", "--json"];
    let row = rows(&generate(&scratch, &[&short[..], &more].concat()).succeeds().stdout()).remove(0);
    assert_eq!(row["prompt"][0], json!({"role": "system", "content": "Be brief."}));
    assert!(content(&row).starts_with("I say: "), "{row}");
    let text = generate(&scratch, &[&short[..], &more[..4]].concat()).succeeds().stdout();
    assert_eq!(text.trim_end_matches('\n'), content(&row).trim_end_matches('\n'));
}

#[test]
fn the_same_seed_gives_the_same_bytes_in_any_batch() {
    let scratch = Scratch::new();
    scratch.write("prompts.txt", "one\ntwo and more\n\nthree\nfour\n");
    let run = |more: &[&str]| {
        let arguments =
            [&["--file", "prompts.txt", "--max-tokens", "12", "--samples", "3", "--json"], more].concat();
        generate(&scratch, &arguments).succeeds().stdout()
    };
    let first = run(&["--seed", "7"]);
    let all = rows(&first);
    let places: Vec<(u64, u64)> =
        all.iter().map(|row| (row["index"].as_u64().unwrap(), row["sample"].as_u64().unwrap())).collect();
    assert_eq!(
        places,
        (0..4).flat_map(|index| (0..3).map(move |sample| (index, sample))).collect::<Vec<_>>()
    );
    assert!(all.iter().any(|row| content(row) != content(&all[0])));
    for batch in ["1", "2", "64"] {
        assert_eq!(run(&["--seed", "7", "--batch", batch, "--threads", "1"]), first, "--batch {batch}");
    }
    assert_ne!(run(&["--seed", "8"]), first);
    // As text, each answer stands under its prompt.
    let text = generate(&scratch, &["--file", "prompts.txt", "--max-tokens", "4"]).succeeds().stdout();
    assert!(text.contains("=== prompts.txt, line 4\n"), "{text}");
}

#[test]
fn rows_are_answered_into_a_file_that_other_commands_read() {
    let scratch = Scratch::new();
    let long = "word ".repeat(3000);
    scratch.write(
        "prompts.jsonl",
        [
            json!({"id": "a", "prompt": "How much is 1 + 1?", "answer": "2", "level": 1}).to_string(),
            json!({"id": "b", "prompt": long, "answer": "2", "level": 2}).to_string(),
            json!({"id": "c", "prompt": [{"role": "user", "content": "hi"}], "answer": "3", "level": 3})
                .to_string(),
        ]
        .join("\n"),
    );
    let arguments = ["--file", "prompts.jsonl", "--max-tokens", "8", "--out", "answers.jsonl"];
    // One prompt does not fit; the others are answered.
    generate(&scratch, &arguments)
        .fails_with(&["prompts.jsonl, line 2: the prompt has", "1 of 3 answers failed"]);
    let written = String::from_utf8(scratch.read("answers.jsonl")).unwrap();
    let all = rows(&written);
    assert_eq!(all.iter().map(|row| row["id"].as_str().unwrap()).collect::<Vec<_>>(), ["a", "c"]);
    assert_eq!((&all[1]["answer"], &all[1]["extra"]), (&json!("3"), &json!({"level": 3})));
    generate(&scratch, &arguments).fails_with(&["answers.jsonl", "--overwrite"]);
    let again = generate(&scratch, &[&arguments[..], &["--overwrite"]].concat());
    again.fails_with(&["1 of 3"]);
    assert_eq!(scratch.read("answers.jsonl"), written.as_bytes());
    let shown = scratch.burnish(&["data", "show", "answers.jsonl"]).succeeds().stdout();
    assert!(shown.contains("completion assistant") && shown.contains("2 rows"), "{shown}");
    scratch.burnish(&["verify", "number", "--data", "answers.jsonl"]).succeeds();
    // Where nothing is answered nothing is written.
    scratch.write("long.txt", &long);
    generate(&scratch, &["--file", "long.txt", "--out", "none.jsonl"])
        .fails_with(&["long.txt, line 1: the prompt has"]);
    assert!(!scratch.path("none.jsonl").exists());
    let left = std::fs::read_dir(scratch.path("."))
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    assert!(left.into_iter().all(|name| !name.starts_with('.')));
}

#[test]
fn tokens_are_chosen_as_the_options_say() {
    let scratch = Scratch::new();
    let row = |more: &[&str]| {
        let arguments = [&["left or right", "--max-tokens", "24", "--json"], more].concat();
        rows(&generate(&scratch, &arguments).succeeds().stdout()).remove(0)
    };
    let plain = row(&["--ignore-eos"]);
    assert_eq!((plain["tokens"].as_u64(), plain["finish_reason"].as_str()), (Some(24), Some("length")));
    // A text that the answer has ends it before.
    let said = content(&plain).to_owned();
    let stop = said.chars().skip(6).take(3).collect::<String>();
    let at = said.find(&stop).unwrap();
    let stopped = row(&["--ignore-eos", "--stop", &stop]);
    assert_eq!((content(&stopped), &stopped["finish_reason"]), (&said[..at], &json!("stop")));
    let stopped = row(&["--ignore-eos", "--stop", "never said", "--stop", &stop, "--include-stop"]);
    assert_eq!(content(&stopped), &said[..at + stop.len()]);
    // Greedy is the same whatever the seed.
    assert_eq!(content(&row(&["--temperature", "0"])), content(&row(&["--temperature", "0", "--seed", "4"])));
    let held = row(&["--regex", "(yes|no)"]);
    assert!(["yes", "no"].contains(&content(&held)), "{held}");
    scratch.write("schema.json", json!({"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": false}).to_string());
    let held = row(&["--json-schema", "schema.json", "--temperature", "0.1"]);
    assert!(content(&held).starts_with('{'), "{held}");
    let detailed = row(&["--logprobs", "2"]);
    let tokens = detailed["tokens"].as_u64().unwrap() as usize;
    assert_eq!(detailed["token_ids"].as_array().unwrap().len(), tokens);
    assert_eq!(detailed["token_details"][0]["top"].as_array().unwrap().len(), 2);
}

#[test]
fn text_is_continued_without_a_template() {
    let scratch = Scratch::new();
    let row =
        rows(&generate(&scratch, &["--raw", "agent", "--max-tokens", "6", "--json"]).succeeds().stdout())
            .remove(0);
    assert_eq!(row["prompt"], "agent");
    assert!(row["completion"].is_string() && row["prompt_tokens"].as_u64().unwrap() < 6, "{row}");
    // A model without a template can be asked in this way, and in no other.
    std::fs::create_dir(scratch.path("bare")).unwrap();
    for name in [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "generation_config.json",
    ] {
        std::fs::copy(std::path::Path::new(STARTER).join(name), scratch.path("bare").join(name)).unwrap();
    }
    let text =
        scratch.burnish(&["generate", "bare", "--raw", "agent", "--max-tokens", "6"]).succeeds().stdout();
    assert_eq!(text.trim_end_matches('\n'), row["completion"].as_str().unwrap().trim_end_matches('\n'));
    scratch.burnish(&["generate", "bare", "agent"]).fails_with(&["template"]);
    scratch.write("text.jsonl", "{\"text\": \"agent\"}\n");
    let rows = rows(
        &generate(&scratch, &["--raw", "--file", "text.jsonl", "--max-tokens", "6", "--json"])
            .succeeds()
            .stdout(),
    );
    assert_eq!(rows[0]["completion"], row["completion"]);
    generate(&scratch, &["--file", "text.jsonl"]).fails_with(&["text.jsonl, line 1", "--raw"]);
}

#[test]
fn runs_and_adapters_are_asked() {
    let scratch = Scratch::with_policy();
    let adapter =
        ["train", "grpo.toml", "policy.lora={rank=2, alpha=4}", "train.max_steps=1", "run.dir=adapter"];
    scratch.burnish(&adapter).succeeds();
    let ask = |policy: &str, more: &[&str]| {
        scratch
            .burnish(&[&["generate", policy, "hi", "--max-tokens", "8", "--temperature", "0"], more].concat())
    };
    let newest = ask("tiny", &[]).succeeds().stdout();
    assert_eq!(ask("tiny/checkpoints/step_120", &[]).succeeds().stdout(), newest);
    assert_eq!(ask("tiny", &["--step", "120"]).succeeds().stdout(), newest);
    ask("tiny", &["--step", "40"]).succeeds();
    ask("tiny", &["--step", "41"]).fails_with(&["--step 41", "40, 80, 120"]);
    ask("tiny/checkpoints/step_120", &["--step", "3"]).fails_with(&["--step 3", "no steps"]);
    let of_run = ask("adapter", &[]).succeeds().stdout();
    assert_eq!(ask("adapter/checkpoints/step_1", &[]).succeeds().stdout(), of_run);
}

#[test]
fn a_server_is_asked_with_and_without_streaming() {
    let scratch = Scratch::new();
    let (url, sent) = serve(|_, asked| said(&format!("re: {}", question(asked))));
    let ask =
        |url: &str, more: &[&str]| scratch.burnish(&[&["generate", url, "--model", "m"], more].concat());
    scratch.write("prompts.txt", "one\ntwo\n");
    let arguments = ["--file", "prompts.txt", "--json", "--temperature", "0.5", "--max-tokens", "9"];
    let all = rows(&ask(&url, &arguments).succeeds().stdout());
    assert_eq!(all.iter().map(content).collect::<Vec<_>>(), ["re: one", "re: two"]);
    assert!(all[0].get("tokens").is_none() && all[0].get("logprob_sum").is_none(), "{}", all[0]);
    // One prompt is asked for as a stream, whether the server streams or not.
    assert_eq!(ask(&url, &["one"]).succeeds().stdout(), "re: one\n");
    let sent = sent.lock().unwrap();
    assert_eq!(
        (&sent[0]["temperature"], &sent[0]["max_tokens"], sent[0].get("stream")),
        (&json!(0.5), &json!(9), None)
    );
    assert_eq!((&sent[2]["stream"], &sent[2]["max_tokens"]), (&json!(true), &json!(2048)));
    drop(sent);
    let thought = piece(json!({"reasoning_content": "hm"}), None);
    let (url, _sent) = serve_text(move |_, _| {
        let (text, end) = (piece(json!({"content": "yes\u{1b}[2J"}), None), piece(json!({}), Some("stop")));
        events(&[&thought, &text, &end, "[DONE]"])
    });
    assert_eq!(ask(&url, &["one"]).succeeds().stdout(), "<think>\nhm\n</think>\n\nyes\u{1b}[2J\n");
    let (url, _sent) = serve_text(|_, _| events(&[&piece(json!({"content": "half"}), None)]));
    let broken = ask(&url, &["one"]).fails_with(&["broke off"]);
    assert_eq!(broken.stdout(), "half\n");
    for (more, part) in [
        (&["--top-k", "3"][..], "--temperature, --max-tokens and --seed and nothing else"),
        (&["--raw"], "--raw"),
        (&["--step", "3"], "no steps"),
        (&["--device", "cpu"], "--device"),
        (&["--prefix", "a"], "--prefix"),
    ] {
        ask(&url, &[&["one"], more].concat()).fails_with(&[part]);
    }
    scratch.burnish(&["generate", &url, "one"]).fails_with(&["--model NAME"]);
}

#[test]
fn tools_are_shown_and_calls_are_read() {
    let scratch = Scratch::new();
    scratch.write(
        "tools.json",
        json!([{"name": "weather", "description": "d", "parameters": {"type": "object"}}]).to_string(),
    );
    let (url, sent) = serve(|_, _| {
        let function = json!({"name": "weather", "arguments": "{\"city\": \"Bern\"}"});
        let message =
            json!({"role": "assistant", "content": null, "tool_calls": [{"id": "c", "function": function}]});
        ("200 OK", json!({"choices": [{"message": message, "finish_reason": "tool_calls"}]}))
    });
    let ask = |more: &[&str]| {
        let arguments = [&["generate", &*url, "hi", "--model", "m", "--tools", "tools.json"], more].concat();
        scratch.burnish(&arguments).succeeds().stdout()
    };
    assert_eq!(ask(&[]), "→ weather(city=\"Bern\")\n");
    let row = rows(&ask(&["--json"])).remove(0);
    assert_eq!(row["finish_reason"], "tool_calls");
    assert_eq!(row["completion"][0]["tool_calls"][0]["function"]["arguments"], json!({"city": "Bern"}));
    assert_eq!(sent.lock().unwrap()[0]["tools"][0]["function"]["name"], "weather");
    scratch.write("wrong.json", "[{\"description\": \"d\"}]");
    generate(&scratch, &["hi", "--tools", "wrong.json"]).fails_with(&["wrong.json", "tool 1", "name"]);
}

#[test]
fn what_is_wrong_is_named() {
    let scratch = Scratch::new();
    scratch.write("bad.jsonl", "{\"prompt\": \"a\"}\n{\"prompt\": \n");
    scratch.write("system.jsonl", "{\"prompt\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", \"content\": \"u\"}]}\n");
    scratch.write("schema.json", "{");
    for (arguments, parts) in [
        (&["hi", "--temperature", "-1"][..], &["--temperature must be 0 or more"][..]),
        (&["hi", "--top-p", "0"], &["--top-p must be"]),
        (&["hi", "--max-tokens", "0"], &["--max-tokens must be 1 or more"]),
        (&["hi", "--max-tokens", "99999999"], &["--max-tokens must be 1048576 or less"]),
        (&["hi", "--min-tokens", "9", "--max-tokens", "3"], &["--min-tokens", "--max-tokens"]),
        (&["hi", "--samples", "2", "--temperature", "0"], &["--samples 2", "greedy"]),
        (&["hi", "--device", "abacus"], &["abacus"]),
        (&["hi", "--regex", "("], &["--regex"]),
        (&["hi", "--json-schema", "schema.json"], &["schema.json", "not JSON"]),
        (&["hi", "--model", "m"], &["--model is for a server"]),
        (&["hi", "--tools", "absent.json"], &["absent.json"]),
        (&["--file", "bad.jsonl"], &["bad.jsonl, line 2"]),
        (&["--file", "absent.jsonl"], &["absent.jsonl"]),
        (&["--file", "system.jsonl", "--system", "t"], &["system.jsonl, line 1", "--system"]),
        (&["hi", "--json", "--max-tokens", "4", "--raw", "--threads", "5000"], &["--threads 5000"]),
        (&["hi", "--out", "no/such/dir.jsonl", "--max-tokens", "2"], &["no/such/dir.jsonl"]),
    ] {
        generate(&scratch, arguments).fails_with(parts);
    }
    let absent =
        scratch.burnish(&["generate", "absent", "hi"]).fails_with(&["absent: there is no such directory"]);
    assert!(!absent.stderr().contains("--policy"), "{}", absent.stderr());
}
