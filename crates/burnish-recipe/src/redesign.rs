//! `[redesign]`: training in rounds, between which an engineer redesigns the environment (`docs/redesign.md`).

use std::path::PathBuf;

use burnish_remote::endpoint::EndpointConfig;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Method, Recipe, RecipeError, Source, bounds};

/// Most rounds.
const ROUNDS_MAX: usize = 100;

/// `[redesign]`: the recipe is one round; after each but the last, `engineer` reads what the evaluation found and writes
/// the `env.config` of the next one, which starts from the round's policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedesignSection {
    /// Rounds, each of `train.max_steps` steps on `env.tasks` tasks.
    #[serde(default = "rounds")]
    pub rounds: usize,
    /// Who redesigns.
    pub engineer: EngineerKind,
    /// The keys of `env.config` that may change; without any, all that the environment names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// What the engineer is not told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<ContextModule>,
    /// Settings of the engineers that follow a rule.
    #[serde(default)]
    pub rule: RuleSection,
    /// Where the model of the engineer `endpoint` is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EndpointConfig>,
    /// Most tokens of one answer of that model.
    #[serde(default = "tokens_max")]
    pub tokens_max: usize,
    /// Temperature of its answers; 0 is greedy.
    #[serde(default)]
    pub temperature: f32,
    /// The recipe before it was redesigned, as a run of the last round writes it down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<Given>,
    /// Where the record of the rounds is, once all but the last are made.
    #[serde(skip)]
    pub record: Option<PathBuf>,
}

fn rounds() -> usize {
    3
}

fn tokens_max() -> usize {
    4096
}

/// Who redesigns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineerKind {
    /// Nobody: the environment stays as it is.
    Identity,
    /// Chance: a value of its menu for each key.
    Random,
    /// A curriculum: every key a step towards what is harder, whatever the policy does.
    Monotone,
    /// A rule that reads the failures.
    FailureGuided,
    /// The policy that was trained: it chooses from the menus.
    Checkpoint,
    /// A model on a server that speaks OpenAI's wire format.
    Endpoint,
}

/// A part of what an engineer is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContextModule {
    /// Rates of success and of every flag, by label.
    Breakdown,
    /// What is worth knowing about tasks of the environment.
    Guideline,
    /// Earlier configurations and what came of them.
    History,
    /// What the policy does well and badly, in words.
    Summary,
    /// Numbers of the training steps.
    Training,
}

/// `[redesign.rule]`: of `monotone` and `failure_guided`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RuleSection {
    /// Places of its menu that a key moves in a round.
    pub places: usize,
    /// How far shares move in a round: 0 not at all, 1 all the way.
    pub shift: f64,
    /// Success below this is too hard (`failure_guided`).
    pub low: f64,
    /// Success above this is too easy (`failure_guided`).
    pub high: f64,
    /// The weight of tasks that are always or never solved, beside those that are solved half the time, which have 0.25
    /// (`failure_guided`).
    pub floor: f64,
}

impl Default for RuleSection {
    fn default() -> Self {
        RuleSection { places: 1, shift: 0.5, low: 0.2, high: 0.8, floor: 0.05 }
    }
}

/// `[redesign.given]`: what the run of the last round has in place of what the recipe said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Given {
    /// `env.config`.
    pub config: Value,
    /// `run.seed`.
    pub seed: u64,
    /// `policy.path`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// The hash of the recipe, by which it is known as a stage.
    pub hash: String,
}

impl RedesignSection {
    /// Whether the engineer is told this.
    pub fn tells(&self, module: ContextModule) -> bool {
        !self.without.contains(&module)
    }
}

impl Recipe {
    /// The recipe as it was before its rounds were made.
    #[must_use]
    pub fn as_given(&self) -> Recipe {
        let mut recipe = self.clone();
        if let Some(redesign) = &mut recipe.redesign {
            redesign.record = None;
            if let Some(given) = redesign.given.take() {
                recipe.env.config = given.config;
                recipe.run.seed = given.seed;
                recipe.policy.path = given.path;
            }
        }
        recipe
    }

