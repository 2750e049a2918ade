//! Whole training steps on the emulated GPU, compared with those of the CPU.

mod fused;
mod head;
mod mixer;

use super::*;
use crate::{
    Device, Flat, HostReadback, KV_ROWS, Keep, PagedCache, Segment, Store, Tape, TokenScores, Weight,
    Workers,
    cuda::testing::device,
    optim::AdamW,
    testing::{assert_close, random, random_ids, wide},
};

const VOCAB: usize = 21;
const SHAPE: HeadShape = HeadShape { heads: 4, kv_heads: 2, head_dim: 16 };
const WIDTH: usize = 24;
const EPS: f32 = 1e-5;

/// The settings of a model.
#[derive(Clone, Copy, Debug)]
struct Case {
    precision: Precision,
    /// Is only an adapter trained, over a frozen base?
    is_adapted: bool,
    checkpoint: Option<Keep>,
    tolerance: f64,
}

/// Two layers with biases and head norms, and a head that is separate or tied.
#[derive(Clone)]
struct Model {
    params: Params,
    table: Param,
    norm: Param,
    q: Weight,
    q_bias: Param,
    q_norm: Param,
    k: Weight,
    v: Weight,
    o: Weight,
    gate: Weight,
    up: Weight,
    down: Weight,
    head: Weight,
    rope: Arc<Rope>,
}

impl Model {
    fn new(case: Case) -> Self {
        let mut params = Params::new().in_precision(case.precision);
        let (matrices, vectors) = match (case.is_adapted, case.precision) {
            (false, _) => (Store::Trained, Store::Trained),
            (true, Precision::F32) => (Store::Frozen, Store::Frozen),
            (true, Precision::Bf16) => (Store::FrozenBf16, Store::Frozen),
        };
        let mut site = 0;
        let mut add = |store, rows: usize, cols: usize| {
            site += 1;
            let shape: &[usize] = if rows == 1 { &[cols] } else { &[rows, cols] };
            let param = params.add_to(store, &format!("p{site}"), shape, rows > 1);
            let values = random(site, rows * cols);
            let scale = if rows > 1 { 1.5 / (cols as f32).sqrt() } else { 1.0 };
            match params.elements_mut(param) {
                crate::ElementsMut::F32(to) => to.iter_mut().zip(values).for_each(|(to, x)| *to = scale * x),
                crate::ElementsMut::Bf16(to) => {
                    to.iter_mut().zip(values).for_each(|(to, x)| *to = half::bf16::from_f32(scale * x));
                }
            }
            param
        };
        let table = add(matrices, VOCAB, WIDTH);
        let [norm, q_bias, q_norm] = [WIDTH, SHAPE.width(), SHAPE.head_dim].map(|len| add(vectors, 1, len));
        let mut sites = 0..;
        let mut map = |rows, cols| {
            let base = add(matrices, rows, cols);
            let adapter = case.is_adapted.then(|| Adapter {
                a: add(Store::Trained, 3, cols),
                b: add(Store::Trained, rows, 3),
                scale: 0.7,
                dropout: 0.25,
                site: sites.next().unwrap(),
            });
            Weight { base, adapter }
        };
        let (q, k, v) =
            (map(SHAPE.width(), WIDTH), map(SHAPE.kv_width(), WIDTH), map(SHAPE.kv_width(), WIDTH));
        let (o, gate, up) = (map(WIDTH, SHAPE.width()), map(40, WIDTH), map(40, WIDTH));
        let down = map(WIDTH, 40);
        let head = if case.is_adapted { map(VOCAB, WIDTH) } else { table.into() };
        let rope = Arc::new(Rope::new((0..8).map(|i| 0.5_f32.powi(i)).collect(), 1.0));
        Model { params, table, norm, q, q_bias, q_norm, k, v, o, gate, up, down, head, rope }
    }

    fn layer<'p>(
        &self,
        tape: &mut Tape<'p>,
        x: &Var,
        positions: &Arc<[u32]>,
        mix: &mut dyn FnMut(&mut Tape<'p>, [Var; 3]) -> Var,
    ) -> Var {
        let normed = tape.rms_norm(x, self.norm, EPS);
        let q = tape.linear(&normed, self.q, Some(self.q_bias));
        let q = tape.rms_norm(&q, self.q_norm, EPS);
        let k = tape.linear(&normed, self.k, None);
        let [q, k] = [q, k].map(|x| tape.rope(x, SHAPE.head_dim, &self.rope, positions));
        let v = tape.linear(&normed, self.v, None);
        let mixed = mix(tape, [q, k, v]);
        let mixed = tape.linear(&mixed, self.o, None);
        let x = tape.add(x, &mixed);
        let normed = tape.rms_norm(&x, self.norm, EPS);
        let (gate, up) = (tape.linear(&normed, self.gate, None), tape.linear(&normed, self.up, None));
        let out = tape.swiglu_linear(&gate, &up, self.down, None);
        tape.add(&x, &out)
    }
}

