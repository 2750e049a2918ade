//! Latent steps: positions that read the hidden state of the position before them.
//!
//! ```text
//! ẽ_t = embed_tokens[x_t],  or  h_{t-1} at a latent step            h = norm(residual stream after the last layer)
//! ```
//!
//! (Coconut, arXiv:2412.06769; SWITCH, arXiv:2606.13106, equation 1.) If the hidden states are known, they are put in
//! the place of embeddings and the batch goes through the model at once ([`PutInputs`]). If they are not, a latent step
//! needs everything before it, and the batch goes through the model in *waves* ([`Model::forward_latent`]): wave `w` has
//! the rows with `w` latent steps on their path, the row itself included. Each row goes through each layer once, and
//! keys and values of earlier waves are kept. The alternative, to read the whole batch once more for each latent step,
//! costs as many passes as a sequence has steps. Attention alone works on the whole batch in each wave, with queries of
//! 0 for the rows of other waves, so that it needs no kernel of its own.

use std::sync::Arc;

use burnish_tensor::{DeltaInputs, DeltaShape, Layout, Param, Tape, Var};

use crate::{Mix, Model, Packed, Tap};

/// Where gradients go from a latent step whose hidden state is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LatentGradient {
    /// Nowhere: what it read is a constant.
    Stops,
    /// Into the computation of the hidden state that it read: through the whole recurrence.
    Flows,
}

/// Puts known vectors in the place of what enters the first layer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PutInputs {
    /// Rows of the batch, none twice.
    pub rows: Vec<u32>,
    /// What they read, `[rows, D]`.
    pub inputs: Vec<f32>,
}

impl Tap for PutInputs {
    fn hidden(&mut self, tape: &mut Tape<'_>, layer: usize, hidden: Var) -> Var {
        if layer > 0 || self.rows.is_empty() {
            return hidden;
        }
        let inputs = tape.external(self.rows.len(), hidden.cols(), self.inputs.clone());
        tape.put_rows(&hidden, &inputs, &self.rows)
    }
}

/// Rows of a wave that read the hidden states `values`.
struct PutStates {
    rows: Vec<u32>,
    values: Option<Var>,
}

impl Tap for PutStates {
    fn hidden(&mut self, tape: &mut Tape<'_>, layer: usize, hidden: Var) -> Var {
        match &self.values {
            Some(values) if layer == 0 => tape.put_rows(&hidden, values, &self.rows),
            _ => hidden,
        }
    }
}

/// The rows of a batch by the number of latent steps on their path.
struct Wave {
    rows: Vec<u32>,
    /// Which of these rows are latent steps, and for each the place in the wave before of the row that it follows.
    steps: Vec<u32>,
    before: Vec<u32>,
}

/// The waves of a batch with latent steps at `steps`. A step at the beginning of a sequence follows nothing; it is read
/// as any other row.
fn waves(layout: &Layout, steps: &[u32]) -> Vec<Wave> {
    let mut is_step = vec![false; layout.rows()];
    steps.iter().for_each(|&row| is_step[row as usize] = true);
    // For each row its wave, and its place there.
    let mut places = vec![(0, 0); layout.rows()];
    let mut waves: Vec<Wave> = Vec::new();
    for segment in layout.segments() {
        let parent = segment.parent.map(|parent| layout.segments()[parent].rows().end);
        let mut last = parent.and_then(|end| end.checked_sub(1));
        for row in segment.rows() {
            let of_last = last.map_or((0, 0), |last| places[last]);
            let follows = is_step[row] && last.is_some();
            let wave = of_last.0 + usize::from(follows);
            if wave == waves.len() {
                waves.push(Wave { rows: Vec::new(), steps: Vec::new(), before: Vec::new() });
            }
            let own = &mut waves[wave];
            places[row] = (wave, own.rows.len());
            if follows {
                own.steps.push(own.rows.len() as u32);
                own.before.push(of_last.1 as u32);
            }
            own.rows.push(row as u32);
            last = Some(row);
        }
    }
    waves
}

/// How a wave meets the rows of the waves before it: what layers keep of a row is put into its place in the whole
/// batch.
struct Waved<'a> {
    whole: &'a Packed,
    rows: &'a [u32],
    /// What each layer has kept of the rows so far, `[T, ·]`, for attention and for both parts of delta rules.
    attention: &'a mut Vec<Vec<Var>>,
    convolutions: &'a mut Vec<Vec<Var>>,
    rules: &'a mut Vec<Vec<Var>>,
}

/// Puts `new` rows into what a layer has kept; returns all of it.
fn keep(
    kept: &mut Vec<Vec<Var>>,
    layer: usize,
    tape: &mut Tape<'_>,
    (new, rows, total): (&[&Var], &[u32], usize),
) -> Vec<Var> {
    if kept.len() <= layer {
        kept.resize_with(layer + 1, Vec::new);
    }
    let before = std::mem::take(&mut kept[layer]);
    let put = |(at, new): (usize, &&Var)| match before.get(at) {
        Some(before) => tape.put_rows(before, new, rows),
        None => {
            let empty = tape.external(total, new.cols(), vec![0.0; total * new.cols()]);
            tape.put_rows(&empty, new, rows)
        }
    };
    kept[layer] = new.iter().enumerate().map(put).collect();
    kept[layer].clone()
}

