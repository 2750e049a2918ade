//! What one recipe can make for another.

use std::path::PathBuf;

use super::{Place, Recipe, StageRecipe};

/// How a later recipe uses the policy of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageUse {
    /// As its starting policy: `policy.from`.
    Policy,
    /// As its teacher: `teacher.from`.
    Teacher,
    /// As a model that its policy is made from: `weights.base_model.from`, `weights.models[0].from`.
    Weights(Place),
}

impl StageUse {
    /// The key that names the recipe.
    pub fn key(self) -> String {
        match self {
            StageUse::Policy => "policy.from".to_owned(),
            StageUse::Teacher => "teacher.from".to_owned(),
            StageUse::Weights(place) => format!("{}.from", place.key()),
        }
    }

    /// The product, for use in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            StageUse::Policy => "the policy to start from",
            StageUse::Teacher => "the teacher",
            StageUse::Weights(_) => "a model for the surgery",
        }
    }

    /// The recipe that makes it, if there is one.
    pub fn made_by(self, recipe: &Recipe) -> Option<&StageRecipe> {
        match self {
            StageUse::Policy => recipe.policy.from.as_ref(),
            StageUse::Teacher => recipe.teacher.as_ref()?.from.as_ref(),
            StageUse::Weights(place) => recipe.weights.as_ref()?.at(place)?.from.as_ref(),
        }
    }

    /// As [`StageUse::made_by`], mutable.
    pub fn made_by_mut(self, recipe: &mut Recipe) -> Option<&mut StageRecipe> {
        match self {
            StageUse::Policy => recipe.policy.from.as_mut(),
            StageUse::Teacher => recipe.teacher.as_mut()?.from.as_mut(),
            StageUse::Weights(place) => recipe.weights.as_mut()?.at_mut(place)?.from.as_mut(),
        }
    }

    /// Its path, if that is known yet. Without a teacher, there is no place for it.
    pub fn path_mut(self, recipe: &mut Recipe) -> Option<&mut Option<PathBuf>> {
        match self {
            StageUse::Policy => Some(&mut recipe.policy.path),
            StageUse::Teacher => recipe.teacher.as_mut().map(|teacher| &mut teacher.path),
            StageUse::Weights(place) => Some(&mut recipe.weights.as_mut()?.at_mut(place)?.made),
        }
    }

    /// The uses for which a recipe names other recipes.
    pub fn of(recipe: &Recipe) -> Vec<StageUse> {
        let models = recipe.weights.iter().flat_map(|weights| weights.ingredients());
        let models = models.map(|(place, _)| StageUse::Weights(place));
        let all = [StageUse::Policy, StageUse::Teacher].into_iter().chain(models);
        all.filter(|of| of.made_by(recipe).is_some()).collect()
    }

    /// The models that a run of the recipe does not find at a path of the recipe, so that it keeps copies of them: what
    /// other recipes, surgery and earlier rounds make.
    pub fn kept(recipe: &Recipe) -> Vec<StageUse> {
        let is_kept = |of: &StageUse| match of {
            StageUse::Policy => {
                recipe.policy.from.is_some() || recipe.weights.is_some() || recipe.is_last_round()
            }
            StageUse::Teacher => of.made_by(recipe).is_some(),
            StageUse::Weights(_) => false,
        };
        [StageUse::Policy, StageUse::Teacher].into_iter().filter(is_kept).collect()
    }
}
