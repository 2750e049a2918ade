//! Token fidelity over turns, for every template: what was read and sampled stays as it was, or the trace forks. The
//! table in docs/chat-templates.md lists which templates rewrite history, and how.

use crate::common;
use std::path::Path;

use burnish_core::{Message, Role, Sampled, StopReason, ToolSpec, Trace};
use burnish_model::{Chat, ChatTemplate, Tokenizer};
use serde_json::json;

/// The end tokens of each template: the first entry that matches its name, as in the model's generation_config.json.
const END_TOKENS: [(&str, &[&str]); 7] = [
    ("GLM", &["<|endoftext|>", "<|user|>", "<|observation|>"]),
    ("deepseek", &["<｜end▁of▁sentence｜>"]),
    ("gpt-oss", &["<|return|>", "<|call|>", "<|end|>"]),
    ("granite", &["<|end_of_text|>"]),
    ("Phi", &["<|end|>"]),
    ("mistral", &["</s>"]),
    ("", &["<|im_end|>", "<|endoftext|>"]),
];
const MARKUP: [&str; 18] = [
    "<s>",
    "<|im_start|>",
    "<|system|>",
    "<|assistant|>",
    "<|start|>",
    "<|message|>",
    "<|channel|>",
    "<|start_of_role|>",
    "<|end_of_role|>",
    "<｜User｜>",
    "<｜Assistant｜>",
    "<｜tool▁output▁begin｜>",
    "<｜tool▁output▁end｜>",
    "[INST]",
    "[/INST]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[AVAILABLE_TOOLS]",
];

fn chat(name: &str, source: &str) -> Chat {
    let mut special: Vec<&str> = END_TOKENS.iter().flat_map(|(_, tokens)| *tokens).copied().collect();
    special.extend(MARKUP);
    special.sort_unstable();
    special.dedup();
    let texts = ["the robot moves right, then down; the answer is hello world"];
    let tokenizer = Tokenizer::train_bpe(&texts, 400, &special).unwrap();
    let end_tokens = END_TOKENS.iter().find(|(part, _)| name.contains(part)).unwrap().1;
    let template = ChatTemplate::new(source, Path::new(name)).unwrap().at(0);
    let template = template.with_variable("bos_token", json!("<s>"));
    Chat::new(tokenizer, template, end_tokens, "<|endoftext|>").unwrap()
}

const THOUGHT: &str = "pondering";

/// Conversations that differ in what may be rewritten.
#[derive(Clone, Copy)]
struct Kind {
    thinks: bool,
    /// Is the policy answered by tools (or by a person)?
    has_tools: bool,
}

const KINDS: [Kind; 4] = [
    Kind { thinks: false, has_tools: false },
    Kind { thinks: true, has_tools: false },
    Kind { thinks: false, has_tools: true },
    Kind { thinks: true, has_tools: true },
];

/// How the template itself writes an answer after its generation prompt, with an end token. If its answers do not
/// continue its prompt or have no thoughts: the answer's content with an end token.
fn native(chat: &Chat, messages: &[Message], tools: &[ToolSpec], prompt: &str, answer: Message) -> String {
    let end = |id: &u32| chat.tokenizer.decode(&[*id], false).unwrap();
    let ends: Vec<String> = chat.end_ids().iter().map(end).collect();
    let answered = chat.template.render(&[messages, std::slice::from_ref(&answer)].concat(), tools, false);
    let written = answered.ok().and_then(|text| Some(text.strip_prefix(prompt)?.to_string()));
    let thinks = |text: &str| text.contains(THOUGHT);
    let written = written.filter(|text| thinks(text) == thinks(&answer.content));
    let text = written.unwrap_or(answer.content);
    match ends.iter().filter_map(|end| Some(text.find(end.as_str())? + end.len())).min() {
        Some(end) => text[..end].to_string(),
        None => text + &ends[0],
    }
}