impl Mix for Waved<'_> {
    fn attend(&mut self, tape: &mut Tape<'_>, layer: usize, q: Var, k: Var, v: Var) -> Var {
        let total = self.whole.layout.rows();
        let kept = keep(self.attention, layer, tape, (&[&k, &v], self.rows, total));
        let empty = tape.external(total, q.cols(), vec![0.0; total * q.cols()]);
        let queries = tape.put_rows(&empty, &q, self.rows);
        let mixed = tape.attention(&queries, &kept[0], &kept[1], self.whole.shape, &self.whole.layout);
        tape.gather(&mixed, self.rows)
    }

    fn convolve(&mut self, tape: &mut Tape<'_>, layer: usize, x: &Var, weight: Param) -> Var {
        let total = self.whole.layout.rows();
        let kept = keep(self.convolutions, layer, tape, (&[x], self.rows, total));
        let mixed = tape.short_conv(&kept[0], weight, &self.whole.layout);
        tape.gather(&mixed, self.rows)
    }

    fn recur(
        &mut self,
        tape: &mut Tape<'_>,
        layer: usize,
        inputs: DeltaInputs<'_>,
        shape: DeltaShape,
    ) -> Var {
        let DeltaInputs { q, k, v, log_decay, beta } = inputs;
        let total = self.whole.layout.rows();
        let kept = keep(self.rules, layer, tape, (&[q, k, v, log_decay, beta], self.rows, total));
        let inputs =
            DeltaInputs { q: &kept[0], k: &kept[1], v: &kept[2], log_decay: &kept[3], beta: &kept[4] };
        let mixed = tape.delta_rule(inputs, shape, &self.whole.layout);
        tape.gather(&mixed, self.rows)
    }
}

impl Model {
    /// As [`Model::forward`] for a packed batch in which the rows `steps` are latent steps: each reads the hidden state
    /// of the row before it on its path, which is computed first.
    pub fn forward_latent(
        &self,
        tape: &mut Tape<'_>,
        ids: &[u32],
        positions: &Arc<[u32]>,
        mixer: &Packed,
        steps: &[u32],
        gradient: LatentGradient,
    ) -> Var {
        let waves = waves(&mixer.layout, steps);
        let (mut attention, mut convolutions, mut rules) = (Vec::new(), Vec::new(), Vec::new());
        let mut whole: Option<Var> = None;
        let mut last: Option<Var> = None;
        for Wave { rows, steps, before } in &waves {
            let own: Vec<u32> = rows.iter().map(|&row| ids[row as usize]).collect();
            let places: Arc<[u32]> = rows.iter().map(|&row| positions[row as usize]).collect();
            let values = last.as_ref().map(|last: &Var| {
                let states = tape.gather(last, before);
                match gradient {
                    LatentGradient::Flows => states,
                    LatentGradient::Stops => tape.detach(&states),
                }
            });
            let mut mix = Waved {
                whole: mixer,
                rows,
                attention: &mut attention,
                convolutions: &mut convolutions,
                rules: &mut rules,
            };
            let mut tap = PutStates { rows: steps.clone(), values };
            let hidden = self.forward_tapped(tape, &own, &places, &mut mix, &mut tap);
            if waves.len() == 1 {
                return hidden;
            }
            let base = whole.take().unwrap_or_else(|| {
                tape.external(ids.len(), hidden.cols(), vec![0.0; ids.len() * hidden.cols()])
            });
            whole = Some(tape.put_rows(&base, &hidden, rows));
            last = Some(hidden);
        }
        whole.unwrap_or_else(|| self.forward(tape, ids, positions, &mut mixer.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burnish_tensor::Segment;

    #[test]
    fn a_wave_has_the_rows_with_as_many_steps_on_their_path() {
        let segment = Segment::causal;
        // 0 1 2 | 3 4 after it | 5 6 after it too | 7 8 alone
        let layout = Layout::new(vec![
            segment(0, 3, None),
            segment(3, 2, Some(0)),
            segment(5, 2, Some(0)),
            segment(7, 2, None),
        ])
        .unwrap();
        let waves = waves(&layout, &[2, 3, 6, 7]);
        let rows: Vec<&[u32]> = waves.iter().map(|wave| &*wave.rows).collect();
        // Row 7 begins a sequence, so it is no step.
        assert_eq!(rows, [&[0, 1, 7, 8][..], &[2, 5], &[3, 4, 6]]);
        let before: Vec<Vec<(u32, u32)>> = waves
            .iter()
            .map(|wave| wave.steps.iter().copied().zip(wave.before.iter().copied()).collect())
            .collect();
        assert_eq!(before, [vec![], vec![(0, 1)], vec![(0, 0), (2, 1)]]);
    }
}
