//! The free cells of a board as a graph, with cells numbered row by row; the searches use it.

use super::board::{Board, Cell, Move};
use std::collections::VecDeque;

/// Number of a cell: row times side plus column.
pub(super) type Index = u8;

/// Distance to a cell that can't be reached.
pub(super) const FAR: u16 = u16::MAX;

/// The free cells and their adjacency.
#[derive(Debug)]
pub(super) struct Grid {
    size: usize,
    free: Vec<bool>,
    /// Free neighbours of every cell, in the order of [`Move::ALL`].
    neighbours: Vec<Vec<Index>>,
}

impl Grid {
    /// The graph of a board of side `size` with these holes.
    pub(super) fn new(size: usize, holes: &[Index]) -> Grid {
        let mut free = vec![true; size * size];
        for &hole in holes {
            free[usize::from(hole)] = false;
        }
        let mut grid = Grid { size, neighbours: Vec::new(), free };
        grid.neighbours = (0..size * size).map(|at| grid.free_neighbours(at as Index)).collect();
        grid
    }

    /// The graph of `board`.
    pub(super) fn of(board: &Board) -> Grid {
        let holes: Vec<Index> = board.holes().iter().map(|&cell| index(cell, board.size())).collect();
        Grid::new(board.size(), &holes)
    }

    fn free_neighbours(&self, at: Index) -> Vec<Index> {
        let from = self.cell(at);
        Move::ALL
            .into_iter()
            .filter(|&step| step != Move::Wait)
            .filter_map(|step| Some(index(from.after(step, self.size)?, self.size)))
            .filter(|&to| self.is_free(to))
            .collect()
    }

    /// Number of cells, including holes.
    pub(super) fn len(&self) -> usize {
        self.free.len()
    }

    pub(super) fn is_free(&self, at: Index) -> bool {
        self.free[usize::from(at)]
    }

    pub(super) fn neighbours(&self, at: Index) -> &[Index] {
        &self.neighbours[usize::from(at)]
    }

    pub(super) fn cell(&self, at: Index) -> Cell {
        Cell { row: at / self.size as u8, col: at % self.size as u8 }
    }

    /// Steps from every cell to `to`, or [`FAR`].
    pub(super) fn distances(&self, to: Index) -> Vec<u16> {
        let mut distances = vec![FAR; self.len()];
        distances[usize::from(to)] = 0;
        let mut queue = VecDeque::from([to]);
        while let Some(at) = queue.pop_front() {
            for &next in self.neighbours(at) {
                if distances[usize::from(next)] == FAR {
                    distances[usize::from(next)] = distances[usize::from(at)] + 1;
                    queue.push_back(next);
                }
            }
        }
        distances
    }
}

/// The number of a cell on a board of side `size`.
pub(super) fn index(cell: Cell, size: usize) -> Index {
    cell.row * size as u8 + cell.col
}

/// The numbers of several cells.
pub(super) fn indices(cells: &[Cell], size: usize) -> Vec<Index> {
    cells.iter().map(|&cell| index(cell, size)).collect()
}
