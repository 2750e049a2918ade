//! What an outline says that a pass keeps, against what the buffers of a recorded pass hold.

use std::sync::Arc;

use burnish_model::{
    Architecture, DeltaRuleConfig, Dtype, Loading, LoraConfig, Model, ModelConfig, ModelShape, Outline,
    Packed, Rule, Targets, Trains,
};
use burnish_tensor::{Keep, Layout, Tape, buffer_elements};

/// So many that each value of a layer is in a buffer that is counted, but for those with a column per head.
const ROWS: usize = 2048;

fn shape(architecture: Architecture, delta_rule: Option<DeltaRuleConfig>) -> ModelShape {
    ModelShape {
        architecture,
        vocab_size: 64,
        hidden_size: 64,
        intermediate_size: 160,
        num_hidden_layers: 4,
        num_attention_heads: 4,
        num_key_value_heads: 2,
        head_dim: 32,
        max_position_embeddings: ROWS,
        rope_theta: 10000.0,
        tie_word_embeddings: true,
        dtype: Dtype::F32,
        delta_rule,
        masked: false,
    }
}

/// Ranks only where a rule has a rate or a decay per channel.
fn delta(rule: Option<Rule>) -> DeltaRuleConfig {
    let decay_rank = matches!(rule, Some(Rule::Kda | Rule::Fg2Gdn | Rule::Fg2GdnPlus)).then_some(8);
    let rate_rank = matches!(rule, Some(Rule::Fg2Gdn | Rule::Fg2GdnPlus)).then_some(16);
    DeltaRuleConfig {
        key_heads: 2,
        value_heads: if rule.is_some() { 2 } else { 4 },
        key_dim: if rule == Some(Rule::Fg2Gdn) { 32 } else { 16 },
        value_dim: 32,
        conv_kernel: 4,
        rule,
        decay_rank,
        rate_rank,
        gate_rank: rule.map(|_| 24),
        attention_interval: rule.map(|_| 4),
    }
}

/// Elements that a recorded pass holds, with checkpoints if they are to keep something, and those that its outline says.
fn held_and_said(model: &Model, outline: &Outline, checkpoints: Option<Keep>) -> (usize, usize) {
    let before = buffer_elements();
    let mut tape = Tape::recording(&model.params);
    let ids: Vec<u32> = (0..ROWS as u32).map(|at| at % 64).collect();
    let positions: Arc<[u32]> = (0..ROWS as u32).collect();
    let mut packed = Packed { layout: Arc::new(Layout::causal(&[ROWS])), shape: model.head_shape() };
    let hidden = match checkpoints {
        Some(keep) => model.forward_checkpointed(&mut tape, &ids, &positions, &packed, keep),
        None => model.forward(&mut tape, &ids, &positions, &mut packed),
    };
    let held = buffer_elements() - before;
    drop((tape, hidden));
    let width = model.config.hidden_size;
    let of_layer = |(kept, attended): (usize, usize)| match checkpoints {
        Some(Keep::Input) => width,
        Some(Keep::InputAndAttention) => width + attended,
        None => kept,
    };
    // The last norm: what it reads, and what it gives.
    (held, ROWS * (outline.kept_by_layers().into_iter().map(of_layer).sum::<usize>() + 2 * width))
}

#[test]
fn passes_keep_what_the_outline_says() {
    let rules = [Rule::DeltaNet, Rule::Gdn, Rule::Kda, Rule::Fg2Gdn, Rule::Fg2GdnPlus];
    let mut shapes = vec![
        ("llama", shape(Architecture::Llama, None)),
        ("qwen3", shape(Architecture::Qwen3, None)),
        ("qwen3_5", shape(Architecture::Qwen3_5, Some(delta(None)))),
    ];
    shapes.extend(rules.map(|rule| ("hybrid", shape(Architecture::Hybrid, Some(delta(Some(rule)))))));
    let dir = tempfile::tempdir().unwrap();
    for (at, (name, shape)) in shapes.into_iter().enumerate() {
        let config = ModelConfig::new(&shape).unwrap_or_else(|error| panic!("{name}: {error}"));
        let dir = dir.path().join(at.to_string());
        Model::init(config, 1).save(&dir).unwrap();
        let target_modules = Targets::Pattern("all-linear".to_owned());
        let lora = LoraConfig { rank: 16, alpha: 16.0, dropout: 0.0, rslora: false, target_modules };
        for trains in [Trains::All, Trains::Adapter(lora, 1)] {
            let loading = Loading { trains, ..Loading::default() };
            let model = Model::load_as(&dir, &loading).unwrap();
            let outline = Outline::of_dir(&dir, &loading).unwrap();
            for checkpoints in [None, Some(Keep::Input), Some(Keep::InputAndAttention)] {
                let (held, said) = held_and_said(&model, &outline, checkpoints);
                let ratio = said as f64 / held as f64;
                let what = if model.is_adapted() { "adapter" } else { "all" };
                println!("{name} {at} {what} {checkpoints:?}: held {held}, said {said}, {ratio:.4}");
                assert!(
                    (0.99..1.02).contains(&ratio),
                    "{name} {at} {what} {checkpoints:?}: held {held}, said {said}"
                );
            }
        }
    }
}
