//! What holds of the mathematics: golden vectors, finite differences, algebra.

mod advantage;
mod common;
mod config;
mod contract;
mod kl;
mod objective;
mod research;
mod stale;
mod tabular;
mod trl;
mod value_loss;
mod verl;
