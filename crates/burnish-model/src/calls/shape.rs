//! How a template writes a call of each tool that is offered, so that a sampler can hold answers to calls of these tools.
//! As the format itself, this is found by rendering calls, so spaces and line breaks are the template's own.

use std::ops::Range;

use burnish_core::{ToolSpec, json::text};
use serde_json::{Map, Value, json};

use super::detect::{RESULT, call_of, conversation, written};
use super::typed::{self, Written};
use super::{CallFormat, Syntax, xml};
use crate::ChatTemplate;

/// Arguments that no tool has.
const PROBE: &str = "burnish_probe";

/// How a call of one tool is written: `before`, its arguments, `after`.
#[derive(Debug, Clone, PartialEq)]
pub struct CallShape {
    /// From the beginning of the call, so it begins with one of the format's openings if there are any.
    pub before: String,
    /// Its arguments.
    pub arguments: ArgumentsShape,
    /// To the end of the call.
    pub after: String,
}

/// How arguments are written.
#[derive(Debug, Clone, PartialEq)]
pub enum ArgumentsShape {
    /// As one JSON object that fits this schema.
    Object(Value),
    /// One after the other, in this order.
    Each(Vec<ArgumentShape>),
}

/// How one argument is written: `before`, its value, `after`.
#[derive(Debug, Clone, PartialEq)]
pub struct ArgumentShape {
    /// With its name.
    pub before: String,
    /// Its value.
    pub value: ValueShape,
    /// What ends the value.
    pub after: String,
    /// Can't it be left out?
    pub is_required: bool,
}

/// How the value of an argument is written.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueShape {
    /// As it is, up to the first place where what ends it stands.
    Text,
    /// As one of these texts.
    OneOf(Vec<String>),
    /// As JSON that fits this schema.
    Json(Value),
}

/// Why it is not known how calls are written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// The template writes no calls, or in an unknown format.
    #[error("the chat template writes no tool calls")]
    NoCalls,
    /// The tags of the format are special tokens, which have no bytes.
    #[error("calls in the format `{0}` are marked by special tokens, which no grammar can demand here")]
    SpecialTokens(&'static str),
    /// The template did not write a call as its format says.
    #[error("the chat template does not write a call of `{0}` as it writes calls of other tools")]
    Unlike(String),
}

impl ChatTemplate {
    /// How it writes a call of each tool. In every schema that names `properties` for the arguments, others are ruled out
    /// unless the schema says what they may be.
    ///
    /// # Errors
    /// If it writes no calls, or marks them by special tokens, or writes a call of one of these tools in another way.
    pub fn call_shapes(&self, tools: &[ToolSpec]) -> Result<Vec<CallShape>, ShapeError> {
        let format = self.call_format().ok_or(ShapeError::NoCalls)?;
        if !format.writes_calls {
            return Err(ShapeError::NoCalls);
        }
        let shape = |tool: &ToolSpec| {
            let unlike = || ShapeError::Unlike(tool.name.clone());
            match format.syntax {
                Syntax::Tagged(open, close) => {
                    as_object(self, format, tools, tool, Some((open, close))).ok_or_else(unlike)
                }
                Syntax::Bare => as_object(self, format, tools, tool, None).ok_or_else(unlike),
                Syntax::Function => each(self, format, tools, tool, xml::PARAMETER.0).ok_or_else(unlike),
                Syntax::Keys => each(self, format, tools, tool, xml::KEY.0).ok_or_else(unlike),
                Syntax::Harmony | Syntax::DeepSeek | Syntax::Mistral | Syntax::Granite => {
                    Err(ShapeError::SpecialTokens(format.name()))
                }
            }
        };
        tools.iter().map(shape).collect()
    }
}

/// What the template writes for a call with these arguments, up to its result.
fn rendered(
    template: &ChatTemplate,
    format: &CallFormat,
    tools: &[ToolSpec],
    name: &str,
    arguments: Value,
) -> Option<String> {
    let arguments = match format.text_arguments {
        true => Value::String(text(&arguments).ok()?),
        false => arguments,
    };
    let mut written = written(template, &conversation(call_of(name, arguments), None), tools)?.text;
    written.truncate(written.rfind(RESULT)?);
    Some(written)
}

