//! What is wrong is said, with the file, the tensor or the key, and nothing is left behind.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::ops::ControlFlow;

use burnish_weights::{Float, Options, WeightsError};
use common::{CONFIG, Scratch, Tensors, changed, decoder, fill};

const LINEAR: &str = "
merge_method: linear
models:
  - model: '@a'
    parameters: {weight: 0.5}
  - model: '@b'
    parameters: {weight: 0.5}
";

fn two() -> Scratch {
    let scratch = Scratch::new();
    let a = decoder(1);
    scratch.write("a", &a, Float::Bf16, CONFIG);
    scratch.write("b", &changed(&a, 2, 0.1), Float::Bf16, CONFIG);
    scratch
}

/// The merge fails with all `parts` in its error, and leaves nothing.
fn fails(scratch: &Scratch, yaml: &str, parts: &[&str]) {
    let before = scratch.count();
    let error = scratch.merge(yaml, "out").map(|_| ()).unwrap_err().to_string();
    for part in parts {
        assert!(error.contains(part), "no \"{part}\" in: {error}");
    }
    assert_eq!(scratch.count(), before, "{error}");
}

#[test]
fn files_that_are_damaged_or_missing_are_named() {
    let scratch = two();
    let file = scratch.path("b/model.safetensors");
    let whole = fs::read(&file).unwrap();
    for length in [0, 5, 100, whole.len() / 2, whole.len() - 1] {
        fs::write(&file, &whole[..length]).unwrap();
        fails(&scratch, LINEAR, &["b/model.safetensors", "truncated", "fetch or save it again"]);
    }
    fs::remove_file(&file).unwrap();
    fails(&scratch, LINEAR, &["/b: holds no weights"]);
    fs::write(scratch.path("b/pytorch_model.bin"), "x").unwrap();
    fails(&scratch, LINEAR, &["pytorch_model.bin", "safe_serialization"]);
    fs::write(scratch.path("b/model-00001-of-00002.safetensors"), &whole).unwrap();
    fails(&scratch, LINEAR, &["model-00001-of-00002.safetensors", "model.safetensors.index.json"]);
    fs::write(
        scratch.path("b/model.safetensors.index.json"),
        "{\"format\": \"pt\", \"weight_map\": {\"x\": \"../y.safetensors\"}}",
    )
    .unwrap();
    fails(&scratch, LINEAR, &["index.json", "`weight_map.x`", "of this directory"]);
    fs::remove_dir_all(scratch.path("b")).unwrap();
    fails(&scratch, LINEAR, &["/b: there is no such directory"]);
}

#[test]
fn shards_and_their_index_must_agree() {
    let scratch = two();
    let b = changed(&decoder(1), 2, 0.1);
    scratch.write_in("sharded", &b, Float::Bf16, CONFIG, 600);
    let yaml = LINEAR.replace("@b", "@sharded");
    scratch.merge(&yaml, "fine").unwrap();
    scratch.merge(LINEAR, "same").unwrap();
    assert_eq!(scratch.bytes("fine"), scratch.bytes("same"), "shards are no matter");
    let index = scratch.path("sharded/model.safetensors.index.json");
    let text = fs::read_to_string(&index).unwrap();
    let edited = text.replacen("model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.up.weight", 1);
    fs::write(&index, edited).unwrap();
    fails(&scratch, &yaml, &["model.layers.0.mlp.up.weight", "is not in it"]);
    fs::write(&index, "{").unwrap();
    fails(&scratch, &yaml, &["index.json", "not an index"]);
    fs::write(&index, &text).unwrap();
    fs::remove_file(scratch.path("sharded").join("model-00002-of-00004.safetensors")).unwrap();
    fails(&scratch, &yaml, &["model-00002-of-00004.safetensors", "is missing", "fetch or save it again"]);
}

