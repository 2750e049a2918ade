//! Bad input ends in an error that names the file, the key or the field. Nothing is lost, and nothing half-written is
//! left.

use crate::common::{Scratch, TINY_GRPO};

/// Runs the tiny GRPO recipe with a change and expects an error with all `parts`, and no run directory.
#[track_caller]
fn refused(scratch: &Scratch, overrides: &[&str], parts: &[&str]) {
    let mut arguments = vec!["train", "grpo.toml", "run.dir=refused"];
    arguments.extend(overrides);
    scratch.burnish(&arguments).fails_with(parts);
    assert!(!scratch.path("refused").exists(), "{overrides:?} left a run directory behind");
}

#[test]
fn a_wrong_recipe_is_refused_by_key() {
    let scratch = Scratch::new();
    scratch.write("grpo.toml", TINY_GRPO);
    refused(&scratch, &["train.max_step=3"], &["train.max_step", "did you mean `max_steps`"]);
    refused(&scratch, &["train.max_steps=many"], &["train.max_steps=many"]);
    refused(&scratch, &["rollout.group_size=1"], &["rollout.group_size", "2 or more"]);
    refused(&scratch, &["env.id=frozenlake"], &["env.id", "mapf-frozenlake"]);
    refused(&scratch, &["env.config.agents=9"], &["env.config.agents"]);
    refused(&scratch, &["env.config.sizes.2.hole_ratio=7"], &["hole_ratio"]);
    refused(&scratch, &["gate={gate=\"dwd\"}"], &["gate.gate", "dgg"]);
    refused(&scratch, &["gate={}"], &["gate", "lacks the key `gate`"]);
    refused(&scratch, &["gate={gate=\"dgg\", config={taw=1}}"], &["gate.config.taw", "tau"]);
    refused(&scratch, &["gate={gate=\"dgg\"}", "gate.config.tau=inf"], &["gate.config.tau", "in quotes"]);
    refused(&scratch, &["gate={gate=\"dgg\", config={decay=2}}"], &["gate.config.decay", "1 or less"]);
    let lora = "policy.lora={rank=4, alpha=8}";
    refused(
        &scratch,
        &["metrics.weight_divergence=true", lora],
        &["metrics.weight_divergence", "policy.lora"],
    );
    let wrong = TINY_GRPO.replace("max_steps = 6", "max_steps = 6\nmax_step = 7");
    let line = 1 + wrong.lines().position(|line| line == "max_step = 7").unwrap();
    scratch.write("grpo.toml", &wrong);
    refused(&scratch, &[], &[&format!("grpo.toml:{line}"), "train.max_step"]);
    scratch.burnish(&["train", "absent.toml"]).fails_with(&["absent.toml"]);
    scratch.write("latin.toml", b"[run]\n# \xe9\n");
    scratch.burnish(&["train", "latin.toml"]).fails_with(&["latin.toml:2", "UTF-8"]);
}

#[test]
fn a_wrong_model_directory_is_refused_by_file_and_tensor() {
    let scratch = Scratch::with_policy();
    let policy = scratch.path("tiny/checkpoints/step_120");
    let copy = || {
        let dir = scratch.path("copy");
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir(&dir).unwrap();
        let entries = std::fs::read_dir(&policy).unwrap().map(Result::unwrap);
        for entry in entries.filter(|entry| entry.path().is_file()) {
            std::fs::copy(entry.path(), dir.join(entry.file_name())).unwrap();
        }
        dir
    };
    let path = "policy.path=copy";
    refused(&scratch, &["policy.path=nowhere"], &["nowhere"]);

    let dir = copy();
    std::fs::remove_file(dir.join("model.safetensors")).unwrap();
    refused(&scratch, &[path], &["model.safetensors"]);

    let dir = copy();
    let weights = std::fs::read(dir.join("model.safetensors")).unwrap();
    std::fs::write(dir.join("model.safetensors"), &weights[..weights.len() / 2]).unwrap();
    refused(&scratch, &[path], &["model.safetensors"]);
    std::fs::write(dir.join("model.safetensors"), b"nonsense").unwrap();
    refused(&scratch, &[path], &["model.safetensors"]);

    let dir = copy();
    let config = std::fs::read_to_string(dir.join("config.json")).unwrap();
    std::fs::write(
        dir.join("config.json"),
        config.replace("\"intermediate_size\": 128", "\"intermediate_size\": 96"),
    )
    .unwrap();
    refused(&scratch, &[path], &["mlp.", "96", "128"]);

    let dir = copy();
    let config = std::fs::read_to_string(dir.join("config.json")).unwrap();
    std::fs::write(dir.join("config.json"), config.replacen('{', "{\"use_sliding_window\": true,", 1))
        .unwrap();
    refused(&scratch, &[path], &["config.json", "use_sliding_window"]);

    let dir = copy();
    std::fs::remove_file(dir.join("tokenizer.json")).unwrap();
    refused(&scratch, &[path], &["tokenizer.json"]);
}

