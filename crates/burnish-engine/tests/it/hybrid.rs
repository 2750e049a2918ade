//! A model with layers of the delta rule beside attention: what holds of every model holds of it, although its state is
//! not made of rows of tokens.

use crate::common::*;
use burnish_core::Sampling;
use burnish_engine::{
    Control, Decision, Generated, Limits, Now, Probe, Request, RequestId, Sampler, Stats, Steer,
};
use burnish_model::{Model, ModelConfig, Packed};
use burnish_tensor::{Layout, Precision, Segment, Tape};
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

static MODEL: LazyLock<Arc<Model>> = LazyLock::new(|| Arc::new(hybrid()));

/// Three layers of the delta rule, then one of attention.
fn hybrid() -> Model {
    let config = json!({
        "architectures": ["Qwen3_5ForCausalLM"],
        "model_type": "qwen3_5_text",
        "vocab_size": VOCAB,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "max_position_embeddings": 160,
        "initializer_range": 0.3,
        "tie_word_embeddings": true,
    });
    Model::init(ModelConfig::from_json(config).unwrap(), 5)
}

/// The same, each layer with a rule of its own family; the last is of linear layers alone.
fn of_rules() -> Vec<Model> {
    let of = |(rule, interval): (&str, u64)| {
        let config = json!({
            "architectures": ["BurnishHybridForCausalLM"],
            "model_type": "burnish_hybrid",
            "vocab_size": VOCAB,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "full_attention_interval": interval,
            "linear_rule": rule,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 2,
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 8,
            "linear_conv_kernel_dim": 4,
            "max_position_embeddings": 160,
            "initializer_range": 0.3,
            "tie_word_embeddings": true,
        });
        Model::init(ModelConfig::from_json(config).unwrap(), 5)
    };
    [("delta_net", 3), ("gdn", 3), ("kda", 3), ("fg2_gdn", 3), ("fg2_gdn_plus", 4)].map(of).into()
}

/// Bytes of a page: one layer of attention, keys and values of 2 heads of 16 columns, 16 tokens.
const PAGE: usize = 2 * 32 * 16 * 4;
/// Pages' worth of the state of a sequence: three layers, each with three rows of 64 columns and 4 matrices of 8 × 8.
const STATE: usize = (3 * (3 * 64 + 4 * 64) * 4_usize).div_ceil(PAGE);

fn requests(count: u64) -> Vec<Request> {
    let one = |i: u64| Request {
        end_ids: Arc::from([3]),
        ..request(
            // Some longer than a chunk of the delta rule.
            prompt(i / 2, 1 + (29 * i as usize / 2) % 80),
            Sampling::at([0.7, 1.0][i as usize % 2], 4 + (11 * i as usize) % 40),
            i,
        )
    };
    (0..count).map(one).collect()
}

fn bits(answers: &[Generated]) -> Vec<(&[u32], Vec<u32>)> {
    answers
        .iter()
        .map(|answer| (&*answer.ids, answer.model_logprobs.iter().map(|x| x.to_bits()).collect()))
        .collect()
}

#[test]
fn bits_depend_on_no_batch_no_order_and_no_thread() {
    let precisions = [(hybrid(), Precision::F32), (hybrid(), Precision::Bf16)];
    let of_rules = of_rules().into_iter().map(|model| (model, Precision::F32));
    for (mut model, precision) in precisions.into_iter().chain(of_rules) {
        model.params = model.params.in_precision(precision);
        let model = Arc::new(model);
        let with = |threads, requests: &[Request], batch_max| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let limits = Limits { batch_max, prefill_tokens_max: 100, ..Limits::default() };
            pool.install(|| run(&model, requests, &limits).0)
        };
        let requests = requests(18);
        let expected = with(1, &requests, 1);
        for (threads, batch_max) in [(1, 18), (2, 18), (3, 7), (2, 3)] {
            assert_eq!(bits(&with(threads, &requests, batch_max)), bits(&expected));
        }
        let reversed: Vec<Request> = requests.iter().rev().cloned().collect();
        let mut answers = with(2, &reversed, 9);
        answers.reverse();
        assert_eq!(bits(&answers), bits(&expected));
    }
}

fn stats_of(requests: &[Request], pages: usize) -> (Vec<Generated>, Stats) {
    run(&MODEL, requests, &Limits { cache_bytes: Some(pages * PAGE), ..Limits::default() })
}

