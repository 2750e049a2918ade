//! Fused operations, compared with the sequences that they replace.

use super::*;
use crate::{HeadMaps, Keep, Map, Norm, cuda::testing::is_real};

/// Maps of `WIDTH` columns in the order of the flat buffer, a row of head norms, and a norm of rows.
struct Maps {
    params: Params,
    q: Map,
    k: Map,
    v: Map,
    gate: Map,
    up: Map,
    down: Map,
    head_norms: [Norm; 2],
    norm: Norm,
    rope: Arc<Rope>,
}

impl Maps {
    /// With biases, or with an adapter of each map if `is_adapted`, whose products are not joined.
    fn new(cuda: &Arc<Cuda>, precision: Precision, has_bias: bool, is_adapted: bool) -> Self {
        let mut params = Params::new().in_precision(precision);
        let mut add = |shape: &[usize]| {
            let param = params.add("", shape, true);
            let values = random(param.offset as u64 + 1, param.len());
            params.elements_mut(param).set(&values);
            param
        };
        let mut map = |rows: usize, cols: usize| {
            let base = add(&[rows, cols]);
            let bias = has_bias.then(|| add(&[rows]));
            let adapter = is_adapted.then(|| {
                let (a, b) = (add(&[3, cols]), add(&[rows, 3]));
                Adapter { a, b, scale: 0.7, dropout: 0.0, site: 1 }
            });
            Map { weight: Weight { base, adapter }, bias }
        };
        let [q, k, v] = [SHAPE.width(), SHAPE.kv_width(), SHAPE.kv_width()].map(|rows| map(rows, WIDTH));
        let [gate, up] = [40, 40].map(|rows| map(rows, WIDTH));
        let down = map(WIDTH, 40);
        let head_norms = [0, 1].map(|_| Norm { weight: add(&[SHAPE.head_dim]), offset: 1.0 });
        let norm = Norm { weight: add(&[WIDTH]), offset: 0.0 };
        let rope = Arc::new(Rope::new((0..6).map(|i| 0.5_f32.powi(i)).collect(), 1.0));
        let params = params.on(&Device::from(Arc::clone(cuda)));
        Maps { params, q, k, v, gate, up, down, head_norms, norm, rope }
    }
}

/// Of a real card, cuBLAS may choose another kernel for a joined product.
fn assert_same(ours: &[f32], expected: &[f32], precision: Precision) {
    match (is_real(), precision) {
        (false, _) => assert_eq!(ours, expected),
        (true, Precision::F32) => assert_close(ours, &wide(expected), 1e-5),
        (true, Precision::Bf16) => assert_close(ours, &wide(expected), 2e-2),
    }
}

fn read(x: &Var) -> Vec<f32> {
    x.on_host().unwrap().to_vec()
}

const CASES: [(Precision, bool, bool); 4] = [
    (Precision::F32, false, false),
    (Precision::Bf16, false, false),
    (Precision::Bf16, true, false),
    (Precision::F32, false, true),
];

#[test]
fn neighbours_are_multiplied_at_once_where_nothing_is_recorded() {
    let Some(cuda) = device() else { return };
    let joined = || lock(&cuda.launched).iter().filter(|(name, _)| name.contains("halves")).count();
    for (precision, has_bias, is_adapted) in CASES {
        let maps = Maps::new(&cuda, precision, has_bias, is_adapted);
        lock(&cuda.launched).clear();
        let x = random(1, 5 * WIDTH);
        let of = |tape: &mut Tape<'_>| {
            let x = tape.external(5, WIDTH, x.clone());
            read(&tape.swiglu_maps(&x, [maps.gate, maps.up], maps.down))
        };
        let recorded = of(&mut Tape::recording(&maps.params));
        assert_eq!(joined(), 0);
        let ours = of(&mut Tape::inference(&maps.params));
        assert_eq!(joined(), usize::from(!has_bias && !is_adapted));
        assert_same(&ours, &recorded, precision);
        // A pass that is run again to be recorded must do what it will do then.
        lock(&cuda.launched).clear();
        let mut tape = Tape::recording(&maps.params);
        let x = tape.external(5, WIDTH, x.clone());
        let again =
            tape.checkpoint(&x, Keep::Input, |tape, x| tape.swiglu_maps(x, [maps.gate, maps.up], maps.down));
        assert_eq!((read(&again), joined()), (recorded, 0));
    }
}

