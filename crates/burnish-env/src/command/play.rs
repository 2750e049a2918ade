//! An episode in a process.

use std::sync::Arc;

use burnish_core::{FunctionCall, Message, Repeating, Task, ToolSpec, Verdict};

use super::peer::{Failure, Peer};
use super::pool::Pool;
use super::wire::{self, Fields, Posed, Request};
use crate::rows::read_verdict;
use crate::servers::Hands;
use crate::{EnvError, Environment, Step};

/// Plays one task in a process of its own.
pub(super) struct Playing {
    pool: Arc<Pool>,
    /// `None` before the episode, after it, and after its process failed.
    peer: Option<Peer>,
    hands: Hands,
}

impl Playing {
    pub(super) fn new(pool: Arc<Pool>, hands: Hands) -> Self {
        Playing { pool, peer: None, hands }
    }

    /// Asks the episode's process. One that fails is ended.
    fn ask<T>(
        &mut self,
        request: &Request<'_>,
        read: impl FnOnce(Fields) -> Result<T, String>,
    ) -> Result<T, EnvError> {
        let gone = || EnvError::Failed("the process that played this episode is gone".to_owned());
        let mut peer = self.peer.take().ok_or_else(gone)?;
        let answer = peer.ask(request, &self.pool.config).and_then(|fields| {
            read(fields).map_err(|problem| Failure::Broken(format!("the environment's process: {problem}")))
        });
        match answer {
            Ok(answer) => {
                self.peer = Some(peer);
                Ok(answer)
            }
            Err(Failure::Said(problem)) => {
                self.pool.give_back(peer);
                Err(EnvError::Failed(problem))
            }
            Err(Failure::Broken(problem)) => Err(EnvError::Failed(peer.stop(&problem))),
        }
    }
}

/// The task as the process reads it.
pub(super) fn posed(task: &Task) -> Posed<'_> {
    Posed { id: &task.id, prompt: &task.prompt, data: &task.truth, labels: &task.labels }
}

impl Environment for Playing {
    fn reset(&mut self, task: &Task, seed: u64) -> Result<Vec<Message>, EnvError> {
        self.hands.begin();
        self.peer = Some(self.pool.take().map_err(EnvError::Failed)?);
        let request = Request::Reset { task: posed(task), seed: (seed >> 32) as u32 };
        Ok(self.ask(&request, wire::opening)?.unwrap_or_else(|| task.prompt.clone()))
    }

    fn stepping(&self) -> Option<Repeating> {
        // Without a hello, the first contact says what is wrong.
        Some(self.pool.hello().map_or(Repeating::Rebuilt, |hello| hello.repeating))
    }

    fn tools(&self) -> Vec<ToolSpec> {
        let own = self.pool.hello().map_or_else(|_| Vec::new(), |hello| hello.tools);
        let of_servers = self.hands.servers().tools().unwrap_or_default();
        own.into_iter().map(|tool| tool.spec).chain(of_servers).collect()
    }

    fn repeating(&self, tool: &str) -> Option<Repeating> {
        if let Some(repeating) = self.hands.servers().repeating(tool) {
            return Some(repeating);
        }
        let hello = self.pool.hello().ok()?;
        let repeating = hello.tools.iter().find(|known| known.spec.name == tool)?.repeating?;
        Some(match (hello.repeating, repeating) {
            // No episode is there in which it could be called again.
            (Repeating::Outside, Repeating::Rebuilt) => Repeating::Outside,
            (_, repeating) => repeating,
        })
    }

    fn call(&mut self, call: &FunctionCall, key: &str) -> Result<String, EnvError> {
        if self.hands.servers().repeating(&call.name).is_some() {
            return self.hands.call(call, key);
        }
        let request = Request::Call { name: &call.name, arguments: &call.arguments, key };
        self.ask(&request, wire::result)
    }

    fn step(&mut self, action: &Message) -> Result<Step, EnvError> {
        self.ask(&Request::Step { message: action }, |fields| wire::step(fields, "step"))
    }

    fn hear(&mut self, said: &Message) -> Result<Step, EnvError> {
        self.ask(&Request::Hear { message: said }, |fields| wire::step(fields, "hear"))
    }

    fn is_slow(&self) -> bool {
        true
    }

    fn verify(&mut self) -> Result<Verdict, EnvError> {
        let verdict = self.ask(&Request::Verify, Ok)?;
        // The verdict counts, however the process takes the end.
        if let Some(mut peer) = self.peer.take()
            && !matches!(peer.close(&self.pool.config), Err(Failure::Broken(_)))
        {
            self.pool.give_back(peer);
        }
        Ok(read_verdict(&verdict).unwrap_or_else(Verdict::unscored))
    }
}

/// An episode that ended early leaves its process to the next one.
impl Drop for Playing {
    fn drop(&mut self) {
        if let Some(peer) = self.peer.take() {
            self.pool.give_back(peer);
        }
    }
}
