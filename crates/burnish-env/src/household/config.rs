//! The configuration of the environment.

use serde::{Deserialize, Serialize};

use super::goal::TaskType;
use crate::settings::{check_bounds, config_error};
use crate::{BoundRow, EnvError};

pub use crate::settings::PromptStyle;

/// The configuration of household tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HouseholdConfig {
    /// Number of rooms.
    pub rooms: usize,
    /// Number of open places (table, shelf ...), besides a sink, a stove, a fridge and a lamp, of which there is always
    /// one.
    pub surfaces: usize,
    /// Number of closed places (drawer, box ...) besides the fridge.
    pub containers: usize,
    /// Number of objects.
    pub objects: usize,
    /// Probability that an object starts in a closed place.
    pub hidden: f64,
    /// Whether everything is told from the start, in sight or not.
    pub observable: bool,
    /// Shares of the types of task.
    pub types: Types,
    /// Longest shortest plan, in actions. Tasks that need more are not made.
    pub plan_max: usize,
    /// Number of actions after which an episode ends; at least `plan_max`.
    pub steps_max: usize,
    /// Whether there is a reward component `progress`: the share of the sub-goals that were met.
    pub progress: bool,
    /// What the reward component `invalid` counts.
    pub invalid: InvalidReward,
    /// The style of the prompt.
    pub prompt: PromptStyle,
    /// Who demonstrates.
    pub demonstrations: Demonstrator,
    /// What a skill reveals.
    pub skill_detail: SkillDetail,
    /// Share of the skills that give the order of a wrong type; the task's id decides which.
    pub skill_errors: f64,
    /// Share of the tasks whose prompt shows the skill on a line of its own, to teach a policy to read skills; the
    /// task's id decides which.
    pub skill_shown: f64,
}

/// Shares of the types of task, relative to their sum.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Types {
    /// Put an object in a place.
    pub pick: f64,
    /// Clean it at the sink first.
    pub clean: f64,
    /// Heat it at the stove first.
    pub heat: f64,
    /// Cool it at the fridge first.
    pub cool: f64,
    /// Examine it under the lamp.
    pub examine: f64,
    /// Put two objects in the same place.
    pub two: f64,
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

impl Default for HouseholdConfig {
    fn default() -> Self {
        HouseholdConfig {
            rooms: 1,
            surfaces: 2,
            containers: 2,
            objects: 3,
            hidden: 0.5,
            observable: false,
            types: Types { pick: 1.0, clean: 1.0, heat: 1.0, cool: 1.0, examine: 1.0, two: 1.0 },
            plan_max: 9,
            steps_max: 12,
            progress: false,
            invalid: InvalidReward::Off,
            prompt: PromptStyle::Short,
            demonstrations: Demonstrator::Informed,
            skill_detail: SkillDetail::Order,
            skill_errors: 0.0,
            skill_shown: 0.0,
        }
    }
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

/// The bounds of the numeric keys that may be changed.
pub(super) const BOUNDS: &[BoundRow] = &[
    ("rooms", 1.0, ROOMS.len() as f64, "rooms"),
    ("surfaces", 1.0, SURFACES.len() as f64, "open places beside the appliances"),
    ("containers", 0.0, CONTAINERS.len() as f64, "closed places beside the fridge"),
    ("objects", 1.0, OBJECTS.len() as f64, "objects"),
    ("hidden", 0.0, 1.0, "chance that an object lies in a closed place at first"),
    ("types.pick", 0.0, 1.0, "share of: put an object on a place"),
    ("types.clean", 0.0, 1.0, "share of: clean it first"),
    ("types.heat", 0.0, 1.0, "share of: heat it first"),
    ("types.cool", 0.0, 1.0, "share of: cool it first"),
    ("types.examine", 0.0, 1.0, "share of: examine it under the lamp"),
    ("types.two", 0.0, 1.0, "share of: put two objects on one place"),
    ("plan_max", 2.0, 40.0, "longest shortest plan, in actions"),
    ("steps_max", 2.0, 100.0, "actions after which an episode is over"),
    ("skill_errors", 0.0, 1.0, "share of the skills that name the order of a wrong type"),
    ("skill_shown", 0.0, 1.0, "share of the tasks whose prompt has the skill"),
];

impl HouseholdConfig {
    /// Checks what the types do not express.
    ///
    /// # Errors
    /// Names the first key that is out of its bounds or contradicts another.
    pub fn check(&self) -> Result<(), EnvError> {
        check_bounds(self, BOUNDS)?;
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
    use super::*;
    use crate::settings::read;
    use serde_json::{Value, json};

    fn problem(given: Value) -> String {
        read::<HouseholdConfig>(&given).and_then(|config| config.check()).unwrap_err().to_string()
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
