//! Chunks against the recurrence, and what a delta rule means.

use proptest::prelude::*;

use super::{backward::Gradients, *};
use crate::{
    Workers,
    reference::{self, Delta},
    testing::{assert_close, assert_gradient, forests, random, weighted, wide},
};

mod vector_rates;

/// Operands of a delta rule.
#[derive(Clone)]
struct Operands {
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    log_decay: Vec<f32>,
    beta: Vec<f32>,
}

impl Operands {
    /// Keys of unit length; decays of all sizes, some of which forget everything; rates in `(0, 1)`.
    fn random(shape: DeltaShape, rows: usize, channels: usize) -> Self {
        let unit = |seed| {
            let x = random(seed, rows * shape.key_width());
            crate::ops::unit_heads::forward(&x, shape.key_dim, 1.0).to_vec()
        };
        let log = |(at, x): (usize, f32)| if at % 23 == 7 { -200.0 * (1.0 + x) } else { -0.4 * (1.0 + x) };
        let logs = random(4, rows * shape.value_heads * channels);
        Operands {
            q: unit(1),
            k: unit(2),
            v: random(3, rows * shape.value_width()),
            log_decay: logs.into_iter().enumerate().map(log).collect(),
            beta: random(5, rows * shape.value_heads).iter().map(|x| 0.5 + 0.49 * x).collect(),
        }
    }

    fn rows(&self) -> DeltaRows<'_> {
        let Operands { q, k, v, log_decay, beta } = self;
        DeltaRows { q, k, v, log_decay, beta }
    }

    fn wide(&self) -> Delta {
        let [q, k, v, log_decay, beta] =
            [&self.q, &self.k, &self.v, &self.log_decay, &self.beta].map(|x| wide(x));
        Delta { q, k, v, log_decay, beta }
    }

    /// Some rows, of one sequence.
    fn part(&self, rows: Range<usize>) -> Operands {
        let all = self.beta.len();
        let heads = |x: &[f32], count: usize| x[rows.start * count..rows.end * count].to_vec();
        // The number of rows is found from any two operands whose widths are known; tests here have one value head.
        let of = |x: &[f32]| heads(x, x.len() / all);
        Operands {
            q: of(&self.q),
            k: of(&self.k),
            v: of(&self.v),
            log_decay: of(&self.log_decay),
            beta: of(&self.beta),
        }
    }
}

fn job<'a>(x: &'a Operands, shape: DeltaShape, layout: &'a Layout, chunk: usize) -> Job<'a> {
    Job::from_starts(x.rows(), shape, layout, &[], chunk)
}

fn shapes(key_dims: Range<usize>, value_dims: Range<usize>) -> impl Strategy<Value = DeltaShape> {
    (1_usize..3, 1_usize..3, key_dims, value_dims).prop_map(|(key_heads, group, key_dim, value_dim)| {
        DeltaShape { key_heads, value_heads: key_heads * group, key_dim, value_dim }
    })
}

fn one_head(key_dim: usize, value_dim: usize) -> DeltaShape {
    DeltaShape { key_heads: 1, value_heads: 1, key_dim, value_dim }
}

