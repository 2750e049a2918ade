//! Decisions during sampling: what may come next in one answer, depending on what it says so far.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use burnish_core::{Latent, Sampling};
use burnish_tensor::Vocab;

/// Decides over one answer, token by token.
///
/// It is asked once before each token, in order, even if the answer had to leave the batch for a while. Filters,
/// penalties and chance act on what it allows; the log-prob that the trainer recomputes is still that of the whole
/// distribution.
pub trait Control: Send + Sync + Debug {
    /// Decides how the next token comes about, and may change its distribution through `steer`.
    ///
    /// # Errors
    /// Ends the answer with this problem.
    fn decide(&mut self, now: &Now<'_>, steer: &mut Steer) -> Result<Decision, String>;

    /// Does it look at [`Now::logits`], or replace them? If no control of an answer does, a GPU keeps them: whatever else is
    /// steered is done there.
    fn reads_logits(&self) -> bool {
        true
    }

    /// Most tokens that one of its probes reads and samples in total, another prompt among them; 0 if it never asks for one.
    fn probe_tokens_max(&self) -> usize {
        0
    }

    /// The tokens of the prompt, by position, whose share of the attention it wants to know before each token. With
    /// `Some`, even of no token, it is shown the [`Inside`] of the model; of an answer's controls at most one is.
    fn marked(&self) -> Option<Arc<[bool]>> {
        None
    }

    /// The id of latent steps and their rule, if it decides on latent steps; of an answer's controls at most one does.
    fn latent(&self) -> Option<(u32, &Latent)> {
        None
    }

    /// The layers, counted from 0, whose logits it wants to see before the next token, given the attention to the
    /// marked tokens ([`Inside::attention`]).
    fn layers(&mut self, _attention: &[Option<f32>]) -> Vec<usize> {
        Vec::new()
    }
}

/// What the model did inside when it read the last token.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Inside {
    /// The share of its attention that each layer pays to the marked tokens, mean over its heads; `None` for a layer
    /// without attention.
    pub attention: Vec<Option<f32>>,
    /// Logits `[V]` of the layers that [`Control::layers`] asked for, in that order: what the model would have said if
    /// it ended there.
    pub logits: Vec<Vec<f32>>,
}

/// An answer before its next token.
#[derive(Debug, Clone, Copy)]
pub struct Now<'a> {
    /// The prompt that it answers.
    pub prompt: &'a [u32],
    /// The answer so far.
    pub answer: &'a [u32],
    /// The model's logits for the next token `[V]`, before any change. Empty if they stay on a GPU
    /// ([`Control::reads_logits`]).
    pub logits: &'a [f32],
    /// Which of its ids exist. The others are never sampled, whatever their logits.
    pub vocab: &'a Vocab,
    /// The result of the probe that was just asked for; the control is asked again with it.
    pub probed: Option<&'a Probed>,
    /// The model's inside, for the control that asked for it.
    pub inside: Option<&'a Inside>,
}

/// How the next token comes about.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// It is chosen from the steered distribution.
    Choose,
    /// It is this id.
    Force(u32),
    /// It is this id, which a limit puts there and the model did not choose.
    Put(u32),
    /// It is a latent step with this id: no token is chosen, and the model reads its own hidden state there.
    Latent(u32),
    /// There is none: the answer ends here.
    Stop,
    /// A probe must be answered first.
    Probe(Box<Probe>),
}

/// A question to the model beside an answer. It follows what the answer has read and is then forgotten: the answer
/// continues as if nothing had been asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe {
    /// The prompt that is read in the place of the answer's, with the answer so far behind it. It is read anew each time.
    pub instead: Option<Arc<[u32]>>,
    /// The ids that are read after the answer so far; at least one, unless there is another prompt.
    pub ids: Vec<u32>,
    /// How many tokens are sampled, and how. Options that only apply to answers (`stop`, `min_tokens`, `grammar`,
    /// `logprobs`) are refused.
    pub sampling: Sampling,
    /// The token at position `i` is chosen with `rng::uniform(seed, i)`.
    pub seed: u64,
}

/// The answer to a probe.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Probed {
    /// Its ids.
    pub ids: Vec<u32>,
    /// Their log-probs, as [`Choice::model_logprob`](crate::Choice::model_logprob).
    pub model_logprobs: Vec<f32>,
    /// The entropies in nats of the distributions that they were chosen from, at temperature 1.
    pub entropies: Vec<f32>,
    /// If another prompt was read: the logits `[V]` of the first of them.
    pub logits: Vec<f32>,
}

/// Changes to the logits of one token.
#[derive(Debug, Default)]
pub struct Steer {
    forbidden: Vec<u32>,
    /// One bit per id, set if the id is allowed; `None` allows all.
    allowed: Option<Vec<u32>>,
    biases: Vec<(u32, f32)>,
    /// What takes the place of the logits, before everything else.
    replaced: Option<Vec<f32>>,
}

