//! Memory of a GPU for buffers: taken from what was freed before, or from the driver's pool.
//!
//! The driver's pool keeps what is freed, and can hold much that no new buffer fits into. [`Cuda::release_memory`] gives
//! all of it back to the card; an allocation that fails is tried again after that.

use cudarc::driver::{result, sys};

use super::{Cuda, CudaError, lock, memory};

impl Cuda {
    /// Most bytes that this program's buffers took at once, cuBLAS's workspace included.
    #[must_use]
    pub fn memory_peak_bytes(&self) -> usize {
        lock(&self.memory).peak
    }

    /// Bytes that buffers could still take: what the card has free, and what this program keeps without using it.
    ///
    /// # Errors
    /// If the driver can't say.
    pub fn memory_free_bytes(&self) -> Result<usize, CudaError> {
        self.bind();
        let asking = || CudaError::driver("asking how much memory of the GPU is free");
        let (on_card, _) = result::mem_get_info().map_err(asking())?;
        let mut reserved = 0_u64;
        // SAFETY: the pool belongs to the open device; the value is a 64-bit number, as this attribute requires.
        unsafe {
            result::mem_pool::get_attribute(
                self.pool,
                sys::CUmemPool_attribute_enum::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
                (&raw mut reserved).cast(),
            )
            .map_err(asking())?;
        }
        let reserved = usize::try_from(reserved).unwrap_or(0);
        Ok(on_card + reserved.saturating_sub(lock(&self.memory).in_use))
    }

    /// Bytes of the card's memory that are taken, by this program and by all others, as the driver counts.
    ///
    /// # Errors
    /// If the driver can't say.
    pub fn memory_taken_bytes(&self) -> Result<usize, CudaError> {
        self.bind();
        let info = result::mem_get_info();
        let (free, total) = info.map_err(CudaError::driver("asking how much memory of the GPU is free"))?;
        Ok(total - free)
    }

    #[cfg(test)]
    pub(super) fn memory_in_use_bytes(&self) -> usize {
        lock(&self.memory).in_use
    }

    /// Memory for a buffer; 0 for no bytes, or after an error.
    pub(crate) fn allocate(&self, bytes: usize) -> u64 {
        if bytes == 0 || !self.works() {
            return 0;
        }
        match self.take(bytes) {
            Ok(pointer) => pointer,
            Err(error) => {
                self.note(Err(error));
                0
            }
        }
    }

    fn class_of(&self, bytes: usize) -> usize {
        if self.options.reuses_memory { memory::class_of(bytes) } else { bytes }
    }

    pub(super) fn take(&self, bytes: usize) -> Result<u64, CudaError> {
        let class = self.class_of(bytes);
        // SAFETY: sizes are above 0, and the stream lives.
        let fresh = || unsafe { result::malloc_async(self.stream, class) };
        let kept = lock(&self.memory).take(class);
        if kept.is_none() {
            self.refuse_in_capture("taking memory of the GPU")?;
        }
        let pointer = match kept.map_or_else(fresh, Ok) {
            Err(error) if error.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                self.release_memory();
                fresh().map_err(|_| self.out_of_memory(bytes))?
            }
            other => other.map_err(CudaError::driver("taking memory of the GPU"))?,
        };
        lock(&self.memory).count(class);
        Ok(pointer)
    }

    fn out_of_memory(&self, bytes: usize) -> CudaError {
        let free = result::mem_get_info().map_or(0, |(free, _)| free);
        CudaError::OutOfMemory { bytes, in_use: lock(&self.memory).in_use, free, total: self.memory_bytes }
    }

    /// Gives the card all memory that no buffer uses, for whoever needs it next: this program's buffers of other sizes,
    /// the driver, another program. Waits until all queued work is done.
    pub(super) fn release_memory(&self) {
        let unused = lock(&self.memory).drain();
        for pointer in unused {
            // SAFETY: it was allocated on this stream, and no buffer uses it.
            let _ = unsafe { result::free_async(pointer, self.stream) };
        }
        // SAFETY: stream and pool are alive. The pool can only give back memory whose release on the stream is done.
        unsafe {
            let _ = result::stream::synchronize(self.stream);
            let _ = result::mem_pool::trim_to(self.pool, 0);
        }
    }

    /// Takes back memory from [`Cuda::allocate`].
    pub(crate) fn give_back(&self, bytes: usize, pointer: u64) {
        if pointer == 0 {
            return;
        }
        let class = self.class_of(bytes);
        lock(&self.memory).uncount(class);
        self.keep_or_free(class, pointer);
    }

    /// Keeps memory that no buffer uses for the next one of its class, or gives it back to the driver.
    pub(super) fn keep_or_free(&self, class: usize, pointer: u64) {
        let mut memory = lock(&self.memory);
        if memory.has_reserve() || (self.options.reuses_memory && class <= memory::CLASS_BYTES_MAX) {
            return memory.keep(class, pointer);
        }
        drop(memory);
        self.bind();
        // SAFETY: it was allocated on this stream, and no buffer uses it.
        let freed = unsafe { result::free_async(pointer, self.stream) };
        self.note(freed.map_err(CudaError::driver("giving memory of the GPU back")));
    }
}
