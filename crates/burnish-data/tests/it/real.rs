//! Published files, if they are present.

use crate::common::golden;
use burnish_data::overlap::{Counter, Overlap};
use burnish_data::{Columns, Dataset, for_each_row};
use std::collections::BTreeMap;
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
fn gsm8k_is_read_and_its_overlap_is_what_an_independent_count_finds() {
    let (Some(train), Some(test)) = (shared("gsm8k/train.jsonl.gz"), shared("gsm8k/test.jsonl")) else {
        return;
    };
    let columns = Columns::parse("prompt=question,completion=answer").unwrap();
    let data = Dataset::open(std::slice::from_ref(&train), &columns).unwrap();
    // The number given by gsm8k's authors.
    assert_eq!(data.len(), 7473);
    assert!(data.row(7472).unwrap().completion.unwrap()[0].content.contains("####"));
    let golden = std::fs::read_to_string(golden("gsm8k_overlap.json")).unwrap();
    let golden: BTreeMap<usize, usize> = serde_json::from_str(&golden).unwrap();
    assert_eq!(golden.len(), 2);
    for (ngram, expected) in golden {
        let mut overlap = Overlap::new(ngram);
        for_each_row(&test, &columns, |_, row| overlap.add(&row)).unwrap();
        assert_eq!(overlap.rows(), 1319);
        let found = |file: &Path| {
            let mut counter = Counter::new(&overlap);
            counter.count_file(file, &columns).unwrap();
            counter.report()
        };
        assert_eq!((found(&train).rows(), found(&train).overlapping()), (7473, expected), "{ngram}-grams");
        assert_eq!(found(&test).overlapping(), 1319);
    }
}
