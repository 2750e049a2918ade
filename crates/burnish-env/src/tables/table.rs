//! A table, its text in a prompt, and where its cells are in that text.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// A table: a header, and rows that are as long as it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The names of the columns.
    pub header: Vec<String>,
    /// The cells, row by row. No cell is empty or has a `|`, a line break or a blank at an end.
    pub rows: Vec<Vec<String>>,
}

/// An order of rows and columns, as positions in the original table: row `i` of the table in this order is row `rows[i]`
/// of the original.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// Where each row was.
    pub rows: Vec<usize>,
    /// Where each column was.
    pub columns: Vec<usize>,
}

impl Order {
    /// The order that changes nothing.
    pub fn unchanged(rows: usize, columns: usize) -> Self {
        Order { rows: (0..rows).collect(), columns: (0..columns).collect() }
    }

    /// Is it an order of so many rows and columns: each position once?
    pub fn fits(&self, rows: usize, columns: usize) -> bool {
        let is_order = |order: &[usize], len: usize| {
            let mut sorted = order.to_vec();
            sorted.sort_unstable();
            sorted.into_iter().eq(0..len)
        };
        is_order(&self.rows, rows) && is_order(&self.columns, columns)
    }
}

/// The elements of `list` in `order`; positions that it does not have are left out.
pub(super) fn ordered<T: Clone>(list: &[T], order: &[usize]) -> Vec<T> {
    order.iter().filter_map(|&at| list.get(at).cloned()).collect()
}

impl Table {
    /// The text of a cell. `None` if there is no such cell.
    pub fn cell(&self, row: usize, column: usize) -> Option<&str> {
        self.rows.get(row)?.get(column).map(String::as_str)
    }

    /// Number of cells, without the header.
    pub fn len(&self) -> usize {
        self.rows.len() * self.header.len()
    }

    /// Has it no cells?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Is every row as long as the header?
    pub(super) fn is_rectangular(&self) -> bool {
        self.rows.iter().all(|row| row.len() == self.header.len())
    }

    /// The same table in another order.
    pub(super) fn permuted(&self, order: &Order) -> Table {
        let rows = ordered(&self.rows, &order.rows);
        Table {
            header: ordered(&self.header, &order.columns),
            rows: rows.iter().map(|row| ordered(row, &order.columns)).collect(),
        }
    }

    /// A line for the header and one for each row, which begins with its number from 1 if `numbered`.
    pub(super) fn text(&self, numbered: bool) -> String {
        let line = |cells: &[String]| format!("| {} |", cells.join(" | "));
        let mut lines = vec![line(&self.header)];
        lines.extend(self.rows.iter().enumerate().map(|(at, row)| match numbered {
            true => format!("{} {}", at + 1, line(row)),
            false => line(row),
        }));
        lines.join("\n")
    }

    /// What is the same in every order of rows and columns, and different for different tables.
    pub(super) fn content(&self) -> String {
        let mut columns: Vec<usize> = (0..self.header.len()).collect();
        columns.sort_by_key(|&at| &self.header[at]);
        let mut rows: Vec<Vec<String>> = self.rows.iter().map(|row| ordered(row, &columns)).collect();
        rows.sort();
        Table { header: ordered(&self.header, &columns), rows }.text(false)
    }
}

/// Where the text of a cell is in a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellSpan {
    /// The cell's row, from 0 below the header.
    pub row: usize,
    /// The cell's column, from 0.
    pub column: usize,
    /// The bytes of the prompt that are the cell's text, without bars and blanks; as the offsets of a tokenizer are.
    pub bytes: Range<usize>,
}

/// Where the cells of the table in `prompt` are, row by row; the header has none. `prompt` is the content of a task's
/// user message, or a text that holds it. Empty if it holds no table.
///
/// The table begins with the first line of the form `| a | b |` and ends before the first line without as many cells. A
/// row's number is before its first bar and belongs to no cell.
pub fn cells(prompt: &str) -> Vec<CellSpan> {
    let mut spans = Vec::new();
    let mut columns = None;
    let mut row = 0;
    let mut start = 0;
    for line in prompt.split_inclusive('\n') {
        let found = cells_of_line(line.trim_end_matches('\n'), start);
        start += line.len();
        match columns {
            // The header has no number before it.
            None if line.starts_with("| ") => columns = (!found.is_empty()).then_some(found.len()),
            None => {}
            Some(columns) if columns == found.len() => {
                spans.extend(found.into_iter().enumerate().map(|(column, bytes)| CellSpan {
                    row,
                    column,
                    bytes,
                }));
                row += 1;
            }
            Some(_) => break,
        }
    }
    spans
}

/// The texts between the bars of a line that begins at byte `start`. Empty if it is not a line of a table.
fn cells_of_line(line: &str, start: usize) -> Vec<Range<usize>> {
    let (Some(first), true) = (line.find("| "), line.ends_with(" |")) else { return Vec::new() };
    let bars: Vec<usize> = line.match_indices('|').map(|(at, _)| at).filter(|&at| at >= first).collect();
    let between = |pair: &[usize]| {
        let text = &line[pair[0] + 1..pair[1]];
        let inner = text.trim();
        let from = start + pair[0] + 1 + (text.len() - text.trim_start().len());
        from..from + inner.len()
    };
    bars.windows(2).map(between).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(header: &[&str], rows: &[&[&str]]) -> Table {
        let texts = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect();
        Table { header: texts(header), rows: rows.iter().map(|row| texts(row)).collect() }
    }

    #[test]
    fn spans_end_where_the_table_does() {
        let two = table(&["name", "born in"], &[&["ada", "St. Ives"], &["bob", "Åre"]]);
        let text = format!("Read:\n{}\nwho | what\n| a | b |", two.text(true));
        let found: Vec<(usize, usize, &str)> =
            cells(&text).into_iter().map(|span| (span.row, span.column, &text[span.bytes])).collect();
        assert_eq!(found, [(0, 0, "ada"), (0, 1, "St. Ives"), (1, 0, "bob"), (1, 1, "Åre")]);
        assert!(text.contains("\n2 | bob | Åre |\n"), "{text}");
        for text in ["", "no table", "| |", "|", "| a", "a |\n"] {
            assert!(cells(text).is_empty(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_has_spans_within_it(text in "[|a é\n]{0,60}") {
            for span in cells(&text) {
                prop_assert!(text.get(span.bytes).is_some());
            }
        }

        #[test]
        fn the_content_is_the_same_in_every_order(
            rows in Just(vec![0_usize, 1, 2, 3]).prop_shuffle(), columns in Just(vec![0_usize, 1, 2]).prop_shuffle(),
        ) {
            let rows_of: [&[&str]; 4] = [&["a", "1", "x"], &["b", "2", "x"], &["c", "2", "y"], &["d", "1", "y"]];
            let original = table(&["name", "age", "pet"], &rows_of);
            let order = Order { rows, columns };
            prop_assert_eq!(original.permuted(&order).content(), original.content());
            let mut other = original.clone();
            other.rows[1][1] = "1".to_owned();
            prop_assert_ne!(other.content(), original.content());
        }
    }
}
