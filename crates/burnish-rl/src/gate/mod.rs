//! Whether an update is applied: a look at the gradient before the optimiser sees it. One file per gate;
//! [`crate::catalogue::GATES`] lists them.

mod dgg;
mod infinite;
mod random_stop;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::SettingError;
use crate::advantage::Rollouts;
use crate::catalogue::{GATES, choice, no_settings};
use crate::fact::Need;

pub use dgg::{Dgg, Signal};
pub use random_stop::RandomStop;

/// `[gate]`: which gate, and its settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateConfig {
    /// Id of the gate.
    pub gate: String,
    /// Its own settings.
    #[serde(default = "no_settings")]
    pub config: Value,
}

choice!(GateConfig, gate, GATES, dyn Gate);

/// What is known about an update before it is applied.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Proposal {
    /// Frobenius norm of the gradient of the log-prob head's matrix, trained or not, before the gradient is clipped.
    /// With tied embeddings it is the norm of the part that comes from the head, before the part of the input side is
    /// added.
    pub head_grad_norm: f64,
    /// 2-norm of the whole gradient, before it is clipped.
    pub grad_norm: f64,
    /// Mean of `k3` over loss tokens, which estimates the divergence of the policy from the proximal one, which
    /// sampled.
    pub kl: f64,
    /// Share of loss tokens beyond a bound of the objective (of sequences, if these are clipped as a whole); 0 if the
    /// objective has no bound.
    pub clip_fraction: f64,
    /// Mean entropy over loss tokens, in nats.
    pub entropy: f64,
}

/// A gate's decision on a proposed update.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ruling {
    /// Is the update applied? If not, the gradient is dropped before the optimiser sees it, and this batch is not used
    /// again.
    pub is_open: bool,
    /// Named numbers for the run's metrics.
    pub metrics: Vec<(&'static str, f64)>,
}

/// Decides whether an update is applied. It sees every proposal, in order.
pub trait Gate: Send + Sync {
    /// Rules on the next proposal, and takes note of it. `reuse` counts the uses of the batch: 1 on the first pass over
    /// the rollouts of a step.
    fn rule(&mut self, reuse: usize, proposal: &Proposal) -> Ruling;

    /// The facts that [`Gate::learn`] reads.
    fn needs(&self) -> Vec<Need> {
        Vec::new()
    }

    /// Learns from the members of a step that are trained on, with their facts, before the first proposal of the step.
    fn learn(&mut self, _rollouts: &Rollouts<'_>) {}

    /// What it has learned, for a checkpoint.
    fn state(&self) -> Value;

    /// Goes on from what [`Gate::state`] returned.
    ///
    /// # Errors
    /// If it is not a state of this gate.
    fn restore(&mut self, state: &Value) -> Result<(), SettingError>;
}
