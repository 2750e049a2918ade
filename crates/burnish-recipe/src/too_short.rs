//! Settings that count in steps or updates and reach beyond the end of the run.

use super::{Method, Recipe};

/// One sentence per such setting. They are warnings, because people try long recipes with few steps.
pub(super) fn warnings(recipe: &Recipe) -> Vec<String> {
    let (train, optimizer) = (&recipe.train, &recipe.optimizer);
    let steps = train.max_steps;
    let is_grpo = train.method == Method::Grpo;
    if train.method == Method::None {
        return Vec::new();
    }
    let in_step = if is_grpo { (train.epochs as u64).saturating_mul(train.minibatches as u64) } else { 1 };
    let updates = steps.saturating_mul(in_step);
    let mut found = Vec::new();
    let warmup = optimizer.warmup_updates;
    if warmup >= updates {
        // Update number `n`, counted from 0, has `n / warmup` of the peak.
        let last = optimizer.learning_rate * updates.saturating_sub(1) as f64 / warmup as f64;
        found.push(format!(
            "`optimizer.warmup_updates` is {warmup}, and the run makes {updates} updates: the learning rate only rises \
             to {last:.3e} and never reaches `optimizer.learning_rate`"
        ));
    }
    let critic = recipe.critic.as_ref().map_or(0, |critic| critic.warmup_steps);
    if is_grpo && critic >= steps {
        found.push(format!(
            "`critic.warmup_steps` is {critic}, and the run has {steps} steps: the policy is never trained"
        ));
    }
    let lag = recipe.rollout.policy_lag;
    if is_grpo && lag >= steps && lag > 0 {
        found.push(format!(
            "`rollout.policy_lag` is {lag}, and the run has {steps} steps: all episodes are sampled from the weights of \
             its start"
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use crate::tests::{SMALL, read};

    fn warnings(changes: &[&str]) -> Vec<String> {
        read(SMALL, changes).unwrap().warnings()
    }

    #[test]
    fn a_warm_up_that_the_run_does_not_outlast_is_said_with_the_learning_rate_that_it_reaches() {
        // Three steps of four updates.
        let updates = ["train.epochs=2", "train.minibatches=2", "optimizer.learning_rate=1e-3"];
        let with = |warmup: &str| warnings(&[&updates[..], &[warmup]].concat());
        assert!(with("optimizer.warmup_updates=11").is_empty());
        let found = with("optimizer.warmup_updates=12");
        assert!(
            found.len() == 1 && found[0].contains("12 updates") && found[0].contains("9.167e-4"),
            "{found:?}"
        );
        let sft = ["train.method=sft", "data.path=x.jsonl", "train.epochs=9", "optimizer.warmup_updates=3"];
        assert!(warnings(&sft)[0].contains("makes 3 updates"), "{:?}", warnings(&sft));
    }

    #[test]
    fn other_settings_beyond_the_end_are_said_too() {
        let critic = ["advantage.estimator=gae", "critic.warmup_steps=3"];
        assert!(warnings(&critic)[0].contains("never trained"));
        assert!(warnings(&["advantage.estimator=gae", "critic.warmup_steps=2"]).is_empty());
        assert!(warnings(&["rollout.policy_lag=3"]).iter().any(|said| said.contains("from the weights of")));
        assert!(warnings(&[]).is_empty());
    }
}
