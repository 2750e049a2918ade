//! Host memory that the GPU copies into directly.

use std::sync::Arc;

use cudarc::driver::{result, sys};

use super::{Cuda, CudaError, Element, Slice};

/// Page-locked host memory, made once and reused. Data that comes back at every step (logits) crosses the bus several
/// times as fast as into ordinary memory, which the driver copies in pieces.
pub(crate) struct Pinned<T: Element> {
    cuda: Arc<Cuda>,
    pointer: *mut T,
    capacity: usize,
    /// Number of elements of the latest download.
    len: usize,
}

// SAFETY: it owns its memory, as a vector does.
unsafe impl<T: Element + Send> Send for Pinned<T> {}
// SAFETY: as above.
unsafe impl<T: Element + Sync> Sync for Pinned<T> {}

impl<T: Element> Pinned<T> {
    /// No memory yet.
    pub(crate) fn new(cuda: &Arc<Cuda>) -> Self {
        Pinned { cuda: Arc::clone(cuda), pointer: std::ptr::null_mut(), capacity: 0, len: 0 }
    }

    /// The elements of `from`, after all work queued before is done.
    ///
    /// # Errors
    /// The first failure on the GPU since it was opened.
    pub(crate) fn download(&mut self, from: Slice<'_, T>) -> Result<&[T], CudaError> {
        self.len = 0;
        self.cuda.check()?;
        if from.len() == 0 {
            return Ok(&[]);
        }
        self.cuda.bind();
        self.reserve(from.len())?;
        let bytes = from.len() * size_of::<T>();
        // SAFETY: there is room for the elements, and it stays while they are copied, because this waits for the copy.
        unsafe {
            sys::cuMemcpyDtoHAsync_v2(self.pointer.cast(), from.address(), bytes, self.cuda.stream())
                .result()
                .map_err(CudaError::driver("copying from the GPU"))?;
        }
        self.cuda.synchronize()?;
        self.len = from.len();
        // SAFETY: the elements have been written, any bytes are an element, and the memory lives as long as `self`.
        Ok(unsafe { std::slice::from_raw_parts(self.pointer, self.len) })
    }

    fn reserve(&mut self, len: usize) -> Result<(), CudaError> {
        if len <= self.capacity {
            return Ok(());
        }
        self.free();
        // SAFETY: the size is above 0; the memory is freed below and nowhere else.
        let pointer = unsafe { result::malloc_host(len * size_of::<T>(), 0) };
        self.pointer = pointer.map_err(CudaError::driver("locking memory of the host"))?.cast();
        self.capacity = len;
        Ok(())
    }

    fn free(&mut self) {
        if self.capacity > 0 {
            self.cuda.bind();
            // SAFETY: it was allocated by `reserve`, and no copy into it is under way.
            let freed = unsafe { result::free_host(self.pointer.cast()) };
            self.cuda.note(freed.map_err(CudaError::driver("freeing locked memory of the host")));
            self.capacity = 0;
        }
    }
}

impl<T: Element> Drop for Pinned<T> {
    fn drop(&mut self) {
        self.free();
    }
}

impl<T: Element> std::fmt::Debug for Pinned<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pinned memory for {} {:?}", self.capacity, T::SCALAR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::{Buffer, testing::device};

    #[test]
    fn pinned_memory_grows_and_is_used_again() {
        let Some(cuda) = device() else { return };
        let mut pinned = Pinned::new(&cuda);
        for n in [0, 3, 1000, 5] {
            let numbers: Vec<i32> = (0..n).map(|x| x * 7).collect();
            let buffer = Buffer::upload(&cuda, &numbers);
            assert_eq!(pinned.download(buffer.all()).unwrap(), numbers);
        }
        assert_eq!(pinned.capacity, 1000);
    }
}
