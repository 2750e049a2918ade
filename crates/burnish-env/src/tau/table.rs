//! One table of a database that many episodes share: an episode keeps only what it has changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

/// Records by id. Cloning costs as much as what has been changed.
#[derive(Debug, Clone)]
pub(super) struct Table<T> {
    base: Arc<BTreeMap<String, T>>,
    changed: BTreeMap<String, T>,
}

impl<T: Clone + PartialEq + Serialize> Table<T> {
    pub(super) fn new(base: BTreeMap<String, T>) -> Self {
        Table { base: Arc::new(base), changed: BTreeMap::new() }
    }

    pub(super) fn get(&self, id: &str) -> Option<&T> {
        self.changed.get(id).or_else(|| self.base.get(id))
    }

    /// The record, to be changed.
    pub(super) fn edit(&mut self, id: &str) -> Option<&mut T> {
        if !self.changed.contains_key(id) {
            let record = self.base.get(id)?.clone();
            self.changed.insert(id.to_owned(), record);
        }
        self.changed.get_mut(id)
    }

    pub(super) fn insert(&mut self, id: String, record: T) {
        self.changed.insert(id, record);
    }

    /// All records in the order of their ids.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        let new = self.changed.iter().filter(|(id, _)| !self.base.contains_key(*id));
        let mut all: Vec<(&str, &T)> = self
            .base
            .iter()
            .map(|(id, record)| (id.as_str(), self.changed.get(id).unwrap_or(record)))
            .chain(new.map(|(id, record)| (id.as_str(), record)))
            .collect();
        if all.len() > self.base.len() {
            all.sort_by_key(|(id, _)| *id);
        }
        all.into_iter()
    }

    /// The records that are not as they were at first, in the order of their ids.
    pub(super) fn differing(&self) -> impl Iterator<Item = (&str, &T)> {
        let changed = self.changed.iter().filter(|(id, record)| self.base.get(*id) != Some(record));
        changed.map(|(id, record)| (id.as_str(), record))
    }

    /// The ids of records that another state of the same table has otherwise.
    pub(super) fn differences(&self, other: &Table<T>) -> Vec<String> {
        let mut ids: Vec<&String> = self.changed.keys().chain(other.changed.keys()).collect();
        ids.sort();
        ids.dedup();
        ids.into_iter().filter(|id| self.get(id) != other.get(id)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table<u32> {
        Table::new(BTreeMap::from([("a".to_owned(), 1), ("c".to_owned(), 3)]))
    }

    #[test]
    fn a_table_keeps_what_was_changed_and_knows_what_differs() {
        let (mut one, other) = (table(), table());
        *one.edit("a").unwrap() = 5;
        assert_eq!((one.get("a"), other.get("a")), (Some(&5), Some(&1)));
        assert_eq!(one.edit("x"), None);
        one.insert("b".into(), 2);
        assert_eq!(one.iter().collect::<Vec<_>>(), [("a", &5), ("b", &2), ("c", &3)]);
        assert_eq!(one.differing().collect::<Vec<_>>(), [("a", &5), ("b", &2)]);
        assert_eq!(
            (one.differences(&other), other.differences(&one)),
            (vec!["a".into(), "b".into()], vec!["a".into(), "b".into()])
        );
        *one.edit("a").unwrap() = 1;
        assert_eq!(one.differing().collect::<Vec<_>>(), [("b", &2)]);
        assert_eq!(one.differences(&other), ["b"]);
    }
}
