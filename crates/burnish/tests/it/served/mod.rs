//! Real servers of models, which end with the test.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server.
pub(crate) struct Served {
    process: Child,
    pub(crate) url: String,
    log: PathBuf,
    port: u16,
}

impl Served {
    /// Starts what `command` says for a port, and waits until it answers at the path `health`.
    pub(crate) fn start(health: &str, log: &Path, command: impl Fn(&str) -> Command) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Served::start_at(port, health, log, command)
    }

    /// As [`Served::start`], at the port of one that has ended.
    pub(crate) fn start_again(self, health: &str, command: impl Fn(&str) -> Command) -> Self {
        let (port, log) = (self.port, self.log.clone());
        drop(self);
        Served::start_at(port, health, &log, command)
    }

    fn start_at(port: u16, health: &str, log: &Path, command: impl Fn(&str) -> Command) -> Self {
        let log_file = std::fs::File::options().create(true).append(true).open(log).unwrap();
        let process = command(&port.to_string())
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log_file.try_clone().unwrap())
            .stderr(log_file)
            .spawn()
            .unwrap();
        let mut server =
            Served { process, url: format!("http://127.0.0.1:{port}"), log: log.to_owned(), port };
        let start = Instant::now();
        while !is_healthy(port, health) {
            let ended = server.process.try_wait().unwrap();
            let said = || std::fs::read_to_string(log).unwrap_or_default();
            assert!(ended.is_none() && start.elapsed() < Duration::from_secs(300), "{}", said());
            std::thread::sleep(Duration::from_millis(500));
        }
        server
    }
}

/// Whether the server reports that it is ready. It may accept connections long before that.
fn is_healthy(port: u16, health: &str) -> bool {
    let answer = TcpStream::connect(("127.0.0.1", port)).and_then(|mut stream| {
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(format!("GET {health} HTTP/1.0\r\n\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    });
    answer.is_ok_and(|answer| answer.split(' ').nth(1) == Some("200"))
}

impl Drop for Served {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let said = std::fs::read_to_string(&self.log).unwrap_or_default();
            println!("the server ended with {:?} and said:\n{said}", self.process.try_wait());
        }
        // With its workers. It may have ended by itself.
        let group = rustix::process::Pid::from_child(&self.process);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.process.wait();
    }
}
