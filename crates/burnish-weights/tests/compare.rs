//! Diff, inspection and extraction.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::ops::ControlFlow;
use std::path::Path;

use burnish_weights::{Diff, DiffOptions, Extract, Extracted, Float, Kind, WeightsError, diff, inspect};
use common::{CONFIG, Scratch, Tensors, changed, decoder, fill, random};

fn difference(scratch: &Scratch, from: &str, to: &str, rank_tolerance: Option<f64>) -> Diff {
    diff(&scratch.path(from), &scratch.path(to), DiffOptions { rank_tolerance }, &mut |_, _| {}).unwrap()
}

/// `tensors` with a change of rank `rank` in every matrix that `is_meant`, with singular values that fall to a third.
fn low_rank(tensors: &Tensors, rank: usize, is_meant: impl Fn(&str) -> bool) -> Tensors {
    let change = |(at, (name, shape, values)): (usize, &(String, Vec<usize>, Vec<f32>))| {
        let mut values = values.clone();
        if shape.len() == 2 && is_meant(name) {
            for term in 0..rank {
                let left = random(shape[0], (500 + 10 * at + term) as u64);
                let right = random(shape[1], (900 + 10 * at + term) as u64);
                for (row, left) in left.iter().enumerate() {
                    for (col, right) in right.iter().enumerate() {
                        values[row * shape[1] + col] += 0.1 * left * right;
                    }
                }
            }
        }
        (name.clone(), shape.clone(), values)
    };
    tensors.iter().enumerate().map(change).collect()
}

#[test]
fn what_changed_is_told_with_norm_share_and_rank() {
    let scratch = Scratch::new();
    let base = fill(
        vec![
            ("a.weight".into(), vec![40, 60]),
            ("b.weight".into(), vec![50, 30]),
            ("norm.weight".into(), vec![60]),
            ("gone.weight".into(), vec![2]),
            ("wide.weight".into(), vec![4, 4]),
        ],
        1,
    );
    let mut tuned = low_rank(&base, 3, |name| name == "a.weight");
    tuned[2].2[7] += 0.5;
    tuned[3].0 = "new.weight".into();
    tuned[4].1 = vec![2, 8];
    scratch.write("base", &base, Float::F32, "{}");
    scratch.write("tuned", &tuned, Float::F32, "{}");
    let found = difference(&scratch, "base", "tuned", Some(1e-4));
    assert_eq!(
        (&*found.only_from, &*found.only_to),
        (&["gone.weight".to_owned()][..], &["new.weight".to_owned()][..])
    );
    let kinds: Vec<Kind> = found.tensors.iter().map(|tensor| tensor.kind).collect();
    assert_eq!(kinds, [Kind::Changed, Kind::Same, Kind::Changed, Kind::Reshaped]);
    let [a, b, norm, _] = &found.tensors[..] else { panic!() };
    let rank = a.rank.unwrap();
    assert_eq!((rank.rank, rank.is_at_least), (3, false));
    assert!(rank.stable > 1.0 && rank.stable < 3.0, "{rank:?}");
    let square: f64 = base[0].2.iter().zip(&tuned[0].2).map(|(x, y)| f64::from(y - x).powi(2)).sum();
    let size: f64 = base[0].2.iter().map(|x| f64::from(*x).powi(2)).sum();
    assert!((a.norm.unwrap() - square.sqrt()).abs() < 1e-9 * square.sqrt());
    assert!((a.relative.unwrap() - (square / size).sqrt()).abs() < 1e-9);
    assert_eq!((b.norm, b.changed, b.rank), (Some(0.0), Some(0.0), None));
    assert_eq!((norm.largest, norm.rank), (Some(0.5), None));
    assert!((norm.changed.unwrap() - 1.0 / 60.0).abs() < 1e-12);
    assert!((found.norm - (square + 0.25).sqrt()).abs() < 1e-6);
    let same = difference(&scratch, "base", "base", Some(0.01));
    assert!(same.norm == 0.0 && same.tensors.iter().all(|tensor| tensor.kind == Kind::Same));
}

#[test]
fn a_full_change_has_full_rank_and_a_larger_one_is_bounded() {
    let scratch = Scratch::new();
    let base = fill(vec![("a.weight".into(), vec![20, 30]), ("b.weight".into(), vec![300, 310])], 1);
    scratch.write("base", &base, Float::F32, "{}");
    scratch.write("tuned", &changed(&base, 2, 0.1), Float::F32, "{}");
    let found = difference(&scratch, "base", "tuned", Some(1e-3));
    let [a, b] = [0, 1].map(|at| found.tensors[at].rank.unwrap());
    assert_eq!((a.rank, a.is_at_least), (20, false));
    assert_eq!((b.rank, b.is_at_least), (256, true));
}

