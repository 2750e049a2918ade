//! What exploring is worth, and when it is enough.

/// The two rewards of each step of somebody who explores: new facts, and how rare what was seen is.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rewards(Vec<[f64; 2]>);

impl Rewards {
    /// Adds the rewards of a step.
    pub(crate) fn add(&mut self, facts: f64, rare: f64) {
        self.0.push([facts, rare]);
    }

    /// Steps so far.
    pub(crate) fn steps(&self) -> usize {
        self.0.len()
    }

    /// Whether exploring has become dull: both rewards are below `converged`, on average over the last `window` steps.
    pub(crate) fn is_dull(&self, window: usize, converged: f64) -> bool {
        let from = self.0.len().checked_sub(window);
        let Some(last) = from.and_then(|from| self.0.get(from..)) else { return false };
        let mean = |at: usize| last.iter().map(|rewards| rewards[at]).sum::<f64>() / last.len() as f64;
        mean(0) < converged && mean(1) < converged
    }

    /// The sum of all rewards.
    pub(crate) fn sum(&self) -> f64 {
        self.0.iter().flatten().sum()
    }
}
