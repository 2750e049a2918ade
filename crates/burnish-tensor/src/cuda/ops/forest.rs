//! A layout in the form that attention kernels take: tasks, and the row ranges that each walks over.

use std::{ops::Range, sync::Arc};

use crate::{
    Layout,
    cuda::{Buffer, Cuda},
};

/// Tasks (first row, rows, first range, ranges) and ranges (first row, end, causal?) on the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Walk {
    pub(crate) tasks: Vec<i32>,
    pub(crate) ranges: Vec<i32>,
}

impl Walk {
    /// Adds one task per `tile` rows of `rows`, each over the ranges from number `first` on.
    fn add(&mut self, rows: Range<usize>, tile: usize, first: usize) {
        let count = self.ranges.len() / 3 - first;
        for start in rows.clone().step_by(tile) {
            let numbers = [start, tile.min(rows.end - start), first, count];
            self.tasks.extend(numbers.map(|number| number as i32));
        }
    }

    fn add_range(&mut self, rows: &Range<usize>, is_causal: bool) {
        if !rows.is_empty() {
            self.ranges.extend([rows.start as i32, rows.end as i32, i32::from(is_causal)]);
        }
    }

    /// For tiles of queries: the rows that they see, that is their ancestors (root first) and then their own segment. The
    /// first `pasts[i]` rows of segment `i` are only seen; without `pasts`, all rows are queries.
    pub(crate) fn of_queries(layout: &Layout, tile: usize, pasts: &[usize]) -> Walk {
        let mut walk = Walk::default();
        for (index, segment) in layout.segments().iter().enumerate() {
            let first = walk.ranges.len() / 3;
            layout.ancestors(index).iter().for_each(|rows| walk.add_range(rows, false));
            walk.add_range(&segment.rows(), segment.is_causal());
            let past = pasts.get(index).copied().unwrap_or_default();
            walk.add(segment.start + past..segment.rows().end, tile, first);
        }
        walk
    }

    /// For tiles of keys: the rows that see them, that is their own segment and then its descendants in row order.
    pub(crate) fn of_keys(layout: &Layout, tile: usize) -> Walk {
        let segments = layout.segments();
        let mut descendants: Vec<Vec<usize>> = vec![Vec::new(); segments.len()];
        for index in 0..segments.len() {
            let mut next = segments[index].parent;
            while let Some(ancestor) = next {
                descendants[ancestor].push(index);
                next = segments[ancestor].parent;
            }
        }
        let mut walk = Walk::default();
        for (segment, descendants) in segments.iter().zip(&descendants) {
            let first = walk.ranges.len() / 3;
            walk.add_range(&segment.rows(), segment.is_causal());
            descendants.iter().for_each(|&index| walk.add_range(&segments[index].rows(), false));
            walk.add(segment.rows(), tile, first);
        }
        walk
    }
}

impl Walk {
    /// Sorts tasks by the rows that they walk over; `of_causal` counts those of a task in a causal range.
    fn longest_first(&mut self, of_causal: impl Fn(&[i32], &[i32]) -> i32) {
        let ranges: Vec<&[i32]> = self.ranges.chunks_exact(3).collect();
        let rows = |task: &[i32]| {
            let own = &ranges[task[2] as usize..][..task[3] as usize];
            own.iter()
                .map(|range| if range[2] != 0 { of_causal(task, range) } else { range[1] - range[0] })
                .map(i64::from)
                .sum::<i64>()
        };
        let mut tasks: Vec<[i32; 4]> = self.tasks.as_chunks().0.to_vec();
        tasks.sort_by_cached_key(|task| std::cmp::Reverse(rows(task)));
        self.tasks = tasks.concat();
    }
}

/// A walk on the GPU.
#[derive(Debug)]
pub(crate) struct Uploaded {
    pub(crate) tasks: Buffer<i32>,
    pub(crate) ranges: Buffer<i32>,
    pub(crate) count: usize,
}

impl Uploaded {
    fn new(cuda: &Arc<Cuda>, walk: &Walk) -> Self {
        let [tasks, ranges] = [&walk.tasks, &walk.ranges].map(|list| Buffer::upload(cuda, list));
        Uploaded { tasks, ranges, count: walk.tasks.len() / 4 }
    }
}

/// The kernels for attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttentionKernel {
    /// `kernels/attention.cu`: f32, with tiles of this many rows and columns.
    Fma { tile: usize },
    /// `kernels/attention_mma.cu`: operands in bf16, on tensor cores.
    Mma(MmaTiles),
    /// `kernels/attention_wgmma.cu`: the same by the instructions of compute capability 9.0.
    Wgmma,
}

/// Tiles of `kernels/attention_mma.cu`: rows of a task, and columns that are walked over at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MmaTiles {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