    /// Whether its policy is that of an earlier round.
    pub fn is_last_round(&self) -> bool {
        self.redesign.as_ref().is_some_and(|redesign| redesign.given.is_some())
    }
}

/// Checks `[redesign]`.
pub(super) fn check(recipe: &Recipe, source: &Source) -> Result<(), RecipeError> {
    let Some(redesign) = &recipe.redesign else { return Ok(()) };
    let holds = |key: &str, holds: bool, rule: &str| {
        if holds { Ok(()) } else { Err(source.error(key, rule.to_owned())) }
    };
    holds(
        "redesign.rounds",
        (1..=ROUNDS_MAX).contains(&redesign.rounds),
        &format!("must be 1 to {ROUNDS_MAX} (it is {})", redesign.rounds),
    )?;
    for (is_free, rule) in [
        (
            recipe.train.method == Method::Grpo,
            "needs `train.method = \"grpo\"`: a round is played in the environment that was redesigned",
        ),
        (
            recipe.eval.tasks > 0,
            "needs `eval.tasks` above 0: the engineer reads what the evaluation of a round found",
        ),
        (
            recipe.weights.is_none(),
            "excludes `[weights]`: make the surgery a stage of its own, `policy.from`",
        ),
        (recipe.trainer.is_none(), "excludes `[trainer]`: a round starts from a checkpoint that is here"),
        (
            recipe.env.split.is_none(),
            "excludes `env.split`: every round has tasks of its own, of which no split is known",
        ),
        (recipe.train.patience.is_none(), "excludes `train.patience`: all rounds are equally long"),
    ] {
        holds("redesign", is_free, rule)?;
    }
    let twice = redesign.keys.iter().enumerate().find(|(at, key)| redesign.keys[..*at].contains(key));
    if let Some((_, key)) = twice {
        return Err(source.error("redesign.keys", format!("names `{key}` twice")));
    }
    let reads_failures = redesign.engineer == EngineerKind::FailureGuided;
    holds(
        "redesign.without",
        !reads_failures || redesign.tells(ContextModule::Breakdown),
        "must not name \"breakdown\" with `engineer = \"failure_guided\"`: it is what that rule reads",
    )?;
    check_rule(&redesign.rule, &holds)?;
    let is_asked = redesign.engineer == EngineerKind::Endpoint;
    match &redesign.endpoint {
        None => holds(
            "redesign.engineer",
            !is_asked,
            "is \"endpoint\", so `redesign.endpoint` must say where the model is: `{ url = \"...\", model = \"...\" }`",
        )?,
        Some(endpoint) => {
            let rule = "has no use: only `redesign.engineer = \"endpoint\"` asks a server";
            holds("redesign.endpoint", is_asked, rule)?;
            endpoint
                .check()
                .map_err(|(key, rule)| source.error(&format!("redesign.endpoint.{key}"), rule.to_owned()))?;
        }
    }
    let tokens = 1..=bounds::TOKENS_MAX as usize;
    let rule = format!("must be 1 to {}", bounds::TOKENS_MAX);
    holds("redesign.tokens_max", tokens.contains(&redesign.tokens_max), &rule)?;
    let temperature = redesign.temperature;
    let rule = "must be 0 (greedy) or more";
    holds("redesign.temperature", temperature >= 0.0 && temperature.is_finite(), rule)
}

