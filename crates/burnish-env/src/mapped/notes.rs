//! What is noted while a text game is explored, and the map that is made of it.
//!
//! Everything here is read from what the game said: places by a text around their names, possible commands by a text before
//! their list, effects by what changed. A step's reward is the number of new facts and `1 / sqrt(N(s'))` with the visits N of
//! what it led to, as in `mapping`.

use std::collections::{BTreeMap, BTreeSet};

use burnish_core::rng::Stream;

use super::config::MappedConfig;
use crate::mapping::{Explorer, Rewards, Section};

/// The gap of a pattern.
pub(super) const GAP: &str = "{}";

/// Most characters of a sentence, a command or a place on a map.
const CHARS_MAX: usize = 100;

/// What is said of a command that ended the game.
const ENDED: &str = "that was the end";

/// What the gap of a pattern stands for in a text: in the last line in which it is found. A pattern that ends with its gap
/// takes the rest of the line, one that begins with it the line's beginning.
pub(super) fn gap<'t>(pattern: &str, text: &'t str) -> Option<&'t str> {
    let (left, right) = pattern.split_once(GAP)?;
    text.lines().rev().find_map(|line| {
        let (_, rest) = line.split_once(left)?;
        let found = if right.is_empty() { rest } else { rest.split_once(right)?.0 };
        Some(found.trim()).filter(|found| !found.is_empty())
    })
}

/// The sentences of a text, line by line, without the lines that only name the place or list commands.
fn sentences<'t>(text: &'t str, config: &MappedConfig) -> impl Iterator<Item = &'t str> {
    let is_prose = |line: &&str| gap(&config.place, line).is_none() && gap(&config.commands, line).is_none();
    let split =
        |line: &'t str| line.split_inclusive(['.', '!', '?']).map(str::trim).filter(|it| !it.is_empty());
    text.lines().filter(is_prose).flat_map(split)
}

