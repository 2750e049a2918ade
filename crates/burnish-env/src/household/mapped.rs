//! Houses for the environment `mapping`, where an agent may know some of a house before it acts.

use burnish_core::rng::Stream;

use super::config::{PromptStyle, Types};
use super::goal::{Goal, TaskType};
use super::solve::plan;
use super::{generate, text};
use crate::EnvError;

pub(crate) use super::config::HouseholdConfig;
pub(crate) use super::play::Truth;
pub(crate) use super::world::{Action, World};

/// A task with this configuration, of a type that the seed decides.
///
/// # Errors
/// If no house like this has such a task.
pub(crate) fn drawn(config: &HouseholdConfig, seed: u64) -> Result<Truth, EnvError> {
    let kind = TaskType::ALL[Stream::new(seed).index(TaskType::ALL.len())];
    let share = |of: TaskType| if of == kind { 1.0 } else { 0.0 };
    let types = Types {
        pick: share(TaskType::Pick),
        clean: share(TaskType::Clean),
        heat: share(TaskType::Heat),
        cool: share(TaskType::Cool),
        examine: share(TaskType::Examine),
        two: share(TaskType::Two),
    };
    let (instances, _) = generate::instances(&HouseholdConfig { types, ..config.clone() }, seed, 1)?;
    let none = || EnvError::Failed(format!("{}: no task was made", super::ID));
    instances.into_iter().next().map(|instance| instance.truth).ok_or_else(none)
}

impl Truth {
    /// What the prompt of `household` says: rooms and places, what is in sight at first, and the goal.
    pub(crate) fn told(&self) -> String {
        text::prompt(&self.house, &self.start, &self.goal, false, PromptStyle::Short)
    }

    /// What is seen in a world.
    pub(crate) fn seen(&self, world: &World) -> String {
        text::observation(&self.house, world, false)
    }

    /// Places whose contents are in sight.
    pub(crate) fn in_sight(&self, world: &World) -> Vec<usize> {
        let places = self.house.places.iter().enumerate();
        let seen = places
            .filter(|(at, place)| place.room == world.room && place.kind.can_store() && world.is_open[*at]);
        seen.map(|(at, _)| at).collect()
    }

    /// Every action that changes something.
    pub(crate) fn possible(&self, world: &World) -> Vec<Action> {
        let (rooms, places) = (0..self.house.rooms.len(), 0..self.house.places.len());
        let things = 0..self.house.objects.len();
        let moves =
            rooms.map(Action::Enter).chain(places.clone().flat_map(|at| [Action::Go(at), Action::Open(at)]));
        let handled = things.flat_map(|it| {
            let treat = [
                Action::Take(it),
                Action::Clean(it),
                Action::Heat(it),
                Action::Cool(it),
                Action::Examine(it),
            ];
            treat.into_iter().chain(places.clone().map(move |at| Action::Put(it, at)))
        });
        moves.chain(handled).filter(|action| world.after(&self.house, *action).is_some()).collect()
    }
}

/// What an agent does next that knows where some objects are and which places hold nothing else: a step of a shortest plan for
/// the objects of the goal that it knows, or else of its search. `None` if nothing is left to search.
pub(crate) fn next(
    truth: &Truth,
    world: &World,
    is_known: &dyn Fn(usize) -> bool,
    is_searched: &dyn Fn(usize) -> bool,
) -> Option<Action> {
    let Truth { house, goal, .. } = truth;
    let first = |goal: &Goal| plan(house, world, goal).and_then(|plan| plan.first().copied());
    if goal.objects.iter().all(|&it| is_known(it)) {
        return first(goal);
    }
    let alone = |it: usize| Goal {
        kind: if goal.kind == TaskType::Two { TaskType::Pick } else { goal.kind },
        objects: vec![it],
        place: goal.place,
    };
    let known = goal.objects.iter().filter(|&&it| is_known(it)).map(|&it| alone(it));
    if let Some(action) = known.filter(|goal| !goal.is_reached(world)).find_map(|goal| first(&goal)) {
        return Some(action);
    }
    let is_unknown = |at: &usize| house.places[*at].kind.can_store() && !is_searched(*at);
    let here = (0..house.places.len()).find(|at| house.places[*at].room == world.room && is_unknown(at));
    if let Some(at) = here {
        return Some(if world.at == Some(at) { Action::Open(at) } else { Action::Go(at) });
    }
    (0..house.places.len()).find(is_unknown).map(|at| Action::Enter(house.places[at].room))
}
