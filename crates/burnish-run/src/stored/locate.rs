//! Finds the present places of a run's files.
//!
//! A path is looked up first where it was when the run began; then where it would be if a folder that contains both
//! the file and the run directory was moved; then relative to the current directory. The content of what is found is
//! compared with what the run began with, so that no other file of the same name is used.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::inputs::{Input, Needs, at};
use super::record::Record;
use super::{absolute, base_key};
use crate::RunError;
use burnish_recipe::Source;
use burnish_recipe::paths::{self, ENV_FOLDER, ENV_PATH, PathKind};

/// The files that were found.
pub(super) struct Located {
    /// Each needed input at its present path, and whether its content is unchanged.
    pub(super) found: Vec<(Input, bool)>,
    /// What to tell a person.
    pub(super) notes: Vec<String>,
    /// Data files that have moved: their present path, and the path by which the run's tasks know them.
    pub(super) moved: BTreeMap<String, String>,
}

/// Looks up every path in the recipe of the run in `dir`, and rewrites it so that it works from the current
/// directory. `command` is the command that a person would add an override to.
///
/// # Errors
/// If a needed file does not exist: names it, and says how to give its new place.
pub(super) fn all(
    source: &mut Source,
    record: Option<&Record>,
    dir: &Path,
    command: &str,
    needs: &Needs,
) -> Result<Located, RunError> {
    let mut values = source.values().clone();
    let places = Places::new(record, dir);
    let mut located = Located { found: Vec::new(), notes: Vec::new(), moved: BTreeMap::new() };
    enter_folders(&mut values, &places)?;
    paths::each(&mut values, &mut |place| {
        let Some(input) = at(&place) else {
            if place.kind != PathKind::Recipe && !place.value.is_empty() {
                let found = places.find(Path::new(&*place.value), &|path| path.is_dir());
                found.into_iter().for_each(|path| *place.value = text_of(&path));
            }
            return Ok(());
        };
        let exists = |path: &Path| if input.kind == PathKind::Model { path.is_dir() } else { path.is_file() };
        let fits = |path: &Path| {
            let there = Input { path: path.to_owned(), ..input.clone() };
            record.is_none_or(|record| matches!(record.compare(&there), Ok(None)))
        };
        let is_needed = needs.has(&input.key);
        let right = places.find(&input.path, &|path| exists(path) && fits(path));
        let is_right = right.is_some();
        // If a file exists but is another one, this is reported.
        let Some(path) = right.or_else(|| places.find(&input.path, &exists)) else {
            if is_needed {
                return Err(missing(&input, &places, command));
            }
            return Ok(());
        };
        if path != input.path {
            *place.value = text_of(&path);
        }
        if let Some((record, first)) = record.and_then(|record| Some((record, record.input(&input.key)?))) {
            if absolute(&path) != record.folder.join(&first.path) && !source.is_overridden(&input.key) {
                located.notes.push(format!("`{}`: read from `{}`", input.key, path.display()));
            }
            let (now, known_as) = (text_of(&path), text_of(&first.path));
            if input.kind == PathKind::Data && now != known_as {
                located.moved.insert(now, known_as);
            }
        }
        if is_needed {
            located.found.push((Input { path, ..input }, is_right));
        }
        Ok(())
    })?;
    source.replace(values);
    Ok(located)
}

fn missing(input: &Input, places: &Places, command: &str) -> RunError {
    let original = places.original(&input.path);
    let (written, key) = (input.path.display(), &input.key);
    let place = if original == input.path {
        format!("`{written}`")
    } else {
        format!("`{written}` (`{}` when the run began)", original.display())
    };
    RunError::Refused(format!(
        "`{key}`: {place} is not there. If it was moved, say where it lies now: {command} {}=PATH; it is compared with \
         what the run began with",
        base_key(key)
    ))
}

