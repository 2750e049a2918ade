//! A* in space and time for one agent under constraints: the low level of conflict-based search.

use super::grid::{FAR, Grid, Index};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that one agent must not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ban {
    /// Be at `cell` at `time`.
    At { time: u16, cell: Index },
    /// Arrive at `to` from `from` at `time`.
    Via { time: u16, from: Index, to: Index },
}

impl Ban {
    fn time(self) -> u16 {
        match self {
            Ban::At { time, .. } | Ban::Via { time, .. } => time,
        }
    }
}

/// The task of one agent.
pub(super) struct Errand<'a> {
    pub(super) grid: &'a Grid,
    pub(super) start: Index,
    pub(super) goal: Index,
    /// Steps from every cell to the goal.
    pub(super) distances: &'a [u16],
    /// May the agent wait before it has arrived for good?
    pub(super) waits: bool,
}

/// A reached state: where, when, and from which earlier entry.
#[derive(Clone, Copy)]
struct Reached {
    at: Index,
    time: u16,
    from: u32,
}

impl Errand<'_> {
    /// A shortest path that respects `bans` and after which the agent can stay at the goal for ever: the cell at each
    /// time from 0 to the last arrival. Of several shortest paths, one that meets few of `others` is preferred (an
    /// agent stays at the end of its path). `None` if there is no such path.
    pub(super) fn path(&self, bans: &[Ban], others: &[&[Index]]) -> Option<Vec<Index>> {
        let mut bans = bans.to_vec();
        bans.sort_unstable();
        let goal_free_after =
            bans.iter().filter(|ban| matches!(ban, Ban::At { cell, .. } if *cell == self.goal));
        let goal_free_after = goal_free_after.map(|ban| i32::from(ban.time())).max().unwrap_or(-1);
        // After the last ban, a shortest path visits each cell at most once.
        let horizon = bans.iter().map(|ban| ban.time()).max().unwrap_or(0) + self.grid.len() as u16;
        let mut seen = vec![false; self.grid.len() * (usize::from(horizon) + 1)];
        let mut reached = vec![Reached { at: self.start, time: 0, from: 0 }];
        let first = self.distances[usize::from(self.start)];
        if first == FAR {
            return None;
        }
        // Ordered by length of the whole path, number of meetings, remaining distance, then order of discovery.
        let mut open = BinaryHeap::from([Reverse((first, 0u16, first, 0u32))]);
        while let Some(Reverse((_, meetings, _, entry))) = open.pop() {
            let Reached { at, time, .. } = reached[entry as usize];
            if std::mem::replace(&mut seen[usize::from(time) * self.grid.len() + usize::from(at)], true) {
                continue;
            }
            if at == self.goal && i32::from(time) > goal_free_after {
                return Some(trace_back(&reached, entry));
            }
            if time == horizon {
                continue;
            }
            let time = time + 1;
            let wait = self.waits.then_some(at);
            for next in self.grid.neighbours(at).iter().copied().chain(wait) {
                if is_banned(&bans, time, at, next) {
                    continue;
                }
                let left = self.distances[usize::from(next)];
                let meetings = meetings + count_meetings(others, time, at, next);
                open.push(Reverse((time + left, meetings, left, reached.len() as u32)));
                reached.push(Reached { at: next, time, from: entry });
            }
        }
        None
    }
}

fn is_banned(bans: &[Ban], time: u16, from: Index, to: Index) -> bool {
    bans.binary_search(&Ban::At { time, cell: to }).is_ok()
        || bans.binary_search(&Ban::Via { time, from, to }).is_ok()
}

fn count_meetings(others: &[&[Index]], time: u16, from: Index, to: Index) -> u16 {
    let meets = |path: &&&[Index]| {
        let (before, after) = (position(path, usize::from(time) - 1), position(path, usize::from(time)));
        after == to || (after == from && before == to)
    };
    others.iter().filter(meets).count() as u16
}

/// The position of the agent of `path` at `time`: it stays at the end.
pub(super) fn position(path: &[Index], time: usize) -> Index {
    path[time.min(path.len() - 1)]
}

fn trace_back(reached: &[Reached], mut entry: u32) -> Vec<Index> {
    let mut path = vec![reached[entry as usize].at];
    while entry != 0 {
        entry = reached[entry as usize].from;
        path.push(reached[entry as usize].at);
    }
    path.reverse();
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use burnish_core::rng::Stream;
    use proptest::prelude::*;

    /// The earliest time of arrival for good, found by following the set of cells where the agent can be.
    fn earliest(errand: &Errand<'_>, bans: &[Ban]) -> Option<usize> {
        let mut here = vec![errand.start];
        for time in 0..200u16 {
            let disturbed =
                |ban: &Ban| matches!(ban, Ban::At { time: t, cell } if *cell == errand.goal && *t >= time);
            if here.contains(&errand.goal) && !bans.iter().any(disturbed) {
                return Some(usize::from(time));
            }
            let mut next = Vec::new();
            for &from in &here {
                let stay = errand.waits.then_some(from);
                for to in errand.grid.neighbours(from).iter().copied().chain(stay) {
                    let (at, via) =
                        (Ban::At { time: time + 1, cell: to }, Ban::Via { time: time + 1, from, to });
                    if !bans.contains(&at) && !bans.contains(&via) && !next.contains(&to) {
                        next.push(to);
                    }
                }
            }
            here = next;
        }
        None
    }

    proptest! {
        #[test]
        fn a_path_keeps_the_bans_and_arrives_as_early_as_possible(
            (size, ban_count, waits, seed) in (2usize..=5, 0usize..60, any::<bool>(), any::<u64>())
        ) {
            let mut stream = Stream::new(seed);
            let cells = size * size;
            let mut free: Vec<Index> = (0..cells as Index).collect();
            stream.shuffle(&mut free);
            let holes = free.split_off(cells - stream.index(cells - 1));
            let grid = Grid::new(size, &holes);
            let (start, goal) = (free[0], free[stream.index(free.len())]);
            let bans: Vec<Ban> = (0..ban_count)
                .map(|_| {
                    let (time, to) = (1 + stream.below(8) as u16, free[stream.index(free.len())]);
                    let from = grid.neighbours(to).first().copied().filter(|_| stream.below(3) == 0);
                    from.map_or(Ban::At { time, cell: to }, |from| Ban::Via { time, from, to })
                })
                .collect();
            let errand = Errand { grid: &grid, start, goal, distances: &grid.distances(goal), waits };
            let path = errand.path(&bans, &[&free[..1]]);
            prop_assert_eq!(path.as_ref().map(|path| path.len() - 1), earliest(&errand, &bans));
            for (time, pair) in path.iter().flat_map(|path| path.windows(2).enumerate()) {
                let (time, from, to) = (time as u16 + 1, pair[0], pair[1]);
                let (at, via) = (Ban::At { time, cell: to }, Ban::Via { time, from, to });
                prop_assert!(!bans.contains(&at) && !bans.contains(&via));
                prop_assert!(grid.neighbours(from).contains(&to) || (waits && from == to));
            }
        }
    }
}
