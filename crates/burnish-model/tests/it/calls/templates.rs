//! Call formats that are not among the well-known templates, and some whose license does not allow their text here.

use std::path::Path;

use burnish_core::{Message, Role};
use burnish_model::ChatTemplate;
use serde_json::json;

use super::{call, tool};

/// Writes calls as Llama 3.1 and 3.2 do: one per answer.
pub(crate) const LLAMA: &str = "{{ bos_token }}{% for m in messages %}\
    {% if m.tool_calls %}{% if m.tool_calls|length != 1 %}{{ raise_exception('only one call at once') }}{% endif %}\
    <|start_header_id|>assistant<|end_header_id|>\n\n{% set f = m.tool_calls[0].function %}\
    {\"name\": \"{{ f.name }}\", \"parameters\": {{ f.arguments|tojson }}}<|eot_id|>\
    {% elif m.role == 'tool' %}<|start_header_id|>ipython<|end_header_id|>\n\n{{ m.content|tojson }}<|eot_id|>\
    {% else %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content|trim }}<|eot_id|>{% endif %}{% endfor %}\
    {% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}";

/// Writes calls as newer models of Mistral do.
pub(crate) const MISTRAL: &str = "{% for m in messages %}{% if m.role == 'user' %}[INST]{{ m.content }}[/INST]\
    {% elif m.role == 'tool' %}[TOOL_RESULTS]{{ m.content }}[/TOOL_RESULTS]{% else %}{{ m.content }}\
    {% for c in m.tool_calls %}[TOOL_CALLS]{{ c.function.name }}[ARGS]{{ c.function.arguments|tojson }}{% endfor %}</s>\
    {% endif %}{% endfor %}";

/// Writes calls as the first templates of DeepSeek did: the arguments must be a text.
pub(crate) const DEEPSEEK: &str = "{% for m in messages %}{% if m.role == 'user' %}<｜User｜>{{ m.content }}\
    {% elif m.role == 'tool' %}<｜tool▁output▁begin｜>{{ m.content }}<｜tool▁output▁end｜>\
    {% else %}<｜Assistant｜>{{ m.content }}{% for c in m.tool_calls %}{{ '<｜tool▁call▁begin｜>function<｜tool▁sep｜>' + \
    c.function.name + '\\n```json\\n' + c.function.arguments + '\\n```<｜tool▁call▁end｜>' }}{% endfor %}\
    <｜end▁of▁sentence｜>{% endif %}{% endfor %}{% if add_generation_prompt %}<｜Assistant｜>{% endif %}";

/// ChatML with calls in `format`, the template's text for a call `c`.
pub(crate) fn chatml(format: &str) -> String {
    format!(
        "{{% for m in messages %}}<|im_start|>{{{{ m.role }}}}\n\
         {{% if m.reasoning_content %}}<think>\n{{{{ m.reasoning_content }}}}\n</think>\n\n{{% endif %}}{{{{ m.content }}}}\
         {{% for call in m.tool_calls %}}{{% set c = call.function %}}{format}{{% endfor %}}<|im_end|>\n{{% endfor %}}\
         {{% if add_generation_prompt %}}<|im_start|>assistant\n{{% endif %}}"
    )
}

pub(crate) const HERMES: &str =
    "\n<tool_call>\n{\"name\": \"{{ c.name }}\", \"arguments\": {{ c.arguments|tojson }}}\n</tool_call>";
pub(crate) const FUNCTION: &str = "\n<tool_call>\n<function={{ c.name }}>{% for k, v in c.arguments|items %}\n\
    <parameter={{ k }}>\n{{ v|tojson if v is mapping or (v is sequence and v is not string) else v|string }}\n\
    </parameter>{% endfor %}\n</function>\n</tool_call>";
pub(crate) const KEYS: &str = "\n<tool_call>{{ c.name }}{% for k, v in c.arguments|items %}\n<arg_key>{{ k }}</arg_key>\n\
    <arg_value>{{ v if v is string else v|tojson }}</arg_value>{% endfor %}\n</tool_call>";
pub(crate) const DEEPSEEK_V3: &str =
    "<｜tool▁call▁begin｜>{{ c.name }}<｜tool▁sep｜>{{ c.arguments|tojson }}<｜tool▁call▁end｜>";
pub(crate) const HARMONY: &str = "<|start|>assistant to=functions.{{ c.name }}<|channel|>commentary json<|message|>\
    {{ c.arguments|tojson }}<|call|>";
pub(crate) const LIST: &str = "[TOOL_CALLS][{\"name\": \"{{ c.name }}\", \"arguments\": {{ c.arguments|tojson }}, \"id\": \"{{ call.id }}\"}]";

