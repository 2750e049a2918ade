//! Facts, questions, and their answers.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Somebody held a role of an entity from one year to another, both included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fact {
    /// The entity.
    pub entity: String,
    /// The role.
    pub role: String,
    /// First year.
    pub from: u32,
    /// Last year.
    pub to: u32,
    /// Who.
    pub person: String,
}

/// A question about the relation (entity, role).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The entity.
    pub entity: String,
    /// The role.
    pub role: String,
    /// The time that it asks about.
    pub when: When,
}

/// The time that a question asks about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum When {
    /// In a year.
    In {
        /// The year.
        year: u32,
    },
    /// Throughout these years.
    Between {
        /// First year.
        from: u32,
        /// Last year.
        to: u32,
    },
    /// Directly after somebody, even after a gap.
    After {
        /// Who.
        person: String,
    },
}

impl Fact {
    /// Does it belong to the relation that the question asks for?
    pub fn is_of(&self, question: &Question) -> bool {
        self.entity == question.entity && self.role == question.role
    }

    /// The years as text: `from 1950 to 1954`.
    pub fn interval(&self) -> String {
        format!("from {} to {}", self.from, self.to)
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.entity, self.role, self.interval(), self.person)
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ", self.entity, self.role)?;
        match &self.when {
            When::In { year } => write!(f, "in {year}?"),
            When::Between { from, to } => write!(f, "between {from} and {to}?"),
            When::After { person } => write!(f, "after {person}?"),
        }
    }
}

impl When {
    /// A name for the kind of question.
    pub fn name(&self) -> &'static str {
        match self {
            When::In { .. } => "in",
            When::Between { .. } => "between",
            When::After { .. } => "after",
        }
    }

    /// Are these years within the fact's? Never for [`When::After`].
    fn is_within(&self, fact: &Fact) -> bool {
        match self {
            When::In { year } => fact.from <= *year && *year <= fact.to,
            When::Between { from, to } => fact.from <= *from && *to <= fact.to,
            When::After { .. } => false,
        }
    }
}

impl Question {
    /// The fact that answers it, if there is one.
    pub fn answer<'f>(&self, facts: &'f [Fact]) -> Option<&'f Fact> {
        let mut known = facts.iter().filter(|fact| fact.is_of(self));
        match &self.when {
            When::After { person } => {
                let before = facts.iter().find(|fact| fact.is_of(self) && fact.person == *person)?;
                known.filter(|fact| fact.from > before.to).min_by_key(|fact| fact.from)
            }
            when => known.find(|fact| when.is_within(fact)),
        }
    }

    /// The steps to the answer: the intervals of the relation in the order of the text up to the matching one, or the
    /// interval of the named person and the one that follows it. Never the answer itself.
    pub fn steps(&self, facts: &[Fact]) -> Vec<String> {
        let mut steps = Vec::new();
        let answer = self.answer(facts);
        match &self.when {
            When::After { person } => {
                let before = facts.iter().find(|fact| fact.is_of(self) && fact.person == *person);
                if let Some(before) = before {
                    steps.push(before.interval());
                    steps.push(format!("next {}", answer.map_or_else(|| "none".to_owned(), Fact::interval)));
                }
            }
            when => {
                for fact in facts.iter().filter(|fact| fact.is_of(self)) {
                    let is_match = when.is_within(fact);
                    steps.push(format!("{} {}", fact.interval(), if is_match { "yes" } else { "no" }));
                    if is_match {
                        break;
                    }
                }
            }
        }
        if steps.is_empty() {
            steps.push("none".to_owned());
        }
        steps
    }
}
