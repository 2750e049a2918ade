//! The configuration of the environment.

use burnish_verify::abstention::Measure;

use super::draw::{ENTITIES, PEOPLE, ROLES};
use crate::EnvError;
use crate::family::configuration;
use crate::settings::config_error;

pub use crate::settings::PromptStyle;

configuration! {
    /// The years that facts may cover, both included.
    #[derive(Copy, Eq)]
    pub struct Years {
        first: u32 = 1950, in 1..=9_999, "first year that facts may cover";
        last: u32 = 1989, in 1..=9_999, "last year that facts may cover";
    }
}

configuration! {
    /// The rewards of a response. The defaults are those of the paper.
    #[derive(Copy)]
    pub struct Reward {
        /// The component `format`: the response has the required form.
        format: f64 = 0.5, in -10.0..=10.0, "reward of the form";
        /// The component `answer` for a right abstention.
        abstention: f64 = 1.0, in -10.0..=10.0, "reward of a right abstention";
        /// The component `answer` for an answer to an answerable question.
        measure: Measure = Measure::RougeAndExact, "measure of an answer";
    }
}

configuration! {
    /// The configuration of timed facts.
    pub struct Config {
        facts: usize = 6, in 2..=60, "facts in a context";
        /// Relations are pairs of entity and role, over which the facts are spread as evenly as possible.
        relations: usize = 2, in 1..=12, "relations that share the facts";
        years: Years, "years that facts may cover";
        unanswerable: f64 = 0.2, in 0.0..=UNANSWERABLE_MAX, "share of the questions that have no answer";
        /// The others ask for a year in a gap, or for the successor of the last one.
        unknown: f64 = 0.3, in 0.0..=1.0, "share of the unanswerable questions that ask for an unknown relation";
        /// Both among the answerable and among the unanswerable ones.
        hard: f64 = 0.3, in 0.0..=1.0, "share of the questions that ask who came after somebody";
        entities: usize = 8, in 1..=ENTITIES.len(), "names of entities that are used";
        roles: usize = 4, in 1..=ROLES.len(), "names of roles that are used";
        people: usize = 16, in 2..=PEOPLE.len(), "names of people that are used";
        reward: Reward, "rewards of a response";
        prompt: PromptStyle = PromptStyle::Short, "style of the prompt";
    }
}

/// Largest share of unanswerable questions: beyond that, hardly any question can be answered.
const UNANSWERABLE_MAX: f64 = 0.9;
/// Most years that may be covered.
const SPAN_MAX: u32 = 500;

impl Config {
    /// Checks what bounds do not express.
    ///
    /// # Errors
    /// Names the first key that contradicts another.
    pub(super) fn check(&self) -> Result<(), EnvError> {
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
    use crate::build;
    use serde_json::{Value, json};

    fn problem(given: Value) -> String {
        build("timed_facts", &given).map(drop).unwrap_err().to_string()
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
            assert!(build("timed_facts", &nearest).is_ok(), "{nearest}");
        }
    }
}
