use super::*;
use crate::cuda::testing::device;
use burnish_core::rng;

/// What a draw gives, computed in f64 by sorting, and how far the random number and the filters are from another id, as a
/// share of the total.
fn expected(logits: &[f32], vocab: &Vocab, asked: &Draw<'_>) -> Result<(Drawn, f64), NoDraw> {
    let t = if asked.temperature == 0.0 { 1.0 } else { f64::from(asked.temperature) };
    let ids: Vec<u32> = (0..vocab.len() as u32).filter(|&id| vocab.contains(id)).collect();
    let max_of = |z: &[f32]| ids.iter().fold(f32::NEG_INFINITY, |max, &id| max.max(z[id as usize]));
    let max = max_of(logits);
    if !max.is_finite() || ids.iter().any(|&id| logits[id as usize].is_nan()) {
        return Err(NoDraw::NotFinite);
    }
    let logit = |id: u32| f64::from(logits[id as usize]);
    let total: f64 = ids.iter().map(|&id| ((logit(id) - f64::from(max)) / t).exp()).sum();
    let model = |id: u32| ((logit(id) - f64::from(max)) / t - total.ln()) as f32;
    let report = |id: u32, sampled_logprob: f64| {
        let mut top: Vec<(u32, f32)> =
            ids.iter().filter(|&&id| logit(id) > f64::NEG_INFINITY).map(|&id| (id, model(id))).collect();
        top.sort_by(|a, b| logit(b.0).total_cmp(&logit(a.0)));
        top.truncate(asked.likeliest.unwrap_or(0));
        let rank = ids.iter().filter(|&&other| logit(other) >= logit(id)).count();
        let rank = if asked.likeliest.is_some() { rank } else { 0 };
        Drawn { id, model_logprob: model(id), sampled_logprob: sampled_logprob as f32, rank, top }
    };
    if let Some(id) = asked.forced {
        return if vocab.contains(id) { Ok((report(id, 0.0), 1.0)) } else { Err(NoDraw::NothingAllowed) };
    }

    let mut z = logits.to_vec();
    let is_allowed =
        |id: usize, bits: &[u32]| bits.get(id / 32).is_some_and(|word| word >> (id % 32) & 1 == 1);
    if let Some(bits) = asked.allowed {
        (0..z.len()).filter(|&id| !is_allowed(id, bits)).for_each(|id| z[id] = f32::NEG_INFINITY);
    }
    let known =
        |list: &[(u32, f32)]| list.iter().copied().filter(|(id, _)| (*id as usize) < vocab.len()).collect();
    let (added, penalties): (Vec<_>, Vec<_>) = (known(&asked.added), known(&asked.penalties));
    added.iter().for_each(|&(id, by)| z[id as usize] += by);
    for (id, by) in penalties {
        let x = &mut z[id as usize];
        *x = if *x > 0.0 { *x / asked.repetition } else { *x * asked.repetition } - by;
    }
    let max = max_of(&z);
    if max == f32::NEG_INFINITY {
        return Err(NoDraw::NothingAllowed);
    }
    if asked.temperature == 0.0 {
        let id = ids.iter().copied().find(|&id| z[id as usize] == max).unwrap();
        return Ok((report(id, 0.0), 1.0));
    }
    let weight = |id: u32| ((f64::from(z[id as usize]) - f64::from(max)) / t).exp();
    // From the least likely up; of equal ones the lower id first.
    let mut kept: Vec<u32> = ids.clone();
    kept.sort_by(|&a, &b| z[a as usize].total_cmp(&z[b as usize]).then(a.cmp(&b)));
    let mut margin = 1.0_f64;
    if (1..kept.len()).contains(&asked.top_k) {
        let kth = z[kept[kept.len() - asked.top_k] as usize];
        kept.retain(|&id| z[id as usize] >= kth);
    }
    if asked.top_p < 1.0 {
        let mass: f64 = kept.iter().map(|&id| weight(id)).sum();
        let (mut dropped, mut count) = (0.0, 0);
        while count + 1 < kept.len() {
            dropped += weight(kept[count]) / mass;
            margin = margin.min((dropped - (1.0 - f64::from(asked.top_p))).abs());
            if dropped > 1.0 - f64::from(asked.top_p) {
                break;
            }
            count += 1;
        }
        kept.drain(..count);
    }
    for &id in kept.iter().filter(|_| asked.min_p > 0.0) {
        margin = margin.min((weight(id) - f64::from(asked.min_p)).abs());
    }
    kept.retain(|&id| weight(id) >= f64::from(asked.min_p));
    kept.sort_unstable();
    let mass: f64 = kept.iter().map(|&id| weight(id)).sum();
    let mut sum = 0.0;
    for &id in &kept {
        let before = sum;
        sum += weight(id) / mass;
        if sum > asked.uniform {
            let margin = margin.min(sum - asked.uniform).min(asked.uniform - before);
            return Ok((report(id, (weight(id) / mass).ln()), margin));
        }
    }
    unreachable!("a number below 1")
}

