//! Published objectives on rollouts, one file each; [`crate::catalogue::OBJECTIVES`] lists them.

mod ppo_clip;

pub use ppo_clip::{PpoClip, clipped_surrogate};
