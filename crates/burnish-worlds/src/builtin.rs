//! The worlds that come with burnish.

use crate::{World, WorldError};

/// Names and files.
const FILES: [(&str, &str); 8] = [
    ("bank", include_str!("../worlds/bank.toml")),
    ("calendar", include_str!("../worlds/calendar.toml")),
    ("clinic", include_str!("../worlds/clinic.toml")),
    ("files", include_str!("../worlds/files.toml")),
    ("hotel", include_str!("../worlds/hotel.toml")),
    ("library", include_str!("../worlds/library.toml")),
    ("messages", include_str!("../worlds/messages.toml")),
    ("shop", include_str!("../worlds/shop.toml")),
];

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
