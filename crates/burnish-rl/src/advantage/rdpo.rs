//! RDPO: the components of the reward are put on one scale by their ranks and decorrelated before they are added up.
//!
//! **What it does.** Rewards of different kinds (yes or no, a share, an unbounded number) can't be compared, and two
//! that mean the same count twice in their sum. Here a component becomes the rank of a rollout in its group, damped if
//! the group hardly differs in it. Then the components that vary together are whitened, and added up.
//!
//! **Formula.** With `r_id` component `d` of the reward of rollout `i` of group `g`, over the `n` members that have it:
//!
//! ```text
//! q_id = (#{j: r_jd < r_id} - #{j: r_jd > r_id}) / n          the mid-rank ϱ as 2·(ϱ - 1/2)/n - 1, in (-1, 1)
//! s_gd = min(1, range_g(r_d) / ref_d)                         ref_d: running 90th percentile of ranges above 0
//! a_id = s_gd·q_id                                            0 where component d is not active
//! S_g  = {d: range_g(r_d) > 0}                                the active components of a group
//! Σ_S  = cov(a of all rollouts whose group has S)             Σ_S ← (1 - κ)·Σ_S + κ·diag(Σ_S) + ε·I
//! A_i  = Σ_{d in S} w_d·(Σ_S^(-1/2)·a_i)_d                    then standardised over the rollouts with S not empty
//! ```
//!
//! `normalise` says how it is standardised. With fewer than `rows_min·|S|` rows, `Σ_S` is the moving average over
//! earlier steps and this one.
//!
//! **State.** `ref_d` (a moving average of each step's percentile, unless `reference` gives the scale), and a moving
//! average of each `Σ_S`. Both include the current step; [`Estimator::learn`] keeps them.
//!
//! **Conventions.** A rollout without a reward counts nowhere, and gets no advantage. A component that is missing or
//! not finite counts in no rank of that component, and adds nothing of its own. A rollout whose group has no active
//! component has an advantage of exactly 0. Eigenvalues up to 1e-10 of the greatest belong to directions in which
//! nothing varies, and are whitened to 0. `Σ_S` is divided by the number of rows. The factor that a component arrives
//! with has no effect, because ranks do not depend on it and `ref_d` scales with it; `weights`, applied after the
//! whitening, has.
//!
//! **Settings as baselines.** `whitening = false`: quantiles only. `quantile = false, magnitude = "none"`: whitened
//! z-scores (whitening only). Neither: GDPO.
//!
//! **Reduces to.** Without quantiles, magnitudes, whitening and standardisation, GDPO without its whitening, to the
//! bit. With one component that is 0 or 1, `magnitude = "none"` and neither whitening nor standardisation, GRPO without
//! scaling.
//!
//! **Reconstructed.** We did not have the paper's text. Known are its two steps: magnitude-aware quantile normalisation
//! per prompt, and Mahalanobis whitening within each active reward subspace. Every formula above is the simplest form
//! that agrees with that, and every constant is ours. The other reading of *magnitude-aware*, `magnitude = "blend"`, is
//! `a = blend·q + (1 - blend)·clip(z, ±z_max)/z_max`, with `z` the z-score of the group (n - 1): it keeps the distances
//! within a group, not its range, and a group's mean is 0 unless a `z` is clipped.
//!
//! **Differs from the paper.** No difference is known. No framework has it.
//!
//! **Example.**
//! ```
//! use burnish_rl::advantage::{Advantage, Estimator, Rdpo, Rollout, Rollouts, Whiten};
//! use burnish_rl::fact::COMPONENTS;
//! let member = |own: [f64; 2]| Rollout::of_reward(Some(own[0] + own[1])).with(&COMPONENTS, own);
//! // The second says what the first says: it is ranks and not sizes that count.
//! let all = [member([0.0, 1.0]), member([0.0, 1.0]), member([1.0, 9.0]), member([0.0, 1.0])];
//! let rdpo = Rdpo { whitening: false, normalise: Whiten::None, ..Rdpo::default() };
//! let credit = rdpo.advantages(&Rollouts { all: &all, groups: &[0..4] });
//! assert_eq!(credit, [-0.5, -0.5, 1.5, -0.5].map(|advantage| Some(Advantage::Whole(advantage))));
//! ```
//!
//! **References.** RDPO, arXiv:2605.13641. GDPO, which it builds on: Liu et al. 2026, arXiv:2601.05242.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::common::{mean, scored, std, varies};
use super::{Advantage, Estimator, Rollouts, Whiten};
use crate::fact::{COMPONENTS, Need};
use crate::reward_statistics::RewardStatistics;
use crate::settings::require;
use crate::whitening::Covariance;
use crate::{Card, Check, Family, Part, SettingError};

