//! `[rollout.dynamic_sampling]`

use serde::{Deserialize, Serialize};

/// Leaves out groups from which nothing can be learnt, and samples more tasks in their place. After DAPO (Yu et al.
/// 2025, arXiv:2503.14476, eq. 11).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DynamicSampling {
    /// Most rounds of sampling per step, including the first. 1 leaves groups out without sampling others; 0
    /// (default) switches it off.
    pub max_rounds: usize,
    /// What must differ inside a group.
    pub metric: FilterMetric,
}

impl DynamicSampling {
    /// Whether any group can be left out.
    pub fn is_on(&self) -> bool {
        self.max_rounds > 0
    }
}

/// What must differ inside a group for it to be kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilterMetric {
    /// The weighted sum of the reward components, before any KL penalty.
    #[default]
    Reward,
    /// Whether the environment calls the episode a success, as in the paper.
    Success,
}
