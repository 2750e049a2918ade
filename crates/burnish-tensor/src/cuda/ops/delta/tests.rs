//! Chunks on the GPU against those of the CPU.

use super::*;
use crate::{
    DeltaRows, Segment,
    cuda::testing::{device, rounded},
    ops::{
        delta::{self, Job},
        unit_heads,
    },
    testing::random,
};

/// A prefix of more than a chunk that two segments go on from, one of them over the end of a chunk; an empty segment; a
/// sequence of its own.
fn forest() -> Layout {
    let segment = Segment::causal;
    let segments = vec![
        segment(0, 70, None),
        segment(70, 60, Some(0)),
        segment(130, 0, Some(0)),
        segment(130, 5, Some(2)),
        segment(135, 1, Some(1)),
        segment(136, 9, None),
    ];
    Layout::new(segments).unwrap()
}

#[test]
fn chunks_end_where_positions_are_multiples_of_their_length() {
    let Lists { chunks, islands, ends, states } = Lists::new(&forest(), true);
    let expected = [
        [0, 64, -1, 0, 0],
        [64, 6, 0, 1, 1],
        [70, 58, 1, 2, 0],
        [128, 2, 2, 3, 1],
        [130, 5, 1, 4, 1],
        [135, 1, 3, 5, 1],
        [136, 9, -1, 6, 0],
    ];
    assert_eq!(chunks, expected.concat());
    assert_eq!(islands, [0, 6, 6, 7]);
    assert_eq!((ends, states), ([1, 3, 1, 4, 5, 6].map(Some).to_vec(), 7));
    let Lists { chunks, ends, states, .. } = Lists::new(&forest(), false);
    let after: Vec<i32> = chunks.chunks(5).map(|chunk| chunk[3]).collect();
    assert_eq!((after, ends, states), (vec![0, 1, 2, 3, -1, -1, -1], vec![None; 6], 4));
}

#[test]
fn a_card_that_can_not_run_the_kernels_is_refused() {
    assert!(needed(87_040, (8, 6), 99 << 10).is_ok());
    assert!(needed(54_272, (7, 5), 64 << 10).is_err());
    let error = needed(87_040, (8, 0), 48 << 10).unwrap_err().to_string();
    assert!(error.contains("this GPU has 8.0 and 49152") && error.contains("device = \"cpu\""), "{error}");
}

/// The length of the difference as a share of the length of what is expected.
fn apart(ours: &[f32], expected: &[f32]) -> f64 {
    let length = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>().sqrt();
    assert_eq!(ours.len(), expected.len());
    let difference = length(&mut ours.iter().zip(expected).map(|(a, b)| f64::from(a - b)));
    difference / length(&mut expected.iter().map(|&x| f64::from(x))).max(1e-30)
}

fn check(shape: DeltaShape, channels: usize, layout: &Layout, precision: Precision) {
    let Some(cuda) = device() else { return };
    let rows = layout.rows();
    let unit = |seed| {
        let x = random(seed, rows * shape.key_width());
        rounded(precision, unit_heads::forward(&x, shape.key_dim, 1.0).to_vec())
    };
    // Some decays forget everything, and one rate is 0.
    let log = |(at, x): (usize, f32)| match at % 23 {
        7 => -200.0 * (1.0 + x),
        11 => f32::NEG_INFINITY,
        _ => -0.2 * (1.0 + x),
    };
    let (q, k, v) = (unit(1), unit(2), rounded(precision, random(3, rows * shape.value_width())));
    let log_decay = random(4, rows * shape.value_heads * channels).into_iter().enumerate().map(log);
    let log_decay: Vec<f32> = log_decay.collect();
    let mut beta: Vec<f32> = random(5, rows * shape.value_heads).iter().map(|x| 0.5 + 0.49 * x).collect();
    beta[1] = 0.0;
    let beta = rounded(precision, beta);
    let d_out = rounded(precision, random(6, rows * shape.value_width()));

    let job = Job::new(DeltaRows { q: &q, k: &k, v: &v, log_decay: &log_decay, beta: &beta }, shape, layout);
    let (expected, kept) = job.forward(true);
    let d_expected = delta::backward(&job, &kept, &d_out);

    let [gq, gk, gv, gb, gd] = [&q, &k, &v, &beta, &d_out].map(|x| Values::upload(&cuda, precision, x));
    let logs = Buffer::upload(&cuda, &log_decay);
    let chunks = Chunks::upload(&cuda, layout, false);
    let operands =
        Operands { q: gq.all(), k: gk.all(), v: gv.all(), log_decay: logs.all(), beta: gb.all(), shape };
    let inputs = Inputs { operands, chunks: &chunks };
    let (out, states) = forward(&cuda, inputs);
    let d = backward(&cuda, inputs, states.all(), gd.all());
    // Operands of products are rounded to bf16.
    let tolerance = if precision == Precision::F32 { 2e-5 } else { 2e-2 };
    let compare = |name: &str, ours: &[f32], expected: &[f32]| {
        let share = apart(ours, expected);
        println!("{precision:?} {shape:?} {channels}: {name} {share:.1e} apart");
        assert!(share < tolerance, "{name} in {precision:?}: {share} of the length apart");
    };
    compare("out", &out.download().unwrap(), &expected);
    compare("d_v", &d.v.download().unwrap(), &d_expected.v);
    compare("d_beta", &d.beta.download().unwrap(), &d_expected.beta);
    compare("d_q", &d.q.download().unwrap(), &d_expected.q);
    compare("d_k", &d.k.download().unwrap(), &d_expected.k);
    compare("d_log_decay", &d.log_decay.download().unwrap(), &d_expected.log_decay);
}

#[test]
fn a_rule_and_its_gradients_are_those_of_the_cpu() {
    let shape = DeltaShape { key_heads: 1, value_heads: 1, key_dim: 8, value_dim: 16 };
    for precision in [Precision::F32, Precision::Bf16] {
        check(shape, 1, &forest(), precision);
        check(shape, shape.key_dim, &forest(), precision);
    }
}

#[test]
fn heads_of_several_tiles_and_of_odd_sizes_are_those_of_the_cpu() {
    let layout = Layout::causal(&[67, 3]);
    for precision in [Precision::F32, Precision::Bf16] {
        for shape in [
            DeltaShape { key_heads: 1, value_heads: 2, key_dim: 5, value_dim: 70 },
            DeltaShape { key_heads: 1, value_heads: 1, key_dim: 68, value_dim: 3 },
        ] {
            check(shape, 1, &layout, precision);
            check(shape, shape.key_dim, &layout, precision);
        }
    }
}

#[test]
fn heads_that_stay_in_a_block_and_such_that_do_not_are_those_of_the_cpu() {
    // Two parts that are copied eight columns at a time, and one more than a block keeps.
    for dim in [KEPT - 56, KEPT + 8] {
        let shape = DeltaShape { key_heads: 1, value_heads: 2, key_dim: dim, value_dim: dim };
        check(shape, 1, &forest(), Precision::Bf16);
    }
}
