//! The verifier `code`: rows whose answers are programs. It has a `main` of its own, because the guard of a sandbox is
//! this program started again.
#![allow(clippy::unwrap_used, clippy::panic)]

use burnish_core::{Episode, Sampling, Script, StopReason, Task, Validity};
use burnish_env::rollout::{Overlong, RolloutSpec, SeedPlace, Spawn, play, replay};
use burnish_env::{Generator, build};
use serde_json::{Value, json};

type Tests = [(&'static str, fn()); 10];

const TESTS: Tests = [
    ("tests_of_a_column_decide", tests_of_a_column_decide),
    ("inputs_and_outputs_decide", inputs_and_outputs_decide),
    ("an_answer_may_go_on_from_the_beginning", an_answer_may_go_on),
    ("a_limit_is_a_flag_and_not_a_lost_episode", a_limit_is_a_flag),
    ("demonstrations_of_programs_pass_and_wrong_ones_fail", demonstrations_of_programs),
    ("references_of_humaneval_and_mbpp_are_right_as_answers", references),
    ("names_of_the_row_are_not_those_of_the_answer", names_of_the_row),
    ("a_program_that_is_not_trusted_does_not_meet_its_tests", trust),
    ("the_verdict_is_on_the_record", the_verdict_is_on_the_record),
    ("where_nothing_can_be_run_episodes_are_unscored_with_the_reason", nothing_can_be_run),
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
        let done = std::panic::catch_unwind(test);
        println!("test {name} ... {}", if done.is_ok() { "ok" } else { "FAILED" });
        failed.extend(done.is_err().then_some(*name));
    }
    assert!(failed.is_empty(), "failed: {failed:?}");
}

struct Fixture {
    _folder: tempfile::TempDir,
    generator: Box<dyn Generator>,
    tasks: Vec<Task>,
}

impl Fixture {
    fn new(rows: &[Value], code: Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let lines: Vec<String> = rows.iter().map(Value::to_string).collect();
        std::fs::write(folder.path().join("rows.jsonl"), lines.join("\n")).unwrap();
        let config = json!({"path": "rows.jsonl", "base_dir": folder.path(), "verifier": {"code": code}});
        let generator = build("rows", &config).unwrap();
        let tasks = generator.tasks(0, 1).unwrap().tasks;
        Fixture { generator, tasks, _folder: folder }
    }

    fn spawns(&self, rollouts: usize) -> Vec<Spawn<'_>> {
        let seeds = SeedPlace { run: 1, stage: 0, step: 0, task_offset: 0 };
        Spawn::of_tasks(&self.tasks, rollouts, &Sampling::at(1.0, 64), seeds)
    }

    fn spec<'a>(&'a self, spawns: &'a [Spawn<'a>]) -> RolloutSpec<'a> {
        RolloutSpec::new(&*self.generator, spawns, 1, Overlong::Drop)
    }

    /// The episode in which the first row is answered so.
    fn answered(&self, answer: &'static str) -> Episode {
        let spawns = self.spawns(1);
        let mut policy = Script::new(move |_| Ok((answer.to_owned(), StopReason::EndToken)));
        play(&mut policy, &self.spec(&spawns)).unwrap().remove(0)
    }
}

/// Rewards `correct` and `passed`.
#[track_caller]
fn assert_rewards(episode: &Episode, correct: f64, passed: f64) {
    let verdict = &episode.verdict;
    assert_eq!(verdict.validity, Validity::Scored, "{verdict:?}");
    assert_eq!((verdict.rewards["correct"], verdict.rewards["passed"]), (correct, passed), "{verdict:?}");
    assert_eq!(verdict.success, correct == 1.0);
}

fn adds() -> Fixture {
    let tests = ["assert add(1, 2) == 3", "assert add(0, 0) == 0", "assert add(-1, half) == -0.5"];
    let row = json!({"prompt": "Write add(a, b).", "tests": tests, "before": "half = 0.5"});
    Fixture::new(&[row], json!({"setup": "before"}))
}

fn tests_of_a_column_decide() {
    let fixture = adds();
    assert_eq!(fixture.generator.components().unwrap(), ["correct", "passed"]);
    fixture.generator.ready().unwrap();
    let right = fixture.answered("Here:\n```python\ndef add(a, b):\n    return a + b\n```\n");
    assert_rewards(&right, 1.0, 1.0);
    let wrong = fixture.answered("def add(a, b):\n    return a * b if a else b\n");
    assert_rewards(&wrong, 0.0, 2.0 / 3.0);
    assert!(wrong.verdict.feedback.unwrap().contains("test 1 of 3 failed: AssertionError"));
    let absent = fixture.answered("def sub(a, b):\n    return a - b\n");
    assert_rewards(&absent, 0.0, 0.0);
    let broken = fixture.answered("def add(a, b)\n");
    assert_rewards(&broken, 0.0, 0.0);
    assert!(broken.verdict.flags["raised"] && broken.verdict.feedback.unwrap().contains("SyntaxError"));
    let none = fixture.answered("```python\n```");
    assert_rewards(&none, 0.0, 0.0);
    assert!(none.verdict.flags["parse_error"]);
    // What ends early has passed nothing.
    for early in ["import sys; sys.exit(0)", "import os; os._exit(0)"] {
        assert_rewards(&fixture.answered(early), 0.0, 0.0);
    }
}

