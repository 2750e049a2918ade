//! Latent steps while an answer is sampled: where they begin, and when they end.

use std::borrow::Cow;

use burnish_core::{Intervention, LATENT, Latent, LatentInput, LatentPlace, SPAN_CLOSE, SPAN_OPEN, rng};
use burnish_model::Tokenizer;

use crate::control::{Control, Decision, Now, Steer};

/// The ids of the three tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatentIds {
    /// `<swi>`
    pub open: u32,
    /// `</swi>`
    pub close: u32,
    /// `<latent>`
    pub step: u32,
}

impl LatentIds {
    /// Those of a tokenizer.
    ///
    /// # Errors
    /// Names the tokens that it does not have.
    pub fn of(tokenizer: &Tokenizer) -> Result<Self, String> {
        match [SPAN_OPEN, SPAN_CLOSE, LATENT].map(|token| tokenizer.token_id(token)) {
            [Some(open), Some(close), Some(step)] => Ok(LatentIds { open, close, step }),
            ids => {
                let names = [SPAN_OPEN, SPAN_CLOSE, LATENT].into_iter().zip(ids);
                let absent: Vec<&str> = names.filter(|(_, id)| id.is_none()).map(|(name, _)| name).collect();
                Err(format!("the policy's tokenizer has no {}", absent.join(", ")))
            }
        }
    }
}

/// Lets an answer go on in latent steps. It keeps no state: what it decides follows from the tokens so far.
#[derive(Debug, Clone)]
pub struct LatentSteps {
    /// When, and for how long.
    pub rule: Latent,
    /// The tokens.
    pub ids: LatentIds,
}

impl LatentSteps {
    /// How many latent steps the span under way has; `None` outside of spans.
    fn in_span(&self, now: &Now<'_>) -> Option<usize> {
        let steps = now.answer.iter().rev().take_while(|id| **id == self.ids.step).count();
        let before = now.answer[..now.answer.len() - steps].last().or(now.prompt.last());
        (before == Some(&self.ids.open)).then_some(steps)
    }

    /// Within a span. The model leaves it where `</swi>` is the likeliest of all tokens; no other token can be emitted
    /// there, so any other means to go on.
    fn in_span_after(&self, steps: usize, now: &Now<'_>) -> Decision {
        let Latent { steps_min, steps_max, intervention, .. } = self.rule;
        if intervention == Some(Intervention::Skip) {
            return Decision::Put(self.ids.close);
        }
        if steps < steps_min {
            return Decision::Latent(self.ids.step);
        }
        if likeliest(now) == Some(self.ids.close) {
            return Decision::Force(self.ids.close);
        }
        if steps < steps_max { Decision::Latent(self.ids.step) } else { Decision::Put(self.ids.close) }
    }
}

impl Control for LatentSteps {
    fn decide(&mut self, now: &Now<'_>, _: &mut Steer) -> Result<Decision, String> {
        Ok(match self.rule.place {
            LatentPlace::Visible => Decision::Choose,
            LatentPlace::Start => {
                let is_skipped = self.rule.intervention == Some(Intervention::Skip);
                match now.answer.len() < self.rule.steps_max && !is_skipped {
                    true => Decision::Latent(self.ids.step),
                    false => Decision::Choose,
                }
            }
            LatentPlace::Spans => match self.in_span(now) {
                Some(steps) => self.in_span_after(steps, now),
                None => Decision::Choose,
            },
        })
    }

    fn reads_logits(&self) -> bool {
        self.rule.place == LatentPlace::Spans
    }

    fn latent(&self) -> Option<(u32, &Latent)> {
        Some((self.ids.step, &self.rule))
    }
}

/// The likeliest of the ids that exist, the lowest of equal ones.
fn likeliest(now: &Now<'_>) -> Option<u32> {
    let ids = (0..now.logits.len() as u32).filter(|&id| now.vocab.contains(id));
    ids.fold(None, |best: Option<u32>, id| match best {
        Some(best) if now.logits[best as usize] >= now.logits[id as usize] => Some(best),
        _ => Some(id),
    })
}

/// What a latent step reads instead of `hidden`. `place` is its number in the answer of a request with this seed. Nothing
/// if it reads an embedding.
pub(crate) fn input<'h>(rule: &Latent, hidden: &'h [f32], seed: u64, place: usize) -> Cow<'h, [f32]> {
    match (rule.input, rule.intervention) {
        (LatentInput::Filler, _) => Cow::Borrowed(&[]),
        (LatentInput::Hidden, Some(Intervention::Zero)) => Cow::Owned(vec![0.0; hidden.len()]),
        (LatentInput::Hidden, Some(Intervention::RandomNorm)) => {
            Cow::Owned(random_of_norm(hidden, rng::bits(seed, place as u64)))
        }
        (LatentInput::Hidden, Some(Intervention::Identity | Intervention::Skip) | None) => {
            Cow::Borrowed(hidden)
        }
    }
}

