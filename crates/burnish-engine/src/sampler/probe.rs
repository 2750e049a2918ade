//! Probes: the model's answer to a question beside an answer, which continues without it.

use burnish_core::Sampling;
use burnish_tensor::{Vocab, Workers};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::{Sampler, Sequence};
use crate::answer::Next;
use crate::cache::Cache;
use crate::control::{Probe, Probed};
use crate::{Chooser, EngineError, Generated};

/// The entropy of softmax(logits) over the ids that exist, in nats.
fn entropy(logits: &[f32], vocab: &Vocab) -> f32 {
    let known =
        || (0u32..).zip(logits).filter(|(id, _)| vocab.contains(*id)).map(|(_, logit)| f64::from(*logit));
    let max = known().fold(f64::NEG_INFINITY, f64::max);
    // H = ln Σ e^x - Σ x e^x / Σ e^x, with x below 0.
    let (total, weighted) = known().map(|logit| logit - max).fold((0.0, 0.0), |(total, weighted), x| {
        let weight = x.exp();
        (total + weight, if weight > 0.0 { weighted + x * weight } else { weighted })
    });
    (total.ln() - weighted / total) as f32
}

impl Sampler {
    /// Answers a probe of `asking`, which stays as it is. A failure concerns that sequence only, unless a GPU fails.
    pub(super) fn probe(
        &mut self,
        asking: &Sequence,
        probe: Probe,
        chooser: &mut Chooser,
    ) -> Result<Result<Probed, EngineError>, EngineError> {
        if let Err(problem) = self.check_probe(asking, &probe) {
            let (request, position) = (asking.answer.id.index(), asking.answer.sampled());
            return Ok(Err(EngineError::Control { request, position, problem }));
        }
        let is_elsewhere = probe.instead.is_some();
        let side = asking.answer.beside(probe);
        let rows = side.ids.len() + side.sampling.tokens_max;
        let mut cache = if is_elsewhere { Cache::after(Arc::default()) } else { asking.cache.fork() };
        while !cache.reserve(rows, &self.pool) {
            if !self.evict(&BTreeSet::new()) {
                let (request, position) = (asking.answer.id.index(), asking.answer.sampled());
                let problem = "the cache has no room for its probe".into();
                return Ok(Err(EngineError::Control { request, position, problem }));
            }
        }
        if !is_elsewhere {
            cache.copy(&asking.cache);
        }
        let mut sides = vec![Sequence { answer: side, cache }];
        let (mut first, mut entropies) = (Vec::new(), Vec::new());
        loop {
            let (_, logits) = self.forward(&mut sides, Workers::Pool);
            let logits = self.readback.read(&logits)?;
            let Some(mut side) = sides.pop() else { return Ok(Ok(Probed::default())) };
            if is_elsewhere && first.is_empty() {
                first = logits.to_vec();
            }
            let next = side.answer.next(logits, self.model.vocab(), chooser);
            if let Next::Token(..) = next {
                self.stats.probe_tokens += 1;
                entropies.push(entropy(logits, self.model.vocab()));
            }
            match self.push(side, next, &[]) {
                ControlFlow::Continue(side) => sides.push(side),
                ControlFlow::Break((_, answer)) => {
                    return Ok(answer.map(|Generated { ids, model_logprobs, .. }| Probed {
                        ids,
                        model_logprobs,
                        entropies,
                        logits: first,
                    }));
                }
            }
        }
    }

    fn check_probe(&self, asking: &Sequence, probe: &Probe) -> Result<(), String> {
        probe.sampling.check().map_err(|error| format!("its probe: {error}"))?;
        let Sampling { stop, min_tokens, grammar, logprobs, .. } = &probe.sampling;
        if !stop.is_empty() || *min_tokens > 0 || grammar.is_some() || logprobs.is_some() {
            return Err(
                "its probe asks for `stop`, `min_tokens`, `grammar` or `logprobs`, which are for answers"
                    .into(),
            );
        }
        let instead = probe.instead.as_deref().unwrap_or_default();
        if probe.ids.is_empty() && instead.is_empty() {
            return Err("its probe reads nothing; give it at least one id".into());
        }
        let vocab_size = self.model.vocab().len();
        if let Some(id) = instead.iter().chain(&probe.ids).find(|&&id| id as usize >= vocab_size) {
            return Err(format!("its probe reads id {id}, but the model knows ids below {vocab_size}"));
        }
        let answer = &asking.answer;
        let asked = instead.len() + probe.ids.len() + probe.sampling.tokens_max;
        let said = answer.probe_tokens_max();
        if asked > said {
            return Err(format!("its probe takes {asked} tokens, but it said {said} (`probe_tokens_max`)"));
        }
        let read =
            if probe.instead.is_some() { answer.sampled() } else { answer.prompt.len() + answer.ids.len() };
        let tokens = read + asked;
        if tokens > self.context_tokens_max {
            return Err(format!(
                "with its probe it has {tokens} tokens, but at most {} fit",
                self.context_tokens_max
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entropy_is_that_of_the_ids_that_exist() {
        let all = Vocab::all(4);
        assert!((entropy(&[7.0; 4], &all) - 4f32.ln()).abs() < 1e-6);
        assert!(entropy(&[100.0, 0.0, -50.0, f32::NEG_INFINITY], &all).abs() < 1e-6);
        // p = 1/4, 3/4.
        let (few, many) = (0.25f32, 0.75f32);
        let two = entropy(&[0.0, 3f32.ln(), f32::NEG_INFINITY, f32::NEG_INFINITY], &all);
        assert!((two + few * few.ln() + many * many.ln()).abs() < 1e-6);
    }
}
