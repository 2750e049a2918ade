//! Distances from a teacher: TRL 1.16's own numbers, made by `tests/golden/make_preference.py`, and algebra.

use crate::common::{Batch, batches, clip, is_near, loss, metric};
use crate::trl_preference;
use burnish_rl::aggregation::Aggregation;
use burnish_rl::distillation::{Gkd, HeadLoss, HeadTarget, Opd, Rest, Surrogate, Teacher};
use burnish_rl::{LossConfig, Needs, Objective, Part, Streams};
use proptest::prelude::*;
use serde::Deserialize;

/// Both sides compute in f64, and the file has 14 digits.
const TOLERANCE: f64 = 1e-9;

#[derive(Deserialize)]
struct Golden {
    gkd: Vec<Dense>,
    sparse: Vec<Sparse>,
}

#[derive(Deserialize)]
struct Dense {
    beta: f64,
    temperature: f64,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Sparse {
    add_tail: bool,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    student: Vec<f64>,
    #[serde(default)]
    teacher: Vec<f64>,
    #[serde(default)]
    ids: Vec<u32>,
    #[serde(default)]
    logprobs: Vec<f64>,
    loss: f64,
    gradient: Vec<f64>,
}

#[expect(clippy::unwrap_used, reason = "the file is part of the test")]
fn golden() -> Golden {
    serde_json::from_str(include_str!("../golden/preference.json")).unwrap()
}

impl Row {
    fn compare(&self, gkd: &Gkd, teacher: Teacher<'_>) {
        let found = gkd.evaluate_row(&self.student, teacher);
        assert!(is_near(found.value, self.loss, TOLERANCE), "{gkd:?}: {} for {}", found.value, self.loss);
        for (found, expected) in found.d_logits.iter().zip(&self.gradient) {
            assert!(is_near(*found, *expected, TOLERANCE), "{gkd:?}: gradient {found} for {expected}");
        }
        assert_eq!(found.d_logits.len(), self.gradient.len());
    }
}

#[test]
fn gkd_is_that_of_trl() {
    let cases = golden().gkd;
    assert_eq!(cases.len(), 10);
    for case in cases {
        let gkd = Gkd { beta: case.beta, temperature: case.temperature, ..Gkd::default() };
        case.rows.iter().for_each(|row| row.compare(&gkd, Teacher::Dense(&row.teacher)));
    }
}

#[test]
fn a_sparse_teacher_is_that_of_trl() {
    let cases = golden().sparse;
    assert_eq!(cases.len(), 4);
    for case in cases {
        let rest = if case.add_tail { Rest::Bucket } else { Rest::Renormalise };
        let gkd = Gkd { beta: 0.0, rest, ..Gkd::default() };
        for row in &case.rows {
            row.compare(&gkd, Teacher::Sparse { ids: &row.ids, logprobs: &row.logprobs });
        }
    }
}

#[test]
fn opd_is_the_published_formula() {
    let golden = trl_preference::golden();
    for case in &golden.opd {
        let mut opd: Opd = serde_json::from_value(case.settings.clone()).unwrap();
        opd.aggregation = Aggregation::Bnpo;
        let (batch, behavior) = golden.batch("opd", 1);
        let streams = Streams { behavior: &behavior, ..batch.streams() };
        case.compare(&opd.evaluate(&streams, &batch.batch.totals()));
    }
    assert_eq!(golden.opd.len(), 4);
}

pub(crate) fn log_softmax(logits: &[f64]) -> Vec<f64> {
    let total = logits.iter().map(|logit| logit.exp()).sum::<f64>().ln();
    logits.iter().map(|logit| logit - total).collect()
}

/// Σ p·log(p/q), from the definition.
fn kl(p: &[f64], q: &[f64]) -> f64 {
    log_softmax(p).iter().zip(log_softmax(q)).map(|(p, q)| p.exp() * (p - q)).sum()
}

fn dense(beta: f64) -> Gkd {
    Gkd { beta, ..Gkd::default() }
}

pub(crate) const VOCABULARY: usize = 5;

pub(crate) fn logits() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(-3.0..3.0f64, VOCABULARY)
}

/// Every token of the vocabulary, answered once on policy.
pub(crate) fn all_tokens(student: &[f64], teacher: &[f64]) -> Batch {
    let policy = log_softmax(student);
    Batch {
        proximal: policy.clone(),
        reference: log_softmax(teacher),
        entropy: vec![0.0; policy.len()],
        advantage: vec![f64::NAN; policy.len()],
        loss_mask: vec![true; policy.len()],
        sequences: (0..policy.len()).map(|at| at..at + 1).collect(),
        policy,
        directions: Vec::new(),
        batch_constants: Vec::new(),
    }
}

