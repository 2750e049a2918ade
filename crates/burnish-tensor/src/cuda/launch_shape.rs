//! The layout of a kernel's work over blocks of threads: pure functions of sizes.

/// Most blocks along y and z.
const GRID_Y_MAX: usize = 65_535;
/// Most blocks along x.
const GRID_X_MAX: usize = (1 << 31) - 1;
/// Most blocks of an elementwise kernel; each thread then steps through several elements.
const ELEMENT_BLOCKS_MAX: usize = 1 << 12;

/// Number of blocks, threads per block, and bytes of dynamic shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaunchShape {
    pub(crate) grid: [u32; 2],
    pub(crate) threads: u32,
    pub(crate) shared_bytes: u32,
}

impl LaunchShape {
    /// `x` by `y` blocks.
    ///
    /// # Panics
    /// If a card can't launch that many: more than 2³¹ - 1 rows, or more than 65,535 heads.
    pub(crate) fn blocks(x: usize, y: usize, threads: usize) -> LaunchShape {
        assert!(x <= GRID_X_MAX && y <= GRID_Y_MAX, "{x} by {y} blocks are more than a launch may have");
        assert!(threads.is_multiple_of(32) && threads <= 1024, "{threads} threads in a block");
        LaunchShape { grid: [x as u32, y as u32], threads: threads as u32, shared_bytes: 0 }
    }

    /// 256 threads per block, which step through `n` elements.
    pub(crate) fn elements(n: usize) -> LaunchShape {
        LaunchShape::blocks(n.div_ceil(256).min(ELEMENT_BLOCKS_MAX), 1, 256)
    }

    /// 256 threads per block, which step through `n` elements, four at a time.
    pub(crate) fn fours(n: usize) -> LaunchShape {
        LaunchShape::elements(n.div_ceil(4))
    }

    /// One block per row, with threads for `cols` columns, at most 256.
    pub(crate) fn rows(rows: usize, cols: usize) -> LaunchShape {
        LaunchShape::blocks(rows, 1, cols.next_multiple_of(32).clamp(32, 256))
    }

    pub(crate) fn with_shared(self, bytes: usize) -> LaunchShape {
        LaunchShape { shared_bytes: bytes as u32, ..self }
    }

    /// Is there nothing to do? A launch of no blocks is an error.
    pub(crate) fn is_empty(&self) -> bool {
        self.grid.contains(&0)
    }
}

/// The plan of a sum over rows, column by column, in two stages: `count` parts of `each` rows. It depends only on the
/// number of rows, not on the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) each: usize,
    pub(crate) count: usize,
}

impl Parts {
    pub(crate) fn of(rows: usize) -> Parts {
        let each = rows.div_ceil(512).max(64);
        Parts { each, count: rows.div_ceil(each) }
    }
}

/// Threads that share a group of a norm: a warp, which needs no barrier, or the whole block for long groups.
pub(crate) fn norm_lanes(width: usize) -> usize {
    if width <= 1024 { 32 } else { 256 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_cover_their_work_within_the_limits_of_a_launch() {
        for n in [0, 1, 255, 256, 257, 1 << 33] {
            let plan = LaunchShape::elements(n);
            assert!(plan.grid[0] as usize <= ELEMENT_BLOCKS_MAX);
            assert_eq!(plan.is_empty(), n == 0);
            assert!(plan.grid[0] as usize * 256 >= n.min(ELEMENT_BLOCKS_MAX * 256));
        }
        assert_eq!(LaunchShape::rows(7, 1).threads, 32);
        assert_eq!(LaunchShape::rows(7, 100).threads, 128);
        assert_eq!(LaunchShape::rows(7, 10_000).threads, 256);
        assert!(LaunchShape::blocks(3, 0, 32).is_empty());
    }

    #[test]
    fn parts_cover_all_rows_and_are_few() {
        for rows in [0, 1, 63, 64, 65, 16_384, 16_384 * 16, (1 << 31) + 7] {
            let Parts { each, count } = Parts::of(rows);
            assert!(count <= 512, "{count}");
            assert!(each * count >= rows && (count == 0 || each * (count - 1) < rows));
        }
    }
}
