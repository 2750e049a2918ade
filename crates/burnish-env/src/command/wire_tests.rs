use super::*;
use serde_json::json;

fn fields(value: Value) -> Fields {
    value.as_object().unwrap().clone()
}

#[test]
fn requests_are_lines_with_their_name_under_do() {
    let settings = Map::new();
    let hello = Request::Hello { protocol: PROTOCOL, settings: &settings };
    assert_eq!(line(1, &hello).unwrap(), r#"{"id":1,"do":"hello","protocol":1,"settings":{}}"#);
    assert_eq!(line(2, &Request::Task(Which::Seed(7))).unwrap(), r#"{"id":2,"do":"task","seed":7}"#);
    assert_eq!(line(3, &Request::Task(Which::Index(0))).unwrap(), r#"{"id":3,"do":"task","index":0}"#);
    assert_eq!(line(4, &Request::Verify).unwrap(), r#"{"id":4,"do":"verify"}"#);
    let message = Message::assistant("a\nb");
    let step = line(5, &Request::Step { message: &message }).unwrap();
    assert_eq!(step, r#"{"id":5,"do":"step","message":{"role":"assistant","content":"a\nb"}}"#);
    for request in [hello, Request::Verify, Request::Close, Request::Hear { message: &message }] {
        let written: Value = serde_json::from_str(&line(1, &request).unwrap()).unwrap();
        assert_eq!(written["do"], request.name());
    }
}

#[test]
fn an_answer_belongs_to_its_request_or_says_why_there_is_none() {
    assert_eq!(answer(r#"{"id": 3, "done": true}"#, 3), Ok(Ok(fields(json!({"done": true})))));
    assert_eq!(answer(r#"{"id": 3, "error": "no"}"#, 3), Ok(Err("no".to_owned())));
    assert_eq!(answer(r#"{"id": 3, "error": null}"#, 3), Ok(Ok(Map::new())));
    let refuse = |text: &str, expected: &str| {
        let error = answer(text, 3).unwrap_err();
        assert!(error.contains(expected), "{error}");
    };
    refuse("hello", "is not JSON");
    refuse("hello", "only answers may go to stdout");
    refuse(r#"{"id": 3, "reward": NaN}"#, "not finite");
    refuse("[]", "is not a JSON object");
    refuse("{}", "has no `id`");
    refuse(r#"{"id": 2}"#, "answers request 2, not 3");
    assert!(answer(&"é".repeat(500), 3).unwrap_err().ends_with("é..."));
}

#[test]
fn a_hello_says_its_version_first() {
    let refuse = |value: Value, expected: &str| {
        let error = hello(fields(value)).unwrap_err();
        assert!(error.contains(expected), "{error}");
    };
    refuse(
        json!({"protocol": 2, "unknown": 1}),
        "speaks version 2 of the protocol, and this burnish speaks 1",
    );
    refuse(json!({}), "does not say the version");
    refuse(json!({"protocol": 1, "tolls": []}), "unknown field `tolls`");
    refuse(json!({"protocol": 1, "repeating": "repeatable"}), "`rebuilt` or `outside`");
    refuse(json!({"protocol": 1, "tasks": 0}), "0 `tasks`");
    let tool = json!({"name": "look", "description": "looks", "parameters": {"type": "object"}});
    refuse(json!({"protocol": 1, "tools": [tool, tool]}), "`look`, is empty or taken");
    refuse(
        json!({"protocol": 1, "redesign": [{"key": "width", "min": 3, "max": 2, "menu": [3]}]}),
        "`redesign`: `width`: `min` must not exceed",
    );
    let said = hello(fields(json!({"protocol": 1, "tools": [tool], "tasks": 3}))).unwrap();
    assert_eq!((said.repeating, said.tasks, said.demonstrates), (Repeating::Rebuilt, Some(3), false));
    assert_eq!((said.tools[0].repeating, said.tools[0].spec.more.len()), (Some(Repeating::Rebuilt), 0));
    let mut tool = tool;
    tool["repeating"] = json!("outside");
    let said = hello(fields(json!({"protocol": 1, "tools": [tool]}))).unwrap();
    assert_eq!((said.tools[0].repeating, said.tools[0].spec.more.len()), (Some(Repeating::Outside), 0));
    tool["repeating"] = Value::Null;
    let said = hello(fields(json!({"protocol": 1, "tools": [tool], "evaluation_only": true}))).unwrap();
    assert_eq!((said.tools[0].repeating, said.evaluation_only), (None, true));
    let run = json!({"name": "run", "description": "runs", "parameters": {"type": "object"}});
    refuse(json!({"protocol": 1, "tools": [run, tool]}), "calls of `look` are steps");
}

#[test]
fn a_step_continues_asks_or_is_the_last() {
    let read = |value: Value| step(fields(value), "step");
    assert_eq!(read(json!({"messages": "go on"})), Ok(Step::Continue(vec![Message::user("go on")])));
    assert_eq!(read(json!({"done": true})), Ok(Step::Done));
    assert_eq!(read(json!({"done": true, "messages": "won"})), Ok(Step::Done));
    let question =
        Question { who: "user".into(), messages: vec![Message::user("what?")], is_for_verdict: false };
    assert_eq!(read(json!({"ask": {"who": "user", "messages": "what?"}})), Ok(Step::Ask(question)));
    for (value, expected) in [
        (json!({}), "needs `messages`"),
        (json!({"messages": []}), "has no message"),
        (json!({"mesages": "x"}), "unknown field `mesages`"),
        (json!({"messages": 3}), "must be a text or a list of messages, not 3"),
        (json!({"messages": [{"role": "robot"}]}), "`messages`[0]: unknown variant `robot`"),
        (json!({"messages": [{"role": "assistant", "content": "I"}]}), "speaks for the policy"),
        (json!({"done": true, "ask": {"who": "user", "messages": "x"}}), "`ask` stands alone"),
        (json!({"done": "yes"}), "invalid type"),
    ] {
        let error = read(value).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_task_has_a_prompt_and_labels_that_are_texts() {
    let made =
        task(fields(json!({"prompt": "2 + 2", "data": 4, "labels": {"size": 2, "kind": "sum"}}))).unwrap();
    assert_eq!((made.prompt, made.data), (vec![Message::user("2 + 2")], json!(4)));
    assert_eq!(made.labels, BTreeMap::from([("kind".into(), "sum".into()), ("size".into(), "2".into())]));
    assert!(task(fields(json!({"data": 4}))).unwrap_err().contains("missing field `prompt`"));
    assert!(task(fields(json!({"prompt": []}))).unwrap_err().contains("has no message"));
}

#[test]
fn a_demonstration_begins_and_ends_with_an_answer() {
    let answer = json!({"role": "assistant", "content": "look"});
    let said = json!({"role": "user", "content": "a room"});
    let read = |messages: Value| demonstration(fields(json!({"messages": messages})));
    assert_eq!(read(json!([answer, said, answer])).unwrap().unwrap().len(), 3);
    assert_eq!(read(Value::Null), Ok(None));
    assert!(read(json!([answer, said])).unwrap_err().contains("begin and end with an answer"));
}

#[test]
fn a_result_is_a_text_or_is_written_as_json() {
    assert_eq!(result(fields(json!({"result": "warm"}))), Ok("warm".into()));
    assert_eq!(result(fields(json!({"result": {"degrees": 3}}))), Ok("{\"degrees\":3}".into()));
    assert!(result(Map::new()).unwrap_err().contains("no `result`"));
}
