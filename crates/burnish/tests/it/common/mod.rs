//! A scratch directory with a tiny policy, and the program to run in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// The table of a new policy, 32 wide, for recipes of tests that teach it something in seconds.
pub(crate) fn new_policy(vocab_size: usize, layers: usize) -> String {
    format!(
        "[policy.new]\narchitecture = \"qwen3\"\nvocab_size = {vocab_size}\nhidden_size = 32\nintermediate_size = 64\n\
         num_hidden_layers = {layers}\nnum_attention_heads = 2\nnum_key_value_heads = 2\nhead_dim = 16\n\
         max_position_embeddings = 256\nrope_theta = 10000.0\ntie_word_embeddings = true\ndtype = \"f32\"\n"
    )
}

/// A recipe that makes a tiny policy (2 layers, 64 wide) in a few seconds of imitation.
pub(crate) const TINY_SFT: &str = r#"
[run]
dir = "tiny"
seed = 3
threads = 2

[policy.new]
architecture = "qwen3"
vocab_size = 320
hidden_size = 64
intermediate_size = 128
num_hidden_layers = 2
num_attention_heads = 4
num_key_value_heads = 2
head_dim = 16
max_position_embeddings = 256
rope_theta = 10000.0
tie_word_embeddings = true
dtype = "bf16"

[env]
id = "mapf-frozenlake"

[env.config]
agents = 2

[env.config.sizes]
2 = { share = 1.0, hole_ratio = 0.0, wait_ratio = 0.0 }

[[data.demonstrations]]
env = "mapf-frozenlake"
tasks = 200

[data.demonstrations.config]
agents = 2

[data.demonstrations.config.sizes]
2 = { share = 1.0, hole_ratio = 0.0, wait_ratio = 0.0 }

[train]
method = "sft"
max_steps = 120
sequences_per_step = 32

[rollout]
tokens_max = 48

[optimizer]
learning_rate = 4e-3
warmup_updates = 10
schedule = "linear"

[eval]
tasks = 8

[checkpoint]
every = 40
keep = 9
"#;

/// A recipe that teaches a tiny policy to think of short chains in latent steps.
pub(crate) const LATENT_SFT: &str = r#"
[run]
dir = "starter"
seed = 1

[policy.new]
architecture = "qwen3"
vocab_size = 300
hidden_size = 32
intermediate_size = 64
num_hidden_layers = 2
num_attention_heads = 2
num_key_value_heads = 2
head_dim = 16
max_position_embeddings = 256
rope_theta = 10000.0
tie_word_embeddings = true
dtype = "f32"

[latent]
unit = '\d+[-+*/]\d+=\d+\n'
units_max = 2

[env]
id = "chains"

[env.config]
steps = { min = 2, max = 2 }
values = { min = 1, max = 3 }
results = { min = 0, max = 5 }
operations = ["add", "subtract"]

[[data.demonstrations]]
env = "chains"
tasks = 2000

[data.demonstrations.config]
steps = { min = 2, max = 2 }
values = { min = 1, max = 3 }
results = { min = 0, max = 5 }
operations = ["add", "subtract"]
demonstration_errors = 0.2

[train]
method = "sft"
max_steps = 300
sequences_per_step = 16

[rollout]
tokens_max = 24

[optimizer]
learning_rate = 5e-3

[eval]
every = 0
tasks = 40

[checkpoint]
every = 150
keep = 9
"#;

/// A recipe by which it goes on to learn from its own answers.
pub(crate) const LATENT_GRPO: &str = r#"
[run]
dir = "grpo"
seed = 1

[policy]
path = "starter"

[latent]
units_max = 2
steps_min = 1
rewards = true

[env]
id = "chains"
tasks = 200

[env.config]
steps = { min = 2, max = 2 }
values = { min = 1, max = 3 }
results = { min = 0, max = 5 }
operations = ["add", "subtract"]

[train]
method = "grpo"
max_steps = 4

[reward.weights]
latent_format = 0.2
latent_use = 0.2

