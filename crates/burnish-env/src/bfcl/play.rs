//! One episode: an answer that is judged, or requests on APIs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use burnish_core::{Message, Role, StopReason, Task, ToolSpec, TurnOutput, Verdict, json};
use serde_json::Value;

use super::ast;
use super::calls::Call;
use super::data::{Gold, Row};
use super::multi::{Next, Played};
use super::tools::{called, specs};
use super::{ID, row_of};
use crate::{EnvError, Environment, Posed, Step};

/// Plays rows of the leaderboard.
#[derive(Debug)]
pub(super) struct BfclEnvironment {
    rows: Arc<Vec<Row>>,
    episode: Option<Episode>,
}

#[derive(Debug)]
struct Episode {
    /// Place of the row.
    row: usize,
    /// The conversation so far.
    messages: Vec<Message>,
    /// The APIs, if the row has several turns.
    played: Option<Played>,
    /// What is known of the verdict: nothing, or what was wrong.
    verdict: Option<Result<(), String>>,
    /// Calls that were read.
    calls: usize,
    /// Calls that could not be read.
    malformed: usize,
}

impl BfclEnvironment {
    pub(super) fn new(rows: Arc<Vec<Row>>) -> Self {
        BfclEnvironment { rows, episode: None }
    }

    /// The episode and its row.
    fn parts(&mut self) -> Result<(&mut Episode, &Row), EnvError> {
        let not_started = || EnvError::Failed(format!("{ID}: no episode has been started: reset first"));
        let episode = self.episode.as_mut().ok_or_else(not_started)?;
        let row = self.rows.get(episode.row).ok_or_else(not_started)?;
        Ok((episode, row))
    }
}

/// The calls of an answer, with functions' own names where they are known.
///
/// # Errors
/// If the arguments of one are no object.
fn made(row: &Row, answer: &Message) -> Result<Vec<Call>, String> {
    let call = |call: &burnish_core::ToolCall| {
        let name = &call.function.name;
        let parsed = match &call.function.arguments {
            Value::String(text) => {
                json::parse(text).map_err(|error| format!("The arguments of `{name}`: {error}."))?
            }
            value => value.clone(),
        };
        let own = called(&row.functions, name).map_or(name, |function| &function.name);
        match json::rounded(parsed) {
            Value::Object(arguments) => Ok(Call { name: own.clone(), arguments }),
            _ => Err(format!("The arguments of `{name}` are no object.")),
        }
    };
    answer.tool_calls.iter().map(call).collect()
}

/// Judges the only answer of a row of one turn.
fn judge(row: &Row, calls: Result<Vec<Call>, String>) -> Result<(), String> {
    match (&row.gold, calls) {
        (Gold::NoCall, Ok(calls)) if !calls.is_empty() => Err("There should be no call.".to_owned()),
        (_, Err(problem)) => Err(problem),
        (Gold::NoCall, Ok(_)) => Ok(()),
        (Gold::SomeCall, Ok(calls)) if calls.is_empty() => Err("There should be a call.".to_owned()),
        (Gold::SomeCall, Ok(_)) => Ok(()),
        (Gold::Calls(gold), Ok(calls)) => ast::check(&row.functions, &calls, gold, row.category.check()),
        (Gold::Turns { .. }, Ok(_)) => Err("The row has several turns.".to_owned()),
    }
}

impl Episode {
    /// What the policy reads next.
    fn posed(&self, row: &Row) -> Step {
        let messages = self.messages.clone();
        Step::Turn(Posed { messages, tools: self.tools(row), tokens_max: None, stop: Vec::new() })
    }

    /// The functions that are offered at the present request.
    fn tools(&self, row: &Row) -> Vec<ToolSpec> {
        let turn = self.played.as_ref().map_or(0, Played::turn);
        let later = row.held_back.range(turn + 1..).flat_map(|(_, names)| names.iter().map(String::as_str));
        specs(&row.functions, &later.collect::<BTreeSet<_>>())
    }