/// Added to the standard deviation of a z-score, as in GDPO.
const Z_EPSILON: f64 = 1e-4;

/// What happens to a group that hardly differs in a component.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Magnitude {
    /// It counts less, in proportion to its range.
    #[default]
    Range,
    /// Ranks are mixed with z-scores.
    Blend,
    /// Nothing.
    None,
}

/// The sum of ranked and whitened components. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rdpo {
    /// Are components ranked within their group? Otherwise they become z-scores, as in GDPO. Default: true.
    pub quantile: bool,
    /// What happens to a group that hardly differs in a component. Default: `range`.
    pub magnitude: Magnitude,
    /// The range of each weighted component that counts as full; where it is 0, and beyond the end of the list, it is
    /// learned from the ranges seen. Default: an empty list.
    pub reference: Vec<f64>,
    /// Which quantile of a step's ranges is learned. Default: 0.9.
    pub reference_quantile: f64,
    /// Share of earlier steps in the running quantile. Default: 0.9.
    pub reference_decay: f64,
    /// Share of ranks, with `magnitude = "blend"`. Default: 0.5.
    pub blend: f64,
    /// Where z-scores are clipped, with `magnitude = "blend"`. Default: 3.
    pub z_max: f64,
    /// Are the active components of a group whitened together? Default: true.
    pub whitening: bool,
    /// The share by which off-diagonal entries of the covariance are reduced, κ. Default: 0.05.
    pub shrinkage: f64,
    /// What is added to the variances, ε. Default: 1e-6.
    pub epsilon: f64,
    /// Rows per active component that a step's covariance needs to be used on its own. Default: 4.
    pub rows_min: usize,
    /// Share of earlier steps in the moving average of a covariance. Default: 0.9.
    pub covariance_decay: f64,
    /// Weight of each component after whitening; 1 beyond the end of the list. Default: an empty list, all 1.
    pub weights: Vec<f64>,
    /// How the sums of a step are standardised together. Default: `rollouts`.
    pub normalise: Whiten,
    /// What was learned in earlier steps; not a setting.
    #[serde(skip)]
    pub learned: RewardStatistics,
}

impl Default for Rdpo {
    fn default() -> Self {
        Rdpo {
            quantile: true,
            magnitude: Magnitude::Range,
            reference: Vec::new(),
            reference_quantile: 0.9,
            reference_decay: 0.9,
            blend: 0.5,
            z_max: 3.0,
            whitening: true,
            shrinkage: 0.05,
            epsilon: 1e-6,
            rows_min: 4,
            covariance_decay: 0.9,
            weights: Vec::new(),
            normalise: Whiten::Rollouts,
            learned: RewardStatistics::default(),
        }
    }
}