fn inputs_and_outputs_decide() {
    let row = json!({"prompt": "Double each line.", "in": ["1\n2\n", "5\n"], "out": ["2\n4", "10"]});
    let fixture = Fixture::new(&[row], json!({"inputs": "in", "outputs": "out"}));
    let main =
        "if __name__ == '__main__':\n    import sys\n    for line in sys.stdin: print(2 * int(line))\n";
    assert_rewards(&fixture.answered(main), 1.0, 1.0);
    assert_rewards(&fixture.answered("print(2 * int(input()))\n"), 0.0, 0.5);
    let fails = fixture.answered("print(2 * int(input() + 'x'))\n");
    assert_rewards(&fails, 0.0, 0.0);
    assert!(fails.verdict.feedback.unwrap().contains("run 1 of 2 raised ValueError"));
}

fn an_answer_may_go_on() {
    let row = json!({
        "prompt": "import math\n\ndef area(r):\n    \"\"\"Of a circle.\"\"\"\n",
        "test": "def check(f):\n    assert abs(f(1) - 3.14159) < 1e-3\n",
        "entry_point": "area",
    });
    let code = json!({"tests": "test", "entry_point": "entry_point", "begin": "prompt"});
    let fixture = Fixture::new(&[row], code);
    assert_rewards(&fixture.answered("    return math.pi * r * r\n"), 1.0, 1.0);
    assert_rewards(&fixture.answered("```python\ndef area(r):\n    return math.pi * r ** 2\n```"), 1.0, 1.0);
    assert_rewards(&fixture.answered("    return 3 * r\n"), 0.0, 0.0);
}

/// As in HumanEval/32, whose test calls a function that its prompt defines.
fn names_of_the_row() {
    let row = json!({
        "prompt": "def poly(xs, x):\n    return sum(c * x ** i for i, c in enumerate(xs))\n\n\ndef zero(xs):\n    \"\"\"Where poly is 0.\"\"\"\n",
        "test": "def check(f):\n    assert abs(poly([2, 4], f([2, 4]))) < 1e-6\n",
        "entry_point": "zero",
    });
    let code = json!({"tests": "test", "entry_point": "entry_point", "begin": "prompt"});
    let fixture = Fixture::new(&[row], code);
    assert_rewards(&fixture.answered("    return -xs[0] / xs[1]\n"), 1.0, 1.0);
    assert_rewards(&fixture.answered("    return 0.0\n"), 0.0, 0.0);
    for forged in [
        "def poly(xs, x):\n    return 0\n\ndef zero(xs):\n    return 0.0\n",
        "    return 0.0\n\nabs = poly = lambda *_: 0\n",
    ] {
        assert_rewards(&fixture.answered(forged), 0.0, 0.0);
    }
    // Without a name for what is tested, setup's own names hold as well.
    let row = json!({"prompt": "Write f.", "tests": ["assert near(f(1), 2)"], "before": "def near(a, b): return abs(a - b) < 1e-6"});
    let fixture = Fixture::new(&[row], json!({"setup": "before"}));
    assert_rewards(&fixture.answered("def f(x): return x + 1"), 1.0, 1.0);
    assert_rewards(&fixture.answered("def near(a, b): return True\ndef f(x): return x"), 0.0, 0.0);
}

fn trust() {
    let row = json!({"prompt": "Write f().", "tests": ["assert f() == 3"]});
    let forged = "class All(int):\n    __eq__ = lambda *_: True\ndef f(): return All()";
    assert_rewards(&Fixture::new(std::slice::from_ref(&row), json!({})).answered(forged), 0.0, 0.0);
    assert_rewards(&Fixture::new(&[row], json!({"trust": "in_process"})).answered(forged), 1.0, 1.0);
    // Tests that replace what the program prints to need its process.
    let row = json!({"prompt": "Write f().", "tests": ["import io, contextlib\nwith contextlib.redirect_stdout(io.StringIO()) as out: f()\nassert out.getvalue() == '3\\n'"]});
    let prints = "def f(): print(3)";
    assert_rewards(&Fixture::new(std::slice::from_ref(&row), json!({})).answered(prints), 0.0, 0.0);
    assert_rewards(&Fixture::new(&[row], json!({"trust": "in_process"})).answered(prints), 1.0, 1.0);
}

