//! Reflection suppressed where the model is sure already (CGRS, arXiv:2508.05337).

use std::sync::Arc;

use burnish_core::{Sampling, rng};

use super::{Act, Part, Said};
use crate::control::{Now, Probe, Probed, Steer};

/// Asks for an answer at each delimiter, and forbids words of reflection as often as it is sure.
#[derive(Debug)]
pub(super) struct Certainty {
    pub(super) threshold: f32,
    pub(super) delimiter: String,
    pub(super) probe: Arc<[u32]>,
    pub(super) tokens: usize,
    pub(super) context_tokens_max: usize,
    pub(super) ids: Arc<[u32]>,
    pub(super) seed: u64,
    /// How often words are forbidden until the next delimiter.
    pub(super) probability: f64,
    /// Length of the answer when it was last asked.
    pub(super) asked_at: Option<usize>,
}

impl Certainty {
    /// `1 - mean entropy / ln |V|`, from 0 to 1. Nothing said is no certainty.
    fn certainty(probed: &Probed, now: &Now<'_>, said: &Said) -> Result<f64, String> {
        let count = answered(&probed.ids, said)?.min(probed.entropies.len());
        let vocab = now.vocab.len() - now.vocab.excluded().len();
        if count == 0 || vocab < 2 {
            return Ok(0.0);
        }
        let entropies = probed.entropies[..count].iter().map(|entropy| f64::from(*entropy));
        let mean = entropies.sum::<f64>() / count as f64;
        Ok((1.0 - mean / (vocab as f64).ln()).clamp(0.0, 1.0))
    }

    fn probability_at(&self, certainty: f64) -> f64 {
        let threshold = f64::from(self.threshold);
        match threshold < 1.0 {
            true => ((certainty - threshold) / (1.0 - threshold)).max(0.0),
            false => 0.0,
        }
    }
}

/// How many tokens of what was said are the answer: up to the brace that closes the first one, or all.
fn answered(ids: &[u32], said: &Said) -> Result<usize, String> {
    let mut depth = 0i32;
    for (at, id) in ids.iter().enumerate() {
        let text = said.tokenizer.decode(&[*id], false).map_err(|error| error.to_string())?;
        for letter in text.chars() {
            depth += match letter {
                '{' => 1,
                '}' => -1,
                _ => continue,
            };
            if depth <= 0 {
                return Ok(at + 1);
            }
        }
    }
    Ok(ids.len())
}

impl Part for Certainty {
    fn decide(&mut self, now: &Now<'_>, said: &Said, steer: &mut Steer) -> Result<Act, String> {
        if said.thought().is_none() {
            return Ok(Act::Pass);
        }
        let position = now.answer.len();
        if let Some(probed) = now.probed {
            self.probability = self.probability_at(Self::certainty(probed, now, said)?);
        } else if self.threshold < 1.0
            && self.asked_at != Some(position)
            && position > 0
            && now.prompt.len() + position + self.probe_tokens_max() <= self.context_tokens_max
            && said.is_new(&self.delimiter)
        {
            self.asked_at = Some(position);
            return Ok(Act::Probe(Box::new(Probe {
                instead: None,
                ids: self.probe.to_vec(),
                sampling: Sampling::greedy(self.tokens),
                seed: 0,
            })));
        }
        // A draw of its own: the one at this position decides which token comes.
        let draw = rng::uniform(rng::bits(self.seed, u64::MAX), position as u64);
        if draw < self.probability {
            steer.forbid(self.ids.iter().copied());
        }
        Ok(Act::Pass)
    }

    fn probe_tokens_max(&self) -> usize {
        self.probe.len() + self.tokens
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suppression_grows_with_certainty_above_the_threshold_alone() {
        let part = |threshold| Certainty {
            threshold,
            delimiter: "\n\n".into(),
            probe: Arc::default(),
            tokens: 1,
            context_tokens_max: 9,
            ids: Arc::default(),
            seed: 0,
            probability: 0.0,
            asked_at: None,
        };
        assert_eq!(part(0.5).probability_at(0.5), 0.0);
        assert_eq!(part(0.5).probability_at(0.2), 0.0);
        assert_eq!(part(0.5).probability_at(0.75), 0.5);
        assert_eq!(part(0.9).probability_at(1.0), 1.0);
        assert_eq!(part(1.0).probability_at(1.0), 0.0);
        assert_eq!(part(0.0).probability_at(0.3), 0.3);
    }
}
