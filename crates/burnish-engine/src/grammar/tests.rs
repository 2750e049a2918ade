use std::path::Path;

use burnish_core::{FunctionCall, Message, Role, ToolCall};
use serde_json::json;

use super::*;

const HERMES: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls %}\
    {{ '<tool_call>\\n' }}{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments|tojson }}}\
    {{ '\\n</tool_call>' }}{% endfor %}<|im_end|>\n{% endfor %}\
    {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
const LLAMA: &str = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for c in m.tool_calls %}\
    {\"name\": \"{{ c.function.name }}\", \"parameters\": {{ c.function.arguments|tojson }}}{% endfor %}<|eot_id|>\
    {% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";
const CODER: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls %}\
    {{ '<tool_call>\\n<function=' + c.function.name + '>\\n' }}\
    {% for key, value in c.function.arguments|items %}{{ '<parameter=' + key + '>\\n' }}\
    {{ value if value is string else value|tojson }}{{ '\\n</parameter>\\n' }}{% endfor %}\
    {{ '</function>\\n</tool_call>' }}{% endfor %}<|im_end|>\n{% endfor %}\
    {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
/// A list after a special token.
const MISTRAL: &str = "{% for m in messages %}{% if m.role == 'user' %}[INST]{{ m.content }}[/INST]{% else %}\
    {{ m.content }}{% endif %}{% for c in m.tool_calls %}[TOOL_CALLS][{\"name\": \"{{ c.function.name }}\", \
    \"arguments\": {{ c.function.arguments|tojson }}, \"id\": \"{{ c.id }}\"}]{% endfor %}{% endfor %}";

fn template(source: &str) -> ChatTemplate {
    ChatTemplate::new(source, Path::new("test")).unwrap()
}

fn tool(name: &str, parameters: serde_json::Value) -> ToolSpec {
    serde_json::from_value(json!({ "name": name, "description": "A tool.", "parameters": parameters }))
        .unwrap()
}

fn tools() -> Vec<ToolSpec> {
    vec![
        tool("stop", json!({ "type": "object", "properties": {} })),
        tool(
            "go",
            json!({
                "type": "object",
                "properties": {
                    "to": { "enum": ["left", "right"] },
                    "steps": { "type": "integer", "minimum": 1 },
                    "why": { "type": "string" },
                    "stops": { "type": "array", "items": { "$ref": "#/$defs/place" } },
                },
                "required": ["to", "steps"],
                "$defs": { "place": { "type": "integer" } },
            }),
        ),
        tool("go_on", json!({ "type": "object", "properties": { "now": { "type": "boolean" } } })),
    ]
}

/// What a template writes for an answer with calls.
fn written(template: &ChatTemplate, said: &str, calls: &[(&str, serde_json::Value)]) -> String {
    let calls = calls.iter().map(|(name, arguments)| ToolCall {
        id: Some("a1b2c3d4e".into()),
        function: FunctionCall { name: (*name).into(), arguments: arguments.clone() },
    });
    let messages = [
        Message::user("the question"),
        Message { tool_calls: calls.collect(), ..Message::assistant(said) },
        Message {
            name: Some("go".into()),
            tool_call_id: Some("a1b2c3d4e".into()),
            ..Message::new(Role::Tool, "done!")
        },
    ];
    let whole = template.render(&messages, &tools(), false).unwrap();
    let prompt = template.render(&messages[..1], &tools(), true).unwrap();
    let text = whole.strip_prefix(&prompt).unwrap_or_else(|| panic!("{whole}"));
    let end = ["<|im_end|>", "<|eot_id|>", "<|observation|>"].iter().filter_map(|end| text.find(end)).min();
    text[..end.unwrap()].to_owned()
}

/// Is a text in the language, read byte by byte?
fn accepts(held: &Held, text: &str) -> bool {
    let mut held = held.sharing();
    let bytes: Vec<u32> = text.bytes().map(u32::from).collect();
    held.matcher.try_consume_tokens(&bytes).unwrap() == bytes.len() && held.matcher.is_accepting().unwrap()
}

fn of_tools(template: &ChatTemplate, tools: &[ToolSpec]) -> Result<Held, GrammarError> {
    let bytes = ApproximateTokEnv::single_byte_env();
    let held = Grammars::over(&bytes).unwrap().start(&Grammar::Tools, Some((tools, template)))?;
    Ok(held.unwrap())
}

fn checked(name: &str, template: &ChatTemplate) {
    let held = of_tools(template, &tools()).unwrap();
    let format = template.call_format().unwrap();
    let go = json!({ "to": "left", "steps": 12 });
    let full = json!({ "to": "right", "steps": 1, "why": "a \"reason\" {<\n>}", "stops": [1, 2] });
    let alone = [
        vec![("stop", json!({}))],
        vec![("go", go.clone())],
        vec![("go", full.clone())],
        vec![("go_on", json!({ "now": true }))],
        vec![("go_on", json!({}))],
    ];
    for calls in &alone {
        let text = written(template, "", calls);
        // Qwen3.5's template writes Python's True.
        let text = text.replace("\nTrue\n", "\ntrue\n").replace(">True<", ">true<");
        assert!(accepts(&held, &text), "{name}: {text:?}");
    }
    for said in ["", "I do nothing.", "a < b, <tool>, </tool_call>"] {
        assert!(accepts(&held, said), "{name}: {said:?}");
    }
    let wrong = [
        ("walk", json!({})),
        ("go", json!({ "to": "up", "steps": 1 })),
        ("go", json!({ "to": "left" })),
        ("go", json!({ "to": "left", "steps": 0 })),
        ("go", json!({ "to": "left", "steps": "many" })),
        ("go", json!({ "to": "left", "steps": 1, "fast": true })),
        ("go", json!({ "to": "left", "steps": 1, "stops": ["here"] })),
        ("stop", json!({ "now": true })),
    ];
    for (tool, arguments) in wrong {
        let text = written(template, "", &[(tool, arguments)]);
        assert!(!accepts(&held, &text), "{name}: {text:?}");
    }
    let call = written(template, "", &[("go", go.clone())]);
    let body = call.trim();
    for cut in 1..body.len() {
        // A beginning of a call is complete only before its opening is.
        let opening = format.openings().first().map_or(1, |opening| opening.len());
        let begins = body.find(format.openings().first().copied().unwrap_or("{")).unwrap() + opening;
        assert_eq!(accepts(&held, &body[..cut]), cut < begins, "{name}: {:?}", &body[..cut]);
    }
    if !format.openings().is_empty() {
        let two = written(template, "First this.", &[("go", go), ("go", full)]);
        assert!(accepts(&held, &two), "{name}: {two:?}");
        assert!(accepts(&held, &format!("{two}\nThat was it.")), "{name}");
    }
}

#[test]
fn what_a_template_writes_is_in_the_language_of_its_tools_and_other_calls_are_not() {
    for (name, source) in [("hermes", HERMES), ("llama_json", LLAMA), ("qwen3_coder", CODER)] {
        let template = template(source);
        assert_eq!(template.call_format().unwrap().name(), name);
        checked(name, &template);
    }
}

#[test]
fn real_templates_have_a_language_or_say_why_not() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/chat_templates");
    if !folder.exists() {
        println!("skipped: there is no shared/data/chat_templates");
        return;
    }
    let read = |name: &str| ChatTemplate::read(&folder.join(name)).unwrap();
    for name in [
        "Qwen-Qwen3-0.6B.jinja",
        "Qwen-Qwen2.5-7B-Instruct.jinja",
        "Qwen3.5-4B.jinja",
        "Qwen3-Coder.jinja",
        "GLM-4.6.jinja",
        "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use.jinja",
    ] {
        checked(name, &read(name));
    }
    let refused = of_tools(&read("openai-gpt-oss-120b.jinja"), &tools()).unwrap_err();
    assert_eq!(refused, GrammarError::Calls(ShapeError::SpecialTokens("harmony")));
    let refused = of_tools(&read("microsoft-Phi-3.5-mini-instruct.jinja"), &tools()).unwrap_err();
    assert_eq!(refused, GrammarError::Calls(ShapeError::NoCalls));
}