/// Environments that start from the current directory get the folder that this was when the run began, because a
/// verifier's command runs there.
fn enter_folders(values: &mut Value, places: &Places) -> Result<(), RunError> {
    paths::each_config(values, &mut |_, id, config| {
        let kind = burnish_env::kind(id)?;
        let has_none = config.get(ENV_FOLDER).and_then(Value::as_str).is_none_or(str::is_empty);
        if has_none && (kind.defaults)().get(ENV_FOLDER).is_some() {
            let files = config.get(ENV_PATH);
            let files = match files {
                Some(Value::Array(files)) => files.iter().filter_map(Value::as_str).map(Path::new).collect(),
                one => one.and_then(Value::as_str).map(Path::new).into_iter().collect::<Vec<_>>(),
            };
            let folder = places.folder_of(&files);
            if let (Some(folder), Some(config)) = (folder, config.as_object_mut()) {
                config.insert(ENV_FOLDER.to_owned(), text_of(&folder).into());
            }
        }
        Ok(())
    })
}

fn text_of(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The folders that a run's paths may be relative to.
struct Places {
    /// The folder in which the run began.
    folder: Option<PathBuf>,
    /// What was moved together with the run directory: its old and its new path.
    moved: Option<(PathBuf, PathBuf)>,
}

impl Places {
    fn new(record: Option<&Record>, dir: &Path) -> Self {
        let Some(record) = record else { return Places { folder: None, moved: None } };
        let (then, now) = (&record.dir, absolute(dir));
        // The common end of both paths did not move.
        let (mut old, mut new) = (then.as_path(), now.as_path());
        while old.file_name().is_some() && old.file_name() == new.file_name() {
            let (Some(above_old), Some(above_new)) = (old.parent(), new.parent()) else { break };
            (old, new) = (above_old, above_new);
        }
        let moved = (old != new).then(|| (old.to_owned(), new.to_owned()));
        Places { folder: Some(record.folder.clone()), moved }
    }

    /// The path of a file when the run began.
    fn original(&self, path: &Path) -> PathBuf {
        self.folder.as_ref().map_or_else(|| path.to_owned(), |folder| folder.join(path))
    }

    /// The present path of the folder in which the run began, if that is not the current directory: the one that has
    /// `files`, as far as their paths are relative, or else one that exists.
    fn folder_of(&self, files: &[&Path]) -> Option<PathBuf> {
        let folder = self.folder.as_ref()?;
        let here = std::env::current_dir().ok()?;
        let candidates = [Some(folder.clone()), self.follow(folder), Some(here.clone())];
        let candidates: Vec<PathBuf> =
            candidates.into_iter().flatten().filter(|path| path.is_dir()).collect();
        let has_all = |folder: &&PathBuf| files.iter().all(|file| folder.join(file).is_file());
        let found = candidates.iter().find(has_all).or(candidates.first())?;
        (*found != here).then(|| found.clone())
    }

    /// The present path of a file that was at an absolute path, if it moved together with the run directory.
    fn follow(&self, path: &Path) -> Option<PathBuf> {
        let (old, new) = self.moved.as_ref()?;
        Some(new.join(path.strip_prefix(old).ok()?))
    }

    /// The first place of `path` that is right. The path as written comes first if it is still valid, so that nothing
    /// changes in the folder in which a run began.
    fn find(&self, path: &Path, is_right: &dyn Fn(&Path) -> bool) -> Option<PathBuf> {
        let original = self.original(path);
        let first = if original == absolute(path) { path.to_owned() } else { original.clone() };
        let candidates = [Some(first), self.follow(&original), Some(path.to_owned())];
        candidates.into_iter().flatten().find(|path| is_right(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(folder: &str, then: &str, now: &str) -> Places {
        let record = Record::of_place(folder, then);
        Places::new(Some(&record), Path::new(now))
    }

    #[test]
    fn a_file_is_followed_with_all_that_was_moved_together_with_the_run() {
        let whole = places("/old/project", "/old/project/runs/x", "/new/place/runs/x");
        assert_eq!(whole.follow(Path::new("/old/project/data/a")), Some("/new/place/data/a".into()));
        assert_eq!(whole.follow(Path::new("/elsewhere/a")), None);
        // Only the run was renamed, together with everything inside it.
        let renamed = places("/old", "/old/runs/x", "/old/runs/y");
        assert_eq!(renamed.follow(Path::new("/old/runs/x/start")), Some("/old/runs/y/start".into()));
        assert_eq!(renamed.follow(Path::new("/old/data/a")), None);
        assert_eq!(places("/old", "/old/runs/x", "/old/runs/x").follow(Path::new("/old/runs/x")), None);
    }
}