/// The shape of a call whose arguments are one JSON object, between tags or alone.
fn as_object(
    template: &ChatTemplate,
    format: &CallFormat,
    tools: &[ToolSpec],
    tool: &ToolSpec,
    tags: Option<(&str, &str)>,
) -> Option<CallShape> {
    let text = rendered(template, format, tools, &tool.name, json!({ PROBE: PROBE }))?;
    let probe = format!("\"{PROBE}\"");
    let (first, last) = (text.find(&probe)?, text.rfind(&probe)? + probe.len());
    let arguments = Range { start: text[..first].rfind('{')?, end: last + text[last..].find('}')? + 1 };
    let (open, close) = tags.unwrap_or(("{", "}"));
    let begin = text[..arguments.start].rfind(open)?;
    let end = arguments.end + text[arguments.end..].find(close)? + close.len();
    let before = text[begin..arguments.start].to_owned();
    before.contains(&tool.name).then(|| CallShape {
        before,
        arguments: ArgumentsShape::Object(closed(&tool.parameters)),
        after: text[arguments.end..end].to_owned(),
    })
}

/// The shape of a call whose arguments each have tags, of which the first begins with `tag`.
fn each(
    template: &ChatTemplate,
    format: &CallFormat,
    tools: &[ToolSpec],
    tool: &ToolSpec,
    tag: &str,
) -> Option<CallShape> {
    let key = |number: usize| format!("{PROBE}_key_{number}");
    let value = |number: usize| format!("{PROBE}_value_{number}");
    let arguments: Map<String, Value> = (1..=2).map(|number| (key(number), value(number).into())).collect();
    let text = rendered(template, format, tools, &tool.name, Value::Object(arguments))?;
    let begin = text[..text.find(&key(1))?].rfind(xml::OPEN)?;
    let (head, rest) = text[begin..].split_once(&value(1))?;
    let (between, tail) = rest.split_once(&value(2))?;
    // What ends a value, and what begins the next.
    let (ends, begins) = between.split_at(between.rfind(tag)?);
    let before = head.strip_suffix(begins.replace(&key(2), &key(1)).as_str())?;
    let after = tail.strip_prefix(ends)?;
    let after = &after[..after.find(xml::CLOSE)? + xml::CLOSE.len()];
    let parameters = &tool.parameters;
    let is_required = |name: &str| {
        let required = parameters.get("required").and_then(Value::as_array);
        required.is_some_and(|required| required.iter().any(|other| other.as_str() == Some(name)))
    };
    let properties = parameters.get("properties").and_then(Value::as_object);
    let arguments = properties.into_iter().flatten().map(|(name, schema)| ArgumentShape {
        before: begins.replace(&key(2), name),
        value: match typed::written(schema, parameters) {
            Written::Text => ValueShape::Text,
            Written::OneOf(texts) => ValueShape::OneOf(texts),
            Written::Json => ValueShape::Json(with_definitions(schema, parameters)),
        },
        after: ends.to_owned(),
        is_required: is_required(name),
    });
    before.contains(&tool.name).then(|| CallShape {
        before: before.to_owned(),
        arguments: ArgumentsShape::Each(arguments.collect()),
        after: after.to_owned(),
    })
}

/// A schema of arguments which rules out arguments that it does not name, unless it says what they may be.
fn closed(parameters: &Value) -> Value {
    let mut schema = match parameters {
        Value::Object(schema) => schema.clone(),
        // A tool without a schema takes any arguments.
        _ => Map::new(),
    };
    schema.entry("type").or_insert_with(|| "object".into());
    if schema.contains_key("properties") {
        schema.entry("additionalProperties").or_insert(Value::Bool(false));
    }
    Value::Object(schema)
}

/// A schema within `root`, with the definitions that it may refer to.
fn with_definitions(schema: &Value, root: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(schema) = schema.as_object_mut() {
        for key in ["$defs", "definitions"] {
            if let Some(definitions) = root.get(key) {
                schema.entry(key).or_insert_with(|| definitions.clone());
            }
        }
    }
    schema
}
