//! The operations, forward and backward, as functions on slices.
//!
//! Matrices are row-major. A `backward` takes the gradient of its output and returns, or adds to, those of its
//! inputs. Work is split over rows or heads, never over a sum, so that every result is bit-equal at any number of
//! threads.

pub(crate) mod attention;
pub(crate) mod attention_backward;
pub(crate) mod columns;
pub(crate) mod delta;
pub(crate) mod embed;
pub(crate) mod head_loss;
pub(crate) mod linear;
pub(crate) mod log_decay;
pub(crate) mod low_rank;
pub(crate) mod norm;
pub(crate) mod put_rows;
pub(crate) mod root_gate;
pub(crate) mod rope;
pub(crate) mod scores;
pub(crate) mod short_conv;
pub(crate) mod sigmoid;
pub(crate) mod squares;
pub(crate) mod swiglu;
pub(crate) mod top;
pub(crate) mod unit_heads;
