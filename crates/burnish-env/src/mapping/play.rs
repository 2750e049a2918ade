//! One episode: exploring, if the policy does that itself, and then the game, which starts afresh.

use std::collections::BTreeMap;

use burnish_core::{Task, Verdict};

use super::config::MappingConfig;
use super::explore::{DONE, Explored, Walk, lines, shown};
use super::site::{Ending, Section, Site};
use super::{Game, ID, Truth};
use crate::EnvError;
use crate::many_turns::{Turns, said};

/// What is said after an action that does nothing.
pub(super) const NOTHING: &str = "nothing happens";

/// A game under way, whichever it is.
pub(super) trait Session: Send {
    /// Takes an action; returns what is said, or nothing if the episode is over.
    fn act(&mut self, action: &str) -> Option<String>;

    /// What a sensible agent does next, who knows the map and what it has seen: for demonstrations.
    fn next(&self) -> Option<String>;

    /// What the episode came to.
    fn verdict(&self) -> Verdict;
}

/// A game of one kind under way.
struct Playing<S: Site> {
    site: S,
    config: MappingConfig,
    /// The exploring of the policy, while it goes on.
    exploring: Option<Walk<S>>,
    /// What exploring came to.
    explored: Explored,
    /// The game itself.
    walk: Walk<S>,
    /// Actions of the game.
    acted: usize,
    invalid: usize,
}

/// Begins an episode.
pub(super) fn begin(truth: &Truth, config: &MappingConfig) -> Box<dyn Session> {
    match &truth.game {
        Game::Grid(site) => session(site.clone(), truth, config),
        Game::Craft(site) => session(site.clone(), truth, config),
        Game::Household(site) => session(site.clone(), truth, config),
    }
}

fn session<S: Site>(site: S, truth: &Truth, config: &MappingConfig) -> Box<dyn Session> {
    let config = config.clone();
    let known = shown(&truth.known(), &config);
    let explores = config.policy_explores();
    Box::new(Playing {
        exploring: explores.then(|| Walk::new(&site, truth.global.clone())),
        walk: Walk::new(&site, known),
        explored: truth.explored.clone(),
        acted: 0,
        invalid: 0,
        config,
        site,
    })
}

impl<S: Site> Playing<S> {
    /// The message with which the game begins after the policy has explored.
    fn opening(&mut self, walk: &Walk<S>) -> String {
        self.explored.map = walk.known.clone();
        self.explored.steps = walk.steps();
        self.explored.curiosity = walk.curiosity();
        let mut said = lines(&self.explored.map, &self.config);
        self.walk = Walk::new(&self.site, shown(&self.explored.map, &self.config));
        said.push(self.site.see(&self.walk.state));
        said.join("\n")
    }

    fn ending(&self) -> Option<Ending> {
        self.site.ending(&self.walk.state)
    }
}

impl<S: Site> Session for Playing<S> {
    fn act(&mut self, action: &str) -> Option<String> {
        if let Some(mut walk) = self.exploring.take() {
            if action == DONE {
                return Some(self.opening(&walk));
            }
            let happened = walk.act(&self.site, &self.config, action);
            let mut said = vec![if happened { self.site.see(&walk.state) } else { NOTHING.to_owned() }];
            if let Some(ending) = self.site.ending(&walk.state) {
                self.explored.reached |= ending == Ending::Reached;
                walk.restart(&self.site);
                let ended = if ending == Ending::Reached { "goal reached" } else { "lost" };
                said.push(format!("{ended}; again"));
                said.push(self.site.see(&walk.state));
            }
            if walk.steps() >= self.config.explore_max || walk.is_dull(&self.config) {
                said.push(self.opening(&walk));
            } else {
                self.exploring = Some(walk);
            }
            return Some(said.join("\n"));
        }
        self.acted += 1;
        let happened = self.walk.act(&self.site, &self.config, action);
        self.invalid += usize::from(!happened);
        if self.ending().is_some() || self.acted >= self.config.steps_max {
            return None;
        }
        Some(if happened { self.site.see(&self.walk.state) } else { NOTHING.to_owned() })
    }

    fn next(&self) -> Option<String> {
        match &self.exploring {
            None => self.site.next(&self.walk.known, &self.walk.state),
            // What it does not know the effect of, as long as there is such a thing.
            Some(walk) => {
                let unknown = |action: &String| {
                    let after = self.site.after(&walk.state, action);
                    let learned = self.site.learned(&walk.known, &walk.state, action, after.as_ref());
                    let noticed = after.map(|after| self.site.noticed(&after)).unwrap_or_default();
                    learned.iter().chain(&noticed).any(|fact| !walk.known.contains(fact))
                };
                let found = self.site.actions(&walk.state).into_iter().find(unknown);
                Some(found.unwrap_or_else(|| DONE.to_owned()))
            }
        }
    }

    fn verdict(&self) -> Verdict {
        let ending = if self.exploring.is_some() { None } else { self.ending() };
        let success = ending == Some(Ending::Reached);
        let mut verdict = Verdict::scored("success", f64::from(u8::from(success)), success);
        let truth = self.site.truth();
        let map = self.exploring.as_ref().map_or(&self.explored.map, |walk| &walk.known);
        let right = map.iter().filter(|fact| truth.contains(fact)).count() as f64;
        let steps = self.exploring.as_ref().map_or(self.explored.steps, Walk::steps);
        let share = |count: f64, of: usize| if of == 0 { 1.0 } else { count / of as f64 };
        verdict.metrics = BTreeMap::from([
            ("explored".to_owned(), steps as f64),
            ("acted".to_owned(), self.acted as f64),
            ("steps".to_owned(), (steps + self.acted) as f64),
            ("map_precision".to_owned(), share(right, map.len())),
            ("map_recall".to_owned(), share(right, truth.len())),
            ("curiosity".to_owned(), self.explored.curiosity),
        ]);
        for section in Section::ALL {
            let count = map.iter().filter(|fact| fact.section() == section).count();
            verdict.metrics.insert(format!("map_{}", section.name()), count as f64);
        }
        verdict.flags = BTreeMap::from([
            ("lost".to_owned(), ending == Some(Ending::Lost)),
            ("invalid".to_owned(), self.invalid > 0),
            ("out_of_steps".to_owned(), ending.is_none()),
            ("reached_exploring".to_owned(), self.explored.reached),
        ]);
        verdict.feedback = (!success).then(|| match ending {
            Some(_) => "The goal can't be reached any more.".to_owned(),
            None => "The goal was not reached.".to_owned(),
        });
        verdict
    }
}

impl Turns for Box<dyn Session> {
    const ID: &str = ID;
    type Config = MappingConfig;

    fn begin(config: &MappingConfig, task: &Task) -> Result<Self, EnvError> {
        Ok(begin(&Truth::of(task)?, config))
    }

    fn act(&mut self, _: &MappingConfig, answer: &str) -> Option<String> {
        (**self).act(said(answer))
    }

    fn verdict(&self, _: &MappingConfig) -> Verdict {
        (**self).verdict()
    }
}
