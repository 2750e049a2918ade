//! Deciding under way: what may come next in one answer, by what it says so far.

use std::fmt::Debug;

use burnish_core::Sampling;

/// Decides over one answer, token by token.
///
/// It is asked once before each token, in order, also where the answer had to leave the batch for a while. Filters, penalties
/// and chance act on what it leaves; the log-prob that the trainer recomputes is of the whole distribution all the same.
pub trait Control: Send + Sync + Debug {
    /// Says how the next token comes about, and changes its distribution through `steer`.
    ///
    /// # Errors
    /// Ends the answer with this problem.
    fn decide(&mut self, now: &Now<'_>, steer: &mut Steer) -> Result<Decision, String>;

    /// Most tokens that one of its probes reads and samples together; 0 for one that never asks.
    fn probe_tokens_max(&self) -> usize {
        0
    }
}

/// An answer before its next token.
#[derive(Debug, Clone, Copy)]
pub struct Now<'a> {
    /// What it answers.
    pub prompt: &'a [u32],
    /// What it says so far.
    pub answer: &'a [u32],
    /// The model's logits of the next token `[V]`, before everything else.
    pub logits: &'a [f32],
    /// What came of the probe that was just asked for; then it is asked once more.
    pub probed: Option<&'a Probed>,
}

/// How the next token comes about.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// It is chosen from what was steered.
    Choose,
    /// It is this one.
    Force(u32),
    /// There is none: the answer ends here.
    Stop,
    /// First a probe is answered.
    Probe(Box<Probe>),
}

/// A question to the model beside an answer. It reads what the answer has read and is forgotten afterwards: the answer goes on
/// as if it had not been asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe {
    /// What is read behind the answer so far; at least one id.
    pub ids: Vec<u32>,
    /// How its tokens are chosen, and how many. What is for answers alone (`stop`, `min_tokens`, `grammar`, `logprobs`) is refused.
    pub sampling: Sampling,
    /// The token at position `i` is chosen with `rng::uniform(seed, i)`.
    pub seed: u64,
}

/// What a probe said.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Probed {
    /// Its ids.
    pub ids: Vec<u32>,
    /// Their log-probs, as [`Choice::model_logprob`](crate::Choice::model_logprob).
    pub model_logprobs: Vec<f32>,
}

/// Changes to the logits of one token.
#[derive(Debug, Default)]
pub struct Steer {
    forbidden: Vec<u32>,
    /// A bit for each id that may come; all may where there is none.
    allowed: Option<Vec<u32>>,
    biases: Vec<(u32, f32)>,
}

impl Steer {
    /// None of these may come.
    pub fn forbid(&mut self, ids: impl IntoIterator<Item = u32>) {
        self.forbidden.extend(ids);
    }

    /// Only those may come whose bit is set, id 0 in the lowest of the first word: of what was allowed before, if that
    /// was said.
    pub fn allow_bits(&mut self, words: &[u32]) {
        match &mut self.allowed {
            Some(allowed) => {
                allowed.resize(words.len().min(allowed.len()), 0);
                allowed.iter_mut().zip(words).for_each(|(allowed, word)| *allowed &= word);
            }
            none => *none = Some(words.to_vec()),
        }
    }

    /// Only these may come.
    pub fn allow_only(&mut self, ids: &[u32]) {
        let mut words = vec![0; ids.iter().max().map_or(0, |&id| id as usize / 32 + 1)];
        ids.iter().for_each(|&id| words[id as usize / 32] |= 1 << (id % 32));
        self.allow_bits(&words);
    }

    /// One with which nothing but `id` may come.
    pub(crate) fn only(id: u32) -> Self {
        let mut steer = Steer::default();
        steer.allow_only(&[id]);
        steer
    }

    /// Adds to the logit of an id.
    pub fn bias(&mut self, id: u32, by: f32) {
        self.biases.push((id, by));
    }

    /// Does it change nothing?
    pub fn is_empty(&self) -> bool {
        self.forbidden.is_empty() && self.allowed.is_none() && self.biases.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.forbidden.clear();
        self.allowed = None;
        self.biases.clear();
    }

    /// Changes `logits` `[V]`.
    pub(crate) fn apply(&self, logits: &mut [f32]) {
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

/// Ids that must not come before so many tokens: `min_tokens`.
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
        steer.clear();
        assert!(steer.is_empty());
    }
}