#[test]
fn a_run_directory_names_its_newest_checkpoint() {
    let scratch = Scratch::with_policy();
    let train = ["train", "grpo.toml", "policy.path=tiny", "run.dir=of_run", "train.max_steps=1"];
    scratch.burnish(&train).succeeds();
    let kept = String::from_utf8(scratch.read("of_run/recipe.toml")).unwrap();
    assert!(kept.contains("tiny/checkpoints/step_120"), "a later checkpoint changes nothing: {kept}");
    let success = |path: &str| {
        let arguments = ["eval", "grpo.toml", &format!("policy.path={path}"), "--json"];
        let told = scratch.burnish(&arguments).succeeds().stdout();
        serde_json::from_str::<serde_json::Value>(&told).unwrap()["success"]["mean"].clone()
    };
    assert_eq!(success("tiny"), success("tiny/checkpoints/step_120"));
    refused(&scratch, &["policy.path=nobody/nothing"], &["policy.path", "`hf download nobody/nothing`"]);
}

#[test]
fn weights_that_are_no_numbers_are_refused_by_name() {
    let scratch = Scratch::with_policy();
    let path = scratch.path("tiny/checkpoints/step_120/model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let names: serde_json::Value = serde_json::from_slice(&bytes[8..8 + header]).unwrap();
    let name = "model.layers.1.mlp.up_proj.weight";
    let from = 8 + header + names[name]["data_offsets"][0].as_u64().unwrap() as usize;
    // A NaN in bf16.
    bytes[from..from + 2].copy_from_slice(&0x7fc0_u16.to_le_bytes());
    std::fs::write(&path, bytes).unwrap();
    let all = [
        &["train", "grpo.toml"][..],
        &["train", "grpo.toml", "--dry-run"],
        &["generate", "tiny/checkpoints/step_120", "hi"],
    ];
    for command in all {
        scratch.burnish(command).fails_with(&[name, "NaN"]);
    }
}

#[test]
fn halves_of_characters_are_told_once() {
    let scratch = Scratch::new();
    let row = r#"{"prompt": "a\ud83d b\ude00", "answer": "x"}"#;
    scratch.write("rows.jsonl", format!("{row}\n{row}\n"));
    let shown = ["env", "show", "rows", "path=rows.jsonl", "verifier=exact"];
    let output = scratch.command(&shown).output().unwrap();
    let (said, noted) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success() && said.contains("a\u{fffd} b\u{fffd}"), "{said} {noted}");
    assert!(noted.matches("U+FFFD").count() == 1 && noted.contains("halves of characters"), "{noted}");
}

#[test]
fn a_prompt_that_does_not_fit_is_refused_or_dropped_as_the_recipe_says() {
    let scratch = Scratch::with_policy();
    let config = scratch.path("tiny/checkpoints/step_120/config.json");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(
        &config,
        text.replace("\"max_position_embeddings\": 256", "\"max_position_embeddings\": 12"),
    )
    .unwrap();
    scratch.burnish(&["train", "grpo.toml", "eval.tasks=0"]).fails_with(&[
        "mapf-frozenlake/",
        "tokens",
        "overlong",
    ]);
    let dropped = ["train", "grpo.toml", "run.dir=dropped", "rollout.overlong=drop"];
    let failed =
        scratch.burnish(&dropped).fails_with(&["steps 1 to 3", "tokens", "`train.unscored_steps_max`"]);
    let said = failed.stdout();
    let evaluated = "success 0.0 % [0.0, 0.0]; 8 of 8 episodes counted as a failure: the prompt does not fit";
    assert!(said.contains(evaluated), "{said}");
}

#[test]
fn wrong_data_is_refused_by_line() {
    let scratch = Scratch::with_policy();
    let run = |rows: &[u8], parts: &[&str]| {
        scratch.write("rows.jsonl", rows);
        let recipe =
            TINY_GRPO.replace("method = \"grpo\"", "method = \"sft\"") + "[data]\npath = \"rows.jsonl\"\n";
        scratch.write("rows.toml", recipe);
        scratch.burnish(&["sft", "rows.toml", "run.dir=rows"]).fails_with(parts);
        assert!(!scratch.path("rows").exists());
    };
    run(b"", &["rows.jsonl", "no rows"]);
    run(b"{\"prompt\": \"a\"}\n", &["rows.jsonl, line 1", "`messages`", "no answer to imitate"]);
    run(b"{\"messages\": 3}\n", &["rows.jsonl, line 1", "`messages`"]);
    run(b"\xff\n", &["rows.jsonl, line 1", "UTF-8"]);
    run(
        b"{\"question\": \"a\", \"problem\": \"b\"}\n",
        &["rows.jsonl, line 1", "several columns", "`question`"],
    );
    let columns = ["train", "grpo.toml", "data.columns.promt=q"];
    scratch.burnish(&columns).fails_with(&["data.columns", "promt", "did you mean `prompt`?"]);
}

