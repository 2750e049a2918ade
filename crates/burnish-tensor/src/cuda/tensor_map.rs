//! What the copy engine of cards from 9.0 on needs to know of a matrix.

use std::sync::Arc;

use cudarc::driver::{DriverError, sys};
use half::bf16;

use super::{Argument, Cuda, CudaError, Slice};

/// Rows and columns of a box, which is copied at once: `copy_box` of `kernels/hopper.cuh`.
const SIDE: u32 = 64;

/// A row-major matrix with `columns` columns, for kernels that copy boxes of it. It must live as long as they run, as
/// what other arguments point at.
pub(crate) fn boxes_of(cuda: &Arc<Cuda>, matrix: Slice<'_, bf16>, columns: usize) -> Argument {
    let mut map = sys::CUtensorMap { opaque: [0; 16] };
    let sizes = [columns as u64, (matrix.len() / columns.max(1)) as u64];
    let row_bytes = [(columns * size_of::<bf16>()) as u64];
    // A matrix without rows is never copied from.
    if sizes[1] > 0 && cuda.works() {
        // SAFETY: all arrays have the lengths that a matrix of rank 2 needs; the driver checks the rest.
        let status = unsafe {
            sys::cuTensorMapEncodeTiled(
                &raw mut map,
                sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                2,
                matrix.address() as *mut _,
                sizes.as_ptr(),
                row_bytes.as_ptr(),
                [SIDE; 2].as_ptr(),
                [1; 2].as_ptr(),
                sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
                sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        };
        let encoded = status.result().map_err(|error: DriverError| {
            CudaError::driver(format!("describing a matrix [{}, {columns}] to the copy engine", sizes[1]))(
                error,
            )
        });
        cuda.note(encoded);
    }
    Argument::map(map.opaque)
}
