//! Everything that a recipe can name, by family. A part that is in none of these lists can't be reached.

use serde_json::Value;

use crate::advantage::{self, Estimator};
use crate::distillation;
use crate::gate::{self, Gate};
use crate::objective;
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
    ///
    /// # Errors
    /// If a value is unknown, of the wrong type or out of range.
    pub fn complete_config(&self, config: &Value) -> Result<Value, SettingError> {
        (self.complete)(config).map_err(in_config)
    }

    /// The part with the `config` of a recipe's table.
    ///
    /// # Errors
    /// As [`Entry::complete_config`].
    pub fn build_config(&self, config: &Value) -> Result<Box<T>, SettingError> {
        (self.build)(config).map_err(in_config)
    }
}

/// `complete` and `build` of `$table`: a table of a recipe whose key `$key` names one of `$entries`, and whose `config`
/// holds that part's own settings. A macro, because every table has its own name for that key.
#[macro_export]
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
pub use choice;

/// The `config` where a recipe gives none.
pub fn no_settings() -> Value {
    Value::Object(serde_json::Map::new())
}

/// The entries of these parts.
#[macro_export]
macro_rules! entries {
    ($($part:ty),* $(,)?) => {
        &[$($crate::catalogue::Entry {
            card: <$part as $crate::Part>::CARD,
            complete: $crate::catalogue::complete::<$part>,
            build: |given| Ok(Box::new($crate::catalogue::build::<$part>(given)?)),
        }),*]
    };
}

/// The losses of tokens: `loss.objective`.
pub const OBJECTIVES: &[Entry<dyn TokenLoss>] = entries![
    objective::PpoClip,
    objective::ClipCov,
    objective::KlCov,
    objective::M2po,
    objective::Rec,
    objective::Red,
    objective::Opmd,
    objective::OpmdKimi,
    objective::AsymRe,
    objective::Mdpo,
    objective::Cispo,
    objective::DppoKl,
    objective::DppoTv,
    objective::Dro,
    objective::Gmpo,
    objective::Gppo,
    objective::Gspo,
    objective::Luspo,
    objective::PrimeRlSymmetric,
    objective::Reinforce,
    objective::Sapo,
    objective::Sdar,
    objective::Vespo,
];

/// From rewards to credit: `advantage.estimator`.
pub const ADVANTAGES: &[Entry<dyn Estimator>] = entries![
    advantage::Grpo,
    advantage::Rloo,
    advantage::ReinforcePlusPlus,
    advantage::ReinforcePlusPlusBaseline,
    advantage::Remax,
    advantage::Opo,
    advantage::Gpg,
    advantage::GrpoPassk,
    advantage::Gdpo,
    advantage::MaxRl,
    advantage::OptimalTokenBaseline,
    advantage::Gigpo,
    advantage::StepEpisode,
    advantage::Vineppo,
    advantage::PairwiseDifference,
    advantage::LengthPenalised,
    advantage::Gae,
    advantage::Rdpo,
    advantage::Skpo,
    advantage::Fapo,
    advantage::Skill1,
];

/// The losses of pairs and of labelled answers.
pub const PREFERENCES: &[Entry<dyn Objective>] = entries![
    preference::Dgpo,
    preference::Dpo,
    preference::GroupDpo,
    preference::Ipo,
    preference::Kto,
    preference::Orpo,
    preference::Simpo,
];

/// The losses of models that give rewards: `loss.objective` with `train.method = "reward"`.
pub const REWARD_MODELS: &[Entry<dyn Objective>] =
    entries![reward_model::BradleyTerry, reward_model::Outcome];

/// The losses that need a teacher: `loss.objective`.
pub const DISTILLATIONS: &[Entry<dyn Objective>] =
    entries![distillation::Opd, distillation::Gkd, distillation::Aopd,];

/// Which tasks are played: `selection.selector`.
pub const SELECTORS: &[Entry<dyn Selector>] = entries![
    selector::Uniform,
    selector::Insight,
    selector::Mopps,
    selector::Difficulty,
    selector::Evidence,
];

/// Whether an update is applied: `gate.gate`.
pub const GATES: &[Entry<dyn Gate>] = entries![gate::Dgg, gate::RandomStop];

/// What is trained on again: `replay.replay`.
pub const REPLAYS: &[Entry<dyn Replay>] = entries![replay::Ssr];

/// Parts that are defined elsewhere: a recipe can name them beside those of this crate.
#[derive(Clone, Copy, Default)]
pub struct Further {
    /// Losses of tokens.
    pub objectives: &'static [Entry<dyn TokenLoss>],
}

/// Parts are the same by their names.
impl PartialEq for Further {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl std::fmt::Debug for Further {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.objectives.iter().map(|entry| entry.card.id)).finish()
    }
}

/// The cards of every family, in the order of the lists.
pub fn cards() -> Vec<&'static Card> {
    fn of<T: ?Sized>(entries: &'static [Entry<T>]) -> Vec<&'static Card> {
        entries.iter().map(|entry| &entry.card).collect()
    }
    let whole = [of(PREFERENCES), of(REWARD_MODELS), of(DISTILLATIONS)].concat();
    [of(ADVANTAGES), of(OBJECTIVES), whole, of(SELECTORS), of(GATES), of(REPLAYS)].concat()
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
    find_among(entries, &[], key, id)
}

/// The entry called `id`, of this crate or further ones.
///
/// # Errors
/// As [`find`].
pub(crate) fn find_among<T: ?Sized>(
    entries: &'static [Entry<T>],
    further: &'static [Entry<T>],
    key: &str,
    id: &str,
) -> Result<&'static Entry<T>, SettingError> {
    let all = || entries.iter().chain(further);
    all().find(|entry| entry.card.id == id).ok_or_else(|| {
        let known: Vec<&str> = all().map(|entry| entry.card.id).collect();
        SettingError::new(key, format!("is no id of the catalogue: `{id}`; there are: {}", known.join(", ")))
    })
}

/// An error about a key of a part's own table.
fn in_config(error: SettingError) -> SettingError {
    SettingError { key: format!("config.{}", error.key), ..error }
}

/// The part with these settings; absent ones take their defaults.
///
/// # Errors
/// If a value is unknown, of the wrong type or out of range.
pub fn build<P: Part>(given: &Value) -> Result<P, SettingError> {
    let part: P = read(given)?;
    part.check()?;
    Ok(part)
}

/// Its complete settings: those given, and the defaults for the rest.
///
/// # Errors
/// As [`build`].
pub fn complete<P: Part>(given: &Value) -> Result<Value, SettingError> {
    to_value(&build::<P>(given)?)
}
