//! What objectives do to a policy that is a table: exact expectations over the arms of a bandit.

use crate::research::token_loss;
use burnish_rl::{Losses, TokenLoss, Tokens};
use serde_json::json;
use std::slice;

/// Log-probabilities of a softmax.
fn log_softmax(logits: &[f64]) -> Vec<f64> {
    let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let total = most + logits.iter().map(|logit| (logit - most).exp()).sum::<f64>().ln();
    logits.iter().map(|logit| logit - total).collect()
}

fn probabilities(logits: &[f64]) -> Vec<f64> {
    log_softmax(logits).into_iter().map(f64::exp).collect()
}

fn mean(weights: &[f64], values: &[f64]) -> f64 {
    weights.iter().zip(values).map(|(weight, value)| weight * value).sum()
}

/// Gradient of the expected loss with respect to the logits, if arms are sampled with the probabilities of `proximal`
/// and credited with their reward minus the mean.
fn gradient(objective: &dyn TokenLoss, logits: &[f64], proximal: &[f64], rewards: &[f64]) -> Vec<f64> {
    let policy = log_softmax(logits);
    let sampled: Vec<f64> = proximal.iter().map(|lp| lp.exp()).collect();
    let baseline = mean(&sampled, rewards);
    let mut slopes = Vec::new();
    for arm in 0..logits.len() {
        let one = arm..arm + 1;
        let tokens = Tokens {
            policy: &policy[one.clone()],
            detached: &policy[one.clone()],
            proximal: &proximal[one.clone()],
            behavior: &proximal[one],
            teacher: &[],
            entropy: &[0.0],
            advantage: &[rewards[arm] - baseline],
            facts: &[],
            batch_constants: &[],
            sequences: slice::from_ref(&(0..1)),
        };
        let mut losses = Losses::zero(1);
        objective.losses(&tokens, &mut losses);
        slopes.push(sampled[arm] * losses.d_policy[0]);
    }
    // ∂lp_j/∂z_i = δ_ij - π_i
    let total: f64 = slopes.iter().sum();
    slopes.iter().zip(&policy).map(|(slope, lp)| slope - lp.exp() * total).collect()
}

fn descend(objective: &dyn TokenLoss, logits: &mut [f64], proximal: &[f64], rewards: &[f64], rate: f64) {
    let gradient = gradient(objective, logits, proximal, rewards);
    logits.iter_mut().zip(gradient).for_each(|(logit, slope)| *logit -= rate * slope);
}

/// The policy after `rounds`, each of 200 steps on what was sampled at its start.
fn train(objective: &dyn TokenLoss, start: &[f64], rewards: &[f64], rounds: usize) -> Vec<f64> {
    let mut logits: Vec<f64> = start.iter().map(|probability| probability.ln()).collect();
    for _ in 0..rounds {
        let proximal = log_softmax(&logits);
        for _ in 0..200 {
            descend(objective, &mut logits, &proximal, rewards, 0.5);
        }
    }
    probabilities(&logits)
}

/// The second arm is worse than the third but sampled so often that its share of `μ·(R - mean)` is the largest, which
/// is all that REINFORCE without a bound sees of stale data. The setting is that of Yao et al. 2025; the numbers are
/// ours.
#[test]
fn on_stale_data_reinforce_ends_at_a_worse_arm_and_what_bounds_it_ends_at_the_best() {
    let (start, rewards) = ([0.3, 0.6, 0.1], [0.0, 0.8, 1.0]);
    let unbounded = token_loss("rec", &json!({ "clip": "none" }));
    let ended = train(unbounded.as_ref(), &start, &rewards, 200);
    assert!(ended[1] > 0.999, "{ended:?}");
    for (id, config) in [
        ("rec", json!({ "clip": "one_side" })),
        ("rec", json!({ "clip": "two_side" })),
        ("rec", json!({ "clip": "ring" })),
        ("opmd", json!({ "tau": 1.0 })),
        ("mdpo", json!({ "inverse_step": 1.0 })),
        ("asymre", json!({ "baseline_shift": -0.5 })),
    ] {
        let ended = train(token_loss(id, &config).as_ref(), &start, &rewards, 200);
        assert!(ended[2] > 0.999, "{id} {config}: {ended:?}");
    }
}

