//! The checks of a policy that is only asked, never trained: a model directory or a server.

use std::path::Path;

use burnish_core::Sampling;
use burnish_reason::StrategyConfig;
use burnish_remote::endpoint::EndpointConfig;

/// Checks that exactly one of `path` and `endpoint` is given, and is well formed.
///
/// # Errors
/// The key that is wrong, and what it must be.
pub(crate) fn check(
    path: Option<&Path>,
    endpoint: Option<&EndpointConfig>,
    tokens_max: usize,
) -> Result<(), (String, String)> {
    let wrong = |key: &str, rule: &str| Err((key.to_owned(), rule.to_owned()));
    if tokens_max == 0 {
        return wrong("tokens_max", "must be 1 or more");
    }
    match (path, endpoint) {
        (Some(_), Some(_)) => wrong("endpoint", "excludes `path`: give one of them"),
        (None, None) => wrong("endpoint", "must say which policy judges; or give `path`, a model directory"),
        (Some(_), None) => Ok(()),
        (None, Some(endpoint)) => {
            endpoint.check().map_err(|(key, rule)| (format!("endpoint.{key}"), rule.to_owned()))
        }
    }
}

/// As [`check_strategy`], of somebody who is only asked.
///
/// # Errors
/// As [`check_strategy`], and if it reads notes.
pub(crate) fn check_strategy_of_other(
    strategy: &StrategyConfig,
    sampling: &Sampling,
    endpoint: Option<&EndpointConfig>,
) -> Result<(), (String, String)> {
    check_strategy(strategy, sampling, endpoint)?;
    if strategy.build().is_ok_and(|built| built.recalls()) {
        let rule = "must not read notes: only the policy that is trained or evaluated has a `[memory]`";
        return Err(("strategy".to_owned(), rule.to_owned()));
    }
    Ok(())
}

/// Checks a strategy on top of a policy that is only asked, whose turns are sampled as `sampling` says.
///
/// # Errors
/// The key that is wrong, and what it must be.
pub(crate) fn check_strategy(
    strategy: &StrategyConfig,
    sampling: &Sampling,
    endpoint: Option<&EndpointConfig>,
) -> Result<(), (String, String)> {
    let built = strategy.build().map_err(|error| (format!("strategy.{}", error.key), error.problem))?;
    built
        .check_sampling(sampling)
        .map_err(|error| (format!("strategy.config.{}", error.key), error.problem))?;
    if built.reads_logprobs() && endpoint.is_some() {
        let rule = "must be \"judge\": a server reports no log-probs";
        return Err(("strategy.config.score.by".to_owned(), rule.to_owned()));
    }
    if built.reward_model().is_some() && endpoint.is_some() {
        let rule = "must be \"judge\": a server reports no tokens, which a reward model reads";
        return Err(("strategy.config.score.by".to_owned(), rule.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_strategy_that_makes_no_sense_is_named_by_its_key() {
        let endpoint = EndpointConfig::new("http://localhost:1/v1", "m".to_owned(), None);
        let check = |strategy: &str, config, temperature, endpoint| {
            let config = StrategyConfig { strategy: strategy.to_owned(), config };
            check_strategy(&config, &Sampling::at(temperature, 8), endpoint)
        };
        assert_eq!(check("majority", json!({}), 1.0, Some(&endpoint)), Ok(()));
        assert_eq!(check("best_of_n", json!({}), 1.0, None), Ok(()));
        for (strategy, config, temperature, endpoint, key) in [
            ("majorty", json!({}), 1.0, None, "strategy.strategy"),
            ("majority", json!({"samples": 0}), 1.0, None, "strategy.config.samples"),
            // A judge is asked greedily.
            ("majority", json!({}), 0.0, None, "strategy.config.temperature"),
            ("best_of_n", json!({}), 1.0, Some(&endpoint), "strategy.config.score.by"),
            ("best_of_n", json!({"score": {"by": "reward_model"}}), 1.0, None, "strategy.config.score.path"),
            (
                "best_of_n",
                json!({"score": {"by": "reward_model", "path": "rm"}}),
                1.0,
                Some(&endpoint),
                "strategy.config.score.by",
            ),
        ] {
            let (found, rule) = check(strategy, config, temperature, endpoint).unwrap_err();
            assert_eq!(found, key, "{rule}");
        }
        // Evaluations have a memory, and whoever is only asked has none.
        let recall = StrategyConfig::new("recall");
        assert_eq!(check_strategy(&recall, &Sampling::greedy(8), None), Ok(()));
        let (found, rule) = check_strategy_of_other(&recall, &Sampling::greedy(8), None).unwrap_err();
        assert!(found == "strategy" && rule.contains("must not read notes"), "{found}: {rule}");
    }
}
