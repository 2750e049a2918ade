//! Tool calls of a policy in this process: sampled, parsed, answered, and read again without being tokenised again.

use std::path::Path;
use std::sync::Arc;

use burnish_core::{Grammar, Message, Role, Sampling, Source, StopReason, ToolSpec, Trace, Turn, answer_all};
use burnish_engine::LocalPolicy;
use burnish_model::{Chat, ChatTemplate};
use serde_json::json;

use crate::common::{chat, model_of, turn};

/// ChatML that writes calls in the format of Hermes.
const TEMPLATE: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls %}\
    {{ '<tool_call>\\n' }}{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments|tojson }}}\
    {{ '\\n</tool_call>' }}{% endfor %}<|im_end|>\n{% endfor %}\
    {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

fn calling(chat: &Arc<Chat>) -> Arc<Chat> {
    let template = ChatTemplate::new(TEMPLATE, Path::new("test")).unwrap();
    Arc::new(Chat::clone(chat).with_template(template))
}

fn tools() -> Arc<Vec<ToolSpec>> {
    let tool = json!({ "name": "move", "description": "", "parameters": { "type": "object" } });
    Arc::new(vec![serde_json::from_value(tool).unwrap()])
}

fn saying(chat: &Chat, trace: Trace, messages: &[Message], regex: &str, prefix: &str) -> Turn {
    let grammar = Some(Grammar::Regex(regex.into()));
    let sampling = Sampling { grammar, ..Sampling::at(1.0, 120) };
    let begun = if prefix.is_empty() { vec![] } else { vec![chat.tokenizer.piece_of_text(prefix).unwrap()] };
    Turn { tools: tools(), prefix: begun, ..turn(trace, messages, &sampling, 3) }
}

#[test]
fn what_was_sampled_as_a_call_is_read_at_the_next_turn_as_it_was_sampled() {
    let chat = calling(&chat());
    let mut model = model_of(400, 600, 32);
    model.restrict_vocab(|id| chat.tokenizer.id_exists(id));
    let mut policy = LocalPolicy::new(&Arc::new(model), &chat, 0);
    // Spaces and key order differ from what the template writes.
    let call = r#"<tool_call>\{"arguments" :\{"to":"(left|right)"\},"name":"move"\}</tool_call>"#;
    let mut trace = Trace::new();
    let mut messages = vec![Message::user("go")];
    for prefix in ["", "", "<tool_call>\n"] {
        let said = call.strip_prefix(prefix.trim()).unwrap();
        let turn = saying(&chat, trace, &messages, said, prefix);
        let (recorded, output) = answer_all(&mut policy, [turn]).remove(0);
        let output = output.unwrap();
        trace = recorded;
        assert_eq!((output.stop, output.malformed.len()), (StopReason::EndToken, 0));
        let [call] = output.message.tool_calls.as_slice() else { panic!("{:?}", output.message) };
        assert_eq!((call.function.name.as_str(), output.message.content.as_str()), ("move", ""));
        assert!(call.function.arguments["to"].is_string());
        let so_far = trace.head_ids();
        messages.extend([output.message, Message::new(Role::Tool, "moved")]);
        let next = chat.extend(&mut trace, &messages, &tools()).unwrap();
        assert!(next.starts_with(&so_far));
    }
    let sampled = trace.nodes().iter().filter(|node| node.sampled.is_some());
    assert!(sampled.clone().all(|node| node.sources.iter().all(|source| *source == Source::Policy)));
    assert_eq!((sampled.count(), trace.branches().len()), (3, 1));
}

#[test]
fn a_malformed_call_is_told_and_stays_in_the_content() {
    let chat = calling(&chat());
    let mut model = model_of(400, 600, 32);
    model.restrict_vocab(|id| chat.tokenizer.id_exists(id));
    let mut policy = LocalPolicy::new(&Arc::new(model), &chat, 0);
    let broken = r#"<tool_call>\{"name": move\}</tool_call>"#;
    let turn = saying(&chat, Trace::new(), &[Message::user("go")], broken, "");
    let (_, output) = answer_all(&mut policy, [turn]).remove(0);
    let output = output.unwrap();
    assert_eq!(output.message, Message::assistant(r#"<tool_call>{"name": move}</tool_call>"#));
    assert_eq!(output.malformed, ["call 1: it is not JSON: expected value at column 10"]);
}

#[test]
fn held_to_its_tools_a_policy_calls_only_those_and_with_arguments_that_fit() {
    let chat = calling(&chat());
    let mut model = model_of(400, 600, 32);
    model.restrict_vocab(|id| chat.tokenizer.id_exists(id));
    let model = Arc::new(model);
    let offered = |names: &[&str]| {
        let tool = |name: &&str| {
            let properties = json!({
                "to": { "enum": ["left", "right"] },
                "steps": { "type": "integer", "minimum": 1, "maximum": 20 },
            });
            let parameters =
                json!({ "type": "object", "properties": properties, "required": ["to", "steps"] });
            let tool = json!({ "name": name, "description": "", "parameters": parameters });
            serde_json::from_value::<ToolSpec>(tool).unwrap()
        };
        Arc::new(names.iter().map(tool).collect::<Vec<_>>())
    };
    let sampling = Sampling { grammar: Some(Grammar::Tools), ..Sampling::at(1.0, 400) };
    let asked = |tools: &Arc<Vec<ToolSpec>>, begun: &str, seed| Turn {
        tools: Arc::clone(tools),
        prefix: vec![chat.tokenizer.piece_of_text(begun).unwrap()],
        ..turn(Trace::new(), &[Message::user("go")], &sampling, seed)
    };
    let tools = [offered(&["lift", "move"]), offered(&["run"])];
    let mut policy = LocalPolicy::new(&model, &chat, 0);
    let begun = ["<tool_call>", "I go. <tool_c", "<tool_call>\n{\"name\": \""];
    let turns = (0..60).map(|seed| asked(&tools[seed % 2], begun[seed / 2 % 3], seed as u64));
    let mut called = std::collections::BTreeSet::new();
    for (seed, (_, output)) in answer_all(&mut policy, turns).into_iter().enumerate() {
        let output = output.unwrap();
        // An answer that is cut off may end in a call.
        let is_whole = output.stop == StopReason::EndToken;
        assert!(output.malformed.is_empty() || !is_whole, "{:?}", output.malformed);
        for call in &output.message.tool_calls {
            assert!(tools[seed % 2].iter().any(|tool| tool.name == call.function.name), "{call:?}");
            let arguments = &call.function.arguments;
            assert!(["left", "right"].contains(&arguments["to"].as_str().unwrap()), "{call:?}");
            assert!((1..=20).contains(&arguments["steps"].as_i64().unwrap()), "{call:?}");
            assert_eq!(arguments.as_object().unwrap().len(), 2);
            called.insert(call.function.name.clone());
        }
    }
    assert!(called.len() >= 2 && called.contains("run"), "{called:?}");

    // Without tools nothing is forbidden: the same bits as without a grammar.
    let free = |grammar| {
        let sampling = Sampling { grammar, ..Sampling::at(1.0, 40) };
        let turn = turn(Trace::new(), &[Message::user("go")], &sampling, 5);
        let mut policy = LocalPolicy::new(&model, &chat, 0);
        answer_all(&mut policy, [turn]).remove(0).0.head_ids()
    };
    assert_eq!(free(Some(Grammar::Tools)), free(None));

    let wrong = asked(&tools[0], "<tool_call>\n{\"name\": \"walk", 1);
    let error = answer_all(&mut policy, [wrong]).remove(0).1.unwrap_err().to_string();
    assert!(error.contains("no text of the language begins as the answer was begun"), "{error}");
    let plain = Arc::new(Chat::clone(&chat).with_template(ChatTemplate::chatml().unwrap()));
    let mut policy = LocalPolicy::new(&model, &plain, 0);
    let error = answer_all(&mut policy, [asked(&tools[0], "", 1)]).remove(0).1.unwrap_err().to_string();
    assert!(error.contains("sampling.grammar: the chat template writes no tool calls"), "{error}");
}