#[test]
fn checkpoints_of_another_kind_are_refused() {
    let scratch = two();
    let a = decoder(1);
    let write = |tensors: &Tensors, config: &str| {
        let _ = fs::remove_dir_all(scratch.path("b"));
        scratch.write("b", tensors, Float::Bf16, config);
    };
    write(&a, &CONFIG.replace("llama", "qwen3"));
    fails(&scratch, LINEAR, &["/b: is a model of type qwen3", "llama"]);
    let mut larger = a.clone();
    larger[0] = (larger[0].0.clone(), vec![12, 8], vec![0.5; 96]);
    write(&larger, CONFIG);
    fails(&scratch, LINEAR, &["model.embed_tokens.weight", "[12, 8]", "[10, 8]", "vocabularies"]);
    let mut other = a.clone();
    other[3] = (other[3].0.clone(), vec![8, 4], vec![0.5; 32]);
    write(&other, CONFIG);
    fails(&scratch, LINEAR, &["v_proj.weight", "[8, 4]", "[4, 8]", "a/model.safetensors"]);
    write(&a[..5].to_vec(), CONFIG);
    fails(
        &scratch,
        LINEAR,
        &["/b: lacks 13 of the 18 tensors", "the first model.layers.0.self_attn.q_norm.weight"],
    );
    let more = [a.clone(), fill(vec![("model.extra.weight".into(), vec![2])], 1)].concat();
    write(&more, CONFIG);
    fails(&scratch, LINEAR, &["model.extra.weight", "no counterpart"]);
}