#[test]
fn what_is_not_finite_does_not_end_a_comparison() {
    let scratch = Scratch::new();
    let base = decoder(1);
    let mut broken = base.clone();
    broken[4].2[3] = f32::INFINITY;
    scratch.write("base", &base, Float::Bf16, CONFIG);
    scratch.write("broken", &broken, Float::Bf16, CONFIG);
    let found = difference(&scratch, "base", "broken", None);
    assert_eq!(found.tensors[4].kind, Kind::Incomparable);
    assert!(found.tensors[4].note.as_ref().unwrap().contains("inf at element [0, 3]"));
    let seen = inspect(&scratch.path("broken"), true).unwrap();
    let problems: Vec<&str> =
        seen.tensors.iter().filter(|tensor| tensor.problem.is_some()).map(|tensor| &*tensor.name).collect();
    assert_eq!(problems, [&*base[4].0]);
    assert!(
        inspect(&scratch.path("broken"), false)
            .unwrap()
            .tensors
            .iter()
            .all(|tensor| tensor.problem.is_none())
    );
}

#[test]
fn an_inspection_counts_what_is_there() {
    let scratch = Scratch::new();
    let tensors = decoder(1);
    let parameters: usize = tensors.iter().map(|(_, _, values)| values.len()).sum();
    scratch.write_in("sharded", &tensors, Float::F16, CONFIG, 600);
    let seen = inspect(&scratch.path("sharded"), false).unwrap();
    assert_eq!(seen.architecture.as_deref(), Some("llama"));
    assert_eq!((seen.parameters, seen.bytes), (parameters as u64, 2 * parameters as u64));
    assert_eq!((seen.tensors.len(), seen.types["F16"].tensors), (tensors.len(), tensors.len()));
    assert_eq!(seen.files.len(), 4);
    assert_eq!(seen.tensors[1].name, tensors[1].0);
    // One file alone.
    let file = scratch.path("sharded").join(&seen.files[0].0);
    assert!(inspect(&file, true).unwrap().tensors.len() < tensors.len());
    assert!(matches!(inspect(Path::new("/absent"), false), Err(WeightsError::Malformed { .. })));
}

fn extract(scratch: &Scratch, rank: usize, targets: &[&str], out: &str) -> Result<Extracted, WeightsError> {
    let extract = Extract {
        base: scratch.path("base"),
        tuned: scratch.path("tuned"),
        rank,
        targets: targets.iter().map(|target| (*target).to_owned()).collect(),
        dtype: Float::F32,
    };
    extract.run(&scratch.path(out), &mut |_| ControlFlow::Continue(()))
}

