//! The files that decide a run, and whether they have changed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use burnish_core::digest::Rule;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::RunError;
use crate::model_files::policy_files;
use burnish_recipe::paths::{self, PathKind, PathPlace};
use burnish_recipe::{Method, Recipe};
use burnish_rundir::files::FileError;
use burnish_rundir::run_dir::{START, TEACHER};

/// A file of at least this size is not read again if it has not been touched since.
const LARGE: u64 = 64 << 20;

/// A data file, a chat template, a controller or a model directory that decides a run.
#[derive(Debug, Clone)]
pub(super) struct Input {
    /// The key that names it.
    pub(super) key: String,
    /// Its present path.
    pub(super) path: PathBuf,
    pub(super) kind: PathKind,
}

/// The recorded content of an input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Recorded {
    pub(super) key: String,
    /// Its path when the run began, as written: the tasks of a data file may have this as a label.
    pub(super) path: PathBuf,
    /// Its files by name; a single file has the empty name.
    files: BTreeMap<String, Stamp>,
}

/// The recorded content of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    bytes: u64,
    digest: String,
    /// When it was last written, in nanoseconds since 1970. Only decides whether a large file is read again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    modified: Option<u64>,
}

/// Size and modification time of a file.
fn touched(path: &Path) -> Result<(u64, Option<u64>), FileError> {
    let found = fs::metadata(path).map_err(FileError::on("read", path))?;
    let since = found.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    Ok((found.len(), since.and_then(|since| u64::try_from(since.as_nanos()).ok())))
}

fn digest(path: &Path, rule: Rule) -> Result<String, FileError> {
    let read = || {
        let file = fs::File::open(path)?;
        let bytes = file.metadata()?.len();
        rule.read(file, bytes)
    };
    read().map_err(FileError::on("read", path))
}

impl Stamp {
    fn of(path: &Path) -> Result<Self, FileError> {
        let (bytes, modified) = touched(path)?;
        Ok(Stamp { bytes, digest: digest(path, Rule::Xxh3)?, modified })
    }

    /// Whether the file has the recorded content.
    fn fits(&self, path: &Path) -> Result<bool, FileError> {
        let (bytes, modified) = touched(path)?;
        if bytes != self.bytes {
            return Ok(false);
        }
        let is_untouched = modified.is_some() && modified == self.modified;
        Ok((bytes >= LARGE && is_untouched) || digest(path, Rule::of(&self.digest))? == self.digest)
    }
}

impl Input {
    /// Its files by name.
    fn files(&self) -> Result<BTreeMap<String, PathBuf>, RunError> {
        match self.kind {
            PathKind::Model => policy_files(&self.path),
            _ => Ok(BTreeMap::from([(String::new(), self.path.clone())])),
        }
    }

    /// Reads and records it.
    ///
    /// # Errors
    /// Names the file that can't be read.
    pub(super) fn record(self) -> Result<Recorded, RunError> {
        let files = self.files()?.into_iter().map(|(name, path)| Ok((name, Stamp::of(&path)?)));
        let files = files.collect::<Result<_, RunError>>()?;
        Ok(Recorded { key: self.key, path: self.path, files })
    }
}

impl Recorded {
    /// How the content of `input` differs from this; `None` if it does not.
    ///
    /// # Errors
    /// Names the file that can't be read.
    pub(super) fn difference(&self, input: &Input) -> Result<Option<String>, RunError> {
        let there = input.files()?;
        let named = |name: &str| {
            let path = if name.is_empty() { input.path.clone() } else { input.path.join(name) };
            format!("`{}`: `{}`", self.key, there.get(name).unwrap_or(&path).display())
        };
        for (name, stamp) in &self.files {
            let Some(path) = there.get(name) else {
                return Ok(Some(format!(
                    "{} was there when the run began, and is not any more",
                    named(name)
                )));
            };
            if !stamp.fits(path)? {
                return Ok(Some(format!("{} is not what it was when the run began", named(name))));
            }
        }
        let new = there.keys().find(|name| !self.files.contains_key(*name));
        Ok(new.map(|name| format!("{} was not there when the run began", named(name))))
    }
}

/// The model directory that a run keeps under `name`.
pub(super) fn kept(name: &str, path: &Path) -> Input {
    Input { key: name.to_owned(), path: path.to_owned(), kind: PathKind::Model }
}

