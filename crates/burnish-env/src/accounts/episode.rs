//! The truth of a task, and whole conversations that solve it.

use std::collections::BTreeSet;

use burnish_core::rng::{self, Address, Purpose, Stream};
use burnish_core::{FunctionCall, Message, Role, Task, ToolCall};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::ID;
use super::config::{AccountsConfig, Amounts, PromptStyle};
use super::instruction::{Instruction, carry_out};
use super::ledger::{BALANCE, Ledger, TRANSFER};
use crate::EnvError;
use crate::tasks::{foreign, read};

/// The answer when everything is done.
pub(super) const DONE: &str = "done";

/// Most attempts at guessing, for a demonstration that must end wrong.
const GUESSES_MAX: u64 = 16;

/// The part of a task that is hidden from the policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truth {
    /// The opening balances.
    pub(super) accounts: Ledger,
    /// The instructions of the task.
    pub(super) instructions: Vec<Instruction>,
}

impl Truth {
    /// Reads the truth of a task; also returns the ledger that is right at the end.
    ///
    /// # Errors
    /// If the task is not one of this environment.
    pub(super) fn of(task: &Task) -> Result<(Truth, Ledger), EnvError> {
        let truth: Truth = read(ID, task)?;
        let accounts = &truth.accounts.accounts;
        let names: BTreeSet<&str> = accounts.iter().map(|account| account.name.as_str()).collect();
        let mut named = truth.instructions.iter().flat_map(Instruction::named);
        if names.len() < accounts.len() || named.any(|at| at >= accounts.len()) {
            return Err(foreign(ID, task, "its accounts and instructions do not fit together"));
        }
        let right = carry_out(&truth.accounts, &truth.instructions)
            .ok_or_else(|| foreign(ID, task, "its instructions can't be carried out"))?;
        Ok((truth, right))
    }

    /// The instructions, one per line, in symbols or in sentences.
    pub(super) fn text(&self, style: PromptStyle) -> String {
        let line = |it: &Instruction| match style {
            PromptStyle::Short => it.signs(&self.accounts),
            PromptStyle::Full => it.sentence(&self.accounts),
        };
        self.instructions.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// Does it require looking at an account?
    fn needs_looks(&self) -> bool {
        self.instructions.iter().any(|it| !it.looks_at().is_empty())
    }
}

/// A conversation under way.
struct Conversation {
    ledger: Ledger,
    messages: Vec<Message>,
}

impl Conversation {
    /// Adds one answer of the policy with these calls, and the tools' results.
    fn call(&mut self, calls: Vec<FunctionCall>) {
        let results: Vec<Message> = calls
            .iter()
            .map(|call| {
                let said = self.ledger.call(call).unwrap_or_else(|refusal| refusal);
                Message { name: Some(call.name.clone()), ..Message::new(Role::Tool, said) }
            })
            .collect();
        let tool_calls = calls.into_iter().map(|function| ToolCall { id: None, function }).collect();
        self.messages.push(Message { tool_calls, ..Message::assistant("") });
        self.messages.extend(results);
    }
}

fn call(name: &str, arguments: Value) -> FunctionCall {
    FunctionCall { name: name.to_owned(), arguments }
}

/// The conversation of a policy that looks where it has to: its answers and the tools' results, from its first answer
/// on. With `guesses` it transfers without looking, and mostly the wrong amount.
fn conversation(truth: &Truth, amounts: Amounts, mut guesses: Option<Stream>) -> (Vec<Message>, Ledger) {
    let mut talk = Conversation { ledger: truth.accounts.clone(), messages: Vec::new() };
    for instruction in &truth.instructions {
        let looks = instruction.looks_at();
        // The right transfer, which it knows or would know after looking.
        let Some(mut transfer) = instruction.transfer(&talk.ledger) else { continue };
        if let (Some(guesses), Some(&first)) = (&mut guesses, looks.first()) {
            match instruction {
                Instruction::Richer { second, .. } => {
                    transfer.from = if guesses.below(2) == 0 { first } else { *second };
                }
                _ => transfer.amount = amounts.unit * (1 + guesses.below(amounts.max / amounts.unit)),
            }
        } else if !looks.is_empty() {
            let name = |at| talk.ledger.name(at);
            let looks = looks.into_iter().map(|at| call(BALANCE, json!({"name": name(at)}))).collect();
            talk.call(looks);
        }
        let (from, to) = (talk.ledger.name(transfer.from), talk.ledger.name(transfer.to));
        let arguments = json!({"from": from, "to": to, "amount": transfer.amount});
        talk.call(vec![call(TRANSFER, arguments)]);
    }
    talk.messages.push(Message::assistant(DONE));
    (talk.messages, talk.ledger)
}

/// The right conversation, from the policy's first answer on.
pub(super) fn right(truth: &Truth, amounts: Amounts) -> Vec<Message> {
    conversation(truth, amounts, None).0
}

/// The conversation that is demonstrated: right, or wrong if the task's id says so.
pub(super) fn demonstrated(
    config: &AccountsConfig,
    task: &Task,
    truth: &Truth,
    end: &Ledger,
) -> Vec<Message> {
    let id = rng::fold_bytes(task.id.0.len() as u64, task.id.0.as_bytes());
    let seed = |attempt| Address { task: id, rollout: attempt, ..Address::new(0, Purpose::Perturb) }.seed();
    if truth.needs_looks() && rng::uniform(seed(0), 0) < config.demonstration_errors {
        for attempt in 1..=GUESSES_MAX {
            let guesses = Stream::new(seed(attempt));
            let (messages, ledger) = conversation(truth, config.amounts, Some(guesses));
            if ledger != *end {
                return messages;
            }
        }
    }
    right(truth, config.amounts)
}