[rollout]
tasks_per_step = 4
group_size = 4
tokens_max = 24

[optimizer]
learning_rate = 1e-3
schedule = "constant"

[eval]
tasks = 20

[checkpoint]
every = 2
keep = 9
"#;

/// A recipe that trains the tiny policy by GRPO.
pub(crate) const TINY_GRPO: &str = r#"
[run]
dir = "grpo"
seed = 5
threads = 2

[policy]
path = "tiny/checkpoints/step_120"

[env]
id = "mapf-frozenlake"
tasks = 40

[env.config]
agents = 2
reward = { invalid = 0.0, valid = 0.5, optimal = 1.0 }

[env.config.sizes]
2 = { share = 1.0, hole_ratio = 0.0, wait_ratio = 0.0 }

[train]
method = "grpo"
max_steps = 6
epochs = 2
minibatches = 2

[rollout]
tasks_per_step = 4
group_size = 4
tokens_max = 48

[loss]
beta = 0.01

[optimizer]
learning_rate = 1e-3
warmup_updates = 2
schedule = "cosine"

[eval]
tasks = 8
every = 3

[checkpoint]
every = 2
keep = 9
"#;

/// An environment in which a plan can put words into the policy's mouth, and a teacher can be told something.
pub(crate) const CHAINS: &str = "env={id=\"chains\", tasks=40, config={steps={min=2,max=2}}}";

/// A scratch directory.
pub(crate) struct Scratch {
    dir: tempfile::TempDir,
}

impl Scratch {
    /// An empty scratch directory.
    pub(crate) fn new() -> Self {
        Scratch { dir: tempfile::tempdir().unwrap() }
    }

    /// A scratch directory with the tiny policy in `tiny/`, and the recipes `sft.toml` and `grpo.toml`.
    pub(crate) fn with_policy() -> Self {
        Scratch::with_taught(&[])
    }

    /// A scratch directory with what `sft sft.toml` makes with these settings in `tiny/`, and the recipes `sft.toml` and
    /// `grpo.toml`. It is made once for all tests of this program, and copied.
    pub(crate) fn with_taught(settings: &[&str]) -> Self {
        type Made = Arc<OnceLock<(PathBuf, Files)>>;
        static ALL: Mutex<BTreeMap<String, Made>> = Mutex::new(BTreeMap::new());
        let scratch = Scratch::new();
        scratch.write("sft.toml", TINY_SFT);
        scratch.write("grpo.toml", TINY_GRPO);
        let made = Arc::clone(ALL.lock().unwrap().entry(settings.join(" ")).or_default());
        let (place, files) = made.get_or_init(|| {
            let first = Scratch::new();
            first.write("sft.toml", TINY_SFT);
            first.burnish(&[&["sft", "sft.toml"], settings].concat()).succeeds();
            (first.path(""), Files::of(&first.path("tiny")))
        });
        files.write(&scratch.path("tiny"));
        // The run says where it was begun.
        let at = |path: &Path| path.to_str().unwrap().trim_end_matches('/').to_owned();
        let record = String::from_utf8(scratch.read("tiny/run.json")).unwrap();
        scratch.write("tiny/run.json", record.replace(&at(place), &at(&scratch.path(""))));
        scratch
    }

    /// A scratch directory with a tiny policy that has seen [`CHAINS`], in `tiny/checkpoints/step_40`, and the same
    /// recipes.
    pub(crate) fn with_policy_of_chains() -> Self {
        let demonstrations =
            "data.demonstrations=[{env=\"chains\", tasks=300, config={steps={min=2,max=2}}}]";
        // Long enough for the prompts of other environments.
        let longer = "policy.new.max_position_embeddings=1024";
        let shorter = ["train.max_steps=40", "checkpoint.every=0", "eval.tasks=0"];
        Scratch::with_taught(&[&[CHAINS, demonstrations, longer][..], &shorter].concat())
    }

