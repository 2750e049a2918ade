//! The worth of each answer at several places: the policy continues from there several times.

use std::sync::Arc;

use burnish_core::{Episode, Node, Sampling};
use burnish_env::rollout::{POLICY, RolloutSpec, Spawn, Start};
use burnish_rl::advantage::Phase;
use burnish_rl::fact::{CONTINUED, Continuations, Need};
use serde::Deserialize;

use super::{Groups, Kind, Provider, Step};
use crate::RunError;
use crate::online::pieces::beginning;
use crate::seeds::Draws;
use burnish_recipe::Recipe;
use burnish_recipe::supply::OF_CONTINUATIONS;
use burnish_rundir::metrics::Values;

pub(super) const KIND: Kind = Kind { supply: &OF_CONTINUATIONS, make: |_| Ok(Some(Box::new(Continued))) };

struct Continued;

/// A cut of a member's answer.
struct Cut {
    group: usize,
    member: usize,
}

impl Provider for Continued {
    /// Cuts every member that earned a reward, and lets the policy continue from each cut, with the ids that it
    /// sampled before. All continuations are sampled together.
    fn supply(&mut self, needs: &[&Need], step: Step<'_>, groups: &mut Groups) -> Result<Values, RunError> {
        let Step { recipe, tasks, behavior, .. } = step;
        let Some(ask) = needs.iter().find_map(|need| Continuations::deserialize(&need.settings).ok()) else {
            return Err(RunError::Refused("advantage.estimator: does not say where answers are cut".into()));
        };
        let (rollout, tokenizer) = (&recipe.rollout, &behavior.chat.tokenizer);
        let (mut spawns, mut cuts): (Vec<Spawn<'_>>, Vec<Cut>) = (Vec::new(), Vec::new());
        let policy: Arc<str> = POLICY.into();
        for cut in 1.. {
            let after = cut * ask.every;
            let tokens_max = rollout.tokens_max.saturating_sub(after).max(1);
            let sampling = Arc::new(Sampling { tokens_max, ..recipe.rollout_sampling() });
            let seeds = Draws::Continuation(cut as u64).place(recipe.run.seed, step.number, 0);
            let before = cuts.len();
            for (group, own) in groups.all.iter().enumerate().filter(|(_, own)| own.is_kept) {
                for (member, played) in own.members.iter().enumerate() {
                    if played.phase() == Phase::Upstream || !played.episode.verdict.is_scored() {
                        continue;
                    }
                    let Some((nodes, answer)) = only_answer(recipe, &played.episode)? else { continue };
                    if nodes[answer].ids.len() > after {
                        let prefix = beginning(nodes, answer, after, tokenizer)
                            .map_err(|error| RunError::Refused(error.to_string()))?;
                        spawns.push(Spawn {
                            task: own.task_of(played),
                            start: Start::Within { episode: &played.episode, turn: 0 },
                            prefix,
                            role: "continuation",
                            count: ask.rollouts,
                            sampling: Arc::clone(&sampling),
                            policy: Arc::clone(&policy),
                            place: seeds.address(cuts.len() - before),
                        });
                        cuts.push(Cut { group, member });
                    }
                }
            }
            if cuts.len() == before {
                break;
            }
        }
        let spec = RolloutSpec::new(tasks.generator()?, &spawns, 1, rollout.overlong);
        let mut sampler = behavior.sampler()?;
        let answers = tasks.others.play(sampler.policy(), &spec)?;
        sampler.finish()?;
        let tokens = sampled_there(&answers, &spawns);
        drop(spawns);
        for member in groups.kept_mut().flat_map(|group| &mut group.members) {
            member.facts.set(&CONTINUED, []);
        }
        for (Cut { group, member }, answers) in cuts.iter().zip(answers.chunks(ask.rollouts)) {
            let earned = answers.iter().filter_map(|answer| answer.verdict.total(&recipe.reward.weights));
            let earned: Vec<f64> = earned.filter(|reward| reward.is_finite()).collect();
            let facts = &mut groups.all[*group].members[*member].facts;
            let mut worth = facts.of(&CONTINUED).to_vec();
            // NaN if there are none.
            worth.push(earned.iter().sum::<f64>() / earned.len() as f64);
            facts.set(&CONTINUED, worth);
        }
        Ok(Values::from([
            ("continuations/answers".to_owned(), answers.len() as f64),
            ("tokens/sampled".to_owned(), tokens as f64),
        ]))
    }
}

/// Tokens sampled in answers, without those that they started with.
fn sampled_there(answers: &[Episode], spawns: &[Spawn<'_>]) -> usize {
    let all: usize = answers.iter().map(Episode::sampled_tokens).sum();
    let begun = |spawn: &Spawn<'_>| -> usize {
        let sampled = spawn.prefix.iter().filter(|piece| piece.sampled.is_some());
        spawn.count * sampled.map(|piece| piece.ids.len()).sum::<usize>()
    };
    all - spawns.iter().map(begun).sum::<usize>()
}

/// The nodes of an episode with one answer, and the index of the node that the policy sampled; `None` if it sampled
/// nothing.
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
