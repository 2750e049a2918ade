//! Plays given answers in an environment and prints the verdicts, a JSON line each.
//!
//! `verdicts ENV CONFIG < lines`, where a line is `{"task": ID, "answers": [MESSAGE, ...]}`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a tool for measuring")]

use std::collections::BTreeMap;
use std::io::BufRead;

use burnish_core::{Message, Role, Task, Verdict};
use burnish_env::{Environment, Step, build, tools::check_call};
use serde_json::{Value, json};

fn play(environment: &mut dyn Environment, task: &Task, answers: &[Message]) -> Verdict {
    environment.reset(task, 0).unwrap();
    let asks = environment.asks();
    if asks {
        environment.begin().unwrap();
    }
    for answer in answers {
        if !asks && !answer.tool_calls.is_empty() {
            let tools = environment.tools();
            let mut said = Vec::new();
            for (at, call) in answer.tool_calls.iter().enumerate() {
                let result = match check_call(call, &tools) {
                    Ok(()) => environment.call(&call.function, &at.to_string()).unwrap(),
                    Err(problem) => problem,
                };
                said.push(Message::new(Role::Tool, result));
            }
            environment.called(answer, &said);
        } else {
            match environment.step(answer).unwrap() {
                Step::Done => break,
                // The user stops after the last answer.
                Step::Ask(_) => drop(environment.hear(&Message::assistant("###STOP###")).unwrap()),
                _ => {}
            }
        }
    }
    environment.verify().unwrap()
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (id, config) = (arguments.next().unwrap(), arguments.next().unwrap());
    let generator = build(&id, &serde_json::from_str(&config).unwrap()).unwrap();
    let count = arguments.next().unwrap().parse().unwrap();
    let tasks = generator.tasks(0, count).unwrap().tasks;
    let tasks: BTreeMap<&str, &Task> = tasks.iter().map(|task| (task.id.0.as_str(), task)).collect();
    let mut environment = generator.environment();
    for line in std::io::stdin().lock().lines() {
        let given: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let answers: Vec<Message> = serde_json::from_value(given["answers"].clone()).unwrap();
        let task = tasks.get(given["task"].as_str().unwrap()).unwrap_or_else(|| panic!("{}", given["task"]));
        let verdict = play(&mut *environment, task, &answers);
        println!(
            "{}",
            json!({"success": verdict.success, "rewards": verdict.rewards, "feedback": verdict.feedback})
        );
    }
}
