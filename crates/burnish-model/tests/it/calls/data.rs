//! All calls of tau-bench's trajectories and of BFCL's ground truth, with every template.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;

use burnish_core::{FunctionCall, Message, Role, ToolCall, ToolSpec};
use burnish_model::{ChatTemplate, read_arguments};
use serde_json::{Map, Value, json};

use super::{functions, tool};
use crate::common;

const HERMES: &str = "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use.jinja";

/// The calls of an answer and the tools that it has.
struct Calls {
    tools: Vec<ToolSpec>,
    calls: Vec<ToolCall>,
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The calls of the trajectories, ten per answer. The tools' schemas are not available, so their types are those of the
/// arguments seen.
fn tau(dir: &Path) -> Vec<Calls> {
    let mut text = String::new();
    let file = std::fs::File::open(dir.join("gpt-4o-airline.json.gz")).unwrap();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    let runs: Value = serde_json::from_str(&text).unwrap();
    let mut types: BTreeMap<String, BTreeMap<String, BTreeSet<&str>>> = BTreeMap::new();
    let mut calls = Vec::new();
    let answers = runs.as_array().unwrap().iter().flat_map(|run| run["traj"].as_array().unwrap());
    for call in answers.filter_map(|answer| answer["tool_calls"].as_array()).flatten() {
        let name = call["function"]["name"].as_str().unwrap();
        let arguments: Value = serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
        let keys = types.entry(name.into()).or_default();
        for (key, value) in arguments.as_object().unwrap() {
            keys.entry(key.clone()).or_default().insert(type_of(value));
        }
        calls.push(FunctionCall { name: name.into(), arguments });
    }
    let spec = |(name, keys): (&String, &BTreeMap<String, BTreeSet<&str>>)| {
        let properties = keys.iter().map(|(key, types)| (key.clone(), json!({ "type": types })));
        tool(name, Value::Object(properties.collect()))
    };
    let tools: Vec<ToolSpec> = types.iter().map(spec).collect();
    calls.chunks(10).map(|calls| Calls { tools: tools.clone(), calls: with_ids(calls) }).collect()
}

fn with_ids(calls: &[FunctionCall]) -> Vec<ToolCall> {
    let id = |at: usize| Some(format!("call{at:05}"));
    calls.iter().enumerate().map(|(at, call)| ToolCall { id: id(at), function: call.clone() }).collect()
}

fn rows(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| burnish_core::json::parse(line).unwrap()).collect()
}

/// The calls of each row, with the first correct value of each argument. Rows whose calls are Python code are left out.
fn bfcl(dir: &Path) -> Vec<Calls> {
    let mut all = Vec::new();
    let mut kinds: Vec<_> = std::fs::read_dir(dir.join("possible_answer")).unwrap().collect();
    kinds.sort_by_key(|kind| kind.as_ref().unwrap().file_name());
    for kind in kinds {
        let kind = kind.unwrap().file_name();
        if kind.to_str().is_some_and(|kind| kind.contains("multi_turn") || kind.contains("memory")) {
            continue;
        }
        let truths = rows(&dir.join("possible_answer").join(&kind));
        for (row, truth) in rows(&dir.join(&kind)).iter().zip(truths) {
            assert_eq!(row["id"], truth["id"]);
            let tools = row["function"].as_array().unwrap().iter().map(|function| {
                tool(function["name"].as_str().unwrap(), function["parameters"]["properties"].clone())
            });
            let truth =
                truth["ground_truth"].as_array().unwrap().iter().flat_map(|call| call.as_object().unwrap());
            let calls: Vec<FunctionCall> = truth
                .map(|(name, arguments)| {
                    let first = |(key, values): (&String, &Value)| {
                        let value = values.as_array()?.first()?;
                        (value != "").then(|| (key.clone(), value.clone()))
                    };
                    let arguments: Map<String, Value> =
                        arguments.as_object().unwrap().iter().filter_map(first).collect();
                    FunctionCall { name: name.clone(), arguments: arguments.into() }
                })
                .collect();
            all.push(Calls { tools: tools.collect(), calls: with_ids(&calls) });
        }
    }
    all
}

/// Is it a call that a format without quotes can't represent: a text where the schema has another type, or the reverse?
fn is_mistyped(call: &FunctionCall, tools: &[ToolSpec]) -> bool {
    let Some(tool) = tools.iter().find(|tool| tool.name == call.name) else { return true };
    call.arguments.as_object().unwrap().iter().any(|(key, value)| {
        let wanted = &tool.parameters["properties"][key]["type"];
        let may_be_text = ["string", "any"].iter().any(|text| wanted == text)
            || wanted.as_array().is_some_and(|types| types.iter().any(|wanted| wanted == "string"));
        value.is_string() != may_be_text
    })
}

fn as_texts(calls: &[ToolCall]) -> Vec<ToolCall> {
    let mut calls = calls.to_vec();
    for call in &mut calls {
        call.function.arguments = call.function.arguments.to_string().into();
    }
    calls
}

