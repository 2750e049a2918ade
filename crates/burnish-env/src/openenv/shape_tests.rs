#![allow(clippy::unwrap_used, reason = "tests")]

use burnish_core::{FunctionCall, Message, Role, ToolCall};
use serde_json::{Map, Value, json};

use super::config::Config;
use super::shape::{Act, Shape, Type, is_of_tools, shown, shown_result, tools};

fn config(changes: Value) -> Config {
    crate::settings::read(&changes).unwrap()
}

/// A schema as pydantic writes it.
fn schema(properties: Value, required: &[&str]) -> Value {
    let mut properties = properties;
    properties["metadata"] = json!({"type": "object", "additionalProperties": true});
    json!({"title": "Move", "description": "A move.", "type": "object", "additionalProperties": false,
        "properties": properties, "required": required})
}

fn call(name: &str, arguments: Value) -> Message {
    let call = ToolCall { id: Some("c1".into()), function: FunctionCall { name: name.into(), arguments } };
    Message { tool_calls: vec![call], ..Message::assistant("") }
}

#[test]
fn the_only_field_is_filled_by_the_answer() {
    let text = schema(json!({"message": {"type": "string"}}), &["message"]);
    let shape = Shape::of_schema(&text, &Config::default()).unwrap();
    assert_eq!(shape, Shape::Text("message".into(), Type::Text));
    let acts = shape.acts(&Message::assistant(" 5 "), &Map::new());
    assert_eq!(acts, [Act::Take(Map::from_iter([("message".into(), json!(" 5 "))]), None)]);
    for kind in ["integer", "number", "boolean"] {
        let number = schema(json!({"action_id": {"anyOf": [{"type": kind}, {"type": "null"}]}}), &[]);
        let shape = Shape::of_schema(&number, &Config::default()).unwrap();
        assert_eq!(shape, Shape::Text("action_id".into(), Type::Json));
        let acts = shape.acts(&Message::assistant(" 5\n"), &Map::new());
        assert_eq!(acts, [Act::Take(Map::from_iter([("action_id".into(), json!(5))]), None)]);
        let acts = shape.acts(&Message::assistant("left"), &Map::new());
        assert!(matches!(&acts[..], [Act::Say(said)] if said.content.contains("`action_id` must be")));
    }
    let level = schema(json!({"level": {"enum": ["low", "high"]}}), &["level"]);
    assert_eq!(
        Shape::of_schema(&level, &Config::default()).unwrap(),
        Shape::Text("level".into(), Type::Text)
    );
}

#[test]
fn fields_that_need_not_be_there_are_left_out() {
    let fields = json!({"code": {"type": "string"}, "timeout": {"type": "number"}});
    let shape = Shape::of_schema(&schema(fields.clone(), &["code"]), &Config::default()).unwrap();
    assert_eq!(shape, Shape::Text("code".into(), Type::Text));
    let named = config(json!({"answer": "timeout", "action": {"code": "x"}}));
    let shape = Shape::of_schema(&schema(fields, &["code"]), &named).unwrap();
    assert_eq!(shape, Shape::Text("timeout".into(), Type::Json));
    let acts = shape.acts(&Message::assistant("0.5"), &named.action);
    let taken = Map::from_iter([("code".into(), json!("x")), ("timeout".into(), json!(0.5))]);
    assert_eq!(acts, [Act::Take(taken, None)]);
}

