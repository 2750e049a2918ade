//! A reward component that punishes answers as they come near the token limit.

use burnish_core::Episode;
use burnish_rl::overlong::{OVERLONG, OverlongBuffer};

use crate::RunError;

/// Gives a scored episode this component, for its longest answer.
///
/// # Errors
/// If the environment has a component of that name.
pub(super) fn punish(
    episode: &mut Episode,
    buffer: &OverlongBuffer,
    tokens_max: usize,
) -> Result<(), RunError> {
    if !episode.verdict.is_scored() {
        return Ok(());
    }
    let reward = buffer.reward(longest_answer(episode), tokens_max);
    if episode.verdict.rewards.insert(OVERLONG.into(), reward).is_some() {
        return Err(RunError::Refused(format!(
            "reward.overlong_buffer: the environment gives a reward `{OVERLONG}` itself; leave one of them out"
        )));
    }
    Ok(())
}

/// Tokens of the longest answer, including its end token.
fn longest_answer(episode: &Episode) -> usize {
    let nodes = episode.traces.iter().flat_map(|trace| trace.nodes());
    nodes.filter(|node| node.sampled.is_some()).map(|node| node.ids.len()).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burnish_core::{Ending, Node, Record, Sampled, Source, StopReason, TaskId, Trace, Verdict};

    fn episode(answers: &[usize], verdict: Verdict) -> Episode {
        let mut trace = Trace::new();
        for tokens in answers {
            let sampled = Sampled {
                model_logprobs: vec![0.0; *tokens],
                sampled_logprobs: None,
                policy_version: 0,
                temperature: 1.0,
                stop: StopReason::EndToken,
                latents: Vec::new(),
            };
            let node = Node {
                parent: trace.head(),
                text: String::new(),
                ids: vec![1; *tokens],
                sources: vec![Source::Policy; *tokens],
                sampled: Some(sampled),
            };
            trace.push(node).unwrap();
        }
        Episode {
            task: TaskId("a".into()),
            rollout: 0,
            traces: vec![trace],
            verdict,
            ending: Ending::Completed,
            answers: Vec::new(),
            partners: Vec::new(),
            record: Record::default(),
        }
    }

    #[test]
    fn the_longest_answer_is_punished_and_an_unscored_episode_stays_unscored() {
        let buffer = OverlongBuffer { length: 4, penalty: 2.0 };
        let scored = || Verdict::scored("right", 1.0, true);
        let mut episodes = [
            episode(&[6, 6], scored()),
            episode(&[3, 8, 2], scored()),
            episode(&[10], Verdict::unscored("hung")),
        ];
        episodes.iter_mut().for_each(|episode| punish(episode, &buffer, 10).unwrap());
        let found = episodes.each_ref().map(|episode| episode.verdict.rewards.get(OVERLONG).copied());
        assert_eq!(found, [Some(0.0), Some(-1.0), None]);
        assert_eq!(episodes[1].verdict.total(&Default::default()), Some(0.0));
        let error = punish(&mut episodes[0], &buffer, 10).unwrap_err().to_string();
        assert!(error.contains("reward.overlong_buffer"), "{error}");
    }
}