#[test]
fn a_schema_that_can_not_be_demanded_names_its_tool() {
    let template = template(HERMES);
    let bad = tool("odd", json!({ "type": "object", "minProperties": "x" }));
    let refused = of_tools(&template, &[tools(), vec![bad]].concat()).unwrap_err().to_string();
    assert!(refused.starts_with("the tool `odd`: ") && refused.contains("minProperties"), "{refused}");
    let refused = of_tools(&ChatTemplate::chatml().unwrap(), &tools()).unwrap_err();
    assert_eq!(refused.to_string(), "the chat template writes no tool calls");
    let refused = of_tools(&self::template(MISTRAL), &tools()).unwrap_err();
    assert_eq!(refused, GrammarError::Calls(ShapeError::SpecialTokens("mistral")));
}

#[test]
fn answers_share_nothing_that_changes_a_mask_and_are_renewed() {
    let held = of_tools(&template(HERMES), &tools()).unwrap();
    let text = "I go. <tool_call>\n{\"name\": \"go\", \"arguments\": {\"to\": \"left\", \"steps\": 3, \"why\": \"x\"}}";
    let masks = |mut held: Held| -> Vec<SimpleVob> {
        let bytes = text.bytes().map(u32::from);
        let mut mask = |byte| {
            let mask = held.matcher.compute_mask_or_eos().unwrap();
            held.matcher.consume_token(byte).unwrap();
            mask
        };
        bytes.map(&mut mask).collect()
    };
    let alone = masks(held.apart());
    let mut answers = Answers::of(held);
    assert!(alone == masks(answers.next()) && alone == masks(answers.next()));
    (0..Answers::RENEWED).for_each(|_| drop(answers.next()));
    assert_eq!(answers.begun, 2);
    assert!(alone == masks(answers.next()));
}

