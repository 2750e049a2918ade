//! Groupwise preferences with a direction: all coherent answers of an item against all others, forward, in reverse and
//! mixed.
//!
//! **What it does.** An item is a task and the same task turned round, each with several answers. The loss raises the
//! share of the coherent answers (advantage above 0) in a softmax over all of them, with a margin by which every other
//! answer (advantage below 0) must be beaten: once among the forward answers, once among those in reverse, once among
//! all. A second term keeps the coherent answers equally likely, so that none of them takes all the probability; a
//! third one raises them all.
//!
//! **Formula.** For an item with `P` its answers whose advantage is above 0 and `N` those with one below 0,
//!
//! ```text
//! s(y) = (1/|y|) Σ_t log π_θ                   or, for score = "log_ratio",   s(y) = β Σ_t log (π_θ/π_ref)
//! g(P, N) = -log [ Σ_P e^{s/τ} / (Σ_P e^{s/τ} + Σ_N e^{(s+m)/τ}) ]
//!         = -log σ( lse_P(s/τ) - lse_N(s/τ) - m/τ )
//! L_grp = (g_forward + g_reverse + w_dir·g_mixed) / (2 + w_dir)
//! ℓ = L_grp + λ_v·Var_P(s) + λ_nll·(-mean_P s)
//! loss = Σ_items (n_item / S) · ℓ
//! ```
//!
//! `n_item` is the number of sequences of the item and `S` that of the optimiser batch, so items of equal size weigh
//! the same. `Var` is that of the population. A set without positives or without negatives adds 0 to `L_grp` but still
//! counts in its weights. An item whose sequences all have the same direction is one set: `L_grp = g`. An item without
//! a negative has only `λ_nll·(-mean_P s)`, or nothing with `nll_of_unopposed = false`; one without a positive adds 0.
//! An answer with an advantage of 0, or without a token in the loss, is in no set.
//!
//! **Derivative.** With `S` the share of `P` in a set, `v` the softmax of `s/τ` within `P` or `N`:
//! `∂g/∂s_p = -(1 - S)·v_p/τ`, `∂g/∂s_n = (1 - S)·v_n/τ`, which add up to 0. `Var` adds `2λ_v·(s_p - mean)/|P|`, which
//! may have either sign; the last term adds `-λ_nll/|P|`.
//!
//! **Reduces to.** With `λ_v = λ_nll = 0`, one positive and one negative of one direction: SimPO with `β = 1/τ` and
//! `γ = m/τ`; with log-ratios, `τ = 1` and `m = 0` DPO. To the bit where `τ` and `β` are powers of two.
//!
//! **Differs from the paper.** Which answers are coherent is not decided here: the sign of the advantage says it. A run
//! centres advantages within a group, so a group with only coherent answers teaches nothing there. The code of the
//! paper was not read.
//!
//! **Reconstructed.** All of it but the idea, from the abstract, SimPO's margin and the multi-positive InfoNCE: the
//! form of each term, the weights of the directions, what becomes of sets with one side, and every default.
//!
//! **References.** DGPO: Directional-Groupwise Preference Optimization 2026, arXiv:2605.10863. SimPO: arXiv:2405.14734.
//! InfoNCE with several positives: Khosla et al. 2020, arXiv:2004.11362.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::common::{Answer, add_metric, entropy, log_sigmoid, sigmoid};
use crate::settings::require;
use crate::{Card, Check, Evaluation, Family, Needs, Objective, Part, SettingError, Streams, Totals};

/// What an answer is compared by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Score {
    /// Its mean log-prob.
    #[default]
    Mean,
    /// `β` times its log-ratio to the reference.
    LogRatio,
}

/// Groupwise preferences with a direction. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dgpo {
    /// What answers are compared by. Default: `mean`, which needs no reference.
    pub score: Score,
    /// Scale of the log-ratio; `mean` has none. Default: 0.1.
    pub beta: f64,
    /// Temperature of the comparison, `τ`. Default: 0.5.
    pub temperature: f64,
    /// By how much a negative must be beaten, `m`. Default: 0.25.
    pub margin: f64,
    /// Weight of the variance of the positives' scores, `λ_v`. Default: 0.1.
    pub variance_coef: f64,
    /// Weight of the positives' own likelihood, `λ_nll`. Default: 0.1.
    pub nll_coef: f64,
    /// Does an item without negatives still raise its positives? Default: true.
    pub nll_of_unopposed: bool,
    /// Weight of the mixed set, relative to 1 for each direction, `w_dir`. Default: 1.
    pub mixed_weight: f64,
}

