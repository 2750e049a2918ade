//! The protocol: what is asked, and how answers are read.

use std::collections::BTreeMap;

use burnish_core::{Message, Repeating, Role, TaskId, ToolSpec, json};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::redesign::Knob;
use crate::{Question, Step};

/// Version of requests and answers. It grows when a field changes its meaning.
pub(super) const PROTOCOL: u32 = 1;

/// Characters shown of a line that is refused.
const SHOWN: usize = 200;

/// A request to a process.
#[derive(Debug, Serialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(super) enum Request<'a> {
    /// The first one: who speaks, and how the environment is configured.
    Hello { protocol: u32, settings: &'a Map<String, Value> },
    /// Make a task.
    Task(Which),
    /// Show a correct episode.
    Demonstrate { task: Posed<'a> },
    /// Begin an episode.
    Reset { task: Posed<'a>, seed: u32 },
    /// Take the policy's message.
    Step { message: &'a Message },
    /// Take the answer of somebody who was asked.
    Hear { message: &'a Message },
    /// Run a tool.
    Call { name: &'a str, arguments: &'a Value, key: &'a str },
    /// Judge the episode.
    Verify,
    /// The episode is over.
    Close,
    /// Play an episode with the policy that `base_url` serves.
    Run { task: Posed<'a>, seed: u32, base_url: &'a str, api_key: &'a str, model: &'a str },
}

impl Request<'_> {
    /// The name by which it is asked.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Request::Hello { .. } => "hello",
            Request::Task(_) => "task",
            Request::Demonstrate { .. } => "demonstrate",
            Request::Reset { .. } => "reset",
            Request::Step { .. } => "step",
            Request::Hear { .. } => "hear",
            Request::Call { .. } => "call",
            Request::Verify => "verify",
            Request::Close => "close",
            Request::Run { .. } => "run",
        }
    }
}

/// The task that is to be made. Seeds have 32 bits, which every language and library takes.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Which {
    /// One that follows from this seed alone.
    Seed(u32),
    /// One of the finitely many that the environment has.
    Index(usize),
}

/// A task, as it is given back to the environment.
#[derive(Debug, Serialize)]
pub(super) struct Posed<'a> {
    pub(super) id: &'a TaskId,
    pub(super) prompt: &'a [Message],
    pub(super) data: &'a Value,
    pub(super) labels: &'a BTreeMap<String, String>,
}

#[derive(Serialize)]
struct Line<'a> {
    id: u64,
    #[serde(flatten)]
    request: &'a Request<'a>,
}

/// The line of a request.
///
/// # Errors
/// If it can't be written as JSON.
pub(super) fn line(id: u64, request: &Request<'_>) -> Result<String, String> {
    json::text(&Line { id, request }).map_err(|error| error.to_string())
}

/// What a process says about the environment.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Hello {
    #[serde(rename = "protocol")]
    _protocol: u32,
    /// What it means to repeat a step.
    #[serde(default)]
    pub(super) repeating: Repeating,
    /// The number of tasks; `None` if every seed gives one.
    #[serde(default)]
    pub(super) tasks: Option<usize>,
    #[serde(default)]
    pub(super) tools: Vec<Tool>,
    /// Are its tasks a test set?
    #[serde(default)]
    pub(super) evaluation_only: bool,
    /// Does it know correct episodes?
    #[serde(default)]
    pub(super) demonstrates: bool,
    /// The keys of its settings that may be redesigned.
    #[serde(default)]
    pub(super) redesign: Vec<Knob>,
}

/// A tool, and what it means to repeat a call of it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Tool {
    /// `None` if an answer that calls it is a step.
    #[serde(default = "rebuilt")]
    pub(super) repeating: Option<Repeating>,
    #[serde(flatten)]
    pub(super) spec: ToolSpec,
}

#[allow(clippy::unnecessary_wraps, reason = "it is the default of a field")]
fn rebuilt() -> Option<Repeating> {
    Some(Repeating::Rebuilt)
}

/// A task that was made.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) name: Option<String>,
    pub(super) prompt: Vec<Message>,
    pub(super) data: Value,
    pub(super) labels: BTreeMap<String, String>,
}

