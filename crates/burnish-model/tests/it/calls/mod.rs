//! Tool calls: read from answers as templates write them, reported if malformed, kept in the trace.

mod answers;
mod data;
mod golden;
mod malformed;
mod properties;
mod templates;
mod traces;

use burnish_core::{FunctionCall, ToolCall, ToolSpec};
use serde_json::{Map, Value, json};

/// A tool whose arguments have these schemas.
fn tool(name: &str, properties: Value) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: "A tool.".into(),
        parameters: json!({ "type": "object", "properties": properties }),
        more: Map::new(),
    }
}

fn call(name: &str, arguments: Value) -> ToolCall {
    ToolCall { id: None, function: FunctionCall { name: name.into(), arguments } }
}

fn functions(calls: &[ToolCall]) -> Vec<&FunctionCall> {
    calls.iter().map(|call| &call.function).collect()
}
