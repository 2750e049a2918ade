use burnish_core::rng::Stream;

use super::layout::{Kind, Projection, named};
use super::project::{blend, projection};

fn random(count: usize, seed: u64) -> Vec<f32> {
    let mut stream = Stream::new(seed);
    (0..count).map(|_| stream.normal() as f32).collect()
}

const DIMS: usize = 4;
const WIDTH: usize = 11;

fn restored(pre: &[f32], post: &[f32], keys: &[f32], lambda: f64) -> Vec<f32> {
    let share = projection(keys, DIMS, lambda).unwrap();
    let mut out = vec![0.0; post.len()];
    blend(&share, pre, post, WIDTH, &mut out);
    out
}

fn near(a: &[f32], b: &[f32], tolerance: f32) -> bool {
    a.iter().zip(b).all(|(a, b)| (a - b).abs() < tolerance)
}

#[test]
fn it_is_the_papers_closed_form() {
    let [pre, post, keys] = [1, 2, 3].map(|seed| random(DIMS * WIDTH, seed));
    for relative in [0.01, 0.1, 1.0] {
        let squares: f64 = keys.iter().map(|value| f64::from(*value).powi(2)).sum();
        let lambda = relative * squares / DIMS as f64;
        // W_Q^post + (R^pre − W_Q^post Kᵀ)(K Kᵀ + λ I_d)⁻¹ K, with d = inputs, written with the rows that are stored.
        let at = |rows: &[f32], dim: usize, input: usize| f64::from(rows[dim * WIDTH + input]);
        let routing = |queries: &[f32], i: usize, j: usize| -> f64 {
            (0..DIMS).map(|dim| at(queries, dim, i) * at(&keys, dim, j)).sum()
        };
        let missing = matrix(WIDTH, WIDTH, |i, j| routing(&pre, i, j) - routing(&post, i, j));
        let regular = matrix(WIDTH, WIDTH, |i, j| routing(&keys, i, j) + if i == j { lambda } else { 0.0 });
        let solved = solve(regular, matrix(WIDTH, DIMS, |input, dim| at(&keys, dim, input)));
        let found = restored(&pre, &post, &keys, relative);
        for (input, missing) in missing.iter().enumerate() {
            for dim in 0..DIMS {
                let moved: f64 =
                    missing.iter().zip(&solved).map(|(missing, solved)| missing * solved[dim]).sum();
                let expected = at(&post, dim, input) + moved;
                assert!((at(&found, dim, input) - expected).abs() < 1e-5, "{dim} {input}");
            }
        }
    }
}

fn matrix(rows: usize, cols: usize, value: impl Fn(usize, usize) -> f64) -> Vec<Vec<f64>> {
    (0..rows).map(|row| (0..cols).map(|col| value(row, col)).collect()).collect()
}

/// `a⁻¹ b` by elimination.
fn solve(mut a: Vec<Vec<f64>>, mut b: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    for pivot in 0..a.len() {
        let factor = a[pivot][pivot];
        a[pivot].iter_mut().chain(&mut b[pivot]).for_each(|value| *value /= factor);
        for row in (0..a.len()).filter(|row| *row != pivot) {
            let factor = a[row][pivot];
            let (from_a, from_b) = (a[pivot].clone(), b[pivot].clone());
            a[row].iter_mut().zip(from_a).for_each(|(value, from)| *value -= factor * from);
            b[row].iter_mut().zip(from_b).for_each(|(value, from)| *value -= factor * from);
        }
    }
    b
}

#[test]
fn the_limits_are_full_restoration_and_none_and_routing_departs_steadily_between() {
    let [pre, post, keys] = [4, 5, 6].map(|seed| random(DIMS * WIDTH, seed));
    assert!(near(&restored(&pre, &post, &keys, 1e-9), &pre, 1e-5));
    assert!(near(&restored(&pre, &post, &keys, 1e9), &post, 1e-5));
    assert!(near(&restored(&post, &post, &keys, 0.1), &post, f32::MIN_POSITIVE));
    // ‖(W_Q − W_Q^pre) Kᵀ‖
    let departure = |lambda| {
        let found = restored(&pre, &post, &keys, lambda);
        let change =
            |dim: usize, input: usize| f64::from(found[dim * WIDTH + input] - pre[dim * WIDTH + input]);
        let routing = |i: usize, j: usize| -> f64 {
            (0..DIMS).map(|dim| change(dim, i) * f64::from(keys[dim * WIDTH + j])).sum()
        };
        matrix(WIDTH, WIDTH, routing).concat().iter().map(|value| value * value).sum::<f64>().sqrt()
    };
    let departures = [0.001, 0.01, 0.1, 1.0, 10.0, 100.0].map(departure);
    assert!(departures.windows(2).all(|pair| pair[0] < pair[1]), "{departures:?}");
}

#[test]
fn keys_without_full_rank_need_a_lambda() {
    let mut keys = random(DIMS * WIDTH, 7);
    keys[..WIDTH].fill(0.0);
    assert!(projection(&keys, DIMS, 0.0).unwrap_err().contains("full rank"));
    assert!(projection(&keys, DIMS, 0.01).is_ok());
    assert!(projection(&[0.0; DIMS * WIDTH], DIMS, 0.01).is_err(), "no keys at all");
}

#[test]
fn names_of_projections_are_those_of_architectures() {
    for (name, expected) in [
        ("model.layers.0.self_attn.q_proj.weight", Some((Projection::Query, Kind::Weight))),
        ("model.layers.0.self_attn.k_proj.bias", Some((Projection::Key, Kind::Bias))),
        ("model.layers.0.self_attn.q_norm.weight", Some((Projection::Query, Kind::Norm))),
        ("gpt_neox.layers.1.attention.query_key_value.weight", Some((Projection::Fused, Kind::Weight))),
        ("layers.0.attention.wk.weight", Some((Projection::Key, Kind::Weight))),
        ("model.layers.0.self_attn.o_proj.weight", None),
        ("model.layers.0.mlp.up_proj.weight", None),
        ("model.layers.0.self_attn.q_proj.scales", None),
        ("q_proj", None),
    ] {
        assert_eq!(named(name), expected, "{name}");
    }
}
