//! Any call, with any arguments, is read back from what a template writes.

use burnish_core::{Message, ToolCall, ToolSpec};
use burnish_model::{CallFormat, ChatTemplate};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{call, functions, templates, tool};

/// Texts, including fragments of markup.
fn text() -> impl Strategy<Value = String> {
    let tags = prop::sample::select(vec![
        "</tool_call>",
        "<tool_call>",
        "{",
        "}",
        "[",
        "]",
        "\"",
        "\\",
        "<think>",
        "</think>",
        "[TOOL_CALLS]",
        "```",
        "<｜tool▁call▁end｜>",
        "<|call|>",
        "<|end|>",
        "</function>",
        "<|im_end|>",
        "\n",
        "True",
        "null",
        "5",
        " ",
    ]);
    let piece = prop_oneof![tags.prop_map(str::to_owned), "\\PC{0,6}"];
    prop::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat())
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter_map("a number", |number| serde_json::Number::from_f64(number).map(Value::from)),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((text(), inner), 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

pub(crate) fn calls() -> impl Strategy<Value = Vec<ToolCall>> {
    let arguments = prop::collection::vec(("[a-zA-Z_][a-zA-Z0-9_.-]{0,8}", value()), 0..4);
    let one = ("[a-zA-Z][a-zA-Z0-9_.-]{0,12}", arguments).prop_map(|(name, arguments)| {
        let arguments: Map<String, Value> = arguments.into_iter().collect();
        ToolCall { id: Some("abcdef123".into()), ..call(&name, arguments.into()) }
    });
    prop::collection::vec(one, 1..4)
}

/// The tools that are called, with the types of their arguments.
fn tools(calls: &[ToolCall]) -> Vec<ToolSpec> {
    let kind = |value: &Value| match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    calls
        .iter()
        .map(|call| {
            let arguments = call.function.arguments.as_object().unwrap();
            let types = arguments.iter().map(|(key, value)| (key.clone(), json!({ "type": kind(value) })));
            tool(&call.function.name, Value::Object(types.collect()))
        })
        .collect()
}

/// Whether a call can't be told from markup in a format that writes texts without quotes.
fn is_ambiguous(call: &ToolCall) -> bool {
    let markup = ["</parameter>", "<parameter=", "</arg_value>", "<arg_key>"];
    let text = call.function.arguments.to_string();
    markup.iter().any(|tag| text.contains(tag))
        || ["<tool_call>", "</tool_call>"].iter().all(|tag| text.contains(tag))
}

fn read_back(template: &ChatTemplate, calls: &[ToolCall]) -> Result<(), TestCaseError> {
    let tools = tools(calls);
    let asks = Message { tool_calls: calls.to_vec(), ..Message::assistant("") };
    let question = Message::user("x");
    let prompt = template.render(std::slice::from_ref(&question), &tools, true).unwrap();
    let whole = template.render(&[question, asks], &tools, false).unwrap();
    let text = whole.strip_prefix(&prompt).unwrap();
    let answer = template.call_format().unwrap().read(text, false, &tools);
    prop_assert!(answer.malformed.is_empty(), "{:?}: {text}", answer.malformed);
    prop_assert_eq!(functions(&answer.calls), functions(calls), "{}", text);
    Ok(())
}

proptest! {
    #[test]
    fn calls_are_read_back_from_every_format(calls in calls()) {
        use templates::{DEEPSEEK_V3, HERMES, KEYS, LIST, FUNCTION, HARMONY, LLAMA, MISTRAL, chatml, template};
        for format in [HERMES, DEEPSEEK_V3, LIST] {
            read_back(&template(&chatml(format)), &calls)?;
        }
        read_back(&template(MISTRAL), &calls)?;
        for one in calls.chunks(1) {
            read_back(&template(&chatml(HARMONY)), one)?;
            read_back(&template(LLAMA), one)?;
        }
        let mut names = std::collections::HashSet::new();
        let is_unique = calls.iter().all(|call| names.insert(&call.function.name));
        if is_unique && !calls.iter().any(is_ambiguous) {
            for format in [FUNCTION, KEYS] {
                read_back(&template(&chatml(format)), &calls)?;
            }
        }
    }

    #[test]
    fn nothing_that_is_written_breaks_a_reader(text in text(), more in calls(), cut in 0usize..200, in_thoughts: bool) {
        use templates::{DEEPSEEK_V3, HERMES, KEYS, LIST, FUNCTION, HARMONY, LLAMA, chatml, template};
        let tools = tools(&more);
        let asks = Message { tool_calls: more[..1].to_vec(), ..Message::assistant(text) };
        for source in [HERMES, DEEPSEEK_V3, LIST, FUNCTION, KEYS, HARMONY].map(chatml).iter().chain([&LLAMA.to_owned()]) {
            let mut written = template(source).render(std::slice::from_ref(&asks), &tools, false).unwrap();
            let at = written.char_indices().map(|(at, _)| at).nth(cut).unwrap_or(written.len());
            written.truncate(at);
            for format in ["hermes", "qwen3_coder", "glm", "mistral", "deepseek", "harmony", "granite", "llama_json"] {
                let answer = CallFormat::named(format).unwrap().read(&written, in_thoughts, &tools);
                prop_assert!(answer.calls.iter().all(|call| call.function.arguments.is_object()));
                if answer.calls.is_empty() && format != "harmony" {
                    prop_assert_eq!(answer.content, written.as_str());
                }
            }
        }
    }
}
