//! A file system with the interpreter, its libraries, a few devices and a scratch folder.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{chdir, pivot_root};

use crate::python::LIBRARIES;

/// The only folder in which a program can write.
pub(super) const SCRATCH: &str = "/tmp";

/// Devices that hold nothing.
pub(super) const DEVICES: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"];

/// Files in the scratch folder, so that emptying it takes no time.
const SCRATCH_FILES_MAX: u64 = 1024;

/// Folders that exist almost everywhere; one that nothing is read from is hidden while the new file system is built.
const PLACES: [&str; 7] = ["/tmp", "/run", "/mnt", "/var/tmp", "/media", "/srv", "/opt"];

/// Builds it and moves there. The old one can't be reached any more.
pub(super) fn build(reads: &[PathBuf], scratch_bytes: u64) -> Result<(), String> {
    let none = None::<&str>;
    let failed =
        |what: &str, error: &dyn std::fmt::Display| format!("file system of its own: {what}: {error}");
    // Nothing that is mounted here is seen outside.
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .map_err(|error| failed("private mounts", &error))?;
    let base = PLACES
        .iter()
        .map(Path::new)
        .find(|place| place.is_dir() && !reads.iter().any(|path| path.starts_with(place)))
        .ok_or_else(|| failed("no place for it", &PLACES.join(", ")))?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("tmpfs"), base, Some("tmpfs"), flags, Some("mode=755,size=1m"))
        .map_err(|error| failed("tmpfs", &error))?;
    let within = |path: &Path| base.join(path.strip_prefix("/").unwrap_or(path));
    for path in reads.iter().map(PathBuf::as_path).chain(DEVICES.iter().map(Path::new)) {
        if path.exists() {
            bind(path, &within(path)).map_err(|error| failed(&path.display().to_string(), &error))?;
        }
    }
    // Where /lib is a link to /usr/lib, programs still name it.
    for library in LIBRARIES.map(Path::new) {
        if let Ok(target) = fs::read_link(library)
            && !within(library).exists()
        {
            symlink(&target, within(library)).map_err(|error| failed("links", &error))?;
        }
    }
    let scratch = within(Path::new(SCRATCH));
    fs::create_dir_all(&scratch).map_err(|error| failed(SCRATCH, &error))?;
    let options = format!("mode=1777,size={scratch_bytes},nr_inodes={SCRATCH_FILES_MAX}");
    mount(Some("tmpfs"), &scratch, Some("tmpfs"), flags | MsFlags::MS_NOEXEC, Some(options.as_str()))
        .map_err(|error| failed(SCRATCH, &error))?;
    chdir(base)
        .and_then(|()| pivot_root(".", "."))
        .and_then(|()| umount2(".", MntFlags::MNT_DETACH))
        .and_then(|()| chdir("/"))
        .and_then(|()| {
            mount(none, "/", none, MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY | flags, none)
        })
        .map_err(|error| failed("the new root", &error))
}

/// Shows a file or folder at `target`, to be read only.
fn bind(path: &Path, target: &Path) -> std::io::Result<()> {
    let none = None::<&str>;
    if path.is_dir() {
        fs::create_dir_all(target)?;
    } else {
        target.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::File::create(target)?;
    }
    mount(Some(path), target, none, MsFlags::MS_BIND | MsFlags::MS_REC, none)?;
    let mut flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY | MsFlags::MS_NOSUID;
    if !path.starts_with("/dev") {
        flags |= MsFlags::MS_NODEV;
    }
    // What the old mount forbids stays forbidden; the kernel insists on that in a namespace of users.
    if statvfs(path)?.flags().contains(FsFlags::ST_NOEXEC) {
        flags |= MsFlags::MS_NOEXEC;
    }
    Ok(mount(none, target, none, flags, none)?)
}
