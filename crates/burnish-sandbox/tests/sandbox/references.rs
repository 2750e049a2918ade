//! The reference solutions of HumanEval and MBPP pass, and broken ones fail.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use burnish_sandbox::{Execution, Job, Limits, Part, Sandbox};
use serde_json::Value;

use crate::Tests;

pub(crate) const TESTS: Tests = &[
    ("the_references_of_humaneval_pass_and_broken_ones_fail", humaneval),
    ("the_references_of_mbpp_pass_and_broken_ones_fail", mbpp),
];

fn file(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(name);
    if !path.is_file() {
        println!("skipped: there is no {}", path.display());
        return None;
    }
    Some(path)
}

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap()
}

/// Runs all on a thread per worker. Prints how fast that was; the bar is a matter of a quiet machine.
fn run_all(sandbox: &Sandbox, what: &str, programs: &[(String, Vec<String>)]) -> Vec<Execution> {
    let start = Instant::now();
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Execution)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let at = next.fetch_add(1, Ordering::Relaxed)
                    && let Some((program, checks)) = programs.get(at)
                {
                    let job = Job {
                        parts: vec![Part("<program>", program)],
                        checks: checks.iter().map(String::as_str).collect(),
                        name: "solution",
                        limits: Limits { wall_seconds: 120.0, ..Limits::default() },
                        ..Job::default()
                    };
                    let execution = sandbox.run(&job).unwrap();
                    done.lock().unwrap().push((at, execution));
                }
            });
        }
    });
    let rate = programs.len() as f64 / start.elapsed().as_secs_f64();
    println!("{what}: {} programs, {rate:.0} a second", programs.len());
    let mut done = done.into_inner().unwrap();
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, execution)| execution).collect()
}

fn humaneval(sandbox: &Sandbox) {
    let Some(path) = file("humaneval/HumanEval.jsonl.gz") else { return };
    let mut content = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut content).unwrap();
    let rows: Vec<Value> = content.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 164);
    let programs = |body: &dyn Fn(&Value) -> String| -> Vec<(String, Vec<String>)> {
        let test = |row: &Value| vec![format!("{}\ncheck({})", text(row, "test"), text(row, "entry_point"))];
        rows.iter().map(|row| (format!("{}{}", text(row, "prompt"), body(row)), test(row))).collect()
    };
    let references = programs(&|row| text(row, "canonical_solution").to_owned());
    for (row, execution) in rows.iter().zip(run_all(sandbox, "HumanEval", &references)) {
        assert!(execution.is_passed(), "{}: {execution:?}", text(row, "task_id"));
    }
    let broken = programs(&|row| {
        format!("{}\n{} = lambda *_, **__: None\n", text(row, "canonical_solution"), text(row, "entry_point"))
    });
    for (row, execution) in rows.iter().zip(run_all(sandbox, "HumanEval, broken", &broken)) {
        assert!(!execution.is_passed(), "{}", text(row, "task_id"));
    }
}

fn mbpp(sandbox: &Sandbox) {
    let Some(path) = file("mbpp/mbpp.jsonl") else { return };
    let content = std::fs::read_to_string(path).unwrap();
    let rows: Vec<Value> = content.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 974);
    let checks = |row: &Value| -> Vec<String> {
        row["test_list"].as_array().unwrap().iter().map(|test| test.as_str().unwrap().to_owned()).collect()
    };
    let setup = |row: &Value| text(row, "test_setup_code").to_owned();
    let references: Vec<_> =
        rows.iter().map(|row| (format!("{}\n{}", text(row, "code"), setup(row)), checks(row))).collect();
    for (row, execution) in rows.iter().zip(run_all(sandbox, "MBPP", &references)) {
        assert!(execution.is_passed(), "{}: {execution:?}", row["task_id"]);
    }
    let broken: Vec<_> = rows.iter().step_by(8).map(|row| (setup(row), checks(row))).collect();
    for execution in run_all(sandbox, "MBPP, without the functions", &broken) {
        assert!(!execution.is_passed(), "{execution:?}");
    }
}