/// A packed batch with shared prefixes.
struct Inputs {
    ids: Vec<u32>,
    positions: Arc<[u32]>,
    keys: Arc<[u64]>,
    layout: Arc<Layout>,
    rows: Vec<u32>,
    targets: Vec<u32>,
    temperatures: Vec<f32>,
    vocab: Arc<Vocab>,
}

impl Inputs {
    fn new() -> Self {
        let segment = Segment::causal;
        let segments = vec![
            segment(0, 9, None),
            segment(9, 21, Some(0)),
            segment(30, 3, Some(0)),
            segment(33, 5, None),
            segment(38, 2, Some(1)),
        ];
        let layout = Layout::new(segments).unwrap();
        let n = layout.rows();
        let rows: Vec<u32> = (0..n as u32).filter(|row| row % 3 != 1).chain([4]).collect();
        Inputs {
            ids: random_ids(1, n, VOCAB),
            positions: (0..n as u32).map(|row| row % 33).collect(),
            keys: (0..n as u64).map(|row| row * 31).collect(),
            layout: Arc::new(layout),
            targets: random_ids(2, rows.len(), VOCAB - 1),
            temperatures: (0..rows.len()).map(|row| 0.7 + 0.1 * (row % 5) as f32).collect(),
            rows,
            vocab: Arc::new(Vocab::only(VOCAB, |id| id as usize != VOCAB - 1)),
        }
    }

    fn forward<'p>(&'p self, model: &'p Model, case: Case, tape: &mut Tape<'p>) -> TokenScores {
        let x = self.hidden(model, case, tape);
        tape.token_scores(&x, model.head, &self.targets, &self.temperatures, &self.vocab)
    }

    /// The hidden states that the head reads.
    fn hidden<'p>(&'p self, model: &'p Model, case: Case, tape: &mut Tape<'p>) -> Var {
        let mut x = tape.embed(model.table, &self.ids);
        let layer = move |tape: &mut Tape<'p>, x: &Var| {
            model.layer(tape, x, &self.positions, &mut |tape, [q, k, v]| {
                tape.attention(&q, &k, &v, SHAPE, &self.layout)
            })
        };
        for _ in 0..2 {
            x = match case.checkpoint {
                Some(keep) => tape.checkpoint(&x, keep, layer),
                None => layer(tape, &x),
            };
        }
        let x = tape.rms_norm(&x, model.norm, EPS);
        tape.gather(&x, &self.rows)
    }
}

/// The result of two updates: scores, gradient, its squared norm, and the parameters afterwards.
struct Trained {
    scores: Vec<f32>,
    grads: Vec<f32>,
    squared_norm: f64,
    params: Vec<f32>,
}

