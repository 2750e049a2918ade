//! The replicas of a policy.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use burnish_core::{Abilities, PolicyError, Sampling};
use burnish_http::run_all;

use super::replica::{Missed, Replica};
use super::wire::{Facts, Kind};
use super::{EngineConfig, EngineError, EngineKind, Proof};
use crate::tokens::{Ask, Asking, Completion, TokenServer};

/// How often an answer that was given up, or lost with its replica, is asked for anew.
const ANEW_MAX: usize = 8;

/// Replicas of one policy. All have the same weights: a replica that has others is not asked.
#[derive(Debug)]
pub struct Fleet {
    config: EngineConfig,
    replicas: Vec<Arc<Replica>>,
    facts: Facts,
    served: Mutex<Option<Arc<Served>>>,
    /// Makes the names of weights differ from those of other runs, which a server may still have.
    session: u64,
    /// Held by whoever gives weights to replicas that were lost.
    reviving: tokio::sync::Mutex<()>,
}

/// The weights that the replicas have.
#[derive(Debug, Clone)]
pub(super) struct Served {
    /// Their directory, as the servers see it.
    pub(super) dir: PathBuf,
    pub(super) version: u64,
    /// Their name, which no other weights have.
    pub(super) name: String,
    /// Does the directory hold an adapter, which is asked for by the name?
    pub(super) is_adapter: bool,
    pub(super) proof: Proof,
}

impl Served {
    /// The adapter to ask for; `None`: the model itself.
    pub(super) fn adapter(&self) -> Option<&str> {
        self.is_adapter.then_some(&*self.name)
    }
}

impl Fleet {
    /// What an engine can do for a turn.
    pub const ABILITIES: Abilities = Abilities { filters: false, ..Abilities::ALL };

    /// Looks at all replicas. They are not asked for answers before they have been given weights.
    ///
    /// # Errors
    /// If one does not answer or is unfit, or they differ.
    pub fn connect(config: EngineConfig) -> Result<Arc<Self>, EngineError> {
        let replicas: Vec<Arc<Replica>> = config
            .urls
            .iter()
            .map(|url| Replica::new(&config, url).map(Arc::new))
            .collect::<Result<_, _>>()?;
        let looks = replicas.iter().map(|replica| {
            let (replica, model) = (Arc::clone(replica), config.model.clone());
            async move { replica.facts(model.as_deref()).await }
        });
        let mut found: Option<Facts> = None;
        for (replica, facts) in replicas.iter().zip(together(looks)?) {
            let facts = facts?;
            if let Some(first) = found.as_ref().filter(|first| **first != facts) {
                let problem = format!("it differs from {}: {facts:?}, there {first:?}", config.urls[0]);
                return Err(EngineError::Unfit { url: replica.server.url().to_owned(), problem });
            }
            found = Some(facts);
        }
        let Some(facts) = found else {
            let problem = "no replica is named (`engine.urls`)".to_owned();
            return Err(EngineError::Unfit { url: String::new(), problem });
        };
        let (served, reviving) = (Mutex::new(None), tokio::sync::Mutex::new(()));
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let session = since.map_or(0, |since| since.as_micros() as u64);
        Ok(Arc::new(Fleet { config, replicas, facts, served, session, reviving }))
    }

