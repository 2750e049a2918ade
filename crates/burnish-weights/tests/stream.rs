//! The invariants of ARM (card 14) on checkpoints.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use burnish_weights::{Float, Gram, Options, Planned, Recorded, Sink};
use common::{CONFIG, Scratch, Tensors, bytes, changed, decoder, fill, random};
use proptest::prelude::*;

const STEP: &str =
    "merge_method: arm\nbase_model: '@merged'\nmodels: [{model: '@before'}, {model: '@after'}]\n";

/// Inputs of every map under its name, as samples.
fn samples(seed: u64) -> Tensors {
    let maps = decoder(1).into_iter().filter(|(name, shape, _)| shape.len() == 2 && !name.contains("embed"));
    let recorded = maps.enumerate().map(|(at, (name, shape, _))| {
        let map = name.trim_end_matches(".weight").to_owned();
        (map, vec![6, shape[1]], random(6 * shape[1], seed + at as u64))
    });
    recorded.collect()
}

/// The same in a file.
fn record(scratch: &Scratch, name: &str, seed: u64) {
    let recorded = samples(seed);
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

/// The same as sums, as a run records them.
fn summed(seed: u64) -> Recorded {
    let of = |(map, shape, values): (String, Vec<usize>, Vec<f32>)| {
        let mut gram = Gram::new(shape[1]);
        gram.add(&values);
        (map, gram.principal(32))
    };
    samples(seed).into_iter().map(of).collect()
}

fn recorded(from: u64, to: u64) -> Options {
    Options { recorded: Some([summed(from), summed(to)]), ..Options::default() }
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn a_stream_that_is_not_turned_is_task_arithmetic_on_increments(
        rates in prop::collection::vec(-1.0..2.5_f32, 3),
        how in 0..3_usize,
        seed in 0..1000_u64,
    ) {
        let scratch = Scratch::new();
        let all = stream(&scratch);
        // Without inputs, with the same ones at both models, or without a direction that is turned.
        let (options, more) = match how {
            0 => (Options::default(), ""),
            1 => (recorded(seed, seed), ""),
            _ => (recorded(seed, seed + 500), ", rank: 0"),
        };
        // At other rates, at rates of 1, and at rates of 0.
        for (name, rates) in [("some", &rates[..]), ("ones", &[1.0; 3]), ("zeros", &[0.0; 3])] {
            for step in 1..all.len() {
                let merged = if step == 1 { "step0".to_owned() } else { format!("{name}{}", step - 1) };
                let models = match step {
                    1 => "{model: '@step1'}".to_owned(),
                    step => format!("{{model: '@step{}'}}, {{model: '@step{step}'}}", step - 1),
                };
                let yaml = format!(
                    "merge_method: arm\nbase_model: '@{merged}'\nmodels: [{models}]\nparameters: {{eta: {}{more}}}",
                    rates[step - 1]
                );
                scratch.merge_with(&yaml, &format!("{name}{step}"), &options).unwrap();
            }
        }
        prop_assert_eq!(scratch.bytes("zeros3"), scratch.bytes("step0"), "byte for byte");
        let (some, ones) = (scratch.values("some3"), scratch.values("ones3"));
        for (at, (name, _, first)) in all[0].iter().enumerate() {
            for (element, first) in first.iter().enumerate() {
                let of_step = |step: usize| all[step][at].2[element];
                let sum: f32 = (1..4).map(|step| rates[step - 1] * (of_step(step) - of_step(step - 1))).sum();
                prop_assert!((some[name][element] - (first + sum)).abs() < 2e-5, "{}", name);
                prop_assert!((ones[name][element] - of_step(3)).abs() < 1e-5, "{}", name);
            }
        }
    }
}

#[test]
fn sums_turn_as_their_inputs_do() {
    let scratch = Scratch::new();
    let all = stream(&scratch);
    for (name, step) in [("merged", 0), ("before", 1), ("after", 2)] {
        scratch.write(name, &all[step], Float::F32, CONFIG);
    }
    record(&scratch, "x", 50);
    record(&scratch, "y", 90);
    scratch.merge(&rotated("x", "y", ", rank: 3"), "files").unwrap();
    scratch
        .merge_with(&format!("{STEP}parameters: {{eta: 1.0, rank: 3}}"), "sums", &recorded(50, 90))
        .unwrap();
    scratch
        .merge_with(&format!("{STEP}parameters: {{eta: 1.0, rank: 3}}"), "back", &recorded(90, 50))
        .unwrap();
    let [files, sums, back] = ["files", "sums", "back"].map(|name| scratch.values(name));
    let distance = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    for (name, files) in &files {
        assert!(distance(files, &sums[name]) < 1e-4, "{name}");
        let is_map = name.contains("proj") || name.contains("lm_head");
        assert_eq!(distance(files, &back[name]) > 1e-2, is_map, "{name}: which side is which");
    }
    // Of what was recorded, something must be of this model, with its widths.
    let strange = |width: usize, name: &str| {
        let mut gram = Gram::new(width);
        gram.add(&random(4 * width, 1));
        let one: Recorded = [(name.to_owned(), gram.principal(2))].into();
        Options { recorded: Some([one.clone(), one]), ..Options::default() }
    };
    let step = format!("{STEP}parameters: {{eta: 1.0}}");
    for (options, part) in [
        (strange(8, "other"), "no map of this model"),
        (strange(3, "model.layers.0.self_attn.q_proj"), "inputs of 8, but 3"),
    ] {
        let error = scratch.merge_with(&step, "out", &options).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    let error = scratch.merge_with(&rotated("x", "y", ""), "out", &recorded(50, 90)).unwrap_err().to_string();
    assert!(error.contains("are not read"), "{error}");
    // What the method would make of inputs is known before they are recorded.
    let directions = |yaml: &str| scratch.read(yaml).unwrap().directions();
    assert_eq!(directions(&step), Some(32));
    assert_eq!(directions(&format!("{STEP}parameters: {{eta: 1.0, rank: [2, 9, 4]}}")), Some(9));
    assert_eq!(directions(&format!("{STEP}parameters: {{eta: 0.0}}")), Some(0));
    assert_eq!(
        directions("merge_method: linear\nmodels: [{model: '@before'}]\nparameters: {weight: 1.0}"),
        None
    );
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
