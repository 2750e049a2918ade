//! What a merge does to one tensor, and the list of all methods.
//!
//! A method is one file: it sees the tensor of every input, and says how each part of the result is made. It knows
//! neither files nor other methods; names of tensors matter only to those that say so. To add one, write its file, and
//! name it in [`METHODS`].

mod arm;
mod average;
mod interpolate;
mod linear;
mod longcat;
mod model_stock;
mod passthrough;
mod qk_restore;
mod random;
mod slerp;
mod task_vectors;
mod trim;

use burnish_core::names;

use crate::WeightsError;
use crate::checkpoint::{Checkpoint, View};
use crate::inputs::Recorded;
use crate::settings::{Default, Key, Kind, Scalar, Settings, resolve};

/// Every method, sorted by id.
pub const METHODS: &[&dyn Method] = &[
    &arm::Arm,
    &task_vectors::DARE_LINEAR,
    &task_vectors::DARE_TIES,
    &average::Ema,
    &interpolate::EXTRAPOLATE,
    &linear::Linear,
    &longcat::Longcat,
    &model_stock::ModelStock,
    &passthrough::Passthrough,
    &qk_restore::QkRestore,
    &slerp::Slerp,
    &task_vectors::TASK_ARITHMETIC,
    &task_vectors::TIES,
    &interpolate::WISE_FT,
];

/// The method of this id.
///
/// # Errors
/// Names the id that was probably meant.
pub fn method(id: &str) -> Result<&'static dyn Method, String> {
    if let Some(method) = METHODS.iter().find(|method| method.card().id == id) {
        return Ok(*method);
    }
    let ids = METHODS.iter().map(|method| method.card().id);
    let hint = match names::nearest(id, ids.clone()) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("there are {}", ids.collect::<Vec<_>>().join(", ")),
    };
    Err(format!("unknown method {id}; {hint}"))
}

/// How a tensor of the result is made from those of the inputs.
pub trait Method: Sync {
    /// What is known about it.
    fn card(&self) -> &'static Card;

    /// May it make a model of slices of layers, each of one model?
    fn stacks(&self) -> bool {
        false
    }

    /// Looks at the whole job before anything is written; `names` are those of all tensors.
    ///
    /// # Errors
    /// If the job makes no sense as a whole.
    fn check(&self, job: &Job<'_>, names: &[&str]) -> Result<(), WeightsError> {
        let _ = (job, names);
        Ok(())
    }

    /// The most directions of a map's inputs that it makes use of, by the settings; `None` if it takes no recorded
    /// inputs.
    fn directions(&self, shared: &Settings) -> Option<usize> {
        let _ = shared;
        None
    }

    /// Says how the tensor is made. Whole-tensor numbers (norms, thresholds) are computed here, the elements later, by
    /// the kernels, in any order and on any thread.
    ///
    /// # Errors
    /// If an input can't be combined, or a setting makes no sense for this tensor.
    fn merge<'a>(&self, site: &'a Site<'a>) -> Result<Vec<Span<'a>>, WeightsError>;
}

/// What is known about a method.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Card {
    /// Its name in configurations; mergekit's where mergekit has it.
    pub id: &'static str,
    /// What it does, in a few words.
    pub title: &'static str,
    /// The equation.
    pub equation: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// What we had to guess because the source could not be read.
    pub reconstructed: &'static [&'static str],
    /// Its parameters.
    pub keys: &'static [Key],
    /// Whether there is a base beside the models.
    pub base: Base,
    /// How many models besides the base, at least and at most.
    pub models: (usize, usize),
    /// Whose list of tensors, configuration and tokenizer the result has.
    pub donor: Donor,
}

/// Whether a method needs `base_model`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// It is one input among others.
    Input,
    /// It is needed, and treated apart.
    Needed,
}

/// Which input a result takes after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Donor {
    /// The base, or the first model where there is none.
    Base,
    /// The last model.
    LastModel,
}

/// What holds for all tensors of a merge.
pub struct Job<'a> {
    /// The inputs, for methods that look at other tensors than the one that is made.
    pub sources: &'a [Checkpoint],
    /// Which input is the base.
    pub base: Option<usize>,
    /// The settings of each input.
    pub of_inputs: &'a [Settings],
    /// The settings of all.
    pub shared: &'a Settings,
    /// The method's parameters.
    pub keys: &'static [Key],
    /// What random choices depend on.
    pub seed: u64,
    /// What maps read at the last model, and at the base, where that was recorded.
    pub recorded: Option<&'a [Recorded; 2]>,
}

/// A tensor that is to be made.
pub struct Site<'a> {
    /// What it is a part of.
    pub job: &'a Job<'a>,
    /// Its name.
    pub name: &'a str,
    /// Its shape.
    pub shape: &'a [usize],
    /// The tensor of each input, all of this shape.
    pub tensors: &'a [View<'a>],
    /// Where its layer is among the layers: 0 for the first, 1 for the last. 0 outside of layers, as in mergekit.
    pub depth: f64,
}

/// Some consecutive elements of a tensor, and how they are made.
pub struct Span<'a> {
    /// How many.
    pub elements: usize,
    /// How.
    pub part: Part<'a>,
}

