//! Plays the groups of tasks as a plan says. The plan's functions for all tasks run side by side: their episodes share
//! the sampler's batch, and none waits for those of another task.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use burnish_core::rng::{Address, Purpose};
use burnish_core::{
    Episode, Message, Note, Piece, Policy, Record, Role as MessageRole, Sampling, Task, Trace, Verdict,
};
use burnish_env::Generator;
use burnish_env::rollout::{
    self, Given, Overlong, POLICY, Partners, Playing, RolloutError, RolloutSpec, SeedPlace, Spawn,
};
use burnish_episode::{Handle, Known, Started, Threads, run_programs};
use burnish_model::{Chat, ChatError, Tokenizer};
use burnish_rl::plan::{
    Beginning, Group, PlanError, Request, Role, RolloutPlan, Spawned, Start, Waited, World,
};

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

/// Everything that was played for a task, in the order of the requests.
pub(crate) type Played = Vec<Spawned>;

/// The reversed task, if it was played.
pub(crate) fn turned(played: &[Spawned]) -> Option<Arc<Task>> {
    played.iter().find(|own| own.role == Role::Turned)?.task.clone()
}

/// Tokens sampled in episodes that are no members.
pub(crate) fn tokens_aside(played: &[Spawned]) -> usize {
    let aside = played.iter().filter(|own| !own.role.is_member());
    aside.map(|own| own.episode.sampled_tokens()).sum()
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
    ) -> Result<Vec<Played>, RunError> {
        self.go_on(policy, plan, tasks, tasks.iter().map(|_| Played::new()).collect())
    }

    /// Goes on after what was `played` of `tasks`, as `plan` says.
    ///
    /// # Errors
    /// As [`Scene::play`].
    pub(crate) fn go_on(
        &self,
        policy: &mut dyn Policy,
        plan: &dyn RolloutPlan,
        tasks: &[Task],
        played: Vec<Played>,
    ) -> Result<Vec<Played>, RunError> {
        let jury = Jury::default();
        let jury = &jury;
        let groups = tasks.iter().zip(played).enumerate().map(|(at, (task, played))| {
            Started::new(self.seeds.address(at), Known::default(), async move |handle| {
                let place = Address { purpose: Purpose::Perturb, turn: 1, ..self.seeds.address(at) };
                let ground = Ground { scene: self, jury, handle, task, at };
                let group = Group::new(task, (self.rollouts, self.progress, place.seed()), &ground, played);
                plan.play(&group).await.map_err(of_plan)?;
                Ok(group.finish())
            })
        });
        let partners: Vec<&Partners> =
            self.others.partners().into_iter().chain(self.program.map(|own| own.others)).collect();
        let within = self.generator.at_once().unwrap_or(usize::MAX);
        let over = rollout::with_cast(policy, &partners, Vec::new(), |cast| {
            run_programs(usize::MAX, within, groups.collect(), cast, &mut Threads::default())
        });
        let over = over.map_err(|error| match error {
            burnish_episode::RunError::Episode(error) => error,
            burnish_episode::RunError::Lost { turns } => RolloutError::Lost { turns }.into(),
            burnish_episode::RunError::Contact { at, source } => {
                RunError::Refused(format!("plan: task {}: {source}", tasks[at].id))
            }
            burnish_episode::RunError::Stuck { at } => RunError::Refused(format!(
                "plan: task {}: it waits for something that it has not asked for",
                tasks[at].id
            )),
        })?;
        Ok(over.into_iter().map(|finished| finished.value).collect())
    }
}

fn of_plan(error: PlanError) -> RunError {
    match error {
        PlanError::Setting(_) => RunError::Refused(error.to_string()),
        PlanError::World(error) => match error.downcast::<RunError>() {
            Ok(error) => *error,
            Err(error) => RunError::Refused(error.to_string()),
        },
    }
}

fn in_world(error: impl Into<RunError>) -> PlanError {
    PlanError::World(Box::new(error.into()))
}

/// Episodes of a group, and the tasks that they play.
type Handed = (Vec<Task>, Vec<Episode>);

/// Episodes that wait for the models that judge them, by group: those of all groups are judged at once, when nothing else is
/// running.
#[derive(Default)]
struct Jury {
    waiting: RefCell<BTreeMap<usize, Handed>>,
    judged: RefCell<BTreeMap<usize, Vec<Episode>>>,
}

impl Jury {
    /// Judges everything that waits, in the order of the groups.
    fn judge(&self, scene: &Scene<'_>) -> Result<(), RunError> {
        let (mut counts, mut tasks, mut episodes) = (Vec::new(), Vec::new(), Vec::new());
        for (at, (own_tasks, own)) in self.waiting.take() {
            counts.push((at, own.len()));
            tasks.extend(own_tasks);
            episodes.extend(own);
        }
        let tasks: Vec<&Task> = tasks.iter().collect();
        scene.others.judge(scene.generator, &tasks, &mut episodes)?;
        let mut episodes = episodes.into_iter();
        let judged = counts.into_iter().map(|(at, count)| (at, episodes.by_ref().take(count).collect()));
        self.judged.borrow_mut().extend(judged);
        Ok(())
    }
}

