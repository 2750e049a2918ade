//! Numbers in f32 or bf16: the values that operations pass on, in the type of their precision.
//!
//! With products in [`Precision::Bf16`], everything that goes from one operation to the next is bf16, forward and
//! backward. Statistics (norms, sums of exponentials, results of softmaxes), logits, the masters of parameters and
//! their gradients are f32 in both.

use std::{ops::Range, sync::Arc};

use half::bf16;

#[cfg(test)]
use super::CudaError;
use super::{Argument, Buffer, Cuda, LaunchShape, Program, Slice, SliceMut, long};
use crate::Precision;

/// A buffer of either type.
#[derive(Clone, Debug)]
pub(crate) enum Values {
    F32(Buffer<f32>),
    Bf16(Buffer<bf16>),
}

/// Some of the numbers of [`Values`], or of a buffer, to read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Elements<'a> {
    F32(Slice<'a, f32>),
    Bf16(Slice<'a, bf16>),
}

/// The same, writable.
#[derive(Debug)]
pub(crate) enum ElementsMut<'a> {
    F32(SliceMut<'a, f32>),
    Bf16(SliceMut<'a, bf16>),
}

const NOT_WIDE: &str = "numbers in bf16 are used as f32";

/// The same expression for both types.
macro_rules! either {
    ($of:expr, $kind:ident, $numbers:ident => $result:expr) => {
        match $of {
            $kind::F32($numbers) => $result,
            $kind::Bf16($numbers) => $result,
        }
    };
}

impl Values {
    /// `len` numbers with arbitrary values.
    pub(crate) fn uninit(cuda: &Arc<Cuda>, precision: Precision, len: usize) -> Self {
        match precision {
            Precision::F32 => Values::F32(Buffer::uninit(cuda, len)),
            Precision::Bf16 => Values::Bf16(Buffer::uninit(cuda, len)),
        }
    }

    /// `len` zeros.
    pub(crate) fn zeros(cuda: &Arc<Cuda>, precision: Precision, len: usize) -> Self {
        let mut values = Values::uninit(cuda, precision, len);
        values.all_mut().fill_zero(cuda);
        values
    }

    /// A copy of `data`, rounded if necessary.
    pub(crate) fn upload(cuda: &Arc<Cuda>, precision: Precision, data: &[f32]) -> Self {
        let wide = Buffer::upload(cuda, data);
        match precision {
            Precision::F32 => Values::F32(wide),
            Precision::Bf16 => Values::Bf16(to_bf16(cuda, wide.all())),
        }
    }

    /// The GPU that they are on.
    pub(crate) fn cuda(&self) -> &Arc<Cuda> {
        either!(self, Values, numbers => numbers.cuda())
    }

    pub(crate) fn len(&self) -> usize {
        either!(self, Values, numbers => numbers.len())
    }

    pub(crate) fn all(&self) -> Elements<'_> {
        either!(self, Values, numbers => numbers.all().into())
    }

    pub(crate) fn all_mut(&mut self) -> ElementsMut<'_> {
        either!(self, Values, numbers => numbers.all_mut().into())
    }

    pub(crate) fn slice_mut(&mut self, range: Range<usize>) -> ElementsMut<'_> {
        either!(self, Values, numbers => numbers.slice_mut(range).into())
    }

    /// As [`Buffer::download`], in f32.
    ///
    /// # Errors
    /// The first failure on the GPU so far.
    #[cfg(test)]
    pub(crate) fn download(&self) -> Result<Vec<f32>, CudaError> {
        self.all().in_f32(self.cuda()).all().download(self.cuda())
    }

    /// The buffer of values that are f32 in both precisions: statistics, gradients of parameters.
    ///
    /// # Panics
    /// If it is not f32.
    #[expect(clippy::panic, reason = "a mistake of the program")]
    pub(crate) fn wide(&self) -> Slice<'_, f32> {
        match self {
            Values::F32(numbers) => numbers.all(),
            Values::Bf16(_) => panic!("{NOT_WIDE}"),
        }
    }

    /// The same, writable.
    ///
    /// # Panics
    /// If it is not f32.
    #[expect(clippy::panic, reason = "a mistake of the program")]
    pub(crate) fn wide_mut(&mut self) -> SliceMut<'_, f32> {
        match self {
            Values::F32(numbers) => numbers.all_mut(),
            Values::Bf16(_) => panic!("{NOT_WIDE}"),
        }
    }
}

impl From<Buffer<f32>> for Values {
    fn from(numbers: Buffer<f32>) -> Self {
        Values::F32(numbers)
    }
}

impl From<Buffer<bf16>> for Values {
    fn from(numbers: Buffer<bf16>) -> Self {
        Values::Bf16(numbers)
    }
}