#[test]
fn many_small_steps_of_mdpo_end_at_the_closed_form_of_mirror_descent() {
    let (start, rewards): ([f64; 4], [f64; 4]) = ([0.5, 0.25, 0.2, 0.05], [0.1, 1.0, -0.5, 2.0]);
    let proximal: Vec<f64> = start.iter().map(|probability| probability.ln()).collect();
    for inverse_step in [0.5, 1.0, 4.0] {
        let mdpo = token_loss("mdpo", &json!({ "inverse_step": inverse_step }));
        let mut logits = proximal.clone();
        for _ in 0..20_000 {
            descend(mdpo.as_ref(), &mut logits, &proximal, &rewards, 0.3);
        }
        // The baseline cancels in the normalisation.
        let closed: Vec<f64> =
            proximal.iter().zip(&rewards).map(|(lp, reward)| lp + reward / inverse_step).collect();
        for (found, expected) in probabilities(&logits).iter().zip(probabilities(&closed)) {
            assert!((found - expected).abs() < 1e-9, "{inverse_step}: {found} for {expected}");
        }
    }
}

#[test]
fn exact_updates_of_mdpo_never_lower_the_return() {
    let rewards = [0.1, 1.0, -0.5, 2.0];
    let mdpo = token_loss("mdpo", &json!({ "inverse_step": 2.0 }));
    let mut before = [0.5, 0.25, 0.2, 0.05].to_vec();
    for _ in 0..20 {
        let after = train(mdpo.as_ref(), &before, &rewards, 1);
        assert!(mean(&after, &rewards) >= mean(&before, &rewards));
        before = after;
    }
}

fn entropy(logits: &[f64]) -> f64 {
    -log_softmax(logits).iter().map(|lp| lp.exp() * lp).sum::<f64>()
}

/// The identity that Clip-Cov and KL-Cov rest on, theorem 1 of Cui et al. 2025.
#[test]
fn a_step_lowers_the_entropy_by_the_covariance_of_log_probability_and_weighted_advantage() {
    let (logits, rewards) = ([0.3, -1.0, 1.1, 0.0, -0.4], [0.2, 1.0, 0.9, -0.3, 0.0]);
    let lp = log_softmax(&logits);
    let pi = probabilities(&logits);
    let baseline = mean(&pi, &rewards);
    let weighted: Vec<f64> = pi.iter().zip(rewards).map(|(pi, reward)| pi * (reward - baseline)).collect();
    let products: Vec<f64> = lp.iter().zip(&weighted).map(|(lp, weighted)| lp * weighted).collect();
    let covariance = mean(&pi, &products) - mean(&pi, &lp) * mean(&pi, &weighted);
    for id in ["clip_cov", "kl_cov"] {
        let off = token_loss(id, &json!({ format!("{id}_ratio"): 0.0 }));
        let error = |rate: f64| {
            let mut moved = logits;
            descend(off.as_ref(), &mut moved, &lp, &rewards, rate);
            entropy(&moved) - entropy(&logits) + rate * covariance
        };
        assert!((error(1e-3) / (1e-3 * covariance)).abs() < 1e-2);
        // Of second order: half the rate, a quarter of the error.
        for rate in [0.04, 0.02, 0.01] {
            let quotient = error(rate) / error(rate / 2.0);
            assert!((quotient - 4.0).abs() < 0.1, "{id}: {quotient}");
        }
    }
}

/// A policy that a reward draws towards certainty keeps more entropy if the tokens with the largest covariance pay for
/// their distance.
#[test]
fn kl_cov_keeps_entropy_that_the_loss_without_it_loses() {
    let rewards = [1.0, 0.0, 0.0, 0.0];
    let end = |ratio: f64| {
        let kl_cov = token_loss("kl_cov", &json!({ "kl_cov_ratio": ratio, "ppo_kl_coef": 1.0 }));
        let mut logits = vec![0.5, 0.0, 0.0, 0.0];
        for _ in 0..40 {
            let proximal = log_softmax(&logits);
            for _ in 0..4 {
                let policy = log_softmax(&logits);
                let advantage: Vec<f64> = rewards.iter().map(|reward| reward - proximal[0].exp()).collect();
                let batch = Tokens {
                    policy: &policy,
                    detached: &policy,
                    proximal: &proximal,
                    behavior: &proximal,
                    teacher: &[],
                    entropy: &policy,
                    advantage: &advantage,
                    facts: &[],
                    batch_constants: &[],
                    sequences: slice::from_ref(&(0..4)),
                };
                let batch_constants =
                    if ratio > 0.0 { kl_cov.batch_constants(&batch, 0) } else { Vec::new() };
                let mut losses = Losses::zero(4);
                kl_cov.losses(&Tokens { batch_constants: &batch_constants, ..batch }, &mut losses);
                let slopes: Vec<f64> =
                    losses.d_policy.iter().zip(&proximal).map(|(d, lp)| d * lp.exp()).collect();
                let total: f64 = slopes.iter().sum();
                for ((logit, slope), lp) in logits.iter_mut().zip(&slopes).zip(&policy) {
                    *logit -= 0.3 * (slope - lp.exp() * total);
                }
            }
        }
        entropy(&logits)
    };
    let (without, with) = (end(0.0), end(0.25));
    assert!(with > 2.0 * without, "{with} and {without}");
}
