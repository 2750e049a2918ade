//! From a row, or an episode of a solver, to the samples that are learned from.

use burnish_core::{Message, Trace};
use burnish_data::Row;
use burnish_model::Chat;
use burnish_recipe::TooLong;
use burnish_train::Sample;

use super::corpus::{Corpus, Given};
use super::latent::Curriculum;
use super::masks::Masks;
use crate::RunError;

/// What is learned from rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Learned {
    /// Answers, word for word.
    Answers,
    /// Which answers are better.
    Preferences,
    /// The same, by a model that gives each whole conversation a number.
    Rewards,
}

/// What is made of rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Making<'a> {
    pub(super) chat: &'a Chat,
    pub(super) learned: Learned,
    /// How a model of masked diffusion learns answers; `None` for one that reads from left to right.
    pub(super) masks: Option<Masks>,
    /// How answers become latent, and the stage; `None` where all is said.
    pub(super) latent: Option<(&'a Curriculum, usize)>,
    /// Most tokens of a sequence.
    pub(super) length_max: usize,
    pub(super) too_long: TooLong,
}

impl Making<'_> {
    /// The samples of row number `index`, each with a token that counts in the loss: of a conversation one for each
    /// branch of its trace, of a preference one for each answer, the better one first. `None` in the place of one that
    /// is too long, and for a whole preference of which an answer is.
    ///
    /// # Errors
    /// If the row can't be read or rendered, or has not what is learned from.
    pub(super) fn samples(self, corpus: &Corpus, index: usize) -> Result<Vec<Option<Sample>>, RunError> {
        if self.learned == Learned::Answers {
            let samples = imitated(corpus, self.chat, index, self.latent)?.into_iter();
            let samples = samples.filter(|sample| sample.scored_tokens() > 0);
            let is_text = || matches!(corpus.get(index), Ok(Given::Text(_)));
            return Ok(match self.masks {
                // Texts are learned as they are: nothing says where an answer would begin.
                Some(masks) if !is_text() => {
                    let canvases = samples.flat_map(|sample| masks.canvases(&sample));
                    canvases.map(|sample| sample.and_then(|sample| self.cut(sample))).collect()
                }
                _ => samples.map(|sample| self.cut(sample)).collect(),
            });
        }
        let of_rewards = self.learned == Learned::Rewards;
        let whole = |sample: Sample| if of_rewards { sample.ending() } else { sample };
        let samples = preferred(corpus, self.chat, index)?.into_iter();
        let samples = samples.map(|sample| self.cut(sample).map(whole));
        let samples: Option<Vec<Sample>> = samples.collect();
        Ok(samples.map_or_else(|| vec![None], |samples| samples.into_iter().map(Some).collect()))
    }

    /// Row number `index` with the answers of row number `other`, to see what the policy makes of answers that do not
    /// belong to a prompt. One that is too long is cut at the limit.
    ///
    /// # Errors
    /// As [`samples`](Self::samples).
    pub(super) fn mismatched(
        self,
        corpus: &Corpus,
        index: usize,
        other: usize,
    ) -> Result<Vec<Sample>, RunError> {
        let (row, donor) = (corpus.row(index)?, corpus.row(other)?);
        let own = answers(&row).map_err(|problem| corpus.error(index, problem))?;
        let others = answers(&donor).map_err(|problem| corpus.error(other, problem))?;
        let taken = own.iter().zip(others.iter().chain(others.last()));
        let samples = taken.map(|((_, label), (answer, _))| {
            let mut sample = answered(corpus, self.chat, index, &row, answer, *label)?;
            if sample.ids.len() > self.length_max {
                sample.truncate(self.length_max);
            }
            Ok(sample)
        });
        samples.collect()
    }

    /// The sample as far as the limit goes; `None` if it is left out.
    fn cut(self, mut sample: Sample) -> Option<Sample> {
        if sample.ids.len() <= self.length_max {
            return Some(sample);
        }
        if self.too_long == TooLong::Drop {
            return None;
        }
        sample.truncate(self.length_max);
        (sample.scored_tokens() > 0).then_some(sample)
    }
}

/// What is imitated of a row: one sample for each branch of its trace.
pub(super) fn imitated(
    corpus: &Corpus,
    chat: &Chat,
    index: usize,
    latent: Option<(&Curriculum, usize)>,
) -> Result<Vec<Sample>, RunError> {
    match corpus.get(index)? {
        Given::Conversation { mut messages, first, tools } => {
            if let Some((curriculum, stage)) = latent {
                curriculum.rewrite(&mut messages[first..], stage);
            }
            let mut trace = Trace::new();
            chat.demonstrate_from(&mut trace, &messages, first, &tools)?;
            let mut samples: Vec<Sample> = trace.branches().iter().map(Sample::from_demonstration).collect();
            if let Some((curriculum, _)) = latent {
                samples.iter_mut().for_each(|sample| curriculum.mark(sample));
            }
            Ok(samples)
        }
        Given::Text(text) => {
            let mut ids = chat.tokenizer.encode(&text)?;
            let end = chat.end_ids().first().copied();
            ids.extend(end.filter(|end| ids.last() != Some(end)));
            Ok(vec![Sample::of_text(ids)])
        }
    }
}

/// The answers of a row with an advantage of 1 for a good one and -1 for a bad one; of a pair the better one first.
///
/// # Errors
/// If it has neither a pair nor a label.
fn answers(row: &Row) -> Result<Vec<(&[Message], f32)>, String> {
    match (&row.chosen, &row.rejected, &row.completion, row.label) {
        (Some(chosen), Some(rejected), ..) => Ok(vec![(chosen, 1.0), (rejected, -1.0)]),
        (_, _, Some(completion), Some(label)) => Ok(vec![(completion, if label { 1.0 } else { -1.0 })]),
        _ => Err("has no preference: it needs `chosen` with `rejected`, or `completion` with a `label` of true or false"
            .to_owned()),
    }
}

/// Checks that a preference can be learned from a row.
///
/// # Errors
/// Says what is missing.
pub(super) fn comparable(row: &Row) -> Result<(), String> {
    let answers = answers(row)?;
    if answers.iter().any(|(messages, _)| messages.is_empty()) {
        return Err("has an empty answer".to_owned());
    }
    Ok(())
}

/// One sample for each answer of a row.
fn preferred(corpus: &Corpus, chat: &Chat, index: usize) -> Result<Vec<Sample>, RunError> {
    let row = corpus.row(index)?;
    let answers = answers(&row).map_err(|problem| corpus.error(index, problem))?;
    answers.into_iter().map(|(answer, label)| answered(corpus, chat, index, &row, answer, label)).collect()
}

/// The prompt of row number `index` with an answer, whose tokens have the advantage `label`.
fn answered(
    corpus: &Corpus,
    chat: &Chat,
    index: usize,
    row: &Row,
    answer: &[Message],
    label: f32,
) -> Result<Sample, RunError> {
    let messages: Vec<Message> = row.prompt.iter().chain(answer).cloned().collect();
    let mut trace = Trace::new();
    chat.demonstrate_from(&mut trace, &messages, row.prompt.len(), &row.tools)?;
    let mut samples: Vec<Sample> = trace.branches().iter().map(Sample::from_demonstration).collect();
    match (samples.pop(), samples.is_empty()) {
        (Some(sample), true) if sample.scored_tokens() > 0 => {
            Ok(Sample { advantages: vec![label; sample.ids.len()], ..sample })
        }
        _ => Err(corpus.error(
            index,
            "is not one sequence of tokens with an answer in it: the chat template rewrites its history, so the answer has \
             no single log-probability"
                .to_owned(),
        )),
    }
}
