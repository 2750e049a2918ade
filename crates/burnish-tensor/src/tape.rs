//! Runs operations forward and, if asked to, remembers how to run them backward.

use std::sync::Arc;

use crate::{
    Layout, Param, Params, Rope, Var, Vocab,
    backward::Op,
    ops::{
        self,
        attention::{HeadShape, Inputs},
        rope::Turn,
        scores,
    },
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
/// Operations panic if shapes do not fit each other: that is a mistake of the program, not of its input.
pub struct Tape<'p> {
    pub(crate) params: &'p Params,
    pub(crate) is_recording: bool,
    pub(crate) records: Vec<Record>,
    pub(crate) scores: Vec<ScoresRecord>,
    pub(crate) slots: usize,
}

/// One operation that was run.
pub(crate) struct Record {
    pub(crate) op: Op,
    /// The slot of its output.
    pub(crate) out: usize,
}

/// What the backward pass of [`Tape::token_scores`] needs.
pub(crate) struct ScoresRecord {
    pub(crate) hidden: Var,
    pub(crate) head: Param,
    pub(crate) targets: Vec<u32>,
    pub(crate) temperatures: Vec<f32>,
    pub(crate) vocab: Arc<Vocab>,
    pub(crate) rows: Vec<scores::Row>,
    pub(crate) logits: Option<Vec<f32>>,
}

/// Log-probs and entropies of some rows; where a backward pass through the output head starts.
#[derive(Clone, Debug)]
pub struct TokenScores {
    /// Log-prob of each row's target, in nats; -∞ for an excluded id.
    pub logprobs: Vec<f32>,
    /// Entropy of each row's distribution, in nats.
    pub entropies: Vec<f32>,
    /// Index of the tape's record.
    pub(crate) node: usize,
}

impl<'p> Tape<'p> {
    /// A tape that can run backward, once.
    #[must_use]
    pub fn recording(params: &'p Params) -> Self {
        Tape { params, is_recording: true, records: Vec::new(), scores: Vec::new(), slots: 0 }
    }

    /// A tape that keeps nothing: values are freed as soon as the caller drops them.
    #[must_use]
    pub fn inference(params: &'p Params) -> Self {
        Tape { is_recording: false, ..Tape::recording(params) }
    }

    /// Rows of an embedding table `[V, D]`: `[ids.len(), D]`. Ids must be below `V`.
    pub fn embed(&mut self, table: Param, ids: &[u32]) -> Var {
        let data = ops::embed::forward(self.params.get(table), table.cols, ids);
        self.push(ids.len(), table.cols, data, || Op::Embed { table, ids: ids.to_vec() })
    }

    /// `x Wᵀ + b`: `[T, inputs] -> [T, outputs]` with `weight` `[outputs, inputs]` and `bias` `[outputs]`.
    pub fn linear(&mut self, x: &Var, weight: Param, bias: Option<Param>) -> Var {
        assert_eq!(x.cols, weight.cols, "columns of x and of the weight differ");
        let shape = ops::linear::Shape { rows: x.rows, inputs: weight.cols, outputs: weight.rows };
        let bias_data = bias.map(|bias| self.params.get(bias));
        let data = ops::linear::forward(&x.data, self.params.get(weight), bias_data, shape);
        self.push(x.rows, weight.rows, data, || Op::Linear { x: x.clone(), weight, bias })
    }

    /// Root-mean-square norm over groups of `weight.len()` neighbouring columns: the whole row, or each head of
    /// it where the weight is as long as a head.
    pub fn rms_norm(&mut self, x: &Var, weight: Param, eps: f32) -> Var {
        assert!(x.cols.is_multiple_of(weight.len()), "rows of {} are not groups of {}", x.cols, weight.len());
        let (data, inverse_rms) = ops::norm::forward(&x.data, self.params.get(weight), eps);
        self.push(x.rows, x.cols, data, || Op::RmsNorm { x: x.clone(), inverse_rms, weight })
    }

    /// Rotary position embedding of each head of `x` `[T, heads · head_dim]`, row `i` at `positions[i]`. In place
    /// if nobody else holds `x`.
    pub fn rope(&mut self, x: Var, head_dim: usize, rope: &Arc<Rope>, positions: &Arc<[u32]>) -> Var {
        let mut data = Arc::unwrap_or_clone(x.data);
        ops::rope::rotate(&mut data, x.cols, head_dim, rope, positions, Turn::Forward);
        self.push(x.rows, x.cols, data, || Op::Rope {
            x: x.slot,
            cols: x.cols,
            head_dim,
            rope: Arc::clone(rope),
            positions: Arc::clone(positions),
        })
    }

