//! 8-bit moments against bitsandbytes (`golden/make_eight_bit.py`).
#![allow(clippy::unwrap_used, reason = "a test whose file is broken fails")]

use burnish_tensor::eight_bit::{BLOCK, QuantizedMut, adamw_step_8bit, dequantize, quantize};
use burnish_tensor::optim::AdamW;
use serde_json::Value;

fn golden() -> Value {
    serde_json::from_str(include_str!("golden/eight_bit.json")).unwrap()
}

fn numbers(of: &Value) -> Vec<f32> {
    of.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect()
}

fn codes(of: &Value) -> Vec<u8> {
    of.as_array().unwrap().iter().map(|x| x.as_u64().unwrap() as u8).collect()
}

/// All codes are equal, but for some that lie halfway and are rounded to the other side.
#[track_caller]
fn assert_codes(ours: &[u8], theirs: &[u8]) {
    assert_eq!(ours.len(), theirs.len());
    let differ = ours.iter().zip(theirs).filter(|(a, b)| a != b).count();
    assert!(ours.iter().zip(theirs).all(|(a, b)| a.abs_diff(*b) <= 1), "codes are further apart than one");
    assert!(differ * 200 <= ours.len(), "{differ} of {} codes differ", ours.len());
}

#[test]
fn the_maps_are_those_of_bitsandbytes() {
    let golden = golden();
    for (name, is_signed) in [("signed", true), ("unsigned", false)] {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(dequantize(&all, &[1.0], is_signed), numbers(&golden[name]), "{name}");
    }
}

#[test]
fn numbers_are_rounded_as_by_bitsandbytes() {
    let golden = golden();
    for (name, is_signed) in [("of_signed", true), ("of_unsigned", false)] {
        let case = &golden[name];
        let (ours, absmax) = quantize(&numbers(&case["x"]), is_signed);
        assert_eq!(absmax, numbers(&case["absmax"]));
        assert_codes(&ours, &codes(&case["codes"]));
    }
}

#[test]
fn steps_of_adamw_are_those_of_bitsandbytes() {
    let golden = golden();
    let case = &golden["adamw"];
    let of = |name: &str| case["hyper"][name].as_f64().unwrap();
    let mut params = numbers(&case["before"]);
    let (n, blocks) = (params.len(), params.len().div_ceil(BLOCK));
    let (mut m, mut v) = ((vec![0; n], vec![0.0; blocks]), (vec![0; n], vec![0.0; blocks]));
    for (gradient, step) in case["gradients"].as_array().unwrap().iter().zip(1..) {
        let hyper = AdamW {
            lr: of("lr"),
            beta1: of("beta1"),
            beta2: of("beta2"),
            eps: of("eps"),
            weight_decay: of("weight_decay"),
            step,
        };
        let [m, v] = [&mut m, &mut v].map(|(codes, absmax)| QuantizedMut { codes, absmax });
        adamw_step_8bit(&mut params, &numbers(gradient), m, v, &hyper, true);
    }
    for (name, (ours, absmax)) in [("m", &m), ("v", &v)] {
        assert_codes(ours, &codes(&case[name]["codes"]));
        for (ours, theirs) in absmax.iter().zip(numbers(&case[name]["absmax"])) {
            assert!((ours - theirs).abs() <= 1e-6 * theirs, "{name}: {ours} is not {theirs}");
        }
    }
    // A code that differs moves its parameter in the following steps, so a few may be further away.
    let far =
        params.iter().zip(numbers(&case["after"])).filter(|(ours, theirs)| (*ours - theirs).abs() > 1e-5);
    assert!(far.count() * 200 <= n);
}