/// Gradient with respect to the student's logits, in expectation over the sampled token.
fn expected_gradient(opd: &Opd, student: &[f64], teacher: &[f64]) -> Vec<f64> {
    let batch = all_tokens(student, teacher);
    let found = batch.evaluate(opd);
    let count = batch.policy.len() as f64;
    let probabilities: Vec<f64> = batch.policy.iter().map(|log| log.exp()).collect();
    (0..student.len())
        .map(|logit| {
            let token = |at: usize| {
                let d_logprob = f64::from(at == logit) - probabilities[logit];
                // Each was divided by the number of tokens.
                probabilities[at] * found.d_policy[at] * count * d_logprob
            };
            (0..student.len()).map(token).sum()
        })
        .collect()
}

/// The teacher alone, the mean over tokens.
fn opd(surrogate: Surrogate) -> Opd {
    Opd { surrogate, reward_weight: 0.0, aggregation: Aggregation::Bnpo, ..Opd::default() }
}

proptest! {
    #[test]
    fn derivatives_of_logits_are_those_of_finite_differences(
        student in logits(),
        teacher in logits(),
        temperature in 0.5..3.0f64,
        top in 1usize..=VOCABULARY,
    ) {
        const STEP: f64 = 1e-5;
        let logprobs = log_softmax(&teacher);
        let ids: Vec<u32> = [3, 0, 4, 1, 2][..top].to_vec();
        let known: Vec<f64> = ids.iter().map(|id| logprobs[*id as usize]).collect();
        let sparse = Teacher::Sparse { ids: &ids, logprobs: &known };
        for beta in [0.0, 0.25, 0.5, 1.0] {
            for (rest, target) in [
                (Rest::Bucket, Teacher::Dense(&teacher)),
                (Rest::Bucket, sparse),
                (Rest::Renormalise, sparse),
                (Rest::Ignore, sparse),
            ] {
                let gkd = Gkd { beta, temperature, rest, ..Gkd::default() };
                if gkd.check().is_err() {
                    continue;
                }
                let found = gkd.evaluate_row(&student, target);
                for at in 0..student.len() {
                    let value = |change: f64| {
                        let mut moved = student.clone();
                        moved[at] += change;
                        gkd.evaluate_row(&moved, target).value
                    };
                    let slope = (value(STEP) - value(-STEP)) / (2.0 * STEP);
                    prop_assert!(is_near(found.d_logits[at], slope, 1e-7), "{gkd:?}: {} for {slope}", found.d_logits[at]);
                }
            }
        }
    }

    #[test]
    fn the_ends_are_forward_and_reverse_kl_and_the_way_there_is_continuous_but_for_a_factor(
        student in logits(),
        teacher in logits(),
    ) {
        let at = |beta: f64| dense(beta).evaluate_row(&student, Teacher::Dense(&teacher)).value;
        prop_assert!(is_near(at(0.0), kl(&teacher, &student), 1e-12));
        prop_assert!(is_near(at(1.0), kl(&student, &teacher), 1e-12));
        prop_assert!(is_near(at(1e-7) / 1e-7, at(0.0), 1e-4));
        prop_assert!(is_near(at(1.0 - 1e-7) / 1e-7, at(1.0), 1e-4));
    }

    #[test]
    fn at_one_half_it_is_the_same_both_ways_and_below_log_2(student in logits(), teacher in logits()) {
        let one_way = dense(0.5).evaluate_row(&student, Teacher::Dense(&teacher)).value;
        let other_way = dense(0.5).evaluate_row(&teacher, Teacher::Dense(&student)).value;
        prop_assert!(is_near(one_way, other_way, 1e-12));
        prop_assert!((-1e-15..std::f64::consts::LN_2).contains(&one_way));
        let skewed = dense(0.1).evaluate_row(&student, Teacher::Dense(&teacher)).value;
        let mirrored = dense(0.9).evaluate_row(&teacher, Teacher::Dense(&student)).value;
        prop_assert!(is_near(skewed, mirrored, 1e-12));
    }

    #[test]
    fn a_sparse_teacher_that_knows_every_token_is_a_dense_one(student in logits(), teacher in logits()) {
        let (ids, logprobs) = ([3, 0, 4, 1, 2], log_softmax(&teacher));
        let known = ids.map(|id: u32| logprobs[id as usize]);
        for beta in [0.0, 0.3, 1.0] {
            let expected = dense(beta).evaluate_row(&student, Teacher::Dense(&teacher));
            for rest in [Rest::Bucket, Rest::Renormalise] {
                let gkd = Gkd { beta, rest, ..Gkd::default() };
                let found = gkd.evaluate_row(&student, Teacher::Sparse { ids: &ids, logprobs: &known });
                prop_assert!(is_near(found.value, expected.value, 1e-12), "{rest:?}");
                for (found, expected) in found.d_logits.iter().zip(&expected.d_logits) {
                    prop_assert!(is_near(*found, *expected, 1e-12), "{rest:?}");
                }
            }
        }
    }

    #[test]
    fn a_shift_of_all_logits_is_nothing_and_gradients_add_up_to_zero(student in logits(), teacher in logits()) {
        let shifted: Vec<f64> = student.iter().map(|logit| logit + 5.0).collect();
        for beta in [0.0, 0.4, 1.0] {
            let found = dense(beta).evaluate_row(&student, Teacher::Dense(&teacher));
            prop_assert!(found.d_logits.iter().sum::<f64>().abs() < 1e-12);
            let moved = dense(beta).evaluate_row(&shifted, Teacher::Dense(&teacher));
            prop_assert!(is_near(moved.value, found.value, 1e-12));
        }
    }

    #[test]
    fn a_student_that_is_its_teacher_has_no_gradient(student in logits()) {
        for surrogate in [Surrogate::Importance, Surrogate::Clip] {
            let gradient = expected_gradient(&opd(surrogate), &student, &student);
            prop_assert!(gradient.iter().all(|derivative| *derivative == 0.0), "{gradient:?}");
        }
        for beta in [0.0, 0.3, 0.5, 1.0] {
            let found = dense(beta).evaluate_row(&student, Teacher::Dense(&student));
            prop_assert!(found.value.abs() < 1e-15);
            prop_assert!(found.d_logits.iter().all(|derivative| derivative.abs() < 1e-15));
        }
    }

    #[test]
    fn what_opd_expects_is_the_gradient_of_the_reverse_kl(student in logits(), teacher in logits()) {
        let reverse = dense(1.0).evaluate_row(&student, Teacher::Dense(&teacher));
        for surrogate in [Surrogate::Importance, Surrogate::Clip] {
            let expected = expected_gradient(&opd(surrogate), &student, &teacher);
            for (expected, exact) in expected.iter().zip(&reverse.d_logits) {
                prop_assert!(is_near(*expected, *exact, 1e-12), "{expected} for {exact}");
            }
        }
    }

    #[test]
    fn opd_without_a_teacher_is_ppo_clip(batch in batches(2.0)) {
        let opd = Opd {
            surrogate: Surrogate::Clip, kl_coef: 0.0, reward_weight: 1.0, epsilon_low: 0.1, ..Opd::default()
        };
        let ppo = loss(LossConfig { config: clip(0.1, 0.2), ..LossConfig::default() });
        let (found, expected) = (batch.evaluate(&opd), batch.evaluate(&ppo));
        prop_assert_eq!(found.loss, expected.loss);
        prop_assert_eq!(&found.d_policy, &expected.d_policy);
        if batch.loss_mask.contains(&true) {
            for name in ["clip_ratio/low_mean", "clip_ratio/high_mean", "entropy"] {
                prop_assert_eq!(metric(&found, name), metric(&expected, name), "{}", name);
            }
        }
    }
}

