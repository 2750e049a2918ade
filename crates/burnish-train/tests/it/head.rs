//! Losses on whole distributions, through the trainer.

use std::sync::Arc;

use burnish_model::{Architecture, Dtype, Model, Targets};
use burnish_rl::aggregation::Aggregation;
use burnish_rl::distillation::{Aopd, Gkd, HeadLoss, HeadTarget, Opd, Rest, Teacher};
use burnish_rl::{Evaluation, Needs, Objective, Streams, Totals};
use burnish_train::{
    Checkpointing, PassConfig, Sample, SampleError, Target, TeacherHead, TrainError, Trainer, accumulate,
    score, score_hidden, score_squares, score_top,
};

use crate::common::{CONFIG, VOCAB, adapted, adapted_at, qwen3, random_batch, tiny_model, totals_of};
use crate::gradient::{check_on, gradient, relative_distance};

/// A model that is not the student: another architecture, and a head of its own.
fn teacher() -> Model {
    tiny_model(Architecture::Qwen2, false, Dtype::F32)
}

/// Every map adapted, the head among them.
fn adapted_with_head(model: &Model) -> Model {
    let names = ["q_proj", "v_proj", "down_proj", "lm_head"];
    adapted_at(model, 0.0, Targets::Names(names.map(String::from).to_vec()))
}

/// The batch with everything that `objective` needs from `teacher`.
fn taught(batch: &[Sample], teacher: &Model, objective: &dyn Objective) -> Vec<Sample> {
    let logprobs = score(teacher, batch, 64).unwrap();
    let targets = match objective.needs().head {
        Some(HeadTarget::Top(top)) => score_top(teacher, batch, top, 64).unwrap(),
        Some(HeadTarget::Whole) => score_hidden(teacher, batch, 64).unwrap(),
        None => return batch.to_vec(),
    };
    let with = |((sample, teacher), target): ((&Sample, Vec<f32>), Target)| Sample {
        teacher: Some(teacher),
        target: Some(target),
        ..sample.clone()
    };
    batch.iter().zip(logprobs).zip(targets).map(with).collect()
}

/// Dense and sparse, fused and row by row, with and without a term on log-probs.
fn objectives() -> Vec<(&'static str, Box<dyn Objective>)> {
    let gkd = |beta, top, rest| Box::new(Gkd { beta, top, rest, ..Gkd::default() }) as Box<dyn Objective>;
    let warm = Gkd { beta: 0.3, temperature: 1.7, aggregation: Aggregation::Grpo, ..Gkd::default() };
    vec![
        ("jsd", Box::new(warm)),
        ("forward", gkd(0.0, 0, Rest::Bucket)),
        ("reverse", gkd(1.0, 0, Rest::Bucket)),
        ("sparse jsd", gkd(0.5, 4, Rest::Bucket)),
        ("renormalised", gkd(1.0, 5, Rest::Renormalise)),
        ("fused", gkd(0.0, 4, Rest::Ignore)),
        ("aopd", Box::new(Aopd { top: 4, tau: 0.02, ..Aopd::default() })),
    ]
}

#[test]
fn the_gradient_of_every_tensor_is_the_slope_of_the_loss_of_whole_distributions() {
    for (name, objective) in objectives() {
        eprintln!("{name}");
        let batch = taught(&random_batch(5), &teacher(), &*objective);
        check_on(&batch, &mut qwen3(), &*objective);
    }
}

#[test]
fn the_gradient_of_adapters_and_of_that_of_the_head_is_the_slope_too() {
    // The head of an adapted teacher counts with its adapter.
    let teacher = adapted_with_head(&teacher());
    for (name, objective) in objectives() {
        if !["jsd", "fused", "sparse jsd"].contains(&name) {
            continue;
        }
        let mut student = adapted_with_head(&tiny_model(Architecture::Qwen3, false, Dtype::F32));
        let batch = taught(&random_batch(5), &teacher, &*objective);
        check_on(&batch, &mut student, &*objective);
    }
}