/// Where the group of task number `at` is played.
struct Ground<'a> {
    scene: &'a Scene<'a>,
    jury: &'a Jury,
    handle: Handle,
    task: &'a Task,
    at: usize,
}

impl World for Ground<'_> {
    fn opening(&self) -> Result<Vec<Message>, PlanError> {
        let first = Draws::of_role(Role::Rollout, self.place());
        let opened = rollout::opened(self.scene.generator, self.task, first);
        opened.map(|opened| opened.messages).map_err(in_world)
    }

    fn counterpart(&self) -> Result<Task, PlanError> {
        counterpart(self.scene.generator, self.task).map_err(in_world)
    }

    fn reversed(&self, task: &Task, answer: &str) -> Option<Task> {
        self.scene.generator.reversible()?.reverse(task, answer)
    }

    fn recall(&self, about: &str, count: usize) -> Result<Vec<Note>, PlanError> {
        let memory = self.scene.others.memory().map_err(in_world)?;
        Ok(memory.map_or_else(Vec::new, |memory| memory.recall(about, count, Some(&self.task.id))))
    }

    fn play<'a>(
        &'a self,
        group: &'a Group<'a>,
        requests: &'a [(Request, usize)],
    ) -> Waited<'a, Result<Vec<Episode>, PlanError>> {
        Box::pin(async move { self.played(group, requests).await.map_err(in_world) })
    }
}

