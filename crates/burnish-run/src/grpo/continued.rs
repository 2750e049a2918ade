//! What each answer was worth on its way: the policy goes on from within it, again and again.

use std::sync::Arc;

use burnish_core::{Episode, Node, NodeId, Piece, Policy, Sampled, Sampling, Source, Task};
use burnish_env::rollout::{self, POLICY, Plan, SeedPlace, Spawn, Start};
use burnish_model::{ChatError, Tokenizer};
use burnish_rl::advantage::Continuations;

use super::groups::Groups;
use crate::RunError;
use crate::recipe::Recipe;
use crate::tasks::Tasks;

/// Stage number in addresses of random numbers: cut `j` has this plus `j`.
const CONTINUED_STAGE: u64 = 1 << 35;

/// What came of going on from within the episodes of a step.
#[derive(Debug, Default)]
pub(super) struct Continued {
    /// Of each episode: the mean reward after each cut, NaN where none was scored.
    pub(super) rewards: Vec<Vec<f64>>,
    /// Answers that were sampled.
    pub(super) answers: usize,
    /// Tokens that were sampled.
    pub(super) tokens: usize,
}

impl Continued {
    /// Cuts every episode of `groups` that is trained on as `ask` says, and has `policy` go on from there, with the ids that it
    /// sampled before the cut. All go on side by side.
    ///
    /// # Errors
    /// If an episode has several answers, or the policy fails.
    pub(super) fn sample(
        recipe: &Recipe,
        ask: Continuations,
        groups: &Groups,
        tasks: &Tasks,
        policy: &mut dyn Policy,
        tokenizer: &Tokenizer,
        step: u64,
    ) -> Result<Self, RunError> {
        let rollout = &recipe.rollout;
        let (generator, partners) = (&*tasks.train_generator, tasks.partners.as_deref());
        let (tasks, indices): (Vec<Task>, Vec<usize>) = (groups.all_tasks(), groups.task_indices());
        let mut continued =
            Continued { rewards: vec![Vec::new(); groups.episodes.len()], ..Continued::default() };
        let mut spawns = Vec::new();
        // Whose each spawn is.
        let mut members = Vec::new();
        let policy_name: Arc<str> = POLICY.into();
        for cut in 1.. {
            let after = cut * ask.every;
            let tokens_max = rollout.tokens_max.saturating_sub(after).max(1);
            let sampling = Arc::new(Sampling { tokens_max, ..rollout.sampling() });
            let seeds =
                SeedPlace { run: recipe.run.seed, stage: CONTINUED_STAGE + cut as u64, step, task_offset: 0 };
            let before = members.len();
            for (at, episode) in groups.episodes.iter().enumerate() {
                if !groups.is_kept[groups.group_of(at)] || !episode.verdict.is_scored() {
                    continue;
                }
                let Some((nodes, answer)) = only_answer(recipe, episode)? else { continue };
                if nodes[answer].ids.len() > after {
                    let prefix = beginning(nodes, answer, after, tokenizer)
                        .map_err(|error| RunError::Refused(error.to_string()))?;
                    spawns.push(Spawn {
                        task: &tasks[indices[at]],
                        start: Start::Within { episode, turn: 0 },
                        prefix,
                        role: "continuation",
                        count: ask.rollouts,
                        sampling: Arc::clone(&sampling),
                        policy: Arc::clone(&policy_name),
                        place: seeds.address(members.len() - before),
                    });
                    members.push(at);
                }
            }
            if members.len() == before {
                break;
            }
        }
        let overlong = rollout.overlong;
        let plan = Plan { generator, partners, spawns: &spawns, turns_max: 1, overlong };
        let answers = rollout::play(policy, &plan)?;
        continued.answers = answers.len();
        continued.tokens = sampled_there(&answers, &spawns);
        for (at, answers) in members.into_iter().zip(answers.chunks(ask.rollouts)) {
            let earned = answers.iter().filter_map(|answer| answer.verdict.total(&recipe.reward.weights));
            let earned: Vec<f64> = earned.filter(|reward| reward.is_finite()).collect();
            // NaN where there are none.
            continued.rewards[at].push(earned.iter().sum::<f64>() / earned.len() as f64);
        }
        Ok(continued)
    }
}

/// Tokens that were sampled in answers, without those that they began with.
fn sampled_there(answers: &[Episode], spawns: &[Spawn<'_>]) -> usize {
    let all: usize = answers.iter().map(Episode::sampled_tokens).sum();
    let begun = |spawn: &Spawn<'_>| -> usize {
        let sampled = spawn.prefix.iter().filter(|piece| piece.sampled.is_some());
        spawn.count * sampled.map(|piece| piece.ids.len()).sum::<usize>()
    };
    all - spawns.iter().map(begun).sum::<usize>()
}

/// The nodes of an episode of one answer, and which of them the policy sampled; none where it sampled nothing.
fn only_answer<'a>(recipe: &Recipe, episode: &'a Episode) -> Result<Option<(&'a [Node], usize)>, RunError> {
    let Some(trace) = episode.traces.first() else { return Ok(None) };
    let mut answers = trace.nodes().iter().enumerate().filter(|(_, node)| node.sampled.is_some());
    match (answers.next(), answers.next()) {
        (None, _) => Ok(None),
        (Some((answer, _)), None) => Ok(Some((trace.nodes(), answer))),
        (Some(_), Some(_)) => Err(RunError::Refused(format!(
            "advantage.estimator: `{}` cuts an answer and goes on from there, and an episode of task {} has several; take \
             an environment of one turn, or set rollout.turns_max = 1",
            recipe.advantage.estimator, episode.task
        ))),
    }
}

/// The first `tokens` tokens of an answer, as they were sampled, after what it was begun with.
fn beginning(
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
