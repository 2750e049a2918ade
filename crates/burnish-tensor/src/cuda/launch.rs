//! Launches of kernels by the driver.

use std::ffi::c_void;

use cudarc::driver::{DriverError, result, sys};

use super::launch_shape::LaunchShape;

/// Queues a kernel. With `overlaps`, its blocks may be placed before earlier work is done (programmatic dependent launch).
///
/// # Safety
/// The function must be of a loaded module; number and types of the arguments are its own; what they point at must live
/// until the work is done. A kernel that overlaps must wait for earlier work itself before it touches memory.
pub(super) unsafe fn launch(
    function: sys::CUfunction,
    plan: LaunchShape,
    stream: sys::CUstream,
    overlaps: bool,
    arguments: &mut [*mut c_void],
) -> Result<(), DriverError> {
    let LaunchShape { grid: [x, y], threads, shared_bytes } = plan;
    if !overlaps {
        // SAFETY: as the caller guarantees.
        return unsafe {
            result::launch_kernel(function, (x, y, 1), (threads, 1, 1), shared_bytes, stream, arguments)
        };
    }
    let mut value = sys::CUlaunchAttributeValue { pad: [0; 64] };
    value.programmaticStreamSerializationAllowed = 1;
    let id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    let mut attribute = sys::CUlaunchAttribute { id, pad: [0; 4], value };
    let config = sys::CUlaunchConfig {
        gridDimX: x,
        gridDimY: y,
        gridDimZ: 1,
        blockDimX: threads,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: shared_bytes,
        hStream: stream,
        attrs: &raw mut attribute,
        numAttrs: 1,
    };
    // SAFETY: as the caller guarantees; the driver copies the configuration.
    unsafe {
        sys::cuLaunchKernelEx(&raw const config, function, arguments.as_mut_ptr(), std::ptr::null_mut())
            .result()
    }
}
