//! What can be believed of a customer's goal, exactly: goals that agree with what is known keep their weights.
//!
//! The reward of a question is the information that its answer gives about the goal, `log P(G | x, Q, A) - log P(G | x)`
//! (arXiv:2606.03135); rewards of one conversation telescope.

use std::collections::BTreeMap;

use super::goal::{Goal, Known, Slot};

/// A distribution over goals.
#[derive(Debug, Clone)]
pub struct Belief {
    goals: Vec<(Goal, f64)>,
}

impl Belief {
    /// A belief with these goals and weights, each above 0.
    pub fn new(goals: Vec<(Goal, f64)>) -> Self {
        Belief { goals }
    }

    /// The belief after something has become known.
    pub fn after(&self, known: &Known) -> Belief {
        Belief { goals: self.goals.iter().filter(|(goal, _)| known.allows(goal)).cloned().collect() }
    }

    /// The goals that are still possible, with their probabilities.
    pub fn goals(&self) -> impl Iterator<Item = (&Goal, f64)> {
        let all = self.weight();
        self.goals.iter().map(move |(goal, weight)| (goal, weight / all))
    }

    fn weight(&self) -> f64 {
        self.goals.iter().map(|(_, weight)| weight).sum()
    }

    /// `ln P(goal)`, in nats; minus infinity for a goal that is not possible.
    pub fn log_prob(&self, goal: &Goal) -> f64 {
        let own = self.goals.iter().find(|(other, _)| other == goal).map_or(0.0, |(_, weight)| *weight);
        (own / self.weight()).ln()
    }

    /// The entropy, in nats.
    pub fn entropy(&self) -> f64 {
        self.goals().map(|(_, p)| -p * p.ln()).sum::<f64>().max(0.0)
    }

    /// The information that the answer to a question for `slot` is expected to give: the mutual information of goal and
    /// answer, in nats. The customer answers by the goal.
    pub fn gain(&self, slot: Slot) -> f64 {
        let mut after: BTreeMap<Known, Belief> = BTreeMap::new();
        for (goal, weight) in &self.goals {
            let kept = after.entry(Known::answer(goal, slot, &[])).or_insert_with(|| Belief::new(Vec::new()));
            kept.goals.push((goal.clone(), *weight));
        }
        let all = self.weight();
        let rest: f64 = after.values().map(|belief| belief.weight() / all * belief.entropy()).sum();
        (self.entropy() - rest).max(0.0)
    }

    /// The likeliest goal, the first of equal ones.
    pub fn likeliest(&self) -> Option<&Goal> {
        let mut best: Option<&(Goal, f64)> = None;
        for one in &self.goals {
            if best.is_none_or(|best| one.1 > best.1) {
                best = Some(one);
            }
        }
        best.map(|(goal, _)| goal)
    }
}

#[cfg(test)]
mod tests {
    use burnish_core::rng::Stream;
    use proptest::prelude::*;

    use super::*;
    use crate::clarify::ClarifyConfig;
    use crate::clarify::made::Records;

    const NEAR: f64 = 1e-9;

    fn drawn(seed: u64, recency: f64) -> (Records, Belief) {
        let records = Records::draw(&ClarifyConfig::default(), &mut Stream::new(seed));
        let belief = Belief::new(records.goals(recency));
        (records, belief)
    }

    fn reward(before: &Belief, after: &Belief, goal: &Goal) -> f64 {
        after.log_prob(goal) - before.log_prob(goal)
    }

