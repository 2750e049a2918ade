//! What can be explored: a small world with rules that an agent does not know at first.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::Hash;

use serde::{Deserialize, Serialize};

/// Something that is true of a game, as a map holds it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// An action moves in a direction.
    Moves(String, String),
    /// Two things become a third one when they are mixed; `None`: nothing.
    Makes(String, String, Option<String>),
    /// A place that ends the game.
    Pit(u16, u16),
    /// A place that can't be entered.
    Wall(u16, u16),
    /// A place that can.
    Free(u16, u16),
    /// An object is at a place when a game begins.
    At(String, String),
    /// A place whose contents have been seen.
    Searched(String),
}

/// The part of a map that a fact belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Section {
    /// What actions do.
    Rules,
    /// What happens at a place.
    Affordances,
    /// Where things are.
    Layout,
}

impl Section {
    /// Every section, in the order of a map.
    pub const ALL: [Section; 3] = [Section::Rules, Section::Affordances, Section::Layout];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Section::Rules => "rules",
            Section::Affordances => "affordances",
            Section::Layout => "layout",
        }
    }
}

impl Fact {
    /// The part of a map that it belongs to.
    pub fn section(&self) -> Section {
        match self {
            Fact::Moves(..) | Fact::Makes(..) => Section::Rules,
            Fact::Pit(..) => Section::Affordances,
            Fact::Wall(..) | Fact::Free(..) | Fact::At(..) | Fact::Searched(..) => Section::Layout,
        }
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fact::Moves(action, direction) => write!(f, "{action} {direction}"),
            Fact::Makes(one, other, made) => {
                write!(f, "{one} {other} = {}", made.as_deref().unwrap_or("nothing"))
            }
            Fact::Pit(x, y) => write!(f, "pit {x} {y}"),
            Fact::Wall(x, y) => write!(f, "wall {x} {y}"),
            Fact::Free(x, y) => write!(f, "free {x} {y}"),
            Fact::At(object, place) => write!(f, "{object} at {place}"),
            Fact::Searched(place) => write!(f, "{place} searched"),
        }
    }
}

/// What is known of a game.
pub(super) type Facts = BTreeSet<Fact>;

/// How a game ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// The goal is reached.
    Reached,
    /// It can't be reached any more.
    Lost,
}

/// One game: what never changes in it.
pub(super) trait Site: fmt::Debug + Clone + Send + Sync + 'static {
    /// What changes.
    type State: fmt::Debug + Clone + Eq + Hash + Send;

    /// The state that it begins in.
    fn start(&self) -> Self::State;

    /// What is told before it begins: the goal, and whatever else anybody may know.
    fn told(&self) -> String;

    /// The actions that can be tried.
    fn actions(&self, state: &Self::State) -> Vec<String>;

    /// The state after an action; `None` if nothing happens.
    fn after(&self, state: &Self::State, action: &str) -> Option<Self::State>;

    /// What is seen.
    fn see(&self, state: &Self::State) -> String;

    /// How the game has ended; `None` if it goes on.
    fn ending(&self, state: &Self::State) -> Option<Ending>;

    /// What can be told from a state alone.
    fn noticed(&self, state: &Self::State) -> Vec<Fact>;

    /// What can be told from what an action did, by somebody who knows `known`.
    fn learned(
        &self,
        known: &Facts,
        before: &Self::State,
        action: &str,
        after: Option<&Self::State>,
    ) -> Vec<Fact>;

    /// Everything that is true and that exploring could find.
    fn truth(&self) -> Facts;

    /// What a sensible agent does that knows `known`: the next action of its way to the goal, or else one that it does not
    /// know the effect of; `None` if it has no idea.
    fn next(&self, known: &Facts, state: &Self::State) -> Option<String>;
}
