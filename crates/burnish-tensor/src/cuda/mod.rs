//! NVIDIA GPUs: the operations of this crate as CUDA kernels and cuBLAS products.
//!
//! Building needs no CUDA toolkit. Three libraries are loaded at run time: the driver (`libcuda`); NVRTC (`libnvrtc`),
//! which compiles the kernels for the card when they are first needed; and cuBLAS (`libcublas`).
//!
//! What holds everywhere:
//! - Work is queued on one stream in the order of the calls; only [`Buffer::download`] waits for the GPU.
//! - Uploads go through memory of the device's own ([`staging`]): the caller's may be gone when the copy is made.
//! - Operations do not return errors one by one: [`Cuda`] keeps the first error and returns it from the next download,
//!   and work queued after the error is dropped. The driver itself reports most errors that late anyway.
//! - A kernel adds numbers in an order that depends only on sizes, and never adds floats atomically, so the same calls
//!   give the same bits.
//! - Precision is as in `values`: in bf16, operations also pass on bf16, whereas the CPU only rounds operands.
//!
//! The tests run this code, including launches, against `emulate/`: the driver, NVRTC and cuBLAS of an emulated device,
//! for which a C++ compiler compiles the same kernels.

mod allocate;
mod arguments;
mod buffer;
pub(crate) mod capture;
mod error;
mod few_rows;
pub(crate) mod flow;
mod launch;
mod launch_shape;
mod libraries;
pub(crate) mod memory;
mod modules;
pub(crate) mod ops;
pub(crate) mod params;
pub(crate) mod pinned;
mod product;
mod staging;
pub(crate) mod tape;
mod target;
mod tensor_map;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
pub(crate) mod values;