    /// `softmax(q kᵀ / sqrt(head_dim)) v` of every head, under the visibility of `layout`:
    /// `q` `[T, heads · head_dim]`, `k` and `v` `[T, kv_heads · head_dim]`, the output like `q`.
    pub fn attention(&mut self, q: &Var, k: &Var, v: &Var, shape: HeadShape, layout: &Arc<Layout>) -> Var {
        let inputs = Inputs { q: &q.data, k: &k.data, v: &v.data, shape, layout };
        let (data, log_sums) = ops::attention::forward(inputs);
        let out = self.value(q.rows, q.cols, data);
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
        let data = ops::swiglu::forward(&gate.data, &up.data);
        self.push(gate.rows, gate.cols, data, || Op::Swiglu { gate: gate.clone(), up: up.clone() })
    }

    /// `a + b`.
    pub fn add(&mut self, a: &Var, b: &Var) -> Var {
        assert_eq!((a.rows, a.cols), (b.rows, b.cols), "shapes of a sum differ");
        let mut data = a.data.to_vec();
        crate::parallel::add(&mut data, &b.data);
        self.push(a.rows, a.cols, data, || Op::Add { a: a.slot, b: b.slot })
    }

    /// `[rows.len(), cols]`: row `rows[i]` of `x` at row `i`. Rows may repeat.
    pub fn gather(&mut self, x: &Var, rows: &[u32]) -> Var {
        let data = ops::embed::forward(&x.data, x.cols, rows);
        self.push(rows.len(), x.cols, data, || Op::Gather {
            x: x.slot,
            x_rows: x.rows,
            cols: x.cols,
            rows: rows.to_vec(),
        })
    }

    /// A constant `[rows, cols]`: no gradient flows into it.
    pub fn external(&mut self, rows: usize, cols: usize, data: Vec<f32>) -> Var {
        assert_eq!(data.len(), rows * cols, "elements of a matrix [{rows}, {cols}]");
        self.value(rows, cols, data)
    }

    /// Log-prob of `targets[i]`, and the entropy, under `softmax(hidden[i] · Wᵀ / temperatures[i])` over the ids of
    /// `vocab`; `head` is `W` `[vocab.len(), D]`, temperatures are above 0. Logits are computed some rows at a
    /// time.
    pub fn token_scores(
        &mut self,
        hidden: &Var,
        head: Param,
        targets: &[u32],
        temperatures: &[f32],
        vocab: &Arc<Vocab>,
    ) -> TokenScores {
        assert_eq!(head.cols, hidden.cols, "columns of the hidden states and of the head differ");
        assert_eq!(head.rows, vocab.len(), "rows of the head and ids of the vocabulary differ");
        assert_eq!(
            (targets.len(), temperatures.len()),
            (hidden.rows, hidden.rows),
            "one target for each row"
        );
        let weight = self.params.get(head);
        let inputs =
            scores::Inputs { hidden: &hidden.data, weight, width: head.cols, targets, temperatures, vocab };
        let (rows, logits) = scores::forward(inputs, self.is_recording);
        let logprobs = rows.iter().map(|row| row.logprob).collect();
        let entropies = rows.iter().map(|row| row.entropy).collect();
        let node = self.scores.len();
        if self.is_recording {
            self.scores.push(ScoresRecord {
                hidden: hidden.clone(),
                head,
                targets: targets.to_vec(),
                temperatures: temperatures.to_vec(),
                vocab: Arc::clone(vocab),
                rows,
                logits,
            });
        }
        TokenScores { logprobs, entropies, node }
    }

    fn push(&mut self, rows: usize, cols: usize, data: Vec<f32>, op: impl FnOnce() -> Op) -> Var {
        let out = self.value(rows, cols, data);
        self.record(&out, op);
        out
    }

    fn value(&mut self, rows: usize, cols: usize, data: Vec<f32>) -> Var {
        let slot = self.slots;
        self.slots += 1;
        Var { data: Arc::new(data), rows, cols, slot }
    }

    fn record(&mut self, out: &Var, op: impl FnOnce() -> Op) {
        if self.is_recording {
            self.records.push(Record { op: op(), out: out.slot });
        }
    }
}

/// Plain logits `[rows, V]` of hidden states `[rows, D]` under a head `[V, D]`.
#[must_use]
pub fn logits(params: &Params, hidden: &[f32], rows: usize, head: Param) -> Vec<f32> {
    let shape = ops::linear::Shape { rows, inputs: head.cols, outputs: head.rows };
    ops::linear::forward(hidden, params.get(head), None, shape)
}
