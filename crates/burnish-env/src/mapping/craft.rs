//! A crafting graph: things that are mixed in pairs, which are used up, and become other things or nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use burnish_core::rng::Stream;
use serde::{Deserialize, Serialize};

use super::config::CraftConfig;
use super::site::{Ending, Fact, Facts, Site};

const NAMES: [&str; 12] =
    ["ash", "bark", "clay", "dust", "elm", "flint", "glue", "horn", "iron", "jute", "kelp", "lime"];

/// A game of crafting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Craft {
    /// What there is at first, and how much of it.
    start: BTreeMap<String, u8>,
    /// What pairs become, the lesser name first.
    recipes: Vec<(String, String, String)>,
    goal: String,
}

type Stock = BTreeMap<String, u8>;

impl Craft {
    /// Draws a game that can be won, by two mixtures or more; `None` if this draw can't.
    pub(super) fn draw(config: &CraftConfig, permuted: bool, stream: &mut Stream) -> Option<Craft> {
        // Where rules are always the same, they do not depend on the game.
        let mut fixed = Stream::new(0);
        let rules = if permuted { &mut *stream } else { &mut fixed };
        let mut names: Vec<String> = NAMES.map(str::to_owned).to_vec();
        rules.shuffle(&mut names);
        names.truncate(config.things);
        let (base, made) = names.split_at_checked(config.base)?;
        let mut pairs = BTreeSet::new();
        let mut recipes = Vec::new();
        for (at, product) in made.iter().enumerate() {
            // A product is made of what comes before it, so that nothing is made of itself.
            let sources = &names[..config.base + at];
            let pair = (0..50).find_map(|_| {
                let mut pair = [rules.index(sources.len()), rules.index(sources.len())];
                pair.sort_by_key(|at| &sources[*at]);
                pairs.insert(pair.map(|at| sources[at].clone())).then(|| pair.map(|at| sources[at].clone()))
            });
            let [one, other] = pair?;
            recipes.push((one, other, product.clone()));
        }
        let goal = made.get(stream.index(made.len()))?.clone();
        let mut start: Stock = base.iter().map(|name| (name.clone(), 0)).collect();
        needed(&recipes, &goal, &mut start, 0)?;
        for _ in 0..config.spare {
            let name = &base[stream.index(base.len())];
            *start.get_mut(name)? += 1;
        }
        start.retain(|_, count| *count > 0);
        let game = Craft { start, recipes, goal };
        let depth = game.way(&game.truth(), &game.start)?.len();
        (depth >= 2 && depth <= config.mixtures).then_some(game)
    }

    fn made_of(&self, one: &str, other: &str) -> Option<&String> {
        let (one, other) = if one <= other { (one, other) } else { (other, one) };
        self.recipes.iter().find(|(a, b, _)| a == one && b == other).map(|(.., made)| made)
    }

    /// The mixtures that lead to the goal soonest by the recipes that are known.
    fn way(&self, known: &Facts, from: &Stock) -> Option<Vec<String>> {
        let recipes: Vec<(&String, &String, &String)> = known
            .iter()
            .filter_map(|fact| match fact {
                Fact::Makes(one, other, Some(made)) => Some((one, other, made)),
                _ => None,
            })
            .collect();
        let mut found: BTreeMap<Stock, Option<(Stock, String)>> = BTreeMap::from([(from.clone(), None)]);
        let mut open = VecDeque::from([from.clone()]);
        while let Some(stock) = open.pop_front() {
            if stock.contains_key(&self.goal) {
                let mut actions = Vec::new();
                let mut place = &stock;
                while let Some(Some((before, action))) = found.get(place) {
                    actions.push(action.clone());
                    place = before;
                }
                actions.reverse();
                return Some(actions);
            }
            for (one, other, made) in &recipes {
                let Some(next) = mixed(&stock, one, other, Some(made)) else { continue };
                if !found.contains_key(&next) {
                    found.insert(next.clone(), Some((stock.clone(), format!("mix {one} {other}"))));
                    open.push_back(next);
                }
            }
        }
        None
    }
}

