//! What one recipe can make for another.

use std::path::PathBuf;

use super::{Recipe, StageRecipe};

/// How a later recipe uses the policy of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageUse {
    /// As its starting policy: `policy.from`.
    Policy,
    /// As its teacher: `teacher.from`.
    Teacher,
}

impl StageUse {
    /// All uses.
    pub const ALL: [StageUse; 2] = [StageUse::Policy, StageUse::Teacher];

    /// The key that names the recipe.
    pub fn key(self) -> &'static str {
        match self {
            StageUse::Policy => "policy.from",
            StageUse::Teacher => "teacher.from",
        }
    }

    /// The product, for use in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            StageUse::Policy => "the policy to start from",
            StageUse::Teacher => "the teacher",
        }
    }

    /// The recipe that makes it, if there is one.
    pub fn made_by(self, recipe: &Recipe) -> Option<&StageRecipe> {
        match self {
            StageUse::Policy => recipe.policy.from.as_ref(),
            StageUse::Teacher => recipe.teacher.as_ref()?.from.as_ref(),
        }
    }

    /// As [`StageUse::made_by`], mutable.
    pub fn made_by_mut(self, recipe: &mut Recipe) -> Option<&mut StageRecipe> {
        match self {
            StageUse::Policy => recipe.policy.from.as_mut(),
            StageUse::Teacher => recipe.teacher.as_mut()?.from.as_mut(),
        }
    }

    /// Its path, if that is known yet. Without a teacher, there is no place for it.
    pub fn path_mut(self, recipe: &mut Recipe) -> Option<&mut Option<PathBuf>> {
        match self {
            StageUse::Policy => Some(&mut recipe.policy.path),
            StageUse::Teacher => recipe.teacher.as_mut().map(|teacher| &mut teacher.path),
        }
    }

    /// The uses for which a recipe names other recipes.
    pub fn of(recipe: &Recipe) -> Vec<StageUse> {
        StageUse::ALL.into_iter().filter(|of| of.made_by(recipe).is_some()).collect()
    }
}