/// Makes the elements from `start` on, counted from the beginning of the tensor, from those of each input.
pub type Kernel<'a> = Box<dyn Fn(usize, &[&[f32]], &mut [f32]) + Send + Sync + 'a>;

/// How elements are made.
pub enum Part<'a> {
    /// They are those of this input, byte for byte if the type stays.
    Copy(usize),
    /// They are computed, any multiple of `unit` elements at a time.
    Compute {
        /// Elements that belong together, such as a row.
        unit: usize,
        /// What computes them.
        kernel: Kernel<'a>,
    },
}

impl<'a> Site<'a> {
    /// The inputs besides the base.
    pub fn models(&self) -> Vec<usize> {
        (0..self.tensors.len()).filter(|input| Some(*input) != self.job.base).collect()
    }

    /// The base.
    ///
    /// # Errors
    /// If there is none.
    pub fn base(&self) -> Result<usize, WeightsError> {
        self.job.base.ok_or_else(|| WeightsError::Refused("this method needs a `base_model`".to_owned()))
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Length of its rows: the last dimension.
    pub fn row(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    /// The whole tensor as that of one input.
    pub fn copied(&self, input: usize) -> Vec<Span<'a>> {
        vec![Span { elements: self.len(), part: Part::Copy(input) }]
    }

    /// The whole tensor, computed element by element.
    pub fn computed(
        &self,
        kernel: impl Fn(usize, &[&[f32]], &mut [f32]) + Send + Sync + 'a,
    ) -> Vec<Span<'a>> {
        self.computed_by(1, kernel)
    }

    /// The whole tensor, computed `unit` elements at a time.
    pub fn computed_by(
        &self,
        unit: usize,
        kernel: impl Fn(usize, &[&[f32]], &mut [f32]) + Send + Sync + 'a,
    ) -> Vec<Span<'a>> {
        vec![Span { elements: self.len(), part: Part::Compute { unit, kernel: Box::new(kernel) } }]
    }

    /// A number that holds for all inputs.
    ///
    /// # Errors
    /// If it is not set for this tensor.
    pub fn number(&self, key: &str) -> Result<f64, WeightsError> {
        self.job.value(key, None, self.name, self.depth).map(|value| value.number())
    }

    /// A number of one input.
    ///
    /// # Errors
    /// If it is not set for this tensor.
    pub fn number_of(&self, key: &str, input: usize) -> Result<f64, WeightsError> {
        self.job.value(key, Some(input), self.name, self.depth).map(|value| value.number())
    }

    /// Whether something is asked for.
    ///
    /// # Errors
    /// If it is not set for this tensor.
    pub fn flag(&self, key: &str) -> Result<bool, WeightsError> {
        self.job.value(key, None, self.name, self.depth).map(|value| value == Scalar::Flag(true))
    }

    /// A text.
    ///
    /// # Errors
    /// If it is not set for this tensor.
    pub fn text(&self, key: &str) -> Result<String, WeightsError> {
        self.job.value(key, None, self.name, self.depth).map(Scalar::text)
    }
}

impl Job<'_> {
    /// Whether something is asked for, for the tensor `name`.
    ///
    /// # Errors
    /// If it is not set for this tensor.
    pub fn flag(&self, key: &str, name: &str) -> Result<bool, WeightsError> {
        self.value(key, None, name, 0.0).map(|value| value == Scalar::Flag(true))
    }

    /// A text, for the tensor `name`.
    ///
    /// # Errors
    /// If it is not set for this tensor.
    pub fn text(&self, key: &str, name: &str) -> Result<String, WeightsError> {
        self.value(key, None, name, 0.0).map(Scalar::text)
    }

    fn value(&self, key: &str, input: Option<usize>, name: &str, depth: f64) -> Result<Scalar, WeightsError> {
        let Some(key) = self.keys.iter().find(|known| known.name == key) else {
            return Err(WeightsError::Refused(format!("this method has no parameter `{key}`")));
        };
        let of_input = input.and_then(|input| self.of_inputs.get(input));
        resolve(key, of_input.into_iter().chain([self.shared]), name, depth).map_err(|problem| {
            let input = input.and_then(|input| self.sources.get(input));
            let of = input.map(|input| format!(" (of {})", input.path().display())).unwrap_or_default();
            WeightsError::Refused(format!("{problem}{of}"))
        })
    }
}

/// The weight of each input, which several methods have.
const WEIGHT: Key = Key {
    name: "weight",
    kind: Kind::Number(f64::NEG_INFINITY, f64::INFINITY),
    is_per_input: true,
    default: None,
    about: "the factor of this input",
};

/// mergekit's switch for smaller masks, which changes no result.
const INT8_MASK: Key = Key {
    name: "int8_mask",
    kind: Kind::Flag,
    is_per_input: false,
    default: Some(Default::Flag(false)),
    about: "has no effect: masks are never stored",
};

/// The share of a task vector that is kept.
const DENSITY: Key = Key {
    name: "density",
    kind: Kind::Number(0.0, 1.0),
    is_per_input: true,
    default: Some(Default::Number(1.0)),
    about: "the share of the elements of this model's change that is kept",
};