/// The gradients of `Σ d ⊙ out`, in the order of [`Operands`].
fn gradients(x: &Operands, shape: DeltaShape, layout: &Layout, chunk: usize, d: &[f32]) -> [Buffer; 5] {
    let job = job(x, shape, layout, chunk);
    let (_, states) = job.forward(true);
    let Gradients { q, k, v, log_decay, beta } = backward(&job, &states, d);
    [q, k, v, log_decay, beta]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn chunks_give_what_the_recurrence_gives(
        shape in shapes(1..40, 1..80), layout in forests(0..90), chunk in 1_usize..65, by_channel: bool,
    ) {
        let channels = if by_channel { shape.key_dim } else { 1 };
        let x = Operands::random(shape, layout.rows(), channels);
        let (expected, finals) = reference::delta_rule(&x.wide(), shape, &layout);
        let mut ends = Vec::new();
        let out = scan(&job(&x, shape, &layout, chunk), &mut ends);
        assert_close(&out, &expected, 2e-5);
        for (end, expected) in ends.iter().zip(&finals) {
            assert_close(end, expected, 2e-5);
        }
        let (recorded, _) = job(&x, shape, &layout, chunk).forward(true);
        prop_assert_eq!(&recorded[..], &out[..]);
    }

    #[test]
    fn gradients_are_those_of_the_recurrence(
        shape in shapes(1..4, 1..4), layout in forests(0..24), chunk in 1_usize..65, by_channel: bool,
    ) {
        let channels = if by_channel { shape.key_dim } else { 1 };
        let x = Operands::random(shape, layout.rows(), channels);
        let d = random(9, x.v.len());
        let wide = x.wide();
        let loss = |of: &dyn Fn(&mut Delta)| {
            let mut moved = wide.clone();
            of(&mut moved);
            weighted(&d, &reference::delta_rule(&moved, shape, &layout).0)
        };
        let [q, k, v, log_decay, beta] = gradients(&x, shape, &layout, chunk, &d);
        assert_gradient(&q, &x.q, |q| loss(&|x| x.q = q.to_vec()), 2e-4);
        assert_gradient(&k, &x.k, |k| loss(&|x| x.k = k.to_vec()), 2e-4);
        assert_gradient(&v, &x.v, |v| loss(&|x| x.v = v.to_vec()), 2e-4);
        assert_gradient(&log_decay, &x.log_decay, |g| loss(&|x| x.log_decay = g.to_vec()), 2e-4);
        assert_gradient(&beta, &x.beta, |b| loss(&|x| x.beta = b.to_vec()), 2e-4);
    }

    /// Of larger heads the derivative along one direction: all gradients at once.
    #[test]
    fn gradients_of_large_heads_are_those_of_the_recurrence(
        shape in shapes(30..70, 60..140), layout in forests(0..130), by_channel: bool,
    ) {
        let channels = if by_channel { shape.key_dim } else { 1 };
        let x = Operands::random(shape, layout.rows(), channels);
        let d = random(9, x.v.len());
        let gradients = gradients(&x, shape, &layout, DELTA_CHUNK, &d);
        for (operand, gradient) in gradients.iter().enumerate() {
            let direction = random(20 + operand as u64, gradient.len());
            let loss = |step: f64| {
                let mut moved = x.wide();
                let Delta { q, k, v, log_decay, beta } = &mut moved;
                let of = [q, k, v, log_decay, beta];
                for (x, along) in of.into_iter().nth(operand).unwrap().iter_mut().zip(&direction) {
                    *x += step * f64::from(*along);
                }
                weighted(&d, &reference::delta_rule(&moved, shape, &layout).0)
            };
            let expected = (loss(1e-5) - loss(-1e-5)) / 2e-5;
            let terms = gradient.iter().zip(&direction).map(|(g, along)| f64::from(*g) * f64::from(*along));
            let size: f64 = terms.clone().map(|term| term * term).sum::<f64>().sqrt();
            let actual: f64 = terms.sum();
            prop_assert!((actual - expected).abs() <= 1e-4 * (1e-3 + size), "{operand}: {actual} is not {expected}");
        }
    }

    #[test]
    fn steps_give_what_the_recurrence_gives_in_any_batch(
        shape in shapes(1..40, 1..80), rows in 1_usize..9, by_channel: bool,
    ) {
        let channels = if by_channel { shape.key_dim } else { 1 };
        let x = Operands::random(shape, rows, channels);
        let (expected, finals) = reference::delta_rule(&x.wide(), shape, &Layout::causal(&[rows]));
        let mut state = vec![0.0; shape.state_len()];
        // Beside each row another sequence, which must not matter.
        let mut other = random(7, shape.state_len());
        let heads = shape.value_heads;
        for row in 0..rows {
            let twice = |x: &[f32], width: usize| x[row * width..][..width].repeat(2);
            let both = Operands {
                q: twice(&x.q, shape.key_width()),
                k: twice(&x.k, shape.key_width()),
                v: twice(&x.v, shape.value_width()),
                log_decay: twice(&x.log_decay, heads * channels),
                beta: twice(&x.beta, heads),
            };
            let mut out = vec![0.0; 2 * shape.value_width()];
            let mut alone = state.clone();
            delta_step(both.rows(), shape, &mut [&mut other, &mut state], &mut out, Workers::Pool);
            let out = &out[shape.value_width()..];
            assert_close(out, &expected[row * shape.value_width()..][..shape.value_width()], 2e-5);

            let own = |x: &[f32]| x[..x.len() / 2].to_vec();
            let [q, k, v, log_decay, beta] = [&both.q, &both.k, &both.v, &both.log_decay, &both.beta].map(|x| own(x));
            let mut out_alone = vec![0.0; shape.value_width()];
            let one = Operands { q, k, v, log_decay, beta };
            delta_step(one.rows(), shape, &mut [&mut alone], &mut out_alone, Workers::One);
            prop_assert_eq!(&out_alone, out);
            prop_assert_eq!(&alone, &state);
        }
        assert_close(&state, &finals[0], 2e-5);
    }

    #[test]
    fn going_on_at_the_end_of_a_chunk_gives_the_bits_of_one_pass(chunks in 0_usize..3, len in 1_usize..150) {
        let (shape, past) = (one_head(9, 70), chunks * DELTA_CHUNK);
        let x = Operands::random(shape, past + len, 1);
        let [mut first_ends, mut ends, mut whole_ends] = [(); 3].map(|()| Vec::new());
        let causal = |len| Layout::causal(&[len]);
        let whole = delta_scan(x.rows(), shape, &causal(past + len), &[], &mut whole_ends);
        let first = delta_scan(x.part(0..past).rows(), shape, &causal(past), &[], &mut first_ends);
        let start = DeltaStart { state: Some(&first_ends[0]), position: past };
        let second = delta_scan(x.part(past..past + len).rows(), shape, &causal(len), &[start], &mut ends);
        prop_assert_eq!([&first[..], &second].concat(), whole.to_vec());
        prop_assert_eq!(ends, whole_ends);
    }

    #[test]
    fn going_on_anywhere_gives_one_pass_up_to_rounding(past in 0_usize..150, len in 1_usize..150, by_channel: bool) {
        let shape = one_head(9, 7);
        let x = Operands::random(shape, past + len, if by_channel { 9 } else { 1 });
        let [mut first_ends, mut ends] = [(); 2].map(|()| Vec::new());
        delta_scan(x.part(0..past).rows(), shape, &Layout::causal(&[past]), &[], &mut first_ends);
        let start = DeltaStart { state: Some(&first_ends[0]), position: past };
        let out = delta_scan(x.part(past..past + len).rows(), shape, &Layout::causal(&[len]), &[start], &mut ends);
        let (expected, finals) = reference::delta_rule(&x.wide(), shape, &Layout::causal(&[past + len]));
        assert_close(&out, &expected[past * 7..], 2e-5);
        assert_close(&ends[0], &finals[0], 2e-5);
    }

    #[test]
    fn later_rows_and_other_sequences_change_no_bit(rows in 1_usize..150, cut in 0_usize..150, by_channel: bool) {
        let (shape, cut) = (one_head(9, 7), cut % rows);
        let x = Operands::random(shape, rows, if by_channel { 9 } else { 1 });
        let alone = job(&x, shape, &Layout::causal(&[rows]), DELTA_CHUNK).forward(false).0;
        let mut changed = x.clone();
        for of in [&mut changed.q, &mut changed.k, &mut changed.v, &mut changed.log_decay, &mut changed.beta] {
            let each = of.len() / rows;
            of[cut * each..].iter_mut().for_each(|x| *x *= 0.5);
        }
        let later = job(&changed, shape, &Layout::causal(&[rows]), DELTA_CHUNK).forward(false).0;
        prop_assert_eq!(&later[..cut * 7], &alone[..cut * 7]);

        // The same rows behind and before another sequence.
        let other = Operands::random(shape, 70, if by_channel { 9 } else { 1 });
        let join = |of: fn(&Operands) -> &Vec<f32>| [&of(&other)[..], of(&x), of(&other)].concat();
        let joined = Operands {
            q: join(|x| &x.q),
            k: join(|x| &x.k),
            v: join(|x| &x.v),
            log_decay: join(|x| &x.log_decay),
            beta: join(|x| &x.beta),
        };
        let among = job(&joined, shape, &Layout::causal(&[70, rows, 70]), DELTA_CHUNK).forward(false).0;
        prop_assert_eq!(&among[70 * 7..][..rows * 7], &alone[..]);
    }

    #[test]
    fn equal_channels_are_one_decay(layout in forests(0..90), shape in shapes(2..40, 1..20)) {
        let x = Operands::random(shape, layout.rows(), 1);
        let spread = x.log_decay.iter().flat_map(|&log| std::iter::repeat_n(log, shape.key_dim)).collect();
        let channels = Operands { log_decay: spread, ..x.clone() };
        let d = random(9, x.v.len());
        let [one, all] = [&x, &channels].map(|x| job(x, shape, &layout, DELTA_CHUNK).forward(false).0);
        assert_close(&all, &wide(&one), 1e-5);
        let [one, all] = [&x, &channels].map(|x| gradients(x, shape, &layout, DELTA_CHUNK, &d));
        for operand in [0, 1, 2, 4] {
            assert_close(&all[operand], &wide(&one[operand]), 2e-5);
        }
        let sums: Vec<f32> = all[3].chunks_exact(shape.key_dim).map(|channels| channels.iter().sum()).collect();
        assert_close(&sums, &wide(&one[3]), 5e-5);
    }
}

