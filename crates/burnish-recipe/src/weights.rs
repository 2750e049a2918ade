//! `[weights]`: a policy that is made from others by arithmetic on their weights.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use burnish_weights::method::{Base, method};
use burnish_weights::settings::{Said, Scalar, Setting, Settings};
use burnish_weights::{Float, Input, Merge, WeightsError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Recipe, RecipeError, Source, StageRecipe, empty};

/// `[weights]`: the policy is made by surgery, instead of `policy.path`, `policy.from` or `policy.new` (`docs/stages.md`).
/// Methods and their parameters are those of `docs/weights.md`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WeightsSection {
    /// Id of the method; `burnish weights methods` shows them.
    pub method: String,
    /// The model that changes are counted from, if the method has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_model: Option<Ingredient>,
    /// The models that are merged, in their order.
    pub models: Vec<Ingredient>,
    /// The method's parameters, for all models; a list of numbers is a gradient over the layers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, Value>,
    /// The type of the result's numbers, if not that of the model that it takes after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<String>,
    /// What random choices of the method depend on.
    #[serde(default)]
    pub seed: u64,
    /// Texts on which the inputs of linear maps are recorded, for methods that turn changes by them. The models are then
    /// a stream: each is merged by itself, into what came of those before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
}

/// `[weights.calibration]`: an environment's tasks with known answers. None of them is held out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// Id of the environment.
    pub env: String,
    /// How many tasks.
    #[serde(default = "calibration_tasks")]
    pub tasks: usize,
    /// The environment's own configuration.
    #[serde(default = "empty")]
    pub config: Value,
}

fn calibration_tasks() -> usize {
    128
}

/// A model of `[weights]`: `{ path = "models/base" }`, or `{ from = "recipes/sft.toml" }`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ingredient {
    /// A model directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// The recipe that makes it, instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<StageRecipe>,
    /// The method's parameters that each model has.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, Value>,
    /// Where the model of `from` is, once it is made.
    #[serde(skip)]
    pub made: Option<PathBuf>,
}

/// The place of a model in `[weights]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// `base_model`.
    Base,
    /// An item of `models`.
    Model(usize),
}

impl Place {
    /// The key of the model.
    pub fn key(self) -> String {
        match self {
            Place::Base => "weights.base_model".to_owned(),
            Place::Model(at) => format!("weights.models[{at}]"),
        }
    }
}

impl WeightsSection {
    /// Its models with their places, the base first.
    pub fn ingredients(&self) -> impl Iterator<Item = (Place, &Ingredient)> {
        let base = self.base_model.iter().map(|base| (Place::Base, base));
        base.chain(self.models.iter().enumerate().map(|(at, model)| (Place::Model(at), model)))
    }

    /// The model at a place.
    pub fn at(&self, place: Place) -> Option<&Ingredient> {
        match place {
            Place::Base => self.base_model.as_ref(),
            Place::Model(at) => self.models.get(at),
        }
    }

    /// As [`WeightsSection::at`], mutable.
    pub fn at_mut(&mut self, place: Place) -> Option<&mut Ingredient> {
        match place {
            Place::Base => self.base_model.as_mut(),
            Place::Model(at) => self.models.get_mut(at),
        }
    }

    /// What is to be merged, and how. A model that is not made yet has its recipe's path.
    ///
    /// # Errors
    /// Names the key that is wrong.
    pub fn merge(&self) -> Result<Merge, WeightsError> {
        let wrong = |key: &str, problem: String| WeightsError::Config { place: key.to_owned(), problem };
        let method = method(&self.method).map_err(|problem| wrong("weights.method", problem))?;
        let mut inputs = Vec::new();
        for (at, model) in self.models.iter().enumerate() {
            let key = Place::Model(at).key();
            inputs.push(Input::named(model.place().to_owned(), settings(&key, &model.parameters)?));
        }
        let mut base = None;
        if let Some(model) = &self.base_model {
            let is_same = |other: &Ingredient| (&other.path, &other.from) == (&model.path, &model.from);
            base = self.models.iter().position(is_same);
            if base.is_none() && method.card().base == Base::Input {
                let problem = format!("{} has no base apart from its models; name one of them", self.method);
                return Err(wrong("weights.base_model", problem));
            }
            if base.is_none() {
                let settings = settings(&Place::Base.key(), &model.parameters)?;
                inputs.push(Input::named(model.place().to_owned(), settings));
                base = Some(inputs.len() - 1);
            }
        }
        let known = |name: &String| {
            Float::named(name).ok_or_else(|| {
                wrong("weights.dtype", format!("is `{name}`; there are float32, bfloat16 and float16"))
            })
        };
        let dtype = self.dtype.as_ref().map(known).transpose()?;
        let merge = Merge { method, inputs, base, shared: settings("weights", &self.parameters)?, dtype };
        merge.check()?;
        Ok(merge)
    }

