//! Models that others serve, as policies.
//!
//! [`endpoint`] asks a server that speaks OpenAI's chat completions: text in, text out. Its answers can judge, play a
//! user, teach by text and be evaluated, but are not trained on. [`engine`] asks engines that sample at scale: token in,
//! token out, with log-probs and versions, so that their answers can be trained on ([`tokens`]). [`tinker`] asks servers
//! that sample and train.

pub mod endpoint;
pub mod engine;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod test_server;
pub mod tinker;
pub mod tokens;
mod turns;
