//! `burnish chat`, driven by scripts and in a terminal.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use crate::common::{Finished, Scratch};
use crate::test_server::{Reply, events, piece, said, serve, serve_text};
use burnish_core::Sampling;
use burnish_run::generate::{Answerer, Asked, Conversation};
use serde_json::{Value, json};

const STARTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/starter");

/// Says the lines of a script.
fn chat(scratch: &Scratch, policy: &str, options: &[&str], script: &str) -> Finished {
    let arguments = [&["chat", policy], options].concat();
    let mut command = scratch.command(&arguments);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A script may go on when the program has ended.
    let _ = child.stdin.take().unwrap().write_all(script.as_bytes());
    Finished::of(&arguments, child.wait_with_output().unwrap())
}

/// A server that repeats the last message, with the number of messages.
fn echo() -> (String, std::sync::Arc<std::sync::Mutex<Vec<Value>>>) {
    serve(|_, asked| {
        let messages = asked["messages"].as_array().unwrap();
        said(&format!("{} {}", messages.len(), messages.last().unwrap()["content"].as_str().unwrap()))
    })
}

fn ask(scratch: &Scratch, url: &str, options: &[&str], script: &str) -> Finished {
    chat(scratch, url, &[&["--model", "m"], options].concat(), script)
}

#[test]
fn a_conversation_is_kept_and_changed_by_commands() {
    let scratch = Scratch::new();
    let (url, sent) = echo();
    let script = "one\n\ntwo\n/undo\nthree\\\nfour\n/retry\n//slash\n/system Be brief.\nfive\n/clear\nsix\n/system -\n\
                  /temperature 0.25\n/max_tokens 7\nseven\n/quit\nnot said\n";
    let finished = ask(&scratch, &url, &["--seed", "1"], script).succeeds();
    let expected = "1 one\n3 two\n3 three\nfour\n3 three\nfour\n5 /slash\n8 five\n2 six\n3 seven\n";
    assert_eq!(finished.stdout(), expected, "{}", finished.stderr());
    let sent = sent.lock().unwrap();
    assert_eq!(sent[5]["messages"][0], json!({"role": "system", "content": "Be brief."}));
    let last = sent.last().unwrap();
    assert_eq!((&last["temperature"], &last["max_tokens"]), (&json!(0.25), &json!(7)));
    assert_ne!(sent[2]["seed"], sent[3]["seed"], "another answer is another sample");
    assert!(sent.iter().all(|asked| asked["stream"] == true));
}

#[test]
fn what_is_saved_is_loaded_and_imitated() {
    let scratch = Scratch::new();
    let (url, _sent) = echo();
    let script = "/save a.jsonl\n";
    ask(&scratch, &url, &[], script).fails_with(&["no answer yet"]);
    ask(&scratch, &url, &["--system", "s"], "one\n/save a.jsonl\ntwo\n/save a.jsonl\n").succeeds();
    let row: Value = serde_json::from_slice(&scratch.read("a.jsonl")).unwrap();
    let roles: Vec<&str> =
        row["messages"].as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user", "assistant"]);
    // A file of another conversation is not replaced.
    ask(&scratch, &url, &[], "one\n/save a.jsonl\n").fails_with(&["a.jsonl", "exists already"]);
    let finished = ask(&scratch, &url, &["--load", "a.jsonl"], "three\n/load a.jsonl\nfour\n").succeeds();
    assert_eq!(finished.stdout(), "6 three\n6 four\n");
    ask(&scratch, &url, &[], "/load absent.jsonl\n").fails_with(&["absent.jsonl"]);
    let recipe = format!(
        "[run]\ndir = \"imitated\"\n[policy]\npath = {STARTER:?}\n[env]\nid = \"chains\"\n[data]\npath = \"a.jsonl\"\n\
         [train]\nmethod = \"sft\"\nmax_steps = 1\nsequences_per_step = 1\n[eval]\ntasks = 0\n"
    );
    scratch.write("sft.toml", recipe);
    scratch.burnish(&["sft", "sft.toml"]).succeeds();
}

/// A model that calls a tool until it has a result.
fn calling(_: usize, asked: &Value) -> Reply {
    let last = asked["messages"].as_array().unwrap().last().unwrap();
    if last["role"] == "tool" {
        return said(&format!("It is {}.", last["content"].as_str().unwrap()));
    }
    let call = |id: &str, city: &str| json!({"id": id, "function": {"name": "weather", "arguments": json!({"city": city}).to_string()}});
    let message =
        json!({"role": "assistant", "content": null, "tool_calls": [call("a", "Bern"), call("b", "Basel")]});
    ("200 OK", json!({"choices": [{"message": message, "finish_reason": "tool_calls"}]}))
}

