//! What holds of the mathematics: golden vectors, finite differences, algebra.

mod advantage;
mod aggregation;
mod common;
mod config;
mod contract;
mod correction;
mod kl;
mod objective;
mod rules;
mod trl;
mod verl;
