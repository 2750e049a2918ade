//! Delta rules and the short convolution against torch (`golden/make_delta.py`).
#![allow(clippy::unwrap_used, reason = "a test whose file is broken fails")]

use std::sync::Arc;

use burnish_tensor::{DeltaInputs, DeltaShape, Layout, Param, Params, Tape, Var};
use serde_json::Value;

const SHAPE: DeltaShape = DeltaShape { key_heads: 1, value_heads: 2, key_dim: 6, value_dim: 5 };

fn golden(case: &str) -> Value {
    let golden: Value = serde_json::from_str(include_str!("golden/delta.json")).unwrap();
    golden[case].clone()
}

fn numbers(case: &Value, name: &str) -> Vec<f32> {
    case[name].as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect()
}

#[track_caller]
fn assert_near(actual: &[f32], case: &Value, name: &str) {
    let expected = numbers(case, name);
    assert_eq!(actual.len(), expected.len());
    for (at, (actual, expected)) in actual.iter().zip(&expected).enumerate() {
        assert!(
            (actual - expected).abs() < 2e-5 * (1.0 + expected.abs()),
            "{name}[{at}]: {actual} is not {expected}"
        );
    }
}

/// An operand as a parameter, so that its gradient comes out.
fn operand(params: &mut Params, case: &Value, name: &str, cols: usize) -> Param {
    let values = numbers(case, name);
    let param = params.add(name, &[values.len() / cols, cols], true);
    params.get_mut(param).copy_from_slice(&values);
    param
}

fn rows(tape: &mut Tape<'_>, param: Param) -> Var {
    tape.embed(param, &(0..param.rows as u32).collect::<Vec<u32>>())
}

#[test]
fn delta_rules_and_their_gradients_are_those_of_torch() {
    for (name, channels) in [("gated", 1), ("channels", SHAPE.key_dim)] {
        let case = golden(name);
        let mut params = Params::new();
        let heads = SHAPE.value_heads;
        let widths = [
            ("q", SHAPE.key_width()),
            ("k", SHAPE.key_width()),
            ("v", SHAPE.value_width()),
            ("log_decay", heads * channels),
            ("beta", heads),
        ];
        let operands = widths.map(|(name, cols)| operand(&mut params, &case, name, cols));
        let layout = Arc::new(Layout::causal(&[operands[0].rows]));
        let mut tape = Tape::recording(&params);
        let [q, k, v, log_decay, beta] = operands.map(|param| rows(&mut tape, param));
        let q = tape.unit_heads(&q, SHAPE.key_dim, 1.0 / (SHAPE.key_dim as f32).sqrt());
        let k = tape.unit_heads(&k, SHAPE.key_dim, 1.0);
        let inputs = DeltaInputs { q: &q, k: &k, v: &v, log_decay: &log_decay, beta: &beta };
        let out = tape.delta_rule(inputs, SHAPE, &layout);
        assert_near(out.data(), &case, "out");

        let mut grads = params.zeros_like();
        tape.backward_from(&out, numbers(&case, "d"), &mut grads);
        for (param, (name, _)) in operands.iter().zip(widths) {
            assert_near(&grads[param.range()], &case, &format!("d_{name}"));
        }
    }
}

#[test]
fn the_short_convolution_and_its_gradients_are_those_of_torch() {
    let case = golden("conv");
    let mut params = Params::new();
    let (x, weight) = (operand(&mut params, &case, "x", 3), operand(&mut params, &case, "weight", 4));
    let mut tape = Tape::recording(&params);
    let input = rows(&mut tape, x);
    let out = tape.short_conv(&input, weight, &Arc::new(Layout::causal(&[x.rows])));
    assert_near(out.data(), &case, "out");
    let mut grads = params.zeros_like();
    tape.backward_from(&out, numbers(&case, "d"), &mut grads);
    assert_near(&grads[x.range()], &case, "d_x");
    assert_near(&grads[weight.range()], &case, "d_weight");
}
