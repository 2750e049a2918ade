//! The fused operations, forward and backward, at the sizes of the reference shape (a): width 256, 4 heads of 64, 2 of
//! keys, FFN 768, vocabulary 512.
//!
//! ```text
//! cargo bench -p burnish-tensor --bench ops [NAME]
//! ```
#![allow(clippy::unwrap_used, missing_docs, reason = "benchmarks")]

use std::sync::Arc;

use burnish_core::rng::Stream;
use burnish_tensor::optim::{AdamW, adamw_step};
use burnish_tensor::{
    DeltaInputs, DeltaRows, DeltaShape, HeadShape, KV_ROWS, KvBlock, Layout, Param, Params, Precision,
    Prepacked, Rope, Segment, Tape, Var, Vocab, Workers, cached_attention, delta_step,
};
use divan::{Bencher, black_box, counter::ItemsCount};

const ROWS: usize = 4096;
const WIDTH: usize = 256;
const FFN: usize = 768;
const VOCAB: usize = 512;
const SHAPE: HeadShape = HeadShape { heads: 4, kv_heads: 2, head_dim: 64 };
const KV_WIDTH: usize = SHAPE.kv_heads * SHAPE.head_dim;

fn main() {
    divan::main();
}

fn random(len: usize) -> Vec<f32> {
    let mut stream = Stream::new(len as u64);
    (0..len).map(|_| stream.uniform() as f32 - 0.5).collect()
}

fn params(precision: Precision, shape: &[usize]) -> (Params, Param) {
    let mut params = Params::new().in_precision(precision);
    let param = params.add("weight", shape, true);
    let values = random(param.len());
    params.get_mut(param).copy_from_slice(&values);
    (params, param)
}

/// Runs `forward` on a recording tape and then the backward pass from its result, repeatedly; inputs are made outside
/// the loop.
fn forward_backward<const N: usize>(
    bencher: Bencher<'_, '_>,
    params: &Params,
    inputs: [(usize, usize); N],
    forward: impl Fn(&mut Tape<'_>, [Var; N]) -> Var + Sync,
) {
    let data = inputs.map(|(rows, cols)| random(rows * cols));
    bencher
        .counter(ItemsCount::new(inputs[0].0))
        .with_inputs(|| (data.clone(), params.zeros_like()))
        .bench_local_values(|(data, mut grads)| {
            let mut tape = Tape::recording(params);
            let mut data = data.into_iter();
            let vars = inputs.map(|(rows, cols)| tape.external(rows, cols, data.next().unwrap()));
            let out = forward(&mut tape, vars);
            let d_out = vec![1.0; out.data().len()];
            tape.backward_from(&out, d_out, &mut grads);
            grads
        });
}

#[divan::bench(args = [Precision::F32, Precision::Bf16])]
fn linear(bencher: Bencher<'_, '_>, precision: Precision) {
    let (params, weight) = params(precision, &[FFN, WIDTH]);
    forward_backward(bencher, &params, [(ROWS, WIDTH)], |tape, [x]| tape.linear(&x, weight, None));
}

/// The product of a decoding step: few rows, nothing recorded.
#[divan::bench(args = [1, 8, 64])]
fn linear_decoding(bencher: Bencher<'_, '_>, rows: usize) {
    let (params, weight) = params(Precision::F32, &[FFN, WIDTH]);
    let prepacked = Prepacked::of(&params, [weight]);
    let mut tape = Tape::decoding(&params, &prepacked, Workers::Pool);
    let x = tape.external(rows, WIDTH, random(rows * WIDTH));
    bencher.counter(ItemsCount::new(rows)).bench_local(|| tape.linear(black_box(&x), weight, None));
}

#[divan::bench]
fn rms_norm(bencher: Bencher<'_, '_>) {
    let (params, weight) = params(Precision::F32, &[WIDTH]);
    forward_backward(bencher, &params, [(ROWS, WIDTH)], |tape, [x]| tape.rms_norm(&x, weight, 1e-6));
}

#[divan::bench]
fn rope(bencher: Bencher<'_, '_>) {
    let pairs = SHAPE.head_dim / 2;
    let inv_freq = (0..pairs).map(|at| 10_000_f32.powf(-(at as f32) / pairs as f32)).collect();
    let rope = Arc::new(Rope::new(inv_freq, 1.0));
    let positions: Arc<[u32]> = (0..ROWS as u32).map(|row| row % 256).collect();
    forward_backward(bencher, &Params::new(), [(ROWS, WIDTH)], |tape, [x]| {
        tape.rope(x, SHAPE.head_dim, &rope, &positions)
    });
}

#[divan::bench]
fn swiglu(bencher: Bencher<'_, '_>) {
    forward_backward(bencher, &Params::new(), [(ROWS, FFN); 2], |tape, [gate, up]| tape.swiglu(&gate, &up));
}

/// 16 sequences of 256 tokens; or 8 groups, each with a prompt of 64 tokens that 8 answers of 127 share.
#[divan::bench(args = ["causal", "shared prefix"])]
fn attention(bencher: Bencher<'_, '_>, kind: &str) {
    let layout = if kind == "causal" { Layout::causal(&[256; 16]) } else { Layout::new(groups()).unwrap() };
    let rows = layout.rows();
    let layout = Arc::new(layout);
    let inputs = [(rows, WIDTH), (rows, KV_WIDTH), (rows, KV_WIDTH)];
    forward_backward(bencher, &Params::new(), inputs, |tape, [q, k, v]| {
        tape.attention(&q, &k, &v, SHAPE, &layout)
    });
}

fn groups() -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::new();
    for _ in 0..8 {
        let prompt = segments.len();
        for (len, parent) in std::iter::once((64, None)).chain([(127, Some(prompt)); 8]) {
            let start = segments.last().map_or(0, |last| last.start + last.len);
            segments.push(Segment::causal(start, len, parent));
        }
    }
    segments
}

