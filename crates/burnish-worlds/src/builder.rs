//! Worlds by a model: it proposes a file, the acceptance tests say what is wrong with it, and it tries again
//! (EnvFactory's loop of building and testing, arXiv:2605.18703, section 3.1; its search for services on the web is left
//! out: what the world is about is given).

use burnish_core::Message;

use crate::accept::complaints;
use crate::{World, builtin, builtin_names};

const FORMAT: &str = include_str!("../FORMAT.md");

/// Most complaints that are told at once.
const TOLD: usize = 12;

/// A world that a model built.
#[derive(Debug, Clone)]
pub struct Built {
    /// Its file.
    pub text: String,
    /// The world.
    pub world: World,
}

/// A proposal that was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// What the model answered.
    pub answer: String,
    /// What is wrong with it.
    pub problems: Vec<String>,
}

/// Asks for a world about something until a proposal is accepted, at most `attempts` times. `ask` answers a conversation;
/// `seen` hears of every proposal that is rejected.
///
/// # Errors
/// `Ok(None)` if no proposal was accepted; an error of `ask`.
pub fn build<E>(
    about: &str,
    attempts: usize,
    mut ask: impl FnMut(&[Message]) -> Result<String, E>,
    mut seen: impl FnMut(&Rejected),
) -> Result<Option<Built>, E> {
    let request = format!(
        "{FORMAT}\n\nWrite such a file about this: {about}\n\nTwo to four tables, six to ten tools, at least half of which change \
         the state. Every tool needs a test that succeeds and, if it can refuse a call, one that fails; work out results and \
         changes by hand. Answer with the file in one ```toml block and nothing else."
    );
    let mut conversation = vec![Message::user(request)];
    for _ in 0..attempts {
        let answer = ask(&conversation)?;
        let text = block(&answer);
        let problems = match World::parse(text) {
            Ok(world) => match problems(&world) {
                problems if problems.is_empty() => return Ok(Some(Built { text: text.to_owned(), world })),
                problems => problems,
            },
            Err(error) => vec![error.to_string()],
        };
        let told: Vec<String> = problems.iter().take(TOLD).map(|problem| format!("- {problem}")).collect();
        let told =
            format!("The file is not accepted:\n{}\n\nAnswer with the whole mended file.", told.join("\n"));
        let rejected = Rejected { answer, problems };
        seen(&rejected);
        conversation.truncate(1);
        conversation.extend([Message::assistant(rejected.answer), Message::user(told)]);
    }
    Ok(None)
}

/// Why a world can't be added to those that come with burnish.
pub fn problems(world: &World) -> Vec<String> {
    let mut problems: Vec<String> = complaints(world).iter().map(ToString::to_string).collect();
    let others =
        builtin_names().filter_map(|name| builtin(name)?.ok()).filter(|other| other.name != world.name);
    for other in others {
        for tool in other.tools.iter().filter(|tool| world.tool(&tool.name).is_some()) {
            problems.push(format!(
                "interface: `{}`: the world `{}` has a tool of this name",
                tool.name, other.name
            ));
        }
    }
    problems
}

/// What stands in the last fenced block of an answer, or all of it.
fn block(answer: &str) -> &str {
    let mut parts = answer.rsplitn(3, "```");
    match (parts.next(), parts.next(), parts.next()) {
        (Some(_), Some(inside), Some(_)) => inside.split_once('\n').map_or(inside, |(_, text)| text),
        _ => answer,
    }
}