fn train(case: Case, device: &Device) -> Trained {
    let mut model = Model::new(case);
    model.params = model.params.on(device);
    let inputs = Inputs::new();
    let (mut grads, mut m, mut v) =
        (Flat::zeros(&model.params), Flat::zeros(&model.params), Flat::zeros(&model.params));
    let mut last = Vec::new();
    for step in 1..3 {
        grads.clear();
        {
            let mut tape = Tape::recording(&model.params);
            if case.is_adapted {
                tape = tape.with_dropout(Arc::clone(&inputs.keys));
            }
            let scores = inputs.forward(&model, case, &mut tape);
            let [d_logprob, d_entropy] = [3, 4].map(|seed| random(seed, inputs.rows.len()));
            tape.backward(&scores, &d_logprob, &d_entropy, &mut grads);
            last = [scores.logprobs, scores.entropies].concat();
        }
        grads.scale(0.25);
        let hyper = AdamW { lr: 1e-3, beta1: 0.9, beta2: 0.99, eps: 1e-3, weight_decay: 0.1, step };
        let half = model.params.trained_len() / 2;
        let end = model.params.trained_len();
        for (run, decays) in [(0..half, true), (half..end, false)] {
            model.params.adamw_step(run, &grads, [&mut m, &mut v], &hyper, decays);
        }
    }
    model.params.fetch().unwrap();
    Trained {
        scores: last,
        grads: grads.to_host().unwrap().into_owned(),
        squared_norm: grads.squared_norm().unwrap(),
        params: model.params.data().to_vec(),
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (precision, tolerance) in [(Precision::F32, 1e-5), (Precision::Bf16, 4e-2)] {
        let [plain, kept] = [None, Some(Keep::InputAndAttention)];
        for (is_adapted, checkpoint) in [(false, plain), (true, plain), (true, kept)] {
            cases.push(Case { precision, is_adapted, checkpoint, tolerance });
        }
    }
    cases
}

#[test]
fn updates_are_those_of_the_cpu() {
    let Some(cuda) = device() else { return };
    let gpu = Device::from(Arc::clone(&cuda));
    for case in cases() {
        let (ours, expected) = (train(case, &gpu), train(case, &Device::cpu()));
        println!("{case:?}");
        assert_close(&ours.scores, &wide(&expected.scores), case.tolerance);
        assert_close(&ours.grads, &wide(&expected.grads), case.tolerance);
        assert_close(&ours.params, &wide(&expected.params), case.tolerance);
        let relative = (ours.squared_norm / expected.squared_norm - 1.0).abs();
        assert!(relative < case.tolerance, "{relative}");
        assert_ne!(expected.params, Model::new(case).params.data());
    }
}

#[test]
fn checkpoints_change_no_bit_and_skip_attention_where_they_keep_it() {
    let Some(cuda) = device() else { return };
    let gpu = Device::from(Arc::clone(&cuda));
    let calls = || {
        let launched = crate::cuda::lock(&cuda.launched);
        let of = |name: &&str| launched.get(*name).copied().unwrap_or(0);
        ["attention_forward", "attention_mma_forward"].iter().map(of).sum::<usize>()
    };
    for case in cases().into_iter().filter(|case| case.checkpoint.is_none()) {
        let [(plain, once), (input, twice), (kept, skipping)] =
            [None, Some(Keep::Input), Some(Keep::InputAndAttention)].map(|checkpoint| {
                let before = calls();
                (train(Case { checkpoint, ..case }, &gpu), calls() - before)
            });
        for again in [input, kept] {
            assert_eq!((&again.scores, &again.grads), (&plain.scores, &plain.grads), "{case:?}");
            assert_eq!(again.params, plain.params, "{case:?}");
        }
        assert_eq!((once, twice, skipping), (4, 8, 4), "two layers, two updates");
    }
}

/// In bf16 a recording tape keeps half the memory; the head's output is still f32.
#[test]
fn values_are_kept_in_the_type_of_the_precision() {
    let Some(cuda) = device() else { return };
    let kept = |precision| {
        let case = Case { precision, is_adapted: false, checkpoint: None, tolerance: 0.0 };
        let mut model = Model::new(case);
        model.params = model.params.on(&Device::from(Arc::clone(&cuda)));
        let ids = random_ids(1, 300, VOCAB);
        let positions: Arc<[u32]> = (0..300).collect();
        let layout = Arc::new(Layout::causal(&[100, 200]));
        let mut tape = Tape::recording(&model.params);
        let before = cuda.memory_in_use_bytes();
        let x = tape.embed(model.table, &ids);
        let x = model.layer(&mut tape, &x, &positions, &mut |tape, [q, k, v]| {
            tape.attention(&q, &k, &v, SHAPE, &layout)
        });
        let precision_of = |x: &Var| x.data.device().all().precision();
        let logits = tape.head(&x, model.head);
        assert_eq!((precision_of(&x), precision_of(&logits)), (precision, Precision::F32));
        cuda.memory_in_use_bytes() - before
    };
    let [wide, short] = [Precision::F32, Precision::Bf16].map(kept);
    // Half of what the operations keep; logits, statistics and lists have the same size in both.
    assert!(short * 10 < wide * 7, "{short} of {wide} bytes");
}

/// Neither weights nor the factors of adapters are rounded again at each use.
#[test]
fn an_adapted_pass_in_bf16_rounds_nothing_that_has_a_copy() {
    let Some(cuda) = device() else { return };
    let case = Case { precision: Precision::Bf16, is_adapted: true, checkpoint: None, tolerance: 0.0 };
    let mut model = Model::new(case);
    model.params = model.params.on(&Device::from(Arc::clone(&cuda)));
    let launched = |name: &str| crate::cuda::lock(&cuda.launched).get(name).copied().unwrap_or(0);
    let positions: Arc<[u32]> = (0..30).collect();
    let layout = Arc::new(Layout::causal(&[30]));
    let mut tape = Tape::inference(&model.params);
    let x = tape.embed(model.table, &random_ids(1, 30, VOCAB));
    let x = model
        .layer(&mut tape, &x, &positions, &mut |tape, [q, k, v]| tape.attention(&q, &k, &v, SHAPE, &layout));
    let logits = tape.head(&x, model.head);
    assert!(HostReadback::default().read(&logits).unwrap().iter().all(|x| x.is_finite()));
    assert_eq!(launched("to_bf16"), 1, "the copy of the trained parameters, and nothing else");
}

#[test]
fn parameters_follow_from_the_host_to_the_gpu_and_back() {
    let Some(cuda) = device() else { return };
    let case = Case { precision: Precision::Bf16, is_adapted: false, checkpoint: None, tolerance: 0.0 };
    let mut model = Model::new(case);
    let before = model.params.data().to_vec();
    model.params = model.params.on(&Device::from(Arc::clone(&cuda)));
    let logits = |model: &Model| {
        let mut tape = Tape::inference(&model.params);
        let x = tape.external(1, WIDTH, vec![1.0; WIDTH]);
        let y = tape.linear(&x, model.head, None);
        HostReadback::default().read(&y).unwrap().to_vec()
    };
    let first = logits(&model);
    // One step in the direction of the sign.
    let n = before.len();
    let grads = Flat::of(&model.params, vec![1.0; n]);
    let (mut m, mut v) = (Flat::zeros(&model.params), Flat::zeros(&model.params));
    let hyper = AdamW { lr: 0.5, beta1: 0.9, beta2: 0.9, eps: 0.0, weight_decay: 0.0, step: 1 };
    let copy = model.clone();
    model.params.adamw_step(0..n, &grads, [&mut m, &mut v], &hyper, false);
    let moved = logits(&model);
    for (first, moved) in first.iter().zip(&moved) {
        assert!((first - moved - 0.5 * WIDTH as f32).abs() < 0.2, "{first} {moved}");
    }
    let expected: Vec<f64> = before.iter().map(|&x| f64::from(x) - 0.5).collect();
    assert_close(model.params.data(), &expected, 1e-6);
    assert_eq!(logits(&copy), first);
    // Changes on the host are used from then on.
    model.params.data_mut().copy_from_slice(&before);
    assert_eq!(logits(&model), first);
    assert_eq!(model.params.in_precision(Precision::F32).data(), before);
}

#[test]
fn a_value_is_not_moved_unasked_and_errors_come_out() {
    let Some(cuda) = device() else { return };
    let case = cases()[0];
    let mut model = Model::new(case);
    model.params = model.params.on(&Device::from(Arc::clone(&cuda)));
    let mut tape = Tape::inference(&model.params);
    let x = tape.embed(model.table, &[3]);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| x.data().len())).is_err());
    let expected = &model.params.data()[3 * WIDTH..4 * WIDTH];
    assert_eq!(HostReadback::default().read(&x).unwrap(), expected);
    cuda.note(Err(crate::CudaError::Ordinal { ordinal: 3, count: 1 }));
    let scores = tape.token_scores(&x, model.head, &[1], &[1.0], &Arc::new(Vocab::all(VOCAB)));
    assert!(scores.logprobs[0].is_nan() && scores.entropies[0].is_nan());
    assert!(HostReadback::default().read(&x).is_err() && model.params.device().check().is_err());
}

