//! What reaches a terminal: no control characters from data, a bar that fits, and lines that stay.

#![cfg(unix)]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use crate::common::Scratch;

/// Clears the screen, sets a title, begins a sequence with a single character, reorders the line, rings the bell.
const NASTY: &str = "\u{1b}[2J\u{1b}]0;title\u{7}\u{9b}31m\u{202e}\u{2066}\u{8}\r\u{7f}";

/// Whether a terminal would obey this character.
fn steers(character: char) -> bool {
    let is_layout = matches!(character, '\n' | '\t');
    character.is_control() && !is_layout
        || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Runs the program and returns its output, after checking that nothing in it controls a terminal.
#[track_caller]
fn printed(scratch: &Scratch, arguments: &[&str]) -> String {
    let output = scratch.command(arguments).output().unwrap();
    let mut all = String::new();
    for stream in [output.stdout, output.stderr] {
        let text = String::from_utf8(stream).unwrap();
        assert!(!text.chars().any(steers), "burnish {arguments:?}: {text:?}");
        all += &text;
    }
    assert!(!all.contains("panicked"), "{all}");
    all
}

#[test]
fn data_steers_no_terminal() {
    let scratch = Scratch::with_policy();
    let json = serde_json::to_string(NASTY).unwrap();
    let row = format!("{{\"prompt\": {json}, \"answer\": {json}, \"source\": {json}, {json}: {json}}}\n");
    scratch.write("rows.jsonl", &row);
    scratch.write("column.jsonl", format!("{{{json}: 1}}\n"));
    scratch.write(&format!("{}.jsonl", NASTY.replace('/', "")), &row);

    let shown = printed(&scratch, &["data", "show", "rows.jsonl"]);
    assert!(shown.contains("␛[2J␛]0;title␇<U+009B>31m<U+202E><U+2066>␈␍␡"), "{shown}");
    printed(&scratch, &["data", "show", "column.jsonl"]);
    printed(&scratch, &["data", "show", &format!("{NASTY}.jsonl")]);
    printed(&scratch, &["data", "check", "rows.jsonl", "--against", "rows.jsonl", "--ngram", "1"]);
    let env = ["env", "show", "rows", "path=rows.jsonl", "verifier=exact"];
    assert!(printed(&scratch, &env).contains("␛[2J"));
    let rows = "env={id=\"rows\", config={path=\"rows.jsonl\", verifier=\"exact\"}}";
    let rollout = ["rollout", "grpo.toml", rows, "--count", "1", "eval.tasks=1"];
    assert!(printed(&scratch, &rollout).contains("␛[2J"));
    let train =
        ["train", "grpo.toml", rows, "eval.tasks=1", "train.max_steps=1", &format!("run.dir=x{NASTY}")];
    printed(&scratch, &train);
    printed(&scratch, &["rollout", "--from", &format!("x{NASTY}")]);
    printed(&scratch, &["eval", "grpo.toml", rows, "eval.tasks=1"]);
    // Arguments come from elsewhere too: scripts, file names, a page that they were copied from.
    for wrong in [
        vec!["train", NASTY],
        vec![NASTY],
        vec!["train", "grpo.toml", NASTY],
        vec!["train", "--resume", NASTY],
        vec!["methods", "show", NASTY],
        vec!["env", "show", NASTY],
        vec!["eval", NASTY],
        vec!["eval", "gsm8k", "--policy", NASTY],
        vec!["metrics", NASTY],
        vec!["metrics", "tiny", "--names", NASTY],
        vec!["merge", NASTY, "x"],
        vec!["study", NASTY],
        vec!["rollout", "--from", NASTY],
        vec!["data", "show", NASTY],
    ] {
        assert!(printed(&scratch, &wrong).contains("error: "), "{wrong:?}");
    }
    for key in
        ["env.id", "run.x", "policy.path", "loss.objective", "advantage.estimator", "train.method", "preset"]
    {
        let change = format!("{key}={NASTY}");
        assert!(printed(&scratch, &["train", "grpo.toml", &change]).contains("error: "), "{key}");
    }
}

/// A program that reads JSON gets the exact value, whatever it contains.
#[test]
fn json_is_exact_and_steers_no_terminal() {
    let scratch = Scratch::new();
    let words = format!("{NASTY} one two three four five six seven eight nine ten eleven twelve thirteen");
    let row = serde_json::json!({"prompt": words, "answer": "1"});
    scratch.write("rows.jsonl", format!("{row}\n"));
    let name = "\u{9b}31m\u{202e}.jsonl";
    scratch.write(name, format!("{row}\n"));
    let json = printed(&scratch, &["data", "check", name, "--against", "rows.jsonl", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["files"][0]["file"], name);
}

#[test]
fn names_that_are_no_text_are_named_as_far_as_they_are() {
    let scratch = Scratch::new();
    for arguments in [&["train"][..], &["data", "show"], &["metrics"], &["rollout", "--from"]] {
        let mut command = scratch.command(arguments);
        let output = command.arg(OsStr::from_bytes(b"a\xff\x1b[31mb")).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.starts_with("error: ") && error.contains("a\u{fffd}␛[31mb"), "{error}");
    }
}

/// Runs the arguments after the first two in a terminal that is as wide as the first one says, and prints what the
/// terminal got. Presses Ctrl-C when the terminal shows the second one.
const IN_TERMINAL: &str = r#"
import fcntl, os, pty, struct, sys, termios
pid, terminal = pty.fork()
if pid == 0:
    # Not before the terminal has its width.
    sys.stdin.readline()
    os.execv(sys.argv[3], sys.argv[3:])
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, int(sys.argv[1]), 0, 0))
os.write(terminal, b"\n")
shown, wait_for = b"", sys.argv[2].encode()
while True:
    try:
        some = os.read(terminal, 65536)
    except OSError:
        break
    if not some:
        break
    sys.stdout.buffer.write(some)
    shown += some
    if wait_for and wait_for in shown:
        os.write(terminal, b"\x03")
        wait_for = b""
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

