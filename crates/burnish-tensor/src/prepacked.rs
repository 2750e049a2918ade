//! Weights packed once for many products with few rows.

use std::collections::HashMap;

use rayon::prelude::*;

use crate::{
    Param, Params, Precision, Store,
    gemm::{Panels, View, Workers},
};

/// Weights with at least this many elements do not stay in the cache from one product to the next: a packed copy would
/// cost memory and gain nothing over reading them in place. The bound depends only on the weight, never on the rows, so
/// that a row's result does not depend on its batch.
pub(crate) const READ_ONCE_ELEMENTS: usize = 1 << 22;

/// Packed copies of a model's smaller weights, for [`Tape::decoding`](crate::Tape::decoding). They are not updated when
/// the parameters change.
#[derive(Debug, Default)]
pub struct Prepacked(HashMap<(Store, usize), Panels>);

impl Prepacked {
    /// Copies of those of `weights` that benefit, packed for products in the precision of `params`; none if a GPU
    /// computes with them.
    pub fn of(params: &Params, weights: impl IntoIterator<Item = Param>) -> Self {
        let small = weights
            .into_iter()
            .filter(|weight| weight.len() < READ_ONCE_ELEMENTS && params.device().is_cpu());
        let small = small.collect::<Vec<_>>();
        let packed = small.into_par_iter().map(|weight| {
            let view = View::new(params.elements(weight), weight.rows, weight.cols).transposed();
            ((weight.store, weight.offset), Panels::of(params.precision(), view, Workers::One))
        });
        Prepacked(packed.collect())
    }

    /// Bytes of the copies on a CPU of weights with these numbers of elements, but for the padding of their last columns.
    pub fn bytes_of(precision: Precision, elements: impl IntoIterator<Item = usize>) -> usize {
        let size = match precision {
            Precision::F32 => 4,
            Precision::Bf16 => 2,
        };
        elements
            .into_iter()
            .filter(|elements| *elements < READ_ONCE_ELEMENTS)
            .map(|elements| size * elements)
            .sum()
    }

    pub(crate) fn get(&self, weight: Param) -> Option<&Panels> {
        self.0.get(&(weight.store, weight.offset))
    }
}
