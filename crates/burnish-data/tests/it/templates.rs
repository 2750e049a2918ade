//! Prompts made from several columns, and columns that must not be left out silently.

use crate::common::rows;
use burnish_core::Message;
use burnish_data::{Columns, Row};
use serde_json::{Value, json};

fn read(all: &[Value], columns: &Value) -> Result<Vec<Row>, String> {
    let columns: Columns = serde_json::from_value(columns.clone()).map_err(|error| error.to_string())?;
    let text: String = all.iter().map(|row| row.to_string() + "\n").collect();
    rows(&text, &columns)
}

#[test]
fn a_prompt_is_made_of_several_columns_with_a_system_message_and_an_answer() {
    let columns = json!({
        "prompt_template": "Question: {{question}}\nContext:{% for part in context %} {{part}}{% endfor %}\n",
        "system_template": "Level {{extra.level}}, {{strict}}, {{extra}}",
        "completion_template": "{{steps}} #### {{answer}}",
        "answer": "answer",
    });
    let row = json!({
        "question": "{{answer}} <b>&?", "context": ["x", "y"], "extra": {"level": 2.5}, "strict": true, "steps": "s",
        "answer": 18, "left": 1,
    });
    let read = read(&[row], &columns).unwrap().remove(0);
    let system = Message::system("Level 2.5, true, {\"level\":2.5}");
    assert_eq!(read.prompt, [system, Message::user("Question: {{answer}} <b>&?\nContext: x y\n")]);
    assert_eq!(read.completion, Some(vec![Message::assistant("s #### 18")]));
    assert_eq!(read.answer.as_deref(), Some("18"));
    assert_eq!(read.extra.keys().collect::<Vec<_>>(), ["left"], "what a template reads is read");
    let columns: Columns = serde_json::from_value(columns).unwrap();
    assert_eq!(serde_json::from_value::<Columns>(serde_json::to_value(&columns).unwrap()).unwrap(), columns);
    assert_eq!(Columns::parse(&serde_json::to_string(&columns).unwrap()).unwrap(), columns);
}

#[test]
fn a_part_may_be_left_out_where_it_has_no_value() {
    let columns = json!({"prompt_template": "{{q}}{% if hint %} ({{hint}}){% endif %}"});
    let all = [json!({"q": "a", "hint": "b"}), json!({"q": "a", "hint": null}), json!({"q": "a"})];
    let read = read(&all, &columns).unwrap();
    let texts: Vec<&str> = read.iter().map(|row| row.prompt[0].content.as_str()).collect();
    assert_eq!(texts, ["a (b)", "a", "a"]);
}

#[test]
fn a_column_that_is_not_there_is_named_with_its_place_and_the_nearest() {
    let refuse = |all: &[Value], columns: Value, expected: &str| {
        let error = read(all, &columns).unwrap_err();
        assert!(error.contains(expected), "{error}");
    };
    let row = json!({"question": "a", "context": "b", "answer": 1});
    let misspelt = json!({"prompt_template": "{{question}} {{contxt}}"});
    let expected = "line 1: has no column `contxt`; the columns are: question, context, answer; did you mean `context`? \
                    (`columns.prompt_template` reads it)";
    refuse(std::slice::from_ref(&row), misspelt, expected);
    let hidden = json!({"prompt_template": "{{question}}{% if contxt %}{{contxt}}{% endif %}"});
    refuse(std::slice::from_ref(&row), hidden, "did you mean `context`?");
    let plain = json!({"prompt_template": "{{question}} {{context}}"});
    let null = json!({"question": "a", "context": null});
    refuse(
        &[row.clone(), null],
        plain.clone(),
        "line 2: `columns.prompt_template`: the value to be written is null",
    );
    refuse(&[row.clone(), json!({"question": "a"})], plain, "line 2: `columns.prompt_template`: ");
    let empty = json!({"prompt_template": "{% if question == 'b' %}{{question}}{% endif %}"});
    refuse(
        std::slice::from_ref(&row),
        empty,
        "line 1: `columns.prompt_template` makes an empty prompt of it",
    );
    let twice = json!({"prompt": "chat", "system_template": "{{question}}"});
    let chat = json!({"question": "a", "chat": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]});
    refuse(
        &[chat],
        twice,
        "line 1: begins with a system message, and `columns.system_template` gives another",
    );
}

#[test]
fn a_template_that_is_none_is_refused_before_any_row() {
    let refuse = |columns: Value, expected: &str| {
        let error = serde_json::from_value::<Columns>(columns).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    refuse(json!({"prompt_template": "a\n{{question"}), "line 2 of the template");
    refuse(json!({"prompt_template": "Question"}), "reads no column: name them between double braces");
    refuse(
        json!({"prompt_template": "{{a}}", "prompt": "b"}),
        "`prompt` and `prompt_template` exclude each other",
    );
    refuse(json!({"completion_template": "{{a}}"}), "names no column to start from");
}

#[test]
fn a_column_that_was_meant_for_the_policy_is_not_left_out_without_a_word() {
    let auto = |row: Value| rows(&row.to_string(), &Columns::Auto);
    for (column, value, expected) in [
        ("images", json!(["a.png"]), "images can't be read"),
        ("chat_template_kwargs", json!({"enable_thinking": false}), "variables of the chat template"),
        ("system_prompt", json!("Be brief."), "system_template = \"{{system_prompt}}\""),
        ("instruction", json!("Add."), "prompt_template = \"{{instruction}}"),
    ] {
        let error = auto(json!({"input": "1+1?", "answer": "2", column: value})).unwrap_err();
        assert!(error.contains(&format!("has a column `{column}` that holds ")), "{error}");
        assert!(error.contains(expected), "{error}");
        let named = Columns::parse("prompt=input,answer=answer").unwrap();
        assert!(rows(&json!({"input": "1+1?", "answer": "2", column: value}).to_string(), &named).is_ok());
    }
    let nothing = json!({"prompt": "a", "images": [], "system": " ", "chat_template_kwargs": {"a": null}});
    assert!(auto(nothing).is_ok());
}
