//! Both directions of a task, and the check whether an answer leads back to its question.

use burnish_core::{Episode, Policy, Sampling, Task};
use burnish_env::RECOVERED;
use burnish_env::rollout::{self, Plan, SeedPlace};
use burnish_rl::plan::Cycle;

use crate::RunError;
use crate::metrics::Values;
use crate::tasks::counterpart;

/// Stage number in addresses of random numbers: rollouts of tasks turned round.
const REVERSE_STAGE: u64 = 1 << 35;

/// Stage number in addresses of random numbers: what happens in the environments of cycle checks.
const CYCLE_STAGE: u64 = 1 << 36;

/// The reward component of an answer that is right and leads back.
const COHERENT: &str = "coherent";

/// The flag of an answer that leads back.
const CLOSES: &str = "cycle";

/// The groups of some tasks in both directions.
pub(super) struct Both {
    /// The episodes, group by group: those of the task, then those of the task turned round, where it is played.
    pub(super) episodes: Vec<Episode>,
    /// Each task turned round; empty where it is not played.
    pub(super) turned: Vec<Task>,
    /// Is the cycle checked?
    is_checked: bool,
    /// Tokens of the checks.
    tokens: usize,
}

/// Adds to `forward`, the episodes of `plan`, those of its tasks turned round, and replaces rewards by coherence, as `cycle`
/// says. `greedy` is the policy that sampled.
///
/// # Errors
/// If a policy fails, a prompt does not fit, or the environment can't turn a task round.
pub(super) fn play(
    policy: &mut dyn Policy,
    greedy: &mut dyn Policy,
    plan: &Plan<'_>,
    cycle: Cycle,
    forward: Vec<Episode>,
) -> Result<Both, RunError> {
    let mut turned = Vec::new();
    let mut episodes = forward;
    if cycle.reverse {
        turned = plan
            .tasks
            .iter()
            .map(|task| counterpart(plan.generator, task))
            .collect::<Result<Vec<Task>, RunError>>()?;
        let seeds = SeedPlace { stage: REVERSE_STAGE, ..plan.seeds };
        let mut reverse =
            rollout::play(policy, &Plan { tasks: &turned, seeds, openings: &[], ..*plan })?.into_iter();
        let mut forward = episodes.into_iter();
        episodes = Vec::with_capacity(2 * forward.len());
        for _ in plan.tasks {
            episodes.extend(forward.by_ref().take(plan.rollouts));
            episodes.extend(reverse.by_ref().take(plan.rollouts));
        }
    }
    let mut both = Both { episodes, turned, is_checked: cycle.closes, tokens: 0 };
    let closes = if cycle.closes { both.check(greedy, plan)? } else { Vec::new() };
    for (at, episode) in both.episodes.iter_mut().enumerate() {
        let closes = closes.get(at).copied();
        judge(episode, closes, cycle.keeps_rewards)?;
    }
    Ok(both)
}

impl Both {
    /// Does the cycle of each episode close? Never where it has no success.
    fn check(&mut self, greedy: &mut dyn Policy, plan: &Plan<'_>) -> Result<Vec<bool>, RunError> {
        let size = self.episodes.len() / plan.tasks.len().max(1);
        let mut tasks: Vec<Task> = Vec::new();
        // Where the follow-up of each episode stands among the tasks.
        let mut places = vec![None; self.episodes.len()];
        for (group, task) in plan.tasks.iter().enumerate() {
            let first = tasks.len();
            for at in group * size..(group + 1) * size {
                let episode = &self.episodes[at];
                let own = if at % size < plan.rollouts { task } else { &self.turned[group] };
                let said = episode.answers.last().filter(|_| episode.verdict.success);
                let Some(next) = said.and_then(|said| plan.generator.reverse(own, &said.content)) else {
                    continue;
                };
                // A greedy answer to the same task is the same.
                let known = tasks[first..].iter().position(|other| *other == next).map(|known| first + known);
                places[at] = Some(known.unwrap_or(tasks.len()));
                if known.is_none() {
                    tasks.push(next);
                }
            }
        }
        let sampling = Sampling { temperature: 0.0, ..plan.sampling.clone() };
        // A round has at most `size` follow-ups a task, so rounds share no address.
        let task_offset = plan.seeds.task_offset * size as u64;
        let seeds = SeedPlace { stage: CYCLE_STAGE, task_offset, ..plan.seeds };
        let check = Plan { tasks: &tasks, rollouts: 1, sampling: &sampling, seeds, openings: &[], ..*plan };
        let answers = rollout::play(greedy, &check)?;
        self.tokens = answers.iter().map(Episode::sampled_tokens).sum();
        let closes = |place: &Option<usize>| {
            let verdict = place.and_then(|at| answers.get(at)).map(|answer| &answer.verdict);
            verdict.is_some_and(|it| it.is_scored() && it.flags.get(RECOVERED) == Some(&true))
        };
        Ok(places.iter().map(closes).collect())
    }
}

/// Gives a scored episode the reward for coherence. `closes` is whether its cycle closes; none where that is not asked.
fn judge(episode: &mut Episode, closes: Option<bool>, keeps_rewards: bool) -> Result<(), RunError> {
    let verdict = &mut episode.verdict;
    if !verdict.is_scored() {
        return Ok(());
    }
    if !keeps_rewards {
        verdict.rewards.clear();
    }
    let is_coherent = verdict.success && closes.unwrap_or(true);
    if let Some(closes) = closes {
        verdict.flags.insert(CLOSES.into(), closes);
    }
    if verdict.rewards.insert(COHERENT.into(), f64::from(is_coherent)).is_some() {
        return Err(RunError::Refused(format!(
            "plan: the environment gives a reward `{COHERENT}` itself; set plan.config.keep_rewards = false"
        )));
    }
    Ok(())
}

/// What the episodes of a step came to, direction by direction.
#[derive(Default)]
pub(super) struct Tally {
    scored: [usize; 2],
    successes: [usize; 2],
    coherent: usize,
    /// Successes whose cycle was checked, and those of them whose cycle closes.
    checked: [usize; 2],
    tokens: usize,
}

impl Tally {
    /// Adds the groups of a round.
    pub(super) fn add(&mut self, both: &Both) {
        self.tokens += both.tokens;
        let groups = both.turned.len().max(1);
        let size = if both.turned.is_empty() { usize::MAX } else { both.episodes.len() / groups };
        for (at, episode) in both.episodes.iter().enumerate() {
            let verdict = &episode.verdict;
            if !verdict.is_scored() {
                continue;
            }
            let direction = usize::from(at % size >= size / 2);
            self.scored[direction] += 1;
            self.coherent += usize::from(verdict.rewards.get(COHERENT) == Some(&1.0));
            if verdict.success {
                self.successes[direction] += 1;
                self.checked[0] += usize::from(both.is_checked);
                self.checked[1] += usize::from(verdict.flags.get(CLOSES) == Some(&true));
            }
        }
    }

    /// Tokens of cycle checks.
    pub(super) fn tokens(&self) -> usize {
        self.tokens
    }

    /// Shares; what nothing was seen of has none.
    pub(super) fn metrics(&self) -> Values {
        let shares = [
            ("plan/coherent", self.coherent, self.scored[0] + self.scored[1]),
            ("plan/cycle_consistency", self.checked[1], self.checked[0]),
            ("plan/forward_success", self.successes[0], self.scored[0]),
            ("plan/reverse_success", self.successes[1], self.scored[1]),
        ];
        let seen = shares.into_iter().filter(|(_, _, all)| *all > 0);
        seen.map(|(name, some, all)| (name.to_owned(), some as f64 / all as f64)).collect()
    }
}
