//! Combinations that are wrong or have no effect, each with its reason: what a recipe is refused for before
//! anything starts.

use crate::LossConfig;
use crate::advantage::AdvantageConfig;
use crate::aggregation::Aggregation;
use crate::catalogue::{self, OBJECTIVES};
use crate::kl::KlEstimator;

/// What of a recipe the rules look at.
#[derive(Debug, Clone, Copy)]
pub struct Setup<'a> {
    /// `[loss]`, complete.
    pub loss: &'a LossConfig,
    /// `[advantage]`, complete.
    pub advantage: &'a AdvantageConfig,
}

/// A combination that makes no sense.
#[derive(Debug)]
pub struct Rule {
    /// Name under which a recipe can allow it: kebab case.
    pub id: &'static str,
    /// The key that is blamed.
    pub key: &'static str,
    /// Why, behind the key: "must be ...", "needs ...".
    pub reason: &'static str,
    /// The nearest combination that makes sense: what to write.
    pub nearest: &'static str,
    /// Does it apply?
    pub is_broken: fn(&Setup<'_>) -> bool,
}

/// Every rule.
pub const RULES: &[Rule] = &[
    Rule {
        id: "kl-in-reward-without-beta",
        key: "loss.use_kl_in_reward",
        reason: "needs `loss.beta` above 0: there is no KL penalty otherwise",
        nearest: "set `loss.beta = 0.001`",
        is_broken: |setup| setup.loss.beta == 0.0 && setup.loss.use_kl_in_reward,
    },
    Rule {
        id: "adaptive-kl-without-beta",
        key: "loss.adaptive_kl.target_kl",
        reason: "needs `loss.beta` above 0: there is no KL penalty otherwise",
        nearest: "set `loss.beta = 0.001`",
        is_broken: |setup| setup.loss.beta == 0.0 && setup.loss.adaptive_kl.is_on(),
    },
    Rule {
        id: "kl-in-reward-estimator",
        key: "loss.kl_estimator",
        reason: "must be \"k1\" with `loss.use_kl_in_reward`: as a reward, the others cost about the same on either \
                 side of the reference, so their gradient does not lead there",
        nearest: "set `loss.kl_estimator = \"k1\"`",
        is_broken: |setup| {
            let loss = setup.loss;
            loss.beta != 0.0 && loss.use_kl_in_reward && loss.kl_estimator != KlEstimator::K1
        },
    },
    Rule {
        id: "k1-in-loss-uncorrected",
        key: "loss.kl_estimator",
        reason: "must not be \"k1\" without `loss.use_bias_correction_kl`: the expectation of its gradient is zero, so \
                 it would only add noise",
        nearest: "set `loss.kl_estimator = \"k2\"`, which has the gradient of the KL",
        is_broken: |setup| {
            let loss = setup.loss;
            loss.beta_in_loss() != 0.0 && loss.kl_estimator == KlEstimator::K1 && !loss.use_bias_correction_kl
        },
    },
    Rule {
        id: "sequence-ratio-token-mean",
        key: "loss.aggregation",
        reason: "must be \"grpo\" with this objective: its loss is one of whole sequences, and a sum over tokens would \
                 weigh each by its length (again, in `luspo`)",
        nearest: "set `loss.aggregation = \"grpo\"`",
        is_broken: |setup| only_aggregation(setup.loss).is_some_and(|only| only != setup.loss.aggregation),
    },
];

/// The rules that a setup breaks, in their order.
pub fn broken(setup: Setup<'_>) -> impl Iterator<Item = &'static Rule> {
    RULES.iter().filter(move |rule| (rule.is_broken)(&setup))
}

/// The only mean that the objective allows, where it says so.
fn only_aggregation(loss: &LossConfig) -> Option<Aggregation> {
    let entry = catalogue::find(OBJECTIVES, "objective", &loss.objective).ok()?;
    (entry.build)(&loss.config).ok()?.aggregation()
}
