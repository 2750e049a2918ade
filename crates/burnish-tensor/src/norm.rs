//! The weight of a norm.

use std::borrow::Cow;

use crate::{Param, Params};

/// The weight of a root-mean-square norm: `y = (weight + offset) ⊙ x / rms`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norm {
    /// One element for each column of a group.
    pub weight: Param,
    /// 0, or 1 for norms whose weight is kept as its distance from 1 (Gemma, Qwen3.5).
    pub offset: f32,
}

impl From<Param> for Norm {
    fn from(weight: Param) -> Self {
        Norm { weight, offset: 0.0 }
    }
}

impl Norm {
    /// `weight + offset`.
    pub(crate) fn factors<'p>(&self, params: &'p Params) -> Cow<'p, [f32]> {
        let weight = params.get(self.weight);
        if self.offset == 0.0 {
            return Cow::Borrowed(weight);
        }
        Cow::Owned(weight.iter().map(|w| w + self.offset).collect())
    }
}
