//! Results do not depend, to the bit, on the number of threads.

mod common;
#[path = "common/linear.rs"]
mod linear;

use std::sync::Arc;

use burnish_core::rng::Stream;
use burnish_tensor::{
    HeadShape, KV_ROWS, KvBlock, Layout, Segment, Tape, Vocab, Workers, cached_attention,
    optim::{self, AdamW},
};
use common::{Decoder, VOCAB};
use linear::Linear;

/// Calls `body` in pools of 1, 2 and 3 threads and checks that the results have the same bits.
#[track_caller]
#[expect(clippy::unwrap_used, reason = "a test that cannot start threads fails")]
fn assert_bit_equal_at_any_thread_count(body: impl Fn() -> Vec<f32> + Sync) {
    let [one, two, three] = [1, 2, 3].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| body().into_iter().map(f32::to_bits).collect::<Vec<_>>())
    });
    assert!(!one.is_empty());
    assert!(one == two, "two threads change the result");
    assert!(one == three, "three threads change the result");
}

fn random(seed: u64, len: usize) -> Vec<f32> {
    let mut stream = Stream::new(seed);
    (0..len).map(|_| (stream.uniform() - 0.5) as f32).collect()
}

#[test]
fn a_training_step_is_bit_equal_at_any_thread_count() {
    let decoder = Decoder::new(HeadShape { heads: 4, kv_heads: 2, head_dim: 32 });
    let segment = Segment::causal;
    let segments = vec![
        segment(0, 130, None),
        segment(130, 200, Some(0)),
        segment(330, 70, Some(0)),
        segment(400, 157, None),
        segment(557, 90, Some(1)),
    ];
    let layout = Arc::new(Layout::new(segments).unwrap());
    let rows = layout.rows();
    let ids: Vec<u32> = (0..rows as u32).map(|row| (row * row + 3) % VOCAB as u32).collect();
    let positions: Vec<u32> = (0..rows as u32).collect();
    let vocab = Arc::new(Vocab::only(VOCAB, |id| id != 1));
    let targets: Vec<u32> = ids.iter().map(|id| if *id == 2 { 0 } else { 2 }).collect();
    assert_bit_equal_at_any_thread_count(|| {
        let mut tape = Tape::recording(&decoder.params);
        let hidden = decoder.run(&mut tape, &ids, &positions, &layout);
        let scores = tape.token_scores(&hidden, decoder.table, &targets, &vec![0.9; rows], &vocab);
        let mut grads = decoder.params.zeros_like();
        let result = [scores.logprobs.as_slice(), &scores.entropies].concat();
        tape.backward(&scores, &random(1, rows), &random(2, rows), &mut grads);
        assert!(grads.iter().all(|g| g.is_finite()));
        [result, grads].concat()
    });
}

#[test]
fn linear_attention_is_bit_equal_at_any_thread_count() {
    let segment = Segment::causal;
    let segments = vec![
        segment(0, 130, None),
        segment(130, 200, Some(0)),
        segment(330, 1, Some(0)),
        segment(331, 300, None),
        segment(631, 90, Some(2)),
    ];
    let layout = Arc::new(Layout::new(segments).unwrap());
    let ids: Vec<u32> = (0..layout.rows() as u32).map(|row| (row * row + 3) % VOCAB as u32).collect();
    for channels in [1, 2] {
        let model = Linear::new(channels);
        assert_bit_equal_at_any_thread_count(|| {
            let mut tape = Tape::recording(&model.params);
            let out = model.run(&mut tape, &ids, &layout);
            let result = out.data().to_vec();
            let mut grads = model.params.zeros_like();
            tape.backward_from(&out, random(1, result.len()), &mut grads);
            assert!(grads.iter().all(|g| g.is_finite()));
            [result, grads].concat()
        });
    }
}

#[test]
fn a_decoding_step_is_bit_equal_at_any_thread_count() {
    let shape = HeadShape { heads: 4, kv_heads: 2, head_dim: 32 };
    let q = random(1, 9 * 128);
    let [k, v] = [2, 3].map(|seed| random(seed, KV_ROWS * 64));
    assert_bit_equal_at_any_thread_count(|| {
        let caches: Vec<Vec<KvBlock<'_>>> =
            (0..9).map(|row| vec![KvBlock { k: &k, v: &v, rows: KV_ROWS - row }; 20 * (row + 1)]).collect();
        let mut out = vec![0.0; q.len()];
        cached_attention(&q, shape, &caches, &mut out, Workers::Pool);
        out
    });
}

#[test]
fn an_optimiser_step_is_bit_equal_at_any_thread_count() {
    let len = 100_003;
    let hyper = AdamW { lr: 1e-3, beta1: 0.9, beta2: 0.99, eps: 1e-8, weight_decay: 0.1, step: 3 };
    assert_bit_equal_at_any_thread_count(|| {
        let (mut params, mut grads) = (random(1, len), random(2, len));
        let norm = optim::squared_norm(&grads);
        optim::scale(&mut grads, 1.0 / norm.sqrt() as f32);
        let (mut m, mut v) = (random(3, len), vec![0.1; len]);
        optim::adamw_step(&mut params, &grads, &mut m, &mut v, &hyper, true);
        let norm = norm.to_bits();
        params.extend([f32::from_bits(norm as u32), f32::from_bits((norm >> 32) as u32)]);
        [params, m, v].concat()
    });
}
