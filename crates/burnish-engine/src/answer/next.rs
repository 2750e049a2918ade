//! What comes next in an answer: its controls decide, then a token is chosen, here or on a GPU.

use burnish_core::{Sampling, TokenLogprobs, rng};
use burnish_tensor::{Draw, Drawn, NoDraw, Vocab};

use super::{Answer, Next};
use crate::control::{Decision, Now, Probed};
use crate::past::Past;
use crate::{Choice, Chooser, EngineError};

impl Answer {
    /// What comes next, given the logits `[V]`.
    pub(crate) fn next(&mut self, logits: &[f32], vocab: &Vocab, chooser: &mut Chooser) -> Next {
        if let Some(decided) = self.decide(logits, vocab) {
            return decided;
        }
        let choice = match self.forced {
            Some(id) => chooser.force(logits, vocab, &self.sampling, id),
            None => {
                let past = Past { seen: self.seen.as_ref(), steer: Some(&self.steer) };
                chooser.choose(logits, vocab, &self.sampling, past, self.uniform())
            }
        };
        match choice {
            Some(choice) => {
                let details = self.details_asked().map(|n| chooser.details(logits, choice, n));
                self.come(choice, details)
            }
            None if logits.iter().all(|x| x.is_finite()) => self.fail(NoDraw::NothingAllowed),
            None => self.fail(NoDraw::NotFinite),
        }
    }

    /// Does one of its controls need the logits to decide?
    pub(crate) fn reads_logits(&self) -> bool {
        self.controls.iter().any(|control| control.reads_logits())
    }

    /// What its controls decide, given the logits `[V]`, or none if they read none; `None` if a token is to be chosen.
    pub(crate) fn decide(&mut self, logits: &[f32], vocab: &Vocab) -> Option<Next> {
        let asked = self.probed.take();
        let first = asked.as_ref().map_or(0, |(at, _)| *at);
        if asked.is_none() {
            self.steer.clear();
            self.forced = None;
            self.is_put = false;
        }
        for at in first..self.controls.len() {
            let probed = asked.as_ref().filter(|(asker, _)| *asker == at).map(|(_, probed)| probed);
            let looker = self.looker.as_ref().filter(|looker| looker.at == at);
            if let Some(problem) = looker.and_then(|looker| looker.problem.clone()) {
                return Some(self.control_failed(problem));
            }
            let inside = looker.map(|looker| &looker.inside);
            let answer = &self.ids[self.given..];
            let now = Now { prompt: &self.question, answer, logits, vocab, probed, inside };
            match self.controls[at].decide(&now, &mut self.steer) {
                Ok(Decision::Choose) => {}
                Ok(Decision::Force(id)) => (self.forced, self.is_put) = (Some(id), false),
                Ok(Decision::Put(id)) => (self.forced, self.is_put) = (Some(id), true),
                Ok(Decision::Latent(id)) => return Some(Next::Latent(id)),
                Ok(Decision::Stop) => return Some(Next::Stop),
                Ok(Decision::Probe(probe)) => {
                    self.probed = Some((at, Probed::default()));
                    return Some(Next::Probe(probe));
                }
                Err(problem) => return Some(self.control_failed(problem)),
            }
        }
        let is_blind = logits.is_empty() && self.steer.is_replacing();
        is_blind.then(|| {
            self.control_failed(
                "it replaces logits, so it must say that it reads them (`reads_logits`)".into(),
            )
        })
    }

