//! Tasks of another environment, played with a library of skills (Skill1, arXiv:2605.06130).
//!
//! ```text
//! task ─> the policy asks ─> K skills ─> it puts them in order ─> the first one, and the task ─> it acts ─> it writes a skill down
//! ```
//!
//! The library is shared: training fills it between steps ([`Library::see`]), and an episode reads it as it was when the
//! episode began. Whoever evaluates only reads it.

mod config;
mod library;
mod outcome;
mod play;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

use burnish_core::rng::{Address, Purpose, Stream, fold_bytes};
use burnish_core::{Message, Task};

use crate::around::{generates_around, inner, outer};
use crate::settings::{self, config_error};
use crate::{Demonstrations, EnvError, Environment, Generator, SkillLibrary, Step};
use play::{ACT, ASK};

pub use config::{Inner, SkilledConfig};
pub use library::{Library, Rules, Skill, ndcg};
pub use outcome::{Outcome, Segment};

const ID: &str = "skilled";

/// The environment's entry in the catalogue.
pub const KIND: crate::Kind = crate::Kind {
    id: ID,
    title: "tasks with a library of skills",
    summary: "Play another environment's tasks with a library of skills that the policy asks, orders and fills.",
    axes: None,
    defaults: || settings::to_value(&SkilledConfig::default()).unwrap_or_default(),
    build: |config| Ok(Box::new(SkilledTasks::new(settings::read(config)?)?)),
};

/// The stage of addresses of tasks whose skills a library begins with.
const START_STAGE: u64 = 2;

/// The library that an environment's episodes read.
#[derive(Debug, Clone, Default)]
struct Shelf {
    library: Arc<Library>,
    /// Whether rarely used skills are preferred.
    explores: bool,
}

/// Makes tasks that are played with a library.
pub struct SkilledTasks {
    config: SkilledConfig,
    inner: Box<dyn Generator>,
    shelf: Arc<Mutex<Shelf>>,
}

impl SkilledTasks {
    /// A generator with this configuration.
    ///
    /// # Errors
    /// If a key is out of bounds or contradicts another, or the inner environment can't be made.
    pub fn new(config: SkilledConfig) -> Result<Self, EnvError> {
        config.check()?;
        let inner = crate::build(&config.of.id, &config.of.config)?;
        let played = inner.environment();
        if played.asks() || played.stepping().is_some() {
            let problem =
                format!("`{}` is computed elsewhere, and a library can't stand around it", config.of.id);
            return Err(config_error("of.id", &problem));
        }
        let config = SkilledConfig { of: Inner { config: inner.config(), ..config.of.clone() }, ..config };
        let tasks = SkilledTasks { config, inner, shelf: Arc::default() };
        let library = tasks.first()?;
        tasks.share(Arc::new(library), false);
        Ok(tasks)
    }

    /// The tasks whose skills the library begins with. No seed of tasks decides them.
    fn first_tasks(&self) -> Result<Vec<Task>, EnvError> {
        let place = Address { stage: START_STAGE, ..Address::new(0, Purpose::Environment) };
        Ok(self.inner.tasks(place.seed(), self.config.start)?.tasks)
    }

    /// The library that everything begins with.
    fn first(&self) -> Result<Library, EnvError> {
        let mut library = Library::default();
        let SkilledConfig { start, utility, capacity, .. } = self.config;
        if start == 0 {
            return Ok(library);
        }
        let missing =
            || config_error("start", &format!("`{}` knows no skills; set it to 0", self.config.of.id));
        let skills = self.inner.skills().ok_or_else(missing)?;
        for task in self.first_tasks()? {
            if let Some(text) = skills.skill(&task) {
                library.add(&described(&task), &text, utility, capacity);
            }
        }
        Ok(library)
    }

    fn task(&self, task: Task) -> Result<Task, EnvError> {
        let mut prompt = task.prompt.clone();
        let ask = if self.config.candidates > 0 { ASK } else { ACT };
        match prompt.last_mut().filter(|last| last.role == burnish_core::Role::User) {
            Some(last) => last.content = format!("{}\n{ask}", last.content),
            None => prompt.push(Message::user(ask)),
        }
        outer(ID, prompt, task)
    }