impl Default for Dgpo {
    fn default() -> Self {
        Dgpo {
            score: Score::Mean,
            beta: 0.1,
            temperature: 0.5,
            margin: 0.25,
            variance_coef: 0.1,
            nll_coef: 0.1,
            nll_of_unopposed: true,
            mixed_weight: 1.0,
        }
    }
}

impl Part for Dgpo {
    const CARD: Card = Card {
        id: "dgpo",
        title: "Groupwise preferences with a direction",
        family: Family::Preference,
        paper: "DGPO 2026, arXiv:2605.10863",
        equation: "-log [Σ_P e^{s/τ} / (Σ_P e^{s/τ} + Σ_N e^{(s+m)/τ})] over (forward, reverse, mixed) + λ_v·Var_P(s) - λ_nll·mean_P(s)",
        scope: "group",
        check: Check::Oracle("NumPy with complex steps, tests/golden/make_dgpo.py"),
        reconstructed: Some(
            "the form of each term, the weights of the directions, sets with one side, every default",
        ),
        reduces_to: &[
            "simpo, for one positive and one negative without the last two terms",
            "dpo, for that with log-ratios, τ = 1 and m = 0",
        ],
        file: "crates/burnish-rl/src/preference/dgpo.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("beta", self.beta, |it| it > 0.0, "must be above 0")?;
        require("temperature", self.temperature, |it| it > 0.0, "must be above 0")?;
        for (key, value) in [
            ("margin", self.margin),
            ("variance_coef", self.variance_coef),
            ("nll_coef", self.nll_coef),
            ("mixed_weight", self.mixed_weight),
        ] {
            require(key, value, |it| it >= 0.0, "must be 0 or more")?;
        }
        Ok(())
    }
}

/// An answer to one side of an item.
struct Member {
    answer: Answer,
    direction: u8,
    is_positive: bool,
    score: f64,
    /// Derivative of the item's loss with respect to the score.
    d_score: f64,
}

impl Dgpo {
    /// The answers of an item that are in a set.
    fn members(&self, streams: &Streams<'_>, item: Range<usize>) -> Vec<Member> {
        let mut members = Vec::with_capacity(item.len());
        for at in item {
            let answer = Answer::of(streams, &streams.sequences[at], self.score == Score::LogRatio);
            let label = answer.label(streams);
            if label == 0.0 {
                continue;
            }
            let score = match self.score {
                Score::Mean => answer.policy / answer.tokens,
                Score::LogRatio => self.beta * answer.log_ratio(),
            };
            let direction = streams.direction(at);
            members.push(Member { answer, direction, is_positive: label > 0.0, score, d_score: 0.0 });
        }
        members
    }

    /// `g` of the members in `set`, with its derivatives times `share` added to them; `None` if a side is empty.
    fn contrast(&self, members: &mut [Member], set: impl Fn(&Member) -> bool, share: f64) -> Option<f64> {
        let side = |members: &[Member], is_positive: bool| -> Option<SoftMaximum> {
            let of = |(_, member): &(usize, &Member)| member.is_positive == is_positive && set(member);
            let places: Vec<usize> = members.iter().enumerate().filter(of).map(|(at, _)| at).collect();
            let scores = places.iter().map(|at| members[*at].score / self.temperature).collect();
            SoftMaximum::of(places, scores)
        };
        let (positives, negatives) = (side(members, true)?, side(members, false)?);
        let x = positives.value - negatives.value - self.margin / self.temperature;
        let pull = share * sigmoid(-x) / self.temperature;
        positives.places.iter().zip(&positives.weights).for_each(|(at, v)| members[*at].d_score -= pull * v);
        negatives.places.iter().zip(&negatives.weights).for_each(|(at, v)| members[*at].d_score += pull * v);
        Some(-log_sigmoid(x))
    }

