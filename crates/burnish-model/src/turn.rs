//! A turn in tokens: what the policy reads for it, and what is recorded of its answer.

use burnish_core::{PolicyError, Sampled, Source, StopReason, TokenLogprobs, Trace, Turn, TurnOutput};

use crate::{AnswerTo, Chat, ChatError, Recorded};

/// An answer as it was sampled.
#[derive(Debug, Clone, PartialEq)]
pub struct Generated {
    /// What was sampled, including the end token or the tokens that completed a stop string.
    pub ids: Vec<u32>,
    /// Log-probability of each id under the model, in nats ([`Sampled::model_logprobs`]).
    pub model_logprobs: Vec<f32>,
    /// Log-probability with which each id was drawn ([`Sampled::sampled_logprobs`]). `None`: the same as the model's,
    /// since nothing altered its distribution.
    pub sampled_logprobs: Option<Vec<f32>>,
    /// Why it ended.
    pub stop: StopReason,
    /// The text, if a stop string ended the answer: up to the stop string, or including it under
    /// [`Sampling::include_stop`](burnish_core::Sampling::include_stop). `None` if the text is that of the ids.
    pub text: Option<String>,
    /// Whose each id is: [`Source::Policy`] where it was sampled, [`Source::Latent`] at latent steps, [`Source::Patch`]
    /// where a limit ended them. `None`: all were sampled.
    pub sources: Option<Vec<Source>>,
    /// What the latent steps read ([`Sampled::latents`]).
    pub latents: Vec<f32>,
    /// One entry per id if [`Sampling::logprobs`](burnish_core::Sampling::logprobs) asked for them; otherwise empty.
    pub details: Vec<TokenLogprobs>,
    /// Tokens that probes read and sampled beside it.
    pub aside: usize,
}

impl Chat {
    /// The turn's trace with its prompt at the head, and all ids of the prompt, for a policy that reads at most
    /// `tokens_max` of them.
    ///
    /// # Errors
    /// If the sampling parameters are out of range, the conversation can't be rendered, or the prompt is too long.
    pub fn pose(&self, turn: &Turn, tokens_max: usize) -> Result<(Trace, Vec<u32>), PolicyError> {
        turn.sampling.check()?;
        let mut trace = turn.trace.clone();
        let rendered = |error: ChatError| PolicyError::Render(error.to_string());
        let mut prompt = self.extend(&mut trace, &turn.messages, &turn.tools).map_err(rendered)?;
        if !turn.prefix.is_empty() {
            self.begin_answer(&mut trace, &turn.prefix).map_err(rendered)?;
            prompt = trace.head_ids();
        }
        if prompt.len() > tokens_max {
            return Err(PolicyError::PromptTooLong { tokens: prompt.len(), tokens_max });
        }
        Ok((trace, prompt))
    }

    /// Appends the answer to `turn`, by weights that have had `policy_version` updates, to the trace that
    /// [`Chat::pose`] made for it.
    ///
    /// # Errors
    /// If the ids can't be decoded, or the log-probs do not fit them.
    pub fn take_answer(
        &self,
        trace: &mut Trace,
        turn: &Turn,
        generated: Generated,
        policy_version: u64,
    ) -> Result<TurnOutput, PolicyError> {
        let Generated { ids, model_logprobs, sampled_logprobs, stop, text, sources, latents, details, aside } =
            generated;
        let sampling = &*turn.sampling;
        let temperature = if sampling.temperature == 0.0 { 1.0 } else { sampling.temperature };
        let sampled =
            Sampled { model_logprobs, sampled_logprobs, policy_version, temperature, stop, latents };
        let failed = |error: ChatError| PolicyError::Failed(error.to_string());
        let content = match (text, ids.as_slice()) {
            (Some(text), _) => Some(text),
            (None, [said @ .., end])
                if stop == StopReason::EndToken
                    && !sampling.include_stop
                    && !self.end_ids().contains(end) =>
            {
                Some(self.tokenizer.decode(said, false).map_err(failed)?)
            }
            _ => None,
        };
        let to = AnswerTo { messages: &turn.messages, tools: &turn.tools, begun: &turn.prefix };
        let recorded = self.record_answer(trace, (ids, sources), content, sampled, &to);
        let Recorded { message, malformed } = recorded.map_err(failed)?;
        Ok(TurnOutput { message, malformed, stop, logprobs: details, aside })
    }
}
