//! The policy before training, and how far training has moved away from it.

use std::borrow::Borrow;
use std::path::Path;
use std::sync::Arc;

use burnish_model::{Chat, Model};
use burnish_rl::kl::KlEstimator;
use burnish_tensor::Device;
use burnish_train::{Sample, score};

use crate::RunError;
use crate::learner::Learner;
use crate::policy::LoadedPolicy;
use burnish_recipe::Recipe;

/// The policy before training.
pub(crate) enum Reference {
    /// A frozen copy.
    Copy(Arc<Model>),
    /// The trained policy without its adapter, if an adapter is what is trained, as a server does.
    WithoutAdapter,
}

impl Reference {
    /// The policy of a recipe before training; `None` if the recipe gives the distance from it no weight. `chat` is
    /// the policy's: its template wrote what is scored.
    ///
    /// # Errors
    /// If it can't be loaded.
    pub(crate) fn new(recipe: &Recipe, chat: &Chat) -> Result<Option<Self>, RunError> {
        if !Reference::is_needed(recipe)? {
            return Ok(None);
        }
        let Some(path) = &recipe.policy.path else {
            return Err(RunError::Refused("policy: a reference needs `policy.path`".into()));
        };
        if recipe.trainer.is_some() || !Reference::is_copied(recipe, path)? {
            return Ok(Some(Reference::WithoutAdapter));
        }
        let policy = LoadedPolicy::load_with(path, &chat.template, &recipe.policy.sampling())?;
        let policy = policy.on(&Device::open(&recipe.device)?);
        Ok(Some(Reference::Copy(policy.model)))
    }

    /// Does a recipe measure how far training moves away?
    ///
    /// # Errors
    /// If its loss can't be built.
    pub(crate) fn is_needed(recipe: &Recipe) -> Result<bool, RunError> {
        Ok(recipe.loss.beta != 0.0 || recipe.loss.build()?.needs().reference)
    }

    /// Is the reference of a policy that starts in `path` a model beside it, and not the policy without its adapter? If
    /// training continues an adapter, that adapter belongs to the reference.
    ///
    /// # Errors
    /// If an adapter there can't be used.
    pub(crate) fn is_copied(recipe: &Recipe, path: &Path) -> Result<bool, RunError> {
        Ok(recipe.policy.lora.is_none() || Model::base_of(path)?.is_some())
    }

    /// The log-probs of samples under the reference, one entry per token.
    ///
    /// # Errors
    /// If a sample does not fit the model.
    pub(crate) fn logprobs<S: Borrow<Sample>>(
        &self,
        learner: &Learner,
        samples: &[S],
        tokens_max: usize,
    ) -> Result<Vec<Vec<f32>>, RunError> {
        Ok(match self {
            Reference::Copy(model) => score(model, samples, tokens_max)?,
            Reference::WithoutAdapter => learner.score_base(samples, tokens_max)?,
        })
    }
}

/// The KL divergence of one episode from the reference, estimated from its sampled tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct EpisodeKl {
    /// Sum over its tokens.
    pub(crate) sum: f64,
    /// Number of these tokens.
    pub(crate) tokens: usize,
}

impl EpisodeKl {
    /// Adds the tokens of a sample that has its reference log-probs.
    pub(crate) fn add(&mut self, sample: &Sample, estimator: KlEstimator) {
        let Some(reference) = &sample.reference else { return };
        for at in sample.scored() {
            let (policy, reference) = (f64::from(sample.old(at)), f64::from(reference[at]));
            self.sum += estimator.evaluate(policy, reference).0;
            self.tokens += 1;
        }
    }
}

/// Mean over episodes of the mean over tokens, as in verl, and the number of episodes that have tokens.
pub(crate) fn mean_kl(episodes: &[EpisodeKl]) -> (f64, usize) {
    let means: Vec<f64> =
        episodes.iter().filter(|kl| kl.tokens > 0).map(|kl| kl.sum / kl.tokens as f64).collect();
    (means.iter().sum::<f64>() / means.len().max(1) as f64, means.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kl_of_an_episode_counts_scored_tokens_and_long_episodes_weigh_no_more_than_short_ones() {
        let sample = |policy: &[f32], reference: &[f32]| Sample {
            loss_mask: (0..policy.len()).map(|at| at > 0).collect(),
            model_logprobs: policy.to_vec(),
            reference: Some(reference.to_vec()),
            ..Sample::default()
        };
        let (mut long, mut short) = (EpisodeKl::default(), EpisodeKl::default());
        long.add(&sample(&[9.0, -1.0, -1.0, -2.0], &[0.0, -1.5, -2.0, -2.0]), KlEstimator::K1);
        long.add(&sample(&[9.0, -1.0], &[0.0, -1.5]), KlEstimator::K1);
        short.add(&sample(&[9.0, -1.0], &[0.0, -4.0]), KlEstimator::K1);
        assert_eq!(long, EpisodeKl { sum: 2.0, tokens: 4 });
        assert_eq!(mean_kl(&[long, EpisodeKl::default(), short]), ((0.5 + 3.0) / 2.0, 2));
        assert_eq!(mean_kl(&[]), (0.0, 0));
    }
}
