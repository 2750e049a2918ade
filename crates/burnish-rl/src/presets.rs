//! What other frameworks compute under a given name, as settings: `preset = "trl-1.16/grpo"`.
//!
//! A preset gives the `[loss]` and `[advantage]` of a recipe; what the recipe itself says overrides it. It is the
//! mathematics of the framework's defaults, not its learning rate or batch size. The presets of TRL and verl were
//! compared as a whole with the framework's own functions, those of prime-rl part by part
//! (`crates/burnish-rl/tests/golden`). What can't be the same is in [`Preset::differs`].

use serde_json::{Value, json};

use crate::SettingError;

/// Settings under another framework's name.
#[derive(Debug)]
pub struct Preset {
    /// `FRAMEWORK-VERSION/NAME`.
    pub id: &'static str,
    /// What one writes in that framework to get this.
    pub origin: &'static str,
    /// `{ "loss": ..., "advantage": ... }`. The loss names its objective, and any table with a `config` names what that
    /// belongs to.
    pub settings: fn() -> Value,
    /// Ids of the rules that the framework breaks; with this preset, breaking them is a warning.
    pub allows: &'static [&'static str],
    /// The numerical differences from that framework, one sentence each.
    pub differs: &'static [&'static str],
    /// What was compared with the framework's own function for a `beta` above 0; "nothing", and why, if there was no
    /// comparison.
    pub with_beta: &'static str,
}

/// Every preset, by framework.
pub const PRESETS: &[Preset] = &[
    Preset {
        id: "trl-1.16/dapo",
        origin: "`GRPOConfig()`: `loss_type = \"dapo\"` is the default",
        settings: || json!({ "loss": { "objective": "ppo_clip", "aggregation": "dapo" } }),
        ..TRL
    },
    Preset {
        id: "trl-1.16/grpo",
        origin: "`GRPOConfig(loss_type=\"grpo\")`",
        settings: || json!({ "loss": { "objective": "ppo_clip", "aggregation": "grpo" } }),
        ..TRL
    },
    Preset {
        id: "trl-1.16/bnpo",
        origin: "`GRPOConfig(loss_type=\"bnpo\")`",
        settings: || json!({ "loss": { "objective": "ppo_clip", "aggregation": "bnpo" } }),
        differs: &[
            "TRL divides by the tokens of each micro-batch, so its gradient depends on their size; here by those \
                    of the update",
        ],
        ..TRL
    },
    Preset {
        id: "trl-1.16/dr_grpo",
        origin: "`GRPOConfig(loss_type=\"dr_grpo\", scale_rewards=\"none\")`",
        settings: || {
            json!({
                "loss": { "objective": "ppo_clip", "aggregation": "dr_grpo" },
                "advantage": { "estimator": "grpo", "config": { "scale": "none" } },
            })
        },
        ..TRL
    },
    Preset {
        id: "trl-1.16/gspo",
        origin: "`GRPOConfig(importance_sampling_level=\"sequence\", loss_type=\"grpo\", epsilon=3e-4, epsilon_high=4e-4)`",
        settings: || {
            json!({ "loss": {
                "objective": "gspo",
                "aggregation": "grpo",
                "config": { "level": "sequence", "epsilon_low": 3e-4, "epsilon_high": 4e-4 },
            } })
        },
        ..TRL
    },
    Preset {
        id: "trl-1.16/cispo",
        origin: "`GRPOConfig(loss_type=\"cispo\", epsilon_high=5.0)`",
        settings: || {
            json!({ "loss": {
                "objective": "cispo",
                "aggregation": "dapo",
                "config": { "bounds": "cap", "epsilon_high": 5.0 },
            } })
        },
        ..TRL
    },
    Preset {
        id: "trl-1.16/sapo",
        origin: "`GRPOConfig(loss_type=\"sapo\")`",
        settings: || json!({ "loss": { "objective": "sapo", "aggregation": "grpo" } }),
        ..TRL
    },
    Preset {
        id: "trl-1.16/luspo",
        origin: "`GRPOConfig(loss_type=\"luspo\", importance_sampling_level=\"sequence\")`",
        settings: || {
            json!({ "loss": {
                "objective": "luspo",
                "aggregation": "grpo",
                "config": { "epsilon_low": 0.2, "epsilon_high": 0.2 },
            } })
        },
        ..TRL
    },
    Preset {
        id: "trl-1.16/vespo",
        origin: "`GRPOConfig(loss_type=\"vespo\")`",
        settings: || json!({ "loss": { "objective": "vespo", "aggregation": "dapo" } }),
        differs: &["TRL takes the weight of a sampler that differs into the exponent of its `phi`; here \
                    `loss.correction.weight` multiplies the loss, as it does elsewhere"],
        ..TRL
    },
    Preset {
        id: "verl-0.9/grpo",
        origin: "`algorithm.adv_estimator=grpo`, `actor.policy_loss.loss_mode=vanilla`, `actor.loss_agg_mode=token-mean`",
        settings: || verl("ppo_clip", "bnpo", json!({ "dual_clip": 3.0 })),
        differs: &[VERL_CLAMP],
        ..VERL
    },
    Preset {
        id: "verl-0.9/gspo",
        origin: "`actor.policy_loss.loss_mode=gspo`, `actor.loss_agg_mode=seq-mean-token-mean`",
        settings: || {
            verl("gspo", "grpo", json!({ "level": "token", "epsilon_low": 0.2, "epsilon_high": 0.2 }))
        },
        differs: &[
            "verl clamps the log of the sequence's ratio to 10; here it is not clamped",
            "the bounds are verl's defaults; the paper's are 3e-4 and 4e-4",
            VERL_COUNT,
        ],
        ..VERL
    },
    Preset {
        id: "verl-0.9/geo_mean",
        origin: "`actor.policy_loss.loss_mode=geo_mean`, `actor.loss_agg_mode=seq-mean-token-mean`",
        settings: || verl("gmpo", "grpo", json!({ "epsilon_low": 0.2, "epsilon_high": 0.2 })),
        differs: &["the bounds are verl's defaults; the paper's are 0.4", VERL_COUNT, VERL_KL_MEAN],
        ..VERL
    },
    Preset {
        id: "verl-0.9/cispo",
        origin: "`actor.policy_loss.loss_mode=cispo`, `actor.loss_agg_mode=token-mean`",
        settings: || {
            verl("cispo", "bnpo", json!({ "bounds": "two_sided", "epsilon_low": 0.2, "epsilon_high": 0.2 }))
        },
        differs: &[VERL_CLAMP],
        ..VERL
    },
    Preset {
        id: "verl-0.9/sapo",
        origin: "`actor.policy_loss.loss_mode=sapo`, `actor.loss_agg_mode=seq-mean-token-mean`",
        settings: || verl("sapo", "grpo", Value::Null),
        differs: &[VERL_CLAMP, VERL_COUNT, VERL_KL_MEAN],
        ..VERL
    },
    Preset {
        id: "prime-rl/default",
        origin: "prime-rl's default loss (commit 559b447): binary total variation to the policy that sampled, rewards minus \
                 their mean",
        settings: || {
            json!({
                "loss": {
                    "objective": "dppo_tv",
                    "aggregation": "bnpo",
                    "config": {
                        "anchor": "behavior",
                        "divergence_low": 0.2,
                        "divergence_high": 0.2,
                        "ratio_max": 0.0,
                        "kl_tau": 1e-3,
                    },
                },
                "advantage": { "estimator": "grpo", "config": { "scale": "none" } },
            })
        },
        differs: &["the value of the loss (its gradient is the same): ours is that of verl's surrogate"],
        with_beta: "nothing: prime-rl has no KL to a reference, and what `loss.beta` adds is ours; its `kl_tau` was compared",
        ..SAME
    },
];

