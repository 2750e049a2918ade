//! Generalised knowledge distillation: forward KL, reverse KL and everything between, on whole distributions.
//!
//! **What it does.** Pulls the student's next-token distribution towards the teacher's at every position of an answer,
//! whoever wrote it. `beta` says whose mistakes weigh more: at 0 the student must cover all that the teacher does
//! (forward KL), at 1 it must do nothing that the teacher would not (reverse KL).
//!
//! **Formula.** For one position, with `P` the teacher's and `Q` the student's distribution over the vocabulary, both
//! `softmax(logits / T)`:
//!
//! ```text
//! β = 0:   KL(P ‖ Q)                                          forward
//! β = 1:   KL(Q ‖ P)                                          reverse
//! else:    β·KL(P ‖ M) + (1 - β)·KL(Q ‖ M),   M = β·P + (1 - β)·Q
//! ```
//!
//! *Sparse teachers.* If only the log-probs of the teacher's `K` likeliest tokens are known, there are three ways.
//! `rest = "bucket"` takes distributions over `K + 1` outcomes, the last being all other tokens. `renormalise` takes
//! those over the `K` alone, each normalised. `ignore`, for `β = 0` only, takes the sum of `P·log(P/Q)` over the `K`,
//! which is the cross-entropy with soft labels up to a constant and may be below 0.
//!
//! The loss of a batch is `Σ_t m[t]·divergence / D`, with `D` that of [`crate::aggregation`]; it contains nothing else,
//! neither rewards nor the ratio to the policy that sampled.
//!
//! **Derivative.** With `g_b = ∂/∂log Q_b` of the outcomes: `-P_b` for `β = 0`, `Q_b·(log Q_b - log P_b + 1)` for
//! `β = 1`, `(1 - β)·Q_b·(log Q_b - log M_b)` else. With respect to logit `j`: `(g_j - Q_j·Σ_b g_b)/T`; if `j` is one
//! of the rest, `g_j` is its share of the bucket's: `g_rest·Q_j/Q_rest`.
//!
//! **Reduces to.** As `β → 0` the divergence becomes `β` times the forward KL, as `β → 1` it becomes `1 - β` times the
//! reverse KL (so the formula jumps at both ends, as the paper's and TRL's do). `β = ½` is the Jensen-Shannon
//! divergence, which is symmetric. With `K` the whole vocabulary, it is the dense form.
//!
//! **Differs from the paper and from TRL.** The dense form does not differ from TRL 1.16's `generalized_jsd_loss`
//! (`beta` is the same number; its mean over tokens is `aggregation = "bnpo"`, the default here). As there, no factor
//! `T²` makes up for the temperature. For sparse teachers, `bucket` and `renormalise` are `loss_add_tail` true and
//! false of TRL's server distillation. TRL takes the probability of the rest as `1 - Σ`, at least 1e-7, for both sides;
//! here only the teacher's is taken so, and the student's is the exact sum over the rest.
//!
//! **Example.**
//! ```
//! use burnish_rl::distillation::{Gkd, HeadLoss, Teacher};
//! let forward = Gkd { beta: 0.0, ..Gkd::default() };
//! // The teacher is sure of token 1; of the others it says nothing.
//! let teacher = Teacher::Sparse { ids: &[1], logprobs: &[0.75f64.ln()] };
//! let found = forward.evaluate_row(&[0.0, 0.0, 0.0, 0.0], teacher);
//! // The student gives it 1/4, and the rest 3/4.
//! assert!((found.value - 0.5 * 3.0f64.ln()).abs() < 1e-12);
//! assert!((found.d_logits[1] - (0.25 - 0.75)).abs() < 1e-12);
//! ```
//!
//! **Metrics.** `head_loss`, the mean divergence of a token, and `entropy`.
//!
//! **References.** Agarwal et al. 2023 (GKD), arXiv:2306.13649, eq. 1. Reverse KL: Gu et al. 2023 (MiniLLM),
//! arXiv:2306.08543.

use serde::{Deserialize, Serialize};

use super::head::{HeadEvaluation, HeadLoss, HeadTarget, Teacher};
use crate::aggregation::Aggregation;
use crate::settings::require;
use crate::{Card, Check, Evaluation, Family, Metric, Needs, Objective, Part, SettingError, Streams, Totals};

/// What happens to the tokens about which a sparse teacher says nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rest {
    /// They are one outcome.
    #[default]
    Bucket,
    /// Both distributions are those over the known tokens.
    Renormalise,
    /// They are left out of the sum.
    Ignore,
}

