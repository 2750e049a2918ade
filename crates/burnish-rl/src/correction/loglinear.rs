//! The proximal policy without a forward pass: between the behavior policy and the present one, by age.
//!
//! **Formula.** With `v` the version of the weights that sampled the token, and `v_θ` that of the weights being trained,
//! the proximal policy is one version older, and
//!
//! ```text
//! α   = clip((v_θ - 1 - v) / (v_θ - v), 0, 1),   0 where v ≥ v_θ or v is unknown
//! old = roll + α·(lp - roll)
//! ```
//!
//! a constant of the derivative. A token of the version before is its own proximal (`α = 0`); the older a token is, the
//! nearer is its proximal to the present policy.
//!
//! **References.** AReaL's `prox_logp_method = "loglinear"`; versions are per token because weights may change in the
//! middle of an answer.

/// log-probability under the proximal policy of a token that weights of version `sampled` (none: unknown) gave `behavior`
/// and those being trained, of version `current`, give `policy`, in nats.
pub fn loglinear_proximal(behavior: f64, policy: f64, sampled: Option<u64>, current: u64) -> f64 {
    let age = sampled.map_or(0, |sampled| current.saturating_sub(sampled));
    if age == 0 {
        return behavior;
    }
    let share = (age - 1) as f64 / age as f64;
    behavior + share * (policy - behavior)
}