/// Most presets of TRL; compared with `compute_loss` of `GRPOTrainer`.
const TRL: Preset = Preset {
    with_beta: "loss, gradient and `kl` of `GRPOTrainer.compute_loss`, with `use_bias_correction_kl` and without",
    ..SAME
};

/// Most presets of verl; compared with `ppo_loss`.
const VERL: Preset = Preset {
    with_beta: "loss and gradient of `ppo_loss` with `use_kl_loss` and `kl_loss_type = \"low_var_kl\"`",
    ..SAME
};

/// A preset that breaks no rule and differs in nothing.
const SAME: Preset =
    Preset { id: "", origin: "", settings: || Value::Null, allows: &[], differs: &[], with_beta: "" };

/// verl's settings for an objective; its `config` is absent if it is null.
fn verl(objective: &str, aggregation: &str, config: Value) -> Value {
    let mut settings = json!({
        "loss": {
            "objective": objective,
            "aggregation": aggregation,
            "use_bias_correction_kl": false,
            "kl_clamp": 10.0,
        },
        "advantage": { "estimator": "grpo", "config": { "epsilon": 1e-6, "group_of_one": "raw" } },
    });
    if !config.is_null() {
        settings["loss"]["config"] = config;
    }
    settings
}

/// verl's mean of the KL, for objectives that fix the mean of the policy loss.
const VERL_KL_MEAN: &str = "with `loss.beta`: verl averages the KL by `loss_agg_mode`, `token-mean` unless it is set, and its \
                            policy loss by sequence whatever it says; here both go by sequence";

/// How verl keeps exponentials finite.
const VERL_CLAMP: &str =
    "verl clamps log-ratios to ±20, where its gradient is zero; here they are not clamped";

/// How verl avoids a division by zero.
const VERL_COUNT: &str = "verl adds 1e-8 to the number of tokens of a sequence";

/// The preset called `id`.
///
/// # Errors
/// If there is none; the error names those that exist.
pub fn find(id: &str) -> Result<&'static Preset, SettingError> {
    PRESETS.iter().find(|preset| preset.id == id).ok_or_else(|| {
        let known: Vec<&str> = PRESETS.iter().map(|preset| preset.id).collect();
        SettingError::new("preset", format!("is no preset: `{id}`; there are: {}", known.join(", ")))
    })
}
