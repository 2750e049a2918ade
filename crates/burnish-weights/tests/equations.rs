//! Every method against its equation, written down once more in f64.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use burnish_weights::{Float, Options};
use common::{CONFIG, Scratch, Tensors, changed, decoder};

/// Base and two models, in f32.
fn three(scratch: &Scratch) -> [Tensors; 3] {
    let base = decoder(1);
    let models = [base.clone(), changed(&base, 2, 0.1), changed(&base, 3, 0.2)];
    for (name, tensors) in ["base", "a", "b"].iter().zip(&models) {
        scratch.write(name, tensors, Float::F32, CONFIG);
    }
    models
}

/// Merges, and compares each element with `expected(base, a, b)`.
fn compare(yaml: &str, expected: impl Fn(&str, f64, f64, f64) -> f64) {
    let scratch = Scratch::new();
    let [base, a, b] = three(&scratch);
    scratch.merge(yaml, "out").unwrap();
    let out = scratch.values("out");
    assert_eq!(out.len(), base.len());
    for ((base, a), b) in base.iter().zip(&a).zip(&b) {
        for (at, found) in out[&base.0].iter().enumerate() {
            let of = |tensor: &(String, Vec<usize>, Vec<f32>)| f64::from(tensor.2[at]);
            let expected = expected(&base.0, of(base), of(a), of(b));
            let error = (f64::from(*found) - expected).abs();
            assert!(error < 2e-6 * expected.abs().max(1.0), "{} [{at}]: {found}, not {expected}", base.0);
        }
    }
}

#[test]
fn linear_is_the_weighted_average_or_sum() {
    let models =
        "models: [{model: '@a', parameters: {weight: 0.3}}, {model: '@b', parameters: {weight: 0.9}}]";
    compare(&format!("merge_method: linear\n{models}"), |_, _, a, b| (0.3 * a + 0.9 * b) / 1.2);
    compare(&format!("merge_method: linear\nparameters: {{normalize: false}}\n{models}"), |_, _, a, b| {
        0.3 * a + 0.9 * b
    });
}

#[test]
fn cases_and_gradients_choose_by_name_and_layer() {
    let yaml = "
merge_method: linear
models:
  - model: '@a'
    parameters:
      weight:
        - {filter: mlp, value: [0.0, 1.0]}
        - {value: 0.5}
  - model: '@b'
    parameters: {weight: 1.0}
parameters: {normalize: false}
";
    compare(yaml, |name, _, a, b| {
        let weight = match name {
            name if name.contains("layers.0.mlp") => 0.0,
            name if name.contains("layers.1.mlp") => 1.0,
            _ => 0.5,
        };
        weight * a + b
    });
}

#[test]
fn task_arithmetic_adds_changes() {
    let yaml = "
merge_method: task_arithmetic
base_model: '@base'
models: [{model: '@a', parameters: {weight: 0.7}}, {model: '@base'}, {model: '@b', parameters: {weight: -0.4}}]
parameters: {lambda: 1.5}
";
    compare(yaml, |_, base, a, b| base + 1.5 * (0.7 * (a - base) - 0.4 * (b - base)));
    let normalized = yaml.replace("lambda: 1.5", "normalize: true").replace("-0.4", "0.5");
    compare(&normalized, |_, base, a, b| base + (0.7 * (a - base) + 0.5 * (b - base)) / 1.2);
}

#[test]
fn wise_ft_extrapolation_and_averages_are_lines() {
    let of = |method: &str, parameters: &str| {
        format!(
            "merge_method: {method}\nbase_model: '@base'\nmodels: [{{model: '@a'}}]\nparameters: {{{parameters}}}"
        )
    };
    compare(&of("wise_ft", "alpha: 0.3"), |_, base, a, _| 0.7 * base + 0.3 * a);
    compare(&of("extrapolate", "alpha: 0.3"), |_, base, a, _| a + 0.3 * (a - base));
    let ema = "merge_method: ema\nmodels: [{model: '@base'}, {model: '@a'}, {model: '@b'}]\nparameters: {decay: 0.6}";
    compare(ema, |_, base, a, b| 0.6 * (0.6 * base + 0.4 * a) + 0.4 * b);
}

