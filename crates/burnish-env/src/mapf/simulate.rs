//! The verifier of plans: plays all agents' moves step by step and records what goes wrong.

use super::board::{Board, Cell, Move, letter};

/// The result of a plan. The findings describe the plan as written, each independently of the others: a move over the
/// edge leaves the agent in place, and an agent that enters a hole continues from there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// The positions of all agents at each time, from the start to the last move of any of them.
    pub frames: Vec<Vec<Cell>>,
    /// A move leads over the edge of the board.
    pub has_illegal_moves: bool,
    /// An agent enters a hole.
    pub hole_collision: bool,
    /// Two agents are in the same cell at the same time.
    pub vertex_conflict: bool,
    /// Two agents swap places in one step.
    pub edge_conflict: bool,
    /// At the end every agent is at its goal.
    pub all_goals_reached: bool,
    /// Sum over the agents of the step of last arrival at the goal (0 for an agent that never leaves it). `None` if the
    /// plan is not valid.
    pub cost: Option<usize>,
    /// The first problem: agent, step and cell.
    pub first_problem: Option<String>,
}

impl Trial {
    /// Whether every move is legal, no agents collide, and all goals are reached.
    pub fn is_valid(&self) -> bool {
        self.first_problem.is_none()
    }

    fn note(&mut self, problem: impl FnOnce() -> String) {
        if self.first_problem.is_none() {
            self.first_problem = Some(problem());
        }
    }
}

/// Plays `plan` on `board`: all agents move at once. An agent with fewer moves than others then stays and keeps
/// occupying its cell. An agent without a list of moves stays at its start.
pub fn simulate(board: &Board, plan: &[Vec<Move>]) -> Trial {
    let mut trial = Trial {
        frames: vec![board.starts().to_vec()],
        has_illegal_moves: false,
        hole_collision: false,
        vertex_conflict: false,
        edge_conflict: false,
        all_goals_reached: false,
        cost: None,
        first_problem: None,
    };
    let steps = plan.iter().map(Vec::len).max().unwrap_or(0);
    for step in 1..=steps {
        let before = trial.frames[step - 1].clone();
        let after = advance(board, plan, step, &before, &mut trial);
        find_conflicts(step, &before, &after, &mut trial);
        trial.frames.push(after);
    }
    find_unreached(board, &mut trial);
    if trial.is_valid() {
        trial.cost = Some((0..board.agents()).map(|agent| last_arrival(&trial.frames, agent)).sum());
    }
    trial
}

/// Moves every agent by its move number `step` (from 1).
fn advance(board: &Board, plan: &[Vec<Move>], step: usize, before: &[Cell], trial: &mut Trial) -> Vec<Cell> {
    let mut after = before.to_vec();
    for (agent, cell) in after.iter_mut().enumerate() {
        let chosen = plan.get(agent).and_then(|moves| moves.get(step - 1)).copied().unwrap_or(Move::Wait);
        let Some(next) = cell.after(chosen, board.size()) else {
            trial.has_illegal_moves = true;
            let from = *cell;
            trial.note(|| {
                format!("Step {step}: {} goes {} from {from}, off the board.", letter(agent), chosen.word())
            });
            continue;
        };
        *cell = next;
        if chosen != Move::Wait && board.is_hole(next) {
            trial.hole_collision = true;
            trial.note(|| format!("Step {step}: {} enters the hole at {next}.", letter(agent)));
        }
    }
    after
}

fn find_conflicts(step: usize, before: &[Cell], after: &[Cell], trial: &mut Trial) {
    for b in 1..after.len() {
        for a in 0..b {
            if after[a] == after[b] {
                trial.vertex_conflict = true;
                let cell = after[a];
                trial.note(|| format!("Step {step}: {} and {} are both at {cell}.", letter(a), letter(b)));
            } else if after[a] == before[b] && before[a] == after[b] {
                trial.edge_conflict = true;
                let (to, from) = (after[a], before[a]);
                trial.note(|| format!("Step {step}: {} and {} swap {from} and {to}.", letter(a), letter(b)));
            }
        }
    }
}

fn find_unreached(board: &Board, trial: &mut Trial) {
    let steps = trial.frames.len() - 1;
    let last = trial.frames[steps].clone();
    let lost = (0..board.agents()).find(|&agent| last[agent] != board.goals()[agent]);
    trial.all_goals_reached = lost.is_none();
    if let Some(agent) = lost {
        trial.note(|| {
            format!(
                "After step {steps}: {} is at {}, not at its goal {}.",
                letter(agent),
                last[agent],
                board.goals()[agent]
            )
        });
    }
}

/// The step after which an agent never moves again.
fn last_arrival(frames: &[Vec<Cell>], agent: usize) -> usize {
    (1..frames.len()).rev().find(|&step| frames[step][agent] != frames[step - 1][agent]).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::board::tests::board;
    use super::*;

    fn plan(lines: &[&str]) -> Vec<Vec<Move>> {
        lines
            .iter()
            .map(|line| line.split_whitespace().map(|word| Move::from_word(word).unwrap()).collect())
            .collect()
    }

    #[test]
    fn the_cost_counts_waits_before_the_last_arrival_and_none_after_it() {
        let board = board(3, "", "00 22", "02 22");
        let trial = simulate(&board, &plan(&["WAIT RIGHT RIGHT WAIT WAIT", ""]));
        assert!(trial.is_valid(), "{:?}", trial.first_problem);
        assert_eq!(trial.cost, Some(3));
        let trial = simulate(&board, &plan(&["RIGHT RIGHT DOWN UP", "UP DOWN"]));
        assert_eq!(trial.first_problem.as_deref(), None);
        assert_eq!(trial.cost, Some(6));
    }

    #[test]
    fn the_first_problem_names_agent_step_and_cell() {
        let board = board(3, "11", "00 02", "02 00");
        for (lines, wanted) in [
            (["UP", ""], "Step 1: A goes UP from 00, off the board."),
            (["RIGHT DOWN", ""], "Step 2: A enters the hole at 11."),
            (["RIGHT", "LEFT"], "Step 1: A and B are both at 01."),
            (["RIGHT RIGHT", ""], "Step 2: A and B are both at 02."),
            (["RIGHT RIGHT", "WAIT LEFT"], "Step 2: A and B swap 01 and 02."),
            (["RIGHT RIGHT", "DOWN DOWN"], "After step 2: B is at 22, not at its goal 00."),
        ] {
            assert_eq!(simulate(&board, &plan(&lines)).first_problem.as_deref(), Some(wanted));
        }
    }

    #[test]
    fn an_agent_may_follow_closely_and_a_rotation_is_no_conflict() {
        let row = board(3, "", "01 00", "02 01");
        assert_eq!(simulate(&row, &plan(&["RIGHT", "RIGHT"])).cost, Some(2));
        let ring = board(2, "", "00 01 11 10", "01 11 10 00");
        assert_eq!(simulate(&ring, &plan(&["RIGHT", "DOWN", "LEFT", "UP"])).cost, Some(4));
    }
}
