//! A strategy on top of a policy: a policy again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use burnish_core::rng::{Address, Purpose};
use burnish_core::settings::SettingError;
use burnish_core::{Abilities, Answered, Place, Policy, PolicyError, Sampling, Trace, Turn, TurnId};
use burnish_episode::{AskedTurn, ContactError, Driven, Known, Progress, RunError, Started};

use crate::one_turn::OneTurn;
use crate::record::Considered;
use crate::session::{Asked, Over, POLICY, Session};
use crate::strategy::Strategy;

/// Interval at which several servers are polled while nothing else can be done.
const POLL: Duration = Duration::from_millis(2);

/// Answers each turn by a strategy.
///
/// Its traces hold every token that the policy sampled, but they are no samples of one policy's turn: it says that it can't
/// be trained on.
pub struct Strategist<'a> {
    /// The policy first.
    cast: Vec<(&'static str, Box<dyn Policy + 'a>)>,
    strategy: Arc<dyn Strategy>,
    running: BTreeMap<TurnId, Running>,
    /// Who waits for a turn of a policy, by the policy's index.
    asked: BTreeMap<(usize, TurnId), (TurnId, Place)>,
    over: Vec<Answered>,
    submitted: u64,
    /// What was done, by the seeds of turns, if somebody wants to know.
    considered: Option<BTreeMap<u64, Considered>>,
}

/// A turn under way.
struct Running {
    driven: Driven<'static, Over<'static>, ContactError>,
    seed: u64,
    /// The trace as it came, in case that the turn fails.
    trace: Trace,
}

impl<'a> Strategist<'a> {
    /// `strategy` on top of `policy`.
    pub fn new(policy: impl Policy + 'a, strategy: Arc<dyn Strategy>) -> Self {
        Strategist::over(Box::new(policy), strategy)
    }

    /// As [`Strategist::new`].
    pub fn over(policy: Box<dyn Policy + 'a>, strategy: Arc<dyn Strategy>) -> Self {
        Strategist {
            cast: vec![(POLICY, policy)],
            strategy,
            running: BTreeMap::new(),
            asked: BTreeMap::new(),
            over: Vec::new(),
            submitted: 0,
            considered: None,
        }
    }

    /// With somebody who judges ([`crate::JUDGE`]) or deliberates ([`crate::DELIBERATOR`]) in the policy's place, or gives
    /// numbers ([`crate::REWARD_MODEL`]).
    #[must_use]
    pub fn with(mut self, name: &'static str, policy: impl Policy + 'a) -> Self {
        self.cast.push((name, Box::new(policy)));
        self
    }

    /// Keeps what it does for [`Strategist::take`].
    #[must_use]
    pub fn recording(self) -> Self {
        Strategist { considered: Some(BTreeMap::new()), ..self }
    }

    /// Checks that turns that are sampled in this way can be answered.
    ///
    /// # Errors
    /// Names the setting of the strategy that makes no sense with them, or what the policy can't do.
    pub fn check(&self, sampling: &Sampling) -> Result<(), SettingError> {
        self.strategy.check_sampling(sampling)?;
        let abilities = self.cast[0].1.abilities();
        if self.strategy.reads_logprobs() && !abilities.logprobs {
            let problem = "reads log-probs, and the policy reports none: give `score.by = \"judge\"`";
            return Err(SettingError::new("config.score.by", problem));
        }
        if self.strategy.reward_model().is_some() && !abilities.token_ids {
            let problem = "must be `judge`: a reward model reads tokens, and the policy reports none";
            return Err(SettingError::new("config.score.by", problem));
        }
        abilities.check_sampling(sampling).map_err(|error| SettingError::new("", error.to_string()))
    }

