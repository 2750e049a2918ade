//! Answers out of masks: those of LLaDA's decoding in torch, whoever is answered beside them.

use crate::common::*;
use burnish_core::{Message, PolicyError, Sampling, StopReason, Trace};
use burnish_engine::{Denoiser, EngineError, Generated, Limits, LocalPolicy, Request, Sampler};
use burnish_model::Model;
use proptest::prelude::*;
use serde::Deserialize;
use std::path::Path;
use std::sync::Arc;

const MASK: u32 = 90;

fn masked() -> Arc<Model> {
    let config = model_of(VOCAB, CONTEXT, 32).config.masked(MASK).unwrap();
    Arc::new(Model::init(config, 5))
}

fn in_steps(temperature: f32, tokens: usize, steps: usize) -> Sampling {
    Sampling { denoising_steps: Some(steps), ..Sampling::at(temperature, tokens) }
}

/// The answers in the order of the requests, and the number of steps.
fn answers(model: &Arc<Model>, requests: &[Request], limits: Limits) -> (Vec<Generated>, usize) {
    let mut denoiser = Denoiser::new(Arc::clone(model), limits).unwrap();
    for request in requests {
        denoiser.submit(request.clone()).unwrap();
    }
    let mut ended = Vec::new();
    while !denoiser.is_idle() {
        ended.extend(denoiser.advance().unwrap());
    }
    ended.sort_unstable_by_key(|(id, _)| *id);
    (ended.into_iter().map(|(_, answer)| answer.unwrap()).collect(), denoiser.stats().steps)
}

#[derive(Deserialize)]
struct Golden {
    denoised: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    prompt: Vec<u32>,
    length: usize,
    steps: usize,
    ids: Vec<u32>,
}

#[test]
fn greedy_answers_are_those_of_torch() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../burnish-model/tests/golden/qwen3-masked");
    let golden: Golden = serde_json::from_slice(&std::fs::read(dir.join("expected.json")).unwrap()).unwrap();
    let model = Arc::new(Model::load(&dir).unwrap());
    for case in golden.denoised {
        let asked = request(case.prompt.clone(), in_steps(0.0, case.length, case.steps), 0);
        let (found, steps) = answers(&model, &[asked], Limits::default());
        assert_eq!(found[0].ids, case.ids, "{:?}, {} steps", case.prompt, case.steps);
        assert_eq!(steps, case.length.div_ceil(case.length.div_ceil(case.steps)), "none is left after them");
        assert_eq!(found[0].stop, StopReason::TokensMax);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn an_answer_depends_on_its_own_request_alone(
        cases in prop::collection::vec((1_usize..20, 1_usize..16, 1_usize..20, 0_usize..3), 1..6),
        prefill_tokens_max in 1_usize..80, batch_max in 1_usize..4,
    ) {
        let model = masked();
        let requests: Vec<Request> = cases
            .iter()
            .zip(0..)
            .map(|(&(prompt_tokens, tokens, steps, temperature), seed)| Request {
                end_ids: Arc::from([3, 50]),
                ..request(prompt(seed, prompt_tokens), in_steps([0.0, 0.7, 1.0][temperature], tokens, steps), seed)
            })
            .collect();
        let (together, _) = answers(&model, &requests, Limits { prefill_tokens_max, batch_max, ..Limits::default() });
        for (request, found) in requests.iter().zip(&together) {
            let (alone, _) = answers(&model, std::slice::from_ref(request), Limits::default());
            prop_assert_eq!(&alone[0], found);
            prop_assert!(found.ids.iter().all(|id| *id != MASK));
            prop_assert!(found.model_logprobs.iter().all(|logprob| *logprob <= 0.0));
            let ends = found.ids.iter().filter(|id| request.end_ids.contains(id)).count();
            match found.stop {
                StopReason::EndToken => {
                    prop_assert_eq!(ends, 1);
                    prop_assert!(request.end_ids.contains(found.ids.last().unwrap()));
                }
                _ => prop_assert_eq!((ends, found.ids.len()), (0, request.sampling.tokens_max)),
            }
        }
    }
}

#[test]
fn one_step_takes_every_token_at_once_and_as_many_steps_as_tokens_one_at_a_time() {
    let model = masked();
    let steps = |asked: Option<usize>| {
        let sampling = Sampling { denoising_steps: asked, ..Sampling::greedy(12) };
        answers(&model, &[request(prompt(4, 5), sampling, 0)], Limits::default()).1
    };
    assert_eq!(
        [steps(Some(1)), steps(Some(5)), steps(Some(12)), steps(Some(40)), steps(None)],
        [1, 4, 12, 12, 12]
    );
}

