//! What can be wrong with a recipe before anything starts.

use burnish_core::SamplingError;
use burnish_env::EnvError;
use burnish_model::ModelConfig;
use burnish_rl::SettingError;
use burnish_rl::advantage::AdvantageConfig;
use burnish_rl::rules::{self, Setup};
use burnish_tensor::Device;
use serde_json::Value;

use crate::grpo::SUPPLIED;

use super::{Method, Recipe, RecipeError, Source};

/// Checks ranges and combinations, and completes the environments' configurations with their defaults.
pub(super) fn check(recipe: &mut Recipe, source: &Source) -> Result<(), RecipeError> {
    let ranges = Ranges { source };
    Device::check_name(&recipe.device)
        .map_err(|error| source.error("device", format!("can't be used: {error}")))?;
    let Recipe { train, rollout, optimizer, eval, checkpoint, .. } = &*recipe;
    ranges.at_least_one("train.max_steps", train.max_steps as usize)?;
    ranges.at_least_one("train.epochs", train.epochs)?;
    ranges.at_least_one("train.minibatches", train.minibatches)?;
    ranges.at_least_one("train.sequences_per_step", train.sequences_per_step)?;
    ranges.at_least_one("train.micro_batch_tokens", train.micro_batch_tokens)?;
    ranges.at_least_one("env.tasks", recipe.env.tasks)?;
    ranges.at_least_one("eval.rollouts", eval.rollouts)?;
    ranges.at_least_one("checkpoint.keep", checkpoint.keep)?;
    ranges.at_least_one("data.decontaminate.ngram", recipe.data.decontaminate.ngram)?;
    ranges.holds("eval.temperature", eval.temperature >= 0.0, "must be 0 (greedy) or more")?;
    ranges.positive("optimizer.learning_rate", optimizer.learning_rate)?;
    ranges.positive("optimizer.epsilon", optimizer.epsilon)?;
    ranges.share_below_one("optimizer.beta1", optimizer.beta1)?;
    ranges.share_below_one("optimizer.beta2", optimizer.beta2)?;
    ranges.not_negative("optimizer.weight_decay", optimizer.weight_decay)?;
    ranges.holds("optimizer.final_share", (0.0..=1.0).contains(&optimizer.final_share), "must be 0 to 1")?;
    ranges.not_negative("optimizer.max_grad_norm", optimizer.max_grad_norm)?;
    // Evaluation plays episodes too, whatever the method.
    ranges.at_least_one("rollout.tokens_max", rollout.tokens_max)?;
    ranges.at_least_one("rollout.turns_max", rollout.turns_max)?;
    ranges.at_least_one("rollout.batch_max", rollout.batch_max)?;
    ranges.at_least_one("rollout.cache_mib", rollout.cache_mib)?;
    let samples = rollout.temperature > 0.0 && rollout.temperature.is_finite();
    ranges.holds("rollout.temperature", samples, "must be above 0: the trainer divides by it too")?;
    ranges.sampling("rollout", rollout.sampling().check(), "")?;
    ranges.sampling("eval", eval.sampling(rollout).check(), "")?;
    for (name, weight) in &recipe.reward.weights {
        ranges.holds(&format!("reward.weights.{name}"), weight.is_finite(), "must be a finite number")?;
    }
    match train.method {
        Method::Grpo => {
            ranges.at_least_one("rollout.tasks_per_step", rollout.tasks_per_step)?;
            let compares = rollout.group_size >= 2;
            ranges.holds(
                "rollout.group_size",
                compares,
                "must be 2 or more: GRPO compares the episodes of a group",
            )?;
            if !rollout.allow_off_policy {
                let help = ", or set `rollout.allow_off_policy = true`";
                ranges.sampling("rollout", rollout.sampling().check_on_policy(), help)?;
            }
            let fits = train.minibatches <= rollout.tasks_per_step * rollout.group_size;
            ranges.holds("train.minibatches", fits, "must not exceed the number of episodes in a step")?;
            let within =
                |table, error: SettingError| source.refused(&format!("{table}.{}", error.key), error.problem);
            let loss = recipe.loss.clone().complete().map_err(|error| within("loss", error))?;
            let advantage =
                recipe.advantage.clone().complete().map_err(|error| within("advantage", error))?;
            check_supplied(&advantage, source)?;
            let episodes = rollout.tasks_per_step * rollout.group_size;
            loss.adaptive_kl.check_batch(episodes).map_err(|error| within("loss", error))?;
            let overlong = recipe.reward.overlong_buffer.check(rollout.tokens_max);
            overlong.map_err(|error| within("reward", error))?;
            let setup = Setup { loss: &loss, advantage: &advantage };
            if let Some(rule) = rules::broken(setup).next() {
                let mut error = source.error(rule.key, format!("{} [{}]", rule.reason, rule.id));
                error.help = Some(rule.nearest.to_owned());
                return Err(error);
            }
            (recipe.loss, recipe.advantage) = (loss, advantage);
        }
        Method::Sft => {
            let has_data = !recipe.data.path.is_empty() || !recipe.data.demonstrations.is_empty();
            ranges.holds(
                "data",
                has_data,
                "must give `data.path` or `data.demonstrations`: there is nothing to imitate",
            )?;
        }
    }
    check_policy(recipe, source)?;
    complete_environments(recipe, source)
}

