//! The model that a server trains, and its way back after the server was away.

use std::sync::{Arc, Mutex as Lock, PoisonError};
use std::time::{Duration, Instant};

use burnish_http::{Task, block_on, sleep, spawn};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::{Mutex, Semaphore};

use super::client::{Client, Repeat};
use super::error::Failure;
use super::probe::{self, Habits};
use super::{Adam, Bounds, Divides, Loss, Slope, TinkerConfig, TinkerError, wire};

/// Most tokens, and most sequences, of one request; an update has as many requests as it needs.
const REQUEST: (usize, usize) = (65_536, 128);
/// How often a server is told that somebody is there, as the reference client does it.
const BEAT: Duration = Duration::from_secs(10);
/// Most updates that are kept to be made once more; then the server saves the model.
const KEPT_MAX: usize = 64;
/// How often one piece of work is begun again because the server lost the model.
const RESTORED_MAX: usize = 8;
/// Wait before a server is asked again to restore a model.
const WAIT: Duration = Duration::from_secs(1);

/// A model on a server.
///
/// Requests that change weights are sent once. If a server does not say that it has carried one out, or says that it
/// does not have the model, a new model is created there, given the state that was saved last, and every update since
/// then is made once more, with the same derivatives: no update is lost or made twice.
#[derive(Debug)]
pub struct Tinker {
    pub(super) client: Arc<Client>,
    pub(super) base_model: String,
    rank: u32,
    seed: u64,
    pub(super) context_tokens_max: usize,
    habits: Habits,
    away: Duration,
    pub(super) held: Mutex<Held>,
    pub(super) places: Semaphore,
    notes: Lock<Vec<String>>,
}

/// What the server has of ours.
#[derive(Debug, Default)]
pub(super) struct Held {
    model: Option<Model>,
    /// Counts the models that were made.
    pub(super) generation: u64,
    /// The state that was saved last; `None`: the adapter as it begins.
    saved: Option<String>,
    /// The updates since then.
    since: Vec<Step>,
    /// The number of updates of the weights that are sampled from, and where they are.
    pub(super) sampled: Option<(u64, String)>,
}

#[derive(Debug)]
pub(super) struct Model {
    pub(super) id: String,
    /// Tells the server that somebody is there.
    _beat: Task,
}

/// An update.
#[derive(Debug, Clone)]
struct Step {
    /// What goes forward and backward, in parts.
    parts: Vec<Value>,
    adam: Value,
}

/// A state of training on a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// Its name there.
    pub path: String,
    /// Number of updates that its weights have had.
    pub updates: u64,
}

/// Looks at the server that `config` names: its address, and the base model that would be trained.
///
/// # Errors
/// If it does not answer, or does not serve that model.
pub fn look(config: &TinkerConfig) -> Result<String, TinkerError> {
    let client = Client::new(config)?;
    let base_model = wait_for(base_model(&client, config))??;
    let TinkerConfig { url, rank, .. } = config;
    Ok(format!("the server at {url} samples and trains: an adapter of rank {rank} over {base_model}"))
}

async fn base_model(client: &Client, config: &TinkerConfig) -> Result<String, TinkerError> {
    let served = client.models().await?;
    match &config.base_model {
        Some(wanted) if served.contains(wanted) => Ok(wanted.clone()),
        Some(wanted) => {
            let problem =
                format!("it does not serve `{wanted}` (`trainer.base_model`), but {}", served.join(", "));
            Err(client.unfit(problem))
        }
        None if served.len() == 1 => Ok(served.concat()),
        None => {
            let problem = format!("it serves {}: name one in `trainer.base_model`", served.join(", "));
            Err(client.unfit(problem))
        }
    }
}

/// Waits for something on the network.
pub(super) fn wait_for<T>(work: impl Future<Output = T>) -> Result<T, TinkerError> {
    block_on(work).map_err(|error| TinkerError::Unfit { url: String::new(), problem: error.to_string() })
}

