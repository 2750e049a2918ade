//! Files of fields between commas or tabs.

use crate::common::{Scratch, gzipped, rows_of};
use burnish_core::Message;
use burnish_data::{Columns, Place, Row, Stream, Table, for_each_row};
use proptest::prelude::*;
use serde_json::{Value, json};

fn read(name: &str, content: impl AsRef<[u8]>, columns: &Columns) -> Result<Vec<Row>, String> {
    let scratch = Scratch::new(name, content);
    let read = rows_of(&scratch.path(), columns).map_err(|error| scratch.told(&error));
    // Read as a stream, the rows and the errors are the same.
    let mut streamed = Vec::new();
    let over = for_each_row(&scratch.path(), columns, |_, row| streamed.push(row));
    match &read {
        Ok(read) => assert_eq!((over, &streamed), (Ok(()), read)),
        Err(error) => assert_eq!(&scratch.told(&over.unwrap_err()), error),
    }
    read
}

fn columns(text: &str) -> Columns {
    Columns::parse(text).unwrap()
}

#[test]
fn a_csv_file_has_a_header_and_texts_as_they_are_written() {
    let text =
        "\u{feff}question, answer,note\r\n\"2, \"\"two\"\"\nor 2?\",02.0,\r\n\r\nnaïve?,1e3,\" x \"\r\n";
    for (name, content) in [("sums.csv", text.as_bytes().to_vec()), ("sums.CSV.gz", gzipped(text.as_bytes()))]
    {
        let rows = read(name, content, &Columns::Auto).unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].prompt, [Message::user("2, \"two\"\nor 2?")]);
        assert_eq!((rows[0].answer.as_deref(), &rows[0].extra["note"]), (Some("02.0"), &Value::Null));
        assert_eq!((rows[1].answer.as_deref(), &rows[1].extra["note"]), (Some("1e3"), &json!(" x ")));
    }
}

#[test]
fn a_tsv_file_has_a_header_unless_columns_are_named_by_number() {
    let text = "question\tanswer\n\"a\tb\"\t1\n2, 3?\t5\n";
    let rows = read("sums.tsv", text, &Columns::Auto).unwrap();
    assert_eq!((&rows[0].prompt[0].content[..], rows[0].answer.as_deref()), ("a\tb", Some("1")));
    assert_eq!(rows[1].prompt[0].content, "2, 3?");
    let by_number = read("sums.tsv", "\"a\t1\nb\t2\n", &columns("prompt=1,answer=2")).unwrap();
    assert_eq!((by_number.len(), &by_number[0].prompt[0].content[..]), (2, "\"a"));
    let packed = read("sums.tsv.gz", gzipped(b"\"a\t1\nb\t2\n"), &columns("prompt=1,answer=2")).unwrap();
    assert_eq!(packed, by_number);
}

#[test]
fn what_is_wrong_is_named_by_file_and_line() {
    let refuse = |text: &[u8], expected: &str| {
        let error = read("rows.csv", text, &columns("prompt=q,answer=a")).unwrap_err();
        assert!(error.contains(expected), "{error}");
    };
    refuse(b"", "DIR/rows.csv: has no rows");
    refuse(b"q,a\n", "DIR/rows.csv: has no rows");
    refuse(
        b"q,a\nx,1\n\n\"b\nc\"\n",
        "rows.csv, line 4: has 1 fields, and the header names 2 columns (q, a)",
    );
    refuse(
        b"q,a\n1, 2 and 3,6\n",
        "line 2: has 3 fields, and the header names 2 columns (q, a); a field that holds",
    );
    refuse(b"q,a\nx,1\ny,\"2\nz,3\n", "line 3: has a quote (\") that is not closed");
    refuse(b"q,a\r\nx,1\r\n\xff,2\r\n", "line 3: column `q`: is not UTF-8 text");
    refuse(b"q,q\nx,1\n", "line 1: the header names two columns `q`");
    refuse(b"q;a\nx;1\n", "line 1: the header names one column, `q;a`: fields stand between commas");
    refuse(b"q,b\nx,1\n", "line 2: has no column `a`; the columns are: q, b");
    refuse(b"q,a\n,1\n", "line 2: has a null in column `q`");
    let packed = Scratch::new("rows.csv.gz", "q,a\nx,1\n");
    let error = rows_of(&packed.path(), &Columns::Auto).unwrap_err();
    assert_eq!(packed.told(&error), "DIR/rows.csv.gz: is not packed with gzip, as its name says");
}

#[test]
fn an_index_without_a_name_is_no_hindrance_and_a_last_line_needs_no_end() {
    let rows = read("rows.csv", ",question,answer\n0,a,1\n1,b,2", &Columns::Auto).unwrap();
    assert_eq!((rows.len(), &rows[1].extra["1"]), (2, &json!("1")));
    assert_eq!(rows[1].answer.as_deref(), Some("2"));
}

#[test]
fn a_yes_or_no_in_words_is_one() {
    let rows = read("rows.csv", "prompt,completion,label\na,b,True\nc,d,false\n", &Columns::Auto).unwrap();
    assert_eq!([rows[0].label, rows[1].label], [Some(true), Some(false)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Files written according to RFC 4180, with any content: each row is found at its line.
    #[test]
    fn fields_of_any_text_come_back_and_rows_stand_in_their_lines(
        rows in prop::collection::vec(("[a-c,\"\n\r é]{0,8}", "[^\u{1}\r]{0,6}", "\n{0,2}"), 1..30),
        is_packed: bool,
        ends_with_line: bool,
    ) {
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let mut text = String::from("one,two\n");
        let mut lines = Vec::new();
        for (one, two, blank) in &rows {
            text.push_str(blank);
            lines.push(1 + text.matches('\n').count() as u64);
            text.push_str(&format!("{},{}\n", quoted(one), quoted(two)));
        }
        if !ends_with_line {
            text.pop();
        }
        let scratch = match is_packed {
            true => Scratch::new("rows.csv.gz", gzipped(text.as_bytes())),
            false => Scratch::new("rows.csv", &text),
        };
        let value = |text: &String| if text.is_empty() { Value::Null } else { json!(text) };
        let table = Table::open(&scratch.path()).unwrap();
        prop_assert_eq!(table.len(), rows.len());
        let mut stream = Stream::open(&scratch.path()).unwrap();
        for (at, (one, two, _)) in rows.iter().enumerate() {
            let row = table.get(at).unwrap();
            prop_assert_eq!((&row["one"], &row["two"]), (&value(one), &value(two)));
            prop_assert_eq!(table.place(at).unwrap(), Place::Line(lines[at]));
            let record = stream.next().unwrap().unwrap();
            prop_assert_eq!((record.place, record.columns), (Place::Line(lines[at]), row));
        }
        prop_assert!(stream.next().is_none() && table.get(rows.len()).is_err());
    }
}