fn a_limit_is_a_flag() {
    let row = json!({"prompt": "Write f().", "tests": ["assert f() is None"]});
    let fixture = Fixture::new(&[row], json!({"limits": {"wall_seconds": 0.5, "memory_bytes": 134_217_728}}));
    for (program, words) in [
        ("import time\ndef f(): time.sleep(100)", "took more than 0.5 s"),
        ("def f(): [0] * 10**9", "needed more than 134217728 bytes of memory"),
    ] {
        let episode = fixture.answered(program);
        assert_rewards(&episode, 0.0, 0.0);
        assert!(episode.verdict.flags["over_limit"]);
        assert!(episode.verdict.feedback.as_ref().unwrap().contains(words), "{:?}", episode.verdict);
    }
}

fn the_verdict_is_on_the_record() {
    let fixture = adds();
    let spawns = fixture.spawns(4);
    let mut policy = Script::new(|_| {
        Ok((
            "import random\ndef add(a, b): return random.choice([a + b, 0])".to_owned(),
            StopReason::EndToken,
        ))
    });
    let played = play(&mut policy, &fixture.spec(&spawns)).unwrap();
    // What the programs do when they are run again may differ; the record decides.
    assert_eq!(played.len(), 4);
    for episode in &played {
        let again = replay(&fixture.spec(&spawns), &spawns[0], episode).unwrap();
        assert_eq!(again.verdict, episode.verdict);
    }
}

fn nothing_can_be_run() {
    let row = json!({"prompt": "Write f().", "tests": ["assert f() is None"]});
    let fixture = Fixture::new(&[row], json!({"sandbox": {"python": "no-such-python"}}));
    assert!(fixture.generator.ready().unwrap_err().to_string().contains("no-such-python"));
    let episode = fixture.answered("def f(): pass");
    let Validity::Unscored { reason } = &episode.verdict.validity else { panic!("{episode:?}") };
    assert!(reason.contains("no-such-python"), "{reason}");
}

fn demonstrations_of_programs() {
    let generator = build("programs", &json!({"steps": {"min": 1, "max": 4}})).unwrap();
    let tasks = generator.tasks(3, 120).unwrap().tasks;
    let mut environment = generator.environment();
    let mut verdict = |task: &Task, answer: &str| {
        environment.reset(task, 0).unwrap();
        environment.step(&burnish_core::Message::assistant(answer)).unwrap();
        environment.verify().unwrap()
    };
    for task in &tasks {
        let right = generator.demonstrations().unwrap().demonstrate(task).unwrap().content;
        let done = verdict(task, &right);
        assert!(done.success && done.rewards["passed"] == 1.0, "{right}\n{done:?}");
        // Without its first step.
        let wrong: Vec<&str> =
            right.lines().enumerate().filter(|(at, _)| *at != 1).map(|(_, line)| line).collect();
        assert!(!verdict(task, &wrong.join("\n")).success, "{wrong:?}");
    }
    let forged = "class All(list):\n    __eq__ = lambda *_: True\ndef f(xs): return All([None])";
    assert!(tasks.iter().all(|task| !verdict(task, forged).success));
    assert!(verdict(&tasks[0], "I don't know.").flags["parse_error"]);
}

fn references() {
    let shared = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let sets = [
        (
            "humaneval/HumanEval.jsonl.gz",
            json!({"prompt": "prompt", "answer": "canonical_solution"}),
            json!({"tests": "test", "entry_point": "entry_point", "begin": "prompt", "limits": {"wall_seconds": 120.0}}),
            "canonical_solution",
            164,
        ),
        (
            "mbpp/mbpp.jsonl",
            json!({"prompt": "text", "answer": "code"}),
            json!({"tests": "test_list", "setup": "test_setup_code", "limits": {"wall_seconds": 120.0}}),
            "code",
            974,
        ),
    ];
    for (file, columns, code, reference, count) in sets {
        let path = shared.join(file);
        if !path.is_file() {
            println!("skipped: there is no {}", path.display());
            return;
        }
        let config = json!({"path": path, "columns": columns, "verifier": {"code": code}});
        let generator = build("rows", &config).unwrap();
        let tasks = generator.tasks(0, count).unwrap().tasks;
        assert_eq!(tasks.len(), count);
        let next = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut environment = generator.environment();
                    while let Some(task) = tasks.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                    {
                        let mut verdict = |answer: String| {
                            environment.reset(task, 0).unwrap();
                            environment.step(&burnish_core::Message::assistant(answer)).unwrap();
                            environment.verify().unwrap()
                        };
                        let answer = task.truth[reference].as_str().unwrap();
                        // Without fences where an answer goes on from the beginning: there, spaces count.
                        let said = if count == 164 {
                            answer.to_owned()
                        } else {
                            format!("```python\n{answer}\n```")
                        };
                        let right = verdict(said);
                        assert!(right.success, "{file} {}: {right:?}", task.truth["task_id"]);
                    }
                });
            }
        });
    }
}
