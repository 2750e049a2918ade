//! Namespaces, and the rights that a process has in them.

use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::unistd::{Gid, Uid, getegid, geteuid, setgroups, setresgid, setresuid};

use crate::setup::Stage;

/// Who programs run as if root starts them. Root itself is exempt from the limit on processes.
const NOBODY: u32 = 65534;

/// The last capability that this kernel may know; unknown ones are skipped.
const CAPABILITIES: u32 = 63;

/// What a program gets its own of, besides users: mounts, processes, network, IPC, host name.
fn apart() -> CloneFlags {
    CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
}

/// Moves into new namespaces; processes that are started from now on are in them. Root makes them as root. Anybody else
/// makes a namespace of users first, in which they may do so; so does root in a container that lacks the right.
pub(super) fn leave() -> Result<Stage, String> {
    if geteuid().is_root() {
        if unshare(apart()).is_ok() {
            return Ok(Stage::InsideAsRoot);
        }
        become_nobody()?;
    }
    let (user, group) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER | apart()).map_err(|error| {
        format!(
            "this system does not let a program make them ({error}); see \
             /proc/sys/kernel/unprivileged_userns_clone, /proc/sys/user/max_user_namespaces and \
             /proc/sys/kernel/apparmor_restrict_unprivileged_userns, or the settings of the container"
        )
    })?;
    for (file, text) in [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("0 {user} 1")),
        ("gid_map", format!("0 {group} 1")),
    ] {
        std::fs::write(format!("/proc/self/{file}"), text).map_err(|error| format!("{file}: {error}"))?;
    }
    Ok(Stage::InsideAsUser)
}

/// Gives up every right that a later program could still use.
pub(super) fn drop_rights(stage: Stage) -> Result<(), String> {
    if stage == Stage::InsideAsRoot {
        become_nobody()?;
        // Users of its own as well: processes are then counted for this sandbox alone. Where that is not allowed, all
        // sandboxes of this machine share the count.
        let _ = unshare(CloneFlags::CLONE_NEWUSER);
    }
    // Without namespaces root stays root, without rights: the interpreter may be in a folder that only root enters.
    drop_capabilities()
}

fn become_nobody() -> Result<(), String> {
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    setgroups(&[])
        .and_then(|()| setresgid(group, group, group))
        .and_then(|()| setresuid(user, user, user))
        // A process that changed its user is not its own owner in /proc otherwise.
        .and_then(|()| prctl::set_dumpable(true))
        .map_err(|error| format!("can't become user {NOBODY}: {error}"))
}

/// The next program gets no capability, whoever it runs as.
fn drop_capabilities() -> Result<(), String> {
    for number in 0..=CAPABILITIES {
        let Some(capability) = rustix::thread::CapabilitySet::from_bits(1 << number) else { continue };
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            // Nobody gets what they don't have.
            Err(rustix::io::Errno::PERM) if !geteuid().is_root() => return Ok(()),
            Err(error) => return Err(format!("capabilities: {error}")),
        }
    }
    Ok(())
}