#[test]
fn the_ends_of_a_line_are_the_models_byte_for_byte() {
    let scratch = Scratch::new();
    three(&scratch);
    for (at, (method, alpha, end)) in
        [("wise_ft", 0, "base"), ("wise_ft", 1, "a"), ("extrapolate", 0, "a")].into_iter().enumerate()
    {
        let yaml = format!(
            "merge_method: {method}\nbase_model: '@base'\nmodels: [{{model: '@a'}}]\nparameters: {{alpha: {alpha}}}"
        );
        let out = format!("out{at}");
        let report = scratch.merge(&yaml, &out).unwrap();
        assert_eq!(report.computed, 0);
        assert_eq!(scratch.bytes(&out), scratch.bytes(end));
    }
}

#[test]
fn slerp_keeps_the_length_between_models_of_one_length() {
    let scratch = Scratch::new();
    three(&scratch);
    let yaml = "merge_method: slerp\nbase_model: '@base'\nmodels: [{model: '@base'}, {model: '@b'}]\nparameters: {t: 0.5}";
    scratch.merge(yaml, "out").unwrap();
    let [base, b, out] = ["base", "b", "out"].map(|name| scratch.values(name));
    for (name, out) in &out {
        let dot = |x: &[f32], y: &[f32]| -> f64 {
            x.iter().zip(y).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum()
        };
        let (x, y) = (&base[name], &b[name]);
        let cosine = dot(x, y) / (dot(x, x) * dot(y, y)).sqrt();
        // In the middle, both have the factor sin(Ω/2)/sin Ω.
        let factor = if cosine > 0.9995 { 0.5 } else { (cosine.acos() / 2.0).sin() / cosine.acos().sin() };
        for ((out, x), y) in out.iter().zip(x).zip(y) {
            assert!((f64::from(*out) - factor * f64::from(x + y)).abs() < 1e-5, "{name}");
        }
    }
}

/// The change that TIES keeps, by sorting.
fn trimmed(model: &[f32], base: &[f32], density: f64) -> Vec<f64> {
    let change: Vec<f32> = model.iter().zip(base).map(|(model, base)| model - base).collect();
    let mut order: Vec<usize> = (0..change.len()).collect();
    // Stable: of equal sizes the first is kept.
    order.sort_by(|x, y| change[*y].abs().total_cmp(&change[*x].abs()));
    let count = ((density * change.len() as f64) as usize).max(1);
    let mut kept = vec![0.0; change.len()];
    order[..count].iter().for_each(|&at| kept[at] = f64::from(change[at]));
    kept
}

#[test]
fn ties_trims_elects_and_averages() {
    for (round, density) in [(0, 0.5), (1, 0.2), (2, 0.01), (3, 1.0)] {
        let scratch = Scratch::new();
        let [base, mut a, mut b] = three(&scratch);
        if round == 1 {
            // Many changes of one size, as between checkpoints in bf16.
            for (tensor, base) in a.iter_mut().chain(&mut b).zip(base.iter().chain(&base)) {
                for (at, (value, base)) in tensor.2.iter_mut().zip(&base.2).enumerate() {
                    *value = base.round() + [0.25, -0.25, 0.5, 0.0][at % 4];
                }
            }
        }
        let base: Tensors = if round == 1 {
            base.into_iter()
                .map(|(name, shape, values)| (name, shape, values.iter().map(|v| v.round()).collect()))
                .collect()
        } else {
            base
        };
        for (name, tensors) in [("base2", &base), ("a2", &a), ("b2", &b)] {
            scratch.write(name, tensors, Float::F32, CONFIG);
        }
        let yaml = format!(
            "merge_method: ties\nbase_model: '@base2'\nmodels: [{{model: '@a2', parameters: {{weight: 0.8}}}}, {{model: '@b2', \
             parameters: {{weight: 0.5}}}}]\nparameters: {{density: {density}, lambda: 1.1}}"
        );
        scratch.merge(&yaml, "out").unwrap();
        let out = scratch.values("out");
        for ((base, a), b) in base.iter().zip(&a).zip(&b) {
            let (a, b) = (trimmed(&a.2, &base.2, density), trimmed(&b.2, &base.2, density));
            for (at, found) in out[&base.0].iter().enumerate() {
                let (a, b) = (0.8 * a[at], 0.5 * b[at]);
                let is_positive = a + b >= 0.0;
                let agrees = |value: f64| value != 0.0 && (value > 0.0) == is_positive;
                let sum = [(a, 0.8), (b, 0.5)]
                    .iter()
                    .filter(|(value, _)| agrees(*value))
                    .fold((0.0, 0.0), |(sum, weight), (value, own)| (sum + value, weight + own));
                let expected = f64::from(base.2[at]) + 1.1 * if sum.1 == 0.0 { 0.0 } else { sum.0 / sum.1 };
                let error = (f64::from(*found) - expected).abs();
                assert!(error < 1e-5, "{density} {} [{at}]: {found}, not {expected}", base.0);
            }
        }
    }
}