/// Plays four turns. For any template, the prompt is its rendering, the ids of an answer follow their prompt, and no
/// sampled token is lost. Returns what happens to history.
fn play(chat: &Chat, kind: Kind) -> &'static str {
    let tool = ToolSpec {
        name: "look".into(),
        description: "Looks.".into(),
        parameters: json!({ "type": "object", "properties": {} }),
        more: serde_json::Map::new(),
    };
    let tools = if kind.has_tools { vec![tool] } else { Vec::new() };
    let answer = match kind.thinks {
        true => Message::assistant("<think>\npondering\n</think>\n\nthe answer"),
        false => Message::assistant("the answer"),
    };
    let mut messages = vec![Message::system("the robot"), Message::user("hello")];
    let mut trace = Trace::new();
    let (mut before, mut read, mut sampled) = (Vec::new(), String::new(), 0);
    let mut found = "keeps";
    for turn in 0..4 {
        let Ok(prompt) = chat.extend(&mut trace, &messages, &tools) else { return "refuses" };
        let rendered = chat.template.render(&messages, &tools, true).unwrap();
        let path = trace.path(trace.head().unwrap());
        let text: String = path.iter().map(|id| trace.nodes()[id.0].text.as_str()).collect();
        let without_ends = |text: &str| {
            chat.end_ids().iter().fold(text.to_string(), |text, id| {
                text.replace(&chat.tokenizer.decode(&[*id], false).unwrap(), "")
            })
        };
        // An answer may have ended with an end token other than the template's.
        assert_eq!(without_ends(&text), without_ends(&rendered), "turn {turn}");
        if !prompt.starts_with(&before) {
            found = match () {
                () if !rendered.starts_with(&read) => "changes the prompt",
                () if kind.thinks && rendered.matches(THOUGHT).count() < turn => "drops thoughts",
                () if rendered.matches("</think>").count() < turn => "drops empty thoughts",
                () => "changes the answer",
            };
        }
        let said = native(chat, &messages, &tools, &rendered, answer.clone());
        let ids = chat.tokenizer.encode(&said).unwrap();
        let record = Sampled {
            model_logprobs: vec![-1.0; ids.len()],
            sampled_logprobs: None,
            policy_version: 0,
            temperature: 1.0,
            stop: StopReason::EndToken,
            latents: Vec::new(),
        };
        let message = chat.record(&mut trace, &[], ids.clone(), record).unwrap();
        assert_eq!(trace.head_ids(), [prompt.clone(), ids.clone()].concat(), "turn {turn}");
        sampled += ids.len();
        (before, read) = ([prompt, ids].concat(), rendered);
        let mut reply = match kind.has_tools {
            true => Message::new(Role::Tool, "right"),
            false => Message::user("and then"),
        };
        reply.tool_call_id = kind.has_tools.then(|| "call00001".into());
        messages.extend([message, reply]);
    }
    let branches = trace.branches();
    let kept = |branch: &burnish_core::Branch| branch.sampled_mask.iter().filter(|is| **is).count();
    assert_eq!(branches.iter().map(kept).sum::<usize>(), sampled, "each sampled token is on one branch");
    assert_eq!(branches.len() == 1, found == "keeps");
    found
}

#[test]
fn what_every_template_does_to_history_is_what_the_document_says() {
    let Some(dir) = common::shared_templates() else { return };
    let folders = [(dir.clone(), ""), (dir.join("trl"), "trl/")];
    let mut rows = vec![row("chatml (built in)", include_str!("../../src/chatml.jinja"))];
    for (folder, prefix) in folders {
        let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> =
            files.filter(|path| path.extension().is_some_and(|end| end == "jinja")).collect();
        files.sort();
        rows.extend(files.iter().map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy();
            row(&format!("{prefix}{name}"), &std::fs::read_to_string(path).unwrap())
        }));
    }
    assert_eq!(rows.len(), 21);
    let table = rows.join("\n");
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/chat-templates.md");
    let text = std::fs::read_to_string(document).unwrap();
    assert!(text.contains(&table), "docs/chat-templates.md does not have this table:\n{table}");
}

fn row(name: &str, source: &str) -> String {
    let chat = chat(name, source);
    let cells: Vec<&str> = KINDS.into_iter().map(|kind| play(&chat, kind)).collect();
    format!("| {name} | {} |", cells.join(" | "))
}
