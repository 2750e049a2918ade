//! Proxies for masks by weak supervision: which cells a question is about, by their text alone.
//!
//! **Reconstructed**: the paper trains on masks that people verified; these are not such. A cell is marked if its words
//! are in the question, or are the answer, so cells that have to be compared or counted are missed and chance matches are
//! marked.

use burnish_verify::qa::tokens;

use super::plan::{Op, Plan, Step};
use super::table::Table;

/// The cells whose words, normalised as SQuAD does, are in `question` in a row, or are one of the `answers`; row by row.
/// Cells without letters or digits are never marked.
pub(super) fn cells(table: &Table, question: &str, answers: &[String]) -> Vec<(usize, usize)> {
    let question = tokens(question);
    let answers: Vec<Vec<String>> = answers.iter().map(|answer| tokens(answer)).collect();
    let is_marked = |text: &String| {
        let words = tokens(text);
        !words.is_empty()
            && (question.windows(words.len()).any(|window| window == words) || answers.contains(&words))
    };
    let of_row = |(row, cells): (usize, &Vec<String>)| -> Vec<(usize, usize)> {
        let marked = cells.iter().enumerate().filter(|(_, text)| is_marked(text));
        marked.map(|(column, _)| (row, column)).collect()
    };
    table.rows.iter().enumerate().flat_map(of_row).collect()
}

/// One step that reads the smallest product of rows and columns that holds all of `cells`.
pub(super) fn plan(table: &Table, cells: &[(usize, usize)]) -> Plan {
    let (rows, columns): (Vec<usize>, Vec<usize>) = cells.iter().copied().unzip();
    Plan(vec![Step::at(Op::Read, (table.rows.len(), table.header.len()), &rows, &columns)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_marked_by_their_words_and_covered_by_a_product() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let table = Table {
            header: row(["Team", "Points", "City"]),
            rows: vec![
                row(["The Wolfe Tones", "1,200", "-"]),
                row(["Crettyard", "12", "Laois"]),
                row(["Wolfe", "3", "Ballylinan"]),
            ],
        };
        let question = "Which team with 12 points won previous to crettyard?";
        let answers = ["Wolfe Tones".to_owned()];
        let marked = cells(&table, question, &answers);
        assert_eq!(marked, [(0, 0), (1, 0), (1, 1)]);
        assert_eq!(plan(&table, &marked).to_string(), "read 1 1 0 : 1 1 0");
        assert_eq!(cells(&table, "is 1200 more than 120?", &[]), [(0, 1)]);
        assert!(cells(&table, "the - of it", &[String::new()]).is_empty());
    }
}
