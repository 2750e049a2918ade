//! An episode's own copy of a folder.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

/// What the policy reads in place of the folder's path, which is another one in every episode.
const SHOWN: &str = "/workspace";

/// A copy of a folder. It is deleted when this is dropped.
#[derive(Debug)]
pub(super) struct Workspace {
    /// Deletes the folder.
    _folder: TempDir,
    path: PathBuf,
}

impl Workspace {
    /// Copies the folder `from`.
    ///
    /// # Errors
    /// If it can't be read or copied.
    pub(super) fn copy_of(from: &Path) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("`{}` can't be copied: {error}", from.display());
        let folder = tempfile::Builder::new().prefix("burnish-").tempdir().map_err(failed)?;
        // Servers name files by their real paths.
        let path = folder.path().canonicalize().map_err(failed)?;
        copy(from, &path).map_err(failed)?;
        Ok(Workspace { _folder: folder, path })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A text of the server as the policy reads it.
    pub(super) fn shown(&self, text: &str) -> String {
        text.replace(&*self.path.to_string_lossy(), SHOWN)
    }

    /// Arguments of the policy as the server reads them.
    pub(super) fn meant(&self, arguments: &mut Value) {
        match arguments {
            Value::String(text) => *text = text.replace(SHOWN, &self.path.to_string_lossy()),
            Value::Array(items) => items.iter_mut().for_each(|item| self.meant(item)),
            Value::Object(fields) => fields.values_mut().for_each(|value| self.meant(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            fs::create_dir(&target)?;
            copy(&source, &target)?;
        } else if kind.is_file() {
            fs::copy(&source, &target)?;
        } else {
            let problem = format!("`{}` is neither a file nor a folder", source.display());
            return Err(std::io::Error::other(problem));
        }
    }
    Ok(())
}

/// Adds all files below `folder`, in order of their names. What can't be read is left out; copying it says why.
pub(super) fn files_below(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        match path.is_dir() {
            true => files_below(&path, files),
            false => files.push(path),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_copy_is_apart_and_goes_by_one_name() {
        let original = tempfile::tempdir().unwrap();
        fs::create_dir(original.path().join("in")).unwrap();
        fs::write(original.path().join("in/a.txt"), "a").unwrap();
        fs::write(original.path().join("b.txt"), "b").unwrap();
        let mut files = Vec::new();
        files_below(original.path(), &mut files);
        assert_eq!(files, ["b.txt", "in/a.txt"].map(|name| original.path().join(name)));
        let copy = Workspace::copy_of(original.path()).unwrap();
        fs::write(copy.path().join("in/a.txt"), "changed").unwrap();
        assert_eq!(fs::read_to_string(original.path().join("in/a.txt")).unwrap(), "a");
        let real = copy.path().display().to_string();
        assert_eq!(copy.shown(&format!("wrote {real}/b.txt")), "wrote /workspace/b.txt");
        let mut arguments = json!({ "paths": ["/workspace/b.txt", 1], "in": { "to": "x" } });
        copy.meant(&mut arguments);
        assert_eq!(arguments, json!({ "paths": [format!("{real}/b.txt"), 1], "in": { "to": "x" } }));
        drop(copy);
        assert!(!Path::new(&real).exists());
        let missing = Workspace::copy_of(Path::new("/no/such/folder")).unwrap_err();
        assert!(missing.starts_with("`/no/such/folder` can't be copied: "), "{missing}");
    }
}
