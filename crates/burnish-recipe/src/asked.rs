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
    Ok(())
}
