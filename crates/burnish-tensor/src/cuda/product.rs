//! Matrix products: by cuBLAS, those of few rows by our own kernel ([`few_rows`]).

use std::sync::Arc;

use super::{
    Cuda, CudaError, few_rows, lock,
    values::{Elements, ElementsMut, Values},
};
use crate::Precision;
use cudarc::cublas::{result, sys};

/// A row-major matrix, or its transpose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    data: Elements<'a>,
    rows: usize,
    cols: usize,
    /// Are the elements stored column by column?
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

    /// Number of elements from the start of one stored row to the start of the next.
    fn stored_cols(&self) -> usize {
        if self.is_transposed { self.rows } else { self.cols }
    }
}

/// What happens to the numbers that the output already holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    Set,
    Add,
}

/// `a b` in a fresh buffer, in the type that the precision has for values.
pub(crate) fn product(cuda: &Arc<Cuda>, precision: Precision, a: View<'_>, b: View<'_>) -> Values {
    let mut out = Values::uninit(cuda, precision, a.rows * b.cols);
    multiply(cuda, precision, out.all_mut(), Write::Set, 1.0, a, b);
    out
}

/// `out = alpha a b`, or `out += alpha a b`: `out` `[a.rows, b.cols]`, row-major. Operands are rounded to bf16 first in
/// [`Precision::Bf16`], and are f32 in [`Precision::F32`] (without TF32); sums are f32 (the handle's mathematics disallow
/// others), and rounded last where `out` is bf16.
///
/// # Panics
/// If sizes differ, or `out` is bf16 in [`Precision::F32`].
pub(crate) fn multiply<'o>(
    cuda: &Arc<Cuda>,
    precision: Precision,
    out: impl Into<ElementsMut<'o>>,
    write: Write,
    alpha: f32,
    a: View<'_>,
    b: View<'_>,
) {
    let mut out = out.into();
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
            let (a_data, b_data) = (a.data.in_f32(cuda), b.data.in_f32(cuda));
            let (a, b) = ((a, a_data.all().address()), (b, b_data.all().address()));
            call(cuda, out.again(), write, alpha, a, b, sys::cudaDataType::CUDA_R_32F);
        }
        Precision::Bf16 => {
            let (a_data, b_data) = (a.data.in_bf16(cuda), b.data.in_bf16(cuda));
            let is_plain = write == Write::Set && alpha == 1.0 && !a.is_transposed && b.is_transposed;
            let size = [a.rows, a.cols];
            if is_plain && few_rows::fits(cuda, size, a_data.all(), b_data.all()) {
                return few_rows::multiply(cuda, out, size, a_data.all(), b_data.all());
            }
            let (a, b) = ((a, a_data.all().address()), (b, b_data.all().address()));
            call(cuda, out.again(), write, alpha, a, b, sys::cudaDataType::CUDA_R_16BF);
        }
    }
}

/// cuBLAS knows only column-major matrices, and a row-major matrix is the transpose of a column-major one, so the call
/// computes `outᵀ = bᵀ aᵀ`.
fn call(
    cuda: &Arc<Cuda>,
    out: ElementsMut<'_>,
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
    let (out, out_type) = match out {
        ElementsMut::F32(out) => (out.address(), sys::cudaDataType::CUDA_R_32F),
        ElementsMut::Bf16(out) => (out.address(), sys::cudaDataType::CUDA_R_16BF),
    };
    // cuBLAS has no product of f32 operands with a bf16 result.
    assert!(
        operands == sys::cudaDataType::CUDA_R_16BF || operands == out_type,
        "{operands:?} into {out_type:?}"
    );
    let beta = if write == Write::Set { 0.0_f32 } else { 1.0 };
    let blas = lock(&cuda.blas);
    // SAFETY: the sizes of the views were checked against their memory when they were made; the caller checked them
    // against each other and the output. The output overlaps no operand, because it is borrowed mutably.
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
            out as *mut _,
            out_type,
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
