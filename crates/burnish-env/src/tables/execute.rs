//! Runs a plan on a table. It sees operations, masks and the table; it does not know the question.

use super::plan::{Op, Plan, Step};
use super::table::Table;

/// Header of the column of names.
pub(super) const NAME: &str = "name";

/// Why a plan has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("step {step}, {op}: {problem}", op = .op.name())]
pub struct NoAnswer {
    /// Number of the step, from 1; 0 steps have no answer at step 0.
    pub step: usize,
    /// What it does.
    pub op: Op,
    /// What is wrong with its mask.
    pub problem: &'static str,
}

/// What steps leave behind for later ones.
#[derive(Default)]
struct State<'a> {
    /// The row that `find`, `max` or `min` took.
    row: Option<usize>,
    /// The column that `filter` looked through.
    column: Option<usize>,
    /// The cell that `read` read last.
    read: Option<(usize, usize, &'a str)>,
    answer: Option<String>,
}

/// The answer of a plan: what its last step says.
///
/// - `find`: one cell of the column `name`; its row is taken.
/// - `max`, `min`: one whole column of numbers; the row of its largest or smallest one is taken, unless there is a tie.
/// - `read`: one cell, in the row that was taken, if one was. Says its text.
/// - `filter`: one whole column.
/// - `count`: cells of the filtered column that all say the same. Says how many they are.
/// - `sum`: one column of numbers, in rows in which the filtered column says the same. Says their sum.
/// - `larger`, `smaller`: one cell in the column that was read last, in another row. Says `yes` or `no`: whether the
///   number that was read is the larger (smaller) one; equal ones have no answer.
///
/// # Errors
/// Names the first step whose mask makes no sense for its operation, or the last step if it says nothing.
pub fn execute(plan: &Plan, table: &Table) -> Result<String, NoAnswer> {
    let mut state = State::default();
    for (at, step) in plan.0.iter().enumerate() {
        state.answer = None;
        apply(step, table, &mut state).map_err(|problem| NoAnswer { step: at + 1, op: step.op, problem })?;
    }
    let silent = NoAnswer {
        step: plan.0.len(),
        op: plan.0.last().map_or(Op::Read, |step| step.op),
        problem: "the plan ends here, and this step says nothing",
    };
    state.answer.ok_or(silent)
}

fn apply<'a>(step: &Step, table: &'a Table, state: &mut State<'a>) -> Result<(), &'static str> {
    let (height, width) = (table.rows.len(), table.header.len());
    if (step.rows.len(), step.columns.len()) != (height, width) {
        return Err("its mask is for a table of another size");
    }
    let cells: Vec<(usize, usize, &str)> =
        step.cells().filter_map(|(row, column)| Some((row, column, table.cell(row, column)?))).collect();
    let one_cell = || match cells[..] {
        [cell] => Ok(cell),
        _ => Err("it looks at one cell, no more and no fewer"),
    };
    // Not empty, as a table has rows.
    let one_column = || match cells.first() {
        Some(&(_, column, _)) if cells.iter().all(|cell| cell.1 == column) => Ok(column),
        _ => Err("it looks at cells of one column"),
    };
    let whole_column = || match one_column()? {
        column if cells.len() == height => Ok(column),
        _ => Err("it looks at every row"),
    };
    let numbers = || {
        let number = |&(row, _, text): &(usize, usize, &str)| Some((row, text.parse::<i64>().ok()?));
        let numbers: Option<Vec<(usize, i64)>> = cells.iter().map(number).collect();
        numbers.ok_or("it looks at numbers")
    };
    // The rows that are looked at, in the filtered column.
    let say_the_same = |column: usize| {
        let mut texts = cells.iter().map(|cell| table.cell(cell.0, column));
        let first = texts.next();
        texts.all(|text| Some(text) == first)
    };
    match step.op {
        Op::Find => {
            let (row, column, _) = one_cell()?;
            if table.header.get(column).is_none_or(|name| name != NAME) {
                return Err("it looks at a name");
            }
            state.row = Some(row);
        }
        Op::Max | Op::Min => {
            whole_column()?;
            let numbers = numbers()?;
            let values = numbers.iter().map(|(_, number)| *number);
            let extreme = if step.op == Op::Max { values.max() } else { values.min() };
            let mut rows = numbers.iter().filter(|(_, number)| Some(*number) == extreme).map(|(row, _)| *row);
            state.row = rows.next();
            if rows.next().is_some() {
                return Err("two rows have the same number");
            }
        }
        Op::Read => {
            let (row, column, text) = one_cell()?;
            if state.row.is_some_and(|taken| taken != row) {
                return Err("it reads in the row that was taken");
            }
            state.read = Some((row, column, text));
            state.answer = Some(text.to_owned());
        }
        Op::Filter => state.column = Some(whole_column()?),
        Op::Count | Op::Sum => {
            let filtered = state.column.ok_or("it comes after a filter")?;
            let column = one_column()?;
            if step.op == Op::Count && column != filtered {
                return Err("it looks at the column that was filtered");
            }
            if !say_the_same(filtered) {
                return Err("its rows have different values in the column that was filtered");
            }
            state.answer = Some(match step.op {
                Op::Count => cells.len().to_string(),
                _ => {
                    let sum = numbers()?.iter().try_fold(0_i64, |sum, (_, number)| sum.checked_add(*number));
                    sum.ok_or("the sum is too large")?.to_string()
                }
            });
        }
        Op::Larger | Op::Smaller => {
            let (row, column, text) = one_cell()?;
            let (read_row, read_column, read) = state.read.ok_or("it comes after a read")?;
            if read_column != column || read_row == row {
                return Err("it looks at the column that was read, in another row");
            }
            let (Ok(read), Ok(number)) = (read.parse::<i64>(), text.parse::<i64>()) else {
                return Err("it looks at numbers");
            };
            if read == number {
                return Err("the two numbers are equal");
            }
            let is_so = if step.op == Op::Larger { read > number } else { read < number };
            state.answer = Some(if is_so { "yes" } else { "no" }.to_owned());
        }
    }
    Ok(())
}
