//! One episode: tool calls until an answer makes none.

use std::collections::BTreeMap;
use std::time::Duration;

use burnish_core::{FunctionCall, Message, Repeating, Task, ToolSpec, Verdict};

use super::ID;
use super::episode::Truth;
use super::ledger::{Ledger, REFUSED, repeating, tools};
use crate::many_turns::{over, started};
use crate::{EnvError, Environment, Step};

/// The state of an episode, with its start and its right end.
#[derive(Debug, Clone)]
struct Episode {
    start: Ledger,
    right: Ledger,
    ledger: Ledger,
    refused: bool,
    is_over: bool,
}

/// Plays tasks on accounts.
#[derive(Debug)]
pub(super) struct AccountsEnvironment {
    latency: Duration,
    episode: Option<Episode>,
}

impl AccountsEnvironment {
    pub(super) fn new(latency: Duration) -> Self {
        AccountsEnvironment { latency, episode: None }
    }

    fn episode(&mut self) -> Result<&mut Episode, EnvError> {
        started(ID, self.episode.as_mut())
    }
}

impl Environment for AccountsEnvironment {
    fn reset(&mut self, task: &Task, _seed: u64) -> Result<Vec<Message>, EnvError> {
        let (Truth { accounts, .. }, right) = Truth::of(task)?;
        let ledger = accounts.clone();
        self.episode = Some(Episode { start: accounts, right, ledger, refused: false, is_over: false });
        Ok(task.prompt.clone())
    }

    fn tools(&self) -> Vec<ToolSpec> {
        tools()
    }

    fn repeating(&self, tool: &str) -> Option<Repeating> {
        repeating(tool)
    }

    fn latency(&self, _call: &FunctionCall) -> Duration {
        self.latency
    }

    fn call(&mut self, call: &FunctionCall, _key: &str) -> Result<String, EnvError> {
        Ok(self.episode()?.ledger.call(call).unwrap_or_else(|refusal| refusal))
    }

    /// What was refused is told by what was said, since on a record a call that changes nothing is not made again.
    fn called(&mut self, _answer: &Message, said: &[Message]) {
        if let Some(episode) = &mut self.episode {
            episode.refused |= said.iter().any(|result| result.content.starts_with(REFUSED));
        }
    }

    fn step(&mut self, _action: &Message) -> Result<Step, EnvError> {
        let episode = self.episode()?;
        if episode.is_over {
            return Err(over(ID));
        }
        episode.is_over = true;
        Ok(Step::Done)
    }

    fn verify(&mut self) -> Result<Verdict, EnvError> {
        let Episode { start, right, ledger, refused, is_over } = self.episode()?;
        let success = ledger == right;
        let mut verdict = Verdict::scored("success", f64::from(u8::from(success)), success);
        verdict.flags = BTreeMap::from([
            ("refused".to_owned(), *refused),
            ("unfinished".to_owned(), !*is_over),
            ("untouched".to_owned(), ledger == start),
        ]);
        let wrong = ledger.accounts.iter().zip(&right.accounts).find(|(is, should)| is != should);
        verdict.feedback = wrong.map(|(is, should)| {
            format!("{} has {}, but should have {}.", is.name, is.balance, should.balance)
        });
        Ok(verdict)
    }
}
