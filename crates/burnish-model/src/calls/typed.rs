//! Values that are written without quotes, so that their types come from the tool's schema.

use burnish_core::ToolSpec;
use serde_json::Value;

use super::json::{kind, shown, whole};

/// Depth to which schemas are followed, since a schema may refer to itself.
const DEPTH_MAX: usize = 8;

/// The types that a schema allows for a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Types {
    text: bool,
    number: bool,
    boolean: bool,
    null: bool,
    list: bool,
    object: bool,
    /// The schema gives no type, or one that is unknown.
    any: bool,
}

impl Types {
    fn name(&mut self, name: &str) {
        match name {
            "string" | "str" => self.text = true,
            "number" | "integer" | "float" | "int" | "double" => self.number = true,
            "boolean" | "bool" => self.boolean = true,
            "null" => self.null = true,
            "array" | "list" | "tuple" => self.list = true,
            "object" | "dict" => self.object = true,
            _ => self.any = true,
        }
    }

    fn of_value(&mut self, value: &Value) {
        match value {
            Value::Null => self.null = true,
            Value::Bool(_) => self.boolean = true,
            Value::Number(_) => self.number = true,
            Value::String(_) => self.text = true,
            Value::Array(_) => self.list = true,
            Value::Object(_) => self.object = true,
        }
    }

    fn allow(self, value: &Value) -> bool {
        let mut own = Types::default();
        own.of_value(value);
        [
            (own.text, self.text),
            (own.number, self.number),
            (own.boolean, self.boolean),
            (own.null, self.null),
            (own.list, self.list),
            (own.object, self.object),
        ]
        .into_iter()
        .any(|(is, may)| is && may)
    }

    fn read(&mut self, schema: &Value, root: &Value, depth: usize) {
        let Some(schema) = schema.as_object().filter(|_| depth < DEPTH_MAX) else {
            self.any = true;
            return;
        };
        let mut is_said = false;
        match schema.get("type") {
            Some(Value::String(name)) => {
                self.name(name);
                is_said = true;
            }
            Some(Value::Array(names)) => {
                names.iter().filter_map(Value::as_str).for_each(|name| self.name(name));
                is_said = true;
            }
            _ => {}
        }
        if !is_said {
            let constants = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
            for constant in constants.chain(schema.get("const")) {
                self.of_value(constant);
                is_said = true;
            }
        }
        let target = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix('#'));
        if let Some(target) = target.and_then(|path| root.pointer(path)) {
            self.read(target, root, depth + 1);
            is_said = true;
        }
        if !is_said {
            let lists = ["anyOf", "oneOf", "allOf"].iter().filter_map(|key| schema.get(*key)?.as_array());
            for part in lists.flatten() {
                self.read(part, root, depth + 1);
                is_said = true;
            }
        }
        if schema.get("nullable") == Some(&Value::Bool(true)) {
            self.null = true;
        }
        self.any |= !is_said;
    }
}

/// How a value is written where its type comes from the schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Written {
    /// As it is: it may be a text.
    Text,
    /// As it is, and it is one of these texts.
    OneOf(Vec<String>),
    /// As JSON.
    Json,
}

/// How values of this schema are written, which stands within `root`.
pub(super) fn written(schema: &Value, root: &Value) -> Written {
    let constants: Option<Vec<&Value>> = match (schema.get("enum"), schema.get("const")) {
        (Some(constants), _) => constants.as_array().map(|constants| constants.iter().collect()),
        (None, constant) => constant.map(|constant| vec![constant]),
    };
    let texts = constants.filter(|constants| !constants.is_empty());
    let texts =
        texts.and_then(|constants| constants.into_iter().map(Value::as_str).collect::<Option<Vec<_>>>());
    if let Some(texts) = texts {
        return Written::OneOf(texts.into_iter().map(str::to_owned).collect());
    }
    let mut types = Types::default();
    types.read(schema, root, 0);
    match types.text || types.any {
        true => Written::Text,
        false => Written::Json,
    }
}

/// The schema of the arguments of the tool with this name.
pub(super) fn parameters<'a>(tools: &'a [ToolSpec], name: &str) -> Option<&'a Value> {
    tools.iter().find(|tool| tool.name == name).map(|tool| &tool.parameters)
}

/// The value of the argument `key`, which is written as `text`. `python`: `True`, `False` and `None` are values too.
pub(super) fn value(
    text: &str,
    key: &str,
    parameters: Option<&Value>,
    python: bool,
) -> Result<Value, String> {
    let mut types = Types::default();
    let root = parameters.unwrap_or(&Value::Null);
    match root.get("properties").and_then(|properties| properties.get(key)) {
        Some(schema) => types.read(schema, root, 0),
        None => types.any = true,
    }
    let constant = match text.trim() {
        "True" if python => Some(Value::Bool(true)),
        "False" if python => Some(Value::Bool(false)),
        "None" if python => Some(Value::Null),
        _ => None,
    };
    let parsed = match constant {
        Some(value) => Ok(value),
        None => whole(text.trim()),
    };
    match parsed {
        // Texts are written without quotes. A quoted text therefore includes its quotes, if the value may be a text at
        // all.
        Ok(Value::String(quoted)) => match types.text || types.any {
            true => Ok(Value::String(text.to_owned())),
            false => Ok(Value::String(quoted)),
        },
        Ok(value) if types.any || !types.text || types.allow(&value) => Ok(value),
        Err(problem) if !types.any && !types.text => {
            let what = format!("the value of `{key}`, {}, is not JSON: {problem}", shown(text));
            Err(match parsed_type(types) {
                Some(wanted) => format!("{what}; it must be {wanted}"),
                None => what,
            })
        }
        _ => Ok(Value::String(text.to_owned())),
    }
}

/// The one type that a value must have, if there is only one.
fn parsed_type(types: Types) -> Option<&'static str> {
    let samples = [
        (types.number, Value::from(0)),
        (types.boolean, Value::Bool(true)),
        (types.list, Value::Array(Vec::new())),
        (types.object, Value::Object(serde_json::Map::new())),
    ];
    let mut wanted = samples.iter().filter(|(may, _)| *may).map(|(_, sample)| kind(sample));
    let first = wanted.next()?;
    wanted.next().is_none().then_some(first)
}
