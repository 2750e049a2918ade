//! Published files, where they are at hand.

use burnish_data::overlap::{Counter, NGRAM, Overlap};
use burnish_data::{Columns, Dataset, for_each_row};
use std::path::{Path, PathBuf};

fn shared(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(name);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: there is no {}", path.display());
    None
}

#[test]
fn gsm8k_is_read_and_its_training_rows_do_not_hold_the_test_rows() {
    let (Some(train), Some(test)) = (shared("gsm8k/train.jsonl.gz"), shared("gsm8k/test.jsonl")) else {
        return;
    };
    let columns = Columns::parse("prompt=question,completion=answer").unwrap();
    let data = Dataset::open(std::slice::from_ref(&train), &columns).unwrap();
    // The number that gsm8k's authors give.
    assert_eq!(data.len(), 7473);
    assert!(data.row(7472).unwrap().completion.unwrap()[0].content.contains("####"));
    let mut overlap = Overlap::new(NGRAM);
    for_each_row(&test, &columns, |_, row| overlap.add(&row)).unwrap();
    assert_eq!(overlap.rows(), 1319);
    let mut counter = Counter::new(&overlap);
    counter.count_file(&train, &columns).unwrap();
    let report = counter.report();
    assert_eq!(report.rows(), 7473);
    // Nearly none; a test file against itself is found whole.
    assert!(report.overlapping() < 75, "{}", report.summary());
    let mut counter = Counter::new(&overlap);
    counter.count_file(&test, &columns).unwrap();
    assert_eq!(counter.report().overlapping(), 1319);
}