/// A text in one line of bounded length.
fn short(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// What a game said, and what was read from it.
#[derive(Debug, Clone, PartialEq)]
struct Sight {
    text: String,
    place: Option<String>,
    /// The possible commands, sorted, if they are listed.
    possible: Option<Vec<String>>,
}

impl Sight {
    /// Reads a text. Where it names no place, the place is the one before.
    fn of(text: &str, before: Option<&Sight>, config: &MappedConfig) -> Self {
        let place = gap(&config.place, text).map(short);
        let possible = gap(&config.commands, text).map(|list| {
            let each = list.split(&*config.separator).map(|command| command.trim().to_owned());
            let all: BTreeSet<String> = each.filter(|command| !command.is_empty()).collect();
            all.into_iter().collect()
        });
        let place = place.or_else(|| before.and_then(|before| before.place.clone()));
        Sight { text: text.to_owned(), place, possible }
    }

    /// What stands for the game's state: the place with what is possible there, or else with what was said.
    fn state(&self) -> (Option<String>, Vec<String>) {
        let seen = self.possible.clone().unwrap_or_else(|| vec![self.text.clone()]);
        (self.place.clone(), seen)
    }
}

/// What a command did at a place.
#[derive(Debug, Clone, PartialEq)]
struct Affordance {
    place: Option<String>,
    command: String,
    did: String,
    /// Whether there is something in it that must not be cut off.
    is_remarkable: bool,
}

/// Tries of a command, wherever.
#[derive(Debug, Clone, Copy, Default)]
struct Tries {
    count: usize,
    did_something: bool,
}

/// The notes of one who explores.
#[derive(Debug, Clone)]
pub(super) struct Notes {
    sight: Sight,
    layout: Vec<[String; 3]>,
    affordances: Vec<Affordance>,
    tries: BTreeMap<String, Tries>,
    /// How often each command was taken at each place.
    taken: BTreeMap<(Option<String>, String), usize>,
    visits: BTreeMap<(Option<String>, Vec<String>), usize>,
    /// The two rewards of each step.
    rewards: Rewards,
}

impl Notes {
    /// The notes of one who has read how a game begins.
    pub(super) fn new(opening: &str, config: &MappedConfig) -> Self {
        let sight = Sight::of(opening, None, config);
        Notes {
            visits: BTreeMap::from([(sight.state(), 1)]),
            sight,
            layout: Vec::new(),
            affordances: Vec::new(),
            tries: BTreeMap::new(),
            taken: BTreeMap::new(),
            rewards: Rewards::default(),
        }
    }

    /// Notes a command and what was said then: nothing if that was the end.
    pub(super) fn note(&mut self, command: &str, said: Option<&str>, config: &MappedConfig) {
        let facts = self.facts();
        let command = short(command);
        let place = self.sight.place.clone();
        *self.taken.entry((place.clone(), command.clone())).or_default() += 1;
        let did_something = match said {
            None => {
                self.afford(Affordance {
                    place,
                    command: command.clone(),
                    did: ENDED.to_owned(),
                    is_remarkable: true,
                });
                true
            }
            Some(said) => self.compare(&command, Sight::of(said, Some(&self.sight), config), config),
        };
        let tries = self.tries.entry(command).or_default();
        tries.count += 1;
        tries.did_something |= did_something;
        let visits = self.visits.entry(self.sight.state()).or_default();
        *visits += 1;
        let rare = 1.0 / (*visits as f64).sqrt();
        self.rewards.add(self.facts().saturating_sub(facts) as f64, rare);
    }

    /// Compares what is seen now with what was seen before. Returns whether the command did something.
    fn compare(&mut self, command: &str, now: Sight, config: &MappedConfig) -> bool {
        let before = std::mem::replace(&mut self.sight, now);
        let now = &self.sight;
        let said: Vec<&str> = sentences(&now.text, config).collect();
        let has = |texts: &[String], sentence: &str| texts.iter().any(|text| sentence.contains(&**text));
        let remarks = said.iter().copied().filter(|sentence| has(&config.remarks, sentence));
        let remarks: Vec<&str> = remarks.filter(|remark| said.first() != Some(remark)).collect();
        let is_remarkable = said.iter().any(|sentence| has(&config.remarks, sentence));
        let moved = now.place != before.place;
        let changed = match (&before.possible, &now.possible) {
            (Some(before), Some(now)) => before != now,
            _ => now.text != before.text,
        };
        // Only the beginning is an answer to the command; a description may say anything.
        let is_refused = said.first().is_some_and(|first| has(&config.nothing, first));
        if !moved && (is_refused || !(changed || is_remarkable)) {
            return false;
        }
        if let (true, Some(from), Some(to)) = (moved, &before.place, &now.place) {
            let way = [from.clone(), command.to_owned(), to.clone()];
            if !self.layout.contains(&way) {
                self.layout.push(way);
            }
        }
        if !moved || is_remarkable {
            let did: Vec<String> = said.first().into_iter().chain(&remarks).map(|text| short(text)).collect();
            let (place, command, did) = (before.place, command.to_owned(), did.join(" "));
            self.afford(Affordance { place, command, did, is_remarkable });
        }
        true
    }

    fn afford(&mut self, new: Affordance) {
        if !new.did.is_empty() && !self.affordances.contains(&new) {
            self.affordances.push(new);
        }
    }

    /// Facts so far: ways, effects, and commands whose effect is known.
    fn facts(&self) -> usize {
        self.layout.len() + self.affordances.len() + self.tries.len()
    }

    /// Whether the game lists what is possible now.
    pub(super) fn are_commands_listed(&self) -> bool {
        self.sight.possible.is_some()
    }

    /// What a program takes next: any command, or the one that was taken here least often, of these one whose first word was
    /// tried least. None where no commands are listed.
    pub(super) fn choose(&self, explorer: Explorer, stream: &mut Stream) -> Option<String> {
        let mut possible = self.sight.possible.clone()?;
        stream.shuffle(&mut possible);
        if explorer == Explorer::Random {
            return possible.into_iter().next();
        }
        let mut words: BTreeMap<&str, usize> = BTreeMap::new();
        for (command, tries) in &self.tries {
            *words.entry(first_word(command)).or_default() += tries.count;
        }
        let often = |command: &String| {
            let here = self.taken.get(&(self.sight.place.clone(), short(command))).copied().unwrap_or(0);
            (here, words.get(first_word(command)).copied().unwrap_or(0))
        };
        possible.into_iter().min_by_key(often)
    }

    /// Steps so far.
    pub(super) fn steps(&self) -> usize {
        self.rewards.steps()
    }

    /// Whether exploring has become dull: both rewards, on average over the window.
    pub(super) fn is_dull(&self, config: &MappedConfig) -> bool {
        self.rewards.is_dull(config.window, config.converged)
    }

    /// The sum of all rewards.
    pub(super) fn curiosity(&self) -> f64 {
        self.rewards.sum()
    }

    /// The map: its lines with their parts, at most `map_max`. Ways come first, then effects with those that must not be cut
    /// off before others, then what never did anything.
    pub(super) fn map(&self, config: &MappedConfig) -> Vec<(Section, String)> {
        let ways = self
            .layout
            .iter()
            .map(|[from, command, to]| (Section::Layout, format!("{from}: {command}: {to}")));
        let (first, second): (Vec<&Affordance>, Vec<_>) =
            self.affordances.iter().partition(|it| it.is_remarkable);
        let effects = first.into_iter().chain(second).map(|Affordance { place, command, did, .. }| {
            let place = place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
            (Section::Affordances, format!("{place}{command}: {did}"))
        });
        let rules = self.idle().into_iter().map(|rule| (Section::Rules, rule));
        let shown = ways.chain(effects).chain(rules).filter(|(section, _)| config.sections.contains(section));
        shown.take(config.map_max).collect()
    }

    /// What never did anything: commands, and first words of several commands none of which did.
    fn idle(&self) -> Vec<String> {
        let mut words: BTreeMap<&str, Vec<(&str, Tries)>> = BTreeMap::new();
        for (command, tries) in &self.tries {
            words.entry(first_word(command)).or_default().push((command, *tries));
        }
        let mut lines = Vec::new();
        for (word, commands) in words {
            if commands.len() > 1 && commands.iter().all(|(_, tries)| !tries.did_something) {
                let count: usize = commands.iter().map(|(_, tries)| tries.count).sum();
                lines.push(format!("{word} ...: never did anything ({count} tries)"));
                continue;
            }
            let idle = commands.into_iter().filter(|(_, tries)| !tries.did_something);
            lines.extend(idle.map(|(command, tries)| {
                let times =
                    if tries.count == 1 { "1 try".to_owned() } else { format!("{} tries", tries.count) };
                format!("{command}: never did anything ({times})")
            }));
        }
        lines
    }
}

fn first_word(command: &str) -> &str {
    command.split_whitespace().next().unwrap_or(command)
}