#[test]
fn opd_raises_what_the_teacher_likes_more_and_is_reinforce_on_policy() {
    let (student, teacher) = ([0.0, 0.0, 0.0], [1.0, 0.0, -1.0]);
    let batch = all_tokens(&student, &teacher);
    for surrogate in [Surrogate::Importance, Surrogate::Clip] {
        let found = batch.evaluate(&opd(surrogate));
        for at in 0..3 {
            // -A, divided by the number of tokens.
            assert_eq!(found.d_policy[at], (batch.policy[at] - batch.reference[at]) / 3.0);
        }
        assert!(found.d_policy[0] < 0.0 && found.d_policy[2] > 0.0);
        let excess: f64 = batch.policy.iter().zip(&batch.reference).map(|(own, theirs)| own - theirs).sum();
        assert!(is_near(metric(&found, "teacher_kl"), excess / 3.0, 1e-15));
    }
}

proptest! {
    #[test]
    fn gkd_as_an_objective_is_the_mean_of_its_divergence_over_tokens_whatever_their_rewards(batch in batches(2.0)) {
        for (aggregation, top) in [(Aggregation::Bnpo, 0), (Aggregation::Grpo, 4)] {
            let gkd = Gkd { aggregation, top, ..Gkd::default() };
            let expected = if top == 0 { HeadTarget::Whole } else { HeadTarget::Top(top) };
            prop_assert_eq!(gkd.needs(), Needs { head: Some(expected), ..Needs::default() });
            let found = batch.evaluate(&gkd);
            prop_assert_eq!(found.loss, 0.0);
            prop_assert!(found.d_policy.iter().chain(&found.d_entropy).all(|derivative| *derivative == 0.0));
            // A mean: with the same divergence everywhere, the loss is that.
            let sequences = batch.sequences.iter();
            let with_tokens = sequences.filter(|range| batch.loss_mask[(*range).clone()].contains(&true)).count();
            let whole = match aggregation {
                Aggregation::Grpo => with_tokens as f64 / batch.sequences.len() as f64,
                _ => f64::from(with_tokens > 0),
            };
            prop_assert!(is_near(found.head_weights.iter().sum(), whole, 1e-12));
            for (weight, in_loss) in found.head_weights.iter().zip(&batch.loss_mask) {
                prop_assert_eq!(*weight > 0.0, *in_loss);
            }
        }
    }

    #[test]
    fn grpo_beside_opsd_is_the_sum_of_both_gradients_on_policy(batch in batches(2.0), kl_coef in 0.0..2.0f64) {
        let batch = batch.on_policy();
        for surrogate in [Surrogate::Importance, Surrogate::Clip] {
            let of = |kl_coef, reward_weight| {
                batch.evaluate(&Opd { surrogate, kl_coef, reward_weight, ..Opd::default() }).d_policy
            };
            let grpo = batch.evaluate(&loss(LossConfig::default())).d_policy;
            for ((both, opsd), grpo) in of(kl_coef, 1.0).iter().zip(of(1.0, 0.0)).zip(grpo) {
                prop_assert!(is_near(*both, kl_coef * opsd + grpo, 1e-12));
            }
        }
    }
}

