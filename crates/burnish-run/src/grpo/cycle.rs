//! Both directions of a task, and the check whether an answer leads back to its question.

use burnish_core::rng::Address;
use burnish_core::{Episode, Policy, Sampling, Task};
use burnish_env::RECOVERED;
use burnish_env::rollout::{self, Plan, SeedPlace, Spawn, Start};
use burnish_rl::plan::Cycle;

use crate::RunError;
use crate::metrics::Values;
use crate::tasks::counterpart;

/// Stage number in addresses of random numbers: rollouts of tasks turned round.
const REVERSE_STAGE: u64 = 1 << 35;

/// Stage number in addresses of random numbers: what happens in the environments of cycle checks.
const CYCLE_STAGE: u64 = 1 << 36;

/// The reward component of an answer that is right and leads back.
pub(crate) const COHERENT: &str = "coherent";

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
/// says.
///
/// # Errors
/// If the policy fails, a prompt does not fit, or the environment can't turn a task round.
pub(super) fn play(
    policy: &mut dyn Policy,
    plan: &Plan<'_>,
    cycle: Cycle,
    forward: Vec<Episode>,
) -> Result<Both, RunError> {
    let mut turned = Vec::new();
    let mut episodes = forward;
    if cycle.reverse {
        turned = plan
            .spawns
            .iter()
            .map(|spawn| counterpart(plan.generator, spawn.task))
            .collect::<Result<Vec<Task>, RunError>>()?;
        let round = |(spawn, task)| {
            let spawn: &Spawn<'_> = spawn;
            let place = Address { stage: REVERSE_STAGE, ..spawn.place };
            Spawn { task, start: Start::Opening, prefix: Vec::new(), role: "turned", place, ..spawn.clone() }
        };
        let spawns: Vec<Spawn<'_>> = plan.spawns.iter().zip(&turned).map(round).collect();
        let mut reverse = rollout::play(policy, &Plan { spawns: &spawns, ..*plan })?.into_iter();
        let mut forward = episodes.into_iter();
        episodes = Vec::with_capacity(2 * forward.len());
        for spawn in &spawns {
            episodes.extend(forward.by_ref().take(spawn.count));
            episodes.extend(reverse.by_ref().take(spawn.count));
        }
    }
    let mut both = Both { episodes, turned, is_checked: cycle.closes, tokens: 0 };
    let closes = if cycle.closes { both.check(policy, plan)? } else { Vec::new() };
    for (at, episode) in both.episodes.iter_mut().enumerate() {
        let closes = closes.get(at).copied();
        judge(episode, closes, cycle.keeps_rewards)?;
    }
    Ok(both)
}

/// Gives every scored episode of `plan` the flag of an answer that is right and leads back.
///
/// # Errors
/// If the policy fails, or a prompt does not fit.
pub(crate) fn mark(
    policy: &mut dyn Policy,
    plan: &Plan<'_>,
    episodes: Vec<Episode>,
) -> Result<Vec<Episode>, RunError> {
    let mut both = Both { episodes, turned: Vec::new(), is_checked: true, tokens: 0 };
    let closes = both.check(policy, plan)?;
    for (episode, closes) in both.episodes.iter_mut().zip(closes) {
        if episode.verdict.is_scored() {
            episode.verdict.flags.insert(CLOSES.into(), closes);
        }
    }
    Ok(both.episodes)
}

