//! Combinations that are wrong or have no effect, each with its reason. A recipe with one of them is refused before
//! anything starts.

use crate::advantage::AdvantageConfig;
use crate::aggregation::Aggregation;
use crate::correction::{
    BehaviorSource, CorrectionConfig, ProximalSource, Rejected, Scope, WeightConfig, WeightLevel,
};
use crate::fact::span_id;
use crate::kl::KlEstimator;
use crate::{LossConfig, Losses, Objective, Streams, TokenFact, TokenLoss, Tokens, Totals};

/// The part of a recipe that the rules look at.
#[derive(Debug, Clone, Copy)]
pub struct Setup<'a> {
    /// `[loss]`, complete.
    pub loss: &'a LossConfig,
    /// `[advantage]`, complete.
    pub advantage: &'a AdvantageConfig,
    /// How many steps the weights that sample are behind those being trained.
    pub policy_lag: u64,
    /// Are groups dropped in which all rewards tie?
    pub drops_ties: bool,
    /// Do penalties or the like change the distribution that tokens are drawn from?
    pub alters_sampling: bool,
    /// Does an engine sample, which rounds differently from the trainer?
    pub has_engine: bool,
}

impl<'a> Setup<'a> {
    /// On policy, with tokens drawn from the policy itself and no group dropped.
    pub fn on_policy(loss: &'a LossConfig, advantage: &'a AdvantageConfig) -> Self {
        Setup { loss, advantage, policy_lag: 0, drops_ties: false, alters_sampling: false, has_engine: false }
    }
}

