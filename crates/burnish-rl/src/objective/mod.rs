//! Published objectives on rollouts, one file each; [`crate::catalogue::OBJECTIVES`] lists them.

mod asymre;
mod clip_cov;
mod kl_cov;
mod m2po;
mod mdpo;
mod opmd;
mod opmd_kimi;
mod ppo_clip;
mod rec;
mod red;

pub use asymre::AsymRe;
pub use clip_cov::{ClipCov, covariances};
pub use kl_cov::KlCov;
pub use m2po::{M2po, Moment};
pub use mdpo::Mdpo;
pub use opmd::{Opmd, OpmdVariant};
pub use opmd_kimi::OpmdKimi;
pub use ppo_clip::{PpoClip, clipped_surrogate};
pub use rec::{Rec, RecClip, RecWeight};
pub use red::{Red, RedMode};
