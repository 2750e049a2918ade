use burnish_rl::aggregation::Aggregation;
use burnish_rl::{LossConfig, Streams, TokenFact, Totals};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::FURTHER;

/// Two answers of 2 and `long` tokens, of which the first one is a control token.
#[derive(Debug)]
struct Answers {
    policy: Vec<f64>,
    proximal: Vec<f64>,
    advantage: Vec<f64>,
    inside: Vec<f64>,
}

impl Answers {
    fn new(policy: Vec<f64>, (short, long): (f64, f64)) -> Self {
        let of = |first: f64, rest: f64| -> Vec<f64> {
            (0..policy.len()).map(|at| if at < 2 { first } else { rest }).collect()
        };
        let inside = (0..policy.len()).map(|at| f64::from(u8::from(at == 0 || at == 2))).collect();
        let proximal = policy.iter().enumerate().map(|(at, lp)| lp + [0.05, -0.3, 0.1][at % 3]).collect();
        Answers { advantage: of(short, long), proximal, inside, policy }
    }

    fn loss(&self, config: Value) -> burnish_rl::Evaluation {
        let aggregation = Aggregation::Grpo;
        let objective = if config.is_null() { "ppo_clip" } else { "degrpo" };
        let config = if config.is_null() { json!({}) } else { config };
        let further = FURTHER;
        let loss =
            LossConfig { objective: objective.into(), config, aggregation, further, ..LossConfig::default() };
        let loss = loss.build().unwrap();
        let facts: Vec<TokenFact> =
            loss.token_facts().into_iter().map(|id| TokenFact { id, numbers: self.inside.clone() }).collect();
        let (tokens, mask) = (self.policy.len(), vec![true; self.policy.len()]);
        let streams = Streams {
            policy: &self.policy,
            proximal: &self.proximal,
            behavior: &self.proximal,
            reference: None,
            teacher: None,
            entropy: &vec![0.0; tokens],
            advantage: &self.advantage,
            loss_mask: &mask,
            sequences: &[0..2, 2..tokens],
            groups: &[],
            directions: &[],
            parts: &[],
            facts: &facts,
            batch_constants: &[],
        };
        let totals =
            Totals { sequences: 2, tokens, tokens_generation: tokens, minibatches: 1, ..Totals::default() };
        loss.evaluate(&streams, &totals)
    }

    /// The formula, token by token.
    fn expected(&self, alpha: f64) -> f64 {
        let token = |at: usize| {
            let (ratio, advantage) = ((self.policy[at] - self.proximal[at]).exp(), self.advantage[at]);
            -(ratio * advantage).min(ratio.clamp(0.8, 1.2) * advantage)
        };
        let mean = |range: std::ops::Range<usize>| range.clone().map(token).sum::<f64>() / range.len() as f64;
        let answer = |from: usize, to: usize| alpha * token(from) + mean(from + 1..to);
        (answer(0, 2) + answer(2, self.policy.len())) / 2.0
    }
}

fn answers() -> impl Strategy<Value = Answers> {
    (prop::collection::vec(-3.0..-0.1_f64, 4..9), (-2.0..2.0_f64, -2.0..2.0_f64))
        .prop_map(|(policy, advantages)| Answers::new(policy, advantages))
}

proptest! {
    #[test]
    fn the_loss_is_the_formula_and_its_derivative(own in answers(), alpha in 0.0..2.0_f64) {
        let found = own.loss(json!({"alpha": alpha}));
        prop_assert!((found.loss - own.expected(alpha)).abs() < 1e-12);
        for at in 0..own.policy.len() {
            let moved = |by: f64| {
                let mut policy = own.policy.clone();
                policy[at] += by;
                Answers { policy, proximal: own.proximal.clone(), advantage: own.advantage.clone(), inside: own.inside.clone() }
                    .expected(alpha)
            };
            let slope = (moved(1e-6) - moved(-1e-6)) / 2e-6;
            // Not at the bounds of the ratio.
            let ratio = (own.policy[at] - own.proximal[at]).exp();
            if (ratio - 0.8).abs() > 1e-4 && (ratio - 1.2).abs() > 1e-4 {
                prop_assert!((found.d_policy[at] - slope).abs() < 1e-6, "{at}: {} {slope}", found.d_policy[at]);
            }
        }
    }

    #[test]
    fn what_a_control_token_gets_does_not_depend_on_the_length(own in answers(), more in 1..50_usize) {
        let own_gradient = own.loss(json!({"alpha": 0.5})).d_policy[2];
        let mut policy = own.policy.clone();
        // Keeps the offset of proximal log-probs, which goes by three.
        policy.extend(vec![-1.0; 3 * more]);
        let longer = Answers::new(policy, (own.advantage[0], own.advantage[2]));
        let gradient = longer.loss(json!({"alpha": 0.5})).d_policy[2];
        prop_assert!((gradient - own_gradient).abs() < 1e-12);
        let in_grpo = |answers: &Answers| answers.loss(Value::Null).d_policy[2].abs();
        prop_assert!(own_gradient.abs() < 1e-9 || in_grpo(&longer) < in_grpo(&own));
    }

    #[test]
    fn not_decoupled_or_without_control_tokens_it_is_grpo(own in answers()) {
        let grpo = own.loss(Value::Null);
        let without = own.loss(json!({"decoupled": false}));
        prop_assert_eq!((without.loss, &without.d_policy), (grpo.loss, &grpo.d_policy));
        let nowhere = Answers { inside: vec![0.0; own.policy.len()], ..own };
        let found = nowhere.loss(json!({"alpha": 0.5}));
        prop_assert_eq!((found.loss, &found.d_policy), (grpo.loss, &grpo.d_policy));
    }
}

#[test]
fn wrong_settings_are_named() {
    let config = json!({"alpha": -1.0});
    let loss = LossConfig { objective: "degrpo".into(), config, further: FURTHER, ..LossConfig::default() };
    assert_eq!(loss.complete().unwrap_err().key, "config.alpha");
    // Only who knows of the systems knows the name.
    let unknown = LossConfig { objective: "degrpo".into(), ..LossConfig::default() }.complete().unwrap_err();
    assert!(unknown.problem.contains("`degrpo`") && !unknown.problem.contains(", degrpo"), "{unknown}");
}
