//! The models by which `first_try` decides after how many tries thoughts end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use burnish_core::reflection::ReflectionModel;

/// Models by the path of their file, each read once.
#[derive(Debug, Default)]
pub(super) struct Models(BTreeMap<PathBuf, Arc<ReflectionModel>>);

impl Models {
    /// The model of a file.
    ///
    /// # Errors
    /// As [`read_reflection_model`].
    pub(super) fn get(&mut self, path: &Path) -> Result<Arc<ReflectionModel>, String> {
        if let Some(model) = self.0.get(path) {
            return Ok(Arc::clone(model));
        }
        let model = Arc::new(read_reflection_model(path)?);
        self.0.insert(path.to_owned(), Arc::clone(&model));
        Ok(model)
    }
}

/// Reads a file that `burnish fit-thoughts` wrote.
///
/// # Errors
/// Names the file, and the field that is wrong in it.
pub fn read_reflection_model(path: &Path) -> Result<ReflectionModel, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("`{}` can't be read: {error}", path.display()))?;
    ReflectionModel::parse(&text).map_err(|error| format!("`{}`: {error}", path.display()))
}
