//! What one recipe can make for another.

use std::path::PathBuf;

use burnish_data::Paths;

use super::{EvalStrategy, Place, PolicySection, Recipe, StageFile, StageRecipe, TaskSource, TeacherSection};

/// How a later recipe uses the result of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageUse {
    /// As its starting policy: `policy.from`.
    Policy,
    /// As its teacher: `teacher.from`.
    Teacher,
    /// As the rows that it learns from: `data.from`.
    Rows,
    /// As the tasks that it plays: `env.tasks.from`.
    Tasks,
    /// As the strategy by which it is evaluated: `eval.strategy.from`.
    Strategy,
    /// As the notes that programs read: `memory.from`.
    Memory,
    /// As the configuration of the environment that it plays in: `env.config_from`.
    Config,
    /// As a model that its policy is made from: `weights.base_model.from`, `weights.models[0].from`.
    Weights(Place),
}

impl StageUse {
    /// Those of which a run may keep a copy.
    pub(super) const COPIED: [StageUse; 7] = [
        StageUse::Policy,
        StageUse::Teacher,
        StageUse::Rows,
        StageUse::Tasks,
        StageUse::Strategy,
        StageUse::Memory,
        StageUse::Config,
    ];

    /// The key that names the recipe.
    pub fn key(self) -> String {
        match self {
            StageUse::Policy => "policy.from".to_owned(),
            StageUse::Teacher => "teacher.from".to_owned(),
            StageUse::Rows => "data.from".to_owned(),
            StageUse::Tasks => "env.tasks.from".to_owned(),
            StageUse::Strategy => "eval.strategy.from".to_owned(),
            StageUse::Memory => "memory.from".to_owned(),
            StageUse::Config => "env.config_from".to_owned(),
            StageUse::Weights(place) => format!("{}.from", place.key()),
        }
    }

    /// The use that `key` stands for, among those that rounds can give.
    pub fn named(key: &str) -> Option<StageUse> {
        StageUse::COPIED.into_iter().find(|of| of.key() == key)
    }

    /// Lets `from` make it, or nothing, in place of whatever the recipe has there.
    pub fn set(self, recipe: &mut Recipe, from: Option<StageRecipe>) {
        match self {
            StageUse::Policy => {
                recipe.policy = PolicySection { path: None, new: None, from, ..recipe.policy.clone() };
            }
            StageUse::Teacher => {
                let teacher = recipe.teacher.take().unwrap_or_default();
                recipe.teacher = Some(TeacherSection { path: None, from, ..teacher });
            }
            StageUse::Rows => {
                recipe.data.path = Paths::default();
                recipe.data.from = from;
            }
            StageUse::Tasks => {
                recipe.env.tasks = TaskSource::File(StageFile { from, ..StageFile::default() });
            }
            StageUse::Strategy => {
                recipe.eval.strategy = Some(EvalStrategy { from, ..EvalStrategy::default() });
            }
            StageUse::Memory => {
                recipe.memory = Some(StageFile { from, ..StageFile::default() });
            }
            StageUse::Config => {
                if from.is_some() {
                    recipe.keep_evaluation();
                }
                recipe.env.config_from = from;
            }
            StageUse::Weights(place) => {
                if let Some(model) = recipe.weights.as_mut().and_then(|weights| weights.at_mut(place)) {
                    (model.path, model.from) = (None, from);
                }
            }
        }
    }

    /// The product, for use in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            StageUse::Policy => "the policy to start from",
            StageUse::Teacher => "the teacher",
            StageUse::Rows => "the rows to learn from",
            StageUse::Tasks => "the tasks to play",
            StageUse::Strategy => "the strategy of evaluations",
            StageUse::Memory => "the notes to read",
            StageUse::Config => "the configuration to play in",
            StageUse::Weights(_) => "a model for the surgery",
        }
    }

    /// The recipe that makes it, if there is one.
    pub fn made_by(self, recipe: &Recipe) -> Option<&StageRecipe> {
        match self {
            StageUse::Policy => recipe.policy.from.as_ref(),
            StageUse::Teacher => recipe.teacher.as_ref()?.from.as_ref(),
            StageUse::Rows => recipe.data.from.as_ref(),
            StageUse::Tasks => recipe.env.tasks.file()?.from.as_ref(),
            StageUse::Strategy => recipe.eval.strategy.as_ref()?.from.as_ref(),
            StageUse::Memory => recipe.memory.as_ref()?.from.as_ref(),
            StageUse::Config => recipe.env.config_from.as_ref(),
            StageUse::Weights(place) => recipe.weights.as_ref()?.at(place)?.from.as_ref(),
        }
    }

    /// As [`StageUse::made_by`], mutable.
    pub fn made_by_mut(self, recipe: &mut Recipe) -> Option<&mut StageRecipe> {
        match self {
            StageUse::Policy => recipe.policy.from.as_mut(),
            StageUse::Teacher => recipe.teacher.as_mut()?.from.as_mut(),
            StageUse::Rows => recipe.data.from.as_mut(),
            StageUse::Tasks => recipe.env.tasks.file_mut()?.from.as_mut(),
            StageUse::Strategy => recipe.eval.strategy.as_mut()?.from.as_mut(),
            StageUse::Memory => recipe.memory.as_mut()?.from.as_mut(),
            StageUse::Config => recipe.env.config_from.as_mut(),
            StageUse::Weights(place) => recipe.weights.as_mut()?.at_mut(place)?.from.as_mut(),
        }
    }

    /// Its path, if that is known yet. Without a teacher or a file of tasks, there is no place for it.
    pub fn path_mut(self, recipe: &mut Recipe) -> Option<&mut Option<PathBuf>> {
        match self {
            StageUse::Policy => Some(&mut recipe.policy.path),
            StageUse::Teacher => recipe.teacher.as_mut().map(|teacher| &mut teacher.path),
            StageUse::Rows => Some(&mut recipe.data.made),
            StageUse::Tasks => recipe.env.tasks.file_mut().map(|tasks| &mut tasks.made),
            StageUse::Strategy => recipe.eval.strategy.as_mut().map(|strategy| &mut strategy.made),
            StageUse::Memory => recipe.memory.as_mut().map(|memory| &mut memory.made),
            StageUse::Config => Some(&mut recipe.env.config_made),
            StageUse::Weights(place) => Some(&mut recipe.weights.as_mut()?.at_mut(place)?.made),
        }
    }

    /// The uses for which a recipe names other recipes.
    pub fn of(recipe: &Recipe) -> Vec<StageUse> {
        let models = recipe.weights.iter().flat_map(|weights| weights.ingredients());
        let models = models.map(|(place, _)| StageUse::Weights(place));
        let all = StageUse::COPIED.into_iter().chain(models);
        all.filter(|of| of.made_by(recipe).is_some()).collect()
    }

    /// Those of which a run keeps copies, because the recipe has no path to them: other recipes and surgery make them.
    pub fn kept(recipe: &Recipe) -> Vec<StageUse> {
        let is_kept = |of: &StageUse| match of {
            StageUse::Policy => recipe.policy.from.is_some() || recipe.weights.is_some(),
            StageUse::Weights(_) => false,
            _ => of.made_by(recipe).is_some(),
        };
        StageUse::COPIED.into_iter().filter(is_kept).collect()
    }
}
