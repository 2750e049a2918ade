//! Games that are explored and mapped before they are played (MAP, arXiv:2605.13037).
//!
//! ```text
//! game ─> explore (a program, or the policy) ─> map: rules, affordances, layout ─> the game from its start, with the map
//! ```
//!
//! Rules, recipes and layouts differ from game to game, so that what was learned in training helps less than what was found
//! out here. What exploring does has no effect on the game. With `explore_max = 0` there is no map, and an episode is one of
//! ReAct.

mod config;
mod craft;
mod explore;
mod grid;
mod house;
mod play;
mod rewards;
mod site;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use burnish_core::rng::{Address, Purpose, Stream};
use burnish_core::{Message, Task};
use serde::{Deserialize, Serialize};

use crate::digest::digest;
use crate::many_turns::ManyTurns;
use crate::settings::config_error;
use crate::tasks::{read, seed_of, task};
use crate::{CellReport, Demonstrations, EnvError, Environment, Generator, TaskSet, settings};
use explore::{Explored, explore, lines};
use site::{Facts, Site};

pub use config::{
    CraftConfig, Curiosity, Explorer, GameKind, GridConfig, HouseConfig, MappingConfig, PromptStyle,
};
pub use site::{Fact, Section};

pub(crate) use explore::DONE;
pub(crate) use rewards::Rewards;

const ID: &str = "mapping";

/// Candidates drawn for one game before the configuration is considered impossible.
const DRAWS_MAX: usize = 5000;

/// The stage of addresses of games that are explored for what is true in all of them. Training and evaluation have none.
const GLOBAL_STAGE: u64 = 1;

/// The environment's entry in the catalogue.
pub const KIND: crate::Kind = crate::Kind {
    id: ID,
    title: "games that are mapped first",
    summary: "Explore a game with hidden rules, map it, then play it: a grid, a crafting graph, a house (multi-turn).",
    axes: None,
    defaults: || settings::to_value(&MappingConfig::default()).unwrap_or_default(),
    build: |config| Ok(Box::new(Mapping::new(settings::read(config)?)?)),
};

/// A game.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Game {
    Grid(grid::Grid),
    Craft(craft::Craft),
    Household(house::HouseGame),
}

/// The truth of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Truth {
    game: Game,
    /// What is known in all games.
    global: Facts,
    /// What a program found out; empty if the policy explores, or nobody.
    explored: Explored,
}

impl Truth {
    fn of(task: &Task) -> Result<Self, EnvError> {
        read(ID, task)
    }

    /// What is known when the game begins.
    fn known(&self) -> Facts {
        self.global.union(&self.explored.map).cloned().collect()
    }

    fn told(&self) -> (String, String) {
        fn both<S: Site>(site: &S) -> (String, String) {
            (site.told(), site.see(&site.start()))
        }
        match &self.game {
            Game::Grid(site) => both(site),
            Game::Craft(site) => both(site),
            Game::Household(site) => both(site),
        }
    }
}

impl MappingConfig {
    /// Whether the policy explores by itself.
    fn policy_explores(&self) -> bool {
        self.explorer == Explorer::Policy && self.explore_max > 0
    }

    fn game(&self, stream: &mut Stream, report: &mut CellReport) -> Result<Game, EnvError> {
        for _ in 0..DRAWS_MAX {
            report.drawn += 1;
            let game = match self.game {
                GameKind::Grid => grid::Grid::draw(&self.grid, self.permuted, stream).map(Game::Grid),
                GameKind::Craft => craft::Craft::draw(&self.craft, self.permuted, stream).map(Game::Craft),
                GameKind::Household => {
                    Some(Game::Household(house::HouseGame::draw(&self.household, stream)?))
                }
            };
            if let Some(game) = game {
                report.made += 1;
                return Ok(game);
            }
            *report.dropped.entry("can't be won, or too easily".to_owned()).or_default() += 1;
        }
        Err(self.impossible())
    }

    fn impossible(&self) -> EnvError {
        let none = format!("no such game in {DRAWS_MAX} draws");
        match self.game {
            GameKind::Grid => config_error(
                "grid.distance",
                &format!(
                    "{none}; a smaller distance than {}, or fewer walls and pits, help",
                    self.grid.distance
                ),
            ),
            GameKind::Craft | GameKind::Household => config_error(
                "craft.mixtures",
                &format!("{none}; more mixtures than {}, or fewer things, help", self.craft.mixtures),
            ),
        }
    }

    fn explored(&self, game: &Game, known: &Facts, stream: &mut Stream) -> Explored {
        match game {
            Game::Grid(site) => explore(site, self, known, stream),
            Game::Craft(site) => explore(site, self, known, stream),
            Game::Household(site) => explore(site, self, known, stream),
        }
    }

