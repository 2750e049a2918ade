//! One generated table and its question.

use burnish_core::rng::Stream;

use super::config::{Config, Question, Range};
use super::execute::NAME;
use super::plan::{Op, Plan, Step};
use super::table::Table;

/// Names of rows.
pub(super) const NAMES: [&str; 24] = [
    "ada", "bob", "cyd", "dan", "eve", "fay", "gus", "hal", "ivy", "jon", "kim", "leo", "mia", "ned", "ola",
    "pam", "quin", "ray", "sue", "tom", "uma", "vic", "wes", "zoe",
];

/// Headers of columns of numbers.
pub(super) const NUMBERS: [&str; 5] = ["age", "size", "cost", "rank", "load"];

/// Headers of columns of words, and their words.
pub(super) const WORDS: [(&str, [&str; 8]); 5] = [
    ("city", ["rome", "oslo", "lima", "cairo", "paris", "delhi", "quito", "kyiv"]),
    ("color", ["red", "blue", "green", "black", "white", "pink", "gold", "gray"]),
    ("food", ["rice", "bread", "soup", "fish", "cake", "corn", "beans", "eggs"]),
    ("pet", ["cat", "dog", "bird", "frog", "horse", "mouse", "goat", "duck"]),
    ("drink", ["tea", "milk", "water", "juice", "cocoa", "coffee", "cola", "wine"]),
];

/// The least number.
const LEAST: usize = 10;

/// A table, a question about it, its one plan and its one answer.
#[derive(Debug)]
pub(super) struct Drawn {
    pub(super) table: Table,
    pub(super) question: String,
    pub(super) plan: Plan,
    pub(super) answer: String,
}

/// A column other than that of names.
enum Column {
    Number(&'static str, Vec<usize>),
    Word(&'static str, Vec<&'static str>),
}

impl Column {
    fn header(&self) -> &'static str {
        match self {
            Column::Number(header, _) | Column::Word(header, _) => header,
        }
    }

    fn text(&self, row: usize) -> String {
        match self {
            Column::Number(_, numbers) => numbers[row].to_string(),
            Column::Word(_, words) => words[row].to_owned(),
        }
    }
}

/// Columns in the order of the table. There is at least one of numbers and one of words, so that everything can be asked.
fn columns(config: &Config, rows: usize, stream: &mut Stream) -> Vec<Column> {
    let Range { min, max } = config.columns;
    let others = min + stream.index(max - min + 1) - 1;
    // Headers by position: those of numbers, then those of words.
    let mut numbers: Vec<usize> = (0..NUMBERS.len()).collect();
    let mut words: Vec<usize> = (NUMBERS.len()..NUMBERS.len() + WORDS.len()).collect();
    stream.shuffle(&mut numbers);
    stream.shuffle(&mut words);
    let mut chosen = vec![numbers[0], words[0]];
    let mut rest = [&numbers[1..], &words[1..]].concat();
    stream.shuffle(&mut rest);
    chosen.extend(rest.into_iter().take(others - 2));
    stream.shuffle(&mut chosen);
    let column = |header: usize| match NUMBERS.get(header) {
        Some(name) => {
            let mut all: Vec<usize> = (LEAST..LEAST + config.numbers).collect();
            stream.shuffle(&mut all);
            all.truncate(rows);
            Column::Number(name, all)
        }
        None => {
            let (name, words) = WORDS[header - NUMBERS.len()];
            Column::Word(name, (0..rows).map(|_| words[stream.index(config.words)]).collect())
        }
    };
    chosen.into_iter().map(column).collect()
}

/// A question of this kind about a table of so many rows.
pub(super) fn draw(config: &Config, question: Question, rows: usize, stream: &mut Stream) -> Drawn {
    let columns = columns(config, rows, stream);
    let mut names: Vec<usize> = (0..config.names).collect();
    stream.shuffle(&mut names);
    let names: Vec<&str> = names[..rows].iter().map(|&name| NAMES[name]).collect();

    let mut header = vec![NAME.to_owned()];
    header.extend(columns.iter().map(|column| column.header().to_owned()));
    let row = |row: usize| {
        [names[row].to_owned()]
            .into_iter()
            .chain(columns.iter().map(move |column| column.text(row)))
            .collect()
    };
    let table = Table { header, rows: (0..rows).map(row).collect() };

    let size = (rows, columns.len() + 1);
    let step = |op, rows: &[usize], column: usize| Step::at(op, size, rows, &[column]);
    let every: Vec<usize> = (0..rows).collect();
    let is_number = |at: usize| matches!(columns[at], Column::Number(..));
    let (of_numbers, of_words): (Vec<usize>, Vec<usize>) = (0..columns.len()).partition(|&at| is_number(at));
    let number_at = of_numbers[stream.index(of_numbers.len())];
    let word_at = of_words[stream.index(of_words.len())];
    let any_at = stream.index(columns.len());
    let a = stream.index(rows);
    let b = (a + 1 + stream.index(rows - 1)) % rows;
    let is_larger = stream.uniform() < 0.5;
    let (number_header, word_header) = (columns[number_at].header(), columns[word_at].header());
    let number = |row: usize| match &columns[number_at] {
        Column::Number(_, numbers) => numbers[row],
        Column::Word(..) => 0,
    };
    // A value that some rows have, each of those that are there as likely.
    let mut values: Vec<String> = (0..rows).map(|row| columns[word_at].text(row)).collect();
    values.sort();
    values.dedup();
    let value = values.swap_remove(stream.index(values.len()));
    let with_value: Vec<usize> =
        every.iter().copied().filter(|&row| columns[word_at].text(row) == value).collect();

    // Columns of the table have that of names before them.
    let (number_column, word_column, any_column) = (number_at + 1, word_at + 1, any_at + 1);
    let (question, steps, answer) = match question {
        Question::Lookup => (
            format!("what is the {} of {}", columns[any_at].header(), names[a]),
            [step(Op::Find, &[a], 0), step(Op::Read, &[a], any_column)],
            columns[any_at].text(a),
        ),
        Question::Count => (
            format!("how many have {word_header} {value}"),
            [step(Op::Filter, &every, word_column), step(Op::Count, &with_value, word_column)],
            with_value.len().to_string(),
        ),
        Question::Max | Question::Min => {
            let is_max = question == Question::Max;
            let key = |row: &usize| if is_max { number(*row) } else { usize::MAX - number(*row) };
            let best = every.iter().copied().max_by_key(key).unwrap_or_default();
            let op = if is_max { Op::Max } else { Op::Min };
            (
                format!("who has the {} {number_header}", if is_max { "largest" } else { "smallest" }),
                [step(op, &every, number_column), step(Op::Read, &[best], 0)],
                names[best].to_owned(),
            )
        }
        Question::Compare => {
            let (op, word) = if is_larger { (Op::Larger, "larger") } else { (Op::Smaller, "smaller") };
            let is_so = (number(a) > number(b)) == is_larger;
            (
                format!(
                    "is the {number_header} of {} {word} than the {number_header} of {}",
                    names[a], names[b]
                ),
                [step(Op::Read, &[a], number_column), step(op, &[b], number_column)],
                if is_so { "yes" } else { "no" }.to_owned(),
            )
        }
        Question::Sum => (
            format!("what is the total {number_header} where {word_header} is {value}"),
            [step(Op::Filter, &every, word_column), step(Op::Sum, &with_value, number_column)],
            with_value.iter().map(|&row| number(row)).sum::<usize>().to_string(),
        ),
    };
    Drawn { table, question, plan: Plan(steps.into()), answer }
}
