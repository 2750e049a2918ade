//! Runs operations forward and, on request, records how to run them backward.

mod checkpoint;
mod head_rows;
mod linear_attention;

use std::sync::{Arc, Mutex};

pub use checkpoint::Keep;
pub(crate) use checkpoint::{Attended, Rerun, Run};

use crate::cuda::tape::{Batch, Gpu, Scored};
use crate::{
    Adapter, Buffer, Layout, Map, Norm, Param, Params, Prepacked, Rope, Var, Vocab, Weight, Workers,
    backward::Op,
    data::{Data, dispatch},
    ops::{
        self,
        attention::{HeadShape, Inputs},
        rope::Turn,
        scores,
    },
    prepacked::READ_ONCE_ELEMENTS,
};

/// One forward pass, and what its backward pass needs.
///
/// ```
/// use burnish_tensor::{Params, Tape};
///
/// let mut params = Params::new();
/// let weight = params.add("weight", &[1, 2], true);
/// params.get_mut(weight).copy_from_slice(&[3.0, 4.0]);
///
/// let mut tape = Tape::recording(&params);
/// let x = tape.external(1, 2, vec![1.0, 10.0]);
/// let y = tape.linear(&x, weight, None);
/// assert_eq!(y.data(), [43.0]);
///
/// let mut grads = params.zeros_like();
/// tape.backward_from(&y, vec![1.0], &mut grads);
/// assert_eq!(grads, [1.0, 10.0]);
/// ```
///
/// # Panics
/// Operations panic if shapes do not fit together: that is a bug of the program, not an error in its input.
pub struct Tape<'p> {
    pub(crate) params: &'p Params,
    pub(crate) is_recording: bool,
    /// Packed copies of weights.
    prepacked: Option<&'p Prepacked>,
    /// Are products of the same operand joined on a GPU? Not where a pass records or is run again for its record.
    joins: bool,
    /// Are large weights read once, without packing?
    reads_once: bool,
    /// The threads that work on products.
    workers: Workers,
    /// Are adapters part of their maps?
    has_adapters: bool,
    /// A key per row of the batch; if present, adapters use dropout.
    dropout_keys: Option<Arc<[u64]>>,
    pub(crate) records: Vec<Record<'p>>,
    pub(crate) scores: Vec<ScoresRecord>,
    pub(crate) slots: usize,
    /// Does a part that records nothing collect what attention computes in `attended`?
    keeps_attention: bool,
    /// What attention computed when this part ran first. A recording part takes it from here.
    attended: Attended,
    /// The GPU that holds the parameters.
    gpu: Option<Gpu<'p>>,
}

/// One recorded operation.
pub(crate) struct Record<'p> {
    pub(crate) op: Op<'p>,
    /// The slot of its output.
    pub(crate) out: usize,
}

/// What the backward pass of [`Tape::token_scores`] needs.
pub(crate) struct ScoresRecord {
    pub(crate) hidden: Var,
    pub(crate) head: Param,
    /// The head's adapter, and `scale · hidden Aᵀ`.
    pub(crate) low_rank: Option<(Adapter, Data)>,
    pub(crate) targets: Vec<u32>,
    pub(crate) temperatures: Vec<f32>,
    pub(crate) vocab: Arc<Vocab>,
    pub(crate) softmax: Softmax,
}

/// The results of each row, and the logits if they were kept.
pub(crate) enum Softmax {
    Host(Vec<scores::Row>, Option<Buffer>),
    Device(Scored),
}

/// Log-probs and entropies of some rows; a backward pass through the output head starts here.
#[derive(Clone, Debug)]
pub struct TokenScores {
    /// Log-prob of each row's target, in nats; -∞ for an excluded id.
    pub logprobs: Vec<f32>,
    /// Entropy of each row's distribution, in nats.
    pub entropies: Vec<f32>,
    /// Index in the tape's records.
    pub(crate) node: usize,
}

impl<'p> Tape<'p> {
    /// A tape that can run backward, once. Its values are on the parameters' device.
    #[must_use]
    pub fn recording(params: &'p Params) -> Self {
        Tape {
            params,
            is_recording: true,
            prepacked: None,
            joins: false,
            reads_once: false,
            workers: Workers::Pool,
            has_adapters: true,
            dropout_keys: None,
            records: Vec::new(),
            scores: Vec::new(),
            slots: 0,
            keeps_attention: false,
            attended: Attended::new(),
            gpu: Gpu::of(params),
        }
    }

