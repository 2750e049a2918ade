//! The texts that a policy reads and writes: prompts, answers and demonstrations.

use super::board::{Board, Cell, Move, Plan, letter};
use super::config::PromptStyle;
use super::draw;

/// Most moves per agent in an answer.
pub const MOVES_MAX: usize = 200;

const THINK_OPEN: &str = "<think>";
const THINK_CLOSE: &str = "</think>";

const RULES: &str = "\
Plan the paths of several agents on a frozen lake. Time goes in steps, and in each step every agent makes one \
move: UP, DOWN, LEFT, RIGHT, or WAIT to stay. No agent may leave the grid or enter a hole. No two agents may \
be on one cell after a step, and no two agents may change places in one step. An agent whose moves are over \
stays on its cell. In the end every agent must be on its goal. The best plan has the least sum over the agents \
of the step of their last arrival at the goal.

A cell is written as two digits: row, then column, from 00 at the upper left. Think between <think> and \
</think>. Then write one line for each agent: its letter, a colon, and its moves with spaces between them, \
like `A: RIGHT WAIT DOWN`; nothing else.

In the drawing, A is where agent A starts and a where it goes, # is a hole, . is free.";

/// The text that asks for a plan.
pub fn prompt(board: &Board, style: PromptStyle) -> String {
    match style {
        PromptStyle::Short => facts(board),
        PromptStyle::Full => format!("{RULES}\n\n{}\n\n{}", draw::start(board), facts(board)),
    }
}

/// Size, holes, starts and goals, one line each.
fn facts(board: &Board) -> String {
    let holes = if board.holes().is_empty() { "none".to_owned() } else { cells(board.holes()) };
    let mut text = format!("Grid {0}x{0}\nHoles {holes}", board.size());
    for (agent, (start, goal)) in board.starts().iter().zip(board.goals()).enumerate() {
        text += &format!("\n{} {start} to {goal}", letter(agent));
    }
    text
}

fn cells(cells: &[Cell]) -> String {
    cells.iter().map(Cell::to_string).collect::<Vec<_>>().join(" ")
}

/// An answer that gives `plan`. Its thoughts list the cells of all agents at each time, from the `frames` of the
/// simulated plan.
pub fn answer(plan: &Plan, frames: &[Vec<Cell>]) -> String {
    let mut text = format!("{THINK_OPEN}\n");
    for frame in frames {
        text += &cells(frame);
        text.push('\n');
    }
    text += THINK_CLOSE;
    for (agent, moves) in plan.iter().enumerate() {
        text += &format!("\n{}:", letter(agent));
        for step in moves {
            text.push(' ');
            text += step.word();
        }
    }
    text
}

/// Reads the plan in an answer: after the last `</think>`, one line per agent in any order, and nothing else but blank
/// lines. Moves are separated by spaces, commas or both; case does not matter.
///
/// # Errors
/// Says which line is not as required.
pub fn parse(answer: &str, agents: usize) -> Result<Plan, String> {
    let lines = answer.rsplit_once(THINK_CLOSE).map_or(answer, |(_, after)| after);
    let mut plan: Vec<Option<Vec<Move>>> = vec![None; agents];
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (agent, moves) = parse_line(line, agents)?;
        if plan[agent].replace(moves).is_some() {
            return Err(format!("There are two lines for {}.", letter(agent)));
        }
    }
    let missing = plan.iter().position(Option::is_none);
    match missing {
        Some(agent) => Err(format!("There is no line for {0}, like `{0}: RIGHT DOWN`.", letter(agent))),
        None => Ok(plan.into_iter().flatten().collect()),
    }
}

fn parse_line(line: &str, agents: usize) -> Result<(usize, Vec<Move>), String> {
    let unreadable = || format!("`{}` is not a line like `A: RIGHT DOWN`.", start_of(line));
    let (name, words) = line.split_once(':').ok_or_else(unreadable)?;
    let name = name.trim();
    let agent = (0..agents)
        .find(|&agent| {
            name.len() == 1 && name.starts_with([letter(agent), letter(agent).to_ascii_lowercase()])
        })
        .ok_or_else(unreadable)?;
    let mut moves = Vec::new();
    for word in words.split([' ', '\t', ',']).filter(|word| !word.is_empty()) {
        let step = Move::from_word(word)
            .ok_or_else(|| format!("{}: `{}` is not a move.", letter(agent), start_of(word)))?;
        moves.push(step);
        if moves.len() > MOVES_MAX {
            return Err(format!("{} has more than {MOVES_MAX} moves.", letter(agent)));
        }
    }
    Ok((agent, moves))
}

