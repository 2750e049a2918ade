//! What was sampled stays as sampled, however the template prints its calls.

use std::path::Path;
use std::sync::LazyLock;

use burnish_core::{Message, Role, Sampled, Source, StopReason, ToolSpec, Trace};
use burnish_model::{AnswerTo, Chat, ChatTemplate, Recorded, Tokenizer};
use proptest::prelude::*;
use serde_json::json;

use super::templates::{self, chatml};
use super::{call, tool};
use crate::common;

const SPECIAL: [&str; 13] = [
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|call|>",
    "<|return|>",
    "<|end|>",
    "<|start|>",
    "</s>",
    "<｜end▁of▁sentence｜>",
    "<|observation|>",
    "<|user|>",
    "<|end_of_text|>",
];

static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| {
    let texts = ["user assistant system hello world name arguments weather city Bern tool_call think é"];
    Tokenizer::train_bpe(&texts, 320, &SPECIAL).unwrap()
});

const ENDS: [&str; 8] = [
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|call|>",
    "<|return|>",
    "</s>",
    "<｜end▁of▁sentence｜>",
    "<|observation|>",
];

fn chat(template: ChatTemplate) -> Chat {
    let ends = [&ENDS[..], &["<|user|>", "<|end_of_text|>"]].concat();
    Chat::new(TOKENIZER.clone(), template, &ends, "<|endoftext|>").unwrap()
}

fn tools() -> Vec<ToolSpec> {
    vec![tool("weather", json!({ "city": { "type": "string" }, "days": { "type": "integer" } }))]
}

fn sampled(ids: &[u32], stop: StopReason) -> Sampled {
    Sampled {
        model_logprobs: vec![-1.0; ids.len()],
        sampled_logprobs: None,
        policy_version: 0,
        temperature: 1.0,
        stop,
        latents: Vec::new(),
    }
}

/// Lets the policy answer `text`, tokenised by the tokenizer.
fn answer(chat: &Chat, trace: &mut Trace, text: &str, messages: &[Message]) -> (Vec<u32>, Recorded) {
    let tools = tools();
    let ids = chat.tokenizer.encode(text).unwrap();
    let asked = AnswerTo { messages, tools: &tools, begun: &[] };
    let stop = sampled(&ids, StopReason::EndToken);
    let recorded = chat.record_answer(trace, (ids.clone(), None), None, stop, &asked).unwrap();
    (ids, recorded)
}

fn results(message: &Message) -> Vec<Message> {
    let result = |call: &burnish_core::ToolCall| Message {
        tool_call_id: call.id.clone(),
        name: Some(call.function.name.clone()),
        ..Message::new(Role::Tool, "sunny")
    };
    message.tool_calls.iter().map(result).collect()
}

/// Plays `turns` answers with calls, each followed by results; returns the trace and the messages.
fn play(chat: &Chat, texts: &[&str]) -> (Trace, Vec<Message>) {
    let mut trace = Trace::new();
    let mut messages = vec![Message::user("hello")];
    let mut before = chat.extend(&mut trace, &messages, &tools()).unwrap();
    for text in texts {
        let (ids, Recorded { message, malformed }) = answer(chat, &mut trace, text, &messages);
        assert!(malformed.is_empty() && !message.tool_calls.is_empty(), "{text}: {malformed:?}");
        before.extend(ids);
        let results = results(&message);
        messages.push(message);
        messages.extend(results);
        let next = chat.extend(&mut trace, &messages, &tools()).unwrap();
        assert!(next.starts_with(&before), "{text}");
        before = next;
    }
    (trace, messages)
}

fn assert_one_branch(chat: &Chat, trace: &Trace, texts: &[&str]) {
    assert_eq!(trace.branches().len(), 1);
    let branch = &trace.branches()[0];
    let own = branch.ids.iter().zip(&branch.sources).filter(|(_, source)| **source == Source::Policy);
    let own: Vec<u32> = own.map(|(id, _)| *id).collect();
    assert_eq!(chat.tokenizer.decode(&own, false).unwrap(), texts.concat());
    assert_eq!(branch.sampled_mask.iter().filter(|is| **is).count(), own.len());
}