const DELTA: DeltaShape = DeltaShape { key_heads: 4, value_heads: 4, key_dim: 64, value_dim: 64 };

/// 16 sequences of 256 tokens, beside which `benches/delta_torch.py` runs torch.
#[divan::bench(args = ["head", "channel"])]
fn delta_rule(bencher: Bencher<'_, '_>, decay_of_each: &str) {
    let layout = Arc::new(Layout::causal(&[256; 16]));
    let decays = if decay_of_each == "head" { DELTA.value_heads } else { DELTA.key_width() };
    let inputs = [WIDTH, WIDTH, WIDTH, decays, DELTA.value_heads].map(|cols| (ROWS, cols));
    let params = Params::new();
    let [q, k, v, decay, beta] = inputs.map(|(rows, cols)| random(rows * cols));
    let log_decay: Vec<f32> = decay.iter().map(|x| x - 0.5).collect();
    bencher
        .counter(ItemsCount::new(ROWS))
        .with_inputs(|| [&q, &k, &v, &log_decay, &beta].map(Vec::clone))
        .bench_local_values(|data| {
            let mut tape = Tape::recording(&params);
            let mut data = data.into_iter();
            let [q, k, v, log_decay, beta] =
                inputs.map(|(rows, cols)| tape.external(rows, cols, data.next().unwrap()));
            let k = tape.unit_heads(&k, DELTA.key_dim, 1.0);
            let inputs = DeltaInputs { q: &q, k: &k, v: &v, log_decay: &log_decay, beta: &beta };
            let out = tape.delta_rule(inputs, DELTA, &layout);
            let d_out = vec![1.0; out.data().len()];
            tape.backward_from(&out, d_out, &mut params.zeros_like());
        });
}

