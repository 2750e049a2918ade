//! A reward is a structured verdict, not a float.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

/// The flag in the verdict on a reversed task: whether its answer gives back what the original prompt stated.
pub const RECOVERED: &str = "recovered";

/// Whether an episode could be judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Validity {
    /// Judged: the components mean what they say.
    Scored,
    /// Not judged (a verifier crashed, hung or answered nonsense). No advantage comes from this episode, and
    /// it does not count in its group.
    Unscored {
        /// What went wrong, for the person who reads the run.
        reason: String,
    },
}

/// For verdicts that were stored when every environment still reported success.
fn yes() -> bool {
    true
}

/// What a verifier found in an episode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether the episode could be judged.
    pub validity: Validity,
    /// Named reward components. How they are weighted into one number is the recipe's decision.
    pub rewards: BTreeMap<String, f64>,
    /// Rewards of single turns of the policy, by turn (counted from 0) and component. They are part of
    /// [`Verdict::rewards`]; the rest of a component was earned by the last turn.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub turns: BTreeMap<usize, BTreeMap<String, f64>>,
    /// Rewards of named spans of the answers, by span and component. They, too, are part of [`Verdict::rewards`]. The
    /// recipe defines the spans.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub spans: BTreeMap<String, BTreeMap<String, f64>>,
    /// Whether it succeeded, as the environment defines success.
    pub success: bool,
    /// Whether the environment reports success at all. If it gives only a reward, `success` says whether the reward is
    /// above 0, for code that needs a yes or no; the result is then the reward, not `success`.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub has_success: bool,
    /// Named yes/no findings (parse_error, vertex_conflict ...), reported as rates.
    pub flags: BTreeMap<String, bool>,
    /// Numbers that are reported and not rewarded.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
    /// What was wrong, in words that may be shown to the policy.
    pub feedback: Option<String>,
    /// Index of the turn with the first error, if the verifier can tell.
    pub error_turn: Option<usize>,
}

impl Verdict {
    /// A verdict of one reward component, successful or not.
    pub fn scored(reward_name: impl Into<String>, reward: f64, success: bool) -> Self {
        Verdict {
            validity: Validity::Scored,
            rewards: BTreeMap::from([(reward_name.into(), reward)]),
            turns: BTreeMap::new(),
            spans: BTreeMap::new(),
            success,
            has_success: true,
            flags: BTreeMap::new(),
            metrics: BTreeMap::new(),
            feedback: None,
            error_turn: None,
        }
    }

    /// The verdict on an episode that could not be judged.
    pub fn unscored(reason: impl Into<String>) -> Self {
        Verdict {
            validity: Validity::Unscored { reason: reason.into() },
            rewards: BTreeMap::new(),
            turns: BTreeMap::new(),
            spans: BTreeMap::new(),
            success: false,
            has_success: true,
            flags: BTreeMap::new(),
            metrics: BTreeMap::new(),
            feedback: None,
            error_turn: None,
        }
    }

    /// Adds to the rewards what turn number `turn` earned.
    pub fn reward_turn(&mut self, turn: usize, component: &str, reward: f64) {
        for rewards in [&mut self.rewards, self.turns.entry(turn).or_default()] {
            *rewards.entry(component.to_owned()).or_default() += reward;
        }
    }

    /// Adds to the rewards what the span of this name earned.
    pub fn reward_span(&mut self, span: &str, component: &str, reward: f64) {
        for rewards in [&mut self.rewards, self.spans.entry(span.to_owned()).or_default()] {
            *rewards.entry(component.to_owned()).or_default() += reward;
        }
    }

    /// Divides a reward of the episode among its `turns` turns: each has what it earned, weighted as in
    /// [`Verdict::total`], and the last turn has the rest of `reward`.
    pub fn by_turn(&self, weights: &BTreeMap<String, f64>, turns: usize, reward: f64) -> Vec<f64> {
        let mut earned = vec![0.0; turns];
        for (turn, rewards) in &self.turns {
            if let Some(earned) = earned.get_mut(*turn) {
                *earned = weighted(weights, rewards);
            }
        }
        let rest = reward - earned.iter().sum::<f64>();
        if let Some(last) = earned.last_mut() {
            *last += rest;
        }
        earned
    }

    /// Divides a reward of the episode among its tokens, of which each turn sampled a range: a turn's reward is at its last
    /// token ([`Verdict::by_turn`]), and a span's at the token that `last_of` gives. A span for which it gives none leaves
    /// its reward at the last token of the episode.
    pub fn by_token(
        &self,
        weights: &BTreeMap<String, f64>,
        turns: &[Range<usize>],
        last_of: impl Fn(&str) -> Option<usize>,
        reward: f64,
    ) -> Vec<f64> {
        let mut earned = vec![0.0; turns.last().map_or(0, |turn| turn.end)];
        for (turn, reward) in turns.iter().zip(self.by_turn(weights, turns.len(), reward)) {
            earned[..turn.end].iter_mut().next_back().into_iter().for_each(|last| *last += reward);
        }
        let Some(end) = earned.len().checked_sub(1) else { return earned };
        for (span, rewards) in &self.spans {
            if let Some(last) = last_of(span).filter(|last| *last < end) {
                let reward = weighted(weights, rewards);
                earned[last] += reward;
                earned[end] -= reward;
            }
        }
        earned
    }

