//! Latent steps: what they read is the model's own hidden state, to whatever length, and nothing else in the batch
//! changes them.

use crate::common::*;
use burnish_core::{
    Intervention, LATENT_TOKENS, Latent, LatentInput, LatentPlace, Message, Policy, Sampling, Source,
    Streaming, Trace,
};
use burnish_engine::{
    Control, Generated, LatentIds, LatentSteps, Limits, LocalPolicy, Request, RequestId, Sampler,
};
use burnish_model::{Chat, ChatTemplate, LatentGradient, Model, Packed, Tokenizer};
use burnish_tensor::{Layout, Tape};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The id of latent steps, which is never sampled.
const STEP: u32 = 12;

fn latent_model() -> Arc<Model> {
    let mut model = model_of(VOCAB, CONTEXT, 32);
    model.restrict_vocab(|id| id != STEP);
    Arc::new(model)
}

fn requests() -> Vec<Request> {
    let one = |i: u64| {
        request(prompt(i / 2, 2 + (5 * i as usize) % 13), Sampling::at(1.0, 20 + (5 * i as usize) % 23), i)
    };
    (0..16).map(one).collect()
}

/// The ids that the model samples most are the tags, so that there are spans.
fn ids(model: &Arc<Model>) -> LatentIds {
    let mut counts = BTreeMap::new();
    for answer in run(model, &requests(), &Limits::default()).0 {
        answer.ids.iter().for_each(|&id| *counts.entry(id).or_insert(0) += 1);
    }
    let mut ranked: Vec<(usize, u32)> = counts.into_iter().map(|(id, count)| (count, id)).collect();
    ranked.sort_unstable_by(|a, b| b.cmp(a));
    LatentIds { open: ranked[0].1, close: ranked[1].1, step: STEP }
}

fn spans(steps_min: usize, steps_max: usize) -> Latent {
    Latent { place: LatentPlace::Spans, input: LatentInput::Hidden, steps_min, steps_max, intervention: None }
}

fn sample(model: &Arc<Model>, rule: &Latent, limits: &Limits) -> Vec<Generated> {
    let ids = ids(model);
    let mut sampler = Sampler::new(Arc::clone(model), None, limits.clone()).unwrap();
    for (at, request) in requests().into_iter().enumerate() {
        // Beside answers without any.
        let own: Vec<Box<dyn Control>> = match at % 4 {
            3 => Vec::new(),
            _ => vec![Box::new(LatentSteps { rule: rule.clone(), ids })],
        };
        sampler.submit_under(request, own).unwrap();
    }
    let mut ended: BTreeMap<RequestId, Generated> = BTreeMap::new();
    while !sampler.is_idle() {
        ended.extend(sampler.advance().unwrap().into_iter().map(|(id, answer)| (id, answer.unwrap())));
    }
    if limits.cache_bytes.is_some_and(|bytes| bytes < 1 << 20) {
        assert!(sampler.stats().preemptions > 0, "{:?}", sampler.stats());
    }
    ended.into_values().collect()
}

fn steps_of(answer: &Generated) -> Vec<usize> {
    (0..answer.ids.len()).filter(|&at| answer.ids[at] == STEP).collect()
}

#[test]
fn spans_have_their_lengths_and_only_what_the_model_said_is_its_own() {
    let model = latent_model();
    let ids = ids(&model);
    let mut lengths = BTreeMap::new();
    let mut forced = 0;
    for answer in sample(&model, &spans(1, 3), &Limits::default()) {
        let Some(sources) = &answer.sources else {
            assert!(answer.latents.is_empty() && steps_of(&answer).is_empty());
            continue;
        };
        assert_eq!(answer.latents.len(), 32 * steps_of(&answer).len());
        let mut length = None;
        for (at, (&id, source)) in answer.ids.iter().zip(sources).enumerate() {
            assert_eq!(id == STEP, *source == Source::Latent);
            assert!(id != STEP || answer.model_logprobs[at] == 0.0);
            match length {
                Some(steps) if id != STEP => {
                    assert_eq!(id, ids.close, "a span ends with its tag");
                    assert!((1..=3).contains(&steps), "{steps}");
                    assert!(*source == Source::Policy || steps == 3);
                    forced += usize::from(*source == Source::Patch);
                    *lengths.entry(steps).or_insert(0) += 1;
                    length = None;
                }
                Some(steps) => length = Some(steps + 1),
                None => {
                    assert!(id != STEP && *source == Source::Policy, "no step outside of a span");
                    length = (id == ids.open).then_some(0);
                }
            }
        }
    }
    assert!(lengths.len() > 1 && forced > 0, "{lengths:?}, {forced}");
}

