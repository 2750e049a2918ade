//! The quickstart in the binary: a recipe and the policy that it starts from, for those who have no checkout.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What `burnish train` calls it, and the folder that it is written to.
pub(crate) const NAME: &str = "quickstart";

const RECIPE: &str = include_str!("../../../recipes/quickstart.toml");
/// Where the policy is in a checkout.
const IN_CHECKOUT: &str = "models/starter";

macro_rules! starter {
    ($($file:literal),*) => { [$(($file, include_bytes!(concat!("../../../models/starter/", $file)))),*] };
}
const STARTER: [(&str, &[u8]); 7] = starter!(
    "README.md",
    "chat_template.jinja",
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json"
);

/// The recipe of the quickstart below `folder`, written there unless it is there already, and whether it was written.
/// The folder is complete or absent at any moment.
///
/// # Errors
/// If it can't be written, or something else has its place.
pub(crate) fn recipe(folder: &Path) -> Result<(PathBuf, bool), String> {
    let place = folder.join(NAME);
    let recipe = place.join("quickstart.toml");
    if recipe.is_file() {
        return Ok((recipe, false));
    }
    if place.exists() {
        return Err(format!(
            "{}: is there and has no quickstart.toml; move it away, or go to another folder",
            place.display()
        ));
    }
    let new = folder.join(format!(".{NAME}.new-{}", std::process::id()));
    let written = write(&new).and_then(|()| fs::rename(&new, &place));
    written.map_err(|error| {
        let _ = fs::remove_dir_all(&new);
        format!("{}: the quickstart can't be written there: {error}", place.display())
    })?;
    Ok((recipe, true))
}

fn write(place: &Path) -> io::Result<()> {
    let starter = place.join("starter");
    fs::create_dir_all(&starter)?;
    for (name, content) in STARTER {
        fs::write(starter.join(name), content)?;
    }
    let policy = format!("{NAME}/starter");
    let recipe = RECIPE.replace(IN_CHECKOUT, &policy);
    let recipe =
        recipe.replace("cargo run --release -- train recipes/quickstart.toml", "burnish train quickstart");
    fs::write(place.join("quickstart.toml"), recipe)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_once_whole_and_then_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let (path, is_new) = recipe(folder.path()).unwrap();
        assert!(is_new && path.is_file());
        let text = fs::read_to_string(&path).unwrap();
        assert!(
            text.contains("path = \"quickstart/starter\"")
                && !text.contains("models/")
                && !text.contains("cargo")
        );
        let of_checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(IN_CHECKOUT);
        for entry in fs::read_dir(of_checkout).unwrap() {
            let entry = entry.unwrap();
            let own = fs::read(folder.path().join("quickstart/starter").join(entry.file_name()));
            assert!(own.unwrap() == fs::read(entry.path()).unwrap(), "{entry:?}");
        }
        fs::write(&path, "changed").unwrap();
        assert_eq!(recipe(folder.path()).unwrap(), (path.clone(), false));
        assert_eq!(fs::read_to_string(path).unwrap(), "changed");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing half-written stays");
    }

    #[test]
    fn what_has_its_place_is_never_touched() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(NAME)).unwrap();
        let error = recipe(folder.path()).unwrap_err();
        assert!(error.contains("move it away"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
