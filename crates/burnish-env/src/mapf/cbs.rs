//! Conflict-based search (Sharon, Stern, Felner and Sturtevant 2015): finds plans with the least sum of costs.
//!
//! The high level is a best-first search over nodes, each a set of bans with a shortest path per agent that respects
//! them. A cheapest node is split at its first conflict: one child forbids it to the one agent, the other child to the
//! other agent. The first node without a conflict is optimal. Ties go to the node with fewer conflicts, then to the one
//! made first, so that the result is a function of the board.

use super::board::{Board, Cell, Move, Plan};
use super::grid::{Grid, Index, indices};
use super::joint::{Reach, reachable};
use super::space_time::{Ban, Errand, position};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The result of the search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A plan with the least cost.
    Optimal {
        /// Cells of every agent at each time, from the start to its last arrival at the goal.
        paths: Vec<Vec<Cell>>,
        /// Sum over the agents of the step of last arrival.
        cost: usize,
    },
    /// There is no plan.
    Unsolvable,
    /// The node budget ran out.
    Budget,
}

/// Information about a solvable board.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Solution {
    /// An optimal plan, without an unnecessary WAIT.
    pub plan: Plan,
    /// Its cost: the sum over the agents of the step of last arrival.
    pub cost: usize,
    /// Whether, without a WAIT before an agent's last arrival, every plan would cost more or there would be no plan.
    pub needs_wait: bool,
}

/// An optimal plan for `board`, expanding at most `nodes_max` nodes. Where feasible, it is first decided whether there
/// is any plan, because otherwise the search would not end by itself.
pub fn solve(board: &Board, nodes_max: usize) -> Outcome {
    match reachable(board) {
        Reach::No => Outcome::Unsolvable,
        Reach::Yes | Reach::Unknown => search(board, true, usize::MAX, nodes_max),
    }
}

/// An optimal plan, and whether it needs a WAIT (exactly); `Err` holds why there is none.
///
/// # Errors
/// [`Outcome::Unsolvable`] or [`Outcome::Budget`].
pub fn analyse(board: &Board, nodes_max: usize) -> Result<Solution, Outcome> {
    let (paths, cost) = match solve(board, nodes_max) {
        Outcome::Optimal { paths, cost } => (paths, cost),
        failure => return Err(failure),
    };
    if !paths.iter().any(|path| path.windows(2).any(|pair| pair[0] == pair[1])) {
        return Ok(Solution { plan: moves(&paths), cost, needs_wait: false });
    }
    // With a bound on the cost there are finitely many bans, so this search ends by itself.
    match search(board, false, cost, nodes_max) {
        Outcome::Optimal { paths, cost } => Ok(Solution { plan: moves(&paths), cost, needs_wait: false }),
        Outcome::Unsolvable => Ok(Solution { plan: moves(&paths), cost, needs_wait: true }),
        Outcome::Budget => Err(Outcome::Budget),
    }
}

/// The moves along `paths`. Paths have no gaps, so every pair of cells is one move.
fn moves(paths: &[Vec<Cell>]) -> Plan {
    let along =
        |path: &Vec<Cell>| path.windows(2).filter_map(|pair| Move::between(pair[0], pair[1])).collect();
    paths.iter().map(along).collect()
}

struct Node {
    bans: Vec<(usize, Ban)>,
    paths: Vec<Vec<Index>>,
}

/// Two agents that get in each other's way, and what each of them could avoid.
struct Conflict {
    sides: [(usize, Ban); 2],
}

/// The high level. Nodes that cost more than `cost_max` are left out; `waits`: may agents wait before they arrive?
pub(super) fn search(board: &Board, waits: bool, cost_max: usize, nodes_max: usize) -> Outcome {
    let grid = Grid::of(board);
    let (starts, goals) = (indices(board.starts(), board.size()), indices(board.goals(), board.size()));
    let distances: Vec<Vec<u16>> = goals.iter().map(|&goal| grid.distances(goal)).collect();
    let errand = |agent: usize| Errand {
        grid: &grid,
        start: starts[agent],
        goal: goals[agent],
        distances: &distances[agent],
        waits,
    };

    let mut nodes: Vec<Node> = Vec::new();
    let mut open = BinaryHeap::new();
    let push = |nodes: &mut Vec<Node>, open: &mut BinaryHeap<_>, node: Node| {
        let cost: usize = node.paths.iter().map(|path| path.len() - 1).sum();
        if cost <= cost_max {
            open.push(Reverse((cost, conflicts(&node.paths).count(), nodes.len())));
            nodes.push(node);
        }
    };
    let Some(paths) = (0..board.agents()).map(|agent| errand(agent).path(&[], &[])).collect() else {
        return Outcome::Unsolvable;
    };
    push(&mut nodes, &mut open, Node { bans: Vec::new(), paths });

    let mut expanded = 0;
    while let Some(Reverse((cost, _, id))) = open.pop() {
        let Some(conflict) = conflicts(&nodes[id].paths).next() else {
            let cells = |path: &Vec<Index>| path.iter().map(|&at| grid.cell(at)).collect();
            return Outcome::Optimal { paths: nodes[id].paths.iter().map(cells).collect(), cost };
        };
        expanded += 1;
        if expanded > nodes_max {
            return Outcome::Budget;
        }
        for (agent, ban) in conflict.sides {
            let mut bans = nodes[id].bans.clone();
            bans.push((agent, ban));
            let own: Vec<Ban> = bans.iter().filter(|(who, _)| *who == agent).map(|(_, ban)| *ban).collect();
            let paths = &nodes[id].paths;
            let others: Vec<&[Index]> =
                (0..paths.len()).filter(|&who| who != agent).map(|who| paths[who].as_slice()).collect();
            if let Some(path) = errand(agent).path(&own, &others) {
                let mut paths = paths.clone();
                paths[agent] = path;
                push(&mut nodes, &mut open, Node { bans, paths });
            }
        }
    }
    Outcome::Unsolvable
}

/// All conflicts, in order of time.
fn conflicts(paths: &[Vec<Index>]) -> impl Iterator<Item = Conflict> + '_ {
    let steps = paths.iter().map(Vec::len).max().unwrap_or(1);
    (1..steps).flat_map(move |time| {
        (1..paths.len())
            .flat_map(|b| (0..b).map(move |a| (a, b)))
            .filter_map(move |(a, b)| conflict(paths, a, b, time))
    })
}

fn conflict(paths: &[Vec<Index>], a: usize, b: usize, time: usize) -> Option<Conflict> {
    let (a_before, a_after) = (position(&paths[a], time - 1), position(&paths[a], time));
    let (b_before, b_after) = (position(&paths[b], time - 1), position(&paths[b], time));
    let time = time as u16;
    if a_after == b_after {
        let ban = Ban::At { time, cell: a_after };
        return Some(Conflict { sides: [(a, ban), (b, ban)] });
    }
    let swapped = a_after == b_before && b_after == a_before;
    let via = |from, to| Ban::Via { time, from, to };
    swapped.then(|| Conflict { sides: [(a, via(a_before, a_after)), (b, via(b_before, b_after))] })
}
