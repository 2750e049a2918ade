//! Matrix products by cuBLAS.

use std::sync::Arc;

use cudarc::cublas::{result, sys};
use half::bf16;

use super::{Buffer, Cuda, CudaError, Element, Plan, Program, Slice, SliceMut, lock, long};
use crate::Precision;

/// Numbers on the GPU to read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Elements<'a> {
    F32(Slice<'a, f32>),
    Bf16(Slice<'a, bf16>),
}

impl<'a> From<Slice<'a, f32>> for Elements<'a> {
    fn from(slice: Slice<'a, f32>) -> Self {
        Elements::F32(slice)
    }
}

impl<'a> From<Slice<'a, bf16>> for Elements<'a> {
    fn from(slice: Slice<'a, bf16>) -> Self {
        Elements::Bf16(slice)
    }
}

impl Elements<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Elements::F32(values) => values.len(),
            Elements::Bf16(values) => values.len(),
        }
    }
}

/// A row-major matrix, or its transpose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    data: Elements<'a>,
    rows: usize,
    cols: usize,
    /// Do the elements lie column by column?
    is_transposed: bool,
}

impl<'a> View<'a> {
    /// The first `rows · cols` elements of `data`.
    pub(crate) fn new(data: impl Into<Elements<'a>>, rows: usize, cols: usize) -> Self {
        let data = data.into();
        assert!(data.len() >= rows * cols, "{} elements for a matrix [{rows}, {cols}]", data.len());
        View { data, rows, cols, is_transposed: false }
    }

    pub(crate) fn transposed(self) -> Self {
        View { rows: self.cols, cols: self.rows, is_transposed: !self.is_transposed, ..self }
    }

    /// Elements from the start of one stored row to that of the next.
    fn stored_cols(&self) -> usize {
        if self.is_transposed { self.rows } else { self.cols }
    }
}

/// What becomes of the numbers that are in the output already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    Set,
    Add,
}

/// bf16 of f32, rounded to nearest even.
pub(crate) fn to_bf16(cuda: &Arc<Cuda>, x: Slice<'_, f32>) -> Buffer<bf16> {
    let mut y = Buffer::uninit(cuda, x.len());
    let plan = Plan::elements(x.len());
    cuda.launch(Program::Elementwise, "to_bf16", plan, &mut [y.all_mut().into(), x.into(), long(x.len())]);
    y
}

/// The same numbers in f32.
pub(crate) fn to_f32(cuda: &Arc<Cuda>, x: Slice<'_, bf16>) -> Buffer<f32> {
    let mut y = Buffer::uninit(cuda, x.len());
    let plan = Plan::elements(x.len());
    cuda.launch(Program::Elementwise, "to_f32", plan, &mut [y.all_mut().into(), x.into(), long(x.len())]);
    y
}

/// `a b` in a fresh buffer.
pub(crate) fn product(cuda: &Arc<Cuda>, precision: Precision, a: View<'_>, b: View<'_>) -> Buffer<f32> {
    let mut out = Buffer::uninit(cuda, a.rows * b.cols);
    multiply(cuda, precision, out.all_mut(), Write::Set, 1.0, a, b);
    out
}

/// `out = alpha a b`, or `out += alpha a b`: `out` `[a.rows, b.cols]`, row-major. Operands are rounded to bf16 first in
/// [`Precision::Bf16`], and are f32 in [`Precision::F32`] (without TF32); sums are f32.
pub(crate) fn multiply(
    cuda: &Arc<Cuda>,
    precision: Precision,
    mut out: SliceMut<'_, f32>,
    write: Write,
    alpha: f32,
    a: View<'_>,
    b: View<'_>,
) {
    assert_eq!(a.cols, b.rows, "inner sizes of a product");
    assert_eq!(out.len(), a.rows * b.cols, "elements of a product");
    if out.len() == 0 {
        return;
    }
    if a.cols == 0 {
        if write == Write::Set {
            out.fill_zero(cuda);
        }
        return;
    }
    match precision {
        Precision::F32 => {
            let (a_data, b_data) = (in_f32(cuda, a.data), in_f32(cuda, b.data));
            call(
                cuda,
                out.again(),
                write,
                alpha,
                (a, a_data.address()),
                (b, b_data.address()),
                sys::cudaDataType::CUDA_R_32F,
            );
        }
        Precision::Bf16 => {
            let (a_data, b_data) = (in_bf16(cuda, a.data), in_bf16(cuda, b.data));
            call(
                cuda,
                out.again(),
                write,
                alpha,
                (a, a_data.address()),
                (b, b_data.address()),
                sys::cudaDataType::CUDA_R_16BF,
            );
        }
    }
}

/// An operand in the type that a product needs.
enum Operand<'a, T: Element> {
    Given(Slice<'a, T>),
    Made(Buffer<T>),
}

impl<T: Element> Operand<'_, T> {
    fn address(&self) -> u64 {
        match self {
            Operand::Given(slice) => slice.address(),
            Operand::Made(buffer) => buffer.all().address(),
        }
    }
}

fn in_f32<'a>(cuda: &Arc<Cuda>, data: Elements<'a>) -> Operand<'a, f32> {
    match data {
        Elements::F32(slice) => Operand::Given(slice),
        Elements::Bf16(slice) => Operand::Made(to_f32(cuda, slice)),
    }
}

fn in_bf16<'a>(cuda: &Arc<Cuda>, data: Elements<'a>) -> Operand<'a, bf16> {
    match data {
        Elements::Bf16(slice) => Operand::Given(slice),
        Elements::F32(slice) => Operand::Made(to_bf16(cuda, slice)),
    }
}

/// cuBLAS knows column-major matrices only, and a row-major matrix is the column-major transpose: so it is asked for
/// `outᵀ = bᵀ aᵀ`.
fn call(
    cuda: &Arc<Cuda>,
    out: SliceMut<'_, f32>,
    write: Write,
    alpha: f32,
    (a, a_address): (View<'_>, u64),
    (b, b_address): (View<'_>, u64),
    operands: sys::cudaDataType,
) {
    if !cuda.works() {
        return;
    }
    let op = |view: &View<'_>| match view.is_transposed {
        false => sys::cublasOperation_t::CUBLAS_OP_N,
        true => sys::cublasOperation_t::CUBLAS_OP_T,
    };
    let beta = if write == Write::Set { 0.0_f32 } else { 1.0 };
    let blas = lock(&cuda.blas);
    // SAFETY: the views' sizes were checked against their memory when they were made, and against each other and the
    // output by the caller; the output overlaps no operand, being borrowed to change.
    let called = unsafe {
        result::gemm_ex(
            blas.handle,
            op(&b),
            op(&a),
            size(b.cols),
            size(a.rows),
            size(a.cols),
            (&raw const alpha).cast(),
            b_address as *const _,
            operands,
            size(b.stored_cols()),
            a_address as *const _,
            operands,
            size(a.stored_cols()),
            (&raw const beta).cast(),
            out.address() as *mut _,
            sys::cudaDataType::CUDA_R_32F,
            size(b.cols),
            sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
            sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
        )
    };
    cuda.note(called.map_err(|error| {
        let sizes = format!("[{}, {}] by [{}, {}]", a.rows, a.cols, b.rows, b.cols);
        CudaError::cublas(format!("a product {sizes} of {operands:?}"))(error)
    }));
}

/// # Panics
/// If it is 2³¹ or more.
#[expect(clippy::expect_used, reason = "documented: no model has such sizes")]
fn size(n: usize) -> i32 {
    i32::try_from(n).expect("a side of a matrix below 2^31")
}