#[test]
fn wrong_data_files_are_refused_by_the_commands_that_look_into_them() {
    let scratch = Scratch::new();
    scratch.write("rows.jsonl", "{\"prompt\": \"a\"}\n{\n");
    scratch.burnish(&["data", "show", "rows.jsonl"]).fails_with(&["rows.jsonl, line 2", "column 1"]);
    scratch.write("rows.parquet", "PAR1 and no more");
    scratch
        .burnish(&["data", "show", "rows.parquet"])
        .fails_with(&["rows.parquet", "not a whole parquet file"]);
    let check = ["data", "check", "rows.jsonl", "--against", "absent.jsonl"];
    scratch.burnish(&check).fails_with(&["absent.jsonl", "can't be read"]);
}

/// The disk is full while a checkpoint is written. A limit on file sizes stands in for it: the same system call
/// fails.
#[cfg(unix)]
#[test]
fn a_full_disk_while_saving_leaves_the_previous_checkpoint_intact() {
    let scratch = Scratch::with_policy();
    scratch.burnish(&["train", "grpo.toml", "run.dir=full", "train.max_steps=2"]).succeeds();
    let weights = scratch.read("full/checkpoints/step_2/trainer/trainer.safetensors");
    let recipe = String::from_utf8(scratch.read("full/recipe.toml")).unwrap();
    scratch.write("full/recipe.toml", recipe.replace("max_steps = 2", "max_steps = 4"));
    // In blocks of 512 bytes (POSIX): room for the journal, but not for the optimiser's state.
    let blocks = weights.len() * 4 / 5 / 512;
    let output = std::process::Command::new("sh")
        .arg("-c")
        .arg(format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" train --resume full"))
        .arg(env!("CARGO_BIN_EXE_burnish"))
        .current_dir(scratch.path("."))
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("step 4") && error.contains("not saved"), "{error}");
    assert!(scratch.read("full/checkpoints/step_2/trainer/trainer.safetensors") == weights);
    let left: Vec<_> = std::fs::read_dir(scratch.path("full/checkpoints"))
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(left, ["step_2"]);
    // Once there is room again, the run continues.
    scratch.burnish(&["train", "--resume", "full"]).succeeds();
    assert!(scratch.path("full/checkpoints/step_4/model.safetensors").exists());
}

/// Messages are written for people: they contain no names of types and no dumps of values.
#[test]
fn no_message_speaks_the_language_of_the_program() {
    let scratch = Scratch::new();
    scratch.write("grpo.toml", TINY_GRPO);
    scratch.write("rows.jsonl", "{\"prompt\": \"a\", \"answer\": \"1\"}\n");
    scratch.write("empty.toml", "");
    let sections = [
        "run",
        "policy",
        "env",
        "train",
        "rollout",
        "loss",
        "optimizer",
        "eval",
        "checkpoint",
        "data",
        "reward",
        "critic",
        "teacher",
        "gate",
        "metrics",
        "advantage",
        "advantage.config",
        "loss.config",
        "env.config",
        "env.config.sizes",
        "env.config.reward",
        "policy.lora",
        "policy.new",
        "eval.extra",
        "data.demonstrations",
        "run.seed",
        "run.threads",
        "train.max_steps",
        "train.epochs",
        "rollout.temperature",
        "rollout.stop",
        "rollout.group_size",
        "optimizer.learning_rate",
        "optimizer.schedule",
        "policy.precision",
        "policy.path",
        "reward.weights",
        "eval.tasks",
        "data.path",
        "env.config.agents",
        "checkpoint.keep",
        "train.method",
    ];
    let mut messages = Vec::new();
    for key in sections {
        for value in ["3.5", "-1", "x", "[1]", "[[1]]", "{}", "{zzz=1}", "true", ""] {
            let change = format!("{key}={value}");
            let output = scratch.command(&["train", "grpo.toml", "--dry-run", &change]).output().unwrap();
            messages.push((change, String::from_utf8(output.stderr).unwrap()));
        }
    }
    for line in [
        "train empty.toml",
        "study grpo.toml",
        "env show chains x=1",
        "env show chains steps=3",
        "env show chains --tasks x",
        "env show chains --seed -1",
        "env show rows path=rows.jsonl verifier=3",
        "data show rows.jsonl --columns x=y",
        "data show rows.jsonl --count x",
        "eval gsm8k --samples x",
        "eval gsm8k --temperature x",
        "eval gsm8k --k ,",
        "rollout grpo.toml --count 0",
        "rollout grpo.toml --step 3",
        "eval grpo.toml --step 3",
        "methods show grpo",
        "methods show ppo_clip",
    ] {
        let output = scratch.command(&line.split(' ').collect::<Vec<_>>()).output().unwrap();
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        messages.push((line.to_owned(), said));
    }
    let refused = messages.iter().filter(|(_, message)| message.starts_with("error: ")).count();
    assert!(refused > 200, "{refused}");
    for (line, message) in messages {
        for word in [
            "f64",
            "f32",
            "u64",
            "usize",
            "struct ",
            "enum ",
            "Some(",
            "None",
            "Golden(",
            "Oracle(",
            "Os {",
            "::",
            "invalid type",
            "invalid digit",
            "a sequence",
            "a map",
            "panicked",
            " with 7 elements",
            "untagged",
        ] {
            let said = message.replace("`f32` or `bf16`", "");
            assert!(!said.contains(word), "burnish {line}: `{word}` is in: {message}");
        }
    }
}
