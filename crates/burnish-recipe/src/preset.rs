//! Applies the settings of other frameworks underneath a recipe.

use burnish_rl::presets;
use serde_json::Value;

use super::{RecipeError, Source};

/// The recipe with the settings of its `preset` for all keys that it does not set itself. Settings of the preset's
/// objective or estimator are left out if the recipe chooses another objective or estimator.
///
/// # Errors
/// If there is no such preset.
pub(super) fn under(source: &Source) -> Result<Source, RecipeError> {
    let mut source = source.clone();
    let Some(id) = source.get("preset").and_then(Value::as_str) else {
        return Ok(source);
    };
    let preset = presets::find(id).map_err(|error| source.refused(&error.key, error.problem))?;
    let mut settings = (preset.settings)();
    for (table, choice) in [("loss", "objective"), ("advantage", "estimator")] {
        let own = source.get(&format!("{table}.{choice}"));
        if own.is_some()
            && own != settings[table].get(choice)
            && let Some(table) = settings[table].as_object_mut()
        {
            table.remove("config");
        }
    }
    // The bound of the loss's KL is not used when the recipe subtracts the KL from the reward.
    let in_reward = source.get("loss.use_kl_in_reward").and_then(Value::as_bool).unwrap_or_default();
    if let Some(loss) = settings["loss"].as_object_mut().filter(|_| in_reward) {
        loss.remove("kl_clamp");
    }
    source.underlay(settings);
    Ok(source)
}

#[cfg(test)]
mod tests {
    use crate::tests::{SMALL, read};

    #[test]
    fn a_preset_fills_in_what_the_recipe_does_not_say() {
        let recipe = read(SMALL, &["preset=verl-0.9/grpo", "loss.config.epsilon_high=0.28"]).unwrap();
        assert_eq!(recipe.loss.config["dual_clip"], 3.0);
        assert_eq!(recipe.loss.config["epsilon_high"], 0.28);
        assert_eq!(recipe.advantage.config["epsilon"], 1e-6);
        let text = recipe.to_toml().unwrap();
        assert_eq!(read(&text, &[]).unwrap(), recipe, "{text}");
    }

    #[test]
    fn every_preset_makes_a_recipe_and_one_that_is_not_there_is_named() {
        for preset in burnish_rl::presets::PRESETS {
            let recipe = read(SMALL, &[&format!("preset=\"{}\"", preset.id)]);
            assert!(recipe.is_ok(), "{}: {recipe:?}", preset.id);
        }
        let error = read(SMALL, &["preset=trl-1.16/gpro"]).unwrap_err();
        assert!(error.contains("`preset`") && error.contains("did you mean `trl-1.16/grpo`?"), "{error}");
    }

    #[test]
    fn the_bound_of_a_kl_in_the_loss_is_left_out_where_it_is_taken_off_the_reward() {
        let preset = "preset=verl-0.9/grpo";
        assert_eq!(read(SMALL, &[preset, "loss.beta=0.1"]).unwrap().loss.kl_clamp, 10.0);
        let in_reward = ["loss.beta=0.1", "loss.use_kl_in_reward=true", "loss.kl_estimator=k1"];
        let recipe = read(SMALL, &[&[preset][..], &in_reward].concat()).unwrap();
        assert!(recipe.loss.kl_clamp == 0.0 && recipe.warnings().is_empty(), "{:?}", recipe.warnings());
    }

    #[test]
    fn what_is_refused_can_be_allowed_by_its_id_and_is_then_a_warning() {
        let wrong = ["loss.beta=0.1", "loss.kl_estimator=k1", "loss.use_bias_correction_kl=false"];
        let error = read(SMALL, &wrong).unwrap_err();
        assert!(error.contains("allow = [\"k1-in-loss-uncorrected\"]"), "{error}");
        let allow = "allow=[\"k1-in-loss-uncorrected\"]";
        let recipe = read(SMALL, &[&wrong[..], &[allow]].concat()).unwrap();
        let warnings = recipe.warnings();
        assert!(warnings.len() == 1 && warnings[0].contains("only add noise"), "{warnings:?}");
        assert!(read(SMALL, &[allow]).unwrap().warnings().is_empty());
        assert!(read(SMALL, &["allow=[\"k1\"]"]).unwrap_err().contains("k1-in-loss-uncorrected"));
    }
}