/// A draw of every kind.
fn any_draw<'a>(seed: u64, v: usize, bits: &'a [u32]) -> Draw<'a> {
    let mut stream = rng::Stream::new(seed);
    let mut one_of = |values: &[f32]| values[stream.below(values.len() as u64) as usize];
    let mut draw = Draw::at(0, one_of(&[0.0, 0.3, 1.0, 1.0, 2.5]), 0.0);
    draw.top_k = one_of(&[0.0, 0.0, 1.0, 7.0, 60.0]) as usize;
    draw.top_p = one_of(&[1.0, 1.0, 0.999, 0.9, 0.4, 1e-9]);
    draw.min_p = one_of(&[0.0, 0.0, 0.03, 0.5, 1.0]);
    draw.repetition = one_of(&[1.0, 1.3, 0.7]);
    draw.forced = (one_of(&[0.0; 9]) + one_of(&[0.0, 0.0, 0.0, 0.0, 0.0, 1.0]) > 0.0)
        .then_some(seed as u32 % (v as u32 + 2));
    draw.likeliest = [None, None, Some(0), Some(3), Some(40)][one_of(&[0.0, 1.0, 2.0, 3.0, 4.0]) as usize];
    draw.allowed = (one_of(&[0.0, 0.0, 1.0]) > 0.0).then_some(bits);
    let ids = |count: f32, step: usize| (0..count as usize).map(move |i| ((i * step) % (v + 3)) as u32);
    let mut pairs = |counts: &[f32], by: &[f32]| {
        let mut pairs: Vec<(u32, f32)> = ids(one_of(counts), 7).map(|id| (id, one_of(by))).collect();
        pairs.sort_by_key(|(id, _)| *id);
        pairs.dedup_by_key(|(id, _)| *id);
        pairs
    };
    draw.added = pairs(&[0.0, 0.0, 5.0, 30.0], &[2.0, -1.5, f32::NEG_INFINITY]);
    draw.penalties = pairs(&[0.0, 0.0, 9.0, 90.0], &[0.0, 0.6, 1.7]);
    draw.uniform = stream.uniform();
    draw
}

#[test]
fn ids_are_those_that_the_random_number_falls_on_among_what_the_filters_keep() {
    let Some(cuda) = device() else { return };
    let (mut sure, mut refused) = (0, 0);
    for (v, gap, count) in [(1, 9, 20), (2, 9, 20), (33, 4, 200), (700, 3, 100), (5000, 7, 60)] {
        let rows = 3;
        let vocab = Vocab::only(v, |id| id % gap != 1);
        let mut stream = rng::Stream::new(v as u64);
        let mut logits: Vec<f32> = (0..rows * v).map(|_| (3.0 * stream.normal()) as f32).collect();
        // Many equally likely ids, and one that is likelier by far.
        logits[v..2 * v].iter_mut().for_each(|x| *x = x.round());
        logits[2 * v] = 40.0;
        let bits: Vec<u32> = (0..v as u64 / 32 + 2).map(|_| stream.below(1 << 32) as u32).collect();
        let draw_of = |i: usize| Draw { row: i % rows, ..any_draw((i * 1000 + v) as u64, v, &bits) };
        let asked: Vec<Draw<'_>> = (0..count).map(draw_of).collect();
        let on_gpu = || Values::from(Buffer::upload(&cuda, &logits));
        let drawn = draw(on_gpu(), &vocab, &asked).unwrap();
        for (asked, drawn) in asked.iter().zip(&drawn) {
            let expected = expected(&logits[asked.row * v..][..v], &vocab, asked);
            let (drawn, (expected, margin)) = match (drawn, expected) {
                (Ok(drawn), Ok(expected)) => (drawn, expected),
                (drawn, expected) => {
                    assert_eq!(drawn.clone().err(), expected.err(), "{asked:?} of {v}");
                    refused += 1;
                    continue;
                }
            };
            // Where rounding could decide, it may.
            if margin < 1e-6 {
                continue;
            }
            sure += 1;
            assert_eq!((drawn.id, drawn.rank), (expected.id, expected.rank), "{asked:?} of {v}");
            let near = |ours: f32, theirs: f32| (ours - theirs).abs() < 1e-5 * (1.0 + theirs.abs());
            assert!(near(drawn.model_logprob, expected.model_logprob), "{drawn:?}, {expected:?}");
            assert!(
                near(drawn.sampled_logprob, expected.sampled_logprob),
                "{drawn:?}, {expected:?}, {asked:?}"
            );
            assert_eq!(drawn.top.len(), expected.top.len(), "{asked:?} of {v}");
            for (ours, theirs) in drawn.top.iter().zip(&expected.top) {
                assert!(ours.0 == theirs.0 && near(ours.1, theirs.1), "{ours:?}, {theirs:?}");
            }
        }
        // A draw alone equals the same draw among many.
        assert_eq!(draw(on_gpu(), &vocab, &asked[5..6]).unwrap(), drawn[5..6]);
    }
    assert!(sure > 300 && refused > 10, "{sure} and {refused}");
}

