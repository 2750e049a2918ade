//! What is believed about the success rate of a task: a Beta distribution, and what further rollouts would tell about
//! it.
//!
//! With `n = α + β` and the mean `φ̄ = α/n`, after `K` rollouts with `k` successes the belief Beta(α, β) becomes
//! Beta(α + k, β + K - k). [`Belief`] has the closed forms; [`Beliefs`] keeps one for each task.

use std::collections::{BTreeMap, HashMap};

use burnish_core::rng::Stream;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::SettingError;
use crate::settings::require;
use crate::special::{digamma, digamma_above_ln};

/// Evidence fades no further than this: below, a belief would be certain of something for which it has no evidence
/// left.
const COUNT_MIN: f64 = 1e-6;

/// Beta(α, β), both above 0.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Belief {
    /// Pseudo-count of successes.
    pub alpha: f64,
    /// Pseudo-count of failures.
    pub beta: f64,
}

impl Belief {
    /// The expected success rate, `φ̄ = α / (α + β)`.
    pub fn mean(&self) -> f64 {
        self.alpha / self.evidence()
    }

    /// How much evidence it rests on, `n = α + β`, in rollouts.
    pub fn evidence(&self) -> f64 {
        self.alpha + self.beta
    }

    /// `φ̄ (1 - φ̄)`: the variance of one more rollout.
    pub fn difficulty(&self) -> f64 {
        let n = self.evidence();
        (self.alpha / n) * (self.beta / n)
    }

    /// The probabilities of 0, 1, ..., `rollouts` successes: the Beta-binomial distribution.
    ///
    /// Computed from ratios of neighbours instead of ln Γ, whose rounding error grows with `n ln n`.
    pub fn outcomes(&self, rollouts: usize) -> Vec<f64> {
        let n = self.evidence();
        let mut ln = (0..rollouts).map(|j| ((self.beta + j as f64) / (n + j as f64)).ln()).sum::<f64>();
        let mut found = Vec::with_capacity(rollouts + 1);
        found.push(ln.exp());
        for k in 0..rollouts {
            let (hits, left) = (k as f64, (rollouts - k) as f64);
            ln += (left / (hits + 1.0) * ((self.alpha + hits) / (self.beta + left - 1.0))).ln();
            found.push(ln.exp());
        }
        found
    }

    /// The expected entropy of one rollout if the success rate were known, `E[h(Φ)]`, in nats:
    /// `-φ̄ (ψ(α + 1) - ψ(n + 1)) - (1 - φ̄)(ψ(β + 1) - ψ(n + 1))`.
    pub fn expected_entropy(&self) -> f64 {
        let n = self.evidence();
        let top = digamma(n + 1.0);
        let of = |count: f64| count / n * (top - digamma(count + 1.0));
        of(self.alpha) + of(self.beta)
    }

    /// What the outcomes of `rollouts` independent rollouts tell about the success rate: their mutual information
    /// `I_K = H_seq - K·E[h(Φ)]`, in nats.
    ///
    /// `H_seq = -Σ_k C(K, k) p_k ln p_k` is the entropy of the sequence of outcomes, and `p_k = B(α + k, β + K - k) /
    /// B(α, β)` the probability of one sequence with `k` successes. Both terms are near `K·h(φ̄)`, and their difference
    /// is about `K/2n`. To avoid this cancellation, with `g(x) = ψ(x + 1) - ln x` and `L_x(k) = Σ_{i<k} ln(1 + i/x)`,
    ///
    /// ```text
    /// I_1 = φ̄ g(α) + (1 - φ̄) g(β) - g(n)
    /// I_K = K·I_1 + L_n(K) - E_k[L_α(k) + L_β(K - k)]
    /// ```
    ///
    /// Beta(α, β) and Beta(β, α) give the same bits.
    pub fn information(&self, rollouts: usize) -> f64 {
        let (low, high) = (self.alpha.min(self.beta), self.alpha.max(self.beta));
        let n = low + high;
        let single =
            low / n * digamma_above_ln(low) + high / n * digamma_above_ln(high) - digamma_above_ln(n);
        let rising = |x: f64| {
            let terms = (0..rollouts).scan(0.0, move |sum, i| {
                *sum += (i as f64 / x).ln_1p();
                Some(*sum)
            });
            std::iter::once(0.0).chain(terms).collect::<Vec<f64>>()
        };
        let (of_low, of_high, of_all) = (rising(low), rising(high), rising(n));
        let outcomes = Belief { alpha: low, beta: high }.outcomes(rollouts);
        let mean: f64 =
            outcomes.iter().enumerate().map(|(k, p)| p * (of_low[k] + of_high[rollouts - k])).sum();
        // Rounding alone could take it below 0.
        (rollouts as f64 * single + (of_all[rollouts] - mean)).max(0.0)
    }

    /// One success rate drawn from the belief.
    ///
    /// `G_α / (G_α + G_β)` with gamma variates by Marsaglia and Tsang 2000; for a shape below 1, `G_{a+1} U^{1/a}`.
    /// Computed in logarithms, because for a small shape `U^{1/a}` is below the smallest double.
    pub fn draw(&self, stream: &mut Stream) -> f64 {
        let (hit, miss) = (ln_gamma_variate(self.alpha, stream), ln_gamma_variate(self.beta, stream));
        (1.0 + (miss - hit).exp()).recip()
    }
}

