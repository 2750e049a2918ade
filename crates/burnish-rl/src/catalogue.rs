//! Everything that a recipe can name, by family. A part that is in none of these lists can't be reached.

use serde_json::Value;

use crate::advantage::{self, Estimator};
use crate::distillation;
use crate::gate::{self, Gate};
use crate::objective;
use crate::plan::{self, RolloutPlan};
use crate::preference;
use crate::replay::{self, Replay};
use crate::reward_model;
use crate::selector::{self, Selector};
use crate::{Card, Objective, Part, SettingError, TokenLoss};
use burnish_core::settings::{read, to_value};

/// A part of a family; its own type is erased.
pub struct Entry<T: ?Sized> {
    /// What is known about it.
    pub card: Card,
    /// Its complete settings as JSON: those given, and the defaults for the rest.
    pub complete: fn(&Value) -> Result<Value, SettingError>,
    /// The part with these settings; absent ones take their defaults.
    pub build: fn(&Value) -> Result<Box<T>, SettingError>,
}

impl<T: ?Sized> Entry<T> {
    /// The `config` of a recipe's table, with every setting written out.
    pub(crate) fn complete_config(&self, config: &Value) -> Result<Value, SettingError> {
        (self.complete)(config).map_err(in_config)
    }

    /// The part with the `config` of a recipe's table.
    pub(crate) fn build_config(&self, config: &Value) -> Result<Box<T>, SettingError> {
        (self.build)(config).map_err(in_config)
    }
}

/// `complete` and `build` of `$table`: a table of a recipe whose key `$key` names one of `$entries`, and whose `config`
/// holds that part's own settings. A macro, because every table has its own name for that key.
macro_rules! choice {
    ($table:ident, $key:ident, $entries:ident, $part:ty) => {
        impl $table {
            /// The same table, with every setting of the part that it names written out.
            ///
            /// # Errors
            /// If there is no such part, or a value is unknown, of the wrong type or out of range.
            pub fn complete(mut self) -> Result<Self, $crate::SettingError> {
                let entry = $crate::catalogue::find($entries, stringify!($key), &self.$key)?;
                self.config = entry.complete_config(&self.config)?;
                Ok(self)
            }

            /// The part that it names, in its initial state.
            ///
            /// # Errors
            #[doc = concat!("As [`", stringify!($table), "::complete`].")]
            pub fn build(&self) -> Result<Box<$part>, $crate::SettingError> {
                $crate::catalogue::find($entries, stringify!($key), &self.$key)?.build_config(&self.config)
            }
        }
    };
}
pub(crate) use choice;

/// The `config` where a recipe gives none.
pub(crate) fn no_settings() -> Value {
    Value::Object(serde_json::Map::new())
}

/// The losses of tokens: `loss.objective`.
pub const OBJECTIVES: &[Entry<dyn TokenLoss>] = &[
    token_loss::<objective::PpoClip>(),
    token_loss::<objective::ClipCov>(),
    token_loss::<objective::KlCov>(),
    token_loss::<objective::M2po>(),
    token_loss::<objective::Rec>(),
    token_loss::<objective::Red>(),
    token_loss::<objective::Opmd>(),
    token_loss::<objective::OpmdKimi>(),
    token_loss::<objective::AsymRe>(),
    token_loss::<objective::Mdpo>(),
    token_loss::<objective::Cispo>(),
    token_loss::<objective::DppoKl>(),
    token_loss::<objective::DppoTv>(),
    token_loss::<objective::Dro>(),
    token_loss::<objective::Gmpo>(),
    token_loss::<objective::Gppo>(),
    token_loss::<objective::Gspo>(),
    token_loss::<objective::Luspo>(),
    token_loss::<objective::PrimeRlSymmetric>(),
    token_loss::<objective::Reinforce>(),
    token_loss::<objective::Sapo>(),
    token_loss::<objective::Sdar>(),
    token_loss::<objective::Vespo>(),
];

/// From rewards to credit: `advantage.estimator`.
pub const ADVANTAGES: &[Entry<dyn Estimator>] = &[
    estimator::<advantage::Grpo>(),
    estimator::<advantage::Rloo>(),
    estimator::<advantage::ReinforcePlusPlus>(),
    estimator::<advantage::ReinforcePlusPlusBaseline>(),
    estimator::<advantage::Remax>(),
    estimator::<advantage::Opo>(),
    estimator::<advantage::Gpg>(),
    estimator::<advantage::GrpoPassk>(),
    estimator::<advantage::Gdpo>(),
    estimator::<advantage::MaxRl>(),
    estimator::<advantage::OptimalTokenBaseline>(),
    estimator::<advantage::Gigpo>(),
    estimator::<advantage::StepEpisode>(),
    estimator::<advantage::Vineppo>(),
    estimator::<advantage::PairwiseDifference>(),
    estimator::<advantage::LengthPenalised>(),
    estimator::<advantage::Gae>(),
    estimator::<advantage::Rdpo>(),
    estimator::<advantage::Skpo>(),
    estimator::<advantage::Fapo>(),
    estimator::<advantage::Skill1>(),
];