#[test]
fn dare_keeps_the_sum_of_sizes_and_depends_on_the_seed_alone() {
    let scratch = Scratch::new();
    let [base, a, _] = three(&scratch);
    let yaml = "
merge_method: dare_linear
base_model: '@base'
models: [{model: '@a', parameters: {weight: 1.0, density: 0.4}}]
";
    let with = |seed, out: &str| {
        let options = Options { seed, ..Options::default() };
        scratch.merge_with(yaml, out, &options).unwrap();
        scratch.values(out)
    };
    let [one, same, other] = [(5, "one"), (5, "same"), (6, "other")].map(|(seed, out)| with(seed, out));
    assert_eq!(one, same);
    assert_ne!(one, other);
    let (mut kept, mut all) = (0, 0);
    for (base, a) in base.iter().zip(&a) {
        let change = |of: &[f32]| of.iter().zip(&base.2).map(|(x, y)| f64::from(x - y)).collect::<Vec<f64>>();
        let (whole, thinned) = (change(&a.2), change(&one[&base.0]));
        let size = |values: &[f64]| values.iter().map(|value| value.abs()).sum::<f64>();
        if thinned.iter().any(|value| *value != 0.0) {
            assert!((size(&whole) / size(&thinned) - 1.0).abs() < 1e-4, "{}", base.0);
        }
        kept += thinned.iter().filter(|value| **value != 0.0).count();
        all += whole.len();
    }
    let deviation = (0.24 / all as f64).sqrt();
    assert!((kept as f64 / all as f64 - 0.4).abs() < 4.0 * deviation, "{kept} of {all}");
    // DARE with TIES' signs and one model is DARE.
    let ties = yaml.replace("dare_linear", "dare_ties");
    let options = Options { seed: 5, ..Options::default() };
    scratch.merge_with(&ties, "ties", &options).unwrap();
    assert_eq!(scratch.values("ties"), one);
}

#[test]
fn each_model_drops_elements_of_its_own() {
    let scratch = Scratch::new();
    let [base, a, _] = three(&scratch);
    let yaml = "merge_method: dare_linear\nbase_model: '@base'\nmodels: [{model: '@a'}, {model: '@a'}]\n\
                parameters: {weight: 1.0, density: 0.5, rescale: false}";
    scratch.merge(yaml, "out").unwrap();
    let out = scratch.values("out");
    let mut counts = [0.0; 3];
    for ((name, _, base), (_, _, a)) in base.iter().zip(&a) {
        for ((out, base), a) in out[name].iter().zip(base).zip(a) {
            counts[((out - base) / (a - base)).round() as usize] += 1.0;
        }
    }
    // One of two models keeps an element half of the time, if neither knows of the other.
    let all: f64 = counts.iter().sum();
    assert!((counts[1] / all - 0.5).abs() < 4.0 * (0.25 / all).sqrt(), "{counts:?}");
}