#[test]
fn a_sum_with_its_norm_has_the_gradients_of_both() {
    let Some(cuda) = device() else { return };
    for (precision, ..) in CASES {
        let maps = Maps::new(&cuda, precision, false, false);
        let ([a, b], d) = ([1, 2].map(|seed| random(seed, 7 * 40)), random(3, 7 * WIDTH));
        let run = |is_fused: bool| {
            let mut tape = Tape::recording(&maps.params);
            let [a, b] = [&a, &b].map(|x| {
                let x = tape.external(7, 40, x.clone());
                tape.linear(&x, maps.down.weight, None)
            });
            let (sum, normed) = if is_fused {
                tape.add_norm(&a, &b, maps.norm, EPS)
            } else {
                let sum = tape.add(&a, &b);
                let normed = tape.rms_norm(&sum, maps.norm, EPS);
                (sum, normed)
            };
            let out = tape.add(&sum, &normed);
            let result = read(&out);
            let mut grads = Flat::zeros(&maps.params);
            tape.backward_from(&out, d.clone(), &mut grads);
            (result, grads.to_host().unwrap().into_owned())
        };
        assert_eq!(run(true), run(false), "{precision:?}");
    }
}

#[test]
fn projected_heads_are_those_of_the_sequence() {
    let Some(cuda) = device() else { return };
    for ((precision, has_bias, is_adapted), has_norms) in
        CASES.into_iter().flat_map(|case| [(case, true), (case, false)])
    {
        let maps = Maps::new(&cuda, precision, has_bias, is_adapted);
        let x = random(1, 3 * WIDTH);
        let positions: Arc<[u32]> = Arc::from([4, 0, 9]);
        let seen = || [vec![(0, 5)], vec![(1, 1)], vec![(2, 1), (0, 5)]];
        let attended = |is_fused: bool| {
            let mut tape = Tape::inference(&maps.params);
            let cache = PagedCache::beside(&maps.params, 1, SHAPE.kv_width(), 3).unwrap();
            // The rows of page 0 that are seen.
            let filled = tape.page_slots(&cache, &[0, 1, 2, 3]);
            let [k, v] =
                [5, 6].map(|seed| tape.external(4, SHAPE.kv_width(), random(seed, 4 * SHAPE.kv_width())));
            tape.write_pages(&cache, 0, &filled, &k, &v);
            let slots = tape.page_slots(&cache, &[4, 16, 32]);
            let x = tape.external(3, WIDTH, x.clone());
            let q = if is_fused {
                let heads = HeadMaps {
                    maps: [maps.q, maps.k, maps.v],
                    norms: has_norms.then_some(maps.head_norms),
                    eps: EPS,
                    rope: Arc::clone(&maps.rope),
                    shape: SHAPE,
                };
                tape.project_to_pages(&x, &heads, &positions, (&cache, 0, &slots))
            } else {
                let [q, k, v] = [maps.q, maps.k, maps.v].map(|map| tape.linear(&x, map.weight, map.bias));
                let mut turned = |x: Var, at: usize| {
                    let x = if has_norms { tape.rms_norm(&x, maps.head_norms[at], EPS) } else { x };
                    tape.rope(x, SHAPE.head_dim, &maps.rope, &positions)
                };
                let (q, k) = (turned(q, 0), turned(k, 1));
                tape.write_pages(&cache, 0, &slots, &k, &v);
                q
            };
            let seen = tape.pages_seen(&cache, seen());
            (read(&q), read(&tape.paged_attention(&q, SHAPE, &cache, 0, &seen)))
        };
        let (ours, expected) = (attended(true), attended(false));
        assert_same(&ours.0, &expected.0, precision);
        assert_same(&ours.1, &expected.1, precision);
    }
}
