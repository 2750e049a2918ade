//! `env.config_from`: the run plays in a configuration that another recipe makes (`make.kind = "config"`).

use super::{Recipe, RecipeError, Source, StageUse, TaskSource, rounds};

impl Recipe {
    /// Keeps the held-out tasks those of the configuration that the recipe has, whichever it plays in.
    pub(super) fn keep_evaluation(&mut self) {
        if self.eval.config.is_none() {
            self.eval.config = Some(self.env.config.clone());
        }
    }
}

/// Does another recipe make the configuration in which the run plays?
pub(super) fn is_made(recipe: &Recipe) -> bool {
    recipe.env.config_from.is_some() || rounds::gives(recipe, StageUse::Config)
}

/// Checks `env.config_from`.
pub(super) fn check(recipe: &Recipe, source: &Source) -> Result<(), RecipeError> {
    if !is_made(recipe) {
        return Ok(());
    }
    let is_drawn =
        matches!(recipe.env.tasks, TaskSource::Count(_)) && !rounds::gives(recipe, StageUse::Tasks);
    for (holds, rule) in [
        (!recipe.env.is_absent(), "needs `env.id`: it is a configuration of this environment"),
        (recipe.plays(), "has no use: no task is played"),
        (is_drawn, "has no use with a file of tasks: set `env.tasks` to a number"),
        (
            recipe.env.split.is_none(),
            "can't be combined with `env.split`: of tasks in another configuration, no split is known",
        ),
    ] {
        if !holds {
            return Err(source.error("env.config_from", rule.to_owned()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::tests::{SMALL, read};

    #[test]
    fn the_evaluation_is_that_of_the_configuration_in_the_recipe() {
        let recipe = read(SMALL, &["env.config_from=design.toml"]).unwrap();
        assert_eq!(recipe.eval.config.as_ref(), Some(&recipe.env.config), "it is written down");
        assert_eq!(read(&recipe.to_toml().unwrap(), &[]).unwrap(), recipe);
        let of_rounds = "rounds={count=1, use={\"env.config_from\"=\"one\"}, stage=[{name=\"one\", recipe=\"design.toml\"}]}";
        assert!(read(SMALL, &[of_rounds]).unwrap().eval.config.is_some());
        let plain = read(SMALL, &[]).unwrap();
        assert!(plain.eval.config.is_none() && !plain.to_toml().unwrap().contains("config_from"));
    }

    #[test]
    fn what_makes_no_sense_beside_a_configuration_that_is_made_is_refused() {
        for (change, part) in [
            ("env.tasks={path=\"tasks.jsonl\"}", "with a file of tasks"),
            ("env.split={scorer={rule=\"numbers\"}, keep=\">= 3\"}", "`env.split`"),
        ] {
            let error = read(SMALL, &["env.config_from=design.toml", change]).unwrap_err();
            assert!(error.contains("`env.config_from`") && error.contains(part), "{error}");
        }
    }
}
