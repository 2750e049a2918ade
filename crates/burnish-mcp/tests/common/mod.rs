//! What tests of servers share.
#![allow(dead_code, unreachable_pub, reason = "each test program uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use burnish_mcp::{Address, Broken, Client, Limits, Reply};
use serde_json::Value;

pub const LIMITS: Limits = Limits {
    start: Duration::from_secs(30),
    call: Duration::from_secs(30),
    message_bytes: 100_000,
    episode_bytes: 1_000_000,
    result_bytes: 1_000,
};

pub const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stand_in.py");

/// Whether there is a Python; says so if not.
pub fn has_python() -> bool {
    let found = Command::new("python3").arg("--version").output().is_ok();
    if !found {
        println!("skipped: no python3");
    }
    found
}

/// A program as an address.
pub fn program(command: &[&str], variables: &[(&str, &str)], folder: Option<&Path>) -> Address {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Address::Command {
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        variables: variables.iter().map(owned).collect(),
        folder: folder.map(Path::to_owned),
    }
}

pub fn url(port: &str) -> Address {
    Address::Url { url: format!("http://127.0.0.1:{port}/mcp"), key: None, headers: BTreeMap::new() }
}

pub fn call(client: &mut Client, name: &str, arguments: Value) -> Result<Reply, Broken> {
    client.call(name, arguments.as_object().unwrap(), "key-7")
}

/// The text of a result that is no error.
pub fn text(client: &mut Client, name: &str, arguments: Value) -> String {
    let reply = call(client, name, arguments).unwrap();
    assert!(!reply.is_error, "{reply:?}");
    reply.text
}

/// A server that others reach over HTTP. It ends with this.
pub struct Background {
    child: Child,
    pub lines: Lines<BufReader<ChildStdout>>,
}

impl Background {
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Background { child, lines }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The digits of an integer that no 64 bits hold, on the way to a server and back.
pub fn next_of_a_long_integer(client: &mut Client) {
    let number = burnish_core::json::parse("{\"number\": 18446744073709551615000}").unwrap();
    assert_eq!(text(client, "next", number), "{\"next\":18446744073709551615001}");
}