/// A combination that makes no sense.
#[derive(Debug)]
pub struct Rule {
    /// Name under which a recipe can allow it: kebab case.
    pub id: &'static str,
    /// The key that is blamed.
    pub key: &'static str,
    /// Why, to be read after the key: "must be ...", "needs ...".
    pub reason: &'static str,
    /// What to write instead: the nearest combination that makes sense.
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
        id: "preference-alone",
        key: "loss.objective",
        reason: "must not be a preference loss or a distillation where other keys of `[loss]` are set: it has its own \
                 settings, and the others would have no effect",
        nearest: "leave out all of `[loss]` but `objective`, `config`, `mask_truncated_completions` and \
                  `correction.behavior`",
        is_broken: |setup| {
            let loss = setup.loss;
            let alone = LossConfig {
                objective: loss.objective.clone(),
                config: loss.config.clone(),
                mask_truncated_completions: loss.mask_truncated_completions,
                on: loss.on.clone(),
                // Its streams, too, have one of the two log-probs of sampling.
                correction: CorrectionConfig {
                    behavior: loss.correction.behavior,
                    ..CorrectionConfig::default()
                },
                ..LossConfig::default()
            };
            loss.whole().is_some() && *loss != alone
        },
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
    Rule {
        id: "kl-plus-times-ratio",
        key: "loss.kl_estimator",
        reason: "must not be a \"+\" with `loss.use_bias_correction_kl`: on policy, the gradient of a \"+\" is that of the \
                 KL as it is, and times the ratio it is another",
        nearest: "set `loss.use_bias_correction_kl = false`",
        is_broken: |setup| {
            let loss = setup.loss;
            loss.beta_in_loss() != 0.0 && loss.kl_estimator.is_plus() && loss.use_bias_correction_kl
        },
    },
    Rule {
        id: "kl-clamp-in-reward",
        key: "loss.kl_clamp",
        reason: "must be 0 with `loss.use_kl_in_reward`: it bounds the KL in the loss, so here it has no effect",
        nearest: "leave out `loss.kl_clamp`",
        is_broken: |setup| setup.loss.use_kl_in_reward && setup.loss.kl_clamp > 0.0,
    },
    Rule {
        id: "loss-scale-factor-without-dr-grpo",
        key: "loss.loss_scale_factor",
        reason: "needs `loss.aggregation = \"dr_grpo\"`: no other divides by it",
        nearest: "set `loss.aggregation = \"dr_grpo\"`",
        is_broken: |setup| setup.loss.loss_scale_factor > 0 && setup.loss.aggregation != Aggregation::DrGrpo,
    },
    Rule {
        id: "weight-without-level",
        key: "loss.correction.weight.level",
        reason: "must not be \"none\" where other keys of `loss.correction.weight` are set: nothing is weighted",
        nearest: "set `loss.correction.weight.level = \"token\"`",
        is_broken: |setup| {
            let weight = &setup.loss.correction.weight;
            !weight.is_on() && *weight != WeightConfig::default()
        },
    },
    Rule {
        id: "weight-twice",
        key: "loss.correction.weight.level",
        reason: "must be \"none\" with `loss.correction.bypass` and an objective with a ratio: the ratio is then to the \
                 policy that sampled, and would count twice",
        nearest: "set `loss.correction.bypass = false`, or leave out `loss.correction.weight`",
        is_broken: |setup| {
            let correction = &setup.loss.correction;
            let twice = |loss: &dyn TokenLoss, _: &str| has_ratio(loss);
            correction.bypass && correction.weight.is_on() && of_objective(setup.loss, twice)
        },
    },
    Rule {
        id: "weight-of-a-loss-to-the-sampler",
        key: "loss.correction.weight.level",
        reason: "must be \"none\" with an objective whose own ratio is to the policy that sampled: it would count twice",
        nearest: "leave out `loss.correction.weight`, or anchor the objective at the proximal policy (`loss.config`)",
        is_broken: |setup| {
            let is_anchored = |loss: &dyn TokenLoss, _: &str| looks_at_behavior(loss);
            setup.loss.correction.weight.is_on() && of_objective(setup.loss, is_anchored)
        },
    },
    Rule {
        id: "removal-without-rejection",
        key: "loss.correction.rejected",
        reason: "needs `loss.correction.reject`: nothing is rejected",
        nearest: "leave out `loss.correction.rejected`",
        is_broken: |setup| {
            let correction = &setup.loss.correction;
            correction.rejected == Rejected::Remove && correction.reject.is_empty()
        },
    },
    Rule {
        id: "token-weights-of-a-sequence-loss",
        key: "loss.objective",
        reason: "must give each token a loss of its own where the tokens of a sequence are weighted differently (by \
                 `loss.correction.weight.level = \"token\"`, by a `token_*` rejection, by `loss.top_entropy_quantile`): \
                 this one has one loss per sequence",
        nearest: "set `loss.correction.weight.level = \"sequence\"` and a `seq_*` rejection, and leave out \
                  `loss.top_entropy_quantile`",
        is_broken: |setup| {
            weighs_tokens_differently(setup.loss) && of_objective(setup.loss, |_, scope| scope == "sequence")
        },
    },
    Rule {
        id: "sampled-behavior-unread",
        key: "loss.correction.behavior",
        reason: "must be \"model\" where nothing looks at the policy that sampled: no weight, no rejection, no `bypass`, no \
                 mask, and no objective that is measured against it",
        nearest: "set `loss.correction.weight.level = \"token\"`, or leave out `loss.correction.behavior`",
        is_broken: |setup| {
            let correction = &setup.loss.correction;
            let reads = || setup.loss.build().is_ok_and(|objective| reads_behavior(&*objective));
            correction.behavior == BehaviorSource::Sampled && !correction.is_on() && !reads()
        },
    },
    Rule {
        id: "sampled-behavior-unaltered",
        key: "loss.correction.behavior",
        reason: "must be \"model\" where no penalty and no `rollout.min_tokens` changes what is drawn: both log-probs are the same",
        nearest: "leave out `loss.correction.behavior`",
        is_broken: |setup| {
            setup.loss.correction.behavior == BehaviorSource::Sampled && !setup.alters_sampling
        },
    },
    Rule {
        id: "proximal-on-policy",
        key: "loss.correction.proximal",
        reason: "must be \"sampling\" without `rollout.policy_lag`, `[engine]` and `[trainer]`: the weights that an update \
                 starts from are those that sampled, and anything else gives the same, apart from rounding",
        nearest: "leave out `loss.correction.proximal`",
        is_broken: |setup| {
            setup.policy_lag == 0
                && !setup.has_engine
                && setup.loss.correction.proximal != ProximalSource::Sampling
        },
    },
    Rule {
        id: "proximal-bypassed",
        key: "loss.correction.proximal",
        reason: "must be \"sampling\" with `loss.correction.bypass`: the policy that sampled takes the place of the \
                 proximal one",
        nearest: "leave out `loss.correction.proximal`",
        is_broken: |setup| {
            let correction = &setup.loss.correction;
            correction.bypass && correction.proximal != ProximalSource::Sampling
        },
    },
    Rule {
        id: "correction-without-proximal",
        key: "loss.correction.proximal",
        reason: "must not be \"sampling\" with `rollout.policy_lag`, `[engine]` or `[trainer]`, and weights or rejections, \
                 unless `loss.correction.behavior = \"sampled\"`: they compare the proximal policy with the one that sampled, which \
                 would be the same",
        nearest: "set `loss.correction.proximal = \"recompute\"`, or `loss.correction.bypass = true`",
        is_broken: |setup| {
            let correction = &setup.loss.correction;
            let compares = correction.weight.is_on() || !correction.reject.is_empty();
            let is_same = !correction.bypass
                && correction.proximal == ProximalSource::Sampling
                && correction.behavior == BehaviorSource::Model;
            (setup.policy_lag > 0 || setup.has_engine) && compares && is_same
        },
    },
    Rule {
        id: "dropped-ties-would-teach",
        key: "rollout.dynamic_sampling",
        reason: "must be off with this estimator: its baseline is not that of the group, so groups in which all rewards \
                 tie teach as well as others, and without them the rewards that it sees are not the policy's",
        nearest: "leave out `rollout.dynamic_sampling`",
        is_broken: |setup| {
            let estimator = setup.advantage.build();
            setup.drops_ties && estimator.is_ok_and(|estimator| !estimator.compares_within_groups())
        },
    },
];