/// The losses of pairs and of labelled answers.
pub const PREFERENCES: &[Entry<dyn Objective>] = &[
    whole_loss::<preference::Dgpo>(),
    whole_loss::<preference::Dpo>(),
    whole_loss::<preference::GroupDpo>(),
    whole_loss::<preference::Ipo>(),
    whole_loss::<preference::Kto>(),
    whole_loss::<preference::Orpo>(),
    whole_loss::<preference::Simpo>(),
];

/// The losses of models that give rewards: `loss.objective` with `train.method = "reward"`.
pub const REWARD_MODELS: &[Entry<dyn Objective>] =
    &[whole_loss::<reward_model::BradleyTerry>(), whole_loss::<reward_model::Outcome>()];

/// The losses that need a teacher: `loss.objective`.
pub const DISTILLATIONS: &[Entry<dyn Objective>] = &[
    whole_loss::<distillation::Opd>(),
    whole_loss::<distillation::Gkd>(),
    whole_loss::<distillation::Aopd>(),
];

/// Which tasks are played: `selection.selector`.
pub const SELECTORS: &[Entry<dyn Selector>] = &[
    selector::<selector::Uniform>(),
    selector::<selector::Insight>(),
    selector::<selector::Mopps>(),
    selector::<selector::Difficulty>(),
    selector::<selector::Evidence>(),
];

/// Whether an update is applied: `gate.gate`.
pub const GATES: &[Entry<dyn Gate>] = &[gate::<gate::Dgg>(), gate::<gate::RandomStop>()];

/// How rollouts are sampled: `plan.plan`.
pub const PLANS: &[Entry<dyn RolloutPlan>] = &[
    rollout_plan::<plan::Dgpo>(),
    rollout_plan::<plan::Heavyskill>(),
    rollout_plan::<plan::Lang>(),
    rollout_plan::<plan::Skpo>(),
    rollout_plan::<plan::VlRethinker>(),
];

/// What is trained on again: `replay.replay`.
pub const REPLAYS: &[Entry<dyn Replay>] = &[replay::<replay::Ssr>()];

/// The cards of every family, in the order of the lists.
pub fn cards() -> Vec<&'static Card> {
    let advantages = ADVANTAGES.iter().map(|entry| &entry.card);
    let objectives = OBJECTIVES.iter().map(|entry| &entry.card);
    let whole = PREFERENCES.iter().chain(REWARD_MODELS).chain(DISTILLATIONS).map(|entry| &entry.card);
    let selectors = SELECTORS.iter().map(|entry| &entry.card);
    let gates = GATES.iter().map(|entry| &entry.card);
    let plans = PLANS.iter().map(|entry| &entry.card);
    let replays = REPLAYS.iter().map(|entry| &entry.card);
    let losses = objectives.chain(whole);
    advantages.chain(losses).chain(selectors).chain(gates).chain(plans).chain(replays).collect()
}

/// The entry called `id`.
///
/// # Errors
/// If there is none; the error names those that exist.
pub fn find<T: ?Sized>(
    entries: &'static [Entry<T>],
    key: &str,
    id: &str,
) -> Result<&'static Entry<T>, SettingError> {
    entries.iter().find(|entry| entry.card.id == id).ok_or_else(|| {
        let known: Vec<&str> = entries.iter().map(|entry| entry.card.id).collect();
        SettingError::new(key, format!("is no id of the catalogue: `{id}`; there are: {}", known.join(", ")))
    })
}

/// An error about a key of a part's own table.
fn in_config(error: SettingError) -> SettingError {
    SettingError { key: format!("config.{}", error.key), ..error }
}

const fn token_loss<P: Part + TokenLoss>() -> Entry<dyn TokenLoss> {
    Entry { card: P::CARD, complete: complete::<P>, build: |given| Ok(Box::new(build::<P>(given)?)) }
}

const fn estimator<P: Part + Estimator>() -> Entry<dyn Estimator> {
    Entry { card: P::CARD, complete: complete::<P>, build: |given| Ok(Box::new(build::<P>(given)?)) }
}

const fn whole_loss<P: Part + Objective>() -> Entry<dyn Objective> {
    Entry { card: P::CARD, complete: complete::<P>, build: |given| Ok(Box::new(build::<P>(given)?)) }
}

const fn selector<P: Part + Selector>() -> Entry<dyn Selector> {
    Entry { card: P::CARD, complete: complete::<P>, build: |given| Ok(Box::new(build::<P>(given)?)) }
}

const fn rollout_plan<P: Part + RolloutPlan>() -> Entry<dyn RolloutPlan> {
    Entry { card: P::CARD, complete: complete::<P>, build: |given| Ok(Box::new(build::<P>(given)?)) }
}

const fn replay<P: Part + Replay>() -> Entry<dyn Replay> {
    Entry { card: P::CARD, complete: complete::<P>, build: |given| Ok(Box::new(build::<P>(given)?)) }
}

const fn gate<P: Part + Gate>() -> Entry<dyn Gate> {
    Entry { card: P::CARD, complete: complete::<P>, build: |given| Ok(Box::new(build::<P>(given)?)) }
}

fn build<P: Part>(given: &Value) -> Result<P, SettingError> {
    let part: P = read(given)?;
    part.check()?;
    Ok(part)
}

fn complete<P: Part>(given: &Value) -> Result<Value, SettingError> {
    to_value(&build::<P>(given)?)
}
