//! What several objectives share.

use serde::{Deserialize, Serialize};

use super::clipped_surrogate;
use crate::settings::require;
use crate::{Bound, Losses, SettingError, Tokens};

/// The denominator of the ratio.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Anchor {
    /// The policy at the start of the update.
    #[default]
    Proximal,
    /// The policy that sampled, as `loss.correction.behavior` says: it is known without a forward pass.
    Behavior,
}

impl Anchor {
    /// Log-probability of a token under it.
    pub(super) fn logprob(self, tokens: &Tokens<'_>, at: usize) -> f64 {
        match self {
            Anchor::Proximal => tokens.proximal[at],
            Anchor::Behavior => tokens.behavior[at],
        }
    }
}

/// Refuses bounds of a clip around 1 that make no sense.
pub(super) fn check_epsilons(low: f64, high: f64) -> Result<(), SettingError> {
    require("epsilon_low", low, |low| (0.0..=1.0).contains(&low), "must be 0 to 1")?;
    require("epsilon_high", high, |high| high >= 0.0, "must be 0 or more")
}

/// Refuses a cap on a ratio that would scale tokens that have not moved.
pub(super) fn check_cap(key: &str, cap: f64) -> Result<(), SettingError> {
    require(key, cap, |cap| cap == 0.0 || cap >= 1.0, "must be 0 (no limit), or 1 or more")
}

/// `ratio`, but at most `cap`, unless `cap` is 0.
pub(super) fn capped(ratio: f64, cap: f64) -> f64 {
    if cap == 0.0 { ratio } else { ratio.min(cap) }
}

/// The clipped surrogate with the length-normalised ratio of the sequence: a value for each token.
pub(super) fn sequence_surrogate(tokens: &Tokens<'_>, losses: &mut Losses, low: f64, high: f64) {
    let ratio = tokens.mean_log_ratio().exp();
    let mut slope = 0.0;
    for at in 0..tokens.len() {
        let (value, clipped) = clipped_surrogate(ratio, tokens.advantage[at], low, high);
        losses.value[at] = value;
        losses.clipped[at] = clipped;
        slope += if clipped.is_some() { 0.0 } else { value };
    }
    // Each token moves the ratio, and with it the value of every token, by a share of 1/n.
    losses.d_policy.fill(slope / tokens.len() as f64);
}

/// Adds `weight · x²`, with `x` the distance of the policy from `anchor` in nats.
pub(super) fn add_squared_log_ratio(tokens: &Tokens<'_>, losses: &mut Losses, anchor: Anchor, weight: f64) {
    for at in 0..tokens.len() {
        let log_ratio = tokens.policy[at] - anchor.logprob(tokens, at);
        losses.value[at] += weight * log_ratio * log_ratio;
        losses.d_policy[at] += 2.0 * weight * log_ratio;
    }
}

/// DPPO's surrogate `-A·sg(w)·lp` of each token that is `kept`, `w` the ratio to `anchor`, at most `cap`.
pub(super) fn masked_reinforce(
    tokens: &Tokens<'_>,
    losses: &mut Losses,
    anchor: Anchor,
    cap: f64,
    kept: impl Fn(Moved) -> bool,
) {
    for at in 0..tokens.len() {
        let advantage = tokens.advantage[at];
        if advantage == 0.0 {
            continue;
        }
        let anchored = anchor.logprob(tokens, at);
        let log_ratio = tokens.detached[at] - anchored;
        // Only a move in the direction in which the advantage pulls counts against the trust region.
        let is_away = log_ratio * advantage > 0.0;
        if is_away && !kept(Moved { from: anchored, to: tokens.detached[at] }) {
            losses.clipped[at] = Some(if advantage > 0.0 { Bound::High } else { Bound::Low });
            continue;
        }
        let derivative = -advantage * capped(log_ratio.exp(), cap);
        losses.value[at] = derivative * tokens.policy[at];
        losses.d_policy[at] = derivative;
    }
}

/// A token's log-probability before and after.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moved {
    /// Under the anchor.
    pub(super) from: f64,
    /// Under the policy.
    pub(super) to: f64,
}

impl Moved {
    /// Is the token more probable than it was?
    pub(super) fn is_up(self) -> bool {
        self.to > self.from
    }

    /// By how much its probability has changed: the total variation between the token and all others.
    pub(super) fn total_variation(self) -> f64 {
        (self.to.exp() - self.from.exp()).abs()
    }

    /// KL divergence of the distribution over "this token" and "any other", before from after.
    pub(super) fn binary_kl(self) -> f64 {
        let (from, others) = (self.from.exp(), -self.from.exp_m1());
        let of_others = if others > 0.0 { others * (others / -self.to.exp_m1()).ln() } else { 0.0 };
        from * (self.from - self.to) + of_others
    }
}
