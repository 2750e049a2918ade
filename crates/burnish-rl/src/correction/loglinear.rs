//! The proximal policy without a forward pass: interpolated between the model that sampled and the present one, by the
//! age of the token.
//!
//! **Formula.** With `v` the version of the weights that sampled the token, `v_old` that of the weights that the update
//! starts from, and `v_θ` that of the weights it ends with,
//!
//! ```text
//! α   = (v_old - v) / (v_θ - v),   0 where v ≥ v_old or v is unknown
//! old = then + α·(lp - then)
//! ```
//!
//! with `then` the log-probability under the model that sampled (the model's, whatever `behavior` says). `old` is a
//! constant of the derivative, computed anew with every `lp`. For a token that the update's own starting weights
//! sampled, `old = then` (`α = 0`); the older a token is, the nearer `old` is to the present policy.
//!
//! **References.** AReaL's `prox_logp_method = "loglinear"`, where a version is a step (`v_old = v_θ - 1`); versions
//! are per token because weights may change in the middle of an answer.

/// `α` of a token that weights of version `sampled` drew (`None`: unknown), in an update that starts from version
/// `proximal` and ends with version `trained`.
pub fn loglinear_share(sampled: Option<u64>, proximal: u64, trained: u64) -> f64 {
    let age = sampled.map_or(0, |sampled| proximal.saturating_sub(sampled));
    if age == 0 {
        return 0.0;
    }
    age as f64 / (age + trained.saturating_sub(proximal)) as f64
}

/// Log-probability of a token under the proximal policy, in nats. `then` is its log-probability under the weights that
/// sampled it, `policy` that under the weights being trained, `share` its [`loglinear_share`].
pub fn loglinear_proximal(then: f64, policy: f64, share: f64) -> f64 {
    then + share * (policy - then)
}
