//! Clarifying questions before an agent acts, rewarded by what their answers tell about the goal (arXiv:2606.03135).
//!
//! A customer says part of what is wanted ([`Goal`]); the clarifier sees the shop's records and may ask for one slot at a
//! time. The customer is strict: answers what is asked, and nothing else. Then an agent does what is likeliest. The belief
//! in goals is exact ([`Belief`]).

mod belief;
mod config;
mod play;
mod reader;
#[cfg(test)]
mod tests;
mod world;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use burnish_core::rng::{Address, Purpose, Stream, fold_bytes};
use burnish_core::{Message, Task, TaskId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest::digest;
use crate::{
    Bound, CellReport, Demonstrations, EnvError, Environment, Generator, Goals, TaskSet, Wanted, settings,
};

pub use belief::Belief;
pub use config::{Asker, ClarifyConfig, Component, PromptStyle, Role, Span};
pub use world::{Goal, Known, Order, Records, Slot};

const ID: &str = "clarify";

/// The answer that ends the questions.
const ACT: &str = "act";

/// The environment's entry in the catalogue.
pub const KIND: crate::Kind = crate::Kind {
    id: ID,
    title: "clarifying questions",
    summary: "Ask a customer for what was left unsaid, or let the agent act (multi-turn, reward by exact information).",
    axes: None,
    defaults: || settings::to_value(&ClarifyConfig::default()).unwrap_or_default(),
    build: |config| Ok(Box::new(ClarifyTasks::new(settings::read(config)?)?)),
};

/// The truth of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Truth {
    records: Records,
    goal: Goal,
    /// What the customer says at the beginning.
    said: Vec<Known>,
    /// What was asked and answered before the episode.
    asked: Vec<Known>,
    /// Slots that the customer does not know.
    unknown: Vec<Slot>,
}

impl Truth {
    fn of(task: &Task) -> Result<Self, EnvError> {
        Truth::deserialize(&task.truth)
            .map_err(|error| EnvError::Foreign(format!("task {} is not one of {ID}: {error}", task.id)))
    }

    /// What can be believed before the episode.
    fn belief(&self, recency: f64) -> Belief {
        let all = Belief::new(self.records.goals(recency));
        self.said.iter().chain(&self.asked).fold(all, |belief, known| belief.after(known))
    }

    /// The records, and what the customer says at the beginning.
    fn opening(&self) -> String {
        let said: Vec<&str> = self.said.iter().map(Known::words).collect();
        let said = if said.is_empty() { "help".to_owned() } else { said.join(" ") };
        format!("{}\nsays {said}", self.records.text())
    }

    /// What a reader reads: the opening, and each question with its answer.
    fn known(&self, answered: &[Known]) -> String {
        let mut text = self.opening();
        for known in self.asked.iter().chain(answered) {
            let _ = write!(text, "\n{} {}", known.slot().name(), known.words());
        }
        text + "\nwants"
    }

    /// What the policy reads first.
    fn prompt(&self, role: Role, style: PromptStyle) -> Vec<Message> {
        if role == Role::Reader {
            return vec![Message::user(self.known(&[]))];
        }
        let mut prompt = vec![Message::user(self.opening())];
        for known in &self.asked {
            prompt.push(Message::assistant(format!("ask {}", known.slot().name())));
            prompt.push(Message::user(known.words()));
        }
        if style == PromptStyle::Full {
            prompt.insert(0, Message::system(config::RULES));
        }
        prompt
    }
}

/// Makes clarifying tasks.
#[derive(Debug, Clone)]
pub struct ClarifyTasks {
    config: ClarifyConfig,
}

impl ClarifyTasks {
    /// A generator with this configuration.
    ///
    /// # Errors
    /// If a key is out of bounds or contradicts another.
    pub fn new(config: ClarifyConfig) -> Result<Self, EnvError> {
        config.check()?;
        Ok(ClarifyTasks { config })
    }

    fn truth(&self, stream: &mut Stream) -> Option<Truth> {
        let records = Records::draw(&self.config, stream);
        let believed = Belief::new(records.goals(self.config.recency));
        let mut left = stream.uniform();
        let goal = believed.goals().find(|(_, p)| {
            left -= p;
            left < 0.0
        });
        let goal = goal.map(|(goal, _)| goal).or_else(|| believed.likeliest())?.clone();
        let mut slots: Vec<Slot> = Slot::ALL.into_iter().filter(|slot| goal.value(*slot).is_some()).collect();
        stream.shuffle(&mut slots);
        let count = |span: Span, stream: &mut Stream| span.min + stream.index(span.max - span.min + 1);
        let unsaid: Vec<Slot> = slots.iter().take(count(self.config.unsaid, stream)).copied().collect();
        let said = Slot::ALL.into_iter().filter(|slot| slots.contains(slot) && !unsaid.contains(slot));
        let said = said.map(|slot| Known::answer(&goal, slot, &[])).collect();
        let unknown: Vec<Slot> =
            unsaid.iter().filter(|_| stream.uniform() < self.config.unknown).copied().collect();
        let mut others: Vec<Slot> =
            Slot::ALL.into_iter().filter(|slot| unsaid.contains(slot) || !slots.contains(slot)).collect();
        stream.shuffle(&mut others);
        let before = count(self.config.asked, stream);
        let asked =
            others.into_iter().take(before).map(|slot| Known::answer(&goal, slot, &unknown)).collect();
        Some(Truth { records, goal, said, asked, unknown })
    }

