//! The environment `specs`: canned specifications get the rates that are expected of them. It has a `main` of its own,
//! because the guard of a sandbox is this program started again:
//! `cargo test -p burnish-env --test specs NAME` runs the tests whose name contains NAME.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::OnceLock;

use burnish_core::{Message, Task, Verdict};
use burnish_env::specs::{Cases, Config, Judge, Pool, Reading, Rejects, Report};
use burnish_env::{Generator, build};
use serde_json::{Value, json};

type Tests = [(&'static str, fn()); 16];

const TESTS: Tests = [
    ("strong_specifications_of_every_family_pass", strong_pass),
    ("trivial_specifications_get_what_they_deserve", trivial),
    ("a_weaker_specification_is_as_correct_and_less_complete", weaker),
    ("one_that_hangs_is_neither_right_nor_complete", hanging),
    ("one_that_sleeps_takes_too_long_by_the_clock", sleeping),
    ("one_that_changes_its_arguments_changes_no_other_case", mutating),
    ("one_that_is_sometimes_right_is_flagged", nondeterministic),
    ("one_that_looks_around_finds_one_case_and_no_pool", looking_around),
    ("one_that_ends_its_process_rejects_nothing", ending),
    ("an_oracle_fails_where_there_are_many_answers", oracle),
    ("what_cannot_be_run_is_not_run", not_run),
    ("only_assertions_count_where_that_is_asked", only_assertions),
    ("an_empty_pool_never_holds", empty_pool),
    ("bad_keys_are_refused", bad_keys),
    ("what_needs_no_interpreter_comes_out_as_in_python", direct),
    ("what_is_more_than_assertions_needs_python", not_direct),
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

/// A function of one number from 0 to 9 that returns its square.
fn square() -> Cases {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    Cases {
        pos_pre: texts(&["0", "3", "9"]),
        neg_pre: texts(&["-1", "10", "'a'"]),
        pos_post: texts(&["0, 0", "3, 9", "9, 81"]),
        neg_hard: texts(&["3, 8", "9, 82", "2, 5"]),
        neg_random: texts(&["3, None", "9, 'x'", "0, [4]"]),
    }
}

const STRONG: &str = "def preconditions(n):\n    assert isinstance(n, int) and 0 <= n <= 9\n\
    def postconditions(n, output):\n    assert output == n * n\n";

fn judge(config: Config) -> Judge {
    Judge::new(&config)
}

/// With the defaults. Its interpreters are started once.
fn default_judge() -> &'static Judge {
    static JUDGE: OnceLock<Judge> = OnceLock::new();
    JUDGE.get_or_init(|| Judge::new(&Config::default()))
}

fn judged(spec: &str) -> Report {
    default_judge().judge(spec, &square()).unwrap()
}

/// Whether it is correct, complete, and both at once.
fn rates(report: &Report) -> (bool, bool, bool) {
    let (correct, complete) = (report.is_correct(), report.is_complete());
    (correct, complete, correct && complete)
}

fn spec(pre: &str, post: &str) -> String {
    format!("def preconditions(n):\n    {pre}\ndef postconditions(n, output):\n    {post}\n")
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

fn strong_pass() {
    let generator = build("specs", &json!({"cases": 5})).unwrap();
    let set = generator.tasks(3, 36).unwrap();
    assert_eq!(set.cells.len(), 18);
    for task in &set.tasks {
        let answer = generator.demonstrations().unwrap().demonstrate(task).unwrap();
        let verdict = play(&*generator, task, &answer.content);
        assert!(verdict.success, "{}\n{:?}", task.prompt[0].content, verdict);
        assert!(verdict.rewards.values().all(|reward| *reward == 1.0), "{verdict:?}");
        assert!(verdict.flags.values().all(|flag| !flag), "{verdict:?}");
        // The reference program gives what the specification accepts, in Python as in Rust.
        assert!(generator.draw(task, Some(&answer.content)).ends_with("passes"));
    }
}

fn trivial() {
    let accepts = judged(&spec("assert True", "assert True"));
    assert_eq!((rates(&accepts), accepts.score(), accepts.told_apart()), ((true, false, false), 0.4, 0.0));
    let rejects = judged(&spec("assert False", "assert False"));
    assert_eq!((rates(&rejects), rejects.score(), rejects.told_apart()), ((false, true, false), 0.6, 0.0));
    let strong = judged(STRONG);
    assert_eq!((rates(&strong), strong.score(), strong.told_apart()), ((true, true, true), 1.0, 1.0));
    assert_eq!(strong.feedback, None);
    // Weak: types only. Every unrelated output but none of the near misses is rejected.
    let weak = judged(&spec("assert isinstance(n, int)", "assert isinstance(output, int)"));
    assert_eq!(rates(&weak), (true, false, false));
    assert_eq!([Pool::NegPre, Pool::NegHard, Pool::NegRandom].map(|pool| weak.pool(pool).right), [1, 0, 3]);
    assert!((weak.told_apart() - (1.0 / 3.0 + 0.5) / 2.0).abs() < 1e-12);
    let feedback = weak.feedback.unwrap();
    assert!(feedback.starts_with("must reject preconditions(-1), and does not"), "{feedback}");
}

/// Leaving out assertions accepts more: no positive case is lost, no negative case is won.
fn weaker() {
    let generator = build("specs", &json!({"cases": 3})).unwrap();
    let judge = default_judge();
    let (mut compared, mut lost) = (0, 0);
    for task in generator.tasks(5, 18).unwrap().tasks {
        let cases: Cases = serde_json::from_value(task.truth["function"]["cases"].clone()).unwrap();
        let mut lines: Vec<&str> = task.truth["function"]["strong"].as_str().unwrap().lines().collect();
        // Each function keeps a body.
        for line in &mut lines {
            if line.is_empty() {
                *line = "    pass";
            }
        }
        lines.push("    pass");
        let mut before = judge.judge(&lines.join("\n"), &cases).unwrap();
        assert!(before.is_correct() && before.is_complete(), "{before:?}");
        // From the last assertion to the first, until every second one is gone.
        let mut at = lines.len();
        while at > 1 {
            at -= 2;
            if !lines[at].trim_start().starts_with("assert") {
                continue;
            }
            lines.remove(at);
            let after = judge.judge(&lines.join("\n"), &cases).unwrap();
            for pool in Pool::ALL {
                let [earlier, later] = [&before, &after].map(|report| report.pool(pool).right);
                if pool.is_positive() {
                    assert!(later >= earlier)
                } else {
                    assert!(later <= earlier, "{lines:?}")
                }
            }
            assert!(after.is_correct());
            compared += 1;
            lost += usize::from(!after.is_complete());
            before = after;
        }
    }
    assert!(compared > 30 && lost > 18, "{compared} {lost}");
}

fn hanging() {
    // Hangs on all that it should reject: the trap of harnesses that take a timeout for a rejection.
    let hangs = spec("while not (isinstance(n, int) and 0 <= n <= 9): pass", "while output != n * n: pass");
    let quick = Config { seconds: 0.3, hangs: 100, ..Config::default() };
    let report = judge(quick).judge(&hangs, &square()).unwrap();
    assert_eq!(rates(&report), (true, false, false), "{report:?}");
    assert_eq!(report.hung(), 9);
    let negative = [Pool::NegPre, Pool::NegHard, Pool::NegRandom].map(|pool| report.pool(pool));
    assert_eq!(negative.map(|pool| (pool.right, pool.hung)), [(0, 3); 3]);
    // After as many as are allowed the others are not run, so that one that always hangs does not take minutes.
    let few = Config { seconds: 0.3, hangs: 2, ..Config::default() };
    let report = judge(few).judge(&hangs, &square()).unwrap();
    assert_eq!((report.hung(), report.is_complete()), (2, false));
    assert!(report.pools.iter().all(|pool| pool.right + pool.hung + pool.unrun <= pool.of));
    assert!(report.pools.iter().map(|pool| pool.unrun).sum::<usize>() > 0);
}

fn sleeping() {
    let config = Config { seconds: 0.2, hangs: 1, ..Config::default() };
    let spec = spec("import time; time.sleep(60)", "assert True");
    let report = judge(config).judge(&spec, &square()).unwrap();
    assert_eq!((report.hung(), rates(&report)), (1, (false, false, false)));
}

fn mutating() {
    let cases = Cases {
        pos_pre: vec!["[1, 2]".into(), "[3]".into()],
        neg_pre: vec!["[]".into(), "'ab'".into()],
        pos_post: vec!["[2, 1], [1, 2]".into(), "[3], [3]".into()],
        neg_hard: vec!["[2, 1], [2, 1]".into()],
        neg_random: vec!["[2, 1], [7]".into(), "[3], 4".into()],
    };
    let strong = "def preconditions(xs):\n    assert isinstance(xs, list) and xs\n    xs.clear()\n\
        def postconditions(xs, output):\n    xs.sort()\n    assert output == xs\n    output.append(0)\n    xs.clear()\n";
    let report = default_judge().judge(strong, &cases).unwrap();
    assert_eq!(rates(&report), (true, true, true), "{report:?}");
    // Names and modules are not carried from case to case either.
    let counting = "import builtins\nseen = []\ndef preconditions(xs):\n    assert isinstance(xs, list) and xs\n    \
        seen.append(xs)\n    assert len(seen) == 1 and not hasattr(builtins, 'mine')\n    builtins.mine = 1\n\
        def postconditions(xs, output):\n    assert output == sorted(xs)\n    open('/tmp/mine', 'x').close()\n";
    let report = default_judge().judge(counting, &cases).unwrap();
    assert_eq!(rates(&report), (true, true, true), "{report:?}");
}

fn nondeterministic() {
    let random = spec("import random; assert random.random() < 0.5", "assert output == n * n");
    let report = judged(&random);
    assert!(report.is_nondeterministic && !report.is_correct(), "{report:?}");
    // `random` is seeded per case and run, so that the verdict is the same whenever it is asked for.
    assert_eq!(judged(&random), report);
    // What depends on the order of a set: the interpreters of both runs have different seeds of hashes.
    let set = judged(&spec("assert True", "assert list({'spam', 'eggs', 'ham'})[0] == 'spam'"));
    assert!(set.is_nondeterministic && !set.is_correct() && !set.is_complete(), "{set:?}");
    assert!(!judged(STRONG).is_nondeterministic);
}

fn looking_around() {
    // It searches frames, modules, every object that the collector knows, and files for anything that says where a case
    // is from, or for another case; if it finds something it rejects, so positive cases would fail. What it looks for
    // is written backwards, so that it does not find itself. It says its case when it rejects, so that the next one
    // would find that.
    let source = "\
import gc, os, sys
HIDDEN = ['drah_gen', 'tsop_sop', 'modnar_gen', 'erp_sop']
OTHERS = ['1 ,9284', '9 ,1377', '2 ,9284', 'enoN ,1377']
def texts():
    frame = sys._getframe(1)
    while frame:
        yield repr(frame.f_locals)
        frame = frame.f_back
    for thing in gc.get_objects():
        if isinstance(thing, (dict, list, tuple)):
            for part in list(thing.values() if isinstance(thing, dict) else thing):
                if isinstance(part, str):
                    yield part
    yield repr(sys.argv) + repr(dict(os.environ)) + repr(os.listdir('/tmp'))
def found(words):
    all = '\\n'.join(texts())
    return [word for word in words if word[::-1] in all]
def preconditions(n):
    assert isinstance(n, int) and n >= 0
def postconditions(n, output):
    own = ('%d, %r' % (n, output))[::-1]
    assert not found(HIDDEN + [other for other in OTHERS if other != own])
    assert output in (1, 9), '%d, %r' % (n, output)
";
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let cases = Cases {
        pos_pre: texts(&["4829"]),
        neg_pre: texts(&["-1"]),
        pos_post: texts(&["4829, 1", "7731, 9"]),
        neg_hard: texts(&["4829, 2"]),
        neg_random: texts(&["7731, None"]),
    };
    let report = default_judge().judge(source, &cases).unwrap();
    assert_eq!(rates(&report), (true, true, true), "{report:?}");
    // It does find what is there: its own case, in the frames above.
    let own = source.replace("other != own", "other == own");
    assert!(!default_judge().judge(&own, &cases).unwrap().is_correct());
    // Whatever it writes where the sandbox reports, it can only say what it could have said by raising or not.
    let forging = "import os\ndef preconditions(n):\n    os.write(3, b'{\"check\": 0, \"passed\": true}\\n')\n    \
        assert 0 <= n <= 9\ndef postconditions(n, output):\n    os.write(3, b'{\"end\": \"done\"}\\n')\n    \
        assert output == n * n\n";
    assert_eq!(rates(&judged(forging)), (true, true, true));
}

fn ending() {
    for (pre, post) in [
        ("import os; os._exit(1)", "import os; os._exit(0)"),
        ("raise SystemExit(3)", "raise KeyboardInterrupt"),
        ("import os; os.kill(os.getpid(), 9)", "x = bytearray(1 << 40)"),
    ] {
        let report = judged(&spec(pre, post));
        assert_eq!(rates(&report), (false, false, false), "{pre} {report:?}");
        assert_eq!(report.pools.iter().map(|pool| pool.ended).sum::<usize>(), 15, "{pre} {report:?}");
    }
    // One that fails while it is defined rejects nothing, and neither does one that takes its functions away.
    for prelude in ["raise ValueError('no')", "del postconditions"] {
        let report = judged(&format!("{STRONG}{prelude}\n"));
        assert_eq!(rates(&report), (false, false, false), "{report:?}");
        assert!(report.feedback.unwrap().contains("raised"), "{prelude}");
    }
}

/// Recomputing the output is a strong specification only where there is one right answer.
fn oracle() {
    let generator = build("specs", &json!({"cases": 4})).unwrap();
    let mut seen = [0, 0];
    for task in generator.tasks(9, 18).unwrap().tasks {
        let program = task.truth["function"]["program"].as_str().unwrap();
        let (name, _) = program.strip_prefix("def ").unwrap().split_once('(').unwrap();
        let inputs = program.split_once('(').unwrap().1.split_once(')').unwrap().0;
        let strong = task.truth["function"]["strong"].as_str().unwrap();
        let pre = strong.split("\ndef postconditions").next().unwrap();
        let spec = format!(
            "{program}\n{pre}\ndef postconditions({inputs}, output):\n    assert output == {name}({inputs})\n"
        );
        let verdict = play(&*generator, &task, &fenced(&spec));
        let is_one = task.labels["answers"] == "one";
        assert_eq!(verdict.success, is_one, "{}\n{verdict:?}", task.prompt[0].content);
        assert_eq!(verdict.rewards["correct"] == 1.0, is_one);
        assert_eq!(verdict.rewards["complete"], 1.0, "{verdict:?}");
        seen[usize::from(is_one)] += 1;
    }
    assert!(seen[0] >= 4 && seen[1] >= 8, "{seen:?}");
}

fn not_run() {
    let generator = build("specs", &json!({})).unwrap();
    let task = &generator.tasks(1, 8).unwrap().tasks[6];
    let flag = |answer: &str| {
        let verdict = play(&*generator, task, answer);
        assert!(verdict.rewards.values().all(|reward| *reward == 0.0) && !verdict.success);
        let set: Vec<&String> = verdict.flags.iter().filter(|(_, set)| **set).map(|(name, _)| name).collect();
        assert_eq!(set.len(), 1, "{verdict:?}");
        (set[0].clone(), verdict.feedback.unwrap())
    };
    let strong = generator.demonstrations().unwrap().demonstrate(task).unwrap().content;
    assert_eq!(flag("I don't know.").0, "not_extracted");
    assert_eq!(flag(&strong.replace("```", "")).0, "not_extracted");
    assert_eq!(flag(&format!("<think>{strong}</think>No.")).0, "not_extracted");
    let (name, feedback) = flag("```python\ndef preconditions(:\n```");
    assert!(name == "not_extracted" && feedback.contains("does not parse"), "{feedback}");
    assert_eq!(flag(&fenced(&"(".repeat(100_000))).0, "not_extracted");
    let (name, feedback) = flag("```python\ndef preconditions(xs):\n    pass\n```");
    assert!(name == "malformed" && feedback.contains("no function postconditions"), "{feedback}");
    let judge = default_judge();
    let read = |signature: &str| {
        let spec = format!("def preconditions(a):\n    pass\ndef postconditions({signature}):\n    pass\n");
        judge.read(&spec, 1).unwrap()
    };
    for fits in ["a, output", "*all", "a, b, c=3", "a, /, output"] {
        assert_eq!(read(fits), Reading::Ready, "{fits}");
    }
    for unfit in ["a", "a, b, c", "a, b, *, c", ""] {
        assert!(matches!(read(unfit), Reading::Malformed(_)), "{unfit}");
    }
}

fn only_assertions() {
    // A text is not compared with a number: TypeError.
    let spec = spec("assert 0 <= n <= 9", "assert output == n * n");
    let of = |rejects| judge(Config { rejects, ..Config::default() }).judge(&spec, &square()).unwrap();
    let any = of(Rejects::AnyException);
    assert_eq!((rates(&any), any.pool(Pool::NegPre).crashed), ((true, true, true), 1));
    let only = of(Rejects::AssertionError);
    assert_eq!((rates(&only), only.pool(Pool::NegPre).right), ((true, false, false), 2));
}

fn empty_pool() {
    for pool in Pool::ALL {
        let mut cases = square();
        match pool {
            Pool::PosPre => cases.pos_pre.clear(),
            Pool::NegPre => cases.neg_pre.clear(),
            Pool::PosPost => cases.pos_post.clear(),
            Pool::NegHard => cases.neg_hard.clear(),
            Pool::NegRandom => cases.neg_random.clear(),
        }
        let report = default_judge().judge(STRONG, &cases).unwrap();
        assert_eq!(rates(&report), (!pool.is_positive(), pool.is_positive(), false));
        assert!(report.feedback.unwrap().contains(pool.name()));
    }
}

fn bad_keys() {
    let refused = |config: Value| build("specs", &config).err().map(|error| error.to_string()).unwrap();
    for (config, expected) in [
        (json!({"cases": 0}), "cases: 0 is out of range"),
        (json!({"families": ["nope"]}), "families: there is no family `nope`"),
        (json!({"track": "evalplus"}), "path: name EvalPlus's files"),
        (json!({"path": ["x"]}), "path: only the track `evalplus`"),
        (json!({"track": "repo", "families": ["count"]}), "families: only generated"),
        (json!({"track": "other"}), "track"),
        (json!({"case": 3}), "case"),
    ] {
        let error = refused(config);
        assert!(error.contains(expected), "{error}");
    }
}

/// Strong specifications, and what becomes of them by small changes.
fn direct() {
    const CHANGES: [[&str; 2]; 12] = [
        [" <= ", " < "],
        ["==", "!="],
        ["len(", "sum("],
        [" and ", " or "],
        [", int)", ", str)"],
        ["0", "1"],
        ["not ", ""],
        ["assert ", "assert not "],
        ["xs", "output"],
        ["[", "("],
        ["output", "output[0]"],
        ["for", "of"],
    ];
    let generator = build("specs", &json!({"cases": 2})).unwrap();
    let judge = default_judge();
    let (mut compared, mut wrong) = (0, 0);
    for task in generator.tasks(11, 18).unwrap().tasks {
        let function = &task.truth["function"];
        let cases: Cases = serde_json::from_value(function["cases"].clone()).unwrap();
        let inputs = function["inputs"].as_u64().unwrap() as usize;
        let strong = function["strong"].as_str().unwrap();
        let own = judge.judge_direct(strong, inputs, &cases).unwrap();
        assert_eq!(own, judge.judge(strong, &cases).unwrap(), "{strong}");
        assert_eq!(rates(&own), (true, true, true), "{strong}");
        for [old, new] in CHANGES.iter().filter(|[old, _]| strong.contains(old)) {
            let changed = strong.replacen(old, new, 2);
            let Some(own) = judge.judge_direct(&changed, inputs, &cases) else { continue };
            assert_eq!(judge.read(&changed, inputs).unwrap(), Reading::Ready, "{changed}");
            assert_eq!(own, judge.judge(&changed, &cases).unwrap(), "{changed}");
            compared += 1;
            wrong += usize::from(own.score() < 1.0);
        }
    }
    assert!(compared > 80 && wrong > 60, "{compared} compared, {wrong} of them wrong");
}

fn not_direct() {
    let judge = default_judge();
    let is_direct = |text: &str| judge.judge_direct(text, 1, &square()).is_some();
    assert!(is_direct(STRONG) && is_direct(&spec("pass", "assert output == n * n")));
    // Whatever follows is Python, or nearly; none of it is run here.
    for post in [
        "print(n)",
        "return",
        "assert output == n ** 2",
        "assert len",
        "assert {output}",
        "assert output == n * n, 'why'",
        "assert n.bit_length()",
        "assert isinstance(output, float)",
        "assert output == [x := n]",
        "assert unknown",
        "assert output == 0x1",
        "while True: pass",
        "assert [n for n in [output]]",
        "  assert True",
        "assert 'a' * output",
        "assert [i for i in range(10000000)]",
    ] {
        assert!(!is_direct(&spec("pass", post)), "{post}");
    }
    let twice = format!("{STRONG}{STRONG}");
    let deep = spec("pass", &format!("assert {}n{}", "(".repeat(5_000), ")".repeat(5_000)));
    for text in [
        &twice,
        &deep,
        "",
        "import os\n",
        &format!("import os\n{STRONG}"),
        &STRONG.replace("(n)", "(n, m=1)"),
    ] {
        assert!(!is_direct(text), "{text}");
    }
    assert!(judge.judge_direct(STRONG, 2, &square()).is_none(), "another number of inputs");
    // Arguments that are not in the language.
    let floats = Cases { pos_pre: vec!["1.5".to_owned()], ..square() };
    assert!(judge.judge_direct(STRONG, 1, &floats).is_none());
    let error = Judge::new(&Config { rejects: Rejects::AssertionError, ..Config::default() });
    let report = error.judge_direct(&spec("assert 0 <= n", "assert output == n * n"), 1, &square()).unwrap();
    assert_eq!(report, error.judge(&spec("assert 0 <= n", "assert output == n * n"), &square()).unwrap());
    assert_eq!(report.pool(Pool::NegPre).crashed, 1);
}
