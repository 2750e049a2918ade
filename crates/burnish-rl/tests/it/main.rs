//! What holds of the mathematics: golden vectors, finite differences, algebra.

mod advantage;
mod common;
mod config;
mod contract;
mod distillation;
mod frameworks;
mod kl;
mod objective;
mod objective_config;
mod preference;
mod reductions;
mod research;
mod stale;
mod tabular;
mod trl;
mod trl_preference;
mod value_loss;
mod verl;
