//! The skeleton of a new part or system: its file, and its lines in `mod.rs` and in the catalogue.

use std::path::{Path, PathBuf};

use burnish_rundir::files::{FileError, write_atomic};

/// A part or a system can't be created.
#[derive(Debug, thiserror::Error)]
pub enum ScaffoldError {
    /// The id can't name a file and a module.
    #[error("`{0}` can name no part or system: small letters, digits and `_`, a letter first")]
    Name(String),
    /// There is one with that id already.
    #[error("{0} exists; choose another id")]
    Exists(PathBuf),
    /// This is not the project's repository, or its files have changed.
    #[error("{file}: {problem}; run this at the root of the repository")]
    Repository {
        /// Which file.
        file: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A file could not be written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// The file changes that a new part or system needs; [`Scaffold::write`] makes them.
#[derive(Debug)]
pub struct Scaffold {
    files: Vec<(PathBuf, String)>,
}

/// What differs between the families of which a part can be created.
struct Kind {
    folder: &'static str,
    catalogue: &'static str,
    template: &'static str,
}

const OBJECTIVE: Kind = Kind {
    folder: "objective",
    catalogue: "pub const OBJECTIVES: &[Entry<dyn TokenLoss>] = entries![",
    template: include_str!("objective.rs.txt"),
};

const ADVANTAGE: Kind = Kind {
    folder: "advantage",
    catalogue: "pub const ADVANTAGES: &[Entry<dyn Estimator>] = entries![",
    template: include_str!("advantage.rs.txt"),
};

/// The first line of the list of systems.
const SYSTEMS: &str = "pub const SYSTEMS: &[System] = &[";

impl Scaffold {
    /// An objective called `id`, in the repository at `root`.
    ///
    /// # Errors
    /// If `id` is invalid or taken, or `root` is not the repository.
    pub fn objective(root: &Path, id: &str) -> Result<Self, ScaffoldError> {
        Scaffold::new(root, id, &OBJECTIVE)
    }

    /// An advantage called `id`, in the repository at `root`.
    ///
    /// # Errors
    /// As [`Scaffold::objective`].
    pub fn advantage(root: &Path, id: &str) -> Result<Self, ScaffoldError> {
        Scaffold::new(root, id, &ADVANTAGE)
    }

    /// The card of a system called `id`, in the repository at `root`.
    ///
    /// # Errors
    /// As [`Scaffold::objective`].
    pub fn system(root: &Path, id: &str) -> Result<Self, ScaffoldError> {
        let folder = root.join("systems");
        let card = new_file(&folder, id, &format!("{id}/mod.rs"))?;
        let module = folder.join("lib.rs");
        let modules = insert_line(&module, "pub mod ", &format!("pub mod {id};"))?;
        let modules = insert_below(&module, &modules, SYSTEMS, &format!("{id}::SYSTEM,"))?;
        let text = include_str!("system.rs.txt").replace("SYSTEM_ID", id);
        Ok(Scaffold { files: vec![(card, text), (module, modules)] })
    }

    fn new(root: &Path, id: &str, kind: &Kind) -> Result<Self, ScaffoldError> {
        let src = root.join("crates/burnish-rl/src");
        let part = new_file(&src.join(kind.folder), id, &format!("{id}.rs"))?;
        let name = pascal(id);
        let text = kind.template.replace("PART_ID", id).replace("PartName", &name);
        let module = src.join(kind.folder).join("mod.rs");
        let modules = insert_line(&module, "mod ", &format!("mod {id};"))?;
        let modules = insert_in(&module, &modules, "pub use ", &format!("pub use {id}::{name};"))?;
        let catalogue = src.join("catalogue.rs");
        let entry = format!("{}::{name},", kind.folder);
        let listed = insert_below(&catalogue, &read(&catalogue)?, kind.catalogue, &entry)?;
        Ok(Scaffold { files: vec![(part, text), (module, modules), (catalogue, listed)] })
    }

    /// The files to create or change, with their new text.
    pub fn files(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.files.iter().map(|(path, text)| (path.as_path(), text.as_str()))
    }

    /// Writes them.
    ///
    /// # Errors
    /// If one can't be written.
    pub fn write(&self) -> Result<(), ScaffoldError> {
        for (path, text) in &self.files {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder).map_err(FileError::on("create directory", folder))?;
            }
            write_atomic(path, text.as_bytes())?;
        }
        Ok(())
    }
}

