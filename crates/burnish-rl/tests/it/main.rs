//! What holds of the mathematics: golden vectors, finite differences, algebra.

mod advantage;
mod advantage_algebra;
mod advantage_cases;
mod advantage_golden;
mod common;
mod config;
mod contract;
mod kl;
mod objective;
mod trl;
mod verl;
