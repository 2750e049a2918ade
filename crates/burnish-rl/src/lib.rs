//! The mathematics of learning: pure functions on plain numbers, in f64.
//!
//! No tensors, no files, no clocks. An [`advantage::Estimator`] turns the rewards of a group into credit. An
//! [`Objective`] turns per-token streams into a loss and its derivative with respect to every policy log-probability
//! and entropy. The trainer runs the forward pass, hands over the streams and feeds the derivative into the backward
//! pass; it does not know which objective runs.
//!
//! ```text
//! rewards -> advantage::Estimator -> Streams.advantage
//! Streams -> PolicyLoss { TokenLoss, kl, correction, aggregation } -> Evaluation
//! Streams -> preference::*, distillation::*, nll::Nll -> Evaluation
//! logits, Teacher -> distillation::HeadLoss -> HeadEvaluation, at the positions that an Evaluation gives a weight
//! what came of tasks -> selector::Selector -> which tasks are next
//! labels, progress -> plan::RolloutPlan -> hints, drafts
//! gradient norms -> gate::Gate -> whether an update is made
//! ```
//!
//! A [`TokenLoss`] is one published objective: it sees the loss tokens of one sequence and nothing else. [`PolicyLoss`]
//! adds what all of them share: off-policy weights, the distance from the reference, entropy, the mean over tokens.
//! Everything that a recipe can choose has its own file with a [`Card`], and an entry in one of the lists of
//! [`catalogue`].

pub mod advantage;
pub mod aggregation;
pub mod belief;
mod card;
pub mod catalogue;
mod columns;
pub mod correction;
pub mod distillation;
mod eigen;
pub mod entropy;
pub mod fact;
pub mod gate;
pub mod kl;
mod loss_config;
pub mod masked_nll;
pub mod nll;
pub mod objective;
pub mod overlong;
pub mod plan;
mod policy_loss;
pub mod preference;
pub mod presets;
pub mod replay;
pub mod reward_model;
mod reward_statistics;
pub mod rules;
mod seam;
pub mod selector;
mod settings;
pub mod special;
pub mod terms;
mod token_loss;
pub mod tracker;
mod value_loss;
mod whitening;

pub use burnish_core::settings::SettingError;
pub use card::{Card, Check, Family};
pub use loss_config::LossConfig;
pub use policy_loss::PolicyLoss;
pub use seam::{BatchConstant, Evaluation, Metric, Needs, Objective, PartTotals, Streams, TokenFact, Totals};
pub use settings::{Part, require};
pub use token_loss::{Bound, Losses, Ratio, RatioBounds, TokenLoss, Tokens};
pub use value_loss::ValueLoss;