#[test]
fn vocabularies_of_one_size_are_compared_by_their_tokens() {
    let scratch = two();
    let write = |model: &str, vocab: &str, added: &str| {
        let text = format!("{{\"model\": {{\"vocab\": {vocab}}}, \"added_tokens\": [{added}]}}");
        fs::write(scratch.path(model).join("tokenizer.json"), text).unwrap();
    };
    let added = |content: &str| format!("{{\"id\": 2, \"content\": \"{content}\", \"special\": true}}");
    write("a", r#"{"x": 0, "y": 1}"#, &added("<end>"));
    write("b", r#"{"y": 1, "x": 0, "z": 5}"#, &added("<end>"));
    assert!(scratch.merge(LINEAR, "same").unwrap().notes.is_empty());
    write("b", r#"[["x", -1.5], ["y", -2]]"#, &added("<turn>"));
    let notes = scratch.merge(LINEAR, "renamed").unwrap().notes;
    assert!(
        notes[0].contains("1 added tokens") && notes[0].contains("2: \"<turn>\", there \"<end>\""),
        "{notes:?}"
    );
    write("b", r#"{"x": 1, "y": 0}"#, &added("<end>"));
    fails(&scratch, LINEAR, &["b/tokenizer.json", "token 0 is \"y\"", "\"x\" in", "vocabularies differ"]);
    write("b", "7", &added("<end>"));
    fails(&scratch, LINEAR, &["b/tokenizer.json", "not a tokenizer", "id of each token"]);
}

#[test]
fn buffers_that_follow_from_the_configuration_are_copied() {
    let scratch = Scratch::new();
    let with = |value: f32, size: usize| {
        let buffer = ("layers.0.attn.masked_bias".to_owned(), vec![size], vec![value; size]);
        [decoder(1), vec![buffer]].concat()
    };
    scratch.write("a", &with(-1e9, 1), Float::F32, CONFIG);
    scratch.write("b", &with(-1e4, 2), Float::F32, CONFIG);
    scratch.merge(&format!("{LINEAR}dtype: float16"), "out").unwrap();
    assert_eq!(scratch.bytes("out")["layers.0.attn.masked_bias"], (-1e9f32).to_le_bytes());
}

#[test]
fn numbers_that_are_not_finite_or_do_not_fit_are_found() {
    let scratch = two();
    let mut b = decoder(1);
    b[6].2[13] = f32::NAN;
    let _ = fs::remove_dir_all(scratch.path("b"));
    scratch.write("b", &b, Float::Bf16, CONFIG);
    let name = b[6].0.clone();
    fails(&scratch, LINEAR, &["b/model.safetensors", &name, "NaN", "[1, 5]"]);
    b[6].2[13] = 60000.0;
    let _ = fs::remove_dir_all(scratch.path("b"));
    scratch.write("b", &b, Float::Bf16, CONFIG);
    // A copy is no way around it.
    let mut broken = decoder(1);
    broken[6].2[13] = f32::INFINITY;
    scratch.write("broken", &broken, Float::Bf16, CONFIG);
    let end = "merge_method: wise_ft\nbase_model: '@a'\nmodels: [{model: '@broken'}]\nparameters: {alpha: 1}";
    fails(&scratch, end, &["broken/model.safetensors", &name, "inf", "[1, 5]"]);
    let doubled = LINEAR.replace("0.5", "1.5") + "parameters: {normalize: false}\ndtype: float16\n";
    fails(&scratch, &doubled, &[&name, "float16 can't hold", "[1, 5]", "dtype"]);
}

#[test]
fn a_tied_head_is_the_embedding() {
    let scratch = Scratch::new();
    let a = decoder(1);
    scratch.write("a", &a, Float::F32, CONFIG);
    let tied = CONFIG.replacen('{', "{\"tie_word_embeddings\": true, ", 1);
    let b = decoder(2);
    let without = b[..b.len() - 1].to_vec();
    scratch.write("b", &without, Float::F32, &tied);
    let report = scratch.merge(LINEAR, "out").unwrap();
    assert!(
        report.notes[0].contains("lm_head.weight is tied to model.embed_tokens.weight"),
        "{:?}",
        report.notes
    );
    let out = scratch.values("out");
    for (at, head) in out["lm_head.weight"].iter().enumerate() {
        let expected = (a[a.len() - 1].2[at] + b[0].2[at]) / 2.0;
        assert!((head - expected).abs() < 1e-6);
    }
    // The other way round, the head has no place unless it repeats the embedding.
    let turned = LINEAR.replace("@a", "@x").replace("@b", "@a").replace("@x", "@b");
    fails(&scratch, &turned, &["lm_head.weight", "differs from the embedding"]);
    let mut same = a.clone();
    let last = same.len() - 1;
    same[last].2 = same[0].2.clone();
    let _ = fs::remove_dir_all(scratch.path("a"));
    scratch.write("a", &same, Float::F32, &tied);
    let report = scratch.merge(&turned, "out2").unwrap();
    assert!(report.notes[0].contains("repeats the embedding"), "{:?}", report.notes);
    assert!(!scratch.values("out2").contains_key("lm_head.weight"));
}

#[test]
fn what_exists_is_never_written_over_and_what_is_stopped_leaves_nothing() {
    let scratch = two();
    fs::create_dir(scratch.path("out")).unwrap();
    let error = scratch.merge(LINEAR, "out").unwrap_err().to_string();
    assert!(error.contains("out exists already; name a new directory"), "{error}");
    assert_eq!(fs::read_dir(scratch.path("out")).unwrap().count(), 0);
    let before = scratch.count();
    let merge = scratch.read(LINEAR).unwrap();
    let mut seen = 0;
    let stopped = merge.run(&scratch.path("new"), &Options::default(), &mut |progress| {
        seen += 1;
        assert!(progress.done <= progress.all);
        if seen == 5 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(matches!(stopped, Err(WeightsError::Stopped { .. })));
    assert_eq!((seen, scratch.count()), (5, before));
}

#[test]
fn other_files_are_carried_over_and_the_type_is_told() {
    let scratch = two();
    let a = |name: &str| scratch.path("a").join(name);
    fs::write(a("README.md"), "about a").unwrap();
    fs::write(a("training_args.bin"), "x").unwrap();
    fs::create_dir(a("original")).unwrap();
    let options = Options { recipe: Some("x: 1\n".into()), ..Options::default() };
    let yaml = format!("{LINEAR}dtype: float32\n");
    // What is no file is not waited for.
    assert!(std::process::Command::new("mkfifo").arg(a("pipe")).status().unwrap().success());
    let report = scratch.merge_with(&yaml, "out", &options).unwrap();
    let mut names: Vec<String> = fs::read_dir(scratch.path("out"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["config.json", "mergekit_config.yml", "model.safetensors", "tokenizer.json"]);
    assert!(report.notes[0].contains("original"), "{:?}", report.notes);
    assert_eq!(fs::read(scratch.path("out/config.json")).unwrap().len(), {
        let config: serde_json::Value = serde_json::from_str(CONFIG).unwrap();
        assert_eq!(config["torch_dtype"], "float32");
        CONFIG.len()
    });
    scratch.merge(&format!("{LINEAR}out_dtype: float16\n"), "half").unwrap();
    let config = fs::read_to_string(scratch.path("half/config.json")).unwrap();
    assert!(config.contains("\"torch_dtype\": \"float16\""), "{config}");
}

#[test]
fn bytes_do_not_depend_on_threads_or_files() {
    let scratch = Scratch::new();
    // Larger than what one thread takes at a time.
    let shapes =
        vec![("layers.0.w.weight".to_owned(), vec![1100, 301]), ("norm.weight".to_owned(), vec![301])];
    let base = fill(shapes, 1);
    for (name, seed) in [("base", 0), ("a", 2), ("b", 3)] {
        let tensors = if seed == 0 { base.clone() } else { changed(&base, seed, 0.1) };
        scratch.write(name, &tensors, Float::Bf16, "{}");
    }
    for method in ["ties", "dare_ties", "longcat", "model_stock", "task_arithmetic"] {
        let parameters = match method {
            "model_stock" => "{}",
            "task_arithmetic" => "{weight: 0.4}",
            _ => "{weight: 0.4, density: 0.3}",
        };
        let yaml = format!(
            "merge_method: {method}\nbase_model: '@base'\nmodels: [{{model: '@a'}}, {{model: '@b'}}]\nparameters: {parameters}"
        );
        let file = |threads: usize| {
            let out = format!("{method}{threads}");
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| scratch.merge(&yaml, &out)).unwrap();
            fs::read(scratch.path(&out).join("model.safetensors")).unwrap()
        };
        assert!(file(1) == file(3), "{method}");
    }
}

#[test]
fn configurations_say_where_they_are_wrong() {
    let scratch = two();
    for (yaml, parts) in [
        (LINEAR.replace("linear", "lineer"), &["line 2", "unknown method lineer", "did you mean linear?"][..]),
        (LINEAR.replace("models", "model_s"), &["line 4", "unknown key `model_s`", "`models`"]),
        (LINEAR.replacen("weight", "wieght", 1), &["line 5", "`wieght`", "`weight`"]),
        (LINEAR.replacen("0.5", "half", 1), &["line 5", "`weight` is \"half\"", "finite number"]),
        (LINEAR.replacen("{weight: 0.5}", "{}", 1), &["`weight` is not set", "model.embed_tokens.weight", "/a)"]),
        (LINEAR.replace("0.5", "0.0"), &["add up to 0", "normalize: false"]),
        (format!("{LINEAR}dtype: int8"), &["`int8` is not a type", "bfloat16"]),
        (format!("{LINEAR}dtype: int8\nout_dtype: float32"), &["line 8", "`int8` is not a type"]),
        (LINEAR.replacen("0.5", ".inf", 1), &["line 5", "`weight` is inf", "finite number"]),
        (format!("{LINEAR}tokenizer_source: union"), &["`tokenizer_source`", "must be base"]),
        (format!("{LINEAR}base_model: '@c'"), &["linear has no base apart"]),
        ("merge_method: slerp\nmodels: [{model: '@a'}]".to_owned(), &["slerp needs a `base_model`"]),
        (LINEAR.replace("linear", "slerp"), &["line 5", "unknown parameter `weight` of slerp", "it has t"]),
        (format!("{LINEAR}modules: {{}}"), &["`modules` is not supported"]),
        (format!("{LINEAR}linear: ["), &["test.yaml, line", "not YAML"]),
        (format!("{LINEAR}---\n{LINEAR}"), &["2 documents"]),
        ("merge_method: linear".to_owned(), &["`models` is missing"]),
        ("- linear".to_owned(), &["must hold keys and values"]),
        (String::new(), &["test.yaml"]),
        (LINEAR.replace("'@a'", "'@a+@adapter'"), &["/adapter", "no adapter_config.json"]),
        (LINEAR.replace("0.5", "[]"), &["`weight` is an empty list"]),
        (LINEAR.replace("0.5", "{valeu: 1}"), &["unknown key `valeu`", "`value`"]),
        (
            "merge_method: task_arithmetic\nbase_model: '@a'\nmodels: [{model: '@b', parameters: {weight: 1, lambda: 2}}]"
                .to_owned(),
            &["line 3", "`lambda`", "holds for all models"],
        ),
        (
            "merge_method: slerp\nbase_model: '@a'\nslices: [{sources: [{model: '@a', layer_range: [0, 1]}, {model: '@b', \
             layer_range: [0, 1]}]}]\nparameters: {t: 0.5}"
                .to_owned(),
            &["line 3", "all layers", "2 layers", "passthrough"],
        ),
        ("merge_method: passthrough\nmodels: [{model: '@a'}, {model: '@b'}]".to_owned(), &["takes 1 model, and 2"]),
        (
            "merge_method: passthrough\nslices:\n- sources: [{model: '@a', layer_range: [0, 1]}, {model: '@b'}]".to_owned(),
            &["line 3", "one source"],
        ),
        ("merge_method: passthrough\nslices:\n- sources: [{model: '@a'}]".to_owned(), &["line 3", "`layer_range` is missing"]),
        (
            "merge_method: passthrough\nslices:\n- sources: [{model: '@a', layer_range: [0, -1]}]".to_owned(),
            &["line 3", "two numbers of layers"],
        ),
        (
            "merge_method: model_stock\nbase_model: '@a'\nmodels: [{model: '@b'}]".to_owned(),
            &["model_stock takes 2 or more models besides its base, and 1 are given"],
        ),
    ] {
        fails(&scratch, &yaml, parts);
    }
}

#[test]
fn keys_that_are_written_twice_are_refused() {
    let scratch = two();
    let yaml = format!("{LINEAR}dtype: float32\ndtype: float16\n");
    fails(&scratch, &yaml, &["test.yaml, line", "dup"]);
}

#[test]
fn other_numbers_are_copied_where_they_agree() {
    use burnish_weights::{Planned, Sink};
    let scratch = Scratch::new();
    let write = |name: &str, value: u8| {
        let tensors = [("ids", safetensors::Dtype::I64, vec![2], 16), ("w", Float::Bf16.dtype(), vec![1], 2)];
        let planned =
            tensors.map(|(name, dtype, shape, bytes)| Planned { name: name.into(), dtype, shape, bytes });
        let sink = Sink::create(&scratch.path(name), &planned, u64::MAX).unwrap();
        sink.write(0, 0, &[value; 16]).unwrap();
        sink.write(1, 0, &[0, 0x40]).unwrap();
        sink.finish().unwrap();
    };
    write("a", 7);
    write("b", 7);
    let report = scratch.merge(&format!("{LINEAR}dtype: float32"), "out").unwrap();
    assert_eq!((report.tensors, report.computed), (2, 1));
    let out = scratch.bytes("out");
    assert_eq!(out["ids"], [7; 16]);
    assert_eq!(out["w"], 2f32.to_le_bytes());
    fs::remove_dir_all(scratch.path("b")).unwrap();
    write("b", 8);
    fails(&scratch, LINEAR, &["tensor ids", "I64", "differs", "must be the same everywhere"]);
}