#[test]
fn batches_threads_and_preemption_change_no_bit_of_latent_steps() {
    let model = latent_model();
    for rule in [spans(2, 5), Latent { place: LatentPlace::Start, ..spans(0, 4) }] {
        let with = |batch_max: usize, threads: usize, cache_bytes: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let limits = Limits { batch_max, cache_bytes: Some(cache_bytes), ..Limits::default() };
            pool.install(|| sample(&model, &rule, &limits))
        };
        let all = Limits::CACHE_BYTES;
        let expected = with(1, 1, all);
        assert!(expected.iter().map(|answer| steps_of(answer).len()).sum::<usize>() > 20);
        assert_eq!(with(16, 1, all), expected);
        assert_eq!(with(16, 2, all), expected);
        assert_eq!(with(5, 3, all), expected);
        assert_eq!(with(16, 2, 120_000), expected, "{rule:?}");
    }
}

#[test]
fn what_is_decoded_step_by_step_is_what_a_pass_over_everything_computes() {
    let model = latent_model();
    for rule in [spans(1, 4), Latent { place: LatentPlace::Start, ..spans(0, 3) }] {
        let answers = sample(&model, &rule, &Limits::default());
        for (request, answer) in requests().iter().zip(&answers) {
            let steps = steps_of(answer);
            let whole: Vec<u32> = [&request.prompt[..], &answer.ids].concat();
            let rows: Vec<u32> = steps.iter().map(|at| (request.prompt.len() + at) as u32).collect();
            let positions: Arc<[u32]> = (0..whole.len() as u32).collect();
            let layout = Arc::new(Layout::causal(&[whole.len()]));
            let packed = Packed { layout, shape: model.head_shape() };
            let mut tape = Tape::inference(&model.params);
            let stops = LatentGradient::Stops;
            let hidden = model.forward_latent(&mut tape, &whole, &positions, &packed, &rows, stops);
            let width = hidden.cols();
            for (own, row) in answer.latents.chunks_exact(width).zip(&rows) {
                let before = &hidden.data()[(*row as usize - 1) * width..][..width];
                assert!(own.iter().zip(before).all(|(a, b)| (a - b).abs() < 1e-4));
            }
            let logits = model.logits(&mut tape, &hidden);
            for (at, &id) in answer.ids.iter().enumerate().filter(|(_, id)| **id != STEP) {
                let row = request.prompt.len() + at - 1;
                let row = &logits.data()[row * VOCAB..][..VOCAB];
                let sum: f64 =
                    (0..VOCAB).filter(|id| *id != STEP as usize).map(|id| f64::from(row[id]).exp()).sum();
                let logprob = f64::from(row[id as usize]) - sum.ln();
                let own = f64::from(answer.model_logprobs[at]);
                assert!((logprob - own).abs() < 1e-4, "{logprob} and {own}");
            }
        }
    }
}

#[test]
fn an_identity_changes_no_bit_and_other_interventions_do() {
    let model = latent_model();
    let with = |intervention| sample(&model, &Latent { intervention, ..spans(2, 4) }, &Limits::default());
    let plain = with(None);
    assert_eq!(with(Some(Intervention::Identity)), plain);
    for other in [Intervention::Zero, Intervention::RandomNorm, Intervention::Skip] {
        let answers = with(Some(other));
        let changed = answers.iter().zip(&plain).filter(|(a, b)| a.ids != b.ids).count();
        assert!(changed > 3, "{other:?}: {changed}");
        let norms = |answers: &[Generated]| -> Vec<f64> {
            let latents = answers.iter().filter_map(|answer| answer.latents.chunks_exact(32).next());
            latents.map(|x| x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt()).collect()
        };
        match other {
            Intervention::Zero => assert!(norms(&answers).iter().all(|norm| *norm == 0.0)),
            // The first step of each answer follows the same tokens.
            Intervention::RandomNorm => {
                let pairs = norms(&answers).into_iter().zip(norms(&plain)).collect::<Vec<_>>();
                assert!(pairs.iter().all(|(a, b)| (a / b - 1.0).abs() < 1e-5), "{pairs:?}");
            }
            _ => assert!(answers.iter().all(|answer| answer.latents.is_empty())),
        }
    }
}

