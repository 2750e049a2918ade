//! What a policy is told about malformed calls.

use burnish_model::CallFormat;
use serde_json::json;

use super::{call, tool};

fn told(format: &str, text: &str) -> String {
    let tools = [tool("weather", json!({ "city": { "type": "string" }, "days": { "type": "integer" } }))];
    let answer = CallFormat::named(format).unwrap().read(text, false, &tools);
    assert!(answer.calls.is_empty(), "{text}");
    if format != "harmony" {
        assert_eq!(answer.content, text, "it stands as it was written");
    }
    answer.malformed.join(" | ")
}

#[test]
fn each_reason_is_said_in_words() {
    let cases = [
        (
            "hermes",
            r#"<tool_call>{"name": "weather" "arguments": {}}</tool_call>"#,
            "call 1: it is not JSON: expected `,` or `}` at column 20",
        ),
        (
            "hermes",
            "<tool_call>{'name': 'weather'}</tool_call>",
            "call 1: it is not JSON: key must be a string at column 2",
        ),
        (
            "hermes",
            "<tool_call>\n{\"name\": \"weather\",\n \"arguments\": {\"city\": \"Be</tool_call> and so on",
            "call 1: it is not JSON: it ends within a string at line 2, column 26",
        ),
        ("hermes", "<tool_call></tool_call>", "call 1: it is not JSON: nothing stands there"),
        (
            "hermes",
            "I write <tool_call> now",
            "call 1: it is not JSON: expected `true`, `false` or `null` at column 2",
        ),
        (
            "hermes",
            r#"<tool_call>{"name": "weather", "arguments": {}}}</tool_call>"#,
            "call 1: after its JSON object there is more: `}`",
        ),
        (
            "hermes",
            r#"<tool_call>{"name": "weather", "arguments": {}} and so on"#,
            "call 1: `</tool_call>` is missing after its JSON object",
        ),
        (
            "hermes",
            "<tool_call>[1]</tool_call>",
            "call 1: it must be a JSON object with `name` and `arguments`, but is a list",
        ),
        ("hermes", r#"<tool_call>{"arguments": {}}</tool_call>"#, "call 1: it has no `name`"),
        (
            "hermes",
            r#"<tool_call>{"name": 5, "arguments": {}}</tool_call>"#,
            "call 1: its `name` must be a text, but is a number",
        ),
        ("hermes", r#"<tool_call>{"name": " ", "arguments": {}}</tool_call>"#, "call 1: its `name` is empty"),
        ("hermes", r#"<tool_call>{"name": "weather"}</tool_call>"#, "call 1: it has no `arguments`"),
        (
            "hermes",
            r#"<tool_call>{"name": "weather", "argument": {}}</tool_call>"#,
            "call 1: it has the key `argument`, which a call does not have; did you mean `arguments`?",
        ),
        (
            "hermes",
            r#"<tool_call>{"name": "weather", "arguments": [1]}</tool_call>"#,
            "call 1: the arguments must be a JSON object, but are a list",
        ),
        (
            "hermes",
            r#"<tool_call>{"name": "weather", "arguments": "city"}</tool_call>"#,
            "call 1: the arguments are not JSON: expected value at column 1",
        ),
        (
            "hermes",
            r#"<tool_call>{"name": "weather", "arguments": {"city": "a", "city": "b"}}</tool_call>"#,
            "call 1: it is not JSON: the key `city` stands twice at column 53",
        ),
        (
            "llama_json",
            r#"{"name": "weather", "parameters": }"#,
            "call 1: `{\"name\": \"weather\", \"parameters\": }` is not JSON: expected value at column 35",
        ),
        (
            "llama_json",
            "<|python_tag|>weather.call(1)",
            "call 1: `weather.call(1)` is not JSON: expected value at column 1",
        ),
        (
            "llama_json",
            r#"{"name": "weather", "parameters": {}, "arguments": {}}"#,
            "call 1: it has `arguments` beside its other arguments",
        ),
        (
            "mistral",
            "[TOOL_CALLS][{\"name\": ",
            "call 1: the list of calls is not JSON: it ends within a value at column 10",
        ),
        ("mistral", "[TOOL_CALLS][]", "call 1: the list of calls is empty"),
        ("mistral", "[TOOL_CALLS]", "call 1: a tool's name must follow `[TOOL_CALLS]`"),
        (
            "mistral",
            "[TOOL_CALLS]weather[ARGS]5 ",
            "call 1: the arguments must be a JSON object, but are a number",
        ),
        ("granite", "<|tool_call|>weather", "call 1: a JSON list of calls must follow `<|tool_call|>`"),
        ("deepseek", "<｜tool▁call▁begin｜>weather", "call 1: `<｜tool▁sep｜>` is missing"),
        ("deepseek", "<｜tool▁call▁begin｜><｜tool▁sep｜>{}", "call 1: it has no name"),
        (
            "deepseek",
            "<｜tool▁call▁begin｜>weather<｜tool▁sep｜>{\"city\"}<｜tool▁call▁end｜>",
            "call 1: the arguments are not JSON: expected `:` at column 8",
        ),
        (
            "deepseek",
            "<｜tool▁call▁begin｜>weather<｜tool▁sep｜>{} so",
            "call 1: `<｜tool▁call▁end｜>` must follow its arguments, not `so`",
        ),
        (
            "harmony",
            "<|channel|>commentary to=python<|message|>1+1<|call|>",
            "call 1: tools are called as `to=functions.NAME`, not as `to=python`",
        ),
        (
            "harmony",
            " to=functions.weather<|channel|>commentary json<|message|>{\"city\": <|call|>",
            "call 1: the arguments are not JSON: it ends within a value at column 9",
        ),
        (
            "harmony",
            " to=functions.weather<|channel|>commentary json<|message|>{} {}<|call|>",
            "call 1: after the arguments there is more: `{}`",
        ),
        (
            "qwen3_coder",
            "<tool_call>{\"name\": \"weather\"}</tool_call>",
            "call 1: `<function=NAME>` must follow `<tool_call>`, not `{\"name\": \"weather\"}</tool_call>`",
        ),
        (
            "qwen3_coder",
            "<tool_call><function=weather></tool_call>",
            "call 1: `<parameter=KEY>` or `</function>` must stand where `</tool_call>` stands",
        ),
        (
            "qwen3_coder",
            "<tool_call><function=weather><parameter=city>Be",
            "call 1: the value of `city` is not closed by `</parameter>`",
        ),
        (
            "qwen3_coder",
            "<tool_call><function=weather><parameter=city>\nBern\n</parameter>\n",
            "call 1: the answer ends where `<parameter=KEY>` or `</function>` must stand",
        ),
        (
            "qwen3_coder",
            "<tool_call><function=weather><parameter=days>\nfive\n</parameter></function></tool_call>",
            "call 1: the value of `days`, `five`, is not JSON: expected `true`, `false` or `null` at column 2; it must be a number",
        ),
        (
            "qwen3_coder",
            "<tool_call><function=weather><parameter=days>5</parameter><parameter=days>6</parameter></function></tool_call>",
            "call 1: the parameter `days` stands twice",
        ),
        (
            "qwen3_coder",
            "<tool_call><function=\n></function></tool_call>",
            "call 1: `<function=` must have a name and `>` after it",
        ),
        (
            "glm",
            "<tool_call>weather\n<arg_key>city</arg_key>",
            "call 1: the argument `city` has no value: the answer ends where `<arg_value>` must stand",
        ),
        (
            "glm",
            "<tool_call>weather\n",
            "call 1: the answer ends where `<arg_key>` or `</tool_call>` must stand",
        ),
        (
            "glm",
            "<tool_call>{\"name\": 1}</tool_call>",
            "call 1: a tool's name must follow `<tool_call>`, not `{\"name\": 1}</tool_call>`",
        ),
        (
            "glm",
            "<tool_call>weather\n<arg_key>city",
            "call 1: the name of an argument is not closed by `</arg_key>`",
        ),
    ];
    for (format, text, reason) in cases {
        assert_eq!(told(format, text), reason, "{format}: {text}");
    }
}

#[test]
fn a_malformed_call_takes_no_other_with_it() {
    let bad = "<tool_call>{\"name\": weather}</tool_call>";
    let good = "<tool_call>{\"name\": \"weather\", \"arguments\": {}}</tool_call>";
    let answer = CallFormat::named("hermes").unwrap().read(&format!("a{bad}b{good}{bad}{good}"), false, &[]);
    assert_eq!(answer.calls, [call("weather", json!({})), call("weather", json!({}))]);
    assert_eq!(answer.content, format!("a\n{bad}\nb\n{bad}"));
    let numbers: Vec<&str> = answer.malformed.iter().map(|reason| &reason[..6]).collect();
    assert_eq!(numbers, ["call 1", "call 3"]);
    let bad = "<tool_call><function=weather><parameter=days>\n1\n</parameter> so </function></tool_call>";
    let good =
        "<tool_call>\n<function=weather>\n<parameter=days>\n2\n</parameter>\n</function>\n</tool_call>";
    let answer = CallFormat::named("qwen3_coder").unwrap().read(&format!("{bad}\n{good}"), false, &[]);
    assert_eq!((answer.calls, answer.malformed.len()), (vec![call("weather", json!({ "days": 2 }))], 1));
    let list = "[TOOL_CALLS][{\"name\": \"weather\", \"arguments\": {}}, {\"name\": \"weather\"}, 5]";
    let answer = CallFormat::named("mistral").unwrap().read(list, false, &[]);
    assert_eq!((answer.calls.len(), answer.malformed.len(), answer.content.as_str()), (1, 2, list));
}
