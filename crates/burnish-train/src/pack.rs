//! Token-budget micro-batches without padding, in which shared prefixes are computed once.
//!
//! The samples of a micro-batch form a forest of segments ([`Layout`]): neighbours that begin with the same tokens (the
//! rollouts of one prompt, the branches of one trace) share a segment. Its rows go through the model once, and in the
//! backward pass receive the gradients of everything that follows them.

use std::borrow::Borrow;
use std::ops::Range;
use std::sync::Arc;

use burnish_tensor::{Layout, Segment, Visibility};

use crate::columns::groups;
use crate::{LatentRows, Latents, Sample};

/// The fewest tokens for which a segment is cut in two so that its beginning can be shared. With fewer, the work per
/// segment outweighs the saved rows.
pub const SHARED_TOKENS_MIN: usize = 16;

/// Some whole samples, laid out for one forward pass. `T` rows go through the model, `S` of them (possibly with
/// repeats) through the head.
#[derive(Debug, Clone)]
pub struct MicroBatch {
    /// Token ids of the rows, `[T]`.
    pub ids: Vec<u32>,
    /// Position of each row in its sample, `[T]`.
    pub positions: Arc<[u32]>,
    /// Which rows see each other.
    pub layout: Arc<Layout>,
    /// Which rows are latent steps.
    pub latents: LatentRows,
    /// For each scored token, the row that predicts it, `[S]`.
    pub rows: Vec<u32>,
    /// The scored tokens, `[S]`.
    pub targets: Vec<u32>,
    /// Temperature of each scored token, `[S]`.
    pub temperatures: Vec<f32>,
    /// The scored tokens of each sample; in order, without gaps.
    pub sequences: Vec<Range<usize>>,
    /// Index of each sample among all the samples to be packed.
    pub samples: Vec<usize>,
}

impl MicroBatch {
    /// Its samples, among all that were packed.
    pub(crate) fn parts<'s>(&self, samples: &[&'s Sample]) -> Vec<&'s Sample> {
        self.samples.iter().map(|&index| samples[index]).collect()
    }
}

/// Packs `samples` in their order into micro-batches of at most `tokens_max` rows each.
///
/// A sample is never split; one that is longer than `tokens_max` gets a micro-batch of its own. A sample without a
/// scored token needs no forward pass and is in no micro-batch. The samples must pass [`Sample::check`].
pub fn pack<S: Borrow<Sample>>(samples: &[S], tokens_max: usize) -> Vec<MicroBatch> {
    let samples: Vec<&Sample> = samples.iter().map(Borrow::borrow).collect();
    let alone: Vec<Range<usize>> = (0..samples.len()).map(|at| at..at + 1).collect();
    pack_units(&samples, &alone, tokens_max)
}

/// As [`pack`], but neighbours of the same [`Sample::group`] stay in one micro-batch, however long they are together.
/// If groups share a beginning, a micro-batch may exceed `tokens_max` by some rows.
pub fn pack_groups<S: Borrow<Sample>>(samples: &[S], tokens_max: usize) -> Vec<MicroBatch> {
    let samples: Vec<&Sample> = samples.iter().map(Borrow::borrow).collect();
    pack_units(&samples, &groups(&samples), tokens_max)
}

/// Packs samples, keeping those of a unit together.
fn pack_units(samples: &[&Sample], units: &[Range<usize>], tokens_max: usize) -> Vec<MicroBatch> {
    let mut batches = Vec::new();
    let mut open = Forest::default();
    for unit in units {
        let scored = || unit.clone().filter(|at| !samples[*at].inputs().is_empty());
        let rows = open.rows_of(scored().map(|at| samples[at]));
        if open.ids.len() + rows > tokens_max && !open.samples.is_empty() {
            batches.push(std::mem::take(&mut open).close());
        }
        for index in scored() {
            let shared = open.shared(samples[index]);
            open.add(index, samples[index], shared);
        }
    }
    if !open.samples.is_empty() {
        batches.push(open.close());
    }
    batches
}

fn common_prefix(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// What the model reads of a sample and may share with its neighbours: nothing from its first latent step on, because
/// what that reads is no token.
fn shareable(sample: &Sample) -> &[u32] {
    let inputs = sample.inputs();
    let end = sample.latents.as_ref().and_then(Latents::first).unwrap_or(inputs.len());
    &inputs[..end.min(inputs.len())]
}

/// A micro-batch being filled.
#[derive(Default)]
struct Forest<'a> {
    ids: Vec<u32>,
    positions: Vec<u32>,
    /// In order of creation, not of `start`.
    segments: Vec<Segment>,
    /// Segments of the latest sample, root first; `inputs` is what it read.
    path: Vec<usize>,
    inputs: &'a [u32],
    /// What the next sample may share of that.
    shareable: &'a [u32],
    latents: LatentRows,
    rows: Vec<u32>,
    targets: Vec<u32>,
    temperatures: Vec<f32>,
    sequences: Vec<Range<usize>>,
    samples: Vec<usize>,
}

