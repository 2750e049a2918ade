//! Products of few rows with the transpose of a matrix in bf16; see `kernels/few_rows.cu`.

use half::bf16;

use super::{Cuda, LaunchShape, Program, Slice, int, values::ElementsMut};

/// Most rows: those of one instruction. With more of them, cuBLAS is as fast or faster (`bench/RESULTS.md`).
const ROWS_MAX: usize = 8;
/// Rows of the matrix in a block, and columns that a warp multiplies at a time; the kernel uses the same numbers.
const STRIP: usize = 16;
const COLUMNS: usize = 32;

/// Can [`multiply`] do this product of `rows` rows of `width` columns?
pub(super) fn fits(
    cuda: &Cuda,
    [rows, width]: [usize; 2],
    x: Slice<'_, bf16>,
    matrix: Slice<'_, bf16>,
) -> bool {
    let is_aligned = [x, matrix].iter().all(|operand| operand.address().is_multiple_of(16));
    cuda.capability().0 >= 8 && rows <= ROWS_MAX && width.is_multiple_of(COLUMNS) && is_aligned
}

/// `out` `[rows, height]` `= x` `[rows, width]` `· matrixᵀ`, where `matrix` is `[height, width]`; operands may have more elements
/// behind. The sums are f32, of the same parts in the same order for any number of rows.
pub(super) fn multiply(
    cuda: &Cuda,
    out: ElementsMut<'_>,
    [rows, width]: [usize; 2],
    x: Slice<'_, bf16>,
    matrix: Slice<'_, bf16>,
) {
    let height = out.len() / rows;
    assert!(
        x.len() >= rows * width && matrix.len() >= height * width,
        "elements of a product of {rows} rows"
    );
    // Long rows are shared by more warps, since they belong to matrices of few rows.
    let warps = if width < 2048 { 8 } else { 16 };
    let (out, name) = match out {
        ElementsMut::F32(out) => (out.into(), "multiply_few_f32"),
        ElementsMut::Bf16(out) => (out.into(), "multiply_few_bf16"),
    };
    let plan = LaunchShape::blocks(height.div_ceil(STRIP), 1, 32 * warps);
    let arguments = &mut [out, x.into(), matrix.into(), int(rows), int(height), int(width)];
    cuda.launch(Program::FewRows, name, plan, arguments);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Precision,
        cuda::{
            Buffer,
            testing::{device, rounded},
            values::{Values, to_bf16},
        },
        testing::{assert_close, random},
    };

    #[test]
    fn products_are_those_of_their_operands_whatever_the_number_of_rows() {
        let Some(cuda) = device() else { return };
        // A width that is no multiple of what is read at once, one that not all warps have a part of, and a long one.
        for (height, width) in [(40, 416), (1, 32), (16, 96), (17, 2080)] {
            let matrix = rounded(Precision::Bf16, random(1, height * width));
            let x = rounded(Precision::Bf16, random(2, ROWS_MAX * width));
            let [on_gpu, all_rows] =
                [&matrix, &x].map(|data| to_bf16(&cuda, Buffer::upload(&cuda, data).all()));
            let dot = |row: &[f32], other: &[f32]| -> f64 {
                row.iter().zip(other).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
            };
            let of_row = |row| matrix.chunks_exact(width).map(move |other| dot(row, other));
            let expected: Vec<f64> = x.chunks_exact(width).flat_map(of_row).collect();
            let mut all: Vec<f32> = Vec::new();
            for rows in [8, 1, 2, 5, 7] {
                assert!(fits(&cuda, [rows, width], all_rows.all(), on_gpu.all()));
                let mut out = Buffer::<f32>::uninit(&cuda, rows * height);
                multiply(&cuda, out.all_mut().into(), [rows, width], all_rows.all(), on_gpu.all());
                let out = out.download().unwrap();
                assert_close(&out, &expected[..rows * height], 1e-5);
                if rows == ROWS_MAX {
                    all.clone_from(&out);
                }
                assert_eq!(out, all[..rows * height], "{rows} rows");
                let mut short = Values::uninit(&cuda, Precision::Bf16, rows * height);
                multiply(&cuda, short.all_mut(), [rows, width], all_rows.all(), on_gpu.all());
                assert_eq!(short.download().unwrap(), rounded(Precision::Bf16, out));
            }
        }
    }

    #[test]
    fn other_products_are_left_to_cublas() {
        let Some(cuda) = device() else { return };
        let matrix = Buffer::<bf16>::uninit(&cuda, 64 * 64);
        let fits = |rows: usize, width: usize, from: usize| {
            let x = Buffer::<bf16>::uninit(&cuda, from + rows * width);
            super::fits(&cuda, [rows, width], x.slice(from..from + rows * width), matrix.all())
        };
        assert!(fits(8, 64, 0) && fits(1, 32, 8));
        assert!(!fits(9, 64, 0) && !fits(4, 48, 0) && !fits(4, 64, 4));
    }
}
