//! The data that travels through the loop: plain types, shared by every crate.
//!
//! ```text
//! Task -> Episode { Trace* , Verdict } -> (advantages, losses: burnish-rl) -> update (burnish-train)
//! ```
//!
//! This crate knows no tensors, files or network. It shows the whole domain: [`Task`] (one problem with its checkable
//! truth), [`Message`] (what people, tools and the policy say), [`Trace`] (the token-exact record of one agent's run),
//! [`Verdict`] (what a verifier found), [`Episode`] (all of it together), [`Policy`] (whatever answers), and [`rng`]
//! (addressed randomness).

mod contrast;
pub mod digest;
mod episode;
pub mod json;
pub mod knob;
mod latent;
mod message;
pub mod names;
mod note;
pub mod openai;
mod policy;
mod record;
pub mod reflection;
pub mod rng;
mod sampling;
mod sampling_options;
mod script;
pub mod settings;
mod streaming;
mod task;
mod thoughts;
mod trace;
mod verdict;

pub use contrast::{Contrast, Span};
pub use episode::{Ending, Episode};
pub use latent::{
    Intervention, LATENT, LATENT_TOKENS, Latent, LatentInput, LatentPlace, SPAN_CLOSE, SPAN_OPEN,
};
pub use message::{FunctionCall, Message, Role, ToolCall, ToolSpec};
pub use note::{Memory, Note};
pub use policy::{
    Abilities, Answered, Piece, Policy, PolicyError, TokenLogprobs, Turn, TurnId, TurnOutput, answer_all,
};
pub use record::{Contact, Fork, Place, Record, RecordedTurn, Repeating, Speaker, Told, ToolCalls};
pub use sampling::{Grammar, LOGPROBS_MAX, Sampling, SamplingError};
pub use sampling_options::SamplingOptions;
pub use script::{Said, Script};
pub use streaming::{Partial, Streaming};
pub use task::{Task, TaskId};
pub use thoughts::{ThoughtControl, Thoughts, TryController};
pub use trace::{Branch, LatentStep, Node, NodeId, Sampled, Source, StopReason, Trace, TraceError};
pub use verdict::{RECOVERED, Validity, Verdict};
