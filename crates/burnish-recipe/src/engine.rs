//! `[engine]`: what an engine can be asked for, and the correction of what it samples.

use burnish_core::PolicyError;
use burnish_remote::engine::Fleet;
use burnish_rl::correction::{CorrectionConfig, ProximalSource, WeightConfig, WeightLevel};
use burnish_rl::rules;

use crate::{Method, Recipe, RecipeError, Source};

/// Checks what the types don't guarantee, and that nothing is sampled in a way that an engine can't.
///
/// # Errors
/// The key that is wrong, and what it must be.
pub(super) fn check(recipe: &Recipe, source: &Source) -> Result<(), RecipeError> {
    let Some(config) = &recipe.engine else { return Ok(()) };
    config.check().map_err(|(key, rule)| source.refused(&format!("engine.{key}"), rule.to_owned()))?;
    let unable = |table: &str| {
        let table = table.to_owned();
        move |error: PolicyError| {
            source.refused(&table, format!("asks for something that no `[engine]` does exactly: {error}"))
        }
    };
    if recipe.train.method == Method::Grpo {
        Fleet::ABILITIES.check_sampling(&recipe.rollout_sampling()).map_err(unable("rollout"))?;
        if recipe.rollout.policy_lag > 0 {
            let problem = "must be 0 with `[engine]`, which always has the newest weights".to_owned();
            return Err(source.refused("rollout.policy_lag", problem));
        }
    }
    let eval = recipe.eval_sampling();
    Fleet::ABILITIES.check_sampling(&eval).map_err(unable("eval"))
}

/// Switches on a correction where an engine or a server samples and the recipe says none: it rounds differently from the
/// trainer, so its tokens come from a slightly different policy. Log-probs are then computed again by the trainer, and
/// each token has the ratio of both as its weight, up to a bound, as far as the objective takes them.
pub(super) fn correct(recipe: &mut Recipe, source: &Source) {
    let says_some = source.get("loss.correction").is_some();
    if !recipe.samples_elsewhere() || recipe.train.method != Method::Grpo || says_some {
        return;
    }
    let weight = WeightConfig { level: WeightLevel::Token, ..WeightConfig::default() };
    let recomputed = CorrectionConfig { proximal: ProximalSource::Recompute, ..CorrectionConfig::default() };
    let weighted = CorrectionConfig { weight, ..recomputed.clone() };
    let without = broken(recipe);
    for correction in [weighted, recomputed] {
        let plain = std::mem::replace(&mut recipe.loss.correction, correction);
        if broken(recipe).iter().all(|rule| without.contains(rule)) {
            return;
        }
        recipe.loss.correction = plain;
    }
}

/// The rules that the loss and the advantage of a recipe break, by their ids.
fn broken(recipe: &Recipe) -> Vec<&'static str> {
    let loss = recipe.loss.clone().complete().unwrap_or_else(|_| recipe.loss.clone());
    let advantage = recipe.advantage.clone().complete().unwrap_or_else(|_| recipe.advantage.clone());
    rules::broken(recipe.setup(&loss, &advantage)).map(|rule| rule.id).collect()
}

/// What a person should know of a correction that was switched on.
pub(super) fn note(recipe: &Recipe) -> Option<String> {
    if !recipe.samples_elsewhere() || recipe.train.method != Method::Grpo {
        return None;
    }
    let correction = &recipe.loss.correction;
    (correction.proximal == ProximalSource::Recompute).then(|| {
        let weight = if correction.weight.is_on() { ", and weights tokens by the ratio" } else { "" };
        format!(
            "whoever samples rounds differently from the trainer, so each step computes the log-probs of what it sampled again\
             {weight} (`loss.correction`); `sampling/sampling_logp_difference` tells how far both are apart"
        )
    })
}
