//! Talking to an engine, of either kind: the order of requests is shared, and a [`Wire`] says how each is spelled.

use std::path::Path;

use burnish_http::{HttpError, Patience, Server};
use serde_json::{Value, json};

use super::Stage;
use crate::tokens::{Ask, Completion};

/// The spelling of one engine: its paths, what is sent, and how answers are read. A model, or an adapter over it, is
/// asked for by name; a body is absent where nothing is sent.
pub(super) struct Wire {
    /// Path of answers and of log-probs.
    pub(super) generate: &'static str,
    pub(super) request: fn(&str, &Ask<'_>) -> Value,
    pub(super) completion: fn(&Value) -> Result<Completion, String>,
    /// A request for the log-probs of a text at temperature 1.
    pub(super) scoring: fn(&str, &[u32]) -> Value,
    /// The log-probs in its answer, of all ids but the first.
    pub(super) scores: fn(&[u32], &Value) -> Result<Vec<f32>, String>,
    /// Phrases in complaints about a prompt that does not fit.
    pub(super) too_long: &'static [&'static str],
    pub(super) pause: (&'static str, &'static str),
    pub(super) resume: (&'static str, &'static str),
    /// Path that tells `is_paused`, if there is one.
    pub(super) is_paused: Option<&'static str>,
    pub(super) load: &'static str,
    /// New weights, by directory and name.
    pub(super) weights: fn(&Path, &str) -> Value,
    pub(super) is_loaded: fn(&Value) -> bool,
    /// Advice after loading failed.
    pub(super) after_failure: &'static str,
    /// Path that names the weights, if loading does not.
    pub(super) label: Option<&'static str>,
    /// Path that tells `weight_version`.
    pub(super) name: &'static str,
    /// The paths of adapters begin with it.
    pub(super) adapters: &'static str,
    /// Does it answer `success` when it is given an adapter?
    pub(super) adapters_in_json: bool,
    /// Advice about an adapter that was refused.
    pub(super) adapter_hint: fn(&HttpError) -> &'static str,
}

/// Added to the logits of ids, so that those that the tokenizer does not have are never sampled.
pub(super) fn logit_bias(missing_ids: &[u32]) -> Value {
    missing_ids.iter().map(|id| (id.to_string(), Value::from(-100.0))).collect()
}

pub(super) fn as_id(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|id| u32::try_from(id).ok())
}

impl Wire {
    /// Gives a server the weights in `dir`, and tells it their name. Each state may take as long as `patience` says,
    /// and is checked before the next one begins.
    ///
    /// # Errors
    /// In which state, and why. A server that failed to load has no usable weights any more.
    pub(super) async fn update(
        &self,
        server: &Server,
        dir: &Path,
        name: &str,
        patience: Patience,
    ) -> Result<(), (Stage, String)> {
        let post = |path, body: String| server.post(path, body).with(patience);
        let (path, body) = self.pause;
        post(path, body.to_owned()).json().await.map_err(at(Stage::Pause))?;
        self.check_paused(server, true).await.map_err(at(Stage::Pause))?;
        // Not twice: a server that failed once may end.
        let answer = post(self.load, (self.weights)(dir, name).to_string()).once().json().await;
        let answer = answer.map_err(|error| (Stage::Load, format!("{error}{}", self.after_failure)))?;
        if !(self.is_loaded)(&answer) {
            return Err((Stage::Load, format!("{} answers {answer}", self.load)));
        }
        if let Some(path) = self.label {
            let body = json!({"new_version": name}).to_string();
            post(path, body).json().await.map_err(at(Stage::Label))?;
        }
        let told = self.weights_name(server).await.map_err(at(Stage::Label))?;
        if told.as_deref() != Some(name) {
            let path = self.name;
            return Err((Stage::Label, format!("{path} says {told:?} after the weights were named {name}")));
        }
        let (path, body) = self.resume;
        post(path, body.to_owned()).json().await.map_err(at(Stage::Resume))?;
        self.check_paused(server, false).await.map_err(at(Stage::Resume))
    }

    async fn check_paused(&self, server: &Server, paused: bool) -> Result<(), String> {
        let Some(path) = self.is_paused else { return Ok(()) };
        let answer = server.get(path).json().await.map_err(|error| error.to_string())?;
        match answer["is_paused"].as_bool() {
            Some(told) if told == paused => Ok(()),
            Some(true) => Err("it says that it is still paused".to_owned()),
            Some(false) => Err("it says that it is not paused".to_owned()),
            None => Err(format!("{path} answers {answer}")),
        }
    }

    /// The name that a server was last told of its weights.
    pub(super) async fn weights_name(&self, server: &Server) -> Result<Option<String>, HttpError> {
        Ok(server.get(self.name).json().await?["weight_version"].as_str().map(str::to_owned))
    }

    /// Gives a server the adapter in `dir` under a name that it does not know. Its requests and those of others go on.
    ///
    /// # Errors
    /// In which state, and why.
    pub(super) async fn add_adapter(
        &self,
        server: &Server,
        name: &str,
        dir: &Path,
        patience: Patience,
    ) -> Result<(), (Stage, String)> {
        let path = format!("{}/load_lora_adapter", self.adapters);
        let body = json!({"lora_name": name, "lora_path": dir.to_string_lossy()}).to_string();
        let call = server.post(&path, body).with(patience).once();
        let answer = match self.adapters_in_json {
            true => call.json().await,
            false => call.text().await.map(|_| json!({"success": true})),
        };
        match answer {
            Ok(answer) if answer["success"].as_bool() == Some(true) => Ok(()),
            Ok(answer) => Err((Stage::Load, format!("{path} answers {answer}"))),
            // It has the adapter already, because it was lost only for a while.
            Err(HttpError::Status { status: 400, said, .. }) if said.contains("already") => Ok(()),
            Err(error) => Err((Stage::Load, format!("{error}{}", (self.adapter_hint)(&error)))),
        }
    }

    /// Takes an adapter away again.
    pub(super) async fn remove_adapter(&self, server: &Server, name: &str) -> Result<(), HttpError> {
        let path = format!("{}/unload_lora_adapter", self.adapters);
        server.post(&path, json!({ "lora_name": name }).to_string()).once().text().await.map(|_| ())
    }
}

fn at<E: ToString>(stage: Stage) -> impl FnOnce(E) -> (Stage, String) {
    move |error| (stage, error.to_string())
}

/// Which log-prob of a sampled token a server gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The model's, before the temperature.
    Raw,
    /// That of the distribution from which the token was drawn.
    Drawn,
}

/// Facts about a server.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Facts {
    /// The name under which the model is asked for; empty if it is asked for without one.
    pub(super) model: String,
    /// Most tokens of prompt and answer together.
    pub(super) context_tokens_max: usize,
    pub(super) kind: Kind,
    /// Does the seed of a request determine its answer?
    pub(super) heeds_seeds: bool,
}

/// Most tokens of a context, at least `least`, as the entry of a model in `/v1/models` says.
pub(super) fn context(entry: &Value, least: u64) -> Result<usize, String> {
    let context = entry["max_model_len"].as_u64().filter(|context| *context >= least);
    context
        .map(|context| context as usize)
        .ok_or_else(|| "it does not say how long a context may be (`max_model_len` in /v1/models)".to_owned())
}
