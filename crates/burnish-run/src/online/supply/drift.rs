//! How far the policy has moved on a task since it last played it.

use std::collections::BTreeMap;

use burnish_rl::fact::{Need, TASK_DRIFT};
use burnish_train::Sample;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Groups, Kind, Made, Making, Provider, Step};
use crate::RunError;
use crate::learner::Learner;
use crate::online::part;
use burnish_recipe::Recipe;
use burnish_recipe::supply::OF_DRIFT;
use burnish_rundir::metrics::Values;

pub(super) const KIND: Kind = Kind { supply: &OF_DRIFT, make };

/// Its key in the state of a checkpoint.
const KEY: &str = "moved";

fn make(making: &Making<'_>) -> Result<Made, RunError> {
    Ok(Some(Box::new(part::<TaskDrift>(&making.state[KEY])?)))
}

/// The last answer to each task, with its log-probs under the model that sampled it. The present policy is compared
/// with these.
#[derive(Default, Serialize, Deserialize)]
struct TaskDrift(BTreeMap<String, Played>);

impl Provider for TaskDrift {
    fn supply(&mut self, _: &[&Need], step: Step<'_>, groups: &mut Groups) -> Result<Values, RunError> {
        let drifts = self.since(step.recipe, step.learner, groups)?;
        for (group, drift) in groups.kept_mut().zip(drifts) {
            group.members.iter_mut().for_each(|member| member.facts.set(&TASK_DRIFT, [drift]));
        }
        self.keep(groups);
        Ok(Values::new())
    }

    fn state(&self) -> Option<(&'static str, Value)> {
        Some((KEY, json!(self)))
    }
}

/// An answer to a task.
#[derive(Clone, Serialize, Deserialize)]
struct Played {
    ids: Vec<u32>,
    /// Where the answer starts.
    first: usize,
    logprobs: Vec<f32>,
    temperature: f32,
}

impl Played {
    fn of(sample: &Sample) -> Option<Self> {
        let first = sample.scored().next()?;
        // Tokens of later prompts are not the policy's; its first stretch of own tokens is enough to compare.
        let end = (first..sample.ids.len()).find(|at| !sample.loss_mask[*at]).unwrap_or(sample.ids.len());
        Some(Played {
            ids: sample.ids[..end].to_vec(),
            first,
            logprobs: sample.model_logprobs[first..end].to_vec(),
            temperature: sample.temperatures[first],
        })
    }

    fn sample(&self) -> Sample {
        let tokens = self.ids.len();
        Sample {
            ids: self.ids.clone(),
            loss_mask: (0..tokens).map(|at| at >= self.first).collect(),
            model_logprobs: vec![0.0; tokens],
            sampled_logprobs: vec![0.0; tokens],
            temperatures: vec![self.temperature; tokens],
            advantages: vec![0.0; tokens],
            ..Sample::default()
        }
    }
}

impl TaskDrift {
    /// For the task of each trained group, an estimate of the KL divergence, in nats per token, of the policy that
    /// last played it from the present one, computed from the tokens sampled then; 0 if the task was never played.
    ///
    /// # Errors
    /// If an answer does not fit the model.
    fn since(&self, recipe: &Recipe, learner: &Learner, groups: &Groups) -> Result<Vec<f64>, RunError> {
        let known: Vec<Option<&Played>> = groups.kept().map(|group| self.0.get(&group.task.id.0)).collect();
        let samples: Vec<Sample> = known.iter().flatten().map(|played| played.sample()).collect();
        let mut scored = learner.score(&samples, recipe.train.micro_batch_tokens)?.into_iter();
        let kl = |played: &Option<&Played>| {
            let (Some(played), Some(now)) = (played, played.and_then(|_| scored.next())) else { return 0.0 };
            let moved = played.logprobs.iter().zip(&now[played.first..]);
            let sum: f64 = moved.map(|(then, now)| f64::from(then - now)).sum();
            // With few tokens the estimate may be negative, which no divergence is.
            (sum / played.logprobs.len().max(1) as f64).max(0.0)
        };
        Ok(known.iter().map(kl).collect())
    }

    /// Stores one answer to each task of a step.
    fn keep(&mut self, groups: &Groups) {
        let samples: Vec<_> = groups.samples().collect();
        for (group, _, own) in samples.into_iter().rev() {
            if let Some(played) = Played::of(&own.sample) {
                self.0.insert(group.task.id.0.clone(), played);
            }
        }
    }
}