    /// As [`Scratch::with_policy`], with a policy of three layers of the delta rule and one of attention: Qwen3.5, or a
    /// rule of the family.
    pub(crate) fn with_hybrid(rule: Option<&str>) -> Self {
        let (architecture, value_heads, own) = match rule {
            None => ("qwen3_5", 4, String::new()),
            Some(rule) => ("hybrid", 2, format!(", linear_rule=\"{rule}\"")),
        };
        let architecture = format!("policy.new.architecture={architecture}");
        let sizes = format!(
            "policy.new.delta_rule={{linear_num_key_heads=2, linear_num_value_heads={value_heads}, \
             linear_key_head_dim=8, linear_value_head_dim=12, linear_conv_kernel_dim=4{own}}}"
        );
        let small = ["policy.new.num_hidden_layers=4", "train.sequences_per_step=8"];
        Scratch::with_taught(&[&[&architecture[..], &sizes][..], &small].concat())
    }

    /// Teaches `policy` to answer `word` to every question, and puts it in `judge/checkpoints/step_60`.
    pub(crate) fn judge_that_says(&self, word: &str, policy: &str, question: impl Fn(usize) -> String) {
        let row = |at| format!("{{\"question\": {:?}, \"reply\": \"{word}\"}}\n", question(at));
        self.write("ratings.jsonl", (0..64).map(row).collect::<String>());
        let recipe = format!(
            "[run]\ndir = \"judge\"\nthreads = 2\n[policy]\npath = \"{policy}\"\n[env]\nid = \"chains\"\n\
             [data]\npath = \"ratings.jsonl\"\ncolumns = {{ prompt = \"question\", completion = \"reply\" }}\n\
             [train]\nmethod = \"sft\"\nmax_steps = 60\nsequences_per_step = 16\n[optimizer]\nlearning_rate = 4e-3\n\
             [rollout]\ntokens_max = 4\n[eval]\ntasks = 0\n"
        );
        self.write("judge.toml", recipe);
        self.burnish(&["sft", "judge.toml"]).succeeds();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// The program, to run in this directory.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_burnish"));
        command.args(arguments).current_dir(self.dir.path()).stdin(Stdio::null());
        // As if called by a person, not by this test's cargo.
        command.env_remove("CARGO");
        command
    }

    pub(crate) fn burnish(&self, arguments: &[&str]) -> Finished {
        let output = self.command(arguments).output().unwrap();
        Finished { what: arguments.join(" "), output }
    }
}

/// The files in a folder and in those in it, by their paths in it.
pub(crate) struct Files(BTreeMap<PathBuf, Vec<u8>>);

impl Files {
    pub(crate) fn of(folder: &Path) -> Self {
        let mut files = BTreeMap::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(next) = folders.pop() {
            for entry in std::fs::read_dir(next).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let bytes = std::fs::read(&path).unwrap();
                    files.insert(path.strip_prefix(folder).unwrap().to_owned(), bytes);
                }
            }
        }
        Files(files)
    }

    pub(crate) fn write(&self, folder: &Path) {
        for (path, bytes) in &self.0 {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
    }
}

/// A program that has ended.
pub(crate) struct Finished {
    what: String,
    output: Output,
}

impl Finished {
    pub(crate) fn of(arguments: &[&str], output: Output) -> Self {
        Finished { what: arguments.join(" "), output }
    }

    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    #[track_caller]
    pub(crate) fn succeeds(self) -> Self {
        let (out, err) = (self.stdout(), self.stderr());
        assert!(self.output.status.success(), "burnish {}: {}\n{out}\n{err}", self.what, self.output.status);
        self
    }

    /// Expects status 1 and an error that contains all of `parts`, without a panic.
    #[track_caller]
    pub(crate) fn fails_with(self, parts: &[&str]) -> Self {
        let error = self.stderr();
        assert_eq!(self.output.status.code(), Some(1), "burnish {}: {error}{}", self.what, self.stdout());
        assert!(!error.contains("panicked"), "burnish {}: {error}", self.what);
        for part in parts {
            assert!(error.contains(part), "burnish {}: `{part}` is not in: {error}", self.what);
        }
        self
    }
}