    /// The surgery as single merges: itself, or for a stream one for each model. The models of a step are the one before
    /// it and its own, whose parameters come before those of all; the base of the first step is that of the stream, and
    /// that of a later one is unknown until the step before it is made.
    pub fn steps(&self) -> Vec<Self> {
        if self.calibration.is_none() {
            return vec![self.clone()];
        }
        let plain = |model: &Ingredient| Ingredient { parameters: BTreeMap::new(), ..model.clone() };
        let step = |at: usize| {
            let mut parameters = self.parameters.clone();
            parameters.extend(self.models[at].parameters.clone());
            WeightsSection {
                base_model: if at == 0 { self.base_model.clone() } else { Some(Ingredient::default()) },
                models: self.models[at.saturating_sub(1)..=at].iter().map(plain).collect(),
                parameters,
                calibration: None,
                ..self.clone()
            }
        };
        (0..self.models.len()).map(step).collect()
    }

    /// The same stream, ended after `models` models.
    #[must_use]
    pub fn until(&self, models: usize) -> Self {
        WeightsSection { models: self.models.iter().take(models).cloned().collect(), ..self.clone() }
    }

    /// Texts among the parameters that name existing files, as those of `arm` do.
    pub fn files(&self) -> Vec<PathBuf> {
        let of_models = self.ingredients().flat_map(|(_, model)| model.parameters.values());
        let texts = self.parameters.values().chain(of_models).filter_map(Value::as_str);
        texts.map(PathBuf::from).filter(|path| path.is_file()).collect()
    }
}

impl Ingredient {
    /// Where it is; of one that is not made yet, its recipe.
    fn place(&self) -> &Path {
        let of_recipe = self.from.as_ref().map(|from| from.recipe.as_path());
        self.made.as_deref().or(self.path.as_deref()).or(of_recipe).unwrap_or(Path::new(""))
    }
}

/// Parameters in the form in which methods read them; `key` is the table around `parameters`.
fn settings(key: &str, parameters: &BTreeMap<String, Value>) -> Result<Settings, WeightsError> {
    let one = |(name, value): (&String, &Value)| {
        let place = format!("{key}.parameters.{name}");
        let said = match value {
            Value::Array(items) => items.iter().map(scalar).collect::<Option<Vec<_>>>().map(Said::Gradient),
            value => scalar(value).map(Said::One),
        };
        let problem = "must be a number, a text, true or false, or a list of them";
        let said =
            said.ok_or_else(|| WeightsError::Config { place: place.clone(), problem: problem.to_owned() })?;
        Ok((name.clone(), Setting { place, said }))
    };
    parameters.iter().map(one).collect()
}

fn scalar(value: &Value) -> Option<Scalar> {
    match value {
        Value::Number(number) => number.as_f64().map(Scalar::Number),
        Value::Bool(flag) => Some(Scalar::Flag(*flag)),
        Value::String(text) => Some(Scalar::Text(text.clone())),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Checks `[weights]`, as far as that is possible before its models are there.
pub(super) fn check(recipe: &Recipe, source: &Source) -> Result<(), RecipeError> {
    let Some(weights) = &recipe.weights else { return Ok(()) };
    let policy = &recipe.policy;
    let others = [
        ("policy.path", policy.path.is_some()),
        ("policy.from", policy.from.is_some()),
        ("policy.new", policy.new.is_some()),
    ];
    // A run that has begun knows where its copy is.
    if let Some((key, _)) = others.into_iter().find(|(_, is_there)| *is_there) {
        return Err(
            source.error("weights", format!("makes the policy, and excludes `{key}`: give one of them"))
        );
    }
    for (place, model) in weights.ingredients() {
        if model.path.is_some() == model.from.is_some() {
            let rule = "needs `path`, a model directory, or `from`, a recipe that makes one, and not both";
            return Err(source.error(&place.key(), rule.to_owned()));
        }
    }
    let wrong = |error| match error {
        WeightsError::Config { place, problem } => {
            let at = source.error(&place, String::new()).place;
            RecipeError { place: at, problem: format!("`{place}`: {problem}"), help: None }
        }
        error => source.error("weights", format!("can't be carried out: {error}")),
    };
    let merges = weights.steps().iter().map(WeightsSection::merge).collect::<Result<Vec<Merge>, _>>();
    let merges = merges.map_err(wrong)?;
    let Some(calibration) = &weights.calibration else { return Ok(()) };
    if calibration.tasks == 0 {
        return Err(source.error("weights.calibration.tasks", "must be 1 or more".to_owned()));
    }
    if merges.is_empty() {
        return Err(source.error("weights.models", "is empty: a stream has at least one model".to_owned()));
    }
    if merges.iter().any(|merge| merge.directions().is_none()) {
        let problem =
            format!("has no use: {} does not ask what maps read; leave the table out", weights.method);
        return Err(source.error("weights.calibration", problem));
    }
    Ok(())
}
