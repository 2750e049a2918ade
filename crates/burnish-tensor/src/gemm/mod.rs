//! Matrix products on slices: in f32 a bounds-checked face of the `gemm` library, in bf16 our own kernels.

mod bf16;
mod kernel;
pub(crate) mod rows;

use gemm_common::Parallelism;

use crate::{Elements, Precision};

/// A matrix to read: rows and columns at any strides inside a slice.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    data: Elements<'a>,
    rows: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
}

impl<'a> View<'a> {
    /// A row-major matrix without gaps.
    pub(crate) fn new(data: impl Into<Elements<'a>>, rows: usize, cols: usize) -> Self {
        View::strided(data, rows, cols, cols)
    }

    /// A row-major matrix whose rows start `row_stride` elements apart.
    pub(crate) fn strided(
        data: impl Into<Elements<'a>>,
        rows: usize,
        cols: usize,
        row_stride: usize,
    ) -> Self {
        let data = data.into();
        assert!(
            rows == 0 || (rows - 1) * row_stride + cols <= data.len(),
            "matrix [{rows}, {cols}] with row stride {row_stride} does not fit {} elements",
            data.len()
        );
        View { data, rows, cols, row_stride, col_stride: 1 }
    }

    /// The transposed matrix, without moving an element.
    pub(crate) fn transposed(self) -> Self {
        View {
            data: self.data,
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
        }
    }
}

/// A row-major matrix to write: rows start `row_stride` elements apart, the elements between are left alone.
pub(crate) struct ViewMut<'a> {
    data: &'a mut [f32],
    rows: usize,
    cols: usize,
    row_stride: usize,
}

impl<'a> ViewMut<'a> {
    /// A row-major matrix without gaps.
    pub(crate) fn new(data: &'a mut [f32], rows: usize, cols: usize) -> Self {
        ViewMut::strided(data, rows, cols, cols)
    }

    /// A row-major matrix whose rows start `row_stride` elements apart.
    pub(crate) fn strided(data: &'a mut [f32], rows: usize, cols: usize, row_stride: usize) -> Self {
        assert!(
            rows == 0 || (rows - 1) * row_stride + cols <= data.len(),
            "matrix [{rows}, {cols}] with row stride {row_stride} does not fit {} elements",
            data.len()
        );
        assert!(
            rows <= 1 || cols <= row_stride,
            "rows of {cols} elements overlap at row stride {row_stride}"
        );
        ViewMut { data, rows, cols, row_stride }
    }
}

/// What happens to the numbers that the output held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    /// They are replaced, whatever they were.
    Set,
    /// The product is added to them.
    Add,
}

/// Who works on a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workers {
    /// The calling thread: for products inside parallel tasks.
    One,
    /// The current rayon pool. Threads split the output and never a sum, so their number changes no bit.
    Pool,
}

/// `out = scale · lhs · rhs`, or that added to `out`, in f32.
pub(crate) fn multiply(
    out: ViewMut<'_>,
    write: Write,
    scale: f32,
    lhs: View<'_>,
    rhs: View<'_>,
    workers: Workers,
) {
    check_shapes(&out, lhs, rhs);
    // SAFETY: the assertions of `ViewMut` and the shape check above cover every element that is written, and the
    // slice is initialised and ours alone.
    unsafe { call(out.data.as_mut_ptr(), out.row_stride, write, scale, lhs, rhs, workers) }
}

/// [`multiply`] in `precision`, by all threads.
pub(crate) fn multiply_in(
    precision: Precision,
    out: ViewMut<'_>,
    write: Write,
    scale: f32,
    lhs: View<'_>,
    rhs: View<'_>,
) {
    match precision {
        Precision::F32 => multiply(out, write, scale, lhs, rhs, Workers::Pool),
        Precision::Bf16 => {
            check_shapes(&out, lhs, rhs);
            bf16::multiply(out, write, scale, lhs, rhs);
        }
    }
}

/// The row-major product `lhs · rhs` in a fresh buffer, in `precision`, by all threads.
pub(crate) fn product(precision: Precision, lhs: View<'_>, rhs: View<'_>) -> Vec<f32> {
    assert_eq!(lhs.cols, rhs.rows, "inner dimensions of a product differ");
    let len = lhs.rows * rhs.cols;
    match precision {
        Precision::F32 => {
            let mut out = Vec::with_capacity(len);
            // SAFETY: the buffer holds `lhs.rows` rows of `rhs.cols` elements; with `Write::Set` the library reads
            // none of them and writes all of them (zeros if the inner dimension is empty), so that they are
            // initialised after.
            unsafe {
                call(out.as_mut_ptr(), rhs.cols, Write::Set, 1.0, lhs, rhs, Workers::Pool);
                out.set_len(len);
            }
            out
        }
        Precision::Bf16 => {
            let mut out = vec![0.0; len];
            bf16::multiply(ViewMut::new(&mut out, lhs.rows, rhs.cols), Write::Set, 1.0, lhs, rhs);
            out
        }
    }
}

fn check_shapes(out: &ViewMut<'_>, lhs: View<'_>, rhs: View<'_>) {
    assert!(
        out.rows == lhs.rows && out.cols == rhs.cols && lhs.cols == rhs.rows,
        "[{}, {}] is not the shape of a product of [{}, {}] and [{}, {}]",
        out.rows,
        out.cols,
        lhs.rows,
        lhs.cols,
        rhs.rows,
        rhs.cols
    );
}

/// Calls the library on the transposed product: its kernels want a column-major output, and the transpose of a
/// row-major matrix is one.
///
/// # Safety
/// `out` must be valid for writing `lhs.rows` rows of `rhs.cols` elements that start `row_stride` elements apart,
/// for reading too with `Write::Add`, and nobody else may use those elements meanwhile. `lhs.cols == rhs.rows`.
unsafe fn call(
    out: *mut f32,
    row_stride: usize,
    write: Write,
    scale: f32,
    lhs: View<'_>,
    rhs: View<'_>,
    workers: Workers,
) {
    let parallelism = match workers {
        Workers::One => Parallelism::None,
        Workers::Pool => match rayon::current_num_threads() {
            1 => Parallelism::None,
            threads => Parallelism::Rayon(threads),
        },
    };
    // Weights that are kept in bf16 are exact in f32.
    let (lhs_data, rhs_data) = (lhs.data.widened(), rhs.data.widened());
    let gemm = gemm_f32::gemm::f32::get_gemm_fn();
    // SAFETY: the caller vouches for `out`. `View` is only made with strides whose last element lies inside its
    // slice (checked in `View::strided`; `transposed` keeps the set of elements), and the inner dimensions agree.
    unsafe {
        gemm(
            rhs.cols,
            lhs.rows,
            lhs.cols,
            out,
            row_stride as isize,
            1,
            write == Write::Add,
            rhs_data.as_ptr(),
            rhs.row_stride as isize,
            rhs.col_stride as isize,
            lhs_data.as_ptr(),
            lhs.row_stride as isize,
            lhs.col_stride as isize,
            1.0,
            scale,
            false,
            false,
            false,
            parallelism,
        );
    }
}