/// Generalised knowledge distillation. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Gkd {
    /// 0: forward KL; 1: reverse KL; between: generalised Jensen-Shannon. Default: 0.5.
    pub beta: f64,
    /// What the logits of the student and of a dense teacher are divided by; in a run, on top of the temperature at
    /// which the tokens were sampled. Default: 1.
    pub temperature: f64,
    /// What happens to the tokens about which a sparse teacher says nothing. Default: `bucket`.
    pub rest: Rest,
    /// K, how many of the teacher's likeliest tokens are used; 0 (default) is its whole distribution.
    pub top: usize,
    /// What the sum over tokens is divided by. Default: `bnpo`, the mean over the tokens of the optimiser batch.
    pub aggregation: Aggregation,
}

impl Default for Gkd {
    fn default() -> Self {
        let aggregation = Aggregation::Bnpo;
        Gkd { beta: 0.5, temperature: 1.0, rest: Rest::Bucket, top: 0, aggregation }
    }
}

impl Part for Gkd {
    const CARD: Card = Card {
        id: "gkd",
        title: "Generalised knowledge distillation",
        family: Family::Distillation,
        paper: "Agarwal et al. 2023, On-Policy Distillation of Language Models, arXiv:2306.13649",
        equation: "β·KL(P ‖ M) + (1 - β)·KL(Q ‖ M), M = β·P + (1 - β)·Q; KL(P ‖ Q) at β = 0, KL(Q ‖ P) at β = 1",
        scope: "token",
        check: Check::Golden(
            "TRL 1.16 experimental GKDTrainer.generalized_jsd_loss, \
             ServerDistillationTrainer._compute_server_forward_kl_loss",
        ),
        reconstructed: None,
        reduces_to: &[
            "forward KL at β = 0, reverse KL at β = 1",
            "dense, for a sparse teacher with every token",
        ],
        file: "crates/burnish-rl/src/distillation/gkd.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("beta", self.beta, |beta| (0.0..=1.0).contains(&beta), "must be 0 to 1")?;
        require("temperature", self.temperature, |temperature| temperature > 0.0, "must be above 0")?;
        let rule =
            "must be 0 with `rest = \"ignore\"`: otherwise it is not a divergence between two distributions";
        require("beta", self.beta, |beta| beta == 0.0 || self.rest != Rest::Ignore, rule)?;
        let rule =
            "must be 1 with `top` above 0: the teacher's log-probs come at the temperature of sampling";
        require("temperature", self.temperature, |it| it == 1.0 || self.top == 0, rule)
    }
}

impl Objective for Gkd {
    fn needs(&self) -> Needs {
        let target = if self.top > 0 { HeadTarget::Top(self.top) } else { HeadTarget::Whole };
        Needs { head: Some(target), ..Needs::default() }
    }

    fn head(&self) -> Option<&dyn HeadLoss> {
        Some(self)
    }

    fn evaluate(&self, streams: &Streams<'_>, totals: &Totals) -> Evaluation {
        let mut evaluation = Evaluation::zero(streams.policy.len());
        evaluation.head_weights = vec![0.0; streams.policy.len()];
        let mut entropy = Metric { name: "entropy", sum: 0.0, weight: 0.0 };
        for sequence in streams.sequences {
            let count = streams.loss_positions(sequence.clone()).count();
            let denominator = self.aggregation.denominator(count, totals);
            for at in streams.loss_positions(sequence.clone()) {
                evaluation.head_weights[at] = 1.0 / denominator;
                entropy.sum += streams.entropy[at];
                entropy.weight += 1.0;
            }
        }
        evaluation.metrics.push(entropy);
        evaluation
    }
}

/// The logarithm of the largest total probability that a sparse teacher's tokens may have, so that some is left for the
/// rest.
const KNOWN_MAX: f64 = -1e-7;

impl HeadLoss for Gkd {
    fn evaluate_row(&self, student_logits: &[f64], teacher: Teacher<'_>) -> HeadEvaluation {
        let student: Vec<f64> = student_logits.iter().map(|logit| logit / self.temperature).collect();
        let student = log_softmax(&student);
        match teacher {
            Teacher::Dense(logits) => {
                assert_eq!(
                    logits.len(),
                    student.len(),
                    "student and teacher have vocabularies of different size"
                );
                let teacher: Vec<f64> = logits.iter().map(|logit| logit / self.temperature).collect();
                let (value, d) = self.divergence(&student, &log_softmax(&teacher));
                self.evaluation(value, student.iter().map(|log| log.exp()).zip(d).collect())
            }
            Teacher::Sparse { ids, logprobs } => self.sparse(&student, ids, logprobs),
        }
    }

