//! What can go wrong with a GPU.

use cudarc::{cublas::result::CublasError, driver::DriverError, nvrtc::result::NvrtcError};

/// A GPU, its driver or one of its libraries failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CudaError {
    /// A library is missing, or the loader does not find it.
    #[error("{library} was not found; {remedy}")]
    Library {
        /// Its name without the version.
        library: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// There is no such GPU.
    #[error("there is no GPU cuda:{ordinal}: the driver knows {count}, counted from 0")]
    Ordinal {
        /// The number of the requested GPU.
        ordinal: usize,
        /// Number of GPUs.
        count: usize,
    },
    /// A call of the driver failed.
    #[error("{action} failed: {code} ({text})")]
    Driver {
        /// What was attempted.
        action: String,
        /// The driver's name of the error.
        code: String,
        /// The driver's explanation.
        text: String,
    },
    /// The memory of the GPU is full.
    #[error(
        "the GPU has no memory left for {bytes} more bytes: of {total}, {in_use} are in use by this program and {free} are free (what is missing, other programs have, the driver or gaps between buffers); take smaller micro-batches, a smaller cache, or checkpointing"
    )]
    OutOfMemory {
        /// Requested bytes.
        bytes: usize,
        /// Bytes that this program has in use.
        in_use: usize,
        /// Bytes that the card has free.
        free: usize,
        /// Bytes of the card.
        total: usize,
    },
    /// The card is older than any that NVRTC compiles for.
    #[error(
        "this NVRTC compiles for compute capability {}.{} and above, the card has {}.{}; put the libnvrtc of CUDA 12 on LD_LIBRARY_PATH (`pip install nvidia-cuda-nvrtc-cu12`)",
        oldest / 10,
        oldest % 10,
        capability.0,
        capability.1
    )]
    Capability {
        /// The card's.
        capability: (i32, i32),
        /// The oldest that NVRTC knows: 75 is 7.5.
        oldest: i32,
    },
    /// The card can't run the kernels of delta rules.
    #[error(
        "layers of a delta rule need compute capability 8.0 and {bytes} bytes of shared memory in a block, and this GPU has {}.{} and {max}; take a newer one, or device = \"cpu\"",
        capability.0,
        capability.1
    )]
    DeltaRule {
        /// The card's.
        capability: (i32, i32),
        /// Bytes that they need.
        bytes: usize,
        /// Bytes that the card has.
        max: usize,
    },
    /// NVRTC refused a kernel source.
    #[error("compiling {program} for {architecture} failed ({status}): {log}")]
    Compile {
        /// Name of the file, and its macros.
        program: String,
        /// Such as `sm_90`.
        architecture: String,
        /// NVRTC's status.
        status: String,
        /// The compiler's messages.
        log: String,
    },
    /// A call of NVRTC failed.
    #[error("{action} failed: {status}")]
    Nvrtc {
        /// What was attempted.
        action: &'static str,
        /// NVRTC's status.
        status: String,
    },
    /// Captured work did what a CUDA graph can't hold.
    #[error("{action} can't be part of a CUDA graph")]
    Captured {
        /// What was attempted.
        action: String,
    },
    /// A call of cuBLAS failed.
    #[error("{action} failed: {status}")]
    Cublas {
        /// What was attempted.
        action: String,
        /// cuBLAS's status.
        status: String,
    },
}

impl CudaError {
    /// A function for `map_err` that makes the error.
    pub(crate) fn driver(action: impl Into<String>) -> impl FnOnce(DriverError) -> CudaError {
        let action = action.into();
        move |error| {
            let text = |text: Result<&std::ffi::CStr, DriverError>| {
                text.map_or_else(|_| "unknown".to_owned(), |text| text.to_string_lossy().into_owned())
            };
            CudaError::Driver { action, code: text(error.error_name()), text: text(error.error_string()) }
        }
    }

    pub(crate) fn nvrtc(action: &'static str) -> impl FnOnce(NvrtcError) -> CudaError {
        move |error| CudaError::Nvrtc { action, status: format!("{:?}", error.0) }
    }

    pub(crate) fn cublas(action: impl Into<String>) -> impl FnOnce(CublasError) -> CudaError {
        let action = action.into();
        move |error| CudaError::Cublas { action, status: format!("{:?}", error.0) }
    }
}
