//! Surgery between checkpoints: merging, restoring, comparing, extracting adapters.
//!
//! A checkpoint is read from mapped safetensors files and written as such, one tensor at a time, so memory does not grow
//! with the model, and nothing is assumed about its architecture: rules go by the names of tensors. Start at
//! [`Merge::run`]; what a method may do is [`method::Method`].
//!
//! Arithmetic is f32, sums over whole tensors f64. The same inputs give the same bytes, whatever the number of threads.

mod adapter;
mod align;
mod checkpoint;
mod dense;
mod diff;
mod error;
mod extract;
mod inputs;
mod inspect;
mod merge;
pub mod method;
mod numbers;
mod options;
pub mod settings;
mod sink;
mod spectrum;
mod stack;
mod sweep;
mod vocabulary;
mod yaml;

pub use adapter::{ADAPTER, ADAPTER_CONFIG, AdapterInfo};
pub use burnish_shards::{INDEX, SINGLE};
pub use checkpoint::{CONFIG, Checkpoint, View};
pub use diff::{Diff, DiffOptions, Kind, RANK_MAX, Rank, TensorDiff, diff};
pub use error::WeightsError;
pub use extract::{Extract, Extracted};
pub use inputs::{Gram, Principal, Recorded};
pub use inspect::{Inspection, TensorInfo, Total, inspect};
pub use merge::{Input, Merge, Options, Progress, Report, Watch};
pub use numbers::Float;
pub use sink::{Planned, SHARD_BYTES_MAX, Sink};
pub use stack::Layers;
pub use yaml::{parse, read};
