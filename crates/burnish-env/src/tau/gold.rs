//! An episode that does what the benchmark says should be done.

use burnish_core::{Message, Role, Task, ToolCall};

use super::case::Case;
use crate::{Environment, Step};

/// The first message when everything is done, and what is said to whatever the user says then.
const DONE: &str = "That is done.";

/// Most messages of the user that are answered.
const ANSWERS_MAX: usize = 64;

/// The conversation in which the policy makes the gold calls, one per answer, and then tells the user what it should. `None`
/// if the user does not come to an end.
pub(super) fn episode(
    case: &Case,
    task: &Task,
    mut environment: Box<dyn Environment>,
) -> Option<Vec<Message>> {
    let mut messages = environment.reset(task, 0).ok()?;
    for (at, gold) in case.actions.iter().enumerate() {
        let call = ToolCall { id: None, function: gold.call() };
        let result = environment.call(&call.function, &at.to_string()).ok()?;
        let result = Message { name: Some(gold.name.clone()), ..Message::new(Role::Tool, result) };
        let answer = Message { tool_calls: vec![call], ..Message::assistant("") };
        environment.called(&answer, std::slice::from_ref(&result));
        messages.extend([answer, result]);
    }
    let told = match case.communicate.as_slice() {
        [] => DONE.to_owned(),
        infos => format!("{DONE} You should know: {}.", infos.join("; ")),
    };
    let mut answer = Message::assistant(told);
    for _ in 0..ANSWERS_MAX {
        let step = environment.step(&answer).ok()?;
        messages.push(answer);
        match step {
            Step::Done => return Some(messages),
            Step::Continue(said) => messages.extend(said),
            Step::Ask(_) | Step::Turn(_) => return None,
        }
        answer = Message::assistant(DONE);
    }
    None
}
