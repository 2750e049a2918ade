//! Answers as policies write them, which is not always as templates do.

use burnish_model::{Answer, CallFormat};
use serde_json::json;

use super::{call, tool};

fn read_in(format: &str, text: &str, in_thoughts: bool) -> Answer {
    let tools = [
        tool(
            "weather",
            json!({ "city": { "type": "string" }, "days": { "type": "integer" }, "safe": { "type": "boolean" },
                    "more": { "type": ["array", "object", "null"] }, "any": {},
                    "either": { "anyOf": [{ "type": "string" }, { "$ref": "#/$defs/limit" }] } }),
        ),
        tool("stop", json!({})),
    ];
    let mut tools = tools.to_vec();
    tools[0].parameters["$defs"] = json!({ "limit": { "type": "integer" } });
    CallFormat::named(format).unwrap().read(text, in_thoughts, &tools)
}

fn read(format: &str, text: &str) -> Answer {
    read_in(format, text, false)
}

#[test]
fn words_stand_before_between_and_after_calls() {
    let text = "First.\n<tool_call>\n{\"name\": \"stop\", \"arguments\": {}}\n</tool_call>\nThen.\n\n<tool_call>{\"arguments\":\
                {\"city\":\"Bern\"},\"name\":\"weather\"}</tool_call> Last.";
    let answer = read("hermes", text);
    assert_eq!(answer.content, "First.\nThen.\nLast.");
    assert_eq!(answer.calls, [call("stop", json!({})), call("weather", json!({ "city": "Bern" }))]);
    assert_eq!(answer.reasoning_content, None);
    assert!(answer.malformed.is_empty());
}

#[test]
fn an_answer_without_calls_is_its_text() {
    for format in ["hermes", "qwen3_coder", "glm", "mistral", "deepseek", "harmony", "granite", "llama_json"]
    {
        for text in ["", "\n Bern <b> {x} \n", "{\"answer\": 5}", "<think>\nx\n</think>\n\ny"] {
            let answer = read(format, text);
            assert_eq!(answer, Answer { content: text.into(), ..Answer::default() }, "{format}");
        }
    }
}

#[test]
fn strings_hold_tags_and_braces() {
    let arguments =
        json!({ "city": "a</tool_call> } <tool_call> { \" \\ [TOOL_CALLS] <|call|> <|end|> <think>" });
    let object = json!({ "name": "weather", "arguments": arguments }).to_string();
    for (format, text) in [
        ("hermes", format!("<tool_call>{object}</tool_call>")),
        ("mistral", format!("[TOOL_CALLS][{object}]")),
        ("granite", format!("<|tool_call|>[{object}]")),
        ("llama_json", object.replace("\"arguments\"", "\"parameters\"")),
        ("harmony", format!(" to=functions.weather<|channel|>commentary json<|message|>{arguments}")),
        ("deepseek", format!("<｜tool▁call▁begin｜>weather<｜tool▁sep｜>{arguments}<｜tool▁call▁end｜>")),
    ] {
        assert_eq!(read(format, &text).calls, [call("weather", arguments.clone())], "{format}");
    }
    let city = "a</parameter> b </function> <parameter=";
    let text = format!(
        "<tool_call>\n<function=weather>\n<parameter=city>\n{city}\n</parameter>\n</function>\n</tool_call>"
    );
    assert_eq!(read("qwen3_coder", &text).calls, [call("weather", json!({ "city": city }))]);
    let city = "a</arg_value> </tool_call";
    let text =
        format!("<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>{city}</arg_value>\n</tool_call>");
    assert_eq!(read("glm", &text).calls, [call("weather", json!({ "city": city }))]);
}

#[test]
fn arguments_may_be_an_object_in_a_text() {
    let text = r#"<tool_call>{"name": "weather", "arguments": "{\"city\": \"Bern\"}"}</tool_call>"#;
    assert_eq!(read("hermes", text).calls, [call("weather", json!({ "city": "Bern" }))]);
}

