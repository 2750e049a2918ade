//! An episode with one row.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use burnish_core::{FunctionCall, Message, Repeating, Role, Task, ToolSpec, Verdict};
use burnish_data::{Columns, Row};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::verifier::{Judge, Request};
use crate::servers::Hands;
use crate::{EnvError, Environment, Question, Step};

/// The partner who copies final answers out of responses.
const EXTRACTOR: &str = "extractor";

/// Plays one row: one answer, before which tools of servers may be called.
pub(super) struct Judged {
    verifier: Arc<dyn Judge>,
    columns: Columns,
    hands: Hands,
    state: State,
}

impl Judged {
    pub(super) fn new(verifier: Arc<dyn Judge>, columns: Columns, hands: Hands) -> Self {
        Judged { verifier, columns, hands, state: State::default() }
    }
}

/// The state of an episode.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct State {
    row: Value,
    prompt: Vec<Message>,
    /// The ground truth of the row.
    truth: Option<String>,
    /// The tools of the row, which the policy reads along with the prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) tools: Vec<ToolSpec>,
    /// Answers with calls, and their results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    called: Vec<Message>,
    /// The policy's answer.
    answer: Option<Message>,
    /// The reply of the extractor, where it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    extracted: Option<String>,
}

impl State {
    pub(super) fn of(task: &Task, columns: &Columns) -> Self {
        let read = |row| Row::read(row, &columns.of(row).ok()?).ok();
        let read = task.truth.as_object().and_then(read);
        let (truth, tools) = read.map(|row| (row.answer, row.tools)).unwrap_or_default();
        State { row: task.truth.clone(), prompt: task.prompt.clone(), truth, tools, ..State::default() }
    }

    pub(super) fn answered(self, answer: Message) -> Self {
        State { answer: Some(answer), ..self }
    }

    /// Makes the verifier's request.
    pub(super) fn request<T>(
        &self,
        workspaces: &BTreeMap<String, PathBuf>,
        ask: impl FnOnce(&Request<'_>) -> T,
    ) -> T {
        let messages: Vec<Message> =
            self.prompt.iter().chain(&self.called).chain(&self.answer).cloned().collect();
        let completion = self.answer.as_ref().map_or("", |answer| &answer.content);
        ask(&Request {
            task: &self.row,
            prompt: &self.prompt,
            completion,
            messages: &messages,
            answer: self.truth.as_deref(),
            extracted: self.extracted.as_deref(),
            workspaces,
        })
    }
}

impl Environment for Judged {
    fn reset(&mut self, task: &Task, _seed: u64) -> Result<Vec<Message>, EnvError> {
        self.hands.begin();
        self.state = State::of(task, &self.columns);
        let of_servers = self.hands.servers().tools()?;
        let is_taken = |tool: &&ToolSpec| of_servers.iter().any(|other| other.name == tool.name);
        match self.state.tools.iter().find(is_taken) {
            Some(tool) => {
                Err(EnvError::Failed(format!("the row has a tool `{}`, and so has a server", tool.name)))
            }
            None => Ok(task.prompt.clone()),
        }
    }

    fn tools(&self) -> Vec<ToolSpec> {
        // Without them, the episode has already ended with the reason.
        let of_servers = self.hands.servers().tools().unwrap_or_default();
        self.state.tools.iter().cloned().chain(of_servers).collect()
    }

    /// Only servers run tools.
    fn repeating(&self, tool: &str) -> Option<Repeating> {
        self.hands.servers().repeating(tool)
    }

    fn call(&mut self, call: &FunctionCall, key: &str) -> Result<String, EnvError> {
        self.hands.call(call, key)
    }

    fn called(&mut self, answer: &Message, said: &[Message]) {
        self.state.called.push(answer.clone());
        self.state.called.extend_from_slice(said);
    }

    fn step(&mut self, action: &Message) -> Result<Step, EnvError> {
        self.state.answer = Some(action.clone());
        let question = self.state.request(&BTreeMap::new(), |request| self.verifier.extraction(request));
        Ok(question.map_or(Step::Done, |question| {
            let messages = vec![Message::new(Role::User, question)];
            Step::Ask(Question { who: EXTRACTOR.to_owned(), messages, is_for_verdict: true })
        }))
    }

    fn hear(&mut self, said: &Message) -> Result<Step, EnvError> {
        self.state.extracted = Some(said.content.clone());
        Ok(Step::Done)
    }

    /// Only if there are servers, a command judges, or programs are run.
    fn is_slow(&self) -> bool {
        !self.hands.servers().is_empty() || self.verifier.is_slow(&self.state.row)
    }

    fn verify(&mut self) -> Result<Verdict, EnvError> {
        let workspaces = self.hands.workspaces()?;
        Ok(self.state.request(&workspaces, |request| self.verifier.judge(request)))
    }
}
