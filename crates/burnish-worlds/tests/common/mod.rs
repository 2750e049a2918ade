//! The worlds that the tests run on.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says what is right")]

use std::fs;
use std::path::{Path, PathBuf};

use burnish_worlds::World;

/// Every world in the folder, in the order of names.
pub(crate) fn all() -> Vec<World> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("worlds");
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        World::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    paths.iter().map(read).collect()
}