const BERN: &str =
    "<tool_call>{\"arguments\" :{\"city\":\"B\\u0065rn\",  \"days\":2},\"name\":\"weather\"}</tool_call>";

#[test]
fn a_call_in_other_spaces_and_order_does_not_fork_the_trace() {
    let chat = chat(templates::template(&chatml(templates::HERMES)));
    let texts = [
        &*format!("Well.  \n\n{BERN}<|im_end|>"),
        &format!("<think>  so </think>{BERN}\n{BERN} and that's it<|im_end|>"),
        // An end token other than the template's.
        &format!("{BERN}<|endoftext|>"),
        &format!("{BERN}<|im_end|>"),
    ];
    let (trace, messages) = play(&chat, &texts);
    assert_one_branch(&chat, &trace, &texts);
    assert_eq!(messages[1].content, "Well.");
    assert_eq!(messages[1].tool_calls, [call("weather", json!({ "city": "Bern", "days": 2 }))]);
    assert_eq!(messages[3].reasoning_content.as_deref(), Some("  so "));
    let text: String = trace.nodes().iter().map(|node| node.text.as_str()).collect();
    let rendered = chat.template.render(&messages, &tools(), true).unwrap();
    assert_eq!(text.replace("<|endoftext|>", ""), rendered);
}

#[test]
fn calls_of_our_own_template_stay_on_one_branch() {
    let chat = chat(templates::template(templates::OWN));
    let texts = [
        &*format!("Well.\n{BERN}<|im_end|>"),
        &format!("{BERN}{BERN}<|im_end|>"),
        &format!("{BERN}<|im_end|>"),
    ];
    let (trace, _) = play(&chat, &texts);
    assert_one_branch(&chat, &trace, &texts);
}

#[test]
fn an_answer_that_was_cut_off_after_its_call_gets_its_end_token_as_scaffold() {
    let chat = chat(templates::template(&chatml(templates::HERMES)));
    let (trace, _) = play(&chat, &[BERN, &format!("{BERN}<|im_end|>")]);
    assert_eq!(trace.branches().len(), 1);
    assert!(trace.nodes()[2].text.starts_with("<|im_end|>\n<|im_start|>tool\n"));
}

#[test]
fn an_answer_that_goes_on_from_a_prefix_is_read_whole() {
    let chat = chat(templates::template(&chatml(templates::HERMES)));
    let mut trace = Trace::new();
    let question = [Message::user("hello")];
    chat.extend(&mut trace, &question, &tools()).unwrap();
    let begun = [chat.tokenizer.piece_of_text("Well.<tool_call>\n{\"name\": ").unwrap()];
    chat.begin_answer(&mut trace, &begun).unwrap();
    let before = trace.head_ids();
    let said = "\"weather\",\"arguments\":{}}</tool_call><|im_end|>";
    let ids = chat.tokenizer.encode(said).unwrap();
    let tools = tools();
    let asked = AnswerTo { messages: &question, tools: &tools, begun: &begun };
    let stop = sampled(&ids, StopReason::EndToken);
    let Recorded { message, .. } =
        chat.record_answer(&mut trace, (ids.clone(), None), None, stop, &asked).unwrap();
    assert_eq!((message.content.as_str(), message.tool_calls.len()), ("Well.", 1));
    let messages = [question[0].clone(), message.clone(), results(&message)[0].clone()];
    let next = chat.extend(&mut trace, &messages, &tools).unwrap();
    assert!(next.starts_with(&[before, ids].concat()));
    assert_eq!(trace.branches().len(), 1);
}

#[test]
fn without_tools_nothing_is_read() {
    let chat = chat(templates::template(&chatml(templates::HERMES)));
    let ids = chat.tokenizer.encode(&format!("a {BERN} b<|im_end|>")).unwrap();
    let mut traces = [Trace::new(), Trace::new()];
    let question = [Message::user("hello")];
    for trace in &mut traces {
        chat.extend(trace, &question, &[]).unwrap();
    }
    let stop = || sampled(&ids, StopReason::EndToken);
    let message = chat.record(&mut traces[0], &[], ids.clone(), stop()).unwrap();
    let asked = AnswerTo { messages: &question, tools: &[], begun: &[] };
    let recorded = chat.record_answer(&mut traces[1], (ids.clone(), None), None, stop(), &asked).unwrap();
    assert_eq!((recorded.message, recorded.malformed.len()), (message, 0));
    assert_eq!(traces[0], traces[1]);
}