/// A vector with a random direction and the 2-norm of `hidden`.
fn random_of_norm(hidden: &[f32], seed: u64) -> Vec<f32> {
    let mut stream = rng::Stream::new(seed);
    let random: Vec<f64> = hidden.iter().map(|_| stream.normal()).collect();
    let norm = |squares: f64| squares.sqrt();
    let own = norm(hidden.iter().map(|x| f64::from(*x) * f64::from(*x)).sum());
    let length = norm(random.iter().map(|x| x * x).sum());
    random.iter().map(|x| (x * own / length) as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use burnish_tensor::Vocab;

    const IDS: LatentIds = LatentIds { open: 1, close: 2, step: 3 };

    fn rule() -> Latent {
        Latent {
            place: LatentPlace::Spans,
            input: LatentInput::Hidden,
            steps_min: 2,
            steps_max: 4,
            intervention: None,
        }
    }

    /// What is decided after these tokens of an answer to the prompt `[7]`, if `</swi>` is likeliest or not.
    fn decided(rule: &Latent, answer: &[u32], wants_out: bool) -> Decision {
        let mut logits = [0.0; 6];
        // The id of latent steps does not exist, whatever its logit.
        logits[3] = 9.0;
        logits[if wants_out { 2 } else { 5 }] = 1.0;
        let vocab = Vocab::only(6, |id| id != 3);
        let now = Now { prompt: &[7], answer, logits: &logits, vocab: &vocab, probed: None, inside: None };
        LatentSteps { rule: rule.clone(), ids: IDS }.decide(&now, &mut Steer::default()).unwrap()
    }

    #[test]
    fn a_span_has_the_fewest_steps_at_least_and_the_most_at_most() {
        let rule = rule();
        for wants_out in [false, true] {
            assert_eq!(decided(&rule, &[], wants_out), Decision::Choose);
            assert_eq!(decided(&rule, &[5, 5], wants_out), Decision::Choose);
            assert_eq!(decided(&rule, &[5, 1], wants_out), Decision::Latent(3));
            assert_eq!(decided(&rule, &[5, 1, 3], wants_out), Decision::Latent(3));
        }
        assert_eq!(decided(&rule, &[1, 3, 3], false), Decision::Latent(3));
        assert_eq!(decided(&rule, &[1, 3, 3], true), Decision::Force(2));
        assert_eq!(decided(&rule, &[1, 3, 3, 3, 3], false), Decision::Put(2), "the cap is nobody's choice");
        assert_eq!(decided(&rule, &[1, 3, 3, 3, 3], true), Decision::Force(2));
        assert_eq!(decided(&rule, &[1, 3, 3, 2], true), Decision::Choose);
        let skipping = Latent { intervention: Some(Intervention::Skip), ..rule.clone() };
        assert_eq!(decided(&skipping, &[1], false), Decision::Put(2));
        let visible = Latent { place: LatentPlace::Visible, ..rule };
        assert_eq!(decided(&visible, &[1], false), Decision::Choose);
    }

    #[test]
    fn without_tags_the_answer_begins_with_all_steps() {
        let rule = Latent { place: LatentPlace::Start, steps_min: 0, ..rule() };
        assert_eq!(decided(&rule, &[], true), Decision::Latent(3));
        assert_eq!(decided(&rule, &[3, 3, 3], true), Decision::Latent(3));
        assert_eq!(decided(&rule, &[3, 3, 3, 3], false), Decision::Choose);
    }

    #[test]
    fn a_random_input_has_the_norm_of_the_hidden_state_and_the_identity_is_it() {
        let hidden: Vec<f32> = (0..40).map(|at| (at as f32 - 13.0) / 7.0).collect();
        let with = |intervention| Latent { intervention, ..rule() };
        let of = |intervention, seed, place| input(&with(intervention), &hidden, seed, place).into_owned();
        assert_eq!(of(None, 1, 0), hidden);
        assert_eq!(of(Some(Intervention::Identity), 1, 0), hidden);
        assert_eq!(of(Some(Intervention::Zero), 1, 0), [0.0; 40]);
        let random = of(Some(Intervention::RandomNorm), 1, 0);
        let norm = |x: &[f32]| x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
        assert!((norm(&random) / norm(&hidden) - 1.0).abs() < 1e-6);
        let cosine: f64 = random.iter().zip(&hidden).map(|(a, b)| f64::from(a * b)).sum::<f64>()
            / (norm(&random) * norm(&hidden));
        assert!(cosine.abs() < 0.6, "{cosine}");
        assert_eq!(random, of(Some(Intervention::RandomNorm), 1, 0));
        assert_ne!(random, of(Some(Intervention::RandomNorm), 1, 1));
        assert_ne!(random, of(Some(Intervention::RandomNorm), 2, 0));
        assert_eq!(input(&Latent { input: LatentInput::Filler, ..rule() }, &hidden, 1, 0).len(), 0);
    }
}