#[derive(Default)]
struct Found {
    calls: usize,
    mistyped: usize,
    refused: usize,
    wrong: Vec<String>,
}

fn check(template: &ChatTemplate, all: &[Calls]) -> Found {
    let format = template.call_format().unwrap();
    let is_untyped = ["glm", "qwen3_coder"].contains(&format.name());
    // These formats make one call per answer.
    let is_single = ["harmony", "llama_json"].contains(&format.name());
    let question = [Message::user("What now?")];
    let mut read = Found::default();
    for Calls { tools, calls } in all {
        for calls in calls.chunks(if is_single { 1 } else { calls.len() }) {
            let result = Message {
                tool_call_id: calls[0].id.clone(),
                ..Message::new(Role::Tool, "the result of the call")
            };
            let prompt = template.render(&question, tools, true);
            let answered = |calls: &[ToolCall]| {
                let answer = Message { tool_calls: calls.to_vec(), ..Message::assistant("") };
                template.render(&[question[0].clone(), answer, result.clone()], tools, false)
            };
            // Some templates need the arguments as a text.
            let whole = answered(calls).or_else(|_| answered(&as_texts(calls)));
            let (Ok(prompt), Ok(whole)) = (prompt, whole) else {
                // BFCL's tools have types that some templates do not know, in transformers as well.
                read.refused += calls.len();
                continue;
            };
            if is_untyped && calls.iter().any(|call| is_mistyped(&call.function, tools)) {
                read.mistyped += calls.len();
                continue;
            }
            let (text, in_thoughts) = match whole.strip_prefix(&prompt) {
                Some(text) => (text, prompt.trim_end().ends_with("<think>")),
                None => (&whole[whole.rfind("What now?").unwrap()..], false),
            };
            let text = &text[..text.rfind("the result of the call").unwrap_or(text.len())];
            let mut found = format.read(text, in_thoughts, tools);
            for call in &mut found.calls {
                call.function.arguments = read_arguments(call.function.arguments.clone()).unwrap().into();
            }
            let has_ids = format.name() != "mistral" || found.calls == calls;
            match found.malformed.is_empty() && functions(&found.calls) == functions(calls) && has_ids {
                true => read.calls += calls.len(),
                false => read.wrong.push(format!("{text}\n{found:?}")),
            }
        }
    }
    read
}

/// The calls of the data beside the templates.
fn all_calls(data: &Path) -> Option<Vec<Calls>> {
    if !data.join("tau_bench").is_dir() || !data.join("bfcl_v4").is_dir() {
        println!("skipped: {} has no tau_bench or no bfcl_v4", data.display());
        return None;
    }
    Some(tau(&data.join("tau_bench")).into_iter().chain(bfcl(&data.join("bfcl_v4"))).collect())
}

/// The templates of a folder and its subfolders, by name.
fn templates(dir: &Path) -> BTreeMap<String, ChatTemplate> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            found.extend(templates(&path).into_iter().map(|(inner, of)| (format!("{name}/{inner}"), of)));
        } else if name.ends_with(".jinja") {
            let template = ChatTemplate::read(&path).unwrap();
            let template = ["bos_token", "eos_token"]
                .iter()
                .fold(template, |template, token| template.with_variable(token, "</s>".into()));
            found.insert(name, template);
        }
    }
    found
}

/// Checks a template and returns the results.
fn checked(name: &str, template: &ChatTemplate, all: &[Calls]) -> Found {
    let found = check(template, all);
    let format = template.call_format().map_or("", burnish_model::CallFormat::name);
    let Found { calls, mistyped, refused, wrong } = &found;
    println!(
        "{name}: {format}, {calls} calls read back, {} wrong; the template refuses {refused}, its format can't hold \
         {mistyped} {}",
        wrong.len(),
        wrong.first().map_or("", String::as_str)
    );
    found
}

/// If `BURNISH_CALL_TEMPLATES` names a folder of other templates, they are checked too.
#[test]
fn every_call_of_tau_bench_and_bfcl_is_read_back() {
    let Some(dir) = common::shared_templates() else { return };
    let Some(all) = dir.parent().and_then(all_calls) else { return };
    let count: usize = all.iter().map(|calls| calls.calls.len()).sum();
    let mut formats = 0;
    for (name, template) in templates(&dir) {
        // Granite is told how to write calls, but its template writes none.
        if template.call_format().is_none_or(|format| format.name() == "granite") {
            continue;
        }
        let found = checked(&name, &template, &all);
        assert!(found.wrong.is_empty(), "{name}: {}", found.wrong[0]);
        let least = if name == HERMES { count / 2 } else { count * 99 / 100 };
        assert!(found.calls > least, "{name}: {} of {count}", found.calls);
        formats += 1;
    }
    assert_eq!(formats, 17);
    if let Ok(more) = std::env::var("BURNISH_CALL_TEMPLATES") {
        for (name, template) in templates(Path::new(&more)) {
            match template.call_format() {
                Some(_) => drop(checked(&name, &template, &all)),
                None => println!("{name}: no calls"),
            }
        }
    }
}
