//! Guesses which choice an unknown one was meant to be, and finds numbers that are not finite.

use std::collections::BTreeMap;

use burnish_core::names::nearest;
use toml_edit::{Item, TableLike, Value};

/// The choice that was probably meant, out of those listed in a message: serde's about a variant, or ours about an
/// id.
pub(super) fn nearest_choice(message: &str) -> Option<String> {
    let (given, known) = match message.strip_prefix("unknown variant `") {
        Some(rest) => {
            let (given, rest) = rest.split_once('`')?;
            (given, rest.split('`').skip(1).step_by(2).collect::<Vec<_>>())
        }
        None => {
            let (before, list) = message.split_once("; there are: ")?;
            (before.split('`').nth_back(1)?, list.split(", ").collect())
        }
    };
    nearest(given, known).map(str::to_owned)
}

/// The numbers of a table that are not finite, by path. Values are converted to JSON, which has no such numbers.
pub(super) fn not_finite(table: &dyn TableLike) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    in_table(table, "", &mut found);
    found
}

fn in_table(table: &dyn TableLike, prefix: &str, found: &mut BTreeMap<String, String>) {
    for (name, item) in table.iter() {
        let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
        match item {
            Item::Value(value) => in_value(value, &path, found),
            Item::Table(inner) => in_table(inner, &path, found),
            Item::ArrayOfTables(tables) => {
                for (at, inner) in tables.iter().enumerate() {
                    in_table(inner, &format!("{path}[{at}]"), found);
                }
            }
            Item::None => {}
        }
    }
}

fn in_value(value: &Value, path: &str, found: &mut BTreeMap<String, String>) {
    match value {
        Value::Float(number) if !number.value().is_finite() => {
            found.insert(path.to_owned(), number.value().to_string().to_lowercase());
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| in_value(item, &format!("{path}[{at}]"), found));
        }
        Value::InlineTable(table) => in_table(table, path, found),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_read_from_both_kinds_of_message() {
        let said = |message: &str| nearest_choice(message).unwrap_or_default();
        assert_eq!(said("unknown variant `cosin`, expected one of `constant`, `linear`, `cosine`"), "cosine");
        assert_eq!(said("unknown variant `grp`, expected `grpo` or `sft`"), "grpo");
        assert_eq!(said("is no id of the catalogue: `gpso`; there are: grpo, gspo, luspo"), "gspo");
        assert_eq!(said("unknown variant `zebra`, expected `cpu`"), "");
        assert_eq!(said("must be 1 or more"), "");
    }
}
