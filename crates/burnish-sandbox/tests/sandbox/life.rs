//! Nothing outlives what started it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use burnish_sandbox::{Limits, Sandbox, Settings};

use crate::{Tests, run, tight};

pub(crate) const TESTS: Tests = &[
    ("everything_ends_with_the_program_that_started_it", ends_with_its_parent),
    ("a_guard_that_is_killed_takes_its_job_along_and_is_replaced", a_guard_is_killed),
    ("jobs_run_side_by_side_and_get_their_own_answers", side_by_side),
];

/// The argument of the program that is killed.
pub(crate) const VICTIM: &str = "victim";

/// A daemon that sleeps for long.
const DAEMON: &str = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    os.fork()\ntime.sleep(1000)";

/// Runs a job that does not end.
pub(crate) fn be_the_victim() {
    let sandbox = Sandbox::new(Settings { workers: Some(1), ..Settings::default() });
    sandbox.report().unwrap();
    println!("ready");
    run(&sandbox, DAEMON, Limits { wall_seconds: 1000.0, ..tight() });
}

/// The processes that `pid` has started, and what they have started.
fn below(pid: u32) -> Vec<u32> {
    let mut parents: BTreeMap<u32, u32> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(number) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((_, fields)) = stat.rsplit_once(") ") else { continue };
        let mut fields = fields.split(' ');
        let state = fields.next();
        if let Some(parent) = fields.next().and_then(|parent| parent.parse().ok())
            && state != Some("Z")
        {
            parents.insert(number, parent);
        }
    }
    let mut found = vec![pid];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        found.extend(parents.iter().filter(|(_, its)| **its == parent).map(|(child, _)| *child));
        at += 1;
    }
    found.split_off(1)
}

/// Waits until `holds`.
fn soon(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn is_alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z')))
}

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

fn ends_with_its_parent(_: &Sandbox) {
    let mut victim =
        Command::new(std::env::current_exe().unwrap()).arg(VICTIM).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(victim.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    // Two processes of the guard, and three of the job.
    soon("the job runs", || below(victim.id()).len() >= 5);
    let started = below(victim.id());
    victim.kill().unwrap();
    victim.wait().unwrap();
    soon("everything has ended", || started.iter().all(|pid| !is_alive(*pid)));
}

fn a_guard_is_killed(_: &Sandbox) {
    let sandbox = Sandbox::new(Settings { workers: Some(1), ..Settings::default() });
    // Other processes of this one are the guards of other sandboxes.
    let before = below(std::process::id());
    sandbox.report().unwrap();
    let started: Vec<u32> =
        below(std::process::id()).into_iter().filter(|pid| !before.contains(pid)).collect();
    let outer = *started.iter().find(|pid| !started.iter().any(|other| below(*other).contains(pid))).unwrap();
    std::thread::scope(|scope| {
        let job = scope.spawn(|| run(&sandbox, DAEMON, Limits { wall_seconds: 3.0, ..tight() }));
        soon("the job runs", || below(outer).len() >= 4);
        let started = below(outer);
        kill(outer);
        soon("the job has ended", || started.iter().all(|pid| !is_alive(*pid)));
        // It was run once more, by another guard, and took too long there.
        assert_eq!(job.join().unwrap().outcome.name(), "wall_time");
    });
    assert_eq!(run(&sandbox, "print(1)", tight()).stdout, "1\n");
}

fn side_by_side(_: &Sandbox) {
    let sandbox = Sandbox::new(Settings { workers: Some(2), ..Settings::default() });
    std::thread::scope(|scope| {
        let jobs: Vec<_> = (0..24)
            .map(|number| {
                let sandbox = &sandbox;
                scope.spawn(move || run(sandbox, &format!("print({number})"), tight()).stdout)
            })
            .collect();
        for (number, job) in jobs.into_iter().enumerate() {
            assert_eq!(job.join().unwrap(), format!("{number}\n"));
        }
    });
}
