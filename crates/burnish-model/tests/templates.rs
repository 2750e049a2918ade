//! Rendering against `apply_chat_template` of transformers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;

use burnish_core::{Message, ToolSpec};
use burnish_model::ChatTemplate;
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    template: String,
    messages: Vec<Message>,
    tools: Vec<ToolSpec>,
    add_generation_prompt: bool,
    text: Option<String>,
}

fn check(cases: &str, template_dir: impl Fn(&str) -> String) {
    let cases: Vec<Case> = serde_json::from_str(cases).unwrap();
    assert!(!cases.is_empty());
    let mut wrong = Vec::new();
    for case in &cases {
        let path = template_dir(&case.template);
        let rendered = ChatTemplate::new(std::fs::read_to_string(&path).unwrap(), Path::new(&path))
            .map_err(|error| error.to_string())
            .and_then(|template| {
                let template = template.at(0);
                template
                    .render(&case.messages, &case.tools, case.add_generation_prompt)
                    .map_err(|error| error.to_string())
            });
        // Where transformers raises by accident (a loop over `None`), nothing is asked.
        let Some(expected) = &case.text else { continue };
        if rendered.as_ref() != Ok(expected) {
            wrong.push(format!("{}\n  expected {expected:?}\n  rendered {rendered:?}", case.template));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn chatml_and_qwen3_render_as_in_transformers() {
    let root = env!("CARGO_MANIFEST_DIR");
    check(include_str!("golden/chats.json"), |name| match name {
        "chatml.jinja" => format!("{root}/src/{name}"),
        _ => format!("{root}/tests/fixtures/{name}"),
    });
}

/// More templates than the repository holds: `make_chats.py TEMPLATE ... > FILE`, then `BURNISH_CHATS=FILE`.
#[test]
fn other_templates_render_as_in_transformers() {
    match std::env::var("BURNISH_CHATS") {
        Ok(path) => check(&std::fs::read_to_string(path).unwrap(), str::to_string),
        Err(_) => println!("skipped: BURNISH_CHATS names no file of make_chats.py"),
    }
}