fn weighs_tokens_differently(loss: &LossConfig) -> bool {
    let correction = &loss.correction;
    let by_token = correction.reject.iter().any(|rejection| rejection.statistic.scope() == Scope::Token);
    correction.weight.level == WeightLevel::Token
        || (by_token && correction.rejected == Rejected::Zero)
        || loss.top_entropy_quantile < 1.0
}

/// Does `holds` hold for the objective and its card's scope? False for one that can't be built: it is refused anyway.
fn of_objective(loss: &LossConfig, holds: fn(&dyn TokenLoss, &str) -> bool) -> bool {
    let Ok(entry) = loss.token_loss() else { return false };
    (entry.build)(&loss.config).is_ok_and(|built| holds(built.as_ref(), entry.card.scope))
}

/// Does an objective depend on the ratio to the proximal policy? Found by evaluating it with two proximal policies.
pub fn has_ratio(loss: &dyn TokenLoss) -> bool {
    said(loss, -1.0, -1.0) != said(loss, -1.01, -1.0)
}

/// Other log-probs of a token to which the policy gives -1: one near, two far.
const ELSEWHERE: [f64; 3] = [-1.01, -4.0, -0.01];

/// Does an objective depend on the policy that sampled? Found by evaluating it with several of them, near and far.
fn looks_at_behavior(loss: &dyn TokenLoss) -> bool {
    ELSEWHERE.iter().any(|behavior| said(loss, -1.0, -1.0) != said(loss, -1.0, *behavior))
}

/// The same for an objective with everything that [`crate::PolicyLoss`] adds to it.
fn reads_behavior(objective: &dyn Objective) -> bool {
    let pair = 0..2;
    let facts = known(objective.token_facts(), 2);
    let said = |behavior: f64| {
        let (behavior, same) = ([behavior; 2], [-1.0; 2]);
        let unmarked = Streams {
            policy: &same,
            proximal: &same,
            behavior: &behavior,
            reference: Some(&same),
            teacher: Some(&same),
            entropy: &[1.0; 2],
            advantage: &[1.0, -1.0],
            loss_mask: &[true; 2],
            sequences: &[0..1, 1..2],
            groups: std::slice::from_ref(&pair),
            directions: &[],
            parts: &[],
            facts: &facts,
            batch_constants: &[],
        };
        let totals = Totals {
            sequences: 2,
            groups: 1,
            tokens: 2,
            tokens_positive: 1,
            tokens_generation: 2,
            minibatches: 1,
            completion_tokens_max: 1,
            ..Totals::default()
        };
        let batch_constants = if objective.needs().batch_constants {
            objective.batch_constants(&unmarked, &totals)
        } else {
            Vec::new()
        };
        let evaluation =
            objective.evaluate(&Streams { batch_constants: &batch_constants, ..unmarked }, &totals);
        (evaluation.loss, evaluation.d_policy, evaluation.head_weights)
    };
    ELSEWHERE.iter().any(|behavior| said(-1.0) != said(*behavior))
}

/// Facts of some tokens, each of them 1.
fn known(ids: impl IntoIterator<Item = String>, tokens: usize) -> Vec<TokenFact> {
    ids.into_iter().map(|id| TokenFact { id, numbers: vec![1.0; tokens] }).collect()
}

/// Value and derivative of one token with an advantage of 1 and a log-prob of -1.
fn said(loss: &dyn TokenLoss, proximal: f64, behavior: f64) -> (Vec<f64>, Vec<f64>) {
    let whole = 0..1;
    let spans = loss.spans().into_iter().map(|span| span_id(&span));
    let facts = known(loss.facts().iter().map(|fact| fact.id.to_owned()).chain(spans), 1);
    let unmarked = Tokens {
        policy: &[-1.0],
        detached: &[-1.0],
        proximal: &[proximal],
        behavior: &[behavior],
        teacher: &[-1.0],
        entropy: &[1.0],
        advantage: &[1.0],
        facts: &facts,
        batch_constants: &[0.0],
        sequences: std::slice::from_ref(&whole),
    };
    let batch_constants =
        if loss.needs().batch_constants { loss.batch_constants(&unmarked, 0) } else { vec![0.0] };
    let mut losses = Losses::zero(1);
    loss.losses(&Tokens { batch_constants: &batch_constants, ..unmarked }, &mut losses);
    (losses.value, losses.d_policy)
}

/// The rules that a setup breaks, in their order.
pub fn broken(setup: Setup<'_>) -> impl Iterator<Item = &'static Rule> {
    RULES.iter().filter(move |rule| (rule.is_broken)(&setup))
}

/// The only mean that the objective allows, if it allows only one.
fn only_aggregation(loss: &LossConfig) -> Option<Aggregation> {
    (loss.token_loss().ok()?.build)(&loss.config).ok()?.aggregation()
}
