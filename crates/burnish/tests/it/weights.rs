//! `burnish weights` on checkpoints of a run: merged ones run, adapters that are extracted merge back.

use crate::common::Scratch;
use serde_json::Value;

const FIRST: &str = "tiny/checkpoints/step_40";
const LAST: &str = "tiny/checkpoints/step_120";

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn checkpoints_of_a_run_merge_and_the_result_runs() {
    let scratch = Scratch::with_policy();
    let yaml = format!(
        "merge_method: slerp\nbase_model: {FIRST}\nmodels:\n  - model: {LAST}\nparameters:\n  t:\n    - filter: mlp\n      \
         value: [0.2, 0.8]\n    - value: 0.5\ndtype: float32\n"
    );
    scratch.write("merge.yaml", &yaml);
    let said = scratch.burnish(&["weights", "merge", "merge.yaml", "merged"]).succeeds().stdout();
    assert!(said.contains("merged 2 checkpoints by slerp: merged") && said.contains(FIRST), "{said}");
    assert_eq!(scratch.read("merged/mergekit_config.yml"), yaml.as_bytes());
    scratch.burnish(&["eval", "grpo.toml", "policy.path=merged", "--json"]).succeeds();
    scratch.burnish(&["weights", "merge", "merge.yaml", "merged"]).fails_with(&["merged exists already"]);

    // The line through both ends, from the command line alone, in two files.
    let line = |alpha: &str, out: &str| {
        let alpha = format!("alpha={alpha}");
        let options = ["--method", "wise_ft", "--base", FIRST, "--model", LAST, "--set", &alpha];
        let more = ["--max-shard-size", "100000", "--json", out];
        let words: Vec<&str> = ["weights", "merge"].into_iter().chain(options).chain(more).collect();
        json(&scratch.burnish(&words).succeeds().stdout())
    };
    assert_eq!(line("1", "end")["computed"], 0);
    let same = json(&scratch.burnish(&["weights", "diff", LAST, "end", "--json"]).succeeds().stdout());
    assert_eq!(
        (&same["norm"], &same["only_from"], &same["only_to"]),
        (&0.0.into(), &json("[]"), &json("[]"))
    );
    line("0.25", "quarter");
    assert!(scratch.path("quarter/model.safetensors.index.json").exists());
    let norm = |from: &str, to: &str| {
        json(&scratch.burnish(&["weights", "diff", from, to, "--json"]).succeeds().stdout())["norm"]
            .as_f64()
            .unwrap()
    };
    let share = norm(FIRST, "quarter") / norm(FIRST, LAST);
    assert!((share - 0.25).abs() < 0.01, "{share}");
}

#[test]
fn an_extracted_adapter_is_one_that_burnish_reads_and_merges() {
    let scratch = Scratch::with_policy();
    let words = ["weights", "extract", FIRST, LAST, "adapter", "--rank", "64", "--json"];
    let found = json(&scratch.burnish(&words).succeeds().stdout());
    assert_eq!(found["maps"], 14);
    assert!(found["error"].as_f64().unwrap() < 1e-3, "{found}");
    let left_out = found["left_out"].as_array().unwrap();
    assert!(left_out.iter().any(|name| name == "model.embed_tokens.weight"), "{found}");
    scratch.burnish(&["merge", "adapter", "merged"]).succeeds();
    let diff = json(&scratch.burnish(&["weights", "diff", LAST, "merged", "--json"]).succeeds().stdout());
    for tensor in diff["tensors"].as_array().unwrap() {
        let is_adapted = tensor["name"].as_str().unwrap().contains("_proj");
        // Merging rounds once more, to bf16.
        let relative = tensor["relative"].as_f64().unwrap();
        assert_eq!(relative < 1e-3, is_adapted || relative == 0.0, "{tensor}");
    }
    let said = scratch.burnish(&["weights", "extract", FIRST, LAST, "small", "--rank", "2"]).succeeds();
    assert!(said.stdout().contains("rank 2 for 14 maps"), "{}", said.stdout());
}

