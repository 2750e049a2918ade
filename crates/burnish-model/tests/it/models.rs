//! Golden models: the results of transformers, recomputed here; read, written and read again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use burnish_core::{Message, ToolSpec};
use burnish_model::{
    Architecture, Chat, ChatTemplate, DeltaRuleConfig, Dtype, LayerKind, Mix, Model, ModelConfig, ModelShape,
    Packed, Tokenizer, load_policy,
};
use burnish_tensor::{
    ConvWeight, DeltaInputs, DeltaRows, DeltaShape, HeadShape, KV_ROWS, KvBlock, KvBlockMut, Layout, Param,
    Tape, Var, Visibility, cached_attention, delta_step, short_conv_step,
};
use serde::Deserialize;
use serde_json::{Value, json};

/// Each made by `golden/make_models.py`.
const GOLDEN: [&str; 8] =
    ["llama", "qwen2", "qwen3", "llama-bias-bf16", "qwen2-linear-rope", SHARDED, "qwen3_5", NESTED];

/// Its weights are in three files.
const SHARDED: &str = "llama3-rope-sharded-f16";

/// The text model of one that also sees.
const NESTED: &str = "qwen3_5-nested-bf16";

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

#[derive(Deserialize)]
struct Expected {
    prompts: Vec<Vec<u32>>,
    logits: Vec<Vec<f32>>,
    /// Of each parameter the norm and the first elements.
    #[serde(default)]
    gradients: BTreeMap<String, Vec<f32>>,
}

