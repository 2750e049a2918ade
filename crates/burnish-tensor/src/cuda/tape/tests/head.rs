//! The other results of an output head besides log-probs, its losses, and its share of the gradient.

use super::*;
use crate::{HeadTerm, RowLoss, TeacherRows};

const TOP: usize = 3;

/// The loss on rows.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Loss {
    None,
    SoftLabels,
    Whole,
}

/// The results of a backward pass.
struct Found {
    grads: Vec<f32>,
    values: Vec<f64>,
    share: Vec<f32>,
}

/// Adds to an existing gradient, like that of an earlier micro-batch.
fn backward(case: Case, device: &Device, loss: Loss, with_share: bool) -> Found {
    let [model, teacher] = [1.0, -0.5].map(|factor| {
        let mut model = Model::new(case);
        model.params.data_mut().iter_mut().for_each(|x| *x *= factor);
        model.params = model.params.on(device);
        model
    });
    let inputs = Inputs::new();
    let count = inputs.rows.len();
    let ids: Vec<u32> = random_ids(7, count * TOP, VOCAB - 1);
    let probabilities: Vec<f32> = random(8, count * TOP).iter().map(|x| 0.3 * (1.0 + x)).collect();
    let weights: Vec<f32> =
        random(9, count).iter().enumerate().map(|(row, x)| if row % 4 == 1 { 0.0 } else { *x }).collect();
    let their_hidden = random(10, count * WIDTH);
    let evaluate = |_: usize, own: &[f64], theirs: &[f64]| {
        let apart = |(y, t): (&f64, &f64)| if *y < -1e19 { 0.0 } else { 0.1 * (y - t) };
        let d: Vec<f64> = own.iter().zip(theirs).map(apart).collect();
        (d.iter().map(|d| 5.0 * d * d).sum(), d)
    };
    let rows = TeacherRows { params: &teacher.params, head: teacher.head, hidden: &their_hidden };
    let loss = match loss {
        Loss::None => None,
        Loss::SoftLabels => Some(RowLoss::SoftLabels { top: TOP, ids: &ids, probabilities: &probabilities }),
        Loss::Whole => Some(RowLoss::Whole { evaluate: &evaluate, teacher: Some(rows) }),
    };
    let term = loss.map(|loss| HeadTerm { weights: &weights, loss });
    let before = random(11, model.params.trained_len());
    let mut grads = Flat::of(&model.params, before);
    let mut share = Flat::zeros_beside(&model.params, model.head.base.len());
    let mut tape = Tape::recording(&model.params);
    let scores = inputs.forward(&model, case, &mut tape);
    let [d_logprob, d_entropy] = [3, 4].map(|seed| random(seed, count));
    let into = with_share.then(|| (&mut share).into());
    let values = tape.backward_with(&scores, &d_logprob, &d_entropy, term, into, &mut grads);
    let [grads, share] = [grads, share].map(|flat| flat.to_host().unwrap().into_owned());
    Found { grads, values, share }
}

#[test]
fn losses_on_rows_and_the_share_of_the_head_are_those_of_the_cpu() {
    let Some(cuda) = device() else { return };
    let gpu = Device::from(Arc::clone(&cuda));
    // A tied head, a frozen one with an adapter, and the same in bf16.
    for case in [cases()[0], cases()[2], cases()[4]] {
        for loss in [Loss::None, Loss::SoftLabels, Loss::Whole] {
            println!("{case:?} {loss:?}");
            let (ours, expected) =
                (backward(case, &gpu, loss, true), backward(case, &Device::cpu(), loss, true));
            assert_close(&ours.grads, &wide(&expected.grads), case.tolerance);
            assert_close(&ours.share, &wide(&expected.share), case.tolerance);
            assert!(ours.share.iter().any(|d| d.abs() > 0.1), "the head has a share");
            let values: Vec<f32> = ours.values.iter().map(|value| *value as f32).collect();
            assert_close(&values, &expected.values, case.tolerance);
            assert_eq!(values.is_empty(), loss == Loss::None);
            // Measuring changes nothing.
            let plain = backward(case, &gpu, loss, false);
            assert!(plain.grads == ours.grads && plain.share.iter().all(|d| *d == 0.0));
        }
    }
}

