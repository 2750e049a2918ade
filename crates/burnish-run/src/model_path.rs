//! Finds the model that a recipe or a person names: a model directory, a run, or an id of the Hugging Face hub, which
//! is looked up where `hf download` stores it. Nothing is downloaded here.

use std::path::{Component, Path, PathBuf};

use burnish_train::checkpoint::{self, Checkpoint, Extent};
use serde_json::Value;

use crate::RunError;
use crate::trainer::TRAINER;
use crate::watch::{Event, Watch};
use burnish_recipe::{InPlace, Recipe};
use burnish_rundir::run_dir::{CHECKPOINTS, RECIPE};

/// A model directory, and what to tell a person if another name led to it.
#[derive(Debug, PartialEq, Eq)]
pub struct Located {
    /// The directory.
    pub dir: PathBuf,
    /// A note on how it was found, where it has another name.
    pub note: Option<String>,
}

/// Finds the model directory that `given` names.
///
/// # Errors
/// If there is none: says what is missing, or how to download it.
pub(crate) fn locate(given: &Path) -> Result<Located, RunError> {
    locate_in(given, hub_cache().as_deref())
}

/// Finds the model that `given` names, for work on the weights alone: a safetensors file, or a directory that lacks a
/// tokenizer, is taken as it is.
///
/// # Errors
/// If there is none: says what is missing, or how to download it.
pub fn locate_weights(given: &Path) -> Result<Located, RunError> {
    match given.exists() && (is_model(given) || !is_run(given)) {
        true => Ok(Located { dir: given.to_owned(), note: None }),
        false => locate(given),
    }
}

/// Replaces other names of the models that a run starts from by their directories, so that the run always continues
/// with the same models.
///
/// # Errors
/// As [`locate`].
pub(crate) fn pin(recipe: &mut Recipe, watch: &mut dyn Watch) -> Result<(), RunError> {
    let teacher = recipe.teacher.as_mut().and_then(|teacher| teacher.path.as_mut());
    let judging = recipe.reward.model.as_mut().map(|model| &mut model.path);
    let extracting = recipe.extractor.as_mut().and_then(|extractor| extractor.path.as_mut());
    let making = match recipe.make.as_mut().and_then(|make| make.teacher.as_mut()) {
        Some(InPlace::Model(path)) => Some(path),
        _ => None,
    };
    let paths = [
        ("make.teacher", making),
        ("policy.path", recipe.policy.path.as_mut()),
        ("extractor.path", extracting),
        ("teacher.path", teacher),
        ("reward.model.path", judging),
    ];
    for (key, path) in paths {
        let Some(path) = path else { continue };
        // A server has the weights; here are a tokenizer and a configuration.
        if key == "policy.path" && recipe.trainer.is_some() && path.join("tokenizer.json").is_file() {
            continue;
        }
        let found = locate(path).map_err(|error| RunError::Refused(format!("{key}: {error}")));
        let Located { dir, note } = found?;
        if let Some(note) = note {
            watch.event(Event::Note(format!("{key}: {note}")));
            *path = dir;
        }
    }
    let user = recipe.user.as_mut().and_then(|user| user.strategy.as_mut());
    let judge = recipe.judge.as_mut().and_then(|judge| judge.strategy.as_mut());
    for (key, strategy) in [("user", user), ("judge", judge)] {
        let path = strategy.and_then(|strategy| strategy.config.pointer_mut("/score/path"));
        let Some(Value::String(path)) = path else { continue };
        let key = format!("{key}.strategy.config.score.path");
        let found = locate(Path::new(path)).map_err(|error| RunError::Refused(format!("{key}: {error}")));
        let Located { dir, note } = found?;
        if let Some(note) = note {
            watch.event(Event::Note(format!("{key}: {note}")));
            *path = dir.to_string_lossy().into_owned();
        }
    }
    Ok(())
}

/// The folder of the hub's cache, found through the variables that `huggingface_hub` reads.
fn hub_cache() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("HF_HUB_CACHE")
        .or_else(|| variable("HUGGINGFACE_HUB_CACHE"))
        .or_else(|| variable("HF_HOME").map(|home| home.join("hub")))
        .or_else(|| variable("XDG_CACHE_HOME").map(|cache| cache.join("huggingface/hub")))
        .or_else(|| std::env::home_dir().map(|home| home.join(".cache/huggingface/hub")))
}

fn is_model(dir: &Path) -> bool {
    ["config.json", "adapter_config.json"].iter().any(|file| dir.join(file).is_file())
}

fn is_run(dir: &Path) -> bool {
    dir.join(RECIPE).is_file() || dir.join(CHECKPOINTS).is_dir()
}

