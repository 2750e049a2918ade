//! What several tests read.

use std::path::{Path, PathBuf};

/// Where the templates of well-known models are; `None` where this checkout has no such folder.
pub(crate) fn shared_templates() -> Option<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/chat_templates");
    if !dir.is_dir() {
        println!("skipped: {} is not there", dir.display());
        return None;
    }
    Some(dir)
}