/// A prompt read at once and then one token at a time gives the same as one pass over everything.
#[test]
fn decoding_with_pages_is_the_packed_pass() {
    let Some(cuda) = device() else { return };
    for case in cases().into_iter().filter(|case| case.checkpoint.is_none()) {
        let mut model = Model::new(case);
        let (prompt, all) = (19, 23);
        let ids = random_ids(9, all, VOCAB);
        let full = |model: &Model, rows: std::ops::Range<usize>| {
            let mut tape = Tape::inference(&model.params);
            let positions: Arc<[u32]> = (0..rows.end as u32).collect();
            let layout = Arc::new(Layout::causal(&[rows.end]));
            let x = tape.embed(model.table, &ids[..rows.end]);
            let x = model.layer(&mut tape, &x, &positions, &mut |tape, [q, k, v]| {
                tape.attention(&q, &k, &v, SHAPE, &layout)
            });
            let x = tape.linear(&x, model.head, None);
            HostReadback::default().read(&x).unwrap()[rows.start * VOCAB..].to_vec()
        };
        let expected = full(&model, prompt..all);
        model.params = model.params.on(&Device::from(Arc::clone(&cuda)));
        let cache = PagedCache::beside(&model.params, 1, SHAPE.kv_width(), 4).unwrap();
        // Pages 2 and 1 hold the prompt, 3 the answer.
        let slot = |row: usize| match row {
            0..16 => 2 * 16 + row,
            16..19 => 16 + row - 16,
            _ => 3 * 16 + row - prompt,
        };
        let prepacked = crate::Prepacked::default();
        let run = |rows: std::ops::Range<usize>| {
            let mut tape = Tape::decoding(&model.params, &prepacked, Workers::Pool);
            let slots = tape.page_slots(&cache, &rows.clone().map(slot).collect::<Vec<_>>());
            let positions: Arc<[u32]> = rows.clone().map(|row| row as u32).collect();
            let x = tape.embed(model.table, &ids[rows.clone()]);
            let layout = Arc::new(Layout::causal(&[rows.len()]));
            let x = model.layer(&mut tape, &x, &positions, &mut |tape, [q, k, v]| {
                tape.write_pages(&cache, 0, &slots, &k, &v);
                if rows.start == 0 {
                    return tape.attention(&q, &k, &v, SHAPE, &layout);
                }
                let seen = vec![(2, 16), (1, 3), (3, rows.end - prompt)];
                let seen = tape.pages_seen(&cache, [seen]);
                tape.paged_attention(&q, SHAPE, &cache, 0, &seen)
            });
            let x = tape.linear(&x, model.head, None);
            HostReadback::default().read(&x).unwrap().to_vec()
        };
        run(0..prompt);
        let steps: Vec<f32> = (prompt..all).flat_map(|row| run(row..row + 1)).collect();
        assert_close(&steps, &wide(&expected), case.tolerance);
    }
}

