//! Files that can't be used: the error names the file, the place and what to do.

use crate::common::{Scratch, golden, gzipped, rows, rows_of, streamed};
use burnish_data::{Columns, Dataset, Table};
use serde_json::json;

#[track_caller]
fn refused(text: &str, columns: &Columns, expected: &str) {
    let error = rows(text, columns).unwrap_err();
    assert!(error.starts_with("DIR/data.jsonl") && error.contains(expected), "{error}");
}

#[track_caller]
fn unusable(name: &str, content: impl AsRef<[u8]>, expected: &str) {
    let scratch = Scratch::new(name, content);
    for error in [
        rows_of(&scratch.path(), &Columns::Auto).unwrap_err(),
        burnish_data::for_each_row(&scratch.path(), &Columns::Auto, |_, _| ()).unwrap_err(),
    ] {
        let error = scratch.told(&error);
        assert!(error.starts_with(&format!("DIR/{name}")) && error.contains(expected), "{error}");
    }
}

#[test]
fn a_file_that_is_no_data_file_is_named() {
    let missing = std::path::Path::new("/nowhere/x.jsonl");
    assert!(Table::open(missing).unwrap_err().to_string().starts_with("/nowhere/x.jsonl: can't be read: "));
    unusable("x.jsonl", "", "has no rows");
    unusable("x.jsonl", "\n \r\n", "has no rows");
    unusable("x.jsonl.gz", gzipped(b""), "has no rows");
    unusable("x.jsonl.gz", "{}", "is not packed with gzip");
    unusable("x.parquet", "{}", "is not a parquet file");
    unusable("x.parquet", "", "is not a parquet file");
    unusable("x.parquet", std::fs::read(golden("empty.parquet")).unwrap(), "has no rows");
    unusable("x.parquet", gzipped(b"{}"), "is not a parquet file");
    unusable(
        "x.json",
        "[\n{\"prompt\": \"a\"}\n]",
        "x.json, line 1: must be a JSON object; of a file that is one",
    );
    unusable("x.jsonl", "[1]", "jq");
}

#[test]
fn a_cut_gzip_file_is_refused() {
    let packed = gzipped("{\"prompt\": \"some text\"}\n".repeat(5_000).as_bytes());
    unusable("x.jsonl.gz", &packed[..packed.len() / 2], "x.jsonl.gz: can't be ");
}

#[test]
fn a_cut_parquet_file_is_refused_at_every_length() {
    let whole = std::fs::read(golden("datasets_verl.parquet")).unwrap();
    for length in (4..whole.len()).step_by(97).chain([whole.len() - 1]) {
        unusable("x.parquet", &whole[..length], "x.parquet: is not a whole parquet file");
    }
}

#[test]
fn a_damaged_parquet_file_gives_rows_or_an_error() {
    let whole = std::fs::read(golden("zstd_groups.parquet")).unwrap();
    let mut refused = 0;
    for at in 4..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x55;
        let scratch = Scratch::new("x.parquet", damaged);
        if let Err(error) = streamed(&scratch.path()) {
            assert!(scratch.told(&error).starts_with("DIR/x.parquet"), "{error}");
            refused += 1;
        }
    }
    assert!(refused > whole.len() / 3, "{refused} of {}", whole.len());
}

#[test]
fn a_bad_line_is_named_with_its_column() {
    let auto = &Columns::Auto;
    let good = "{\"prompt\": \"a\"}\n";
    refused(
        &format!("{good}\n{{\"prompt\": tru}}"),
        auto,
        "line 3: is not JSON: expected ident at column 15",
    );
    refused(
        &format!("{good}{{\"prompt\": \"a\""),
        auto,
        "line 2: is not JSON: EOF while parsing an object at column 14",
    );
    refused(&format!("{good}7"), auto, "line 2: must be a JSON object");
    unusable(
        "x.jsonl",
        b"{\"prompt\": \"\xff\"}",
        "x.jsonl, line 1: is not UTF-8 text (byte 13 of the line)",
    );
    let packed = gzipped(format!("\n{good}{{").as_bytes());
    unusable("x.jsonl.gz", packed, "x.jsonl.gz, line 3: is not JSON");
}

#[test]
fn a_missing_column_is_named_with_those_that_are_there() {
    refused(
        "{\"query\": \"a\", \"reply\": \"b\"}",
        &Columns::Auto,
        "line 1: has no column that is known to hold a prompt",
    );
    refused(
        "{\"query\": \"a\", \"reply\": \"b\"}",
        &Columns::Auto,
        "the columns are: query, reply. Say which",
    );
    refused(
        "{\"prompt\": \"a\"}\n{\"prompt\": null}",
        &Columns::Auto,
        "line 2: has a null in column `prompt`",
    );
    let columns: Columns = serde_json::from_value(json!({"prompt": "q", "answer": "x.gold"})).unwrap();
    refused(
        "{\"q\": \"a\", \"y\": 1}",
        &columns,
        "has no column `x.gold`; the columns are: q, y (`columns` says",
    );
    refused("{\"chosen\": \"a\"}", &Columns::Auto, "has a column `chosen` but no `rejected`");
}