    /// Gives all replicas the weights in `dir`, which have had `version` updates: a whole model, or an adapter over the
    /// model that they serve ([`EngineConfig::adapters`]). Those that were lost are tried again. The directory stays as
    /// it is until the next weights are served. Returns what a person should know: which replicas are not used, and
    /// why.
    ///
    /// # Errors
    /// If no replica can prove that it has them.
    pub fn serve(&self, dir: &Path, version: u64, proof: Proof) -> Result<Vec<String>, EngineError> {
        let dir = self.as_they_see(dir);
        let (name, is_adapter) = (self.name(version), self.config.adapters);
        let served = Arc::new(Served { dir, version, name, is_adapter, proof });
        let before = self.served().replace(Arc::clone(&served));
        let works = self.replicas.iter().map(|replica| {
            let (replica, served, model) =
                (Arc::clone(replica), Arc::clone(&served), self.facts.model.clone());
            let (before, tolerance) = (before.clone(), self.config.tolerance);
            async move {
                replica.serve(&model, &served, tolerance).await;
                if let Some(before) = before.as_ref().and_then(|before| before.adapter()) {
                    replica.forget(before).await;
                }
            }
        });
        together(works)?;
        let problems: Vec<String> = self.replicas.iter().filter_map(|replica| replica.problem()).collect();
        if problems.len() == self.replicas.len() {
            return Err(EngineError::NotServed { version, problems });
        }
        Ok(problems)
    }

    /// The name of the weights after so many updates, which no other weights have, of this run or of others.
    pub fn name(&self, version: u64) -> String {
        format!("update_{version}_{:x}", self.session)
    }

    /// Number of updates that the weights of the replicas have had; `None` before they were given any.
    pub fn version(&self) -> Option<u64> {
        self.served().as_ref().map(|served| served.version)
    }

    /// Are adapters handed over as they are ([`EngineConfig::adapters`])?
    pub fn takes_adapters(&self) -> bool {
        self.config.adapters
    }

    /// The engine, its replicas, and what was found out about them, for a person.
    pub fn description(&self) -> String {
        let engine = match self.config.kind {
            EngineKind::Vllm => "vLLM",
            EngineKind::Sglang => "SGLang",
        };
        let logprobs = match self.facts.kind {
            Kind::Raw => "log-probs before temperature",
            Kind::Drawn => "log-probs of what is drawn",
        };
        let seeds = if self.facts.heeds_seeds { "" } else { ", seeds not heeded" };
        let (urls, tokens) = (self.config.urls.join(", "), self.facts.context_tokens_max);
        format!("{engine} samples at {urls} (contexts of {tokens} tokens, {logprobs}{seeds})")
    }

    /// The folder in which new weights are handed over, if the configuration names one.
    pub fn weights_dir(&self) -> Option<&Path> {
        self.config.weights_dir.as_deref()
    }

    fn served(&self) -> MutexGuard<'_, Option<Arc<Served>>> {
        // Nothing that holds the lock panics.
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The present weights, if they have had so many updates.
    fn has(&self, version: u64) -> Option<Arc<Served>> {
        self.served().clone().filter(|served| served.version == version)
    }

    /// The path of a directory of weights on the servers' machines.
    fn as_they_see(&self, dir: &Path) -> PathBuf {
        match (&self.config.weights_dir, &self.config.weights_dir_there) {
            (Some(here), Some(there)) => {
                dir.strip_prefix(here).map_or_else(|_| dir.to_owned(), |below| there.join(below))
            }
            _ => dir.to_owned(),
        }
    }

    /// Asks a replica with these weights; another one if it is lost. Requests with the same `root` go to the same
    /// replica, whose cache knows their beginning.
    async fn answer(&self, root: u64, version: u64, ask: Ask<'_>) -> Result<Completion, PolicyError> {
        let served = self.has(version);
        let adapter = served.as_ref().and_then(|served| served.adapter());
        let mut problem = String::new();
        for _ in 0..ANEW_MAX {
            let Some(replica) = self.choose(root, version) else {
                self.revive(version).await?;
                continue;
            };
            match replica.ask(&self.facts.model, adapter, &ask).await {
                Ok(completion) => return Ok(completion),
                Err(Missed::Fatal(error)) => return Err(error),
                Err(Missed::Dead(said)) => problem = said,
                Err(Missed::Aborted) => problem = format!("{} gave it up", replica.server.url()),
            }
        }
        Err(PolicyError::Failed(format!("no answer after it was asked for {ANEW_MAX} times: {problem}")))
    }