#[test]
fn the_temperature_draws_and_the_seed_decides() {
    let model = masked();
    let answer = |seed| {
        let (found, _) =
            answers(&model, &[request(prompt(4, 5), in_steps(1.0, 12, 6), seed)], Limits::default());
        found[0].ids.clone()
    };
    assert_eq!(answer(1), answer(1));
    assert_ne!(answer(1), answer(2));
}

#[test]
fn what_a_model_of_masks_cannot_do_is_refused() {
    let mut denoiser = Denoiser::new(masked(), Limits::default()).unwrap();
    let mut refused = |sampling| denoiser.submit(request(vec![1], sampling, 0)).unwrap_err().to_string();
    let stop = Sampling { stop: vec!["x".into()], ..Sampling::greedy(3) };
    assert!(refused(stop).contains("sampling.stop must be left out"));
    assert!(
        refused(Sampling { top_k: 4, ..Sampling::greedy(3) }).contains("sampling.top_k must be left out")
    );
    assert!(refused(in_steps(0.0, 3, 0)).contains("denoising_steps must be 1 or more"));
    let too_long = denoiser.submit(request(vec![1; CONTEXT], Sampling::greedy(3), 0)).unwrap_err();
    assert!(matches!(too_long, EngineError::PromptTooLong { .. }));
    let unknown = denoiser.submit(request(vec![VOCAB as u32], Sampling::greedy(3), 0)).unwrap_err();
    assert!(matches!(unknown, EngineError::UnknownId { .. }));
    assert!(matches!(Denoiser::new(model(), Limits::default()), Err(EngineError::Causal)));
    assert!(matches!(Sampler::new(masked(), None, Limits::default()), Err(EngineError::NotCausal)));
    let mut sampler = Sampler::new(model(), None, Limits::default()).unwrap();
    let error = sampler.submit(request(vec![1], in_steps(0.0, 3, 2), 0)).unwrap_err().to_string();
    assert!(error.contains("denoising_steps must be left out"), "{error}");
}

#[test]
fn a_policy_of_masks_takes_turns_and_says_that_it_has_no_logprobs() {
    let chat = chat();
    let config = model_of(320, 128, 32).config.masked(319).unwrap();
    let mut model = Model::init(config, 7);
    model.restrict_vocab(|id| chat.tokenizer.id_exists(id));
    let mut policy = LocalPolicy::new(&Arc::new(model), &chat, 3);
    let messages = [Message::user("which way is the goal?")];
    let mut trace = Trace::new();
    let output = act(&mut policy, &mut trace, &messages, &in_steps(0.0, 9, 3), 1).unwrap();
    assert!(!output.message.content.contains("319"));
    assert_eq!(trace.branches()[0].sampled_mask.iter().filter(|sampled| **sampled).count(), 9);
    let with = |sampling: Sampling, policy: &mut LocalPolicy| {
        act(policy, &mut Trace::new(), &messages, &sampling, 1).unwrap_err()
    };
    let error = with(Sampling { logprobs: Some(1), ..Sampling::greedy(9) }, &mut policy);
    assert!(matches!(error, PolicyError::Unable(what) if what.contains("log-probs")));
    use burnish_core::Policy;
    assert!(policy.abilities().check_trainable().is_err());
    let causal = Arc::new(model_of(320, 128, 32));
    let error = with(in_steps(0.0, 9, 3), &mut LocalPolicy::new(&causal, &chat, 0));
    assert!(matches!(error, PolicyError::Unable(what) if what.contains("denoising_steps")));
}

#[test]
fn a_request_can_be_cancelled_between_steps() {
    let mut denoiser = Denoiser::new(masked(), Limits::default()).unwrap();
    let first = denoiser.submit(request(vec![1, 2], Sampling::greedy(4), 0)).unwrap();
    let second = denoiser.submit(request(vec![3], Sampling::greedy(4), 0)).unwrap();
    assert!(denoiser.advance().unwrap().is_empty());
    assert!(denoiser.cancel(first) && !denoiser.cancel(first));
    let mut ended = Vec::new();
    while !denoiser.is_idle() {
        ended.extend(denoiser.advance().unwrap());
    }
    assert_eq!(ended.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [second]);
}
