//! What an update trains on: members of the step, and members that were kept from earlier steps. One file per replay;
//! [`crate::catalogue::REPLAYS`] lists them. A replayed member keeps its tokens, its log-probs and its advantage.

mod ssr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::catalogue::{REPLAYS, choice, no_settings};

pub use ssr::Ssr;

/// `[replay]`: which replay, and its settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplayConfig {
    /// Id of the replay.
    pub replay: String,
    /// Its own settings.
    #[serde(default = "no_settings")]
    pub config: Value,
}

choice!(ReplayConfig, replay, REPLAYS, dyn Replay);

/// What an update trains on: indices into the members of the step and into those that were kept. A kept one may occur
/// more than once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mixture {
    /// Members of the step, in order.
    pub fresh: Vec<usize>,
    /// Kept members, in the order in which they were drawn.
    pub kept: Vec<usize>,
}

/// Keeps members, and mixes them with those of later steps.
pub trait Replay: Send + Sync {
    /// What an update trains on, given the advantages of the members of the step, and of those kept from earlier steps,
    /// the oldest first.
    fn mix(&self, fresh: &[f64], kept: &[f64], seed: u64) -> Mixture;

    /// Is a member with this advantage kept for later steps?
    fn keeps(&self, advantage: f64) -> bool;

    /// How many members are kept if a step has `members`; the oldest leave first.
    fn capacity(&self, members: usize) -> usize;
}