#[test]
fn several_fields_are_the_arguments_of_a_tool() {
    let fields =
        json!({"row": {"type": "integer"}, "column": {"type": "integer"}, "game": {"type": "string"}});
    let config = config(json!({"action": {"game": "go"}}));
    let shape = Shape::of_schema(&schema(fields, &["row", "column", "game"]), &config).unwrap();
    let [tool] = shape.tools() else { unreachable!() };
    assert_eq!((tool.name.as_str(), tool.description.as_str()), ("act", "A move."));
    assert_eq!(tool.parameters["required"], json!(["row", "column"]));
    let names: Vec<&String> = tool.parameters["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["row", "column"]);
    let act = call("act", json!({"row": 1, "column": 2}));
    let taken =
        Map::from_iter([("game".into(), json!("go")), ("row".into(), json!(1)), ("column".into(), json!(2))]);
    let acts = shape.acts(&act, &config.action);
    assert_eq!(acts, [Act::Take(taken, Some(act.tool_calls[0].clone()))]);
    let wrong = shape.acts(&call("act", json!({"row": "one"})), &config.action);
    assert!(
        matches!(&wrong[..], [Act::Say(said)] if said.role == Role::Tool && said.content.contains("`column` is missing")),
        "{wrong:?}"
    );
    assert_eq!(shape.acts(&Message::assistant("I give up."), &config.action), []);
}

#[test]
fn what_does_not_fit_the_schema_is_named() {
    let wrong = |fields: Value, required: &[&str], changes: Value| {
        Shape::of_schema(&schema(fields, required), &config(changes)).unwrap_err()
    };
    let text = json!({"message": {"type": "string"}});
    assert_eq!(
        wrong(text.clone(), &["message"], json!({"answer": "text"})),
        "its actions have no field `text`, only `message`"
    );
    assert!(wrong(text.clone(), &["message"], json!({"action": {"x": 1}})).contains("no field `x`"));
    assert!(
        wrong(text, &["message"], json!({"action": {"message": "x"}})).contains("no field that an answer")
    );
    let list = json!({"moves": {"type": "array"}});
    assert!(wrong(list, &["moves"], json!({"answer": "moves"})).contains("neither a text nor a number"));
}

#[test]
fn tools_are_called_as_the_server_wants_it() {
    let of_calls = schema(
        json!({"type": {"const": "call_tool"}, "tool_name": {"type": "string"}, "arguments": {"type": "object"}}),
        &["tool_name"],
    );
    assert!(is_of_tools(&of_calls) && is_of_tools(&schema(json!({}), &[])));
    assert!(!is_of_tools(&schema(json!({"message": {"type": "string"}}), &[])));
    let parameters = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]});
    for key in ["input_schema", "inputSchema"] {
        let listed =
            tools(&json!({"tools": [{"name": "add", "description": "Adds.", key: parameters}]})).unwrap();
        assert_eq!(listed[0].parameters, parameters);
        let shape = Shape::Tools(listed);
        let add = call("add", json!("{\"a\": 1}"));
        let acts = shape.acts(&add, &Map::new());
        let [Act::Take(fields, Some(_))] = &acts[..] else { unreachable!("{acts:?}") };
        let whole = json!({"type": "call_tool", "tool_name": "add", "arguments": {"a": 1}});
        assert_eq!(&Value::Object(fields.clone()), &whole);
        let acts = shape.acts(&call("ad", json!({})), &Map::new());
        assert!(matches!(&acts[..], [Act::Say(said)] if said.content.contains("did you mean `add`")));
    }
    for listed in [json!({}), json!({"tools": []}), json!({"tools": [{"description": "x"}]})] {
        assert!(tools(&listed).is_err());
    }
}

#[test]
fn observations_are_read_by_their_path() {
    let observation = json!({"board": ["x", {"o": "text"}], "n": 1});
    assert_eq!(shown(&observation, "board.1.o").unwrap(), "text");
    assert_eq!(shown(&observation, "n").unwrap(), "1");
    assert_eq!(shown(&observation, "").unwrap(), observation.to_string());
    assert!(shown(&observation, "board.2").unwrap_err().contains("no `board.2`"));
    let result = |observation: Value| shown_result(&observation);
    assert_eq!(
        result(json!({"result": {"content": [{"type": "text", "text": "a"}, {"text": "b"}]}})),
        "a\nb"
    );
    assert_eq!(result(json!({"result": "a", "error": null})), "a");
    assert_eq!(result(json!({"result": {"x": 1}})), "{\"x\":1}");
    assert_eq!(result(json!({"result": null, "error": {"message": "no"}})), "no");
}
