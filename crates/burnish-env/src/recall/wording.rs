//! What needles, questions and answers sound like.

use super::config::Config;
use super::kind::{Form, RecallTask, Surroundings};
use super::needles::{Hidden, Question, hide};

pub use crate::settings::PromptStyle;

/// The prompt before and after the text.
pub(super) struct Frame {
    pub(super) before: String,
    pub(super) after: String,
}

/// A sentence that puts a value under a key.
pub(super) fn needle(style: PromptStyle, values: Form, key: &str, value: &str) -> String {
    match style {
        PromptStyle::Full => {
            format!("One of the special magic {} for {key} is: {value}.", values.plural())
        }
        PromptStyle::Short => format!("{key}={value}."),
    }
}

/// A sentence that gives a variable a value.
pub(super) fn assignment(style: PromptStyle, name: &str, value: &str) -> String {
    match style {
        PromptStyle::Full => format!("VAR {name} = {value}"),
        PromptStyle::Short => format!("{name}={value}."),
    }
}

/// A sentence that gives a variable the value of another.
pub(super) fn copy(style: PromptStyle, name: &str, from: &str) -> String {
    match style {
        PromptStyle::Full => format!("VAR {name} = VAR {from}"),
        PromptStyle::Short => format!("{name}={from}."),
    }
}

/// Between two sentences of a text; one byte.
pub(super) fn separator(style: PromptStyle, surroundings: Surroundings) -> &'static str {
    match (style, surroundings) {
        (PromptStyle::Full, Surroundings::Noise | Surroundings::Needles) => "\n",
        (PromptStyle::Full, Surroundings::Text) | (PromptStyle::Short, _) => " ",
    }
}

/// What stands around the text. RULER lets an answer begin with the last words of its wording; here they end the prompt.
pub(super) fn frame(config: &Config, task: RecallTask, question: &Question) -> Frame {
    let query = listed(&question.queries);
    if config.prompt == PromptStyle::Short {
        // Names of questions have a space before them, as those of needles do: to many tokenizers, that is another token.
        return Frame { before: "> ".to_owned(), after: format!("\n? {query}") };
    }
    let Some(shape) = task.shape(config) else {
        let count = question.references.len();
        return Frame {
            before:
                "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n"
                    .to_owned(),
            after: format!(
                "\nQuestion: Find all variables that are assigned the value {query} in the text above. Answer: According \
                 to the chain(s) of variable assignment in the text above, {count} variables are assigned the value \
                 {query}, they are:"
            ),
        };
    };
    let several = shape.values.plural();
    let one = &several[..several.len() - 1];
    let (some, are, are_all, what) = match question.references.len() {
        1 => ("A", "is", "is", one),
        _ => ("Some", "are", "are all", several),
    };
    Frame {
        before: format!(
            "{some} special magic {what} {are} hidden within the following text. Make sure to memorize it. I will quiz you \
             about the {what} afterwards.\n"
        ),
        after: format!(
            "\nWhat {are_all} the special magic {what} for {query} mentioned in the provided text? The special magic {what} \
             for {query} mentioned in the provided text {are}"
        ),
    }
}

/// `a`, `a, and b`, `a, b, and c`: RULER's comma stands before every `and`.
fn listed(names: &[String]) -> String {
    match names {
        [first @ .., last] if !first.is_empty() => format!("{}, and {last}", first.join(", ")),
        names => names.concat(),
    }
}

/// A right answer: the references in order.
pub(super) fn answer(style: PromptStyle, references: &[String]) -> String {
    references.join(if style == PromptStyle::Full { ", " } else { " " })
}

/// Bytes of a prompt without any haystack, at most.
pub(super) fn bytes_without_haystack(config: &Config, task: RecallTask) -> usize {
    let hidden = hide(config, task, &mut |name| Some(name.longest(config)));
    let taken = |hidden: &Hidden| {
        let first = hidden.questions.first()?;
        Some(bytes_taken(&frame(config, task, first), hidden))
    };
    hidden.as_ref().and_then(taken).unwrap_or(0).saturating_sub(1)
}

/// Bytes of the frame, and of all needles with a separator each.
pub(super) fn bytes_taken(frame: &Frame, hidden: &Hidden) -> usize {
    let sentences = hidden.asked.iter().chain(hidden.others.iter().flatten());
    frame.before.len() + frame.after.len() + sentences.map(|sentence| sentence.len() + 1).sum::<usize>()
}
