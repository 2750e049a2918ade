//! Controls that look inside the model: what they see is what a pass over the whole sequence sees, and looking changes
//! neither the answer nor those beside it.

use crate::common::*;
use burnish_core::{Contrast, Message, Sampling, Span, StopReason, Trace};
use burnish_engine::{
    Control, Decision, EngineError, Generated, Inside, Limits, LocalPolicy, Now, Request, RequestId, Sampler,
    Steer,
};
use burnish_model::{Marked, Model, ModelConfig, Packed, Tap};
use burnish_tensor::{Layout, Tape, Var};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Attention, two layers of the delta rule, attention.
fn hybrid() -> Arc<Model> {
    let config = json!({
        "architectures": ["Qwen3_5ForCausalLM"],
        "model_type": "qwen3_5_text",
        "vocab_size": VOCAB,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 4,
        "layer_types": ["full_attention", "linear_attention", "linear_attention", "full_attention"],
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "max_position_embeddings": CONTEXT,
        "initializer_range": 0.3,
        "tie_word_embeddings": true,
    });
    Arc::new(Model::init(ModelConfig::from_json(config).unwrap(), 5))
}

type Seen = Arc<Mutex<Vec<(Vec<u32>, Inside)>>>;

/// A request, with what decides over its answer.
type Under = (Request, Vec<Box<dyn Control>>);

/// Writes down what it is shown, with what had been sampled by then.
#[derive(Debug)]
struct Witness {
    marked: Arc<[bool]>,
    layers: Vec<usize>,
    seen: Seen,
}

impl Control for Witness {
    fn decide(&mut self, now: &Now<'_>, _: &mut Steer) -> Result<Decision, String> {
        let inside = now.inside.ok_or("nothing is shown")?;
        self.seen.lock().unwrap().push(([now.prompt, now.answer].concat(), inside.clone()));
        Ok(Decision::Choose)
    }

    fn marked(&self) -> Option<Arc<[bool]>> {
        Some(Arc::clone(&self.marked))
    }

    fn layers(&mut self, attention: &[Option<f32>]) -> Vec<usize> {
        assert!(!attention.is_empty());
        self.layers.clone()
    }
}

/// The same from one pass over the whole sequence: the mean share of each layer at the last token, and its logits there.
fn inside(model: &Model, ids: &[u32], marked: &Arc<[bool]>) -> (Vec<Option<f32>>, Vec<Vec<f32>>) {
    #[derive(Default)]
    struct All {
        marked: Marked,
        attention: BTreeMap<usize, f32>,
        hidden: Vec<Var>,
    }
    impl Tap for All {
        fn hidden(&mut self, _: &mut Tape<'_>, _: usize, hidden: Var) -> Var {
            self.hidden.push(hidden.clone());
            hidden
        }
        fn marked(&self) -> &[Marked] {
            std::slice::from_ref(&self.marked)
        }
        fn attention(&mut self, _: &mut Tape<'_>, layer: usize, _set: usize, share: Var) {
            let last = &share.data()[(share.rows() - 1) * share.cols()..];
            self.attention.insert(layer, last.iter().sum::<f32>() / share.cols() as f32);
        }
    }
    let mut all = All { marked: Marked(vec![Arc::clone(marked)]), ..All::default() };
    let mut tape = Tape::inference(&model.params);
    let positions: Arc<[u32]> = (0..ids.len() as u32).collect();
    let mut packed = Packed { layout: Arc::new(Layout::causal(&[ids.len()])), shape: model.head_shape() };
    model.forward_tapped(&mut tape, ids, &positions, &mut packed, &mut all);
    let count = model.config.num_hidden_layers;
    let attention = (0..count).map(|layer| all.attention.get(&layer).copied()).collect();
    let last = [ids.len() as u32 - 1];
    let logits = all.hidden[1..].iter().map(|hidden| {
        let hidden = tape.gather(hidden, &last);
        model.exit_logits(&mut tape, &hidden).data().to_vec()
    });
    (attention, logits.collect())
}

fn run_under(
    model: &Arc<Model>,
    requests: Vec<Under>,
    limits: &Limits,
) -> Vec<Result<Generated, EngineError>> {
    let mut sampler = Sampler::new(Arc::clone(model), None, limits.clone()).unwrap();
    for (request, controls) in requests {
        sampler.submit_under(request, controls).unwrap();
    }
    let mut ended: BTreeMap<RequestId, Result<Generated, EngineError>> = BTreeMap::new();
    while !sampler.is_idle() {
        ended.extend(sampler.advance().unwrap());
    }
    ended.into_values().collect()
}

fn requests() -> Vec<Request> {
    let one = |i: u64| Request {
        end_ids: Arc::from([3]),
        ..request(prompt(i / 2, 2 + (7 * i as usize) % 30), Sampling::at(1.0, 1 + (5 * i as usize) % 23), i)
    };
    (0..14).map(one).collect()
}

fn every_third(i: usize, len: usize) -> Arc<[bool]> {
    (0..len).map(|at| (at + i).is_multiple_of(3)).collect()
}

/// Every other request is looked into.
fn with_witnesses(requests: &[Request], layers: &[usize]) -> (Vec<Under>, Vec<Seen>) {
    let mut seen = Vec::new();
    let under = requests.iter().enumerate().map(|(i, request)| {
        if i % 2 == 1 {
            return (request.clone(), Vec::new());
        }
        let own = Seen::default();
        seen.push(Arc::clone(&own));
        let marked = every_third(i, request.prompt.len());
        let witness = Witness { marked, layers: layers.to_vec(), seen: own };
        (request.clone(), vec![Box::new(witness) as Box<dyn Control>])
    });
    (under.collect(), seen)
}

