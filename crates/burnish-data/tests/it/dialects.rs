//! The columns of TRL, verl, OpenRLHF, slime and verifiers, and columns by name.

use crate::common::{golden, rows};
use burnish_core::Message;
use burnish_data::{Columns, Row};
use serde_json::{Value, json};

fn auto(row: Value) -> Result<Row, String> {
    rows(&row.to_string(), &Columns::Auto).map(|mut rows| rows.remove(0))
}

fn named(row: Value, columns: Value) -> Result<Row, String> {
    let columns: Columns = serde_json::from_value(columns).map_err(|error| error.to_string())?;
    rows(&row.to_string(), &columns).map(|mut rows| rows.remove(0))
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn assistant(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

/// The types of TRL's documentation ("Dataset formats and types"), with its example.
#[test]
fn every_type_of_trl_is_known_as_text_and_as_messages() {
    let sky = vec![Message::user("What color is the sky?")];
    let blue = Some(vec![Message::assistant("It is blue.")]);
    let green = Some(vec![Message::assistant("It is green.")]);
    let (q, a, b) = (user("What color is the sky?"), assistant("It is blue."), assistant("It is green."));

    // Language modelling.
    let row = auto(json!({"text": "The sky is blue."})).unwrap();
    assert_eq!((row.text.as_deref(), row.prompt.len()), (Some("The sky is blue."), 0));
    let row = auto(json!({"messages": [q, a]})).unwrap();
    assert_eq!((&row.prompt, &row.completion, row.is_conversation), (&sky, &blue, true));
    assert_eq!(row.demonstration().unwrap().1, 0);
    // Prompt only.
    let row = auto(json!({"prompt": "What color is the sky?"})).unwrap();
    assert_eq!((&row.prompt, &row.completion), (&sky, &None));
    assert_eq!(auto(json!({"prompt": [q]})).unwrap(), row);
    // Prompt and completion.
    let row = auto(json!({"prompt": "What color is the sky?", "completion": "It is blue."})).unwrap();
    assert_eq!((&row.prompt, &row.completion, row.is_conversation), (&sky, &blue, false));
    assert_eq!(auto(json!({"prompt": [q], "completion": [a]})).unwrap(), row);
    let later = auto(json!({"prompt": [q, b, user("No.")], "completion": [a]})).unwrap();
    let (conversation, first) = later.demonstration().unwrap();
    assert_eq!((conversation.len(), first), (4, 3));
    // Preference.
    let row = auto(
        json!({"prompt": "What color is the sky?", "chosen": "It is blue.", "rejected": "It is green."}),
    )
    .unwrap();
    assert_eq!((&row.prompt, &row.chosen, &row.rejected), (&sky, &blue, &green));
    assert_eq!(auto(json!({"prompt": [q], "chosen": [a], "rejected": [b]})).unwrap(), row);
    assert_eq!(auto(json!({"chosen": [q, a], "rejected": [q, b]})).unwrap(), row);
    assert_eq!(
        auto(json!({"prompt": "What color is the sky?", "chosen": [q, a], "rejected": [q, b]})),
        Ok(row)
    );
    // Unpaired preference.
    let row = json!({"prompt": "What color is the sky?", "completion": "It is blue.", "label": true});
    let row = auto(row).unwrap();
    assert_eq!((&row.prompt, &row.completion, row.label), (&sky, &blue, Some(true)));
    let row = auto(json!({"prompt": [q], "completion": [b], "label": 0})).unwrap();
    assert_eq!((&row.completion, row.label, &row.answer), (&green, Some(false), &None));
}

#[test]
fn implicit_prompts_are_split_as_trl_does() {
    let golden = std::fs::read_to_string(golden("trl_prompts.json")).unwrap();
    let cases: Vec<Value> = serde_json::from_str(&golden).unwrap();
    assert!(cases.len() >= 7);
    for case in cases {
        let row = auto(case["row"].clone()).unwrap();
        let expected = |part: &str, message: fn(&str) -> Message| -> Vec<Message> {
            match &case["split"][part] {
                Value::String(text) => vec![message(text)],
                list => serde_json::from_value(list.clone()).unwrap(),
            }
        };
        assert_eq!(row.prompt, expected("prompt", |text| Message::user(text)), "{case}");
        assert_eq!(row.chosen.unwrap(), expected("chosen", |text| Message::assistant(text)), "{case}");
        assert_eq!(row.rejected.unwrap(), expected("rejected", |text| Message::assistant(text)), "{case}");
    }
}

#[test]
fn rows_of_other_frameworks_are_known_by_their_names() {
    let openrlhf = auto(json!({"input": "1+1?", "answer": "2"})).unwrap();
    assert_eq!((&openrlhf.prompt[0].content[..], openrlhf.answer.as_deref()), ("1+1?", Some("2")));
    let slime = auto(json!({"prompt": [user("1+1?")], "label": "2", "metadata": {"k": 1}})).unwrap();
    assert_eq!((slime.answer.as_deref(), slime.label), (Some("2"), None));
    assert_eq!(slime.extra["metadata"], json!({"k": 1}));
    let verifiers = auto(json!({"question": "q", "answer": 2, "info": {"k": 1}, "task": "gsm8k"})).unwrap();
    assert_eq!((verifiers.answer.as_deref(), verifiers.source.as_deref()), (Some("2"), Some("gsm8k")));
    assert_eq!(verifiers.extra.keys().collect::<Vec<_>>(), ["info"]);
    let verl = json!({
        "data_source": "openai/gsm8k", "prompt": [user("1+1?")], "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": {"target": ["2", "two"]}}, "extra_info": {"index": 0},
    });
    let verl = auto(verl).unwrap();
    assert_eq!(verl.answer.as_deref(), Some(r#"{"target":["2","two"]}"#));
    assert_eq!(verl.extra.keys().collect::<Vec<_>>(), ["ability", "reward_model", "extra_info"]);
    let tools =
        json!([{"type": "function", "function": {"name": "add", "description": "adds", "parameters": {}}}]);
    for tools in [tools.clone(), Value::String(tools.to_string()), json!([tools[0]["function"]])] {
        let row = auto(json!({"messages": [user("q"), assistant("a")], "tools": tools})).unwrap();
        assert_eq!(row.tools[0].name, "add");
    }
}

#[test]
fn the_rows_of_the_documentation_are_read_as_it_says() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/data.md");
    let text = std::fs::read_to_string(path).unwrap();
    let block = text.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let read: Vec<Row> =
        block.lines().map(|line| auto(serde_json::from_str(line).unwrap()).unwrap()).collect();
    assert_eq!(read.len(), 7);
    for row in &read {
        assert_eq!(row.prompt, [Message::user("1+1?")]);
    }
    let has: Vec<_> = read
        .iter()
        .map(|row| (row.completion.is_some(), row.chosen.is_some(), row.label, row.answer.as_deref()))
        .collect();
    let gold = (false, false, None, Some("2"));
    let answered = (true, false, None, None);
    let preferred = (false, true, None, None);
    assert_eq!(has, [answered, answered, preferred, (true, false, Some(false), None), gold, gold, gold]);
}

#[test]
fn named_columns_are_read_and_no_others() {
    let row = json!({"question": "q", "answer": "long", "extra_info": {"gold": 3}, "prompt": "other"});
    let columns = json!({"prompt": "question", "completion": "answer", "answer": "extra_info.gold"});
    let row = named(row, columns).unwrap();
    assert_eq!(row.prompt, [Message::user("q")]);
    assert_eq!(row.completion, Some(vec![Message::assistant("long")]));
    assert_eq!(row.answer.as_deref(), Some("3"));
    assert_eq!(row.extra.keys().collect::<Vec<_>>(), ["extra_info", "prompt"]);
    let parsed = Columns::parse("prompt=question,completion=answer,answer=extra_info.gold").unwrap();
    assert!(matches!(&parsed, Columns::Named(names) if names.answer.as_deref() == Some("extra_info.gold")));
    assert_eq!(serde_json::from_value::<Columns>(serde_json::to_value(&parsed).unwrap()).unwrap(), parsed);
    assert_eq!(serde_json::to_value(Columns::Auto).unwrap(), "auto");
}

#[test]
fn message_content_in_parts_is_kept_in_parts_and_nulls_are_absent() {
    let parts = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
    let message = json!({"role": "user", "content": parts, "name": null, "tool_calls": null});
    assert_eq!(
        auto(json!({"prompt": [message]})).unwrap().prompt,
        [Message::user("").in_parts(vec!["a".into(), "b".into()])]
    );
    let image = json!({"role": "user", "content": [{"type": "image"}]});
    let error = auto(json!({"prompt": [image]})).unwrap_err();
    assert!(
        error.contains("column `prompt`: message 1: its content has a part of type \"image\""),
        "{error}"
    );
}

#[test]
fn a_developer_speaks_as_the_system_does() {
    let row = auto(json!({"prompt": [{"role": "developer", "content": "Be brief."}, user("Why?")]})).unwrap();
    assert_eq!(row.prompt, [Message::system("Be brief."), Message::user("Why?")]);
}

/// OpenAI's own format has the arguments of calls as a text.
#[test]
fn arguments_are_read_alike_in_every_form() {
    let row = |function: serde_json::Value| {
        let call = json!({"id": "x", "type": "function", "function": function});
        auto(
            json!({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [call]}]}),
        )
    };
    let read =
        |function| row(function).unwrap().completion.unwrap()[0].tool_calls[0].function.arguments.clone();
    let arguments = json!({"city": "Bern", "at": null, "days": 3});
    let text = r#"{"city": "Bern", "at": null, "days": 3}"#;
    for written in [arguments.clone(), json!(text)] {
        let read = read(json!({"name": "f", "arguments": written}));
        assert_eq!(read, arguments);
        assert_eq!(read.to_string(), r#"{"city":"Bern","at":null,"days":3}"#, "the order of keys");
    }
    for none in [json!(""), json!(null), json!({})] {
        assert_eq!(read(json!({"name": "f", "arguments": none})), json!({}));
    }
    assert_eq!(read(json!({"name": "f"})), json!({}));
    for wrong in [json!("Bern"), json!("[3]"), json!([3]), json!(3)] {
        let error = row(json!({"name": "f", "arguments": wrong})).unwrap_err();
        let place = "column `messages`: message 2: `tool_calls[0].function.arguments` must be a JSON object";
        assert!(error.contains(place), "{error}");
    }
}

/// The arguments of tool calls and the tools' schemas are read by the policy, so nulls, long numbers and the order of
/// keys stay.
#[test]
fn what_tools_are_called_with_stays_as_it_is() {
    let arguments = r#"{"z":null,"a":[null,{"b":null}],"n":123456789012345678901234567890,"f":1.0,"m":-0.0}"#;
    let parameters =
        r#"{"type":"object","properties":{"a":{"default":null,"maximum":36893488147419103232}}}"#;
    let line = format!(
        r#"{{"messages":[{{"role":"user","content":"a","name":null}},{{"role":"assistant","content":null,"tool_calls":[{{"id":null,"type":"function","function":{{"name":"f","arguments":{arguments}}}}}]}}],"tools":[{{"type":"function","function":{{"name":"f","description":"d","parameters":{parameters},"strict":true,"return":null}}}}],"answer":123456789012345678901234567890,"more":123456789012345678901234567890}}"#
    );
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows.jsonl");
    std::fs::write(&path, line + "\n").unwrap();
    let data = burnish_data::Dataset::open(&[path], &Columns::Auto).unwrap();
    let row = data.row(0).unwrap();
    let completion = row.completion.unwrap();
    let call = &completion[0].tool_calls[0];
    assert_eq!(burnish_core::json::text(&call.function.arguments).unwrap(), arguments);
    assert_eq!(burnish_core::json::text(&row.tools[0].parameters).unwrap(), parameters);
    assert_eq!(serde_json::to_value(&row.tools[0].more).unwrap(), json!({"strict": true}));
    assert_eq!((call.id.as_ref(), completion[0].content.as_str()), (None, ""));
    assert_eq!(row.answer.as_deref(), Some("123456789012345678901234567890"));
    assert_eq!(row.extra["more"], serde_json::json!(1.234_567_890_123_456_8e29), "a number as ever");
}