fn locate_in(given: &Path, cache: Option<&Path>) -> Result<Located, RunError> {
    if is_model(given) {
        check_whole(given)?;
        return Ok(Located { dir: given.to_owned(), note: None });
    }
    if given.is_dir() {
        if let Ok(checkpoint) = Checkpoint::open(given) {
            refuse_if_on_server(given, &checkpoint)?;
        }
        return match is_run(given) {
            true => of_run(given),
            false => Err(RunError::Refused(format!(
                "{}: is neither a model directory (no config.json or adapter_config.json) nor a run directory (no {RECIPE})",
                given.display()
            ))),
        };
    }
    let shown = given.display();
    if given.exists() {
        return Err(RunError::Refused(format!(
            "{shown}: is a file; name the directory of a model, with config.json, weights (safetensors, not GGUF) and \
             tokenizer.json"
        )));
    }
    let Some(id) = hub_id(given) else {
        return Err(RunError::Refused(format!("{shown}: there is no such directory")));
    };
    match cache.map(|cache| (cache, cached(&id, cache))) {
        Some((_, Some(dir))) if is_model(&dir) => {
            check_whole(&dir)
                .map_err(|error| RunError::Refused(format!("{error}; `hf download {id}` completes it")))?;
            let note = Some(format!("{id} is taken from the hub's cache: {}", dir.display()));
            Ok(Located { dir, note })
        }
        found => {
            let looked = found
                .map(|(cache, _)| format!(", nor a model `{id}` in the hub's cache {}", cache.display()));
            Err(RunError::Refused(format!(
                "{shown}: there is no such directory{}; `hf download {id}` puts a model of the Hugging Face hub there, \
                 and `hf download {id} --local-dir DIR` into a directory to name instead",
                looked.unwrap_or_default()
            )))
        }
    }
}

/// # Errors
/// If the policy of a checkpoint is on the server that trained it.
fn refuse_if_on_server(given: &Path, checkpoint: &Checkpoint) -> Result<(), RunError> {
    match checkpoint.state()[TRAINER]["path"].as_str() {
        None => Ok(()),
        Some(path) => Err(RunError::Refused(format!(
            "{}: its policy is on a server (`trainer.url`), which knows its state of training as {path}; here are its \
             evaluations and episodes",
            given.display()
        ))),
    }
}

/// The newest complete checkpoint of a run.
fn of_run(run: &Path) -> Result<Located, RunError> {
    match checkpoint::latest(&run.join(CHECKPOINTS), Extent::Model)? {
        Some(newest) => {
            refuse_if_on_server(run, &newest.checkpoint)?;
            let (dir, step) = (newest.checkpoint.path().to_owned(), newest.checkpoint.step());
            let taken = format!(
                "{} is a run directory; its newest checkpoint is taken, step {step}: {}",
                run.display(),
                dir.display()
            );
            let note = newest.notes().into_iter().chain([taken]).collect::<Vec<_>>().join("; ");
            Ok(Located { dir, note: Some(note) })
        }
        None => Err(RunError::Refused(format!(
            "{}: is a run directory without a checkpoint yet (`checkpoint.every` says when one is saved)",
            run.display()
        ))),
    }
}

/// The id of a hub model that a path could mean: `NAME` or `ORGANISATION/NAME`.
fn hub_id(given: &Path) -> Option<String> {
    let parts: Vec<&str> = given
        .components()
        .map(|part| match part {
            Component::Normal(part) => part.to_str(),
            _ => None,
        })
        .collect::<Option<_>>()?;
    let is_name = |part: &&str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    (parts.len() <= 2 && !parts.is_empty() && parts.iter().all(is_name)).then(|| parts.join("/"))
}

/// The snapshot of a model in the hub's cache: that of its main branch, or else the only one.
fn cached(id: &str, cache: &Path) -> Option<PathBuf> {
    let folder = cache.join(format!("models--{}", id.replace('/', "--")));
    let snapshots = folder.join("snapshots");
    if let Ok(revision) = std::fs::read_to_string(folder.join("refs/main")) {
        let dir = snapshots.join(revision.trim());
        if dir.is_dir() {
            return Some(dir);
        }
    }
    let mut all = std::fs::read_dir(snapshots).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let only = all.next()?;
    all.next().is_none().then_some(only)
}

fn has_gguf(dir: &Path) -> bool {
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    files.map(|file| file.path()).any(|path| path.extension().is_some_and(|end| end == "gguf"))
}

