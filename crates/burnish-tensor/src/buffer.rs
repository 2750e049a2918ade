//! Memory for values, used again and again.
//!
//! A large allocation that is freed goes back to the system and comes back as pages that the system must clear: in a
//! training step that took a fifth of the time. So dropped buffers wait here for the next request of about their size.

use std::collections::{BTreeMap, VecDeque};
use std::ops::{Deref, DerefMut, Range};
use std::sync::{Mutex, PoisonError};

/// Buffers below 64 KiB are left to the allocator, which is fast for them.
const POOLED_MIN: usize = 1 << 14;
/// Elements that may always wait: 64 MiB.
const IDLE_MIN: usize = 1 << 24;

static IDLE: Mutex<Idle> = Mutex::new(Idle::new());

/// Waiting buffers, and the number of elements in use.
///
/// Between the passes of a training step, as many buffers wait as are in use when their turn comes, and the next step
/// needs all of them again. So buffers are only freed in excess of the most that was ever in use at once plus a
/// quarter. When a new buffer has to be made, those that have waited longest are freed.
struct Idle {
    /// By true length, the newest last, each with its number in the order of return.
    by_len: BTreeMap<usize, VecDeque<(u64, Vec<f32>)>>,
    /// Number of waiting elements.
    waiting: usize,
    used: usize,
    /// Those of them that were asked for: a buffer may be longer than its values.
    asked: usize,
    /// The most that were ever in use.
    used_max: usize,
    /// Number of buffers ever returned.
    kept: u64,
}

impl Idle {
    const fn new() -> Self {
        Idle { by_len: BTreeMap::new(), waiting: 0, used: 0, asked: 0, used_max: 0, kept: 0 }
    }

    /// A waiting buffer with a length in `range`, if there is one; otherwise the buffers that must be freed before one
    /// of the least length is made.
    fn lend(&mut self, range: Range<usize>) -> (Option<Vec<f32>>, Vec<Vec<f32>>) {
        let class = range.start;
        let found = self.take(range);
        self.used += found.as_ref().map_or(class, Vec::len);
        self.used_max = self.used_max.max(self.used);
        let freed = if found.is_none() { self.shrink() } else { Vec::new() };
        (found, freed)
    }

    /// Of those with a length in `range`, the shortest; of equal ones, the newest.
    fn take(&mut self, range: Range<usize>) -> Option<Vec<f32>> {
        let (&len, same) = self.by_len.range_mut(range).next()?;
        let (_, data) = same.pop_back()?;
        if same.is_empty() {
            self.by_len.remove(&len);
        }
        self.waiting -= len;
        Some(data)
    }

    /// Takes back a lent buffer.
    fn keep(&mut self, data: Vec<f32>) {
        self.used -= data.len();
        self.waiting += data.len();
        self.kept += 1;
        self.by_len.entry(data.len()).or_default().push_back((self.kept, data));
    }

    /// Removes those that have waited longest until the rest is within the bound.
    fn shrink(&mut self) -> Vec<Vec<f32>> {
        let bound = self.used_max / 4 * 5 + IDLE_MIN;
        let mut freed = Vec::new();
        while self.waiting > 0 && self.used + self.waiting > bound {
            let oldest = self.by_len.values_mut().min_by_key(|same| same.front().map(|(kept, _)| *kept));
            let Some((_, data)) = oldest.and_then(VecDeque::pop_front) else { break };
            self.waiting -= data.len();
            if self.by_len.get(&data.len()).is_some_and(VecDeque::is_empty) {
                self.by_len.remove(&data.len());
            }
            freed.push(data);
        }
        freed
    }
}

/// Elements of all values in buffers of at least 64 KiB that are in use now.
#[must_use]
pub fn buffer_elements() -> usize {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner).asked
}

/// The numbers of a value on a tape. Its memory is reused after it is dropped.
#[derive(Debug, Default)]
pub struct Buffer {
    /// At least `len` elements.
    data: Vec<f32>,
    len: usize,
    /// Is its memory kept for reuse after it is dropped?
    is_kept: bool,
}

impl Buffer {
    /// The most bytes that wait for their next use, if values of `bytes` bytes are in use at once.
    #[must_use]
    pub fn waiting_bytes_max(bytes: usize) -> usize {
        bytes / 4 + size_of::<f32>() * IDLE_MIN
    }

    /// `len` elements with arbitrary content, for uses that write before they read.
    #[must_use]
    pub fn scratch(len: usize) -> Buffer {
        if len < POOLED_MIN {
            return Buffer::from(vec![0.0; len]);
        }
        // Lengths that differ from batch to batch, such as those of ragged answers, share memory.
        let class = class_of(len);
        Buffer::lent(len, class..2 * class)
    }

    /// The same for an exact length, for the many equal parts of something large. Never uses the memory of a longer
    /// buffer.
    #[must_use]
    pub fn part(len: usize) -> Buffer {
        let class = class_of(len);
        Buffer::lent(len, class..class + 1)
    }

