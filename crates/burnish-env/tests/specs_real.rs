//! The tracks `evalplus` and `repo` of `specs`. It has a `main` of its own, because the guard of a sandbox is this program
//! started again: `cargo test -p burnish-env --test specs_real NAME` runs the tests whose name contains NAME.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};

use burnish_core::{Message, Task, Verdict};
use burnish_env::{Generator, build};
use serde_json::{Value, json};

type Tests = [(&'static str, fn()); 8];

const TESTS: Tests = [
    ("strong_hooks_pass_on_every_repository", strong_hooks),
    ("repositories_fail_as_they_say_without_a_specification", empty_hooks),
    ("a_hook_that_is_not_triggered_never_counts", not_triggered),
    ("hooks_that_say_always_the_same_do_not_pass", trivial_hooks),
    ("rows_of_evalplus_become_tasks_and_an_oracle_passes", small_rows),
    ("rows_that_are_not_evalplus_are_refused_with_the_line", bad_rows),
    ("what_evalplus_compares_otherwise_is_left_out", left_out),
    ("real_files_become_tasks_on_which_oracles_pass", real_rows),
];

fn main() {
    burnish_sandbox::enter();
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    if let Err(error) = burnish_sandbox::Sandbox::new(burnish_sandbox::Settings::default()).report() {
        println!("skipped: {error}");
        return;
    }
    let mut failed: Vec<&str> = Vec::new();
    for (name, test) in TESTS.iter().filter(|(name, _)| name.contains(&filter)) {
        let start = std::time::Instant::now();
        let done = std::panic::catch_unwind(test);
        let seconds = start.elapsed().as_secs_f64();
        println!("test {name} ... {} ({seconds:.1} s)", if done.is_ok() { "ok" } else { "FAILED" });
        failed.extend(done.is_err().then_some(*name));
    }
    assert!(failed.is_empty(), "failed: {failed:?}");
}

fn play(generator: &dyn Generator, task: &Task, answer: &str) -> Verdict {
    let mut environment = generator.environment();
    environment.reset(task, 0).unwrap();
    environment.step(&Message::assistant(answer)).unwrap();
    environment.verify().unwrap()
}

fn fenced(spec: &str) -> String {
    format!("```python\n{spec}\n```")
}

/// Whether it is correct, complete, and both at once.
fn rates(verdict: &Verdict) -> (f64, f64, bool) {
    (verdict.rewards["correct"], verdict.rewards["complete"], verdict.success)
}

fn repositories() -> (Box<dyn Generator>, Vec<Task>) {
    let generator = build("specs", &json!({"track": "repo"})).unwrap();
    let tasks = generator.tasks(0, 5).unwrap().tasks;
    (generator, tasks)
}

fn name(task: &Task) -> &str {
    task.id.0.strip_prefix("specs/repo/").unwrap()
}

fn strong(task: &Task) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/specs/repos");
    std::fs::read_to_string(folder.join(name(task)).join("strong.py")).unwrap()
}

/// The hook of a repository with other conditions.
fn hook(task: &Task, pre: &str, post: &str) -> String {
    let strong = strong(task);
    let install = &strong[strong.find("def install").unwrap()..];
    format!(
        "def preconditions(*given):\n    {pre}\n\n\ndef postconditions(*given):\n    {post}\n\n\n{install}"
    )
}

fn strong_hooks() {
    let (generator, tasks) = repositories();
    let mut names: Vec<&str> = tasks.iter().map(name).collect();
    names.sort_unstable();
    assert_eq!(names, ["cart", "grid", "merge", "paging", "wrap"]);
    for task in &tasks {
        let verdict = play(&*generator, task, &fenced(&strong(task)));
        assert!(verdict.success && verdict.rewards.values().all(|reward| *reward == 1.0), "{verdict:?}");
        assert!(verdict.flags.values().all(|flag| !flag), "{verdict:?}");
    }
    assert!(generator.demonstrations().is_none());
    assert!(generator.evaluation_only().unwrap().contains("never for"));
}

/// With a hook that checks nothing, every test of the fixed version passes, and none of the buggy one fails because of
/// the specification: they fail by themselves.
fn empty_hooks() {
    let (generator, tasks) = repositories();
    for task in &tasks {
        let verdict = play(&*generator, task, &fenced(&hook(task, "pass", "pass")));
        assert_eq!(rates(&verdict), (1.0, 0.0, false), "{verdict:?}");
        assert_eq!(verdict.rewards["told_apart"], 0.0);
        let feedback = verdict.feedback.unwrap();
        assert!(
            feedback.contains("of the buggy version fails without the specification noticing"),
            "{feedback}"
        );
    }
}

fn not_triggered() {
    let (generator, tasks) = repositories();
    for task in &tasks {
        let strong = strong(task);
        let at = strong.find("    hooks.wrap").unwrap();
        for other in [
            "    pass\n".to_owned(),
            // Another function is wrapped, with checks that always hold or never do.
            "    hooks.wrap('json', 'dumps', preconditions, postconditions)\n".to_owned(),
            // What says so itself is not believed.
            "    print('specification triggered')\n".to_owned(),
        ] {
            let verdict = play(&*generator, task, &fenced(&format!("{}{other}", &strong[..at])));
            assert_eq!(rates(&verdict), (0.0, 0.0, false), "{verdict:?}");
            assert!(verdict.flags["not_triggered"] && verdict.rewards["score"] == 0.0);
            assert!(verdict.feedback.unwrap().contains("through the hook"));
        }
    }
    let verdict = play(&*generator, &tasks[0], &fenced("def install(hooks):\n    hooks.wrap('nope', 'f')\n"));
    assert!(verdict.flags["ended"] && verdict.flags["not_triggered"], "{verdict:?}");
    let verdict = play(&*generator, &tasks[0], &fenced("def preconditions():\n    pass\n"));
    assert!(verdict.flags["malformed"], "{verdict:?}");
}

fn trivial_hooks() {
    let (generator, tasks) = repositories();
    for task in &tasks {
        let verdict = play(&*generator, task, &fenced(&hook(task, "assert False", "pass")));
        assert_eq!(rates(&verdict), (0.0, 1.0, false), "{verdict:?}");
        assert_eq!(verdict.rewards["told_apart"], 0.0);
        let random = "import random; assert random.random() < 0.5";
        let verdict = play(&*generator, task, &fenced(&hook(task, "pass", random)));
        assert!(!verdict.success, "{verdict:?}");
    }
    let hangs = json!({"track": "repo", "seconds": 0.3, "hangs": 1});
    let generator = build("specs", &hangs).unwrap();
    let paging = tasks.iter().find(|task| name(task) == "paging").unwrap();
    let verdict = play(&*generator, paging, &fenced(&hook(paging, "pass", "while given[0] == 7: pass")));
    assert!(verdict.flags["timeout"] && rates(&verdict) == (0.0, 0.0, false), "{verdict:?}");
}

/// Two rows of each suite, written for this test.
fn small() -> (tempfile::TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    let rows = [
        (
            "HumanEval.jsonl",
            vec![
                json!({"task_id": "HumanEval/0", "entry_point": "above", "canonical_solution": "", "test": "",
                "prompt": "def above(xs, k):\n    \"\"\"How many of xs are above k.\"\"\"\n"}),
            ],
        ),
        (
            "HumanEvalPlus.jsonl",
            vec![
                json!({"contract": "\n    assert type(k) == int and all(type(x) == int for x in xs)\n", "atol": 0,
                "reference": "    return len([x for x in xs if x > k])\n", "base_input": [[[1, 5], 2], [[3], 3]]}),
            ],
        ),
        (
            "HumanEvalPlusInputs.jsonl",
            vec![
                json!({"task_id": "HumanEval_0", "inputs": [[[4, 5, 6], 4], [[9, 8], 0], [["x"], 1], [[], 3]]}),
            ],
        ),
        (
            "Mbpp.jsonl",
            vec![
                json!({"task_id": "Mbpp/7", "prompt": "'''\nThe pair with its sides swapped.\n'''", "entry_point": "swap",
                "canonical_solution": "\ndef swap(pair):\n  return (pair[1], pair[0] + 0)\n", "atol": 0, "plus_input": {},
                "contract": "\n  assert isinstance(pair, tuple) and len(pair) == 2\n", "assertion": "",
                "base_input": [[[1, 2]], [[5, 3]], [[0, 9]]]}),
            ],
        ),
    ];
    let mut paths = Vec::new();
    for (name, rows) in rows {
        let lines: Vec<String> = rows.iter().map(Value::to_string).collect();
        std::fs::write(folder.path().join(name), lines.join("\n")).unwrap();
        paths.push(folder.path().join(name));
    }
    (folder, paths)
}

fn oracle(task: &Task) -> String {
    let program = task.truth["function"]["program"].as_str().unwrap();
    let contract =
        "assert not any(isinstance(x, str) for x in given[0]) and all(type(x) == int for x in given[0])";
    let name = task.labels["family"].as_str();
    let (pre, call) = match name {
        "mbpp" => ("assert isinstance(given[0], tuple) and len(given[0]) == 2".to_owned(), "swap"),
        _ => (format!("assert type(given[1]) == int and len(given) == 2; {contract}"), "above"),
    };
    format!(
        "{program}\n\ndef preconditions(*given):\n    {pre}\n\ndef postconditions(*given):\n    \
         assert given[-1] == {call}(*given[:-1]) and type(given[-1]) == type({call}(*given[:-1]))\n"
    )
}

fn small_rows() {
    let (folder, _) = small();
    let config = json!({"track": "evalplus", "path": [folder.path()], "cases": 4});
    let generator = build("specs", &config).unwrap();
    assert!(generator.evaluation_only().unwrap().contains("never for training"));
    assert_eq!(generator.files().len(), 4);
    assert_eq!(generator.config()["path"], json!([folder.path()]));
    let set = generator.tasks(1, 4).unwrap();
    assert_eq!((set.cells[0].made, set.tasks.len()), (2, 4), "{:?}", set.cells);
    assert_eq!(set, generator.tasks(1, 4).unwrap());
    for task in &set.tasks {
        let verdict = play(&*generator, task, &fenced(&oracle(task)));
        assert!(verdict.success, "{}\n{verdict:?}", generator.draw(task, None));
        let verdict = play(&*generator, task, &fenced(&oracle(task).replace("assert", "assert True or")));
        assert_eq!(rates(&verdict), (1.0, 0.0, false));
    }
    let mbpp = set.tasks.iter().find(|task| task.labels["family"] == "mbpp").unwrap();
    // JSON's lists are the tuples that the contract asks for.
    let cases = &mbpp.truth["function"]["cases"];
    assert!(cases["pos_pre"][0].as_str().unwrap().starts_with('('), "{cases}");
    let prompt = &mbpp.prompt[0].content;
    assert!(
        prompt.contains("swap(pair): The pair with") && prompt.contains("swap((1, 2)) == (2, 1)"),
        "{prompt}"
    );
}

fn bad_rows() {
    let (folder, paths) = small();
    let refused = |path: Value| {
        build("specs", &json!({"track": "evalplus", "path": path}))
            .err()
            .map(|error| error.to_string())
            .unwrap()
    };
    let error = refused(json!([paths[1], paths[2]]));
    assert!(error.starts_with("path: the prompt of HumanEval/0 is missing"), "{error}");
    let error = refused(json!([folder.path().join("none.jsonl")]));
    assert!(error.contains("none.jsonl: can't be read"), "{error}");
    let bad = folder.path().join("bad.jsonl");
    for (text, expected) in [
        ("\n{\"task_id\": 3}", "line 2: invalid type"),
        ("{\"a\": 1}", "line 1: is no row of HumanEvalPlus"),
        ("{\"task_id\": \"Mbpp/1\", \"prompt\": \"x\"}", "line 1: Mbpp/1 is no row"),
        ("", "path: there is no problem"),
    ] {
        std::fs::write(&bad, text).unwrap();
        let error = refused(json!([bad]));
        assert!(error.contains(expected), "{error}");
    }
}

fn left_out() {
    let folder = tempfile::tempdir().unwrap();
    let row = |id: usize, entry: &str, program: &str, contract: &str| {
        json!({"task_id": format!("Mbpp/{id}"), "prompt": "x", "entry_point": entry, "canonical_solution": program,
            "contract": contract, "base_input": [[["b", "a", "c"]], [["x", "y", "z"]]], "plus_input": [], "atol": 0})
        .to_string()
    };
    let contract = "\n  assert isinstance(xs, list)\n";
    let rows = [
        row(1, "Diff", "def Diff(xs):\n  return xs\n", contract),
        row(2, "loose", "def loose(xs):\n  return list(set(xs))\n", contract),
        row(3, "never", "def never(xs):\n  raise ValueError()\n", contract),
        row(4, "strict", "def strict(xs):\n  return xs\n", "\n  assert len(xs) == 9\n"),
        row(5, "many", "def many(*xs):\n  return xs\n", contract),
        row(6, "first", "def first(xs):\n  return xs[0]\n", contract),
    ];
    std::fs::write(folder.path().join("rows.jsonl"), rows.join("\n")).unwrap();
    let generator = build("specs", &json!({"track": "evalplus", "path": [folder.path()]})).unwrap();
    let set = generator.tasks(0, 9).unwrap();
    assert!(set.tasks.iter().all(|task| task.id.0 == "specs/Mbpp/6") && set.tasks.len() == 9);
    let reasons: Vec<&str> = set.cells[0].dropped.keys().map(String::as_str).collect();
    assert_eq!(
        reasons,
        [
            "it has many right answers",
            "its arguments are not a fixed list",
            "its outputs differ with another seed of hashes",
            "the canonical program gives no output that can be written down",
            "the contract rejects an original input",
        ]
    );
}

/// On the real files: most problems become tasks, and the canonical program as an oracle accepts every right output and
/// rejects every wrong one.
fn real_rows() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let (plus, prompts) = (data.join("evalplus_history"), data.join("humaneval"));
    if !plus.is_dir() || !prompts.is_dir() {
        println!("skipped: there is no {} or no {}", plus.display(), prompts.display());
        return;
    }
    let config = json!({"track": "evalplus", "path": [plus, prompts], "cases": 4});
    let generator = build("specs", &config).unwrap();
    let count = 24;
    let set = generator.tasks(2, count).unwrap();
    println!("{:?}", set.cells);
    assert!(set.cells[0].made == count && set.cells[0].drawn <= count * 3 / 2);
    let (mut judged, mut accepted) = (0, 0);
    for task in &set.tasks {
        let program = task.truth["function"]["program"].as_str().unwrap();
        let prompt = &task.prompt[0].content;
        let at = prompt.find("Write preconditions").unwrap();
        let inputs = prompt[at..].split_once('(').unwrap().1.split_once(')').unwrap().0;
        // The entry is the last function that the program defines at its margin.
        let entry = program.rsplit("\ndef ").next().unwrap().split('(').next().unwrap().replace("def ", "");
        let spec = format!(
            "{program}\n\ndef preconditions({inputs}):\n    pass\n\ndef postconditions({inputs}, output):\n    \
             right = {entry}({inputs})\n    assert type(output) == type(right) and output == right\n"
        );
        let verdict = play(&*generator, task, &fenced(&spec));
        for pool in ["pos_pre", "pos_post", "neg_hard", "neg_random"] {
            judged += 1;
            accepted += usize::from(verdict.metrics[&format!("right_{pool}")] == 1.0);
        }
        assert_eq!(verdict.metrics["right_neg_pre"], 0.0);
    }
    println!("{accepted} of {judged} pools come out as they must");
    assert_eq!(accepted, judged);
}
