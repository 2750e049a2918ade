//! A speaker over prompts: any function from a prompt to an answer, such as a chat policy or an endpoint.

use super::{Asked, Scene, Speaker};

/// Asks a model through `ask`, which gets a prompt and returns the answer, or what went wrong.
pub struct PromptSpeaker<F> {
    ask: F,
}

impl<F: Fn(&str) -> Result<String, String>> PromptSpeaker<F> {
    /// A speaker that asks through `ask`.
    pub fn new(ask: F) -> Self {
        PromptSpeaker { ask }
    }
}

/// What was said, one line per speaker.
fn history(scene: &Scene<'_>) -> String {
    if scene.said.is_empty() {
        return "(nothing yet)\n".to_owned();
    }
    let line = |said: &super::Said| format!("User: {}\nAssistant: {}\n", said.turn.user, said.turn.answer);
    scene.said.iter().map(line).collect()
}

fn ask_prompt(scene: &Scene<'_>) -> String {
    let mut passages = String::new();
    for (number, chunk) in scene.chunks.iter().enumerate() {
        let asked = if scene.is_asked(number) { " (asked about before)" } else { "" };
        passages.push_str(&format!("[{}]{asked} {}\n\n", number + 1, chunk.text));
    }
    let asked: String = scene.said.iter().map(|said| format!("- {}\n", said.asked.question)).collect();
    format!(
        "You play a user who wants to learn something from an assistant. The user has never seen the passages below.\n\n\
         {passages}Conversation so far:\n{}\nQuestions asked so far:\n{}\n\
         Write the user's next question. It must be answerable from exactly one of the passages and from no other, \
         understandable without the conversation, about one thing only, and different from every question so far. \
         It must not mention passages, texts or documents. Prefer a passage that was not asked about and that goes \
         on from the last turn.\n\
         Answer with one line: the passage's number in square brackets, then the question, as in\n\
         [2] Who built the bridge at Mostar?\n",
        history(scene),
        if asked.is_empty() { "(none)\n" } else { &asked }
    )
}

/// Reads `[number] question` of `count` passages: that one line and no other.
fn read_asked(answer: &str, count: usize) -> Result<Asked, String> {
    let answer = answer.trim();
    let read = || {
        if answer.lines().count() != 1 {
            return None;
        }
        let (number, question) = answer.strip_prefix('[')?.split_once(']')?;
        let number: usize = number.trim().parse().ok()?;
        let question = question.trim();
        ((1..=count).contains(&number) && !question.is_empty()).then(|| (number - 1, question.to_owned()))
    };
    match read() {
        Some((chunk, question)) => Ok(Asked { chunk, question, topic: None, detail: None }),
        None => Err(format!(
            "expected one line `[NUMBER] QUESTION` with a number from 1 to {count}, got {answer:?}"
        )),
    }
}

/// An answer that is not empty, trimmed.
fn read_text(answer: &str) -> Result<String, String> {
    match answer.trim() {
        "" => Err("the answer is empty".to_owned()),
        text => Ok(text.to_owned()),
    }
}

impl<F: Fn(&str) -> Result<String, String>> Speaker for PromptSpeaker<F> {
    fn ask(&self, scene: &Scene<'_>) -> Result<Option<Asked>, String> {
        read_asked(&(self.ask)(&ask_prompt(scene))?, scene.chunks.len()).map(Some)
    }

    fn answer(&self, scene: &Scene<'_>, asked: &Asked) -> Result<String, String> {
        let prompt = format!(
            "Answer the question in full sentences, with what the passage says and nothing else. Do not mention the \
             passage.\n\nPassage: {}\n\nQuestion: {}\n",
            scene.chunks[asked.chunk].text, asked.question
        );
        read_text(&(self.ask)(&prompt)?)
    }

    fn polish(&self, scene: &Scene<'_>, asked: &Asked) -> Result<String, String> {
        if scene.said.is_empty() {
            return Ok(asked.question.clone());
        }
        let prompt = format!(
            "Conversation so far:\n{}\nThe user's next question, written without regard to the conversation:\n{}\n\n\
             Rewrite it as a person would say it at this point: with pronouns for what was just talked about, and \
             without words that the conversation makes needless. It must keep its meaning. If it changes the topic, \
             leave it as it is. Answer with the question only, on one line.\n",
            history(scene),
            asked.question
        );
        let polished = read_text(&(self.ask)(&prompt)?)?;
        match polished.lines().count() {
            1 => Ok(polished),
            count => Err(format!("expected the question on one line, got {count} lines: {polished:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Chunk, Turn};
    use crate::speak::Said;
    use std::cell::RefCell;

    #[test]
    fn questions_are_read_strictly() {
        assert_eq!(read_asked(" [2] Who? \n", 2).unwrap().chunk, 1);
        for answer in ["Who?", "[3] Who?", "[0] Who?", "[2]", "[2] Who?\n[1] What?", "[x] Who?", ""] {
            let message = read_asked(answer, 2).unwrap_err();
            assert!(message.contains("number from 1 to 2"), "{message}");
        }
    }

    #[test]
    fn prompts_hold_what_a_speaker_may_know_and_no_more() {
        let chunk = |id: &str| Chunk {
            id: id.to_owned(),
            document: "d".to_owned(),
            span: None,
            text: format!("text of {id}"),
        };
        let chunks = [chunk("one"), chunk("two")];
        let cluster: Vec<&Chunk> = chunks.iter().collect();
        let asked = Asked { chunk: 0, question: "Plain question?".to_owned(), topic: None, detail: None };
        let turn = Turn {
            user: "Polished?".to_owned(),
            rewrite: None,
            answer: "Told.".to_owned(),
            evidence: Vec::new(),
            switched: false,
        };
        let said = [Said { asked: asked.clone(), turn }];
        let prompts = RefCell::new(Vec::new());
        let speaker = PromptSpeaker::new(|prompt: &str| {
            prompts.borrow_mut().push(prompt.to_owned());
            Ok("[2] Next?".to_owned())
        });
        let scene = Scene { chunks: &cluster, said: &said, seed: 0 };
        assert_eq!(speaker.ask(&scene).unwrap().unwrap().chunk, 1);
        speaker.answer(&scene, &asked).unwrap();
        speaker.polish(&scene, &asked).unwrap();
        let first = Scene { said: &[], ..scene };
        assert_eq!(speaker.polish(&first, &asked).unwrap(), "Plain question?", "nothing to refer to");
        let prompts = prompts.into_inner();
        assert_eq!(prompts.len(), 3);
        assert!(
            prompts[0].contains("[1] (asked about before) text of one")
                && prompts[0].contains("[2] text of two")
        );
        assert!(
            prompts[0].contains("- Plain question?")
                && prompts[0].contains("User: Polished?\nAssistant: Told.")
        );
        assert!(prompts[1].contains("text of one") && !prompts[1].contains("text of two"));
        assert!(prompts[2].contains("Told.") && !prompts[2].contains("text of one"));
    }
}
