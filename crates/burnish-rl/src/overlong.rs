//! Soft overlong punishment: an answer loses reward as it comes near its length limit, more the nearer it comes.
//!
//! **What it does.** Lets a policy feel the limit before it is cut off there, because a truncated answer is judged
//! wrong for a reason that the policy can't see.
//!
//! **Formula.** With `|y|` the number of tokens of the answer, `L_max` the most it may have, `L_cache` the length of
//! the buffer before that, and `p` the penalty:
//!
//! ```text
//!          0                                    |y| ≤ L_max - L_cache
//! R(y) =  p·((L_max - L_cache) - |y|)/L_cache   L_max - L_cache < |y| ≤ L_max
//!         -p                                    L_max < |y|
//! ```
//!
//! **Reduces to.** Nothing for `L_cache = 0`, which switches it off.
//!
//! **Differs from the paper.** `p` is 1 there. verl (`overlong_buffer.{len, penalty_factor}`) and AReaL
//! (`overlong_tokens`, `overlong_penalty_factor`) compute `min(-exceed / L_cache · p, 0)`, which is the same up to
//! `L_max`, beyond which nothing is sampled.
//!
//! **Example.**
//! ```
//! use burnish_rl::overlong::OverlongBuffer;
//! let buffer = OverlongBuffer { length: 20, penalty: 1.0 };
//! assert_eq!([80, 85, 100].map(|tokens| buffer.reward(tokens, 100)), [0.0, -0.25, -1.0]);
//! ```
//!
//! **References.** Yu et al. 2025 (DAPO), arXiv:2503.14476, eq. 13.

use crate::SettingError;
use crate::settings::require;
use serde::{Deserialize, Serialize};

/// The reward component that punishes overlong answers.
pub const OVERLONG: &str = "overlong";

/// The stretch before the limit in which length is punished.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OverlongBuffer {
    /// Tokens before the limit over which the punishment rises (`L_cache`); 0 (default) switches it off.
    pub length: usize,
    /// What an answer of the greatest length loses. Default: 1, as in the paper.
    pub penalty: f64,
}

impl Default for OverlongBuffer {
    fn default() -> Self {
        OverlongBuffer { length: 0, penalty: 1.0 }
    }
}

impl OverlongBuffer {
    /// Is anything punished?
    pub fn is_on(&self) -> bool {
        self.length > 0
    }

    /// The reward, 0 or negative, of an answer of `tokens` that may have `tokens_max`. 0 where this is off.
    pub fn reward(&self, tokens: usize, tokens_max: usize) -> f64 {
        let exceeded = tokens.saturating_sub(tokens_max.saturating_sub(self.length)).min(self.length);
        // Not -0.0, which is no punishment but would print like one.
        if exceeded == 0 { 0.0 } else { -self.penalty * (exceeded as f64 / self.length as f64) }
    }

    /// # Errors
    /// If the buffer is longer than `tokens_max`, the most tokens of an answer, or the penalty is out of range.
    pub fn check(&self, tokens_max: usize) -> Result<(), SettingError> {
        if self.length > tokens_max {
            let problem =
                format!("must be at most {tokens_max}, the most tokens of an answer, not {}", self.length);
            return Err(SettingError { key: "overlong_buffer.length".to_owned(), problem });
        }
        require("overlong_buffer.penalty", self.penalty, |penalty| penalty >= 0.0, "must be 0 or more")
    }
}
