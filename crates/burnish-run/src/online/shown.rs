//! Prompts that show earlier answers.

use burnish_core::{Episode, Message, Role};
use burnish_reason::heavyskill::Draft;
use burnish_verify::Verifier;

/// What finds the final answers of drafts that don't fit as a whole.
pub(super) const EQUALITY: Verifier = Verifier::Math;

/// `messages` with the last user message replaced by `template`, which shows the first answer of `draft`.
pub(super) fn one(mut messages: Vec<Message>, template: &str, draft: &Episode) -> Vec<Message> {
    let said = draft.answers.first().map_or("", |answer| answer.content.as_str());
    if let Some(last) = messages.iter_mut().rev().find(|message| message.role == Role::User) {
        last.content = template.replace("{prompt}", &last.content).replace("{draft}", said);
    }
    messages
}

/// The first answer of an episode as a draft for a deliberation.
pub(super) fn draft(episode: &Episode) -> Draft {
    let said = episode.answers.first();
    let text = said.map(burnish_reason::text_of).unwrap_or_default();
    let answer = said.and_then(|said| EQUALITY.answer(&said.content));
    Draft { text, tokens: episode.sampled_tokens(), answer }
}
