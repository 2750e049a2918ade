use burnish_core::{Policy, PolicyError, Sampled, StopReason, Trace, Turn, TurnOutput};
use burnish_model::{Chat, ChatError, Model};
use std::sync::Arc;

use crate::{Generated, Limits, Request, Stats, generate};

/// A model in this process, spoken to through its chat format.
pub struct LocalPolicy<'a> {
    model: &'a Model,
    chat: &'a Chat,
    version: u64,
    limits: Limits,
    is_training: bool,
    end_ids: Arc<[u32]>,
    stats: Stats,
}

impl<'a> LocalPolicy<'a> {
    /// The policy of `model`, whose weights have had `version` updates.
    pub fn new(model: &'a Model, chat: &'a Chat, version: u64) -> Self {
        LocalPolicy {
            model,
            chat,
            version,
            limits: Limits::default(),
            is_training: false,
            end_ids: chat.end_ids().into(),
            stats: Stats::default(),
        }
    }

    /// For rollouts that are trained on: refuses sampling that is not from the model's whole distribution
    /// ([`burnish_core::Sampling::check_on_policy`]), because the recorded log-probs would not be those of what was done.
    pub fn for_training(mut self) -> Self {
        self.is_training = true;
        self
    }

    /// With bounds on batch and context.
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// What all turns so far took.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// The trace with the prompt of the turn at its head, and the request for the answer.
    fn read(&self, turn: &Turn<'_>) -> Result<(Trace, Request), PolicyError> {
        turn.sampling.check()?;
        if self.is_training {
            turn.sampling.check_on_policy()?;
        }
        let mut trace = turn.trace.clone();
        let rendered = |error: ChatError| PolicyError::Render(error.to_string());
        let mut prompt = self.chat.extend(&mut trace, turn.messages, turn.tools).map_err(rendered)?;
        if !turn.prefix.is_empty() {
            self.chat.begin_answer(&mut trace, turn.prefix).map_err(rendered)?;
            prompt = trace.head_ids();
        }
        let tokens_max = self.limits.context_tokens_max(self.model).saturating_sub(1);
        if prompt.len() > tokens_max {
            return Err(PolicyError::PromptTooLong { tokens: prompt.len(), tokens_max });
        }
        let sampling = turn.sampling.clone();
        let end_ids = Arc::clone(&self.end_ids);
        Ok((trace, Request { prompt, sampling, seed: turn.seed, end_ids }))
    }

    /// Appends the answer to the trace.
    fn record(
        &self,
        trace: &mut Trace,
        answer: Generated,
        turn: &Turn<'_>,
    ) -> Result<TurnOutput, PolicyError> {
        let sampling = turn.sampling;
        let Generated { ids, logprobs, stop, text, details } = answer;
        let temperature = if sampling.temperature == 0.0 { 1.0 } else { sampling.temperature };
        let sampled = Sampled { logprobs, policy_version: self.version, temperature, stop };
        let message = match (text, ids.as_slice()) {
            (Some(text), _) => self.chat.record_as(trace, ids, text, sampled),
            (None, [said @ .., end])
                if stop == StopReason::EndToken && !sampling.include_stop && !self.end_ids.contains(end) =>
            {
                let decoded = self.chat.tokenizer.decode(said, false);
                decoded.and_then(|text| self.chat.record_as(trace, ids, text, sampled))
            }
            _ => self.chat.record(trace, ids, sampled),
        };
        let mut message = message.map_err(|error| PolicyError::Failed(error.to_string()))?;
        message.content.insert_str(0, turn.prefix);
        Ok(TurnOutput { message, stop, logprobs: details })
    }
}

impl Policy for LocalPolicy<'_> {
    fn act(&mut self, turns: &mut [Turn<'_>]) -> Vec<Result<TurnOutput, PolicyError>> {
        let mut requests = Vec::with_capacity(turns.len());
        let traces: Vec<Result<Trace, PolicyError>> = turns
            .iter()
            .map(|turn| {
                let (trace, request) = self.read(turn)?;
                requests.push(request);
                Ok(trace)
            })
            .collect();
        let (answers, failure) =
            match generate(self.model, Some(&self.chat.tokenizer), &requests, &self.limits) {
                Ok((answers, stats)) => {
                    self.stats += stats;
                    (answers, String::new())
                }
                Err(error) => (Vec::new(), error.to_string()),
            };
        let mut answers = answers.into_iter();
        turns
            .iter_mut()
            .zip(traces)
            .map(|(turn, trace)| {
                let mut trace = trace?;
                let answer = answers.next().ok_or_else(|| PolicyError::Failed(failure.clone()))?;
                let output = self.record(&mut trace, answer, turn)?;
                *turn.trace = trace;
                Ok(output)
            })
            .collect()
    }

    fn version(&self) -> u64 {
        self.version
    }
}
