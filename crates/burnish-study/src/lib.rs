//! Comparisons. [`study`] runs arms × seeds of one recipe at one budget, and reports their differences with
//! intervals. [`benchmark`] evaluates a policy on a named benchmark.

pub mod benchmark;
pub mod study;
