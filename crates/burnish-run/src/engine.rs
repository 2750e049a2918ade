//! The engine of a recipe, which samples in place of this process, and the weights that it is given.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use burnish_model::{Chat, Model};
use burnish_remote::engine::{Fleet, Proof};
use burnish_remote::tinker;
use burnish_remote::tokens::{TokenPolicy, TokenServer};
use burnish_train::{Sample, score_whole_head};

use crate::RunError;
use burnish_recipe::{Method, Recipe};

/// The folder in the run directory in which weights are handed over, unless the recipe names another one.
const DIR: &str = "engine";
/// The text of a proof. Any serves; words and digits are what policies are trained on.
const TEXT: &str = "What is 17 + 25? First 17 + 20 = 37, then 37 + 5 = 42. The answer is 42.";
/// Most of its tokens.
const TOKENS_MAX: usize = 64;

/// An engine, and what it has.
pub(crate) struct Engine {
    fleet: Arc<Fleet>,
    dir: PathBuf,
    given: Mutex<Given>,
}

/// The weights that it has been given.
#[derive(Default)]
struct Given {
    /// Their directory, and the log-probs of the text of a proof under them.
    last: Option<(PathBuf, Vec<f32>)>,
    /// What a person should know, and was not told.
    notes: Vec<String>,
}

/// Who samples and who trains, in words. Servers that the recipe names are asked whether they can be used.
///
/// # Errors
/// If a server does not answer, or can't be used.
pub fn arrangement(recipe: &Recipe) -> Result<String, RunError> {
    if let Some(config) = &recipe.trainer {
        return Ok(tinker::look(config)?);
    }
    Ok(match connect(recipe)? {
        None if recipe.train.method == Method::Grpo => "this process samples and trains".to_owned(),
        None => "this process trains".to_owned(),
        Some(fleet) => format!("{}; this process trains", fleet.description()),
    })
}

/// The replicas of a recipe's engine, if it names one.
fn connect(recipe: &Recipe) -> Result<Option<Arc<Fleet>>, RunError> {
    let Some(config) = &recipe.engine else { return Ok(None) };
    let fleet = Fleet::connect(config.clone())?;
    for sampling in [recipe.rollout_sampling(), recipe.eval_sampling()] {
        fleet.check(&sampling).map_err(|error| RunError::Refused(format!("engine: {error}")))?;
    }
    Ok(Some(fleet))
}

impl Engine {
    /// The engine that a recipe names, if it names one; its weights are handed over in the run directory `run`, or
    /// where the recipe says.
    ///
    /// # Errors
    /// If a server does not answer, or can't be used.
    pub(crate) fn of_recipe(recipe: &Recipe, run: &Path) -> Result<Option<Arc<Self>>, RunError> {
        let Some(fleet) = connect(recipe)? else { return Ok(None) };
        let own = run.join(DIR);
        // What was left when the run was killed. Elsewhere, it may be another run's.
        let _ = std::fs::remove_dir_all(&own);
        let dir = fleet.weights_dir().map_or(own, Path::to_owned);
        let dir = std::path::absolute(&dir).unwrap_or(dir);
        Ok(Some(Arc::new(Engine { fleet, dir, given: Mutex::default() })))
    }

    /// The policy of `model`, whose weights have had `version` updates. If the engine has others, it is given these
    /// first.
    ///
    /// # Errors
    /// If the weights can't be written, or no server can be shown to have them.
    pub(crate) fn policy(
        &self,
        model: &Model,
        chat: &Arc<Chat>,
        version: u64,
    ) -> Result<TokenPolicy, RunError> {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        if self.fleet.version() != Some(version) || given.last.is_none() {
            // One token of an answer has to fit as well.
            let tokens_max = TOKENS_MAX.min(self.fleet.context_tokens_max() - 1);
            let (dir, proof) = (self.write(model, chat, version)?, proof(model, chat, tokens_max, &given)?);
            let now = proof.new.clone();
            let served = self.fleet.serve(&dir, version, proof)?;
            given.notes.extend(served.iter().map(|problem| format!("an engine is not used: {problem}")));
            if let Some((before, _)) = given.last.replace((dir, now)) {
                // Whoever could still read it is not used any more; a folder that stays does no harm.
                let _ = std::fs::remove_dir_all(before);
            }
        }
        let fleet = Arc::clone(&self.fleet);
        Ok(TokenPolicy::new(fleet, chat, model.vocab().excluded(), version))
    }

    /// What a person should know since this was last asked.
    pub(crate) fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut self.given.lock().unwrap_or_else(PoisonError::into_inner).notes)
    }

    /// Writes weights for the servers: a whole model, or the adapter alone if they take adapters. A folder has its name
    /// when it is complete.
    fn write(&self, model: &Model, chat: &Chat, version: u64) -> Result<PathBuf, RunError> {
        let name = self.fleet.name(version);
        let (dir, unfinished) = (self.dir.join(&name), self.dir.join(format!("{name}.part")));
        let failed = |what: &Path, error: std::io::Error| {
            let what = what.display();
            RunError::Refused(format!("engine: the weights can't be handed over: {what}: {error}"))
        };
        std::fs::create_dir_all(&unfinished).map_err(|error| failed(&unfinished, error))?;
        match (self.fleet.takes_adapters(), model.is_adapted()) {
            (true, true) => model.save(&unfinished)?,
            (false, _) => {
                model.save_merged(&unfinished)?;
                chat.save(&unfinished)?;
            }
            (true, false) => {
                let problem = "engine.adapters: the policy that is trained has no adapter: leave the key out, or set \
                               `policy.lora`";
                return Err(RunError::Refused(problem.into()));
            }
        }
        std::fs::rename(&unfinished, &dir).map_err(|error| failed(&dir, error))?;
        Ok(dir)
    }
}

/// A text with its log-probs under these weights and under those that were given before.
fn proof(model: &Model, chat: &Chat, tokens_max: usize, given: &Given) -> Result<Proof, RunError> {
    let mut ids = chat.tokenizer.encode(TEXT)?;
    ids.truncate(tokens_max.min(model.context_tokens_max()));
    // An engine does not know which ids the tokenizer has.
    let scored = score_whole_head(model, &[Sample::of_text(ids.clone())], ids.len())?;
    let new = scored.first().and_then(|scored| scored.get(1..)).unwrap_or_default().to_vec();
    Ok(Proof { ids, new, before: given.last.as_ref().map(|(_, before)| before.clone()) })
}