/// Waits until `holds` returns true, for at most two minutes.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(120), "waited too long until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Asks a program to stop, as Ctrl-C does.
#[cfg(unix)]
pub(crate) fn interrupt(program: &std::process::Child) {
    signal(program, rustix::process::Signal::INT);
}

#[cfg(unix)]
pub(crate) fn signal(program: &std::process::Child, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_child(program), signal).unwrap();
}

/// The lines of a metrics file, except for what depends on the clock.
pub(crate) fn timeless_metrics(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| {
            let mut row: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).unwrap();
            row.retain(|name, _| !name.contains("time"));
            serde_json::to_string(&row).unwrap()
        })
        .collect()
}

/// A number in an event file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scalar {
    pub(crate) step: u64,
    pub(crate) tag: String,
    pub(crate) value: f32,
}

/// The scalars of the event files in `dir`, file by file; checksums are not checked.
pub(crate) fn scalars(dir: &Path) -> Vec<Scalar> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut scalars = Vec::new();
    for path in paths {
        let bytes = std::fs::read(path).unwrap();
        let mut at = 0;
        while at < bytes.len() {
            let length = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
            let event = fields(&bytes[at + 12..at + 12 + length]);
            at += length + 16;
            let step = event.iter().find(|field| field.0 == 2).map_or(0, |field| field.1);
            for (_, _, summary) in event.iter().filter(|field| field.0 == 5) {
                for (_, _, value) in fields(summary) {
                    let value = fields(value);
                    let tag = String::from_utf8(value[0].2.to_vec()).unwrap();
                    scalars.push(Scalar { step, tag, value: f32::from_bits(value[1].1 as u32) });
                }
            }
        }
    }
    scalars
}

/// The fields of a protocol buffer message: number, value (if it is a number), bytes (if it has any).
fn fields(mut message: &[u8]) -> Vec<(u64, u64, &[u8])> {
    fn take<'a>(message: &mut &'a [u8], count: usize) -> &'a [u8] {
        let (taken, rest) = message.split_at(count);
        *message = rest;
        taken
    }
    fn varint(message: &mut &[u8]) -> u64 {
        let size = message.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
        take(message, size).iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f))
    }
    let mut fields = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message);
        let field = match key & 7 {
            0 => (varint(&mut message), &[][..]),
            1 => (u64::from_le_bytes(take(&mut message, 8).try_into().unwrap()), &[][..]),
            2 => {
                let size = varint(&mut message) as usize;
                (0, take(&mut message, size))
            }
            5 => (u64::from(u32::from_le_bytes(take(&mut message, 4).try_into().unwrap())), &[][..]),
            other => panic!("wire type {other}"),
        };
        fields.push((key >> 3, field.0, field.1));
    }
    fields
}

/// [`scalars`] without what depends on the clock, in a form in which NaN equals itself.
pub(crate) fn timeless_scalars(dir: &Path) -> Vec<(u64, String, u32)> {
    let all = scalars(dir).into_iter().filter(|scalar| !scalar.tag.contains("time"));
    all.map(|scalar| (scalar.step, scalar.tag, scalar.value.to_bits())).collect()
}

/// Turns a checkpoint into one from before checkpoints had digests: the trainer's files are beside the weights, and
/// only sizes are recorded.
pub(crate) fn as_before(checkpoint: &Path) {
    let record = std::fs::read(checkpoint.join("trainer/trainer.json")).unwrap();
    let mut record: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(&record).unwrap();
    record["format"] = 1.into();
    record.remove("digest");
    let files = record["files"].as_object().unwrap().iter();
    let sizes = files.map(|(name, stamp)| (name.replace("trainer/", ""), stamp["bytes"].clone()));
    record["files"] = sizes.collect();
    let own = checkpoint.join("trainer");
    std::fs::rename(own.join("trainer.safetensors"), checkpoint.join("trainer.safetensors")).unwrap();
    std::fs::write(checkpoint.join("trainer.json"), serde_json::to_vec(&record).unwrap()).unwrap();
    std::fs::remove_dir_all(own).unwrap();
}