impl<'a> Elements<'a> {
    pub(crate) fn len(&self) -> usize {
        either!(self, Elements, numbers => numbers.len())
    }

    pub(crate) fn slice(self, range: Range<usize>) -> Self {
        either!(self, Elements, numbers => numbers.slice(range).into())
    }

    /// The precision that keeps values in this type.
    pub(crate) fn precision(&self) -> Precision {
        match self {
            Elements::F32(_) => Precision::F32,
            Elements::Bf16(_) => Precision::Bf16,
        }
    }

    /// Of a kernel's two versions, the one for this type.
    pub(crate) fn kernel<'k>(&self, [f32, bf16]: [&'k str; 2]) -> &'k str {
        match self {
            Elements::F32(_) => f32,
            Elements::Bf16(_) => bf16,
        }
    }

    /// The same numbers in f32.
    pub(crate) fn in_f32(self, cuda: &Arc<Cuda>) -> Converted<'a, f32> {
        match self {
            Elements::F32(numbers) => Converted::Given(numbers),
            Elements::Bf16(numbers) => Converted::Made(to_f32(cuda, numbers)),
        }
    }

    /// The same numbers in bf16, rounded if necessary.
    pub(crate) fn in_bf16(self, cuda: &Arc<Cuda>) -> Converted<'a, bf16> {
        match self {
            Elements::F32(numbers) => Converted::Made(to_bf16(cuda, numbers)),
            Elements::Bf16(numbers) => Converted::Given(numbers),
        }
    }
}

impl ElementsMut<'_> {
    pub(crate) fn len(&self) -> usize {
        either!(self, ElementsMut, numbers => numbers.len())
    }

    /// The same, borrowed for a shorter time.
    pub(crate) fn again(&mut self) -> ElementsMut<'_> {
        either!(self, ElementsMut, numbers => numbers.again().into())
    }

    /// The same, read-only.
    pub(crate) fn read(&self) -> Elements<'_> {
        either!(self, ElementsMut, numbers => numbers.read().into())
    }

    pub(crate) fn fill_zero(self, cuda: &Cuda) {
        either!(self, ElementsMut, numbers => numbers.fill_zero(cuda));
    }
}

impl<'a> From<Slice<'a, f32>> for Elements<'a> {
    fn from(numbers: Slice<'a, f32>) -> Self {
        Elements::F32(numbers)
    }
}

impl<'a> From<Slice<'a, bf16>> for Elements<'a> {
    fn from(numbers: Slice<'a, bf16>) -> Self {
        Elements::Bf16(numbers)
    }
}

impl<'a> From<SliceMut<'a, f32>> for ElementsMut<'a> {
    fn from(numbers: SliceMut<'a, f32>) -> Self {
        ElementsMut::F32(numbers)
    }
}

impl<'a> From<SliceMut<'a, bf16>> for ElementsMut<'a> {
    fn from(numbers: SliceMut<'a, bf16>) -> Self {
        ElementsMut::Bf16(numbers)
    }
}

impl From<Elements<'_>> for Argument {
    fn from(elements: Elements<'_>) -> Self {
        either!(elements, Elements, numbers => numbers.into())
    }
}

impl From<ElementsMut<'_>> for Argument {
    fn from(elements: ElementsMut<'_>) -> Self {
        either!(elements, ElementsMut, numbers => numbers.into())
    }
}

/// Numbers in the requested type.
pub(crate) enum Converted<'a, T: super::Element> {
    Given(Slice<'a, T>),
    Made(Buffer<T>),
}

impl<T: super::Element> Converted<'_, T> {
    pub(crate) fn all(&self) -> Slice<'_, T> {
        match self {
            Converted::Given(numbers) => *numbers,
            Converted::Made(numbers) => numbers.all(),
        }
    }
}

/// bf16 of f32, rounded to nearest even.
pub(crate) fn to_bf16(cuda: &Arc<Cuda>, x: Slice<'_, f32>) -> Buffer<bf16> {
    let mut y = Buffer::uninit(cuda, x.len());
    let arguments = &mut [y.all_mut().into(), x.into(), long(x.len())];
    cuda.launch(Program::Elementwise, "to_bf16", LaunchShape::fours(x.len()), arguments);
    y
}

/// The same numbers in f32.
pub(crate) fn to_f32(cuda: &Arc<Cuda>, x: Slice<'_, bf16>) -> Buffer<f32> {
    let mut y = Buffer::uninit(cuda, x.len());
    let arguments = &mut [y.all_mut().into(), x.into(), long(x.len())];
    cuda.launch(Program::Elementwise, "to_f32", LaunchShape::fours(x.len()), arguments);
    y
}