#[test]
fn neither_micro_batches_nor_checkpointing_change_it() {
    let student = qwen3();
    for (name, objective) in objectives() {
        let batch = taught(&random_batch(3), &teacher(), &*objective);
        let (alone, expected) = gradient(&student, &batch, &*objective, 1);
        for tokens_max in [40, 1000] {
            let (pass, grads) = gradient(&student, &batch, &*objective, tokens_max);
            assert!(pass.micro_batches < alone.micro_batches);
            assert!((pass.loss / alone.loss - 1.0).abs() < 1e-5, "{name}");
            let [found, expected_loss] = [&pass, &alone].map(|pass| pass.metrics["head_loss"]);
            assert!((found / expected_loss - 1.0).abs() < 1e-5, "{name}");
            let distance = relative_distance(&expected, &grads);
            assert!(distance < 1e-5, "{name}, {tokens_max} tokens: {distance}");
        }
        let again = PassConfig { checkpointing: Checkpointing::Full.always(), ..PassConfig::new(40) };
        let mut grads = student.params.zeros_like();
        accumulate(&student, &batch, &*objective, &totals_of(&batch), again, &mut grads).unwrap();
        assert_eq!(grads, gradient(&student, &batch, &*objective, 40).1, "{name}");
    }
}

/// Logits over the temperature of each scored token, sample by sample, in f64 from the hidden states.
fn logits(model: &Model, batch: &[Sample]) -> Vec<Vec<f64>> {
    let weight = model.params.get(model.head().base);
    let width = model.head().base.cols;
    let mut all = Vec::new();
    for (sample, target) in batch.iter().zip(score_hidden(model, batch, 64).unwrap()) {
        let Target::Hidden { hidden, .. } = target else { panic!("hidden states were asked for") };
        for (row, at) in hidden.chunks(width).zip(sample.scored()) {
            let of =
                |w: &[f32]| -> f64 { w.iter().zip(row).map(|(w, h)| f64::from(*w) * f64::from(*h)).sum() };
            let temperature = f64::from(sample.temperatures[at]);
            all.push(weight.chunks(width).map(|w| of(w) / temperature).collect());
        }
    }
    all
}

#[test]
fn the_loss_is_the_mean_of_the_function_of_rows_in_f64() {
    let (student, teacher) = (qwen3(), teacher());
    let plain = random_batch(2);
    let (own, theirs) = (logits(&student, &plain), logits(&teacher, &plain));
    for (name, objective) in objectives().into_iter().filter(|(name, _)| !["aopd", "jsd"].contains(name)) {
        let batch = taught(&plain, &teacher, &*objective);
        let head = objective.head().unwrap();
        let tops = batch.iter().flat_map(|sample| match sample.target.as_ref().unwrap() {
            Target::Top { top, ids, logprobs } => ids
                .chunks(*top)
                .zip(logprobs.chunks(*top))
                .map(|row| Some((row.0, row.1)))
                .collect::<Vec<_>>(),
            Target::Hidden { .. } => vec![None; sample.scored_tokens()],
        });
        let rows = own.iter().zip(&theirs).zip(tops).map(|((own, theirs), top)| match top {
            None => head.evaluate_row(own, Teacher::Dense(theirs)).value,
            Some((ids, logprobs)) => {
                let logprobs: Vec<f64> = logprobs.iter().map(|log| f64::from(*log)).collect();
                head.evaluate_row(own, Teacher::Sparse { ids, logprobs: &logprobs }).value
            }
        });
        let expected = rows.sum::<f64>() / own.len() as f64;
        let (pass, _) = gradient(&student, &batch, &*objective, 40);
        assert!(
            (pass.loss - expected).abs() < 2e-6 * expected.abs().max(1.0),
            "{name}: {} {expected}",
            pass.loss
        );
        assert!((pass.metrics["head_loss"] - expected).abs() < 2e-6 * expected.abs().max(1.0), "{name}");
    }
}

