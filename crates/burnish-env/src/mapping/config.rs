//! The configuration of the environment.

use serde::{Deserialize, Serialize};

use super::site::Section;
use crate::settings::{check_bounds, config_error};
use crate::{BoundRow, EnvError};

pub use crate::settings::PromptStyle;

/// The configuration of games that are mapped before they are played.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MappingConfig {
    /// Which game.
    pub game: GameKind,
    /// Whether each game has rules of its own; otherwise all games have the same ones.
    pub permuted: bool,
    /// Keys of `game = "grid"`.
    pub grid: GridConfig,
    /// Keys of `game = "craft"`.
    pub craft: CraftConfig,
    /// Keys of `game = "household"`.
    pub household: HouseConfig,
    /// Who explores before the game begins.
    pub explorer: Explorer,
    /// Most steps of exploring, B; 0 for none.
    pub explore_max: usize,
    /// Exploring ends when the means of both rewards over the last `window` steps are below `converged`.
    pub window: usize,
    /// See `window`.
    pub converged: f64,
    /// Weight of a new fact in the reward of exploring, and of a rare state.
    pub curiosity: Curiosity,
    /// Training games that are explored once for what is true in all of them; 0 for none.
    pub global: usize,
    /// Parts of the map that are shown.
    pub sections: Vec<Section>,
    /// Most steps of the game.
    pub steps_max: usize,
    /// The style of the prompt.
    pub prompt: PromptStyle,
}

/// The games.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GameKind {
    /// A grid whose actions move in hidden directions, with unseen walls and pits.
    Grid,
    /// Things that are mixed in pairs by hidden recipes.
    Craft,
    /// A house with things in closed places.
    Household,
}

/// Grids.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GridConfig {
    /// Fields of a side.
    pub size: u16,
    /// Number of walls.
    pub walls: usize,
    /// Number of pits, which end a game.
    pub pits: usize,
    /// Least steps to the goal.
    pub distance: usize,
}

/// Crafting graphs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CraftConfig {
    /// Things that are there at first.
    pub base: usize,
    /// All things.
    pub things: usize,
    /// Things of the base beyond what is needed.
    pub spare: usize,
    /// Most mixtures that the goal takes; at least two.
    pub mixtures: usize,
}

/// Houses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HouseConfig {
    /// Rooms.
    pub rooms: usize,
    /// Closed places.
    pub containers: usize,
    /// Objects.
    pub objects: usize,
}

/// Who explores before the game begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Explorer {
    /// A program that does what it has done least often in a state; the map is in the prompt.
    Curious,
    /// A program that does anything; the map is in the prompt.
    Random,
    /// The policy itself, in the same episode.
    Policy,
}

/// Weights of the reward of exploring: `facts * new facts + states / sqrt(visits of the state)`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curiosity {
    /// Of a new fact.
    pub facts: f64,
    /// Of a state by how rarely it was visited.
    pub states: f64,
}

impl Default for MappingConfig {
    fn default() -> Self {
        MappingConfig {
            game: GameKind::Grid,
            permuted: true,
            grid: GridConfig { size: 4, walls: 2, pits: 2, distance: 3 },
            craft: CraftConfig { base: 3, things: 6, spare: 1, mixtures: 4 },
            household: HouseConfig { rooms: 2, containers: 3, objects: 4 },
            explorer: Explorer::Curious,
            explore_max: 10,
            window: 3,
            converged: 0.4,
            curiosity: Curiosity { facts: 1.0, states: 1.0 },
            global: 0,
            sections: Section::ALL.to_vec(),
            steps_max: 12,
            prompt: PromptStyle::Full,
        }
    }
}

/// The bounds of the numeric keys that may be changed.
pub(super) const BOUNDS: &[BoundRow] = &[
    ("grid.size", 2.0, 12.0, "fields of a side"),
    ("grid.walls", 0.0, 60.0, "number of walls"),
    ("grid.pits", 0.0, 60.0, "number of pits"),
    ("grid.distance", 1.0, 40.0, "least steps to the goal"),
    ("craft.base", 2.0, 6.0, "things that are there at first"),
    ("craft.things", 3.0, 12.0, "all things"),
    ("craft.spare", 0.0, 10.0, "things of the base beyond what is needed"),
    ("craft.mixtures", 2.0, 10.0, "most mixtures that the goal takes"),
    ("household.rooms", 1.0, 4.0, "rooms"),
    ("household.containers", 0.0, 5.0, "closed places"),
    ("household.objects", 1.0, 10.0, "objects"),
    ("explore_max", 0.0, 200.0, "most steps of exploring"),
    ("window", 1.0, 50.0, "steps over which exploring has to be dull"),
    ("converged", 0.0, 10.0, "mean reward below which exploring is dull"),
    ("curiosity.facts", 0.0, 10.0, "weight of a new fact"),
    ("curiosity.states", 0.0, 10.0, "weight of a rare state"),
    ("global", 0.0, 100.0, "training games explored for what is always true"),
    ("steps_max", 1.0, 200.0, "most steps of the game"),
];

impl MappingConfig {
    /// Checks what the types do not express.
    ///
    /// # Errors
    /// Names the first key that is out of its bounds or contradicts another.
    pub(super) fn check(&self) -> Result<(), EnvError> {
        check_bounds(self, BOUNDS)?;
        let GridConfig { size, walls, pits, .. } = self.grid;
        let room = usize::from(size * size).saturating_sub(2);
        if walls + pits > room {
            let problem = format!(
                "{walls} walls and {pits} pits do not fit into {size} times {size} fields beside start and goal; nearest: {}",
                room.saturating_sub(walls)
            );
            return Err(config_error("grid.pits", &problem));
        }
        let CraftConfig { base, things, .. } = self.craft;
        if things <= base {
            let problem =
                format!("{things} leaves nothing to make beside the base of {base}; nearest: {}", base + 1);
            return Err(config_error("craft.things", &problem));
        }
        Ok(())
    }
}

/// What a policy is told that was not trained on this environment.
pub(super) fn rules(game: GameKind) -> &'static str {
    match game {
        GameKind::Grid => {
            "You are on a grid; fields are given as column and row, from 0 at the top left. Each turn, answer with one of the actions \
             a, b, c and d and nothing else: each moves one field in a direction that you have to find out. Walls and pits are not \
             seen: a wall stops you, a pit ends the game. Reach the goal."
        }
        GameKind::Craft => {
            "You have things that can be mixed in pairs. Each turn, answer `mix ONE OTHER` with two things that you have: both are used \
             up, and become another thing, or nothing. Make the goal."
        }
        GameKind::Household => {
            "You are in a house. Each turn, answer with one action and nothing else: look; go PLACE (in this room); go ROOM; open \
             PLACE; take OBJECT; put OBJECT PLACE; clean OBJECT (at the sink); heat OBJECT (at the stove); cool OBJECT (at the \
             fridge); examine OBJECT (at the lamp). You must be at a place to use it, and can hold one object."
        }
    }
}

/// What a policy is told that explores by itself.
pub(super) const EXPLORE: &str = "First explore. Nothing counts yet; answer `done` to begin the game, which then starts afresh, with a \
map of what you found.";
