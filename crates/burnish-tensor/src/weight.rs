//! The weight of a linear map, with an optional adapter that is trained in its place.

use std::borrow::Cow;

use crate::{
    Buffer, Param, Params,
    gemm::{View, ViewMut, Workers, Write, multiply},
    ops::{low_rank, scores},
};

/// The weight of a linear map, `[outputs, inputs]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weight {
    /// The weight itself.
    pub base: Param,
    /// The adapter that is added to it.
    pub adapter: Option<Adapter>,
}

/// A low-rank adapter (LoRA; Hu et al. 2021, arXiv:2106.09685): `scale · B A` is added to the weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adapter {
    /// `A`, `[rank, inputs]`.
    pub a: Param,
    /// `B`, `[outputs, rank]`.
    pub b: Param,
    /// The factor of the product.
    pub scale: f32,
    /// Share of the input's elements that are dropped on a tape with dropout.
    pub dropout: f32,
    /// The model's map that it belongs to: no two maps drop the same elements.
    pub site: u64,
}

/// A linear map: its weight, and what is added to each row of its result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Map {
    /// `[outputs, inputs]`.
    pub weight: Weight,
    /// `[outputs]`.
    pub bias: Option<Param>,
}

impl Map {
    /// The weights of maps of the same input as one matrix, if they are neighbours, and nothing else is added to the
    /// results.
    pub(crate) fn joined(maps: &[Map]) -> Option<Param> {
        let mut all = maps.first()?.weight.base;
        for (at, Map { weight: Weight { base, adapter }, bias }) in maps.iter().enumerate() {
            let follows = at == 0
                || (base.store == all.store && base.cols == all.cols && base.offset == all.range().end);
            if !follows || adapter.is_some() || bias.is_some() {
                return None;
            }
            all.rows += if at == 0 { 0 } else { base.rows };
        }
        Some(all)
    }
}

impl From<Param> for Weight {
    fn from(base: Param) -> Self {
        Weight { base, adapter: None }
    }
}

impl Weight {
    /// The weight with its adapter added, `[outputs, inputs]`, in f32.
    #[must_use]
    pub fn merged<'a>(&self, params: &'a Params) -> Cow<'a, [f32]> {
        let base = params.elements(self.base).widened();
        let Some(Adapter { a, b, scale, .. }) = self.adapter else { return base };
        let mut merged = base.into_owned();
        let out = ViewMut::new(&mut merged, self.base.rows, self.base.cols);
        let (a, b) = (View::new(params.get(a), a.rows, a.cols), View::new(params.get(b), b.rows, b.cols));
        multiply(out, Write::Add, scale, b, a, Workers::Pool);
        Cow::Owned(merged)
    }
}

impl Adapter {
    /// `x` after dropout.
    pub(crate) fn dropped(&self, x: &[f32], keys: &[u64]) -> Buffer {
        let mut dropped = Buffer::of(x);
        self.drop_out(&mut dropped, keys);
        dropped
    }

    pub(crate) fn drop_out(&self, x: &mut [f32], keys: &[u64]) {
        low_rank::Dropout { rate: self.dropout, keys, site: self.site }.apply(x);
    }

    pub(crate) fn inputs<'a>(&self, params: &'a Params, x: &'a [f32], rows: usize) -> low_rank::Inputs<'a> {
        low_rank::Inputs {
            x,
            rows,
            a: params.get(self.a),
            b: params.get(self.b),
            rank: self.a.rows,
            scale: self.scale,
            precision: params.precision(),
        }
    }

    /// `scale · hidden Aᵀ`, `[rows, rank]`.
    pub(crate) fn inner(&self, params: &Params, hidden: &[f32], rows: usize) -> Buffer {
        low_rank::scaled_inner(self.inputs(params, hidden, rows))
    }

    pub(crate) fn of_head<'a>(&self, params: &'a Params, u: &'a [f32]) -> scores::LowRank<'a> {
        scores::LowRank { u, b: params.get(self.b), rank: self.a.rows }
    }
}
