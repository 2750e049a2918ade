//! Boards, cells and moves.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Smallest side of a board, in cells.
pub const SIZE_MIN: usize = 2;
/// Largest side of a board, in cells: rows and columns are one digit each.
pub const SIZE_MAX: usize = 10;
/// Most agents on a board.
pub const AGENTS_MAX: usize = 5;

/// A cell of a board, written as two digits: row, then column, both counted from 0 at the upper left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cell {
    /// Row from the top, 0 to 9.
    pub row: u8,
    /// Column from the left, 0 to 9.
    pub col: u8,
}

impl Cell {
    /// The cell that `step` leads to on a board of side `size`; `None` beyond the edge.
    pub fn after(self, step: Move, size: usize) -> Option<Cell> {
        let (row, col) = match step {
            Move::Up => (self.row.checked_sub(1)?, self.col),
            Move::Down => (self.row + 1, self.col),
            Move::Left => (self.row, self.col.checked_sub(1)?),
            Move::Right => (self.row, self.col + 1),
            Move::Wait => (self.row, self.col),
        };
        (usize::from(row) < size && usize::from(col) < size).then_some(Cell { row, col })
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.row, self.col)
    }
}

impl FromStr for Cell {
    type Err = BoardError;

    fn from_str(text: &str) -> Result<Self, BoardError> {
        match text.as_bytes() {
            [row @ b'0'..=b'9', col @ b'0'..=b'9'] => Ok(Cell { row: row - b'0', col: col - b'0' }),
            _ => Err(BoardError(format!("`{text}` is not a cell: two digits are wanted, row then column"))),
        }
    }
}

impl TryFrom<String> for Cell {
    type Error = BoardError;

    fn try_from(text: String) -> Result<Self, BoardError> {
        text.parse()
    }
}

impl From<Cell> for String {
    fn from(cell: Cell) -> String {
        cell.to_string()
    }
}

/// What an agent does in one time step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Move {
    /// One row up.
    Up,
    /// One row down.
    Down,
    /// One column to the left.
    Left,
    /// One column to the right.
    Right,
    /// Stay in place.
    Wait,
}

impl Move {
    /// All moves. Searches try them in this order, which breaks their ties.
    pub const ALL: [Move; 5] = [Move::Up, Move::Down, Move::Left, Move::Right, Move::Wait];

    /// Its word in prompts and answers.
    pub fn word(self) -> &'static str {
        match self {
            Move::Up => "UP",
            Move::Down => "DOWN",
            Move::Left => "LEFT",
            Move::Right => "RIGHT",
            Move::Wait => "WAIT",
        }
    }

    /// The move for a word, in upper or lower case.
    pub fn from_word(word: &str) -> Option<Move> {
        Move::ALL.into_iter().find(|step| step.word().eq_ignore_ascii_case(word))
    }

    /// The move that leads from a cell to the same or a neighbouring cell; `None` if they are further apart.
    pub fn between(from: Cell, to: Cell) -> Option<Move> {
        Move::ALL.into_iter().find(|&step| from.after(step, SIZE_MAX) == Some(to))
    }
}

/// The moves of every agent, in the order of the agents. An agent with fewer moves than others waits at the end.
pub type Plan = Vec<Vec<Move>>;

/// The letter of an agent: A, B ...
pub(super) fn letter(agent: usize) -> char {
    char::from(b'A' + agent as u8)
}

/// A board: the holes, and each agent's start and goal.
///
/// Agents start on distinct cells and have distinct goals, none of them a hole. A goal may be where another
/// agent starts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Board {
    size: usize,
    holes: Vec<Cell>,
    starts: Vec<Cell>,
    goals: Vec<Cell>,
}

/// A board that was read but not checked yet.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    size: usize,
    holes: Vec<Cell>,
    starts: Vec<Cell>,
    goals: Vec<Cell>,
}

impl TryFrom<Unchecked> for Board {
    type Error = BoardError;

    fn try_from(it: Unchecked) -> Result<Self, BoardError> {
        Board::new(it.size, it.holes, it.starts, it.goals)
    }
}

/// Why a board is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BoardError(String);

