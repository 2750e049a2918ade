//! What holds of the mathematics: golden vectors, finite differences, algebra.

mod advantage;
mod aggregation;
mod common;
mod config;
mod contract;
mod correction;
mod correction_algebra;
mod entropy;
mod kl;
mod objective;
mod off_policy;
mod rules;
mod trl;
mod verl;
