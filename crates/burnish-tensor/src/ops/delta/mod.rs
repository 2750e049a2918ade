//! Gated delta rules: per head a state `S` `[key_dim, value_dim]` that decays, forgets what it holds under a key, and
//! is written: `S_t = (I - β k kᵀ) Diag(e^g) S_{t-1} + β k vᵀ`, `o_t = S_tᵀ q_t`. With one decay per head this is Gated
//! DeltaNet (Yang et al. 2024, arXiv:2412.06464), with one per channel of the key Kimi Delta Attention
//! (arXiv:2510.26692), without decay DeltaNet (arXiv:2406.06484).
//!
//! Training and prefill compute it by chunks (`chunk.rs`), from states at the beginnings of chunks. Chunks end where
//! the position in a sequence is a multiple of [`DELTA_CHUNK`], so that a pass which goes on from such a position sums
//! in the order of one that began at 0. A segment that begins elsewhere starts with a shorter chunk.

mod backward;
mod chunk;
mod pairs;
mod step;

use std::{ops::Range, sync::Arc};

use rayon::prelude::*;

pub(crate) use backward::backward;
pub use step::delta_step;

use crate::{Buffer, Layout, Var, parallel};
use chunk::Scratch;

/// Rows of a chunk: a pass of [`delta_scan`] that goes on from a position which is a multiple of it gives the bits of
/// one pass over everything.
pub const DELTA_CHUNK: usize = 64;

/// Heads of a delta rule. Key head `h` serves the value heads from `h · value_heads / key_heads` on, as many as that
/// ratio says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeltaShape {
    /// Heads of queries and keys.
    pub key_heads: usize,
    /// Heads of values, states, decays and `β`; a multiple of `key_heads`.
    pub value_heads: usize,
    /// Elements of each query and key.
    pub key_dim: usize,
    /// Elements of each value.
    pub value_dim: usize,
}

impl DeltaShape {
    /// Columns of queries and of keys.
    #[must_use]
    pub fn key_width(&self) -> usize {
        self.key_heads * self.key_dim
    }

    /// Columns of values and of the output.
    #[must_use]
    pub fn value_width(&self) -> usize {
        self.value_heads * self.value_dim
    }

    /// Elements of a sequence's state `[value_heads, key_dim, value_dim]`.
    #[must_use]
    pub fn state_len(&self) -> usize {
        self.value_heads * self.head_state_len()
    }

    /// Elements of the state of one value head.
    fn head_state_len(&self) -> usize {
        self.key_dim * self.value_dim
    }

    /// Value heads that share a key head.
    fn group(&self) -> usize {
        self.value_heads / self.key_heads
    }
}

/// The operands of [`Tape::delta_rule`](crate::Tape::delta_rule).
#[derive(Clone, Copy, Debug)]
pub struct DeltaInputs<'a> {
    /// Queries `[T, key_heads · key_dim]`, scaled as they shall be used.
    pub q: &'a Var,
    /// Keys `[T, key_heads · key_dim]`, usually of unit length.
    pub k: &'a Var,
    /// Values `[T, value_heads · value_dim]`.
    pub v: &'a Var,
    /// Logarithms of decays, at most 0: one per value head `[T, value_heads]`, or one for each of its channels `[T,
    /// value_heads · key_dim]`. If `key_dim` is 1, these are the same.
    pub log_decay: &'a Var,
    /// Rates of writing `[T, value_heads]`.
    pub beta: &'a Var,
}

/// The same as slices.
#[derive(Clone, Copy, Debug)]
pub struct DeltaRows<'a> {
    /// See [`DeltaInputs::q`].
    pub q: &'a [f32],
    /// See [`DeltaInputs::k`].
    pub k: &'a [f32],
    /// See [`DeltaInputs::v`].
    pub v: &'a [f32],
    /// See [`DeltaInputs::log_decay`].
    pub log_decay: &'a [f32],
    /// See [`DeltaInputs::beta`].
    pub beta: &'a [f32],
}

impl DeltaRows<'_> {
    /// Decays of each value head: 1 or `key_dim`.
    ///
    /// # Panics
    /// If sizes do not fit.
    fn channels(&self, shape: DeltaShape, rows: usize) -> usize {
        assert!(
            shape.key_heads > 0 && shape.value_heads.is_multiple_of(shape.key_heads),
            "{} value heads over {} key heads",
            shape.value_heads,
            shape.key_heads
        );
        assert_eq!(self.q.len(), rows * shape.key_width(), "queries are [rows, key_heads * key_dim]");
        assert_eq!(self.k.len(), rows * shape.key_width(), "keys are [rows, key_heads * key_dim]");
        assert_eq!(self.v.len(), rows * shape.value_width(), "values are [rows, value_heads * value_dim]");
        assert_eq!(self.beta.len(), rows * shape.value_heads, "rates are [rows, value_heads]");
        let channels = if self.log_decay.len() == self.beta.len() { 1 } else { shape.key_dim };
        let decays = self.beta.len() * channels;
        assert_eq!(
            self.log_decay.len(),
            decays,
            "decays are [rows, value_heads] or one for each channel of them"
        );
        channels
    }
}