#[test]
fn a_ratio_on_a_bound_is_not_clipped() {
    let mut batch = all_tokens(&[0.0, 0.0], &[1.0, 0.0]);
    batch.proximal = batch.policy.clone();
    let on_bounds = Opd { epsilon_low: 0.0, epsilon_high: 0.0, ..opd(Surrogate::Clip) };
    let found = batch.evaluate(&on_bounds);
    assert!(found.d_policy.iter().all(|derivative| *derivative != 0.0));
    assert_eq!(metric(&found, "clip_ratio/region_mean"), 0.0);
}

#[test]
fn logits_however_far_apart_give_finite_numbers() {
    let (student, teacher) = ([700.0, -700.0, 0.0], [-700.0, 700.0, 0.0]);
    for beta in [0.0, 0.5, 1.0] {
        let logprobs = [0.0, -1400.0];
        let sparse = Teacher::Sparse { ids: &[1, 0], logprobs: &logprobs };
        for target in [Teacher::Dense(&teacher), sparse] {
            let found = dense(beta).evaluate_row(&student, target);
            assert!(found.value.is_finite(), "{beta}: {}", found.value);
            assert!(found.d_logits.iter().all(|derivative| derivative.is_finite()), "{beta}");
        }
    }
    // Forward KL of a student that is sure and wrong: the difference of the log-probs.
    assert_eq!(dense(0.0).evaluate_row(&student, Teacher::Dense(&teacher)).value, 1400.0);
}

#[test]
fn an_entry_that_is_none_changes_nothing() {
    let student = [0.5, -1.0, 0.25, 0.0];
    for rest in [Rest::Bucket, Rest::Renormalise, Rest::Ignore] {
        let gkd = Gkd { beta: 0.0, rest, ..Gkd::default() };
        let short = gkd.evaluate_row(&student, Teacher::Sparse { ids: &[2, 1], logprobs: &[-0.5, -1.5] });
        let padded = Teacher::Sparse { ids: &[2, 1, 1], logprobs: &[-0.5, -1.5, f64::NEG_INFINITY] };
        assert_eq!(gkd.evaluate_row(&student, padded), short, "{rest:?}");
    }
}

#[test]
fn settings_out_of_range_are_refused_by_key() {
    for (wrong, message) in [
        (Gkd { beta: 1.5, ..Gkd::default() }.check(), "beta: must be 0 to 1, not 1.5"),
        (
            Gkd { temperature: 2.0, top: 3, ..Gkd::default() }.check(),
            "temperature: must be 1 with `top` above 0: the teacher's log-probs come at the temperature of sampling",
        ),
        (Gkd { temperature: 0.0, ..Gkd::default() }.check(), "temperature: must be above 0, not 0"),
        (Gkd { rest: Rest::Ignore, ..Gkd::default() }.check(), "beta: must be 0 with `rest = \"ignore\"`"),
        (Opd { kl_coef: -1.0, ..Opd::default() }.check(), "kl_coef: must be 0 or more, not -1"),
        (Opd { reward_weight: -1.0, ..Opd::default() }.check(), "reward_weight: must be 0 or more"),
        (Opd { epsilon_low: 2.0, ..Opd::default() }.check(), "epsilon_low: must be 0 to 1, not 2"),
        (Opd { epsilon_high: -1.0, ..Opd::default() }.check(), "epsilon_high: must be 0 or more"),
    ] {
        let error = wrong.unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
    assert!(Gkd { beta: 0.0, rest: Rest::Ignore, ..Gkd::default() }.check().is_ok());
}