impl Part for Rdpo {
    const CARD: Card = Card {
        id: "rdpo",
        title: "RDPO: components ranked and decorrelated",
        family: Family::Advantage,
        paper: "RDPO, Reward-Decorrelated Policy Optimization, arXiv:2605.13641",
        equation: "Σ_{d in S} w_d·(Σ_S^(-1/2)·a_i)_d, then standardised over the step; a = min(1, range/ref)·q, q in (-1, 1) \
                   by mid-ranks",
        scope: "batch",
        check: Check::Oracle("NumPy, tests/golden/make_credit.py"),
        reconstructed: Some(
            "all formulas: known are quantile normalisation with magnitude by prompt, and Mahalanobis whitening within \
             each active reward subspace",
        ),
        reduces_to: &[
            "GDPO without whitening, without quantiles, magnitudes, whitening and standardisation",
            "GRPO without scaling, of one component that is 0 or 1, without magnitudes, whitening and standardisation",
        ],
        file: "crates/burnish-rl/src/advantage/rdpo.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        for (name, values) in [("reference", &self.reference), ("weights", &self.weights)] {
            for (at, value) in values.iter().enumerate() {
                let (allowed, rule): (fn(f64) -> bool, _) = match name {
                    "reference" => (|range| range >= 0.0, "must be 0 or more"),
                    _ => (|_| true, "must be a finite number"),
                };
                require(&format!("{name}[{at}]"), *value, allowed, rule)?;
            }
        }
        for (key, value) in [
            ("reference_quantile", self.reference_quantile),
            ("reference_decay", self.reference_decay),
            ("blend", self.blend),
            ("shrinkage", self.shrinkage),
            ("covariance_decay", self.covariance_decay),
        ] {
            require(key, value, |share| (0.0..=1.0).contains(&share), "must be 0 to 1")?;
        }
        require("z_max", self.z_max, |most| most > 0.0, "must be above 0")?;
        require("epsilon", self.epsilon, |epsilon| epsilon >= 0.0, "must be 0 or more")?;
        if self.magnitude == Magnitude::Blend && !self.quantile {
            return Err(SettingError::new(
                "magnitude",
                "must not be \"blend\" with `quantile = false`: no ranks to mix",
            ));
        }
        Ok(())
    }
}

impl Estimator for Rdpo {
    fn needs(&self) -> Vec<Need> {
        Need::all(&[&COMPONENTS])
    }

    fn advantages(&self, rollouts: &Rollouts<'_>) -> Vec<Option<Advantage>> {
        let (step, learned) = self.seen(rollouts);
        let mut credit: Vec<Option<Advantage>> = vec![None; rollouts.all.len()];
        for (set, rows) in &step {
            let whitener = learned.covariances.get(set).filter(|_| self.whitening).map(|own| {
                let enough = rows.len() >= self.rows_min * set.len();
                let alone = if enough { covariance(rows) } else { None };
                alone.as_ref().unwrap_or(own).shrunk(self.shrinkage, self.epsilon).inverse_root()
            });
            for row in rows {
                let white = whitener.as_ref().map_or_else(|| row.values.clone(), |own| own.of(&row.values));
                let weight = |at: &usize| self.weights.get(*at).copied().unwrap_or(1.0);
                let sum = set.iter().zip(white).fold(0.0, |sum, (at, value)| sum + weight(at) * value);
                credit[row.rollout] = Some(Advantage::Whole(sum));
            }
        }
        let mut credit = self.normalise.apply(credit, rollouts);
        for (own, rollout) in credit.iter_mut().zip(rollouts.all) {
            if own.is_none() && rollout.score().is_some() {
                *own = Some(Advantage::Whole(0.0));
            }
        }
        credit
    }

    fn learn(&mut self, rollouts: &Rollouts<'_>) {
        self.learned = self.seen(rollouts).1;
    }

    fn state(&self) -> Value {
        self.learned.state()
    }

    fn restore(&mut self, state: &Value) -> Result<(), SettingError> {
        self.learned = RewardStatistics::from_state(state)?;
        Ok(())
    }
}

/// A rollout's values of the active components of its group.
struct Row {
    rollout: usize,
    values: Vec<f64>,
}

/// The rows of a step, by the components that are active in their groups; groups without an active component have no
/// rows.
type Step = BTreeMap<Vec<usize>, Vec<Row>>;

fn covariance(rows: &[Row]) -> Option<Covariance> {
    let values: Vec<Vec<f64>> = rows.iter().map(|row| row.values.clone()).collect();
    Covariance::of(&values)
}