#[test]
fn the_likeliest_tokens_have_the_log_probs_that_scoring_gives_them() {
    let mut model = adapted_with_head(&teacher());
    model.restrict_vocab(|id| id != 4);
    let mut batch = random_batch(2);
    batch.iter_mut().for_each(|sample| sample.ids.iter_mut().for_each(|id| *id += u32::from(*id == 4)));
    let scored = score(&model, &batch, 64).unwrap();
    // More than there are means all.
    let whole = score_top(&model, &batch, 100, 40).unwrap();
    let some = score_top(&model, &batch, 3, 1000).unwrap();
    let squares = score_squares(&model, &batch, 40).unwrap();
    for ((((sample, scored), whole), some), squares) in
        batch.iter().zip(scored).zip(whole).zip(some).zip(squares)
    {
        assert_eq!(squares.len(), sample.scored().count());
        let Target::Top { top, ids, logprobs } = whole else { panic!("likeliest tokens were asked for") };
        let Target::Top { top: few, ids: likeliest, .. } = some else { panic!("likeliest tokens") };
        assert_eq!((top, few), (VOCAB as usize - 1, 3));
        let rows = ids.chunks(top).zip(logprobs.chunks(top)).zip(likeliest.chunks(few));
        for ((((ids, logprobs), likeliest), at), squares) in rows.zip(sample.scored()).zip(squares) {
            let mut all = ids.to_vec();
            all.sort_unstable();
            assert_eq!(all, (0..VOCAB).filter(|id| *id != 4).collect::<Vec<_>>());
            assert!(logprobs.windows(2).all(|pair| pair[0] >= pair[1]));
            let sum: f64 = logprobs.iter().map(|log| f64::from(*log).exp()).sum();
            assert!((sum - 1.0).abs() < 1e-5);
            let squared: f64 = logprobs.iter().map(|log| (2.0 * f64::from(*log)).exp()).sum();
            assert!((f64::from(squares) - squared).abs() < 1e-5 * squared);
            let own = ids.iter().position(|id| *id == sample.ids[at]).unwrap();
            assert!((logprobs[own] - scored[at]).abs() < 1e-5);
            assert_eq!(&ids[..few], likeliest);
        }
    }
}

#[test]
fn a_student_that_is_its_teacher_learns_nothing_from_whole_distributions() {
    let student = qwen3();
    let all = VOCAB as usize;
    let objectives: [Box<dyn Objective>; 4] = [
        Box::new(Gkd::default()),
        Box::new(Gkd { beta: 1.0, top: all, ..Gkd::default() }),
        Box::new(Aopd { tau: 1.0, top: all, ..Aopd::default() }),
        Box::new(Aopd { tau: 1.0, top: 3, ..Aopd::default() }),
    ];
    for (index, objective) in objectives.iter().enumerate() {
        let batch = taught(&random_batch(4), &student, &**objective);
        let (pass, grads) = gradient(&student, &batch, &**objective, 64);
        let largest = grads.iter().fold(0.0_f32, |max, value| max.max(value.abs()));
        // But a target normalised over fewer tokens still pulls towards them.
        let learns = index == 3;
        assert_eq!(pass.loss.abs() > 1e-4, learns, "{index}: {}", pass.loss);
        assert_eq!(largest > 1e-3, learns, "{index}: {largest}");
    }
}

#[test]
fn a_sample_without_scored_tokens_needs_no_teacher() {
    let student = qwen3();
    let gkd = Gkd { top: 3, ..Gkd::default() };
    let mut batch = taught(&random_batch(4), &teacher(), &gkd);
    let expected = gradient(&student, &batch, &gkd, 64);
    let silent = Sample { loss_mask: vec![false; batch[0].ids.len()], target: None, ..batch[0].clone() };
    batch.insert(0, silent);
    let mut grads = student.params.zeros_like();
    let totals = totals_of(&batch[1..]);
    let pass = accumulate(&student, &batch, &gkd, &totals, PassConfig::new(64), &mut grads).unwrap();
    assert_eq!((pass.loss, grads), (expected.0.loss, expected.1));
}

#[test]
fn aopd_below_every_gap_is_opd_to_the_bit() {
    let student = qwen3();
    let below = Aopd { tau: -1.0, top: 4, ..Aopd::default() };
    let batch = taught(&random_batch(6), &teacher(), &below);
    let opd = Opd { aggregation: Aggregation::Grpo, ..Opd::default() };
    let (found, expected) = (gradient(&student, &batch, &below, 64), gradient(&student, &batch, &opd, 64));
    assert_eq!((found.0.loss, found.1), (expected.0.loss, expected.1));
    assert!(!found.0.metrics.contains_key("head_loss"));
}