use std::{
    fmt,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use cudarc::{
    cublas,
    driver::{result, sys},
};

pub(crate) use arguments::{Argument, int, long};
pub(crate) use buffer::{Buffer, Element, Slice, SliceMut};
use capture::Graphs;
pub use error::CudaError;
use launch_shape::LaunchShape;
use memory::Memory;
use modules::{Modules, Program};
use staging::Staging;

/// Workspace of cuBLAS: 32 MiB, NVIDIA's advice for cards of compute capability 9.
const WORKSPACE_BYTES: usize = 32 << 20;

/// A GPU that is ready to work.
pub struct Cuda {
    name: String,
    capability: (i32, i32),
    memory_bytes: usize,
    shared_bytes_max: usize,
    multiprocessors: usize,
    options: Options,
    device: sys::CUdevice,
    context: sys::CUcontext,
    stream: sys::CUstream,
    /// The driver's memory for `stream`.
    pool: sys::CUmemoryPool,
    blas: Mutex<Blas>,
    staging: Mutex<Staging>,
    memory: Mutex<Memory>,
    modules: Mutex<Modules>,
    failed: AtomicBool,
    error: Mutex<Option<CudaError>>,
    is_capturing: AtomicBool,
    /// The first error of the capture under way.
    capture_error: Mutex<Option<CudaError>>,
    graphs: Mutex<Graphs>,
    /// May kernels be launched before earlier work is done? Not once the driver has refused it.
    pub(crate) overlaps: AtomicBool,
    /// How often each kernel was launched.
    #[cfg(test)]
    pub(crate) launched: Mutex<std::collections::HashMap<String, usize>>,
}

/// Settings that tests change.
#[derive(Clone, Debug)]
struct Options {
    /// Compiles kernels for a card of this compute capability, whatever the card is.
    capability: Option<(i32, i32)>,
    /// The folder for compiled kernels; `None` if there is none.
    cache: Option<PathBuf>,
    /// Is freed memory kept for the next buffer of its class? If not, every buffer has memory of its exact size, so
    /// that the emulated device detects reads of fresh memory and writes out of bounds.
    reuses_memory: bool,
    /// Bytes of each half of the memory that uploads go through.
    staging_bytes: usize,
}

struct Blas {
    handle: cublas::sys::cublasHandle_t,
    workspace: u64,
}

// SAFETY: the driver's handles may be used from any thread once their context is current there, which `bind` ensures;
// the cuBLAS handle and the modules are behind locks.
unsafe impl Send for Cuda {}
// SAFETY: as above.
unsafe impl Sync for Cuda {}

/// Locks; a panic leaves nothing here half-changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cuda {
    /// Opens the GPU with this number, counted from 0 after `CUDA_VISIBLE_DEVICES` is applied.
    ///
    /// # Errors
    /// If a library is missing, there is no such GPU, or the driver refuses. Kernels are compiled when first used, so
    /// their errors come later.
    pub fn open(ordinal: usize) -> Result<Arc<Cuda>, CudaError> {
        let options = Options {
            capability: None,
            cache: modules::cache_folder(),
            reuses_memory: true,
            staging_bytes: Staging::HALF_BYTES,
        };
        Cuda::open_with(ordinal, options)
    }

    fn open_with(ordinal: usize, options: Options) -> Result<Arc<Cuda>, CudaError> {
        libraries::need()?;
        result::init().map_err(CudaError::driver("starting NVIDIA's driver"))?;
        let count = result::device::get_count().map_err(CudaError::driver("counting the GPUs"))?;
        let count = usize::try_from(count).unwrap_or(0);
        if ordinal >= count {
            return Err(CudaError::Ordinal { ordinal, count });
        }
        let device = result::device::get(ordinal as i32)
            .map_err(CudaError::driver(format!("opening cuda:{ordinal}")))?;
        let asking = || CudaError::driver("asking the GPU what it is");
        let name = result::device::get_name(device).map_err(asking())?;
        // SAFETY: the device has just been opened.
        let attribute = |which| unsafe { result::device::get_attribute(device, which) }.map_err(asking());
        use sys::CUdevice_attribute_enum as Is;
        let major = attribute(Is::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(Is::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let shared = attribute(Is::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
        let multiprocessors = attribute(Is::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        // SAFETY: as above.
        let memory_bytes = unsafe { result::device::total_mem(device) }.map_err(asking())?;
        // SAFETY: as above; the context is released when the handle is dropped.
        let context = unsafe { result::primary_ctx::retain(device) }
            .map_err(CudaError::driver("making a context on the GPU"))?;
        let modules = Modules::new(options.capability.unwrap_or((major, minor)), options.cache.clone());
        let mut cuda = Cuda {
            name,
            capability: (major, minor),
            memory_bytes,
            shared_bytes_max: usize::try_from(shared).unwrap_or(0),
            multiprocessors: usize::try_from(multiprocessors).unwrap_or(1),
            options,
            device,
            context,
            stream: std::ptr::null_mut(),
            pool: std::ptr::null_mut(),
            blas: Mutex::new(Blas { handle: std::ptr::null_mut(), workspace: 0 }),
            staging: Mutex::new(Staging::none()),
            memory: Mutex::default(),
            modules: Mutex::new(modules),
            failed: AtomicBool::new(false),
            error: Mutex::new(None),
            is_capturing: AtomicBool::new(false),
            capture_error: Mutex::new(None),
            graphs: Mutex::default(),
            overlaps: AtomicBool::new(true),
            #[cfg(test)]
            launched: Mutex::default(),
        };
        cuda.start()?;
        Ok(Arc::new(cuda))
    }

    /// Sets up the stream, the driver's memory pool, uploads and cuBLAS.
    fn start(&mut self) -> Result<(), CudaError> {
        self.bind();
        self.stream = result::stream::create(result::stream::StreamKind::NonBlocking)
            .map_err(CudaError::driver("making a stream on the GPU"))?;
        // Freed memory stays with the program, because returning it to the system and getting it back is slow.
        // `release_memory` returns it where it is needed.
        let mut threshold = u64::MAX;
        // SAFETY: the pool belongs to the open device; the value is a 64-bit number, as this attribute requires.
        unsafe {
            self.pool = result::device::get_default_mem_pool(self.device)
                .map_err(CudaError::driver("asking for the GPU's pool of memory"))?;
            result::mem_pool::set_attribute(
                self.pool,
                sys::CUmemPool_attribute_enum::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                (&raw mut threshold).cast(),
            )
            .map_err(CudaError::driver("setting up the GPU's pool of memory"))?;
        }
        *lock(&self.staging) = Staging::new(self.options.staging_bytes)?;
        let handle = cublas::result::create_handle().map_err(CudaError::cublas("starting cuBLAS"))?;
        lock(&self.blas).handle = handle;
        let workspace = self.take(WORKSPACE_BYTES)?;
        lock(&self.blas).workspace = workspace;
        let failed = || CudaError::cublas("setting up cuBLAS");
        // SAFETY: handle, stream and workspace have just been made, and live until the handle is dropped.
        unsafe {
            cublas::result::set_stream(handle, self.stream.cast()).map_err(failed())?;
            cublas::sys::cublasSetWorkspace_v2(handle, workspace as *mut _, WORKSPACE_BYTES)
                .result()
                .map_err(failed())?;
            // cuBLAS may otherwise add parts of a product of bf16 operands in bf16, where it splits the inner size.
            let math = cublas::sys::cublasMath_t::CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
            cublas::sys::cublasSetMathMode(handle, math).result().map_err(failed())
        }
    }

    /// The card's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its compute capability, such as (9, 0).
    #[must_use]
    pub fn capability(&self) -> (i32, i32) {
        self.capability
    }

    /// Bytes of its memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// Most bytes of shared memory in a block.
    pub(crate) fn shared_bytes_max(&self) -> usize {
        self.shared_bytes_max
    }

    pub(crate) fn multiprocessors(&self) -> usize {
        self.multiprocessors
    }

    /// Waits until all queued work is done.
    ///
    /// # Errors
    /// The first error since the GPU was opened.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        self.check()?;
        self.refuse_in_capture("waiting for the GPU")?;
        self.bind();
        // SAFETY: the stream lives as long as this handle.
        let done = unsafe { result::stream::synchronize(self.stream) };
        self.note(done.map_err(CudaError::driver("work on the GPU")));
        self.check()
    }

    /// The first error since the GPU was opened, as far as is known without waiting.
    pub(crate) fn check(&self) -> Result<(), CudaError> {
        if !self.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        lock(&self.error).clone().map_or(Ok(()), Err)
    }

    /// Keeps the first error; during a capture, as the capture's.
    pub(crate) fn note(&self, outcome: Result<(), CudaError>) {
        if let Err(error) = outcome {
            if self.is_capturing.load(Ordering::Acquire) {
                lock(&self.capture_error).get_or_insert(error);
                return;
            }
            lock(&self.error).get_or_insert(error);
            self.failed.store(true, Ordering::Release);
        }
    }

    /// Makes the context current; returns whether nothing has failed so far.
    pub(crate) fn works(&self) -> bool {
        self.bind();
        !self.failed.load(Ordering::Acquire)
    }

    /// Makes the context current on the calling thread.
    pub(crate) fn bind(&self) {
        // SAFETY: the context is retained as long as this handle lives.
        let bound = unsafe { result::ctx::set_current(self.context) };
        self.note(bound.map_err(CudaError::driver("choosing the GPU")));
    }

    pub(crate) fn stream(&self) -> sys::CUstream {
        self.stream
    }

    /// Queues a kernel; nothing if the plan has no blocks.
    ///
    /// # Panics
    /// If the program has no such kernel, or the kernel takes other arguments.
    pub(crate) fn launch(&self, program: Program, name: &str, plan: LaunchShape, arguments: &mut [Argument]) {
        if plan.is_empty() || !self.works() {
            return;
        }
        #[cfg(test)]
        {
            *lock(&self.launched).entry(name.to_owned()).or_default() += 1;
        }
        let mut modules = lock(&self.modules);
        let kernel = match modules.kernel(program, name, &|| self.release_memory()) {
            Ok(kernel) => kernel,
            Err(error) => return self.note(Err(error)),
        };
        arguments::check(name, &kernel.parameters, arguments);
        if plan.shared_bytes > kernel.shared_bytes_max {
            // SAFETY: the function belongs to a loaded module.
            let raised = unsafe {
                result::function::set_function_attribute(
                    kernel.function,
                    sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                    plan.shared_bytes as i32,
                )
            };
            if raised.is_ok() {
                kernel.shared_bytes_max = plan.shared_bytes;
            }
            let bytes = plan.shared_bytes;
            self.note(raised.map_err(|error| {
                CudaError::driver(format!("giving {name} {bytes} bytes of shared memory"))(error)
            }));
        }
        let mut addresses: Vec<_> = arguments.iter_mut().map(Argument::address).collect();
        let overlaps = kernel.overlaps && self.overlaps.load(Ordering::Relaxed);
        // SAFETY: number and types of the arguments are those of the kernel. What they point at lives until the work is
        // done, because freed memory is only reused by work queued later. A kernel that overlaps begins with a wait.
        let mut launch = |overlaps| unsafe {
            launch::launch(kernel.function, plan, self.stream, overlaps, &mut addresses)
        };
        let mut launched = launch(overlaps);
        // A capture has then failed, and `refuse_graphs` is told.
        let is_capturing = self.is_capturing.load(Ordering::Acquire);
        if overlaps && !is_capturing && launched.is_err() && launch(false).is_ok() {
            self.overlaps.store(false, Ordering::Relaxed);
            launched = Ok(());
        }
        self.note(
            launched.map_err(|error| CudaError::driver(format!("launching {name} with {plan:?}"))(error)),
        );
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        self.bind();
        // SAFETY: no buffer is left, because each holds this handle. Nobody is left to receive an error.
        unsafe {
            let _ = result::stream::synchronize(self.stream);
            lock(&self.modules).unload();
            lock(&self.staging).free();
            let Blas { handle, workspace } = *lock(&self.blas);
            if !handle.is_null() {
                let _ = cublas::result::destroy_handle(handle);
            }
            let mut pointers = lock(&self.memory).drain();
            pointers.extend((workspace != 0).then_some(workspace));
            for pointer in pointers {
                let _ = result::free_async(pointer, self.stream);
            }
            let _ = result::stream::synchronize(self.stream);
            let _ = result::stream::destroy(self.stream);
            let _ = result::primary_ctx::release(self.device);
        }
    }
}

impl fmt::Debug for Cuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.capability;
        write!(f, "{} (compute capability {major}.{minor})", self.name)
    }
}
