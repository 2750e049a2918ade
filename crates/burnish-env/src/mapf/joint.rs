//! Search over the joint states of all agents: slow and plain, the standard against which conflict-based search is
//! tested. Also decides whether a board can be solved at all.

use super::board::Board;
use super::grid::{FAR, Grid, Index, indices};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// The result of the uniform-cost search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Optimum {
    /// The least sum over the agents of the step of last arrival.
    Cost(usize),
    /// There is no plan.
    Unsolvable,
    /// There are more states than allowed.
    TooLarge,
}

/// The least cost of a plan, by uniform-cost search over at most `states_max` joint states. An agent at its goal may
/// park for good: it then stays, at no further cost. `waits`: may an agent that is not parked wait?
pub fn optimum(board: &Board, waits: bool, states_max: usize) -> Optimum {
    let joint = Joint::of(board, waits, true);
    let all_parked = (1u8 << board.agents()) - 1;
    let mut best: BTreeMap<State, usize> = BTreeMap::new();
    let mut open = BinaryHeap::new();
    for state in joint.parkings(&joint.starts, 0) {
        best.insert(state, 0);
        open.push(Reverse((0, state)));
    }
    while let Some(Reverse((cost, state))) = open.pop() {
        if best.get(&state).is_some_and(|&known| known < cost) {
            continue;
        }
        if state.parked == all_parked {
            return Optimum::Cost(cost);
        }
        if best.len() > states_max {
            return Optimum::TooLarge;
        }
        let cost = cost + board.agents() - state.parked.count_ones() as usize;
        for next in joint.successors(state) {
            if best.get(&next).is_none_or(|&known| known > cost) {
                best.insert(next, cost);
                open.push(Reverse((cost, next)));
            }
        }
    }
    Optimum::Unsolvable
}

/// Can the goals be reached?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    Yes,
    No,
    Unknown,
}

/// Joint states that [`reachable`] visits before it gives up. Two agents never have more than 9900.
const REACH_STATES_MAX: usize = 10_000;

/// Is there any plan? Searches greedily towards the goals, so that an existing plan is found early. Always decides for
/// two agents.
pub(super) fn reachable(board: &Board) -> Reach {
    let joint = Joint::of(board, true, false);
    let distances: Vec<Vec<u16>> = joint.goals.iter().map(|&goal| joint.grid.distances(goal)).collect();
    let left = |state: State| -> u32 {
        let each = (0..joint.agents()).map(|agent| u32::from(distances[agent][usize::from(state.at[agent])]));
        each.sum()
    };
    let first = State::new(&joint.starts, 0);
    if (0..joint.agents()).any(|agent| distances[agent][usize::from(first.at[agent])] == FAR) {
        return Reach::No;
    }
    let mut seen = BTreeSet::from([first]);
    let mut open = BinaryHeap::from([Reverse((left(first), first))]);
    while let Some(Reverse((left_here, state))) = open.pop() {
        if left_here == 0 {
            return Reach::Yes;
        }
        if seen.len() > REACH_STATES_MAX {
            return Reach::Unknown;
        }
        for next in joint.successors(state) {
            if seen.insert(next) {
                open.push(Reverse((left(next), next)));
            }
        }
    }
    Reach::No
}

/// The positions of all agents; unused entries are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    at: [Index; super::board::AGENTS_MAX],
    /// Bit `i` is set if agent `i` has parked for good.
    parked: u8,
}

impl State {
    fn new(positions: &[Index], parked: u8) -> State {
        let mut at = [0; super::board::AGENTS_MAX];
        at[..positions.len()].copy_from_slice(positions);
        State { at, parked }
    }
}

struct Joint {
    grid: Grid,
    starts: Vec<Index>,
    goals: Vec<Index>,
    waits: bool,
    parks: bool,
}

impl Joint {
    fn of(board: &Board, waits: bool, parks: bool) -> Joint {
        let size = board.size();
        let (starts, goals) = (indices(board.starts(), size), indices(board.goals(), size));
        Joint { grid: Grid::of(board), starts, goals, waits, parks }
    }

    fn agents(&self) -> usize {
        self.starts.len()
    }

    /// The states for these positions: each subset of the agents at their goals may park.
    fn parkings(&self, positions: &[Index], parked: u8) -> Vec<State> {
        let mut states = vec![State::new(positions, parked)];
        for agent in (0..self.agents()).filter(|_| self.parks) {
            if positions[agent] == self.goals[agent] && parked & (1 << agent) == 0 {
                let also = states.iter().map(|state| State { parked: state.parked | 1 << agent, ..*state });
                let also: Vec<State> = also.collect();
                states.extend(also);
            }
        }
        states
    }

    /// The states after one more step.
    fn successors(&self, state: State) -> Vec<State> {
        let mut found = Vec::new();
        self.place(state, &mut Vec::with_capacity(self.agents()), &mut found);
        found
    }

    /// Chooses the next cell of the agents after those in `chosen`, and collects the choices without conflict.
    fn place(&self, state: State, chosen: &mut Vec<Index>, found: &mut Vec<State>) {
        let agent = chosen.len();
        if agent == self.agents() {
            found.extend(self.parkings(chosen, state.parked));
            return;
        }
        let at = state.at[agent];
        let is_parked = state.parked & (1 << agent) != 0;
        let moves: &[Index] = if is_parked { &[] } else { self.grid.neighbours(at) };
        let stay = (is_parked || self.waits).then_some(at);
        for next in moves.iter().copied().chain(stay) {
            let clashes =
                |other: usize| chosen[other] == next || (chosen[other] == at && state.at[other] == next);
            if (0..agent).any(clashes) {
                continue;
            }
            chosen.push(next);
            self.place(state, chosen, found);
            chosen.pop();
        }
    }
}
