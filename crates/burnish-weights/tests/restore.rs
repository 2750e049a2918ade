//! The invariants of QK-Restore (card 3) and of ARM (card 14) on checkpoints.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use burnish_weights::{Float, Planned, Sink};
use common::{CONFIG, Scratch, Tensors, bytes, changed, decoder, fill, random};

fn restore(parameters: &str) -> String {
    format!(
        "merge_method: qk_restore\nbase_model: '@pre'\nmodels: [{{model: '@post'}}]\nparameters: {{{parameters}}}"
    )
}

fn two(scratch: &Scratch, float: Float) -> [Tensors; 2] {
    let pre = decoder(1);
    let post = changed(&pre, 2, 0.3);
    scratch.write("pre", &pre, float, CONFIG);
    scratch.write("post", &post, float, CONFIG);
    [pre, post]
}

/// Checks that tensors are `pre`'s, byte for byte, where `is_restored` says so, and `post`'s elsewhere.
fn expect(scratch: &Scratch, out: &str, is_restored: impl Fn(&str) -> bool) {
    let [pre, post, found] = ["pre", "post", out].map(|name| scratch.bytes(name));
    for (name, found) in &found {
        let expected = if is_restored(name) { &pre[name] } else { &post[name] };
        assert!(found == expected, "{out}: {name}");
    }
    assert_eq!(found.len(), post.len());
}

#[test]
fn each_mode_restores_its_matrices_byte_for_byte_and_nothing_else() {
    for float in [Float::F32, Float::Bf16, Float::F16] {
        let scratch = Scratch::new();
        two(&scratch, float);
        for (mode, matrices) in
            [("full", &["q_proj", "k_proj"][..]), ("q", &["q_proj"]), ("k", &["k_proj"]), ("v", &["v_proj"])]
        {
            let report = scratch.merge(&restore(&format!("mode: {mode}")), mode).unwrap();
            expect(&scratch, mode, |name| matrices.iter().any(|matrix| name.contains(matrix)));
            assert_eq!(report.computed, 0);
            assert_eq!(report.donor, scratch.path("post"));
        }
        let yaml = restore("biases: true");
        scratch.merge(&yaml, "norms").unwrap();
        expect(&scratch, "norms", |name| {
            ["q_proj", "k_proj", "q_norm"].iter().any(|part| name.contains(part))
        });
    }
}

#[test]
fn restoring_twice_is_restoring_once_and_equal_models_stay() {
    let scratch = Scratch::new();
    two(&scratch, Float::Bf16);
    scratch.merge(&restore(""), "once").unwrap();
    scratch.merge(&restore("").replace("@post", "@once"), "twice").unwrap();
    assert_eq!(scratch.bytes("once"), scratch.bytes("twice"));
    for mode in ["full", "pro"] {
        let yaml = restore(&format!("mode: {mode}")).replace("@post", "@pre2");
        if mode == "full" {
            scratch.write("pre2", &decoder(1), Float::Bf16, CONFIG);
        }
        scratch.merge(&yaml, &format!("same_{mode}")).unwrap();
        assert_eq!(scratch.bytes(&format!("same_{mode}")), scratch.bytes("pre"));
    }
}

#[test]
fn the_projection_goes_from_full_restoration_to_post_queries() {
    let scratch = Scratch::new();
    let [_, post] = two(&scratch, Float::F32);
    scratch.merge(&restore(""), "full").unwrap();
    scratch.merge(&restore("mode: pro, lambda: 1e-9"), "near").unwrap();
    scratch.merge(&restore("mode: pro, lambda: 1e9"), "far").unwrap();
    scratch.merge(&restore("mode: pro"), "pro").unwrap();
    let [full, near, far, pro] = ["full", "near", "far", "pro"].map(|name| scratch.values(name));
    for (name, _, post) in &post {
        let distance = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(distance(&near[name], &full[name]) < 1e-5, "{name}");
        let expected = if name.contains("q_proj") { post } else { &full[name] };
        assert!(distance(&far[name], expected) < 1e-5, "{name}");
        let is_between = distance(&pro[name], &full[name]) > 1e-3 && distance(&pro[name], post) > 1e-3;
        assert_eq!(is_between, name.contains("q_proj"), "{name}");
    }
}