/// The first characters of a text that may be long.
fn start_of(text: &str) -> String {
    const SHOWN: usize = 40;
    let cut: String = text.chars().take(SHOWN).collect();
    if cut.len() < text.len() { cut + "..." } else { cut }
}

#[cfg(test)]
mod tests {
    use super::super::board::tests::board;
    use super::super::simulate::simulate;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn prompts_and_answers_read_as_documented() {
        let given = board(4, "30 02 13", "00 31", "33 01");
        let facts = "Grid 4x4\nHoles 02 13 30\nA 00 to 33\nB 31 to 01";
        assert_eq!(prompt(&given, PromptStyle::Short), facts);
        let full = prompt(&given, PromptStyle::Full);
        assert!(full.ends_with(&format!("\n\nA b # .\n. . . #\n. . . .\n# B . a\n\n{facts}")), "{full}");
        assert!(prompt(&board(2, "", "00", "01"), PromptStyle::Short).contains("\nHoles none\n"));

        let plan = parse("A: right, WAIT\nB:", 2).unwrap();
        let frames = simulate(&board(2, "", "00 10", "01 10"), &plan).frames;
        assert_eq!(answer(&plan, &frames), "<think>\n00 10\n01 10\n01 10\n</think>\nA: RIGHT WAIT\nB:");
    }

    #[test]
    fn the_parser_takes_what_follows_the_last_thought_in_any_spelling() {
        use Move::{Down, Right, Up};
        let wanted = vec![vec![Right, Down], vec![Up]];
        for text in [
            "A: RIGHT DOWN\nB: UP",
            "\n  b : up ,\n\nA:right,down\n",
            "<think>A: UP</think>x</think>A: RIGHT, DOWN\r\nB: UP",
        ] {
            assert_eq!(parse(text, 2).as_ref(), Ok(&wanted), "{text}");
        }
    }

    #[test]
    fn the_parser_refuses_anything_else_and_says_what() {
        let long = format!("A: {}\nB:", "UP ".repeat(MOVES_MAX + 1));
        for (text, problem) in [
            ("", "no line for A"),
            ("A: UP", "no line for B"),
            ("A: UP\nA: UP\nB:", "two lines for A"),
            ("A: UP\nB: JUMP", "B: `JUMP` is not a move"),
            ("A: UP\nB: DOWN\nC: UP", "`C: UP` is not a line"),
            ("Here is my plan\nA: UP\nB:", "`Here is my plan`"),
            ("<think>\n00 11\nA: UP\nB: UP", "`<think>`"),
            ("AB: UP\nB:", "`AB: UP`"),
            (&long, "more than 200 moves"),
        ] {
            let error = parse(text, 2).unwrap_err();
            assert!(error.contains(problem), "{text}: {error}");
        }
        let longest = format!("A: {}\nB:", "UP ".repeat(MOVES_MAX));
        assert!(parse(&longest, 2).is_ok());
    }

    proptest! {
        #[test]
        fn the_parser_never_panics(
            any in ".*",
            near in "(<think>|</think>|[ABab]|:|,| |\n|UP|down|RIGHT|WAIT|é|x)*",
            agents in 1usize..=5,
        ) {
            for text in [any, near] {
                if let Ok(plan) = parse(&text, agents) {
                    prop_assert_eq!(plan.len(), agents);
                }
            }
        }

        #[test]
        fn what_is_written_is_read_back(steps in prop::collection::vec(prop::collection::vec(0usize..5, 0..9), 2)) {
            let plan: Plan = steps.iter().map(|line| line.iter().map(|&i| Move::ALL[i]).collect()).collect();
            prop_assert_eq!(parse(&answer(&plan, &[]), 2), Ok(plan));
        }
    }
}
