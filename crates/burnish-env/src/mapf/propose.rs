//! Draws candidate boards: fully random ones, and ones in which agents are likely to get in each other's way. Whether a
//! board can be solved and needs a wait is decided elsewhere, exactly.

use super::board::Board;
use super::grid::{FAR, Grid, Index};
use burnish_core::rng::Stream;

/// The requirements on a board.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) size: usize,
    pub(super) holes: usize,
    pub(super) agents: usize,
}

/// A board in progress: the holes are fixed, agents are added.
struct Draft {
    frame: Frame,
    holes: Vec<Index>,
    grid: Grid,
    starts: Vec<Index>,
    goals: Vec<Index>,
}

impl Frame {
    /// A board with random holes, starts and goals. `None` if the agents did not fit.
    pub(super) fn random(self, stream: &mut Stream) -> Option<Board> {
        self.random_holes(stream).finish(stream)
    }

    /// A board on which A and B, each on a shortest path, can be in the same cell at the same time.
    pub(super) fn crossing(self, stream: &mut Stream) -> Option<Board> {
        let mut draft = self.random_holes(stream);
        let crossing = pick(stream, &draft.free_cells())?;
        let away = draft.grid.distances(crossing);
        let reached = |at: &Index| (1..FAR).contains(&away[usize::from(*at)]);
        let around: Vec<Index> = draft.free_cells().into_iter().filter(reached).collect();
        let a = pick(stream, &around)?;
        let lead = away[usize::from(a)];
        let level: Vec<Index> =
            around.iter().copied().filter(|&at| at != a && away[usize::from(at)] == lead).collect();
        let b = pick(stream, &level)?;
        for start in [a, b] {
            let from_start = draft.grid.distances(start);
            let beyond = |at: &Index| {
                let at = usize::from(*at);
                from_start[at] != FAR && from_start[at] == lead + away[at]
            };
            let goals: Vec<Index> = draft
                .free_cells()
                .into_iter()
                .filter(beyond)
                .filter(|at| !draft.goals.contains(at))
                .collect();
            let goal = pick(stream, &goals)?;
            draft.add(start, goal);
        }
        draft.finish(stream)
    }

    /// A corridor one cell wide with a pocket at its side, walled in as far as the number of holes allows; remaining
    /// holes are placed elsewhere. A and B go through it in opposite directions.
    pub(super) fn corridor(self, stream: &mut Stream) -> Option<Board> {
        const LENGTH_MIN: usize = 3;
        let size = self.size;
        if size < LENGTH_MIN {
            return None;
        }
        let cell = {
            let upright = stream.below(2) == 1;
            move |line: usize, along: usize| {
                (if upright { along * size + line } else { line * size + along }) as Index
            }
        };
        let length = LENGTH_MIN + stream.index(size - LENGTH_MIN + 1);
        let first = stream.index(size - length + 1);
        let line = stream.index(size);
        let side = if line == 0 || (line + 1 < size && stream.below(2) == 1) { line + 1 } else { line - 1 };
        let corridor: Vec<Index> = (first..first + length).map(|along| cell(line, along)).collect();
        let pocket = cell(side, first + stream.index(length));

        let mut open = corridor.clone();
        open.push(pocket);
        let holes = self.walls(stream, &open)?;
        let mut draft = self.with_holes(holes);
        let (near, far) = (corridor[0], corridor[length - 1]);
        draft.add(near, far);
        let ends: Vec<Index> = open.iter().copied().filter(|&at| at != far).collect();
        let goal = if stream.below(2) == 1 { near } else { pick(stream, &ends)? };
        let starts: Vec<Index> = open.iter().copied().filter(|&at| at != near && at != goal).collect();
        let start = if stream.below(2) == 1 { far } else { pick(stream, &starts)? };
        draft.add(start, goal);
        draft.finish(stream)
    }

    /// Holes that leave `open` free: first next to it, then anywhere. `None` if there is no room for all of them.
    fn walls(self, stream: &mut Stream, open: &[Index]) -> Option<Vec<Index>> {
        let empty = Grid::new(self.size, &[]);
        let beside = |at: Index| empty.neighbours(at).iter().any(|next| open.contains(next));
        let rest = (0..(self.size * self.size) as Index).filter(|at| !open.contains(at));
        let (mut holes, mut others): (Vec<Index>, Vec<Index>) = rest.partition(|&at| beside(at));
        stream.shuffle(&mut holes);
        stream.shuffle(&mut others);
        holes.extend(others);
        (holes.len() >= self.holes).then(|| {
            holes.truncate(self.holes);
            holes
        })
    }

    fn random_holes(self, stream: &mut Stream) -> Draft {
        let mut cells: Vec<Index> = (0..(self.size * self.size) as Index).collect();
        stream.shuffle(&mut cells);
        cells.truncate(self.holes);
        self.with_holes(cells)
    }

    fn with_holes(self, holes: Vec<Index>) -> Draft {
        let grid = Grid::new(self.size, &holes);
        Draft { frame: self, holes, grid, starts: Vec::new(), goals: Vec::new() }
    }
}

impl Draft {
    fn free_cells(&self) -> Vec<Index> {
        (0..self.grid.len() as Index).filter(|&at| self.grid.is_free(at)).collect()
    }

    fn add(&mut self, start: Index, goal: Index) {
        self.starts.push(start);
        self.goals.push(goal);
    }

    /// Adds the missing agents, each with a goal that it could reach if it were alone.
    fn finish(mut self, stream: &mut Stream) -> Option<Board> {
        while self.starts.len() < self.frame.agents {
            let starts: Vec<Index> =
                self.free_cells().into_iter().filter(|at| !self.starts.contains(at)).collect();
            let start = pick(stream, &starts)?;
            let away = self.grid.distances(start);
            let reached = |at: &Index| (1..FAR).contains(&away[usize::from(*at)]) && !self.goals.contains(at);
            let goals: Vec<Index> = self.free_cells().into_iter().filter(reached).collect();
            let goal = pick(stream, &goals)?;
            self.add(start, goal);
        }
        let cells = |indices: &[Index]| indices.iter().map(|&at| self.grid.cell(at)).collect();
        Board::new(self.frame.size, cells(&self.holes), cells(&self.starts), cells(&self.goals)).ok()
    }
}

fn pick(stream: &mut Stream, from: &[Index]) -> Option<Index> {
    from.get(stream.index(from.len())).copied()
}
