//! A linear map with its name.

use burnish_tensor::{Map, Param, Tape, Var, Weight};

use super::{Declare, Init};
use crate::Tap;

/// `x Wᵀ + b`.
#[derive(Debug, Clone)]
pub(super) struct Linear {
    pub(super) name: String,
    pub(super) weight: Weight,
    pub(super) bias: Option<Param>,
}

impl Linear {
    pub(super) fn declare(name: &str, rows: usize, cols: usize, has_bias: bool, add: Declare<'_>) -> Self {
        Linear {
            name: name.to_owned(),
            weight: add(&format!("{name}.weight"), &[rows, cols], Init::Normal).into(),
            bias: has_bias.then(|| add(&format!("{name}.bias"), &[rows], Init::Zeros)),
        }
    }

    pub(super) fn apply(&self, tape: &mut Tape<'_>, x: &Var) -> Var {
        tape.linear(x, self.weight, self.bias)
    }
}

impl Linear {
    /// Without its name.
    pub(super) fn map(&self) -> Map {
        Map { weight: self.weight, bias: self.bias }
    }

    /// Columns of its result.
    pub(super) fn rows(&self) -> usize {
        self.weight.base.rows
    }

    /// Numbers per row that an adapter keeps for the backward pass, besides what the map reads.
    pub(super) fn kept(&self) -> usize {
        self.weight.adapter.map_or(0, |adapter| adapter.a.rows)
    }
}

/// Shows the tap what `maps` read, if it wants to see that.
pub(super) fn show<const N: usize>(tap: &mut dyn Tap, maps: [&Linear; N], x: &Var) {
    if tap.wants_inputs() {
        tap.inputs(&maps.map(|map| &*map.name), x);
    }
}
