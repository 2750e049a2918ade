//! Greedy answers of the golden models are those of transformers' `generate`.

use burnish_core::{Sampling, StopReason};
use burnish_engine::{Limits, Request, generate};
use burnish_model::Model;
use serde::Deserialize;
use std::path::Path;
use std::sync::Arc;

/// Made by `burnish-model/tests/golden/make_models.py`.
#[derive(Deserialize)]
struct Golden {
    prompts: Vec<Vec<u32>>,
    greedy: Vec<Vec<u32>>,
}

fn check(name: &str) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../burnish-model/tests/golden").join(name);
    let model = Arc::new(Model::load(&dir).unwrap());
    let golden: Golden =
        serde_json::from_str(&std::fs::read_to_string(dir.join("expected.json")).unwrap()).unwrap();
    let requests: Vec<Request> = golden
        .prompts
        .iter()
        .zip(&golden.greedy)
        .map(|(prompt, greedy)| Request {
            prompt: prompt.clone(),
            sampling: Sampling::greedy(greedy.len()),
            seed: 0,
            end_ids: Arc::from([]),
        })
        .collect();
    for batch_max in [1, 2, 256] {
        let limits = Limits { batch_max, ..Limits::default() };
        let (answers, _) = generate(&model, None, &requests, &limits).unwrap();
        for (answer, greedy) in answers.iter().zip(&golden.greedy) {
            assert_eq!(&answer.ids, greedy);
            assert_eq!(answer.stop, StopReason::TokensMax);
        }
    }
}

#[test]
fn llama_continues_as_in_transformers() {
    check("llama");
}

#[test]
fn llama_with_biases_and_bf16_weights_continues_as_in_transformers() {
    check("llama-bias-bf16");
}

#[test]
fn qwen2_continues_as_in_transformers() {
    check("qwen2");
}

#[test]
fn qwen3_continues_as_in_transformers() {
    check("qwen3");
}

#[test]
fn qwen3_5_continues_as_in_transformers() {
    check("qwen3_5");
}

#[test]
fn the_text_model_within_a_larger_one_continues_as_in_transformers() {
    check("qwen3_5-nested-bf16");
}
