//! What latent steps do: answers with other hidden states in them, when the policy would leave a span, and whether one can
//! tell from a hidden state that a span begins next (probes of SWITCH, arXiv:2606.13106).

use std::sync::Arc;

use burnish_core::{Branch, Episode, Intervention, Latent, LatentInput, LatentPlace, Trace, rng};
use burnish_engine::LatentIds;
use burnish_eval::cells::auroc;
use burnish_eval::logistic::Logistic;
use burnish_model::{Model, Packed, PutInputs};
use burnish_tensor::{Layout, Tape, Visibility};
use serde::Serialize;

use crate::RunError;
use crate::evaluate::play;
use crate::inspect::Target;
use crate::policy::LoadedPolicy;
use crate::tasks::Tasks;

/// Most positions that the linear probe is fitted on.
const FITTED_MAX: usize = 4000;

/// A policy that thinks in latent steps.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LatentProfile {
    /// Episodes that were played under each intervention.
    pub episodes: usize,
    /// Latent steps of an answer, on average.
    pub steps: f64,
    /// The share of answers with a latent step.
    pub used: f64,
    /// Without an intervention, then under each of them.
    pub interventions: Vec<Intervened>,
    /// Whether it would leave a span after so many latent steps; none where there are no spans.
    pub leaving: Vec<Leaving>,
    /// The linear probe; `None` where no answer opens a span, or every token does.
    pub opening: Option<Opening>,
}

/// Answers under an intervention.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Intervened {
    /// Its name; `none`, or that of [`Intervention`].
    pub name: &'static str,
    /// The share of right answers.
    pub success: f64,
    /// The same of the tasks that are answered rightly, with a latent step, without an intervention. `None` if there are
    /// none.
    pub success_of_right: Option<f64>,
}

/// What the policy says of leaving a span.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Leaving {
    /// Latent steps so far.
    pub steps: usize,
    /// Spans that came so far.
    pub spans: usize,
    /// The probability of `</swi>` among all tokens, mean.
    pub probability: f64,
    /// How often it is the likeliest token.
    pub likeliest: f64,
}

/// A linear probe of the last hidden state at each token for whether the policy then opens a span: fitted on about half of
/// the tasks, measured on the others.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Opening {
    /// Positions that it was fitted on, and measured on.
    pub fitted_on: usize,
    /// Positions that it was measured on.
    pub measured_on: usize,
    /// The share of these after which a span opens.
    pub opens: f64,
    /// Area under the ROC curve; 0.5 is chance.
    pub auroc: f64,
    /// The share of right guesses.
    pub accuracy: f64,
    /// The same for whoever always guesses what is more frequent.
    pub accuracy_of_guess: f64,
    /// The same for a probe that was fitted on the same positions with shuffled labels. (Its area under the curve would say
    /// nothing: that does not depend on how small the weights are.)
    pub accuracy_shuffled: f64,
}

impl Target {
    /// Looks at the latent steps of the policy's answers to held-out tasks; at most `tasks` of them.
    ///
    /// # Errors
    /// If the recipe has no latent steps that read hidden states, nothing is held out, or the policy is on a server or a
    /// GPU, or can't be loaded.
    pub fn latent(&self, tasks: usize) -> Result<LatentProfile, RunError> {
        self.refuse_nothing_held_out()?;
        let is_recurrent =
            |latent: &Latent| latent.input == LatentInput::Hidden && latent.place != LatentPlace::Visible;
        let rule = self.recipe().rollout_sampling().latent.filter(is_recurrent).ok_or_else(|| {
            RunError::Refused(
                "latent: the recipe has no latent steps that read hidden states, so there is nothing to look at".into(),
            )
        })?;
        let mut sets = Tasks::make(self.recipe(), false)?;
        let policy = self.load()?;
        if !policy.model.params.device().is_cpu() || policy.model.visibility() != Visibility::Causal {
            return Err(RunError::Refused(
                "device: latent steps of causal models are looked at on the CPU; say `device=\"cpu\"`".into(),
            ));
        }
        let Some(set) = sets.evaluations.first_mut() else {
            return self.refuse_nothing_held_out().map(|()| LatentProfile::default());
        };
        let count = tasks.min(set.tasks.len());
        let mut under = |intervention| {
            set.sampling.latent = Some(Latent { intervention, ..rule.clone() });
            let mut sampler = policy.sampler(0, self.recipe().rollout.limits());
            play(self.recipe(), &mut sampler, set, 0..count, None)
        };
        let plain = under(None)?;
        let others = Intervention::ALL.into_iter().map(|other| Ok((other.name(), under(Some(other))?)));
        let others = others.collect::<Result<Vec<_>, RunError>>()?;
        let looked = Looked::at(&policy, &plain)?;
        let right: Vec<bool> =
            plain.iter().map(|episode| episode.verdict.success && episode.latent_steps() > 0).collect();
        let of = |(name, episodes): (&'static str, &[Episode])| {
            let successes = || episodes.iter().map(|episode| episode.verdict.success);
            let of_right = successes().zip(&right).filter(|(_, right)| **right).map(|(success, _)| success);
            Intervened { name, success: share(successes()).unwrap_or(0.0), success_of_right: share(of_right) }
        };
        let all = std::iter::once(("none", &*plain)).chain(others.iter().map(|(name, own)| (*name, &**own)));
        let mean = |sum: usize| sum as f64 / plain.len().max(1) as f64;
        Ok(LatentProfile {
            episodes: plain.len(),
            steps: mean(plain.iter().map(Episode::latent_steps).sum()),
            used: mean(plain.iter().filter(|episode| episode.latent_steps() > 0).count()),
            interventions: all.map(of).collect(),
            leaving: if rule.place == LatentPlace::Spans { looked.leaving() } else { Vec::new() },
            opening: looked.opening(),
        })
    }
}

