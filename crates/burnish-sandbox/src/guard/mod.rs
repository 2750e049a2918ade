//! The guard: gives up what a program must not have, and becomes the interpreter.
//!
//! It is two processes. The outer one makes the namespaces, starts the inner one, and kills it as soon as burnish is
//! gone or it is told to end. The inner one is the first process of its namespace, so everything in there ends with it.
//! It builds a file system with the interpreter alone, gives up rights, files and system calls, in this order, and
//! executes the interpreter. Nothing here runs beside other threads, and nothing of it is shared with burnish.

mod calls;
mod files;
mod limits;
mod root;
mod spaces;

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::getpgrp;

use crate::setup::{COMMAND, Greeting, Isolation, Report, Setup, Stage};

/// The script that the interpreter runs.
const ZYGOTE: &str =
    concat!(include_str!("../border.py"), include_str!("../play.py"), include_str!("../zygote.py"));

/// Status of a guard that refused.
const REFUSED: i32 = 3;

/// Runs the guard that `setup` describes. Returns the status to exit with.
pub(crate) fn run(setup: &str) -> i32 {
    let done = serde_json::from_str::<Setup>(setup)
        .map_err(|error| format!("this command is for burnish itself ({error})"))
        .and_then(|setup| match setup.stage {
            Stage::Outside => outside(setup),
            stage => Err(inside(setup, stage)),
        });
    match done {
        Ok(status) => status,
        Err(why) => {
            greet(&Greeting::Refused(why));
            REFUSED
        }
    }
}

fn greet(greeting: &Greeting) {
    if let Ok(line) = serde_json::to_string(greeting) {
        let mut out = std::io::stdout();
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }
}

/// Notes what is missing, or refuses if nothing may be.
fn without(setup: &mut Setup, why: String) -> Result<(), String> {
    match setup.isolation {
        Isolation::Required => Err(why),
        Isolation::BestEffort => {
            setup.missing.push(why);
            Ok(())
        }
    }
}

/// Does a test want to know what happens without this?
fn is_left_out(setup: &Setup, part: &str) -> bool {
    setup.without.iter().any(|without| without == part)
}

/// The outer process: makes the namespaces and watches over the inner one.
fn outside(mut setup: Setup) -> Result<i32, String> {
    // Descriptors that burnish was started with.
    limits::close_inherited();
    let moved = match is_left_out(&setup, "namespaces") {
        true => Err("left out".to_owned()),
        false => spaces::leave(),
    };
    setup.stage = match moved {
        Ok(stage) => stage,
        Err(why) => {
            without(&mut setup, format!("namespaces: {why}"))?;
            Stage::Bare
        }
    };
    let text = serde_json::to_string(&setup).map_err(|error| error.to_string())?;
    let mut inner = Command::new("/proc/self/exe")
        .args([COMMAND, &text])
        .env_clear()
        .stdin(Stdio::inherit())
        .spawn()
        .map_err(|error| format!("the inner guard can't be started: {error}"))?;
    loop {
        if let Ok(Some(status)) = inner.try_wait() {
            return Ok(status.code().unwrap_or(REFUSED));
        }
        if is_gone() {
            let _ = inner.kill();
            let _ = inner.wait();
            // Without namespaces, what a program has started is ended by the group that burnish made for this process.
            let _ = killpg(getpgrp(), Signal::SIGKILL);
            return Ok(0);
        }
    }
}

/// Has burnish closed its end of our stdin, which it does even if it is killed? Waits a moment for it.
fn is_gone() -> bool {
    let stdin = std::io::stdin();
    // The inner one reads the lines; here only the end counts.
    let mut ends = [PollFd::new(std::os::fd::AsFd::as_fd(&stdin), PollFlags::empty())];
    let patience = PollTimeout::from(200u8);
    let _ = poll(&mut ends, patience);
    ends[0].revents().is_some_and(|events| events.intersects(PollFlags::POLLHUP | PollFlags::POLLERR))
}

/// The inner process. Returns only if it fails: why.
fn inside(mut setup: Setup, stage: Stage) -> String {
    match give_up(&mut setup, stage) {
        Ok(report) => become_interpreter(&setup, &report),
        Err(why) => why,
    }
}

fn give_up(setup: &mut Setup, stage: Stage) -> Result<Report, String> {
    let is_apart = stage != Stage::Bare;
    if is_apart {
        root::build(&setup.python.reads, setup.scratch_bytes)?;
    }
    limits::set()?;
    spaces::drop_rights(stage)?;
    prctl::set_no_new_privs().map_err(|error| format!("no_new_privs: {error}"))?;
    // A new owner clears it, so it comes after that.
    prctl::set_pdeathsig(Signal::SIGKILL).map_err(|error| format!("death with the parent: {error}"))?;
    let files = match is_left_out(setup, "landlock") {
        true => Err("left out".to_owned()),
        false => files::restrict(&setup.python.reads, is_apart),
    };
    let landlock = files.is_ok();
    if let Err(why) = files {
        without(setup, format!("Landlock: {why}"))?;
    }
    let calls = match is_left_out(setup, "seccomp") {
        true => Err("left out".to_owned()),
        false => calls::restrict(is_apart),
    };
    let seccomp = calls.is_ok();
    if let Err(why) = calls {
        without(setup, format!("seccomp: {why}"))?;
    }
    Ok(Report { namespaces: is_apart, landlock, seccomp, missing: setup.missing.clone() })
}

/// Executes the interpreter. Returns only if that fails: why.
fn become_interpreter(setup: &Setup, report: &Report) -> String {
    let config = serde_json::json!({ "warm": report.namespaces, "sys_path": setup.python.sys_path });
    greet(&Greeting::Isolated(report.clone()));
    let error = Command::new(&setup.python.program)
        .args(["-B", "-S", "-s", "-c", ZYGOTE, &config.to_string()])
        .env_clear()
        .env("HOME", root::SCRATCH)
        .env("LANG", "C.UTF-8")
        .env("PATH", "")
        // The same program does the same every time.
        .env("PYTHONHASHSEED", setup.hash_seed.to_string())
        .env("PYTHONUTF8", "1")
        .env("TMPDIR", root::SCRATCH)
        .env("TZ", "UTC")
        .exec();
    format!("{} can't be executed: {error}", setup.python.program.display())
}
