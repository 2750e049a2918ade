//! Recall: the policy answers after reading the notes of a memory that are nearest to the task.
//!
//! **What it does.** Finds the notes that BM25 takes for nearest to the first message of the user, and shows them with
//! it. At every turn of an episode the same notes stand in the same place, so nothing is read twice.
//!
//! **Formula.**
//!
//! ```text
//! n_1 .. n_k = the k notes of M with the greatest BM25(x, about(n)) > 0        y ~ π(·|show(x, n_1 .. n_k))
//! ```
//!
//! **Reduces to.** The plain answer, to the bit, where no note has anything in common with the task.
//!
//! **References.** Case-based prompting: Liu et al. 2022 (arXiv:2101.06804) show the examples that are nearest to a question;
//! Memento (arXiv:2508.16153) keeps an agent's own cases. BM25: Robertson and Zaragoza 2009.

use burnish_core::settings::SettingError;
use burnish_core::{Message, Note, Role as Speaker, Sampling};
use serde::{Deserialize, Serialize};

use crate::card::{CANDIDATES_MAX, Card, Part, require};
use crate::record::Role;
use crate::session::{POLICY, Question, Request, Session};
use crate::strategy::{Answering, Strategy};

/// Recall. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Recall {
    /// Most notes, k. Default: 3.
    pub count: usize,
    /// What replaces the user's first message: `{prompt}` stands for that message, `{notes}` for the notes.
    pub template: String,
    /// How a note is shown: `{about}` is what it is about, `{text}` what it says.
    pub note: String,
}

impl Default for Recall {
    fn default() -> Self {
        Recall {
            count: 3,
            template: "What helped before:\n\n{notes}Now:\n{prompt}".to_owned(),
            note: "{about}\n{text}\n\n".to_owned(),
        }
    }
}

impl Recall {
    /// `messages` with what is recalled about them; `None` where nothing is.
    ///
    /// # Errors
    /// What `recall` returns.
    pub fn show<E>(
        &self,
        messages: &[Message],
        recall: impl FnOnce(&str, usize) -> Result<Vec<Note>, E>,
    ) -> Result<Option<Vec<Message>>, E> {
        let Some(first) = messages.iter().position(|message| message.role == Speaker::User) else {
            return Ok(None);
        };
        let prompt = &messages[first].content;
        let notes = recall(prompt, self.count)?;
        if notes.is_empty() {
            return Ok(None);
        }
        let shown = |note: &Note| fill(&self.note, [("{about}", &note.about), ("{text}", &note.text)]);
        let notes: String = notes.iter().map(shown).collect();
        let mut messages = messages.to_vec();
        messages[first].content = fill(&self.template, [("{notes}", &notes), ("{prompt}", prompt)]);
        Ok(Some(messages))
    }
}

/// `template` with texts in its places. What a text holds is no place.
fn fill<const N: usize>(template: &str, texts: [(&str, &str); N]) -> String {
    let (mut filled, mut rest) = (String::new(), template);
    loop {
        let places = texts.iter().filter_map(|(place, text)| Some((rest.find(place)?, *place, *text)));
        let Some((at, place, text)) = places.min_by_key(|(at, ..)| *at) else { return filled + rest };
        filled += &rest[..at];
        filled += text;
        rest = &rest[at + place.len()..];
    }
}

impl Part for Recall {
    const CARD: Card = Card {
        id: "recall",
        title: "recall of notes",
        paper: "Liu et al. 2022, arXiv:2101.06804",
        equation: "y ~ π(·|show(x, the k notes of M nearest to x))",
        reads: "the notes of `[memory]`",
        reconstructed: None,
        reduces_to: &["the plain answer, where no note has anything in common with the task, to the bit"],
        file: "crates/burnish-reason/src/recall.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("count", self.count, 1, CANDIDATES_MAX)?;
        for (key, text, places) in [
            ("template", &self.template, ["{prompt}", "{notes}"]),
            ("note", &self.note, ["{text}", "{text}"]),
        ] {
            if let Some(place) = places.iter().find(|place| !text.contains(**place)) {
                return Err(SettingError::new(key, format!("must have {place}")));
            }
        }
        Ok(())
    }
}

impl Strategy for Recall {
    fn check_sampling(&self, _: &Sampling) -> Result<(), SettingError> {
        Ok(())
    }

    fn recalls(&self) -> bool {
        true
    }

    fn answer<'a>(&'a self, session: &'a Session<'_>) -> Answering<'a> {
        Box::pin(async move {
            let own = session.question(0);
            let shown = self.show(&own.messages, |about, count| session.recall(about, count))?;
            let question = shown.map_or(own, |messages| Question { at: 0, messages: messages.into() });
            let (questions, sampling) = (vec![question], session.sampling().clone());
            let (role, who) = (Role::Draft, POLICY);
            let request = Request { role, who, stage: 0, first: 0, questions, sampling };
            Ok(session.sample(request).await?[0])
        })
    }
}
