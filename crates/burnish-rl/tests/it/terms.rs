//! Losses on parts of a batch.

use crate::common::{Batch, batches, is_near, loss};
use burnish_rl::aggregation::Aggregation;
use burnish_rl::terms::LossTerm;
use burnish_rl::{Evaluation, LossConfig, Objective, PartTotals, Streams, Totals};
use proptest::prelude::*;
use serde_json::json;

const AGGREGATIONS: [Aggregation; 4] =
    [Aggregation::Grpo, Aggregation::Bnpo, Aggregation::DrGrpo, Aggregation::Dapo];

fn term(objective: &str, weight: f64) -> LossTerm {
    LossTerm { objective: objective.into(), config: json!({}), on: String::new(), weight }
}

/// The batch with each token in the parts that `parts` names, and the counts of each part.
fn evaluate(batch: &Batch, objective: &dyn Objective, parts: &[u8]) -> Evaluation {
    let of_part = |part: usize| {
        let inside = (0..parts.len()).filter(|at| batch.loss_mask[*at] && parts[*at] >> part & 1 == 1);
        let positive = inside.clone().filter(|at| batch.advantage[*at] > 0.0).count();
        let tokens = inside.count();
        PartTotals { tokens, tokens_positive: positive, tokens_generation: 3 * tokens + 5 }
    };
    let totals = Totals { parts: std::array::from_fn(of_part), ..batch.totals() };
    objective.evaluate(&Streams { parts, ..batch.streams() }, &totals)
}

/// The batch without the tokens outside of a part.
fn only(batch: &Batch, parts: &[u8], part: usize) -> Batch {
    let inside = |at: usize| batch.loss_mask[at] && parts[at] >> part & 1 == 1;
    Batch { loss_mask: (0..parts.len()).map(inside).collect(), ..batch.clone() }
}

proptest! {
    #[test]
    fn each_term_is_its_loss_on_a_batch_of_its_part_alone(
        (batch, parts) in batches(0.5).prop_flat_map(|batch| {
            let tokens = batch.policy.len();
            (Just(batch), prop::collection::vec(1..8u8, tokens))
        }),
        aggregation in prop::sample::select(AGGREGATIONS.to_vec()),
        weight in -2.0..2.0f64,
    ) {
        let alone = LossConfig { aggregation, ..LossConfig::default() };
        let terms = vec![term("cispo", weight), term("positive_nll", 0.5)];
        let sum = evaluate(&batch, &*LossConfig { terms, ..alone.clone() }.build().unwrap(), &parts);
        let main = only(&batch, &parts, 0).evaluate(&loss(alone.clone()));
        let cispo = only(&batch, &parts, 1).evaluate(&loss(LossConfig { objective: "cispo".into(), ..alone }));
        let imitated = only(&batch, &parts, 2);
        let is_imitated = |at: usize| imitated.loss_mask[at] && imitated.advantage[at] > 0.0;
        let count = (0..parts.len()).filter(|at| is_imitated(*at)).count().max(1) as f64;
        for at in 0..parts.len() {
            let nll = if is_imitated(at) { -1.0 / count } else { 0.0 };
            let expected = main.d_policy[at] + weight * cispo.d_policy[at] + 0.5 * nll;
            prop_assert!(is_near(sum.d_policy[at], expected, 1e-12), "{} for {expected}", sum.d_policy[at]);
        }
        let nll: f64 = (0..parts.len()).filter(|at| is_imitated(*at)).map(|at| -imitated.policy[at] / count).sum();
        prop_assert!(is_near(sum.loss, main.loss + weight * cispo.loss + 0.5 * nll, 1e-9));
    }

    #[test]
    fn without_weight_it_is_the_main_loss_and_on_whole_answers_the_imitation_of_vapo(batch in batches(0.5)) {
        let main = batch.evaluate(&loss(LossConfig::default()));
        let all = vec![u8::MAX; batch.policy.len()];
        let with = |terms: Vec<LossTerm>| {
            evaluate(&batch, &*LossConfig { terms, ..LossConfig::default() }.build().unwrap(), &all)
        };
        let weightless = with(vec![term("cispo", 0.0)]);
        prop_assert_eq!((weightless.loss, &weightless.d_policy), (main.loss, &main.d_policy));
        let imitating = with(vec![term("positive_nll", 0.1)]);
        let vapo = batch.evaluate(&loss(LossConfig { positive_nll_coef: 0.1, ..LossConfig::default() }));
        prop_assert!(is_near(imitating.loss, vapo.loss, 1e-9));
        prop_assert!(imitating.d_policy.iter().zip(&vapo.d_policy).all(|(own, other)| is_near(*own, *other, 1e-12)));
    }
}

#[test]
fn terms_are_checked_like_the_loss_that_they_are() {
    let problem = |term: serde_json::Value| {
        let loss: LossConfig =
            serde_json::from_value(json!({"terms": [{"objective": "cispo", "weight": 1.0}, term]})).unwrap();
        let error = loss.complete().unwrap_err();
        format!("{}: {}", error.key, error.problem)
    };
    let found = problem(json!({"objective": "cipso", "weight": 1.0}));
    assert!(found.starts_with("terms[1].objective") && found.contains("cispo"), "{found}");
    let found = problem(json!({"objective": "dpo", "weight": 1.0}));
    assert!(found.starts_with("terms[1].objective"), "{found}");
    let found = problem(json!({"objective": "positive_nll", "weight": 1.0, "config": {"x": 1}}));
    assert!(found.starts_with("terms[1].config.x"), "{found}");
    let found = problem(json!({"objective": "m2po", "weight": 1.0}));
    assert!(found.starts_with("terms[1].objective") && found.contains("whole batch first"), "{found}");
    let main =
        LossConfig { objective: "m2po".into(), terms: vec![term("cispo", 1.0)], ..LossConfig::default() };
    assert!(main.complete().unwrap_err().problem.contains("whole batch first"));
    let many = LossConfig { terms: vec![term("cispo", 1.0); 8], ..LossConfig::default() };
    assert!(many.complete().unwrap_err().problem.contains("7 at most"));
    // What a term leaves out is written down.
    let loss = LossConfig { terms: vec![term("ppo_clip", 1.0)], ..LossConfig::default() };
    assert!(loss.complete().unwrap().terms[0].config.get("epsilon_low").is_some());
}
