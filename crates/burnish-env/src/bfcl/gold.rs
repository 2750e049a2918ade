//! Episodes that are right.

use burnish_core::{FunctionCall, Message, Role, ToolCall};
use serde_json::Value;

use super::ast;
use super::calls::Call;
use super::data::{Allowed, Gold, Row};
use super::multi::{Next, Played};
use super::tools::{called, offered};

/// What a policy says when no function fits.
const NOTHING_FITS: &str = "None of the functions can do that.";
/// What a policy says when a request is done.
const DONE: &str = "Done.";

/// The policy's part of the right conversation, with what is said in between; `None` where the leaderboard has no gold.
pub(super) fn episode(row: &Row) -> Option<Vec<Message>> {
    match &row.gold {
        Gold::SomeCall => None,
        Gold::NoCall => Some(vec![Message::assistant(NOTHING_FITS)]),
        Gold::Calls(allowed) => {
            let call = |allowed: &Allowed| {
                let parameters = called(&row.functions, &allowed.name)?.parameters().ok()?;
                Some(Call { name: allowed.name.clone(), arguments: ast::example(&parameters, allowed)? })
            };
            let calls: Option<Vec<_>> = allowed.iter().map(call).collect();
            Some(vec![answer(calls?)])
        }
        Gold::Turns { apis, calls } => {
            let mut played = Played::new(apis);
            let mut messages = Vec::new();
            for turn in calls {
                for gold in turn {
                    let results = played.run(row, std::slice::from_ref(gold)).ok()?;
                    messages.push(answer(vec![gold.clone()]));
                    let name = Some(offered(&gold.name));
                    let told = results.into_iter();
                    messages.extend(
                        told.map(|said| Message { name: name.clone(), ..Message::new(Role::Tool, said) }),
                    );
                }
                messages.push(Message::assistant(DONE));
                match played.done(row) {
                    Next::Said(said) => messages.extend(said),
                    Next::Right => return Some(messages),
                    Next::Wrong(_) => return None,
                }
            }
            None
        }
    }
}

fn answer(calls: Vec<Call>) -> Message {
    let call = |Call { name, arguments }: Call| ToolCall {
        id: None,
        function: FunctionCall { name: offered(&name), arguments: Value::Object(arguments) },
    };
    Message { tool_calls: calls.into_iter().map(call).collect(), ..Message::assistant("") }
}
