//! A reward model: one number for a whole conversation. It judges episodes, as a component of their verdicts, or ranks the
//! answers of a strategy.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use burnish_core::{
    Abilities, Answered, Episode, Message, Node, Policy, PolicyError, StopReason, Trace, TraceError, Turn,
    TurnId, TurnOutput, Validity,
};
use burnish_model::{Loading, Model, Tokenizer, Trains};
use burnish_reason::{Strategy, StrategyConfig};
use burnish_recipe::{REWARD_MODEL, Recipe};
use burnish_tensor::Device;
use burnish_train::{Sample, score};

use crate::RunError;
use crate::policy::LoadedPolicy;

/// A model that gives a conversation a number.
pub(crate) struct RewardModel {
    /// The key that names it.
    key: String,
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
        let device = Device::open(&recipe.device)?;
        let model =
            RewardModel::open("reward.model.path", &section.path, &recipe.policy.sampling(), &device)?;
        Ok(Some(RewardModel { tokens_max: recipe.train.micro_batch_tokens, ..model }))
    }

    /// The reward model in `path`, which `key` names.
    ///
    /// # Errors
    /// As [`RewardModel::of_recipe`].
    fn open(key: &str, path: &Path, loading: &Loading, device: &Device) -> Result<Self, RunError> {
        // It reads tokens, so it needs no template of its own.
        let loaded = LoadedPolicy::values(path, loading);
        let Some(loaded) = loaded.map_err(|error| RunError::Refused(format!("{key}: {error}")))? else {
            return Err(RunError::Refused(format!(
                "{key}: {} is a model with logits; give a reward model (a `...ForSequenceClassification` with \
                 one label), such as `train.method = \"reward\"` makes",
                path.display()
            )));
        };
        let tokenizer = loaded.chat.tokenizer.clone();
        let model = loaded.on(device).model;
        Ok(RewardModel { key: key.to_owned(), model, tokenizer, tokens_max: usize::MAX })
    }

    /// Checks that it reads the tokens of a policy with this tokenizer.
    ///
    /// # Errors
    /// If its own tokenizer is another.
    pub(crate) fn check(&self, policy: &Tokenizer) -> Result<(), RunError> {
        if policy.has_the_vocabulary_of(&self.tokenizer) {
            return Ok(());
        }
        Err(RunError::Refused(format!(
            "{}: the reward model has another tokenizer than the policy, whose tokens it would have to read; \
             train one from a model with the policy's tokenizer (`train.method = \"reward\"`), or serve it and ask it from \
             a verifier command",
            self.key
        )))
    }

    /// Gives each scored episode the component: the value of the state after the last token of its conversation, the
    /// mean over conversations where several agents played. What it can't read becomes unscored.
    ///
    /// # Errors
    /// If the environment has a component of that name.
    pub(crate) fn judge(&self, episodes: &mut [Episode]) -> Result<(), RunError> {
        let (mut samples, mut counts) = (Vec::new(), Vec::new());
        for episode in &mut *episodes {
            let ends = episode.traces.iter().map(Trace::head_ids).filter(|ids| !ids.is_empty());
            let ends: Vec<Sample> = ends.map(|ids| Sample::of_text(ids).ending()).collect();
            // The end that is scored comes after the last token that is read.
            let longest = ends.iter().map(|end| end.ids.len() - 1).max();
            let reason = match (episode.verdict.is_scored(), longest) {
                (false, _) => None,
                (true, Some(longest)) if longest > self.model.context_tokens_max() => {
                    Some(self.too_long(longest))
                }
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

    fn too_long(&self, tokens: usize) -> String {
        let tokens_max = self.model.context_tokens_max();
        format!("the conversation has {tokens} tokens, and the reward model reads at most {tokens_max}")
    }

    /// What it says of a conversation with these tokens: its number, or why it gives none.
    fn say(&self, ids: Vec<u32>) -> Result<String, PolicyError> {
        if ids.is_empty() {
            return Err(PolicyError::Unable("give a number to a conversation whose tokens are not known"));
        }
        if ids.len() > self.model.context_tokens_max() {
            return Ok(self.too_long(ids.len()));
        }
        // Each by itself, so that no number depends on what is read beside it.
        let values = score(&self.model, &[Sample::of_text(ids).ending()], self.tokens_max);
        let values = values.map_err(|error| PolicyError::Failed(error.to_string()))?;
        let value = values.first().and_then(|values| values.last()).copied();
        Ok(value.map_or_else(String::new, |value| f64::from(value).to_string()))
    }
}

/// A reward model that is asked as a policy is. It reads the tokens of the trace that a turn goes on from, up to the head, and
/// says the value of the state after the last of them; where the conversation is too long for it, it says so in words.
pub(crate) struct RewardReader {
    model: RewardModel,
    asked: VecDeque<(TurnId, Trace)>,
    submitted: u64,
}

impl RewardReader {
    /// The reward model of a strategy, if it asks one; `key` names the strategy. `policy` is the tokenizer of the policy below,
    /// if that is known here.
    ///
    /// # Errors
    /// If it can't be loaded, its head does not give one number, or it can't read the policy's tokens.
    pub(crate) fn of_strategy(
        strategy: &dyn Strategy,
        key: &str,
        policy: Option<&Tokenizer>,
        device: &Device,
    ) -> Result<Option<Self>, RunError> {
        let Some(path) = strategy.reward_model() else { return Ok(None) };
        let loading = Loading { trains: Trains::Nothing, ..Loading::default() };
        let key = format!("{key}config.score.path");
        let model = RewardModel::open(&key, path, &loading, device)?;
        let policy = policy.ok_or_else(|| {
            RunError::Refused(format!("{key}: a reward model reads tokens, and the policy reports none"))
        })?;
        model.check(policy)?;
        Ok(Some(RewardReader { model, asked: VecDeque::new(), submitted: 0 }))
    }
}

impl Policy for RewardReader {
    fn abilities(&self) -> Abilities {
        Abilities::TEXT
    }

    fn version(&self) -> u64 {
        0
    }

    fn submit(&mut self, turn: Turn) -> TurnId {
        let id = TurnId(self.submitted);
        self.submitted += 1;
        self.asked.push_back((id, turn.trace));
        id
    }

    fn poll(&mut self) -> Vec<Answered> {
        let Some((id, mut trace)) = self.asked.pop_front() else { return Vec::new() };
        let result = self.model.say(trace.head_ids()).and_then(|said| {
            note(&mut trace, &said).map_err(|error| PolicyError::Failed(error.to_string()))?;
            Ok(TurnOutput::new(Message::assistant(said), StopReason::EndToken))
        });
        vec![Answered { id, trace, result }]
    }

    fn wait(&mut self) -> Vec<Answered> {
        self.poll()
    }

    fn cancel(&mut self, id: TurnId) -> bool {
        let before = self.asked.len();
        self.asked.retain(|(asked, _)| *asked != id);
        self.asked.len() < before
    }
}

/// Where the reward model of a recipe's strategy lies, if it asks one.
pub(crate) fn scores_of(strategy: Option<&StrategyConfig>) -> Option<&Path> {
    strategy?.config.pointer("/score/path")?.as_str().map(Path::new)
}

/// Adds to a trace what was said. No token of it was sampled, so all tokens of the trace count as read.
fn note(trace: &mut Trace, said: &str) -> Result<(), TraceError> {
    let text = said.to_owned();
    let node = Node { parent: trace.head(), text, ids: Vec::new(), sources: Vec::new(), sampled: None };
    trace.push(node).map(|_| ())
}
