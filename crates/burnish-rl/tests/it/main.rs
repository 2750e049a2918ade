//! What holds of the mathematics: golden vectors, finite differences, algebra.

mod advantage;
mod aggregation;
mod common;
mod config;
mod contract;
mod correction;
mod correction_algebra;
mod distillation;
mod entropy;
mod frameworks;
mod kl;
mod objective;
mod objective_config;
mod off_policy;
mod preference;
mod reductions;
mod research;
mod rules;
mod stale;
mod tabular;
mod trl;
mod trl_preference;
mod value_loss;
mod verl;