/// The text without the bar's own control sequences, such as the one that clears a line.
fn unsteered(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|end: char| end.is_ascii_alphabetic()).map_or(part.len(), |at| at + 1);
        plain += &part[end..];
    }
    plain
}

fn has_python() -> bool {
    let has = Command::new("python3").arg("--version").output().is_ok();
    if !has {
        println!("skipped: there is no python3");
    }
    has
}

fn in_terminal(scratch: &Scratch, width: usize, stop_at: &str, arguments: &[&str]) -> String {
    let mut command = Command::new("python3");
    command.args(["-c", IN_TERMINAL, &width.to_string(), stop_at, env!("CARGO_BIN_EXE_burnish")]);
    command.args(arguments).current_dir(scratch.path(".")).env("TERM", "xterm").env_remove("CARGO");
    let output = command.output().unwrap();
    let status = if stop_at.is_empty() { 0 } else { 130 };
    assert_eq!(output.status.code(), Some(status), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The rows of a terminal after this output, including those that have scrolled away.
fn screen(shown: &str, width: usize) -> Vec<String> {
    let (mut rows, mut row, mut column) = (vec![vec![' '; width]], 0, 0);
    let mut characters = shown.chars();
    while let Some(character) = characters.next() {
        match character {
            '\r' => column = 0,
            '\n' => row += 1,
            '\u{1b}' => {
                let mut sequence = String::new();
                for next in characters.by_ref().skip(1) {
                    sequence.push(next);
                    if next.is_ascii_alphabetic() {
                        break;
                    }
                }
                match &*sequence {
                    "2K" => rows[row] = vec![' '; width],
                    "K" => rows[row].truncate(column),
                    "1A" => row -= 1,
                    other => assert!(other.starts_with('?') || other == "0m", "{other:?}"),
                }
                rows[row].resize(width, ' ');
            }
            other => {
                if column == width {
                    (row, column) = (row + 1, 0);
                }
                rows.resize(rows.len().max(row + 1), vec![' '; width]);
                rows[row][column] = other;
                column += 1;
            }
        }
        rows.resize(rows.len().max(row + 1), vec![' '; width]);
    }
    rows.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned()).collect()
}

#[test]
fn ctrl_c_is_answered_on_lines_of_its_own() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::with_policy();
    for width in [60, 100] {
        let dir = format!("run.dir=stopped-{width}");
        let arguments = ["train", "grpo.toml", &dir, "train.max_steps=400", "eval.tasks=2"];
        let left = screen(&in_terminal(&scratch, width, "step 3/400", &arguments), width);
        // The terminal writes `^C` behind the bar, which is as wide as a row, so the bar of that moment stays on the
        // screen.
        let bars = left.iter().filter(|row| row.contains(['█', '░'])).count();
        assert!(bars <= 1, "{width}: {left:#?}");
        for line in ["finishing this step, then saving; once more to stop at once", "stopped after step "] {
            assert!(left.iter().any(|row| row.starts_with(line)), "{width}: `{line}` is not in {left:#?}");
        }
    }
}

#[test]
fn a_bar_fits_its_terminal_and_leaves_lines_behind() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::with_policy();
    for width in [20, 40, 80, 120, 200] {
        let dir = format!("run.dir=wide-{width}");
        let shown = in_terminal(&scratch, width, "", &["train", "grpo.toml", &dir, "eval.tasks=2"]);
        let left = screen(&shown, width);
        assert!(!left.iter().any(|row| row.contains(['█', '░'])), "{width}: {left:#?}");
        assert_eq!(left.iter().filter(|row| row.starts_with("evaluation after ")).count(), 3, "{left:#?}");
        let lines: Vec<String> = shown.split(['\r', '\n']).map(unsteered).collect();
        let steps = |line: &&String| line.contains("step ") && line.contains("/6");
        // The bar is drawn over and over; a line for the first and one for the last step stay.
        let (stay, bars): (Vec<&String>, Vec<&String>) = lines
            .iter()
            .filter(steps)
            .partition(|line| line.starts_with("step 1/6  reward ") || line.starts_with("step 6/6  reward "));
        assert!(stay.len() >= 2 && !bars.is_empty(), "{width}: {lines:?}");
        for line in stay {
            assert!(line.chars().count() <= width.max(40), "{width}: {line:?}");
            assert!(width < 80 || line.contains("success ") && line.contains("loss "), "{width}: {line:?}");
            assert!(width < 200 || line.contains(" left"), "{width}: {line:?}");
        }
        for bar in bars {
            assert!(bar.chars().count() <= width, "{width}: {bar:?} of {}", bar.chars().count());
            let numbers = bar.split(|end: char| !end.is_ascii_digit() && end != '.');
            assert!(numbers.into_iter().all(|number| number.len() <= 7), "{bar}");
        }
    }
}

#[test]
fn without_a_terminal_steps_are_lines_with_rate_and_time_left() {
    let scratch = Scratch::with_policy();
    let said = scratch.burnish(&["train", "grpo.toml"]).succeeds().stdout();
    let steps: Vec<&str> = said.lines().filter(|line| line.starts_with("step ")).collect();
    assert!(
        steps.len() >= 2
            && steps[0].starts_with("step 1/6  ")
            && steps[steps.len() - 1].starts_with("step 6/6  ")
    );
    for line in steps {
        for part in ["reward ", "loss ", "success ", "tokens/s", " left"] {
            assert!(line.contains(part), "`{part}` is not in: {line}");
        }
    }
}