#[test]
fn a_call_that_only_lacks_its_closing_tag_is_one() {
    let bern = [call("weather", json!({ "city": "Bern" }))];
    for (format, text) in [
        ("hermes", "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Bern\"}}\n"),
        ("qwen3_coder", "<tool_call>\n<function=weather>\n<parameter=city>\nBern\n</parameter>\n</function>"),
        ("deepseek", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{\"city\": \"Bern\"}"),
        (
            "harmony",
            "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{\"city\":\"Bern\"}",
        ),
    ] {
        assert_eq!(read(format, text).calls, bern, "{format}");
    }
    // The next call closes the one before it.
    let one = "<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"Bern\"}}\n";
    assert_eq!(read("hermes", &one.repeat(2)).calls, [bern.clone(), bern].concat());
}

#[test]
fn thoughts_are_kept_apart_and_their_calls_are_only_talked_about() {
    let stop = "<tool_call>\n{\"name\": \"stop\", \"arguments\": {}}\n</tool_call>";
    let answer = read("hermes", &format!("<think>\nA {stop}?\n</think>\n\nWell. {stop}"));
    assert_eq!(answer.reasoning_content.as_deref(), Some(&*format!("A {stop}?")));
    assert_eq!((answer.content.as_str(), answer.calls.len()), ("Well.", 1));
    // The prompt has begun the thoughts.
    let answer = read_in("hermes", &format!("A {stop}?\n</think>\n\n{stop}"), true);
    assert_eq!((answer.reasoning_content.as_deref(), answer.calls.len()), (Some(&*format!("A {stop}?")), 1));
    // The thoughts are never closed.
    for (text, in_thoughts) in [(format!("<think>\n{stop}"), false), (stop.to_owned(), true)] {
        let answer = read_in("hermes", &text, in_thoughts);
        assert_eq!(answer, Answer { content: text, ..Answer::default() });
    }
    // More thoughts after the first.
    let answer = read("hermes", &format!("<think>a</think>b<think>{stop}</think>c{stop}"));
    assert_eq!((answer.reasoning_content.as_deref(), answer.calls.len()), (Some("a"), 1));
    assert_eq!(answer.content, format!("b<think>{stop}</think>c"));
    // Empty thoughts count as none.
    assert_eq!(read("hermes", &format!("<think>\n\n</think>\n\n{stop}")).reasoning_content, None);
    // Tags in an argument are not thoughts.
    let text = "<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"</think>\"}}</tool_call>";
    assert_eq!(read("hermes", text).calls, [call("weather", json!({ "city": "</think>" }))]);
}

#[test]
fn the_schema_says_what_a_value_without_quotes_is() {
    let cases = [
        ("city", "5", json!("5"), json!("5")),
        ("city", "True", json!("True"), json!("True")),
        ("city", " \"x\" ", json!(" \"x\" "), json!(" \"x\" ")),
        ("days", "5", json!(5), json!(5)),
        ("days", " 5 ", json!(5), json!(5)),
        ("safe", "true", json!(true), json!(true)),
        ("more", "[1, {\"a\": null}]", json!([1, { "a": null }]), json!([1, { "a": null }])),
        ("more", "null", json!(null), json!(null)),
        ("any", "5", json!(5), json!(5)),
        ("any", "Bern", json!("Bern"), json!("Bern")),
        ("any", "\"Bern\"", json!("\"Bern\""), json!("\"Bern\"")),
        ("any", "None", json!(null), json!("None")),
        ("either", "7", json!(7), json!(7)),
        ("either", "[7]", json!("[7]"), json!("[7]")),
        ("unknown", "{\"a\": 1}", json!({ "a": 1 }), json!({ "a": 1 })),
    ];
    for (key, text, qwen, glm) in cases {
        let written = format!(
            "<tool_call><function=weather><parameter={key}>\n{text}\n</parameter></function></tool_call>"
        );
        assert_eq!(
            read("qwen3_coder", &written).calls,
            [call("weather", json!({ key: qwen }))],
            "{key}: {text}"
        );
        let written =
            format!("<tool_call>weather<arg_key>{key}</arg_key><arg_value>{text}</arg_value></tool_call>");
        assert_eq!(read("glm", &written).calls, [call("weather", json!({ key: glm }))], "{key}: {text}");
    }
    // Only Qwen's format accepts Python's words.
    let written = |text: &str| {
        format!("<tool_call><function=weather><parameter=safe>{text}</parameter></function></tool_call>")
    };
    assert_eq!(read("qwen3_coder", &written("False")).calls, [call("weather", json!({ "safe": false }))]);
    let glm = "<tool_call>weather<arg_key>safe</arg_key><arg_value>False</arg_value></tool_call>";
    assert!(read("glm", glm).malformed[0].contains("must be a boolean"));
}

#[test]
fn mistral_writes_lists_with_ids_and_names_before_arguments() {
    let text = r#"[TOOL_CALLS] [{"name": "stop", "arguments": {}, "id": "abcDEF123"}, {"name": "stop", "arguments": {}}]"#;
    let answer = read("mistral", text);
    assert_eq!(answer.calls[0].id.as_deref(), Some("abcDEF123"));
    assert_eq!((answer.calls[1].id.as_deref(), answer.content.as_str()), (None, ""));
    let text = "So.[TOOL_CALLS]weather[ARGS]{\"city\": \"Bern\"}[TOOL_CALLS]stop[CALL_ID]abcDEF123[ARGS]{}";
    let answer = read("mistral", text);
    assert_eq!((answer.calls.len(), answer.content.as_str()), (2, "So."));
    assert_eq!(answer.calls[0], call("weather", json!({ "city": "Bern" })));
    assert_eq!(answer.calls[1].id.as_deref(), Some("abcDEF123"));
}

#[test]
fn gpt_oss_thinks_and_calls_in_channels() {
    let call_text = "<|start|>assistant<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{\"city\":\"Bern\"}<|call|>";
    let thoughts = "<|channel|>analysis<|message|>Call to=functions.stop?<|end|>";
    let bern = [call("weather", json!({ "city": "Bern" }))];
    let answer = read("harmony", &format!("{thoughts}{call_text}what nobody reads"));
    assert_eq!(answer.calls, bern);
    assert_eq!(
        (answer.reasoning_content.as_deref(), answer.content.as_str()),
        (Some("Call to=functions.stop?"), "")
    );
    // The template accepts no text beside thoughts.
    let words = "<|start|>assistant<|channel|>commentary<|message|>Wait.<|end|>";
    let answer = read("harmony", &format!("{thoughts}{words}{call_text}"));
    assert_eq!(answer.reasoning_content.as_deref(), Some("Call to=functions.stop?\n\nWait."));
    assert_eq!(
        read("harmony", &format!("{}{call_text}", &words["<|start|>assistant".len()..])).content,
        "Wait."
    );
    // A malformed call is kept without tags, which the template would refuse.
    let answer = read(
        "harmony",
        &format!("{thoughts}<|start|>assistant to=python<|channel|>analysis<|message|>1+1<|call|>"),
    );
    assert_eq!((answer.content.as_str(), answer.malformed.len()), ("to=python 1+1", 1));
    // Without a call, the text of the channels is what was said.
    let answer = read("harmony", &format!("{thoughts}<|start|>assistant<|channel|>final<|message|>42"));
    assert_eq!((answer.content.as_str(), answer.calls.len()), ("42", 0));
    assert_eq!(answer.reasoning_content.as_deref(), Some("Call to=functions.stop?"));
}

#[test]
fn llama_says_nothing_but_the_call() {
    let bern = call("weather", json!({ "city": "Bern" }));
    let object = r#"{"name": "weather", "parameters": {"city": "Bern"}}"#;
    for text in [object.to_owned(), format!("<|python_tag|>{object}<|eom_id|>"), format!("\n{object}\n")] {
        assert_eq!(read("llama_json", &text).calls, std::slice::from_ref(&bern), "{text}");
    }
    assert_eq!(read("llama_json", &format!("{object}; {object}")).calls, [bern.clone(), bern.clone()]);
    assert_eq!(read("llama_json", &format!("I say {object}")).calls, []);
    let answer = read("llama_json", &format!("I call.<|python_tag|>{object}"));
    assert_eq!((answer.calls, answer.content.as_str()), (vec![bern], "I call."));
}