/// What the next sample can share with the one before it.
#[derive(Default)]
struct Shared {
    tokens: usize,
    /// Number of shared segments of the path; only the first `cut` tokens of the last one are shared.
    segments: usize,
    cut: Option<usize>,
}

impl<'a> Forest<'a> {
    /// How many rows samples would add. Exact for one sample; approximate for several, because a beginning that they
    /// share may be too short to be worth a cut.
    fn rows_of(&self, samples: impl Iterator<Item = &'a Sample>) -> usize {
        let (mut rows, mut before) = (0, None);
        for sample in samples {
            let inputs = sample.inputs();
            let shared = match before {
                None => self.shared(sample).tokens,
                Some(_) if sample.noised.is_some() => 0,
                Some(before) => match common_prefix(before, shareable(sample)) {
                    common if common >= SHARED_TOKENS_MIN => common,
                    _ => 0,
                },
            };
            rows += inputs.len() - shared;
            before = Some(shareable(sample));
        }
        rows
    }

    fn shared(&self, sample: &Sample) -> Shared {
        let mut shared = Shared::default();
        // A token that sees later ones is another in every sample.
        if sample.noised.is_some() {
            return shared;
        }
        let common = common_prefix(self.shareable, shareable(sample));
        for &segment in &self.path {
            let len = self.segments[segment].len;
            let rest = common - shared.tokens;
            if rest < len {
                if rest >= SHARED_TOKENS_MIN {
                    shared = Shared { tokens: common, segments: shared.segments + 1, cut: Some(rest) };
                }
                break;
            }
            shared.tokens += len;
            shared.segments += 1;
        }
        shared
    }

    fn add(&mut self, index: usize, sample: &'a Sample, shared: Shared) {
        (self.inputs, self.shareable) = (sample.inputs(), shareable(sample));
        self.path.truncate(shared.segments);
        if let (Some(len), Some(&last)) = (shared.cut, self.path.last()) {
            self.cut(last, len);
        }
        let visibility = if sample.noised.is_some() { Visibility::Bidirectional } else { Visibility::Causal };
        self.grow(shared.tokens, visibility);
        let row_of: Vec<usize> = self.path.iter().flat_map(|&at| self.segments[at].rows()).collect();
        if let Some(latents) = &sample.latents {
            self.latents.extend(latents, &row_of);
        }
        let begin = self.rows.len();
        for token in sample.scored() {
            let predicting = if sample.noised.is_some() { token } else { token - 1 };
            self.rows.push(row_of[predicting] as u32);
            self.targets.push(sample.ids[token]);
            self.temperatures.push(sample.temperatures[token]);
        }
        self.sequences.push(begin..self.rows.len());
        self.samples.push(index);
        if sample.noised.is_some() {
            (self.inputs, self.shareable, self.path) = (&[], &[], Vec::new());
        }
    }

    /// Splits a segment after `len` tokens. Its rows stay where they are.
    fn cut(&mut self, segment: usize, len: usize) {
        let lower = self.segments.len();
        for child in self.segments.iter_mut().filter(|child| child.parent == Some(segment)) {
            child.parent = Some(lower);
        }
        let upper = &mut self.segments[segment];
        let (start, rest) = (upper.start + len, upper.len - len);
        upper.len = len;
        self.segments.push(Segment::causal(start, rest, Some(segment)));
    }

    /// Appends what the latest sample reads beyond the `shared` tokens of the path, if anything.
    fn grow(&mut self, shared: usize, visibility: Visibility) {
        let own = &self.inputs[shared..];
        if own.is_empty() {
            return;
        }
        let parent = self.path.last().copied();
        self.path.push(self.segments.len());
        self.segments.push(Segment { start: self.ids.len(), len: own.len(), parent, visibility });
        self.ids.extend_from_slice(own);
        self.positions.extend(shared as u32..self.inputs.len() as u32);
    }

    fn close(self) -> MicroBatch {
        MicroBatch {
            ids: self.ids,
            positions: self.positions.into(),
            layout: Arc::new(layout(&self.segments)),
            latents: self.latents,
            rows: self.rows,
            targets: self.targets,
            temperatures: self.temperatures,
            sequences: self.sequences,
            samples: self.samples,
        }
    }
}

/// The segments in the order of their rows.
#[expect(
    clippy::expect_used,
    reason = "segments cover the rows without gaps, and parents lie before children"
)]
fn layout(segments: &[Segment]) -> Layout {
    let mut order: Vec<usize> = (0..segments.len()).collect();
    order.sort_unstable_by_key(|&at| segments[at].start);
    let mut rank = vec![0; segments.len()];
    for (new, &old) in order.iter().enumerate() {
        rank[old] = new;
    }
    let sorted = order
        .iter()
        .map(|&at| {
            let segment = segments[at];
            Segment { parent: segment.parent.map(|parent| rank[parent]), ..segment }
        })
        .collect();
    Layout::new(sorted).expect("a forest of packed samples is a layout")
}

#[cfg(test)]
mod tests;