    /// Could the episode be judged?
    pub fn is_scored(&self) -> bool {
        self.validity == Validity::Scored
    }

    /// Sum of the components, each times its weight; a component without a weight has weight 1. `None` if the episode
    /// could not be judged.
    pub fn total(&self, weights: &BTreeMap<String, f64>) -> Option<f64> {
        self.is_scored().then(|| weighted(weights, &self.rewards))
    }
}

/// Sum of the components, each times its weight, or 1.
fn weighted(weights: &BTreeMap<String, f64>, rewards: &BTreeMap<String, f64>) -> f64 {
    rewards.iter().map(|(name, reward)| weights.get(name).copied().unwrap_or(1.0) * reward).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn tokens_earn_what_the_episode_does_and_spans_move_it_from_the_last_token(
            lengths in prop::collection::vec(0..4usize, 1..5),
            turns in prop::collection::vec((0..6usize, -2.0..2.0f64), 0..4),
            spans in prop::collection::vec((prop::option::of(0..12usize), -2.0..2.0f64), 0..4),
            extra in -3.0..3.0f64,
        ) {
            let mut end = 0;
            let mut range = |length: &usize| {
                end += length;
                end - length..end
            };
            let ranges: Vec<Range<usize>> = lengths.iter().map(&mut range).collect();
            let weights = BTreeMap::from([("tidy".to_owned(), 0.5)]);
            let mut verdict = Verdict::scored("right", 1.0, true);
            turns.iter().for_each(|(turn, reward)| verdict.reward_turn(*turn, "tidy", *reward));
            let places = |name: &str| spans[name.parse::<usize>().unwrap()].0.filter(|at| *at < end);
            let reward = |verdict: &Verdict| verdict.total(&weights).unwrap() + extra;
            // Without spans, each turn's reward is at its last token, to the bit.
            let plain = verdict.by_token(&weights, &ranges, places, reward(&verdict));
            let by_turn = verdict.by_turn(&weights, ranges.len(), reward(&verdict));
            let mut expected = vec![0.0; end];
            for (range, reward) in ranges.iter().zip(by_turn).filter(|(range, _)| range.end > 0) {
                expected[range.end - 1] += reward;
            }
            prop_assert_eq!(&plain, &expected);

            for (at, (_, reward)) in spans.iter().enumerate() {
                verdict.reward_span(&at.to_string(), "tidy", *reward);
            }
            let found = verdict.by_token(&weights, &ranges, places, reward(&verdict));
            // All that was earned, unless the first turns have no token to keep theirs.
            let first = lengths.iter().take_while(|length| **length == 0).count();
            let lost: f64 = verdict.by_turn(&weights, ranges.len(), reward(&verdict))[..first].iter().sum();
            if end > 0 {
                prop_assert!((found.iter().sum::<f64>() - (reward(&verdict) - lost)).abs() < 1e-9);
            }
            for (at, (found, plain)) in found.iter().zip(&plain).enumerate().filter(|(at, _)| at + 1 < end) {
                let own = spans.iter().filter(|(last, _)| *last == Some(at)).map(|(_, reward)| 0.5 * reward);
                prop_assert!((found - plain - own.sum::<f64>()).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn total_weighs_the_named_components_and_counts_the_others_once() {
        let mut verdict = Verdict::scored("valid", 1.0, true);
        verdict.rewards.insert("short".into(), 0.5);
        assert_eq!(verdict.total(&BTreeMap::from([("short".into(), 2.0)])), Some(2.0));
        assert_eq!(Verdict::unscored("hung").total(&BTreeMap::new()), None);
    }

    #[test]
    fn a_reward_is_divided_among_the_turns_that_earned_it_and_the_rest_is_the_last_ones() {
        let mut verdict = Verdict::scored("right", 1.0, true);
        assert_eq!(verdict.by_turn(&BTreeMap::new(), 3, 1.0), [0.0, 0.0, 1.0]);
        verdict.reward_turn(0, "tidy", 0.5);
        verdict.reward_turn(1, "tidy", -0.25);
        verdict.reward_turn(1, "right", 2.0);
        assert_eq!(verdict.rewards, BTreeMap::from([("right".into(), 3.0), ("tidy".into(), 0.25)]));
        let weights = BTreeMap::from([("tidy".into(), 2.0)]);
        let total = verdict.total(&weights).unwrap();
        assert_eq!(verdict.by_turn(&weights, 3, total), [1.0, 1.5, 1.0]);
        // What the run itself takes off the reward, it takes off the last turn.
        assert_eq!(verdict.by_turn(&weights, 3, total - 5.0), [1.0, 1.5, -4.0]);
        // It is stored as it is, and a verdict of before has none.
        verdict.reward_span("thoughts", "tidy", 0.25);
        assert_eq!((verdict.rewards["tidy"], verdict.spans["thoughts"]["tidy"]), (0.5, 0.25));
        let text = serde_json::to_string(&verdict).unwrap();
        assert_eq!(serde_json::from_str::<Verdict>(&text).unwrap(), verdict);
        let plain = serde_json::to_string(&Verdict::scored("right", 1.0, true)).unwrap();
        assert!(!plain.contains("turns") && !plain.contains("spans"));
    }
}
