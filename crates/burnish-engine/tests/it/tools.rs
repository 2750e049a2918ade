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
