//! The operations of a tape on a GPU.

pub(crate) mod head_rows;
pub(crate) mod mixer;

use std::sync::{Arc, Mutex};

use super::{
    Buffer, Cuda, lock,
    ops::{
        attention,
        delta::Chunks,
        elementwise, embed,
        forest::Forest,
        linear, low_rank, norm,
        rope::{self, Angles},
        scores,
        short_conv::Paths,
    },
    params::OnGpu,
    values::{Elements, Values},
};
use crate::{
    Adapter, HeadShape, Layout, Norm, Param, Params, Precision, Rope, Var, Vocab,
    data::Data,
    ops::{linear::Shape, rope::Turn},
};

/// The GPU part of a tape. Clones share what they upload.
#[derive(Clone)]
pub(crate) struct Gpu<'p> {
    pub(crate) cuda: &'p Arc<Cuda>,
    pub(crate) params: &'p OnGpu,
    precision: Precision,
    batch: Arc<Mutex<Batch>>,
}

/// What all layers of a batch use, uploaded once.
#[derive(Default)]
pub(crate) struct Batch {
    /// The ids of a step that is launched again with others ([`Batch::of_step`]).
    step: Option<Option<embed::Ids>>,
    angles: Kept<(Arc<Rope>, Arc<[u32]>), Angles>,
    forests: Kept<(Arc<Layout>, usize), Forest>,
    paths: Kept<(Arc<Layout>, usize), Paths>,
    chunks: Kept<(Arc<Layout>, bool), Chunks>,
    keys: Kept<Arc<[u64]>, Buffer<u64>>,
}

/// Results for objects that are still alive, identified by address.
struct Kept<K, V>(Vec<(K, Arc<V>)>);

impl<K, V> Default for Kept<K, V> {
    fn default() -> Self {
        Kept(Vec::new())
    }
}

impl<K, V> Kept<K, V> {
    fn get(&mut self, is_same: impl Fn(&K) -> bool, make: impl FnOnce() -> (K, V)) -> Arc<V> {
        if let Some((_, value)) = self.0.iter().find(|(key, _)| is_same(key)) {
            return Arc::clone(value);
        }
        let (key, value) = make();
        let value = Arc::new(value);
        self.0.push((key, Arc::clone(&value)));
        value
    }
}

impl Batch {
    /// The batch of a decoding step, which embeds once. What it uploads stays where it is, so that the step can be launched
    /// again after [`Batch::fill`].
    pub(crate) fn of_step() -> Self {
        Batch { step: Some(None), ..Batch::default() }
    }

    /// Uploads other ids and positions, at most as many as the step has rows.
    pub(crate) fn fill(&mut self, ids: &[u32], positions: &[u32]) {
        if let Some(Some(kept)) = &mut self.step {
            kept.fill(ids);
        }
        for ((rope, _), angles) in &mut self.angles.0 {
            // Only an operation under way has another handle.
            if let Some(angles) = Arc::get_mut(angles) {
                angles.fill(rope, positions);
            }
        }
    }
}

/// What [`Gpu::score`] saves for the backward pass.
pub(crate) struct Scored {
    pub(crate) asked: scores::Asked,
    pub(crate) rows: scores::Rows,
}

impl<'p> Gpu<'p> {
    /// `None` if the parameters are on the host.
    pub(crate) fn of(params: &'p Params) -> Option<Self> {
        let on_gpu = params.on_gpu()?;
        let precision = params.precision();
        Some(Gpu { cuda: &on_gpu.cuda, params: on_gpu, precision, batch: Arc::default() })
    }

    /// The same, with what a step keeps on the GPU.
    pub(crate) fn with_batch(self, batch: &Arc<Mutex<Batch>>) -> Self {
        Gpu { batch: Arc::clone(batch), ..self }
    }

    pub(crate) fn upload(&self, data: &[f32]) -> Data {
        Values::upload(self.cuda, self.precision, data).into()
    }

    pub(crate) fn embed(&self, table: Param, ids: &[u32]) -> Data {
        let upload = || embed::Ids::upload(self.cuda, ids, table.rows);
        let embed = |ids: &embed::Ids| {
            embed::forward(self.cuda, self.precision, self.params.operand(table), table.cols, ids).into()
        };
        match &mut lock(&self.batch).step {
            Some(kept) => embed(kept.get_or_insert_with(upload)),
            None => embed(&upload()),
        }
    }

