//! One episode: the user asks, the policy calls tools, and says when it is done; then the user asks for more.

use std::collections::BTreeMap;
use std::sync::Arc;

use burnish_core::{FunctionCall, Message, Repeating, Task, ToolSpec, Verdict, openai};
use burnish_worlds::reward::{MadeCall, reward};
use burnish_worlds::{State, World};
use serde_json::{Map, Value};

use super::ID;
use super::config::Component;
use super::truth::{Places, Truth, call, specs};
use crate::many_turns::started;
use crate::tasks::foreign;
use crate::{EnvError, Environment, Step};

/// Plays tasks on tool worlds.
#[derive(Debug)]
pub(super) struct WorldsEnvironment {
    worlds: Arc<Vec<World>>,
    tau: f64,
    rewards: Vec<Component>,
    episode: Option<Episode>,
}

#[derive(Debug)]
struct Episode {
    truth: Truth,
    places: Places,
    /// States of the task's worlds now, in its order.
    states: Vec<State>,
    made: Vec<MadeCall>,
    unreadable: usize,
    refused: bool,
    /// Requests of the user that the policy said were done.
    done: usize,
}

impl WorldsEnvironment {
    pub(super) fn new(worlds: Arc<Vec<World>>, tau: f64, rewards: Vec<Component>) -> Self {
        WorldsEnvironment { worlds, tau, rewards, episode: None }
    }

    fn episode(&mut self) -> Result<&mut Episode, EnvError> {
        started(ID, self.episode.as_mut())
    }
}

impl Environment for WorldsEnvironment {
    fn reset(&mut self, task: &Task, _seed: u64) -> Result<Vec<Message>, EnvError> {
        let truth = Truth::of(task)?;
        let places = truth.places(&self.worlds).map_err(|problem| foreign(ID, task, problem))?;
        self.episode = Some(Episode {
            states: places.start.clone(),
            places,
            truth,
            made: Vec::new(),
            unreadable: 0,
            refused: false,
            done: 0,
        });
        Ok(task.prompt.clone())
    }

    fn tools(&self) -> Vec<ToolSpec> {
        self.episode.as_ref().map_or_else(Vec::new, |episode| specs(&self.worlds, &episode.truth.tools))
    }

    /// A call is made again on a record even where it changes no table: that a tool refused it is part of the verdict.
    fn repeating(&self, tool: &str) -> Option<Repeating> {
        self.worlds.iter().find_map(|world| world.tool(tool)).map(|_| Repeating::Rebuilt)
    }

    fn call(&mut self, asked: &FunctionCall, _key: &str) -> Result<String, EnvError> {
        let worlds = Arc::clone(&self.worlds);
        let Episode { places, states, .. } = self.episode()?;
        let said = call(&worlds, &places.worlds, states, &asked.name, &arguments(&asked.arguments));
        let episode = self.episode()?;
        Ok(said.unwrap_or_else(|refusal| {
            episode.refused = true;
            refusal
        }))
    }

    /// An answer without calls says that what was asked is done.
    fn step(&mut self, _action: &Message) -> Result<Step, EnvError> {
        let episode = self.episode()?;
        episode.done += 1;
        let next = episode.truth.turns.get(episode.done);
        Ok(next.map_or(Step::Done, |turn| Step::Continue(vec![Message::user(&turn.words)])))
    }

    /// All calls count, those that their schema forbids among them, and those that can't be read.
    fn called(&mut self, answer: &Message, said: &[Message]) {
        let Some(episode) = &mut self.episode else { return };
        episode.made.extend(answer.tool_calls.iter().map(|call| MadeCall {
            name: call.function.name.clone(),
            arguments: arguments(&call.function.arguments),
        }));
        // What could not be read is said behind the results, a line each.
        let complaints = said.iter().skip(answer.tool_calls.len());
        episode.unreadable += complaints.map(|message| message.content.lines().count()).sum::<usize>();
    }

    fn verify(&mut self) -> Result<Verdict, EnvError> {
        let (tau, rewards) = (self.tau, self.rewards.clone());
        let episode = self.episode()?;
        let right =
            episode.states.iter().zip(&episode.places.end).filter(|(is, should)| is == should).count();
        let state = right as f64 / episode.places.end.len().max(1) as f64;
        let gold = episode.truth.gold();
        let found = reward(&gold, &episode.made, state, episode.unreadable, tau);
        let value = |component: &Component| match component {
            Component::Score => found.score,
            Component::Trace => found.trace,
            Component::State => found.state,
        };
        let all = [("score", found.score), ("trace", found.trace), ("state", found.state)];
        let named = |name: &str| rewards.iter().any(|component| component.name() == name);
        let penalties = [("length_penalty", found.length), ("format_penalty", found.format)];
        let metrics = all.into_iter().filter(|(name, _)| !named(name)).chain(penalties);
        let is_over = episode.done >= episode.truth.turns.len();
        Ok(Verdict {
            rewards: rewards.iter().map(|it| (it.name().to_owned(), value(it))).collect(),
            metrics: metrics.map(|(name, value)| (name.to_owned(), value)).collect(),
            flags: BTreeMap::from([
                ("refused".to_owned(), episode.refused),
                ("unfinished".to_owned(), !is_over),
                ("untouched".to_owned(), episode.states == episode.places.start),
            ]),
            feedback: feedback(episode, &gold),
            ..Verdict::scored("", 0.0, found.trace == 1.0 && found.state == 1.0)
        })
    }
}

/// What is not as it should be: a state before a call.
fn feedback(episode: &Episode, gold: &[burnish_worlds::reward::GoldCall]) -> Option<String> {
    let wrong = episode.states.iter().zip(&episode.places.end).position(|(is, should)| is != should);
    if let Some(before) = wrong.and_then(|at| episode.truth.worlds.get(at)) {
        return Some(format!("The state of {} is not what it should be.", before.name));
    }
    let single = |call| burnish_worlds::reward::matched(std::slice::from_ref(call), &episode.made) == 1;
    let missing = gold.iter().find(|call| !single(call))?;
    Some(format!("A call of {} with {} is missing.", missing.name, Value::Object(missing.arguments.clone())))
}

fn arguments(value: &Value) -> Map<String, Value> {
    openai::read_arguments(value).unwrap_or_default()
}