#[test]
fn what_is_written_is_read() {
    // The first of two keys is written again: the second write replaces the first.
    let shape = one_head(2, 3);
    let x = Operands {
        q: vec![1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0],
        k: vec![1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0],
        v: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 0.0, 0.0, 0.0],
        log_decay: vec![0.0; 4],
        beta: vec![1.0; 4],
    };
    let out = job(&x, shape, &Layout::causal(&[4]), DELTA_CHUNK).forward(false).0;
    assert_eq!(*out, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 4.0, 5.0, 6.0]);
}

#[test]
fn a_rate_of_zero_is_pure_decay() {
    let shape = one_head(3, 2);
    for channels in [1, 3] {
        let mut x = Operands::random(shape, 70, channels);
        x.beta.fill(0.0);
        x.log_decay.iter_mut().enumerate().for_each(|(at, log)| *log = -0.01 * (1 + at % 3) as f32);
        let state = random(11, 6);
        let start = DeltaStart { state: Some(&state), position: 5 };
        let mut ends = Vec::new();
        delta_scan(x.rows(), shape, &Layout::causal(&[70]), &[start], &mut ends);
        let log = |c: usize| -> f64 {
            (0..70).map(|row| f64::from(x.log_decay[if channels == 1 { row } else { row * 3 + c }])).sum()
        };
        let expected: Vec<f64> = (0..6).map(|at| log(at / 2).exp() * f64::from(state[at])).collect();
        assert_close(&ends[0], &expected, 1e-6);
    }
}

#[test]
fn decays_behind_one_that_forgets_everything_keep_their_digits() {
    let shape = one_head(1, 1);
    let rows = 60;
    let mut x = Operands::random(shape, rows, 1);
    x.q.fill(1.0);
    x.k.fill(1.0);
    x.v.fill(0.0);
    x.beta.fill(0.0);
    x.log_decay.fill(-1e-3);
    for row in 0..rows - 20 {
        x.log_decay[row] = if row % 2 == 0 { f32::NEG_INFINITY } else { -9e3 };
    }
    (x.beta[rows - 20], x.v[rows - 20]) = (1.0, 1.0);
    let out = job(&x, shape, &Layout::causal(&[rows]), DELTA_CHUNK).forward(false).0;
    let expected: Vec<f64> = (0..rows)
        .map(|row| if row < rows - 20 { 0.0 } else { (-1e-3 * (row + 20 - rows) as f64).exp() })
        .collect();
    assert_close(&out, &expected, 1e-6);
    let d = vec![1.0; rows];
    assert!(
        gradients(&x, shape, &Layout::causal(&[rows]), DELTA_CHUNK, &d)
            .iter()
            .flat_map(|d| d.iter())
            .all(|d| d.is_finite())
    );
}
