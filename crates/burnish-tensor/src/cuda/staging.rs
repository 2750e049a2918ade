//! Uploads that never read the caller's memory after they return.
//!
//! The driver copies from ordinary memory while the program goes on, and whether it has read everything when the call
//! returns depends on the card and the driver. Here bytes are copied into page-locked memory of the device's own first,
//! in halves: a half is written again when the event after its last copy has come to pass.

use cudarc::driver::{result, sys};

use super::{Cuda, CudaError, lock};

/// Page-locked memory in two halves, written one after the other.
pub(super) struct Staging {
    memory: *mut u8,
    half_bytes: usize,
    /// Of each half: its last copy is done.
    events: [sys::CUevent; 2],
    /// The half that is being filled.
    half: usize,
    /// Bytes of it that are in use.
    used: usize,
}

impl Staging {
    pub(super) const HALF_BYTES: usize = 8 << 20;

    /// No memory.
    pub(super) fn none() -> Self {
        Staging {
            memory: std::ptr::null_mut(),
            half_bytes: 0,
            events: [std::ptr::null_mut(); 2],
            half: 0,
            used: 0,
        }
    }

    /// Two halves of this size. The card's context must be current.
    pub(super) fn new(half_bytes: usize) -> Result<Self, CudaError> {
        let mut staging = Staging::none();
        for event in &mut staging.events {
            *event = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)
                .map_err(CudaError::driver("making an event on the GPU"))?;
        }
        // SAFETY: the size is above 0; `free` frees it.
        let memory = unsafe { result::malloc_host(2 * half_bytes, 0) };
        staging.memory = memory.map_err(CudaError::driver("locking memory of the host"))?.cast();
        staging.half_bytes = half_bytes;
        Ok(staging)
    }

    /// Queues the copy of `bytes` to address `to` of the card.
    ///
    /// # Safety
    /// There must be as many bytes at `to`, in use by nobody but work on this stream.
    unsafe fn upload(&mut self, to: u64, bytes: &[u8], stream: sys::CUstream) -> Result<(), CudaError> {
        let failed = || CudaError::driver("copying to the GPU");
        let mut done = 0;
        while done < bytes.len() {
            if self.used == self.half_bytes {
                // SAFETY: events and stream live. An event that was not recorded yet is over.
                unsafe {
                    result::event::record(self.events[self.half], stream).map_err(failed())?;
                    (self.half, self.used) = (1 - self.half, 0);
                    result::event::synchronize(self.events[self.half]).map_err(failed())?;
                }
            }
            let part = &bytes[done..(done + self.half_bytes - self.used).min(bytes.len())];
            // SAFETY: the part fits into what is left of the half, which no copy reads. The caller answers for `to`.
            unsafe {
                let from = self.memory.add(self.half * self.half_bytes + self.used);
                from.copy_from_nonoverlapping(part.as_ptr(), part.len());
                sys::cuMemcpyHtoDAsync_v2(to + done as u64, from.cast(), part.len(), stream)
                    .result()
                    .map_err(failed())?;
            }
            done += part.len();
            self.used = (self.used + part.len()).next_multiple_of(64).min(self.half_bytes);
        }
        Ok(())
    }

    /// # Safety
    /// No copy may be under way.
    pub(super) unsafe fn free(&mut self) {
        for event in self.events.into_iter().filter(|event| !event.is_null()) {
            // SAFETY: it was made by `new`, and `self` is emptied below.
            let _ = unsafe { result::event::destroy(event) };
        }
        if !self.memory.is_null() {
            // SAFETY: it was allocated by `new`; the caller guarantees that nothing reads it.
            let _ = unsafe { result::free_host(self.memory.cast()) };
        }
        *self = Staging::none();
    }
}

impl Cuda {
    /// Queues the copy of `bytes` to address `to`, and has read them when it returns. Failures are noted.
    ///
    /// # Safety
    /// There must be as many bytes at `to`, in use by nobody but work on this stream.
    pub(super) unsafe fn upload_bytes(&self, to: u64, bytes: &[u8]) {
        if self.refuse_in_capture("copying to the GPU").is_ok() {
            // SAFETY: the caller's promise.
            let copied = unsafe { lock(&self.staging).upload(to, bytes, self.stream) };
            self.note(copied);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::cuda::{Buffer, testing::device};

    #[test]
    fn what_was_uploaded_stays_though_its_memory_is_written_again() {
        let Some(cuda) = device() else { return };
        // Much longer than the staging memory of the emulated device, and next to nothing.
        let mut kept = Vec::new();
        for n in [1, 7, 100_000, 3, 64, 65, 20_000] {
            let mut numbers: Vec<i32> = (0..n).map(|x| x * 7 + n).collect();
            let expected = numbers.clone();
            kept.push((Buffer::upload(&cuda, &numbers), expected));
            numbers.fill(-1);
        }
        for (buffer, expected) in kept {
            assert_eq!(buffer.download().unwrap(), expected);
        }
    }
}