#[test]
fn white_space_in_json_is_bounded_as_in_llama_cpp() {
    let bytes = ApproximateTokEnv::single_byte_env();
    let grammars = Grammars::over(&bytes).unwrap();
    let schema = json!({ "type": "object", "properties": { "a": { "type": "integer" } }, "required": ["a"] });
    let starts = |schema| grammars.start(&Grammar::JsonSchema(schema), None);
    let held = starts(schema.clone()).unwrap().unwrap();
    let written = [r#"{"a":1}"#, r#"{ "a": 1 }"#, "{\n  \"a\": 1\n}", "{\n\n\t\"a\": 1}"];
    for text in written {
        assert!(accepts(&held, text), "{text:?}");
    }
    let long = format!("{{\n{}\"a\": 1}}", " ".repeat(21));
    for text in [r#"{  "a":1}"#, "{\n\n\n\"a\":1}", "{\r\"a\":1}", &long] {
        assert!(!accepts(&held, text), "{text:?}");
    }
    // A schema may say what stands between its tokens.
    let mut own = schema;
    own["x-guidance"] = json!({ "whitespace_flexible": false });
    let held = starts(own).unwrap().unwrap();
    assert!(accepts(&held, written[0]) && !accepts(&held, written[1]));
}

#[test]
fn a_schema_that_cannot_be_held_to_says_what_can() {
    let schema = json!({ "oneOf": [{ "type": "integer" }, { "type": "number" }] });
    let error = check_grammar(&Grammar::JsonSchema(schema)).unwrap_err().to_string();
    assert!(error.contains("`anyOf`") && !error.contains("coerce"), "{error}");
}
