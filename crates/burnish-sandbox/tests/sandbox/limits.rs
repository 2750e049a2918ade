//! Each limit has an outcome of its own, also for a program that does its best not to be noticed.

use burnish_sandbox::{Limits, Outcome, Sandbox};

use crate::{Tests, run, tight};

pub(crate) const TESTS: Tests = &[
    ("each_limit_is_reported_as_what_it_is", each_limit),
    ("what_is_within_its_limits_is_done", within),
    ("how_else_a_program_ends_is_reported", other_ends),
];

/// Programs, and the limit that ends them.
const BEYOND: &[(&str, &str)] = &[
    ("wall_time", "import time; time.sleep(1000)"),
    (
        "wall_time",
        "import signal, time\nfor number in range(1, 32):\n    try: signal.signal(number, signal.SIG_IGN)\n    except OSError: pass\nwhile True:\n    try: time.sleep(1000)\n    except BaseException: pass",
    ),
    ("wall_time", "import os, time\nif os.fork(): os.waitpid(-1, 0)\nelse: os.setsid(); time.sleep(1000)"),
    (
        "wall_time",
        "input_never_ends = open('/dev/zero', 'rb')\nimport time\nwhile input_never_ends.read(1): time.sleep(0.1)",
    ),
    ("cpu_time", "while True: pass"),
    ("cpu_time", "import signal; signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"),
    ("cpu_time", "while True:\n    try: sum(range(10**7))\n    except BaseException: pass"),
    ("memory", "held = [0] * 10**9"),
    ("memory", "held = []\nwhile True: held.append(bytearray(1 << 20))"),
    ("memory", "import mmap; mmap.mmap(-1, 1 << 30)"),
    ("processes", "import os\nwhile True: os.fork()"),
    ("processes", "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"),
    (
        "processes",
        "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(1000,)).start()",
    ),
    ("output", "while True: print('x' * 1000)"),
    ("output", "import sys\nwhile True: sys.stderr.write('x' * 1000)"),
    ("output", "import os\nif os.fork():\n    os.waitpid(-1, 0)\nwhile True: os.write(1, b'x' * 1000)"),
    ("file_size", "open('/tmp/large', 'wb').write(b'x' * (2 << 20))"),
    ("file_size", "import os\nfor at in range(1000): open('/tmp/%d' % at, 'wb').write(b'x' * (1 << 20))"),
    ("file_size", "for at in range(5000): open('/tmp/%d' % at, 'wb')"),
];

fn each_limit(sandbox: &Sandbox) {
    for (limit, program) in BEYOND {
        // On a busy machine, a second of processor time may take many.
        let wall_seconds = if *limit == "cpu_time" { 60.0 } else { tight().wall_seconds };
        let execution = run(sandbox, program, Limits { wall_seconds, ..tight() });
        assert_eq!(execution.outcome.name(), *limit, "{program}: {execution:?}");
        assert!(execution.outcome.is_limit());
        assert!(execution.stdout.len() + execution.stderr.len() <= 30_000, "{program}");
        assert!(execution.wall.as_secs_f64() < wall_seconds + 5.0, "{program}: {execution:?}");
        // The next job has all that this one had.
        assert_eq!(run(sandbox, "print('x' * 9000)", tight()).stdout.len(), 9001, "after {program}");
    }
}

fn within(sandbox: &Sandbox) {
    let program = r#"
import os, threading
held = bytearray(64 << 20)
open("/tmp/file", "wb").write(b"x" * (1 << 20))
threads = [threading.Thread(target=sum, args=([1],)) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
for _ in range(20):
    if os.fork() == 0: os._exit(0)
    os.wait()
print("x" * 9998)
"#;
    let execution = run(sandbox, program, tight());
    assert_eq!((execution.outcome, execution.stdout.len()), (Outcome::Done, 9999), "{}", execution.stderr);
    let wide = Limits::default();
    let execution = run(sandbox, "import sys; sys.stdout.write('é' * 400_000)", wide);
    assert_eq!((execution.outcome, execution.stdout.chars().count()), (Outcome::Done, 400_000));
}

fn other_ends(sandbox: &Sandbox) {
    let outcome = |program: &str| run(sandbox, program, tight()).outcome;
    assert_eq!(outcome("import sys; sys.exit(3)"), Outcome::Exited(3));
    assert_eq!(outcome("import os; os._exit(4)"), Outcome::Exited(4));
    assert_eq!(outcome("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"), Outcome::Killed(11));
    assert_eq!(outcome("1 / 0"), Outcome::Raised("ZeroDivisionError: division by zero".into()));
    assert!(matches!(outcome("def f(:"), Outcome::Raised(error) if error.contains("SyntaxError")));
    assert!(matches!(outcome("raise Exception('\\ud800')"), Outcome::Raised(_)));
    let deep = run(sandbox, "def f(): f()\nf()", tight());
    assert!(
        matches!(&deep.outcome, Outcome::Raised(error) if error.starts_with("RecursionError")),
        "{deep:?}"
    );
    let trace = run(sandbox, "def f():\n    raise KeyError('here')\nf()", tight()).stderr;
    assert!(trace.contains("line 2, in f") && trace.contains("raise KeyError"), "{trace}");
    assert!(!trace.contains("<string>"), "{trace}");
}