#[test]
fn model_stock_lies_between_base_and_average() {
    for filter_wise in [false, true] {
        let scratch = Scratch::new();
        let [base, a, b] = three(&scratch);
        let yaml = format!(
            "merge_method: model_stock\nbase_model: '@base'\nmodels: [{{model: '@a'}}, {{model: '@b'}}]\n\
             parameters: {{filter_wise: {filter_wise}}}"
        );
        scratch.merge(&yaml, "out").unwrap();
        let out = scratch.values("out");
        for ((base, a), b) in base.iter().zip(&a).zip(&b) {
            let row = if filter_wise { *base.1.last().unwrap() } else { base.2.len() };
            for (at, out) in out[&base.0].chunks(row).enumerate() {
                let change = |of: &[f32]| -> Vec<f64> {
                    let rows = at * row..(at + 1) * row;
                    of[rows.clone()].iter().zip(&base.2[rows]).map(|(x, y)| f64::from(x - y)).collect()
                };
                let (x, y) = (change(&a.2), change(&b.2));
                let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
                let cosine = dot(&x, &y) / (dot(&x, &x) * dot(&y, &y)).sqrt();
                let t = 2.0 * cosine / (1.0 + cosine);
                for (i, out) in out.iter().enumerate() {
                    let expected = f64::from(base.2[at * row + i]) + t * (x[i] + y[i]) / 2.0;
                    assert!((f64::from(*out) - expected).abs() < 1e-4 * (1.0 + t.abs()), "{}", base.0);
                }
            }
        }
    }
}

#[test]
fn the_longcat_fusion_returns_one_expert_forgets_order_and_keeps_the_expectation() {
    let scratch = Scratch::new();
    let [base, a, b] = three(&scratch);
    let yaml = |models: &str, density: f64| {
        format!(
            "merge_method: longcat\nbase_model: '@base'\nmodels: [{models}]\nparameters: {{density: {density}}}"
        )
    };
    scratch.merge(&yaml("{model: '@a'}", 1.0), "one").unwrap();
    assert_eq!(scratch.bytes("one"), scratch.bytes("a"));
    scratch.merge(&yaml("{model: '@a'}, {model: '@b'}", 0.5), "ab").unwrap();
    scratch.merge(&yaml("{model: '@b'}, {model: '@a'}", 0.5), "ba").unwrap();
    assert_eq!(scratch.bytes("ab"), scratch.bytes("ba"));
    scratch.merge(&yaml("{model: '@b'}, {model: '@a'}", 1.0), "whole").unwrap();
    let whole = scratch.values("whole");
    for ((base, a), b) in base.iter().zip(&a).zip(&b) {
        let change =
            |of: &[f32]| -> Vec<f64> { of.iter().zip(&base.2).map(|(x, y)| f64::from(x - y)).collect() };
        let (x, y) = (change(&a.2), change(&b.2));
        let norm = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>().sqrt();
        let mean = (norm(&x) + norm(&y)) / 2.0;
        for (at, out) in whole[&base.0].iter().enumerate() {
            let (x, y) = (x[at] * mean / norm(&x), y[at] * mean / norm(&y));
            let kept = [x, y].into_iter().filter(|value| (*value > 0.0) == (x + y >= 0.0)).sum::<f64>();
            assert!((f64::from(*out) - f64::from(base.2[at]) - kept).abs() < 1e-5, "{}", base.0);
        }
    }
    // The mean over seeds of the thinned change of one expert is its change.
    let mut sum = vec![0.0; a[0].2.len()];
    const SEEDS: u64 = 100;
    let merge = scratch.read(&yaml("{model: '@a'}", 0.5)).unwrap();
    for seed in 0..SEEDS {
        let out = format!("seed{seed}");
        let options = Options { seed, ..Options::default() };
        merge.run(&scratch.path(&out), &options, &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
        let values = &scratch.values(&out)[&a[0].0];
        sum.iter_mut().zip(values).zip(&base[0].2).for_each(|((sum, x), y)| *sum += f64::from(x - y));
    }
    for ((sum, x), y) in sum.iter().zip(&a[0].2).zip(&base[0].2) {
        let change = f64::from(x - y);
        // Each draw is 0 or twice the change.
        let deviation = change.abs() / (SEEDS as f64).sqrt();
        assert!((sum / SEEDS as f64 - change).abs() < 5.0 * deviation + 1e-6, "{sum} {change}");
    }
}
