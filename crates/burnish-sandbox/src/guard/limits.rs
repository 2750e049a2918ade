//! Descriptors and limits that hold for everything in the sandbox. Those of a job are set by the process that forks it.

use nix::sys::resource::{Resource, setrlimit};

/// Open files of a process.
const FILES_MAX: u64 = 256;

/// Bytes of the stack, as most systems have it.
const STACK_BYTES: u64 = 8 << 20;

/// Closes everything but stdin, stdout and stderr.
pub(super) fn close_inherited() {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let numbers: Vec<i32> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        // That of the folder itself is closed already.
        let _ = nix::unistd::close(number);
    }
}

/// Sets what no job needs more of.
pub(super) fn set() -> Result<(), String> {
    for (resource, limit) in [
        (Resource::RLIMIT_CORE, 0),
        (Resource::RLIMIT_NOFILE, FILES_MAX),
        (Resource::RLIMIT_STACK, STACK_BYTES),
        (Resource::RLIMIT_MEMLOCK, 0),
        (Resource::RLIMIT_MSGQUEUE, 0),
        (Resource::RLIMIT_SIGPENDING, FILES_MAX),
        (Resource::RLIMIT_RTPRIO, 0),
    ] {
        setrlimit(resource, limit, limit).map_err(|error| format!("limits: {resource:?}: {error}"))?;
    }
    Ok(())
}