#[test]
fn a_malformed_call_stands_in_the_content_and_the_trace_goes_on() {
    let chat = chat(templates::template(&chatml(templates::HERMES)));
    let mut trace = Trace::new();
    let mut messages = vec![Message::user("hello")];
    let prompt = chat.extend(&mut trace, &messages, &tools()).unwrap();
    let text = "a <tool_call>{\"name\": weather}</tool_call>\n";
    let (ids, recorded) = answer(&chat, &mut trace, &format!("{text}<|im_end|>"), &messages);
    assert_eq!(recorded.message, Message::assistant(text));
    assert_eq!(recorded.malformed, ["call 1: it is not JSON: expected value at column 10"]);
    messages.extend([recorded.message, Message::user(recorded.malformed[0].clone())]);
    assert!(chat.extend(&mut trace, &messages, &tools()).unwrap().starts_with(&[prompt, ids].concat()));
    assert_eq!(trace.branches().len(), 1);
}

#[test]
fn calls_that_the_template_refuses_are_told() {
    let chat = chat(templates::template(templates::LLAMA));
    let mut trace = Trace::new();
    let question = [Message::user("hello")];
    chat.extend(&mut trace, &question, &tools()).unwrap();
    let one = "{\"name\":\"weather\",\"parameters\":{}}";
    let (_, recorded) = answer(&chat, &mut trace, &format!("{one};{one}<|eot_id|>"), &question);
    assert_eq!(recorded.message, Message::assistant(format!("{one};{one}")));
    assert!(recorded.malformed[0].contains("only one call at once"), "{:?}", recorded.malformed);
}

#[test]
fn whoever_has_no_id_is_given_one_where_the_template_needs_it() {
    let source = chatml(&format!(
        "{{% if call.id|length != 9 %}}{{{{ raise_exception('id') }}}}{{% endif %}}{}",
        templates::LIST
    ));
    let chat = chat(templates::template(&source));
    let texts = [
        "[TOOL_CALLS][{\"name\":\"weather\",\"arguments\":{},\"id\":\"abcdef123\"},{\"name\":\"weather\",\"arguments\":{}}]<|im_end|>",
        "[TOOL_CALLS][{\"name\":\"weather\",\"arguments\":{},\"id\":\"7\"}]<|im_end|>",
    ];
    let (trace, messages) = play(&chat, &texts[1..]);
    assert_one_branch(&chat, &trace, &texts[1..]);
    assert_eq!(messages[1].tool_calls[0].id.as_deref(), Some("call00001"));
    // Two calls in one answer.
    let mut trace = Trace::new();
    chat.extend(&mut trace, &messages, &tools()).unwrap();
    let (_, recorded) = answer(&chat, &mut trace, texts[0], &messages);
    let ids: Vec<&str> = recorded.message.tool_calls.iter().filter_map(|call| call.id.as_deref()).collect();
    assert_eq!(ids, ["abcdef123", "call00003"]);
}

