//! Checks that NVIDIA's libraries are present, because the bindings panic without them.

use cudarc::{cublas, driver, nvrtc};

use super::CudaError;

const REMEDY_NVRTC: &str = "put the folder of libnvrtc.so.13 (or .12) on LD_LIBRARY_PATH: a CUDA toolkit has it, a PyTorch wheel (site-packages/nvidia/cu13/lib), or `pip install nvidia-cuda-nvrtc`";
const REMEDY_CUBLAS: &str = "put the folder of libcublas.so.13 (or .12) on LD_LIBRARY_PATH: a CUDA toolkit has it, a PyTorch wheel (site-packages/nvidia/cu13/lib), or `pip install nvidia-cublas`";

/// # Errors
/// Names the first library that the loader can't find.
pub(crate) fn need() -> Result<(), CudaError> {
    // SAFETY: loading NVIDIA's libraries runs their initialisers, as intended.
    let are_present = unsafe {
        [driver::sys::is_culib_present(), nvrtc::sys::is_culib_present(), cublas::sys::is_culib_present()]
    };
    missing(are_present).map_or(Ok(()), Err)
}

/// The error if the driver, NVRTC or cuBLAS is missing.
fn missing(are_present: [bool; 3]) -> Option<CudaError> {
    let libraries = [
        ("libcuda", "install NVIDIA's driver, or choose device = \"cpu\""),
        ("libnvrtc", REMEDY_NVRTC),
        ("libcublas", REMEDY_CUBLAS),
    ];
    let missing = libraries.into_iter().zip(are_present).find(|(_, is_present)| !is_present);
    missing.map(|((library, remedy), _)| CudaError::Library { library, remedy })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_named_with_what_to_do() {
        assert_eq!(missing([true; 3]), None);
        let said = |are_present| missing(are_present).unwrap().to_string();
        assert!(said([false; 3]).starts_with("libcuda was not found; install NVIDIA's driver"));
        assert!(said([true, false, true]).starts_with("libnvrtc was not found; put the folder of"));
        assert!(said([true, true, false]).contains("LD_LIBRARY_PATH"));
    }
}