/// Where a root segment begins.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeltaStart<'a> {
    /// The state `[value_heads, key_dim, value_dim]` before its first row; `None` stands for zeros.
    pub state: Option<&'a [f32]>,
    /// The position of its first row in the sequence.
    pub position: usize,
}

/// States of the value heads of one key head, `[group, key_dim, value_dim]`; `None` stands for zeros.
type State = Option<Arc<Buffer>>;

/// The states before each chunk of each task: what the backward pass starts from.
pub(crate) struct States(Vec<Vec<State>>);

/// A delta rule over a batch.
pub(crate) struct Job<'a> {
    rows: DeltaRows<'a>,
    shape: DeltaShape,
    layout: &'a Layout,
    /// Decays of a value head: 1 or `key_dim`.
    channels: usize,
    /// Most rows of a chunk.
    chunk: usize,
    /// The position of each segment's first row.
    positions: Vec<usize>,
    /// Of each root segment.
    starts: &'a [DeltaStart<'a>],
}

/// One key head, with its value heads, in one island of the layout: sums over value heads and over the segments that
/// go on from another stay within a task.
struct Task {
    island: Range<usize>,
    key_head: usize,
}

/// Consecutive rows that are computed at once.
struct Piece {
    segment: usize,
    rows: Range<usize>,
}

impl<'a> Job<'a> {
    pub(crate) fn new(rows: DeltaRows<'a>, shape: DeltaShape, layout: &'a Layout) -> Self {
        Job::from_starts(rows, shape, layout, &[], DELTA_CHUNK)
    }

