//! The invariants of QK-Restore (card 3) on checkpoints.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use burnish_weights::Float;
use common::{CONFIG, Scratch, Tensors, changed, decoder, fill};

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
