//! Finds an adapter's base.

use std::path::{Path, PathBuf};

/// The directory of the base that the adapter in `dir` calls `name`: a path as it stands or from the adapter's directory,
/// or the base's new place if both were moved together. `None` if no config.json is in any of them.
pub fn adapter_base(dir: &Path, name: &str) -> Option<PathBuf> {
    let candidates = [PathBuf::from(name), dir.join(name)].into_iter().chain(moved_together(dir, name));
    candidates.into_iter().find(|path| path.join("config.json").exists())
}

/// Possible locations of a base with this absolute name if the folder that holds both it and the adapter was moved, the
/// closest to the name first. At least the last two parts of the name must be unchanged.
fn moved_together(dir: &Path, name: &str) -> Vec<PathBuf> {
    let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let name = Path::new(name);
    if !name.is_absolute() {
        return Vec::new();
    }
    let parts: Vec<_> = name.components().skip(1).collect();
    let ends = (0..parts.len().saturating_sub(1)).map(|from| parts[from..].iter().collect::<PathBuf>());
    ends.flat_map(|end| dir.ancestors().skip(1).map(|above| above.join(&end)).collect::<Vec<_>>()).collect()
}