fn check_rule(
    rule: &RuleSection,
    holds: &dyn Fn(&str, bool, &str) -> Result<(), RecipeError>,
) -> Result<(), RecipeError> {
    holds("redesign.rule.places", (1..=1000).contains(&rule.places), "must be 1 to 1000")?;
    holds("redesign.rule.shift", (0.0..=1.0).contains(&rule.shift), "must be 0 to 1")?;
    holds("redesign.rule.low", (0.0..=1.0).contains(&rule.low), "must be 0 to 1")?;
    let is_above = rule.high > rule.low && rule.high <= 1.0;
    holds("redesign.rule.high", is_above, "must be above `redesign.rule.low`, and 1 at most")?;
    holds("redesign.rule.floor", rule.floor > 0.0 && rule.floor <= 1.0, "must be above 0, and 1 at most")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{SMALL, read};

    #[test]
    fn the_evaluation_of_all_rounds_is_that_of_the_first_environment() {
        let recipe = read(SMALL, &["redesign={engineer=\"identity\"}"]).unwrap();
        let redesign = recipe.redesign.clone().unwrap();
        assert_eq!((redesign.rounds, redesign.rule), (3, RuleSection::default()));
        assert_eq!(recipe.eval.config.as_ref(), Some(&recipe.env.config), "it is written down");
        assert_eq!(read(&recipe.to_toml().unwrap(), &[]).unwrap(), recipe);
        assert_eq!(read(SMALL, &[]).unwrap().eval.config, None);
    }

    #[test]
    fn the_recipe_before_its_rounds_comes_back() {
        let recipe = read(SMALL, &["redesign={engineer=\"random\", rounds=2}"]).unwrap();
        let mut last = recipe.clone();
        last.env.config["numbers"]["max"] = 6.into();
        last.run.seed = 77;
        last.policy.path = Some("round".into());
        let (config, seed, path) = (recipe.env.config.clone(), recipe.run.seed, recipe.policy.path.clone());
        let given = Given { config, seed, path, hash: "aa".to_owned() };
        last.redesign.as_mut().unwrap().given = Some(given);
        last.redesign.as_mut().unwrap().record = Some("record".into());
        assert!(last.is_last_round() && !recipe.is_last_round());
        assert_eq!(last.as_given(), recipe);
        assert_eq!(recipe.as_given(), recipe);
    }

    #[test]
    fn what_is_wrong_is_named_by_its_key() {
        for (redesign, also, parts) in [
            ("engineer=\"idenity\"", "", &["redesign", "identity"][..]),
            ("rounds=2", "", &["redesign", "engineer"]),
            ("engineer=\"random\", rounds=0", "", &["redesign.rounds", "1 to 100 (it is 0)"]),
            ("engineer=\"random\", round=2", "", &["round", "did you mean `rounds`"]),
            ("engineer=\"random\"", "eval.tasks=0", &["redesign", "`eval.tasks` above 0"]),
            ("engineer=\"random\"", "env.split={keep=\"wrong\"}", &["split"]),
            ("engineer=\"random\", keys=[\"a\", \"a\"]", "", &["redesign.keys", "twice"]),
            (
                "engineer=\"random\", keys=[\"numbers.most\"]",
                "",
                &["redesign.keys", "numbers.most", "numbers.max"],
            ),
            (
                "engineer=\"failure_guided\", without=[\"breakdown\"]",
                "",
                &["redesign.without", "what that rule reads"],
            ),
            ("engineer=\"random\", without=[\"histroy\"]", "", &["redesign.without", "history"]),
            ("engineer=\"endpoint\"", "", &["redesign.engineer", "`redesign.endpoint` must say"]),
            (
                "engineer=\"random\", endpoint={url=\"http://x\", model=\"m\"}",
                "",
                &["redesign.endpoint", "has no use"],
            ),
            (
                "engineer=\"endpoint\", endpoint={url=\"x\", model=\"m\"}",
                "",
                &["redesign.endpoint.url", "http://"],
            ),
            ("engineer=\"monotone\", rule={places=0}", "", &["redesign.rule.places", "1 to 1000"]),
            ("engineer=\"monotone\", rule={shift=1.5}", "", &["redesign.rule.shift", "0 to 1"]),
            (
                "engineer=\"monotone\", rule={low=0.9}",
                "",
                &["redesign.rule.high", "above `redesign.rule.low`"],
            ),
            ("engineer=\"monotone\", rule={floor=0.0}", "", &["redesign.rule.floor", "above 0"]),
            ("engineer=\"random\", tokens_max=0", "", &["redesign.tokens_max"]),
            ("engineer=\"random\", temperature=-1.0", "", &["redesign.temperature"]),
        ] {
            let table = format!("redesign={{{redesign}}}");
            let changes: Vec<&str> = [table.as_str(), also].into_iter().filter(|it| !it.is_empty()).collect();
            let error = read(SMALL, &changes).unwrap_err();
            assert!(parts.iter().all(|part| error.contains(part)), "{redesign} {also}: {error}");
        }
    }
}
