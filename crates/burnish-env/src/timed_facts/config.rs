//! The configuration of the environment.

use burnish_verify::abstention::Measure;
use serde::{Deserialize, Serialize};

use super::draw::{ENTITIES, PEOPLE, ROLES};
use crate::settings::{check_bounds, config_error};
use crate::{BoundRow, EnvError};

pub use crate::settings::PromptStyle;

/// The years that facts may cover, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Years {
    /// The first.
    pub first: u32,
    /// The last.
    pub last: u32,
}

/// The rewards of a response.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reward {
    /// The component `format`: the response has the required form.
    pub format: f64,
    /// The component `answer` for a right abstention.
    pub abstention: f64,
    /// The component `answer` for an answer to an answerable question.
    pub measure: Measure,
}

impl Default for Reward {
    /// Those of the paper.
    fn default() -> Self {
        Reward { format: 0.5, abstention: 1.0, measure: Measure::RougeAndExact }
    }
}

/// The configuration of timed facts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Number of facts in a context.
    pub facts: usize,
    /// Number of relations (pairs of entity and role), over which the facts are spread as evenly as possible.
    pub relations: usize,
    /// The years that facts may cover.
    pub years: Years,
    /// Share of the questions that have no answer.
    pub unanswerable: f64,
    /// Share of the unanswerable questions that ask for a relation without facts; the others ask for a year in a gap,
    /// or for who came after the last one.
    pub unknown: f64,
    /// Share of the questions that ask who came after somebody, both among the answerable and among the unanswerable
    /// ones.
    pub hard: f64,
    /// Number of names for entities.
    pub entities: usize,
    /// Number of names for roles.
    pub roles: usize,
    /// Number of names for people.
    pub people: usize,
    /// The rewards of a response.
    pub reward: Reward,
    /// The style of the prompt.
    pub prompt: PromptStyle,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            facts: 6,
            relations: 2,
            years: Years { first: 1950, last: 1989 },
            unanswerable: 0.2,
            unknown: 0.3,
            hard: 0.3,
            entities: 8,
            roles: 4,
            people: 16,
            reward: Reward::default(),
            prompt: PromptStyle::Short,
        }
    }
}

/// Largest share of unanswerable questions: beyond that, hardly any question can be answered.
const UNANSWERABLE_MAX: f64 = 0.9;
/// Most years that may be covered.
const SPAN_MAX: u32 = 500;

/// The bounds of the numeric keys that may be changed.
pub(super) const BOUNDS: &[BoundRow] = &[
    ("facts", 2.0, 60.0, "facts in a context"),
    ("relations", 1.0, 12.0, "relations that share the facts"),
    ("years.first", 1.0, 9_999.0, "first year that facts may cover"),
    ("years.last", 1.0, 9_999.0, "last year that facts may cover"),
    ("unanswerable", 0.0, UNANSWERABLE_MAX, "share of the questions that have no answer"),
    ("unknown", 0.0, 1.0, "share of the unanswerable questions that ask for an unknown relation"),
    ("hard", 0.0, 1.0, "share of the questions that ask who came after somebody"),
    ("entities", 1.0, ENTITIES.len() as f64, "names of entities that are used"),
    ("roles", 1.0, ROLES.len() as f64, "names of roles that are used"),
    ("people", 2.0, PEOPLE.len() as f64, "names of people that are used"),
    ("reward.format", -10.0, 10.0, "reward of the form"),
    ("reward.abstention", -10.0, 10.0, "reward of a right abstention"),
];

impl Config {
    /// Checks what the types do not express.
    ///
    /// # Errors
    /// Names the first key that is out of its bounds or contradicts another.
    pub(super) fn check(&self) -> Result<(), EnvError> {
        check_bounds(self, BOUNDS)?;
        if self.facts < 2 * self.relations {
            return Err(config_error(
                "facts",
                &format!(
                    "{} facts do not give each of {} relations two; nearest: {}",
                    self.facts,
                    self.relations,
                    2 * self.relations
                ),
            ));
        }
        let pairs = self.entities * self.roles;
        if pairs <= self.relations {
            let problem = format!(
                "{} entities with {} roles are {pairs} relations; {} and one that is unknown are needed; nearest: {}",
                self.entities,
                self.roles,
                self.relations,
                (self.relations + 1).div_ceil(self.roles)
            );
            return Err(config_error("entities", &problem));
        }
        let most = self.facts.div_ceil(self.relations);
        if self.people < most {
            let problem = format!(
                "{} people are too few for {most} facts of one relation, where nobody comes twice; nearest: {most}",
                self.people
            );
            return Err(config_error("people", &problem));
        }
        // Two years per fact, and as many again so that most draws have a gap of two years.
        let span = 4 * most as u32;
        let Years { first, last } = self.years;
        if last + 1 < first + span {
            let nearest = first + span - 1;
            let problem = format!(
                "{first} to {last} are too few years for {most} facts of one relation with gaps between; nearest: {nearest}"
            );
            return Err(config_error("years.last", &problem));
        }
        if last - first >= SPAN_MAX {
            let nearest = first + SPAN_MAX - 1;
            let problem = format!("at most {SPAN_MAX} years are allowed; nearest: {nearest}");
            return Err(config_error("years.last", &problem));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::read;
    use serde_json::{Value, json};

    fn problem(given: Value) -> String {
        read::<Config>(&given).and_then(|config| config.check()).unwrap_err().to_string()
    }

    #[test]
    fn a_contradiction_is_named_with_a_value_that_would_do() {
        for (given, expected) in [
            (
                json!({"unanswerable": 0.95}),
                "unanswerable: 0.95 is out of range: 0 to 0.9 are allowed; nearest: 0.9",
            ),
            (json!({"facts": 3}), "facts: 3 facts do not give each of 2 relations two; nearest: 4"),
            (json!({"people": 2}), "people: 2 people are too few for 3 facts of one relation"),
            (json!({"entities": 1, "roles": 2}), "entities: 1 entities with 2 roles are 2 relations"),
            (json!({"years": {"last": 1955}}), "years.last: 1950 to 1955 are too few years for 3 facts"),
            (json!({"years": {"last": 1900}}), "years.last: 1950 to 1900 are too few years"),
            (json!({"years": {"first": 1}}), "years.last: at most 500 years are allowed; nearest: 500"),
            (json!({"unanswered": 0.1}), "unanswered: unknown field"),
            (json!({"reward": {"measure": "bleu"}}), "reward.measure: unknown variant `bleu`"),
            (json!({"facts": -1}), "facts: invalid value"),
        ] {
            let found = problem(given.clone());
            assert!(found.starts_with(expected), "{given}: {found}");
        }
        for nearest in [
            json!({"facts": 4}),
            json!({"people": 3}),
            json!({"entities": 2, "roles": 2}),
            json!({"years": {"last": 1961}}),
            json!({"years": {"first": 1, "last": 500}}),
        ] {
            assert!(read::<Config>(&nearest).unwrap().check().is_ok(), "{nearest}");
        }
    }
}
