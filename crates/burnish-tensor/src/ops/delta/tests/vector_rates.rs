//! Rates for each channel, as scaled keys and values: `S_t = (I - k̃ k̃ᵀ) Diag(α) S_{t-1} + k̃ ṽᵀ` with `k̃ = √β_k ⊙ k` and
//! `ṽ = √β_v ⊙ v` (arXiv:2604.19021).

use super::*;
use crate::ops::root_gate;

/// Operands of the rule with vector rates; gates are before the logistic function, shaped like keys and values.
#[derive(Clone)]
struct Gated {
    x: Operands,
    erase: Vec<f32>,
    write: Vec<f32>,
}

impl Gated {
    fn random(shape: DeltaShape, rows: usize) -> Self {
        let mut x = Operands::random(shape, rows, shape.key_dim);
        x.beta.fill(1.0);
        let gate = |seed, len: usize| random(seed, len).iter().map(|x| 4.0 * x).collect();
        Gated { erase: gate(31, x.k.len()), write: gate(32, x.v.len()), x }
    }

    /// What the kernel gets.
    fn scaled(&self) -> Operands {
        let k = root_gate::forward(&self.x.k, &self.erase).to_vec();
        Operands { k, v: root_gate::forward(&self.x.v, &self.write).to_vec(), ..self.x.clone() }
    }
}

