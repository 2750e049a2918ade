//! Computing a shared prefix once gives the same as computing it for every sequence.

mod common;
#[path = "common/linear.rs"]
mod linear;

use std::sync::Arc;

use burnish_tensor::{HeadShape, Layout, Param, Params, Segment, Tape, Var};
use common::{Decoder, VOCAB};
use linear::Linear;
use proptest::prelude::*;

/// A random forest: for each segment a length and a number that picks its parent.
fn forests() -> impl Strategy<Value = Vec<Segment>> {
    prop::collection::vec((1_usize..80, 0_usize..100), 1..6).prop_map(|draws| {
        let mut start = 0;
        let segment = |(index, (len, draw)): (usize, (usize, usize))| {
            let parent = draw % (index + 1);
            let segment = Segment::causal(start, len, (parent < index).then_some(parent));
            start += len;
            segment
        };
        draws.into_iter().enumerate().map(segment).collect()
    })
}

/// For each segment the rows of its whole sequence, including shared ones.
fn sequences(segments: &[Segment]) -> Vec<Vec<usize>> {
    let mut sequences: Vec<Vec<usize>> = Vec::new();
    for segment in segments {
        let mut rows = segment.parent.map_or(Vec::new(), |parent| sequences[parent].clone());
        rows.extend(segment.rows());
        sequences.push(rows);
    }
    sequences
}

fn assert_near(actual: &[f32], expected: &[f32]) {
    assert_eq!(actual.len(), expected.len());
    for (actual, expected) in actual.iter().zip(expected) {
        assert!((actual - expected).abs() <= 2e-4 * (1.0 + expected.abs()), "{actual} is not {expected}");
    }
}

/// Runs a model on a forest and on the batch in which every sequence has its own copy of its prefix: `run` gets ids,
/// positions and the layout.
#[expect(clippy::unwrap_used, reason = "a test of segments that do not fit fails")]
fn check(
    segments: &[Segment],
    params: &Params,
    table: Param,
    run: impl Fn(&mut Tape<'_>, &[u32], &[u32], &Arc<Layout>) -> Var,
) {
    let width = table.cols;
    let sequences = sequences(segments);
    let layout = Arc::new(Layout::new(segments.to_vec()).unwrap());
    let mut positions = vec![0; layout.rows()];
    for (segment, rows) in segments.iter().zip(&sequences) {
        let first = rows.len() - segment.len;
        segment.rows().for_each(|row| positions[row] = (first + row - segment.start) as u32);
    }
    let ids: Vec<u32> = (0..layout.rows() as u32).map(|row| (row * 7 + row * row) % VOCAB as u32).collect();
    let d_out: Vec<f32> =
        (0..layout.rows() * width).map(|i| ((i * 37 % 101) as f32 - 50.0) / 500.0).collect();

    // The gradient of a row's output enters at the copy in the row's own segment.
    let order: Vec<usize> = sequences.concat();
    let lens: Vec<usize> = sequences.iter().map(Vec::len).collect();
    let linear_ids: Vec<u32> = order.iter().map(|&row| ids[row]).collect();
    let linear_positions: Vec<u32> = order.iter().map(|&row| positions[row]).collect();
    let mut linear_d_out = vec![0.0; order.len() * width];
    let mut copy_of = vec![0; layout.rows()];
    let mut end = 0;
    for (segment, rows) in segments.iter().zip(&sequences) {
        end += rows.len();
        for row in segment.rows() {
            let copy = end - segment.len + row - segment.start;
            copy_of[row] = copy;
            linear_d_out[copy * width..][..width].copy_from_slice(&d_out[row * width..][..width]);
        }
    }

    let mut grads = params.zeros_like();
    let mut tape = Tape::recording(params);
    let out = run(&mut tape, &ids, &positions, &layout);
    tape.backward_from(&out, d_out, &mut grads);

    let mut linear_grads = params.zeros_like();
    let mut tape = Tape::recording(params);
    let linear_layout = Arc::new(Layout::causal(&lens));
    let linear_out = run(&mut tape, &linear_ids, &linear_positions, &linear_layout);
    tape.backward_from(&linear_out, linear_d_out, &mut linear_grads);

    for (row, &copy) in copy_of.iter().enumerate() {
        assert_near(&out.data()[row * width..][..width], &linear_out.data()[copy * width..][..width]);
    }
    assert_near(&grads, &linear_grads);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_forest_equals_its_linearised_batch(segments in forests()) {
        let decoder = Decoder::new(HeadShape { heads: 4, kv_heads: 2, head_dim: 8 });
        check(&segments, &decoder.params, decoder.table, |tape, ids, positions, layout| {
            decoder.run(tape, ids, positions, layout)
        });
    }

    #[test]
    fn a_forest_of_linear_attention_equals_its_linearised_batch(segments in forests(), channels in 1_usize..3) {
        let model = Linear::new(channels);
        check(&segments, &model.params, model.table, |tape, ids, _, layout| model.run(tape, ids, layout));
    }
}
