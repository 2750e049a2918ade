//! Servers that train: Tinker's API, as Thinking Machines' service and SkyRL's `tx` speak it.
//!
//! The server has the weights, an adapter over its base model; this side has the objective. For an update, the server
//! scores the samples ([`Tinker::score`]), the objective is differentiated here, and the derivative goes back
//! ([`Tinker::update`]) as the policy gradient that servers know: `importance_sampling` with the server's own log-probs
//! `l`, so that the ratio is one, and the advantages `A = −∂L/∂l · c`. Its gradient is that of the objective, whatever
//! the objective is:
//!
//! ```text
//! ∂/∂θ Σ −exp(l(θ) − l) A / c  =  Σ ∂L/∂l · ∂l/∂θ
//! ```
//!
//! An objective that is PPO's clipped surrogate need not know the server's log-probs first: where the server has that loss
//! with the same bounds ([`Tinker::clips_at`]), it gets the log-probs of the proximal policy and the derivative at a ratio
//! of 1 ([`Tinker::update_clipped`]).
//!
//! `c` undoes what the server divides the sum by ([`Divides`]); `probe.rs` finds that out from outside. A server that
//! ends and comes back has lost the model: it is restored from the last checkpoint there, and the updates since then
//! are made once more ([`Tinker`]).

mod client;
mod config;
mod error;
mod probe;
mod sampling;
mod trainer;
mod wire;

pub use config::{Divides, TinkerConfig, TrainerKind};
pub use error::TinkerError;
pub use trainer::{Saved, Tinker, look};

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod stand_in;
#[cfg(test)]
mod tests;

/// A sequence, and how the loss changes with the log-prob of each of its tokens where the ratio is 1.
#[derive(Debug, Clone, Copy)]
pub struct Slope<'a> {
    /// The tokens, two at least.
    pub ids: &'a [u32],
    /// What ratios are to, one entry per token: log-probs under the server's model, so that they are 1, or for a clipped
    /// loss those of the proximal policy.
    pub logprobs: &'a [f32],
    /// ∂loss/∂log-prob, one entry per token.
    pub d_logprobs: &'a [f64],
}

/// The loss whose derivative a server takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Loss {
    /// `-r·A`, with `r` the ratio to the log-probs of a [`Slope`].
    PolicyGradient,
    /// PPO's clipped surrogate of the same ratio.
    Clipped(Bounds),
}

/// Bounds of the ratio of PPO's clipped surrogate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// Below it, a token with a negative advantage does not count.
    pub low: f64,
    /// Above it, a token with a positive advantage does not count.
    pub high: f64,
}

/// Settings of an update.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Adam {
    /// Learning rate.
    pub learning_rate: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub epsilon: f64,
    /// Decoupled weight decay.
    pub weight_decay: f64,
    /// A longer gradient is scaled down to this 2-norm.
    pub grad_norm_max: Option<f64>,
}