impl Both {
    /// Does the cycle of each episode close? Never where it has no success.
    fn check(&mut self, policy: &mut dyn Policy, plan: &Plan<'_>) -> Result<Vec<bool>, RunError> {
        let Some(first_spawn) = plan.spawns.first() else { return Ok(Vec::new()) };
        let size = self.episodes.len() / plan.spawns.len();
        let mut tasks: Vec<Task> = Vec::new();
        // Where the follow-up of each episode stands among the tasks.
        let mut places = vec![None; self.episodes.len()];
        let groups = self.episodes.chunks(size.max(1)).zip(places.chunks_mut(size.max(1)));
        for (group, (episodes, places)) in groups.enumerate() {
            let first = tasks.len();
            for (at, (episode, place)) in episodes.iter().zip(places).enumerate() {
                let own = if at < first_spawn.count { plan.spawns[group].task } else { &self.turned[group] };
                let said = episode.answers.last().filter(|_| episode.verdict.success);
                let Some(next) =
                    said.and_then(|said| plan.generator.reversible()?.reverse(own, &said.content))
                else {
                    continue;
                };
                // A greedy answer to the same task is the same.
                let known = tasks[first..].iter().position(|other| *other == next).map(|known| first + known);
                *place = Some(known.unwrap_or(tasks.len()));
                if known.is_none() {
                    tasks.push(next);
                }
            }
        }
        let sampling = Sampling { temperature: 0.0, ..Sampling::clone(&first_spawn.sampling) };
        // A round has at most `size` follow-ups a task, so rounds share no address.
        let task_offset = first_spawn.place.task * size as u64;
        let Address { run, step, .. } = first_spawn.place;
        let seeds = SeedPlace { run, stage: CYCLE_STAGE, step, task_offset };
        let spawns = Spawn::of_tasks(&tasks, 1, &sampling, seeds);
        let answers = rollout::play(policy, &Plan { spawns: &spawns, ..*plan })?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use burnish_core::{Said, Script, StopReason, Turn};
    use burnish_env::Generator;
    use burnish_env::rollout::Overlong;
    use serde_json::json;
    use std::collections::{BTreeMap, BTreeSet};

    /// Knows the answers to some prompts, and says nothing of use to others.
    #[derive(Default)]
    struct Known {
        answers: BTreeMap<String, String>,
        /// What it was asked, with the seed.
        asked: Vec<(String, u64)>,
    }

    impl Known {
        fn answer(&mut self, turn: &Turn) -> Said {
            let prompt = turn.messages[0].content.clone();
            let text = self.answers.get(&prompt).cloned().unwrap_or_else(|| "?".into());
            self.asked.push((prompt, turn.seed));
            Ok((text, StopReason::EndToken))
        }
    }

    /// One that knows something else where it answers greedily.
    fn policy(sampling: &mut Known, greedy: &mut Known) -> impl Policy {
        Script::recorded_as(vec![7; 2], |turn: &Turn| {
            if turn.sampling.temperature == 0.0 { greedy.answer(turn) } else { sampling.answer(turn) }
        })
    }

    const ROLLOUTS: usize = 3;
    const ALL: Cycle = Cycle { reverse: true, closes: true, keeps_rewards: false };

    struct Problem {
        generator: Box<dyn Generator>,
        tasks: Vec<Task>,
        turned: Vec<Task>,
    }

    impl Problem {
        fn new() -> Self {
            // Wrong demonstrations, so that nothing may take them for the right answer.
            let config = json!({ "steps": { "min": 2, "max": 2 }, "demonstration_errors": 0.5 });
            let generator = burnish_env::build("chains", &config).unwrap();
            let tasks = generator.tasks(3, 8).unwrap().tasks;
            let turned = tasks.iter().map(|task| counterpart(&*generator, task).unwrap()).collect();
            Problem { generator, tasks, turned }
        }

        /// Who has the right answers to the tasks, to the tasks turned round, or both.
        fn knows(&self, forward: bool, reverse: bool) -> Known {
            let right = burnish_env::build("chains", &json!({ "steps": { "min": 2, "max": 2 } })).unwrap();
            let known = [(forward, &self.tasks), (reverse, &self.turned)];
            let tasks = known.into_iter().filter(|(is_known, _)| *is_known).flat_map(|(_, tasks)| tasks);
            let right = right.demonstrations().unwrap();
            let answers =
                tasks.map(|task| (task.prompt[0].content.clone(), right.demonstrate(task).unwrap().content));
            Known { answers: answers.collect(), ..Known::default() }
        }

        fn play(&self, cycle: Cycle, sampling: &mut Known, greedy: &mut Known) -> Both {
            let spawns = self.spawns();
            let plan = self.plan(&spawns);
            let mut policy = policy(sampling, greedy);
            let forward = rollout::play(&mut policy, &plan).unwrap();
            play(&mut policy, &plan, cycle, forward).unwrap()
        }

        fn mark(&self, greedy: &mut Known, episodes: Vec<Episode>) -> Vec<Episode> {
            mark(&mut policy(&mut Known::default(), greedy), &self.plan(&self.spawns()), episodes).unwrap()
        }

        fn spawns(&self) -> Vec<Spawn<'_>> {
            let seeds = SeedPlace { run: 1, stage: 0, step: 2, task_offset: 0 };
            Spawn::of_tasks(&self.tasks, ROLLOUTS, &Sampling::at(1.0, 40), seeds)
        }

        fn plan<'a>(&'a self, spawns: &'a [Spawn<'a>]) -> Plan<'a> {
            Plan {
                generator: &*self.generator,
                partners: None,
                spawns,
                turns_max: 1,
                overlong: Overlong::Refuse,
            }
        }
    }

    /// The metrics, and the reward of the first episode of each direction of each group.
    fn found(both: &Both) -> (Values, Vec<Option<f64>>) {
        let mut tally = Tally::default();
        tally.add(both);
        let rewards = both.episodes.iter().map(|episode| episode.verdict.total(&BTreeMap::new()));
        (tally.metrics(), rewards.step_by(ROLLOUTS).collect())
    }

    fn values(coherent: f64, consistency: Option<f64>, forward: f64, reverse: f64) -> Values {
        let all = [
            ("plan/coherent", Some(coherent)),
            ("plan/cycle_consistency", consistency),
            ("plan/forward_success", Some(forward)),
            ("plan/reverse_success", Some(reverse)),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }

    #[test]
    fn who_knows_both_directions_is_coherent_and_is_asked_each_follow_up_once() {
        let problem = Problem::new();
        let (mut sampling, mut greedy) = (problem.knows(true, true), problem.knows(true, true));
        let both = problem.play(ALL, &mut sampling, &mut greedy);
        let (metrics, rewards) = found(&both);
        assert_eq!(metrics, values(1.0, Some(1.0), 1.0, 1.0));
        assert_eq!(rewards, [Some(1.0); 16]);
        // Group by group: the task, then the task turned round.
        for (group, episodes) in both.episodes.chunks(2 * ROLLOUTS).enumerate() {
            let (forward, reverse) = episodes.split_at(ROLLOUTS);
            assert!(forward.iter().all(|episode| episode.task == problem.tasks[group].id));
            assert!(reverse.iter().all(|episode| episode.task == problem.turned[group].id));
            assert!(episodes.iter().all(|episode| episode.verdict.rewards.keys().eq(["coherent"])));
        }
        // Right answers lead to the two tasks themselves: two follow-ups a group, of two tokens each.
        assert_eq!(greedy.asked.len(), 16);
        assert_eq!(both.tokens, 32);
        let seeds: BTreeSet<u64> =
            sampling.asked.iter().chain(&greedy.asked).map(|(_, seed)| *seed).collect();
        assert_eq!(seeds.len(), 8 * 2 * ROLLOUTS + 16, "no two turns share random numbers");
    }

    #[test]
    fn a_success_whose_cycle_does_not_close_is_not_coherent() {
        let problem = Problem::new();
        // Greedily it knows the tasks alone: answers to them do not lead back, those to the others do.
        let (mut sampling, mut greedy) = (problem.knows(true, true), problem.knows(true, false));
        let both = problem.play(ALL, &mut sampling, &mut greedy);
        let (metrics, rewards) = found(&both);
        assert_eq!(metrics, values(0.5, Some(0.5), 1.0, 1.0));
        assert_eq!(rewards, [Some(0.0), Some(1.0)].repeat(8));
        let flags: Vec<bool> =
            both.episodes.iter().step_by(ROLLOUTS).map(|episode| episode.verdict.flags["cycle"]).collect();
        assert_eq!(flags, [false, true].repeat(8));
    }

    #[test]
    fn what_is_wrong_is_not_followed_up() {
        let problem = Problem::new();
        let (mut sampling, mut greedy) = (problem.knows(false, true), problem.knows(true, true));
        let both = problem.play(ALL, &mut sampling, &mut greedy);
        assert_eq!(found(&both).0, values(0.5, Some(1.0), 0.0, 1.0));
        assert_eq!(greedy.asked.len(), 8);
        let (mut sampling, mut greedy) = (Known::default(), problem.knows(true, true));
        let both = problem.play(ALL, &mut sampling, &mut greedy);
        assert_eq!(found(&both).0, values(0.0, None, 0.0, 0.0));
        assert_eq!((greedy.asked.len(), both.tokens), (0, 0));
    }

    #[test]
    fn an_evaluation_is_marked_and_keeps_its_verdicts() {
        let problem = Problem::new();
        let (mut sampling, mut greedy) = (problem.knows(true, false), problem.knows(false, true));
        let never = Cycle { reverse: false, closes: false, keeps_rewards: true };
        let plain = problem.play(never, &mut sampling, &mut Known::default()).episodes;
        let marked = problem.mark(&mut greedy, plain.clone());
        assert_eq!(greedy.asked.len(), 8, "the same answer is asked of once");
        let lost = problem.mark(&mut Known::default(), plain.clone());
        for ((marked, lost), plain) in marked.iter().zip(&lost).zip(&plain) {
            assert!(marked.verdict.flags["cycle"] && plain.verdict.success);
            assert_eq!((&marked.verdict.rewards, &marked.traces), (&plain.verdict.rewards, &plain.traces));
            assert!(!lost.verdict.flags["cycle"], "right, but it does not lead back");
        }
    }

    #[test]
    fn each_half_of_the_plan_can_be_left_out() {
        let problem = Problem::new();
        let (mut sampling, mut greedy) = (problem.knows(true, true), Known::default());
        let unchecked = Cycle { closes: false, ..ALL };
        let both = problem.play(unchecked, &mut sampling, &mut greedy);
        assert_eq!(found(&both).0, values(1.0, None, 1.0, 1.0));
        assert!(greedy.asked.is_empty() && !both.episodes[0].verdict.flags.contains_key("cycle"));
        // Forward alone, with the environment's own reward.
        let forward = Cycle { reverse: false, closes: true, keeps_rewards: true };
        let (mut sampling, mut greedy) = (problem.knows(true, false), problem.knows(false, true));
        let both = problem.play(forward, &mut sampling, &mut greedy);
        let (metrics, rewards) = found(&both);
        assert_eq!((both.episodes.len(), both.turned.len()), (8 * ROLLOUTS, 0));
        assert_eq!(rewards, [Some(2.0); 8]);
        assert_eq!((metrics["plan/coherent"], metrics.get("plan/reverse_success")), (1.0, None));
        assert_eq!(greedy.asked.len(), 8);
    }

    #[test]
    fn an_environment_that_can_not_be_turned_round_is_refused() {
        let generator = burnish_env::build("countdown", &json!({})).unwrap();
        let task = &generator.tasks(1, 1).unwrap().tasks[0];
        let error = counterpart(&*generator, task).unwrap_err().to_string();
        assert!(error.contains("plan") && error.contains("countdown") && error.contains("chains"), "{error}");
    }
}
