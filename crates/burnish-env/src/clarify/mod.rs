//! Clarifying questions before an agent acts, rewarded by what their answers tell about the goal (arXiv:2606.03135).
//!
//! A customer says part of what is wanted ([`Goal`]); the clarifier sees the shop's records and may ask for one slot at a
//! time. The customer is strict: answers what is asked, and nothing else. Then an agent does what is likeliest. The belief
//! in goals is exact ([`Belief`]).

mod belief;
mod config;
mod goal;
mod made;
mod play;
mod reader;
mod shop;
mod tau;
#[cfg(test)]
mod tests;
#[cfg(test)]
#[path = "tests/tau.rs"]
mod tests_tau;
mod truth;
mod world;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use burnish_core::rng::{Address, Purpose, Stream, fold_bytes};
use burnish_core::{Message, Task};

use crate::digest::digest;
use crate::many_turns::ManyTurns;
use crate::one_turn::{OneTurn, text_of};
use crate::tasks::{seed_of, task};
use crate::{CellReport, Demonstrations, EnvError, Environment, Generator, Goals, TaskSet, Wanted, settings};

pub use belief::Belief;
pub use config::{Asker, ClarifyConfig, Component, PromptStyle, Role, Shop, Span};
pub use goal::{Goal, Known, Slot};

use shop::TEST_ONLY;
use tau::{Customers, Wish};
use truth::Truth;
use world::Records;

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

/// Makes clarifying tasks.
#[derive(Debug, Clone)]
pub struct ClarifyTasks {
    config: ClarifyConfig,
    shop: Option<Arc<Customers>>,
}

impl ClarifyTasks {
    /// A generator with this configuration.
    ///
    /// # Errors
    /// If a key is out of bounds or contradicts another, or the shop's files can't be read.
    pub fn new(config: ClarifyConfig) -> Result<Self, EnvError> {
        config.check()?;
        let shop = config.shop.as_ref().map(Customers::read).transpose()?.map(Arc::new);
        Ok(ClarifyTasks { config, shop })
    }

    /// What the benchmark's tasks want, if that is what is asked for.
    fn wanted(&self) -> Option<&[Wish]> {
        let shop = self.shop.as_ref()?;
        self.config.shop.as_ref()?.tasks.then_some(&shop.wanted)
    }

    /// A customer, with a goal that is as likely as it is believed to be.
    fn customer(&self, stream: &mut Stream) -> Option<(Records, Goal)> {
        let records = match &self.shop {
            Some(shop) => Records::Tau(shop.untasked.get(stream.index(shop.untasked.len()))?.clone()),
            None => Records::Made(made::Records::draw(&self.config, stream)),
        };
        let believed = Belief::new(records.goals(self.config.recency));
        let mut left = stream.uniform();
        let goal = believed.goals().find(|(_, p)| {
            left -= p;
            left < 0.0
        });
        let goal = goal.map(|(goal, _)| goal).or_else(|| believed.likeliest())?.clone();
        Some((records, goal))
    }

    /// Draws what of a goal is said.
    fn truth(&self, records: Records, goal: Goal, stream: &mut Stream) -> Truth {
        let all = records.slots();
        let mut slots: Vec<Slot> = all.iter().copied().filter(|slot| goal.value(*slot).is_some()).collect();
        stream.shuffle(&mut slots);
        let count = |span: Span, stream: &mut Stream| span.min + stream.index(span.max - span.min + 1);
        let unsaid: Vec<Slot> = slots.iter().take(count(self.config.unsaid, stream)).copied().collect();
        let said = all.iter().filter(|slot| slots.contains(slot) && !unsaid.contains(slot));
        let said = said.map(|slot| Known::answer(&goal, *slot, &[])).collect();
        let unknown: Vec<Slot> =
            unsaid.iter().filter(|_| stream.uniform() < self.config.unknown).copied().collect();
        let others = all.iter().filter(|slot| unsaid.contains(slot) || !slots.contains(slot));
        let mut others: Vec<Slot> = others.copied().collect();
        stream.shuffle(&mut others);
        let before = count(self.config.asked, stream);
        let asked =
            others.into_iter().take(before).map(|slot| Known::answer(&goal, slot, &unknown)).collect();
        Truth { records, goal, said, asked, unknown, call: None }
    }

