//! Merges an adapter and its base into one model directory.

use std::fs;
use std::path::{Path, PathBuf};

use burnish_model::{Loading, Model};
use burnish_train::checkpoint::{self, Extent};

use crate::RunError;
use crate::policy::LoadedPolicy;
use burnish_recipe::PolicySection;
use burnish_rundir::files::FileError;

/// Merges the adapter in `source` (an adapter's directory, or a run whose newest checkpoint has one) into its base,
/// and writes a model directory to `output`, which appears only when it is complete. Returns the adapter's directory,
/// and what to tell a person.
///
/// # Errors
/// If there is no adapter, its files can't be used, or `output` exists or can't be written.
pub fn merge(source: &Path, output: &Path) -> Result<(PathBuf, Vec<String>), RunError> {
    if output.exists() {
        return Err(RunError::Refused(format!("{} exists already; name a new directory", output.display())));
    }
    let checkpoints = source.join(burnish_rundir::run_dir::CHECKPOINTS);
    let (adapter, notes) = match checkpoint::latest(&checkpoints, Extent::Model)? {
        Some(newest) => (newest.checkpoint.path().to_owned(), newest.notes()),
        None => (source.to_owned(), Vec::new()),
    };
    if Model::base_of(&adapter)?.is_none() {
        return Err(RunError::Refused(format!(
            "{} holds no adapter (adapter_config.json): there is nothing to merge",
            adapter.display()
        )));
    }
    // In f32, whatever precision the run used, so that the sum is rounded only once, to the type of the base.
    let loading: Loading = PolicySection::default().sampling();
    let policy = LoadedPolicy::load(&adapter, &loading)?;
    let name = output.file_name().unwrap_or_default().to_string_lossy();
    let partial = output.with_file_name(format!(".{name}.{}.partial", std::process::id()));
    let written = policy
        .model
        .save_merged(&partial)
        .and_then(|()| policy.chat.save(&partial))
        .map_err(RunError::from)
        .and_then(|()| {
            fs::rename(&partial, output).map_err(FileError::on("name", output)).map_err(Into::into)
        });
    if written.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_dir_all(&partial);
    }
    written.map(|()| (adapter, notes))
}