#[test]
fn linear_attention_is_left_alone() {
    let scratch = Scratch::new();
    let shapes = |_| {
        let layer = |layer: usize, more: &[&str]| {
            let names = ["self_attn.q_proj", "self_attn.k_proj"].iter().chain(more);
            names.map(|name| (format!("model.layers.{layer}.{name}.weight"), vec![8, 8])).collect::<Vec<_>>()
        };
        [layer(0, &["self_attn.q_conv1d"]), layer(1, &[]), layer(2, &["self_attn.b_proj"])].concat()
    };
    let config = |types: &str| format!("{{\"model_type\": \"hybrid\"{types}}}");
    let pre = fill(shapes(0), 1);
    let post = changed(&pre, 2, 0.1);
    let write = |config: &str, suffix: &str| {
        scratch.write(&format!("pre{suffix}"), &pre, Float::Bf16, config);
        scratch.write(&format!("post{suffix}"), &post, Float::Bf16, config);
    };
    // By what only linear attention has, by config.json, and by numbers.
    write(&config(""), "");
    scratch.merge(&restore(""), "by_names").unwrap();
    expect(&scratch, "by_names", |name| name.contains("layers.1."));
    scratch.merge(&restore("layers: 2"), "by_number").unwrap();
    scratch.merge(&restore("layers: '2'"), "by_numbers").unwrap();
    assert_eq!(scratch.bytes("by_number"), scratch.bytes("by_numbers"));
    expect(&scratch, "by_numbers", |name| name.contains("layers.2.") && !name.contains("b_proj"));
    let error = scratch.merge(&restore("layers: '1,7'"), "wrong").unwrap_err().to_string();
    assert!(error.contains("\"7\"") && error.contains("0 to 2"), "{error}");
    let types = r#", "layer_types": ["full_attention", "linear_attention", "sliding_attention"]"#;
    write(&config(types), "_typed");
    let yaml = restore("").replace("@pre", "@pre_typed").replace("@post", "@post_typed");
    scratch.merge(&yaml, "by_types").unwrap();
    expect(&scratch, "by_types", |name| {
        !name.contains("layers.1.") && (name.contains("q_proj") || name.contains("k_proj"))
    });
}

/// Rows of a fused projection that are `pre`'s.
fn restored_rows(module: &str, parameters: &str, rows: usize) -> Vec<usize> {
    let scratch = Scratch::new();
    let name = format!("layers.0.attention.{module}.weight");
    let pre = fill(vec![(name.clone(), vec![rows, 8]), ("norm.weight".into(), vec![8])], 1);
    let post = changed(&pre, 2, 0.1);
    scratch.write("pre", &pre, Float::Bf16, CONFIG);
    scratch.write("post", &post, Float::Bf16, CONFIG);
    scratch.merge(&restore(parameters), "out").unwrap();
    let [pre, post, out] = ["pre", "post", "out"].map(|of| scratch.bytes(of)[&name].clone());
    let width = 8 * Float::Bf16.width();
    let mut restored = Vec::new();
    for (row, out) in out.chunks(width).enumerate() {
        let of = |bytes: &[u8]| bytes[row * width..(row + 1) * width].to_vec();
        if out == of(&pre) {
            restored.push(row);
        } else {
            assert_eq!(out, of(&post), "row {row}");
        }
    }
    restored
}

#[test]
fn of_fused_projections_only_the_right_rows_change() {
    // Four heads of queries and two of keys, two dimensions each: 8 + 4 + 4 rows.
    assert_eq!(restored_rows("qkv_proj", "", 16), (0..12).collect::<Vec<_>>());
    assert_eq!(restored_rows("qkv_proj", "mode: v", 16), (12..16).collect::<Vec<_>>());
    let grouped: Vec<usize> = (0..6).chain(8..14).collect();
    assert_eq!(restored_rows("query_key_value", "", 16), grouped);
    assert_eq!(restored_rows("query_key_value", "fused: blocks", 16), (0..12).collect::<Vec<_>>());
    assert_eq!(restored_rows("qkv_proj", "fused: groups, mode: k", 16), [4, 5, 12, 13]);
    // Queries that are followed by their output gates, head by head.
    assert_eq!(restored_rows("q_proj", "", 16), [0, 1, 4, 5, 8, 9, 12, 13]);
    // Of the projection, keys are exact, and every query of a head is computed from its group's keys.
    assert_eq!(restored_rows("qkv_proj", "mode: k", 16), [8, 9, 10, 11]);
}

#[test]
fn a_fused_projection_projects_as_separate_ones_do() {
    let scratch = Scratch::new();
    let name = |part: &str| format!("layers.0.attention.{part}.weight");
    let parts = [("q_proj", 8), ("k_proj", 4), ("v_proj", 4)];
    let separate = |seed| fill(parts.map(|(part, rows)| (name(part), vec![rows, 8])).to_vec(), seed);
    let fused = |tensors: &Tensors| {
        let values = tensors.iter().flat_map(|(_, _, values)| values.clone()).collect();
        vec![(name("qkv_proj"), vec![16, 8], values)]
    };
    for (kind, seed) in [("pre", 1), ("post", 2)] {
        scratch.write(kind, &separate(seed), Float::F32, CONFIG);
        scratch.write(&format!("{kind}_fused"), &fused(&separate(seed)), Float::F32, CONFIG);
    }
    scratch.merge(&restore("mode: pro"), "out").unwrap();
    let yaml = restore("mode: pro").replace("@pre", "@pre_fused").replace("@post", "@post_fused");
    scratch.merge(&yaml, "out_fused").unwrap();
    let out = scratch.values("out");
    let joined: Vec<f32> = parts.iter().flat_map(|(part, _)| out[&name(part)].clone()).collect();
    assert_eq!(scratch.values("out_fused")[&name("qkv_proj")], joined);
}