    fn task(&self, truth: &Truth) -> Result<Task, EnvError> {
        let content = settings::to_value(truth)?;
        let possible = truth.belief(self.config.recency).goals().count();
        let labels = BTreeMap::from([
            ("intent".to_owned(), truth.goal.intent.clone()),
            ("open".to_owned(), if possible > 1 { "yes" } else { "no" }.to_owned()),
        ]);
        Ok(task(
            ID,
            digest(content.to_string().as_bytes()),
            truth.prompt(self.config.role, self.config.prompt),
            content,
            labels,
        ))
    }

    /// What the demonstrating clarifier does: slots that it asks for, then nothing.
    fn questions(&self, truth: &Truth, stream: &mut Stream) -> Vec<Slot> {
        let mut belief = truth.belief(self.config.recency);
        let mut asked: Vec<Slot> = truth.asked.iter().chain(&truth.said).map(Known::slot).collect();
        let mut questions = Vec::new();
        while questions.len() < self.config.questions {
            let open = truth.records.slots().iter().copied().filter(|slot| !asked.contains(slot));
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
    crate::configured!(ID, config::BOUNDS);

    fn components(&self) -> Option<Vec<String>> {
        Some(self.config.rewards.iter().map(|component| component.name().to_owned()).collect())
    }

    /// The benchmark's tasks come in shuffled order, none twice until all have come; if `count` is their number, in the order
    /// of the file. All others are drawn.
    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        let order: Option<Vec<usize>> = self.wanted().map(|wanted| match wanted.len() {
            all if all == count => (0..all).collect(),
            all => {
                let seed = Address::new(seed, Purpose::Shuffle).seed();
                burnish_data::passes(all, seed).take(count).collect()
            }
        });
        let mut tasks = Vec::with_capacity(count);
        for index in 0..count {
            let mut stream = Stream::new(seed_of(seed, index));
            let truth = match self.wanted().zip(order.as_ref()) {
                Some((wanted, order)) => {
                    let (call, customer, goal) = wanted[order[index]].clone();
                    let truth = self.truth(Records::Tau(customer), goal, &mut stream);
                    Truth { call: Some(call), ..truth }
                }
                None => {
                    let (records, goal) = self.customer(&mut stream).ok_or_else(|| {
                        EnvError::Failed(format!(
                            "{ID}: drew records without a goal, which no configuration allows"
                        ))
                    })?;
                    self.truth(records, goal, &mut stream)
                }
            };
            tasks.push(self.task(&truth)?);
        }
        let cell = CellReport::all(ID, count);
        Ok(TaskSet { tasks, cells: vec![cell] })
    }

    fn files(&self) -> Vec<PathBuf> {
        self.shop.as_ref().map(|shop| shop.files.clone()).unwrap_or_default()
    }

    fn evaluation_only(&self) -> Option<&'static str> {
        self.wanted().map(|_| TEST_ONLY)
    }

    fn environment(&self) -> Box<dyn Environment> {
        match self.config.role {
            Role::Asker => Box::new(ManyTurns::<play::Episode>::new(self.config.clone())),
            Role::Reader => Box::new(OneTurn::new(ID, Truth::of, |truth, answer| {
                Ok(reader::verdict(truth, text_of(answer)))
            })),
        }
    }

    fn draw(&self, task: &Task, _answer: Option<&str>) -> String {
        let truth = match Truth::of(task) {
            Ok(truth) => truth,
            Err(error) => return error.to_string(),
        };
        let mut lines = vec![truth.records.whole_text(), format!("says: {}", truth.says())];
        lines.extend(truth.asked.iter().map(|known| format!("{}: {}", known.slot().name(), known.words())));
        lines.push(format!("wants: {}", truth.goal()));
        lines.extend(truth.call.iter().map(|call| format!("call: {call}")));
        let belief = truth.belief(self.config.recency);
        for &slot in truth.records.slots() {
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
        let slots = truth.records.slots();
        let asked = answers.iter().map_while(|answer| play::question(&answer.content, slots).ok().flatten());
        // What was said or asked before tells nothing when it is said again.
        let mut answered: Vec<Known> = Vec::new();
        for slot in asked.take(self.config.questions) {
            let mut known = truth.said.iter().chain(&truth.asked).chain(&answered);
            if known.all(|known| known.slot() != slot) {
                answered.push(Known::answer(&truth.goal, slot, &truth.unknown));
            }
        }
        Some(Wanted { known: truth.known(&answered), goal: truth.goal() })
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
            let goal = Message::assistant(truth.goal());
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