#[test]
fn calls_are_shown_and_get_their_results() {
    let scratch = Scratch::new();
    scratch.write(
        "tools.json",
        json!([{"name": "weather", "description": "The weather.", "parameters": {"type": "object"}}])
            .to_string(),
    );
    let (url, sent) = serve(calling);
    let script = "/tools\nhow is it\n/tool 20 °C\n/tool 21 °C\n/save a.jsonl\n";
    let finished = ask(&scratch, &url, &["--tools", "tools.json"], script).succeeds();
    let expected =
        "weather: The weather.\n→ weather(city=\"Bern\")\n→ weather(city=\"Basel\")\nIt is 21 °C.\n";
    assert_eq!(finished.stdout(), expected);
    let messages = sent.lock().unwrap()[1]["messages"].clone();
    assert_eq!(messages[3], json!({"role": "tool", "content": "21 °C", "tool_call_id": "b"}));
    let row: Value = serde_json::from_slice(&scratch.read("a.jsonl")).unwrap();
    assert_eq!(row["tools"][0]["function"]["name"], "weather");
    let shown = scratch.burnish(&["data", "show", "a.jsonl"]).succeeds().stdout();
    assert!(
        shown.contains("weather {\"city\":\"Bern\"}") || shown.contains("weather {\"city\": \"Bern\"}"),
        "{shown}"
    );
    ask(&scratch, &url, &[], "/tool x\n").fails_with(&["no call of a tool waits"]);
}

#[test]
fn a_model_on_disk_is_talked_with() {
    let scratch = Scratch::new();
    let options = ["--seed", "5", "--max-tokens", "12"];
    let script = "left\nright\n/retry\n";
    let first = chat(&scratch, STARTER, &options, script).succeeds();
    assert_eq!(chat(&scratch, STARTER, &options, script).succeeds().stdout(), first.stdout());
    // A script that goes wrong ends there.
    let long = "word ".repeat(3000);
    chat(&scratch, STARTER, &options, &format!("{long}\nhi\n")).fails_with(&["the prompt has"]);
    chat(&scratch, STARTER, &options, "/temprature 1\n").fails_with(&["did you mean /temperature"]);
    chat(&scratch, STARTER, &options, "/temperature -1\n").fails_with(&["--temperature must be 0 or more"]);
    chat(&scratch, STARTER, &["--top-p", "3"], "").fails_with(&["--top-p must be"]);
    chat(&scratch, "absent", &[], "").fails_with(&["absent: there is no such directory"]);
}

#[test]
fn the_next_turn_finds_the_one_before_in_the_cache_and_in_the_trace() {
    let asked = Asked {
        policy: STARTER.into(),
        endpoint: None,
        step: None,
        device: None,
        precision: None,
        threads: 1,
        batch: 1,
        is_raw: false,
        is_streaming: true,
        text_tokens: None,
    };
    let mut answerer = Answerer::open(&asked).unwrap();
    let mut chat =
        Conversation::new(None, Vec::new(), Sampling { ignore_eos: true, ..Sampling::at(1.0, 8) }, 1);
    chat.say(&"Plan a route over the ice. ".repeat(4));
    chat.answer(answerer.policy(), &|| false, &mut |_| ()).unwrap().unwrap();
    let before = chat.trace().head_ids();
    let (_, read_before) = answerer.prompt_tokens().unwrap();
    chat.say("Again.");
    chat.answer(answerer.policy(), &|| false, &mut |_| ()).unwrap().unwrap();
    assert_eq!(chat.trace().head_ids()[..before.len()], before);
    let (all, read) = answerer.prompt_tokens().unwrap();
    let second = all - read_before;
    assert!(read - read_before < second / 2, "{} of {second} tokens were read again", read - read_before);
}

/// Types into a program in a terminal: the first argument is a list of what to wait for and what to type then.
const IN_TERMINAL: &str = r#"
import json, os, pty, select, sys, time
steps = json.loads(sys.argv[1])
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[2], sys.argv[2:])
shown, at = "", 0
deadline = time.time() + 60
while time.time() < deadline:
    if steps and steps[0][0] in shown[at:]:
        at += shown[at:].index(steps[0][0]) + len(steps[0][0])
        time.sleep(0.3)
        os.write(terminal, steps.pop(0)[1].encode())
    if not select.select([terminal], [], [], 0.1)[0]:
        continue
    try:
        some = os.read(terminal, 65536)
    except OSError:
        break
    if not some:
        break
    shown += some.decode("utf-8", "replace")