#[test]
fn ids_without_a_probability_are_never_drawn() {
    let Some(cuda) = device() else { return };
    let v = 100;
    let vocab = Vocab::only(v, |id| id > 2 && id < 97);
    let mut logits = vec![-1e5_f32; v];
    (logits[0], logits[40], logits[60], logits[99]) = (50.0, 1.0, 2.0, 50.0);
    let asked: Vec<Draw<'_>> = [0.0, 0.2, 0.3, 0.999_999_999_999, 1.0 - f64::EPSILON / 2.0, 1.0]
        .into_iter()
        .map(|uniform| Draw::at(0, 1.0, uniform))
        .collect();
    let drawn = draw(Values::from(Buffer::upload(&cuda, &logits)), &vocab, &asked).unwrap();
    let ids: Vec<u32> = drawn.iter().map(|drawn| drawn.as_ref().unwrap().id).collect();
    assert_eq!(ids, [40, 40, 60, 60, 60, 60]);
}

#[test]
fn what_is_no_distribution_gives_nothing() {
    let Some(cuda) = device() else { return };
    let v = 40;
    let mut logits = vec![0.5_f32; 4 * v];
    (logits[7], logits[v + 39], logits[2 * v + 3]) = (f32::NAN, f32::INFINITY, f32::NEG_INFINITY);
    let asked: Vec<Draw<'_>> = (0..8).map(|i| Draw::at(i % 4, [0.0, 1.0][i / 4], 0.01)).collect();
    let vocab = Vocab::all(v);
    let drawn = draw(Values::from(Buffer::upload(&cuda, &logits)), &vocab, &asked).unwrap();
    let ids: Vec<Result<u32, NoDraw>> = drawn.into_iter().map(|drawn| drawn.map(|drawn| drawn.id)).collect();
    let none = Err(NoDraw::NotFinite);
    assert_eq!(ids, [none, none, Ok(0), Ok(0), none, none, Ok(0), Ok(0)]);
}

#[test]
fn of_equal_ids_top_p_drops_the_lower_and_top_k_none() {
    let Some(cuda) = device() else { return };
    // More than a histogram divides at once: all of one weight, or all but one.
    let v = 9000;
    let mut logits = vec![1.0_f32; 2 * v];
    logits[v + 4] = 3.0;
    let cases = [
        (Draw { top_p: 0.25, ..Draw::at(0, 1.0, 0.0) }, 6750),
        (Draw { top_p: 0.25, ..Draw::at(0, 1.0, 0.9999) }, 8999),
        (Draw { top_k: 3, ..Draw::at(0, 0.7, 0.0) }, 0),
        (Draw { top_k: 3, top_p: 0.5, ..Draw::at(0, 0.7, 0.0) }, 4500),
        (Draw { top_k: 1, ..Draw::at(1, 0.7, 0.5) }, 4),
        (Draw { top_k: 2, ..Draw::at(1, 1.0, 0.5) }, 4496),
        (Draw { min_p: 0.5, ..Draw::at(1, 1.0, 0.99) }, 4),
    ];
    let asked: Vec<Draw<'_>> = cases.iter().map(|(draw, _)| draw.clone()).collect();
    let drawn = draw(Values::from(Buffer::upload(&cuda, &logits)), &Vocab::all(v), &asked).unwrap();
    for ((asked, id), drawn) in cases.iter().zip(drawn) {
        assert_eq!(drawn.unwrap().id, *id, "{asked:?}");
    }
}
