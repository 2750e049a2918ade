//! `[trainer]`: what a server that trains can be asked for.

use burnish_core::PolicyError;
use burnish_remote::tinker::Tinker;
use burnish_rl::Needs;
use burnish_rl::fact::{Need, SQUARES};

use crate::policy::ComputeType;
use crate::{Method, Recipe, RecipeError, Source};

/// Checks what the types don't guarantee, and that nothing is asked for that needs the weights in this process. The loss
/// has been completed.
///
/// # Errors
/// The key that is wrong, and what could be used instead.
pub(super) fn check(recipe: &Recipe, source: &Source) -> Result<(), RecipeError> {
    let Some(config) = &recipe.trainer else { return Ok(()) };
    config.check().map_err(|(key, rule)| source.refused(&format!("trainer.{key}"), rule.to_owned()))?;
    if let Some((key, _, problem)) = refusals(recipe).into_iter().find(|(_, is_asked, _)| *is_asked) {
        return Err(source.error(key, format!("can't be combined with `[trainer]`: {problem}")));
    }
    let unable = |table: &str| {
        let table = table.to_owned();
        move |error: PolicyError| {
            source.refused(&table, format!("asks for something that no `[trainer]` does exactly: {error}"))
        }
    };
    if recipe.train.method == Method::Grpo {
        Tinker::check_sampling(&recipe.rollout_sampling()).map_err(unable("rollout"))?;
        let is_drawn = recipe.rollout.temperature == 1.0;
        if !is_drawn {
            return Err(source.refused("rollout.temperature", "must be 1 with `[trainer]`".into()));
        }
    }
    if !recipe.env.is_absent() {
        Tinker::check_sampling(&recipe.eval_sampling()).map_err(unable("eval"))?;
    }
    let of_loss = recipe.loss.build().map_err(|error| source.error("loss", error.to_string()))?.needs();
    match beyond_logprobs(recipe, of_loss) {
        Some((key, problem)) => {
            Err(source.error(key, format!("can't be combined with `[trainer]`: {problem}")))
        }
        None => Ok(()),
    }
}

/// Tables and keys that need the weights here, and what could be used instead.
fn refusals(recipe: &Recipe) -> [(&'static str, bool, &'static str); 14] {
    let policy = &recipe.policy;
    [
        ("engine", recipe.engine.is_some(), "the server that trains samples as well; leave `[engine]` out"),
        ("policy.new", policy.new.is_some(), "the server has the model; name its files in `policy.path`"),
        ("policy.from", policy.from.is_some(), "the server has the model; name its files in `policy.path`"),
        ("weights", recipe.weights.is_some(), "the server has the model; name its files in `policy.path`"),
        (
            "policy.lora",
            policy.lora.is_some(),
            "the server trains an adapter in any case; set `trainer.rank`",
        ),
        (
            "policy.precision",
            policy.precision != ComputeType::F32,
            "the server decides how it computes; leave the key out",
        ),
        (
            "optimizer.moments",
            !recipe.optimizer.moments.is_f32(),
            "the server has the moments; leave the key out",
        ),
        (
            "train.method",
            matches!(recipe.train.method, Method::Reward | Method::None),
            "a server trains no head of values, and a run that learns nothing needs none; leave `[trainer]` out",
        ),
        (
            "train.freeze",
            !recipe.train.freeze.is_empty(),
            "the server trains an adapter, whose base is frozen; leave the key out",
        ),
        (
            "rollout.policy_lag",
            recipe.rollout.policy_lag > 0,
            "the server samples with the newest weights; set it to 0",
        ),
        (
            "critic",
            recipe.critic.is_some(),
            "a critic needs the policy's weights; take an estimator without values, such as `grpo` or `rloo`",
        ),
        (
            "gate",
            recipe.gate.is_some(),
            "a gate looks at gradients, which the server keeps to itself; limit their norm (`optimizer.max_grad_norm`)",
        ),
        (
            "metrics.weight_divergence",
            recipe.metrics.weight_divergence,
            "the weights are not here; `loss.beta` measures how far the policy has moved (`kl`)",
        ),
        (
            "metrics.teacher_agreement",
            recipe.metrics.teacher_agreement,
            "it compares likeliest tokens, and a server tells the log-probs of those that were sampled",
        ),
    ]
}

/// The key of a part that needs more of the policy's distributions than the log-probs of tokens, and what could be used
/// instead.
fn beyond_logprobs(recipe: &Recipe, of_loss: Needs) -> Option<(&'static str, &'static str)> {
    if recipe.train.method == Method::Sft {
        return None;
    }
    if of_loss.head.is_some() {
        let problem = "it compares whole distributions, and a server tells the log-probs of tokens; take `opd`, which learns \
                       from those of a teacher";
        return Some(("loss.objective", problem));
    }
    if recipe.loss.adaptive_entropy.is_on() {
        return Some(("loss.adaptive_entropy.target_entropy", ENTROPIES));
    }
    if of_loss.entropies {
        let key = match (recipe.loss.entropy_coef != 0.0, recipe.loss.top_entropy_quantile < 1.0) {
            (true, _) => "loss.entropy_coef",
            (_, true) => "loss.top_entropy_quantile",
            _ => "loss.config",
        };
        return Some((key, ENTROPIES));
    }
    let asks = |needs: &[Need]| needs.iter().any(|need| *need.fact == SQUARES);
    if recipe.advantage.build().is_ok_and(|estimator| asks(&estimator.needs())) {
        let problem = "it needs the squares of the policy's probabilities, and a server tells the log-probs of tokens; take \
                       `grpo` or `rloo`";
        return Some(("advantage.estimator", problem));
    }
    None
}

const ENTROPIES: &str = "a server does not tell entropies; clip asymmetrically to keep the policy open \
                         (`loss.config.epsilon_high`), or leave it out";
