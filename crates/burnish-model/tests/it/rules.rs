//! Hybrids whose layers follow one of a family of delta rules: against torch, against each other, and saved.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use burnish_model::{Model, ModelConfig, ModelShape, Packed};
use burnish_tensor::{Layout, Tape};
use serde::Deserialize;
use serde_json::{Value, json};

const RULES: [&str; 5] = ["delta_net", "gdn", "kda", "fg2_gdn", "fg2_gdn_plus"];

/// Made by `golden/make_rules.py`.
fn golden(rule: &str) -> PathBuf {
    let name = format!("rule-{}", rule.replace('_', "-"));
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

#[derive(Deserialize)]
struct Expected {
    prompts: Vec<Vec<u32>>,
    logits: Vec<Vec<f32>>,
    /// Of each parameter the norm and the first elements.
    gradients: BTreeMap<String, Vec<f32>>,
}

fn expected(rule: &str) -> Expected {
    serde_json::from_str(&std::fs::read_to_string(golden(rule).join("expected.json")).unwrap()).unwrap()
}

fn logits(model: &Model, prompts: &[Vec<u32>]) -> Vec<f32> {
    let lens: Vec<usize> = prompts.iter().map(Vec::len).collect();
    let positions: Arc<[u32]> = lens.iter().flat_map(|&len| 0..len as u32).collect();
    let mut mixer = Packed { layout: Arc::new(Layout::causal(&lens)), shape: model.head_shape() };
    let mut tape = Tape::inference(&model.params);
    let hidden = model.forward(&mut tape, &prompts.concat(), &positions, &mut mixer);
    model.logits(&mut tape, &hidden).data().to_vec()
}

fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn logits_and_gradients_of_each_rule_agree_with_torch() {
    for rule in RULES {
        let expected = expected(rule);
        let model = Model::load(&golden(rule)).unwrap();
        let difference = largest_difference(&logits(&model, &expected.prompts), &expected.logits.concat());
        println!("{rule}: largest difference of a logit {difference:.1e}");
        assert!(difference < 1e-4, "{rule}: {difference}");

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
            let name = &entry.name;
            assert!((norm - theirs[0]).abs() < 2e-4 * theirs[0], "{rule}: {name}: {norm} {}", theirs[0]);
            for (own, theirs_here) in own.iter().zip(&theirs[1..]) {
                assert!((own - theirs_here).abs() < 1e-3 * theirs[0], "{rule}: {name}: {own} {theirs_here}");
            }
        }
    }
}

#[test]
fn saving_what_was_loaded_gives_the_same_bytes() {
    for rule in RULES {
        let dir = tempfile::tempdir().unwrap();
        Model::load(&golden(rule)).unwrap().save(dir.path()).unwrap();
        for file in ["config.json", "model.safetensors"] {
            let read = |dir: &Path| std::fs::read(dir.join(file)).unwrap();
            if file == "config.json" {
                let json = |dir: &Path| serde_json::from_slice::<Value>(&read(dir)).unwrap();
                assert_eq!(json(&golden(rule)), json(dir.path()), "{rule}");
            }
            let same = Model::load(dir.path()).unwrap().params.data()
                == Model::load(&golden(rule)).unwrap().params.data();
            assert!(same && read(dir.path()).len() > 100, "{rule}: {file}");
        }
    }
}

/// A model of two linear layers and one that attends, with weights large enough to matter.
fn small(rule: &str, more: Value) -> Model {
    let mut config = json!({
        "architectures": ["BurnishHybridForCausalLM"],
        "model_type": "burnish_hybrid",
        "vocab_size": 40,
        "hidden_size": 24,
        "intermediate_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 3,
        "num_key_value_heads": 1,
        "full_attention_interval": 3,
        "linear_rule": rule,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 2,
        "linear_key_head_dim": 6,
        "linear_value_head_dim": 6,
        "linear_conv_kernel_dim": 4,
        "max_position_embeddings": 128,
        "initializer_range": 0.3,
        "tie_word_embeddings": true,
    });
    for (key, value) in more.as_object().unwrap() {
        config[key] = value.clone();
    }
    Model::init(ModelConfig::from_json(config).unwrap(), 5)
}

/// Gives `to` the weights of `from`, and those that `of` makes of the part of the layer's name and the getter of its
/// parts in `from`.
fn transfer(from: &Model, to: &mut Model, of: impl Fn(&str, &dyn Fn(&str) -> Vec<f32>) -> Option<Vec<f32>>) {
    let names: Vec<String> = to.params.entries().iter().map(|entry| entry.name.to_string()).collect();
    let get = |name: &str| from.params.find(name).map(|entry| from.params.get(entry.param).to_vec());
    for name in names {
        let made = name
            .split_once("linear_attn.")
            .and_then(|(layer, part)| of(part, &|part| get(&format!("{layer}linear_attn.{part}")).unwrap()));
        let values = made.or_else(|| get(&name)).unwrap_or_else(|| panic!("{name} is in both, or made"));
        let param = to.params.find(&name).unwrap().param;
        to.params.get_mut(param).copy_from_slice(&values);
    }
}

