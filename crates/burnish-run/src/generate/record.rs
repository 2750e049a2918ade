//! Answers as rows of a file.

use burnish_core::{NodeId, Sampled, StopReason, Trace};
use serde_json::{Map, Value, json};

use super::many::seed;
use super::{Answer, Many};

impl Answer {
    /// What was sampled, with its log-probs; `None` where the policy does not tell.
    fn sampled(&self) -> Option<(&[u32], &Sampled)> {
        let NodeId(head) = self.trace.head()?;
        let node = &self.trace.nodes()[head];
        Some((&node.ids, node.sampled.as_ref()?))
    }

    /// Tokens that were sampled; `None` where the policy does not tell.
    pub fn tokens(&self) -> Option<usize> {
        self.result.as_ref().ok()?;
        self.sampled().map(|(ids, _)| ids.len())
    }

    /// The answer as a row, which `burnish sft` and `burnish verify --data` read; `None` if there is no answer. With
    /// `is_raw`, prompt and completion are texts.
    pub fn record(&self, many: &Many, is_raw: bool) -> Option<Value> {
        let output = self.result.as_ref().ok()?;
        let prompt = &many.prompts[self.index];
        let mut record = Map::new();
        let mut set = |name: &str, value: Value| {
            record.insert(name.to_owned(), value);
        };
        set("index", self.index.into());
        set("sample", self.sample.into());
        if let Some(id) = &prompt.id {
            set("id", id.clone());
        }
        if is_raw {
            let text: String = prompt.messages.iter().map(|message| message.content.as_str()).collect();
            set("prompt", text.into());
            set("completion", output.message.content.clone().into());
        } else {
            set("prompt", json!(prompt.messages));
            set("completion", json!([output.message]));
        }
        let tools = many.tools_of(prompt);
        if !tools.is_empty() {
            set("tools", json!(*tools));
        }
        if let Some(answer) = &prompt.answer {
            set("answer", answer.clone().into());
        }
        if !output.malformed.is_empty() {
            set("malformed", json!(output.malformed));
        }
        set("finish_reason", finish_reason(output.stop, !output.message.tool_calls.is_empty()).into());
        if let Some((ids, sampled)) = self.sampled() {
            let sum: f64 = sampled.model_logprobs.iter().map(|logprob| f64::from(*logprob)).sum();
            set("prompt_tokens", (tokens_of(&self.trace) - ids.len()).into());
            set("tokens", ids.len().into());
            set("logprob_sum", sum.into());
            set("logprob_mean", if ids.is_empty() { Value::Null } else { (sum / ids.len() as f64).into() });
            if many.sampling.logprobs.is_some() {
                set("token_ids", json!(ids));
                set("token_logprobs", json!(sampled.model_logprobs));
                set("token_details", json!(output.logprobs));
            }
        }
        set("seed", seed(many.seed, self.index as u64, self.sample as u64).into());
        if !prompt.extra.is_empty() {
            set("extra", Value::Object(prompt.extra.clone()));
        }
        Some(Value::Object(record))
    }
}

fn tokens_of(trace: &Trace) -> usize {
    let path = trace.head().map(|head| trace.path(head)).unwrap_or_default();
    path.into_iter().map(|NodeId(at)| trace.nodes()[at].ids.len()).sum()
}

/// Why an answer ended, in the words of OpenAI's chat completions.
fn finish_reason(stop: StopReason, is_calling: bool) -> &'static str {
    match stop {
        StopReason::TokensMax | StopReason::ContextFull => "length",
        _ if is_calling => "tool_calls",
        StopReason::EndToken | StopReason::StopString | StopReason::Control => "stop",
    }
}