    proptest! {
        /// Rewards of questions in any order sum to what the whole conversation tells, and never exceed what there was to
        /// tell; a repeated question tells nothing, and neither does an answer that is none.
        #[test]
        fn rewards_telescope_and_are_bounded(
            seed in 0_u64..500, recency in 1.0..4.0_f64, pick in 0.0..1.0_f64,
            asked in prop::collection::vec(0_usize..5, 1..6),
        ) {
            let (_, start) = drawn(seed, recency);
            let goals: Vec<Goal> = start.goals().map(|(goal, _)| goal.clone()).collect();
            let goal = &goals[(pick * goals.len() as f64) as usize];
            let (mut now, mut sum) = (start.clone(), 0.0);
            for at in asked {
                let slot = Slot::ALL[at];
                let answer = Known::answer(goal, slot, &[]);
                let next = now.after(&answer);
                let own = reward(&now, &next, goal);
                prop_assert!(own >= -NEAR && own <= -now.log_prob(goal) + NEAR);
                prop_assert!(reward(&next, &next.after(&answer), goal).abs() < NEAR);
                let unknown = Known::answer(goal, slot, &[slot]);
                prop_assert!(reward(&now, &now.after(&unknown), goal).abs() < NEAR);
                sum += own;
                now = next;
            }
            prop_assert!((sum - reward(&start, &now, goal)).abs() < NEAR);
        }

        /// The mean reward of a question over goals, each as likely as it is believed to be, is the mutual information, which
        /// for a customer who answers by the goal is the entropy of the answers.
        #[test]
        fn the_mean_reward_is_the_mutual_information(seed in 0_u64..500, recency in 1.0..4.0_f64, at in 0_usize..5) {
            let (_, belief) = drawn(seed, recency);
            let slot = Slot::ALL[at];
            let mut answers: std::collections::BTreeMap<String, f64> = std::collections::BTreeMap::new();
            let mut mean = 0.0;
            for (goal, p) in belief.goals() {
                let answer = Known::answer(goal, slot, &[]);
                mean += p * reward(&belief, &belief.after(&answer), goal);
                *answers.entry(answer.words().to_owned()).or_default() += p;
            }
            let entropy: f64 = answers.values().map(|p| -p * p.ln()).sum();
            prop_assert!((mean - belief.gain(slot)).abs() < NEAR, "{mean} {}", belief.gain(slot));
            prop_assert!((mean - entropy).abs() < NEAR);
        }

        /// Every goal has the slots of its intent, and each is of the records.
        #[test]
        fn goals_agree_with_the_records(seed in 0_u64..500) {
            let (records, belief) = drawn(seed, 2.0);
            prop_assert!(belief.goals().count() > 0);
            for (goal, _) in belief.goals() {
                let order = records.orders.iter().find(|order| order.id == goal.order).unwrap();
                prop_assert!(goal.item.as_ref().is_some_and(|item| order.items.contains(item)));
                prop_assert_eq!(order.delivered, goal.intent != "cancel");
                prop_assert_eq!(goal.option.is_some(), goal.intent == "exchange");
                prop_assert_eq!(goal.payment.is_some(), goal.intent == "return");
            }
        }
    }

    #[test]
    fn an_example_by_hand() {
        let goal = |order: u32, item: &str| Goal {
            intent: "cancel".into(),
            order: order.to_string(),
            item: Some(item.into()),
            option: None,
            payment: None,
            reason: None,
        };
        // The newer order is twice as likely: weights 1, 1 and 1/2.
        let belief =
            Belief::new(vec![(goal(11, "mug"), 1.0), (goal(11, "bag"), 1.0), (goal(12, "mug"), 0.5)]);
        assert!((belief.log_prob(&goal(12, "mug")) - 0.2_f64.ln()).abs() < NEAR);
        assert_eq!(belief.likeliest(), Some(&goal(11, "mug")));
        let after = belief.after(&Known::Value(Slot::Item, "mug".into()));
        assert!((reward(&belief, &after, &goal(12, "mug")) - (1.0_f64 / 3.0 / 0.2).ln()).abs() < NEAR);
        assert!(belief.gain(Slot::Intent).abs() < NEAR && belief.gain(Slot::Payment).abs() < NEAR);
        assert!(belief.gain(Slot::Item) > belief.gain(Slot::Order));
        assert_eq!(after.log_prob(&goal(11, "bag")), f64::NEG_INFINITY);
    }
}