#[test]
fn columns_that_could_both_be_meant_are_an_error_that_says_what_to_write() {
    let text = "{\"problem\": \"a\", \"solution\": \"b\", \"answer\": \"c\"}";
    refused(text, &Columns::Auto, "several columns that could be the answer: `answer`, `solution`");
    refused(text, &Columns::Auto, "such as `columns = { answer = \"answer\" }`");
    let text = "{\"prompt\": \"a\", \"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}";
    refused(text, &Columns::Auto, "several columns that could be the prompt: `prompt`, `messages`");
}

#[test]
fn a_value_of_the_wrong_type_is_named_with_its_column() {
    let auto = &Columns::Auto;
    refused(
        "{\"prompt\": 3}",
        auto,
        "line 1: column `prompt`: must be a text or a list of messages, not a number",
    );
    refused("{\"prompt\": []}", auto, "line 1: column `prompt` holds an empty prompt");
    refused(
        "{\"prompt\": [\"a\"]}",
        auto,
        "column `prompt`: message 1: must be a table with `role` and `content`",
    );
    refused(
        "{\"prompt\": [{\"role\": \"boss\", \"content\": \"\"}]}",
        auto,
        "message 1: unknown variant `boss`",
    );
    refused("{\"prompt\": [{\"content\": \"\"}]}", auto, "message 1: missing field `role`");
    refused("{\"text\": [1]}", auto, "column `text`: must be a text, not a list");
    refused("{\"prompt\": \"a\", \"completion\": 1}", auto, "column `completion`: must be a text or a list");
    refused(
        "{\"prompt\": \"a\", \"tools\": {}}",
        auto,
        "column `tools`: must be a list of tools, not a table",
    );
    refused("{\"prompt\": \"a\", \"tools\": \"[{\"}", auto, "column `tools`: is not JSON");
    refused(
        "{\"chosen\": \"a b\", \"rejected\": \"a b\"}",
        auto,
        "columns `chosen` and `rejected` say the same",
    );
    let columns: Columns = serde_json::from_value(json!({"prompt": "p", "label": "l"})).unwrap();
    refused(
        "{\"p\": \"a\", \"l\": \"good\"}",
        &columns,
        "column `l`: must be true or false (or 1 or 0), not \"good\"",
    );
}

#[test]
fn rows_of_two_dialects_in_one_file_are_refused_where_they_change() {
    let prompt = "{\"prompt\": \"a\"}\n";
    let auto = &Columns::Auto;
    refused(&format!("{prompt}{prompt}{{\"question\": \"a\"}}"), auto, "line 3: has no column `prompt`");
    refused(
        &format!("{prompt}{{\"prompt\": \"a\", \"answer\": \"b\"}}"),
        auto,
        "line 2: is of another kind than the file's first row: there prompt from \"prompt\" would be read, here \
         prompt from \"prompt\", answer from \"answer\"",
    );
    // If columns are given, only those count.
    let columns: Columns = serde_json::from_value(json!({"prompt": "prompt"})).unwrap();
    assert_eq!(
        rows(&format!("{prompt}{{\"prompt\": \"a\", \"answer\": \"b\"}}"), &columns).unwrap().len(),
        2
    );
    // Each file has its own columns and format.
    let one = Scratch::new("one.jsonl", prompt);
    let two = Scratch::new("two.jsonl", "{\"question\": \"b\"}\n");
    let data = Dataset::open(&[one.path(), two.path()], auto).unwrap();
    assert_eq!((data.len(), &data.row(1).unwrap().prompt[0].content[..]), (2, "b"));
    assert_eq!(data.path(1), Some(&*two.path()));
    let beyond = data.row(2).unwrap_err().to_string();
    assert!(beyond.contains("two.jsonl: 2 rows, so none has the index 2"), "{beyond}");
}

#[test]
fn a_setting_of_columns_that_says_nothing_is_refused() {
    let refused = |columns: serde_json::Value, expected: &str| {
        let error = serde_json::from_value::<Columns>(columns).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    refused(json!("trl"), "expected \"auto\" or a table such as { prompt");
    refused(json!({"promt": "q"}), "unknown field `promt`, expected one of `prompt`");
    refused(json!({"answer": "a"}), "names no column to start from");
    refused(json!({"prompt": "a", "messages": "b"}), "exclude each other");
    refused(json!({"chosen": "a"}), "need each other");
    refused(json!({"prompt": 3}), "invalid type");
    assert!(Columns::parse("question").unwrap_err().contains("has no `=`"));
}
