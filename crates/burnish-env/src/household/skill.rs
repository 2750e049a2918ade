//! Advice for a teacher: the order of the sub-goals.

use burnish_core::TaskId;
use burnish_core::rng::{self, Address, Purpose, Stream};

use super::config::{HouseholdConfig, SkillDetail};
use super::goal::{Goal, TaskType, at};
use super::play::Truth;

/// Whether the skill of this task is a wrong one. The task's name decides, so that it is the same everywhere.
pub(super) fn is_wrong(config: &HouseholdConfig, id: &TaskId) -> bool {
    rng::uniform(seed(id), 0) < config.skill_errors
}

/// Whether the prompt of this task shows its skill. `id` is its name without the skill.
pub(super) fn is_shown(config: &HouseholdConfig, id: &TaskId) -> bool {
    rng::uniform(seed(id), 1) < config.skill_shown
}

fn seed(id: &TaskId) -> u64 {
    let name = rng::fold_bytes(id.0.len() as u64, id.0.as_bytes());
    Address { task: name, ..Address::new(0, Purpose::Perturb) }.seed()
}

/// The skill of a task: the order of its type, or that of another type if the skill is a wrong one.
pub(super) fn skill(config: &HouseholdConfig, id: &TaskId, truth: &Truth) -> String {
    let goal = if is_wrong(config, id) { other_goal(id, truth) } else { truth.goal.clone() };
    let mut text = order(truth, &goal);
    if config.skill_detail == SkillDetail::Location {
        for &it in &truth.goal.objects {
            if let Some(place) = truth.start.things[it].place {
                text += &format!("; {} is {}", truth.house.objects[it], at(&truth.house, place));
            }
        }
    }
    text
}

/// `find apple, take it, clean it at sink, put it on table`.
fn order(truth: &Truth, goal: &Goal) -> String {
    let house = &truth.house;
    let mut parts = Vec::new();
    for &it in &goal.objects {
        parts.push(format!("find {}, take it", house.objects[it]));
        parts.extend(match goal.kind {
            TaskType::Pick | TaskType::Two => None,
            TaskType::Clean => Some("clean it at sink".to_owned()),
            TaskType::Heat => Some("heat it at stove".to_owned()),
            TaskType::Cool => Some("cool it at fridge".to_owned()),
            TaskType::Examine => Some("examine it at lamp".to_owned()),
        });
        parts.extend(goal.place.map(|to| format!("put it {}", at(house, to))));
    }
    parts.join(", ")
}

/// A goal of another type about the same objects and place, as far as possible.
fn other_goal(id: &TaskId, truth: &Truth) -> Goal {
    let Truth { house, goal, .. } = truth;
    let first = goal.objects[0];
    let second = goal.objects.get(1).copied();
    let second = second.or_else(|| (0..house.objects.len()).find(|it| !goal.objects.contains(it)));
    let mut types: Vec<TaskType> = TaskType::ALL.into_iter().filter(|kind| *kind != goal.kind).collect();
    types.retain(|kind| *kind != TaskType::Two || second.is_some());
    let mut stream = Stream::new(seed(id).wrapping_add(1));
    let kind = types[stream.index(types.len())];
    let storage = || (0..house.places.len()).find(|&at| house.places[at].kind.can_store());
    Goal {
        kind,
        objects: match (kind, second) {
            (TaskType::Two, Some(second)) => vec![first, second],
            _ => vec![first],
        },
        place: if kind == TaskType::Examine { None } else { goal.place.or_else(storage) },
    }
}
