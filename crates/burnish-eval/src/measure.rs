//! The headline measure of an evaluation: success if the environment reports it, otherwise the reward.

use burnish_core::Episode;
use serde::{Deserialize, Serialize};

use crate::bootstrap::Interval;

/// What is compared on held-out tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Share of the episodes that succeeded.
    #[default]
    Success,
    /// Weighted sum of the reward components.
    Reward,
}

impl Measure {
    /// The headline measure of `episodes`: the reward if no verdict reports success. If only some report it, the others
    /// count as no success.
    pub fn of<'a>(episodes: impl IntoIterator<Item = &'a Episode>) -> Self {
        let mut scored = episodes.into_iter().filter(|episode| episode.verdict.is_scored()).peekable();
        let is_success = scored.peek().is_none() || scored.any(|episode| episode.verdict.has_success);
        if is_success { Measure::Success } else { Measure::Reward }
    }

    /// Its name in running text.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Success => "success",
            Measure::Reward => "reward",
        }
    }

    /// A level: `62.5 %`, or `1.470`.
    pub fn level(self, value: f64) -> String {
        match self {
            Measure::Success => format!("{:.1} %", 100.0 * value),
            Measure::Reward => format!("{value:.3}"),
        }
    }

    /// A level with its interval: `62.5 % [60.1, 64.9]`.
    pub fn level_with_range(self, Interval { mean, low, high }: Interval) -> String {
        match self {
            Measure::Success => format!("{} [{:.1}, {:.1}]", self.level(mean), 100.0 * low, 100.0 * high),
            Measure::Reward => format!("{} [{low:.3}, {high:.3}]", self.level(mean)),
        }
    }

    /// A difference with its interval: `+3.1 points [+0.4, +5.8]`, or `+1.040 [+0.900, +1.180]`.
    pub fn change_with_range(self, Interval { mean, low, high }: Interval) -> String {
        let signed = |value| self.signed(value);
        let unit = if self == Measure::Success { " points" } else { "" };
        format!("{}{unit} [{}, {}]", signed(mean), signed(low), signed(high))
    }

    /// A difference with its sign, in points for success; `+0.0` where it rounds to 0.
    pub fn signed(self, value: f64) -> String {
        let text = match self {
            Measure::Success => format!("{:+.1}", 100.0 * value),
            Measure::Reward => format!("{value:+.3}"),
        };
        // A negative number that rounds to 0 would read as a loss.
        if text.trim_start_matches('-').parse() == Ok(0.0) { text.replacen('-', "+", 1) } else { text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::tests::{bare, episode, unscored};

    #[test]
    fn the_reward_leads_only_where_no_verdict_reports_success() {
        let of = |episodes: &[Episode]| Measure::of(episodes);
        assert_eq!(of(&[]), Measure::Success);
        assert_eq!(of(&[unscored("a")]), Measure::Success);
        assert_eq!(of(&[bare("a", 0.5), unscored("b")]), Measure::Reward);
        assert_eq!(of(&[bare("a", 0.5), episode("b", false, 0.0)]), Measure::Success);
    }

    #[test]
    fn rewards_are_no_percentages() {
        let interval = Interval { mean: 1.47, low: -0.5, high: 2.0 };
        assert_eq!(Measure::Reward.level_with_range(interval), "1.470 [-0.500, 2.000]");
        assert_eq!(Measure::Reward.change_with_range(interval), "+1.470 [-0.500, +2.000]");
        let interval = Interval { mean: 0.031, low: -0.0001, high: 0.058 };
        assert_eq!(Measure::Success.level_with_range(interval), "3.1 % [-0.0, 5.8]");
        assert_eq!(Measure::Success.change_with_range(interval), "+3.1 points [+0.0, +5.8]");
    }
}
