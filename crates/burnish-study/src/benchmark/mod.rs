//! Benchmarks by name: a policy's pass@k on GSM8K, HumanEval and others, with a record of every item.
//!
//! ```text
//! Benchmark (card)  +  data files  ->  Item*  ->  samples, judged  ->  OUT/items.jsonl  ->  Report (pass@k, intervals)
//! ```
//!
//! Items are played in chunks whose borders depend only on the settings, and a random number depends only on the item
//! and the sample. So an evaluation that was stopped and continued ends with the same bits. `docs/eval.md`.

mod cards;
mod language;
mod play;
mod played;
mod records;
mod report;
mod sampling;
mod settings;
mod source;
mod strategy;

pub use cards::{BENCHMARKS, Benchmark, Judge, Part, Tests, find};
pub use language::{Consistency, Spoken};
pub use play::{Finish, Options, evaluate};
pub use played::{PLAYED, Played, played};
pub use records::{Outcome, Record, Sample};
pub use report::Report;
pub use sampling::SamplingFrom;
pub use settings::Settings;
pub use source::{Items, Located, locate};
pub use strategy::compare;
