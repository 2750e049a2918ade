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
use crate::family::{Drawn, Family, FamilyGenerator};
use crate::many_turns::ManyTurns;
use crate::{EnvError, Environment, Kind, Skills, TaskSet, settings};
use play::Truth;
use world::Action;

pub use config::{Demonstrator, HouseholdConfig, InvalidReward, PromptStyle, SkillDetail, Types};

const ID: &str = "household";

/// The generator of household tasks.
pub type Household = FamilyGenerator<HouseholdConfig>;

/// The environment's entry in the catalogue.
pub const KIND: Kind = Household::KIND;

impl HouseholdConfig {
    fn task(&self, generate::Instance { truth, steps }: &generate::Instance) -> Result<Task, EnvError> {
        let id = name(truth)?;
        let text = text::prompt(&truth.house, &truth.start, &truth.goal, self.observable, self.prompt);
        let mut task = match skill::is_shown(self, &id) {
            true => {
                let text = format!("{text}\n{}", skill::skill(self, &id, truth));
                Drawn::new(&text, truth).identified_by(format!("{id}\n{text}"))
            }
            false => Drawn::new(text, truth),
        };
        if self.skill_errors > 0.0 {
            task = task.label("skill", if skill::is_wrong(self, &id) { "wrong" } else { "right" });
        }
        task.label("type", truth.goal.kind.name())
            .label("steps", steps)
            .label("hidden", if generate::is_hidden(truth) { "yes" } else { "no" })
            .task(ID)
    }

    /// The actions that are demonstrated.
    fn actions(&self, truth: &Truth) -> Option<Vec<Action>> {
        let Truth { house, start, goal } = truth;
        let HouseholdConfig { observable, steps_max, .. } = *self;
        match self.demonstrations {
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

impl Family for HouseholdConfig {
    const ID: &str = ID;
    const TITLE: &str = "household tasks";
    const SUMMARY: &str = "Find, clean, heat, cool and place objects in a house, in text (multi-turn).";
    type Config = Self;
    type Truth = Truth;

    fn new(config: Self) -> Result<Self, EnvError> {
        config.check()?;
        Ok(config)
    }

    fn components(&self) -> Vec<String> {
        let given =
            [("success", true), ("progress", self.progress), ("invalid", self.invalid != InvalidReward::Off)];
        given.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name.to_owned()).collect()
    }

    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        let (instances, cells) = generate::instances(self, seed, count)?;
        let tasks = instances.iter().map(|instance| self.task(instance)).collect::<Result<_, EnvError>>()?;
        Ok(TaskSet { tasks, cells })
    }

    fn environment(&self) -> Box<dyn Environment> {
        Box::new(ManyTurns::<play::Episode>::new(self.clone()))
    }

    fn truth(task: &Task) -> Result<Truth, EnvError> {
        Truth::of(task)
    }

    /// Shows the house and everything in it, and a shortest plan. An answer is one action, or several on separate
    /// lines: shows what is seen after each.
    fn show(&self, _: &Task, truth: Truth, answer: Option<&str>) -> String {
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
                    text::observation(house, &world, self.observable)
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

    fn demonstrate(&self, _: &Task, truth: Truth) -> Option<Vec<Message>> {
        let actions = self.actions(&truth)?;
        Some(play::episode(self, truth, &actions))
    }

    fn skills(&self) -> Option<&dyn Skills> {
        Some(self)
    }
}

impl Skills for HouseholdConfig {
    fn skill(&self, task: &Task) -> Option<String> {
        let truth = Truth::of(task).ok()?;
        Some(skill::skill(self, &name(&truth).ok()?, &truth))
    }
}
