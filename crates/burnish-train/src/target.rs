//! What is known about a teacher's distributions at the scored tokens of a sample.

use std::fmt;
use std::sync::Arc;

use burnish_model::Model;
use burnish_rl::distillation::HeadTarget;
use burnish_tensor::{Adapter, Elements, Param, Params, Store, TeacherRows, Weight};

use crate::{Sample, SampleError, TrainError};

/// A teacher's distributions at the scored tokens, in their order: the other side of a
/// [`burnish_rl::distillation::HeadLoss`]. All are at the temperature at which the token was sampled.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// Its likeliest tokens.
    Top {
        /// How many per position.
        top: usize,
        /// `[scored tokens, top]`: distinct ids at each position.
        ids: Vec<u32>,
        /// `[scored tokens, top]`: their log-probs in nats, over the whole vocabulary; -∞ is no entry.
        logprobs: Vec<f32>,
    },
    /// The whole distributions, as the hidden states from which its head computes them.
    Hidden {
        /// The head, one for all samples of a minibatch.
        head: Arc<TeacherHead>,
        /// `[scored tokens, width]`.
        hidden: Vec<f32>,
    },
}

impl Target {
    /// # Errors
    /// If it does not describe that many tokens, or a log-prob is not a number.
    pub(crate) fn check(&self, scored: usize) -> Result<(), SampleError> {
        let (len, row) = match self {
            Target::Top { top, ids, logprobs } => (ids.len().min(logprobs.len()), *top),
            Target::Hidden { head, hidden } => (hidden.len(), head.width()),
        };
        let is_even = match self {
            Target::Top { ids, logprobs, .. } => ids.len() == logprobs.len(),
            Target::Hidden { .. } => true,
        };
        if !is_even || len != scored * row {
            return Err(SampleError::Target { positions: len / row.max(1), scored });
        }
        match self {
            Target::Top { logprobs, top, .. } => {
                let is_none = |log: &f32| log.is_nan() || *log == f32::INFINITY;
                let wrong = logprobs.iter().position(is_none);
                wrong.map_or(Ok(()), |at| Err(SampleError::TargetValue { at: at / top }))
            }
            Target::Hidden { .. } => Ok(()),
        }
    }
}

/// A copy of a model's head (with its adapter), on the model's device and as it was when the hidden states were made. A
/// copy, because a policy may teach itself while its own head moves.
pub struct TeacherHead {
    params: Params,
    weight: Weight,
}

impl TeacherHead {
    /// The head of `model`.
    ///
    /// # Errors
    /// If it is a value model, or what a GPU has changed can't be fetched.
    pub fn of(model: &Model) -> Result<Self, TrainError> {
        check_head(model)?;
        model.params.fetch()?;
        let mut params = Params::new().in_precision(model.params.precision());
        let mut copy = |name: &str, param: Param| {
            let elements = model.params.elements(param);
            let store = match elements {
                Elements::F32(_) => Store::Frozen,
                Elements::Bf16(_) => Store::FrozenBf16,
            };
            let own = params.add_to(store, name, &[param.rows, param.cols], false);
            params.elements_mut(own).set(&elements.widened());
            own
        };
        let Weight { base, adapter } = model.head();
        let base = copy("head", base);
        let adapter = adapter.map(|adapter| {
            let (a, b) = (copy("a", adapter.a), copy("b", adapter.b));
            Adapter { a, b, ..adapter }
        });
        let params = params.on(model.params.device());
        Ok(TeacherHead { params, weight: Weight { base, adapter } })
    }

    /// The width of the hidden states that it reads.
    pub fn width(&self) -> usize {
        self.weight.base.cols
    }

    /// The size of its vocabulary.
    pub fn vocabulary(&self) -> usize {
        self.weight.base.rows
    }

    /// The head together with the hidden states `[rows, width]` that it reads.
    pub(crate) fn rows<'a>(&'a self, hidden: &'a [f32]) -> TeacherRows<'a> {
        TeacherRows { params: &self.params, head: self.weight, hidden }
    }
}

/// Equal only if it is the same object: the contents of two copies are not compared.
impl PartialEq for TeacherHead {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl fmt::Debug for TeacherHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TeacherHead")
            .field("vocabulary", &self.vocabulary())
            .field("width", &self.width())
            .finish_non_exhaustive()
    }
}

/// # Errors
/// If the model's head can't be compared with any other.
pub(crate) fn check_head(model: &Model) -> Result<(), TrainError> {
    if model.is_value_model() {
        return Err(TrainError::HeadLoss { problem: "a model of values has no distributions" });
    }
    Ok(())
}

/// Checks that every sample with scored tokens has what `needed` asks for, and that all have it alike.
///
/// # Errors
/// If a sample has not; the error names the first one.
pub(crate) fn check(model: &Model, samples: &[&Sample], needed: HeadTarget) -> Result<(), TrainError> {
    check_head(model)?;
    let needs = match needed {
        HeadTarget::Top(_) => "the teacher's likeliest tokens",
        HeadTarget::Whole => "the teacher's hidden states",
    };
    let scored = || samples.iter().enumerate().filter(|(_, sample)| !sample.inputs().is_empty());
    let first = scored().find_map(|(_, sample)| sample.target.as_ref());
    for (index, sample) in scored() {
        let problem = problem(model, first, sample.target.as_ref(), needed);
        if let Some(problem) = problem {
            return Err(TrainError::Target { sample: index, needs, problem });
        }
    }
    Ok(())
}

fn problem(
    model: &Model,
    first: Option<&Target>,
    own: Option<&Target>,
    needed: HeadTarget,
) -> Option<String> {
    let vocab = model.vocab();
    match (needed, own, first) {
        (_, None, _) => Some("is not there: score the samples with the teacher first".into()),
        (
            HeadTarget::Top(most),
            Some(Target::Top { top, ids, logprobs }),
            Some(Target::Top { top: all, .. }),
        ) => {
            if top != all {
                return Some(format!("has {top} tokens per position, and another sample's has {all}"));
            }
            if *top == 0 || *top > most {
                return Some(format!("has {top} tokens per position, which must be 1 to {most}"));
            }
            // An entry of -∞ stands for no token, but its id is looked up all the same.
            let is_unknown = |(id, log): &(&u32, &f32)| match log.is_finite() {
                true => !vocab.contains(**id),
                false => **id as usize >= vocab.len(),
            };
            let unknown = ids.iter().zip(logprobs).find(is_unknown);
            unknown.map(|(id, _)| format!("names token {id}, which is not in the model's vocabulary"))
        }
        (HeadTarget::Whole, Some(Target::Hidden { head, .. }), Some(Target::Hidden { head: all, .. })) => {
            if !Arc::ptr_eq(head, all) {
                return Some("has another head than another sample's".into());
            }
            let (own, theirs) = (vocab.len(), head.vocabulary());
            (own != theirs).then(|| format!("is over {theirs} tokens, and the model's vocabulary has {own}"))
        }
        _ => Some("is of the other kind".into()),
    }
}