#[test]
fn the_head_of_a_tape_without_adapters_has_other_rows() {
    let Some(cuda) = device() else { return };
    let case = cases()[1];
    let read = |device: &Device, has_adapters: bool| {
        let mut model = Model::new(case);
        model.params = model.params.on(device);
        let inputs = Inputs::new();
        let tape = Tape::inference(&model.params);
        let mut tape = if has_adapters { tape } else { tape.without_adapters() };
        let x = inputs.hidden(&model, case, &mut tape);
        let squares = tape.squared_probabilities(&x, model.head, &inputs.temperatures, &inputs.vocab);
        let (ids, logprobs) = tape.top_scores(&x, model.head, &inputs.temperatures, &inputs.vocab, TOP);
        // The likeliest id of each row is scored under the same head.
        let first: Vec<u32> = ids.iter().step_by(TOP).copied().collect();
        let own: Vec<f32> = logprobs.iter().step_by(TOP).copied().collect();
        let scores = tape.token_scores(&x, model.head, &first, &inputs.temperatures, &inputs.vocab);
        assert_close(&own, &wide(&scores.logprobs), 1e-5);
        (squares, ids, logprobs)
    };
    let gpu = Device::from(Arc::clone(&cuda));
    for has_adapters in [true, false] {
        let (ours, expected) = (read(&gpu, has_adapters), read(&Device::cpu(), has_adapters));
        assert_close(&ours.0, &wide(&expected.0), 1e-5);
        assert_eq!(ours.1, expected.1);
        assert_close(&ours.2, &wide(&expected.2), 1e-5);
    }
    assert_ne!(read(&gpu, true), read(&gpu, false));
}

/// Like a critic: the vector of a norm serves as a head of one row.
#[test]
fn a_head_of_values_has_the_gradient_of_the_cpu() {
    let Some(cuda) = device() else { return };
    let run = |case: Case, device: &Device| {
        let mut model = Model::new(case);
        model.params = model.params.on(device);
        let inputs = Inputs::new();
        let mut grads = Flat::zeros(&model.params);
        let mut tape = Tape::recording(&model.params);
        let x = inputs.hidden(&model, case, &mut tape);
        let values = tape.head(&x, model.norm);
        let numbers = HostReadback::default().read(&values).unwrap().to_vec();
        tape.backward_from(&values, random(3, inputs.rows.len()), &mut grads);
        (numbers, grads.to_host().unwrap().into_owned())
    };
    let gpu = Device::from(Arc::clone(&cuda));
    for case in [cases()[0], cases()[3]] {
        let (ours, expected) = (run(case, &gpu), run(case, &Device::cpu()));
        assert_close(&ours.0, &wide(&expected.0), case.tolerance);
        // Some elements are twenty times as large as others, and bf16 rounds what all of them are summed from.
        let norm = |x: &[f32]| x.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
        let apart: Vec<f32> = ours.1.iter().zip(&expected.1).map(|(a, b)| a - b).collect();
        assert!(norm(&apart) < case.tolerance / 4.0 * norm(&expected.1), "{} apart", norm(&apart));
    }
}

#[test]
fn rows_of_a_gpu_that_has_failed_are_no_numbers() {
    let Some(cuda) = device() else { return };
    let mut model = Model::new(cases()[0]);
    model.params = model.params.on(&Device::from(Arc::clone(&cuda)));
    let vocab = Arc::new(Vocab::all(VOCAB));
    let mut grads = Flat::zeros(&model.params);
    let mut tape = Tape::recording(&model.params);
    let x = tape.embed(model.table, &[3]);
    cuda.note(Err(crate::CudaError::Ordinal { ordinal: 3, count: 1 }));
    assert!(tape.squared_probabilities(&x, model.head, &[1.0], &vocab)[0].is_nan());
    let (ids, logprobs) = tape.top_scores(&x, model.head, &[1.0], &vocab, 2);
    assert!(ids.iter().all(|id| (*id as usize) < VOCAB) && logprobs.iter().all(|log| log.is_nan()));
    let evaluate = |_: usize, own: &[f64], _: &[f64]| (1.0, own.to_vec());
    for loss in [
        RowLoss::SoftLabels { top: 1, ids: &[2], probabilities: &[1.0] },
        RowLoss::Whole { evaluate: &evaluate, teacher: None },
    ] {
        let mut tape = Tape::recording(&model.params);
        let x = tape.embed(model.table, &[3]);
        let scores = tape.token_scores(&x, model.head, &[1], &[1.0], &vocab);
        let term = HeadTerm { weights: &[1.0], loss };
        let values = tape.backward_with(&scores, &[1.0], &[], Some(term), None, &mut grads);
        assert!(values[0].is_nan());
    }
    assert!(grads.to_host().is_err());
}