/// The share of those that hold; `None` of nothing.
fn share(all: impl Iterator<Item = bool>) -> Option<f64> {
    let (mut held, mut count) = (0, 0);
    all.for_each(|one| (held, count) = (held + u32::from(one), count + 1));
    (count > 0).then(|| f64::from(held) / f64::from(count))
}

/// What was seen in answers.
#[derive(Default)]
struct Looked {
    /// In spans: latent steps so far, the probability of `</swi>`, and whether it is the likeliest.
    inside: Vec<(usize, f64, bool)>,
    /// Outside of them: the number of the episode, the hidden state, and whether a span opens next.
    outside: Vec<(usize, Vec<f64>, bool)>,
}

impl Looked {
    fn at(policy: &LoadedPolicy, episodes: &[Episode]) -> Result<Self, RunError> {
        let ids = LatentIds::of(&policy.chat.tokenizer)
            .map_err(|problem| RunError::Refused(format!("latent: {problem}")))?;
        let mut looked = Looked::default();
        for (number, episode) in episodes.iter().enumerate() {
            for branch in episode.traces.iter().flat_map(Trace::branches) {
                looked.look(&policy.model, ids, number, &branch);
            }
        }
        Ok(looked)
    }

    /// Reads an answer once more, with what its latent steps read.
    fn look(&mut self, model: &Model, ids: LatentIds, number: usize, branch: &Branch) {
        let positions: Arc<[u32]> = (0..branch.ids.len() as u32).collect();
        let layout = Arc::new(Layout::causal(&[branch.ids.len()]));
        let mut mixer = Packed { layout, shape: model.head_shape() };
        let mut put = PutInputs {
            rows: branch.latents.iter().map(|step| step.at as u32).collect(),
            inputs: branch.latents.iter().flat_map(|step| &step.input).copied().collect(),
        };
        let mut tape = Tape::inference(&model.params);
        let hidden = model.forward_tapped(&mut tape, &branch.ids, &positions, &mut mixer, &mut put);
        let width = hidden.cols();
        // What follows each row of an answer: a token that was sampled, or what a span goes on with.
        let mut spans: Vec<(u32, usize)> = Vec::new();
        let mut steps = None;
        for at in branch.turns.iter().flat_map(Clone::clone) {
            let row = at - 1;
            if let Some(so_far) = steps {
                spans.push((row as u32, so_far));
            } else if branch.sampled_mask[at] {
                let state = &hidden.data()[row * width..][..width];
                let state = state.iter().map(|x| f64::from(*x)).collect();
                self.outside.push((number, state, branch.ids[at] == ids.open));
            }
            steps = match branch.ids[at] {
                id if id == ids.open => Some(0),
                id if id == ids.step => steps.map(|steps| steps + 1),
                _ => None,
            };
        }
        if spans.is_empty() {
            return;
        }
        let rows = tape.gather(&hidden, &spans.iter().map(|(row, _)| *row).collect::<Vec<u32>>());
        let logits = model.logits(&mut tape, &rows);
        for ((_, so_far), row) in spans.iter().zip(logits.data().chunks_exact(logits.cols())) {
            let known =
                || (0..row.len() as u32).filter(|id| model.vocab().contains(*id)).map(|id| row[id as usize]);
            let max = known().fold(f32::NEG_INFINITY, f32::max);
            let sum: f64 = known().map(|logit| f64::from(logit - max).exp()).sum();
            let close = row[ids.close as usize];
            self.inside.push((*so_far, f64::from(close - max).exp() / sum, close >= max));
        }
    }

