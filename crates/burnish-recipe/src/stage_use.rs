//! What of a recipe another recipe can make.

use std::path::PathBuf;

use super::{Recipe, StageRecipe};

/// What the policy of a stage becomes in the recipe that comes after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageUse {
    /// What it starts from: `policy.from`.
    Policy,
    /// Its teacher: `teacher.from`.
    Teacher,
}

impl StageUse {
    /// Both.
    pub const ALL: [StageUse; 2] = [StageUse::Policy, StageUse::Teacher];

    /// The key that names the recipe.
    pub fn key(self) -> &'static str {
        match self {
            StageUse::Policy => "policy.from",
            StageUse::Teacher => "teacher.from",
        }
    }

    /// What is made, in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            StageUse::Policy => "the policy to start from",
            StageUse::Teacher => "the teacher",
        }
    }

    /// The recipe that makes it, where there is one.
    pub fn made_by(self, recipe: &Recipe) -> Option<&StageRecipe> {
        match self {
            StageUse::Policy => recipe.policy.from.as_ref(),
            StageUse::Teacher => recipe.teacher.as_ref()?.from.as_ref(),
        }
    }

    /// The same, to be changed.
    pub fn made_by_mut(self, recipe: &mut Recipe) -> Option<&mut StageRecipe> {
        match self {
            StageUse::Policy => recipe.policy.from.as_mut(),
            StageUse::Teacher => recipe.teacher.as_mut()?.from.as_mut(),
        }
    }

    /// Where it lies, where that is known; the place of a recipe without a teacher is nowhere.
    pub fn path_mut(self, recipe: &mut Recipe) -> Option<&mut Option<PathBuf>> {
        match self {
            StageUse::Policy => Some(&mut recipe.policy.path),
            StageUse::Teacher => recipe.teacher.as_mut().map(|teacher| &mut teacher.path),
        }
    }

    /// Those of a recipe that other recipes make.
    pub fn of(recipe: &Recipe) -> Vec<StageUse> {
        StageUse::ALL.into_iter().filter(|of| of.made_by(recipe).is_some()).collect()
    }
}
