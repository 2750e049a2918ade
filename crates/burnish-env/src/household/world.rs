//! The house, the state of everything in it, and the effects of actions.

use serde::{Deserialize, Serialize};

/// The kind of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PlaceKind {
    /// Objects lie on it, in sight.
    Surface,
    /// Objects lie in it; closed at first.
    Container,
    /// A container that cools an object held in front of it.
    Fridge,
    /// Cleans.
    Sink,
    /// Heats.
    Stove,
    /// Shows an object held under it.
    Lamp,
}

impl PlaceKind {
    pub(crate) fn has_door(self) -> bool {
        matches!(self, PlaceKind::Container | PlaceKind::Fridge)
    }

    pub(crate) fn can_store(self) -> bool {
        self.has_door() || self == PlaceKind::Surface
    }
}

/// A place in a room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Place {
    pub(crate) name: String,
    pub(crate) room: usize,
    pub(crate) kind: PlaceKind,
}

/// What never changes during an episode. No two names are equal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct House {
    pub(crate) rooms: Vec<String>,
    pub(crate) places: Vec<Place>,
    pub(crate) objects: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Warmth {
    Plain,
    Hot,
    Cold,
}

/// An object's state.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Thing {
    /// Where it is; `None` in the hand.
    pub(crate) place: Option<usize>,
    pub(crate) is_clean: bool,
    pub(crate) warmth: Warmth,
    pub(crate) is_examined: bool,
}

/// Everything that changes. At most one object is held.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct World {
    pub(crate) room: usize,
    /// The place where the agent stands; `None` after it entered the room.
    pub(crate) at: Option<usize>,
    /// One entry per place; always true for places without a door.
    pub(crate) is_open: Vec<bool>,
    pub(crate) things: Vec<Thing>,
}

/// An action of the agent. Numbers are indices into the house.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Look,
    Enter(usize),
    Go(usize),
    Open(usize),
    Take(usize),
    Clean(usize),
    Heat(usize),
    Cool(usize),
    Examine(usize),
    Put(usize, usize),
}

impl House {
    /// The action that a line of text describes; `None` if it is not an action, or names something that is not in the
    /// house.
    pub(crate) fn parse(&self, text: &str) -> Option<Action> {
        let text = text.to_ascii_lowercase();
        let words: Vec<&str> = text.split_whitespace().collect();
        let room = |name: &str| self.rooms.iter().position(|room| room == name);
        let place = |name: &str| self.places.iter().position(|place| place.name == name);
        let object = |name: &str| self.objects.iter().position(|object| object == name);
        match words[..] {
            ["look"] => Some(Action::Look),
            ["go", name] => place(name).map(Action::Go).or_else(|| room(name).map(Action::Enter)),
            ["open", name] => place(name).map(Action::Open),
            ["take", name] => object(name).map(Action::Take),
            ["clean", name] => object(name).map(Action::Clean),
            ["heat", name] => object(name).map(Action::Heat),
            ["cool", name] => object(name).map(Action::Cool),
            ["examine", name] => object(name).map(Action::Examine),
            ["put", name, target] => Some(Action::Put(object(name)?, place(target)?)),
            _ => None,
        }
    }

    /// The text of an action.
    pub(crate) fn word(&self, action: Action) -> String {
        let (object, place) = (|at: usize| &self.objects[at], |at: usize| &self.places[at].name);
        match action {
            Action::Look => "look".to_owned(),
            Action::Enter(room) => format!("go {}", self.rooms[room]),
            Action::Go(to) => format!("go {}", place(to)),
            Action::Open(it) => format!("open {}", place(it)),
            Action::Take(it) => format!("take {}", object(it)),
            Action::Clean(it) => format!("clean {}", object(it)),
            Action::Heat(it) => format!("heat {}", object(it)),
            Action::Cool(it) => format!("cool {}", object(it)),
            Action::Examine(it) => format!("examine {}", object(it)),
            Action::Put(it, to) => format!("put {} {}", object(it), place(to)),
        }
    }

    /// Are rooms, places, and the world's indices consistent?
    pub(crate) fn fits(&self, world: &World) -> bool {
        let held = world.things.iter().filter(|thing| thing.place.is_none()).count();
        let stored = |thing: &Thing| {
            thing.place.is_none_or(|at| self.places.get(at).is_some_and(|place| place.kind.can_store()))
        };
        self.places.iter().all(|place| place.room < self.rooms.len())
            && world.room < self.rooms.len()
            && world.at.is_none_or(|at| self.places.get(at).is_some_and(|place| place.room == world.room))
            && world.is_open.len() == self.places.len()
            && world.things.len() == self.objects.len()
            && world.things.iter().all(stored)
            && held <= 1
    }
}

impl World {
    /// The object in the hand.
    pub(crate) fn held(&self) -> Option<usize> {
        self.things.iter().position(|thing| thing.place.is_none())
    }

    /// The objects at a place, whether they are in sight or not.
    pub(crate) fn contents(&self, place: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.things.len()).filter(move |&it| self.things[it].place == Some(place))
    }

    /// The world after an action; `None` if nothing happens because the action is impossible or would change nothing.
    /// Looking round is always possible.
    pub(crate) fn after(&self, house: &House, action: Action) -> Option<World> {
        let kind = self.at.map(|at| house.places[at].kind);
        let is_at = |wanted| kind == Some(wanted);
        let holds = |it: usize| self.things[it].place.is_none();
        let mut next = self.clone();
        let is_possible = match action {
            Action::Look => true,
            Action::Enter(room) => {
                (next.room, next.at) = (room, None);
                room != self.room
            }
            Action::Go(to) => {
                next.at = Some(to);
                house.places[to].room == self.room && self.at != Some(to)
            }
            Action::Open(it) => {
                next.is_open[it] = true;
                self.at == Some(it) && !self.is_open[it]
            }
            Action::Take(it) => {
                next.things[it].place = None;
                let is_here = self.at.is_some_and(|at| self.things[it].place == Some(at) && self.is_open[at]);
                is_here && self.held().is_none()
            }
            Action::Put(it, to) => {
                next.things[it].place = Some(to);
                holds(it) && self.at == Some(to) && house.places[to].kind.can_store() && self.is_open[to]
            }
            Action::Clean(it) => {
                next.things[it].is_clean = true;
                holds(it) && is_at(PlaceKind::Sink) && !self.things[it].is_clean
            }
            Action::Heat(it) => {
                next.things[it].warmth = Warmth::Hot;
                holds(it) && is_at(PlaceKind::Stove) && self.things[it].warmth != Warmth::Hot
            }
            Action::Cool(it) => {
                next.things[it].warmth = Warmth::Cold;
                holds(it) && is_at(PlaceKind::Fridge) && self.things[it].warmth != Warmth::Cold
            }
            Action::Examine(it) => {
                next.things[it].is_examined = true;
                holds(it) && is_at(PlaceKind::Lamp) && !self.things[it].is_examined
            }
        };
        is_possible.then_some(next)
    }
}
