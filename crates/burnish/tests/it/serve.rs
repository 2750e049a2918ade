//! `burnish serve`: the policy of a directory, asked by our own client and by OpenAI's.

#![cfg(unix)]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::common::Scratch;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const STARTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/starter");

const RECIPE: &str = r#"
[run]
dir = "never"
threads = 1

[policy]
path = "MODEL"

[env]
id = "chains"
tasks = 40

[train]
method = "none"

[rollout]
tokens_max = 24

[eval]
tasks = 6
"#;

/// A server of the starter model.
struct Serving {
    child: Child,
    output: BufReader<ChildStdout>,
    url: String,
}

impl Serving {
    fn start(scratch: &Scratch, policy: &str, arguments: &[&str]) -> Self {
        Serving::start_with(scratch, policy, arguments, ("UNUSED", ""))
    }

    fn start_with(
        scratch: &Scratch,
        policy: &str,
        arguments: &[&str],
        (variable, value): (&str, &str),
    ) -> Self {
        let address = ["serve", policy, "--address", "127.0.0.1:0", "--threads", "1"];
        let mut command = scratch.command(&[&address, arguments].concat());
        command.env(variable, value);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let url = line.trim().rsplit(' ').next().unwrap().to_owned();
        assert!(url.starts_with("http://127.0.0.1:") && url.ends_with("/v1"), "{line}");
        output.read_line(&mut line).unwrap();
        Serving { child, output, url }
    }

    /// Ends it by Ctrl-C, and returns what it printed.
    fn stop(mut self) -> String {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success());
        rest
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The answers of an evaluation, in the order of its items.
fn answers(scratch: &Scratch, policy: &[&str], out: &str) -> Vec<Value> {
    let evaluation = ["eval", "recipe.toml", "--out", out];
    scratch.burnish(&[&evaluation, policy].concat()).succeeds();
    let text = String::from_utf8(scratch.read(&format!("{out}/items.jsonl"))).unwrap();
    text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect()
}

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("recipe.toml", RECIPE.replace("MODEL", STARTER));
    scratch
}

#[test]
fn a_served_policy_gives_greedily_the_answers_that_it_gives_here() {
    let scratch = scratch();
    // A recipe whose run does not exist yet serves the policy that it starts from.
    let serving = Serving::start(&scratch, "recipe.toml", &["--name", "tested"]);
    let there =
        answers(&scratch, &["--policy", &serving.url, "--model", "tested", "eval.temperature=0"], "there");
    let here = answers(&scratch, &["--policy", STARTER, "eval.temperature=0"], "here");
    assert_eq!((here.len(), there.len()), (6, 6));
    let said =
        |items: &[Value]| items.iter().map(|item| item["samples"][0]["answers"].clone()).collect::<Vec<_>>();
    assert_eq!(said(&here), said(&there));
    assert!(
        here.iter().any(|item| item["samples"][0]["answers"][0]["content"].as_str().unwrap().len() > 8),
        "{here:?}"
    );
    scratch
        .burnish(&["generate", &serving.url, "--model", "other", "hi"])
        .fails_with(&["there is no model `other` here: ask `tested`"]);
    assert!(serving.stop().contains("6 requests answered, 0 refused, 0 given up"));
}

/// What OpenAI's own client gets; each line names what it is about.
const CLIENT: &str = r#"
import json, sys, openai
client = openai.OpenAI(base_url=sys.argv[1], api_key="secret")
asked = dict(model="starter", messages=[{"role": "user", "content": "left or right"}], max_tokens=20)
say = lambda name, value: print(json.dumps([name, value]))
say("models", [model.id for model in client.models.list()])
plain = client.chat.completions.create(**asked, temperature=0)
say("greedy", plain.choices[0].message.content)
say("finish", plain.choices[0].finish_reason)
both = client.chat.completions.create(**asked, n=2, seed=3, logprobs=True, top_logprobs=2, stop=["zzz"],
                                      extra_body={"return_token_ids": True, "top_k": -1})
again = client.chat.completions.create(**asked, n=2, seed=3, user="x")
say("again", [choice.message.content for choice in both.choices] == [choice.message.content for choice in again.choices])
first = both.choices[0]
say("ids", len(first.token_ids) == len(first.logprobs.content) and len(both.prompt_token_ids) == both.usage.prompt_tokens)
say("top", all(len(place.top_logprobs) == 2 and place.top_logprobs[0].logprob >= place.logprob - 1e-6
               for place in first.logprobs.content))
say("text", "".join(place.token for place in first.logprobs.content).startswith(first.message.content))
pieces = list(client.chat.completions.create(**asked, temperature=0, stream=True))
say("stream", "".join(piece.choices[0].delta.content or "" for piece in pieces))
for name, more in [("reasoning_effort", {"reasoning_effort": "low"}), ("temperature", {"temperature": -1})]:
    try:
        client.chat.completions.create(**asked, **more)
    except openai.BadRequestError as error:
        say("refused", [error.param, error.body["message"]])
try:
    openai.OpenAI(base_url=sys.argv[1], api_key="wrong", max_retries=0).models.list()
except openai.AuthenticationError as error:
    say("key", error.code)
"#;

#[test]
fn openais_own_client_is_answered_and_refused() {
    let python = std::env::var("BURNISH_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let import = Command::new(&python).args(["-c", "import openai"]).output();
    if !import.is_ok_and(|output| output.status.success()) {
        println!("skipped: {python} has no openai; BURNISH_PYTHON can name one that has");
        return;
    }
    let scratch = scratch();
    let serving =
        Serving::start_with(&scratch, STARTER, &["--key-env", "SERVED_KEY"], ("SERVED_KEY", "secret"));
    let output = Command::new(&python).args(["-c", CLIENT, &serving.url]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let said: Vec<(String, Value)> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| -> Vec<&Value> {
        said.iter().filter(|(said, _)| said == name).map(|(_, it)| it).collect()
    };
    let generated =
        ["generate", STARTER, "left or right", "--max-tokens", "20", "--temperature", "0", "--json"];
    let here: Value = serde_json::from_str(&scratch.burnish(&generated).succeeds().stdout()).unwrap();
    assert_eq!(of("greedy"), [&here["completion"][0]["content"]]);
    assert_eq!(of("stream"), of("greedy"));
    assert_eq!(of("finish"), [&here["finish_reason"]]);
    assert_eq!(of("models"), [&serde_json::json!(["starter"])]);
    for name in ["again", "ids", "top", "text"] {
        assert_eq!(of(name), [&Value::Bool(true)], "{name}");
    }
    let refused = of("refused");
    assert_eq!((&refused[0][0], &refused[1][0]), (&"reasoning_effort".into(), &"temperature".into()));
    assert!(refused[1][1].as_str().unwrap().contains("0 or more"));
    assert_eq!(of("key"), [&Value::from("invalid_api_key")]);
}