/// An answer without its id: the fields that say something.
pub(super) type Fields = Map<String, Value>;

/// The answer to request `id` on a line. `Ok(Err)` is an answer that says why there is none.
///
/// # Errors
/// If the line is no answer to this request.
pub(super) fn answer(text: &str, id: u64) -> Result<Result<Fields, String>, String> {
    let refused = |what: &str| format!("wrote a line that {what}: {}", shortened(text));
    let parsed =
        json::parse(text).map_err(|error| match text.contains("NaN") || text.contains("Infinity") {
            true => refused("has a number that is not finite, which JSON does not know"),
            false => refused(&format!("is not JSON ({error}); only answers may go to stdout")),
        })?;
    let Value::Object(mut fields) = parsed else { return Err(refused("is not a JSON object")) };
    match fields.remove("id") {
        Some(given) if given.as_u64() == Some(id) => {}
        Some(given) => return Err(refused(&format!("answers request {given}, not {id}"))),
        None => return Err(refused("has no `id`")),
    }
    Ok(match fields.remove("error") {
        None | Some(Value::Null) => Ok(fields),
        Some(Value::String(error)) => Err(error),
        Some(error) => Err(error.to_string()),
    })
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Reads the fields of an answer.
fn read<T: DeserializeOwned>(fields: Fields, what: &str) -> Result<T, String> {
    serde_json::from_value(Value::Object(fields)).map_err(|error| format!("its answer to `{what}`: {error}"))
}

/// Reads what a process says about the environment.
///
/// # Errors
/// What is wrong: another version, a field, a tool.
pub(super) fn hello(fields: Fields) -> Result<Hello, String> {
    match fields.get("protocol").and_then(Value::as_u64) {
        Some(spoken) if spoken == u64::from(PROTOCOL) => {}
        Some(spoken) => {
            return Err(format!(
                "speaks version {spoken} of the protocol, and this burnish speaks {PROTOCOL}: take the helper \
                 `environment.py` of the burnish that asks"
            ));
        }
        None => return Err("its answer to `hello` does not say the version, `\"protocol\": 1`".to_owned()),
    }
    let hello: Hello = read(fields, "hello")?;
    if hello.repeating == Repeating::Repeatable {
        return Err("its answer to `hello`: steps follow from those before, so `repeating` is `rebuilt` or `outside`; \
             only tools can be `repeatable`"
            .to_owned());
    }
    if hello.tasks == Some(0) {
        return Err("its answer to `hello`: it has 0 `tasks`".to_owned());
    }
    if let Some(problem) = hello.redesign.iter().find_map(Knob::problem) {
        return Err(format!("its answer to `hello`: `redesign`: {problem}"));
    }
    for (at, tool) in hello.tools.iter().enumerate() {
        let name = &tool.spec.name;
        if name.is_empty() || hello.tools[..at].iter().any(|other| other.spec.name == *name) {
            return Err(format!("its answer to `hello`: the name of tool {at}, `{name}`, is empty or taken"));
        }
    }
    // An answer is a step or runs tools, as a whole.
    let is_step = |tool: &&Tool| tool.repeating.is_none();
    if let Some(tool) = hello.tools.iter().find(is_step)
        && !hello.tools.iter().all(|tool| is_step(&tool))
    {
        return Err(format!(
            "its answer to `hello`: calls of `{}` are steps (`\"repeating\": null`), so those of all tools must be",
            tool.spec.name
        ));
    }
    Ok(hello)
}

/// Reads a task.
///
/// # Errors
/// What is wrong with which field.
pub(super) fn task(fields: Fields) -> Result<Made, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Written {
        #[serde(default)]
        name: Option<String>,
        prompt: Value,
        #[serde(default)]
        data: Value,
        #[serde(default)]
        labels: BTreeMap<String, Value>,
    }
    let Written { name, prompt, data, labels } = read(fields, "task")?;
    let prompt = messages(prompt, "task", "prompt")?;
    if prompt.is_empty() {
        return Err("its answer to `task`: `prompt` has no message".to_owned());
    }
    let label = |value: Value| value.as_str().map_or_else(|| json::line(&value), str::to_owned);
    let labels = labels.into_iter().map(|(name, value)| (name, label(value))).collect();
    Ok(Made { name, prompt, data, labels })
}