impl AttentionKernel {
    /// Number of rows in a task.
    pub(crate) fn tile(self) -> usize {
        match self {
            AttentionKernel::Fma { tile } => tile,
            AttentionKernel::Mma(tiles) => tiles.rows,
            AttentionKernel::Wgmma => 128,
        }
    }
}

/// A layout on the GPU, cut into tasks for one method. Every layer of a batch uses the same.
#[derive(Debug)]
pub(crate) struct Forest {
    pub(crate) method: AttentionKernel,
    pub(crate) rows: usize,
    pub(crate) queries: Uploaded,
    pub(crate) keys: Uploaded,
}

impl Forest {
    /// Without `pasts`, all rows are queries ([`Walk::of_queries`]).
    pub(crate) fn upload(
        cuda: &Arc<Cuda>,
        layout: &Layout,
        pasts: &[usize],
        method: AttentionKernel,
    ) -> Self {
        let tile = method.tile();
        assert!(i32::try_from(layout.rows()).is_ok(), "{} rows in a batch", layout.rows());
        let [mut queries, mut keys] = [Walk::of_queries(layout, tile, pasts), Walk::of_keys(layout, tile)];
        if method == AttentionKernel::Wgmma {
            queries.longest_first(|task, range| range[1].min(task[0] + task[1]) - range[0]);
            keys.longest_first(|task, range| range[1] - range[0].max(task[0]));
        }
        let [queries, keys] = [queries, keys].map(|walk| Uploaded::new(cuda, &walk));
        Forest { method, rows: layout.rows(), queries, keys }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Segment;

    fn layout() -> Layout {
        let segment = Segment::causal;
        let segments = vec![
            segment(0, 5, None),
            segment(5, 0, Some(0)),
            segment(5, 3, Some(1)),
            segment(8, 2, Some(0)),
            segment(10, 1, None),
        ];
        Layout::new(segments).unwrap()
    }

    #[test]
    fn queries_walk_over_their_ancestors_then_their_own_segment() {
        let walk = Walk::of_queries(&layout(), 4, &[]);
        assert_eq!(walk.ranges, [0, 5, 1, 0, 5, 0, 0, 5, 0, 5, 8, 1, 0, 5, 0, 8, 10, 1, 10, 11, 1]);
        assert_eq!(walk.tasks, [0, 4, 0, 1, 4, 1, 0, 1, 5, 3, 2, 2, 8, 2, 4, 2, 10, 1, 6, 1]);
    }

    #[test]
    fn long_tasks_come_first_and_equal_ones_stay_in_order() {
        let mut walk = Walk::of_queries(&layout(), 2, &[]);
        let before = walk.clone();
        walk.longest_first(|task, range| range[1].min(task[0] + task[1]) - range[0]);
        assert_eq!(walk.ranges, before.ranges);
        let firsts: Vec<i32> = walk.tasks.chunks(4).map(|task| task[0]).collect();
        // Rows seen: 2, 4, 5 of the first segment, 7 and 8, 7, 1.
        assert_eq!(firsts, [7, 5, 8, 4, 2, 0, 10]);
        let mut keys = Walk::of_keys(&layout(), 4);
        keys.longest_first(|task, range| range[1] - range[0].max(task[0]));
        let firsts: Vec<i32> = keys.tasks.chunks(4).map(|task| task[0]).collect();
        // Seen by 10, 6, 3, 2 and 1.
        assert_eq!(firsts, [0, 4, 5, 8, 10]);
    }

    #[test]
    fn rows_that_were_read_before_are_seen_and_ask_nothing() {
        let layout = Layout::causal(&[9, 3]);
        let [all, rest] = [&[][..], &[6, 0]].map(|pasts| Walk::of_queries(&layout, 4, pasts));
        assert_eq!(all.ranges, rest.ranges);
        assert_eq!(rest.tasks, [6, 3, 0, 1, 9, 3, 1, 1]);
    }

    #[test]
    fn a_bidirectional_segment_is_walked_over_whole() {
        let mut segments = layout().segments().to_vec();
        segments[2].visibility = crate::Visibility::Bidirectional;
        let layout = Layout::new(segments).unwrap();
        let [queries, keys] = [Walk::of_queries(&layout, 4, &[]), Walk::of_keys(&layout, 4)];
        assert_eq!(queries.ranges[6..12], [0, 5, 0, 5, 8, 0]);
        assert_eq!(keys.ranges[12..15], [5, 8, 0]);
    }

    #[test]
    fn keys_walk_over_their_own_segment_then_its_descendants() {
        let walk = Walk::of_keys(&layout(), 4);
        assert_eq!(walk.ranges, [0, 5, 1, 5, 8, 0, 8, 10, 0, 5, 8, 0, 5, 8, 1, 8, 10, 1, 10, 11, 1]);
        assert_eq!(walk.tasks, [0, 4, 0, 3, 4, 1, 0, 3, 5, 3, 4, 1, 8, 2, 5, 1, 10, 1, 6, 1]);
    }
}