/// Reports everything that a model directory lacks at once.
fn check_whole(dir: &Path) -> Result<(), RunError> {
    let has = |file: &str| dir.join(file).is_file();
    if has("adapter_config.json") {
        return match has("adapter_model.safetensors") {
            true => Ok(()),
            false => {
                Err(RunError::Refused(format!("{}: adapter_model.safetensors is missing", dir.display())))
            }
        };
    }
    let mut missing = Vec::new();
    let mut advice = String::new();
    if !has("model.safetensors") && !has("model.safetensors.index.json") {
        missing.push("model.safetensors (or model.safetensors.index.json with its files)");
        if has("pytorch_model.bin") || has("pytorch_model.bin.index.json") {
            advice +=
                "; its weights are a pickle of PyTorch: `save_pretrained` of transformers writes safetensors";
        } else if has_gguf(dir) {
            advice += "; GGUF, llama.cpp's format, is not read: fetch the safetensors files of the model that it was \
                       made from";
        }
    }
    if !has("tokenizer.json") {
        missing.push("tokenizer.json");
        if has("tokenizer.model") || has("vocab.json") {
            advice += "; its tokenizer is of an older form: `AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)` of \
                       transformers writes tokenizer.json";
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let verb = if missing.len() == 1 { "is" } else { "are" };
    Err(RunError::Refused(format!("{}: {} {verb} missing{advice}", dir.display(), missing.join(" and "))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Creates a directory with files of these names.
    fn directory(at: &Path, files: &[&str]) {
        fs::create_dir_all(at).unwrap();
        files.iter().for_each(|file| fs::write(at.join(file), "{}").unwrap());
    }

    const WHOLE: [&str; 3] = ["config.json", "model.safetensors", "tokenizer.json"];

    #[track_caller]
    fn refused(given: &Path, cache: Option<&Path>, parts: &[&str]) {
        let error = locate_in(given, cache).unwrap_err().to_string();
        for part in parts {
            assert!(error.contains(part), "`{part}` is not in: {error}");
        }
    }

    #[test]
    fn a_model_directory_is_itself_and_what_it_lacks_is_named_at_once() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("model");
        directory(&dir, &WHOLE);
        assert_eq!(locate_in(&dir, None).unwrap(), Located { dir: dir.clone(), note: None });
        let bare = scratch.path().join("bare");
        directory(&bare, &["config.json", "vocab.json", "pytorch_model.bin"]);
        refused(
            &bare,
            None,
            &["model.safetensors", "tokenizer.json are missing", "save_pretrained", "pickle"],
        );
        let quantized = scratch.path().join("quantized");
        directory(&quantized, &["config.json", "tokenizer.json", "model-Q4.gguf"]);
        refused(&quantized, None, &["GGUF", "fetch the safetensors files"]);
        let adapter = scratch.path().join("adapter");
        directory(&adapter, &["adapter_config.json"]);
        refused(&adapter, None, &["adapter_model.safetensors is missing"]);
        let empty = scratch.path().join("empty");
        directory(&empty, &[]);
        refused(&empty, None, &["neither a model directory", "nor a run directory"]);
        refused(&dir.join("config.json"), None, &["is a file"]);
        refused(&scratch.path().join("nothing"), None, &["no such directory"]);
    }

    #[test]
    fn an_id_of_the_hub_is_looked_for_in_its_cache() {
        let scratch = tempfile::tempdir().unwrap();
        let cache = scratch.path();
        let id = Path::new("Qwen/Qwen3-0.6B-of-nobody");
        refused(
            id,
            Some(cache),
            &["`hf download Qwen/Qwen3-0.6B-of-nobody`", "--local-dir", &cache.display().to_string()],
        );
        let folder = cache.join("models--Qwen--Qwen3-0.6B-of-nobody");
        let (old, new) = (folder.join("snapshots/0ld"), folder.join("snapshots/n3w"));
        directory(&old, &WHOLE);
        let found = locate_in(id, Some(cache)).unwrap();
        assert_eq!(found.dir, old, "the only one there is");
        assert!(found.note.unwrap().contains("hub's cache"));
        directory(&new, &WHOLE);
        directory(&folder.join("refs"), &[]);
        fs::write(folder.join("refs/main"), "n3w\n").unwrap();
        assert_eq!(locate_in(id, Some(cache)).unwrap().dir, new);
        fs::remove_file(new.join("tokenizer.json")).unwrap();
        refused(
            id,
            Some(cache),
            &["tokenizer.json is missing", "`hf download Qwen/Qwen3-0.6B-of-nobody` completes it"],
        );
        for path in ["../x/y", "/nothing/at/all", "./a/b", "a/b/c", "a b"] {
            assert!(
                !locate_in(Path::new(path), Some(cache)).unwrap_err().to_string().contains("hf download"),
                "{path}"
            );
        }
    }

    #[test]
    fn a_run_without_a_checkpoint_says_so() {
        let scratch = tempfile::tempdir().unwrap();
        directory(scratch.path(), &[RECIPE]);
        refused(scratch.path(), None, &["without a checkpoint"]);
    }
}