/// Each row as often as there are channels.
fn repeated(rows: &[f32], width: usize, channels: usize) -> Vec<f32> {
    rows.chunks_exact(width).flat_map(|row| row.repeat(channels)).collect()
}

fn prompts() -> Vec<Vec<u32>> {
    vec![(0..90).map(|at| (at * at + 3 * at) % 40).collect(), vec![7, 7, 3]]
}

#[test]
fn equal_rates_of_erasing_and_writing_are_one_rate_to_the_bit() {
    let from = small("fg2_gdn", json!({}));
    let mut to = small("fg2_gdn_plus", json!({}));
    transfer(&from, &mut to, |part, get| (part == "in_proj_w.weight").then(|| get("in_proj_b.weight")));
    assert_eq!(logits(&to, &prompts()), logits(&from, &prompts()));
}

#[test]
fn rates_that_are_equal_in_all_channels_are_kimi_delta_attention() {
    let from = small("kda", json!({}));
    let mut to = small("fg2_gdn", json!({}));
    transfer(&from, &mut to, |part, get| {
        (part == "in_proj_b.weight").then(|| repeated(&get("in_proj_b.weight"), 24, 6))
    });
    let difference = largest_difference(&logits(&to, &prompts()), &logits(&from, &prompts()));
    assert!(difference < 1e-4, "{difference}");
}

#[test]
fn decays_that_are_equal_in_all_channels_are_gated_delta_net() {
    let from = small("gdn", json!({}));
    let mut to = small("kda", json!({ "linear_decay_rank": 2 }));
    transfer(&from, &mut to, |part, get| match part {
        "f_a_proj.weight" => Some(get("in_proj_a.weight")),
        // [heads · channels, heads]: each channel takes its head's.
        "f_b_proj.weight" => Some([[1.0, 0.0].repeat(6), [0.0, 1.0].repeat(6)].concat()),
        "dt_bias" => Some(repeated(&get("dt_bias"), 1, 6)),
        _ => None,
    });
    let difference = largest_difference(&logits(&to, &prompts()), &logits(&from, &prompts()));
    assert!(difference < 1e-4, "{difference}");
}

#[test]
fn without_decay_it_is_delta_net_to_the_bit() {
    let from = small("delta_net", json!({}));
    let mut to = small("gdn", json!({}));
    transfer(&from, &mut to, |part, _| match part {
        "in_proj_a.weight" => Some(vec![0.3; 2 * 24]),
        "dt_bias" => Some(vec![1.0; 2]),
        "A_log" => Some(vec![f32::NEG_INFINITY; 2]),
        _ => None,
    });
    assert_eq!(logits(&to, &prompts()), logits(&from, &prompts()));
}

#[test]
fn what_comes_later_changes_no_bit() {
    for rule in RULES {
        let model = small(rule, json!({}));
        let (mut changed, cut) = (prompts(), 50);
        changed[0][cut..].iter_mut().for_each(|id| *id = (*id + 1) % 40);
        let [before, after] =
            [&prompts(), &changed].map(|prompts| logits(&model, prompts)[..cut * 40].to_vec());
        assert_eq!(before, after, "{rule}");
    }
}

#[test]
fn a_new_policy_has_the_rule_and_starts_as_flash_linear_attention_does() {
    for rule in RULES {
        let shape: ModelShape = serde_json::from_value(json!({
            "architecture": "hybrid",
            "vocab_size": 290,
            "hidden_size": 24,
            "intermediate_size": 40,
            "num_hidden_layers": 2,
            "num_attention_heads": 3,
            "num_key_value_heads": 1,
            "head_dim": 8,
            "max_position_embeddings": 128,
            "rope_theta": 1e4,
            "tie_word_embeddings": true,
            "dtype": "f32",
            "delta_rule": {
                "linear_rule": rule, "linear_num_key_heads": 2, "linear_num_value_heads": 2,
                "linear_key_head_dim": 6, "linear_value_head_dim": 6, "linear_conv_kernel_dim": 3,
                "full_attention_interval": 9,
            },
        }))
        .unwrap();
        let model = Model::init(ModelConfig::new(&shape).unwrap(), 3);
        assert_eq!(model.config.json()["layer_types"], json!(["linear_attention", "linear_attention"]));
        for entry in model.params.entries().iter().filter(|entry| entry.name.contains("linear_attn")) {
            let values = model.params.get(entry.param);
            let is = |low: f32, high: f32| values.iter().all(|value| (low..=high).contains(value));
            assert!(match entry.name.rsplit('.').next() {
                Some("A_log") => is(0.0, 16_f32.ln()),
                // softplus(-6.91) is 0.001, softplus(-2.25) is 0.1.
                Some("dt_bias") => is(-6.92, -2.2),
                _ => values.iter().any(|value| *value != 0.0),
            });
        }
        let dir = tempfile::tempdir().unwrap();
        model.save(dir.path()).unwrap();
        let again = Model::load(dir.path()).unwrap();
        assert_eq!(again.params.data(), model.params.data());
        assert_eq!(logits(&again, &prompts()), logits(&model, &prompts()));
        // A value model has the same layers.
        let values = model.to_value_model().unwrap();
        values.save(dir.path()).unwrap();
        assert!(Model::load(dir.path()).unwrap().is_value_model(), "{rule}");
    }
}