/// Adds what making `goal` takes to `start`. `None` if it goes too deep.
fn needed(recipes: &[(String, String, String)], goal: &str, start: &mut Stock, depth: usize) -> Option<()> {
    if let Some(count) = start.get_mut(goal) {
        *count = count.checked_add(1)?;
        return Some(());
    }
    let (one, other, _) = recipes.iter().find(|(.., made)| made == goal).filter(|_| depth < 6)?;
    needed(recipes, one, start, depth + 1)?;
    needed(recipes, other, start, depth + 1)
}

/// The stock after a mixture; `None` if there is not enough.
fn mixed(stock: &Stock, one: &str, other: &str, made: Option<&String>) -> Option<Stock> {
    let mut next = stock.clone();
    for name in [one, other] {
        let count = next.get_mut(name)?;
        *count = count.checked_sub(1)?;
        if *count == 0 {
            next.remove(name);
        }
    }
    if let Some(made) = made {
        *next.entry(made.clone()).or_default() += 1;
    }
    Some(next)
}

/// The two things of `mix ONE OTHER`, the lesser name first.
fn pair_of(action: &str) -> Option<(&str, &str)> {
    let mut words = action.split_whitespace();
    let (Some("mix"), Some(one), Some(other), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return None;
    };
    Some(if one <= other { (one, other) } else { (other, one) })
}

impl Site for Craft {
    type State = Stock;

    fn start(&self) -> Stock {
        self.start.clone()
    }

    fn told(&self) -> String {
        format!("goal {}", self.goal)
    }

    fn actions(&self, stock: &Stock) -> Vec<String> {
        let names: Vec<&String> = stock.keys().collect();
        let mut actions = Vec::new();
        for (at, one) in names.iter().enumerate() {
            for other in &names[at..] {
                if one != other || stock.get(*one).is_some_and(|count| *count > 1) {
                    actions.push(format!("mix {one} {other}"));
                }
            }
        }
        actions
    }

    fn after(&self, stock: &Stock, action: &str) -> Option<Stock> {
        let (one, other) = pair_of(action)?;
        mixed(stock, one, other, self.made_of(one, other))
    }

    fn see(&self, stock: &Stock) -> String {
        let have: Vec<String> = stock.iter().map(|(name, count)| format!("{name} {count}")).collect();
        if have.is_empty() { "have nothing".to_owned() } else { format!("have {}", have.join(", ")) }
    }

    fn ending(&self, stock: &Stock) -> Option<Ending> {
        match stock {
            stock if stock.contains_key(&self.goal) => Some(Ending::Reached),
            stock if self.actions(stock).is_empty() => Some(Ending::Lost),
            _ => None,
        }
    }

    fn noticed(&self, _: &Stock) -> Vec<Fact> {
        Vec::new()
    }

    fn learned(&self, _: &Facts, before: &Stock, action: &str, after: Option<&Stock>) -> Vec<Fact> {
        let (Some(after), Some((one, other))) = (after, pair_of(action)) else { return Vec::new() };
        let count = |stock: &Stock, name: &str| stock.get(name).copied().unwrap_or(0);
        let grown = after.keys().find(|name| count(after, name) > count(before, name));
        // What makes one of what it takes leaves as many as there were, but for the other.
        let kept = || {
            let lost = |name: &str| count(before, name) - count(after, name);
            [one, other].into_iter().find(|name| one != other && lost(name) == 0).map(str::to_owned)
        };
        vec![Fact::Makes(one.to_owned(), other.to_owned(), grown.cloned().or_else(kept))]
    }

    /// What all pairs make of things that can occur.
    fn truth(&self) -> Facts {
        let made = self.recipes.iter().flat_map(|(one, other, made)| [one, other, made]);
        let names: BTreeSet<&String> = self.start.keys().chain(made).collect();
        let pairs = names.iter().flat_map(|one| names.iter().map(move |other| (*one, *other)));
        pairs
            .filter(|(one, other)| one <= other)
            .map(|(one, other)| Fact::Makes(one.clone(), other.clone(), self.made_of(one, other).cloned()))
            .collect()
    }

    fn next(&self, known: &Facts, stock: &Stock) -> Option<String> {
        let way = self.way(known, stock).and_then(|way| way.into_iter().next());
        way.or_else(|| {
            let is_known = |action: &str| {
                known.iter().any(|fact| match fact {
                    Fact::Makes(one, other, _) => pair_of(action) == Some((one, other)),
                    _ => false,
                })
            };
            self.actions(stock).into_iter().find(|action| !is_known(action))
        })
    }
}