    fn soft_labels(&self, logprobs: &[f64]) -> Option<Vec<f64>> {
        let is_cross_entropy = self.beta == 0.0 && self.rest == Rest::Ignore && self.temperature == 1.0;
        is_cross_entropy.then(|| logprobs.iter().map(|log| log.exp()).collect())
    }
}

impl Gkd {
    /// Value and derivative with respect to each `student` log-prob, on the same outcomes.
    fn divergence(&self, student: &[f64], teacher: &[f64]) -> (f64, Vec<f64>) {
        let beta = self.beta;
        let of_outcome = |(&student, &teacher): (&f64, &f64)| {
            let (q, p) = (student.exp(), teacher.exp());
            if beta == 0.0 {
                (times(p, teacher - student), -p)
            } else if beta == 1.0 {
                let term = times(q, student - teacher);
                (term, term + q)
            } else {
                let mixture = log_sum_exp(&[student + (-beta).ln_1p(), teacher + beta.ln()]);
                let own = (1.0 - beta) * times(q, student - mixture);
                (beta * times(p, teacher - mixture) + own, own)
            }
        };
        let (values, d): (Vec<f64>, Vec<f64>) = student.iter().zip(teacher).map(of_outcome).unzip();
        (values.iter().sum(), d)
    }

    /// `student`: log-probs of the whole vocabulary.
    fn sparse(&self, student: &[f64], ids: &[u32], logprobs: &[f64]) -> HeadEvaluation {
        let given = ids.iter().zip(logprobs).filter(|(_, log)| log.is_finite());
        let (ids, logprobs): (Vec<u32>, Vec<f64>) = given.map(|(id, log)| (*id, *log)).unzip();
        let mut known = vec![false; student.len()];
        ids.iter().for_each(|id| known[*id as usize] = true);
        let mut own: Vec<f64> = ids.iter().map(|id| student[*id as usize]).collect();
        let mut theirs = logprobs.clone();
        let all: Vec<f64> = student.iter().map(|log| log.exp()).collect();
        if self.rest == Rest::Renormalise {
            (own, theirs) = (log_softmax(&own), log_softmax(&theirs));
            let (value, d) = self.divergence(&own, &theirs);
            let mut parts = vec![(0.0, 0.0); student.len()];
            for ((id, own), d) in ids.iter().zip(own).zip(d) {
                parts[*id as usize] = (own.exp(), d);
            }
            return self.evaluation(value, parts);
        }
        let others: Vec<f64> =
            student.iter().zip(&known).filter(|(_, known)| !**known).map(|(log, _)| *log).collect();
        let has_bucket = self.rest == Rest::Bucket && !others.is_empty();
        let others = log_sum_exp(&others);
        if has_bucket {
            own.push(others);
            theirs.push((-log_sum_exp(&logprobs).min(KNOWN_MAX).exp_m1()).ln());
        }
        let (value, d) = self.divergence(&own, &theirs);
        let mut parts: Vec<(f64, f64)> = all.iter().map(|q| (*q, 0.0)).collect();
        for (id, d) in ids.iter().zip(&d) {
            parts[*id as usize].1 = *d;
        }
        if has_bucket {
            let bucket = d[ids.len()];
            for (at, part) in parts.iter_mut().enumerate().filter(|(at, _)| !known[*at]) {
                part.1 = bucket * (student[at] - others).exp();
            }
        }
        self.evaluation(value, parts)
    }

    /// `parts`: for each token, its probability under the softmax that is differentiated, and the derivative with
    /// respect to the logarithm of that.
    fn evaluation(&self, value: f64, parts: Vec<(f64, f64)>) -> HeadEvaluation {
        let total: f64 = parts.iter().map(|(_, d)| d).sum();
        let d_logits = parts.iter().map(|(q, d)| (d - q * total) / self.temperature).collect();
        HeadEvaluation { value, d_logits }
    }
}

/// `probability · log`, or 0 if the probability is 0: an impossible token has no part in an expectation.
fn times(probability: f64, log: f64) -> f64 {
    if probability == 0.0 { 0.0 } else { probability * log }
}

fn log_sum_exp(logs: &[f64]) -> f64 {
    let max = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if max == f64::NEG_INFINITY {
        return max;
    }
    max + logs.iter().map(|log| (log - max).exp()).sum::<f64>().ln()
}

fn log_softmax(logits: &[f64]) -> Vec<f64> {
    let total = log_sum_exp(logits);
    logits.iter().map(|logit| logit - total).collect()
}
