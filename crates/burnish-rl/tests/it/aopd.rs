//! AOPD: its limits, its gate, and what it expects over every token of a vocabulary.

use crate::common::{Batch, batches, is_near, metric};
use crate::distillation::{VOCABULARY, all_tokens, log_softmax, logits};
use burnish_rl::aggregation::Aggregation;
use burnish_rl::distillation::{Aopd, Gkd, HeadLoss, Opd, Surrogate, Teacher};
use burnish_rl::{Evaluation, Objective, Part};
use proptest::prelude::*;

fn aopd(tau: f64) -> Aopd {
    Aopd { tau, ..Aopd::default() }
}

fn opd(surrogate: Surrogate) -> Opd {
    Opd { surrogate, aggregation: Aggregation::Grpo, ..Opd::default() }
}

/// The teacher's `top` likeliest tokens.
fn top(teacher: &[f64], top: usize) -> (Vec<u32>, Vec<f64>) {
    let logprobs = log_softmax(teacher);
    let mut ids: Vec<u32> = (0..teacher.len() as u32).collect();
    ids.sort_by(|a, b| logprobs[*b as usize].total_cmp(&logprobs[*a as usize]));
    ids.truncate(top);
    let known = ids.iter().map(|id| logprobs[*id as usize]).collect();
    (ids, known)
}

fn row(aopd: &Aopd, student: &[f64], teacher: &[f64], count: usize) -> (f64, Vec<f64>) {
    let (ids, known) = top(teacher, count);
    let found = aopd.evaluate_row(student, Teacher::Sparse { ids: &ids, logprobs: &known });
    (found.value, found.d_logits)
}

/// The gradient with respect to the student's logits, in expectation over the sampled token: each token is answered
/// once.
fn expected_gradient(found: &Evaluation, aopd: &Aopd, student: &[f64], teacher: &[f64]) -> Vec<f64> {
    let own: Vec<f64> = log_softmax(student).iter().map(|log| log.exp()).collect();
    let head = row(aopd, student, teacher, student.len()).1;
    let count = student.len() as f64;
    let head_weight = |at: usize| found.head_weights.get(at).copied().unwrap_or_default();
    let token = |at: usize, logit: usize| {
        let of_policy = found.d_policy[at] * (f64::from(at == logit) - own[logit]);
        own[at] * count * (of_policy + head_weight(at) * head[logit])
    };
    (0..student.len()).map(|logit| (0..student.len()).map(|at| token(at, logit)).sum()).collect()
}

/// The gate of each position by the definition, on policy.
fn is_gated(batch: &Batch, at: usize, tau: f64) -> bool {
    batch.reference[at].exp() - batch.policy[at].exp() <= tau
}