    fn task(&self, truth: &Truth) -> Result<Task, EnvError> {
        let content = settings::to_value(truth)?;
        let possible = truth.belief(self.config.recency).goals().count();
        Ok(Task {
            id: TaskId(format!("{ID}/{}", digest(content.to_string().as_bytes()))),
            environment: ID.to_owned(),
            prompt: truth.prompt(self.config.role, self.config.prompt),
            truth: content,
            labels: BTreeMap::from([
                ("intent".to_owned(), truth.goal.intent.clone()),
                ("open".to_owned(), if possible > 1 { "yes" } else { "no" }.to_owned()),
            ]),
        })
    }

    /// What the demonstrating clarifier does: slots that it asks for, then nothing.
    fn questions(&self, truth: &Truth, stream: &mut Stream) -> Vec<Slot> {
        let mut belief = truth.belief(self.config.recency);
        let mut asked: Vec<Slot> = truth.asked.iter().chain(&truth.said).map(Known::slot).collect();
        let mut questions = Vec::new();
        while questions.len() < self.config.questions {
            let open = Slot::ALL.into_iter().filter(|slot| !asked.contains(slot));
            let next = match self.config.demonstrations {
                Asker::Random => {
                    let open: Vec<Slot> = open.collect();
                    let at = stream.index(open.len() + 1);
                    open.get(at).copied()
                }
                Asker::Informed => {
                    let mut best: Option<(Slot, f64)> = None;
                    for slot in open {
                        let gain = belief.gain(slot);
                        if gain > best.map_or(1e-9, |(_, gain)| gain + 1e-9) {
                            best = Some((slot, gain));
                        }
                    }
                    best.map(|(slot, _)| slot)
                }
            };
            let Some(slot) = next else { break };
            belief = belief.after(&Known::answer(&truth.goal, slot, &truth.unknown));
            asked.push(slot);
            questions.push(slot);
        }
        questions
    }
}

impl Generator for ClarifyTasks {
    fn id(&self) -> &'static str {
        ID
    }

    fn config(&self) -> Value {
        settings::to_value(&self.config).unwrap_or_default()
    }

    fn bounds(&self) -> Vec<Bound> {
        config::bounds()
    }

    fn components(&self) -> Option<Vec<String>> {
        Some(self.config.rewards.iter().map(|component| component.name().to_owned()).collect())
    }

    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        let mut tasks = Vec::with_capacity(count);
        for index in 0..count {
            let place = Address { task: index as u64, ..Address::new(seed, Purpose::Task) };
            let truth = self.truth(&mut Stream::new(place.seed())).ok_or_else(|| {
                EnvError::Failed(format!("{ID}: drew records without a goal, which no configuration allows"))
            })?;
            tasks.push(self.task(&truth)?);
        }
        let cell = CellReport { cell: ID.to_owned(), made: count, drawn: count, dropped: BTreeMap::new() };
        Ok(TaskSet { tasks, cells: vec![cell] })
    }

    fn environment(&self) -> Box<dyn Environment> {
        match self.config.role {
            Role::Asker => Box::new(play::Clarify::new(self.config.clone())),
            Role::Reader => Box::new(reader::Reader::default()),
        }
    }

    fn draw(&self, task: &Task, _answer: Option<&str>) -> String {
        let truth = match Truth::of(task) {
            Ok(truth) => truth,
            Err(error) => return error.to_string(),
        };
        let said: Vec<&str> = truth.said.iter().map(Known::words).collect();
        let mut lines = vec![truth.records.text(), format!("says: {}", said.join(" "))];
        lines.extend(truth.asked.iter().map(|known| format!("{}: {}", known.slot().name(), known.words())));
        lines.push(format!("wants: {}", truth.goal));
        let belief = truth.belief(self.config.recency);
        for slot in Slot::ALL {
            lines.push(format!("{} would tell {:.3} nats", slot.name(), belief.gain(slot)));
        }
        lines.join("\n")
    }

    fn demonstrations(&self) -> Option<&dyn Demonstrations> {
        Some(self)
    }

    fn goals(&self) -> Option<&dyn Goals> {
        (self.config.role == Role::Asker).then_some(self)
    }
}

impl Goals for ClarifyTasks {
    fn wanted(&self, task: &Task, answers: &[Message]) -> Option<Wanted> {
        let truth = Truth::of(task).ok()?;
        let asked = answers.iter().map_while(|answer| play::question(&answer.content).ok().flatten());
        let answered: Vec<Known> = asked
            .take(self.config.questions)
            .map(|slot| Known::answer(&truth.goal, slot, &truth.unknown))
            .collect();
        Some(Wanted { known: truth.known(&answered), goal: truth.goal.to_string() })
    }
}

impl Demonstrations for ClarifyTasks {
    fn demonstrate(&self, task: &Task) -> Option<Message> {
        let episode = self.demonstrate_episode(task)?;
        episode.into_iter().nth(task.prompt.len())
    }

    fn demonstrate_episode(&self, task: &Task) -> Option<Vec<Message>> {
        let truth = Truth::of(task).ok()?;
        if self.config.role == Role::Reader {
            let goal = Message::assistant(truth.goal.to_string());
            return Some(task.prompt.iter().cloned().chain([goal]).collect());
        }
        let mut stream = Stream::new(fold_bytes(0, task.id.0.as_bytes()));
        let questions = self.questions(&truth, &mut stream);
        let mut played = task.prompt.clone();
        for (at, slot) in questions.iter().enumerate() {
            played.push(Message::assistant(format!("ask {}", slot.name())));
            if at + 1 == self.config.questions {
                return Some(played);
            }
            let answer = Known::answer(&truth.goal, *slot, &truth.unknown);
            played.push(Message::user(answer.words()));
        }
        played.push(Message::assistant(ACT));
        Some(played)
    }
}
