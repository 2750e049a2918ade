//! What holds of the mathematics: golden vectors, finite differences, algebra.

mod advantage;
mod common;
mod config;
mod contract;
mod distillation;
mod kl;
mod objective;
mod preference;
mod trl;
mod trl_preference;
mod verl;
