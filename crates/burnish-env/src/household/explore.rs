//! A sensible explorer, which knows only what it saw.

use std::collections::BTreeSet;

use super::goal::{Goal, TaskType};
use super::solve::plan;
use super::world::{Action, House, Place, World};

/// The actions of an agent that reads the prompt, searches closed places in the order in which they are listed (its own
/// room first, then the other rooms in order) for the goal's objects, and follows a shortest plan as far as it knows
/// the way. `None` if it needs more than `steps_max`.
pub(super) fn explore(
    house: &House,
    start: &World,
    goal: &Goal,
    reveal: bool,
    steps_max: usize,
) -> Option<Vec<Action>> {
    let mut agent = Explorer {
        house,
        world: start.clone(),
        known: BTreeSet::new(),
        entered: BTreeSet::from([start.room]),
        actions: Vec::new(),
    };
    if reveal {
        agent.known.extend(0..house.objects.len());
    }
    agent.notice();
    while !goal.is_reached(&agent.world) {
        if agent.actions.len() >= steps_max {
            return None;
        }
        let next = match agent.next_goal(goal) {
            Some(next) => plan(house, &agent.world, &next)?,
            None => agent.search()?,
        };
        for action in next {
            agent.act(action)?;
        }
    }
    (agent.actions.len() <= steps_max).then_some(agent.actions)
}

struct Explorer<'a> {
    house: &'a House,
    world: World,
    /// Objects that it has seen.
    known: BTreeSet<usize>,
    /// Rooms that it has been in.
    entered: BTreeSet<usize>,
    actions: Vec<Action>,
}

impl Explorer<'_> {
    fn act(&mut self, action: Action) -> Option<()> {
        self.world = self.world.after(self.house, action)?;
        self.entered.insert(self.world.room);
        self.actions.push(action);
        self.notice();
        Some(())
    }

    /// Everything in the open is in sight when the agent enters the room or looks round.
    fn notice(&mut self) {
        for at in 0..self.house.places.len() {
            if self.house.places[at].room == self.world.room && self.world.is_open[at] {
                self.known.extend(self.world.contents(at));
            }
        }
    }

    /// The goal that it can pursue with what it knows: the whole goal, or the part for an object that it knows; `None`
    /// if it must search.
    fn next_goal(&self, goal: &Goal) -> Option<Goal> {
        if goal.objects.iter().all(|it| self.known.contains(it)) {
            return Some(goal.clone());
        }
        let alone = |it: usize| Goal {
            kind: if goal.kind == TaskType::Two { TaskType::Pick } else { goal.kind },
            objects: vec![it],
            place: goal.place,
        };
        let known = goal.objects.iter().filter(|it| self.known.contains(it));
        known.map(|&it| alone(it)).find(|goal| !goal.is_reached(&self.world))
    }

    /// Opens the next closed place of the room, or enters the next room that it has not searched yet.
    fn search(&self) -> Option<Vec<Action>> {
        let is_closed =
            |&at: &usize| self.house.places[at].room == self.world.room && !self.world.is_open[at];
        if let Some(at) = (0..self.house.places.len()).find(is_closed) {
            let go = (self.world.at != Some(at)).then_some(Action::Go(at));
            return Some(go.into_iter().chain([Action::Open(at)]).collect());
        }
        // A room that it left to put something down may still have unopened places.
        let is_unknown = |&room: &usize| {
            let closed = |(place, is_open): (&Place, &bool)| place.room == room && !is_open;
            !self.entered.contains(&room) || self.house.places.iter().zip(&self.world.is_open).any(closed)
        };
        let room = (0..self.house.rooms.len()).find(is_unknown)?;
        Some(vec![Action::Enter(room)])
    }
}