    pub(crate) fn gather(&self, x: &Var, rows: &[u32]) -> Data {
        let ids = embed::Ids::upload(self.cuda, rows, x.rows);
        let x_data = x.data.device().all();
        embed::forward(self.cuda, x_data.precision(), x_data, x.cols, &ids).into()
    }

    pub(crate) fn linear(&self, x: &Data, weight: Param, bias: Option<Param>, shape: Shape) -> Data {
        let bias = bias.map(|bias| self.params.get(bias));
        linear::forward(self.cuda, x.device().all(), self.params.operand(weight), bias, shape).into()
    }

    /// The product with an output head, in f32.
    pub(crate) fn head(&self, x: &Data, weight: Param, shape: Shape) -> Data {
        let y = linear::head(self.cuda, x.device().all(), self.params.operand(weight), shape);
        Values::from(y).into()
    }

    /// The operands of an adapter's term for `x`, after dropout.
    pub(crate) fn low_rank_inputs<'a>(
        &'a self,
        adapter: Adapter,
        x: Elements<'a>,
        rows: usize,
    ) -> low_rank::Inputs<'a> {
        low_rank::Inputs {
            x,
            rows,
            a: self.params.operand(adapter.a),
            b: self.params.operand(adapter.b),
            rank: adapter.a.rows,
            scale: adapter.scale,
            precision: self.precision,
        }
    }

    pub(crate) fn drop_out(&self, adapter: Adapter, keys: &Arc<[u64]>, x: &mut Values) {
        let keys = self.keys(keys);
        let dropout = low_rank::Dropout { rate: adapter.dropout, keys: keys.all(), site: adapter.site };
        dropout.apply(self.cuda, x.all_mut());
    }

    /// `x` after dropout.
    pub(crate) fn dropped(&self, adapter: Adapter, keys: &Arc<[u64]>, x: &Data) -> Values {
        let mut dropped = x.device().clone();
        self.drop_out(adapter, keys, &mut dropped);
        dropped
    }

    /// Adds the term to `y`; returns what the backward pass needs.
    pub(crate) fn low_rank(
        &self,
        adapter: Adapter,
        x: &Data,
        rows: usize,
        keys: Option<&Arc<[u64]>>,
        y: &mut Data,
    ) -> Data {
        let dropped = keys.map(|keys| self.dropped(adapter, keys, x));
        let x = dropped.as_ref().unwrap_or(x.device());
        let inputs = self.low_rank_inputs(adapter, x.all(), rows);
        low_rank::forward(self.cuda, inputs, y.device_mut().all_mut()).into()
    }

    pub(crate) fn rms_norm(&self, x: &Data, norm: Norm, eps: f32) -> (Data, Data) {
        let (y, inverse_rms) = norm::forward(self.cuda, x.device().all(), self.norm(norm), eps);
        (y.into(), Values::from(inverse_rms).into())
    }

    /// `a + b`, its norm, and what the norm's backward pass needs.
    pub(crate) fn add_norm(&self, a: &Data, b: &Data, norm: Norm, eps: f32) -> (Data, Data, Data) {
        let [a, b] = [a, b].map(|x| x.device().all());
        let (sum, y, inverse_rms) = norm::add_forward(self.cuda, a, b, self.norm(norm), eps);
        (sum.into(), y.into(), Values::from(inverse_rms).into())
    }

    pub(crate) fn norm(&self, norm: Norm) -> norm::Factors<'_> {
        norm::Factors { weight: self.params.get(norm.weight), offset: norm.offset }
    }

    pub(crate) fn rope(
        &self,
        x: &mut Data,
        cols: usize,
        head_dim: usize,
        rope: &Arc<Rope>,
        positions: &Arc<[u32]>,
        turn: Turn,
    ) {
        let angles = self.angles(rope, positions);
        rope::rotate(self.cuda, x.device_mut().all_mut(), cols, head_dim, &angles, turn);
    }

    /// The output, and what the backward pass needs.
    pub(crate) fn attention(
        &self,
        [q, k, v]: [&Var; 3],
        shape: HeadShape,
        layout: &Arc<Layout>,
    ) -> (Data, Data) {
        let forest = self.forest(layout, shape.head_dim);
        let [q, k, v] = [q, k, v].map(|x| x.data.device().all());
        let (out, log_sums) =
            attention::forward(self.cuda, attention::Inputs { q, k, v, shape, forest: &forest });
        (out.into(), Values::from(log_sums).into())
    }

    pub(crate) fn swiglu(&self, gate: &Data, up: &Data) -> Data {
        elementwise::swiglu(self.cuda, gate.device().all(), up.device().all()).into()
    }

    /// The same of rows with the gates in their first halves of `cols` columns.
    pub(crate) fn swiglu_halves(&self, both: &Data, cols: usize) -> Data {
        elementwise::swiglu_halves(self.cuda, both.device().all(), cols).into()
    }

    pub(crate) fn add(&self, a: &Data, b: &Data) -> Data {
        elementwise::add(self.cuda, a.device().all(), b.device().all()).into()
    }

    /// `scale · hidden Aᵀ` of the head's adapter.
    pub(crate) fn head_inner(&self, adapter: Adapter, hidden: &Data, rows: usize) -> Data {
        let inputs = self.low_rank_inputs(adapter, hidden.device().all(), rows);
        low_rank::scaled_inner(self.cuda, inputs).into()
    }

    pub(crate) fn asked(&self, targets: &[u32], temperatures: &[f32], vocab: &Vocab) -> scores::Asked {
        scores::Asked::upload(self.cuda, targets, temperatures, vocab)
    }

    pub(crate) fn score_inputs<'a>(
        &'a self,
        hidden: &'a Data,
        head: Param,
        low_rank: Option<&'a (Adapter, Data)>,
        asked: &'a scores::Asked,
    ) -> scores::Inputs<'a> {
        scores::Inputs {
            hidden: hidden.device().all(),
            weight: self.params.operand(head),
            low_rank: low_rank.map(|(adapter, u)| scores::LowRank {
                u: u.device().all(),
                b: self.params.operand(adapter.b),
                rank: adapter.a.rows,
            }),
            precision: self.precision,
            width: head.cols,
            asked,
        }
    }

    /// Downloads log-probs and entropies; all are NaN if the GPU has failed, and [`Cuda::check`] returns the error.
    pub(crate) fn score(
        &self,
        hidden: &Data,
        head: Param,
        low_rank: Option<&(Adapter, Data)>,
        asked: scores::Asked,
        keep: bool,
    ) -> (Scored, Vec<f32>, Vec<f32>) {
        let inputs = self.score_inputs(hidden, head, low_rank, &asked);
        let rows = scores::forward(self.cuda, inputs, keep);
        let count = asked.rows();
        let (logprobs, entropies) = rows.download().unwrap_or_else(|error| {
            self.cuda.note(Err(error));
            (vec![f32::NAN; count], vec![f32::NAN; count])
        });
        (Scored { asked, rows }, logprobs, entropies)
    }

    pub(crate) fn angles(&self, rope: &Arc<Rope>, positions: &Arc<[u32]>) -> Arc<Angles> {
        let mut batch = lock(&self.batch);
        let make = if batch.step.is_some() { Angles::with_room } else { Angles::upload };
        batch.angles.get(
            |(a, b)| Arc::ptr_eq(a, rope) && Arc::ptr_eq(b, positions),
            || ((Arc::clone(rope), Arc::clone(positions)), make(self.cuda, rope, positions)),
        )
    }

    pub(crate) fn forest(&self, layout: &Arc<Layout>, head_dim: usize) -> Arc<Forest> {
        lock(&self.batch).forests.get(
            |(other, dim)| Arc::ptr_eq(other, layout) && *dim == head_dim,
            || {
                let forest = attention::forest(self.cuda, layout, &[], head_dim, self.precision);
                ((Arc::clone(layout), head_dim), forest)
            },
        )
    }

    fn keys(&self, keys: &Arc<[u64]>) -> Arc<Buffer<u64>> {
        lock(&self.batch)
            .keys
            .get(|other| Arc::ptr_eq(other, keys), || (Arc::clone(keys), Buffer::upload(self.cuda, keys)))
    }
}

#[cfg(test)]
mod tests;
