//! Household: find objects in rooms and closed places, clean, heat, cool or examine them, and put them somewhere. Text
//! only, one action per turn.
//!
//! A small world in the style of ALFWorld (Shridhar et al. 2021, arXiv:2010.03768), with its six types of task. The
//! prompt names every place; objects in closed places and in other rooms must be found.
//!
//! ```text
//! config ─> generate (house, start, goal) ─> solve (shortest plan within plan_max?) ─> Task
//! Task ─> text::prompt ─> policy ─> House::parse ─> World::after ─> text::observation ─> policy ...
//! ```
//!
//! Differences from ALFWorld: objects have names instead of numbers ("pick two" asks for two objects by name), moving
//! to a place is only possible within a room, nothing has to be closed again, and an object is cooled in front of the
//! fridge.

mod config;
mod explore;
mod generate;
mod goal;
pub(crate) mod mapped;
mod play;
mod skill;
mod solve;
#[cfg(test)]
mod tests;
mod text;
mod world;

use burnish_core::{Message, Task, TaskId};

use crate::digest::digest;
use crate::many_turns::ManyTurns;
use crate::{Demonstrations, EnvError, Environment, Generator, Kind, Skills, TaskSet, settings};
use play::Truth;
use world::Action;

pub use config::{Demonstrator, HouseholdConfig, InvalidReward, PromptStyle, SkillDetail, Types};

const ID: &str = "household";

/// The environment's entry in the catalogue.
pub const KIND: Kind = Kind {
    id: ID,
    title: "household tasks",
    summary: "Find, clean, heat, cool and place objects in a house, in text (multi-turn).",
    axes: None,
    defaults: || settings::to_value(&HouseholdConfig::default()).unwrap_or_default(),
    build: |config| Ok(Box::new(Household::new(settings::read(config)?)?)),
};

/// The generator of household tasks.
#[derive(Debug, Clone)]
pub struct Household {
    config: HouseholdConfig,
}

impl Household {
    /// A generator of tasks with this configuration.
    ///
    /// # Errors
    /// If a key is out of bounds or contradicts another.
    pub fn new(config: HouseholdConfig) -> Result<Self, EnvError> {
        config.check()?;
        Ok(Household { config })
    }

    fn task(&self, instance: &generate::Instance) -> Result<Task, EnvError> {
        let truth = &instance.truth;
        let HouseholdConfig { observable, prompt, .. } = self.config;
        let content = settings::to_value(truth)?;
        let mut id = name(truth)?;
        let mut labels = generate::labels(instance);
        if self.config.skill_errors > 0.0 {
            let skill = if skill::is_wrong(&self.config, &id) { "wrong" } else { "right" };
            labels.insert("skill".to_owned(), skill.to_owned());
        }
        let mut text = text::prompt(&truth.house, &truth.start, &truth.goal, observable, prompt);
        if skill::is_shown(&self.config, &id) {
            text = format!("{text}\n{}", skill::skill(&self.config, &id, truth));
            id = TaskId(format!("{ID}/{}", digest(format!("{id}\n{text}").as_bytes())));
        }
        Ok(Task { id, environment: ID.to_owned(), prompt: vec![Message::user(text)], truth: content, labels })
    }

    /// The actions that are demonstrated.
    fn actions(&self, truth: &Truth) -> Option<Vec<Action>> {
        let Truth { house, start, goal } = truth;
        let HouseholdConfig { observable, steps_max, .. } = self.config;
        match self.config.demonstrations {
            Demonstrator::Informed => solve::plan(house, start, goal).filter(|plan| plan.len() <= steps_max),
            Demonstrator::Explorer => explore::explore(house, start, goal, observable, steps_max),
        }
    }
}

/// The name of a task, from its content without the skill that its prompt may show.
fn name(truth: &Truth) -> Result<TaskId, EnvError> {
    let content = settings::to_value(truth)?;
    Ok(TaskId(format!("{ID}/{}", digest(content.to_string().as_bytes()))))
}

impl Generator for Household {
    crate::configured!(ID, config::BOUNDS);

    fn components(&self) -> Option<Vec<String>> {
        let given = [
            ("success", true),
            ("progress", self.config.progress),
            ("invalid", self.config.invalid != InvalidReward::Off),
        ];
        Some(given.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name.to_owned()).collect())
    }

    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        let (instances, cells) = generate::instances(&self.config, seed, count)?;
        let tasks = instances.iter().map(|instance| self.task(instance)).collect::<Result<_, EnvError>>()?;
        Ok(TaskSet { tasks, cells })
    }

    fn environment(&self) -> Box<dyn Environment> {
        Box::new(ManyTurns::<play::Episode>::new(self.config.clone()))
    }

    /// Shows the house and everything in it, and a shortest plan. An answer is one action, or several on separate
    /// lines: shows what is seen after each.
    fn draw(&self, task: &Task, answer: Option<&str>) -> String {
        let truth = match Truth::of(task) {
            Ok(truth) => truth,
            Err(error) => return error.to_string(),
        };
        let Truth { house, start, goal } = &truth;
        let mut lines = vec![text::prompt(house, start, goal, true, PromptStyle::Short)];
        if let Some(plan) = solve::plan(house, start, goal) {
            let words: Vec<String> = plan.into_iter().map(|action| house.word(action)).collect();
            lines.push(format!("shortest plan ({}): {}", words.len(), words.join(", ")));
        }
        let mut world = start.clone();
        for action in answer.unwrap_or_default().lines() {
            let next = house.parse(action).and_then(|action| world.after(house, action));
            let seen = match next {
                Some(next) => {
                    world = next;
                    text::observation(house, &world, self.config.observable)
                }
                None => text::NOTHING.to_owned(),
            };
            lines.push(format!("{action} > {seen}"));
        }
        if goal.is_reached(&world) {
            lines.push("done".to_owned());
        }
        lines.join("\n")
    }

    fn demonstrations(&self) -> Option<&dyn Demonstrations> {
        Some(self)
    }

    fn skills(&self) -> Option<&dyn Skills> {
        Some(self)
    }
}

impl Demonstrations for Household {
    fn demonstrate(&self, task: &Task) -> Option<Message> {
        let truth = Truth::of(task).ok()?;
        let first = *self.actions(&truth)?.first()?;
        Some(Message::assistant(truth.house.word(first)))
    }

    fn demonstrate_episode(&self, task: &Task) -> Option<Vec<Message>> {
        let truth = Truth::of(task).ok()?;
        let actions = self.actions(&truth)?;
        Some(play::episode(&self.config, task, truth, &actions))
    }
}

impl Skills for Household {
    fn skill(&self, task: &Task) -> Option<String> {
        let truth = Truth::of(task).ok()?;
        Some(skill::skill(&self.config, &name(&truth).ok()?, &truth))
    }
}