    /// The replica for requests with this root: always the same one, unless it has much more to do than others.
    fn choose(&self, root: u64, version: u64) -> Option<&Arc<Replica>> {
        let mut ready: Vec<(u64, &Arc<Replica>)> = (0u64..)
            .zip(&self.replicas)
            .filter(|(_, replica)| replica.is_ready(version))
            .map(|(at, replica)| (burnish_core::rng::bits(root, at), replica))
            .collect();
        ready.sort_unstable_by_key(|(score, _)| *score);
        let all: usize = ready.iter().map(|(_, replica)| replica.load()).sum();
        // A quarter more than its share, and some, so that few requests never move.
        let most = (all + ready.len()).div_ceil(ready.len().max(1)) * 5 / 4 + 8;
        let free = ready.iter().find(|(_, replica)| replica.load() < most);
        free.or(ready.first()).map(|(_, replica)| *replica)
    }

    /// Gives the weights to replicas that were lost and are back.
    ///
    /// # Errors
    /// If none can be used.
    async fn revive(&self, version: u64) -> Result<(), PolicyError> {
        let _one_at_a_time = self.reviving.lock().await;
        let Some(served) = self.has(version) else {
            return Err(PolicyError::Failed(format!(
                "the engines have not the weights after {version} updates"
            )));
        };
        for replica in &self.replicas {
            if replica.is_ready(version) {
                return Ok(());
            }
            replica.serve(&self.facts.model, &served, self.config.tolerance).await;
        }
        if self.replicas.iter().any(|replica| replica.is_ready(version)) {
            return Ok(());
        }
        let problems: Vec<String> = self.replicas.iter().filter_map(|replica| replica.problem()).collect();
        Err(PolicyError::Failed(format!("no engine can be used: {}", problems.join("; "))))
    }
}

impl TokenServer for Fleet {
    fn abilities(&self) -> Abilities {
        Abilities { seed: self.facts.heeds_seeds, ..Fleet::ABILITIES }
    }

    fn check(&self, sampling: &Sampling) -> Result<(), PolicyError> {
        Fleet::ABILITIES.check_sampling(sampling)?;
        if sampling.logprobs.is_some() {
            return Err(PolicyError::Unable(
                "report the likeliest tokens beside the sampled one (`logprobs`)",
            ));
        }
        if self.facts.kind == Kind::Raw && sampling.temperature != 0.0 && sampling.temperature != 1.0 {
            return Err(PolicyError::Unable(
                "tell the log-probs of what it samples at this temperature, since its servers give those before \
                 temperature: start them with `--logprobs-mode processed_logprobs` (SGLang: without \
                 SGLANG_RETURN_ORIGINAL_LOGPROB), or sample at temperature 1",
            ));
        }
        let stops_beyond_the_end = sampling.ignore_eos && !sampling.stop_token_ids.is_empty();
        if self.config.kind == EngineKind::Sglang && stops_beyond_the_end {
            return Err(PolicyError::Unable(
                "stop at ids (`stop_token_ids`) with `ignore_eos`: SGLang ignores both",
            ));
        }
        Ok(())
    }

    fn context_tokens_max(&self) -> usize {
        self.facts.context_tokens_max
    }

    fn ask<'a>(&'a self, root: u64, version: u64, ask: Ask<'a>) -> Asking<'a> {
        Box::pin(self.answer(root, version, ask))
    }

    fn confirm(&self, version: u64) -> Result<(), PolicyError> {
        let Some(served) = self.has(version) else { return Ok(()) };
        let works = self.replicas.iter().map(|replica| {
            let (replica, served) = (Arc::clone(replica), Arc::clone(&served));
            async move { replica.confirm(&served).await }
        });
        let found = together(works).and_then(|confirmed| confirmed.into_iter().collect());
        found.map_err(|error: EngineError| PolicyError::Failed(error.to_string()))
    }
}

/// Does all of these at the same time.
fn together<T: Send + 'static>(
    works: impl Iterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Result<Vec<T>, EngineError> {
    run_all(works).map_err(|error| EngineError::Unfit { url: String::new(), problem: error.to_string() })
}