/// 64 sequences decode one token each.
#[divan::bench]
fn delta_step_of_a_batch(bencher: Bencher<'_, '_>) {
    const BATCH: usize = 64;
    let [q, k, v] = [(); 3].map(|()| random(BATCH * WIDTH));
    let [log_decay, beta] = [-0.5, 0.5].map(|x| vec![x; BATCH * DELTA.value_heads]);
    let rows = DeltaRows { q: &q, k: &k, v: &v, log_decay: &log_decay, beta: &beta };
    let mut states = vec![vec![0.0; DELTA.state_len()]; BATCH];
    let mut out = vec![0.0; v.len()];
    bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
        let mut states: Vec<&mut [f32]> = states.iter_mut().map(Vec::as_mut_slice).collect();
        delta_step(black_box(rows), DELTA, &mut states, &mut out, Workers::One);
    });
}

#[divan::bench]
fn short_conv(bencher: Bencher<'_, '_>) {
    let layout = Arc::new(Layout::causal(&[256; 16]));
    let (params, weight) = params(Precision::F32, &[3 * WIDTH, 1, 4]);
    forward_backward(bencher, &params, [(ROWS, 3 * WIDTH)], |tape, [x]| tape.short_conv(&x, weight, &layout));
}

#[divan::bench(args = [Precision::F32, Precision::Bf16])]
fn token_scores(bencher: Bencher<'_, '_>, precision: Precision) {
    let (params, head) = params(precision, &[VOCAB, WIDTH]);
    let vocab = Arc::new(Vocab::all(VOCAB));
    let hidden = random(ROWS * WIDTH);
    let targets: Vec<u32> = (0..ROWS as u32).map(|row| row % VOCAB as u32).collect();
    let ones = vec![1.0; ROWS];
    bencher
        .counter(ItemsCount::new(ROWS))
        .with_inputs(|| (hidden.clone(), params.zeros_like()))
        .bench_local_values(|(hidden, mut grads)| {
            let mut tape = Tape::recording(&params);
            let hidden = tape.external(ROWS, WIDTH, hidden);
            let scores = tape.token_scores(&hidden, head, &targets, &ones, &vocab);
            tape.backward(&scores, &ones, &[], &mut grads);
            grads
        });
}

/// 64 sequences decode one token each: the eight of a group share a prompt of 64 tokens, and each has 64 tokens of its
/// own.
#[divan::bench]
fn cached_attention_of_groups(bencher: Bencher<'_, '_>) {
    const TOKENS: usize = 64;
    const BLOCK: usize = KV_ROWS * KV_WIDTH;
    let block = || (random(TOKENS * KV_WIDTH), random(TOKENS * KV_WIDTH));
    let prompts: Vec<_> = (0..8).map(|_| block()).collect();
    let answers: Vec<_> = (0..64).map(|_| block()).collect();
    let caches: Vec<Vec<KvBlock<'_>>> = answers
        .iter()
        .enumerate()
        .map(|(at, answer)| {
            let blocks = [&prompts[at / 8], answer].into_iter().flat_map(|(k, v)| {
                k.chunks_exact(BLOCK).zip(v.chunks_exact(BLOCK)).map(|(k, v)| KvBlock { k, v, rows: KV_ROWS })
            });
            blocks.collect()
        })
        .collect();
    let q = random(caches.len() * WIDTH);
    let mut out = vec![0.0; q.len()];
    bencher
        .counter(ItemsCount::new(caches.len()))
        .bench_local(|| cached_attention(black_box(&q), SHAPE, &caches, &mut out, Workers::One));
}

#[divan::bench]
fn adamw(bencher: Bencher<'_, '_>) {
    const LEN: usize = 5_000_000;
    let grads = random(LEN);
    let [mut weights, mut first, mut second] = [random(LEN), vec![0.0; LEN], vec![0.0; LEN]];
    let step = AdamW { lr: 3e-4, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.01, step: 10 };
    bencher
        .counter(ItemsCount::new(LEN))
        .bench_local(|| adamw_step(&mut weights, &grads, &mut first, &mut second, &step, true));
}
