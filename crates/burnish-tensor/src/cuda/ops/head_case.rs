//! Test cases: rows of an adapted output head, on the host and on a GPU.

use std::sync::Arc;

use super::scores::{Asked, Inputs, LowRank};
use crate::{
    Elements, Precision, Vocab,
    cuda::{Buffer, Cuda},
    ops::scores,
    testing::{random, random_ids},
};

pub(super) const RANK: usize = 2;

/// A case on the host.
#[derive(Clone)]
pub(super) struct Case {
    pub(super) hidden: Vec<f32>,
    pub(super) weight: Vec<f32>,
    pub(super) width: usize,
    /// `[rows, RANK]` and `[vocab, RANK]`.
    pub(super) low_rank: Option<[Vec<f32>; 2]>,
    pub(super) targets: Vec<u32>,
    pub(super) temperatures: Vec<f32>,
    pub(super) vocab: Vocab,
}

impl Case {
    /// Random numbers, and no excluded target. Every second case has a low-rank term.
    pub(super) fn new(seed: u64, rows: usize, width: usize, vocab: Vocab) -> Self {
        let v = vocab.len();
        let allowed = |id: u32| if vocab.contains(id) { id } else { 0 };
        Case {
            hidden: random(seed, rows * width),
            weight: random(seed + 1, v * width),
            width,
            low_rank: (seed % 2 == 1).then(|| [random(seed + 2, rows * RANK), random(seed + 3, v * RANK)]),
            targets: random_ids(seed + 4, rows, v).into_iter().map(allowed).collect(),
            temperatures: random(seed + 5, rows).iter().map(|x| 1.0 + 0.5 * x).collect(),
            vocab,
        }
    }

    /// A head that produces `logits` from a hidden state of 1.
    pub(super) fn of_logits(logits: Vec<f32>, hidden: Vec<f32>, vocab: Vocab) -> Self {
        let rows = hidden.len();
        Case {
            hidden,
            weight: logits,
            width: 1,
            low_rank: None,
            targets: vec![0; rows],
            temperatures: vec![0.8; rows],
            vocab,
        }
    }

    pub(super) fn on_host(&self) -> scores::Inputs<'_> {
        let low_rank = self.low_rank.as_ref().map(|[u, b]| scores::LowRank { u, b, rank: RANK });
        scores::Inputs {
            hidden: &self.hidden,
            weight: Elements::F32(&self.weight),
            low_rank,
            precision: Precision::F32,
            width: self.width,
            targets: &self.targets,
            temperatures: &self.temperatures,
            vocab: &self.vocab,
        }
    }

    pub(super) fn on(&self, cuda: &Arc<Cuda>) -> OnGpu {
        let upload = |x: &Vec<f32>| Buffer::upload(cuda, x);
        OnGpu {
            hidden: upload(&self.hidden),
            weight: upload(&self.weight),
            low_rank: self.low_rank.as_ref().map(|factors| factors.each_ref().map(upload)),
            asked: Asked::upload(cuda, &self.targets, &self.temperatures, &self.vocab),
            width: self.width,
        }
    }
}

/// A case on a GPU.
pub(super) struct OnGpu {
    hidden: Buffer<f32>,
    weight: Buffer<f32>,
    low_rank: Option<[Buffer<f32>; 2]>,
    asked: Asked,
    width: usize,
}

impl OnGpu {
    pub(super) fn inputs(&self) -> Inputs<'_> {
        let low_rank =
            self.low_rank.as_ref().map(|[u, b]| LowRank { u: u.all().into(), b: b.all().into(), rank: RANK });
        Inputs {
            hidden: self.hidden.all().into(),
            weight: self.weight.all().into(),
            low_rank,
            precision: Precision::F32,
            width: self.width,
            asked: &self.asked,
        }
    }
}
