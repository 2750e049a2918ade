//! Exploring: what is done, what is learned, and when it is enough.
//!
//! A step's reward is `facts * |K' \ K| + states / sqrt(N(s'))` with the facts K that are known and the visits N of the state
//! that the step leads to. **Reconstructed**: the paper (MAP, arXiv:2605.13037) names a dual intrinsic reward and a stop when
//! both have converged; this form of them is ours.

use std::collections::HashMap;

use burnish_core::rng::Stream;
use serde::{Deserialize, Serialize};

use super::config::{Explorer, MappingConfig};
use super::rewards::Rewards;
use super::site::{Ending, Facts, Site};

/// The action by which a policy ends its exploring.
pub(crate) const DONE: &str = "done";

/// A walk through a game, and what it has taught.
#[derive(Debug, Clone)]
pub(super) struct Walk<S: Site> {
    pub(super) state: S::State,
    pub(super) known: Facts,
    /// Visits of each state.
    visits: HashMap<S::State, usize>,
    /// The two rewards of each step.
    rewards: Rewards,
}

/// What exploring came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Explored {
    /// What was learned.
    pub(super) map: Facts,
    /// Steps that it took.
    pub(super) steps: usize,
    /// The sum of its rewards.
    pub(super) curiosity: f64,
    /// Whether the goal was reached on the way, which does not count.
    pub(super) reached: bool,
}

impl<S: Site> Walk<S> {
    /// A walk from the start of a game by somebody who knows `known`.
    pub(super) fn new(site: &S, known: Facts) -> Self {
        let state = site.start();
        let mut walk = Walk {
            state: state.clone(),
            known,
            visits: HashMap::from([(state, 1)]),
            rewards: Rewards::default(),
        };
        walk.known.extend(site.noticed(&walk.state));
        walk
    }

    /// Takes an action. Returns whether anything happened.
    pub(super) fn act(&mut self, site: &S, config: &MappingConfig, action: &str) -> bool {
        let after = site.after(&self.state, action);
        let before = self.known.len();
        let learned = site.learned(&self.known, &self.state, action, after.as_ref());
        self.known.extend(learned);
        let happened = after.is_some();
        if let Some(after) = after {
            self.state = after;
        }
        self.known.extend(site.noticed(&self.state));
        let visits = self.visits.entry(self.state.clone()).or_default();
        *visits += 1;
        let facts = (self.known.len() - before) as f64;
        let rare = 1.0 / (*visits as f64).sqrt();
        self.rewards.add(config.curiosity.facts * facts, config.curiosity.states * rare);
        happened
    }

    /// Begins the game again, with what is known.
    pub(super) fn restart(&mut self, site: &S) {
        self.state = site.start();
    }

    /// Steps so far.
    pub(super) fn steps(&self) -> usize {
        self.rewards.steps()
    }

    /// Whether exploring has become dull: both rewards, on average over the window.
    pub(super) fn is_dull(&self, config: &MappingConfig) -> bool {
        self.rewards.is_dull(config.window, config.converged)
    }

    /// The sum of all rewards.
    pub(super) fn curiosity(&self) -> f64 {
        self.rewards.sum()
    }
}

/// Lets a program explore a game of which `known` is known.
pub(super) fn explore<S: Site>(
    site: &S,
    config: &MappingConfig,
    known: &Facts,
    stream: &mut Stream,
) -> Explored {
    if config.explore_max == 0 {
        // Who does not explore has no map of what is in sight anyway.
        return Explored { map: known.clone(), steps: 0, curiosity: 0.0, reached: false };
    }
    let mut walk = Walk::new(site, known.clone());
    let mut tried: HashMap<(S::State, String), usize> = HashMap::new();
    let mut reached = false;
    while walk.steps() < config.explore_max && !walk.is_dull(config) {
        let mut actions = site.actions(&walk.state);
        if actions.is_empty() {
            break;
        }
        stream.shuffle(&mut actions);
        let count = |action: &String| tried.get(&(walk.state.clone(), action.clone())).copied().unwrap_or(0);
        let chosen = match config.explorer {
            Explorer::Random => actions.first(),
            Explorer::Curious | Explorer::Policy => actions.iter().min_by_key(|action| count(action)),
        };
        let Some(action) = chosen.cloned() else { break };
        *tried.entry((walk.state.clone(), action.clone())).or_default() += 1;
        walk.act(site, config, &action);
        if let Some(ending) = site.ending(&walk.state) {
            reached |= ending == Ending::Reached;
            walk.restart(site);
        }
    }
    Explored { steps: walk.steps(), curiosity: walk.curiosity(), reached, map: walk.known }
}

/// The lines of a map: a line for each section that is shown and not empty.
pub(super) fn lines(map: &Facts, config: &MappingConfig) -> Vec<String> {
    config
        .sections
        .iter()
        .filter_map(|section| {
            let facts: Vec<String> =
                map.iter().filter(|fact| fact.section() == *section).map(ToString::to_string).collect();
            (!facts.is_empty()).then(|| format!("{} {}", section.name(), facts.join("; ")))
        })
        .collect()
}

/// The part of a map that is shown.
pub(super) fn shown(map: &Facts, config: &MappingConfig) -> Facts {
    map.iter().filter(|fact| config.sections.contains(&fact.section())).cloned().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::config::Curiosity;
    use super::super::grid::Grid;
    use super::*;

    /// A walk on a small grid, with what each step earns worked out by hand.
    #[test]
    fn a_step_earns_its_new_facts_and_one_over_the_root_of_the_visits() {
        let grid = json!({
            "size": 3, "moves": [0, 1, 2, 3], "walls": [[1, 0]], "pits": [[0, 2]],
            "start": [0, 0], "goal": [2, 2],
        });
        let site: Grid = serde_json::from_value(grid).unwrap();
        let curiosity = Curiosity { facts: 2.0, states: 3.0 };
        let config = MappingConfig { curiosity, ..MappingConfig::default() };
        // The start is known and counts as visited when the walk begins.
        let mut walk = Walk::new(&site, Facts::new());
        let take = |walk: &mut Walk<Grid>, action: &str, facts: f64, visits: f64| {
            let before = walk.curiosity();
            walk.act(&site, &config, action);
            let (earned, expected) = (walk.curiosity() - before, 2.0 * facts + 3.0 / visits.sqrt());
            assert!((earned - expected).abs() < 1e-12, "{action}: {earned}, not {expected}");
        };
        // `b` goes down, and that field is free.
        take(&mut walk, "b", 2.0, 1.0);
        // `a` goes up, back to the start.
        take(&mut walk, "a", 1.0, 2.0);
        // Something is in the way of `d`, but nobody knows where it leads.
        take(&mut walk, "d", 0.0, 3.0);
        // The edge is no fact, and an action that is none is a step too.
        take(&mut walk, "a", 0.0, 4.0);
        take(&mut walk, "jump", 0.0, 5.0);
        take(&mut walk, "b", 0.0, 2.0);
        // `d` goes right, and that field is free; above it is a wall.
        take(&mut walk, "d", 2.0, 1.0);
        take(&mut walk, "a", 1.0, 2.0);
        // `c` goes left, to where the walk was twice.
        take(&mut walk, "c", 1.0, 3.0);
        // A pit.
        take(&mut walk, "b", 1.0, 1.0);
        // To begin again is no step: the start was visited five times, and now it is a sixth.
        walk.restart(&site);
        take(&mut walk, "d", 0.0, 6.0);
        take(&mut walk, "b", 0.0, 4.0);
        assert_eq!((walk.steps(), walk.known.len()), (12, 9));
    }
}
