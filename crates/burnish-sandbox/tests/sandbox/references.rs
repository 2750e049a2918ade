//! The reference solutions of HumanEval and MBPP pass, and broken ones fail.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use burnish_sandbox::{Border, Execution, Limits, Part, Sandbox, Settings, Trial};
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

/// A program, Python of the row's own, Python before its checks, the checks, and the name that is tested.
struct Row<'a> {
    program: String,
    own: &'a str,
    setup: &'a str,
    checks: Vec<String>,
    entry_point: Option<&'a str>,
}

/// Runs all on a thread per worker. Prints how fast that was; the bar is a matter of a quiet machine.
fn run_all(border: &Border, what: &str, programs: &[Row<'_>]) -> Vec<Execution> {
    let start = Instant::now();
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Execution)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let at = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(row) = programs.get(at)
                {
                    let trial = Trial {
                        program: vec![Part("<program>", &row.program)],
                        own: vec![Part("<own>", row.own)],
                        setup: vec![Part("<setup>", row.setup)],
                        checks: row.checks.iter().map(String::as_str).collect(),
                        entry_point: row.entry_point,
                        limits: Limits { wall_seconds: 120.0, ..Limits::default() },
                    };
                    let execution = border.run(&trial).unwrap();
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

fn humaneval(_: &Sandbox) {
    let Some(path) = file("humaneval/HumanEval.jsonl.gz") else { return };
    let border = Border::new(&Settings::default());
    let mut content = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut content).unwrap();
    let rows: Vec<Value> = content.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 164);
    let programs = |body: &dyn Fn(&Value) -> String| -> Vec<Row<'_>> {
        let row = |row| {
            let (prompt, entry) = (text(row, "prompt"), text(row, "entry_point"));
            Row {
                program: format!("{prompt}{}", body(row)),
                own: prompt.split_once(&format!("def {entry}(")).unwrap().0,
                setup: "",
                checks: vec![format!("{}\ncheck({entry})", text(row, "test"))],
                entry_point: Some(entry),
            }
        };
        rows.iter().map(row).collect()
    };
    let references = programs(&|row| text(row, "canonical_solution").to_owned());
    for (row, execution) in rows.iter().zip(run_all(&border, "HumanEval", &references)) {
        assert!(execution.is_passed(), "{}: {execution:?}", text(row, "task_id"));
    }
    let broken = programs(&|row| {
        format!("{}\n{} = lambda *_, **__: None\n", text(row, "canonical_solution"), text(row, "entry_point"))
    });
    for (row, execution) in rows.iter().zip(run_all(&border, "HumanEval, broken", &broken)) {
        assert!(!execution.is_passed(), "{}", text(row, "task_id"));
    }
}

fn mbpp(_: &Sandbox) {
    let Some(path) = file("mbpp/mbpp.jsonl") else { return };
    let border = Border::new(&Settings::default());
    let content = std::fs::read_to_string(path).unwrap();
    let rows: Vec<Value> = content.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 974);
    let row = |row, program: &str| Row {
        program: program.to_owned(),
        own: "",
        setup: text(row, "test_setup_code"),
        checks: row["test_list"]
            .as_array()
            .unwrap()
            .iter()
            .map(|test| test.as_str().unwrap().to_owned())
            .collect(),
        entry_point: None,
    };
    let references: Vec<_> = rows.iter().map(|found| row(found, text(found, "code"))).collect();
    let mut failed = Vec::new();
    for (row, execution) in rows.iter().zip(run_all(&border, "MBPP", &references)) {
        if !execution.is_passed() {
            failed.push(format!("{}: {execution:?}", row["task_id"]));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
    let broken: Vec<_> = rows.iter().step_by(8).map(|found| row(found, "")).collect();
    for execution in run_all(&border, "MBPP, without the functions", &broken) {
        assert!(!execution.is_passed(), "{execution:?}");
    }
}
