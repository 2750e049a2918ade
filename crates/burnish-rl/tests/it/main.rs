//! What holds of the mathematics: golden vectors, finite differences, algebra.

mod advantage;
mod common;
mod config;
mod contract;
mod frameworks;
mod kl;
mod objective;
mod objective_config;
mod reductions;
mod trl;
mod verl;
