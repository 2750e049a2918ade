//! The memory of a GPU, handed out and taken back without asking the driver each time.
//!
//! All work is on one stream, in the order of the calls. Memory may therefore be reused as soon as its buffer is
//! dropped: work that was launched on it comes earlier on the stream.

use std::collections::HashMap;

/// Larger buffers have no class: they take what they need, and the driver's pool gets their memory back, because it can
/// divide it.
pub(crate) const CLASS_BYTES_MAX: usize = 256 << 20;

/// The size class of a number of bytes, so that nearly equal sizes share free memory: eight classes per doubling.
pub(crate) fn class_of(bytes: usize) -> usize {
    if bytes > CLASS_BYTES_MAX {
        return bytes.next_multiple_of(512);
    }
    let step = (bytes.next_power_of_two() / 16).max(512);
    bytes.next_multiple_of(step)
}

/// Free memory by class.
type Free = HashMap<usize, Vec<u64>>;

/// Free memory that only certain work uses ([`Cuda::within`](super::Cuda::within)).
#[derive(Debug, Default)]
pub(crate) struct Reserve(Free);

impl Reserve {
    /// Its memory with the classes.
    pub(super) fn into_pointers(self) -> impl Iterator<Item = (usize, u64)> {
        self.0.into_iter().flat_map(|(class, pointers)| pointers.into_iter().map(move |at| (class, at)))
    }
}

/// Free memory by class, and the amount in use.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    free: Free,
    /// The free memory of the work under way, if it has a reserve.
    reserve: Option<Free>,
    /// Bytes in buffers.
    pub(crate) in_use: usize,
    /// Most bytes that were in buffers at once.
    pub(crate) peak: usize,
}

impl Memory {
    /// Free memory of this class, if there is any. What is not in the reserve comes into it when it is freed.
    pub(crate) fn take(&mut self, class: usize) -> Option<u64> {
        let of = |free: &mut Free| free.get_mut(&class)?.pop();
        self.reserve.as_mut().and_then(of).or_else(|| of(&mut self.free))
    }

    /// Counts a new buffer.
    pub(crate) fn count(&mut self, class: usize) {
        self.in_use += class;
        self.peak = self.peak.max(self.in_use);
    }

    /// A buffer is no more.
    pub(crate) fn uncount(&mut self, class: usize) {
        self.in_use -= class;
    }

    /// Keeps free memory.
    pub(crate) fn keep(&mut self, class: usize, pointer: u64) {
        self.reserve.as_mut().unwrap_or(&mut self.free).entry(class).or_default().push(pointer);
    }

    /// Has the work under way a reserve?
    pub(crate) fn has_reserve(&self) -> bool {
        self.reserve.is_some()
    }

    /// From now on memory comes from this reserve.
    pub(crate) fn enter(&mut self, reserve: &mut Reserve) {
        self.reserve = Some(std::mem::take(&mut reserve.0));
    }

    /// Gives the reserve back.
    pub(crate) fn leave(&mut self, reserve: &mut Reserve) {
        reserve.0 = self.reserve.take().unwrap_or_default();
    }

    /// All free memory outside of reserves, which is no longer kept here.
    pub(crate) fn drain(&mut self) -> Vec<u64> {
        self.free.drain().flat_map(|(_, pointers)| pointers).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_what_they_are_for_and_waste_little() {
        for bytes in [1, 511, 512, 513, 8191, 8193, 1_000_000, (1 << 30) + 1] {
            let class = class_of(bytes);
            assert!(class >= bytes && class < bytes + 512.max(bytes / 8 + 1), "{bytes} in {class}");
            assert_eq!(class_of(class), class);
        }
        // The classes end at one.
        assert_eq!(class_of(CLASS_BYTES_MAX), CLASS_BYTES_MAX);
        assert_eq!(class_of(CLASS_BYTES_MAX + 1), CLASS_BYTES_MAX + 512);
        assert_eq!(class_of((30 << 30) + 5), (30 << 30) + 512);
    }

    #[test]
    fn memory_comes_back_by_class_and_its_peak_is_known() {
        let mut memory = Memory::default();
        assert_eq!(memory.take(1024), None);
        memory.count(1024);
        memory.count(512);
        memory.uncount(1024);
        memory.keep(1024, 7);
        assert_eq!(memory.take(512), None);
        assert_eq!(memory.take(1024), Some(7));
        assert_eq!((memory.in_use, memory.peak), (512, 1536));
        memory.uncount(512);
        memory.keep(512, 8);
        assert_eq!((memory.in_use, memory.drain()), (0, vec![8]));
    }

    #[test]
    fn a_reserve_has_its_memory_for_itself() {
        let (mut memory, mut reserve) = (Memory::default(), Reserve::default());
        memory.keep(512, 1);
        memory.keep(512, 2);
        memory.enter(&mut reserve);
        assert_eq!((memory.take(512), memory.has_reserve()), (Some(2), true));
        memory.keep(512, 2);
        assert_eq!(memory.drain(), [1], "captured work may still use the reserve");
        memory.leave(&mut reserve);
        assert_eq!((memory.take(512), memory.has_reserve()), (None, false));
        memory.enter(&mut reserve);
        assert_eq!(memory.take(512), Some(2));
        memory.keep(512, 2);
        memory.leave(&mut reserve);
        assert_eq!(reserve.into_pointers().collect::<Vec<_>>(), [(512, 2)]);
    }
}
