//! Decontamination finds what is planted and nothing else.

use crate::common::Scratch;
use burnish_core::Message;
use burnish_data::overlap::{Counter, NGRAM, Overlap, SHARED_MAX};
use burnish_data::{Columns, Row};
use proptest::prelude::*;

fn asking(text: &str) -> Row {
    Row { prompt: vec![Message::user(text)], ..Row::default() }
}

fn against(rows: &[Row]) -> Overlap {
    let mut overlap = Overlap::new(NGRAM);
    rows.iter().for_each(|row| overlap.add(row));
    overlap
}

/// A text of words `{mark}{number}`: texts with different marks share no word.
fn text(mark: char, numbers: &[u16]) -> String {
    numbers.iter().map(|number| format!("{mark}{number}")).collect::<Vec<_>>().join(" ")
}

proptest! {
    #[test]
    fn disjoint_vocabularies_do_not_overlap(
        training in prop::collection::vec(prop::collection::vec(0u16..6, 1..60), 1..10),
        evaluation in prop::collection::vec(prop::collection::vec(0u16..6, 1..60), 1..10),
    ) {
        let evaluation: Vec<Row> = evaluation.iter().map(|numbers| asking(&text('e', numbers))).collect();
        let overlap = against(&evaluation);
        for numbers in training {
            prop_assert_eq!(overlap.find(&asking(&text('t', &numbers))), None);
        }
    }

    #[test]
    fn a_planted_run_is_found_wherever_it_stands_and_a_shorter_one_is_not(
        own in prop::collection::vec(any::<u16>(), NGRAM..50),
        before in prop::collection::vec(any::<u16>(), 0..30),
        after in prop::collection::vec(any::<u16>(), 0..30),
        start: prop::sample::Index,
        in_answer: bool,
    ) {
        let overlap = against(&[asking("something else"), asking(&text('e', &own))]);
        let start = start.index(own.len() - NGRAM + 1);
        let planted = |length: usize| {
            let run = text('e', &own[start..start + length]).to_uppercase().replace(' ', ", ");
            let whole = format!("{} {run}. {}", text('t', &before), text('t', &after));
            if in_answer {
                Row { completion: Some(vec![Message::assistant(whole)]), ..asking("unlike") }
            } else {
                asking(&whole)
            }
        };
        let found = overlap.find(&planted(NGRAM)).unwrap();
        prop_assert_eq!(found.rows.into_iter().collect::<Vec<_>>(), [1]);
        prop_assert_eq!(found.words, text('e', &own[start..start + NGRAM]));
        prop_assert_eq!(overlap.find(&planted(NGRAM - 1)), None);
    }
}

#[test]
fn a_short_prompt_overlaps_with_its_equal_only() {
    let overlap = against(&[asking("What is 2 + 2?"), asking("#..\n.#.")]);
    assert!(overlap.find(&asking("what is 2+2")).is_none(), "2+2 is one word, 2 + 2 are two");
    assert!(overlap.find(&asking("WHAT is 2 +  2")).is_some());
    assert!(overlap.find(&asking("What is 2 + 2? And 3 + 3?")).is_none());
    // A message of a longer conversation.
    let mut later = asking("Hello");
    later.prompt.extend([Message::assistant("Hi."), Message::user("What is 2 + 2?")]);
    assert!(overlap.find(&later).is_some());
    // Texts without words are compared as they are.
    assert!(overlap.find(&asking(" #..\n.#. ")).is_some());
    assert!(overlap.find(&asking("##.\n.#.")).is_none());
    // An equal short answer means nothing.
    let answered = |question: &str| Row { answer: Some("4".into()), ..asking(question) };
    assert!(against(&[answered("one question")]).find(&answered("another question")).is_none());
}

#[test]
fn instructions_that_all_rows_bring_do_not_count() {
    let instruction = "Let us think step by step and give the final answer after four signs";
    let row = |mark, n: u16| asking(&format!("{} {instruction}", text(mark, &[n; 3])));
    let few: Vec<Row> = (0..SHARED_MAX as u16).map(|n| row('e', n)).collect();
    assert!(against(&few).find(&row('t', 99)).is_some());
    let many: Vec<Row> = (0..=SHARED_MAX as u16).map(|n| row('e', n)).collect();
    let overlap = against(&many);
    assert!(overlap.find(&row('t', 99)).is_none());
    assert_eq!(overlap.common_runs(), 2, "the instruction has 14 words");
    assert!(overlap.find(&row('e', 3)).is_some(), "what is the row's own still counts");
    // Copies of one row count as one row.
    let copies = vec![asking(instruction); 40];
    assert!(against(&copies).find(&asking(instruction)).is_some());
    // System messages do not count either.
    let system = |n| Row { prompt: vec![Message::system(instruction), Message::user(n)], ..Row::default() };
    assert!(against(&[system("a")]).find(&system("b")).is_none());
}

#[test]
fn a_report_counts_by_file_with_examples() {
    let long = |mark: char, n: u16| text(mark, &(n..n + 20).collect::<Vec<_>>());
    let overlap = against(&[asking(&long('e', 0)), asking(&long('e', 100)), asking(&long('e', 200))]);
    let line = |text: &str| format!("{{\"prompt\": \"{text}\"}}\n");
    let one = Scratch::new("one.jsonl", line(&long('t', 0)) + &line(&long('e', 5)) + &line(&long('e', 103)));
    let two = Scratch::new("two.jsonl", line(&long('t', 0)).repeat(4));
    let mut counter = Counter::new(&overlap);
    counter.count_file(&one.path(), &Columns::Auto).unwrap();
    counter.count_file(&two.path(), &Columns::Auto).unwrap();
    let report = counter.report();
    assert_eq!((report.rows(), report.overlapping(), report.evaluation_rows_found), (7, 2, 2));
    assert_eq!((report.files[1].rows, report.files[1].overlapping), (4, 0));
    let examples = &report.files[0].examples;
    assert_eq!((examples[1].place.as_str(), examples[1].evaluation_row), ("line 3", 2));
    assert_eq!(examples[0].words, text('e', &(5..18).collect::<Vec<_>>()));
    assert_eq!(
        report.summary(),
        "2 of 7 training rows (28.57 %) overlap with 2 of 3 evaluation rows (13-grams)"
    );
}