impl Tinker {
    /// A model on the server that `config` names, as `from` says or anew; `seed` decides how its adapter begins. It
    /// reads at most `context_tokens_max` tokens. What the server does with gradients is found out here, also whether it
    /// has a clipped loss with the bounds that the run would like to have, if any.
    ///
    /// # Errors
    /// If the server does not answer, or can't be used.
    pub fn connect(
        config: &TinkerConfig,
        seed: u64,
        context_tokens_max: usize,
        bounds: Option<Bounds>,
        from: Option<&Saved>,
    ) -> Result<Arc<Self>, TinkerError> {
        let client = Arc::new(Client::new(config)?);
        wait_for(async {
            let base_model = base_model(&client, config).await?;
            let mut tinker = Tinker {
                client,
                base_model,
                rank: config.rank,
                seed,
                context_tokens_max,
                habits: Habits::unknown(config.divides.unwrap_or(Divides::Nothing)),
                away: config.away(),
                held: Mutex::default(),
                places: Semaphore::new(config.requests_max),
                notes: Lock::default(),
            };
            tinker.habits = probe::habits(&tinker, config.divides, bounds).await?;
            let mut held = Held { saved: from.map(|saved| saved.path.clone()), ..Held::default() };
            tinker.renew(&mut held).await.map_err(|failure| tinker.ended(failure))?;
            tinker.held = Mutex::new(held);
            Ok(Arc::new(tinker))
        })?
    }

    /// By what the server divides losses, whether it limits the norm of gradients, and whose clipped loss is used.
    pub fn habits(&self) -> String {
        let clips = if self.habits.clips { "limits" } else { "does not limit" };
        let surrogate = if self.habits.clipped.is_some() { ", has the recipe's clipped loss" } else { "" };
        format!("{}, {clips} the norm of gradients{surrogate}", self.habits.divides.told())
    }

    /// Whether the server has PPO's clipped surrogate with these bounds, which [`Tinker::connect`] was asked for.
    pub fn clips_at(&self, bounds: Bounds) -> bool {
        self.habits.clipped == Some(bounds)
    }

    /// Whether the server limits the norm of gradients.
    pub fn clips(&self) -> bool {
        self.habits.clips
    }

    /// What a person should know since this was last asked.
    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The log-probs of each sequence under the present weights, one entry per token: 0 for the first, which nothing
    /// predicts. Sequences have two tokens at least.
    ///
    /// # Errors
    /// If the server can't score them.
    pub fn score(&self, sequences: &[&[u32]]) -> Result<Vec<Vec<f32>>, TinkerError> {
        wait_for(async {
            let held = &mut *self.held.lock().await;
            let mut found = Vec::with_capacity(sequences.len());
            for part in parts(sequences, |ids| ids.len()) {
                found.extend(self.with_model(held, async |model| self.forward(model, part).await).await?);
            }
            Ok(found)
        })?
    }

    pub(super) async fn forward(&self, model: &str, part: &[&[u32]]) -> Result<Vec<Vec<f32>>, Failure> {
        let answer =
            self.on_model("/forward", model, "forward_input", &wire::scored(part), Repeat::Yes).await?;
        wire::logprobs(&answer, part).map_err(|problem| self.client.unfit(problem).into())
    }

    /// The log-probs of each sequence under the base model, which is the policy before training.
    ///
    /// # Errors
    /// If the server can't score them.
    pub fn score_base(&self, sequences: &[&[u32]]) -> Result<Vec<Vec<f32>>, TinkerError> {
        wait_for(async {
            let mut again = 0..RESTORED_MAX;
            loop {
                match self.ask_base(sequences).await {
                    Err(Failure::Lost(_)) if again.next().is_some() => sleep(WAIT).await,
                    asked => return asked.map_err(|failure| self.ended(failure)),
                }
            }
        })?
    }

