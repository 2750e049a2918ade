//! Detects the format in which a chat template writes calls.

use burnish_core::{FunctionCall, Message, Role, ToolCall, ToolSpec};
use serde_json::{Value, json};

use super::{ALL, Answer, CallFormat, Syntax, list};
use crate::ChatTemplate;

const QUESTION: &str = "probe question";
const THOUGHTS: &str = "probe thoughts";
pub(super) const RESULT: &str = "probe result";
/// Nine letters and digits, as Mistral's templates require.
const ID: &str = "probe0001";

fn tools() -> Vec<ToolSpec> {
    let properties = json!({ "probe_text": { "type": "string" }, "probe_count": { "type": "integer" } });
    vec![ToolSpec {
        name: "probe_tool".into(),
        description: "A probe.".into(),
        parameters: json!({ "type": "object", "properties": properties }),
        more: serde_json::Map::new(),
    }]
}

fn call(id: bool, text_arguments: bool) -> ToolCall {
    let arguments = json!({ "probe_text": "a b", "probe_count": 3 });
    let arguments = match text_arguments {
        true => Value::String(arguments.to_string()),
        false => arguments,
    };
    ToolCall { id: id.then(|| ID.into()), ..call_of("probe_tool", arguments) }
}

/// A call of any tool, with an id.
pub(super) fn call_of(name: &str, arguments: Value) -> ToolCall {
    ToolCall { id: Some(ID.into()), function: FunctionCall { name: name.into(), arguments } }
}

/// A question, a call and its result.
pub(super) fn conversation(call: ToolCall, thoughts: Option<&str>) -> [Message; 3] {
    let result = Message {
        tool_call_id: call.id.clone(),
        name: Some(call.function.name.clone()),
        ..Message::new(Role::Tool, RESULT)
    };
    let asks = Message {
        reasoning_content: thoughts.map(str::to_owned),
        tool_calls: vec![call],
        ..Message::assistant("")
    };
    [Message::user(QUESTION), asks, result]
}

/// [`conversation`] with a call that every template takes which has calls.
pub(crate) fn probe_conversation() -> [Message; 3] {
    conversation(call(true, false), None)
}

/// What the template writes for the call: from the end of the prompt on, if it continues the prompt.
pub(super) struct Written {
    pub(super) text: String,
    in_thoughts: bool,
}

pub(super) fn written(
    template: &ChatTemplate,
    messages: &[Message; 3],
    tools: &[ToolSpec],
) -> Option<Written> {
    let whole = template.render(messages, tools, false).ok()?;
    let prompt = template.render(&messages[..1], tools, true).ok()?;
    if let Some(text) = whole.strip_prefix(&prompt) {
        return Some(Written { text: text.into(), in_thoughts: ends_in_thoughts(&prompt) });
    }
    let at = whole.rfind(QUESTION)? + QUESTION.len();
    Some(Written { text: whole[at..].into(), in_thoughts: false })
}

/// Does a prompt end inside thoughts that it has begun?
pub(crate) fn ends_in_thoughts(prompt: &str) -> bool {
    let prompt = prompt.trim_end();
    prompt.ends_with("<think>") || prompt.ends_with("[THINK]")
}

impl CallFormat {
    /// The format in which `template` writes calls; `None` if it writes none or the format is unknown.
    pub fn of(template: &ChatTemplate) -> Option<Self> {
        let tools = tools();
        let found = [false, true].into_iter().find_map(|text_arguments| {
            let messages = conversation(call(true, text_arguments), None);
            let written = written(template, &messages, &tools)?;
            let syntax = ALL.into_iter().find(|syntax| gives_back(*syntax, &written, &tools))?;
            Some((syntax, text_arguments))
        });
        let Some((syntax, text_arguments)) = found else { return told(template, &tools) };
        let renders = |thoughts| {
            let messages = conversation(call(true, text_arguments), thoughts);
            template.render(&messages, &tools, false).ok()
        };
        let without_id = conversation(call(false, text_arguments), None);
        Some(CallFormat {
            syntax,
            takes_thoughts: renders(Some(THOUGHTS)).is_some_and(|text| text.contains(THOUGHTS)),
            writes_calls: true,
            needs_ids: template.render(&without_id, &tools, false).is_err(),
            text_arguments,
        })
    }
}

/// Does the reader of a format return the call that was written?
fn gives_back(syntax: Syntax, written: &Written, tools: &[ToolSpec]) -> bool {
    let format = CallFormat {
        syntax,
        takes_thoughts: true,
        writes_calls: true,
        needs_ids: false,
        text_arguments: false,
    };
    // Nothing after the result belongs to the call.
    let end = written.text.rfind(RESULT).unwrap_or(written.text.len());
    let Answer { calls, malformed, .. } = format.read(&written.text[..end], written.in_thoughts, tools);
    let given = calls.iter().map(|call| &call.function);
    malformed.is_empty() && given.eq([&call(false, false).function])
}

/// The format that a template only describes to the policy, without writing the calls of messages itself.
fn told(template: &ChatTemplate, tools: &[ToolSpec]) -> Option<CallFormat> {
    let question = [Message::user(QUESTION)];
    let with = template.render(&question, tools, true).ok()?;
    let without = template.render(&question, &[], true).unwrap_or_default();
    let is_told = |tag: &str| with.contains(tag) && !without.contains(tag);
    let syntax = match () {
        () if is_told(list::GRANITE) => Syntax::Granite,
        () if is_told("<function=") => Syntax::Function,
        () if is_told("<arg_key>") => Syntax::Keys,
        () => ALL.into_iter().find(|syntax| matches!(syntax, Syntax::Tagged(tag, _) if is_told(tag)))?,
    };
    Some(CallFormat {
        syntax,
        takes_thoughts: false,
        writes_calls: false,
        needs_ids: false,
        text_arguments: false,
    })
}