    /// A tape that keeps nothing: values are freed as soon as the caller drops them.
    #[must_use]
    pub fn inference(params: &'p Params) -> Self {
        Tape { is_recording: false, joins: true, ..Tape::recording(params) }
    }

    /// A tape for decoding: as [`Tape::inference`], for few rows. Packed weights are read from `prepacked`, large ones
    /// are read once, in place. A row's result does not depend on the other rows, nor on `workers`.
    #[must_use]
    pub fn decoding(params: &'p Params, prepacked: &'p Prepacked, workers: Workers) -> Self {
        Tape { workers, reads_once: true, ..Tape::inference(params).with_prepacked(prepacked) }
    }

    /// The same tape, with what a step keeps on the GPU.
    pub(crate) fn of_step(self, batch: &Arc<Mutex<Batch>>) -> Self {
        Tape { gpu: self.gpu.map(|gpu| gpu.with_batch(batch)), ..self }
    }

    /// The same tape, reading weights from their packed copies if there are any.
    #[must_use]
    pub fn with_prepacked(self, prepacked: &'p Prepacked) -> Self {
        Tape { prepacked: Some(prepacked), ..self }
    }

    /// The parameters that it computes with.
    #[must_use]
    pub fn params(&self) -> &'p Params {
        self.params
    }

    /// The threads that work on its operations.
    #[must_use]
    pub fn workers(&self) -> Workers {
        self.workers
    }

    /// The same tape, computing the model as if it had no adapters.
    #[must_use]
    pub fn without_adapters(self) -> Self {
        Tape { has_adapters: false, ..self }
    }

    /// The same tape, with the adapters' dropout on: what is dropped in row `i` of the batch depends on `keys[i]`
    /// alone.
    #[must_use]
    pub fn with_dropout(self, keys: Arc<[u64]>) -> Self {
        Tape { dropout_keys: Some(keys), ..self }
    }

    /// Rows of an embedding table `[V, D]`: `[ids.len(), D]`. Ids must be below `V`.
    pub fn embed(&mut self, table: Param, ids: &[u32]) -> Var {
        let data = dispatch!(
            self,
            |gpu| gpu.embed(table, ids),
            ops::embed::forward(self.params.elements(table), table.cols, ids).into()
        );
        self.push(ids.len(), table.cols, data, || Op::Embed { table, ids: ids.to_vec() })
    }

    /// `x Wᵀ + b`, and the low-rank term of an adapter: `[T, inputs] -> [T, outputs]` with `weight` `[outputs, inputs]`
    /// and `bias` `[outputs]`.
    pub fn linear(&mut self, x: &Var, weight: impl Into<Weight>, bias: Option<Param>) -> Var {
        let Weight { base, adapter } = weight.into();
        assert_eq!(x.cols, base.cols, "columns of x and of the weight differ");
        let shape = self.shape(x.rows, base);
        let data = dispatch!(
            self,
            |gpu| gpu.linear(&x.data, base, bias, shape),
            self.multiply(x, base, bias, shape)
        );
        self.mapped(x, base, bias, adapter, data)
    }

    /// `x Wᵀ` of an output head, including an adapter's term: like [`Tape::linear`], but f32 on every device and in
    /// every precision, as logits and values must be.
    pub fn head(&mut self, x: &Var, weight: impl Into<Weight>) -> Var {
        let Weight { base, adapter } = weight.into();
        assert_eq!(x.cols, base.cols, "columns of x and of the head differ");
        let shape = self.shape(x.rows, base);
        let data = dispatch!(self, |gpu| gpu.head(&x.data, base, shape), self.multiply(x, base, None, shape));
        self.mapped(x, base, None, adapter, data)
    }

    /// Records a linear map with the result `data`, and adds the term of its adapter.
    fn mapped(
        &mut self,
        x: &Var,
        weight: Param,
        bias: Option<Param>,
        adapter: Option<Adapter>,
        data: Data,
    ) -> Var {
        let y = self.push(x.rows, weight.rows, data, || Op::Linear { x: x.clone(), weight, bias });
        match adapter {
            Some(adapter) if self.has_adapters => self.low_rank(y, x, adapter),
            _ => y,
        }
    }

    /// `(silu(gate) ⊙ up) Wᵀ + b`. Unless an adapter needs it, no intermediate result is kept: the backward pass
    /// computes the gate again, for a fraction of the product's time and a fifth less memory per layer.
    pub fn swiglu_linear(
        &mut self,
        gate: &Var,
        up: &Var,
        weight: impl Into<Weight>,
        bias: Option<Param>,
    ) -> Var {
        let weight = weight.into();
        if weight.adapter.is_some() && self.has_adapters {
            let gated = self.swiglu(gate, up);
            return self.linear(&gated, weight, bias);
        }
        let weight = weight.base;
        assert_eq!(gate.cols, weight.cols, "columns of the gate and of the weight differ");
        let gated = self.gated(gate, up);
        let gated = self.value(gate.rows, gate.cols, gated);
        let shape = self.shape(gate.rows, weight);
        let data = dispatch!(
            self,
            |gpu| gpu.linear(&gated.data, weight, bias, shape),
            self.multiply(&gated, weight, bias, shape)
        );
        self.push(gate.rows, weight.rows, data, || Op::SwigluLinear {
            gate: gate.clone(),
            up: up.clone(),
            gated: gated.slot,
            weight,
            bias,
        })
    }

    /// [`Tape::swiglu_linear`] of what two maps make of `x`. On a GPU, where nothing is recorded, one product gives both if
    /// their weights are neighbours.
    pub fn swiglu_maps(&mut self, x: &Var, maps: [Map; 2], down: Map) -> Var {
        let [gate, up] = match self.joined(&maps) {
            Some((gpu, weight)) => {
                let both = gpu.linear(&x.data, weight, None, self.shape(x.rows, weight));
                let data = gpu.swiglu_halves(&both, weight.rows / 2);
                let gated = self.value(x.rows, weight.rows / 2, data);
                return self.linear(&gated, down.weight, down.bias);
            }
            None => maps.map(|map| self.linear(x, map.weight, map.bias)),
        };
        self.swiglu_linear(&gate, &up, down.weight, down.bias)
    }

    /// The weights of maps as one matrix, and the GPU to multiply by it, where that is done.
    pub(crate) fn joined(&self, maps: &[Map]) -> Option<(Gpu<'p>, Param)> {
        let gpu = self.gpu.as_ref().filter(|_| self.joins)?;
        Some((gpu.clone(), Map::joined(maps)?))
    }

    fn gated(&self, gate: &Var, up: &Var) -> Data {
        dispatch!(
            self,
            |gpu| gpu.swiglu(&gate.data, &up.data),
            ops::swiglu::forward(gate.data(), up.data()).into()
        )
    }

    /// `x Wᵀ + b` on the host.
    fn multiply(&self, x: &Var, weight: Param, bias: Option<Param>, shape: ops::linear::Shape) -> Data {
        let bias = bias.map(|bias| self.params.get(bias));
        let elements = self.params.elements(weight);
        let weight = match self.prepacked.and_then(|prepacked| prepacked.get(weight)) {
            Some(panels) => ops::linear::Weight::Packed(panels),
            None if self.reads_once && weight.len() >= READ_ONCE_ELEMENTS => {
                ops::linear::Weight::ReadOnce(elements)
            }
            None => ops::linear::Weight::AsItLies(elements),
        };
        ops::linear::forward(x.data.host(), weight, bias, shape, self.workers).into()
    }

    /// Adds an adapter's term to `y`, in place if nobody else holds `y`.
    fn low_rank(&mut self, y: Var, x: &Var, adapter: Adapter) -> Var {
        let keys = self.dropout_keys.clone().filter(|_| adapter.dropout > 0.0);
        let mut data = Arc::unwrap_or_clone(y.data);
        let inner =
            dispatch!(self, |gpu| gpu.low_rank(adapter, &x.data, x.rows, keys.as_ref(), &mut data), {
                let x_data = x.data.host();
                let dropped = keys.as_deref().map(|keys| adapter.dropped(x_data, keys));
                let inputs = adapter.inputs(self.params, dropped.as_ref().unwrap_or(x_data), x.rows);
                ops::low_rank::forward(inputs, data.host_mut()).into()
            });
        self.push(y.rows, y.cols, data, || Op::LowRank { y: y.slot, x: x.clone(), inner, adapter, keys })
    }

    fn shape(&self, rows: usize, weight: Param) -> ops::linear::Shape {
        let precision = self.params.precision();
        ops::linear::Shape { rows, inputs: weight.cols, outputs: weight.rows, precision }
    }

    /// Root-mean-square norm over groups of `weight.len()` neighbouring columns: the whole row, or each head if the
    /// weight is as long as a head. A [`Norm`] may add 1 to its weight.
    pub fn rms_norm(&mut self, x: &Var, norm: impl Into<Norm>, eps: f32) -> Var {
        let norm = norm.into();
        let width = norm.weight.len();
        assert!(x.cols.is_multiple_of(width), "rows of {} are not groups of {width}", x.cols);
        let (data, inverse_rms) = dispatch!(self, |gpu| gpu.rms_norm(&x.data, norm, eps), {
            let (data, inverse_rms) = ops::norm::forward(x.data.host(), &norm.factors(self.params), eps);
            (data.into(), inverse_rms.into())
        });
        self.push(x.rows, x.cols, data, || Op::RmsNorm { x: x.clone(), inverse_rms, norm })
    }

    /// Rotary position embedding of each head of `x` `[T, heads · head_dim]`, row `i` at `positions[i]`. In place
    /// if nobody else holds `x`.
    pub fn rope(&mut self, x: Var, head_dim: usize, rope: &Arc<Rope>, positions: &Arc<[u32]>) -> Var {
        let mut data = Arc::unwrap_or_clone(x.data);
        dispatch!(
            self,
            |gpu| gpu.rope(&mut data, x.cols, head_dim, rope, positions, Turn::Forward),
            ops::rope::rotate(data.host_mut(), x.cols, head_dim, rope, positions, Turn::Forward)
        );
        self.push(x.rows, x.cols, data, || Op::Rope {
            x: x.slot,
            cols: x.cols,
            head_dim,
            rope: Arc::clone(rope),
            positions: Arc::clone(positions),
        })
    }

    /// `softmax(q kᵀ / sqrt(head_dim)) v` of every head, under the visibility of `layout`: `q` `[T, heads · head_dim]`,
    /// `k` and `v` `[T, kv_heads · head_dim]`, the output shaped like `q`.
    pub fn attention(&mut self, q: &Var, k: &Var, v: &Var, shape: HeadShape, layout: &Arc<Layout>) -> Var {
        let known = if self.is_recording { self.attended.pop_front() } else { None };
        let (data, log_sums) = known.unwrap_or_else(|| {
            let (data, log_sums) = dispatch!(self, |gpu| gpu.attention([q, k, v], shape, layout), {
                let [q, k, v] = [q, k, v].map(Var::data);
                let (data, log_sums) = ops::attention::forward(Inputs { q, k, v, shape, layout });
                (data.into(), log_sums.into())
            });
            (Arc::new(data), log_sums)
        });
        let out = self.value(q.rows, q.cols, data);
        if self.keeps_attention {
            self.attended.push_back((Arc::clone(&out.data), log_sums));
            return out;
        }
        self.record(&out, || Op::Attention {
            q: q.clone(),
            k: k.clone(),
            v: v.clone(),
            out: out.clone(),
            log_sums,
            shape,
            layout: Arc::clone(layout),
        });
        out
    }

    /// `silu(gate) ⊙ up`.
    pub fn swiglu(&mut self, gate: &Var, up: &Var) -> Var {
        let data = self.gated(gate, up);
        self.push(gate.rows, gate.cols, data, || Op::Swiglu { gate: gate.clone(), up: up.clone() })
    }

    /// `a + b`.
    pub fn add(&mut self, a: &Var, b: &Var) -> Var {
        assert_eq!((a.rows, a.cols), (b.rows, b.cols), "shapes of a sum differ");
        let data = dispatch!(self, |gpu| gpu.add(&a.data, &b.data), {
            let mut data = Buffer::scratch(a.data.len());
            crate::parallel::sum(&mut data, a.data(), b.data());
            data.into()
        });
        self.push(a.rows, a.cols, data, || Op::Add { a: a.slot, b: b.slot })
    }

    /// `a + b`, and its norm ([`Tape::rms_norm`]).
    pub fn add_norm(&mut self, a: &Var, b: &Var, norm: impl Into<Norm>, eps: f32) -> (Var, Var) {
        let norm = norm.into();
        let Some(gpu) = self.gpu() else {
            let sum = self.add(a, b);
            let normed = self.rms_norm(&sum, norm, eps);
            return (sum, normed);
        };
        assert_eq!((a.rows, a.cols), (b.rows, b.cols), "shapes of a sum differ");
        let (sum, normed, inverse_rms) = gpu.add_norm(&a.data, &b.data, norm, eps);
        let sum = self.push(a.rows, a.cols, sum, || Op::Add { a: a.slot, b: b.slot });
        let x = sum.clone();
        let normed = self.push(x.rows, x.cols, normed, || Op::RmsNorm { x, inverse_rms, norm });
        (sum, normed)
    }

    /// `[rows.len(), cols]`: row `rows[i]` of `x` at row `i`. Rows may repeat.
    pub fn gather(&mut self, x: &Var, rows: &[u32]) -> Var {
        let data = dispatch!(
            self,
            |gpu| gpu.gather(x, rows),
            ops::embed::forward(x.data().into(), x.cols, rows).into()
        );
        self.push(rows.len(), x.cols, data, || Op::Gather {
            x: x.slot,
            x_rows: x.rows,
            cols: x.cols,
            rows: rows.to_vec(),
        })
    }

    /// A constant `[rows, cols]`, copied to the parameters' device: no gradient flows into it.
    pub fn external(&mut self, rows: usize, cols: usize, data: impl Into<Buffer>) -> Var {
        let data = data.into();
        assert_eq!(data.len(), rows * cols, "elements of a matrix [{rows}, {cols}]");
        let data = dispatch!(self, |gpu| gpu.upload(&data), data.into());
        self.value(rows, cols, data)
    }

    /// Log-prob of `targets[i]`, and the entropy, under `softmax(hidden[i] · Wᵀ / temperatures[i])` over the ids of
    /// `vocab`; `head` is `W` `[vocab.len(), D]`, temperatures are above 0. Logits are computed some rows at a time. An
    /// adapter of the head is part of `W`; it has no dropout. Waits for a GPU; if the GPU has failed, all results are
    /// NaN and [`Device::check`](crate::Device::check) returns the error.
    pub fn token_scores(
        &mut self,
        hidden: &Var,
        head: impl Into<Weight>,
        targets: &[u32],
        temperatures: &[f32],
        vocab: &Arc<Vocab>,
    ) -> TokenScores {
        let Weight { base: head, adapter } = head.into();
        assert_eq!(head.cols, hidden.cols, "columns of the hidden states and of the head differ");
        assert_eq!(head.rows, vocab.len(), "rows of the head and ids of the vocabulary differ");
        assert_eq!(
            (targets.len(), temperatures.len()),
            (hidden.rows, hidden.rows),
            "one target for each row"
        );
        let adapter = adapter.filter(|_| self.has_adapters);
        let low_rank: Option<(Adapter, Data)> = adapter.map(|adapter| {
            let inner = dispatch!(
                self,
                |gpu| gpu.head_inner(adapter, &hidden.data, hidden.rows),
                adapter.inner(self.params, hidden.data(), hidden.rows).into()
            );
            (adapter, inner)
        });
        let (softmax, logprobs, entropies) = dispatch!(
            self,
            |gpu| {
                let asked = gpu.asked(targets, temperatures, vocab);
                let (scored, logprobs, entropies) =
                    gpu.score(&hidden.data, head, low_rank.as_ref(), asked, self.is_recording);
                (Softmax::Device(scored), logprobs, entropies)
            },
            {
                let inputs = scores::Inputs {
                    hidden: hidden.data(),
                    weight: self.params.elements(head),
                    low_rank: low_rank.as_ref().map(|(adapter, u)| adapter.of_head(self.params, u.host())),
                    precision: self.params.precision(),
                    width: head.cols,
                    targets,
                    temperatures,
                    vocab,
                };
                let (rows, logits) = scores::forward(inputs, self.is_recording);
                let logprobs = rows.iter().map(|row| row.logprob).collect();
                let entropies = rows.iter().map(|row| row.entropy).collect();
                (Softmax::Host(rows, logits), logprobs, entropies)
            }
        );
        let node = self.scores.len();
        if self.is_recording {
            self.scores.push(ScoresRecord {
                hidden: hidden.clone(),
                head,
                low_rank,
                targets: targets.to_vec(),
                temperatures: temperatures.to_vec(),
                vocab: Arc::clone(vocab),
                softmax,
            });
        }
        TokenScores { logprobs, entropies, node }
    }

    pub(crate) fn gpu(&self) -> Option<&Gpu<'p>> {
        self.gpu.as_ref()
    }

    fn push(&mut self, rows: usize, cols: usize, data: Data, op: impl FnOnce() -> Op<'p>) -> Var {
        let out = self.value(rows, cols, data);
        self.record(&out, op);
        out
    }

    pub(crate) fn value(&mut self, rows: usize, cols: usize, data: impl Into<Arc<Data>>) -> Var {
        let slot = self.slots;
        self.slots += 1;
        Var { data: data.into(), rows, cols, slot }
    }

    /// The same numbers as a new value of this tape, made by none of its operations.
    pub(crate) fn share(&mut self, x: &Var) -> Var {
        let slot = self.slots;
        self.slots += 1;
        Var { slot, ..x.clone() }
    }

    fn record(&mut self, out: &Var, op: impl FnOnce() -> Op<'p>) {
        if self.is_recording {
            self.records.push(Record { op: op(), out: out.slot });
        }
    }
}
