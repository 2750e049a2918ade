//! A policy behind an address, asked through chat completions: for evaluation only.
//!
//! A server gets the conversation, temperature, the most tokens and a seed, and gives text: there are no token ids, no log-probs and
//! no count of tokens. What the recipe asks for beyond that is refused before anything is sent, so that nothing is played
//! otherwise than it says.

use burnish_core::{Message, Policy, PolicyError, Sampling, StopReason, Turn, TurnOutput};
use burnish_engine::endpoint::{ChatAnswer, ChatRequest, Endpoint, EndpointConfig, EndpointError};

use crate::RunError;
use crate::asked::ask_at_once;
use crate::eval_set::EvalSet;
use crate::recipe::Recipe;

/// One that answers turns.
pub(crate) struct Served {
    endpoint: Endpoint,
}

impl Served {
    /// Nothing is sent yet.
    ///
    /// # Errors
    /// If the endpoint is malformed or its key is not there, or the evaluation asks for what a server can't be told.
    pub(crate) fn new(config: &EndpointConfig, recipe: &Recipe, set: &EvalSet) -> Result<Self, RunError> {
        let refuse = |problem: String| Err(RunError::Refused(problem));
        if let Err((key, rule)) = config.check() {
            return refuse(format!("--policy {}: `{key}` {rule}", config.url));
        }
        let Sampling { temperature, tokens_max, .. } = set.sampling;
        let known = Sampling::at(temperature, tokens_max);
        if set.sampling != known {
            return refuse(
                "--policy: an endpoint is asked with `temperature`, `tokens_max` and a seed and nothing else; leave the other \
                 keys of sampling out of [eval] and [rollout] (`top_k`, `top_p`, `min_p`, `min_tokens`, `stop`, penalties)"
                    .into(),
            );
        }
        if recipe.eval.draft {
            return refuse("eval.draft: an endpoint can't go on from a draft; set eval.draft=false".into());
        }
        Ok(Served { endpoint: Endpoint::new(config.clone())? })
    }
}

impl Policy for Served {
    fn act(&mut self, turns: &mut [Turn<'_>]) -> Vec<Result<TurnOutput, PolicyError>> {
        if turns.iter().any(|turn| !turn.tools.is_empty()) {
            let problem = "an endpoint is asked without tools, and the environment has some";
            return turns.iter().map(|_| Err(PolicyError::Failed(problem.into()))).collect();
        }
        let requests: Vec<ChatRequest<'_>> = turns.iter().map(request).collect();
        let answers = ask_at_once(&self.endpoint, &requests, |error| too_long(error).is_none());
        let mut first = None;
        answers
            .into_iter()
            .map(|answer| match answer {
                Some(Ok(answer)) => Ok(output(answer)),
                Some(Err(error)) => Err(too_long(&error).unwrap_or_else(|| {
                    PolicyError::Failed(first.get_or_insert_with(|| error.to_string()).clone())
                })),
                None => Err(PolicyError::Failed("another request failed before".into())),
            })
            .collect()
    }

    fn version(&self) -> u64 {
        0
    }
}

fn request<'a>(turn: &'a Turn<'_>) -> ChatRequest<'a> {
    let Sampling { temperature, tokens_max, .. } = *turn.sampling;
    // What servers take is a signed number.
    ChatRequest { messages: turn.messages, temperature, tokens_max, seed: turn.seed >> 1 }
}

fn output(answer: ChatAnswer) -> TurnOutput {
    let stop = match answer.finish_reason.as_deref() {
        Some("length") => StopReason::TokensMax,
        _ => StopReason::EndToken,
    };
    TurnOutput { message: Message::assistant(answer.content), stop, logprobs: Vec::new() }
}

/// Is this the complaint about a prompt that does not fit? Servers have no code for it in common; vLLM and those like it name the
/// context length.
fn too_long(error: &EndpointError) -> Option<PolicyError> {
    let EndpointError::Status { status: 400 | 413 | 422, said, .. } = error else { return None };
    let lower = said.to_lowercase();
    let is_said =
        ["context length", "context_length", "context window", "context size", "prompt is too long"]
            .iter()
            .any(|words| lower.contains(words));
    let numbers =
        || said.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse::<usize>().ok());
    // The window is named, and what would be needed is more than it.
    let (tokens, tokens_max) = (numbers().max().unwrap_or(0), numbers().next().unwrap_or(0));
    is_said.then_some(PolicyError::PromptTooLong { tokens, tokens_max })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16, said: &str) -> EndpointError {
        EndpointError::Status { url: "u".into(), status, tries: 1, said: said.into() }
    }

    #[test]
    fn a_prompt_that_is_too_long_for_the_server_is_told_from_other_failures() {
        let vllm = "This model's maximum context length is 4096 tokens. However, you requested 5120 tokens (4864 in the \
                    messages, 256 in the completion).";
        let found = too_long(&status(400, vllm));
        assert!(
            matches!(found, Some(PolicyError::PromptTooLong { tokens: 5120, tokens_max: 4096 })),
            "{found:?}"
        );
        assert!(too_long(&status(400, "unknown model `x`")).is_none());
        assert!(too_long(&status(500, vllm)).is_none());
    }

    #[test]
    fn an_answer_at_the_limit_is_cut_off() {
        let with = |reason: &str| {
            output(ChatAnswer { content: "a".into(), finish_reason: Some(reason.into()) }).stop
        };
        assert_eq!((with("length"), with("stop")), (StopReason::TokensMax, StopReason::EndToken));
    }
}
