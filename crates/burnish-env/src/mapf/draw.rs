//! Boards for people, as text.

use super::board::{Board, Cell, letter};
use super::simulate::Trial;

/// Largest width of a row of boards, in characters.
const WIDTH_MAX: usize = 100;
/// Most times of one plan that are drawn.
const FRAMES_MAX: usize = 48;

/// The board at the start: `A` is agent A, `a` its goal, `#` a hole, `.` free. An agent covers a goal that it stands
/// on.
pub(super) fn start(board: &Board) -> String {
    frame(board, board.starts()).join("\n")
}

/// The board at each time of a trial, several side by side. In addition to what [`start`] shows, `*` marks a collision
/// and `!` an agent in a hole.
pub(super) fn frames(board: &Board, trial: &Trial) -> String {
    let width = (2 * board.size() - 1).max("t=199".len());
    let per_row = ((WIDTH_MAX + 3) / (width + 3)).max(1);
    let shown = &trial.frames[..trial.frames.len().min(FRAMES_MAX)];
    let mut text = String::new();
    for (row, times) in shown.chunks(per_row).enumerate() {
        let drawn: Vec<Vec<String>> = times.iter().map(|cells| frame(board, cells)).collect();
        let titles = (0..times.len()).map(|i| format!("t={}", row * per_row + i)).collect();
        text += &side_by_side(titles, width);
        for line in 0..board.size() {
            text += &side_by_side(drawn.iter().map(|board| board[line].clone()).collect(), width);
        }
        text.push('\n');
    }
    if shown.len() < trial.frames.len() {
        text += &format!("... and {} more steps\n", trial.frames.len() - shown.len());
    }
    text
}

fn side_by_side(parts: Vec<String>, width: usize) -> String {
    let padded: Vec<String> = parts.into_iter().map(|part| format!("{part:width$}")).collect();
    padded.join("   ").trim_end().to_owned() + "\n"
}

/// One line of text per row, with the agents at `positions`.
fn frame(board: &Board, positions: &[Cell]) -> Vec<String> {
    let side = board.size() as u8;
    let symbol = |row, col| symbol(board, positions, Cell { row, col }).to_string();
    (0..side).map(|row| (0..side).map(|col| symbol(row, col)).collect::<Vec<_>>().join(" ")).collect()
}

fn symbol(board: &Board, positions: &[Cell], cell: Cell) -> char {
    let mut here = (0..positions.len()).filter(|&agent| positions[agent] == cell);
    match (here.next(), here.next(), board.is_hole(cell)) {
        (Some(_), Some(_), _) => '*',
        (Some(_), None, true) => '!',
        (Some(agent), None, false) => letter(agent),
        (None, _, true) => '#',
        (None, _, false) => {
            let goal = board.goals().iter().position(|&goal| goal == cell);
            goal.map_or('.', |agent| letter(agent).to_ascii_lowercase())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::board::{Move, tests::board};
    use super::super::simulate::simulate;
    use super::*;

    #[test]
    fn a_trial_is_drawn_side_by_side_with_collisions_marked() {
        let board = board(3, "11", "00 02", "02 20");
        let trial = simulate(&board, &[vec![Move::Right, Move::Down], vec![Move::Left]]);
        let wanted = "\
t=0     t=1     t=2
A . B   . * a   . B a
. # .   . # .   . ! .
b . .   b . .   b . .

";
        assert_eq!(frames(&board, &trial), wanted);
    }

    #[test]
    fn a_long_trial_is_wrapped_and_cut() {
        let board = board(10, "", "00", "01");
        let drawn = frames(&board, &simulate(&board, &[vec![Move::Wait; 200]]));
        assert!(drawn.lines().all(|line| line.len() <= WIDTH_MAX));
        assert!(drawn.ends_with("... and 153 more steps\n"), "{drawn}");
    }
}
