//! Answers that transformers rendered.

use std::collections::BTreeMap;
use std::path::Path;

use burnish_core::{FunctionCall, ToolSpec};
use burnish_model::{CallFormat, ChatTemplate};
use serde::Deserialize;

use crate::common;

#[derive(Deserialize)]
struct Golden {
    cases: Vec<Case>,
    templates: BTreeMap<String, Written>,
}

#[derive(Deserialize)]
struct Case {
    content: String,
    thoughts: Option<String>,
    tools: Vec<ToolSpec>,
    calls: Vec<FunctionCall>,
}

#[derive(Deserialize)]
struct Written {
    format: String,
    #[serde(default)]
    answers: Vec<Option<Answer>>,
    same: Option<String>,
}

#[derive(Deserialize, Clone)]
struct Answer {
    in_thoughts: bool,
    text: String,
}

fn golden() -> Golden {
    let golden = burnish_core::json::parse(include_str!("../../golden/calls.json")).unwrap();
    serde_json::from_value(golden).unwrap()
}

#[test]
fn what_transformers_renders_is_read_back() {
    let Golden { cases, templates } = golden();
    let mut read = 0;
    for (name, written) in &templates {
        let answers = written.same.as_ref().map_or(&written.answers, |same| &templates[same].answers);
        assert_eq!(answers.len(), cases.len(), "{name}");
        let format = CallFormat::named(&written.format).unwrap();
        for (case, answer) in cases.iter().zip(answers) {
            let Some(Answer { in_thoughts, text }) = answer else { continue };
            let answer = format.read(text, *in_thoughts, &case.tools);
            let expected = match written.format.as_str() {
                "harmony" => &case.calls[..1],
                _ => &case.calls,
            };
            let calls: Vec<&FunctionCall> = answer.calls.iter().map(|call| &call.function).collect();
            assert_eq!(calls, expected.iter().collect::<Vec<_>>(), "{name}: {text}");
            assert!(answer.malformed.is_empty(), "{name}: {:?}", answer.malformed);
            for (at, call) in answer.calls.iter().enumerate() {
                let id = (written.format == "mistral").then(|| format!("call{at:05}"));
                assert_eq!(call.id, id, "{name}");
            }
            // Not every template writes content and thoughts beside calls, but no template makes them look like calls.
            if let Some(thoughts) = &case.thoughts
                && text.contains(thoughts)
            {
                assert_eq!(answer.reasoning_content.as_ref(), Some(thoughts), "{name}");
            }
            if !case.content.is_empty() && text.contains(&case.content) && written.format != "harmony" {
                assert!(answer.content.contains(case.content.trim()), "{name}: {}", answer.content);
            }
            read += 1;
        }
    }
    assert!(read > 500, "{read}");
}

/// The well-known templates that write no calls.
const WITHOUT: [&str; 2] = ["HuggingFaceTB-SmolLM3-3B.jinja", "microsoft-Phi-3.5-mini-instruct.jinja"];

#[test]
fn the_format_of_every_template_is_found() {
    let Some(dir) = common::shared_templates() else { return };
    let template = |name: &str| {
        let path = dir.join(name);
        let template = ChatTemplate::read(&path).unwrap();
        ["bos_token", "eos_token"]
            .iter()
            .fold(template, |template, token| template.with_variable(token, "</s>".into()))
    };
    let golden = golden();
    for (name, written) in &golden.templates {
        let template = template(name);
        let format = template.call_format().unwrap_or_else(|| panic!("{name}"));
        assert_eq!(format.name(), written.format, "{name}");
        assert_eq!(format.needs_ids(), written.format == "mistral", "{name}");
    }
    for name in WITHOUT {
        assert_eq!(template(name).call_format(), None, "{name}");
    }
    let granite = template("ibm-granite-granite-3.3-2B-Instruct.jinja");
    assert_eq!(granite.call_format().unwrap().name(), "granite");
    let mut count = 0;
    for folder in ["", "trl"] {
        let files = std::fs::read_dir(dir.join(folder)).unwrap();
        count += files
            .filter(|file| file.as_ref().unwrap().path().extension() == Some(Path::new("jinja").as_os_str()))
            .count();
    }
    assert_eq!(count, golden.templates.len() + WITHOUT.len() + 1, "a template is not spoken of");
}
