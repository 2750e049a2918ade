//! What other frameworks compute under a name, as settings: `preset = "trl-1.16/grpo"`.
//!
//! A preset is `[loss]` and `[advantage]` of a recipe; what the recipe says itself comes first. It is the mathematics
//! of the framework's defaults, not its learning rate or batch size. What it computes was compared with the
//! framework's own functions (`crates/burnish-rl/tests/golden`); what can't be the same is in [`Preset::differs`].

use serde_json::{Value, json};

use crate::SettingError;

/// Settings under another framework's name.
#[derive(Debug)]
pub struct Preset {
    /// `FRAMEWORK-VERSION/NAME`.
    pub id: &'static str,
    /// What a person writes there to get this.
    pub origin: &'static str,
    /// `{ "loss": ..., "advantage": ... }`; the loss names its objective, and a table `config` what it belongs to.
    pub settings: fn() -> Value,
    /// Rules that the framework breaks: they pass with a warning.
    pub allows: &'static [&'static str],
    /// What differs numerically from that framework, one sentence each.
    pub differs: &'static [&'static str],
}

/// Every preset, by framework.
pub const PRESETS: &[Preset] = &[
    Preset {
        id: "trl-1.16/dapo",
        origin: "`GRPOConfig()`: `loss_type = \"dapo\"` is the default",
        settings: || json!({ "loss": { "objective": "ppo_clip", "aggregation": "dapo" } }),
        allows: &[],
        differs: &[],
    },
    Preset {
        id: "trl-1.16/grpo",
        origin: "`GRPOConfig(loss_type=\"grpo\")`",
        settings: || json!({ "loss": { "objective": "ppo_clip", "aggregation": "grpo" } }),
        allows: &[],
        differs: &[],
    },
    Preset {
        id: "trl-1.16/bnpo",
        origin: "`GRPOConfig(loss_type=\"bnpo\")`",
        settings: || json!({ "loss": { "objective": "ppo_clip", "aggregation": "bnpo" } }),
        allows: &[],
        differs: &[
            "TRL divides by the tokens of each micro-batch, so its gradient depends on their size; here by those \
                    of the update",
        ],
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
        allows: &[],
        differs: &[],
    },
    Preset {
        id: "verl-0.9/grpo",
        origin: "`algorithm.adv_estimator=grpo`, `actor.policy_loss.loss_mode=vanilla`, `actor.loss_agg_mode=token-mean`",
        settings: || {
            json!({
                "loss": {
                    "objective": "ppo_clip",
                    "aggregation": "bnpo",
                    "use_bias_correction_kl": false,
                    "config": { "dual_clip": 3.0 },
                },
                "advantage": { "estimator": "grpo", "config": { "epsilon": 1e-6 } },
            })
        },
        allows: &[],
        differs: &[
            "verl clamps log-ratios to ±20 and k3 to ±10, where its gradient is zero; here nothing is clamped",
        ],
    },
];

/// The preset called `id`.
///
/// # Errors
/// If there is none: names those that exist.
pub fn find(id: &str) -> Result<&'static Preset, SettingError> {
    PRESETS.iter().find(|preset| preset.id == id).ok_or_else(|| {
        let known: Vec<&str> = PRESETS.iter().map(|preset| preset.id).collect();
        SettingError::new("preset", format!("is none that there is: `{id}`; there are: {}", known.join(", ")))
    })
}
