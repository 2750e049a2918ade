use burnish_rl::fact::VALUES;
use burnish_rl::nll::Nll;
use burnish_rl::{Evaluation, Needs, Objective, Streams, Totals};
use burnish_train::{Sample, SampleError, TrainError, Trainer, score};

use crate::common::{CONFIG, InSpan, VOCAB, qwen3, random_batch, totals_of};

/// Returns a fixed loss and derivative for every token.
struct Fixed {
    loss: f64,
    derivative: f64,
    surplus: usize,
}

impl Objective for Fixed {
    fn needs(&self) -> Needs {
        Needs { reference: true, ..Needs::default() }
    }

    fn evaluate(&self, streams: &Streams<'_>, _: &Totals) -> Evaluation {
        let d_policy = vec![self.derivative; streams.policy.len() + self.surplus];
        Evaluation { loss: self.loss, d_policy, ..Evaluation::default() }
    }
}

const GOOD: Fixed = Fixed { loss: 1.0, derivative: 1.0, surplus: 0 };

/// Updates a model after one good update, and checks that a refused one leaves no trace.
fn refused(objective: &dyn Objective, batch: &[Sample]) -> TrainError {
    let mut model = qwen3();
    let mut trainer = Trainer::new(&model, CONFIG);
    let good = random_batch(0);
    trainer.update(&mut model, &good, &Nll, &totals_of(&good), 1e-3).unwrap();
    let before = (model.params.data().to_vec(), trainer.adamw().clone());
    let error = trainer.update(&mut model, batch, objective, &totals_of(batch), 1e-3).unwrap_err();
    assert_eq!((model.params.data().to_vec(), trainer.adamw().clone()), before);
    error
}

fn changed(change: impl FnOnce(&mut Sample)) -> Vec<Sample> {
    let mut batch = random_batch(0);
    change(&mut batch[2]);
    batch
}

#[test]
fn a_number_that_is_not_finite_is_refused_with_the_update_and_nothing_is_updated() {
    let batch = random_batch(0);
    let loss = refused(&Fixed { loss: f64::NAN, ..GOOD }, &batch);
    assert!(matches!(loss, TrainError::NotFinite { update: 1, what: "loss", .. }));
    let derivative = refused(&Fixed { derivative: f64::INFINITY, ..GOOD }, &batch);
    assert!(matches!(derivative, TrainError::NotFinite { update: 1, what: "gradient norm", .. }));
}

#[test]
fn a_sample_that_fits_neither_model_nor_objective_is_named() {
    assert_eq!(
        refused(&GOOD, &changed(|sample| sample.reference = None)),
        TrainError::Missing { sample: 2, stream: "reference" }
    );
    let mut batch = random_batch(0);
    InSpan::know(&mut batch[1]);
    assert_eq!(refused(&InSpan, &batch), TrainError::MissingFact { sample: 0, id: VALUES.id.to_owned() });
    batch.iter_mut().for_each(InSpan::know);
    batch[2].facts.insert("span.thoughts".to_owned(), vec![1.0]);
    assert!(matches!(
        refused(&InSpan, &batch),
        TrainError::Sample { sample: 2, source: SampleError::Length { stream: "facts", len: 1, .. } }
    ));
    assert_eq!(
        refused(&GOOD, &changed(|sample| sample.ids[1] = VOCAB)),
        TrainError::UnknownToken { sample: 2, token: 1, id: VOCAB }
    );
    assert!(matches!(
        refused(
            &GOOD,
            &changed(|sample| {
                sample.sampled_logprobs.pop();
            })
        ),
        TrainError::Sample { sample: 2, source: SampleError::Length { stream: "sampled_logprobs", .. } }
    ));
    assert_eq!(
        refused(&Fixed { surplus: 1, ..GOOD }, &random_batch(0)[..1]),
        TrainError::Derivatives {
            given: random_batch(0)[0].scored_tokens() + 1,
            tokens: random_batch(0)[0].scored_tokens()
        }
    );
}

#[test]
fn a_sample_longer_than_the_context_window_is_refused() {
    let long = Sample {
        ids: vec![1; 70],
        loss_mask: (0..70).map(|at| at == 69).collect(),
        model_logprobs: vec![0.0; 70],
        sampled_logprobs: vec![0.0; 70],
        temperatures: vec![1.0; 70],
        advantages: vec![1.0; 70],
        ..Sample::default()
    };
    assert_eq!(
        score(&qwen3(), &[long], 64),
        Err(TrainError::TooLong { sample: 0, tokens: 69, tokens_max: 64 })
    );
}

#[test]
fn an_id_that_the_vocabulary_excludes_may_be_read_but_not_be_scored() {
    let mut model = qwen3();
    model.restrict_vocab(|id| id != 7);
    let mut sample = random_batch(0).remove(2);
    let scored = sample.scored().next().unwrap();
    sample.ids.iter_mut().for_each(|id| *id %= 7);
    sample.ids[0] = 7;
    assert!(score(&model, &[&sample], 64).is_ok());
    sample.ids[scored] = 7;
    assert_eq!(
        score(&model, &[&sample], 64),
        Err(TrainError::UnknownToken { sample: 0, token: scored, id: 7 })
    );
}

#[test]
fn a_minibatch_without_scored_tokens_has_gradient_zero() {
    let mut model = qwen3();
    let mut trainer = Trainer::new(&model, CONFIG);
    let batch = [Sample {
        loss_mask: vec![false; 3],
        ids: vec![1; 3],
        model_logprobs: vec![0.0; 3],
        sampled_logprobs: vec![0.0; 3],
        temperatures: vec![1.0; 3],
        advantages: vec![0.0; 3],
        ..Sample::default()
    }];
    let update = trainer.update(&mut model, &batch, &Nll, &totals_of(&batch), 1e-3).unwrap();
    assert_eq!((update.loss, update.grad_norm, update.tokens, trainer.updates()), (0.0, Some(0.0), 0, 1));
}