#[test]
fn what_cannot_be_restored_says_why() {
    let scratch = Scratch::new();
    two(&scratch, Float::F32);
    let fails = |parameters: &str, parts: &[&str]| {
        let error = scratch.merge(&restore(parameters), "out").unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        assert!(!scratch.path("out").exists());
    };
    fails("mode: half", &["\"half\"", "full, pro, q, k, v"]);
    fails("mode: pro, biases: true", &["`biases`", "mode: full"]);
    fails("lamda: 1", &["`lamda`", "did you mean `lambda`"]);
    let other = fill(vec![("layers.0.mixer.in_proj.weight".into(), vec![4, 4])], 1);
    for kind in ["pre", "post"] {
        scratch.write(&format!("{kind}_mixer"), &other, Float::F32, "{}");
    }
    let yaml = restore("").replace("@pre", "@pre_mixer").replace("@post", "@post_mixer");
    let error = scratch.merge(&yaml, "out").unwrap_err().to_string();
    assert!(error.contains("nothing to restore"), "{error}");
    // Rows of queries that are not heads of the size that config.json has, in either direction.
    for rows in [2, 10] {
        let name = |part: &str| format!("layers.0.attn.{part}.weight");
        let other = fill(vec![(name("q_proj"), vec![rows, 8]), (name("k_proj"), vec![4, 8])], 1);
        for kind in ["pre", "post"] {
            let name = format!("{kind}_{rows}");
            scratch.write(&name, &other, Float::F32, CONFIG);
        }
        let of = |kind: &str| format!("@{kind}_{rows}");
        let yaml = restore("mode: pro").replace("@pre", &of("pre")).replace("@post", &of("post"));
        let error = scratch.merge(&yaml, "out").unwrap_err().to_string();
        assert!(
            error.contains("q_proj") && error.contains("4 heads") && error.contains("2 dimensions"),
            "{error}"
        );
    }
    let fused = fill(vec![("layers.0.attn.qkv_proj.weight".into(), vec![10, 4])], 1);
    for kind in ["pre", "post"] {
        scratch.write(&format!("{kind}_fused"), &fused, Float::F32, CONFIG);
    }
    let yaml = restore("").replace("@pre", "@pre_fused").replace("@post", "@post_fused");
    let error = scratch.merge(&yaml, "out").unwrap_err().to_string();
    assert!(error.contains("10 rows") && error.contains("4 heads"), "{error}");
    assert!(!scratch.path("out").exists());
}

// ARM

const STEP: &str =
    "merge_method: arm\nbase_model: '@merged'\nmodels: [{model: '@before'}, {model: '@after'}]\n";

/// Inputs of every map under its name.
fn record(scratch: &Scratch, name: &str, seed: u64) {
    let maps = decoder(1).into_iter().filter(|(name, shape, _)| shape.len() == 2 && !name.contains("embed"));
    let recorded: Tensors = maps
        .enumerate()
        .map(|(at, (name, shape, _))| {
            let map = name.trim_end_matches(".weight").to_owned();
            (map, vec![6, shape[1]], random(6 * shape[1], seed + at as u64))
        })
        .collect();
    let planned: Vec<Planned> = recorded
        .iter()
        .map(|(name, shape, values)| Planned {
            name: name.clone(),
            dtype: Float::F32.dtype(),
            shape: shape.clone(),
            bytes: 4 * values.len(),
        })
        .collect();
    let sink = Sink::create(&scratch.path(name), &planned, u64::MAX).unwrap();
    for (at, (_, _, values)) in recorded.iter().enumerate() {
        sink.write(at, 0, &bytes(values, Float::F32)).unwrap();
    }
    sink.finish().unwrap();
}

fn rotated(from: &str, to: &str, more: &str) -> String {
    format!(
        "{STEP}parameters: {{eta: 1.0, activations: '@{from}/model.safetensors', activations_merged: \
         '@{to}/model.safetensors'{more}}}"
    )
}

fn stream(scratch: &Scratch) -> Vec<Tensors> {
    let mut all = vec![decoder(1)];
    for step in 1..4 {
        let next = changed(&all[step - 1], 10 + step as u64, 0.2);
        all.push(next);
    }
    for (at, tensors) in all.iter().enumerate() {
        scratch.write(&format!("step{at}"), tensors, Float::F32, CONFIG);
    }
    all
}

