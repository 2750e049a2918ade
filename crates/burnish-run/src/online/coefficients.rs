//! Weights that adapt during the run: of the distance from the reference, and of the entropy bonus.

use burnish_rl::advantage::Phase;
use burnish_rl::fact::{Need, REFERENCE};
use burnish_rl::{LossConfig, Objective};
use serde_json::{Value, json};

use super::groups::Groups;
use crate::RunError;
use crate::reference::{EpisodeKl, mean_kl};
use burnish_rundir::metrics::Values;

/// The weights of the next step.
pub(super) struct Coefficients {
    kl: f64,
    /// The weight of the entropy bonus, if it follows a target.
    entropy: f64,
    /// Entropy of the previous step; `None` before the first.
    entropy_before: Option<f64>,
}

impl Coefficients {
    /// The weights of `loss`, or those of a saved `state`.
    pub(super) fn new(loss: &LossConfig, state: &Value) -> Self {
        Coefficients {
            kl: state["kl_coef"].as_f64().unwrap_or(loss.beta),
            entropy: state["entropy_coef"].as_f64().unwrap_or(loss.entropy_coef),
            entropy_before: state["entropy"].as_f64(),
        }
    }

    /// The weights, with their keys in the state of a checkpoint.
    pub(super) fn state(&self) -> [(&'static str, Value); 3] {
        [
            ("kl_coef", json!(self.kl)),
            ("entropy_coef", json!(self.entropy)),
            ("entropy", json!(self.entropy_before)),
        ]
    }

    /// The objective of a step, with the present weights.
    ///
    /// # Errors
    /// If a setting is wrong.
    pub(super) fn objective(&self, loss: &LossConfig) -> Result<Box<dyn Objective>, RunError> {
        let entropy_coef = self.applied(loss);
        Ok(LossConfig { beta: self.kl, entropy_coef, ..loss.clone() }.build()?)
    }

    fn applied(&self, loss: &LossConfig) -> f64 {
        loss.adaptive_entropy.applied(self.entropy, self.entropy_before.unwrap_or(f64::INFINITY))
    }

    /// Subtracts the distance from the reference from the rewards, if the recipe has it there, and updates its weight
    /// for the next step. Does nothing unless the distance is among the `needs` of the loss. Call it after
    /// [`Coefficients::objective`].
    pub(super) fn weigh_kl(&mut self, loss: &LossConfig, needs: &[Need], groups: &mut Groups) -> Values {
        if !has_reference(needs) {
            return Values::new();
        }
        let mut metrics = Values::from([("kl_coef".to_owned(), self.kl)]);
        let (mut kls, mut upstream) = (Vec::new(), Vec::new());
        for member in groups.all.iter_mut().flat_map(|group| &mut group.members) {
            let mut kl = EpisodeKl::default();
            member.samples.iter().for_each(|own| kl.add(&own.sample, loss.kl_estimator));
            if loss.use_kl_in_reward {
                member.reward = member.reward.map(|reward| reward - self.kl * kl.sum);
            }
            if member.phase() == Phase::Upstream { upstream.push(kl) } else { kls.push(kl) }
        }
        kls.extend(upstream);
        let (kl, measured) = mean_kl(&kls);
        if loss.use_kl_in_reward && measured > 0 {
            metrics.insert("reward_kl_penalty".to_owned(), kl);
        }
        self.kl = loss.adaptive_kl.next(self.kl, kl, measured);
        metrics
    }

    /// Takes note of the entropy of a step. Returns the weight of the bonus in it, if that follows a target.
    pub(super) fn see_entropy(&mut self, loss: &LossConfig, entropy: Option<f64>) -> Values {
        let applied = ("entropy_coef".to_owned(), self.applied(loss));
        let metrics = loss.adaptive_entropy.is_on().then_some(applied).into_iter().collect();
        if let Some(entropy) = entropy {
            self.entropy = loss.adaptive_entropy.next(self.entropy, entropy);
            self.entropy_before = Some(entropy);
        }
        metrics
    }
}

/// The facts that a loss needs, with `objective` built from it.
pub(super) fn needs(loss: &LossConfig, objective: &dyn Objective) -> Vec<Need> {
    let mut needs = objective.needs().facts();
    // The distance from the reference may count in the reward only.
    if loss.beta != 0.0 && !has_reference(&needs) {
        needs.push(Need::of(&REFERENCE));
    }
    needs
}

fn has_reference(needs: &[Need]) -> bool {
    needs.iter().any(|need| *need.fact == REFERENCE)
}
