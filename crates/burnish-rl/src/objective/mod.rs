//! Published objectives on rollouts, one file each; [`crate::catalogue::OBJECTIVES`] lists them.

mod cispo;
mod common;
mod dppo_kl;
mod dppo_tv;
mod dro;
mod gmpo;
mod gppo;
mod gspo;
mod luspo;
mod ppo_clip;
mod prime_rl_symmetric;
mod reinforce;
mod sapo;
mod vespo;

pub use cispo::{Bounds, Cispo};
pub use common::Anchor;
pub use dppo_kl::DppoKl;
pub use dppo_tv::DppoTv;
pub use dro::Dro;
pub use gmpo::Gmpo;
pub use gppo::Gppo;
pub use gspo::{Gspo, Level};
pub use luspo::Luspo;
pub use ppo_clip::{PpoClip, clipped_surrogate};
pub use prime_rl_symmetric::PrimeRlSymmetric;
pub use reinforce::Reinforce;
pub use sapo::Sapo;
pub use vespo::Vespo;