proptest! {
    #[test]
    fn below_every_gap_it_is_opd_to_the_bit(mut batch in batches(2.0)) {
        // Log-probs of sampled tokens are not above 0.
        batch.proximal.iter_mut().for_each(|behavior| *behavior = behavior.min(0.0));
        for surrogate in [Surrogate::Importance, Surrogate::Clip] {
            let found = batch.evaluate(&Aopd { surrogate, ..aopd(-1.0) });
            let expected = batch.evaluate(&opd(surrogate));
            prop_assert!(found.head_weights.iter().all(|weight| *weight == 0.0));
            prop_assert_eq!(found.loss, expected.loss);
            prop_assert_eq!(&found.d_policy, &expected.d_policy);
            for expected in &expected.metrics {
                prop_assert!(found.metrics.contains(expected), "{}", expected.name);
            }
        }
    }

    #[test]
    fn above_every_gap_it_is_truncated_forward_kl_and_with_every_token_gkd(
        student in logits(),
        teacher in logits(),
        count in 1usize..=VOCABULARY,
    ) {
        let batch = all_tokens(&student, &teacher);
        let gkd = Gkd { beta: 0.0, aggregation: Aggregation::Grpo, ..Gkd::default() };
        let (found, expected) = (batch.evaluate(&aopd(1.0)), batch.evaluate(&gkd));
        prop_assert_eq!(found.loss, 0.0);
        prop_assert_eq!(&found.d_policy, &expected.d_policy);
        prop_assert_eq!(&found.head_weights, &expected.head_weights);
        prop_assert_eq!(metric(&found, "gate_mean"), 1.0);

        let dense = gkd.evaluate_row(&student, Teacher::Dense(&teacher));
        let (value, d_logits) = row(&aopd(1.0), &student, &teacher, VOCABULARY);
        prop_assert!(is_near(value, dense.value, 1e-12));
        let (q, p) = (log_softmax(&student), log_softmax(&teacher));
        for at in 0..VOCABULARY {
            prop_assert!(is_near(d_logits[at], dense.d_logits[at], 1e-12));
            prop_assert!(is_near(d_logits[at], q[at].exp() - p[at].exp(), 1e-12));
        }

        // From the definition, with fewer.
        let (ids, known) = top(&teacher, count);
        let mass: f64 = known.iter().map(|log| log.exp()).sum();
        let expected: f64 = ids
            .iter()
            .map(|id| {
                let p = p[*id as usize].exp() / mass;
                p * (p.ln() - q[*id as usize])
            })
            .sum();
        prop_assert!(is_near(row(&aopd(1.0), &student, &teacher, count).0, expected, 1e-12));
    }

    #[test]
    fn a_student_that_is_its_teacher_is_drawn_to_the_top_alone_and_not_at_all_by_every_token(
        student in logits(),
        count in 1usize..VOCABULARY,
    ) {
        let batch = all_tokens(&student, &student);
        let found = batch.evaluate(&aopd(0.0));
        // No gap is within the gate, and there is no advantage anyway.
        prop_assert!(found.d_policy.iter().all(|derivative| *derivative == 0.0));
        prop_assert_eq!((found.loss, metric(&found, "gate_mean")), (0.0, 1.0));
        let (value, d_logits) = row(&aopd(0.0), &student, &student, VOCABULARY);
        prop_assert!(value.abs() < 1e-12 && d_logits.iter().all(|derivative| derivative.abs() < 1e-12));

        let (value, d_logits) = row(&aopd(0.0), &student, &student, count);
        prop_assert!(value > 0.0);
        let (ids, _) = top(&student, count);
        for (at, derivative) in d_logits.iter().enumerate() {
            prop_assert_eq!(*derivative < 0.0, ids.contains(&(at as u32)));
        }
    }

    #[test]
    fn tokens_that_the_teacher_likes_more_have_the_gradient_of_opd(batch in batches(2.0)) {
        let (found, expected) = (batch.evaluate(&aopd(0.0)), batch.evaluate(&opd(Surrogate::Importance)));
        for at in (0..batch.policy.len()).filter(|at| batch.loss_mask[*at]) {
            if batch.reference[at] > batch.proximal[at] {
                prop_assert_eq!((found.d_policy[at], found.head_weights[at]), (expected.d_policy[at], 0.0));
            } else {
                prop_assert!(found.d_policy[at] == 0.0 && found.head_weights[at] > 0.0);
            }
        }
    }

    #[test]
    fn what_it_expects_is_the_gradient_of_the_reverse_kl_of_the_forward_kl_or_of_both_by_token(
        student in logits(),
        teacher in logits(),
        tau in -0.3..0.3f64,
    ) {
        let batch = all_tokens(&student, &teacher);
        let of = |tau: f64| expected_gradient(&batch.evaluate(&aopd(tau)), &aopd(tau), &student, &teacher);
        let kl = |beta| Gkd { beta, ..Gkd::default() }.evaluate_row(&student, Teacher::Dense(&teacher)).d_logits;
        // E[A ∇log Q] = -∇KL(Q ‖ P).
        for (tau, exact) in [(-1.0, kl(1.0)), (1.0, kl(0.0))] {
            for (found, exact) in of(tau).iter().zip(exact) {
                prop_assert!(is_near(*found, exact, 1e-12), "{tau}: {found} for {exact}");
            }
        }
        let (q, p) = (log_softmax(&student), log_softmax(&teacher));
        for (logit, found) in of(tau).iter().enumerate() {
            let token = |at: usize| {
                let own = if is_gated(&batch, at, tau) {
                    q[logit].exp() - p[logit].exp()
                } else {
                    -(p[at] - q[at]) * (f64::from(at == logit) - q[logit].exp())
                };
                q[at].exp() * own
            };
            prop_assert!(is_near(*found, (0..VOCABULARY).map(token).sum(), 1e-12));
        }
    }
}

#[test]
fn where_the_teacher_agrees_on_the_token_but_not_elsewhere_there_is_a_gradient_that_opd_lacks() {
    let (student, teacher) = ([0.0, 1.0, -1.0], [0.0, -1.0, 1.0]);
    let batch = all_tokens(&student, &teacher);
    assert_eq!(batch.policy[0], batch.reference[0]);
    assert_eq!(batch.evaluate(&opd(Surrogate::Importance)).d_policy[0], 0.0);
    let found = batch.evaluate(&aopd(0.0));
    assert_eq!(found.head_weights[0], 1.0 / 3.0);
    let (_, d_logits) = row(&aopd(0.0), &student, &teacher, 3);
    assert!(d_logits[0].abs() < 1e-12 && d_logits[1] > 0.3 && d_logits[2] < -0.3);
}

#[test]
fn settings_out_of_range_are_refused_by_key() {
    for (wrong, message) in [
        (aopd(-1.5), "tau: must be -1 to 1, not -1.5"),
        (Aopd { top: 0, ..aopd(0.0) }, "top: must be 1 or more, not 0"),
        (Aopd { epsilon_low: 2.0, ..aopd(0.0) }, "epsilon_low: must be 0 to 1, not 2"),
    ] {
        assert_eq!(wrong.check().unwrap_err().to_string(), message);
    }
    let needs = aopd(0.0).needs();
    assert!(needs.teacher && needs.head == Some(burnish_rl::distillation::HeadTarget::Top(32)));
}
