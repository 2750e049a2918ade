//! A reward model that judges episodes: one number for a whole conversation, as a component of its verdict.

use std::sync::Arc;

use burnish_core::{Episode, Validity};
use burnish_model::{Model, Tokenizer};
use burnish_recipe::{REWARD_MODEL, Recipe};
use burnish_tensor::Device;
use burnish_train::{Sample, score};

use crate::RunError;
use crate::policy::LoadedPolicy;

/// The model of `[reward.model]`.
pub(crate) struct RewardModel {
    model: Arc<Model>,
    tokenizer: Arc<Tokenizer>,
    /// Tokens that go through it together.
    tokens_max: usize,
}

impl RewardModel {
    /// The reward model of a recipe; `None` if it names none.
    ///
    /// # Errors
    /// If it can't be loaded, or its head does not give one number.
    pub(crate) fn of_recipe(recipe: &Recipe) -> Result<Option<Self>, RunError> {
        let Some(section) = &recipe.reward.model else { return Ok(None) };
        // It reads the tokens of episodes, so it needs no template of its own.
        let loaded = LoadedPolicy::values(&section.path, &recipe.policy.sampling())?;
        let Some(loaded) = loaded else {
            return Err(RunError::Refused(format!(
                "reward.model.path: {} is a model with logits; give a reward model (a `...ForSequenceClassification` with \
                 one label), such as `train.method = \"reward\"` makes",
                section.path.display()
            )));
        };
        let tokenizer = loaded.chat.tokenizer.clone();
        let model = loaded.on(&Device::open(&recipe.device)?).model;
        Ok(Some(RewardModel { model, tokenizer, tokens_max: recipe.train.micro_batch_tokens }))
    }

    /// Checks that it reads the tokens of a policy with this tokenizer.
    ///
    /// # Errors
    /// If its own tokenizer is another.
    pub(crate) fn check(&self, policy: &Tokenizer) -> Result<(), RunError> {
        if policy.has_the_vocabulary_of(&self.tokenizer) {
            return Ok(());
        }
        Err(RunError::Refused(
            "reward.model.path: the reward model has another tokenizer than the policy, whose tokens it would have to read; \
             train one from a model with the policy's tokenizer (`train.method = \"reward\"`), or serve it and ask it from \
             a verifier command"
                .into(),
        ))
    }

    /// Gives each scored episode the component: the value of the state after the last token of its conversation, the
    /// mean over conversations where several agents played. What it can't read becomes unscored.
    ///
    /// # Errors
    /// If the environment has a component of that name.
    pub(crate) fn judge(&self, episodes: &mut [Episode]) -> Result<(), RunError> {
        let (mut samples, mut counts) = (Vec::new(), Vec::new());
        for episode in &mut *episodes {
            let ends = episode.traces.iter().filter_map(|trace| trace.branches().pop());
            let ends: Vec<Sample> = ends.map(|branch| Sample::of_text(branch.ids).ending()).collect();
            // The end that is scored comes after the last token that is read.
            let longest = ends.iter().map(|end| end.ids.len() - 1).max();
            let tokens_max = self.model.context_tokens_max();
            let reason = match (episode.verdict.is_scored(), longest) {
                (false, _) => None,
                (true, Some(longest)) if longest > tokens_max => Some(format!(
                    "the conversation has {longest} tokens, and the reward model reads at most {tokens_max}"
                )),
                (true, Some(longest)) if longest > 0 => {
                    counts.push(ends.len());
                    samples.extend(ends);
                    continue;
                }
                (true, _) => {
                    Some("the tokens of its policy are not known, which the reward model reads".to_owned())
                }
            };
            if let Some(reason) = reason {
                episode.verdict.validity = Validity::Unscored { reason };
            }
            counts.push(0);
        }
        let mut values = score(&self.model, &samples, self.tokens_max)?.into_iter();
        for (episode, count) in episodes.iter_mut().zip(counts).filter(|(_, count)| *count > 0) {
            let ends = values.by_ref().take(count).filter_map(|values| values.last().copied());
            let value = ends.map(f64::from).sum::<f64>() / count as f64;
            let verdict = &mut episode.verdict;
            if verdict.rewards.insert(REWARD_MODEL.into(), value).is_some() {
                return Err(RunError::Refused(format!(
                    "reward.model: the environment gives a reward `{REWARD_MODEL}` itself; leave one of them out"
                )));
            }
            if !verdict.has_success {
                // For code that needs a yes or no; it is not reported.
                verdict.success = verdict.rewards.values().sum::<f64>() > 0.0;
            }
        }
        Ok(())
    }
}
