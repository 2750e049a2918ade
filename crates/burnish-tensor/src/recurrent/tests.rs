//! Rows that go on from states, against one pass over everything.

use super::*;
use crate::{
    Device, HostReadback, Precision, Store,
    cuda::testing::device,
    testing::{assert_close, random, wide},
};

const SHAPE: DeltaShape = DeltaShape { key_heads: 1, value_heads: 2, key_dim: 137, value_dim: 40 };
const TAPS: usize = 4;
const COLS: usize = 300;
const LAYERS: usize = 2;

/// Rows of three sequences that are read first, one of them over the end of a chunk and one shorter than a filter, and
/// rows that are read then.
const LENS: [[usize; 2]; 3] = [[66, 1], [2, 3], [5, 0]];

fn numbers(x: &Var) -> Vec<f32> {
    HostReadback::default().read(x).unwrap().to_vec()
}

/// Rows of all sequences, then those that are read first and those that are read then, of `cols` columns each.
fn parts(x: &[f32], cols: usize) -> [Vec<f32>; 2] {
    let mut parts = [Vec::new(), Vec::new()];
    let mut rest = x;
    for lens in LENS {
        for (part, len) in parts.iter_mut().zip(lens) {
            let (own, after) = rest.split_at(len * cols);
            part.extend_from_slice(own);
            rest = after;
        }
    }
    parts
}

#[test]
fn rows_that_go_on_from_states_are_those_of_one_pass() {
    let Some(cuda) = device() else { return };
    let rows: usize = LENS.iter().flatten().sum();
    for (precision, tolerance) in [(Precision::F32, 1e-5), (Precision::Bf16, 2e-2)] {
        let mut params = Params::new().in_precision(precision);
        let weight = params.add_to(Store::Frozen, "", &[COLS, 1, TAPS], false);
        params.elements_mut(weight).set(&random(1, COLS * TAPS));
        let params = params.on(&Device::from(Arc::clone(&cuda)));
        let mut tape = Tape::inference(&params);
        let whole = Arc::new(Layout::causal(&LENS.map(|[first, then]| first + then)));
        let first = Arc::new(Layout::causal(&LENS.map(|[first, _]| first)));
        let fresh = || {
            let inputs = (TAPS - 1) * COLS;
            RecurrentState::beside(&params, LAYERS, inputs, SHAPE.state_len()).unwrap()
        };
        let states = [fresh(), fresh(), fresh()];
        let states = states.each_ref();
        let reading = tape.recurrent_rows(&states, &LENS.map(|[first, _]| first));

        let x = random(2, rows * COLS);
        let [x_first, x_then] = parts(&x, COLS);
        let mut value = |x: &[f32], cols: usize| tape.external(x.len() / cols, cols, x.to_vec());
        let (all, x_first, x_then) = (value(&x, COLS), value(&x_first, COLS), value(&x_then, COLS));
        let expected = tape.short_conv(&all, weight, &whole);
        let [expected_first, expected_then] = parts(&numbers(&expected), COLS);
        let layer = LAYERS - 1;
        let ours = tape.short_conv_kept(&x_first, weight, &first, &reading, layer);
        assert_eq!(numbers(&ours), expected_first);

        let unit = |seed| {
            let x = random(seed, rows * SHAPE.key_width());
            crate::ops::unit_heads::forward(&x, SHAPE.key_dim, 1.0).to_vec()
        };
        let logs: Vec<f32> = random(5, rows * 2).iter().map(|x| -0.1 * (1.0 + x)).collect();
        let beta: Vec<f32> = random(6, rows * 2).iter().map(|x| 0.5 + 0.4 * x).collect();
        let (keys, values) = (SHAPE.key_width(), SHAPE.value_width());
        let operands =
            [(unit(3), keys), (unit(4), keys), (random(7, rows * values), values), (logs, 2), (beta, 2)];
        let rule = |tape: &mut Tape<'_>, part: Option<usize>| -> [Var; 5] {
            operands.each_ref().map(|(x, cols)| {
                let own = part.map_or_else(|| x.clone(), |part| parts(x, *cols)[part].clone());
                tape.external(own.len() / cols, *cols, own)
            })
        };
        let run = |tape: &mut Tape<'_>, part: Option<usize>, rows: Option<&RecurrentRows>| {
            let [q, k, v, log_decay, beta] = &rule(tape, part);
            let inputs = DeltaInputs { q, k, v, log_decay, beta };
            let out = match (part, rows) {
                (Some(0), Some(rows)) => tape.delta_rule_kept(inputs, SHAPE, &first, rows, layer),
                (Some(_), Some(rows)) => tape.delta_rule_continued(inputs, SHAPE, rows, layer),
                _ => tape.delta_rule(inputs, SHAPE, &whole),
            };
            numbers(&out)
        };
        let [rule_first, rule_then] = parts(&run(&mut tape, None, None), values);
        assert_eq!(run(&mut tape, Some(0), Some(&reading)), rule_first);

        // A copy goes on alone.
        let copies = states.map(RecurrentState::copied);
        for states in [copies.each_ref(), states] {
            let going_on = tape.recurrent_rows(&states, &LENS.map(|[_, then]| then));
            let ours = tape.short_conv_continued(&x_then, weight, &going_on, layer);
            assert_eq!(numbers(&ours), expected_then);
            let ours = run(&mut tape, Some(1), Some(&going_on));
            assert_close(&ours, &wide(&rule_then), tolerance);
        }
    }
}