    /// What was done to answer turns since the last call, by their seeds; nothing, unless it is kept.
    pub fn take(&mut self) -> BTreeMap<u64, Considered> {
        self.considered.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn begin(&mut self, id: TurnId, turn: Turn) {
        let (seed, trace) = (turn.seed, turn.trace.clone());
        let others = self.cast[1..].iter().map(|(name, _)| *name).collect();
        let asked = Asked { turn, others, budget: None, memory: None };
        let strategy = Arc::clone(&self.strategy);
        let address = Address::new(seed, Purpose::Sample);
        let episode = Started::new(address, Known::default(), async move |handle| {
            let agent = handle.agent(&POLICY.into(), asked.turn.trace.clone());
            let position = Box::new(OneTurn::of(&asked.turn));
            let session = Session::new(handle, agent, asked, position);
            let chosen = strategy.answer(&session).await?;
            Ok(session.finish(chosen))
        });
        self.running.insert(id, Running { driven: Driven::new(episode), seed, trace });
        self.go_on(id);
    }

    /// Runs a turn until it waits or is over.
    fn go_on(&mut self, id: TurnId) {
        let Some(running) = self.running.get_mut(&id) else { return };
        match running.driven.advance() {
            Ok(Progress::Waits { asked, given_up }) => {
                for place in given_up {
                    self.give_up(|by| *by == (id, place.clone()));
                }
                for AskedTurn { place, policy, turn } in asked {
                    // A session names nobody who is not in the cast.
                    let at = self.cast.iter().position(|(name, _)| **name == *policy).unwrap_or(0);
                    let asked = self.cast[at].1.submit(turn);
                    self.asked.insert((at, asked), (id, place));
                }
            }
            Ok(Progress::Over(over)) => {
                let Over { considered, trace, output, .. } = over.value;
                let running = self.running.remove(&id);
                if let (Some(Running { seed, .. }), Some(kept)) = (running, &mut self.considered) {
                    kept.insert(seed, considered);
                }
                self.over.push(Answered { id, trace, result: Ok(output) });
            }
            Err(error) => {
                let error = match error {
                    RunError::Episode(ContactError::Policy(error)) => error,
                    other => PolicyError::Failed(other.to_string()),
                };
                self.give_up(|(by, _)| *by == id);
                let trace = self.running.remove(&id).map(|running| running.trace).unwrap_or_default();
                self.over.push(Answered { id, trace, result: Err(error) });
            }
        }
    }

    /// Cancels turns of policies that somebody no longer waits for.
    fn give_up(&mut self, is_meant: impl Fn(&(TurnId, Place)) -> bool) {
        let given_up: Vec<(usize, TurnId)> =
            self.asked.iter().filter(|(_, by)| is_meant(by)).map(|(asked, _)| *asked).collect();
        for (at, asked) in given_up {
            self.cast[at].1.cancel(asked);
            self.asked.remove(&(at, asked));
        }
    }

    /// Passes on answers of one policy. Turns go on in the order of their ids, so that it does not matter which answer came
    /// first.
    fn deliver(&mut self, at: usize, answers: Vec<Answered>) {
        let mut woken = Vec::new();
        for Answered { id, trace, result } in answers {
            if let Some((by, place)) = self.asked.remove(&(at, id))
                && let Some(running) = self.running.get_mut(&by)
            {
                running.driven.answered(place, trace, result);
                woken.push(by);
            }
        }
        woken.sort_unstable();
        woken.dedup();
        woken.into_iter().for_each(|id| self.go_on(id));
    }

    /// The policies that have turns under way.
    fn busy(&self) -> Vec<usize> {
        let mut busy: Vec<usize> = self.asked.keys().map(|(at, _)| *at).collect();
        busy.dedup();
        busy
    }
}

impl Policy for Strategist<'_> {
    fn abilities(&self) -> Abilities {
        Abilities { token_ids: false, logprobs: false, prefix: false, ..self.cast[0].1.abilities() }
    }

    fn version(&self) -> u64 {
        self.cast[0].1.version()
    }

    fn submit(&mut self, turn: Turn) -> TurnId {
        let id = TurnId(self.submitted);
        self.submitted += 1;
        match self.abilities().check(&turn) {
            Ok(()) => self.begin(id, turn),
            Err(error) => self.over.push(Answered { id, trace: turn.trace, result: Err(error) }),
        }
        id
    }

    fn poll(&mut self) -> Vec<Answered> {
        for at in self.busy() {
            let answers = self.cast[at].1.poll();
            self.deliver(at, answers);
        }
        std::mem::take(&mut self.over)
    }

    fn wait(&mut self) -> Vec<Answered> {
        while self.over.is_empty() {
            match self.busy()[..] {
                [] => break,
                [only] => {
                    let answers = self.cast[only].1.wait();
                    if answers.is_empty() {
                        break;
                    }
                    self.deliver(only, answers);
                }
                ref busy => {
                    let is_remote = busy.iter().all(|at| self.cast[*at].1.is_remote());
                    let over = self.poll();
                    if over.is_empty() && is_remote {
                        std::thread::sleep(POLL);
                    }
                    self.over = over;
                }
            }
        }
        std::mem::take(&mut self.over)
    }

    fn is_remote(&self) -> bool {
        self.cast.iter().all(|(_, policy)| policy.is_remote())
    }

    fn cancel(&mut self, id: TurnId) -> bool {
        self.give_up(|(by, _)| *by == id);
        let before = self.over.len();
        self.over.retain(|answered| answered.id != id);
        self.running.remove(&id).is_some() || self.over.len() < before
    }
}