    fn from_starts(
        rows: DeltaRows<'a>,
        shape: DeltaShape,
        layout: &'a Layout,
        starts: &'a [DeltaStart<'a>],
        chunk: usize,
    ) -> Self {
        let channels = rows.channels(shape, layout.rows());
        let mut positions: Vec<usize> = Vec::with_capacity(layout.segments().len());
        let mut roots = starts.iter();
        for segment in layout.segments() {
            positions.push(match segment.parent {
                Some(parent) => positions[parent] + layout.segments()[parent].len,
                None => roots.next().map_or(0, |start| start.position),
            });
        }
        Job { rows, shape, layout, channels, chunk, positions, starts }
    }

    fn tasks(&self) -> Vec<Task> {
        let islands = self.layout.islands().iter();
        let of = |island: &Range<usize>| {
            let island = island.clone();
            (0..self.shape.key_heads).map(move |key_head| Task { island: island.clone(), key_head })
        };
        islands.flat_map(of).collect()
    }

    /// The rows of an island.
    fn island_rows(&self, island: &Range<usize>) -> Range<usize> {
        let segments = &self.layout.segments()[island.clone()];
        let start = segments.first().map_or(0, |segment| segment.start);
        start..segments.last().map_or(start, |segment| segment.rows().end)
    }

    /// The rows of an island, cut where positions are multiples of the chunk.
    fn pieces(&self, island: &Range<usize>) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for segment in island.clone() {
            let rows = self.layout.segments()[segment].rows();
            let offset = self.positions[segment] % self.chunk;
            let mut start = rows.start;
            while start < rows.end {
                let first = if start == rows.start { self.chunk - offset } else { self.chunk };
                let end = rows.end.min(start + first);
                pieces.push(Piece { segment, rows: start..end });
                start = end;
            }
        }
        pieces
    }

    /// The state before the first row of a segment, given the final states of the island's earlier ones.
    fn start(&self, task: &Task, segment: usize, finals: &[State]) -> State {
        if let Some(parent) = self.layout.segments()[segment].parent {
            return finals[parent - task.island.start].clone();
        }
        let roots = self.layout.segments()[..segment].iter().filter(|segment| segment.parent.is_none());
        let state = self.starts.get(roots.count())?.state?;
        assert_eq!(state.len(), self.shape.state_len(), "a state is [value_heads, key_dim, value_dim]");
        let len = self.shape.group() * self.shape.head_state_len();
        Some(Arc::new(Buffer::of(&state[task.key_head * len..][..len])))
    }

    /// Computes a task; `before` gets the state before each of its pieces.
    fn run(&self, task: &Task, mut before: Option<&mut Vec<State>>) -> Part {
        let rows = self.island_rows(&task.island);
        let width = self.shape.group() * self.shape.value_dim;
        let state_len = self.shape.group() * self.shape.head_state_len();
        let mut part = Part { out: Buffer::scratch(rows.len() * width), finals: Vec::new() };
        let mut scratch = Scratch::new(self.shape, self.channels, self.chunk);
        let pieces = self.pieces(&task.island);
        let mut pieces = pieces.iter().peekable();
        for segment in task.island.clone() {
            let mut state = self.start(task, segment, &part.finals);
            while let Some(piece) = pieces.next_if(|piece| piece.segment == segment) {
                let mut next = Buffer::part(state_len);
                let out =
                    &mut part.out[(piece.rows.start - rows.start) * width..][..piece.rows.len() * width];
                scratch.load(self, task.key_head, &piece.rows);
                scratch.forward(self, task.key_head, &piece.rows, state.as_deref(), &mut next, out);
                if let Some(before) = &mut before {
                    before.push(state);
                }
                state = Some(Arc::new(next));
            }
            part.finals.push(state);
        }
        part
    }

    /// The output `[T, value_heads · value_dim]`, and if asked for what the backward pass needs.
    pub(crate) fn forward(&self, keeps: bool) -> (Buffer, States) {
        let (parts, states) = self.run_all(keeps);
        (self.join(&parts, |part| &part.out, self.shape.group() * self.shape.value_dim), states)
    }

    fn run_all(&self, keeps: bool) -> (Vec<Part>, States) {
        let run = |task: &Task| {
            let mut before = Vec::new();
            (self.run(task, keeps.then_some(&mut before)), before)
        };
        let (parts, states) = self.tasks().par_iter().map(run).unzip();
        (parts, States(states))
    }

    /// Puts the tasks' matrices of `dim` columns side by side.
    fn join<P: Sync>(&self, parts: &[P], of: impl Fn(&P) -> &Buffer + Sync, dim: usize) -> Buffer {
        let width = self.shape.key_heads * dim;
        let mut joined = Buffer::scratch(self.layout.rows() * width);
        let mut rest = &mut joined[..];
        for (island, parts) in self.layout.islands().iter().zip(parts.chunks_exact(self.shape.key_heads)) {
            let (own, after) = rest.split_at_mut(self.island_rows(island).len() * width);
            parallel::for_rows(own, width, |first, own| {
                for (row, own) in own.chunks_exact_mut(width).enumerate() {
                    for (head, part) in own.chunks_exact_mut(dim).zip(parts) {
                        head.copy_from_slice(&of(part)[(first + row) * dim..][..dim]);
                    }
                }
            });
            rest = after;
        }
        joined
    }
}

/// The results of a task.
struct Part {
    /// `[rows, group · value_dim]`.
    out: Buffer,
    /// The state after each segment.
    finals: Vec<State>,
}

/// A delta rule over rows whose sequences may have begun before, without a tape: the output `[T, value_heads ·
/// value_dim]`, to the bit that of [`Tape::delta_rule`](crate::Tape::delta_rule) over whole sequences if every start is
/// at a multiple of [`DELTA_CHUNK`]. `starts` has one element for each root segment in order; roots behind its end
/// begin a sequence. `ends` becomes the final state of each segment, `[value_heads, key_dim, value_dim]`. So whoever
/// wants states at certain positions cuts segments there.
///
/// # Panics
/// If sizes do not fit.
pub fn delta_scan(
    rows: DeltaRows<'_>,
    shape: DeltaShape,
    layout: &Layout,
    starts: &[DeltaStart<'_>],
    ends: &mut Vec<Vec<f32>>,
) -> Buffer {
    scan(&Job::from_starts(rows, shape, layout, starts, DELTA_CHUNK), ends)
}

fn scan(job: &Job<'_>, ends: &mut Vec<Vec<f32>>) -> Buffer {
    let shape = job.shape;
    let (parts, _) = job.run_all(false);
    ends.clear();
    for (island, parts) in job.layout.islands().iter().zip(parts.chunks_exact(shape.key_heads)) {
        for index in 0..island.len() {
            let mut end = Vec::with_capacity(shape.state_len());
            for part in parts {
                match &part.finals[index] {
                    Some(state) => end.extend_from_slice(state),
                    None => end.resize(end.len() + shape.group() * shape.head_state_len(), 0.0),
                }
            }
            ends.push(end);
        }
    }
    job.join(&parts, |part| &part.out, shape.group() * shape.value_dim)
}

#[cfg(test)]
mod tests;