/// Attention of whole sequences, and of their ends over a cache that has their beginnings.
#[test]
fn what_goes_on_from_cached_rows_is_as_if_all_had_been_read() {
    let Some(cuda) = device() else { return };
    let lens = [70, 9, 33];
    let total: usize = lens.iter().sum();
    let layout = Arc::new(Layout::causal(&lens));
    // Pages that are not in the order of the sequences.
    let pages: usize = lens.iter().map(|len| len.div_ceil(KV_ROWS)).sum();
    let mut next = 0;
    let slots: Vec<usize> = lens
        .iter()
        .flat_map(|&len| {
            let first = next;
            next += len.div_ceil(KV_ROWS);
            (0..len).map(move |row| (pages - 1 - first - row / KV_ROWS) * KV_ROWS + row % KV_ROWS)
        })
        .collect();
    for precision in [Precision::F32, Precision::Bf16] {
        let params = Params::new().in_precision(precision).on(&Device::from(Arc::clone(&cuda)));
        let cache = PagedCache::beside(&params, 2, SHAPE.kv_width(), pages).unwrap();
        let numbers = |seed, width: usize| random(seed, total * width);
        let (q, k, v) =
            (numbers(1, SHAPE.width()), numbers(2, SHAPE.kv_width()), numbers(3, SHAPE.kv_width()));
        let mut tape = Tape::inference(&params);
        let [q, k, v] = [(q, SHAPE.width()), (k, SHAPE.kv_width()), (v, SHAPE.kv_width())]
            .map(|(x, width)| tape.external(total, width, x));
        let read = |x: &Var| HostReadback::default().read(x).unwrap().to_vec();
        let whole = tape.attention(&q, &k, &v, SHAPE, &layout);
        let expected = read(&whole);
        let all = tape.page_slots(&cache, &slots);
        tape.write_pages(&cache, 1, &all, &k, &v);
        for pasts in [[48, 0, 16], [0, 8, 32], [69, 8, 32], [0, 0, 0]] {
            let mut unread = Vec::new();
            for (segment, past) in layout.segments().iter().zip(pasts) {
                unread.extend((segment.start + past..segment.start + segment.len).map(|row| row as u32));
            }
            let continued = tape.pages_continued(&cache, &slots, &layout, &pasts, SHAPE);
            let rest = tape.gather(&q, &unread);
            let mixed = tape.continued_paged_attention(&rest, SHAPE, &cache, 1, &continued);
            let width = SHAPE.width();
            let rows = unread.iter().flat_map(|&row| &expected[row as usize * width..][..width]);
            assert_eq!(read(&mixed), rows.copied().collect::<Vec<f32>>(), "{precision:?} {pasts:?}");
        }
    }
}