/// Refuses an estimator that asks for what a run can't tell it.
fn check_supplied(advantage: &AdvantageConfig, source: &Source) -> Result<(), RecipeError> {
    let refused = |problem: String| source.error("advantage.estimator", problem);
    let needs = advantage.build().map_err(|error| refused(error.to_string()))?.needs();
    for (is_needed, is_supplied, what) in [
        (needs.components, SUPPLIED.components, "the components of rewards"),
        (needs.steps, SUPPLIED.steps, "turns"),
        (needs.greedy_reward, SUPPLIED.greedy_reward, "the reward of a greedy answer to each task"),
        (needs.wins, SUPPLIED.wins, "a judge of pairs"),
        (
            needs.token_statistics,
            SUPPLIED.token_statistics,
            "the squared probabilities of each token's distribution",
        ),
        (needs.values, SUPPLIED.values, "a critic"),
    ] {
        if is_needed && !is_supplied {
            return Err(refused(format!(
                "is `{}`, which needs {what}: no run has that yet",
                advantage.estimator
            )));
        }
    }
    Ok(())
}

fn check_policy(recipe: &Recipe, source: &Source) -> Result<(), RecipeError> {
    let policy = &recipe.policy;
    if let Some(lora) = &policy.lora {
        lora.check().map_err(|error| source.error("policy.lora", format!("is wrong: {error}")))?;
        if policy.new.is_some() {
            return Err(source.error("policy.lora", "needs `policy.path`: a new policy has no base".into()));
        }
        if recipe.train.method == Method::Grpo && lora.dropout > 0.0 {
            let rule = "must be 0 with `train.method = \"grpo\"`: the trainer would compute other log-probs than the \
                        sampler, and the ratio of the first update would not be 1";
            return Err(source.error("policy.lora.dropout", rule.into()));
        }
    }
    match (&policy.path, &policy.new) {
        (None, None) => Err(source.error("policy", "needs `policy.path`, a model directory".into())),
        (Some(_), Some(_)) => {
            Err(source.error("policy.new", "excludes `policy.path`: give one of them".into()))
        }
        (None, Some(_)) if recipe.train.method != Method::Sft => Err(source.error(
            "policy.new",
            "works with `train.method = \"sft\"` only: a random policy never gets a reward".into(),
        )),
        (None, Some(_)) if recipe.data.demonstrations.is_empty() => Err(source
            .error("policy.new", "needs `data.demonstrations`: the tokenizer is trained on them".into())),
        (None, Some(new)) => ModelConfig::new(new)
            .map(drop)
            .map_err(|error| source.error("policy.new", format!("makes no model: {error}"))),
        (Some(_), None) => Ok(()),
    }
}

fn complete_environments(recipe: &mut Recipe, source: &Source) -> Result<(), RecipeError> {
    complete(&recipe.env.id.clone(), "env.id", &mut recipe.env.config, "env.config", source)?;
    if let Some(config) = &mut recipe.eval.config {
        complete(&recipe.env.id, "env.id", config, "eval.config", source)?;
    }
    for (index, set) in recipe.data.demonstrations.iter_mut().enumerate() {
        let table = format!("data.demonstrations[{index}]");
        complete(
            &set.env.clone(),
            &format!("{table}.env"),
            &mut set.config,
            &format!("{table}.config"),
            source,
        )?;
    }
    Ok(())
}

fn complete(
    id: &str,
    id_key: &str,
    config: &mut Value,
    config_key: &str,
    source: &Source,
) -> Result<(), RecipeError> {
    let generator = burnish_env::build(id, config).map_err(|error| match error {
        EnvError::UnknownId { .. } => source.error(id_key, format!("is wrong: {error}")),
        EnvError::Config { key, problem } => source.refused(&format!("{config_key}.{key}"), problem),
        other => source.error(config_key, format!("is refused by the environment: {other}")),
    })?;
    *config = generator.config();
    Ok(())
}

struct Ranges<'a> {
    source: &'a Source,
}

impl Ranges<'_> {
    fn holds(&self, key: &str, holds: bool, rule: &str) -> Result<(), RecipeError> {
        if holds {
            return Ok(());
        }
        let given = self.source.get(key).map(|value| format!(" (it is {value})")).unwrap_or_default();
        Err(self.source.error(key, format!("{rule}{given}")))
    }

    fn sampling(
        &self,
        section: &str,
        checked: Result<(), SamplingError>,
        help: &str,
    ) -> Result<(), RecipeError> {
        checked.or_else(|SamplingError { field, range }| {
            self.holds(&format!("{section}.{field}"), false, &format!("must be {range}{help}"))
        })
    }

    fn at_least_one(&self, key: &str, value: usize) -> Result<(), RecipeError> {
        self.holds(key, value >= 1, "must be 1 or more")
    }

    fn positive(&self, key: &str, value: f64) -> Result<(), RecipeError> {
        self.holds(key, value > 0.0 && value.is_finite(), "must be above 0")
    }

    fn not_negative(&self, key: &str, value: f64) -> Result<(), RecipeError> {
        self.holds(key, value >= 0.0 && value.is_finite(), "must be 0 or more")
    }

    fn share_below_one(&self, key: &str, value: f64) -> Result<(), RecipeError> {
        self.holds(key, (0.0..1.0).contains(&value), "must be at least 0 and below 1")
    }
}
