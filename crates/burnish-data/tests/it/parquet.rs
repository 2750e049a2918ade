//! Files that pyarrow, pandas and `datasets` wrote (tests/golden/make_parquet.py) against what pyarrow reads.

use crate::common::{by_number, golden, rows_of, streamed};
use burnish_core::{Message, Role};
use burnish_data::Columns;
use serde_json::json;

const FILES: [&str; 10] = [
    "datasets_messages",
    "datasets_verl",
    "datasets_preference",
    "pandas_snappy",
    "none_groups",
    "zstd_groups",
    "gzip_plain",
    "types",
    "types_old_lists",
    "empty",
];

#[test]
fn every_value_is_what_pyarrow_reads() {
    for name in FILES {
        let expected = std::fs::read_to_string(golden(&format!("{name}.jsonl"))).unwrap();
        let expected: Vec<serde_json::Map<_, _>> =
            expected.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let path = golden(&format!("{name}.parquet"));
        let rows = streamed(&path).unwrap();
        assert_eq!(rows.len(), expected.len(), "{name}");
        for (at, (row, expected)) in rows.iter().zip(&expected).enumerate() {
            assert!(row.keys().eq(expected.keys()), "{name}, row {at}: the columns differ");
            for (column, value) in expected {
                assert_eq!(&row[column], value, "{name}, row {at}, {column}");
            }
        }
        assert_eq!(by_number(&path).unwrap(), rows, "{name}");
    }
}

#[test]
fn messages_of_datasets_are_conversations() {
    // The last row's list of messages is empty; the error names that row.
    let error = rows_of(&golden("datasets_messages.parquet"), &Columns::Auto).unwrap_err();
    assert!(error.to_string().ends_with("row 9: column `messages` holds an empty prompt"), "{error}");

    let data = burnish_data::Dataset::open(&[golden("datasets_messages.parquet")], &Columns::Auto).unwrap();
    let row = data.row(1).unwrap();
    assert_eq!(row.prompt, [Message::system("Be brief."), Message::user("What is 1 + 1?")]);
    assert_eq!(row.completion, Some(vec![Message::assistant("2")]));
    assert_eq!(row.extra["source"], json!(null));
    let called = data.row(7).unwrap();
    assert_eq!(called.prompt[1].tool_calls[0].function.name, "weather");
    assert_eq!(called.prompt[1].tool_calls[0].function.arguments, json!({"city": "Köln"}));
    assert_eq!((called.prompt[2].role, called.prompt[2].name.as_deref()), (Role::Tool, Some("weather")));
}

#[test]
fn rows_of_verl_bring_their_ground_truth_and_source() {
    let rows = rows_of(&golden("datasets_verl.parquet"), &Columns::Auto).unwrap();
    assert_eq!(rows.len(), 5);
    assert_eq!(rows[3].prompt, [Message::user("How much is 3 and 3?")]);
    assert_eq!(rows[3].answer.as_deref(), Some("6"));
    assert_eq!(rows[3].source.as_deref(), Some("openai/gsm8k"));
    assert_eq!(rows[3].extra["extra_info"]["index"], 3);
    assert_eq!(rows[3].completion, None);
}

#[test]
fn a_preference_with_an_implicit_prompt_is_split() {
    let rows = rows_of(&golden("datasets_preference.parquet"), &Columns::Auto).unwrap();
    assert_eq!(rows[1].prompt, [Message::system("Be brief."), Message::user("What is 1 + 1?")]);
    assert_eq!(rows[1].chosen, Some(vec![Message::assistant("2")]));
    assert_eq!(rows[1].rejected, Some(vec![Message::assistant("no")]));
}

#[test]
fn a_null_answer_is_no_answer() {
    let rows = rows_of(&golden("zstd_groups.parquet"), &Columns::Auto).unwrap();
    assert_eq!(rows.iter().filter(|row| row.answer.is_none()).count(), 4);
    assert_eq!(rows[4].answer.as_deref(), Some("answer 0"));
}