/// How a policy may write a call in each format, with thoughts if the template keeps them between tool results.
fn written(name: &str) -> Option<&'static str> {
    Some(match name {
        "GLM-4.6.jinja" => {
            "\n<think>so</think>\n<tool_call>weather<arg_key>city</arg_key><arg_value>Bern</arg_value></tool_call><|observation|>"
        }
        "Qwen3-Coder.jinja" => {
            "So.<tool_call><function=weather><parameter=city>Bern</parameter><parameter=days> 2 </parameter></function></tool_call><|im_end|>"
        }
        "Qwen3.5-4B.jinja" => {
            "so</think><tool_call><function=weather><parameter=city>Bern</parameter></function></tool_call><|im_end|>"
        }
        "deepseek-ai-DeepSeek-V3.1.jinja" => {
            "So.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{\"city\":\"Bern\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>"
        }
        "mistralai-Mistral-Nemo-Instruct-2407.jinja" => {
            "[TOOL_CALLS] [{\"arguments\":{\"city\":\"Bern\"},\"name\":\"weather\"}]</s>"
        }
        "openai-gpt-oss-120b.jinja" => {
            "<|channel|>analysis<|message|>so<|end|><|start|>assistant<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{\"city\":\"Bern\"}<|call|>"
        }
        "ibm-granite-granite-3.3-2B-Instruct.jinja" => {
            "<|tool_call|>[{\"arguments\":{\"city\":\"Bern\"},\"name\":\"weather\"}]<|end_of_text|>"
        }
        "Qwen-Qwen3-0.6B.jinja" | "trl/qwen3.jinja" | "trl/qwen3_training.jinja" => {
            "<think>so</think><tool_call>{\"arguments\":{\"city\":\"Bern\"},\"name\":\"weather\"}</tool_call><|im_end|>"
        }
        "Qwen-Qwen2.5-7B-Instruct.jinja"
        | "trl/qwen2_5.jinja"
        | "trl/qwen2_5_training.jinja"
        | "trl/qwen3_instruct_2507.jinja"
        | "trl/qwen3_instruct_2507_training.jinja"
        | "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use.jinja" => {
            "So.\n\n<tool_call>{\"arguments\":{\"city\":\"Bern\"},\"name\":\"weather\"}</tool_call><|im_end|>"
        }
        _ => return None,
    })
}

#[test]
fn tools_are_called_over_turns_on_one_branch_with_the_well_known_templates() {
    let Some(dir) = common::shared_templates() else { return };
    let mut forks = Vec::new();
    let mut count = 0;
    for folder in ["", "trl/"] {
        for file in std::fs::read_dir(dir.join(Path::new(folder))).unwrap() {
            let name = format!("{folder}{}", file.unwrap().file_name().to_string_lossy());
            let Some(text) = written(&name) else { continue };
            let template = ChatTemplate::read(&dir.join(&name)).unwrap();
            let chat = chat(template);
            let mut trace = Trace::new();
            let mut messages = vec![Message::user("hello")];
            for _ in 0..3 {
                chat.extend(&mut trace, &messages, &tools()).unwrap();
                let (_, Recorded { message, malformed }) = answer(&chat, &mut trace, text, &messages);
                assert_eq!((malformed, message.tool_calls.len()), (vec![], 1), "{name}");
                let results = results(&message);
                messages.push(message);
                messages.extend(results);
            }
            chat.extend(&mut trace, &messages, &tools()).unwrap();
            let branches = trace.branches().len();
            if branches > 1 {
                forks.push((name.clone(), branches));
            }
            count += 1;
        }
    }
    assert_eq!(count, 16);
    // It closes a tool's result differently once a message follows.
    let hermes = "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use.jinja".to_owned();
    assert_eq!(forks, [(hermes, 3)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_is_called_stays_on_one_branch(
        turns in prop::collection::vec((super::properties::calls(), "[a-z <>{}|_\\n]{0,12}"), 1..4)
    ) {
        let chat = chat(templates::template(&chatml(templates::HERMES)));
        let mut trace = Trace::new();
        let mut messages = vec![Message::user("hello")];
        let mut before = chat.extend(&mut trace, &messages, &tools()).unwrap();
        for (calls, words) in turns {
            let written = calls.iter().map(|call| {
                let object = json!({ "arguments": call.function.arguments, "name": call.function.name });
                format!("<tool_call>{object}</tool_call>{words}")
            });
            let text = format!("{words}{}<|im_end|>", written.collect::<String>());
            let (ids, Recorded { message, malformed }) = answer(&chat, &mut trace, &text, &messages);
            prop_assert!(malformed.is_empty(), "{malformed:?}");
            prop_assert_eq!(message.tool_calls.len(), calls.len());
            before.extend(ids);
            let results = results(&message);
            messages.push(message);
            messages.extend(results);
            let next = chat.extend(&mut trace, &messages, &tools()).unwrap();
            prop_assert!(next.starts_with(&before), "{text}");
            before = next;
        }
        prop_assert_eq!(trace.branches().len(), 1);
    }
}
