//! `eval.strategy`: evaluations answer by a strategy, which the recipe names or another one makes.

use std::path::PathBuf;

use burnish_core::Sampling;
use burnish_reason::StrategyConfig;
use burnish_rl::catalogue::no_settings;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::asked::check_strategy;
use super::{Recipe, RecipeError, Source, StageRecipe, StageUse, StrategySection, rounds};

/// `eval.strategy`: `{ strategy = "majority", config = { samples = 8 } }` or `{ from = "recipes/search.toml" }`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvalStrategy {
    /// The strategy's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<String>,
    /// The strategy's own settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Value>,
    /// Instead: the recipe whose run makes it (`make.kind = "strategy"`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<StageRecipe>,
    /// The place of what that recipe made, once it is made.
    #[serde(skip)]
    pub made: Option<PathBuf>,
}

impl EvalStrategy {
    /// The strategy, if the recipe itself names it.
    pub fn named(&self) -> Option<StrategyConfig> {
        let config = self.config.clone().unwrap_or_else(no_settings);
        self.strategy.clone().map(|strategy| StrategyConfig { strategy, config })
    }
}

impl StrategySection {
    /// Checks that evaluations of `recipe` can be played by this strategy.
    ///
    /// # Errors
    /// The key that is wrong, and what it must be.
    pub fn check_evaluations(&self, recipe: &Recipe) -> Result<(), (String, String)> {
        let plain = StrategyConfig { strategy: self.strategy.clone(), config: self.config.clone() };
        let asks = self.skill.is_some() || self.deliberator.is_some() || self.judge.is_some();
        if asks || plain.build().is_ok_and(|built| built.reward_model().is_some()) {
            let rule = "asks others than the policy, for which `burnish eval --strategy` is made";
            return Err(("strategy".into(), rule.into()));
        }
        let further = recipe.further_evaluations().into_iter().map(|further| further.sampling);
        let each: Vec<Sampling> = std::iter::once(recipe.evaluation().sampling).chain(further).collect();
        each.iter().try_for_each(|sampling| check_strategy(&plain, sampling, None))
    }
}

/// Checks `eval.strategy`, and writes all of its settings out.
pub(super) fn check(recipe: &mut Recipe, source: &Source) -> Result<(), RecipeError> {
    let is_given = rounds::gives(recipe, StageUse::Strategy);
    let wrong = |key: &str, rule: &str| Err(source.error(&format!("eval.{key}"), rule.to_owned()));
    for (key, is_set) in [("draft", recipe.eval.draft), ("cycle", recipe.eval.cycle)] {
        if is_set && (is_given || recipe.eval.strategy.is_some()) {
            return wrong(key, "can't be combined with `eval.strategy`");
        }
    }
    let Some(strategy) = &recipe.eval.strategy else { return Ok(()) };
    let is_made = is_given || strategy.from.is_some();
    let Some(named) = strategy.named() else {
        return match (is_made, &strategy.config) {
            (_, Some(_)) => {
                wrong("strategy.config", "has no use: it holds the settings of `eval.strategy.strategy`")
            }
            (true, None) => Ok(()),
            (false, None) => wrong(
                "strategy",
                "must name a strategy, or a recipe that makes one: `{ from = \"recipes/search.toml\" }`",
            ),
        };
    };
    if is_made {
        return wrong("strategy.strategy", "excludes `from`: give one of them");
    }
    let named = StrategySection::plain(named).complete();
    let named = named.map_err(|(key, problem)| source.refused(&format!("eval.strategy.{key}"), problem))?;
    let checked = named.check_evaluations(recipe);
    checked.map_err(|(key, problem)| source.refused(&format!("eval.{key}"), problem))?;
    recipe.eval.strategy = Some(EvalStrategy {
        strategy: Some(named.strategy),
        config: Some(named.config),
        ..EvalStrategy::default()
    });
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use crate::tests::{SMALL, read};

    #[test]
    fn a_strategy_is_written_out_and_read_back() {
        let recipe = read(SMALL, &["eval.strategy.strategy=majority", "eval.temperature=1.0"]).unwrap();
        let strategy = recipe.eval.strategy.as_ref().unwrap();
        assert_eq!(strategy.config.as_ref().unwrap()["samples"], 8);
        assert_eq!(read(&recipe.to_toml().unwrap(), &[]).unwrap(), recipe);
        let from = read(SMALL, &["eval.strategy.from=recipes/search.toml"]).unwrap();
        assert_eq!(read(&from.to_toml().unwrap(), &[]).unwrap(), from);
        assert!(!read(SMALL, &[]).unwrap().to_toml().unwrap().contains("strategy"));
    }

    #[test]
    fn what_makes_no_sense_is_named_by_its_key() {
        for (changes, parts) in [
            (
                &["eval.strategy.strategy=majorty"][..],
                &["`eval.strategy.strategy`", "did you mean `majority`"][..],
            ),
            (&["eval.strategy={}"], &["`eval.strategy`", "must name a strategy"]),
            (&["eval.strategy.config.samples=3"], &["`eval.strategy.config`", "has no use"]),
            (
                &["eval.strategy={strategy=\"majority\", from=\"a.toml\"}"],
                &["eval.strategy.strategy", "excludes `from`"],
            ),
            // Greedy answers are all the same.
            (&["eval.strategy.strategy=majority"], &["eval.strategy.config.temperature"]),
            (
                &["eval.strategy={strategy=\"majority\", config={samples=0}}", "eval.temperature=1.0"],
                &["eval.strategy.config.samples"],
            ),
            (&["eval.strategy.from=a.toml", "eval.cycle=true"], &["`eval.cycle`", "can't be combined"]),
            (
                &[
                    "eval.strategy={strategy=\"best_of_n\", config={score={by=\"reward_model\", path=\"rm\"}}}",
                    "eval.temperature=1.0",
                ],
                &["eval.strategy", "asks others than the policy"],
            ),
        ] {
            let error = read(SMALL, changes).unwrap_err();
            assert!(parts.iter().all(|part| error.contains(part)), "{changes:?}: {error}");
        }
    }
}
