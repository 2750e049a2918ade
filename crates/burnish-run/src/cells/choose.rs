//! Picking one of several drawn plans, by a verifier of attention and by others at the same number of draws.

use std::collections::BTreeMap;

use burnish_core::{PolicyError, Task, Trace, TurnOutput};
use burnish_env::Cells;
use burnish_eval::cells::{Limits, Verifier, controlled, soft_iou};
use serde::Serialize;

use super::written;
use crate::policy::LoadedPolicy;

/// In what share of tasks the executor's answer to the picked plan is right.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Choices {
    /// Tasks.
    pub tasks: usize,
    /// Plans drawn for each.
    pub samples: usize,
    /// The first plan: no choice.
    pub first: f64,
    /// The plan that the verifier gives the best score, the mean over steps of [`soft_iou`] with its mask.
    pub by_verifier: f64,
    /// The plan that the policy finds likeliest: mean log-prob of its tokens as they were drawn.
    pub by_logprob: f64,
    /// A plan with the most frequent answer.
    pub by_majority: f64,
    /// Any plan.
    pub any: f64,
}

/// A drawn plan.
struct Drawn {
    /// What the executor makes of it.
    answer: Option<String>,
    score: f64,
    logprob: f64,
}

pub(super) fn choices(
    policy: &LoadedPolicy,
    verifier: &Verifier,
    cells: &dyn Cells,
    tasks: &[&Task],
    drawn: &[(Trace, Result<TurnOutput, PolicyError>)],
    samples: usize,
) -> Choices {
    let mut choices = Choices { tasks: tasks.len(), samples, ..Choices::default() };
    let share = 1.0 / tasks.len().max(1) as f64;
    for (task, drawn) in tasks.iter().zip(drawn.chunks(samples)) {
        let right = cells.right_outcome(task);
        let judged = |(trace, answer): &(Trace, Result<TurnOutput, PolicyError>)| {
            let answer = answer.as_ref().ok().map(|answer| answer.message.content.as_str());
            judged(policy, verifier, cells, task, trace, answer)
        };
        let plans: Vec<Drawn> = drawn.iter().map(judged).collect();
        let is_right = |plan: &Drawn| plan.answer.is_some() && plan.answer == right;
        let score = |picked: Option<&Drawn>| if picked.is_some_and(is_right) { share } else { 0.0 };
        choices.first += score(plans.first());
        // A plan as a whole is what is executed here, so it is the one step that is tried again.
        let limits = Limits { enough: f64::INFINITY, retries: samples - 1 };
        let picked =
            controlled(1, limits, |_, _, at| Ok::<_, std::convert::Infallible>((at, plans[at].score)));
        choices.by_verifier += score(picked.ok().and_then(|kept| plans.get(kept.first()?.output)));
        let likeliest = plans.iter().rev().max_by(|a, b| a.logprob.total_cmp(&b.logprob));
        choices.by_logprob += score(likeliest);
        choices.by_majority += score(majority(&plans));
        choices.any += if plans.iter().any(is_right) { share } else { 0.0 };
    }
    choices
}

fn judged(
    policy: &LoadedPolicy,
    verifier: &Verifier,
    cells: &dyn Cells,
    task: &Task,
    trace: &Trace,
    answer: Option<&str>,
) -> Drawn {
    let steps = written(policy, cells, task, trace, answer, 0).unwrap_or_default();
    let scores = steps.iter().map(|step| {
        let cells = verifier.cells(&step.seen.heads).unwrap_or_default();
        soft_iou(&cells, &step.own)
    });
    let score = scores.sum::<f64>() / steps.len().max(1) as f64;
    let branch = trace.branches().into_iter().next();
    let logprobs: Vec<f64> = branch.map_or_else(Vec::new, |branch| {
        let sampled = branch.sampled_mask.iter().zip(&branch.model_logprobs);
        sampled.filter(|(sampled, _)| **sampled).map(|(_, logprob)| f64::from(*logprob)).collect()
    });
    Drawn {
        answer: answer.and_then(|answer| cells.outcome(task, answer)),
        score,
        logprob: if logprobs.is_empty() {
            f64::MIN
        } else {
            logprobs.iter().sum::<f64>() / logprobs.len() as f64
        },
    }
}

/// The first plan with the answer that most plans have; plans without an answer have no say.
fn majority(plans: &[Drawn]) -> Option<&Drawn> {
    let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
    for plan in plans {
        if let Some(answer) = &plan.answer {
            *votes.entry(answer).or_default() += 1;
        }
    }
    let most = votes.values().copied().max()?;
    plans.iter().find(|plan| plan.answer.as_deref().is_some_and(|answer| votes[answer] == most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_answer_wins_and_no_answer_has_no_say() {
        let plan = |answer: Option<&str>, score: f64| Drawn {
            answer: answer.map(str::to_owned),
            score,
            logprob: 0.0,
        };
        let plans = [
            plan(None, 0.0),
            plan(None, 0.1),
            plan(None, 0.2),
            plan(Some("a"), 0.3),
            plan(Some("b"), 0.4),
            plan(Some("b"), 0.5),
        ];
        assert_eq!(majority(&plans).map(|plan| plan.score), Some(0.4));
        assert_eq!(majority(&plans[..5]).map(|plan| plan.score), Some(0.3), "of equals the first");
        assert!(majority(&plans[..2]).is_none());
    }
}
