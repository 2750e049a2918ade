//! The server that trains in place of this process, if the recipe names one (`[trainer]`).

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burnish_core::rng::{Address, Purpose};
use burnish_model::{Chat, ModelConfig};
use burnish_recipe::{Method, Recipe};
use burnish_remote::tinker::{self, Adam, Bounds, Saved, Tinker};
use burnish_remote::tokens::{TokenPolicy, TokenServer};
use burnish_rl::{Objective, RatioBounds, Totals};
use burnish_train::adamw::AdamwConfig;
use burnish_train::{
    Checkpointing, Pass, Sample, Slope, Surrogate, TrainError, TrainerConfig, Update, differentiate,
    surrogate,
};
use serde::Deserialize;
use serde_json::Value;

use crate::RunError;
use crate::policy::Sampler;

/// The key of its state in the state of a checkpoint.
pub(crate) const TRAINER: &str = "trainer";

/// A server that samples and trains a policy.
pub(crate) struct TrainingServer {
    tinker: Arc<Tinker>,
    /// Ids of the model's head that the tokenizer does not have, ascending.
    missing_ids: Vec<u32>,
    config: TrainerConfig,
    updates: AtomicU64,
    /// The log-probs of sequences under the present weights. A correction asks for those that an update needs as well.
    known: Mutex<BTreeMap<Vec<u32>, Vec<f32>>>,
}

impl TrainingServer {
    /// The server of a recipe that names one, with a policy as `saved` in a checkpoint says, or anew.
    ///
    /// # Errors
    /// If it can't be used.
    pub(crate) fn connect(
        recipe: &Recipe,
        chat: &Chat,
        model: &ModelConfig,
        saved: Option<&Value>,
    ) -> Result<Self, RunError> {
        let Some(config) = &recipe.trainer else {
            return Err(RunError::Refused("trainer: the recipe names none".into()));
        };
        let from: Option<Saved> = saved.map(Saved::deserialize).transpose().map_err(|error| {
            let problem = format!("the checkpoint does not say what the trainer has of this run: {error}");
            RunError::Refused(problem)
        })?;
        let seed = Address::new(recipe.run.seed, Purpose::Init).seed();
        let context = model.max_position_embeddings;
        let bounds = match recipe.train.method {
            Method::Grpo => recipe.loss.build()?.surrogate().map(bounds),
            Method::Sft | Method::Preference | Method::Reward | Method::None => None,
        };
        let tinker = Tinker::connect(config, seed, context, bounds, from.as_ref())?;
        let own = recipe.trainer_config(Checkpointing::Off.always());
        if own.grad_norm_max.is_some() && !tinker.clips() {
            let problem = format!(
                "optimizer.max_grad_norm: the server at {} does not limit the norm of gradients; set it to 0",
                config.url
            );
            return Err(RunError::Refused(problem));
        }
        Ok(TrainingServer {
            tinker,
            missing_ids: (0..model.vocab_size as u32).filter(|id| !chat.tokenizer.id_exists(*id)).collect(),
            config: own,
            updates: AtomicU64::new(from.map_or(0, |saved| saved.updates)),
            known: Mutex::default(),
        })
    }

    pub(crate) fn updates(&self) -> u64 {
        self.updates.load(Ordering::Relaxed)
    }

    pub(crate) fn context_tokens_max(&self) -> usize {
        self.tinker.context_tokens_max()
    }

    pub(crate) fn take_notes(&self) -> Vec<String> {
        self.tinker.take_notes()
    }

    /// What it was found to do with gradients, for a person.
    pub(crate) fn habits(&self) -> String {
        self.tinker.habits()
    }

    /// A policy of the present weights, which have had `version` updates.
    ///
    /// # Errors
    /// If the server can't make them ready.
    pub(crate) fn sampler(&self, chat: &Arc<Chat>, version: u64) -> Result<Sampler, RunError> {
        self.tinker.serve(version)?;
        let tinker: Arc<Tinker> = Arc::clone(&self.tinker);
        Ok(Sampler::Remote(Box::new(TokenPolicy::new(tinker, chat, &self.missing_ids, version))))
    }

    /// The name of the present weights there, under which they are sampled from.
    ///
    /// # Errors
    /// If the server can't make them ready.
    pub(crate) fn served_as(&self) -> Result<String, RunError> {
        Ok(self.tinker.serve(self.updates())?)
    }

    /// The log-probs of samples, one entry per token: 0 where it is not scored.
    ///
    /// # Errors
    /// If the server can't score them, or they were sampled at another temperature than 1.
    pub(crate) fn score<S: Borrow<Sample>>(&self, samples: &[S]) -> Result<Vec<Vec<f32>>, RunError> {
        let whole = self.whole(samples)?;
        Ok(whole.into_iter().zip(samples).map(|(found, sample)| masked(found, sample.borrow())).collect())
    }

