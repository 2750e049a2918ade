//! Draws ids from rows of logits.

use std::sync::Arc;

use crate::{
    Draw, Drawn, Vocab,
    cuda::{
        Buffer, CudaError, int,
        launch_shape::LaunchShape,
        modules::Program::{self, Scores},
        values::Values,
    },
};

/// Threads in a block; the kernel uses the same number.
const THREADS: usize = 512;

/// As [`crate::draw`]; the logits are not needed afterwards.
pub(crate) fn draw(
    mut logits: Values,
    vocab: &Vocab,
    asked: &[Draw],
) -> Result<Vec<Option<Drawn>>, CudaError> {
    let cuda = &Arc::clone(logits.cuda());
    let v = vocab.len();
    let rows = logits.len() / v.max(1);
    let excluded: Vec<i32> = vocab.excluded().iter().map(|&id| id as i32).collect();
    if !excluded.is_empty() {
        let ids = Buffer::upload(cuda, &excluded);
        let arguments = &mut [logits.wide_mut().into(), ids.all().into(), int(ids.len()), int(v)];
        cuda.launch(Scores, "exclude", LaunchShape::rows(rows, ids.len()), arguments);
    }
    let list = |of: fn(&Draw) -> f32| asked.iter().map(of).collect::<Vec<f32>>();
    let places: Vec<i32> = asked.iter().map(|draw| draw.row as i32).collect();
    let uniforms: Vec<f64> = asked.iter().map(|draw| draw.uniform).collect();
    let (places, uniforms) = (Buffer::upload(cuda, &places), Buffer::upload(cuda, &uniforms));
    let temperatures = Buffer::upload(cuda, &list(|draw| draw.temperature));
    let mut out = Buffer::<i32>::uninit(cuda, 2 * asked.len());
    let arguments = &mut [
        out.all_mut().into(),
        logits.wide().into(),
        places.all().into(),
        temperatures.all().into(),
        uniforms.all().into(),
        int(v),
    ];
    cuda.launch(Program::Draw, "draw", LaunchShape::blocks(asked.len(), 1, THREADS), arguments);
    let drawn = |pair: &[i32]| {
        let id = u32::try_from(pair[0]).ok()?;
        Some(Drawn { id, logprob: f32::from_bits(pair[1] as u32) })
    };
    Ok(out.download()?.chunks_exact(2).map(drawn).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cuda::testing::device, testing::random};

    /// The draw computed in f64, and the distance of the random number from choosing a neighbour, as a share of the
    /// total.
    fn expected(logits: &[f32], vocab: &Vocab, asked: Draw) -> (u32, f64, f64) {
        let t = if asked.temperature == 0.0 { 1.0 } else { f64::from(asked.temperature) };
        let allowed: Vec<u32> = (0..vocab.len() as u32).filter(|&id| vocab.contains(id)).collect();
        let z = |id: u32| f64::from(logits[id as usize]);
        let max = allowed.iter().map(|&id| z(id)).fold(f64::NEG_INFINITY, f64::max);
        let weight = |id: u32| ((z(id) - max) / t).exp();
        let total: f64 = allowed.iter().map(|&id| weight(id)).sum();
        let logprob = |id: u32| (z(id) - max) / t - total.ln();
        if asked.temperature == 0.0 {
            let id = *allowed.iter().find(|&&id| z(id) == max).unwrap();
            return (id, logprob(id), 1.0);
        }
        let mut sum = 0.0;
        for &id in &allowed {
            let before = sum;
            sum += weight(id) / total;
            if sum > asked.uniform {
                return (id, logprob(id), (sum - asked.uniform).min(asked.uniform - before));
            }
        }
        unreachable!("a number below 1")
    }

    #[test]
    fn ids_are_those_that_the_random_number_falls_on() {
        let Some(cuda) = device() else { return };
        for (v, gap) in [(1, 9), (2, 9), (33, 4), (700, 3), (5000, 7)] {
            let rows = 3;
            let vocab = Vocab::only(v, |id| id % gap != 1);
            let mut logits: Vec<f32> = random(1, rows * v).iter().map(|x| 6.0 * x).collect();
            // Some equally likely ids: in different parts, and within one lane's own.
            for at in [v / 3, v / 3 + 32, v / 3 + 64, v - 1] {
                let allowed = (0..=at.min(v - 1)).rfind(|&id| vocab.contains(id as u32)).unwrap();
                logits[v + allowed] = 7.0;
            }
            let uniforms = random(2, 60).into_iter().map(|x| f64::from(x.abs()) * 0.999);
            let asked: Vec<Draw> = uniforms
                .enumerate()
                .map(|(i, uniform)| Draw {
                    row: i * 7 % rows,
                    temperature: [0.0, 0.3, 1.0, 2.5][i % 4],
                    uniform,
                })
                .collect();
            let on_gpu = || Values::from(Buffer::upload(&cuda, &logits));
            let drawn = draw(on_gpu(), &vocab, &asked).unwrap();
            for (asked, drawn) in asked.iter().zip(&drawn) {
                let drawn = drawn.unwrap();
                let (id, logprob, margin) = expected(&logits[asked.row * v..][..v], &vocab, *asked);
                assert!(margin > 1e-7, "an unlucky seed");
                assert_eq!(drawn.id, id, "{asked:?} of {v}");
                assert!((f64::from(drawn.logprob) - logprob).abs() < 1e-5, "{drawn:?}, {logprob}");
            }
            // A draw alone equals the same draw among many.
            assert_eq!(draw(on_gpu(), &vocab, &asked[5..6]).unwrap(), drawn[5..6]);
        }
    }

    #[test]
    fn ids_without_a_probability_are_never_drawn() {
        let Some(cuda) = device() else { return };
        let v = 100;
        let vocab = Vocab::only(v, |id| id > 2 && id < 97);
        let mut logits = vec![-1e5_f32; v];
        (logits[0], logits[40], logits[60], logits[99]) = (50.0, 1.0, 2.0, 50.0);
        let asked = [0.0, 0.2, 0.3, 0.999_999_999_999, 1.0 - f64::EPSILON / 2.0, 1.0].map(|uniform| {
            let temperature = 1.0;
            Draw { row: 0, temperature, uniform }
        });
        let drawn = draw(Values::from(Buffer::upload(&cuda, &logits)), &vocab, &asked).unwrap();
        let ids: Vec<u32> = drawn.iter().map(|drawn| drawn.unwrap().id).collect();
        assert_eq!(ids, [40, 40, 60, 60, 60, 60]);
    }

    #[test]
    fn what_is_no_distribution_gives_nothing() {
        let Some(cuda) = device() else { return };
        let v = 40;
        let mut logits = vec![0.5_f32; 4 * v];
        (logits[7], logits[v + 39], logits[2 * v + 3]) = (f32::NAN, f32::INFINITY, f32::NEG_INFINITY);
        let asked: Vec<Draw> =
            (0..8).map(|i| Draw { row: i % 4, temperature: [0.0, 1.0][i / 4], uniform: 0.01 }).collect();
        let vocab = Vocab::all(v);
        let drawn = draw(Values::from(Buffer::upload(&cuda, &logits)), &vocab, &asked).unwrap();
        let is_some: Vec<bool> = drawn.iter().map(Option::is_some).collect();
        assert_eq!(is_some, [false, false, true, true, false, false, true, true]);
        assert_eq!((drawn[2].unwrap().id, drawn[3].unwrap().id), (0, 0));
    }
}
