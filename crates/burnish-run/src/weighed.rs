//! Whether `reward.weights` names the components of the reward that there are.

use std::collections::{BTreeMap, BTreeSet};

use burnish_core::Verdict;
use burnish_core::names::nearest;

/// What to tell about weights after the first step: components that are paid although nobody said so, and names that no
/// component has. `None` without weights, and where they name all components and no others.
pub(crate) fn note(weights: &BTreeMap<String, f64>, verdicts: &[&Verdict]) -> Option<String> {
    let scored = verdicts.iter().filter(|verdict| verdict.is_scored());
    let found: BTreeSet<&str> =
        scored.flat_map(|verdict| verdict.rewards.keys().map(String::as_str)).collect();
    if weights.is_empty() || found.is_empty() {
        return None;
    }
    let unnamed: Vec<&str> = found.iter().copied().filter(|name| !weights.contains_key(*name)).collect();
    let absent = weights.keys().filter(|name| !found.contains(name.as_str())).map(|name| {
        let near = nearest(name, unnamed.iter().copied()).map(|near| format!(" (did you mean `{near}`?)"));
        format!("`reward.weights.{name}`{}", near.unwrap_or_default())
    });
    let absent: Vec<String> = absent.collect();
    let mut told = Vec::new();
    if !absent.is_empty() {
        told.push(format!("no episode had the reward of {}", absent.join(", ")));
    }
    if !unnamed.is_empty() {
        let names: Vec<String> = unnamed.iter().map(|name| format!("`{name}`")).collect();
        told.push(format!("`reward.weights` does not name {}, so each counts once", names.join(", ")));
    }
    (!told.is_empty()).then(|| told.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_that_forget_a_component_or_name_none_are_told() {
        let (mut scored, unscored) = (Verdict::scored("pass", 1.0, true), Verdict::unscored("hung"));
        scored.rewards.insert("correct".into(), 1.0);
        let told = |weights: &[(&str, f64)], verdicts: &[&Verdict]| {
            note(&weights.iter().map(|(name, weight)| ((*name).to_owned(), *weight)).collect(), verdicts)
        };
        assert_eq!(told(&[], &[&scored]), None);
        assert_eq!(told(&[("pass", 1.0), ("correct", 0.0)], &[&scored]), None);
        assert_eq!(told(&[("pass", 1.0)], &[&unscored]), None);
        let forgot = told(&[("pass", 1.0)], &[&unscored, &scored]);
        assert_eq!(forgot.as_deref(), Some("`reward.weights` does not name `correct`, so each counts once"));
        let typo = told(&[("pass", 1.0), ("corect", 0.0)], &[&scored]).unwrap();
        assert!(
            typo.starts_with(
                "no episode had the reward of `reward.weights.corect` (did you mean `correct`?); "
            ),
            "{typo}"
        );
    }
}
