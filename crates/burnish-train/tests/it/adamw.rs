use burnish_tensor::{Flat, Params};
use burnish_train::adamw::{Adamw, AdamwConfig, clip_coefficient, grad_norm};
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    grad_norm_max: f64,
    beta1: f64,
    beta2: f64,
    epsilon: f64,
    weight_decay: f64,
    initial: Vec<Vec<f32>>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    lr: f64,
    grads: Vec<Vec<f32>>,
    norm: f64,
    params: Vec<Vec<f32>>,
}

#[test]
fn twenty_clipped_steps_equal_those_of_torch_and_a_bias_does_not_decay() {
    let golden: Golden = serde_json::from_str(include_str!("../golden/adamw.json")).unwrap();
    let mut params = Params::new();
    let weight = params.add("weight", &[5, 7], true);
    let bias = params.add("bias", &[5], false);
    params.get_mut(weight).copy_from_slice(&golden.initial[0]);
    params.get_mut(bias).copy_from_slice(&golden.initial[1]);
    let Golden { beta1, beta2, epsilon, weight_decay, .. } = golden;
    let mut adamw =
        Adamw::new(AdamwConfig { beta1, beta2, epsilon, weight_decay, ..AdamwConfig::default() }, &params);
    for (number, step) in golden.steps.iter().enumerate() {
        let mut grads = params.zeros_like();
        grads[weight.range()].copy_from_slice(&step.grads[0]);
        grads[bias.range()].copy_from_slice(&step.grads[1]);
        let mut grads = Flat::of(&params, grads);
        let norm = grad_norm(&grads).unwrap();
        assert!((norm / step.norm - 1.0).abs() < 1e-6, "norm {norm}, torch {}", step.norm);
        grads.scale(clip_coefficient(norm, golden.grad_norm_max) as f32);
        adamw.step(&mut params, &grads, step.lr);
        for (param, expected) in [weight, bias].into_iter().zip(&step.params) {
            for (ours, torch) in params.get(param).iter().zip(expected) {
                assert!(
                    (ours - torch).abs() <= 1e-6 * torch.abs().max(1.0),
                    "step {number}: {ours}, {torch}"
                );
            }
        }
    }
    assert_eq!(adamw.updates(), 20);
}
