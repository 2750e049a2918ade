//! What is believed about a task's chance of success, from outcomes that go out of date as the policy changes.
//!
//! ```text
//! α ← ρ·α + Σ R        β ← ρ·β + Σ (1 - R)        v̂ = α / (α + β)        ρ = 2^(-KL / KL_half), at least ρ_min
//! ```

use serde::{Deserialize, Serialize};

/// A Beta distribution over a chance of success.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BetaTracker {
    /// Successes, including those of the prior.
    pub alpha: f64,
    /// Failures, including those of the prior.
    pub beta: f64,
}

impl BetaTracker {
    /// Keeps `retention` (0 to 1) of what is known, and adds what was seen.
    pub fn observe(&mut self, successes: f64, failures: f64, retention: f64) {
        self.alpha = retention * self.alpha + successes;
        self.beta = retention * self.beta + failures;
    }

    /// The expected chance of success.
    pub fn mean(&self) -> f64 {
        self.alpha / (self.alpha + self.beta)
    }

    /// Are these the parameters of a distribution?
    pub fn is_valid(&self) -> bool {
        let counts = [self.alpha, self.beta];
        counts.iter().all(|count| count.is_finite() && *count >= 0.0) && self.alpha + self.beta > 0.0
    }
}

/// The share of the evidence that remains after the policy has moved by `kl` nats: half at `half`, and never less than
/// `least`. A distance below 0, which an estimate may have, forgets nothing; NaN forgets the most.
pub fn retention(kl: f64, half: f64, least: f64) -> f64 {
    if kl.is_nan() { least } else { (-kl.max(0.0) / half).exp2().max(least) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_nothing_forgotten_it_is_the_running_mean_with_the_prior() {
        let mut tracker = BetaTracker { alpha: 1.0, beta: 1.0 };
        for (at, successes) in [3.0, 0.0, 1.0, 4.0].into_iter().enumerate() {
            tracker.observe(successes, 4.0 - successes, retention(0.0, 0.1, 0.5));
            let seen = 4.0 * (at + 1) as f64;
            let sum: f64 = [3.0, 0.0, 1.0, 4.0][..=at].iter().sum();
            assert_eq!(tracker.mean(), (1.0 + sum) / (2.0 + seen));
        }
    }

    #[test]
    fn half_is_forgotten_at_the_half_life_and_never_more_than_allowed() {
        assert_eq!(retention(0.1, 0.1, 0.25), 0.5);
        assert_eq!(retention(0.375, 0.125, 0.0), 0.125);
        for far in [0.3, f64::INFINITY, f64::NAN] {
            assert_eq!(retention(far, 0.1, 0.5), 0.5);
        }
        assert_eq!(retention(-0.2, 0.1, 0.5), 1.0);
        // Forgetting does not move the estimate, only how fast it moves next.
        let mut tracker = BetaTracker { alpha: 6.0, beta: 2.0 };
        tracker.observe(0.0, 0.0, 0.5);
        assert_eq!((tracker.mean(), tracker.alpha), (0.75, 3.0));
    }

    #[test]
    fn parameters_of_no_distribution_are_told() {
        assert!(BetaTracker { alpha: 0.5, beta: 0.0 }.is_valid());
        for (alpha, beta) in [(0.0, 0.0), (1.0, -1.0), (f64::NAN, 1.0), (1.0, f64::INFINITY)] {
            assert!(!BetaTracker { alpha, beta }.is_valid());
        }
    }
}
