//! Plays groups of tasks as a plan says. The plan's functions for all tasks advance together: the episodes that they wait for
//! are one batch, a *wave*.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use burnish_core::rng::{Address, Purpose};
use burnish_core::{
    Episode, Message, Piece, Policy, Record, Role as MessageRole, Sampling, Task, Trace, Verdict,
};
use burnish_env::Generator;
use burnish_env::rollout::{self, Given, Overlong, POLICY, Playing, RolloutSpec, SeedPlace, Spawn};
use burnish_model::{Chat, ChatError, Tokenizer};
use burnish_rl::SettingError;
use burnish_rl::plan::{Beginning, Group, Program, Request, Role, RolloutPlan, Spawned, Start};

use super::pieces;
use crate::RunError;
use crate::others::Others;
use crate::seeds::Draws;
use crate::tasks::counterpart;

/// Where and how tasks are played.
pub(crate) struct Scene<'a> {
    pub(crate) generator: &'a dyn Generator,
    pub(crate) others: &'a Others,
    pub(crate) turns_max: usize,
    pub(crate) overlong: Overlong,
    pub(crate) sampling: Sampling,
    /// Rollouts per task, unless the plan says otherwise.
    pub(crate) rollouts: usize,
    /// Tokenises hints and given answers. `None` if there may be none.
    pub(crate) chat: Option<&'a Chat>,
    /// The place of the first task's rollouts in the random numbers.
    pub(crate) seeds: SeedPlace,
    /// The share of the run that is done.
    pub(crate) progress: f64,
    /// Plays every episode, if there is one.
    pub(crate) program: Option<Playing<'a>>,
}

/// Everything that was played for a task.
#[derive(Default)]
pub(crate) struct PlayedTask {
    /// The reversed task, if it was played.
    pub(crate) turned: Option<Task>,
    /// The episodes, in the order of their requests.
    pub(crate) episodes: Vec<Spawned>,
    /// Tokens sampled in episodes that are no members.
    pub(crate) tokens_aside: usize,
}

/// A request, ready to be spawned. Equal requests are played as one episode.
struct Asked {
    group: usize,
    request: Request,
    task: Asking,
    /// Episodes of its role in its group before it.
    offset: usize,
    /// The episodes that it checks; equal checks are made once.
    of: Vec<Option<usize>>,
}

/// Which task is played.
#[derive(Clone, Copy, PartialEq)]
enum Asking {
    Own,
    Turned,
    /// Index of one of the tasks that answers led to.
    Reversed(usize),
}