/// The template of policies that are made here.
pub(crate) const OWN: &str = include_str!("../../../../../recipes/templates/tools.jinja");

pub(crate) fn template(source: &str) -> ChatTemplate {
    ChatTemplate::new(source, Path::new("test")).unwrap()
}

fn name(source: &str) -> Option<&'static str> {
    template(source).call_format().map(burnish_model::CallFormat::name)
}

#[test]
fn a_format_is_found_by_what_a_template_writes() {
    for (written, format) in [
        (HERMES, "hermes"),
        (FUNCTION, "qwen3_coder"),
        (KEYS, "glm"),
        (DEEPSEEK_V3, "deepseek"),
        (HARMONY, "harmony"),
        (LIST, "mistral"),
        ("<function_call>{{ c|tojson }}</function_call>", "function_call"),
        ("<|tool_call|>[{{ c|tojson }}]", "granite"),
    ] {
        assert_eq!(name(&chatml(written)), Some(format), "{written}");
    }
    assert_eq!(name(OWN), Some("hermes"));
    assert_eq!(name(LLAMA), Some("llama_json"));
    assert_eq!(name(MISTRAL), Some("mistral"));
    assert_eq!(name(DEEPSEEK), Some("deepseek"));
    assert_eq!(name(burnish_model::CHATML), None);
    assert_eq!(name(&chatml("{{ c.name }}({{ c.arguments }})")), None, "a format that nobody knows");
    assert_eq!(name("{{ raise_exception('never') }}"), None);
}

#[test]
fn a_template_that_only_tells_of_a_format_has_its_calls_in_the_content() {
    let source = format!(
        "{{% if tools %}}Write <tool_call>{{...}}</tool_call>.{{% endif %}}{}",
        burnish_model::CHATML
    );
    let template = template(&source);
    let text = "So. <tool_call>{\"name\": \"stop\", \"arguments\": {}}</tool_call>";
    let answer = template.call_format().unwrap().read(text, false, &[]);
    assert_eq!((answer.calls.len(), answer.content.as_str()), (1, text));
}

#[test]
fn a_template_that_wants_arguments_as_a_text_is_given_that() {
    let template = template(DEEPSEEK);
    let text = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{\"city\":  \"Bern\"}\n```<｜tool▁call▁end｜>";
    let answer = template.call_format().unwrap().read(text, false, &[tool("weather", json!({}))]);
    assert_eq!(answer.calls, [call("weather", json!("{\"city\":\"Bern\"}"))]);
    let messages = [Message::user("x"), answer.into_message(), Message::new(Role::Tool, "y")];
    assert!(template.render(&messages, &[], false).is_ok());
}

#[test]
fn another_variable_may_mean_another_format() {
    let source = chatml(&format!("{{% if plain %}}x{{% else %}}{HERMES}{{% endif %}}"));
    let template = template(&source);
    assert!(template.call_format().is_some());
    assert!(template.with_variable("plain", json!(true)).call_format().is_none());
}

#[test]
fn our_own_template_writes_tools_and_calls_in_few_signs() {
    let properties = json!({ "city": { "type": "string" }, "days": { "type": "integer" } });
    let tools = [tool("weather", properties), tool("stop", json!({}))];
    let two = [call("weather", json!({ "city": "Bern", "days": 2 })), call("stop", json!({}))];
    let messages = [
        Message::user("hello"),
        Message { tool_calls: two.into(), ..Message::assistant("") },
        Message::new(Role::Tool, "sunny"),
        Message::new(Role::Tool, "ok"),
    ];
    let told = "<|im_start|>system\ntools: weather(city days) stop()<|im_end|>\n";
    let said = "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n\
        <tool_call>{\"name\":\"weather\",\"arguments\":{\"city\":\"Bern\",\"days\":2}}</tool_call>\n\
        <tool_call>{\"name\":\"stop\",\"arguments\":{}}</tool_call><|im_end|>\n\
        <|im_start|>tool\nsunny<|im_end|>\n<|im_start|>tool\nok<|im_end|>\n<|im_start|>assistant\n";
    let own = template(OWN);
    assert_eq!(own.render(&messages, &tools, true).unwrap(), format!("{told}{said}"));
    // Without tools it is ChatML.
    let plain = [Message::system("be"), Message::user("hello"), Message::assistant("well")];
    let chatml = template(burnish_model::CHATML).render(&plain, &[], true).unwrap();
    assert_eq!(own.render(&plain, &[], true).unwrap(), chatml);
    let both = own.render(&plain, &tools[1..], false).unwrap();
    assert!(both.starts_with("<|im_start|>system\nbe\ntools: stop()<|im_end|>\n<|im_start|>user"), "{both}");
}
