//! Statistics of several answers to one task: pass@k, how many differ, how sure the policy was.

use std::collections::{BTreeMap, BTreeSet};

use burnish_core::Episode;

use crate::bootstrap::{self, Interval};
use crate::pass_at_k::pass_at_k;
use crate::summary::{Groups, is_success, mean};

/// pass@k for k = 2, 4, 8, ... and the largest number of episodes of any task that count, each over the tasks that have
/// that many.
pub(crate) fn pass_at(groups: &Groups<'_>, seed: u64) -> BTreeMap<usize, Interval> {
    let most = groups.values().map(Vec::len).max().unwrap_or(0);
    let powers = (1..usize::BITS).map(|power| 1 << power).take_while(|k| *k < most);
    let of = |k: usize| {
        let estimates: Vec<f64> = groups
            .values()
            .filter_map(|episodes| {
                let correct = episodes.iter().filter(|episode| is_success(episode)).count();
                pass_at_k(episodes.len(), correct, k)
            })
            .collect();
        Some((k, bootstrap::mean(&estimates, seed)?))
    };
    // pass@1 is the success rate.
    powers.chain((most > 1).then_some(most)).filter_map(of).collect()
}

/// The mean over tasks of the number of different answers divided by the number of episodes. `None` if no task has two
/// episodes.
pub(crate) fn distinct(groups: &Groups<'_>) -> Option<f64> {
    let of = |episodes: &Vec<&Episode>| {
        let said = |episode: &&Episode| -> Vec<String> {
            episode.answers.iter().map(|answer| answer.content.clone()).collect()
        };
        let different: BTreeSet<Vec<String>> = episodes.iter().map(said).collect();
        different.len() as f64 / episodes.len() as f64
    };
    let shares: Vec<f64> = groups.values().filter(|episodes| episodes.len() > 1).map(of).collect();
    mean(&shares)
}

/// The mean over tasks of the mean -log p of the tokens that the policy sampled for the task, in nats; p is the
/// model's.
pub(crate) fn surprisal(groups: &Groups<'_>) -> Option<f64> {
    let of = |episodes: &Vec<&Episode>| {
        let nodes = episodes.iter().flat_map(|episode| &episode.traces).flat_map(|trace| trace.nodes());
        let logprobs: Vec<f64> = nodes
            .filter_map(|node| node.sampled.as_ref())
            .flat_map(|sampled| &sampled.model_logprobs)
            .map(|logprob| -f64::from(*logprob))
            .collect();
        mean(&logprobs)
    };
    mean(&groups.values().filter_map(of).collect::<Vec<f64>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Summary;
    use crate::summary::tests::{episode, sampled_trace, unscored};
    use burnish_core::{Message, StopReason};

    fn of(episodes: &[Episode]) -> Summary {
        Summary::of(&[], episodes, &BTreeMap::new(), 1)
    }

    fn answered(task: &str, success: bool, text: &str) -> Episode {
        Episode { answers: vec![Message::assistant(text.to_owned())], ..episode(task, success, 0.0) }
    }

    #[test]
    fn pass_at_k_is_over_the_tasks_that_have_so_many_scored_episodes() {
        let of_task = |task: &str, right: usize, all: usize| -> Vec<Episode> {
            (0..all).map(|at| episode(task, at < right, 0.0)).collect()
        };
        let mut episodes = [of_task("a", 1, 6), of_task("b", 0, 6), of_task("c", 3, 3)].concat();
        episodes.push(unscored("c"));
        let pass_at = of(&episodes).pass_at;
        assert_eq!(pass_at.keys().copied().collect::<Vec<_>>(), [2, 4, 6]);
        // 1 - C(5, 2) / C(6, 2) = 1/3; of three with three right, 1.
        assert!((pass_at[&2].mean - (1.0 / 3.0 + 0.0 + 1.0) / 3.0).abs() < 1e-12);
        assert!((pass_at[&4].mean - (4.0 / 6.0) / 2.0).abs() < 1e-12);
        assert_eq!(pass_at[&6].mean, 0.5);
        assert!(of(&[episode("a", true, 1.0), episode("b", true, 1.0)]).pass_at.is_empty());
    }

    #[test]
    fn answers_are_different_where_their_texts_are() {
        let mut episodes =
            vec![answered("a", true, "1"), answered("a", false, "2"), answered("a", true, "1")];
        episodes.extend([answered("b", true, "1"), answered("b", true, "1")]);
        assert!((of(&episodes).distinct_rate.unwrap() - (2.0 / 3.0 + 0.5) / 2.0).abs() < 1e-12);
        assert_eq!(of(&[answered("a", true, "1"), answered("b", true, "1")]).distinct_rate, None);
    }

    #[test]
    fn surprisal_is_a_mean_over_the_tokens_of_a_task() {
        let mut long = episode("a", false, 0.0);
        let mut unsure = sampled_trace(3, StopReason::EndToken);
        let nodes = unsure.nodes().to_vec();
        unsure = burnish_core::Trace::new();
        for mut node in nodes {
            if let Some(sampled) = &mut node.sampled {
                sampled.model_logprobs = vec![-3.0; 3];
            }
            unsure.push(node).unwrap();
        }
        long.traces = vec![sampled_trace(9, StopReason::EndToken), unsure];
        let mut sure = episode("b", false, 0.0);
        sure.traces = vec![sampled_trace(2, StopReason::EndToken)];
        // (9 + 9) / 12 of the first task, 1 of the second.
        assert_eq!(of(&[long, sure]).surprisal_mean, Some(1.25));
        assert_eq!(of(&[episode("a", true, 1.0)]).surprisal_mean, None);
    }
}
