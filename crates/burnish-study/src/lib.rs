//! Comparisons: [`study`] makes arms × seeds of one recipe at one budget and says what their differences are, with
//! intervals; [`benchmark`] evaluates a policy on a benchmark that has a name.

pub mod benchmark;
pub mod study;