#[test]
fn plain_increments_with_rate_one_end_at_the_last_checkpoint() {
    let scratch = Scratch::new();
    let all = stream(&scratch);
    for step in 1..all.len() {
        let merged = if step == 1 { "step0".to_owned() } else { format!("merged{}", step - 1) };
        let yaml = STEP
            .replace("@merged", &format!("@{merged}"))
            .replace("@before", &format!("@step{}", step - 1))
            .replace("@after", &format!("@step{step}"));
        scratch.merge(&format!("{yaml}parameters: {{eta: 1.0}}"), &format!("merged{step}")).unwrap();
        if step == 1 {
            scratch.merge(&format!("{yaml}parameters: {{eta: 0.0}}"), "rate0").unwrap();
            assert_eq!(scratch.bytes("rate0"), scratch.bytes("step0"));
        }
    }
    let found = scratch.values("merged3");
    for (name, _, values) in &all[3] {
        let distance = found[name].iter().zip(values).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(distance < 1e-5, "{name}: {distance}");
    }
}

#[test]
fn increments_are_rotated_only_where_subspaces_differ_and_keep_their_length() {
    let scratch = Scratch::new();
    let all = stream(&scratch);
    for (name, step) in [("merged", 0), ("before", 1), ("after", 2)] {
        scratch.write(name, &all[step], Float::F32, CONFIG);
    }
    record(&scratch, "x", 50);
    record(&scratch, "y", 90);
    scratch.merge(&format!("{STEP}parameters: {{eta: 1.0}}"), "plain").unwrap();
    scratch.merge(&rotated("x", "x", ""), "same").unwrap();
    scratch.merge(&rotated("x", "y", ", rank: 0"), "rank0").unwrap();
    scratch.merge(&rotated("x", "y", ", rank: 3"), "turned").unwrap();
    let [plain, same, rank0, turned, merged] =
        ["plain", "same", "rank0", "turned", "merged"].map(|name| scratch.values(name));
    assert_eq!(rank0, plain);
    for (name, plain) in &plain {
        let distance = |of: &[f32]| of.iter().zip(plain).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(distance(&same[name]) < 1e-5, "{name}");
        let is_map = name.contains("proj") || name.contains("lm_head");
        assert_eq!(distance(&turned[name]) > 1e-2, is_map, "{name}");
        let length = |of: &[f32]| {
            of.iter().zip(&merged[name]).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>().sqrt()
        };
        assert!((length(plain) - length(&turned[name])).abs() < 1e-4 * length(plain), "{name}");
    }
    // The first step has no merged model beside the checkpoint that it begins with.
    let first =
        "merge_method: arm\nbase_model: '@before'\nmodels: [{model: '@after'}]\nparameters: {eta: 0.5}";
    scratch.merge(first, "first").unwrap();
    let found = scratch.values("first");
    for ((name, _, before), (_, _, after)) in all[1].iter().zip(&all[2]) {
        for ((found, before), after) in found[name].iter().zip(before).zip(after) {
            assert!((found - (before + 0.5 * (after - before))).abs() < 1e-6, "{name}");
        }
    }
}

#[test]
fn recorded_inputs_that_do_not_fit_are_refused() {
    let scratch = Scratch::new();
    let all = stream(&scratch);
    for (name, step) in [("merged", 0), ("before", 1), ("after", 2)] {
        scratch.write(name, &all[step], Float::F32, CONFIG);
    }
    record(&scratch, "x", 50);
    let fails = |yaml: &str, parts: &[&str]| {
        let error = scratch.merge(yaml, "out").unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        assert!(!scratch.path("out").exists());
    };
    let one = format!("{STEP}parameters: {{eta: 1.0, activations: '@x/model.safetensors'}}");
    fails(&one, &["belong together"]);
    let strange = fill(vec![("model.layers.0.self_attn.q_proj".into(), vec![6, 3])], 1);
    scratch.write("strange", &strange, Float::F32, "{}");
    fails(&rotated("x", "strange", ""), &["q_proj", "[6, 3]", "[samples, 8]"]);
    let none = fill(vec![("other".into(), vec![6, 8])], 1);
    scratch.write("none", &none, Float::F32, "{}");
    fails(&rotated("none", "x", ""), &["no map", "model.embed_tokens"]);
    fails(&rotated("absent", "x", ""), &["absent"]);
    let one = fill(vec![("model.layers.1.mlp.up_proj".into(), vec![6, 8])], 1);
    scratch.write("one", &one, Float::F32, "{}");
    fails(&rotated("x", "one", ""), &["one/model.safetensors", "q_proj is missing", "at both models"]);
    fails(&rotated("one", "x", ""), &["one/model.safetensors", "q_proj is missing", "at both models"]);
}