impl Scene<'_> {
    /// Plays `tasks` as `plan` requests.
    ///
    /// # Errors
    /// If the policy fails, a prompt does not fit, or the environment lacks something that the plan needs.
    pub(crate) fn play(
        &self,
        policy: &mut dyn Policy,
        plan: &dyn RolloutPlan,
        tasks: &[Task],
    ) -> Result<Vec<PlayedTask>, RunError> {
        let mut played: Vec<PlayedTask> = tasks.iter().map(|_| PlayedTask::default()).collect();
        self.go_on(policy, plan, tasks, &mut played)?;
        Ok(played)
    }

    /// Goes on after `played` of `tasks`, as `plan` says.
    ///
    /// # Errors
    /// As [`Scene::play`].
    pub(crate) fn go_on(
        &self,
        policy: &mut dyn Policy,
        plan: &dyn RolloutPlan,
        tasks: &[Task],
        played: &mut [PlayedTask],
    ) -> Result<(), RunError> {
        let groups = tasks.iter().zip(&mut *played).enumerate();
        let groups: Vec<Group<'_>> =
            groups.map(|(at, (task, own))| self.group(at, task, std::mem::take(&mut own.episodes))).collect();
        let mut programs: Vec<Option<Program<'_>>> =
            groups.iter().map(|group| Some(plan.play(group))).collect();
        loop {
            advance(&mut programs)?;
            let requests: Vec<Vec<Request>> = groups.iter().map(Group::take_requests).collect();
            if requests.iter().all(Vec::is_empty) {
                break;
            }
            groups.iter().zip(&mut *played).for_each(|(group, own)| own.episodes = group.take_episodes());
            self.wave(policy, tasks, played, requests)?;
            groups
                .iter()
                .zip(&mut *played)
                .for_each(|(group, own)| group.give(std::mem::take(&mut own.episodes)));
        }
        if programs.iter().any(Option::is_some) {
            return Err(RunError::Refused("plan: it waits for something that it has not asked for".into()));
        }
        groups.iter().zip(&mut *played).for_each(|(group, own)| own.episodes = group.take_episodes());
        Ok(())
    }

    /// The group of task number `at`.
    fn group<'a>(&'a self, at: usize, task: &'a Task, episodes: Vec<Spawned>) -> Group<'a> {
        let place = Address { purpose: Purpose::Perturb, turn: 1, ..self.seeds.address(at) };
        let first = Draws::of_role(Role::Rollout, self.seeds.address(at));
        let opening = move || {
            let opened = rollout::opened(self.generator, task, first);
            opened.map(|opened| opened.messages).map_err(|error| SettingError::new("task", error.to_string()))
        };
        Group::new(task, (self.rollouts, self.progress, place.seed()), Box::new(opening), episodes)
    }

    fn wave(
        &self,
        policy: &mut dyn Policy,
        tasks: &[Task],
        played: &mut [PlayedTask],
        requests: Vec<Vec<Request>>,
    ) -> Result<(), RunError> {
        for ((task, own), requests) in tasks.iter().zip(&mut *played).zip(&requests) {
            if own.turned.is_none() && requests.iter().any(|request| request.role == Role::Turned) {
                own.turned = Some(counterpart(self.generator, task)?);
            }
        }
        let (asked, reversed) = self.asked(tasks, played, requests);
        let (given, asked): (Vec<Asked>, Vec<Asked>) =
            asked.into_iter().partition(|asked| asked.request.start == Start::Demonstration);
        let members = played.first().map_or(0, |own| members(own).count());
        let spawn = |asked: &Asked| self.spawn(asked, tasks, played, &reversed, members);
        let spawns: Vec<Spawn<'_>> = asked.iter().map(spawn).collect::<Result<_, _>>()?;
        // A draft is a single answer, and drafts have their own wave.
        let is_draft = asked.iter().all(|asked| asked.request.role == Role::Draft);
        let turns_max = if is_draft { 1 } else { self.turns_max };
        let Scene { generator, overlong, program, .. } = *self;
        let spec = RolloutSpec { generator, partners: None, spawns: &spawns, turns_max, overlong, program };
        let mut episodes = self.others.play(policy, &spec)?.into_iter();
        drop(spawns);
        for Asked { group, request, of, offset, .. } in asked {
            let own = &mut played[group];
            for mut episode in episodes.by_ref().take(request.count) {
                if !request.role.is_member() {
                    own.tokens_aside += episode.sampled_tokens();
                }
                episode.rollout += offset;
                if request.role == Role::Draft {
                    episode.rollout = self.rollouts;
                    episode.verdict = Verdict::unscored("a draft: what follows it is judged");
                }
                own.take(&request, &of, episode);
            }
        }
        for Asked { group, request, of, .. } in given {
            let own = &mut played[group];
            for _ in 0..request.count {
                let mut episode = self.given(&tasks[group], self.seeds.address(group))?;
                // Behind those that are sampled.
                episode.rollout = own.episodes.iter().filter(|own| own.role.is_member()).count();
                own.take(&request, &of, episode);
            }
        }
        Ok(())
    }

    /// An episode in which the environment's own answers are given. Its trace has their tokens, which nobody sampled.
    ///
    /// # Errors
    /// If the environment knows no answer, or a conversation can't be tokenised.
    fn given(&self, task: &Task, place: Address) -> Result<Episode, RunError> {
        let chat = self.chat.ok_or_else(|| no_chat(task))?;
        let refused = |problem: String| RunError::Refused(format!("plan: task {}: {problem}", task.id));
        let known = self.generator.demonstrations().and_then(|known| known.demonstrate_episode(task));
        let known = known.ok_or_else(|| refused("the environment knows no right answer to it".into()))?;
        let answers: Vec<Message> =
            known.into_iter().filter(|message| message.role == MessageRole::Assistant).collect();
        let given = Given { task, place, answers: &answers };
        let (mut episode, messages, tools) = rollout::recited(self.generator, given)?;
        let mut trace = Trace::new();
        chat.demonstrate(&mut trace, &messages, &tools).map_err(|error| refused(error.to_string()))?;
        episode.traces = vec![trace];
        // It can't be played again: nobody answered.
        episode.record = Record::default();
        Ok(episode)
    }

    /// Prepares requests for spawning: makes the tasks that answers lead to, and merges equal requests of a group.
    fn asked(
        &self,
        tasks: &[Task],
        played: &[PlayedTask],
        requests: Vec<Vec<Request>>,
    ) -> (Vec<Asked>, Vec<Task>) {
        let (mut asked, mut reversed): (Vec<Asked>, Vec<Task>) = (Vec::new(), Vec::new());
        for (group, requests) in requests.into_iter().enumerate() {
            let first = reversed.len();
            for request in requests {
                let (of, task) = match request.start {
                    Start::Reversed { of } => {
                        let Some(next) = self.reversed(&tasks[group], &played[group], of) else { continue };
                        let known = reversed[first..].iter().position(|other| *other == next);
                        let task = Asking::Reversed(known.map_or(reversed.len(), |at| first + at));
                        if let Some(same) = asked.iter_mut().find(|asked| asked.task == task) {
                            same.of.push(Some(of));
                            continue;
                        }
                        reversed.push(next);
                        (Some(of), task)
                    }
                    Start::Prompt if request.role == Role::Turned => (None, Asking::Turned),
                    Start::Prompt | Start::Messages(_) | Start::Demonstration => (None, Asking::Own),
                    Start::After { of } => {
                        let is_turned =
                            played[group].episodes.get(of).is_some_and(|own| own.role == Role::Turned);
                        (Some(of), if is_turned { Asking::Turned } else { Asking::Own })
                    }
                };
                let offset = match request.start {
                    Start::Prompt | Start::Messages(_) => before(&played[group], &asked, group, request.role),
                    _ => 0,
                };
                asked.push(Asked { group, request, task, offset, of: vec![of] });
            }
        }
        (asked, reversed)
    }

    /// The reverse of the task of episode number `of`, built from what its last answer states.
    fn reversed(&self, task: &Task, played: &PlayedTask, of: usize) -> Option<Task> {
        let spawned = played.episodes.get(of)?;
        let own = played.turned.as_ref().filter(|_| spawned.role == Role::Turned).unwrap_or(task);
        self.generator.reversible()?.reverse(own, &spawned.episode.answers.last()?.content)
    }

    fn spawn<'a>(
        &self,
        asked: &Asked,
        tasks: &'a [Task],
        played: &'a [PlayedTask],
        reversed: &'a [Task],
        members: usize,
    ) -> Result<Spawn<'a>, RunError> {
        let Asked { group, request, .. } = asked;
        let own = &played[*group];
        let task = match asked.task {
            Asking::Own => &tasks[*group],
            Asking::Turned => own.turned.as_ref().unwrap_or(&tasks[*group]),
            Asking::Reversed(at) => &reversed[at],
        };
        let episode = |of: usize| -> Result<&'a Episode, RunError> {
            own.episodes.get(of).map(|spawned| &*spawned.episode).ok_or_else(|| {
                RunError::Refused(format!(
                    "plan: starts from episode {of} of task {}, which was not played",
                    task.id
                ))
            })
        };
        let first = Draws::of_role(request.role, self.seeds.address(*group));
        let own_place = Address { rollout: first.rollout + asked.offset as u64, ..first };
        let mut prefix = Vec::new();
        let (start, place) = match (&request.start, asked.task) {
            (Start::Messages(messages), _) => (rollout::Start::Messages(messages.clone()), own_place),
            (Start::After { of }, _) => {
                let episode = episode(*of)?;
                prefix = self.pieces(task, |tokenizer| pieces::last_answer(episode, tokenizer))?;
                let turn = episode.turns().saturating_sub(1);
                // Each continues one episode, so it draws at the place of that episode.
                (rollout::Start::Within { episode, turn }, Address { rollout: *of as u64, ..first })
            }
            (Start::Reversed { .. }, Asking::Reversed(at)) => {
                // A task leads to as many others as it has members. With the offset scaled by that, rounds share no
                // address.
                let task_offset = self.seeds.task_offset * members as u64;
                let place = SeedPlace { task_offset, ..self.seeds }.address(at);
                (rollout::Start::Opening, Draws::of_role(request.role, place))
            }
            (Start::Prompt | Start::Reversed { .. } | Start::Demonstration, _) => {
                (rollout::Start::Opening, own_place)
            }
        };
        for beginning in &request.prefix {
            match beginning {
                Beginning::Answer(of) => prefix.extend(pieces::said(episode(*of)?)),
                Beginning::Text(text) => {
                    prefix.extend(self.pieces(task, |own| own.piece_of_text(text).map(|piece| vec![piece]))?);
                }
                Beginning::Hint(share) => {
                    let chat = self.chat.ok_or_else(|| no_chat(task))?;
                    prefix.extend(pieces::hint(self.generator, task, *share, &chat.tokenizer)?);
                }
            }
        }
        let tokens_max = request.tokens_max.unwrap_or(usize::MAX).min(self.sampling.tokens_max);
        let temperature = if request.role == Role::Check { 0.0 } else { self.sampling.temperature };
        Ok(Spawn {
            task,
            start,
            prefix,
            role: request.role.name(),
            count: request.count,
            sampling: Arc::new(Sampling { tokens_max, temperature, ..self.sampling.clone() }),
            policy: POLICY.into(),
            place,
        })
    }

    fn pieces(
        &self,
        task: &Task,
        make: impl FnOnce(&Tokenizer) -> Result<Vec<Piece>, ChatError>,
    ) -> Result<Vec<Piece>, RunError> {
        let chat = self.chat.ok_or_else(|| no_chat(task))?;
        make(&chat.tokenizer).map_err(|error| RunError::Refused(format!("plan: task {}: {error}", task.id)))
    }
}