impl Steer {
    /// Forbids these ids.
    pub fn forbid(&mut self, ids: impl IntoIterator<Item = u32>) {
        self.forbidden.extend(ids);
    }

    /// Of the ids that are allowed so far, allows only those whose bit is set; id 0 is the lowest bit of the first
    /// word.
    pub fn allow_bits(&mut self, words: &[u32]) {
        match &mut self.allowed {
            Some(allowed) => {
                allowed.resize(words.len().min(allowed.len()), 0);
                allowed.iter_mut().zip(words).for_each(|(allowed, word)| *allowed &= word);
            }
            none => *none = Some(words.to_vec()),
        }
    }

    /// Allows only these ids.
    pub fn allow_only(&mut self, ids: &[u32]) {
        let mut words = vec![0; ids.iter().max().map_or(0, |&id| id as usize / 32 + 1)];
        ids.iter().for_each(|&id| words[id as usize / 32] |= 1 << (id % 32));
        self.allow_bits(&words);
    }

    /// Allows nothing but `id`.
    pub(crate) fn only(id: u32) -> Self {
        let mut steer = Steer::default();
        steer.allow_only(&[id]);
        steer
    }

    /// Puts these logits `[V]` in the place of the model's.
    pub fn replace(&mut self, logits: Vec<f32>) {
        self.replaced = Some(logits);
    }

    /// Adds to the logit of an id.
    pub fn bias(&mut self, id: u32, by: f32) {
        self.biases.push((id, by));
    }

    /// Does it change nothing?
    pub fn is_empty(&self) -> bool {
        self.forbidden.is_empty()
            && self.allowed.is_none()
            && self.biases.is_empty()
            && self.replaced.is_none()
    }

    pub(crate) fn clear(&mut self) {
        self.forbidden.clear();
        self.allowed = None;
        self.biases.clear();
        self.replaced = None;
    }

    /// Does it put other logits in the place of the model's?
    pub(crate) fn is_replacing(&self) -> bool {
        self.replaced.is_some()
    }

    /// One bit per id, set if the id is allowed; `None` allows all.
    pub(crate) fn allowed(&self) -> Option<&[u32]> {
        self.allowed.as_deref()
    }

    /// What it adds to logits, each id once; -inf to those that it forbids one by one.
    pub(crate) fn added(&self) -> Vec<(u32, f32)> {
        let mut added = BTreeMap::new();
        for &(id, by) in &self.biases {
            *added.entry(id).or_insert(0.0) += by;
        }
        added.extend(self.forbidden.iter().map(|&id| (id, f32::NEG_INFINITY)));
        added.into_iter().collect()
    }

    /// Changes `logits` `[V]`.
    pub(crate) fn apply(&self, logits: &mut [f32]) {
        if let Some(replaced) = &self.replaced {
            let shared = logits.len().min(replaced.len());
            logits[..shared].copy_from_slice(&replaced[..shared]);
        }
        for &(id, by) in &self.biases {
            if let Some(logit) = logits.get_mut(id as usize) {
                *logit += by;
            }
        }
        for &id in &self.forbidden {
            if let Some(logit) = logits.get_mut(id as usize) {
                *logit = f32::NEG_INFINITY;
            }
        }
        let Some(allowed) = &self.allowed else { return };
        for (id, logit) in logits.iter_mut().enumerate() {
            let is_allowed = allowed.get(id / 32).is_some_and(|word| word >> (id % 32) & 1 == 1);
            if !is_allowed {
                *logit = f32::NEG_INFINITY;
            }
        }
    }
}

/// Forbids ids before this many tokens: `min_tokens`.
#[derive(Debug)]
pub(crate) struct NotBefore {
    pub(crate) tokens: usize,
    pub(crate) ids: Vec<u32>,
}

impl Control for NotBefore {
    fn decide(&mut self, now: &Now<'_>, steer: &mut Steer) -> Result<Decision, String> {
        if now.answer.len() < self.tokens {
            steer.forbid(self.ids.iter().copied());
        }
        Ok(Decision::Choose)
    }

    fn reads_logits(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allowed_is_allowed_by_all_who_say_so() {
        let mut steer = Steer::default();
        assert!(steer.is_empty());
        steer.allow_only(&[1, 2, 40]);
        steer.allow_only(&[2, 40, 70]);
        steer.forbid([2]);
        steer.bias(40, 1.5);
        steer.bias(99, 1.0);
        let mut logits = [0.5; 64];
        steer.apply(&mut logits);
        for (id, logit) in logits.iter().enumerate() {
            assert_eq!(*logit, if id == 40 { 2.0 } else { f32::NEG_INFINITY });
        }
        // The same for a GPU, with each id once.
        steer.bias(40, 0.5);
        steer.forbid([7, 7]);
        let no = f32::NEG_INFINITY;
        assert_eq!(steer.added(), [(2, no), (7, no), (40, 2.0), (99, 1.0)]);
        assert_eq!(steer.allowed(), Some(&[1 << 2, 1 << 8][..]));
        steer.clear();
        assert!(steer.is_empty());
    }
}
