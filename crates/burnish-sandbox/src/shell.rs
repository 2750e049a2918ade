//! Ends a command's processes when this process was killed and can no longer do so.

use std::process::{Child, Command, Stdio};

/// A shell that waits for the end of its stdin, whose other end only this process holds, and then kills a group of
/// processes. It needs nothing from the command, which may ignore its own stdin, and it also reaches processes that the
/// command has started.
///
/// If no shell can be started there is no guard, and the command survives a kill of this process.
#[derive(Debug)]
pub(crate) struct Guard(Option<Child>);

/// The shell is in a group of its own, so that signals to our group or the command's do not reach it.
const SCRIPT: &str = "trap '' HUP INT TERM; read -r _; kill -s KILL -- \"-$1\"";

impl Guard {
    /// Guards the group of `leader`.
    pub(crate) fn over(leader: &Child) -> Self {
        let mut shell = Command::new("/bin/sh");
        shell
            .args(["-c", SCRIPT, "burnish-guard", &leader.id().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        #[cfg(unix)]
        {
            std::os::unix::process::CommandExt::process_group(&mut shell, 0);
            Guard(shell.spawn().ok())
        }
        #[cfg(not(unix))]
        Guard(None)
    }
}

/// A guard that is no longer needed must not see the end of its stdin, because the group's number may have been reused
/// by then.
impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(shell) = &mut self.0 {
            let _ = shell.kill();
            let _ = shell.wait();
        }
    }
}
