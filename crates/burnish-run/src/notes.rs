//! `[memory]`: notes that programs read, found by BM25.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use burnish_core::{Memory, Note, TaskId, json};
use burnish_recipe::{Recipe, StageUse};
use burnish_retrieval::Index;
use burnish_rundir::files::{FileError, file_digest};

use crate::{RunError, stages};

/// The memory of a recipe, if it has one.
///
/// # Errors
/// If it can't be read, or is not made yet.
pub(crate) fn of_recipe(recipe: &Recipe) -> Result<Option<Arc<dyn Memory>>, RunError> {
    if recipe.memory.is_none() {
        return Ok(None);
    }
    Ok(Some(Arc::new(Notes::read(&place(recipe)?)?)))
}

/// A digest of the file of notes of a recipe that has one.
///
/// # Errors
/// As [`of_recipe`].
pub(crate) fn digest_of(recipe: &Recipe) -> Result<String, RunError> {
    Ok(file_digest(&place(recipe)?)?)
}

fn place(recipe: &Recipe) -> Result<PathBuf, RunError> {
    match recipe.memory.as_ref().and_then(|memory| memory.place()) {
        Some(place) => Ok(place.to_owned()),
        None => stages::file_of(recipe, StageUse::Memory),
    }
}

/// Notes of a file.
struct Notes {
    notes: Vec<Note>,
    /// Of what they are about.
    index: Index,
}

impl Notes {
    fn read(path: &Path) -> Result<Self, RunError> {
        let text = fs::read_to_string(path).map_err(FileError::on("read", path))?;
        let mut notes = Vec::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let note: Note = json::read(line).map_err(|error| {
                RunError::Refused(format!(
                    "{}, line {}: is no note: {error}; a note is `{{\"about\": \"...\", \"text\": \"...\"}}`",
                    path.display(),
                    number + 1
                ))
            })?;
            notes.push(note);
        }
        let index = Index::new(notes.iter().map(|note| note.about.as_str()));
        Ok(Notes { notes, index })
    }
}

impl Memory for Notes {
    fn notes(&self) -> &[Note] {
        &self.notes
    }

    fn recall(&self, about: &str, count: usize, except: Option<&TaskId>) -> Vec<Note> {
        let nearest = self.index.nearest(about, self.notes.len()).into_iter();
        let nearest = nearest.take_while(|(_, score)| *score > 0.0).map(|(place, _)| &self.notes[place]);
        // Another task may have the same question and the same answer.
        let is_own = |note: &Note| except.is_some() && note.task.as_ref() == except;
        let own: Vec<&Note> = self.notes.iter().filter(|note| is_own(note)).collect();
        let is_like =
            |note: &Note| own.iter().any(|own| (&own.about, &own.text) == (&note.about, &note.text));
        nearest.filter(|note| !is_own(note) && !is_like(note)).take(count).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_notes_come_first_and_a_task_never_reads_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notes.jsonl");
        let line = |about: &str, text: &str, task: &str| {
            format!("{{\"about\": \"{about}\", \"text\": \"{text}\", \"task\": \"{task}\"}}\n")
        };
        let lines = [line("red hat", "a", "1"), line("blue coat", "b", "2"), line("red coat", "c", "3")];
        std::fs::write(&path, lines.concat() + "\n").unwrap();
        let notes = Notes::read(&path).unwrap();
        let said = |about: &str, count: usize, except: Option<&str>| -> String {
            let except = except.map(|task| TaskId(task.into()));
            notes.recall(about, count, except.as_ref()).into_iter().map(|note| note.text).collect()
        };
        assert_eq!(said("which red coat", 9, None), "cab");
        assert_eq!(said("which red coat", 2, None), "ca");
        assert_eq!(said("which red coat", 2, Some("3")), "ab");
        assert_eq!(said("green shoes", 9, None), "");
        // Nor what it says, where another task says the same.
        let twins = line("red hat", "a", "1") + &line("red hat", "a", "4") + &line("red hat", "b", "5");
        std::fs::write(&path, twins).unwrap();
        let texts = |except: &str| -> String {
            let except = TaskId(except.into());
            let notes = Notes::read(&path).unwrap().recall("red hat", 9, Some(&except));
            notes.into_iter().map(|note| note.text).collect()
        };
        assert_eq!((texts("1"), texts("5")), ("b".into(), "aa".into()));
        // Without a task a note is nobody's own.
        std::fs::write(&path, "{\"about\": \"red\", \"text\": \"a\"}\n").unwrap();
        let own = Notes::read(&path).unwrap();
        assert_eq!(own.recall("red", 1, Some(&TaskId("1".into()))).len(), 1);
        std::fs::write(&path, lines.concat() + "{\"abuot\": \"red\"}\n").unwrap();
        let error = Notes::read(&path).err().unwrap().to_string();
        assert!(error.contains("notes.jsonl, line 4: is no note"), "{error}");
    }
}
