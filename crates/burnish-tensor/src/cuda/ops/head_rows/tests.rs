//! Compared with the functions of the CPU, which are tested against the reference.

use super::*;
use crate::{
    cuda::{ops::head_case::Case, testing::device},
    ops,
    testing::{assert_close, wide},
};

/// Squares, and the ids and log-probs of the likeliest.
fn found(cuda: &Arc<Cuda>, case: &Case, count: usize, chunk: usize) -> (Vec<f32>, Vec<u32>, Vec<f32>) {
    let on_gpu = case.on(cuda);
    let squares = squares_in(cuda, on_gpu.inputs(), chunk).download().unwrap();
    let (ids, logprobs) = top_in(cuda, on_gpu.inputs(), &case.vocab, count, chunk);
    let ids = ids.download().unwrap().into_iter().map(|id| u32::try_from(id).unwrap()).collect();
    (squares, ids, logprobs.download().unwrap())
}

#[test]
fn squares_and_the_likeliest_ids_are_those_of_the_cpu() {
    let Some(cuda) = device() else { return };
    // Includes more ids than threads, and every id there is.
    for (seed, rows, width, v, gap, count, chunk) in [
        (1, 5, 4, 7, 3, 1, 2),
        (2, 3, 3, 600, 5, 7, 9),
        (3, 4, 2, 1100, 9, 3, 3),
        (4, 2, 3, 40, 2, 20, 1),
        (5, 1, 1, 2, 9, 1, 1),
    ] {
        let case = Case::new(seed, rows, width, Vocab::only(v, |id| id % gap != 1));
        let (squares, ids, logprobs) = found(&cuda, &case, count, chunk);
        assert_close(&squares, &wide(&ops::squares::squares(case.on_host())), 1e-6);
        let expected = ops::top::top(case.on_host(), count);
        assert_eq!(ids, expected.0);
        assert_close(&logprobs, &wide(&expected.1), 1e-6);
    }
}

#[test]
fn of_equal_logits_the_smaller_id_comes_first() {
    let Some(cuda) = device() else { return };
    // Ids of one thread (37 and 549 are 512 apart), ids of others, and an excluded one.
    let mut logits = vec![0.25; 700];
    for id in [698, 549, 300, 37, 38] {
        logits[id] = 2.0;
    }
    (logits[5], logits[600]) = (3.0, 9.0);
    let case = Case::of_logits(logits, vec![1.0, -1.0], Vocab::only(700, |id| id != 600));
    let (_, ids, _) = found(&cuda, &case, 8, 9);
    assert_eq!(ids[..8], [5, 37, 38, 300, 549, 698, 0, 1]);
    // The other way round: ties everywhere except at the end.
    assert_eq!(ids[8..], [0, 1, 2, 3, 4, 6, 7, 8]);
}

#[test]
fn logits_far_from_zero_have_one_likeliest_id() {
    let Some(cuda) = device() else { return };
    let mut logits: Vec<f32> = (0..30).map(|id| -1e30 * id as f32).collect();
    logits[17] = 3e38;
    let case = Case::of_logits(logits, vec![1.0], Vocab::only(30, |id| id != 0));
    let (squares, ids, logprobs) = found(&cuda, &case, 29, 1);
    let expected = ops::top::top(case.on_host(), 29);
    assert_eq!((squares[0], &ids), (1.0, &expected.0));
    assert_eq!((ids[0], logprobs[0]), (17, 0.0));
    assert!(logprobs[1..].iter().all(|log| *log < -1e30));
}

#[test]
fn a_row_that_is_no_number_has_ids_without_log_probs() {
    let Some(cuda) = device() else { return };
    // The second is the NaN of a card's arithmetic: no float comes after it.
    for nan in [f32::NAN, f32::from_bits(0x7fff_ffff), f32::from_bits(0xffff_ffff)] {
        let logits: Vec<f32> = (0..600).map(|id| 1.0 + id as f32).collect();
        let case = Case::of_logits(logits, vec![nan, 1.0], Vocab::only(600, |id| id % 2 == 0));
        let (squares, ids, logprobs) = found(&cuda, &case, 300, 2);
        let mut own = ids[..300].to_vec();
        own.sort_unstable();
        assert!(own.iter().copied().eq((0..600).step_by(2)), "each allowed id once");
        assert!(squares[0].is_nan() && logprobs[..300].iter().all(|log| log.is_nan()));
        assert!(squares[1].is_finite() && logprobs[300..].iter().all(|log| log.is_finite()));
        assert_eq!(ids[300..303], [598, 596, 594]);
    }
}
