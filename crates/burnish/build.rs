//! Tells the program the commit that it was built from.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../../crates");
    println!("cargo::rerun-if-changed=../../Cargo.lock");
    // Outside of a checkout there is no commit, and only the version is shown.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    let commit = git(&["describe", "--always", "--dirty", "--exclude=*"]);
    let commit = commit.map(|commit| format!(" (commit {commit})")).unwrap_or_default();
    println!("cargo::rustc-env=BURNISH_VERSION={}{commit}", env!("CARGO_PKG_VERSION"));
}

/// The output of git; `None` if it fails.
fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let said = String::from_utf8(output.stdout).ok()?;
    Some(said.trim().to_owned()).filter(|said| !said.is_empty())
}
