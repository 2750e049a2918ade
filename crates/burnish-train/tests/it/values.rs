//! Value models: the gradient of a critic's loss, what is saved, and that it learns.

use burnish_core::rng::Stream;
use burnish_model::Model;
use burnish_rl::ValueLoss;
use burnish_train::{Proximal, Sample, Trainer, score};

use crate::common::{CONFIG, qwen3, random_batch, totals_of};
use crate::gradient::check_on;

/// A value model whose head is no longer zero.
fn value_model() -> Model {
    let mut model = qwen3().to_value_model().unwrap();
    let head = model.params.find("score.weight").unwrap().param;
    let mut random = Stream::new(8);
    model.params.get_mut(head).fill_with(|| 0.3 * random.normal() as f32);
    model
}

/// Returns so far from the values that no step of the test crosses the edge of the clipping.
fn batch(model: &Model) -> Vec<Sample> {
    let mut batch = random_batch(5);
    let values = score(model, &batch, 1000).unwrap();
    for (sample, values) in batch.iter_mut().zip(values) {
        let moves = [-0.9f32, 0.1, 0.9].into_iter().cycle();
        sample.proximal = Proximal::Known(values.iter().zip(moves).map(|(value, by)| value + by).collect());
        sample.advantages = values.iter().map(|value| value + 3.0).collect();
        sample.reference = None;
    }
    batch
}

#[test]
fn the_gradient_of_every_tensor_is_the_slope_of_the_loss_clipped_or_not() {
    let mut model = value_model();
    let batch = batch(&model);
    for clip_range in [0.0, 0.5] {
        check_on(&batch, &mut model, &ValueLoss { clip_range });
    }
}

#[test]
fn a_new_one_says_0_everywhere_and_differs_from_the_policy_in_its_head_alone() {
    let policy = qwen3();
    let model = policy.to_value_model().unwrap();
    let batch = random_batch(1);
    assert!(score(&model, &batch, 64).unwrap().concat().iter().all(|value| *value == 0.0));
    for entry in policy.params.entries().iter().filter(|entry| !entry.name.starts_with("lm_head")) {
        let own = model.params.find(&entry.name).unwrap().param;
        assert_eq!(model.params.get(own), policy.params.get(entry.param), "{}", entry.name);
    }
}

#[test]
fn it_is_saved_as_a_classifier_with_one_label_and_read_back_as_itself() {
    let dir = tempfile::tempdir().unwrap();
    let model = value_model();
    model.save(dir.path()).unwrap();
    let config = std::fs::read_to_string(dir.path().join("config.json")).unwrap();
    assert!(config.contains("Qwen3ForSequenceClassification") && config.contains("LABEL_0"), "{config}");
    let read = Model::load(dir.path()).unwrap();
    assert!(read.is_value_model());
    let batch = random_batch(2);
    assert_eq!(score(&read, &batch, 64).unwrap(), score(&model, &batch, 1000).unwrap());
    let two = config.replace("\"LABEL_0\"\n", "\"LABEL_0\",\n    \"1\": \"LABEL_1\"\n");
    assert_ne!(two, config);
    std::fs::write(dir.path().join("config.json"), two).unwrap();
    let error = Model::load(dir.path()).unwrap_err().to_string();
    assert!(error.contains("id2label") && error.contains("one label"), "{error}");
}

#[test]
fn it_learns_what_it_is_shown() {
    let mut model = qwen3().to_value_model().unwrap();
    let mut trainer = Trainer::new(&model, CONFIG);
    let mut batch = random_batch(4);
    for sample in &mut batch {
        // The last token read: something that only the hidden states tell.
        let ids = sample.ids.clone();
        let odd = |at: usize| if ids[at.saturating_sub(1)] % 2 == 1 { 1.0 } else { -1.0 };
        sample.advantages = (0..ids.len()).map(odd).collect();
    }
    let losses: Vec<f64> = (0..60)
        .map(|_| {
            let totals = totals_of(&batch);
            let loss = ValueLoss { clip_range: 0.0 };
            trainer.update(&mut model, &batch, &loss, &totals, 1e-2).unwrap().loss
        })
        .collect();
    assert!((losses[0] - 0.5).abs() < 1e-6, "values of 0 are 1 away from each return: {}", losses[0]);
    assert!(losses[59] < 0.1, "{losses:?}");
}
