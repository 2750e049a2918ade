//! Models that others serve, as policies.
//!
//! [`endpoint`] asks a server that speaks OpenAI's chat completions: text in, text out. Its answers can judge, play a
//! user, teach by text and be evaluated, but are not trained on.

pub mod endpoint;
mod turns;
