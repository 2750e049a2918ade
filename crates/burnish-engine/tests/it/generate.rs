//! What `generate` promises, on a small random model.

use crate::common::*;
use burnish_core::{Sampling, SamplingError, StopReason, rng};
use burnish_engine::{Chooser, EngineError, Generated, Limits, Past, Request, generate};
use burnish_model::{Model, Packed};
use burnish_tensor::{Layout, Precision, Tape};
use std::sync::Arc;

fn ids(answers: &[Generated]) -> Vec<&[u32]> {
    answers.iter().map(|answer| answer.ids.as_slice()).collect()
}

/// Equal ids, and log-probs equal to the bit.
fn assert_same_answers(a: &[Generated], b: &[Generated]) {
    assert_eq!(ids(a), ids(b));
    for (a, b) in a.iter().zip(b) {
        assert_eq!(a.stop, b.stop);
        let bits = |answer: &Generated| answer.model_logprobs.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(a), bits(b));
    }
}

#[test]
fn every_token_is_chosen_with_the_random_number_of_its_seed_and_position() {
    let model = model();
    let requests = mixed_requests();
    let (answers, _) = run(&model, &requests, &Limits::default());
    for (request, answer) in requests.iter().zip(&answers) {
        let sequence = [request.prompt.as_slice(), &answer.ids].concat();
        let logits = full_logits(&model, &sequence);
        for (i, &id) in answer.ids.iter().enumerate() {
            let row = &logits[(request.prompt.len() + i - 1) * VOCAB..][..VOCAB];
            let uniform = rng::uniform(request.seed, i as u64);
            let mut chooser = Chooser::default();
            let expected =
                chooser.choose(row, model.vocab(), &request.sampling, Past::default(), uniform).unwrap();
            assert_eq!(id, expected.id, "position {i} of seed {}", request.seed);
            assert!((answer.model_logprobs[i] - expected.model_logprob).abs() < 1e-5);
        }
    }
}

#[test]
fn what_a_request_gets_does_not_depend_on_what_else_is_in_the_batch() {
    let model = model();
    let requests = mixed_requests();
    let (together, _) = run(&model, &requests, &Limits::default());
    let alone: Vec<Generated> = requests
        .iter()
        .flat_map(|request| run(&model, std::slice::from_ref(request), &Limits::default()).0)
        .collect();
    assert_same_answers(&together, &alone);
}

#[test]
fn joining_and_leaving_change_no_answer() {
    let model = model();
    let requests = mixed_requests();
    let (together, wide) = run(&model, &requests, &Limits::default());
    for batch_max in [1, 3, 7] {
        let limits = Limits { batch_max, prefill_tokens_max: 20, ..Limits::default() };
        let (few, narrow) = run(&model, &requests, &limits);
        assert_same_answers(&together, &few);
        assert_eq!(narrow.sampled_tokens, wide.sampled_tokens);
        assert_eq!(narrow.prompt_tokens, wide.prompt_tokens);
    }
}

/// Enough rows for shards and for split products, some packed weights and one that is read once, more than one block of
/// the inner dimension, and prompts longer than a block of the cache.
#[test]
fn log_probs_are_bit_equal_at_any_batch_size_order_and_thread_count() {
    for precision in [Precision::F32, Precision::Bf16] {
        let mut model = model_of(33_000, CONTEXT, 128);
        model.params = model.params.in_precision(precision);
        assert!(model.params.elements(model.head().base).len() > 1 << 22);
        let model = Arc::new(model);
        let requests: Vec<Request> = (0..24)
            .map(|i| Request {
                prompt: prompt(i / 2, 1 + (7 * i as usize) % 40),
                sampling: Sampling::at(1.0, 1 + (5 * i as usize) % 12),
                seed: i,
                end_ids: Arc::from([]),
            })
            .collect();
        let with = |threads, requests: &[Request], batch_max| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let limits = Limits { batch_max, prefill_tokens_max: 100, ..Limits::default() };
            pool.install(|| run(&model, requests, &limits).0)
        };
        let expected = with(1, &requests, 1);
        for (threads, batch_max) in [(1, 24), (2, 24), (2, 9), (3, 24), (2, 3)] {
            assert_same_answers(&expected, &with(threads, &requests, batch_max));
        }
        let reversed: Vec<Request> = requests.iter().rev().cloned().collect();
        let mut answers = with(2, &reversed, 10);
        answers.reverse();
        assert_same_answers(&expected, &answers);
    }
}

