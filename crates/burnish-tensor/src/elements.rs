//! Numbers as they are stored: f32 or bf16.

use std::borrow::Cow;
use std::ops::Range;

use half::bf16;
use half::slice::HalfFloatSliceExt;

/// The type of the operands of products with weights. Sums are always f32, and so is everything that is no such
/// product: norms, rotations, softmax, attention, the residual stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// 32 bits.
    #[default]
    F32,
    /// Both operands are rounded to bf16 (to nearest even) on their way into the product, as under PyTorch's autocast;
    /// the result is not rounded.
    Bf16,
}

/// Numbers to read.
#[derive(Clone, Copy, Debug)]
pub enum Elements<'a> {
    /// 32 bits each.
    F32(&'a [f32]),
    /// 16 bits each.
    Bf16(&'a [bf16]),
}

/// Numbers to change.
#[derive(Debug)]
pub enum ElementsMut<'a> {
    /// 32 bits each.
    F32(&'a mut [f32]),
    /// 16 bits each.
    Bf16(&'a mut [bf16]),
}

impl<'a> Elements<'a> {
    /// Number of elements.
    #[must_use]
    pub fn len(self) -> usize {
        match self {
            Elements::F32(values) => values.len(),
            Elements::Bf16(values) => values.len(),
        }
    }

    /// Are there no elements?
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// A range of them.
    #[must_use]
    pub fn slice(self, range: Range<usize>) -> Self {
        match self {
            Elements::F32(values) => Elements::F32(&values[range]),
            Elements::Bf16(values) => Elements::Bf16(&values[range]),
        }
    }

    /// As f32; copied only if they are bf16.
    #[must_use]
    pub fn widened(self) -> Cow<'a, [f32]> {
        match self {
            Elements::F32(values) => Cow::Borrowed(values),
            Elements::Bf16(values) => Cow::Owned(values.to_f32_vec()),
        }
    }
}

impl ElementsMut<'_> {
    /// Sets all of them to `values`, rounded to nearest even if they are bf16. Lengths must agree.
    pub fn set(self, values: &[f32]) {
        match self {
            ElementsMut::F32(own) => own.copy_from_slice(values),
            ElementsMut::Bf16(own) => half::slice::HalfFloatSliceExt::convert_from_f32_slice(own, values),
        }
    }
}

impl<'a> From<&'a [f32]> for Elements<'a> {
    fn from(values: &'a [f32]) -> Self {
        Elements::F32(values)
    }
}
