//! Which parameters are left as they are, by the names they have in checkpoints.

use std::collections::BTreeSet;
use std::path::Path;

use burnish_core::names::nearest;

use crate::ModelError;

/// For each of `names`, whether one of the `patterns` is its name. In a pattern `*` stands for any characters, dots
/// too.
///
/// # Errors
/// If a pattern is nobody's name, or all of them leave nothing to train.
pub(crate) fn frozen(names: &[String], patterns: &[String], dir: &Path) -> Result<Vec<bool>, ModelError> {
    let refused = |pattern: &str, problem: String| {
        let (pattern, path) = (pattern.to_owned(), dir.to_owned());
        Err(ModelError::Freeze { pattern, path, problem })
    };
    for pattern in patterns {
        if !names.iter().any(|name| is_match(pattern, name)) {
            let problem = match meant(names, pattern) {
                Some(name) => format!("is the name of no parameter; nearest: `{name}`"),
                None => "is the name of no parameter; `burnish weights inspect` lists them".to_owned(),
            };
            return refused(pattern, problem);
        }
    }
    let is_frozen = |name: &String| patterns.iter().any(|pattern| is_match(pattern, name));
    let frozen: Vec<bool> = names.iter().map(is_frozen).collect();
    match frozen.contains(&false) {
        true => Ok(frozen),
        false => refused(&patterns.join("`, `"), "leaves no parameter to train".to_owned()),
    }
}

/// Is `name` the pattern, in which `*` stands for any characters?
fn is_match(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    // The earliest place for each part leaves the most room for those after it; the last part is the end.
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

/// The name that was probably meant, written as `pattern` is: with a star for what is before its last parts, or for the
/// number of a layer.
fn meant(names: &[String], pattern: &str) -> Option<String> {
    let tail = pattern.rsplit('*').next().unwrap_or_default().trim_start_matches('.');
    let parts = tail.split('.').count();
    let of_tail = |name: &String| {
        let all: Vec<&str> = name.split('.').collect();
        all[all.len().saturating_sub(parts)..].join(".")
    };
    match pattern.contains('*') {
        true => {
            let tails: BTreeSet<String> = names.iter().map(of_tail).collect();
            nearest(tail, tails.iter().map(String::as_str)).map(|tail| format!("*.{tail}"))
        }
        false => nearest(pattern, names.iter().map(String::as_str)).map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names() -> Vec<String> {
        let of_layer = |layer: usize| {
            let name = move |part: &str| format!("model.layers.{layer}.{part}.weight");
            ["self_attn.q_proj", "self_attn.k_proj", "mlp.up_proj", "input_layernorm"].map(name)
        };
        let head = ["model.embed_tokens.weight", "model.norm.weight"].map(str::to_owned);
        head.into_iter().chain((0..11).flat_map(of_layer)).collect()
    }

    fn of(patterns: &[&str]) -> Result<Vec<String>, String> {
        let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        let frozen = frozen(&names(), &patterns, Path::new("DIR")).map_err(|error| error.to_string())?;
        Ok(names()
            .into_iter()
            .zip(frozen)
            .filter_map(|(name, is_frozen)| is_frozen.then_some(name))
            .collect())
    }

    #[test]
    fn patterns_name_parameters() {
        assert_eq!(of(&["model.norm.weight"]).unwrap(), ["model.norm.weight"]);
        assert_eq!(
            of(&["model.layers.1.*_proj.weight"]).unwrap(),
            ["self_attn.q_proj", "self_attn.k_proj", "mlp.up_proj"]
                .map(|part| format!("model.layers.1.{part}.weight"))
        );
        assert_eq!(of(&["*.q_proj.weight", "*.k_proj.weight"]).unwrap().len(), 22);
        assert_eq!(of(&["*"]).unwrap_err(), "train.freeze: `*` leaves no parameter to train (DIR)");
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_one_that_was_probably_meant() {
        for (pattern, meant) in [
            ("*.q_prj.weight", "nearest: `*.q_proj.weight`"),
            ("model.layers.*.self_attn.k_projection.weight", "nearest: `*.self_attn.k_proj.weight`"),
            ("model.embed_token.weight", "nearest: `model.embed_tokens.weight`"),
            ("q_proj", "`burnish weights inspect` lists them"),
            ("*.layers.1", "`burnish weights inspect` lists them"),
        ] {
            let error = of(&["model.norm.weight", pattern]).unwrap_err();
            assert!(error.starts_with(&format!("train.freeze: `{pattern}` is the name of no")), "{error}");
            assert!(error.contains(meant), "{error}");
        }
    }

    /// By trying every length of what a star stands for.
    fn tried(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern, name) {
            ([], name) => name.is_empty(),
            ([b'*', rest @ ..], name) => (0..=name.len()).any(|skipped| tried(rest, &name[skipped..])),
            ([letter, pattern @ ..], [first, name @ ..]) => letter == first && tried(pattern, name),
            (_, []) => false,
        }
    }

    proptest! {
        #[test]
        fn stars_stand_for_any_characters(pattern in "[ab.*]{0,6}", name in "[ab.]{0,7}") {
            prop_assert_eq!(is_match(&pattern, &name), tried(pattern.as_bytes(), name.as_bytes()));
        }
    }
}
