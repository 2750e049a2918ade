//! Draws contexts and questions, such that a question has exactly the answer that its cell requires.

use burnish_core::rng::Stream;

use super::config::{Config, Years};
use super::facts::{Fact, Question, When};

/// Names of entities.
pub(super) const ENTITIES: [&str; 24] = [
    "Acme", "Borel", "Cordo", "Delft", "Elba", "Fargo", "Gibbs", "Hulme", "Indus", "Jura", "Kappa", "Lomax",
    "Motta", "Nexus", "Orbit", "Pavia", "Quito", "Rovic", "Sulis", "Tarn", "Umbra", "Vesta", "Wolin", "Yaro",
];
/// Names of roles.
pub(super) const ROLES: [&str; 12] = [
    "chair", "clerk", "coach", "owner", "dean", "editor", "guard", "judge", "mayor", "pilot", "agent", "host",
];
/// Names of people.
pub(super) const PEOPLE: [&str; 48] = [
    "Ann", "Bob", "Cal", "Dee", "Eve", "Fay", "Gus", "Hal", "Ida", "Jim", "Kay", "Lee", "Max", "Ned", "Ola",
    "Pam", "Ray", "Sue", "Tom", "Una", "Val", "Wes", "Xia", "Yan", "Zoe", "Abe", "Bea", "Cy", "Don", "Eli",
    "Flo", "Gil", "Hope", "Ivan", "Joy", "Ken", "Liz", "Mia", "Nan", "Otto", "Pia", "Rex", "Sid", "Tess",
    "Uma", "Vic", "Wyn", "Zed",
];

/// A kind of question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cell {
    pub(super) is_answerable: bool,
    pub(super) is_hard: bool,
    /// For an unanswerable question: is its relation unknown?
    pub(super) is_unknown: bool,
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let missing = match (self.is_answerable, self.is_unknown, self.is_hard) {
            (true, _, _) => "answerable=yes",
            (false, true, _) => "answerable=no missing=relation",
            (false, false, true) => "answerable=no missing=successor",
            (false, false, false) => "answerable=no missing=year",
        };
        write!(f, "{missing} difficulty={}", self.difficulty())
    }
}

impl Cell {
    pub(super) fn difficulty(&self) -> &'static str {
        if self.is_hard { "hard" } else { "easy" }
    }
}

/// Draws one candidate. `None` if the context has no room for the question (no gap is wide enough).
pub(super) fn draw(config: &Config, cell: Cell, stream: &mut Stream) -> Option<(Vec<Fact>, Question)> {
    let mut pairs: Vec<(&str, &str)> = ENTITIES[..config.entities]
        .iter()
        .flat_map(|entity| ROLES[..config.roles].iter().map(|role| (*entity, *role)))
        .collect();
    stream.shuffle(&mut pairs);
    let (known, unknown) = pairs.split_at(config.relations);
    let mut facts: Vec<Fact> = Vec::with_capacity(config.facts);
    for (index, &(entity, role)) in known.iter().enumerate() {
        let share = config.facts / config.relations + usize::from(index < config.facts % config.relations);
        facts.extend(history(config, entity, role, share, stream));
    }
    let asked = known[stream.index(known.len())];
    let of_asked: Vec<Fact> =
        facts.iter().filter(|fact| (fact.entity.as_str(), fact.role.as_str()) == asked).cloned().collect();
    let when = if cell.is_hard {
        hard(cell, &of_asked, stream)
    } else {
        easy(cell, &of_asked, config.years, stream)
    }?;
    let (entity, role) = match cell.is_unknown {
        false => asked,
        true => {
            // A relation that shares entity or role with the context, so that neither word alone gives it away.
            let near: Vec<(&str, &str)> = unknown
                .iter()
                .filter(|(entity, role)| known.iter().any(|(e, r)| e == entity || r == role))
                .copied()
                .collect();
            let from = if near.is_empty() { unknown } else { &near };
            from[stream.index(from.len())]
        }
    };
    stream.shuffle(&mut facts);
    Some((facts, Question { entity: entity.to_owned(), role: role.to_owned(), when }))
}

/// `count` facts of a relation in order of time, with gaps of any length (including none), nobody twice.
fn history(config: &Config, entity: &str, role: &str, count: usize, stream: &mut Stream) -> Vec<Fact> {
    let mut years: Vec<u32> = (config.years.first..=config.years.last).collect();
    stream.shuffle(&mut years);
    years.truncate(2 * count);
    years.sort_unstable();
    let mut people: Vec<&str> = PEOPLE[..config.people].to_vec();
    stream.shuffle(&mut people);
    years
        .chunks_exact(2)
        .zip(people)
        .map(|(ends, person)| Fact {
            entity: entity.to_owned(),
            role: role.to_owned(),
            from: ends[0],
            to: ends[1],
            person: person.to_owned(),
        })
        .collect()
}

/// After whom: anybody but the last; or the last, if the question must have no answer.
fn hard(cell: Cell, history: &[Fact], stream: &mut Stream) -> Option<When> {
    let last = history.len().checked_sub(1)?;
    let at = if cell.is_answerable || cell.is_unknown { stream.index(last) } else { last };
    Some(When::After { person: history[at].person.clone() })
}

/// A year, or two, within one fact or within one gap. An unknown relation is asked about in a year of either kind.
fn easy(cell: Cell, history: &[Fact], years: Years, stream: &mut Stream) -> Option<When> {
    let wants_pair = stream.below(2) == 1;
    let is_within = cell.is_answerable || (cell.is_unknown && stream.below(2) == 1);
    let spans = if is_within {
        history.iter().map(|fact| (fact.from, fact.to)).collect()
    } else {
        gaps(history, years)
    };
    let spans: Vec<(u32, u32)> = spans.into_iter().filter(|(from, to)| !wants_pair || from < to).collect();
    if spans.is_empty() {
        return None;
    }
    let (from, to) = spans[stream.index(spans.len())];
    let mut year = || from + stream.below(u64::from(to - from) + 1) as u32;
    if !wants_pair {
        return Some(When::In { year: year() });
    }
    let one = year();
    // Another year of the span; all others are equally likely.
    let other = from + stream.below(u64::from(to - from)) as u32;
    let other = if other >= one { other + 1 } else { other };
    Some(When::Between { from: one.min(other), to: one.max(other) })
}

/// The runs of years that no fact of the history covers.
fn gaps(history: &[Fact], years: Years) -> Vec<(u32, u32)> {
    let mut gaps = Vec::new();
    let mut free = years.first;
    for fact in history {
        if free < fact.from {
            gaps.push((free, fact.from - 1));
        }
        free = fact.to + 1;
    }
    if free <= years.last {
        gaps.push((free, years.last));
    }
    gaps
}
