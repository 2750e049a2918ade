//! The table of facts: the value of each name. No prompt states it.

use serde::{Deserialize, Serialize};

use burnish_core::rng::{Address, Purpose, Stream};

use super::config::Range;
use super::problem::Operand;

/// How the table of facts is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FactsConfig {
    /// Determines the values. It is not the run's seed: tasks of every seed use the same facts.
    pub seed: u64,
    /// Number of names: `@0`, `@1` ...
    pub count: u64,
    /// Range of the values. No two names have the same value, so that a value identifies its name.
    pub values: Range,
}

/// The table: name `n` stands for `values[n]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    values: Vec<u64>,
}

impl Facts {
    /// The table of this configuration; it has at most as many names as there are values.
    pub fn new(config: FactsConfig) -> Facts {
        let mut values: Vec<u64> = (config.values.min..=config.values.max).collect();
        Stream::new(Address::new(config.seed, Purpose::Environment).seed()).shuffle(&mut values);
        values.truncate(usize::try_from(config.count).unwrap_or(usize::MAX));
        Facts { values }
    }

    /// Every name with its value.
    pub fn operands(&self) -> Vec<Operand> {
        (0u64..).zip(&self.values).map(|(name, &value)| Operand { value, name: Some(name) }).collect()
    }

    /// The value of `name`.
    pub fn value_of(&self, name: u64) -> Option<u64> {
        self.values.get(usize::try_from(name).ok()?).copied()
    }

    /// The only name that stands for `value`.
    pub fn name_of(&self, value: u64) -> Option<u64> {
        (0u64..).zip(&self.values).find(|(_, known)| **known == value).map(|(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(seed: u64) -> FactsConfig {
        FactsConfig { seed, count: 20, values: Range { min: 1, max: 30 } }
    }

    #[test]
    fn names_and_values_are_one_to_one_and_only_the_seed_of_the_facts_decides() {
        let facts = Facts::new(config(3));
        assert_eq!(facts.operands().len(), 20);
        for Operand { value, name } in facts.operands() {
            assert!((1..=30).contains(&value));
            assert_eq!((facts.name_of(value), facts.value_of(name.unwrap())), (name, Some(value)));
        }
        assert_eq!((facts.value_of(20), facts.name_of(31)), (None, None));
        assert_eq!(facts, Facts::new(config(3)));
        assert_ne!(facts, Facts::new(config(4)));
    }
}
