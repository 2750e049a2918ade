//! What each answer was worth on its way: the policy goes on from within it, again and again.

use burnish_core::{Episode, Policy, Sampling, Task};
use burnish_env::Generator;
use burnish_env::rollout::{self, Opening, Plan, SeedPlace};
use burnish_model::Tokenizer;
use burnish_rl::advantage::Continuations;

use super::groups::Groups;
use crate::RunError;
use crate::recipe::Recipe;

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
    /// Cuts every episode of `groups` that is trained on as `ask` says, and has `policy` go on from there. All
    /// that are cut at one place go on in one batch.
    ///
    /// # Errors
    /// If an episode has several answers, or the policy fails.
    pub(super) fn sample(
        recipe: &Recipe,
        ask: Continuations,
        groups: &Groups,
        generator: &dyn Generator,
        policy: &mut dyn Policy,
        tokenizer: &Tokenizer,
        step: u64,
    ) -> Result<Self, RunError> {
        let rollout = &recipe.rollout;
        let mut continued =
            Continued { rewards: vec![Vec::new(); groups.episodes.len()], ..Continued::default() };
        for cut in 1.. {
            let after = cut * ask.every;
            let mut members: Vec<usize> = Vec::new();
            let mut tasks: Vec<Task> = Vec::new();
            let mut openings: Vec<Opening> = Vec::new();
            for (at, episode) in groups.episodes.iter().enumerate() {
                let group = groups.group_of(at);
                if !groups.is_kept[group] || !episode.verdict.is_scored() {
                    continue;
                }
                let said = only_answer(recipe, episode)?;
                if said.len() > after {
                    openings.push(Opening { prefix: text(tokenizer, &said[..after])?, messages: None });
                    tasks.push(groups.tasks[group].clone());
                    members.push(at);
                }
            }
            if members.is_empty() {
                break;
            }
            let tokens_max = rollout.tokens_max.saturating_sub(after).max(1);
            let stage = CONTINUED_STAGE + cut as u64;
            let plan = Plan {
                generator,
                tasks: &tasks,
                rollouts: ask.rollouts,
                sampling: &Sampling { tokens_max, ..rollout.sampling() },
                turns_max: 1,
                overlong: rollout.overlong,
                seeds: SeedPlace { run: recipe.run.seed, stage, step, task_offset: 0 },
                openings: &openings,
            };
            let answers = rollout::play(policy, &plan)?;
            continued.answers += answers.len();
            continued.tokens += answers.iter().map(Episode::sampled_tokens).sum::<usize>();
            for (at, answers) in members.into_iter().zip(answers.chunks(ask.rollouts)) {
                let earned = answers.iter().filter_map(|answer| answer.verdict.total(&recipe.reward.weights));
                let earned: Vec<f64> = earned.filter(|reward| reward.is_finite()).collect();
                // NaN where there are none.
                continued.rewards[at].push(earned.iter().sum::<f64>() / earned.len() as f64);
            }
        }
        Ok(continued)
    }
}

/// What the policy sampled in an episode of one answer.
fn only_answer<'a>(recipe: &Recipe, episode: &'a Episode) -> Result<&'a [u32], RunError> {
    let nodes = episode.traces.iter().flat_map(|trace| trace.nodes());
    let mut answers = nodes.filter(|node| node.sampled.is_some());
    match (answers.next(), answers.next()) {
        (Some(answer), None) => Ok(&answer.ids),
        (None, _) => Ok(&[]),
        (Some(_), Some(_)) => Err(RunError::Refused(format!(
            "advantage.estimator: `{}` cuts an answer and goes on from there, and an episode of task {} has several; take \
             an environment of one turn, or set rollout.turns_max = 1",
            recipe.advantage.estimator, episode.task
        ))),
    }
}

/// The text of the beginning of an answer. A cut may fall inside a character, which belongs to what follows.
fn text(tokenizer: &Tokenizer, ids: &[u32]) -> Result<String, RunError> {
    let text = tokenizer.decode(ids, false).map_err(|error| RunError::Refused(error.to_string()))?;
    Ok(text.trim_end_matches(char::REPLACEMENT_CHARACTER).to_owned())
}
