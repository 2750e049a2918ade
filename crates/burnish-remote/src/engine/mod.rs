//! Engines that sample at scale: vLLM and SGLang, token in, token out.
//!
//! A [`Fleet`] is one or more replicas of a policy. It gives them new weights from a directory ([`Fleet::serve`]), and
//! a replica samples only after it has proved that it computes with them. Its policy ([`crate::tokens`]) sends turns to
//! the replicas as ids and records the ids that come back, with their log-probs, as the sampler in this process does:
//! the same chat format, the same traces, so its answers can be trained on.
//!
//! What an engine can't do exactly is refused, not approximated: penalties, filters and grammars change the
//! distribution of a token in ways that its one log-prob does not tell.

mod config;
mod error;
mod fleet;
mod proof;
mod replica;
mod sglang;
mod vllm;
mod wire;

pub use config::{EngineConfig, EngineKind};
pub use error::{EngineError, Stage};
pub use fleet::Fleet;
pub use proof::Proof;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod stand_in;
#[cfg(test)]
mod tests;