impl Board {
    /// A board of side `size`; agent `i` goes from `starts[i]` to `goals[i]`. Holes are sorted.
    ///
    /// # Errors
    /// If the size or the number of agents is out of range, a cell is outside the board, two agents share a start or a
    /// goal, or a start or goal is a hole.
    pub fn new(
        size: usize,
        mut holes: Vec<Cell>,
        starts: Vec<Cell>,
        goals: Vec<Cell>,
    ) -> Result<Board, BoardError> {
        let problem = |text: String| Err(BoardError(text));
        if !(SIZE_MIN..=SIZE_MAX).contains(&size) {
            return problem(format!("a board has {SIZE_MIN} to {SIZE_MAX} cells a side, not {size}"));
        }
        if starts.len() != goals.len() || !(1..=AGENTS_MAX).contains(&starts.len()) {
            return problem(format!(
                "a board has 1 to {AGENTS_MAX} agents with a start and a goal each, not {} starts and {} goals",
                starts.len(),
                goals.len()
            ));
        }
        holes.sort_unstable();
        for (cells, what) in [(&holes, "holes"), (&starts, "starts"), (&goals, "goals")] {
            for (i, cell) in cells.iter().enumerate() {
                if usize::from(cell.row.max(cell.col)) >= size {
                    return problem(format!("{what}: {cell} lies outside a {size}x{size} board"));
                }
                if cells[..i].contains(cell) {
                    return problem(format!("{what}: {cell} occurs twice"));
                }
                if what != "holes" && holes.binary_search(cell).is_ok() {
                    return problem(format!("{what}: {cell} is a hole"));
                }
            }
        }
        Ok(Board { size, holes, starts, goals })
    }

    /// Number of cells per side.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Number of agents.
    pub fn agents(&self) -> usize {
        self.starts.len()
    }

    /// The holes, sorted by row and column.
    pub fn holes(&self) -> &[Cell] {
        &self.holes
    }

    /// The start of each agent.
    pub fn starts(&self) -> &[Cell] {
        &self.starts
    }

    /// The goal of each agent.
    pub fn goals(&self) -> &[Cell] {
        &self.goals
    }

    /// Is the cell a hole?
    pub fn is_hole(&self, cell: Cell) -> bool {
        self.holes.binary_search(&cell).is_ok()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Cells from their digits, separated by spaces.
    pub(crate) fn cells(text: &str) -> Vec<Cell> {
        text.split_whitespace().map(|cell| cell.parse().unwrap()).collect()
    }

    /// A board from its parts as text.
    pub(crate) fn board(size: usize, holes: &str, starts: &str, goals: &str) -> Board {
        Board::new(size, cells(holes), cells(starts), cells(goals)).unwrap()
    }

    #[test]
    fn a_board_survives_json_and_a_wrong_one_is_refused_with_the_reason() {
        let given = board(4, "30 02", "00 31", "33 01");
        let text = serde_json::to_string(&given).unwrap();
        assert_eq!(text, r#"{"size":4,"holes":["02","30"],"starts":["00","31"],"goals":["33","01"]}"#);
        assert_eq!(serde_json::from_str::<Board>(&text).unwrap(), given);
        for (from, to, reason) in [
            (r#""size":4"#, r#""size":11"#, "2 to 10"),
            (r#""size":4"#, r#""size":3"#, "outside a 3x3 board"),
            (r#"["33","01"]"#, r#"["33","33"]"#, "goals: 33 occurs twice"),
            (r#"["00","31"]"#, r#"["00","30"]"#, "starts: 30 is a hole"),
            (r#"["33","01"]"#, r#"["33"]"#, "2 starts and 1 goals"),
            (r#""02""#, r#""2""#, "`2` is not a cell"),
        ] {
            assert!(text.contains(from), "{from}");
            let error = serde_json::from_str::<Board>(&text.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn a_move_leads_to_the_neighbour_that_it_names_and_stops_at_the_edge() {
        let cell: Cell = "12".parse().unwrap();
        for (step, wanted) in [("up", "02"), ("Down", "22"), ("LEFT", "11"), ("right", "13"), ("wait", "12")]
        {
            let step = Move::from_word(step).unwrap();
            let next = cell.after(step, 4).unwrap();
            assert_eq!(next.to_string(), wanted);
            assert_eq!(Move::between(cell, next), Some(step));
        }
        assert_eq!(cell.after(Move::Right, 3), None);
        assert_eq!(Cell { row: 0, col: 0 }.after(Move::Up, 3), None);
        assert_eq!(Move::from_word("jump"), None);
        assert_eq!(Move::between(cell, "23".parse().unwrap()), None);
    }
}