#[test]
fn a_group_reads_its_prompt_once_and_states_are_part_of_the_memory() {
    let group: Vec<Request> = (0..6).map(|seed| request(prompt(1, 40), Sampling::at(1.0, 8), seed)).collect();
    let (_, stats) = stats_of(&group, 200);
    assert_eq!(stats.prompt_tokens_read, 40);
    // The prompt's three pages and its state; of each answer a page and a state.
    assert_eq!(stats.cache_bytes, (3 + STATE + 6 * (1 + STATE)) * PAGE);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Answers that leave, lose their state, and come back.
    #[test]
    fn no_bound_of_memory_changes_an_answer(count in 1_u64..12, spare in 0_usize..20, batch_max in 1_usize..9) {
        let requests = requests(count);
        let needs = |request: &Request| {
            let answer = request.sampling.tokens_max.min(160 - request.prompt.len()) - 1;
            request.prompt.len().div_ceil(16) + answer.div_ceil(16) + 2 * STATE
        };
        let least = requests.iter().map(needs).max().unwrap();
        let (expected, _) = stats_of(&requests, 1000);
        let cache_bytes = (least + spare) * PAGE;
        let limits = Limits { batch_max, cache_bytes: Some(cache_bytes), ..Limits::default() };
        let (answers, stats) = run(&MODEL, &requests, &limits);
        prop_assert_eq!(bits(&answers), bits(&expected));
        prop_assert!(stats.cache_bytes <= cache_bytes);
    }
}

#[test]
fn with_little_memory_sequences_leave_and_come_back() {
    let (_, stats) = stats_of(&requests(12), 8 + 3 * STATE);
    assert!(stats.preemptions > 0 && stats.recomputed_tokens > 0, "{stats:?}");
}

struct Probing;

impl std::fmt::Debug for Probing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Probing")
    }
}

impl Control for Probing {
    fn decide(&mut self, now: &Now<'_>, _: &mut Steer) -> Result<Decision, String> {
        Ok(match now.probed {
            None if now.answer.len().is_multiple_of(3) => {
                let probe = Probe { instead: None, ids: vec![5, 6], sampling: Sampling::greedy(4), seed: 1 };
                Decision::Probe(Box::new(probe))
            }
            _ => Decision::Choose,
        })
    }

    fn probe_tokens_max(&self) -> usize {
        6
    }
}

#[test]
fn a_probe_leaves_the_state_of_its_answer_as_it_is() {
    let requests = requests(6);
    let (expected, _) = stats_of(&requests, 1000);
    let mut sampler = Sampler::new(Arc::clone(&MODEL), None, Limits::default()).unwrap();
    let ids: Vec<RequestId> = requests
        .iter()
        .map(|request| sampler.submit_under(request.clone(), vec![Box::new(Probing)]).unwrap())
        .collect();
    let mut answers = BTreeMap::new();
    while !sampler.is_idle() {
        answers.extend(sampler.advance().unwrap().into_iter().map(|(id, answer)| (id, answer.unwrap())));
    }
    let answers: Vec<Generated> = ids.iter().map(|id| answers.remove(id).unwrap()).collect();
    assert!(sampler.stats().probe_tokens > 0);
    assert_eq!(bits(&answers), bits(&expected));
}

#[test]
fn the_trainer_recomputes_the_log_probabilities_of_the_sampler_with_shared_prompts() {
    let group: Vec<Request> =
        (0..4).map(|seed| request(prompt(1, 70), Sampling::at(1.0, 30), seed)).collect();
    for model in of_rules().into_iter().map(Arc::new).chain([Arc::clone(&MODEL)]) {
        let (answers, _) = run(&model, &group, &Limits::default());
        recomputes(&model, &group, &answers);
    }
}

fn recomputes(model: &Model, group: &[Request], answers: &[Generated]) {
    // The prompt without its last token is shared, as the trainer packs it.
    let shared = 69;
    let mut ids = group[0].prompt[..shared].to_vec();
    let mut positions: Vec<u32> = (0..shared as u32).collect();
    let mut segments = vec![Segment::causal(0, shared, None)];
    let (mut rows, mut targets) = (Vec::new(), Vec::new());
    for answer in answers {
        let own = [&group[0].prompt[shared..], &answer.ids].concat();
        let start = ids.len();
        segments.push(Segment::causal(start, own.len(), Some(0)));
        rows.extend(start as u32..(start + own.len() - 1) as u32);
        targets.extend(&answer.ids);
        positions.extend(shared as u32..(shared + own.len()) as u32);
        ids.extend(own);
    }
    let layout = Arc::new(Layout::new(segments).unwrap());
    let mut packed = Packed { layout, shape: model.head_shape() };
    let mut tape = Tape::recording(&model.params);
    let hidden = model.forward(&mut tape, &ids, &Arc::from(positions), &mut packed);
    let hidden = tape.gather(&hidden, &rows);
    let temperatures = vec![1.0; rows.len()];
    let scored = tape.token_scores(&hidden, model.head(), &targets, &temperatures, model.vocab()).logprobs;
    let sampled = answers.iter().flat_map(|answer| &answer.model_logprobs);
    for (sampler, trainer) in sampled.zip(scored) {
        assert!((sampler - trainer).abs() < 2e-5, "{sampler} {trainer}");
    }
}