/// The equation, matrix by matrix, in f64, of sequences `[rows]` of one head.
fn equation(x: &Delta, erase: &[f64], write: &[f64], shape: DeltaShape, rows: usize) -> Vec<f64> {
    let (key, value) = (shape.key_dim, shape.value_dim);
    let root = |x: f64| (1.0 / (1.0 + (-x).exp())).sqrt();
    let mut state = vec![0.0; key * value];
    let mut out = Vec::new();
    for row in 0..rows {
        let k: Vec<f64> = (0..key).map(|c| x.k[row * key + c] * root(erase[row * key + c])).collect();
        let v: Vec<f64> = (0..value).map(|j| x.v[row * value + j] * root(write[row * value + j])).collect();
        let decayed: Vec<f64> =
            (0..key * value).map(|at| state[at] * x.log_decay[row * key + at / value].exp()).collect();
        for (at, s) in state.iter_mut().enumerate() {
            let (c, j) = (at / value, at % value);
            // Row c of I - k̃ k̃ᵀ.
            let kept: f64 = (0..key)
                .map(|i| (if i == c { 1.0 } else { 0.0 } - k[c] * k[i]) * decayed[i * value + j])
                .sum();
            *s = kept + k[c] * v[j];
        }
        for j in 0..value {
            out.push((0..key).map(|c| state[c * value + j] * x.q[row * key + c]).sum());
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// At every size of a chunk, with a shorter last one.
    #[test]
    fn scaled_keys_and_values_are_rates_for_each_channel(
        key in 2_usize..20, value in 1_usize..20, rows in 1_usize..80, chunk in 1_usize..65,
    ) {
        let shape = one_head(key, value);
        let gated = Gated::random(shape, rows);
        let expected = equation(&gated.x.wide(), &wide(&gated.erase), &wide(&gated.write), shape, rows);
        let scaled = gated.scaled();
        assert_close(&job(&scaled, shape, &Layout::causal(&[rows]), chunk).forward(false).0, &expected, 2e-5);
        let (mut state, mut out) = (vec![0.0; key * value], vec![0.0; value]);
        for row in 0..rows {
            delta_step(scaled.part(row..row + 1).rows(), shape, &mut [&mut state], &mut out, Workers::One);
            assert_close(&out, &expected[row * value..][..value], 2e-5);
        }
    }

    #[test]
    fn gradients_reach_the_rates(
        key in 2_usize..4, value in 1_usize..4, rows in 1_usize..20, chunk in 1_usize..33,
    ) {
        let (shape, layout) = (one_head(key, value), Layout::causal(&[rows]));
        let gated = Gated::random(shape, rows);
        let d = random(9, gated.x.v.len());
        let [_, d_k, d_v, ..] = gradients(&gated.scaled(), shape, &layout, chunk, &d);
        let [d_keys, d_erase] = root_gate::backward(&gated.x.k, &gated.erase, &d_k);
        let [_, d_write] = root_gate::backward(&gated.x.v, &gated.write, &d_v);
        let (x, erase, write) = (gated.x.wide(), wide(&gated.erase), wide(&gated.write));
        let loss = |x: &Delta, erase: &[f64], write: &[f64]| weighted(&d, &equation(x, erase, write, shape, rows));
        assert_gradient(&d_erase, &gated.erase, |erase| loss(&x, erase, &write), 2e-4);
        assert_gradient(&d_write, &gated.write, |write| loss(&x, &erase, write), 2e-4);
        assert_gradient(&d_keys, &gated.x.k, |k| loss(&Delta { k: k.to_vec(), ..x.clone() }, &erase, &write), 2e-4);
    }

    /// Rates that are equal in all channels are a rate of the head.
    #[test]
    fn equal_rates_are_one_rate(key in 2_usize..20, value in 1_usize..20, rows in 1_usize..90) {
        let (shape, layout) = (one_head(key, value), Layout::causal(&[rows]));
        let mut gated = Gated::random(shape, rows);
        let rates = random(33, rows);
        gated.erase = rates.iter().flat_map(|&rate| std::iter::repeat_n(rate, key)).collect();
        gated.write = rates.iter().flat_map(|&rate| std::iter::repeat_n(rate, value)).collect();
        let mut one = gated.x.clone();
        one.beta = crate::ops::sigmoid::forward(&rates).to_vec();
        let expected = job(&one, shape, &layout, DELTA_CHUNK).forward(false).0;
        assert_close(&job(&gated.scaled(), shape, &layout, DELTA_CHUNK).forward(false).0, &wide(&expected), 1e-5);
    }

    /// `‖I - k̃ k̃ᵀ‖ ≤ 1`: what is erased, without writing, never makes a state longer.
    #[test]
    fn erasing_never_makes_a_state_longer(key in 1_usize..20, rows in 1_usize..100, seed in 0_u64..1000) {
        let shape = one_head(key, 3);
        let mut gated = Gated::random(shape, rows);
        gated.x.log_decay.fill(0.0);
        gated.x.v.fill(0.0);
        let scaled = gated.scaled();
        let mut state = random(seed, 3 * key);
        let mut out = [0.0; 3];
        let length = |state: &[f32]| wide(state).iter().map(|x| x * x).sum::<f64>().sqrt();
        for row in 0..rows {
            let before = length(&state);
            delta_step(scaled.part(row..row + 1).rows(), shape, &mut [&mut state], &mut out, Workers::One);
            prop_assert!(length(&state) <= before * (1.0 + 1e-6));
        }
    }
}

/// Without the root: `(β ⊙ k) kᵀ` is not symmetric and can make a state longer, by 1.144 at most here.
#[test]
fn a_rate_on_one_side_alone_could_make_a_state_longer() {
    let (k, beta) = (0.5_f64.sqrt(), [1.0, 0.0]);
    let row = |c: usize| [0, 1].map(|i| if i == c { 1.0 } else { 0.0 } - beta[c] * k * k);
    let of = |angle: f64| {
        let x = [angle.cos(), angle.sin()];
        (0..2).map(|c| (row(c)[0] * x[0] + row(c)[1] * x[1]).powi(2)).sum::<f64>().sqrt()
    };
    let longest = (0..10_000).map(|at| of(f64::from(at) * 1e-3)).fold(0.0, f64::max);
    assert!((longest - 1.144).abs() < 1e-3, "{longest}");
}

#[test]
fn closed_gates_leave_the_state_and_closed_writes_only_erase() {
    let (shape, rows) = (one_head(4, 3), 70);
    let mut gated = Gated::random(shape, rows);
    gated.x.log_decay.fill(0.0);
    let state = random(11, 12);
    let run = |gated: &Gated| {
        let start = DeltaStart { state: Some(&state), position: 0 };
        let mut ends = Vec::new();
        delta_scan(gated.scaled().rows(), shape, &Layout::causal(&[rows]), &[start], &mut ends);
        ends.remove(0)
    };
    // Nothing is erased or written through keys that are closed.
    gated.erase.fill(f32::NEG_INFINITY);
    assert_eq!(run(&gated), state);
    // The same direction erased again and again, with nothing written: only what is across it stays.
    gated.erase.fill(200.0);
    gated.write.fill(f32::NEG_INFINITY);
    gated.x.k = [0.5_f32; 4].repeat(rows);
    let end = run(&gated);
    for j in 0..3 {
        let along: f32 = (0..4).map(|c| 0.5 * state[c * 3 + j]).sum();
        let expected: Vec<f64> = (0..4).map(|c| f64::from(state[c * 3 + j] - 0.5 * along)).collect();
        assert_close(&[0, 1, 2, 3].map(|c| end[c * 3 + j]), &expected, 1e-5);
    }
}

/// A key of unit length with open gates is read as it was written, whatever stood there.
#[test]
fn open_gates_overwrite() {
    let (shape, rows) = (one_head(4, 3), 9);
    let mut gated = Gated::random(shape, rows);
    gated.erase.fill(200.0);
    gated.write.fill(200.0);
    gated.x.q = gated.x.k.clone();
    let out = job(&gated.scaled(), shape, &Layout::causal(&[rows]), DELTA_CHUNK).forward(false).0;
    assert_close(&out, &wide(&gated.x.v), 2e-5);
}

/// Channels that are not written keep what they hold, channels that are get the new value: the same key rewritten.
#[test]
fn a_rewritten_key_changes_only_the_channels_that_are_written() {
    let shape = one_head(2, 2);
    let x = Operands {
        q: vec![1.0, 0.0, 1.0, 0.0],
        k: vec![1.0, 0.0, 1.0, 0.0],
        v: vec![3.0, 5.0, 7.0, 9.0],
        log_decay: vec![0.0; 4],
        beta: vec![1.0; 2],
    };
    // The second write erases half: ṽ reaches the first value alone.
    let half = 0.0;
    let (open, closed) = (200.0, f32::NEG_INFINITY);
    let gated = Gated { x, erase: vec![open, open, half, open], write: vec![open, open, open, closed] };
    let out = job(&gated.scaled(), shape, &Layout::causal(&[2]), DELTA_CHUNK).forward(false).0;
    let root = 0.5_f64.sqrt();
    assert_close(&out, &[3.0, 5.0, 0.5 * 3.0 + root * 7.0, 0.5 * 5.0], 1e-6);
}