/// The path of the new file `name` for `id`.
fn new_file(folder: &Path, id: &str, name: &str) -> Result<PathBuf, ScaffoldError> {
    let is_name = id.starts_with(|c: char| c.is_ascii_lowercase())
        && id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if !is_name {
        return Err(ScaffoldError::Name(id.to_owned()));
    }
    let file = folder.join(name);
    if file.exists() { Err(ScaffoldError::Exists(file)) } else { Ok(file) }
}

/// `ppo_clip` as `PpoClip`.
fn pascal(id: &str) -> String {
    id.split('_')
        .flat_map(|word| {
            let mut letters = word.chars();
            letters
                .next()
                .map(|first| first.to_ascii_uppercase())
                .into_iter()
                .chain(letters)
                .collect::<Vec<_>>()
        })
        .collect()
}

fn read(file: &Path) -> Result<String, ScaffoldError> {
    std::fs::read_to_string(file).map_err(|error| ScaffoldError::Repository {
        file: file.to_owned(),
        problem: format!("can't be read: {error}"),
    })
}

/// The text of `file` with `line` inserted before the first line that starts with `prefix`.
fn insert_line(file: &Path, prefix: &str, line: &str) -> Result<String, ScaffoldError> {
    insert_in(file, &read(file)?, prefix, line)
}

fn insert_in(file: &Path, text: &str, prefix: &str, line: &str) -> Result<String, ScaffoldError> {
    let at =
        text.lines().position(|own| own.starts_with(prefix)).ok_or_else(|| ScaffoldError::Repository {
            file: file.to_owned(),
            problem: format!("has no line that starts with `{prefix}`"),
        })?;
    let mut lines: Vec<&str> = text.lines().collect();
    lines.insert(at, line);
    Ok(lines.join("\n") + "\n")
}

/// `text`, the text of `file`, with `line` inserted and indented below the line `head`.
fn insert_below(file: &Path, text: &str, head: &str, line: &str) -> Result<String, ScaffoldError> {
    if !text.contains(head) {
        let problem = format!("has no line `{head}`");
        return Err(ScaffoldError::Repository { file: file.to_owned(), problem });
    }
    Ok(text.replacen(head, &format!("{head}\n    {line}"), 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    #[test]
    fn a_part_is_its_file_and_a_line_in_each_list() {
        for scaffold in [Scaffold::objective(&root(), "new_one_2"), Scaffold::advantage(&root(), "new_one_2")]
        {
            let scaffold = scaffold.unwrap();
            let texts: Vec<&str> = scaffold.files().map(|(_, text)| text).collect();
            assert!(texts[0].contains("pub struct NewOne2") && texts[0].contains("id: \"new_one_2\""));
            assert!(
                texts[1].contains("mod new_one_2;\n") && texts[1].contains("pub use new_one_2::NewOne2;\n")
            );
            assert!(texts[2].contains("::NewOne2,\n"));
        }
    }

    #[test]
    fn a_system_is_its_card_and_a_line_in_each_list() {
        let scaffold = Scaffold::system(&root(), "new_one_2").unwrap();
        let texts: Vec<&str> = scaffold.files().map(|(_, text)| text).collect();
        assert!(texts[0].contains("id: \"new_one_2\""), "{}", texts[0]);
        assert!(texts[1].contains("pub mod new_one_2;\n") && texts[1].contains("    new_one_2::SYSTEM,\n"));
        assert!(matches!(Scaffold::system(&root(), "skpo"), Err(ScaffoldError::Exists(_))));

        // It makes the folder that it needs.
        let elsewhere = std::env::temp_dir().join(format!("burnish-scaffold-{}", std::process::id()));
        std::fs::create_dir_all(elsewhere.join("systems")).unwrap();
        std::fs::copy(root().join("systems/lib.rs"), elsewhere.join("systems/lib.rs")).unwrap();
        Scaffold::system(&elsewhere, "new_one_2").unwrap().write().unwrap();
        let card = std::fs::read_to_string(elsewhere.join("systems/new_one_2/mod.rs")).unwrap();
        std::fs::remove_dir_all(&elsewhere).unwrap();
        assert!(card.contains("id: \"new_one_2\""));
    }

    #[test]
    fn a_name_that_is_taken_or_none_is_refused() {
        assert!(matches!(Scaffold::objective(&root(), "ppo_clip"), Err(ScaffoldError::Exists(_))));
        for name in ["", "Gspo", "2x", "a-b", "../x"] {
            assert!(matches!(Scaffold::objective(&root(), name), Err(ScaffoldError::Name(_))), "{name}");
        }
        let error = Scaffold::advantage(Path::new("/nowhere"), "x").unwrap_err().to_string();
        assert!(error.contains("root of the repository"), "{error}");
    }
}