sys.stdout.write(shown)
sys.stdout.flush()
if steps:
    sys.exit("not reached: %r" % steps)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

/// What a terminal shows while `steps` are typed; `None` where there is no Python to open one.
fn in_terminal(
    scratch: &Scratch,
    colours: bool,
    steps: &[(&str, &str)],
    arguments: &[&str],
) -> Option<String> {
    if Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: there is no python3");
        return None;
    }
    let mut command = Command::new("python3");
    command.args(["-c", IN_TERMINAL, &json!(steps).to_string(), env!("CARGO_BIN_EXE_burnish")]);
    command.args(arguments).current_dir(scratch.path(".")).env("TERM", "xterm").env_remove("CARGO");
    if colours {
        command.env_remove("NO_COLOR").env_remove("CLICOLOR");
    } else {
        command.env("NO_COLOR", "1");
    }
    let output = command.output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}\n{shown}", String::from_utf8_lossy(&output.stderr));
    Some(shown)
}

#[test]
fn a_person_types_edits_and_looks_back() {
    let scratch = Scratch::new();
    let (url, sent) = echo();
    let steps = [
        ("Ctrl-D ends", "hellp\u{7f}o\r"),
        // The line before, from the history, with more behind it.
        ("1 hello", "\u{1b}[A two\r"),
        // A paste of two lines is one message.
        ("3 hello two", "\u{1b}[200~three\nfour\u{1b}[201~\r"),
        ("5 three", "\x03"),
        ("Ctrl-D or /quit ends", "/te\t\r"),
        ("temperature 1", "\x04"),
    ];
    let arguments = ["chat", &*url, "--model", "m"];
    let Some(shown) = in_terminal(&scratch, true, &steps, &arguments) else { return };
    assert!(!shown.contains("panicked"), "{shown}");
    let sent = sent.lock().unwrap();
    let last = |asked: &Value| asked["messages"].as_array().unwrap().last().unwrap()["content"].clone();
    assert_eq!(sent.iter().map(last).collect::<Vec<_>>(), ["hello", "hello two", "three\nfour"]);
}

#[test]
fn thoughts_are_dimmed_where_colours_are_wanted() {
    let scratch = Scratch::new();
    let (url, _sent) = serve_text(|_, _| {
        let (one, two) = ("<think>\nhm \u{1b}[2J</th", "ink>\nyes");
        let pieces = [one, two].map(|text| piece(json!({"content": text}), None));
        events(&[&pieces[0], &pieces[1], "[DONE]"])
    });
    let arguments = ["chat", &*url, "--model", "m"];
    let steps = [("Ctrl-D ends", "hi\r"), ("yes", "/quit\r")];
    let Some(shown) = in_terminal(&scratch, true, &steps, &arguments) else { return };
    assert!(shown.contains("\u{1b}[2m<think>") && shown.contains("hm ␛[2J"), "{shown:?}");
    assert!(shown.contains("</think>\u{1b}[22m"), "{shown:?}");
    let shown = in_terminal(&scratch, false, &steps, &arguments).unwrap();
    assert!(!shown.contains("\u{1b}[2m") && shown.contains("<think>"), "{shown:?}");
}

/// A server whose every answer begins and does not end.
fn endless() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let response = events(&[&piece(json!({"content": "so far"}), None)]);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, response, mut bytes) = (stream.unwrap(), response.clone(), [0; 4096]);
            std::thread::spawn(move || {
                let _ = stream.read(&mut bytes).unwrap();
                stream.write_all(response.as_bytes()).unwrap();
                // Until the other side hangs up.
                while stream.read(&mut bytes).is_ok_and(|length| length > 0) {}
            });
        }
    });
    url
}

#[test]
fn ctrl_c_stops_an_answer_and_not_the_program() {
    let scratch = Scratch::new();
    let url = endless();
    let steps = [
        ("Ctrl-D ends", "hi\r"),
        ("so far", "\x03"),
        ("[stopped]", "/save a.jsonl\r"),
        ("saved in", "more\r"),
        ("so far", "\x03"),
        ("[stopped]", "\x04"),
    ];
    let arguments = ["chat", &*url, "--model", "m"];
    if in_terminal(&scratch, true, &steps, &arguments).is_none() {
        return;
    }
    let row: Value = serde_json::from_slice(&scratch.read("a.jsonl")).unwrap();
    assert_eq!(row["messages"][1], json!({"role": "assistant", "content": "so far"}));
}