#[test]
fn no_step_is_spent_on_sequences_that_ended() {
    let model = model();
    let bounds = [2, 9, 1, 5, 4];
    let requests: Vec<Request> =
        (0..5).map(|i| request(prompt(i, 3), Sampling::at(1.0, bounds[i as usize]), i)).collect();
    let (answers, stats) = run(&model, &requests, &Limits { batch_max: 2, ..Limits::default() });
    assert_eq!(answers.iter().map(|answer| answer.ids.len()).collect::<Vec<_>>(), bounds);
    // The first token of an answer comes from its prefill, so the longest takes 8 steps in one place, and the others
    // take 1 + 0 + 4 + 3 = 8 steps in the other.
    assert_eq!(stats.steps, 8);
    assert_eq!(stats.sampled_tokens, 21);

    // A thread that could continue alone does not do so while a request waits for a place that is free after one step.
    let bounds = [2, 9, 9, 9, 8];
    let requests: Vec<Request> =
        (0..5).map(|i| request(prompt(i, 3), Sampling::at(1.0, bounds[i as usize]), i)).collect();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let (_, stats) = pool.install(|| run(&model, &requests, &Limits { batch_max: 4, ..Limits::default() }));
    assert_eq!((stats.steps, stats.sampled_tokens), (8, 37));
}

#[test]
fn requests_with_one_prompt_share_its_prefill_and_nothing_else() {
    let model = model();
    let group: Vec<Request> =
        (0..8).map(|seed| request(prompt(1, 12), Sampling::at(1.0, 20), seed)).collect();
    let (shared, stats) = run(&model, &group, &Limits::default());
    assert_eq!(stats.prompt_tokens_read, 12);
    let separate: Vec<Generated> = group
        .iter()
        .flat_map(|request| run(&model, std::slice::from_ref(request), &Limits::default()).0)
        .collect();
    assert_same_answers(&shared, &separate);
    assert_ne!(shared[0].ids, shared[1].ids);
}

#[test]
fn the_same_schedule_is_bit_equal_at_any_thread_count() {
    // Wide enough that products are split over threads.
    let model = Arc::new(model_of(VOCAB, CONTEXT, 256));
    let requests = mixed_requests();
    let limits = Limits { batch_max: 20, ..Limits::default() };
    let with_threads = |n| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap();
        pool.install(|| run(&model, &requests, &limits))
    };
    let bits = |answers: &[Generated]| -> Vec<Vec<u32>> {
        answers.iter().map(|answer| answer.model_logprobs.iter().map(|x| x.to_bits()).collect()).collect()
    };
    let (one, _) = with_threads(1);
    for threads in [2, 3] {
        let (many, _) = with_threads(threads);
        assert_eq!(one, many);
        assert_eq!(bits(&one), bits(&many));
    }
}

#[test]
fn the_trainer_recomputes_the_log_probabilities_of_the_sampler() {
    let mut model = model_of(VOCAB, CONTEXT, 32);
    model.restrict_vocab(|id| id % 5 != 0);
    let model = Arc::new(model);
    let requests = mixed_requests();
    let (answers, _) = run(&model, &requests, &Limits::default());
    for (request, answer) in requests.iter().zip(&answers) {
        let scored = score(&model, request, answer);
        for (i, (sampler, trainer)) in answer.model_logprobs.iter().zip(scored).enumerate() {
            assert!((sampler - trainer).abs() < 1e-5, "position {i}: {sampler} {trainer}");
        }
    }
}

/// Log-probs of an answer as the trainer computes them: one recording pass over the whole sequence.
fn score(model: &Model, request: &Request, answer: &Generated) -> Vec<f32> {
    let sequence = [request.prompt.as_slice(), &answer.ids].concat();
    let positions: Arc<[u32]> = (0..sequence.len() as u32).collect();
    let mut packed =
        Packed { layout: Arc::new(Layout::causal(&[sequence.len()])), shape: model.head_shape() };
    let mut tape = Tape::recording(&model.params);
    let hidden = model.forward(&mut tape, &sequence, &positions, &mut packed);
    let start = request.prompt.len() as u32 - 1;
    let rows: Vec<u32> = (start..start + answer.ids.len() as u32).collect();
    let hidden = tape.gather(&hidden, &rows);
    let temperatures = vec![request.sampling.temperature; rows.len()];
    tape.token_scores(&hidden, model.head(), &answer.ids, &temperatures, model.vocab()).logprobs
}

#[test]
fn excluded_ids_are_not_sampled() {
    let mut model = model_of(VOCAB, CONTEXT, 32);
    model.restrict_vocab(|id| id % 7 == 2);
    let model = Arc::new(model);
    let (answers, _) = run(&model, &mixed_requests(), &Limits::default());
    assert!(answers.iter().flat_map(|answer| &answer.ids).all(|id| id % 7 == 2));
}

