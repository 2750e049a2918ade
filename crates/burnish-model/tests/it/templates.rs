//! Rendering, compared with `apply_chat_template` of transformers.

use crate::common;
use std::collections::BTreeMap;
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
    text: String,
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
        let expected = &case.text;
        if rendered.as_ref() != Ok(expected) {
            wrong.push(format!("{}\n  expected {expected:?}\n  rendered {rendered:?}", case.template));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn chatml_and_qwen3_render_as_in_transformers() {
    let root = env!("CARGO_MANIFEST_DIR");
    check(include_str!("../golden/chats.json"), |name| match name {
        "chatml.jinja" => format!("{root}/src/{name}"),
        _ => format!("{root}/tests/fixtures/{name}"),
    });
}

#[derive(Deserialize)]
struct Matrix {
    system: Message,
    tools: Vec<ToolSpec>,
    variables: Vec<serde_json::Map<String, serde_json::Value>>,
    conversations: Vec<Vec<Message>>,
    /// For each template, 8 characters per case.
    templates: BTreeMap<String, String>,
}

/// The 32-bit hash of Fowler, Noll and Vo.
fn fnv(text: &str) -> String {
    let hash =
        text.bytes().fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{hash:08x}")
}

impl Matrix {
    /// The result of a template for every case, in the order of `make_chat_matrix.py`.
    fn outcomes(&self, template: &ChatTemplate) -> Vec<Result<String, String>> {
        let with = |variables: &serde_json::Map<String, serde_json::Value>| {
            let variables = variables.iter();
            variables
                .fold(template.clone(), |template, (name, value)| template.with_variable(name, value.clone()))
        };
        let templates: Vec<ChatTemplate> = self.variables.iter().map(with).collect();
        let mut outcomes = Vec::new();
        for conversation in &self.conversations {
            for system in [&[][..], std::slice::from_ref(&self.system)] {
                let messages = [system, conversation].concat();
                for tools in [&[][..], &self.tools] {
                    for template in &templates {
                        for prompt in [false, true] {
                            let rendered = template.render(&messages, tools, prompt);
                            outcomes.push(rendered.map_err(|error| error.to_string()));
                        }
                    }
                }
            }
        }
        outcomes
    }
}

/// Every conversation, with and without tools, thoughts, calls, system message and generation prompt: the text is that
/// of transformers, and templates refuse the same cases.
fn check_matrix(dir: &Path, matrix: &str) {
    let matrix = burnish_core::json::parse(matrix).unwrap();
    let matrix: Matrix = serde_json::from_value(matrix).unwrap();
    assert!(!matrix.templates.is_empty());
    let mut wrong = Vec::new();
    for (name, hashes) in &matrix.templates {
        let path = dir.join(name);
        let template = ChatTemplate::new(std::fs::read_to_string(&path).unwrap(), &path).unwrap().at(0);
        let outcomes = matrix.outcomes(&template);
        assert_eq!(outcomes.len() * 8, hashes.len());
        for (case, outcome) in outcomes.iter().enumerate() {
            let expected = &hashes[8 * case..8 * case + 8];
            if outcome.as_ref().map_or("--------".into(), |text| fnv(text)) != expected {
                wrong.push(format!("{name} {case}: transformers {expected}, here {outcome:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} cases differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// If `BURNISH_CHAT_MATRIX=DIRECTORY:OUT.json` names other templates and a file that `make_chat_matrix.py DIRECTORY
/// OUT.json` made, they are checked too.
#[test]
fn every_template_renders_the_whole_matrix_as_in_transformers() {
    if let Ok(value) = std::env::var("BURNISH_CHAT_MATRIX") {
        let (dir, matrix) = value.split_once(':').expect("DIRECTORY:OUT.json");
        check_matrix(Path::new(dir), &std::fs::read_to_string(matrix).unwrap());
    }
    let Some(dir) = common::shared_templates() else { return };
    let matrix = include_str!("../golden/chat_matrix.json");
    assert_eq!(matrix.matches(".jinja\"").count(), 20);
    check_matrix(&dir, matrix);
}

/// Cases that differ, each for a reason that `docs/chat-templates.md` names.
const DIFFERENT: [&str; 9] = [
    "{{ vast + vast }}",
    "{{ tiny + tiny }}",
    "{{ huge + huge }}",
    "{{ 'b' in vast }}",
    "{{ 'b' in tiny }}",
    "{{ 'b' in huge }}",
    "{{ nothing[1:] }}",
    "{{ nothing[:-1] }}|{{ nothing[::-1] }}",
    "{{ nothing|list }}",
];

/// Filters, tests, methods and operators, one expression at a time (`golden/make_expressions.py`).
#[test]
fn every_expression_gives_the_text_of_transformers_or_is_refused_as_there() {
    let golden = burnish_core::json::parse(include_str!("../golden/expressions.json")).unwrap();
    let variables = golden["variables"].as_object().unwrap();
    let cases = golden["cases"].as_array().unwrap();
    assert!(cases.len() > 900);
    let mut wrong = Vec::new();
    for case in cases {
        let (source, expected) = (case[0].as_str().unwrap(), case[1].as_str());
        let found =
            ChatTemplate::new(source, Path::new("x")).map_err(|error| error.to_string()).and_then(|it| {
                let it = variables
                    .iter()
                    .fold(it.at(0), |it, (name, value)| it.with_variable(name, value.clone()));
                it.render(&[], &[], false).map_err(|error| error.to_string())
            });
        if (found.as_deref().ok() == expected) == DIFFERENT.contains(&source) {
            wrong.push(format!("{source}\n  transformers {expected:?}\n  here         {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// Templates that would need too much stack, memory or time are refused, even on a thread with the smallest stack.
#[test]
fn templates_without_measure_are_refused() {
    let long = |part: &str, count: usize| part.repeat(count);
    let sources = [
        format!("{{{{ {}1{} }}}}", long("(", 5000), long(")", 5000)),
        format!("{}x{}", long("{% if true %}", 5000), long("{% endif %}", 5000)),
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}".to_owned(),
        "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}".to_owned(),
        "{{ 'a' * 1000000000 }}".to_owned(),
        "{{ 10 ** (10 ** 10) }}".to_owned(),
        "{% set n = namespace(x='a') %}{% for i in range(100) %}{% set n.x = n.x + n.x %}{% endfor %}"
            .to_owned(),
    ];
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(move || {
        for source in &sources {
            let template = ChatTemplate::new(source.as_str(), Path::new("x"));
            let outcome = template.map(|template| template.render(&[], &[], false));
            assert!(!matches!(outcome, Ok(Ok(_))), "{source:.60}");
        }
    });
    thread.unwrap().join().unwrap();
}
