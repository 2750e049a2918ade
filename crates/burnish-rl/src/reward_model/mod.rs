//! Losses of reward models, one file each; [`crate::catalogue::REWARD_MODELS`] lists them.
//!
//! A reward model gives a whole conversation one number: the value of the state after its last token. So each sequence
//! has one position in the loss, and [`crate::Streams::policy`] holds that number there instead of a log-prob.

mod bradley_terry;
mod outcome;

pub use bradley_terry::BradleyTerry;
pub use outcome::Outcome;

/// `log σ(x)`, without overflow.
fn log_sigmoid(x: f64) -> f64 {
    if x < 0.0 { x - x.exp().ln_1p() } else { -(-x).exp().ln_1p() }
}

/// `σ(x)`.
fn sigmoid(x: f64) -> f64 {
    log_sigmoid(x).exp()
}
