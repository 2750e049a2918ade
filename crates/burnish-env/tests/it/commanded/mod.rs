//! What tests of programs that are environments share.

use burnish_core::{
    Abilities, Answered, Episode, FunctionCall, Message, Policy, Role, Sampling, StopReason, Task, ToolCall,
    Turn, TurnId, TurnOutput, Validity,
};
use burnish_env::rollout::{Overlong, RolloutSpec, SeedPlace, Spawn, play};
use burnish_env::{Generator, build};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// A folder with the program `env.py`.
pub(crate) struct Fixture {
    pub(crate) folder: TempDir,
}

impl Fixture {
    /// `None`, saying so, without Python. Programs find the helper as `environment`, copied beside them.
    pub(crate) fn new(program: &str) -> Option<Self> {
        if !Command::new("python3").arg("-c").arg("").status().is_ok_and(|status| status.success()) {
            println!("skipped: python3 can't be run");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let helper = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/burnish/environment.py");
        std::fs::copy(helper, folder.path().join("environment.py")).unwrap();
        std::fs::write(folder.path().join("env.py"), program).unwrap();
        Some(Fixture { folder })
    }

    pub(crate) fn generator(&self, keys: Value) -> Box<dyn Generator> {
        let mut config = json!({"command": ["python3", "env.py"], "base_dir": self.folder.path()});
        config.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        build("command", &config).unwrap()
    }

    /// Lines of a file that the program wrote.
    pub(crate) fn written(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

/// Answers with what a function of the turn says.
struct Speaker<F> {
    answer: F,
    over: Vec<Answered>,
}

impl<F: FnMut(&Turn) -> Message> Policy for Speaker<F> {
    fn abilities(&self) -> Abilities {
        Abilities { token_ids: false, logprobs: false, ..Abilities::ALL }
    }
    fn version(&self) -> u64 {
        0
    }
    fn submit(&mut self, turn: Turn) -> TurnId {
        let id = TurnId(self.over.len() as u64);
        let message = (self.answer)(&turn);
        let result = Ok(TurnOutput::new(message, StopReason::EndToken));
        self.over.push(Answered { id, trace: turn.trace, result });
        id
    }
    fn poll(&mut self) -> Vec<Answered> {
        std::mem::take(&mut self.over)
    }
    fn wait(&mut self) -> Vec<Answered> {
        self.poll()
    }
    fn cancel(&mut self, _: TurnId) -> bool {
        false
    }
}

/// A policy that answers by a function.
pub(crate) fn answers_by(answer: impl FnMut(&Turn) -> Message) -> impl Policy {
    Speaker { answer, over: Vec::new() }
}

/// Says the lines in turn, the last one again and again. A line `NAME {ARGUMENTS}` is a call of a tool.
pub(crate) fn says(lines: &'static [&'static str]) -> impl Policy {
    let answer = move |turn: &Turn| {
        let said = turn.messages.iter().filter(|message| message.role == Role::Assistant).count();
        let line = lines[said.min(lines.len() - 1)];
        let Some((name, arguments)) = line.split_once(" {") else { return Message::assistant(line) };
        let arguments = serde_json::from_str(&format!("{{{arguments}")).unwrap();
        let function = FunctionCall { name: name.to_owned(), arguments };
        Message { tool_calls: vec![ToolCall { id: None, function }], ..Message::assistant("") }
    };
    answers_by(answer)
}

pub(crate) fn spawns(tasks: &[Task], count: usize) -> Vec<Spawn<'_>> {
    let seeds = SeedPlace { run: 1, stage: 0, step: 0, task_offset: 0 };
    Spawn::of_tasks(tasks, count, &Sampling::greedy(1), seeds)
}

pub(crate) fn spec<'a>(generator: &'a dyn Generator, spawns: &'a [Spawn<'a>]) -> RolloutSpec<'a> {
    RolloutSpec::new(generator, spawns, 6, Overlong::Refuse)
}

pub(crate) fn reason(episode: &Episode) -> &str {
    match &episode.verdict.validity {
        Validity::Unscored { reason } => reason,
        Validity::Scored => "",
    }
}

pub(crate) fn played(
    generator: &dyn Generator,
    tasks: &[Task],
    lines: &'static [&'static str],
) -> Vec<Episode> {
    play(&mut says(lines), &spec(generator, &spawns(tasks, 1))).unwrap()
}
