//! What runs in the sandbox stays there: attempts to get out, limits, what is left behind, and real programs.
//!
//! A guard is this program started again, so it has a `main` of its own, which runs the tests one after the other:
//! `cargo test -p burnish-sandbox --test sandbox NAME` runs those whose name contains NAME.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(not(target_os = "linux"), allow(dead_code, unused_imports))]

mod border;
mod escapes;
mod life;
mod limits;
mod references;

use burnish_sandbox::{Execution, Job, Limits, Part, Sandbox, Settings};

type Tests = &'static [(&'static str, fn(&Sandbox))];

fn main() {
    burnish_sandbox::enter();
    let mut arguments = std::env::args().skip(1);
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    let filter = arguments.find(|argument| !argument.starts_with('-')).unwrap_or_default();
    if filter == life::VICTIM {
        return life::be_the_victim();
    }
    let sandbox = Sandbox::new(Settings::default());
    if let Err(error) = sandbox.report() {
        println!("skipped: {error}");
        return;
    }
    let mut failed: Vec<&str> = Vec::new();
    for tests in [border::TESTS, escapes::TESTS, limits::TESTS, life::TESTS, references::TESTS] {
        for (name, test) in tests.iter().filter(|(name, _)| name.contains(&filter)) {
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(&sandbox)));
            println!("test {name} ... {}", if done.is_ok() { "ok" } else { "FAILED" });
            failed.extend(done.is_err().then_some(*name));
        }
    }
    assert!(failed.is_empty(), "failed: {failed:?}");
}

/// Limits that are soon reached.
fn tight() -> Limits {
    Limits {
        wall_seconds: 2.0,
        cpu_seconds: 1.0,
        memory_bytes: 256 << 20,
        processes: 8,
        output_bytes: 10_000,
        file_bytes: 1 << 20,
    }
}

/// Runs a program.
fn run(sandbox: &Sandbox, source: &str, limits: Limits) -> Execution {
    let parts = vec![Part("<program>", source)];
    sandbox.run(&Job { parts, name: "__main__", limits, ..Job::default() }).unwrap()
}
