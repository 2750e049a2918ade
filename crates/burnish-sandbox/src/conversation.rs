//! A process that speaks whenever it likes: lines in both directions, none of which waits for another.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::Duration;

use crate::running::{Running, builder};

/// A running process whose lines are heard as they come. Dropping it kills it and what it has started. It is also
/// killed if this process is.
#[derive(Debug)]
pub struct Conversation(Running);

impl Conversation {
    /// Starts `command` (program first) in `folder`, where relative paths are looked up, with `variables` in addition to
    /// this process's own. `hear` gets every line of stdout, on a thread of its own, and says whether it takes more; what it
    /// does not take yet, the process has to wait with. The error of a line that has more than `line_bytes_max` bytes, or
    /// is not UTF-8, is the last thing that it gets; it is dropped at the end of stdout.
    ///
    /// # Errors
    /// If there is no such program, or it can't be started.
    pub fn start(
        command: &[String],
        folder: Option<&Path>,
        variables: &BTreeMap<String, String>,
        line_bytes_max: u64,
        hear: impl FnMut(Result<String, String>) -> bool + Send + 'static,
    ) -> std::io::Result<Self> {
        let mut builder = builder(command, folder)?;
        builder.envs(variables);
        Running::guarded(builder, line_bytes_max, Box::new(hear)).map(Conversation)
    }

    /// What speaks to it.
    pub fn speaker(&self) -> Speaker {
        Speaker(self.0.requests())
    }

    /// Is it still running?
    pub fn is_running(&mut self) -> bool {
        self.0.is_running()
    }

    /// Kills it. Returns the end of what it wrote to stderr.
    pub fn stop(self) -> String {
        self.0.stop()
    }

    /// Closes its stdin, once nobody else speaks to it, and lets it end by itself, but not longer than `patience`. This
    /// happens on a thread of its own.
    pub fn end(self, patience: Duration) {
        thread::spawn(move || self.0.end(patience));
    }
}

/// Sends lines to a process.
#[derive(Debug, Clone)]
pub struct Speaker(Option<SyncSender<String>>);

impl Speaker {
    /// Sends a line. Returns whether there was room for it: a process that does not read its stdin gets no more.
    pub fn say(&self, line: String) -> bool {
        self.0.as_ref().is_some_and(|requests| requests.try_send(line).is_ok())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Instant;

    use super::*;

    fn shell(script: &str) -> (Conversation, std::sync::mpsc::Receiver<Result<String, String>>) {
        let (sender, lines) = channel();
        let command = ["sh", "-c", script].map(str::to_owned);
        let variables = BTreeMap::from([("WORD".to_owned(), "given".to_owned())]);
        let started =
            Conversation::start(&command, None, &variables, 1000, move |line| sender.send(line).is_ok());
        (started.unwrap(), lines)
    }

    #[test]
    fn lines_go_both_ways_unasked() {
        let (mut process, lines) =
            shell("echo $WORD; echo more; while read -r line; do echo \"<$line>\"; done");
        assert_eq!(
            (lines.recv().unwrap().unwrap(), lines.recv().unwrap().unwrap()),
            ("given".into(), "more".into())
        );
        let speaker = process.speaker();
        assert!(speaker.say("a".into()) && speaker.say("b".into()));
        assert_eq!(
            (lines.recv().unwrap().unwrap(), lines.recv().unwrap().unwrap()),
            ("<a>".into(), "<b>".into())
        );
        assert!(process.is_running());
        assert_eq!(process.stop(), "");
        assert!(lines.recv().is_err(), "nothing comes after the end");
    }

    #[test]
    fn a_line_that_is_too_long_is_the_last_thing_that_is_heard() {
        let (process, lines) = shell("echo why >&2; printf '%02000d\\n' 1; echo more; sleep 100");
        assert!(lines.recv().unwrap().unwrap_err().contains("longer than 1000 bytes"));
        assert!(lines.recv().is_err());
        let begun = Instant::now();
        assert_eq!(process.stop(), "why");
        assert!(begun.elapsed() < Duration::from_secs(10));
    }

    /// Is the process gone, or nothing but an entry that nobody has waited for?
    fn has_ended(pid: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')')
            .next()
            .and_then(|rest| rest.split_whitespace().next())
            .is_none_or(|state| state == "Z")
    }

    #[test]
    fn what_a_process_has_started_ends_with_it_even_if_it_ends_by_itself() {
        if !Path::new("/proc/self/stat").exists() {
            println!("skipped: there is no /proc to see processes in");
            return;
        }
        for script in ["sleep 1000 & echo $!; read -r line", "sleep 1000 & echo $!; trap '' TERM; wait"] {
            let (process, lines) = shell(script);
            let child = lines.recv().unwrap().unwrap();
            assert!(!has_ended(&child));
            process.end(Duration::from_millis(500));
            let begun = Instant::now();
            while !has_ended(&child) {
                assert!(begun.elapsed() < Duration::from_secs(20), "{script}");
                thread::sleep(Duration::from_millis(20));
            }
        }
    }
}