    /// All are asked for before the first is waited for, so that the server can work on them together.
    async fn ask_base(&self, sequences: &[&[u32]]) -> Result<Vec<Vec<f32>>, Failure> {
        const PATH: &str = "/asample";
        let mut asked = Vec::with_capacity(sequences.len());
        for ids in sequences {
            let body = wire::ask_base(&self.base_model, ids).to_string();
            asked.push(self.client.submit(PATH, &body, Repeat::Yes).await?);
        }
        let mut found = Vec::with_capacity(sequences.len());
        for (id, ids) in asked.iter().zip(sequences) {
            let answer = self.client.retrieve(PATH, id).await?;
            let read = wire::prompt_logprobs(&answer, ids);
            found.push(read.map_err(|problem| Failure::Fatal(self.client.unfit(problem)))?);
        }
        Ok(found)
    }

    /// One update, with the gradient that the slopes of all its sequences describe.
    ///
    /// # Errors
    /// If the server can't make it.
    pub fn update(&self, slopes: &[Slope<'_>], adam: &Adam) -> Result<(), TinkerError> {
        self.step(Loss::PolicyGradient, slopes, adam).map(drop)
    }

    /// One update with PPO's clipped surrogate, whose derivative at a ratio of 1 the slopes tell. Returns the log-probs of
    /// their sequences before it, as [`Tinker::score`] does.
    ///
    /// # Errors
    /// If the server can't make it.
    pub fn update_clipped(
        &self,
        bounds: Bounds,
        slopes: &[Slope<'_>],
        adam: &Adam,
    ) -> Result<Vec<Vec<f32>>, TinkerError> {
        let answers = self.step(Loss::Clipped(bounds), slopes, adam)?;
        let mut found = Vec::with_capacity(slopes.len());
        for (answer, part) in answers.iter().zip(slope_parts(slopes)) {
            let ids: Vec<&[u32]> = part.iter().map(|slope| slope.ids).collect();
            found.extend(wire::logprobs(answer, &ids).map_err(|problem| self.client.unfit(problem))?);
        }
        Ok(found)
    }

    /// Returns the answers to the parts.
    fn step(&self, loss: Loss, slopes: &[Slope<'_>], adam: &Adam) -> Result<Vec<Value>, TinkerError> {
        let parts = slope_parts(slopes);
        let parts = parts.map(|part| wire::sloped(part, loss, self.habits.divides, slopes.len())).collect();
        let step = Step { parts, adam: wire::adam(adam) };
        wait_for(async {
            let held = &mut *self.held.lock().await;
            let answers = self.with_model(held, async |model| self.apply(model, &step).await).await?;
            held.since.push(step);
            // What is sampled from are the weights of before.
            held.sampled = None;
            if held.since.len() >= KEPT_MAX {
                self.save_held(held).await?;
            }
            Ok(answers)
        })?
    }

    /// Makes the present weights, which have had `version` updates, those that are sampled from. Returns their name.
    ///
    /// # Errors
    /// If the server can't.
    pub fn serve(&self, version: u64) -> Result<String, TinkerError> {
        wait_for(async {
            let held = &mut *self.held.lock().await;
            if let Some((served, path)) = &held.sampled
                && *served == version
            {
                return Ok(path.clone());
            }
            let path =
                self.with_model(held, async |model| self.save_for_sampler(model, version).await).await?;
            held.sampled = Some((version, path.clone()));
            Ok(path)
        })?
    }

    /// Gives the model up, so that the server has its place for another one. What was saved stays; whoever needs the model
    /// again gets it restored.
    pub fn close(&self) {
        // A server that is away has no model any more.
        let _ = wait_for(async {
            let held = &mut *self.held.lock().await;
            if let Some(model) = held.model.take() {
                self.unload(&model).await;
            }
        });
    }

    /// Saves the state of training on the server, after `updates` updates.
    ///
    /// # Errors
    /// If the server can't.
    pub fn save(&self, updates: u64) -> Result<Saved, TinkerError> {
        wait_for(async { self.save_held(&mut *self.held.lock().await).await })?
            .map(|path| Saved { path, updates })
    }

    async fn save_held(&self, held: &mut Held) -> Result<String, TinkerError> {
        if let (Some(saved), true) = (&held.saved, held.since.is_empty()) {
            return Ok(saved.clone());
        }
        let path = self.with_model(held, async |model| {
            let name = format!("burnish-{}", self.client.next_number());
            self.save_as("/save_weights", model, &name).await
        });
        let path = path.await?;
        held.saved = Some(path.clone());
        held.since.clear();
        Ok(path)
    }

    async fn save_for_sampler(&self, model: &str, version: u64) -> Result<String, Failure> {
        let name = format!("burnish-{version}-{}", self.client.next_number());
        self.save_as("/save_weights_for_sampler", model, &name).await
    }

    async fn save_as(&self, path: &str, model: &str, name: &str) -> Result<String, Failure> {
        let body = json!({ "model_id": model, "path": name, "seq_id": self.client.next_number() });
        // A second try would meet the name that the first may have taken.
        let answer = self.client.result(path, &body.to_string(), Repeat::No).await?;
        let found = answer["path"].as_str().map(str::to_owned);
        found.ok_or_else(|| self.client.unfit(format!("{path} answers without a `path`: {answer}")).into())
    }

    async fn on_model(
        &self,
        path: &str,
        model: &str,
        key: &str,
        input: &Value,
        repeat: Repeat,
    ) -> Result<Value, Failure> {
        let body = json!({ "model_id": model, key: input, "seq_id": self.client.next_number() });
        self.client.result(path, &body.to_string(), repeat).await
    }

    /// Returns the answers to the parts.
    async fn apply(&self, model: &str, step: &Step) -> Result<Vec<Value>, Failure> {
        let mut answers = Vec::with_capacity(step.parts.len());
        for part in &step.parts {
            let sent = self.on_model("/forward_backward", model, "forward_backward_input", part, Repeat::No);
            answers.push(sent.await?);
        }
        self.on_model("/optim_step", model, "adam_params", &step.adam, Repeat::No).await?;
        Ok(answers)
    }

    /// One update of a model by slopes of one request, whose loss the server divides as it likes. Returns the answer to
    /// what went forward and backward.
    pub(super) async fn apply_raw(
        &self,
        model: &str,
        loss: Loss,
        slopes: &[Slope<'_>],
        adam: &Adam,
    ) -> Result<Value, Failure> {
        let parts = vec![wire::sloped(slopes, loss, Divides::Nothing, slopes.len())];
        let mut answers = self.apply(model, &Step { parts, adam: wire::adam(adam) }).await?;
        Ok(answers.remove(0))
    }

    /// Does something with the model. If the server has lost it, it is restored, and everything is done again.
    async fn with_model<T>(
        &self,
        held: &mut Held,
        work: impl AsyncFn(&str) -> Result<T, Failure>,
    ) -> Result<T, TinkerError> {
        let mut lost = String::new();
        for _ in 0..=RESTORED_MAX {
            if let Some(model) = &held.model {
                match work(&model.id).await {
                    Ok(done) => return Ok(done),
                    Err(Failure::Fatal(error)) => return Err(error),
                    Err(Failure::Lost(why)) => lost = why,
                }
            }
            self.restore(held, &lost).await?;
        }
        Err(self.ended(Failure::Lost(lost)))
    }

    /// Restores the model, which was lost for a reason.
    ///
    /// # Errors
    /// If the server stays away, or does not have the state that was saved.
    pub(super) async fn restore(&self, held: &mut Held, why: &str) -> Result<(), TinkerError> {
        let began = Instant::now();
        loop {
            match self.renew(held).await {
                Ok(()) => break,
                Err(Failure::Lost(_)) if began.elapsed() < self.away => sleep(WAIT).await,
                Err(failure) => return Err(self.ended(failure)),
            }
        }
        let again = held.since.len();
        let note =
            format!("the trainer lost the model and has it back, with {again} updates made once more: {why}");
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(note);
        Ok(())
    }

    /// Makes a model in the state that is held.
    async fn renew(&self, held: &mut Held) -> Result<(), Failure> {
        if let Some(old) = held.model.take() {
            self.unload(&old).await;
        }
        let model = held.model.insert(self.create(self.seed).await?);
        if let Some(path) = &held.saved {
            let body = json!({ "model_id": model.id, "path": path, "optimizer": true,
                               "seq_id": self.client.next_number(), "type": "load_weights" });
            self.client.result("/load_weights", &body.to_string(), Repeat::Yes).await?;
        }
        for step in &held.since {
            self.apply(&model.id, step).await?;
        }
        if let Some((version, _)) = held.sampled {
            let path = self.save_for_sampler(&model.id, version).await?;
            held.sampled = Some((version, path));
        }
        held.generation += 1;
        Ok(())
    }

    /// A new model, in a session of its own.
    pub(super) async fn create(&self, seed: u64) -> Result<Model, Failure> {
        let body = json!({ "tags": ["burnish"], "user_metadata": {}, "sdk_version": env!("CARGO_PKG_VERSION"),
                           "type": "create_session" });
        let answer = self.client.direct("/create_session", &body.to_string(), Repeat::Yes).await?;
        let Some(session) = answer["session_id"].as_str() else {
            return Err(self.client.unfit(format!("a session has no `session_id`: {answer}")).into());
        };
        let body = json!({ "session_id": session, "model_seq_id": 0, "base_model": self.base_model,
                           "lora_config": { "rank": self.rank, "seed": seed % i32::MAX as u64 },
                           "type": "create_model" });
        let answer = self.client.result("/create_model", &body.to_string(), Repeat::Yes).await?;
        let Some(id) = answer["model_id"].as_str() else {
            return Err(self.client.unfit(format!("a model has no `model_id`: {answer}")).into());
        };
        let (client, body) = (Arc::clone(&self.client), json!({ "session_id": session }).to_string());
        let beating = async move {
            loop {
                sleep(BEAT).await;
                // Whether the server is there is found out by whoever needs it.
                let _ = client.direct("/session_heartbeat", &body, Repeat::No).await;
            }
        };
        let beat = spawn(beating).map_err(|error| self.client.unfit(error.to_string()))?;
        Ok(Model { id: id.to_owned(), _beat: beat })
    }

    /// Gives a model up; one that stays does no harm, since the server forgets it in time.
    pub(super) async fn unload(&self, model: &Model) {
        let body = json!({ "model_id": model.id, "type": "unload_model" }).to_string();
        let _ = self.client.direct("/unload_model", &body, Repeat::No).await;
    }

    pub(super) fn ended(&self, failure: Failure) -> TinkerError {
        match failure {
            Failure::Fatal(error) => error,
            Failure::Lost(why) => self.client.unfit(format!("it loses the model again and again: {why}")),
        }
    }
}

fn slope_parts<'s, 'a>(slopes: &'s [Slope<'a>]) -> impl Iterator<Item = &'s [Slope<'a>]> {
    parts(slopes, |slope| slope.ids.len())
}

/// Parts of a list that are small enough for one request.
fn parts<T>(all: &[T], tokens: impl Fn(&T) -> usize) -> impl Iterator<Item = &[T]> {
    let (tokens_max, count_max) = REQUEST;
    let mut ranges = Vec::new();
    let (mut start, mut held) = (0, 0);
    for (at, one) in all.iter().enumerate() {
        if at > start && (held + tokens(one) > tokens_max || at - start == count_max) {
            ranges.push(start..at);
            (start, held) = (at, 0);
        }
        held += tokens(one);
    }
    if start < all.len() {
        ranges.push(start..all.len());
    }
    ranges.into_iter().map(move |range| &all[range])
}
