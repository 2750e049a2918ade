//! Files mapped into memory.

use std::{fs::File, io, ops::Deref, path::Path};

/// A file's bytes, read by the system as they are touched.
#[derive(Debug)]
pub struct Mapped(memmap2::Mmap);

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// Maps `path` for reading.
///
/// The file must not be truncated or changed while it is mapped: the bytes would change under the reader, or the system
/// would kill the process. Checkpoints are written beside their final name and renamed into place, so that a mapped
/// file stays whole.
///
/// # Errors
/// Those of opening and mapping the file.
pub fn map_file(path: &Path) -> io::Result<Mapped> {
    let file = File::open(path)?;
    // SAFETY: the map is read-only and private to this value; the caller must ensure that nobody truncates the file
    // meanwhile, as documented.
    let map = unsafe { memmap2::Mmap::map(&file)? };
    Ok(Mapped(map))
}