#[test]
fn what_an_objective_lacks_for_whole_distributions_is_named() {
    let student = qwen3();
    let refused = |batch: &[Sample], objective: &dyn Objective| {
        let mut grads = student.params.zeros_like();
        let result =
            accumulate(&student, batch, objective, &totals_of(batch), PassConfig::new(64), &mut grads);
        assert!(grads.iter().all(|value| *value == 0.0));
        result.unwrap_err()
    };
    let sparse = Gkd { top: 3, ..Gkd::default() };
    let good = taught(&random_batch(1), &teacher(), &sparse);
    let changed = |change: &dyn Fn(&mut Target)| {
        let mut batch = good.clone();
        change(batch[2].target.as_mut().unwrap());
        batch
    };
    let message = |batch: &[Sample], objective: &dyn Objective| refused(batch, objective).to_string();

    let mut without = good.clone();
    without[1].target = None;
    let expected = "sample 1: the objective needs the teacher's likeliest tokens, but its target is not there: score the \
                    samples with the teacher first";
    assert_eq!(message(&without, &sparse), expected);
    let expected =
        "sample 0: the objective needs the teacher's hidden states, but its target is of the other kind";
    assert_eq!(message(&good, &Gkd::default()), expected);
    let fewer = Gkd { top: 2, ..Gkd::default() };
    assert!(message(&good, &fewer).ends_with("has 3 tokens per position, which must be 1 to 2"));

    let unknown = changed(&|target| {
        if let Target::Top { ids, .. } = target {
            ids[1] = VOCAB;
        }
    });
    assert!(message(&unknown, &sparse).ends_with("names token 19, which is not in the model's vocabulary"));
    let short = changed(&|target| {
        if let Target::Top { ids, logprobs, .. } = target {
            ids.truncate(3);
            logprobs.truncate(3);
        }
    });
    let scored = good[2].scored_tokens();
    let source = SampleError::Target { positions: 1, scored };
    assert_eq!(refused(&short, &sparse), TrainError::Sample { sample: 2, source });
    let broken = changed(&|target| {
        if let Target::Top { logprobs, .. } = target {
            logprobs[4] = f32::NAN;
        }
    });
    let source = SampleError::TargetValue { at: 1 };
    assert_eq!(refused(&broken, &sparse), TrainError::Sample { sample: 2, source });

    let dense = taught(&random_batch(1), &teacher(), &Gkd::default());
    let mut two_heads = dense.clone();
    if let Some(Target::Hidden { head, .. }) = &mut two_heads[3].target {
        *head = Arc::new(TeacherHead::of(&teacher()).unwrap());
    }
    assert!(message(&two_heads, &Gkd::default()).ends_with("has another head than another sample's"));

    let values = student.to_value_model().unwrap();
    let problem = "a model of values has no distributions";
    assert_eq!(TeacherHead::of(&values).unwrap_err(), TrainError::HeadLoss { problem });
    assert_eq!(score_top(&values, &good, 3, 64).unwrap_err(), TrainError::HeadLoss { problem });
    assert_eq!(score_squares(&values, &good, 64).unwrap_err(), TrainError::HeadLoss { problem });
    assert!(matches!(score_top(&student, &good, 0, 64), Err(TrainError::HeadLoss { .. })));

    /// Gives weights, and lacks the loss, or what it needs for it.
    struct Lost(Option<Gkd>);
    impl Objective for Lost {
        fn needs(&self) -> Needs {
            let target = HeadTarget::Top(3);
            Needs { head: self.0.is_none().then_some(target), ..Needs::default() }
        }

        fn head(&self) -> Option<&dyn HeadLoss> {
            self.0.as_ref().map(|gkd| gkd as &dyn HeadLoss)
        }

        fn evaluate(&self, streams: &Streams<'_>, _: &Totals) -> Evaluation {
            let tokens = streams.policy.len();
            Evaluation { head_weights: vec![1.0; tokens], ..Evaluation::zero(tokens) }
        }
    }
    for lost in [Lost(None), Lost(Some(sparse))] {
        assert!(matches!(refused(&good, &lost), TrainError::HeadLoss { .. }));
    }
}

#[test]
fn in_a_run_of_steps_the_student_comes_to_its_teacher() {
    for objective in [Gkd { beta: 0.0, ..Gkd::default() }, Gkd { beta: 0.0, top: 6, ..Gkd::default() }] {
        let mut student = adapted(&qwen3(), 0.0);
        let batch = taught(&random_batch(8), &qwen3(), &objective);
        let mut trainer = Trainer::new(&student, CONFIG);
        let mut losses = Vec::new();
        for _ in 0..60 {
            let update = trainer.update(&mut student, &batch, &objective, &totals_of(&batch), 1e-2).unwrap();
            assert!((update.loss / update.metrics["head_loss"] - 1.0).abs() < 1e-12);
            losses.push(update.loss);
        }
        assert!(losses[59] < 0.1 * losses[0], "{} {}", losses[0], losses[59]);
    }
}
