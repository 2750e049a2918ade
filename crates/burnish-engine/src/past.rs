//! How the tokens before a choice affect it: decisions of controls, and penalties.

use burnish_core::Sampling;
use std::collections::BTreeMap;

use crate::control::Steer;

/// Which ids occur in the prompt and in the answer so far, and how often in the answer.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Occurrences in the answer; 0 for ids that occur only in the prompt.
    counts: BTreeMap<u32, u32>,
}

impl Seen {
    /// Before the first token of an answer to `prompt`.
    pub fn in_prompt(prompt: &[u32]) -> Self {
        Seen { counts: prompt.iter().map(|&id| (id, 0)).collect() }
    }

    /// Notes a token of the answer.
    pub fn push(&mut self, id: u32) {
        *self.counts.entry(id).or_default() += 1;
    }

    /// Applies vLLM's penalties (`model_executor/layers/utils.py: apply_penalties`) to `logits` `[V]`: first
    /// repetition, over the ids of prompt and answer, then frequency and presence, over those of the answer.
    fn penalise(&self, logits: &mut [f32], sampling: &Sampling) {
        for (&id, &count) in &self.counts {
            let Some(logit) = logits.get_mut(id as usize) else { continue };
            if *logit > 0.0 {
                *logit /= sampling.repetition_penalty;
            } else {
                *logit *= sampling.repetition_penalty;
            }
            if count > 0 {
                *logit -= sampling.frequency_penalty * count as f32;
                *logit -= sampling.presence_penalty;
            }
        }
    }

    /// The ids that the penalties concern, and what frequency and presence subtract from the logit of each.
    pub(crate) fn penalties(&self, sampling: &Sampling) -> Vec<(u32, f32)> {
        let each = self.counts.iter().map(|(&id, &count)| match count {
            0 => (id, 0.0),
            _ => (id, sampling.frequency_penalty * count as f32 + sampling.presence_penalty),
        });
        each.filter(|&(_, by)| by != 0.0 || sampling.repetition_penalty != 1.0).collect()
    }
}

/// The part of the past that a choice depends on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Past<'a> {
    /// What the penalties need, if there are any.
    pub seen: Option<&'a Seen>,
    /// The controls' changes to the next token.
    pub steer: Option<&'a Steer>,
}

impl Past<'_> {
    /// Does it change any logit?
    pub(crate) fn is_altering(&self, sampling: &Sampling) -> bool {
        self.steer.is_some_and(|steer| !steer.is_empty()) || (self.seen.is_some() && sampling.is_penalising())
    }

    /// Changes `logits` `[V]`.
    pub(crate) fn alter(&self, logits: &mut [f32], sampling: &Sampling) {
        if let Some(steer) = self.steer {
            steer.apply(logits);
        }
        if let Some(seen) = self.seen {
            seen.penalise(logits, sampling);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{Control, Decision, NotBefore, Now};
    use burnish_tensor::Vocab;
    use serde::Deserialize;

    /// Written by `tests/golden/penalties.py`.
    #[derive(Deserialize)]
    struct Golden {
        cases: Vec<Case>,
    }

    #[derive(Deserialize)]
    struct Case {
        logits: Vec<f32>,
        prompt: Vec<u32>,
        answer: Vec<u32>,
        repetition_penalty: f32,
        presence_penalty: f32,
        frequency_penalty: f32,
        end_ids: Vec<u32>,
        min_tokens: usize,
        /// Logits after all changes; `None` for -inf.
        altered: Vec<Option<f32>>,
    }

    #[test]
    fn penalties_are_those_of_vllm() {
        let golden: Golden = serde_json::from_str(include_str!("../tests/golden/penalties.json")).unwrap();
        assert_eq!(golden.cases.len(), 60);
        let mut changed = 0;
        for case in golden.cases {
            let sampling = Sampling {
                repetition_penalty: case.repetition_penalty,
                presence_penalty: case.presence_penalty,
                frequency_penalty: case.frequency_penalty,
                ..Sampling::at(1.0, 1)
            };
            let mut seen = Seen::in_prompt(&case.prompt);
            case.answer.iter().for_each(|&id| seen.push(id));
            let mut control = NotBefore { tokens: case.min_tokens, ids: case.end_ids };
            let mut steer = Steer::default();
            let vocab = Vocab::all(case.logits.len());
            let (prompt, answer, logits) = (&*case.prompt, &*case.answer, &*case.logits);
            let now = Now { prompt, answer, logits, vocab: &vocab, probed: None, inside: None };
            assert_eq!(control.decide(&now, &mut steer), Ok(Decision::Choose));
            let mut logits = case.logits.clone();
            Past { seen: Some(&seen), steer: Some(&steer) }.alter(&mut logits, &sampling);
            for (id, (ours, theirs)) in logits.iter().zip(&case.altered).enumerate() {
                let theirs = theirs.unwrap_or(f32::NEG_INFINITY);
                assert!(*ours == theirs || (ours - theirs).abs() < 1e-5, "id {id}: {ours} {theirs}");
                changed += usize::from(*ours != case.logits[id]);
            }
        }
        assert!(changed > 500, "{changed}");
    }
}