/// The input that a path in a recipe names, as written there.
pub(super) fn at(place: &PathPlace<'_>) -> Option<Input> {
    let is_read =
        matches!(place.kind, PathKind::Model | PathKind::Template | PathKind::Data | PathKind::Controller);
    let is_input = is_read && !place.value.is_empty();
    let path = place.folder.as_ref().map_or_else(PathBuf::new, PathBuf::from).join(&*place.value);
    is_input.then(|| Input { key: place.key.clone(), path, kind: place.kind })
}

/// All needed inputs of a recipe, and the policies in the run directory `dir`.
///
/// # Errors
/// Names the file that can't be read.
pub(super) fn of(recipe: &mut Value, dir: &Path, needs: &Needs) -> Result<Vec<Recorded>, RunError> {
    let mut inputs = Vec::new();
    paths::each(recipe, &mut |place| {
        inputs.extend(at(&place).filter(|input| needs.has(&input.key)));
        Ok::<(), RunError>(())
    })?;
    for name in [START, TEACHER] {
        inputs.extend(Some(dir.join(name)).filter(|path| path.is_dir()).map(|path| kept(name, &path)));
    }
    inputs.into_iter().map(Input::record).collect()
}

/// Which inputs are needed for a purpose.
#[derive(Debug)]
pub(super) struct Needs {
    /// Keys that are needed, with everything below them.
    only: Option<Vec<String>>,
    /// Keys that are not needed.
    without: Vec<&'static str>,
}

impl Needs {
    /// All inputs.
    pub(super) fn everything() -> Self {
        Needs { only: None, without: Vec::new() }
    }

    /// To continue training, from a checkpoint or from the start.
    ///
    /// # Errors
    /// If the loss is wrong.
    pub(super) fn training(recipe: &Recipe, has_checkpoint: bool) -> Result<Self, RunError> {
        let needs_reference = !matches!(recipe.train.method, Method::Sft | Method::Reward | Method::None)
            && (recipe.loss.beta != 0.0 || recipe.loss.build()?.needs().reference);
        let needs_start = needs_reference || recipe.policy.lora.is_some() || recipe.metrics.weight_divergence;
        // The run has a copy of what was made of them.
        let mut without = vec!["weights"];
        if has_checkpoint {
            // The checkpoint holds what became of them.
            without.extend((!needs_start).then_some("policy.path"));
            without.extend(["critic.path", "policy.chat_template"]);
        }
        Ok(Needs { only: None, without })
    }

    /// To evaluate a checkpoint.
    pub(super) fn evaluation(recipe: &Recipe) -> Self {
        let main = recipe.evaluation().config_key;
        let further = recipe.further_evaluations().into_iter().map(|plan| plan.config_key);
        let base = recipe.policy.lora.as_ref().map(|_| "policy.path".to_owned());
        let others = ["user", "extractor", "reward", "memory", "eval.thoughts"].map(str::to_owned);
        let controlled = (0..recipe.eval.extra.len()).map(|at| format!("eval.extra[{at}].thoughts"));
        let only = [main].into_iter().chain(further).chain(base).chain(others).chain(controlled).collect();
        Needs { only: Some(only), without: Vec::new() }
    }

    pub(super) fn has(&self, key: &str) -> bool {
        let is_below = |outer: &str| {
            key.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let is_asked_for = self.only.as_ref().is_none_or(|only| only.iter().any(|outer| is_below(outer)));
        is_asked_for && !self.without.iter().any(|outer| is_below(outer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_file_is_compared_by_the_rule_of_the_digest_that_was_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        fs::write(&path, "burnish countdown").unwrap();
        let now = Stamp::of(&path).unwrap();
        assert_eq!(now.digest, "xxh3:4762952ce434ad35");
        let before: Stamp =
            serde_json::from_value(json!({"bytes": 17, "digest": "0782e1083c5b8292"})).unwrap();
        for stamp in [&now, &before] {
            fs::write(&path, "burnish countdown").unwrap();
            assert!(stamp.fits(&path).unwrap(), "{stamp:?}");
            for changed in ["burnish countdowm", "burnish countdown "] {
                fs::write(&path, changed).unwrap();
                assert!(!stamp.fits(&path).unwrap(), "{stamp:?}: {changed}");
            }
        }
    }
}