#[test]
fn an_answer_ends_with_its_end_token_or_is_marked_as_truncated() {
    let model = model();
    let free = request(prompt(2, 10), Sampling::greedy(20), 0);
    let (answers, _) = run(&model, std::slice::from_ref(&free), &Limits::default());
    assert_eq!((answers[0].ids.len(), answers[0].stop), (20, StopReason::TokensMax));

    // An id that greedy decoding produces serves as the end token.
    let end = answers[0].ids[6];
    let first = answers[0].ids.iter().position(|&id| id == end).unwrap();
    let ended = Request { end_ids: Arc::from([end]), ..free.clone() };
    let (stopped, _) = run(&model, &[ended], &Limits::default());
    assert_eq!(stopped[0].ids, answers[0].ids[..=first]);
    assert_eq!(stopped[0].stop, StopReason::EndToken);

    let (bounded, _) = run(
        &model,
        std::slice::from_ref(&free),
        &Limits { context_tokens_max: Some(15), ..Limits::default() },
    );
    assert_eq!(bounded[0].ids, answers[0].ids[..5]);
    assert_eq!(bounded[0].stop, StopReason::ContextFull);
}

#[test]
fn an_answer_fills_the_models_context_window_and_no_more() {
    let model = model();
    let long = request(prompt(2, CONTEXT - 1), Sampling::greedy(20), 0);
    let longer = request(prompt(2, CONTEXT - 4), Sampling::greedy(20), 0);
    let limits = Limits { context_tokens_max: Some(10 * CONTEXT), ..Limits::default() };
    let (answers, _) = run(&model, &[long, longer], &limits);
    assert_eq!((answers[0].ids.len(), answers[0].stop), (1, StopReason::ContextFull));
    assert_eq!((answers[1].ids.len(), answers[1].stop), (4, StopReason::ContextFull));
}

#[test]
fn no_requests_give_no_answers() {
    let (answers, stats) = run(&model(), &[], &Limits::default());
    assert!(answers.is_empty());
    assert_eq!(stats, burnish_engine::Stats::default());
}

#[test]
fn requests_that_can_not_be_answered_are_named() {
    let model = model();
    let good = request(vec![1], Sampling::at(1.0, 2), 0);
    let fails = |bad: Request| {
        generate(&model, None, &[good.clone(), bad], &Limits::default()).expect_err("the request is bad")
    };
    assert_eq!(fails(Request { prompt: vec![], ..good.clone() }), EngineError::EmptyPrompt { request: 1 });
    assert_eq!(
        fails(Request { prompt: vec![1, 97], ..good.clone() }),
        EngineError::UnknownId { request: 1, position: 1, id: 97, vocab_size: 97 }
    );
    assert_eq!(
        fails(Request { prompt: prompt(1, CONTEXT), ..good.clone() }),
        EngineError::PromptTooLong { request: 1, tokens: CONTEXT, tokens_max: CONTEXT - 1 }
    );
    assert_eq!(
        fails(Request { sampling: Sampling::at(-1.0, 2), ..good.clone() }),
        EngineError::Sampling {
            request: 1,
            source: SamplingError { field: "temperature", range: "0 or more" }
        }
    );
    let limits = Limits { batch_max: 0, ..Limits::default() };
    assert_eq!(
        generate(&model, None, &[good], &limits).unwrap_err(),
        EngineError::Limit { field: "batch_max" }
    );
}

#[test]
fn weights_that_diverged_are_an_error() {
    let mut model = model_of(VOCAB, CONTEXT, 32);
    let head = model.head();
    model.params.get_mut(head.base)[0] = f32::NAN;
    let error =
        generate(&Arc::new(model), None, &[request(vec![1], Sampling::at(1.0, 2), 0)], &Limits::default());
    assert_eq!(error.unwrap_err(), EngineError::NotFinite { request: 0, position: 0 });

    // Sequences that can't continue after reading a certain token: the error names the first request, at any number of
    // threads.
    let mut untied = self::model().config.clone();
    untied.tie_word_embeddings = false;
    let mut model = Model::init(untied, 5);
    let embedding = model.params.entries()[0].param;
    let row = &mut model.params.get_mut(embedding)[7 * embedding.cols..][..embedding.cols];
    row.fill(f32::NAN);
    let model = Arc::new(model);
    let requests: Vec<Request> = (0..24).map(|seed| request(vec![1], Sampling::at(1.0, 40), seed)).collect();
    let with_threads = |n| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap();
        pool.install(|| generate(&model, None, &requests, &Limits::default()).unwrap_err())
    };
    let one = with_threads(1);
    assert!(matches!(one, EngineError::NotFinite { position: 2.., .. }), "{one:?}");
    assert_eq!([with_threads(2), with_threads(3)], [one.clone(), one]);
}
