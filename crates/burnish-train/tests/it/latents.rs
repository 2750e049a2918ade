//! Latent steps in training: both gradients are slopes, what is recorded is what is computed, and a step is in no loss.

use std::sync::Arc;

use burnish_core::rng::Stream;
use burnish_model::{LatentGradient, Model, Packed};
use burnish_tensor::{Layout, Tape};
use burnish_train::{
    LatentInputs, Latents, PassConfig, Sample, SampleError, TrainError, accumulate, pack, score,
};

use crate::common::{EveryStream, qwen3, random_batch, random_sample, totals_of};
use crate::gradient::{check_on, gradient, relative_distance};

/// Groups of rollouts with latent steps here and there; one sample has none, and two differ in theirs alone.
fn batch_with(inputs: LatentInputs) -> Vec<Sample> {
    let mut batch = random_batch(5);
    for (at, sample) in batch.iter_mut().enumerate().filter(|(at, _)| at % 4 != 3) {
        let n = sample.ids.len();
        let places = [n - 3 - at % 2, n - 2].into_iter().filter(|at| *at > 0);
        let at: Vec<usize> =
            if n > 12 { [n / 2, n / 2 + 1].into_iter().chain(places).collect() } else { vec![2, 3] };
        at.iter().for_each(|at| sample.loss_mask[*at] = false);
        sample.loss_mask[n - 1] = true;
        sample.latents = Some(Latents { at, inputs: inputs.clone() });
    }
    let mut twin = batch[0].clone();
    twin.latents.as_mut().unwrap().at.pop();
    batch.insert(1, twin);
    batch
}

/// What the steps of `sample` read, computed in a pass of its own.
fn read_by(model: &Model, sample: &Sample) -> Vec<f32> {
    let Some(latents) = &sample.latents else { return Vec::new() };
    let positions: Arc<[u32]> = (0..sample.ids.len() as u32).collect();
    let layout = Arc::new(Layout::causal(&[sample.ids.len()]));
    let packed = Packed { layout, shape: model.head_shape() };
    let rows: Vec<u32> = latents.at.iter().map(|at| *at as u32).collect();
    let mut tape = Tape::inference(&model.params);
    let stops = LatentGradient::Stops;
    let hidden = model.forward_latent(&mut tape, &sample.ids, &positions, &packed, &rows, stops);
    let width = hidden.cols();
    rows.iter().flat_map(|row| hidden.data()[(*row as usize - 1) * width..][..width].to_vec()).collect()
}

fn recorded(model: &Model, batch: &[Sample]) -> Vec<Sample> {
    let mut batch = batch.to_vec();
    for sample in &mut batch {
        let inputs = read_by(model, sample);
        if let Some(latents) = &mut sample.latents {
            latents.inputs = LatentInputs::Recorded(inputs);
        }
    }
    batch
}

#[test]
fn the_gradient_through_the_recurrence_is_the_slope_of_the_loss() {
    check_on(&batch_with(LatentInputs::Computed), &mut qwen3(), &EveryStream);
}

#[test]
fn the_gradient_beside_recorded_steps_is_the_slope_of_a_loss_in_which_they_are_constants() {
    let mut model = qwen3();
    let batch = recorded(&model, &batch_with(LatentInputs::Computed));
    check_on(&batch, &mut model, &EveryStream);
}

#[test]
fn recorded_steps_give_the_loss_of_computed_ones_and_another_gradient() {
    let model = qwen3();
    let computed = batch_with(LatentInputs::Computed);
    let replayed = recorded(&model, &computed);
    let (flowing, flows) = gradient(&model, &computed, &EveryStream, 1000);
    let (replay, frozen) = gradient(&model, &replayed, &EveryStream, 1000);
    assert!(
        (flowing.loss - replay.loss).abs() < 1e-5 * flowing.loss.abs(),
        "{} {}",
        flowing.loss,
        replay.loss
    );
    assert!(relative_distance(&flows, &frozen) > 1e-2);
    // The weights alone decide what computed steps read; recorded ones stay.
    let mut other = model.clone();
    other.params.data_mut().iter_mut().for_each(|weight| *weight *= 1.05);
    let loss = |batch: &[Sample]| gradient(&other, batch, &EveryStream, 1000).0.loss;
    assert!((loss(&computed) - loss(&replayed)).abs() > 1e-4);
}

#[test]
fn micro_batches_and_shared_prefixes_change_nothing() {
    let model = qwen3();
    for batch in [batch_with(LatentInputs::Computed), recorded(&model, &batch_with(LatentInputs::Computed))] {
        let (whole, expected) = gradient(&model, &batch, &EveryStream, 1000);
        for tokens_max in [70, 1] {
            let (pass, found) = gradient(&model, &batch, &EveryStream, tokens_max);
            assert!(pass.micro_batches > whole.micro_batches && pass.tokens > whole.tokens);
            assert!(relative_distance(&expected, &found) < 1e-5, "{tokens_max}");
            assert!((pass.loss - whole.loss).abs() < 1e-5 * whole.loss.abs());
        }
        let alone: Vec<Vec<f32>> = batch.iter().flat_map(|one| score(&model, &[one], 1).unwrap()).collect();
        for (alone, together) in alone.iter().zip(score(&model, &batch, 1000).unwrap()) {
            assert!(alone.iter().zip(&together).all(|(a, b)| (a - b).abs() < 1e-4));
        }
    }
}

