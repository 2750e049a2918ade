//! How many logits an output head holds at once, so that the full `[T, V]` logits need never exist.

/// Bounds of what a head holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogitsRoom {
    /// Most logits of a chunk of rows, unless it has the least number of rows.
    chunk: usize,
    /// Most rows of a chunk.
    rows_max: usize,
    /// Most logits that are kept from the forward pass for the backward pass.
    kept_max: usize,
}

/// The fewest rows of a chunk.
const ROWS_MIN: usize = 64;

impl LogitsRoom {
    /// On the CPU: chunks of 32 MiB, at most 64 MiB kept.
    pub const CPU: Self = LogitsRoom { chunk: 1 << 23, rows_max: 512, kept_max: 1 << 24 };
    /// On a GPU: 1 GiB of either. Every chunk adds to the whole gradient of the head's weight, which takes as long as
    /// the product itself where a chunk is 400 rows.
    pub const GPU: Self = LogitsRoom { chunk: 1 << 28, rows_max: 4096, kept_max: 1 << 28 };

    /// Rows whose logits are computed together.
    #[must_use]
    pub fn chunk_rows(self, vocab: usize) -> usize {
        (self.chunk / vocab.max(1)).clamp(ROWS_MIN, self.rows_max)
    }

    /// Are the logits of `rows` rows kept for the backward pass?
    #[must_use]
    pub fn keeps(self, rows: usize, vocab: usize) -> bool {
        rows * vocab <= self.kept_max
    }

    /// Logits that a pass over `rows` rows holds at once, forward and backward.
    #[must_use]
    pub fn held(self, rows: usize, vocab: usize) -> usize {
        if self.keeps(rows, vocab) { rows * vocab } else { self.chunk_rows(vocab).min(rows) * vocab }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_passes_keep_their_logits_and_large_ones_hold_a_chunk() {
        let room = LogitsRoom::CPU;
        assert_eq!(room.held(100, 1000), 100_000);
        assert_eq!(room.held(16_384, 151_936), 64 * 151_936, "at least 64 rows");
        assert_eq!(room.held(1 << 20, 100), 512 * 100, "at most 512 rows");
        assert_eq!(room.held(32, 1 << 20), 32 << 20, "no more rows than there are");
        assert!(LogitsRoom::GPU.held(16_384, 151_936) > room.held(16_384, 151_936));
    }
}