impl Ground<'_> {
    fn place(&self) -> Address {
        self.scene.seeds.address(self.at)
    }

    async fn played(
        &self,
        group: &Group<'_>,
        requests: &[(Request, usize)],
    ) -> Result<Vec<Episode>, RunError> {
        let begun: Vec<Option<Spawned>> =
            requests.iter().map(|(request, _)| self.begun(group, request)).collect::<Result<_, _>>()?;
        let mut spawns = Vec::new();
        for ((request, first), begun) in requests.iter().zip(&begun) {
            if request.start != Start::Demonstration {
                spawns.push(self.spawn(group, request, *first, begun.as_ref())?);
            }
        }
        let episodes = self.sampled(&spawns).await?;
        let mut episodes = self.judged(&spawns, episodes).await?.into_iter();
        // What is given comes behind what is sampled.
        let is_sampled = |own: &&(Request, usize)| {
            own.0.role.is_member() && !matches!(own.0.start, Start::Demonstration | Start::After { .. })
        };
        let sampled: usize = requests.iter().filter(is_sampled).map(|(request, _)| request.count).sum();
        let mut members = sampled + group.episodes().iter().filter(|own| own.role.is_member()).count();
        let mut all = Vec::new();
        for ((request, first), begun) in requests.iter().zip(begun) {
            if request.start == Start::Demonstration {
                for _ in 0..request.count {
                    all.push(Episode { rollout: members, ..self.given()? });
                    members += 1;
                }
                continue;
            }
            for mut episode in episodes.by_ref().take(request.count) {
                episode.rollout += first;
                if let Some(begun) = &begun {
                    episode.rollout = begun.episode.rollout;
                }
                if request.role == Role::Draft {
                    episode.rollout = self.scene.rollouts;
                    episode.verdict = Verdict::unscored("a draft: what follows it is judged");
                }
                all.push(episode);
            }
        }
        Ok(all)
    }

    /// The episode that a request goes on from, if it does.
    fn begun(&self, group: &Group<'_>, request: &Request) -> Result<Option<Spawned>, RunError> {
        let Start::After { of } = request.start else { return Ok(None) };
        let begun = group.episodes().get(of).cloned();
        begun.map(Some).ok_or_else(|| {
            let id = &self.task.id;
            RunError::Refused(format!("plan: starts from episode {of} of task {id}, which was not played"))
        })
    }

    /// Plays what is spawned, side by side.
    async fn sampled(&self, spawns: &[Spawn<'_>]) -> Result<Vec<Episode>, RunError> {
        let Scene { generator, overlong, program, turns_max, .. } = *self.scene;
        let partners = self.scene.others.partners();
        let whole = RolloutSpec { generator, partners, spawns: &[], turns_max, overlong, program };
        // A draft is a single answer.
        let draft = RolloutSpec { turns_max: turns_max.min(1), ..whole };
        let (whole, draft) = (&whole, &draft);
        let each: Vec<(&Spawn<'_>, usize)> =
            spawns.iter().flat_map(|spawn| (0..spawn.count).map(move |rollout| (spawn, rollout))).collect();
        let played = self.handle.all(each.len() as u32, |number, handle| {
            let (spawn, rollout) = each[number as usize];
            let spec = if spawn.role == Role::Draft.name() { draft } else { whole };
            async move { rollout::play_within(&handle, spec, spawn, rollout).await }
        });
        Ok(played.await.into_iter().collect::<Result<_, RolloutError>>()?)
    }

    /// Episodes that were spawned, with what other models say of them.
    async fn judged(&self, spawns: &[Spawn<'_>], episodes: Vec<Episode>) -> Result<Vec<Episode>, RunError> {
        if !self.scene.others.judge_afterwards() || episodes.is_empty() {
            return Ok(episodes);
        }
        let tasks = spawns.iter().map(|spawn| spawn.task.clone()).collect();
        self.jury.waiting.borrow_mut().insert(self.at, (tasks, episodes));
        self.handle.quiet().await;
        if !self.jury.waiting.borrow().is_empty() {
            self.jury.judge(self.scene)?;
        }
        Ok(self.jury.judged.borrow_mut().remove(&self.at).unwrap_or_default())
    }

    /// An episode in which the environment's own answers are given. Its trace has their tokens, which nobody sampled.
    ///
    /// # Errors
    /// If the environment knows no answer, or a conversation can't be tokenised.
    fn given(&self) -> Result<Episode, RunError> {
        let (task, generator) = (self.task, self.scene.generator);
        let chat = self.scene.chat.ok_or_else(|| no_chat(task))?;
        let refused = |problem: String| RunError::Refused(format!("plan: task {}: {problem}", task.id));
        let known = generator.demonstrations().and_then(|known| known.demonstrate_episode(task));
        let known = known.ok_or_else(|| refused("the environment knows no right answer to it".into()))?;
        let answers: Vec<Message> =
            known.into_iter().filter(|message| message.role == MessageRole::Assistant).collect();
        let given = Given { task, place: self.place(), answers: &answers };
        let (mut episode, messages, tools) = rollout::recited(generator, given)?;
        let mut trace = Trace::new();
        chat.demonstrate(&mut trace, &messages, &tools).map_err(|error| refused(error.to_string()))?;
        episode.traces = vec![trace];
        // It can't be played again: nobody answered.
        episode.record = Record::default();
        Ok(episode)
    }

    /// The episodes of a request, of whose role `first` were requested before. It goes on from `begun`, if that is given.
    fn spawn<'a>(
        &'a self,
        group: &Group<'_>,
        request: &'a Request,
        first: usize,
        begun: Option<&'a Spawned>,
    ) -> Result<Spawn<'a>, RunError> {
        let own_task = begun.and_then(|begun| begun.task.as_deref());
        let task = request.task.as_deref().or(own_task).unwrap_or(self.task);
        if request.role == Role::Turned && std::ptr::eq(task, self.task) {
            let id = &task.id;
            return Err(RunError::Refused(format!(
                "plan: plays task {id} turned round, and names no such task"
            )));
        }
        let place = Draws::of_role(request.role, self.place());
        let mut prefix = Vec::new();
        let (start, rollout) = match (&request.start, begun) {
            (Start::After { of }, Some(Spawned { episode, .. })) => {
                prefix = self.pieces(task, |tokenizer| pieces::last_answer(episode, tokenizer))?;
                let turn = episode.turns().saturating_sub(1);
                // Each continues one episode, so it draws at the place of that episode.
                (rollout::Start::Within { episode, turn }, *of)
            }
            (Start::Messages(messages), _) => (rollout::Start::Messages(messages.clone()), first),
            _ => (rollout::Start::Opening, first),
        };
        for beginning in &request.prefix {
            match beginning {
                Beginning::Answer(of) => prefix.extend(pieces::said(&group.episode(*of))),
                Beginning::Text(text) => {
                    prefix.extend(self.pieces(task, |own| own.piece_of_text(text).map(|piece| vec![piece]))?);
                }
                Beginning::Hint(share) => {
                    let chat = self.scene.chat.ok_or_else(|| no_chat(task))?;
                    prefix.extend(pieces::hint(self.scene.generator, task, *share, &chat.tokenizer)?);
                }
            }
        }
        let sampling = &self.scene.sampling;
        let tokens_max = request.tokens_max.unwrap_or(usize::MAX).min(sampling.tokens_max);
        let temperature = if request.role == Role::Check { 0.0 } else { sampling.temperature };
        Ok(Spawn {
            task,
            start,
            prefix,
            role: request.role.name(),
            count: request.count,
            sampling: Arc::new(Sampling { tokens_max, temperature, ..sampling.clone() }),
            policy: POLICY.into(),
            place: Address { rollout: place.rollout + rollout as u64, ..place },
        })
    }

    fn pieces(
        &self,
        task: &Task,
        make: impl FnOnce(&Tokenizer) -> Result<Vec<Piece>, ChatError>,
    ) -> Result<Vec<Piece>, RunError> {
        let chat = self.scene.chat.ok_or_else(|| no_chat(task))?;
        make(&chat.tokenizer).map_err(|error| RunError::Refused(format!("plan: task {}: {error}", task.id)))
    }
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
    use burnish_reason::{Player, StrategyConfig};
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
            Self::found(plan, &played)
        }

        fn found(plan: &dyn RolloutPlan, played: &[Played]) -> Found {
            let groups: Vec<&[Spawned]> = played.iter().map(|own| &own[..]).collect();
            let metrics = plan.tally(&groups).into_iter().collect();
            let all = played.iter().flatten().filter(|own| own.role.is_member());
            Found {
                episodes: all.map(|own| Episode::clone(&own.episode)).collect(),
                turned: played.iter().filter_map(|own| turned(own)).count(),
                tokens: played.iter().map(|own| tokens_aside(own)).sum(),
                metrics,
            }
        }

        /// What is played without a plan, then marked.
        fn mark(&self, sampling: &mut Known, greedy: &mut Known) -> [Vec<Episode>; 2] {
            let scene = self.scene();
            let plain =
                scene.play(&mut policy(sampling, &mut Known::default()), &Plain, &self.tasks).unwrap();
            let before = plain.iter().flatten().map(|own| Episode::clone(&own.episode)).collect();
            let mut greedy = policy(sampling, greedy);
            let marked = scene.go_on(&mut greedy, &CycleCheck, &self.tasks, plain).unwrap();
            [before, Self::found(&CycleCheck, &marked).episodes]
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

    /// One note of each task, which says its id.
    struct Own(Vec<Note>);

    impl burnish_core::Memory for Own {
        fn notes(&self) -> &[Note] {
            &self.0
        }

        fn recall(&self, _: &str, _: usize, except: Option<&burnish_core::TaskId>) -> Vec<Note> {
            self.0.iter().filter(|note| note.task.as_ref() != except).cloned().collect()
        }
    }

    #[test]
    fn no_plan_sees_a_note_of_its_own_task() {
        let problem = Problem::new();
        let note = |task: &Task| Note {
            about: "a".into(),
            text: format!("<{}>", task.id),
            task: Some(task.id.clone()),
        };
        let notes = problem.tasks.iter().map(note).collect();
        let memory: Arc<dyn burnish_core::Memory> = Arc::new(Own(notes));
        let problem = Problem { others: Others::remembering(Arc::clone(&memory)), ..problem };
        // By the plan, and by the strategy.
        let mut sampling = Known::default();
        problem.play(&burnish_systems::recall::Recall::default(), &mut sampling, &mut Known::default());
        let strategy = StrategyConfig::new("recall").build().unwrap();
        let (player, nobody) =
            (Player::new(strategy, Vec::new()).with_memory(Some(memory)), Partners::default());
        let program = Some(Playing { program: &player, others: &nobody });
        let scene = Scene { program, ..problem.scene() };
        scene.play(&mut policy(&mut sampling, &mut Known::default()), &Plain, &problem.tasks).unwrap();
        assert_eq!(sampling.asked.len(), 2 * 8 * ROLLOUTS);
        for (prompt, _) in &sampling.asked {
            let of = |task: &&Task| prompt.contains(&task.prompt[0].content);
            let own: Vec<&Task> = problem.tasks.iter().filter(of).collect();
            let shown = |task: &Task| prompt.contains(&format!("<{}>", task.id));
            assert!(own.len() == 1 && !shown(own[0]), "{prompt}");
            assert_eq!(problem.tasks.iter().filter(|task| shown(task)).count(), 7);
        }
    }

    #[test]
    fn whoever_plays_a_task_turned_round_names_it() {
        struct Nameless;
        impl RolloutPlan for Nameless {
            fn play<'a>(&'a self, group: &'a Group<'a>) -> burnish_rl::plan::Program<'a> {
                Box::pin(async {
                    group.play([Request { role: Role::Turned, ..Request::rollouts(1) }]).await?;
                    Ok(())
                })
            }
        }
        let problem = Problem::new();
        let played = problem.scene().play(
            &mut policy(&mut Known::default(), &mut Known::default()),
            &Nameless,
            &problem.tasks,
        );
        let error = played.err().unwrap().to_string();
        assert!(error.contains("turned round, and names no such task"), "{error}");
    }

    #[test]
    fn an_environment_that_can_not_be_turned_round_is_refused() {
        let generator = burnish_env::build("countdown", &json!({})).unwrap();
        let task = &generator.tasks(1, 1).unwrap().tasks[0];
        let error = counterpart(&*generator, task).unwrap_err().to_string();
        assert!(error.contains("plan") && error.contains("countdown") && error.contains("chains"), "{error}");
    }
}