    /// As [`TrainingServer::score`], under the base model.
    ///
    /// # Errors
    /// As [`TrainingServer::score`].
    pub(crate) fn score_base<S: Borrow<Sample>>(&self, samples: &[S]) -> Result<Vec<Vec<f32>>, RunError> {
        check(samples)?;
        let read = samples.iter().map(|sample| read(sample.borrow()));
        let read: Vec<&[u32]> = read.filter(|ids| !ids.is_empty()).collect();
        let mut found = self.tinker.score_base(&read)?.into_iter();
        let of = |sample: &S| {
            let sample = sample.borrow();
            let own = if read_any(sample) { found.next() } else { None };
            masked(own.unwrap_or_default(), sample)
        };
        Ok(samples.iter().map(of).collect())
    }

    /// The log-probs of all tokens up to the last scored one; none where no token is scored.
    fn whole<S: Borrow<Sample>>(&self, samples: &[S]) -> Result<Vec<Vec<f32>>, RunError> {
        check(samples)?;
        let known = &mut *self.known();
        let mut asked: Vec<&[u32]> = samples.iter().map(|sample| read(sample.borrow())).collect();
        asked.retain(|ids| !ids.is_empty() && !known.contains_key(*ids));
        asked.sort_unstable();
        asked.dedup();
        for (ids, found) in asked.iter().zip(self.tinker.score(&asked)?) {
            known.insert(ids.to_vec(), found);
        }
        let of = |sample: &S| known.get(read(sample.borrow())).cloned().unwrap_or_default();
        Ok(samples.iter().map(of).collect())
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Vec<u32>, Vec<f32>>> {
        // Nothing that holds the lock panics.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of an objective on each group of samples, and its numbers.
    ///
    /// # Errors
    /// As [`TrainingServer::score`], and if the samples do not fit the objective.
    pub(crate) fn measure(
        &self,
        samples: &[Sample],
        objective: &dyn Objective,
        totals: &Totals,
    ) -> Result<Vec<Pass>, RunError> {
        let (logprobs, mut at) = (self.score(samples)?, 0);
        let measured = samples.chunk_by(|one, other| one.group == other.group).map(|group| {
            at += group.len();
            let slope = differentiate(group, &logprobs[at - group.len()..at], objective, totals)?;
            let Slope { loss, metrics, tokens_scored, drift, .. } = slope;
            Ok(Pass { loss, metrics, tokens_scored, drift, ..Pass::default() })
        });
        measured.collect()
    }

    /// One update at learning rate `lr`.
    ///
    /// # Errors
    /// As [`TrainingServer::measure`], if a number is not finite, or if the server can't make it.
    pub(crate) fn update(
        &self,
        minibatch: &[&Sample],
        objective: &dyn Objective,
        totals: &Totals,
        lr: f64,
    ) -> Result<Update, RunError> {
        check(minibatch)?;
        let bounds = objective.surrogate().map(bounds);
        let surrogate = match bounds.filter(|bounds| self.tinker.clips_at(*bounds)) {
            Some(_) => surrogate(minibatch, objective, totals)?,
            None => None,
        };
        let (slope, tokens) = match surrogate {
            Some(surrogate) => self.update_clipped(minibatch, &surrogate, objective, totals, lr)?,
            None => self.update_sloped(minibatch, objective, totals, lr)?,
        };
        self.known().clear();
        self.updates.fetch_add(1, Ordering::Relaxed);
        Ok(Update {
            is_made: true,
            head_grad_norm: None,
            loss: slope.loss,
            // The server keeps its gradient to itself.
            grad_norm: None,
            metrics: slope.metrics,
            tokens,
            tokens_scored: slope.tokens_scored,
            micro_batches: 1,
            drift: slope.drift,
        })
    }

    /// An update by the derivative at the log-probs that the server tells. Returns what the objective says, and how many
    /// tokens the server read for it.
    fn update_sloped(
        &self,
        minibatch: &[&Sample],
        objective: &dyn Objective,
        totals: &Totals,
        lr: f64,
    ) -> Result<(Slope, usize), RunError> {
        let known = self.whole(minibatch)?;
        let slope = differentiate(minibatch, &known, objective, totals)?;
        self.check_finite(&slope.d_logprobs, slope.loss)?;
        let is_sent = is_sent(minibatch, &slope.d_logprobs);
        let slopes = slopes(minibatch, &is_sent, &known, &slope.d_logprobs);
        if !slopes.is_empty() {
            self.tinker.update(&slopes, &self.adam(lr))?;
        }
        let tokens = slopes.iter().map(|slope| slope.ids.len()).sum();
        Ok((slope, tokens))
    }

    /// The same by the server's own loss: it need not tell the log-probs first.
    fn update_clipped(
        &self,
        minibatch: &[&Sample],
        surrogate: &Surrogate,
        objective: &dyn Objective,
        totals: &Totals,
        lr: f64,
    ) -> Result<(Slope, usize), RunError> {
        self.check_finite(&surrogate.d_logprobs, 0.0)?;
        let is_sent = is_sent(minibatch, &surrogate.d_logprobs);
        // Those that are not sent are in the numbers of the update.
        let rest = minibatch.iter().zip(&is_sent).filter(|(_, is_sent)| !**is_sent);
        let mut rest = self.whole(&rest.map(|(sample, _)| *sample).collect::<Vec<_>>())?.into_iter();
        let slopes = slopes(minibatch, &is_sent, &surrogate.proximal, &surrogate.d_logprobs);
        let mut sent = match slopes.is_empty() {
            true => Vec::new(),
            false => self.tinker.update_clipped(bounds(surrogate.bounds), &slopes, &self.adam(lr))?,
        }
        .into_iter();
        let of = |is_sent: &bool| if *is_sent { sent.next() } else { rest.next() }.unwrap_or_default();
        let logprobs: Vec<Vec<f32>> = is_sent.iter().map(of).collect();
        let slope = differentiate(minibatch, &logprobs, objective, totals)?;
        self.check_finite(&[], slope.loss)?;
        let tokens = slopes.iter().map(|slope| slope.ids.len()).sum();
        Ok((slope, tokens))
    }

    fn adam(&self, learning_rate: f64) -> Adam {
        let AdamwConfig { beta1, beta2, epsilon, weight_decay, .. } = self.config.adamw;
        Adam { learning_rate, beta1, beta2, epsilon, weight_decay, grad_norm_max: self.config.grad_norm_max }
    }

    fn check_finite(&self, derivatives: &[Vec<f64>], loss: f64) -> Result<(), RunError> {
        let mut all = derivatives.iter().flatten().copied().chain([loss]);
        match all.find(|value| !value.is_finite()) {
            None => Ok(()),
            Some(value) => {
                let (update, what) = (self.updates(), "loss, or its derivative,");
                Err(TrainError::NotFinite { update, what, value }.into())
            }
        }
    }

    /// Gives up the model on the server. What was saved stays.
    pub(crate) fn close(&self) {
        self.tinker.close();
    }

    /// Saves the state of training on the server. Returns what a checkpoint has to keep of it.
    ///
    /// # Errors
    /// If the server can't.
    pub(crate) fn save(&self) -> Result<(Value, AdamwConfig), RunError> {
        let saved = self.tinker.save(self.updates())?;
        let value = serde_json::to_value(saved).map_err(|error| RunError::Refused(error.to_string()))?;
        Ok((value, self.config.adamw))
    }
}

/// The tokens that a server reads of a sample: all up to the last scored one.
fn read(sample: &Sample) -> &[u32] {
    let inputs = sample.inputs().len();
    if inputs == 0 { &[] } else { &sample.ids[..=inputs] }
}

fn read_any(sample: &Sample) -> bool {
    !read(sample).is_empty()
}

/// Which samples a server is sent: those with a derivative, or one, since an update of zeros is one, as it is here.
fn is_sent(minibatch: &[&Sample], d_logprobs: &[Vec<f64>]) -> Vec<bool> {
    let is_sloped = |slope: &Vec<f64>| slope.iter().any(|derivative| *derivative != 0.0);
    let mut is_sent: Vec<bool> = d_logprobs.iter().map(is_sloped).collect();
    if !is_sent.contains(&true)
        && let Some(at) = minibatch.iter().position(|sample| read_any(sample))
    {
        is_sent[at] = true;
    }
    is_sent
}

/// What is sent of them: log-probs that ratios are to, and derivatives where these are 1.
fn slopes<'a>(
    minibatch: &'a [&Sample],
    is_sent: &[bool],
    logprobs: &'a [Vec<f32>],
    d_logprobs: &'a [Vec<f64>],
) -> Vec<tinker::Slope<'a>> {
    let sent = (0..minibatch.len()).filter(|at| is_sent[*at]);
    let slope = |at: usize| {
        let ids = read(minibatch[at]);
        let tokens = ..ids.len();
        tinker::Slope { ids, logprobs: &logprobs[at][tokens], d_logprobs: &d_logprobs[at][tokens] }
    };
    sent.map(slope).collect()
}

fn bounds(RatioBounds { low, high }: RatioBounds) -> Bounds {
    Bounds { low, high }
}

/// Log-probs of a sample's tokens with 0 where a token is not scored.
fn masked(mut found: Vec<f32>, sample: &Sample) -> Vec<f32> {
    found.resize(sample.ids.len(), 0.0);
    for (logprob, is_scored) in found.iter_mut().zip(&sample.loss_mask) {
        if !is_scored {
            *logprob = 0.0;
        }
    }
    found
}

/// # Errors
/// If a scored token was sampled at another temperature than that at which servers score.
fn check<S: Borrow<Sample>>(samples: &[S]) -> Result<(), RunError> {
    let is_other = |sample: &Sample| sample.scored().any(|at| sample.temperatures[at] != 1.0);
    match samples.iter().any(|sample| is_other(sample.borrow())) {
        false => Ok(()),
        true => Err(RunError::Refused(
            "trainer: a server scores at temperature 1, and a sample has another".into(),
        )),
    }
}