    /// A buffer of `len` elements whose true length is in `range`; `range` starts at its class.
    fn lent(len: usize, range: Range<usize>) -> Buffer {
        let class = range.start;
        let (found, freed) = {
            let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
            idle.asked += len;
            idle.lend(range)
        };
        // Freed outside the lock.
        drop(freed);
        Buffer { data: found.unwrap_or_else(|| vec![0.0; class]), len, is_kept: true }
    }

    /// `len` zeros.
    pub(crate) fn zeros(len: usize) -> Buffer {
        let mut buffer = Buffer::scratch(len);
        buffer.fill(0.0);
        buffer
    }

    /// A copy.
    pub(crate) fn of(values: &[f32]) -> Buffer {
        let mut buffer = Buffer::scratch(values.len());
        buffer.copy_from_slice(values);
        buffer
    }
}

/// The true length of a buffer of `len` elements: eight steps per doubling, so that at most an eighth is wasted.
fn class_of(len: usize) -> usize {
    let len = len.max(8);
    len.next_multiple_of(1 << (len.ilog2() - 3))
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if !self.is_kept {
            return;
        }
        let data = std::mem::take(&mut self.data);
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        idle.asked -= self.len;
        idle.keep(data);
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Self {
        Buffer::of(self)
    }
}

impl From<Vec<f32>> for Buffer {
    fn from(data: Vec<f32>) -> Self {
        Buffer { len: data.len(), data, is_kept: false }
    }
}

impl From<&[f32]> for Buffer {
    fn from(values: &[f32]) -> Self {
        Buffer::of(values)
    }
}

impl Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.data[..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.data[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_buffer_is_used_again_for_any_length_of_its_class() {
        // A length that no other test uses, since they share the pool.
        let len = 7 * POOLED_MIN + 3;
        let first = Buffer::of(&vec![5.0; len]);
        let address = first.as_ptr();
        drop(first);
        let second = Buffer::scratch(class_of(len));
        assert_eq!(second.as_ptr(), address);
        assert_eq!(second[..len], vec![5.0; len]);
        drop(second);
        assert!(Buffer::zeros(len).iter().all(|&value| value == 0.0));
    }

    /// Lends and takes back without memory; returns the lengths that were freed.
    fn lend(idle: &mut Idle, class: usize) -> (Vec<f32>, bool, Vec<usize>) {
        let (found, freed) = idle.lend(class..2 * class);
        let is_new = found.is_none();
        (found.unwrap_or_else(|| vec![0.0; class]), is_new, freed.iter().map(Vec::len).collect())
    }

    #[test]
    fn the_shortest_that_is_long_enough_is_taken() {
        let mut idle = Idle::new();
        for data in [30, 10, 20, 15].map(|len| lend(&mut idle, len).0) {
            idle.keep(data);
        }
        let mut take = |range| idle.take(range).map(|data| data.len());
        assert_eq!([take(11..12), take(11..22), take(11..22)], [None, Some(15), Some(20)]);
        assert_eq!([take(11..22), take(15..30)], [None, None]);
        assert_eq!((idle.waiting, idle.used, idle.by_len.len()), (40, 0, 2));
    }

    #[test]
    fn what_was_in_use_at_once_waits_and_the_oldest_go_first() {
        // The memory is never touched, so it takes no space.
        let mut idle = Idle::new();
        let large = 4 * IDLE_MIN;
        for round in 0..3 {
            let lent = [0, 1].map(|_| lend(&mut idle, large));
            assert!(lent.iter().all(|(_, is_new, freed)| *is_new == (round == 0) && freed.is_empty()));
            for (data, ..) in lent {
                idle.keep(data);
            }
        }
        // 8 were in use at once, so 11 may exist: one of 3 fits beside the two, one of 1 does not.
        let (third, is_new, freed) = lend(&mut idle, 3 * IDLE_MIN / 2);
        assert_eq!((is_new, freed.len(), idle.waiting), (true, 0, 2 * large));
        let (fourth, _, freed) = lend(&mut idle, 2 * IDLE_MIN);
        assert_eq!((freed, idle.waiting, idle.used), (vec![large], large, 7 * IDLE_MIN / 2));
        for data in [third, fourth] {
            idle.keep(data);
        }
        assert_eq!((idle.used, idle.used_max), (0, 2 * large));
    }

    #[test]
    fn classes_waste_an_eighth_at_most() {
        for len in (POOLED_MIN..40 * POOLED_MIN).step_by(977) {
            let class = class_of(len);
            assert!(class >= len && class - len <= len / 8 && class_of(class) == class, "{len} {class}");
        }
    }

    #[test]
    fn short_and_foreign_buffers_are_not_kept() {
        let short = Buffer::zeros(3);
        assert_eq!(*short.clone(), [0.0; 3]);
        let foreign = Buffer::from(vec![1.0; 9 * POOLED_MIN + 1]);
        assert_eq!((foreign.len(), foreign.is_kept), (9 * POOLED_MIN + 1, false));
        assert!(!short.is_kept && Buffer::part(3).is_kept && Buffer::scratch(POOLED_MIN).is_kept);
    }
}