impl PlayedTask {
    /// Stores an episode, once for each episode that it checks.
    fn take(&mut self, request: &Request, of: &[Option<usize>], mut episode: Episode) {
        let (role, weight) = (request.role, request.weight);
        if let (Role::Extension, [Some(of)]) = (role, of)
            && let Some(before) = self.episodes.get_mut(*of)
        {
            episode.rollout = before.episode.rollout;
            *before = Spawned { role, of: Some(*of), episode: Arc::new(episode), weight };
            return;
        }
        let episode = Arc::new(episode);
        let spawned = |of: &Option<usize>| Spawned { role, of: *of, episode: Arc::clone(&episode), weight };
        self.episodes.extend(of.iter().map(spawned));
    }
}

/// Lets each program go on until it waits for episodes, or is over.
///
/// # Errors
/// What a program returns.
fn advance(programs: &mut [Option<Program<'_>>]) -> Result<(), RunError> {
    let mut context = Context::from_waker(Waker::noop());
    for program in programs {
        let Some(Poll::Ready(over)) = program.as_mut().map(|own| own.as_mut().poll(&mut context)) else {
            continue;
        };
        *program = None;
        over.map_err(|error| RunError::Refused(format!("plan.{error}")))?;
    }
    Ok(())
}

/// Episodes of a role in group number `group`, played or asked for already: those that come now draw other numbers.
fn before(own: &PlayedTask, asked: &[Asked], group: usize, role: Role) -> usize {
    let asked = asked.iter().filter(|asked| asked.group == group && asked.request.role == role);
    own.episodes.iter().filter(|own| own.role == role).count()
        + asked.map(|asked| asked.request.count).sum::<usize>()
}

/// The members that earn a reward.
fn members(own: &PlayedTask) -> impl Iterator<Item = &Spawned> {
    use burnish_rl::advantage::Phase;
    own.episodes.iter().filter(|own| own.role.is_member() && own.role.phase() == Phase::Downstream)
}

fn no_chat(task: &Task) -> RunError {
    RunError::Refused(format!(
        "plan: puts words into the policy's mouth for task {}, and evaluation never does; leave `eval.draft` out",
        task.id
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeds::Draws;
    use burnish_core::{Said, Script, StopReason, Turn};
    use burnish_rl::plan::Plain;
    use burnish_rundir::metrics::Values;
    use burnish_systems::dgpo::{CycleCheck, Dgpo};
    use serde_json::json;
    use std::collections::{BTreeMap, BTreeSet};

    /// Knows the answers to some prompts, and gives useless answers to others.
    #[derive(Default)]
    struct Known {
        answers: BTreeMap<String, String>,
        /// The prompts that it got, each with the seed.
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

    /// A policy that knows other answers when it samples greedily.
    fn policy(sampling: &mut Known, greedy: &mut Known) -> impl Policy {
        Script::recorded_as(vec![7; 2], |turn: &Turn| {
            if turn.sampling.temperature == 0.0 { greedy.answer(turn) } else { sampling.answer(turn) }
        })
    }

    const ROLLOUTS: usize = 3;
    const ALL: Dgpo = Dgpo { reverse: true, cycle: true, keep_rewards: false };

    /// Everything that was played for some tasks.
    struct Found {
        /// The members, group by group.
        episodes: Vec<Episode>,
        turned: usize,
        tokens: usize,
        metrics: Values,
    }

    struct Problem {
        generator: Box<dyn Generator>,
        tasks: Vec<Task>,
        turned: Vec<Task>,
        others: Others,
    }

    impl Problem {
        fn new() -> Self {
            // Wrong demonstrations, so that nothing can use them as the right answer.
            let config = json!({ "steps": { "min": 2, "max": 2 }, "demonstration_errors": 0.5 });
            let generator = burnish_env::build("chains", &config).unwrap();
            let tasks = generator.tasks(3, 8).unwrap().tasks;
            let turned = tasks.iter().map(|task| counterpart(&*generator, task).unwrap()).collect();
            Problem { generator, tasks, turned, others: Others::default() }
        }

        /// A policy that has the right answers to the tasks, to the reversed tasks, or to both.
        fn knows(&self, forward: bool, reverse: bool) -> Known {
            let right = burnish_env::build("chains", &json!({ "steps": { "min": 2, "max": 2 } })).unwrap();
            let known = [(forward, &self.tasks), (reverse, &self.turned)];
            let tasks = known.into_iter().filter(|(is_known, _)| *is_known).flat_map(|(_, tasks)| tasks);
            let right = right.demonstrations().unwrap();
            let answers =
                tasks.map(|task| (task.prompt[0].content.clone(), right.demonstrate(task).unwrap().content));
            Known { answers: answers.collect(), ..Known::default() }
        }

        fn play(&self, plan: &dyn RolloutPlan, sampling: &mut Known, greedy: &mut Known) -> Found {
            let scene = self.scene();
            let played = scene.play(&mut policy(sampling, greedy), plan, &self.tasks).unwrap();
            Self::found(plan, played)
        }

        fn found(plan: &dyn RolloutPlan, played: Vec<PlayedTask>) -> Found {
            let groups: Vec<&[Spawned]> = played.iter().map(|own| &own.episodes[..]).collect();
            let metrics = plan.tally(&groups).into_iter().collect();
            let all = played.iter().flat_map(|own| &own.episodes).filter(|own| own.role.is_member());
            Found {
                episodes: all.map(|own| Episode::clone(&own.episode)).collect(),
                turned: played.iter().flat_map(|own| &own.turned).count(),
                tokens: played.iter().map(|own| own.tokens_aside).sum(),
                metrics,
            }
        }

        /// What is played without a plan, then marked.
        fn mark(&self, sampling: &mut Known, greedy: &mut Known) -> [Vec<Episode>; 2] {
            let scene = self.scene();
            let plain =
                scene.play(&mut policy(sampling, &mut Known::default()), &Plain, &self.tasks).unwrap();
            let before =
                plain.iter().flat_map(|own| &own.episodes).map(|own| Episode::clone(&own.episode)).collect();
            let mut marked = plain;
            let mut greedy = policy(sampling, greedy);
            scene.go_on(&mut greedy, &CycleCheck, &self.tasks, &mut marked).unwrap();
            [before, Self::found(&CycleCheck, marked).episodes]
        }

        fn scene(&self) -> Scene<'_> {
            Scene {
                generator: &*self.generator,
                others: &self.others,
                turns_max: 1,
                overlong: Overlong::Refuse,
                sampling: Sampling::at(1.0, 40),
                rollouts: ROLLOUTS,
                chat: None,
                seeds: Draws::Training.place(1, 2, 0),
                progress: 0.0,
                program: None,
            }
        }
    }

    /// The metrics, and the reward of the first episode of each direction of each group.
    fn found(both: &Found) -> (Values, Vec<Option<f64>>) {
        let rewards = both.episodes.iter().map(|episode| episode.verdict.total(&BTreeMap::new()));
        (both.metrics.clone(), rewards.step_by(ROLLOUTS).collect())
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
        let both = problem.play(&ALL, &mut sampling, &mut greedy);
        let (metrics, rewards) = found(&both);
        assert_eq!(metrics, values(1.0, Some(1.0), 1.0, 1.0));
        assert_eq!(rewards, [Some(1.0); 16]);
        // Group by group: the task, then the reversed task.
        for (group, episodes) in both.episodes.chunks(2 * ROLLOUTS).enumerate() {
            let (forward, reverse) = episodes.split_at(ROLLOUTS);
            assert!(forward.iter().all(|episode| episode.task == problem.tasks[group].id));
            assert!(reverse.iter().all(|episode| episode.task == problem.turned[group].id));
            assert!(episodes.iter().all(|episode| episode.verdict.rewards.keys().eq(["coherent"])));
        }
        // Right answers lead back to the two tasks themselves: two follow-ups per group, of two tokens each.
        assert_eq!(greedy.asked.len(), 16);
        assert_eq!(both.tokens, 32);
        let seeds: BTreeSet<u64> =
            sampling.asked.iter().chain(&greedy.asked).map(|(_, seed)| *seed).collect();
        assert_eq!(seeds.len(), 8 * 2 * ROLLOUTS + 16, "no two turns share random numbers");
    }

    #[test]
    fn a_success_whose_cycle_does_not_close_is_not_coherent() {
        let problem = Problem::new();
        // Greedily, it knows only the tasks: answers to them do not lead back, but those to the reversed ones do.
        let (mut sampling, mut greedy) = (problem.knows(true, true), problem.knows(true, false));
        let both = problem.play(&ALL, &mut sampling, &mut greedy);
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
        let both = problem.play(&ALL, &mut sampling, &mut greedy);
        assert_eq!(found(&both).0, values(0.5, Some(1.0), 0.0, 1.0));
        assert_eq!(greedy.asked.len(), 8);
        let (mut sampling, mut greedy) = (Known::default(), problem.knows(true, true));
        let both = problem.play(&ALL, &mut sampling, &mut greedy);
        assert_eq!(found(&both).0, values(0.0, None, 0.0, 0.0));
        assert_eq!((greedy.asked.len(), both.tokens), (0, 0));
    }

    #[test]
    fn an_evaluation_is_marked_and_keeps_its_verdicts() {
        let problem = Problem::new();
        let (mut sampling, mut greedy) = (problem.knows(true, false), problem.knows(false, true));
        let [plain, marked] = problem.mark(&mut sampling, &mut greedy);
        assert_eq!(greedy.asked.len(), 8, "the same answer is asked of once");
        let [_, lost] = problem.mark(&mut sampling, &mut Known::default());
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
        let unchecked = Dgpo { cycle: false, ..ALL };
        let both = problem.play(&unchecked, &mut sampling, &mut greedy);
        assert_eq!(found(&both).0, values(1.0, None, 1.0, 1.0));
        assert!(greedy.asked.is_empty() && !both.episodes[0].verdict.flags.contains_key("cycle"));
        // Only forward, with the environment's own reward.
        let forward = Dgpo { reverse: false, cycle: true, keep_rewards: true };
        let (mut sampling, mut greedy) = (problem.knows(true, false), problem.knows(false, true));
        let both = problem.play(&forward, &mut sampling, &mut greedy);
        let (metrics, rewards) = found(&both);
        assert_eq!((both.episodes.len(), both.turned), (8 * ROLLOUTS, 0));
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
