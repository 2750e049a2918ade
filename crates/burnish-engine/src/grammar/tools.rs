//! The language of answers that call tools, in the notation of `llguidance`, which is Lark's.

use std::fmt::Write;

use burnish_model::{ArgumentsShape, CallShape, ValueShape};
use serde_json::Value;

/// Any text.
const ANY: &str = r"/(.|\n)*/";

/// Answers in which every call has one of these shapes. `opening` begins a call wherever it stands; without one, an answer
/// is one call or begins with something else.
pub(super) fn language(shapes: &[CallShape], opening: Option<&str>) -> String {
    let mut lark = Lark::default();
    let calls: Vec<String> = (0..shapes.len()).map(|number| format!("call_{number}")).collect();
    match opening {
        Some(opening) => {
            let opening = literal(opening);
            lark.rule("start", "(begin call)* REST");
            lark.rule("begin[lazy]", &format!("{ANY} {opening}"));
            lark.rule("REST", &format!("{ANY} & ~({ANY} {opening} {ANY})"));
        }
        None => {
            lark.rule("start", "call | REST");
            lark.rule("REST", r"/(\s*[^{\s](.|\n)*)?/");
        }
    }
    lark.rule("call", &calls.join(" | "));
    for (number, shape) in shapes.iter().enumerate() {
        let before = shape.before.strip_prefix(opening.unwrap_or_default()).unwrap_or(&shape.before);
        let mut parts = vec![literal(before)];
        match &shape.arguments {
            ArgumentsShape::Object(schema) => parts.push(json(schema)),
            ArgumentsShape::Each(arguments) => {
                for (place, argument) in arguments.iter().enumerate() {
                    let name = format!("argument_{number}_{place}");
                    let value = lark.value(&name, &argument.value, &argument.after);
                    let written = format!("{} {value}", literal(&argument.before));
                    parts.push(match argument.is_required {
                        true => written,
                        false => format!("({written})?"),
                    });
                }
            }
        }
        parts.push(literal(&shape.after));
        let name = format!("call_{number}");
        lark.rule(&name, &parts.join(" "));
    }
    lark.text
}

/// Rules that have been written.
#[derive(Default)]
struct Lark {
    text: String,
}

impl Lark {
    fn rule(&mut self, name: &str, body: &str) {
        // Writing to a string can't fail.
        let _ = writeln!(self.text, "{name}: {body}");
    }

    /// What stands for a value and `after`, which ends it.
    fn value(&mut self, name: &str, value: &ValueShape, after: &str) -> String {
        let after = literal(after);
        match value {
            ValueShape::Text => {
                self.rule(&format!("{name}[lazy]"), &format!("{ANY} {after}"));
                name.to_owned()
            }
            ValueShape::OneOf(texts) => {
                let texts: Vec<String> = texts.iter().map(|text| literal(text)).collect();
                format!("({}) {after}", texts.join(" | "))
            }
            ValueShape::Json(schema) => format!("{} {after}", json(schema)),
        }
    }
}

/// A text as a literal. Lark escapes as JSON does.
fn literal(text: &str) -> String {
    Value::from(text).to_string()
}

fn json(schema: &Value) -> String {
    format!("%json {}", super::spaced(schema))
}