    /// One of the games that are explored for what is true in all of them, and the numbers by which it is explored. No seed of
    /// tasks decides it, so that evaluations are told what training was told, and nothing of their own games.
    fn global_game(&self, index: usize) -> Result<(Game, Stream), EnvError> {
        let place =
            Address { stage: GLOBAL_STAGE, task: index as u64, ..Address::new(0, Purpose::Environment) };
        let mut stream = Stream::new(place.seed());
        let game = self.game(&mut stream, &mut CellReport::default())?;
        Ok((game, stream))
    }

    /// What was found to be true in every one of the games that are explored for it.
    fn global(&self) -> Result<Facts, EnvError> {
        let mut common: Option<Facts> = None;
        for index in 0..self.global {
            let (game, mut stream) = self.global_game(index)?;
            let found = self.explored(&game, &Facts::new(), &mut stream).map;
            common = Some(match common {
                None => found,
                Some(common) => common.intersection(&found).cloned().collect(),
            });
        }
        let mut common = common.unwrap_or_default();
        // Only rules can hold in all games; where something is in one of them is chance.
        common.retain(|fact| fact.section() == Section::Rules);
        Ok(common)
    }
}

/// Makes games that are mapped first.
#[derive(Debug, Clone)]
pub struct Mapping {
    config: MappingConfig,
}

impl Mapping {
    /// A generator with this configuration.
    ///
    /// # Errors
    /// If a key is out of bounds or contradicts another.
    pub fn new(config: MappingConfig) -> Result<Self, EnvError> {
        config.check()?;
        Ok(Mapping { config })
    }

    fn task(&self, truth: &Truth) -> Result<Task, EnvError> {
        let config = &self.config;
        let (told, seen) = truth.told();
        let mut said = vec![told];
        // A policy that explores gets the map afterwards.
        let map = if config.policy_explores() { &truth.global } else { &truth.known() };
        said.extend(lines(map, config));
        said.push(seen);
        let mut prompt = vec![Message::user(said.join("\n"))];
        if config.prompt == PromptStyle::Full {
            let mut rules = config::rules(config.game).to_owned();
            if config.policy_explores() {
                rules = format!("{rules} {}", config::EXPLORE);
            }
            prompt.insert(0, Message::system(rules));
        }
        let content = settings::to_value(truth)?;
        let game = settings::to_value(&truth.game)?;
        // The name is that of the game: whoever explored it, it is the same task.
        Ok(task(ID, digest(game.to_string().as_bytes()), prompt, content, BTreeMap::new()))
    }
}

impl Generator for Mapping {
    crate::configured!(ID, config::BOUNDS);

    fn components(&self) -> Option<Vec<String>> {
        Some(vec!["success".to_owned()])
    }

    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        let mut report = CellReport::new(format!("{:?}", self.config.game).to_lowercase());
        let global = self.config.global()?;
        let mut tasks = Vec::with_capacity(count);
        for index in 0..count {
            let mut stream = Stream::new(seed_of(seed, index));
            let game = self.config.game(&mut stream, &mut report)?;
            let explored = match self.config.policy_explores() {
                true => Explored { map: Facts::new(), steps: 0, curiosity: 0.0, reached: false },
                false => {
                    let place = Address { task: index as u64, ..Address::new(seed, Purpose::Environment) };
                    self.config.explored(&game, &global, &mut Stream::new(place.seed()))
                }
            };
            tasks.push(self.task(&Truth { game, global: global.clone(), explored })?);
        }
        Ok(TaskSet { tasks, cells: vec![report] })
    }

    fn environment(&self) -> Box<dyn Environment> {
        Box::new(ManyTurns::<Box<dyn play::Session>>::new(self.config.clone()))
    }

    fn draw(&self, task: &Task, _answer: Option<&str>) -> String {
        match Truth::of(task) {
            Ok(truth) => {
                let (told, seen) = truth.told();
                let map: Vec<String> = truth.known().iter().map(ToString::to_string).collect();
                format!("{told}\n{seen}\nfound in {} steps: {}", truth.explored.steps, map.join("; "))
            }
            Err(error) => error.to_string(),
        }
    }

    fn demonstrations(&self) -> Option<&dyn Demonstrations> {
        Some(self)
    }
}

impl Demonstrations for Mapping {
    fn demonstrate(&self, task: &Task) -> Option<Message> {
        self.demonstrate_episode(task)?.into_iter().nth(task.prompt.len())
    }

    /// What a sensible agent does that knows the map and sees what happens; none if it does not reach the goal.
    fn demonstrate_episode(&self, task: &Task) -> Option<Vec<Message>> {
        let truth = Truth::of(task).ok()?;
        let mut session = play::begin(&truth, &self.config);
        let mut played = task.prompt.clone();
        loop {
            let action = session.next()?;
            played.push(Message::assistant(&action));
            match session.act(&action) {
                Some(said) => played.push(Message::user(said)),
                None => return session.verdict().success.then_some(played),
            }
        }
    }
}