impl Rdpo {
    /// The rows of a step, and the statistics including it.
    fn seen(&self, rollouts: &Rollouts<'_>) -> (Step, RewardStatistics) {
        let count = rollouts.all.iter().map(|rollout| rollout.facts.of(&COMPONENTS).len()).max().unwrap_or(0);
        let groups: Vec<Vec<Component>> = rollouts
            .each_group()
            .map(|group| (0..count).map(|at| Component::of(group, at)).collect())
            .collect();
        let references = self.references(&groups);
        let mut step = Step::new();
        for (range, components) in rollouts.groups.iter().zip(&groups) {
            let set: Vec<usize> = (0..count).filter(|at| components[*at].range > 0.0).collect();
            if set.is_empty() {
                continue;
            }
            let rows = step.entry(set.clone()).or_default();
            for rollout in range.clone().filter(|at| rollouts.all[*at].score().is_some()) {
                let value = |at: &usize| {
                    let full = self.reference.get(*at).copied().filter(|known| *known > 0.0);
                    let full = full.or_else(|| references.get(*at).copied().flatten());
                    let reward =
                        rollouts.all[rollout].facts.of(&COMPONENTS).get(*at).copied().unwrap_or(f64::NAN);
                    if reward.is_finite() { self.value(&components[*at], reward, full) } else { 0.0 }
                };
                rows.push(Row { rollout, values: set.iter().map(value).collect() });
            }
        }
        let mut covariances = self.learned.covariances.clone();
        for (set, rows) in &step {
            let Some(new) = covariance(rows) else { continue };
            let moved = covariances.get(set).map(|old| old.moved(&new, self.covariance_decay));
            covariances.insert(set.clone(), moved.unwrap_or(new));
        }
        (step, RewardStatistics { references, covariances })
    }

    /// `ref_d`, including the groups of a step.
    fn references(&self, groups: &[Vec<Component>]) -> Vec<Option<f64>> {
        let old = &self.learned.references;
        let count = groups.first().map_or(0, Vec::len).max(old.len());
        let reference = |at: usize| {
            let ranges = groups.iter().filter_map(|components| components.get(at));
            let ranges = scored(ranges.map(|component| Some(component.range).filter(|range| *range > 0.0)));
            let old = old.get(at).copied().flatten();
            let Some(new) = quantile(&ranges, self.reference_quantile) else { return old };
            let decay = self.reference_decay;
            Some(old.map_or(new, |old| (decay * old + (1.0 - decay) * new).min(f64::MAX)))
        };
        (0..count).map(reference).collect()
    }

    /// `a` of a reward; `full` is the range that counts as full.
    fn value(&self, component: &Component, reward: f64, full: Option<f64>) -> f64 {
        let own = if self.quantile { component.rank(reward) } else { component.z(reward) };
        match self.magnitude {
            Magnitude::None => own,
            Magnitude::Range => full.map_or(1.0, |full| (component.range / full).min(1.0)) * own,
            Magnitude::Blend => {
                let z = component.z(reward).clamp(-self.z_max, self.z_max) / self.z_max;
                self.blend * own + (1.0 - self.blend) * z
            }
        }
    }
}

/// One component in one group.
struct Component {
    /// Ascending.
    values: Vec<f64>,
    mean: f64,
    std: f64,
    range: f64,
}

impl Component {
    fn of(group: Rollouts<'_>, at: usize) -> Self {
        let present = group.all.iter().filter(|rollout| rollout.score().is_some());
        let values = scored(present.map(|rollout| rollout.facts.of(&COMPONENTS).get(at).copied()));
        let range = match (values.first(), values.last()) {
            // The distance between the ends of f64 is more than an f64 can hold.
            (Some(least), Some(most)) if varies(&values) => (most - least).min(f64::MAX),
            _ => 0.0,
        };
        Component { mean: mean(&values).unwrap_or(0.0), std: std(&values, 1).unwrap_or(0.0), range, values }
    }

    /// `q`, exactly.
    fn rank(&self, reward: f64) -> f64 {
        let less = self.values.partition_point(|value| *value < reward);
        let greater = self.values.len() - self.values.partition_point(|value| *value <= reward);
        (less as f64 - greater as f64) / self.values.len() as f64
    }

    fn z(&self, reward: f64) -> f64 {
        (reward - self.mean) / (self.std + Z_EPSILON)
    }
}

/// The `share`-quantile of numbers in ascending order, with linear interpolation.
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let at = share * sorted.len().checked_sub(1)? as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    Some(below + (above - below) * (at - at.floor()))
}