    fn shelf(&self) -> Shelf {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What a skill of a task is for: the task's type, or else its first label.
fn described(task: &Task) -> String {
    let label = task.labels.get("type").or_else(|| task.labels.values().next());
    label.cloned().unwrap_or_else(|| task.environment.clone())
}

impl SkillLibrary for SkilledTasks {
    fn share(&self, library: Arc<Library>, explores: bool) {
        *self.shelf.lock().unwrap_or_else(PoisonError::into_inner) = Shelf { library, explores };
    }

    fn library(&self) -> Arc<Library> {
        self.shelf().library
    }

    fn rules(&self) -> Rules {
        self.config.rules()
    }

    fn selects(&self) -> bool {
        self.config.select
    }
}

impl Generator for SkilledTasks {
    crate::configured!(ID, config::BOUNDS);
    generates_around!(ID);

    fn ready(&self) -> Result<(), EnvError> {
        self.inner.ready()
    }

    fn environment(&self) -> Box<dyn Environment> {
        Box::new(play::Skilled::new(self.config.clone(), self.inner.environment(), Arc::clone(&self.shelf)))
    }

    fn demonstrations(&self) -> Option<&dyn Demonstrations> {
        (self.inner.demonstrations().is_some() && self.inner.skills().is_some()).then_some(self)
    }

    fn skill_library(&self) -> Option<&dyn SkillLibrary> {
        Some(self)
    }
}

impl Demonstrations for SkilledTasks {
    fn demonstrate(&self, task: &Task) -> Option<Message> {
        self.demonstrate_episode(task)?.into_iter().nth(task.prompt.len())
    }

    /// Asks for the task's type, puts skills like the right one first, acts as the inner environment demonstrates, and writes down
    /// the skill that the inner environment knows. None where the inner environment has no such episode, or its episode does not
    /// begin with the task's prompt.
    fn demonstrate_episode(&self, task: &Task) -> Option<Vec<Message>> {
        let inner = inner(ID, task).ok()?;
        let shown = self.inner.demonstrations()?.demonstrate_episode(&inner)?;
        let own = shown.strip_prefix(&inner.prompt[..])?;
        let (description, text) = (described(&inner), self.inner.skills()?.skill(&inner)?);
        let mut environment = self.environment();
        environment.reset(task, 0).ok()?;
        let mut played = task.prompt.clone();
        let mut act = |action: Message| -> Option<Step> {
            let is_recorded = environment.stepping().is_some();
            let step = environment.step(&action).ok()?;
            if is_recorded {
                environment.stepped(&action, &step);
            }
            played.push(action);
            if let Step::Continue(said) = &step {
                played.extend(said.iter().cloned());
            }
            Some(step)
        };
        if self.config.candidates > 0 {
            act(Message::assistant(&description))?;
            let library = self.library();
            let given = library.retrieve(&description, self.config.candidates, 0.0);
            if outcome::orders(given.len(), self.config.select) {
                let mut order: Vec<usize> = (0..given.len()).collect();
                // Those that are no more right than others are in an order that the task's name decides.
                Stream::new(fold_bytes(0, task.id.0.as_bytes())).shuffle(&mut order);
                let wrongness = |at: &usize| (given[*at].text != text, given[*at].description != description);
                order.sort_by_key(wrongness);
                let words: Vec<String> = order.iter().map(|at| (at + 1).to_string()).collect();
                act(Message::assistant(words.join(" ")))?;
            }
        }
        for action in own.iter().filter(|message| message.role == burnish_core::Role::Assistant) {
            // Answers with calls are not steps, and their results would have to be shown.
            if !action.tool_calls.is_empty() {
                return None;
            }
            act(action.clone())?;
        }
        if self.config.distil && self.config.candidates > 0 {
            act(Message::assistant(format!("{description}: {text}")))?;
        }
        Some(played)
    }
}
