//! The house of the environment `household` as something to be mapped: where things are at first.

use burnish_core::rng::Stream;
use serde::{Deserialize, Serialize};

use super::config::HouseConfig;
use super::site::{Ending, Fact, Facts, Site};
use crate::EnvError;
use crate::household::mapped::{Action, HouseholdConfig, Truth, World, drawn, next};

/// A game in a house.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct HouseGame {
    truth: Truth,
}

impl HouseGame {
    /// Draws a game.
    ///
    /// # Errors
    /// If no house like this has a task.
    pub(super) fn draw(config: &HouseConfig, stream: &mut Stream) -> Result<HouseGame, EnvError> {
        let HouseConfig { rooms, containers, objects } = *config;
        let hidden = if containers == 0 { 0.0 } else { 0.8 };
        let household = HouseholdConfig {
            rooms,
            containers,
            objects,
            hidden,
            plan_max: 16,
            steps_max: 16,
            ..HouseholdConfig::default()
        };
        Ok(HouseGame { truth: drawn(&household, stream.bits())? })
    }
}

impl Site for HouseGame {
    type State = World;

    fn start(&self) -> World {
        self.truth.start.clone()
    }

    fn told(&self) -> String {
        self.truth.told()
    }

    fn actions(&self, world: &World) -> Vec<String> {
        self.truth.possible(world).into_iter().map(|action| self.truth.house.word(action)).collect()
    }

    fn after(&self, world: &World, action: &str) -> Option<World> {
        let action: Action = self.truth.house.parse(action)?;
        world.after(&self.truth.house, action)
    }

    fn see(&self, world: &World) -> String {
        self.truth.seen(world)
    }

    fn ending(&self, world: &World) -> Option<Ending> {
        self.truth.goal.is_reached(world).then_some(Ending::Reached)
    }

    fn noticed(&self, world: &World) -> Vec<Fact> {
        let Truth { house, start, .. } = &self.truth;
        let mut facts = Vec::new();
        for place in self.truth.in_sight(world) {
            let name = &house.places[place].name;
            facts.push(Fact::Searched(name.clone()));
            // What was moved tells nothing about where it is at first.
            let untouched = world.contents(place).filter(|&it| start.things[it].place == Some(place));
            facts.extend(untouched.map(|it| Fact::At(house.objects[it].clone(), name.clone())));
        }
        facts
    }

    fn learned(&self, _: &Facts, _: &World, _: &str, _: Option<&World>) -> Vec<Fact> {
        Vec::new()
    }

    fn truth(&self) -> Facts {
        let Truth { house, start, .. } = &self.truth;
        let stored = house.places.iter().filter(|place| place.kind.can_store());
        let searched = stored.map(|place| Fact::Searched(place.name.clone()));
        let things = house.objects.iter().zip(&start.things);
        let at = things.filter_map(|(object, thing)| {
            Some(Fact::At(object.clone(), house.places.get(thing.place?)?.name.clone()))
        });
        searched.chain(at).collect()
    }

    fn next(&self, known: &Facts, world: &World) -> Option<String> {
        let has = |fact: Fact| known.contains(&fact);
        let Truth { house, start, .. } = &self.truth;
        let place_of = |it: usize| start.things[it].place.and_then(|at| house.places.get(at));
        let is_known = |it: usize| {
            world.things[it].place != start.things[it].place
                || place_of(it)
                    .is_some_and(|place| has(Fact::At(house.objects[it].clone(), place.name.clone())))
        };
        let is_searched = |at: usize| has(Fact::Searched(house.places[at].name.clone()));
        next(&self.truth, world, &is_known, &is_searched).map(|action| house.word(action))
    }
}
