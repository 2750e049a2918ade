//! Answers of a model in this process that are read while they are sampled.

use std::sync::Arc;
use std::time::Duration;

use burnish_core::{Answered, LATENT_TOKENS, Partial, Policy, Streaming, TurnId};
use burnish_model::Chat;

use super::{Asked, LocalPolicy};
use crate::RequestId;
use crate::text::{Detokenizer, before_stop};

/// The text of an answer under way.
pub(super) struct Reader {
    detokenizer: Detokenizer,
    /// Ids that it has read.
    read: usize,
    in_thoughts: bool,
}

impl Reader {
    fn new(chat: &Chat, asked: &Asked) -> Self {
        let begun: Vec<u32> = asked.turn.prefix.iter().flat_map(|piece| &piece.ids).copied().collect();
        let detokenizer = Detokenizer::after(Arc::clone(&chat.tokenizer), begun);
        Reader {
            detokenizer,
            read: 0,
            in_thoughts: chat.begins_in_thoughts(&asked.trace, &asked.turn.prefix),
        }
    }
}

impl LocalPolicy {
    fn request_of(&self, id: TurnId) -> Option<RequestId> {
        self.asked.iter().find(|(_, asked)| asked.id == id).map(|(request, _)| *request)
    }
}

impl Streaming for LocalPolicy {
    fn partial(&mut self, id: TurnId) -> Option<Partial<'_>> {
        let request = self.request_of(id)?;
        let ids = self.answering.as_ref()?.sampled(request)?;
        let asked = self.asked.get_mut(&request)?;
        if asked.reader.is_none() {
            asked.reader = Some(Reader::new(&self.chat, asked));
        }
        let reader = asked.reader.as_mut()?;
        // Latent steps and their tags are not said.
        let unsaid = match &asked.turn.sampling.latent {
            Some(_) => LATENT_TOKENS.map(|token| self.chat.tokenizer.token_id(token)),
            None => [None; 3],
        };
        while let Some(id) = ids.get(reader.read) {
            if !unsaid.contains(&Some(*id)) {
                // Ids that can't be decoded are an error of the finished answer.
                reader.detokenizer.push(*id).ok()?;
            }
            reader.read += 1;
        }
        let text = before_stop(&reader.detokenizer.text, &asked.turn.sampling.stop);
        Some(Partial { thoughts: "", text, in_thoughts: reader.in_thoughts })
    }

    fn progress(&mut self, _longest: Duration) -> Vec<Answered> {
        self.poll()
    }

    fn stop(&mut self, id: TurnId) -> bool {
        let Some(request) = self.request_of(id) else { return false };
        let generated = self.answering.as_mut().and_then(|answering| answering.stop(request));
        match (self.asked.remove(&request), generated) {
            (Some(asked), Some(generated)) => {
                let answered = self.finish(asked, Ok(generated));
                self.over.push(answered);
                true
            }
            _ => false,
        }
    }
}
