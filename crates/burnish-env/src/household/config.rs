//! The configuration of the environment.

use serde::{Deserialize, Serialize};

use super::goal::TaskType;
use crate::EnvError;
use crate::family::configuration;
use crate::settings::config_error;

pub use crate::settings::PromptStyle;

configuration! {
    /// The configuration of household tasks.
    pub struct HouseholdConfig {
        rooms: usize = 1, in 1..=ROOMS.len(), "rooms";
        /// Like a table or a shelf. The appliances are a sink, a stove, a fridge and a lamp, and each is there once.
        surfaces: usize = 2, in 1..=SURFACES.len(), "open places beside the appliances";
        /// Like a drawer or a box.
        containers: usize = 2, in 0..=CONTAINERS.len(), "closed places beside the fridge";
        objects: usize = 3, in 1..=OBJECTS.len(), "objects";
        hidden: f64 = 0.5, in 0.0..=1.0, "chance that an object lies in a closed place at first";
        observable: bool = false, "the prompt describes everything, in sight or not";
        types: Types, "shares of the types of task";
        /// Tasks that need more are not made.
        plan_max: usize = 9, in 2..=40, "longest shortest plan, in actions";
        /// At least `plan_max`.
        steps_max: usize = 12, in 2..=100, "actions after which an episode is over";
        /// Its value is the share of the sub-goals that were met.
        progress: bool = false, "there is a reward component `progress`";
        invalid: InvalidReward = InvalidReward::Off, "count of the reward component `invalid`";
        prompt: PromptStyle = PromptStyle::Short, "style of the prompt";
        demonstrations: Demonstrator = Demonstrator::Informed, "agent that demonstrates";
        skill_detail: SkillDetail = SkillDetail::Order, "content of a skill";
        /// The task's id decides which.
        skill_errors: f64 = 0.0, in 0.0..=1.0, "share of the skills that name the order of a wrong type";
        /// It stands on a line of its own and teaches a policy to read skills. The task's id decides which.
        skill_shown: f64 = 0.0, in 0.0..=1.0, "share of the tasks whose prompt has the skill";
    }
}

configuration! {
    /// Shares of the types of task, relative to their sum.
    pub struct Types {
        pick: f64 = 1.0, in 0.0..=1.0, "share of: put an object on a place";
        /// At the sink.
        clean: f64 = 1.0, in 0.0..=1.0, "share of: clean it first";
        /// At the stove.
        heat: f64 = 1.0, in 0.0..=1.0, "share of: heat it first";
        /// At the fridge.
        cool: f64 = 1.0, in 0.0..=1.0, "share of: cool it first";
        examine: f64 = 1.0, in 0.0..=1.0, "share of: examine it under the lamp";
        two: f64 = 1.0, in 0.0..=1.0, "share of: put two objects on one place";
    }
}

/// What the reward component `invalid` counts: impossible actions. Give it a negative weight (`reward.weights.invalid =
/// -0.1`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InvalidReward {
    /// There is no such component.
    Off,
    /// Their number.
    Count,
    /// Their share of all actions.
    Share,
}

/// Who demonstrates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Demonstrator {
    /// A shortest plan, by an agent that knows where everything is.
    Informed,
    /// An agent that knows only what it saw; tasks for which it needs more than `steps_max` actions are not
    /// demonstrated.
    Explorer,
}

/// What a skill reveals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkillDetail {
    /// The order of the sub-goals.
    Order,
    /// Also where the objects are.
    Location,
}

impl Types {
    /// In the order of [`TaskType::ALL`].
    pub(super) fn shares(&self) -> [f64; 6] {
        [self.pick, self.clean, self.heat, self.cool, self.examine, self.two]
    }
}

/// Names; at most as many as are listed may be used.
pub(super) const ROOMS: [&str; 4] = ["kitchen", "bedroom", "hall", "study"];
pub(super) const SURFACES: [&str; 5] = ["table", "shelf", "desk", "bed", "bench"];
pub(super) const CONTAINERS: [&str; 5] = ["drawer", "cabinet", "box", "chest", "basket"];
pub(super) const OBJECTS: [&str; 10] =
    ["apple", "cup", "egg", "bread", "pan", "plate", "spoon", "mug", "fork", "bowl"];

impl HouseholdConfig {
    /// Checks what bounds do not express.
    ///
    /// # Errors
    /// Names the first key that contradicts another.
    pub(super) fn check(&self) -> Result<(), EnvError> {
        if self.types.shares().iter().all(|share| *share == 0.0) {
            return Err(config_error(
                "types",
                "no type has a share above 0; give one, like `types.pick = 1`",
            ));
        }
        if self.types.two > 0.0 && self.objects < 2 {
            let problem = "1 object is too few for types.two; nearest: 2 (or set types.two = 0)";
            return Err(config_error("objects", problem));
        }
        if self.plan_max > self.steps_max {
            let problem = format!(
                "{} is above steps_max, which is {}: such a task could not be solved; nearest: {}",
                self.plan_max, self.steps_max, self.steps_max
            );
            return Err(config_error("plan_max", &problem));
        }
        Ok(())
    }

    /// The types that are made, with their shares.
    pub(super) fn types(&self) -> (Vec<TaskType>, Vec<f64>) {
        TaskType::ALL.into_iter().zip(self.types.shares()).filter(|(_, share)| *share > 0.0).unzip()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    fn problem(given: Value) -> String {
        crate::build("household", &given).map(drop).unwrap_err().to_string()
    }

    #[test]
    fn a_wrong_configuration_is_an_error_that_names_the_key() {
        for (given, wanted) in [
            (json!({"rooms": 5}), "rooms: 5 is out of range: 1 to 4 are allowed; nearest: 4"),
            (json!({"surfaces": 0}), "surfaces: 0 is out of range: 1 to 5"),
            (json!({"containers": 6}), "containers: 6 is out of range"),
            (json!({"objects": 11}), "objects: 11 is out of range"),
            (json!({"objects": 1.5}), "objects: invalid type: floating point"),
            (json!({"hidden": 1.1}), "hidden: 1.1 is out of range"),
            (json!({"types": {"pick": -1}}), "types.pick: -1 is out of range"),
            (json!({"types": {"slice": 1}}), "types.slice: unknown field `slice`"),
            (
                json!({"types": {"pick": 0, "clean": 0, "heat": 0, "cool": 0, "examine": 0, "two": 0}}),
                "types: no type has a share above 0",
            ),
            (json!({"objects": 1}), "objects: 1 object is too few for types.two"),
            (json!({"steps_max": 6}), "plan_max: 9 is above steps_max, which is 6"),
            (json!({"plan_max": 41, "steps_max": 50}), "plan_max: 41 is out of range"),
            (json!({"skill_errors": 2}), "skill_errors: 2 is out of range"),
            (json!({"skill_detail": "all"}), "skill_detail: unknown variant `all`"),
            (json!({"invalid": true}), "invalid: "),
            (json!({"demonstrations": "oracle"}), "demonstrations: unknown variant"),
            (json!({"step_max": 6}), "step_max: unknown field"),
        ] {
            let problem = problem(given);
            assert!(problem.starts_with(wanted), "{problem}");
        }
    }
}