    /// How a GPU chooses the token that was not decided on, from a row of logits.
    pub(crate) fn draw(&self, row: usize) -> Draw<'_> {
        let Sampling { temperature, top_k, top_p, min_p, repetition_penalty, .. } = self.sampling;
        let seen = self.seen.as_ref();
        Draw {
            allowed: self.steer.allowed(),
            added: self.steer.added(),
            repetition: repetition_penalty,
            penalties: seen.map_or_else(Vec::new, |seen| seen.penalties(&self.sampling)),
            top_k,
            top_p,
            min_p,
            forced: self.forced,
            likeliest: self.details_asked(),
            ..Draw::at(row, temperature, self.uniform())
        }
    }

    /// What comes next after that.
    pub(crate) fn drawn(&self, drawn: Result<Drawn, NoDraw>) -> Next {
        match drawn {
            Ok(Drawn { id, model_logprob, sampled_logprob: sampled, rank, top }) => {
                let details = self.details_asked().map(|_| TokenLogprobs { rank, top, sampled });
                self.come(Choice { id, model_logprob, sampled_logprob: sampled }, details)
            }
            Err(why) => self.fail(why),
        }
    }

    /// The random number of the next token.
    fn uniform(&self) -> f64 {
        rng::uniform(self.seed, self.sampled() as u64)
    }

    /// How many likeliest ids are reported with the next token, if details are asked for.
    fn details_asked(&self) -> Option<usize> {
        self.sampling.logprobs.filter(|_| !self.is_put)
    }

    fn come(&self, choice: Choice, details: Option<TokenLogprobs>) -> Next {
        if self.is_put { Next::Put(choice) } else { Next::Token(choice, details) }
    }

    fn fail(&self, why: NoDraw) -> Next {
        let is_steered = self.forced.is_some() || !self.steer.is_empty();
        if why == NoDraw::NothingAllowed && is_steered {
            return self.control_failed("none of the allowed ids is in the vocabulary".into());
        }
        Next::Failed(EngineError::NotFinite { request: self.id.index(), position: self.sampled() })
    }

    fn control_failed(&self, problem: String) -> Next {
        Next::Failed(EngineError::Control { request: self.id.index(), position: self.sampled(), problem })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{Control, Steer};
    use crate::{Request, RequestId};
    use burnish_core::Source;
    use std::ops::ControlFlow;
    use std::sync::Arc;

    /// Replaces the logits; the flag says whether it says so.
    #[derive(Debug)]
    struct Replacing(bool);

    impl Control for Replacing {
        fn decide(&mut self, now: &Now<'_>, steer: &mut Steer) -> Result<Decision, String> {
            steer.replace(vec![1.0; now.vocab.len()]);
            Ok(Decision::Choose)
        }

        fn reads_logits(&self) -> bool {
            self.0
        }
    }

    fn answer(sampling: Sampling, controls: Vec<Box<dyn Control>>) -> Answer {
        let request = Request { prompt: vec![1, 5], sampling, seed: 3, end_ids: Arc::from([2]) };
        Answer::new(RequestId(0), request, Arc::from([1, 5]), None, controls)
    }

    #[test]
    fn a_draw_does_what_controls_and_penalties_do_on_the_host() {
        let sampling = Sampling {
            min_tokens: 2,
            repetition_penalty: 1.5,
            presence_penalty: 0.25,
            frequency_penalty: 0.5,
            top_k: 7,
            top_p: 0.9,
            min_p: 0.1,
            logprobs: Some(3),
            ..Sampling::at(0.7, 9)
        };
        let mut answer = answer(sampling, Vec::new());
        let vocab = Vocab::all(8);
        let mut expected = Draw {
            added: vec![(2, f32::NEG_INFINITY)],
            repetition: 1.5,
            penalties: vec![(1, 0.0), (5, 0.0)],
            top_k: 7,
            top_p: 0.9,
            min_p: 0.1,
            likeliest: Some(3),
            ..Draw::at(4, 0.7, rng::uniform(3, 0))
        };
        assert!(!answer.reads_logits() && answer.decide(&[], &vocab).is_none());
        assert_eq!(answer.draw(4), expected);
        for (id, penalties) in [(5, vec![(1, 0.0), (5, 0.75)]), (5, vec![(1, 0.0), (5, 1.25)])] {
            let choice = Choice { id, model_logprob: -1.0, sampled_logprob: -1.0 };
            assert!(matches!(answer.push(choice, None, Source::Policy, 100), Ok(ControlFlow::Continue(()))));
            assert!(answer.decide(&[], &vocab).is_none());
            (expected.penalties, expected.uniform) = (penalties, answer.uniform());
            if answer.sampled() == 2 {
                expected.added.clear();
            }
            assert_eq!(answer.draw(4), expected);
        }
    }

    #[test]
    fn logits_are_not_replaced_where_they_are_not_read() {
        let vocab = Vocab::all(8);
        let of = |says| answer(Sampling::at(1.0, 9), vec![Box::new(Replacing(says))]);
        assert!(of(true).reads_logits() && of(true).decide(&[0.0; 8], &vocab).is_none());
        let Some(Next::Failed(error)) = of(false).decide(&[], &vocab) else { panic!("it was let through") };
        assert!(error.to_string().contains("reads_logits"), "{error}");
    }
}