/// The logarithm of a variate of the gamma distribution with this shape and scale 1.
fn ln_gamma_variate(shape: f64, stream: &mut Stream) -> f64 {
    if shape < 1.0 {
        // 1 - U is never 0.
        return ln_gamma_variate(shape + 1.0, stream) + (1.0 - stream.uniform()).ln() / shape;
    }
    let d = shape - 1.0 / 3.0;
    let c = (9.0 * d).sqrt().recip();
    loop {
        let normal = stream.normal();
        let root = 1.0 + c * normal;
        if root > 0.0 {
            let v = root * root * root;
            if (1.0 - stream.uniform()).ln() < 0.5 * normal * normal + d - d * v + d * v.ln() {
                return (d * v).ln();
            }
        }
    }
}

/// What evidence fades to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FadesTo {
    /// To nothing: `α ← λα + k`.
    #[default]
    Nothing,
    /// To the prior: `α ← λα + (1 - λ)α₀ + k`.
    Prior,
}

/// A belief for each task, from its rollouts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Beliefs {
    /// `α₀` of a task that was never played. Default: 1.
    pub alpha: f64,
    /// `β₀` of it. Default: 1.
    pub beta: f64,
    /// `λ`: the factor by which old evidence shrinks each time the task is played again. Default: 1, nothing is
    /// forgotten.
    pub decay: f64,
    /// What evidence fades to, with `decay` below 1.
    pub fades_to: FadesTo,
    /// The beliefs about the tasks that were played, by task id.
    #[serde(skip)]
    seen: HashMap<String, Belief>,
}

impl Default for Beliefs {
    fn default() -> Self {
        Beliefs { alpha: 1.0, beta: 1.0, decay: 1.0, fades_to: FadesTo::Nothing, seen: HashMap::new() }
    }
}

impl Beliefs {
    /// The same settings, with evidence fading to the prior.
    pub fn fading_to_prior() -> Self {
        Beliefs { fades_to: FadesTo::Prior, ..Beliefs::default() }
    }

    /// # Errors
    /// If a setting is out of range.
    pub fn check(&self) -> Result<(), SettingError> {
        let rule = format!("must be {COUNT_MIN} or more");
        require("beliefs.alpha", self.alpha, |alpha| alpha >= COUNT_MIN, &rule)?;
        require("beliefs.beta", self.beta, |beta| beta >= COUNT_MIN, &rule)?;
        require(
            "beliefs.decay",
            self.decay,
            |decay| decay > 0.0 && decay <= 1.0,
            "must be above 0 and at most 1",
        )
    }

    /// The belief about a task.
    pub fn of(&self, task: &str) -> Belief {
        self.seen.get(task).copied().unwrap_or(Belief { alpha: self.alpha, beta: self.beta })
    }

    /// Learns from `rollouts` rollouts of a task, of which `successes` succeeded. With 0 rollouts nothing is learned,
    /// and nothing fades.
    pub fn observe(&mut self, task: &str, rollouts: usize, successes: usize) {
        if rollouts == 0 {
            return;
        }
        let before = self.of(task);
        let kept = if self.fades_to == FadesTo::Prior { 1.0 - self.decay } else { 0.0 };
        let count = |old: f64, prior: f64, more: usize| {
            (self.decay * old + kept * prior + more as f64).max(COUNT_MIN)
        };
        let after = Belief {
            alpha: count(before.alpha, self.alpha, successes),
            beta: count(before.beta, self.beta, rollouts.saturating_sub(successes)),
        };
        self.seen.insert(task.to_owned(), after);
    }

    /// Everything learned, for a checkpoint: `{"beliefs": {"task": [α, β]}}`, tasks in order of their ids.
    pub fn state(&self) -> Value {
        let ordered: BTreeMap<&str, [f64; 2]> =
            self.seen.iter().map(|(task, belief)| (task.as_str(), [belief.alpha, belief.beta])).collect();
        json!({ "beliefs": ordered })
    }

    /// Goes on from what [`Beliefs::state`] returned.
    ///
    /// # Errors
    /// If it is something else.
    pub fn restore(&mut self, state: &Value) -> Result<(), SettingError> {
        let wrong = |what: String| {
            SettingError::new(
                "selection",
                format!("can't go on from what the checkpoint has learned: {what}"),
            )
        };
        let read: HashMap<String, [f64; 2]> =
            serde_json::from_value(state["beliefs"].clone()).map_err(|error| wrong(error.to_string()))?;
        if let Some((task, counts)) = read
            .iter()
            .find(|(_, counts)| counts.iter().any(|count| !count.is_finite() || *count < COUNT_MIN))
        {
            return Err(wrong(format!("counts of task `{task}` must be above 0, not {counts:?}")));
        }
        self.seen = read.into_iter().map(|(task, [alpha, beta])| (task, Belief { alpha, beta })).collect();
        Ok(())
    }
}
