//! InSight: the tasks whose rollouts are expected to tell most about how hard they are, and that are neither too easy
//! nor too hard to learn from.
//!
//! **What it does.** Keeps a Beta distribution over the success rate of each task ([`crate::belief`]), and takes the
//! tasks with the highest acquisition: the information that `K` rollouts give about the rate, times a weight that
//! depends on its mean. A task that was rarely played scores higher than an equally hard one that was played often.
//!
//! **Formula.** With the belief Beta(α, β), `n = α + β` and `φ̄ = α/n`:
//!
//! ```text
//! A = w(φ̄) · I_K(α, β)                     I_K = H_seq - K·E[h(Φ)]
//! w = 1 + μ φ̄(1 - φ̄) exp(-η (φ̄ - ½)²)      `additive`
//! w = φ̄(1 - φ̄) exp(-η (φ̄ - ½)²)            `product`
//! w = 1                                    `none`
//! ```
//!
//! [`crate::belief::Belief::information`] has `I_K` in closed form. After the rollouts, with `k` successes:
//! `α ← λα + k`, `β ← λβ + K - k`.
//!
//! **Conventions.** The weight takes the mean of the belief, without noise; on a tie, the first in the pool wins. The
//! pool has `pool_factor` candidates per task that is played.
//!
//! **Reduces to.** With `weight = "none"`, `K = 1` and equal `n` everywhere, the order by `|φ̄ - ½|`, as `difficulty`. With
//! `pool_factor = 1` there is no choice: the tasks of `uniform`, in another order.
//!
//! **Differs from the paper.** No difference is known, apart from what is reconstructed. Evidence that fades (`decay`
//! below 1) stops at counts of 1e-6; in the paper it could vanish.
//!
//! **Reconstructed.** The weight. The paper is described as `φ̄(1 - φ̄)` times a Gaussian around the best difficulty,
//! with η = 3 and μ = 3; a μ of 3 can't be that difficulty, so it is taken for the strength of the weight (`additive`),
//! and the description as it stands is `product`. Forgetting towards the prior (`fades_to = "prior"`) is MoPPS's.
//!
//! **References.** InSight, arXiv:2603.01907, proposition 5.1 and its acquisition function.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::common::{self, POOL_FACTOR, Scored};
use crate::belief::{Belief, Beliefs};
use crate::settings::require;
use crate::{Card, Check, Family, Part, SettingError};

/// What the information is multiplied by, as a function of the mean of the belief.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// `1 + μ φ̄(1 - φ̄) exp(-η (φ̄ - ½)²)`.
    #[default]
    Additive,
    /// `φ̄(1 - φ̄) exp(-η (φ̄ - ½)²)`.
    Product,
    /// 1.
    None,
}

/// Information times a weight. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Insight {
    /// What the information is multiplied by. Default: `additive`.
    pub weight: Weight,
    /// `η`: how fast the weight falls with the distance of the mean from ½; unused by `none`. Default: 3.
    pub eta: f64,
    /// `μ`: strength of the weight `additive`. Default: 3.
    pub mu: f64,
    /// Candidates per task that is played. Default: 16.
    pub pool_factor: usize,
    /// The beliefs about the tasks.
    pub beliefs: Beliefs,
}

impl Default for Insight {
    fn default() -> Self {
        Insight {
            weight: Weight::Additive,
            eta: 3.0,
            mu: 3.0,
            pool_factor: POOL_FACTOR,
            beliefs: Beliefs::default(),
        }
    }
}

impl Part for Insight {
    const CARD: Card = Card {
        id: "insight",
        title: "InSight",
        family: Family::Selector,
        paper: "InSight, arXiv:2603.01907",
        equation: "the highest w(φ̄)·I_K, with I_K = H_seq - K·E[h(Φ)], Φ ~ Beta(α, β), φ̄ = α/(α + β)\n\
                   α ← λα + successes, β ← λβ + failures",
        scope: "task",
        check: Check::Oracle("mpmath with 40 digits, enumeration and numerical integration"),
        reconstructed: Some("the weight w, which the paper's description leaves open"),
        reduces_to: &["`difficulty`'s order with weight \"none\", one rollout and equal evidence"],
        file: "crates/burnish-rl/src/selector/insight.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("eta", self.eta, |eta| eta >= 0.0, "must be 0 or more")?;
        require("mu", self.mu, |mu| mu >= 0.0, "must be 0 or more")?;
        common::check(self)
    }
}

impl Insight {
    /// The score of a task with this belief, before `rollouts` rollouts of it.
    pub fn acquisition(&self, belief: Belief, rollouts: usize) -> f64 {
        self.weight(belief) * belief.information(rollouts)
    }

    fn weight(&self, belief: Belief) -> f64 {
        // Not `mean - ½`, so that a task and its mirror image get the same bits.
        let distance = 0.5 * (belief.alpha - belief.beta) / belief.evidence();
        let near = belief.difficulty() * (-self.eta * distance * distance).exp();
        match self.weight {
            Weight::Additive => 1.0 + self.mu * near,
            Weight::Product => near,
            Weight::None => 1.0,
        }
    }
}

impl Scored for Insight {
    common::settings!();

    fn scores(&self, pool: &[&str], rollouts: usize, _seed: u64) -> Vec<f64> {
        // There are few distinct beliefs: counts are small whole numbers, and most tasks were never played.
        let mut known: HashMap<[u64; 2], f64> = HashMap::new();
        let score = |task: &&str| {
            let belief = self.beliefs.of(task);
            let key = [belief.alpha.to_bits(), belief.beta.to_bits()];
            *known.entry(key).or_insert_with(|| self.acquisition(belief, rollouts))
        };
        pool.iter().map(score).collect()
    }
}
