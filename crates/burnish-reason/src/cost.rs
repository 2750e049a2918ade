//! The cost of a turn.

use burnish_core::{Message, NodeId, Trace, TurnOutput};

use crate::record::{Tokens, text_of};

/// Characters that count as a token of a policy that reports none.
const CHARACTERS_PER_TOKEN: usize = 4;

/// The cost of a turn.
pub(crate) struct Cost {
    pub(crate) tokens: Tokens,
    pub(crate) mean_logprob: Option<f64>,
    pub(crate) is_counted: bool,
}

impl Cost {
    /// Of the turn that extended a trace, which had `known` nodes before.
    pub(crate) fn of(known: usize, trace: &Trace, messages: &[Message], output: &TurnOutput) -> Cost {
        if trace.nodes().len() <= known {
            let characters = |messages: &mut dyn Iterator<Item = &Message>| -> usize {
                let of = |message: &Message| text_of(message).chars().count();
                messages.map(of).sum::<usize>().div_ceil(CHARACTERS_PER_TOKEN)
            };
            let generated = characters(&mut std::iter::once(&output.message));
            let read = characters(&mut messages.iter());
            return Cost { tokens: Tokens { generated, read }, mean_logprob: None, is_counted: false };
        }
        let path = trace.head().map(|head| trace.path(head)).unwrap_or_default();
        let mut tokens = Tokens { generated: 0, read: output.aside };
        let (mut logprobs, mut count) = (0.0, 0);
        for NodeId(at) in path {
            let node = &trace.nodes()[at];
            match &node.sampled {
                Some(sampled) if at >= known => {
                    tokens.generated += node.ids.len();
                    logprobs += sampled.model_logprobs.iter().map(|value| f64::from(*value)).sum::<f64>();
                    count += sampled.model_logprobs.len();
                }
                _ => tokens.read += node.ids.len(),
            }
        }
        let mean_logprob = (count > 0).then(|| logprobs / count as f64);
        Cost { tokens, mean_logprob, is_counted: true }
    }
}
