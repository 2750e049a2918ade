//! `[rollout.dynamic_sampling]`

use serde::{Deserialize, Serialize};

/// Groups from which nothing can be learnt are left out, and further tasks are sampled in their place. After DAPO
/// (Yu et al. 2025, arXiv:2503.14476, eq. 11).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DynamicSampling {
    /// Most rounds of sampling in a step, the first included: 1 leaves groups out and samples no others; 0 (default)
    /// switches it off.
    pub max_rounds: usize,
    /// What must differ inside a group.
    pub metric: FilterMetric,
}

impl DynamicSampling {
    /// Is any group left out?
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
    /// Whether the environment calls it a success, as in the paper.
    Success,
}
