//! A table gives the rows in order, whatever the file looks like.

use crate::common::{Scratch, by_number, gzipped, streamed};
use burnish_data::{Place, Stream, Table};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Variants of a line: what comes before it, and how it ends.
fn dressed() -> impl Strategy<Value = (&'static str, &'static str)> {
    let before = prop_oneof![Just(""), Just("  "), Just("\n"), Just("\r\n \t\n\n")];
    let end = prop_oneof![Just("\n"), Just("\r\n"), Just(" \n")];
    (before, end)
}

fn object() -> impl Strategy<Value = Map<String, Value>> {
    let text = prop_oneof![".{0,12}", "[a-z\\\\\"\n\r]{0,8}", Just("é\u{2028}\u{feff}".to_owned())];
    (text, any::<i64>(), 0usize..300).prop_map(|(text, number, length)| {
        let row = json!({"text": text, "number": number, "long": "x".repeat(length)});
        row.as_object().unwrap().clone()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn reading_by_number_equals_reading_in_order(
        rows in prop::collection::vec((object(), dressed()), 0..40),
        has_bom: bool,
        is_cut: bool,
        is_packed: bool,
    ) {
        let mut text = String::from(if has_bom { "\u{feff}" } else { "" });
        let mut lines = Vec::new();
        for (row, (before, end)) in &rows {
            text.push_str(before);
            lines.push(1 + text.matches('\n').count() as u64);
            text.push_str(&serde_json::to_string(row).unwrap());
            text.push_str(end);
        }
        if is_cut {
            text.truncate(text.trim_end().len());
        }
        let scratch = if is_packed {
            Scratch::new("rows.jsonl.gz", gzipped(text.as_bytes()))
        } else {
            Scratch::new("rows.jsonl", &text)
        };
        let expected: Vec<_> = rows.into_iter().map(|(row, _)| row).collect();
        prop_assert_eq!(&streamed(&scratch.path()).unwrap(), &expected);
        prop_assert_eq!(&by_number(&scratch.path()).unwrap(), &expected);
        let table = Table::open(&scratch.path()).unwrap();
        for index in (0..expected.len()).rev() {
            prop_assert_eq!(&table.get(index).unwrap(), &expected[index]);
            prop_assert_eq!(table.place(index).unwrap(), Place::Line(lines[index]));
        }
        prop_assert!(table.get(expected.len()).is_err());
    }
}

#[test]
fn a_gzip_file_in_several_parts_is_read_whole() {
    let parts = [gzipped(b"{\"n\": 1}\n{\"n\""), gzipped(b": 2}\n")].concat();
    let scratch = Scratch::new("rows.jsonl.gz", parts);
    let rows = by_number(&scratch.path()).unwrap();
    assert_eq!((rows.len(), &rows[1]["n"]), (2, &json!(2)));
}

#[test]
fn the_content_decides_where_the_name_says_nothing() {
    let scratch = Scratch::new("rows", gzipped(b"{\"n\": 1}\n"));
    assert_eq!(by_number(&scratch.path()).unwrap()[0]["n"], 1);
}

#[test]
fn a_tsv_file_has_columns_by_number_without_quoting_and_without_a_header() {
    let scratch = Scratch::new("sums.tsv", "\u{feff}{\"a\"} \"b\t2,125\r\n\n  c\td\te\n");
    let rows = [json!({"1": "{\"a\"} \"b", "2": "2,125"}), json!({"1": "  c", "2": "d", "3": "e"})];
    let table = Table::open(&scratch.path()).unwrap();
    assert_eq!(table.len(), 2);
    assert_eq!(Value::Object(table.get(0).unwrap()), rows[0]);
    assert_eq!(Value::Object(table.get(1).unwrap()), rows[1]);
    assert_eq!(table.place(1).unwrap(), Place::Line(3));
    let streamed: Vec<Value> =
        Stream::open(&scratch.path()).unwrap().map(|record| Value::Object(record.unwrap().columns)).collect();
    assert_eq!(streamed, rows);
    let wrong = Scratch::new("sums.tsv", b"a\tb\n\xff\tc\n");
    let error = Table::open(&wrong.path()).unwrap().get(1).unwrap_err();
    assert_eq!(wrong.told(&error), "DIR/sums.tsv, line 2: is not UTF-8 text (byte 1 of the line)");
}
