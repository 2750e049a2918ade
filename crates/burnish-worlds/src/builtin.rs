//! The worlds that come with burnish.

use crate::{World, WorldError};

/// Names and files.
const FILES: [(&str, &str); 0] = [];

/// The names of the worlds that come with burnish.
pub fn builtin_names() -> impl Iterator<Item = &'static str> {
    FILES.into_iter().map(|(name, _)| name)
}

/// The world of a name that comes with burnish; `None` if there is none of this name.
///
/// # Errors
/// If its file is not a world, which its tests rule out.
pub fn builtin(name: &str) -> Option<Result<World, WorldError>> {
    let (_, text) = FILES.into_iter().find(|(known, _)| *known == name)?;
    Some(World::parse(text))
}
