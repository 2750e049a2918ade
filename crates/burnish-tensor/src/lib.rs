//! Kernels for language models on CPUs, and the tape that runs them forward and backward.
//!
//! A model's numbers are in one flat buffer ([`Params`]). A [`Tape`] runs fused operations on row-major `f32` matrices
//! ([`Var`]), with one row per token of a packed batch. A [`Layout`], a forest of segments, says which tokens see each
//! other, so that prefixes shared by several sequences are computed once. A recording tape runs backward with
//! hand-written gradients into a flat buffer shaped like the parameters. The sampler runs the same operations on a tape
//! that records nothing, with [`cached_attention`] in place of [`Tape::attention`].
//!
//! What holds everywhere:
//! - Results are bit-equal at any number of threads: work is split over rows and heads, never over a sum.
//! - This crate knows nothing of models, the meaning of tokens, or learning.
//! - This is the only crate with `unsafe` code: the kernels of products and of cached attention, the GPU driver, and
//!   the file map.

mod backward;
mod buffer;
mod cached;
mod cuda;
mod data;
mod device;
mod draw;
pub mod eight_bit;
mod elements;
mod flat;
mod flat_8bit;
mod gemm;
mod head_term;
mod layout;
mod logits_room;
mod mixer_op;
mod mmap;
mod norm;
mod ops;
pub mod optim;
mod paged;
mod parallel;
mod params;
mod prepacked;
mod recurrent;
#[cfg(test)]
mod reference;
mod rope;
pub mod softmax;
mod steps;
mod tape;
#[cfg(test)]
mod testing;
mod var;
mod vector;
mod vocab;
mod weight;

pub use buffer::{Buffer, buffer_elements};
pub use cached::{KV_ROWS, KvBlock, KvBlockMut, cached_attention};
pub use cuda::{Cuda, CudaError};
pub use device::{Device, DeviceError, HostReadback};
pub use draw::{Draw, Drawn, NoDraw, draw};
pub use elements::{Elements, ElementsMut, Precision};
pub use flat::{Flat, GradientsMut};
pub use flat_8bit::{Codes, Flat8};
pub use gemm::Workers;
pub use head_term::{HeadTerm, RowFunction, RowLoss, TeacherRows};
pub use layout::{Layout, LayoutError, Segment, Visibility};
pub use logits_room::LogitsRoom;
pub use mmap::{Mapped, map_file};
pub use norm::Norm;
pub use ops::attention::{HeadShape, continued_attention};
pub use ops::delta::{DELTA_CHUNK, DeltaInputs, DeltaRows, DeltaShape, DeltaStart, delta_scan, delta_step};
pub use ops::short_conv::{ConvWeight, short_conv_continued, short_conv_step};
pub use paged::{HeadMaps, PageSlots, PagedCache, PagesContinued, PagesSeen};
pub use parallel::{in_pool, set_threads, with_threads};
pub use params::{Param, ParamEntry, Params, Store};
pub use prepacked::Prepacked;
pub use recurrent::{RecurrentRows, RecurrentState};
pub use rope::Rope;
pub use steps::{Step, StepRows, Steps};
pub use tape::{Keep, Tape, TokenScores};
pub use var::Var;
pub use vocab::Vocab;
pub use weight::{Adapter, Map, Weight};
