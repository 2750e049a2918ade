//! Shared by several tests.

use std::path::{Path, PathBuf};

/// The folder with the templates of well-known models; `None` if this checkout has no such folder.
pub(crate) fn shared_templates() -> Option<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/chat_templates");
    if !dir.is_dir() {
        println!("skipped: {} is not there", dir.display());
        return None;
    }
    Some(dir)
}
