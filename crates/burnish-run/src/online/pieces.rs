//! Beginnings of answers: ids that were sampled before, hints, texts.

use burnish_core::{Episode, Node, NodeId, Piece, Sampled, Source, StopReason, Task};
use burnish_env::Generator;
use burnish_model::{ChatError, Tokenizer};

use crate::RunError;

/// The first `share` of the tokens of the task's reasoning.
///
/// # Errors
/// If the environment has none.
pub(super) fn hint(
    generator: &dyn Generator,
    task: &Task,
    share: f64,
    tokenizer: &Tokenizer,
) -> Result<Vec<Piece>, RunError> {
    let Some(reasoning) = generator.hints().and_then(|hints| hints.reasoning(task)) else {
        return Err(RunError::Refused(format!(
            "plan: needs hints, and the environment {} has no reasoning for task {}; leave `[plan]` out, or take an \
             environment that has",
            generator.id(),
            task.id
        )));
    };
    let failed = |error: ChatError| RunError::Refused(format!("plan: task {}: {error}", task.id));
    let ids = tokenizer.encode(&reasoning).map_err(failed)?;
    let kept = (share * ids.len() as f64).floor() as usize;
    // A token may end inside a character. That character is left out of the hint.
    let text = if kept >= ids.len() {
        reasoning
    } else {
        tokenizer.piece_of_ids(&ids[..kept]).map_err(failed)?.text
    };
    Ok(if text.is_empty() { Vec::new() } else { vec![tokenizer.piece_of_text(&text).map_err(failed)?] })
}

/// The ids that the policy sampled in an episode with one answer, without its end token. They are not re-tokenised
/// from the text.
pub(super) fn said(episode: &Episode) -> Option<Piece> {
    let answer = episode.traces.iter().flat_map(|trace| trace.nodes()).find(|node| node.sampled.is_some())?;
    let ids = &answer.ids[..without_end(answer)];
    let text = episode.answers.first().map(|answer| answer.content.clone()).unwrap_or_default();
    (!ids.is_empty()).then(|| Piece { ids: ids.to_vec(), text, sampled: None })
}

/// The last answer of an episode as it was sampled, after its given beginning, without its end token. Empty if
/// nothing was sampled.
pub(super) fn last_answer(episode: &Episode, tokenizer: &Tokenizer) -> Result<Vec<Piece>, ChatError> {
    let nodes = episode.traces.first().map(|trace| trace.nodes()).unwrap_or_default();
    match nodes.iter().rposition(|node| node.sampled.is_some()) {
        Some(answer) => beginning(nodes, answer, without_end(&nodes[answer]), tokenizer),
        None => Ok(Vec::new()),
    }
}

/// Tokens of an answer before its end token.
fn without_end(answer: &Node) -> usize {
    let is_ended = answer.sampled.as_ref().is_some_and(|sampled| sampled.stop == StopReason::EndToken);
    answer.ids.len() - usize::from(is_ended)
}

/// The first `tokens` sampled tokens of an answer, after its given beginning.
pub(super) fn beginning(
    nodes: &[Node],
    answer: usize,
    tokens: usize,
    tokenizer: &Tokenizer,
) -> Result<Vec<Piece>, ChatError> {
    let own = &nodes[answer];
    let cut = |sampled: &Sampled| Sampled {
        model_logprobs: sampled.model_logprobs[..tokens].to_vec(),
        sampled_logprobs: sampled.sampled_logprobs.as_ref().map(|logprobs| logprobs[..tokens].to_vec()),
        ..sampled.clone()
    };
    let piece = tokenizer.piece_of_ids(&own.ids[..tokens])?;
    let mut pieces = vec![Piece { sampled: own.sampled.as_ref().map(cut), ..piece }];
    let mut before = own.parent;
    while let Some(NodeId(at)) = before
        && nodes[at].sources.iter().all(|source| *source == Source::Hint)
    {
        let Node { ids, text, parent, .. } = &nodes[at];
        pieces.insert(0, Piece { ids: ids.clone(), text: text.clone(), sampled: None });
        before = *parent;
    }
    Ok(pieces)
}