/// Reads the messages that open an episode; `None` if those of the task do.
///
/// # Errors
/// What is wrong with them.
pub(super) fn opening(fields: Fields) -> Result<Option<Vec<Message>>, String> {
    only_messages(fields, "reset")
}

/// Reads a correct episode without its opening: answers, and what the environment says in between.
///
/// # Errors
/// What is wrong with it.
pub(super) fn demonstration(fields: Fields) -> Result<Option<Vec<Message>>, String> {
    let messages = only_messages(fields, "demonstrate")?;
    let ends = messages.as_ref().is_none_or(|messages| {
        let is_answer = |message: Option<&Message>| message.is_some_and(|it| it.role == Role::Assistant);
        is_answer(messages.first()) && is_answer(messages.last())
    });
    match ends {
        true => Ok(messages),
        false => Err("its answer to `demonstrate`: `messages` must begin and end with an answer".to_owned()),
    }
}

fn only_messages(fields: Fields, what: &str) -> Result<Option<Vec<Message>>, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Written {
        #[serde(default)]
        messages: Option<Value>,
    }
    let Written { messages: written } = read(fields, what)?;
    let messages = written.map(|written| messages(written, what, "messages")).transpose()?;
    Ok(messages.filter(|messages| !messages.is_empty()))
}

/// Reads the result of a step or of an answer that was heard.
///
/// # Errors
/// What is wrong with which field.
pub(super) fn step(fields: Fields, what: &str) -> Result<Step, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Written {
        #[serde(default)]
        messages: Option<Value>,
        #[serde(default)]
        done: bool,
        #[serde(default)]
        ask: Option<Asked>,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Asked {
        who: String,
        messages: Value,
    }
    let refused = |problem: &str| Err(format!("its answer to `{what}`: {problem}"));
    let Written { messages: written, done, ask } = read(fields, what)?;
    match (done, ask, written) {
        (true, Some(_), _) | (_, Some(_), Some(_)) => refused("`ask` stands alone"),
        (true, None, _) => Ok(Step::Done),
        (false, Some(Asked { who, messages: asked }), None) => Ok(Step::Ask(Question {
            who,
            messages: messages(asked, what, "ask.messages")?,
            is_for_verdict: false,
        })),
        (false, None, None) => {
            refused("needs `messages` for the policy, `\"done\": true`, or `ask` for somebody else")
        }
        (false, None, Some(written)) => match messages(written, what, "messages")? {
            said if said.is_empty() => refused("`messages` has no message, and it is not `done`"),
            said if said.iter().any(|message| message.role == Role::Assistant) => refused(
                "`messages` speaks for the policy: what the environment says has the role `user` or `tool`",
            ),
            said => Ok(Step::Continue(said)),
        },
    }
}

/// Reads the result of a tool.
///
/// # Errors
/// If there is none.
pub(super) fn result(mut fields: Fields) -> Result<String, String> {
    match fields.remove("result") {
        Some(Value::String(text)) => Ok(text),
        Some(Value::Null) | None => Err("its answer to `call` has no `result`".to_owned()),
        Some(other) => json::text(&other).map_err(|error| error.to_string()),
    }
}

/// Reads messages, or a text that a user says.
fn messages(written: Value, what: &str, key: &str) -> Result<Vec<Message>, String> {
    match written {
        Value::String(text) => Ok(vec![Message::user(text)]),
        Value::Array(items) => {
            let read = |(at, item)| {
                serde_json::from_value(item)
                    .map_err(|error| format!("its answer to `{what}`: `{key}`[{at}]: {error}"))
            };
            items.into_iter().enumerate().map(read).collect()
        }
        other => Err(format!(
            "its answer to `{what}`: `{key}` must be a text or a list of messages, not {}",
            shortened(&other.to_string())
        )),
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