    fn leaving(&self) -> Vec<Leaving> {
        let most = self.inside.iter().map(|(steps, ..)| steps + 1).max().unwrap_or(0);
        let of = |steps: usize| {
            let own: Vec<_> = self.inside.iter().filter(|(so_far, ..)| *so_far == steps).collect();
            let count = own.len().max(1) as f64;
            Leaving {
                steps,
                spans: own.len(),
                probability: own.iter().map(|(_, probability, _)| probability).sum::<f64>() / count,
                likeliest: own.iter().filter(|(.., likeliest)| *likeliest).count() as f64 / count,
            }
        };
        (0..most).map(of).filter(|leaving| leaving.spans > 0).collect()
    }

    fn opening(&self) -> Option<Opening> {
        let is_fitted_on = |number: usize| rng::bits(SPLIT, number as u64).is_multiple_of(2);
        let (fitted, measured): (Vec<_>, Vec<_>) =
            self.outside.iter().partition(|(number, ..)| is_fitted_on(*number));
        let fitted = &fitted[..fitted.len().min(FITTED_MAX)];
        let rows: Vec<Vec<f64>> = fitted.iter().map(|(_, state, _)| state.clone()).collect();
        let mut labels: Vec<bool> = fitted.iter().map(|(.., opens)| *opens).collect();
        let truth: Vec<bool> = measured.iter().map(|(.., opens)| *opens).collect();
        let told = |labels: &[bool]| -> Option<(f64, f64)> {
            let probe = Logistic::fit(&rows, labels)?;
            let said: Vec<f64> = measured.iter().map(|(_, state, _)| probe.probability(state)).collect();
            let right = said.iter().zip(&truth).filter(|(said, truth)| (**said > 0.5) == **truth).count();
            Some((auroc(&said, &truth)?, right as f64 / truth.len() as f64))
        };
        let (auroc, accuracy) = told(&labels)?;
        rng::Stream::new(SPLIT).shuffle(&mut labels);
        let (_, accuracy_shuffled) = told(&labels)?;
        let opens = share(truth.iter().copied())?;
        Some(Opening {
            fitted_on: rows.len(),
            measured_on: truth.len(),
            opens,
            auroc,
            accuracy,
            accuracy_of_guess: opens.max(1.0 - opens),
            accuracy_shuffled,
        })
    }
}

/// Seed of the split, and of the control's labels.
const SPLIT: u64 = 0x6c61_7465_6e74;

#[cfg(test)]
mod tests {
    use super::*;

    /// Hidden states whose first number tells what follows, or tells nothing.
    fn looked(tells: bool) -> Looked {
        let mut stream = rng::Stream::new(5);
        let outside = (0..600).map(|at| {
            let opens = stream.uniform() < 0.3;
            let told = if tells { f64::from(opens) } else { 0.0 };
            (at / 3, vec![told + 0.2 * stream.normal(), stream.normal()], opens)
        });
        Looked { outside: outside.collect(), ..Looked::default() }
    }

    #[test]
    fn a_linear_probe_finds_what_is_there_and_its_control_does_not() {
        let found = looked(true).opening().unwrap();
        assert!(found.auroc > 0.95 && found.accuracy > 0.9, "{found:?}");
        assert!(found.accuracy_shuffled < found.accuracy_of_guess + 0.05, "{found:?}");
        assert_eq!(found.fitted_on + found.measured_on, 600);
        let chance = looked(false).opening().unwrap();
        assert!((0.3..0.7).contains(&chance.auroc), "{chance:?}");
        assert!(chance.accuracy < chance.accuracy_of_guess + 0.05, "{chance:?}");
        assert_eq!(Looked::default().opening(), None);
    }

    #[test]
    fn leaving_is_counted_by_the_steps_so_far() {
        let looked = Looked {
            inside: vec![(0, 0.2, false), (1, 0.9, true), (0, 0.4, true), (2, 1.0, true)],
            ..Looked::default()
        };
        let leaving = looked.leaving();
        let found: Vec<_> = leaving.iter().map(|one| (one.steps, one.spans, one.likeliest)).collect();
        assert_eq!(found, [(0, 2, 0.5), (1, 1, 1.0), (2, 1, 1.0)]);
        assert!((leaving[0].probability - 0.3).abs() < 1e-12);
    }
}
