//! Guesses which name was meant by an unknown one.

/// Least similarity, by the measure of Jaro and Winkler (1 for equal names), at which two names are near each other.
const LIKENESS_MIN: f64 = 0.75;

/// The names of `known` that are near `given`, the nearest first. Case is ignored.
pub fn near<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let given = given.to_lowercase();
    let likeness = |name: &str| strsim::jaro_winkler(&given, &name.to_lowercase());
    let mut near: Vec<(f64, &str)> = known.into_iter().map(|name| (likeness(name), name)).collect();
    near.retain(|(likeness, _)| *likeness > LIKENESS_MIN);
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    near.into_iter().map(|(_, name)| name).collect()
}

/// Which of `known` was probably meant by `given`.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    near(given, known).into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_comes_first_and_what_is_far_does_not_come() {
        let known = ["reward", "grad_norm", "reward_std", "kl"];
        assert_eq!(near("rewrad", known), ["reward", "reward_std"]);
        assert_eq!(nearest("Grad_Nrom", known), Some("grad_norm"));
        assert_eq!(nearest("zebra", known), None);
        assert_eq!(nearest("a", []), None);
    }
}
