//! The comparer is Python; its arithmetic checks itself.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::path::Path;
use std::process::Command;

#[test]
fn the_comparers_arithmetic_holds() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("compare.py");
    let Ok(output) = Command::new("python3").arg("-B").arg(script).arg("--check").output() else {
        println!("skipped: python3 is not there");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
