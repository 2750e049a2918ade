//! Sampling from a model: batched decoding with a KV cache, shared prefills, and choice of tokens.
//!
//! [`generate`] answers a batch of [`Request`]s. Its operations are those of the trainer (`burnish-tensor`), so that
//! the trainer recomputes exactly the log-probability that was recorded when a token was sampled. [`LocalPolicy`] puts
//! a model and its chat format behind [`burnish_core::Policy`].
//!
//! The choice of a token depends only on the logits, the request's own tokens and sampling parameters, and
//! `rng::uniform(request.seed, position)`. It does not depend on the other requests in the batch, the memory of the
//! cache or the number of threads. `docs/sampling.md` defines every parameter.

mod answer;
mod cache;
mod choose;
mod contrast;
mod control;
mod denoise;
mod error;
mod filters;
mod generate;
mod grammar;
mod latent;
mod need;
mod pages;
mod past;
mod policy;
mod request;
mod sampler;
mod state;
mod text;
mod thoughts;
mod top;
mod tree;
mod waves;

pub use burnish_model::Generated;
pub use choose::{Choice, Chooser};
pub use contrast::marked_tokens;
pub use control::{Control, Decision, Inside, Now, Probe, Probed, Steer};
pub use denoise::Denoiser;
pub use error::EngineError;
pub use generate::generate;
pub use grammar::{GrammarError, check_grammar};
pub use latent::{LatentIds, LatentSteps};
pub use need::SamplingNeed;
pub use past::{Past, Seen};
pub use policy::LocalPolicy;
pub use request::{Limits, Request, RequestId, Stats};
pub use sampler::{Ended, Sampler};
pub use thoughts::read_reflection_model;