#[test]
fn what_is_shown_is_what_a_pass_over_everything_sees_and_looking_changes_no_answer() {
    for model in [model(), hybrid()] {
        let requests = requests();
        let (plain, _) = run(&model, &requests, &Limits::default());
        // With little memory, sequences leave, and read several tokens at once when they come back.
        for limits in
            [Limits::default(), Limits { batch_max: 3, cache_bytes: Some(120_000), ..Limits::default() }]
        {
            let layers = [1, 0, 1];
            let (under, seen) = with_witnesses(&requests, &layers);
            let answers = run_under(&model, under, &limits);
            for ((request, answer), plain) in requests.iter().zip(&answers).zip(&plain) {
                let answer = answer.as_ref().unwrap();
                assert_eq!((&answer.ids, answer.stop), (&plain.ids, plain.stop), "{}", request.seed);
                for (a, b) in answer.model_logprobs.iter().zip(&plain.model_logprobs) {
                    assert!((a - b).abs() < 1e-4);
                }
            }
            for (at, seen) in seen.iter().enumerate() {
                let (request, answer) = (&requests[2 * at], answers[2 * at].as_ref().unwrap());
                let seen = seen.lock().unwrap();
                assert_eq!(seen.len(), answer.ids.len(), "once before each token");
                for (position, (ids, shown)) in seen.iter().enumerate() {
                    assert_eq!(*ids, [&request.prompt[..], &answer.ids[..position]].concat());
                    let marked = every_third(2 * at, request.prompt.len());
                    let (attention, logits) = inside(&model, ids, &marked);
                    for (ours, theirs) in shown.attention.iter().zip(&attention) {
                        assert!(match (ours, theirs) {
                            (Some(ours), Some(theirs)) => (ours - theirs).abs() < 1e-5,
                            (ours, theirs) => ours == theirs,
                        });
                    }
                    assert_eq!(shown.logits.len(), layers.len());
                    for (ours, layer) in shown.logits.iter().zip(layers) {
                        assert!(ours.iter().zip(&logits[layer]).all(|(a, b)| (a - b).abs() < 1e-3));
                    }
                }
            }
        }
    }
}

#[test]
fn what_is_shown_depends_by_no_bit_on_the_batch() {
    let model = model();
    let shown = |batch_max: usize, threads: usize| {
        let (under, seen) = with_witnesses(&requests(), &[0, 1]);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let limits = Limits { batch_max, ..Limits::default() };
        pool.install(|| run_under(&model, under, &limits));
        seen.into_iter().map(|seen| seen.lock().unwrap().clone()).collect::<Vec<_>>()
    };
    let expected = shown(1, 1);
    assert_eq!(shown(14, 1), expected);
    assert_eq!(shown(14, 2), expected);
    assert_eq!(shown(5, 3), expected);
}

#[test]
fn what_can_not_be_looked_into_is_refused() {
    let model = model();
    let witness = |layers: Vec<usize>| -> Box<dyn Control> {
        Box::new(Witness { marked: Arc::from([true]), layers, seen: Seen::default() })
    };
    let mut sampler = Sampler::new(Arc::clone(&model), None, Limits::default()).unwrap();
    let two = request(vec![1, 2], Sampling::greedy(3), 1);
    let error = sampler.submit_under(two.clone(), vec![witness(vec![]), witness(vec![])]).unwrap_err();
    assert!(error.to_string().contains("two of its controls"), "{error}");
    let one = request(vec![1], Sampling::greedy(3), 1);
    let error = sampler.submit_under(one, vec![witness(vec![])]).unwrap_err();
    assert!(error.to_string().contains("two tokens"), "{error}");

    let answers =
        run_under(&model, vec![(two.clone(), vec![witness(vec![1, 2])]), (two, vec![])], &Limits::default());
    let error = answers[0].as_ref().unwrap_err().to_string();
    assert!(error.contains("layer 2, but the model has 2"), "{error}");
    assert_eq!(answers[1].as_ref().unwrap().stop, StopReason::TokensMax);
}

#[test]
fn a_policy_contrasts_layers_where_its_prompt_has_what_is_marked() {
    let chat = chat();
    let mut model = model_of(400, 200, 32);
    model.restrict_vocab(|id| chat.tokenizer.id_exists(id));
    let model = Arc::new(model);
    let answer = |text: &str, contrast: Option<Contrast>| {
        let mut policy = LocalPolicy::new(&model, &chat, 0);
        let sampling = Sampling { contrast, ..Sampling::greedy(12) };
        let mut trace = Trace::new();
        act(&mut policy, &mut trace, &[Message::user(text)], &sampling, 1).unwrap();
        let answer = &trace.nodes()[1];
        (answer.ids.to_vec(), answer.sampled.clone().unwrap())
    };
    let daid = |alpha, beta, gamma| {
        let marked = Span { after: "[".into(), before: "]".into() };
        Some(Contrast::Daid { alpha, beta, gamma, marked })
    };
    let text = "[a hole in the ice] the goal is left";
    let (plain, _) = answer(text, None);
    assert_eq!(answer(text, daid(0.0, 0.0, 0.1)).0, plain);
    assert_eq!(answer(text, daid(0.8, 0.2, 1.0)).0, plain);
    let (changed, sampled) = answer(text, daid(0.8, 0.2, 0.0));
    assert_ne!(changed, plain);
    // Recorded are the model's own log-probs, and those that the token was drawn with.
    assert!(sampled.sampled_logprobs.is_some());
    let (with_dola, _) = answer(text, Some(Contrast::Dola { gamma: 0.0, layers: Vec::new() }));
    assert_ne!(with_dola, plain);
    let (unmarked, _) = answer("the goal is left", daid(0.8, 0.2, 0.0));
    assert_eq!(unmarked, answer("the goal is left", None).0);
}