#[test]
fn filler_steps_read_the_embedding_of_their_token() {
    let model = latent_model();
    let rule = Latent { place: LatentPlace::Start, input: LatentInput::Filler, ..spans(0, 3) };
    let answers = sample(&model, &rule, &Limits::default());
    for (at, (request, answer)) in
        requests().into_iter().zip(&answers).enumerate().filter(|(at, _)| at % 4 != 3)
    {
        assert!(answer.ids.starts_with(&[STEP; 3]) && answer.latents.is_empty());
        // The same as if the tokens were part of the prompt.
        let prompt = [&request.prompt[..], &[STEP; 3]].concat();
        let logits = full_logits(&model, &prompt);
        let row = &logits[(prompt.len() - 1) * VOCAB..];
        let max = row.iter().copied().fold(f32::MIN, f32::max);
        let others = (0..VOCAB).filter(|id| *id != STEP as usize);
        let sum: f32 = others.map(|id| (row[id] - max).exp()).sum();
        let logprob = row[answer.ids[3] as usize] - max - sum.ln();
        assert!((logprob - answer.model_logprobs[3]).abs() < 1e-4, "{at}");
    }
}

#[test]
fn latent_steps_that_can_not_be_are_refused_by_name() {
    let chat = chat();
    let mut model = model_of(400, 200, 32);
    model.restrict_vocab(|id| chat.can_be_sampled(id));
    let model = Arc::new(model);
    let sampling = Sampling { latent: Some(spans(0, 2)), ..Sampling::greedy(9) };
    let mut policy = LocalPolicy::new(&model, &chat, 0);
    let error = act(&mut policy, &mut Trace::new(), &[Message::user("a hole")], &sampling, 1).unwrap_err();
    assert!(error.to_string().contains("no <swi>, </swi>, <latent>"), "{error}");

    let model = latent_model();
    let mut sampler = Sampler::new(Arc::clone(&model), None, Limits::default()).unwrap();
    let ids = LatentIds { open: 1, close: 2, step: STEP };
    let own = || Box::new(LatentSteps { rule: spans(0, 2), ids }) as Box<dyn Control>;
    let plain = request(vec![1, 2], Sampling::greedy(3), 1);
    let error = sampler.submit_under(plain, vec![own(), own()]).unwrap_err().to_string();
    assert!(error.contains("two of its controls decide on latent steps"), "{error}");
    let later = request(vec![1, STEP, 2], Sampling::greedy(3), 1);
    let error = sampler.submit_under(later, vec![own()]).unwrap_err().to_string();
    assert!(error.contains("conversations with one answer"), "{error}");
}

#[test]
fn a_policy_records_where_it_was_latent_and_what_it_read() {
    let special: Vec<&str> =
        ["<|im_start|>", "<|im_end|>", "<|pad|>"].into_iter().chain(LATENT_TOKENS).collect();
    let tokenizer =
        Tokenizer::train_bpe(&["the robot moves left, right, up or down"], 280, &special).unwrap();
    let chat =
        Arc::new(Chat::new(tokenizer, ChatTemplate::chatml().unwrap(), &["<|im_end|>"], "<|pad|>").unwrap());
    let mut model = model_of(400, 200, 32);
    model.restrict_vocab(|id| chat.can_be_sampled(id));
    let model = Arc::new(model);
    let mut policy = LocalPolicy::new(&model, &chat, 0);
    let rule = Latent { place: LatentPlace::Start, ..spans(0, 3) };
    let sampling = Sampling { latent: Some(rule), ..Sampling::at(1.0, 9) };
    // Nothing is said of it while the answer is read, either.
    let mut reading =
        LocalPolicy::new(&model, &chat, 0).with_limits(Limits { round_steps_max: 1, ..Limits::default() });
    let id = reading.submit(turn(Trace::new(), &[Message::user("left")], &sampling, 1));
    while reading.progress(Duration::ZERO).is_empty() {
        assert!(!reading.partial(id).unwrap().text.contains("<latent>"));
    }
    let mut trace = Trace::new();
    let output = act(&mut policy, &mut trace, &[Message::user("left")], &sampling, 1).unwrap();
    assert!(!output.message.content.contains("<latent>"), "{}", output.message.content);
    let branch = trace.branches().remove(0);
    let first = branch.turns[0].start;
    assert_eq!(branch.latents.iter().map(|step| step.at).collect::<Vec<_>>(), [first, first + 1, first + 2]);
    assert!(branch.latents.iter().all(|step| step.input.len() == 32));
    assert_eq!(branch.sampled_mask[first..first + 4], [false, false, false, true]);
    assert!(branch.sources[first..first + 3].iter().all(|source| *source == Source::Latent));
}
