//! Answers of the model that a server trains.

use burnish_core::{Abilities, PolicyError, Sampling};

use super::client::Repeat;
use super::error::Failure;
use super::{Tinker, TinkerError, wire};
use crate::tokens::{Ask, Asking, Completion, TokenServer};

/// How often an answer is asked for anew: because the server lost the model, or sampled an id that the tokenizer does not
/// have, which such a server can't be told.
const ANEW_MAX: u64 = 8;

impl Tinker {
    /// What a server of Tinker's API can do for a turn.
    pub const ABILITIES: Abilities = Abilities { filters: false, ..Abilities::ALL };

    /// Checks that tokens can be chosen in this way, and that their log-probs will be known.
    ///
    /// # Errors
    /// Says what can't be done, and what to do.
    pub fn check_sampling(sampling: &Sampling) -> Result<(), PolicyError> {
        Tinker::ABILITIES.check_sampling(sampling)?;
        if sampling.logprobs.is_some() {
            return Err(PolicyError::Unable(
                "report the likeliest tokens beside the sampled one (`logprobs`)",
            ));
        }
        if !sampling.stop.is_empty() {
            return Err(PolicyError::Unable(
                "stop at texts (`stop`) as well as at its end tokens: such servers take one of the two; name ids \
                 (`stop_token_ids`)",
            ));
        }
        if sampling.temperature != 0.0 && sampling.temperature != 1.0 {
            return Err(PolicyError::Unable(
                "tell the log-probs of what it samples at this temperature: such servers give and train those of \
                 temperature 1; sample at 1, and evaluate at 1 or greedily",
            ));
        }
        Ok(())
    }

    async fn answer(&self, version: u64, ask: Ask<'_>) -> Result<Completion, PolicyError> {
        // The places are never closed.
        let _place = self.places.acquire().await;
        let failed = |error: TinkerError| PolicyError::Failed(error.to_string());
        let is_missing = |id: &u32| ask.missing_ids.binary_search(id).is_ok();
        // The seed does not depend on what was lost, so that the answer doesn't.
        let (mut lost, mut seed, mut missed) = (String::new(), ask.seed, 0);
        for _ in 0..ANEW_MAX {
            let (generation, path) = {
                let held = self.held.lock().await;
                match &held.sampled {
                    Some((served, path)) if *served == version => (held.generation, path.clone()),
                    _ => {
                        let problem =
                            format!("the trainer does not serve the weights after {version} updates");
                        return Err(PolicyError::Failed(problem));
                    }
                }
            };
            let body = wire::ask(&path, &Ask { seed, ..ask }).to_string();
            match self.client.result("/asample", &body, Repeat::Yes).await {
                Ok(answer) => {
                    let read = wire::completion(&answer).map_err(|problem| {
                        failed(self.client.unfit(format!("an answer can't be used: {problem}")))
                    })?;
                    if !read.ids.iter().any(is_missing) {
                        return Ok(read);
                    }
                    missed += 1;
                    seed = burnish_core::rng::bits(ask.seed, missed);
                    lost = "it sampled ids that the tokenizer does not have".to_owned();
                    continue;
                }
                Err(Failure::Fatal(error)) => return Err(failed(error)),
                Err(Failure::Lost(why)) => lost = why,
            }
            let held = &mut *self.held.lock().await;
            // Somebody else may have restored it meanwhile.
            if held.generation == generation {
                self.restore(held, &lost).await.map_err(failed)?;
            }
        }
        Err(failed(self.client.unfit(format!("no answer after it was asked for {ANEW_MAX} times: {lost}"))))
    }
}

impl TokenServer for Tinker {
    fn abilities(&self) -> Abilities {
        Tinker::ABILITIES
    }

    fn check(&self, sampling: &Sampling) -> Result<(), PolicyError> {
        Tinker::check_sampling(sampling)
    }

    fn context_tokens_max(&self) -> usize {
        self.context_tokens_max
    }

    fn ask<'a>(&'a self, _root: u64, version: u64, ask: Ask<'a>) -> Asking<'a> {
        Box::pin(self.answer(version, ask))
    }

    /// Weights have names there that nobody else gives.
    fn confirm(&self, _version: u64) -> Result<(), PolicyError> {
        Ok(())
    }
}
