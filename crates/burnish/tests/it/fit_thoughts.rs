//! `burnish fit-thoughts`: from an evaluation to thoughts that end where reflection does not pay.

use crate::common::{Finished, Scratch, new_policy};
use serde_json::{Value, json};

/// A puzzle of one operation on two numbers.
const CONFIG: &str = "numbers = { min = 2, max = 2 }\nvalues = { min = 1, max = 9 }\ntarget = { min = 1, max = 81 }\n\
                      operations = { min = 1, max = 1 }\noperators = [\"+\", \"*\"]\nprompt = \"short\"\n\
                      thoughts = { tries = { wrong = 1, doubted = 0.0 } }\n";

/// A recipe whose policy has learned to try an answer, and another one where it is wrong.
fn recipe() -> String {
    format!(
        "[run]\ndir = \"tries\"\nseed = 2\nthreads = 2\n{}[env]\nid = \"countdown\"\n[env.config]\n{CONFIG}\
         [[data.demonstrations]]\nenv = \"countdown\"\ntasks = 60\n[data.demonstrations.config]\n{CONFIG}\
         [train]\nmethod = \"sft\"\nmax_steps = 150\nsequences_per_step = 16\n[rollout]\ntokens_max = 128\n\
         [optimizer]\nlearning_rate = 8e-3\nwarmup_updates = 10\nschedule = \"linear\"\n\
         [eval]\ntasks = 24\nrollouts = 2\ntemperature = 1.0\nevery = 0\n[checkpoint]\nevery = 150\n",
        new_policy(320, 2)
    )
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The items of an evaluation.
fn items(scratch: &Scratch, dir: &str) -> Vec<Value> {
    let text = String::from_utf8(scratch.read(&format!("{dir}/items.jsonl"))).unwrap();
    text.lines().map(json_of).collect()
}

fn thoughts(control: &str) -> String {
    format!("eval.thoughts={{controls=[{{first_try={control}}}]}}")
}

#[test]
fn what_an_evaluation_says_about_reflection_controls_the_thoughts_of_the_next() {
    let scratch = Scratch::new();
    scratch.write("sft.toml", recipe());
    scratch.burnish(&["sft", "sft.toml"]).succeeds();
    let eval = |out: &str, more: &[&str]| {
        scratch.burnish(&[&["eval", "sft.toml", "--policy", "tries", "--out", out][..], more].concat())
    };
    eval("free", &[]).succeeds();
    let free = items(&scratch, "free");

    // A tiny policy may never correct itself. What counts here is what is made of verdicts, so half of them say that it did.
    let mut doctored = free.clone();
    for (at, item) in doctored.iter_mut().enumerate() {
        for sample in item["samples"].as_array_mut().unwrap() {
            let flags = sample["verdict"]["flags"].as_object().unwrap();
            assert!(flags.contains_key("first_try") && flags.contains_key("reflected"), "{flags:?}");
            sample["outcome"] = json!("success");
            sample["verdict"]["flags"]["first_try"] = json!(at % 2 == 0);
            sample["verdict"]["flags"]["reflected"] = json!(true);
        }
    }
    let text: String = doctored.iter().map(|item| format!("{item}\n")).collect();
    scratch.write("doctored.jsonl", &text);
    let fit = ["fit-thoughts", "doctored.jsonl", "model.json", "--l2", "1e-4"];
    let said = scratch.burnish(&fit).succeeds().stdout();
    let counted = format!("items    {} ({} answers, 0 left out)", free.len(), 2 * free.len());
    for part in [&*counted, "held out log loss", "model.json"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let again = ["fit-thoughts", "doctored.jsonl", "again.json", "--l2", "1e-4", "--json"];
    let found = json_of(&scratch.burnish(&again).succeeds().stdout());
    assert_eq!(found["paid"].as_u64().unwrap() * 2, found["answers"].as_u64().unwrap());
    assert_eq!(scratch.read("again.json"), scratch.read("model.json"));

    let all = ["fit-thoughts", "doctored.jsonl", "none.json", "--without", "free"];
    scratch.burnish(&all).fails_with(&["doctored.jsonl", "number of questions, 0"]);
    assert!(!scratch.path("none.json").exists());

    // Every question ends as that of one of the two plain controls does, and both kinds occur.
    let is_after = "after=[\"answer is\"]";
    eval("once", &[&thoughts(&format!("{{{is_after}}}"))]).succeeds();
    let controlled = thoughts(&format!("{{{is_after}, controller={{path=\"model.json\"}}}}"));
    eval("asked", &[&controlled]).succeeds();
    let (once, asked) = (items(&scratch, "once"), items(&scratch, "asked"));
    let mut kinds = [0, 0];
    for (at, item) in asked.iter().enumerate() {
        let answers = |items: &[Value]| -> Vec<Value> {
            items[at]["samples"].as_array().unwrap().iter().map(|sample| sample["answers"].clone()).collect()
        };
        let (own, free, once) = (answers(&asked), answers(&free), answers(&once));
        assert!(own == free || own == once, "{item}");
        if free != once {
            kinds[usize::from(own == free)] += 1;
            // On the questions that it was fitted on, a model with weak regularisation knows what it was told.
            assert_eq!(own == free, at % 2 == 1, "{item}");
        }
    }
    assert!(kinds.iter().all(|count| *count > 0), "{kinds:?}");

    // A run finds its model from any folder, and takes no other one for it.
    let run = ["sft", "sft.toml", "run.dir=by", "train.max_steps=1", "checkpoint.every=1", &controlled];
    scratch.burnish(&run).succeeds();
    let elsewhere = || {
        let arguments = ["eval", "../by", "--json"];
        let output = scratch.command(&arguments).current_dir(scratch.path("free")).output().unwrap();
        Finished::of(&arguments, output)
    };
    elsewhere().succeeds();

    // Records are of one model: another one in the same file is another evaluation.
    scratch.burnish(&["fit-thoughts", "doctored.jsonl", "model.json", "--l2", "1.0"]).succeeds();
    eval("asked", &[&controlled]).fails_with(&["other settings", "first_try.controller"]);
    elsewhere().fails_with(&["first_try.controller.path", "is not what it was when the run began"]);

    // What can't be used is refused before anything is played.
    scratch.burnish(&["fit-thoughts", "asked", "new.json"]).fails_with(&["eval.json", "evaluate without it"]);
    scratch
        .burnish(&["fit-thoughts", "tries", "new.json"])
        .fails_with(&["holds no items.jsonl", "burnish eval"]);
    let broken =
        String::from_utf8(scratch.read("model.json")).unwrap().replace("\"intercept\"", "\"intercepted\"");
    scratch.write("model.json", broken);
    eval("other", &[&controlled]).fails_with(&[
        "eval.thoughts.controls[0].first_try.controller.path",
        "model.json",
        "intercept: is missing",
    ]);
    assert!(!scratch.path("other").exists());
}
