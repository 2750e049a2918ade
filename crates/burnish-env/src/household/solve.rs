//! Shortest plans, by breadth-first search over the worlds that a plan may reach.

use std::collections::{HashSet, VecDeque};

use super::goal::Goal;
use super::world::{Action, House, World};

/// A shortest plan from `start` for an agent that knows where everything is and only ever holds objects of the goal;
/// `None` if there is none. Of several shortest plans, the first in the order of [`candidates`].
pub(crate) fn plan(house: &House, start: &World, goal: &Goal) -> Option<Vec<Action>> {
    if goal.is_reached(start) {
        return Some(Vec::new());
    }
    // Worlds in the order of discovery, each with the action and the world that it came from.
    let mut found: Vec<(World, Option<(usize, Action)>)> = vec![(start.clone(), None)];
    let mut known = HashSet::from([start.clone()]);
    let mut open = VecDeque::from([0]);
    while let Some(from) = open.pop_front() {
        for action in candidates(house, &found[from].0, goal) {
            let Some(next) = found[from].0.after(house, action) else { continue };
            if !known.insert(next.clone()) {
                continue;
            }
            let is_reached = goal.is_reached(&next);
            found.push((next, Some((from, action))));
            if is_reached {
                return Some(path(&found));
            }
            open.push_back(found.len() - 1);
        }
    }
    None
}

/// The actions that lead to the last world found.
fn path(found: &[(World, Option<(usize, Action)>)]) -> Vec<Action> {
    let mut actions = Vec::new();
    let mut at = found.len() - 1;
    while let Some((from, action)) = found[at].1 {
        actions.push(action);
        at = from;
    }
    actions.reverse();
    actions
}

/// Actions that a shortest plan can use. Places have room for everything and the hand is free for the goal's objects.
/// So other objects are never moved, and a place is never visited unless it holds one of the goal's objects or is the
/// goal's target or appliance; an object put down elsewhere would have to be picked up again.
fn candidates(house: &House, world: &World, goal: &Goal) -> Vec<Action> {
    let mut actions = Vec::new();
    let is_useful = |at: usize| {
        goal.place == Some(at)
            || goal.kind.appliance() == Some(house.places[at].kind)
            || goal.objects.iter().any(|&it| world.things[it].place == Some(at))
    };
    if let Some(at) = world.at {
        actions.push(Action::Open(at));
        for &it in &goal.objects {
            let treat = [Action::Clean(it), Action::Heat(it), Action::Cool(it), Action::Examine(it)];
            actions.push(Action::Take(it));
            actions.extend(treat);
            actions.extend(goal.place.map(|to| Action::Put(it, to)));
        }
    }
    actions.extend((0..house.places.len()).filter(|&at| is_useful(at)).map(Action::Go));
    actions.extend((0..house.rooms.len()).map(Action::Enter));
    actions
}