    /// The loss of an item, and what is reported about it; its derivatives are added to the members.
    fn item(&self, members: &mut [Member], has_both_directions: bool) -> Found {
        let positives = members.iter().filter(|member| member.is_positive).count() as f64;
        let mut found = Found::default();
        if positives == 0.0 {
            return found;
        }
        let is_opposed = members.iter().any(|member| !member.is_positive);
        if is_opposed && has_both_directions {
            let whole = 2.0 + self.mixed_weight;
            let mixed = self.mixed_weight / whole;
            for (direction, share) in [(Some(0), 1.0 / whole), (Some(1), 1.0 / whole), (None, mixed)] {
                let is_in = |member: &Member| direction.is_none_or(|own| own == member.direction);
                found.loss += share * self.contrast(members, is_in, share).unwrap_or_default();
            }
        } else if is_opposed {
            found.loss += self.contrast(members, |_| true, 1.0).unwrap_or_default();
        }
        let scores = || members.iter().filter(|member| member.is_positive).map(|member| member.score);
        let mean = scores().sum::<f64>() / positives;
        let variance = scores().map(|score| (score - mean) * (score - mean)).sum::<f64>() / positives;
        let variance_coef = if is_opposed { self.variance_coef } else { 0.0 };
        let nll_coef = if is_opposed || self.nll_of_unopposed { self.nll_coef } else { 0.0 };
        for member in members.iter_mut().filter(|member| member.is_positive) {
            member.d_score += (2.0 * variance_coef * (member.score - mean) - nll_coef) / positives;
        }
        found.loss += variance_coef * variance - nll_coef * mean;
        found.variance = Some(variance);
        found.is_opposed = is_opposed;
        found
    }

    /// The metrics of an item with both sides, under the names that losses of pairs use.
    fn rewards(&self, members: &[Member]) -> [(&'static str, f64); 6] {
        let side = |is_positive| members.iter().filter(move |member| member.is_positive == is_positive);
        let mean = |is_positive, value: &dyn Fn(&Member) -> f64| {
            side(is_positive).map(value).sum::<f64>() / side(is_positive).count() as f64
        };
        let reward = |member: &Member| member.score / self.temperature;
        let logp = |member: &Member| match self.score {
            Score::Mean => member.score,
            Score::LogRatio => member.answer.policy,
        };
        let above = |member: &Member| {
            side(false).filter(|other| member.score > other.score).count() as f64 / side(false).count() as f64
        };
        let (chosen, rejected) = (mean(true, &reward), mean(false, &reward));
        [
            ("rewards/chosen", chosen),
            ("rewards/rejected", rejected),
            ("rewards/accuracies", mean(true, &above)),
            ("rewards/margins", chosen - rejected),
            ("logps/chosen", mean(true, &logp)),
            ("logps/rejected", mean(false, &logp)),
        ]
    }
}

/// The result for an item.
#[derive(Default)]
struct Found {
    loss: f64,
    /// Variance of the positives' scores, if there are any.
    variance: Option<f64>,
    /// Does it have both positives and negatives?
    is_opposed: bool,
}

/// log Σ exp of some numbers, and the softmax of each.
struct SoftMaximum {
    places: Vec<usize>,
    value: f64,
    weights: Vec<f64>,
}

impl SoftMaximum {
    /// From the numbers at `places`; `None` if there are none.
    fn of(places: Vec<usize>, numbers: Vec<f64>) -> Option<Self> {
        let greatest = numbers.iter().copied().reduce(f64::max)?;
        let mut weights: Vec<f64> = numbers.iter().map(|number| (number - greatest).exp()).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|weight| *weight /= sum);
        Some(SoftMaximum { places, value: greatest + sum.ln(), weights })
    }
}

impl Objective for Dgpo {
    fn needs(&self) -> Needs {
        Needs { reference: self.score == Score::LogRatio, groups: true, ..Needs::default() }
    }

    /// # Panics
    /// If the streams lack the reference that [`Objective::needs`] asks for.
    fn evaluate(&self, streams: &Streams<'_>, totals: &Totals) -> Evaluation {
        let mut evaluation = Evaluation::zero(streams.policy.len());
        for item in streams.groups {
            let mut members = self.members(streams, item.clone());
            let mut directions = item.clone().map(|at| streams.direction(at));
            let first = directions.next();
            let found = self.item(&mut members, directions.any(|other| Some(other) != first));
            let weight = item.len() as f64 / totals.sequences as f64;
            evaluation.loss += weight * found.loss;
            for member in &members {
                let d_logp = match self.score {
                    Score::Mean => member.d_score / member.answer.tokens,
                    Score::LogRatio => member.d_score * self.beta,
                };
                member.answer.add_derivative(weight * d_logp, &mut evaluation);
            }
            let metrics = &mut evaluation.metrics;
            add_metric(metrics, "dgpo/opposed", f64::from(found.is_opposed), 1.0);
            if let Some(variance) = found.variance {
                add_metric(metrics, "dgpo/variance", variance, 1.0);
            }
            if found.is_opposed {
                for (name, value) in self.rewards(&members) {
                    add_metric(metrics, name, value, 1.0);
                }
            }
        }
        evaluation.metrics.push(entropy(streams));
        evaluation
    }
}