fn expected(name: &str) -> Expected {
    let text = std::fs::read_to_string(golden(name).join("expected.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// What transformers makes of one that reads in both directions; made by `golden/make_masked.py`.
const MASKED: &str = "qwen3-masked";

/// Logits at every position of every prompt, from one packed forward pass.
fn logits(model: &Model, prompts: &[Vec<u32>]) -> Vec<f32> {
    let lens: Vec<usize> = prompts.iter().map(Vec::len).collect();
    let ids = prompts.concat();
    let positions: Arc<[u32]> = lens.iter().flat_map(|&len| 0..len as u32).collect();
    let layout = Arc::new(Layout::roots(&lens, model.visibility()));
    let mut mixer = Packed { layout, shape: model.head_shape() };
    let mut tape = Tape::inference(&model.params);
    let hidden = model.forward(&mut tape, &ids, &positions, &mut mixer);
    assert_eq!((hidden.rows(), hidden.cols()), (ids.len(), model.config.hidden_size));
    model.logits(&mut tape, &hidden).data().to_vec()
}

fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn logits_agree_with_transformers() {
    for name in GOLDEN.into_iter().chain([MASKED]) {
        let expected = expected(name);
        let model = Model::load(&golden(name)).unwrap();
        let found = logits(&model, &expected.prompts);
        let difference = largest_difference(&found, &expected.logits.concat());
        println!("{name}: largest difference of a logit {difference:.1e}");
        assert!(difference < 1e-4, "{name}: {difference}");
    }
}

#[test]
fn gradients_of_a_hybrid_agree_with_transformers() {
    let expected = expected("qwen3_5");
    let model = Model::load(&golden("qwen3_5")).unwrap();
    let ids = expected.prompts.last().unwrap();
    let positions: Arc<[u32]> = (0..ids.len() as u32).collect();
    let mut mixer = Packed { layout: Arc::new(Layout::causal(&[ids.len()])), shape: model.head_shape() };
    let mut tape = Tape::recording(&model.params);
    let hidden = model.forward(&mut tape, ids, &positions, &mut mixer);
    let hidden = tape.gather(&hidden, &positions[..ids.len() - 1]);
    let ones = vec![1.0; hidden.rows()];
    let scores = tape.token_scores(&hidden, model.head(), &ids[1..], &ones, model.vocab());
    let mut gradients = model.params.zeros_like();
    tape.backward(&scores, &ones, &[], &mut gradients[..]);
    assert_eq!(expected.gradients.len(), model.params.entries().len());
    for entry in model.params.entries() {
        let own = &gradients[entry.param.range()];
        let theirs = &expected.gradients[&*entry.name];
        let norm = own.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt() as f32;
        assert!((norm - theirs[0]).abs() < 2e-4 * theirs[0], "{}: {norm} {}", entry.name, theirs[0]);
        for (own, theirs_here) in own.iter().zip(&theirs[1..]) {
            assert!((own - theirs_here).abs() < 1e-3 * theirs[0], "{}: {own} {theirs_here}", entry.name);
        }
    }
}

/// Keys, values, and the number of rows present.
type Block = (Vec<f32>, Vec<f32>, usize);

/// What one sequence has read, one token at a time.
struct Cache {
    shape: HeadShape,
    layers: Vec<Vec<Block>>,
    /// The last inputs of each convolution, and the matrices of each delta rule.
    states: Vec<(Vec<f32>, Vec<f32>)>,
}

impl Cache {
    fn of(model: &Model) -> Self {
        let layers = vec![Vec::new(); model.config.layers_of(LayerKind::Attention)];
        let state = model.config.delta_rule.map(|delta| {
            let inputs = (delta.conv_kernel - 1) * delta.conv_columns();
            (vec![0.0; inputs], vec![0.0; delta.shape().state_len()])
        });
        let states = vec![state.unwrap_or_default(); model.config.layers_of(LayerKind::DeltaRule)];
        Cache { shape: model.head_shape(), layers, states }
    }
}

impl Mix for Cache {
    fn attend(&mut self, tape: &mut Tape<'_>, layer: usize, q: Var, k: Var, v: Var) -> Var {
        let blocks = &mut self.layers[layer];
        let room = vec![0.0; KV_ROWS * k.cols()];
        match blocks.last_mut() {
            Some(block) if block.2 < KV_ROWS => {}
            _ => blocks.push((room.clone(), room, 0)),
        }
        if let Some((keys, values, rows)) = blocks.last_mut() {
            KvBlockMut { k: keys, v: values }.write(*rows, self.shape.head_dim, k.data(), v.data());
            *rows += 1;
        }
        let cache = blocks.iter().map(|(k, v, rows)| KvBlock { k, v, rows: *rows }).collect();
        let mut out = vec![0.0; q.cols()];
        cached_attention(q.data(), self.shape, &[cache], &mut out, tape.workers());
        tape.external(1, q.cols(), out)
    }

    fn convolve(&mut self, tape: &mut Tape<'_>, layer: usize, x: &Var, weight: Param) -> Var {
        let mut out = vec![0.0; x.cols()];
        let weight = ConvWeight::of(tape.params(), weight);
        short_conv_step(x.data(), weight, &mut [&mut self.states[layer].0], &mut out);
        tape.external(1, x.cols(), out)
    }

    fn recur(
        &mut self,
        tape: &mut Tape<'_>,
        layer: usize,
        inputs: DeltaInputs<'_>,
        shape: DeltaShape,
    ) -> Var {
        let DeltaInputs { q, k, v, log_decay, beta } = inputs;
        let [q, k, values, log_decay, beta] = [q, k, v, log_decay, beta].map(Var::data);
        let rows = DeltaRows { q, k, v: values, log_decay, beta };
        let mut out = vec![0.0; v.cols()];
        delta_step(rows, shape, &mut [&mut self.states[layer].1], &mut out, tape.workers());
        tape.external(1, v.cols(), out)
    }
}

#[test]
fn logits_token_by_token_agree_with_transformers() {
    for name in GOLDEN {
        let expected = expected(name);
        let model = Model::load(&golden(name)).unwrap();
        for (prompt, expected) in expected.prompts.iter().zip(&expected.logits) {
            let mut cache = Cache::of(&model);
            let mut found = Vec::new();
            for (position, &id) in (0..).zip(prompt) {
                let mut tape = Tape::inference(&model.params);
                let hidden = model.forward(&mut tape, &[id], &Arc::from([position]), &mut cache);
                found.extend(model.logits(&mut tape, &hidden).data().to_vec());
            }
            let difference = largest_difference(&found, expected);
            assert!(difference < 1e-4, "{name}: {difference}");
        }
    }
}

#[test]
fn a_token_that_was_copied_is_read_and_predicted_as_the_other() {
    for name in ["qwen3", "llama"] {
        let dir = golden(name);
        let mut model = Model::load(&dir).unwrap();
        let (from, to) = (3, 7);
        let vocab = model.vocab().len();
        let before = logits(&model, &[vec![1, 2, from]]);
        assert_ne!(before, logits(&model, &[vec![1, 2, to]]));
        model.copy_token(from, to);
        let after = logits(&model, &[vec![1, 2, from]]);
        assert_eq!(after, logits(&model, &[vec![1, 2, to]]), "{name}");
        let last = &after[after.len() - vocab..];
        assert_eq!(last[3], last[7], "{name}");
        let others = |logits: &[f32]| {
            let last = logits[logits.len() - vocab..].iter().enumerate();
            last.filter(|(id, _)| *id != 7).map(|(_, x)| *x).collect::<Vec<f32>>()
        };
        assert_eq!(others(&before), others(&after), "{name}: nothing else changes");
    }
}

#[test]
fn saving_what_was_loaded_gives_the_same_bytes() {
    for name in GOLDEN {
        let dir = tempfile::tempdir().unwrap();
        Model::load(&golden(name)).unwrap().save(dir.path()).unwrap();
        let read = |dir: &Path, file: &str| std::fs::read(dir.join(file)).unwrap();
        let (weights, config) = ("model.safetensors", "config.json");
        if name != SHARDED {
            assert_eq!(read(dir.path(), weights), read(&golden(name), weights), "{name}");
        }
        let json = |bytes: Vec<u8>| serde_json::from_slice::<Value>(&bytes).unwrap();
        let mut saved = json(read(dir.path(), config));
        let given = json(read(&golden(name), config));
        // Readers of the hub's dialect look for these two at the top level; nothing else is added.
        let is_flat = given.get("text_config").is_none();
        let added =
            ["rope_theta", "rope_scaling"].into_iter().filter(|key| is_flat && given.get(key).is_none());
        added.for_each(|key| drop(saved.as_object_mut().unwrap().remove(key)));
        assert_eq!(saved, given, "{name}");
    }
}

#[test]
fn weights_of_several_files_are_saved_as_one() {
    let dir = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(golden(SHARDED)).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
    }
    let (index, single) =
        (dir.path().join("model.safetensors.index.json"), dir.path().join("model.safetensors"));
    let model = Model::load(dir.path()).unwrap();
    assert!(index.exists() && !single.exists());
    model.save(dir.path()).unwrap();
    assert!(!index.exists(), "a stale index beside the new weights");
    // f16, as it was read, so nothing is rounded.
    assert_eq!(std::fs::metadata(&single).unwrap().len() / 1024, 40);
    assert_eq!(Model::load(dir.path()).unwrap().params.data(), model.params.data());
}

#[test]
fn a_model_that_reads_in_both_directions_has_a_mask_that_it_never_gives() {
    let model = Model::load(&golden(MASKED)).unwrap();
    assert_eq!((model.config.mask_token_id, model.visibility()), (Some(66), Visibility::Bidirectional));
    assert!(model.vocab().contains(65) && !model.vocab().contains(66));
    let mut saved = Model::load(&golden(MASKED)).unwrap();
    saved.restrict_vocab(|id| id > 3);
    assert!(!saved.vocab().contains(3) && !saved.vocab().contains(66));
    let dir = tempfile::tempdir().unwrap();
    model.save(dir.path()).unwrap();
    assert_eq!(ModelConfig::load(dir.path()).unwrap().mask_token_id, Some(66));
    assert!(model.to_value_model().unwrap_err().to_string().contains("both directions"));

    let causal = ModelConfig::new(&small(Architecture::Qwen3, Dtype::F32)).unwrap();
    assert_eq!(causal.masked(289).unwrap().mask_token_id, Some(289));
    let refused = |key: &str, value: Value, config: &ModelConfig| {
        let mut json = config.json().clone();
        json[key] = value;
        ModelConfig::from_json(json).unwrap_err().to_string()
    };
    assert!(causal.masked(290).unwrap_err().to_string().contains("below vocab_size 290"));
    assert!(refused("is_causal", json!(false), &causal).contains("mask_token_id"));
    assert!(refused("is_causal", json!("no"), &causal).contains("is_causal"));
    let hybrid = ModelConfig::new(&small(Architecture::Qwen3_5, Dtype::F32)).unwrap();
    assert!(hybrid.masked(3).unwrap_err().to_string().contains("token to token"));
}

fn small(architecture: Architecture, dtype: Dtype) -> ModelShape {
    ModelShape {
        architecture,
        vocab_size: 290,
        hidden_size: 24,
        intermediate_size: 40,
        num_hidden_layers: 2,
        num_attention_heads: 6,
        num_key_value_heads: 2,
        head_dim: 8,
        max_position_embeddings: 64,
        rope_theta: 10_000.0,
        tie_word_embeddings: architecture != Architecture::Llama,
        dtype,
        masked: false,
        delta_rule: (architecture == Architecture::Qwen3_5).then_some(DeltaRuleConfig {
            key_heads: 2,
            value_heads: 4,
            key_dim: 6,
            value_dim: 8,
            conv_kernel: 3,
            rule: None,
            decay_rank: None,
            rate_rank: None,
            gate_rank: None,
            attention_interval: None,
        }),
    }
}

#[test]
fn a_new_hybrid_has_three_layers_of_the_delta_rule_to_one_of_attention() {
    let shape = ModelShape { num_hidden_layers: 8, ..small(Architecture::Qwen3_5, Dtype::F32) };
    let config = ModelConfig::new(&shape).unwrap();
    let attends: Vec<usize> = (0..8).filter(|&at| config.layers[at] == LayerKind::Attention).collect();
    assert_eq!((attends, config.rotary_dim), (vec![3, 7], 2));
    let model = Model::init(config, 3);
    for entry in model.params.entries() {
        let values = model.params.get(entry.param);
        let is = |low: f32, high: f32| values.iter().all(|value| (low..=high).contains(value));
        let is_fine = match entry.name.rsplit('.').take(2).collect::<Vec<_>>()[..] {
            ["A_log", _] => is(0.01_f32.ln(), 16_f32.ln()),
            ["dt_bias", _] | ["weight", "norm"] if entry.name.contains("linear_attn") => is(1.0, 1.0),
            ["weight", name] if name.ends_with("norm") => is(0.0, 0.0),
            _ => values.iter().any(|value| *value != 0.0),
        };
        assert!(is_fine, "{}", entry.name);
    }
    // Others have no such layers, and say so.
    let error = ModelConfig::new(&ModelShape { architecture: Architecture::Qwen3, ..shape }).unwrap_err();
    assert!(error.to_string().contains("delta_rule"), "{error}");
}

#[test]
fn what_belongs_to_the_model_and_not_to_its_text_is_carried_along() {
    let dir = tempfile::tempdir().unwrap();
    let mut model = Model::load(&golden(NESTED)).unwrap();
    let norm = model.params.find("model.language_model.norm.weight").unwrap().param;
    model.params.get_mut(norm).fill(0.5);
    model.save(dir.path()).unwrap();
    let read = |dir: &Path| std::fs::read(dir.join("model.safetensors")).unwrap();
    let (before, after) = (read(&golden(NESTED)), read(dir.path()));
    let [before, after] =
        [&before, &after].map(|bytes| safetensors::SafeTensors::deserialize(bytes).unwrap());
    assert_eq!(before.names().len(), after.names().len());
    assert!(before.names().iter().any(|name| name.starts_with("model.visual.")));
    for (name, tensor) in before.tensors() {
        let same = after.tensor(&name).unwrap().data() == tensor.data();
        assert_eq!(same, name != "model.language_model.norm.weight", "{name}");
    }
    // A value model is of the text alone.
    let values = Model::load(dir.path()).unwrap().to_value_model().unwrap();
    let own = tempfile::tempdir().unwrap();
    values.save(own.path()).unwrap();
    assert!(Model::load(own.path()).unwrap().is_value_model());
    let first = values.params.find("model.embed_tokens.weight").unwrap().param;
    let theirs = model.params.find("model.language_model.embed_tokens.weight").unwrap().param;
    assert_eq!(values.params.get(first), model.params.get(theirs));
}

#[test]
fn a_new_model_follows_from_its_seed() {
    let config = ModelConfig::new(&small(Architecture::Qwen2, Dtype::F32)).unwrap();
    let model = Model::init(config.clone(), 7);
    assert_eq!(model.params.data(), Model::init(config.clone(), 7).params.data());
    assert_ne!(model.params.data(), Model::init(config.clone(), 8).params.data());
    for entry in model.params.entries() {
        let values = model.params.get(entry.param);
        if entry.name.ends_with("norm.weight") {
            assert!(values.iter().all(|value| *value == 1.0) && !entry.decays, "{}", entry.name);
        } else if entry.name.ends_with("bias") {
            assert!(values.iter().all(|value| *value == 0.0) && !entry.decays, "{}", entry.name);
        } else {
            let count = values.len() as f64;
            let deviation =
                (values.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>() / count).sqrt();
            // Four standard errors.
            let tolerance = 4.0 * config.initializer_range / (2.0 * count).sqrt();
            assert!((deviation - config.initializer_range).abs() < tolerance, "{}: {deviation}", entry.name);
            assert!(entry.decays, "{}", entry.name);
        }
    }
    let matrix = |name: &str| model.params.get(model.params.find(name).unwrap().param);
    let (q, gate) = ("model.layers.0.self_attn.q_proj.weight", "model.layers.0.mlp.gate_proj.weight");
    assert_ne!(matrix(q)[..100], matrix(gate)[..100], "each matrix has numbers of its own");
}

#[test]
fn what_is_written_has_the_rotary_frequencies_in_both_dialects() {
    let check = |dir: &Path, theta: f64, scaling: Option<&str>| {
        let text = std::fs::read_to_string(dir.join("config.json")).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["rope_theta"].as_f64(), Some(theta), "{}", dir.display());
        assert_eq!(
            json["rope_scaling"]["rope_type"].as_str().or(json["rope_scaling"]["type"].as_str()),
            scaling
        );
        Model::load(dir).unwrap();
    };
    for name in GOLDEN.into_iter().filter(|name| *name != NESTED) {
        let dir = tempfile::tempdir().unwrap();
        let model = Model::load(&golden(name)).unwrap();
        model.save(dir.path()).unwrap();
        let scaling = match name {
            SHARDED => Some("llama3"),
            "qwen2-linear-rope" => Some("linear"),
            _ => None,
        };
        check(dir.path(), model.config.rope_theta, scaling);
    }
    for architecture in [Architecture::Llama, Architecture::Qwen2, Architecture::Qwen3, Architecture::Qwen3_5]
    {
        let dir = tempfile::tempdir().unwrap();
        Model::init(ModelConfig::new(&small(architecture, Dtype::F32)).unwrap(), 1).save(dir.path()).unwrap();
        check(dir.path(), 10_000.0, None);
    }
}

#[test]
fn each_stored_type_rounds_once() {
    for (dtype, relative) in [(Dtype::F32, 0.0), (Dtype::Bf16, 1.0 / 256.0), (Dtype::F16, 1.0 / 1024.0)] {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let model = Model::init(ModelConfig::new(&small(Architecture::Qwen3, dtype)).unwrap(), 1);
        model.save(first.path()).unwrap();
        let loaded = Model::load(first.path()).unwrap();
        let mut largest = 0.0f32;
        for (new, old) in loaded.params.data().iter().zip(model.params.data()) {
            // Below the normal range of f16, the step no longer shrinks.
            largest = largest.max((new - old).abs() / old.abs().max(6.2e-5));
        }
        assert!(
            largest <= relative && (dtype == Dtype::F32 || largest > relative / 4.0),
            "{dtype:?}: {largest}"
        );
        loaded.save(second.path()).unwrap();
        let read = |dir: &tempfile::TempDir| std::fs::read(dir.path().join("model.safetensors")).unwrap();
        assert_eq!(read(&first), read(&second));
    }
}

#[test]
fn a_tied_head_is_the_embedding_and_is_not_written() {
    let tied = Model::load(&golden("qwen3")).unwrap();
    assert_eq!(tied.head().base, tied.params.find("model.embed_tokens.weight").unwrap().param);
    assert!(tied.params.find("lm_head.weight").is_none());
    let untied = Model::load(&golden("llama")).unwrap();
    assert_eq!(untied.head().base, untied.params.find("lm_head.weight").unwrap().param);
}

/// Runs `check_saved.py` with the Python that `BURNISH_PYTHON` names; false if it names none.
fn transformers_agrees(dir: &Path, expected: &Path) -> bool {
    let Ok(python) = std::env::var("BURNISH_PYTHON") else {
        println!("skipped: BURNISH_PYTHON names no python with transformers");
        return false;
    };
    let script = golden("check_saved.py");
    let mut command = Command::new(python);
    let output = command
        .env("HF_HUB_OFFLINE", "1")
        .arg(script)
        .arg(dir)
        .arg(expected)
        .output()
        .expect("python starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {stderr}", dir.display());
    println!("{}: {}", dir.display(), String::from_utf8_lossy(&output.stdout).trim());
    true
}

#[test]
fn transformers_loads_what_was_saved_and_computes_the_same() {
    for name in GOLDEN {
        let dir = tempfile::tempdir().unwrap();
        Model::load(&golden(name)).unwrap().save(dir.path()).unwrap();
        if !transformers_agrees(dir.path(), &golden(name).join("expected.json")) {
            return;
        }
    }
}

#[test]
fn transformers_loads_a_new_policy_and_computes_the_same() {
    let special = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"];
    let texts = ["the robot moves right", "the robot moves left"];
    for architecture in [Architecture::Llama, Architecture::Qwen2, Architecture::Qwen3, Architecture::Qwen3_5]
    {
        let dir = tempfile::tempdir().unwrap();
        let tokenizer = Tokenizer::train_bpe(&texts, 280, &special).unwrap();
        let path = Path::new("tool_use.jinja");
        let tools = "{% for tool in tools %}{{ tool.function.name }}{% endfor %}{{ messages[1].content }}";
        let template = ChatTemplate::chatml().unwrap().with_named("tool_use", tools, path).unwrap();
        let chat = Chat::new(tokenizer, template, &["<|im_end|>", "<|endoftext|>"], "<|endoftext|>").unwrap();
        chat.save(dir.path()).unwrap();
        let config = ModelConfig::new(&small(architecture, Dtype::Bf16)).unwrap();
        Model::init(config, 3).save(dir.path()).unwrap();

        let (model, chat) = load_policy(dir.path()).unwrap();
        assert!(model.vocab().contains(chat.end_ids()[0]));
        assert!(!model.vocab().contains(chat.tokenizer.vocab_size() as u32), "the head is larger");
        let messages = [Message::system("the  robot"), Message::user("moves é right\n")];
        let text = chat.template.render(&messages, &[], true).unwrap();
        let tool = ToolSpec {
            name: "look".into(),
            description: String::new(),
            parameters: json!({}),
            more: serde_json::Map::new(),
        };
        let tool_text = chat.template.render(&messages, &[tool], false).unwrap();
        assert_eq!(tool_text, "lookmoves é right\n");
        let ids = chat.tokenizer.encode(&text).unwrap();
        let prompts = vec![ids.clone()];
        let expected = json!({
            "logits": [logits(&model, &prompts)], "prompts": prompts, "messages": messages, "text": text,
            "ids": ids, "eos_token": "<|im_end|>", "tool_text": tool_text,
        });
        let path = dir.path().join("expected.json");
        std::fs::write(&path, expected.to_string()).unwrap();
        if !transformers_agrees(dir.path(), &path) {
            return;
        }
    }
}