#[test]
fn runs_adapters_and_stacks_are_taken_as_models() {
    let scratch = Scratch::with_policy();
    let diff = |from: &str, to: &str| {
        json(&scratch.burnish(&["weights", "diff", from, to, "--json"]).succeeds().stdout())
    };
    let said = scratch.burnish(&["weights", "diff", "tiny", LAST]).succeeds();
    assert!(said.stderr().contains("its newest checkpoint is taken, step 120"), "{}", said.stderr());
    assert_eq!(diff("tiny", LAST)["norm"], 0.0);
    let merge = ["weights", "merge", "--method", "wise_ft", "--base", FIRST, "--set", "alpha=1", "--model"];
    scratch.burnish(&[&merge[..], &["tiny", "whole"]].concat()).succeeds();
    assert_eq!(diff("whole", LAST)["norm"], 0.0);

    // An adapter, with its base named or not, is what `burnish merge` makes of it.
    scratch.burnish(&["weights", "extract", FIRST, "tiny", "adapter", "--rank", "8"]).succeeds();
    let said = scratch.burnish(&["weights", "inspect", "adapter"]).succeeds().stdout();
    assert!(said.contains("an adapter (LoRA) of rank 8, alpha 8 (scale 1), over"), "{said}");
    assert!(said.contains("burnish merge adapter OUT") && said.contains("q_proj.lora_A.weight"), "{said}");
    scratch.burnish(&["merge", "adapter", "merged"]).succeeds();
    for (at, name) in ["adapter".to_owned(), format!("{FIRST}+adapter")].iter().enumerate() {
        let out = format!("added{at}");
        let words = ["weights", "merge", "--method", "passthrough", "--model", name, &out];
        scratch.burnish(&words).succeeds();
        // Up to numbers that lie between two of bf16: sums are made in another order.
        assert!(diff("merged", &out)["norm"].as_f64().unwrap() < 1e-4, "{name}");
    }

    // A model of more layers runs, and its head and embedding are where they belong.
    let slices = [(FIRST, "0, 2"), ("tiny", "1, 2"), ("adapter", "0, 2")]
        .map(|(model, range)| format!("  - sources: [{{model: {model}, layer_range: [{range}]}}]\n"));
    scratch.write("stack.yaml", format!("merge_method: passthrough\nslices:\n{}", slices.concat()));
    scratch.burnish(&["weights", "merge", "stack.yaml", "stack"]).succeeds();
    assert_eq!(json(&String::from_utf8(scratch.read("stack/config.json")).unwrap())["num_hidden_layers"], 5);
    scratch.burnish(&["eval", "grpo.toml", "policy.path=stack", "--json"]).succeeds();
    scratch.write(
        "beyond.yaml",
        "merge_method: passthrough\nslices:\n  - sources: [{model: tiny, layer_range: [1, 3]}]\n",
    );
    let parts = ["beyond.yaml, line 3", "[1, 3]", "has 2 layers"];
    scratch.burnish(&["weights", "merge", "beyond.yaml", "out"]).fails_with(&parts);
    scratch.write("model.gguf", "GGUF....");
    scratch.burnish(&["weights", "inspect", "model.gguf"]).fails_with(&["is a GGUF file", "safetensors"]);
}

#[test]
fn what_is_listed_is_there() {
    let scratch = Scratch::with_policy();
    let said = scratch.burnish(&["weights", "inspect", LAST, "--check"]).succeeds().stdout();
    assert!(said.contains("model.layers.*.mlp.up_proj.weight [128, 64] BF16 × 2"), "{said}");
    assert!(said.contains("Qwen3ForCausalLM, head tied"), "{said}");
    let said = scratch.burnish(&["weights", "diff", FIRST, LAST, "--rank", "0.001"]).succeeds().stdout();
    assert!(said.contains("model.embed_tokens.weight") && said.contains("stable rank"), "{said}");
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/weights.md")).unwrap();
    for line in scratch.burnish(&["weights", "methods", "--json"]).succeeds().stdout().lines() {
        let card = json(line);
        assert!(card["equation"].is_string(), "{line}");
        let id = card["id"].as_str().unwrap();
        assert!(page.contains(&format!("`{id}`")), "docs/weights.md has no {id}");
    }
    let fails = |words: &[&str], parts: &[&str]| {
        scratch.burnish(words).fails_with(parts);
    };
    fails(&["weights", "inspect", "absent"], &["absent: there is no such directory"]);
    fails(&["weights", "merge", "only"], &["name a configuration and the output"]);
    let merge = ["weights", "merge", "--method", "slerp", "--model", LAST, "--base", FIRST];
    fails(&[&merge[..], &["--set", "t", "out"]].concat(), &["--set t: write `key=value`"]);
    fails(&[&merge[..], &["--set", "tt=1", "out"]].concat(), &["--set tt=1", "did you mean `t`?"]);
    fails(&[&merge[..], &["out"]].concat(), &["`t` is not set"]);
    fails(&["weights", "merge", "--method", "slrep", "--model", LAST, "out"], &["did you mean slerp?"]);
}