    fn take(&mut self, row: &Row, said: &Message, malformed: &[String]) -> Step {
        self.messages.push(said.clone());
        self.malformed += malformed.len();
        let mut calls = match malformed.first() {
            Some(problem) => Err(problem.clone()),
            None => made(row, said),
        };
        self.calls += said.tool_calls.len();
        let Some(played) = &mut self.played else {
            // An answer with a call, and another one that can't be read, has a call.
            let is_none = matches!(row.gold, Gold::NoCall) && said.tool_calls.is_empty();
            calls = if is_none { Ok(Vec::new()) } else { calls };
            self.verdict = Some(judge(row, calls));
            return Step::Done;
        };
        match calls {
            Ok(calls) if !calls.is_empty() => match played.run(row, &calls) {
                Ok(results) => {
                    let told = said.tool_calls.iter().zip(results).map(|(call, result)| Message {
                        tool_call_id: call.id.clone(),
                        name: Some(call.function.name.clone()),
                        ..Message::new(Role::Tool, result)
                    });
                    self.messages.extend(told);
                    self.posed(row)
                }
                Err(problem) => self.end(Err(problem)),
            },
            // As in the leaderboard, an answer with a call that can't be read ends the request, and nothing of it is run.
            _ => match played.done(row) {
                Next::Said(said) => {
                    self.messages.extend(said);
                    self.posed(row)
                }
                Next::Right => self.end(Ok(())),
                Next::Wrong(problem) => self.end(Err(problem)),
            },
        }
    }

    fn end(&mut self, verdict: Result<(), String>) -> Step {
        self.verdict = Some(verdict);
        Step::Done
    }
}

impl Environment for BfclEnvironment {
    fn reset(&mut self, task: &Task, _seed: u64) -> Result<Vec<Message>, EnvError> {
        let row = row_of(&self.rows, task)?;
        let played = match &row.gold {
            Gold::Turns { apis, .. } => Some(Played::new(apis)),
            _ => None,
        };
        let messages = task.prompt.clone();
        let row = self.rows.iter().position(|known| known.id == row.id).unwrap_or(usize::MAX);
        self.episode =
            Some(Episode { row, messages: messages.clone(), played, verdict: None, calls: 0, malformed: 0 });
        Ok(messages)
    }

    fn tools(&self) -> Vec<ToolSpec> {
        let known = self.episode.as_ref().and_then(|episode| Some((episode, self.rows.get(episode.row)?)));
        known.map_or_else(Vec::new, |(episode, row)| episode.tools(row))
    }

    fn asks(&self) -> bool {
        true
    }

    fn begin(&mut self) -> Result<Step, EnvError> {
        let (episode, row) = self.parts()?;
        Ok(episode.posed(row))
    }

    fn answer(&mut self, said: &TurnOutput) -> Result<Step, EnvError> {
        let (episode, row) = self.parts()?;
        if episode.verdict.is_some() {
            return Err(EnvError::Failed(format!("{ID}: the episode is over")));
        }
        Ok(episode.take(row, &said.message, &said.malformed))
    }

    fn step(&mut self, action: &Message) -> Result<Step, EnvError> {
        let (message, stop) = (action.clone(), StopReason::EndToken);
        self.answer(&TurnOutput::new(message, stop))
    }

    fn verify(&mut self) -> Result<Verdict, EnvError> {
        let (episode, _) = self.parts()?;
        let found = episode.verdict.clone();
        let success = found == Some(Ok(()));
        let mut verdict = Verdict::scored("score", f64::from(u8::from(success)), success);
        verdict.flags = BTreeMap::from([
            ("malformed".to_owned(), episode.malformed > 0),
            ("unfinished".to_owned(), found.is_none()),
        ]);
        verdict.metrics = BTreeMap::from([("calls".to_owned(), episode.calls as f64)]);
        verdict.feedback = found.and_then(Result::err);
        Ok(verdict)
    }
}