#[test]
fn nothing_is_shared_from_the_first_latent_step_on() {
    let mut random = Stream::new(3);
    let mut first = random_sample(&(0..18).collect::<Vec<u32>>(), 14, &mut random);
    first.loss_mask[31] = true;
    first.loss_mask[24] = false;
    let twin = first.clone();
    let rows = |first: &Sample, twin: &Sample| pack(&[first, twin], 1000)[0].ids.len();
    assert_eq!(rows(&first, &twin), 31);
    let latents = |at: usize| Some(Latents { at: vec![at], inputs: LatentInputs::Computed });
    first.latents = latents(24);
    assert_eq!(rows(&first, &twin), 31 + (31 - 24));
    assert_eq!(rows(&twin, &first), 31 + (31 - 24));
    let both = Sample { latents: latents(24), ..twin.clone() };
    let batch = pack(&[&first, &both], 1000).remove(0);
    assert_eq!(batch.latents.computed, [24, 31]);
    // A step that nothing scored follows is not read.
    first.loss_mask[24..].fill(false);
    first.loss_mask[24] = true;
    first.latents = latents(27);
    assert!(pack(&[&first], 1000)[0].latents.computed.is_empty());
}

#[test]
fn no_steps_are_as_if_there_were_none_to_the_bit() {
    let model = qwen3();
    let plain = random_batch(5);
    let mut empty = plain.clone();
    let none = || Latents { at: Vec::new(), inputs: LatentInputs::Recorded(Vec::new()) };
    empty.iter_mut().for_each(|sample| sample.latents = Some(none()));
    assert_eq!(gradient(&model, &plain, &EveryStream, 99), gradient(&model, &empty, &EveryStream, 99));
}

#[test]
fn what_is_known_about_a_step_is_never_read() {
    let model = qwen3();
    let batch = recorded(&model, &batch_with(LatentInputs::Computed));
    let mut other = batch.clone();
    for sample in &mut other {
        for at in sample.latents.iter().flat_map(|latents| latents.at.clone()).collect::<Vec<_>>() {
            sample.advantages[at] = f32::NAN;
            sample.model_logprobs[at] = f32::NAN;
            // Its id is read by nobody either.
            sample.ids[at] = (sample.ids[at] + 1) % 19;
        }
    }
    let (expected, grads) = gradient(&model, &batch, &EveryStream, 1000);
    let (found, other_grads) = gradient(&model, &other, &EveryStream, 1000);
    assert_eq!((expected.loss, expected.tokens_scored), (found.loss, found.tokens_scored));
    assert_eq!(grads, other_grads);
}

#[test]
fn steps_that_make_no_sense_are_refused_by_name() {
    let model = qwen3();
    let mut random = Stream::new(4);
    let mut good = random_sample(&[1, 2, 3, 4], 6, &mut random);
    good.loss_mask[5] = false;
    good.loss_mask[7] = true;
    let with = |at: &[usize], inputs: LatentInputs| Sample {
        latents: Some(Latents { at: at.to_vec(), inputs }),
        ..good.clone()
    };
    let refused = |batch: &[Sample]| {
        let mut grads = model.params.zeros_like();
        let config = PassConfig::new(99);
        accumulate(&model, batch, &EveryStream, &totals_of(batch), config, &mut grads).unwrap_err()
    };
    let computed = || LatentInputs::Computed;
    for token in [0, 7, 10] {
        let source = SampleError::LatentToken { token, tokens: 10 };
        assert_eq!(refused(&[with(&[token], computed())]), TrainError::Sample { sample: 0, source });
    }
    for (latents, problem) in [
        (with(&[5, 3], computed()), "ascending"),
        (with(&[3, 3], computed()), "ascending"),
        (with(&[3, 5], LatentInputs::Recorded(vec![0.0; 25])), "one row for each"),
        (with(&[3], LatentInputs::Recorded(Vec::new())), "one row for each"),
        (with(&[3], LatentInputs::Recorded(vec![f32::NAN; 12])), "not finite"),
    ] {
        let error = refused(&[latents]).to_string();
        assert!(error.contains(problem), "{error}");
    }
    let narrow = with(&[3], LatentInputs::Recorded(vec![0.0; 11]));
    assert_eq!(refused(&[narrow]), TrainError::LatentWidth { sample: 0, width: 11, hidden_size: 12 });
    let known = with(&[3], LatentInputs::Recorded(vec![0.0; 12]));
    assert_eq!(
        refused(&[known, good.clone(), with(&[3], computed())]),
        TrainError::LatentKinds { sample: 2 }
    );
}
