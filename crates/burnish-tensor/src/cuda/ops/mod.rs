//! The operations, forward and backward, as functions on GPU buffers. They are those of `crate::ops`, which define them
//! together with `crate::reference`.
//!
//! Matrices are row-major. A `backward` takes the gradient of its output and returns, or adds to, those of its inputs.

pub(crate) mod attention;
pub(crate) mod decode;
pub(crate) mod delta;
pub(crate) mod draw;
pub(crate) mod elementwise;
pub(crate) mod embed;
pub(crate) mod forest;
#[cfg(test)]
mod head_case;
pub(crate) mod head_loss;
pub(crate) mod head_rows;
pub(crate) mod linear;
pub(crate) mod linear_attention;
pub(crate) mod low_rank;
pub(crate) mod norm;
pub(crate) mod optim;
pub(crate) mod optim_8bit;
pub(crate) mod recurrent;
pub(crate) mod rope;
pub(crate) mod scores;
pub(crate) mod short_conv;
