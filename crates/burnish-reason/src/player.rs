//! A strategy that plays episodes: it answers turn by turn, or plays on by itself ([`Session::act`]).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use burnish_core::rng::{Address, Purpose};
use burnish_core::{Memory, PolicyError, Trace, Turn};
use burnish_episode::{ContactError, Handle, Position, Program, Waited};

use crate::record::Considered;
use crate::session::{Asked, Session};
use crate::strategy::Strategy;

/// Plays episodes by a strategy. What it did is kept by the seed of the turn that it began to answer ([`Player::take`]).
pub struct Player {
    strategy: Arc<dyn Strategy>,
    others: Vec<&'static str>,
    budgets: BTreeMap<u64, usize>,
    memory: Option<Arc<dyn Memory>>,
    considered: RefCell<BTreeMap<u64, Considered>>,
}

impl Player {
    /// By `strategy`, which can ask `others` besides the policy.
    pub fn new(strategy: Arc<dyn Strategy>, others: Vec<&'static str>) -> Self {
        Player { strategy, others, budgets: BTreeMap::new(), memory: None, considered: RefCell::default() }
    }

    /// With a budget of tokens for each turn, by its seed ([`Asked::budget`]).
    #[must_use]
    pub fn with_budgets(self, budgets: BTreeMap<u64, usize>) -> Self {
        Player { budgets, ..self }
    }

    /// With notes to read ([`Session::recall`]).
    #[must_use]
    pub fn with_memory(self, memory: Option<Arc<dyn Memory>>) -> Self {
        Player { memory, ..self }
    }

    /// Everything that was done since the last call, by the seeds of turns.
    pub fn take(&self) -> BTreeMap<u64, Considered> {
        self.considered.take()
    }
}

impl Program for Player {
    fn play<'a, 's: 'a>(
        &'a self,
        handle: &'a Handle,
        policy: &'a Arc<str>,
        opening: Box<dyn Position<'s> + 's>,
    ) -> Waited<'a, Result<Box<dyn Position<'s> + 's>, ContactError>> {
        Box::pin(async move {
            let agent = handle.agent(policy, Trace::new());
            let mut position = opening;
            while position.ending().is_none() {
                let at = Address {
                    turn: position.answers().len() as u64,
                    purpose: Purpose::Sample,
                    ..handle.address()
                };
                let trace = handle.trace(&agent);
                let (known, head) = (trace.nodes().len(), trace.head());
                let turn = Turn {
                    trace,
                    messages: Arc::clone(position.messages()),
                    tools: Arc::clone(position.tools()),
                    prefix: Vec::new(),
                    sampling: Arc::clone(position.sampling()),
                    seed: at.seed(),
                };
                let budget = self.budgets.get(&turn.seed).copied();
                let (seed, others, memory) = (turn.seed, self.others.clone(), self.memory.clone());
                let asked = Asked { turn, others, budget, memory };
                let session = Session::new(handle.clone(), agent.clone(), asked, position);
                let answered = match self.strategy.answer(&session).await {
                    Ok(chosen) => session.reach(chosen).await.map(|()| chosen),
                    Err(error) => Err(error),
                };
                position = match answered {
                    Ok(chosen) => {
                        let over = session.finish(chosen);
                        self.considered.borrow_mut().insert(seed, over.considered);
                        let tree = handle.trace(&agent);
                        let tree = tree.before(tree.nodes().len(), over.end.or(head)).unwrap_or(tree);
                        handle.set_trace(&agent, tree);
                        over.position
                    }
                    Err(ContactError::Policy(PolicyError::PromptTooLong { tokens, tokens_max })) => {
                        let mut position = session.give_up();
                        let tree = handle.trace(&agent);
                        handle.set_trace(&agent, tree.before(known, head).unwrap_or(tree));
                        position.make_room(tokens, tokens_max)?;
                        position
                    }
                    Err(error) => return Err(error),
                };
            }
            Ok(position)
        })
    }
}