#[test]
fn a_change_of_low_rank_is_extracted_exactly() {
    let scratch = Scratch::new();
    let base = decoder(1);
    let tuned = low_rank(&base, 2, |name| name.contains("layers.0.self_attn") || name.contains("mlp"));
    scratch.write("base", &base, Float::F32, CONFIG);
    scratch.write("tuned", &tuned, Float::F32, CONFIG);
    for rank in [2, 3, 6] {
        let out = format!("adapter{rank}");
        let found = extract(&scratch, rank, &[], &out).unwrap();
        assert!(found.error < 1e-3 && found.left_out.is_empty(), "{found:?}");
        assert_eq!(found.targets, ["down_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"]);
        assert_eq!(found.maps, 12, "those that did not change are adapted by nothing");
        let adapter =
            burnish_weights::Checkpoint::open(&scratch.path(&out).join("adapter_model.safetensors")).unwrap();
        assert_eq!(adapter.len(), 24);
        let factor = |module: &str, which: &str| {
            let view = adapter.get(&format!("base_model.model.{module}.lora_{which}.weight")).unwrap();
            let values: Vec<f32> =
                view.bytes.chunks(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect();
            (view.shape.to_vec(), values)
        };
        for ((name, shape, base), (_, _, tuned)) in base.iter().zip(&tuned) {
            let Some(module) = name.strip_suffix("_proj.weight") else { continue };
            let module = format!("{module}_proj");
            let ((a_shape, a), (b_shape, b)) = (factor(&module, "A"), factor(&module, "B"));
            assert_eq!((a_shape, b_shape), (vec![rank, shape[1]], vec![shape[0], rank]));
            for row in 0..shape[0] {
                for col in 0..shape[1] {
                    let product: f32 = (0..rank).map(|at| b[row * rank + at] * a[at * shape[1] + col]).sum();
                    let change = tuned[row * shape[1] + col] - base[row * shape[1] + col];
                    assert!((product - change).abs() < 1e-5, "{name} [{row}, {col}]");
                }
            }
        }
        let config = std::fs::read_to_string(scratch.path(&out).join("adapter_config.json")).unwrap();
        assert!(
            config.contains(&format!("\"r\": {rank}")) && config.contains("\"peft_type\": \"LORA\""),
            "{config}"
        );
    }
}

#[test]
fn what_an_adapter_lacks_is_measured_and_named() {
    let scratch = Scratch::new();
    let base = decoder(1);
    let mut tuned = low_rank(&base, 2, |name| name.contains("q_proj") || name.contains("up_proj"));
    tuned[0].2[0] += 1.0;
    let norm = tuned.len() - 2;
    tuned[norm].2[0] += 1.0;
    scratch.write("base", &base, Float::F32, CONFIG);
    scratch.write("tuned", &tuned, Float::F32, CONFIG);
    let found = extract(&scratch, 1, &["q_proj"], "adapter").unwrap();
    let up = |layer: usize| format!("model.layers.{layer}.mlp.up_proj.weight");
    let mut left_out = found.left_out.clone();
    left_out.sort();
    assert_eq!(left_out, [base[0].0.clone(), up(0), base[norm].0.clone(), up(1)]);
    // The best product of rank 1 of a matrix of rank 2 lacks its second singular value.
    let change = |at: usize| -> Vec<f64> {
        base[at].2.iter().zip(&tuned[at].2).map(|(x, y)| f64::from(y - x)).collect()
    };
    let (mut lacked, mut all) = (0.0, 0.0);
    for at in [1, 9] {
        assert!(base[at].0.contains("q_proj"));
        // Of a matrix of rank 2, σ₁² + σ₂² is the trace of AᵀA, and σ₁⁴ + σ₂⁴ that of its square.
        let change = change(at);
        let gram =
            |i: usize, j: usize| (0..8).map(|row| change[row * 8 + i] * change[row * 8 + j]).sum::<f64>();
        let trace: f64 = (0..8).map(|i| gram(i, i)).sum();
        let squares: f64 = (0..64).map(|at| gram(at / 8, at % 8).powi(2)).sum();
        let product = (trace * trace - squares) / 2.0;
        all += trace;
        lacked += (trace - (trace * trace - 4.0 * product).sqrt()) / 2.0;
    }
    assert!((found.error - (lacked / all).sqrt()).abs() < 1e-3, "{found:?}");
}

#[test]
fn what_cannot_be_extracted_says_why() {
    let scratch = Scratch::new();
    let base = decoder(1);
    scratch.write("base", &base, Float::F32, CONFIG);
    scratch.write("tuned", &base, Float::F32, CONFIG);
    let fails = |rank, targets: &[&str], part: &str| {
        let error = extract(&scratch, rank, targets, "out").unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
        assert!(!scratch.path("out").exists());
    };
    fails(4, &[], "nothing to extract");
    fails(0, &[], "1 or more");
    fails(4, &["query"], "no map is called query; there are down_proj");
    std::fs::remove_dir_all(scratch.path("tuned")).unwrap();
    scratch.write("tuned", &changed(&base, 2, 0.1), Float::F32, CONFIG);
    fails(usize::MAX, &[], "no map has more than 8 dimensions");
    std::fs::remove_dir_all(scratch.path("tuned")).unwrap();
    let more = [base.clone(), fill(vec![("model.extra.weight".into(), vec![2, 2])], 1)].concat();
    scratch.write("tuned", &more, Float::F32, CONFIG);
    fails(4, &[], "model.extra.weight");
    std::fs::remove_dir_all(scratch.path("tuned")).unwrap();
    scratch.write("tuned", &changed(&base, 2, 0.1), Float::F32, &CONFIG.replace("llama", "qwen3"));
    fails(4, &[], "only models of one architecture");
    std::fs::remove_dir_all(scratch.path("base")).unwrap();
    scratch.write("base", &base, Float::F32, &CONFIG.replace("llama", "gpt2"));
    fails(4, &[], "models of type gpt2 store their maps transposed");
    std::fs::remove_dir_all(scratch.path("base")).unwrap();
    scratch.write("base", &base, Float::F32, CONFIG);
    std::fs::remove_dir_all(scratch.path("tuned")).unwrap();
    scratch.write("tuned", &base[..4].to_vec(), Float::F32, CONFIG);
    fails(4, &[], "model.layers.0.self_attn.o_proj.weight");
}
