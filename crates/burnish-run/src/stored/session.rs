//! Who has worked on a run: when, for how long, with which program, on which machine. This decides nothing; it is kept
//! in `run.json` for the report.

use std::path::Path;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::Record;
use crate::RunError;
use burnish_tensor::Device;

/// The version of the running program.
static VERSION: OnceLock<&str> = OnceLock::new();

/// Says which version the program is, with the commit that it was built from. A library does not know it.
pub fn say_version(version: &'static str) {
    // Said twice, the first counts.
    let _ = VERSION.set(version);
}

/// The work of one process on a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Session {
    /// When it began, in seconds since 1970 (UTC).
    pub(crate) began: i64,
    /// Steps that were done before.
    pub(crate) step: u64,
    /// How long it worked until it last wrote this.
    pub(crate) seconds: f64,
    /// The version of burnish.
    pub(crate) burnish: String,
    /// Where.
    pub(crate) machine: Machine,
}

/// What a run computes on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// The processor's name, if the system tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cpu: Option<String>,
    cores: usize,
    /// Bytes of memory, if the system tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    memory: Option<u64>,
    /// The GPU that computes, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gpu: Option<String>,
}

impl Session {
    /// One that begins now, after `step` steps.
    pub(crate) fn new(step: u64, device: &Device) -> Self {
        let elapsed = SystemTime::now().duration_since(UNIX_EPOCH);
        Session {
            began: elapsed.map_or(0, |elapsed| elapsed.as_secs() as i64),
            step,
            seconds: 0.0,
            burnish: VERSION.get().copied().unwrap_or(env!("CARGO_PKG_VERSION")).to_owned(),
            machine: Machine::this(device),
        }
    }
}

impl Machine {
    /// This one.
    pub(crate) fn this(device: &Device) -> Self {
        let memory = proc_value("/proc/meminfo", "MemTotal");
        let kib = memory.and_then(|memory| memory.split_whitespace().next()?.parse::<u64>().ok());
        Machine {
            cpu: proc_value("/proc/cpuinfo", "model name"),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory: kib.map(|kib| kib << 10),
            gpu: (!device.is_cpu()).then(|| device.description()),
        }
    }

    /// In a few words.
    pub(crate) fn told(&self) -> String {
        let cores = if self.cores == 1 { "1 core".to_owned() } else { format!("{} cores", self.cores) };
        let cpu = self.cpu.as_ref().map(|cpu| format!(" of {cpu}")).unwrap_or_default();
        let memory =
            self.memory.map(|bytes| format!(", {} GiB", (bytes as f64 / (1u64 << 30) as f64).round()));
        let gpu = self.gpu.as_ref().map(|gpu| format!("{gpu}; ")).unwrap_or_default();
        format!("{gpu}{cores}{cpu}{}", memory.unwrap_or_default())
    }
}

/// The value of a line `name : value` of a file of Linux.
fn proc_value(file: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let (_, value) = text.lines().find_map(|line| line.strip_prefix(name)?.split_once(':'))?;
    Some(value.trim().to_owned())
}

/// The sessions of the run in `dir`, as far as they are recorded.
///
/// # Errors
/// If the record can't be read.
pub(crate) fn sessions(dir: &Path) -> Result<Vec<Session>, RunError> {
    Ok(Record::read(dir)?.map(|record| record.sessions).unwrap_or_default())
}

/// Records a session in the run directory `dir`, in place of what it recorded of itself before.
///
/// # Errors
/// If the record can't be read or written.
pub(crate) fn note_session(dir: &Path, session: &Session) -> Result<(), RunError> {
    let Some(mut record) = Record::read(dir)? else { return Ok(()) };
    let is_same = |known: &Session| (known.began, known.step) == (session.began, session.step);
    match record.sessions.iter_mut().rfind(|known| is_same(known)) {
        Some(known) => known.clone_from(session),
        None => record.sessions.push(session.clone()),
    }
    record.write(dir)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_recorded_once_however_often_it_says_how_long_it_has_worked() {
        let dir = tempfile::tempdir().unwrap();
        let device = Device::open("cpu").unwrap();
        let mut session = Session::new(0, &device);
        note_session(dir.path(), &session).unwrap();
        assert!(sessions(dir.path()).unwrap().is_empty(), "there is no record to keep it in");
        Record::new("", dir.path(), Vec::new()).write(dir.path()).unwrap();
        for seconds in [1.0, 2.5] {
            session.seconds = seconds;
            note_session(dir.path(), &session).unwrap();
        }
        let later = Session { step: 7, ..session.clone() };
        note_session(dir.path(), &later).unwrap();
        assert_eq!(sessions(dir.path()).unwrap(), [session, later]);
    }

    #[test]
    fn a_machine_is_told_in_a_few_words() {
        let cpu = Some("AMD EPYC".to_owned());
        let machine = Machine { cpu, cores: 2, memory: Some(16 << 30), gpu: None };
        assert_eq!(machine.told(), "2 cores of AMD EPYC, 16 GiB");
        assert_eq!(Machine { cores: 1, ..Machine::default() }.told(), "1 core");
    }
}
