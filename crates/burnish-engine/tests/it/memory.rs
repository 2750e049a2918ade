//! A bounded cache: requests wait, sequences leave and come back, and the answers do not show it.

use crate::common::*;
use burnish_core::{Sampling, StopReason};
use burnish_engine::{EngineError, Limits, Request, Stats, generate};
use proptest::prelude::*;
use std::sync::{Arc, LazyLock};

/// Bytes of a page of [`model`]: two layers of keys and values, 2 heads of 16 columns, 16 tokens, in f32.
const PAGE: usize = 2 * 2 * 32 * 16 * 4;

static MODEL: LazyLock<Arc<burnish_model::Model>> = LazyLock::new(model);

fn pages(count: usize) -> Limits {
    Limits { cache_bytes: Some(count * PAGE), ..Limits::default() }
}

/// Pages that a request needs if it is alone and as long as it may become.
fn needs(request: &Request) -> usize {
    let answer = request.sampling.tokens_max.min(CONTEXT - request.prompt.len()) - 1;
    request.prompt.len().div_ceil(16) + answer.div_ceil(16)
}

/// Like [`mixed_requests`], with penalties and details that depend on what was sampled before a preemption.
fn requests(count: u64) -> Vec<Request> {
    (0..count)
        .map(|i| Request {
            prompt: prompt(i / 3, 1 + (5 * i as usize / 3) % 30),
            sampling: Sampling {
                repetition_penalty: [1.0, 1.2][i as usize % 2],
                frequency_penalty: [0.0, 0.5, 0.0][i as usize % 3],
                min_tokens: i as usize % 4,
                logprobs: (i % 4 == 0).then_some(3),
                ..Sampling::at([0.7, 1.0, 1.3][i as usize % 3], 8 + (11 * i as usize) % 40)
            },
            seed: 100 + i,
            end_ids: Arc::from([3]),
        })
        .collect()
}

/// Equal tokens, and every number equal to the bit.
fn assert_same(requests: &[Request], bounded: &Limits, free: &Limits) -> (Stats, Stats) {
    let (expected, roomy) = run(&MODEL, requests, free);
    let (answers, tight) = run(&MODEL, requests, bounded);
    for (a, b) in answers.iter().zip(&expected) {
        assert_eq!((&a.ids, a.stop), (&b.ids, b.stop));
        assert_eq!((a.model_logprobs.len(), a.details.len()), (b.model_logprobs.len(), b.details.len()));
        assert!(a.model_logprobs.iter().zip(&b.model_logprobs).all(|(x, y)| x.to_bits() == y.to_bits()));
        assert_eq!(a.sampled_logprobs, b.sampled_logprobs);
        for (a, b) in a.details.iter().zip(&b.details) {
            assert_eq!(a.sampled.to_bits(), b.sampled.to_bits());
        }
    }
    assert!(bounded.cache_bytes.is_some_and(|bytes| tight.cache_bytes <= bytes), "{tight:?}");
    assert_eq!(tight.sampled_tokens, roomy.sampled_tokens);
    (tight, roomy)
}

#[test]
fn with_the_least_memory_requests_wait_leave_and_come_back_with_the_same_answers() {
    let requests = requests(30);
    let least = requests.iter().map(needs).max().unwrap();
    let (tight, roomy) = assert_same(&requests, &pages(least), &Limits::default());
    assert_eq!((roomy.waits, roomy.preemptions, roomy.recomputed_tokens), (0, 0, 0));
    assert!(tight.waits > 10 && tight.preemptions > 0 && tight.recomputed_tokens > 0, "{tight:?}");
    assert!(tight.steps > roomy.steps && roomy.cache_bytes > least * PAGE, "{tight:?} {roomy:?}");
    // Room for all means: a page to spare for each sequence that continues, and one for each that ends at once.
    let all = roomy.cache_bytes / PAGE + 2 * requests.len();
    let (same, _) = assert_same(&requests, &pages(all), &Limits::default());
    assert_eq!((same.waits, same.preemptions, same.cache_bytes), (0, 0, roomy.cache_bytes));
}

#[test]
fn one_request_at_a_time_where_there_is_room_for_one() {
    // Prompts fill one page, answers up to two more.
    let requests: Vec<Request> =
        (0..5).map(|seed| request(prompt(seed, 16), Sampling::at(1.0, 33), seed)).collect();
    let (stats, _) = assert_same(&requests, &pages(3), &Limits::default());
    assert_eq!(stats.cache_bytes, 3 * PAGE);
    assert_eq!((stats.waits, stats.steps), (4, 5 * 32));
    assert_eq!((stats.preemptions, stats.recomputed_tokens), (0, 0));
}

#[test]
fn a_group_that_shares_its_prompt_holds_it_once() {
    // 3 pages for the prompt and one per answer.
    let group: Vec<Request> =
        (0..6).map(|seed| request(prompt(1, 48), Sampling::at(1.0, 16), seed)).collect();
    let (answers, stats) = run(&MODEL, &group, &Limits::default());
    assert!(answers.iter().all(|answer| answer.stop == StopReason::TokensMax));
    assert_eq!(stats.cache_bytes, (3 + 6) * PAGE);
    assert_same(&group, &pages(5), &Limits::default());
}

#[test]
fn a_request_that_can_never_fit_is_refused_with_the_least_value() {
    let fits = request(prompt(1, 3), Sampling::at(1.0, 5), 0);
    let large = request(prompt(1, 33), Sampling::at(1.0, 18), 0);
    let fails = |limits: &Limits| generate(&MODEL, None, &[fits.clone(), large.clone()], limits).err();
    let least_bytes = 5 * PAGE;
    assert_eq!(
        fails(&pages(4)),
        Some(EngineError::CacheTooSmall {
            request: 1,
            tokens: 33,
            answer_tokens: 18,
            least_bytes,
            cache_bytes: 4 * PAGE
        })
    );
    let error = fails(&Limits { cache_bytes: Some(0), ..Limits::default() }).unwrap().to_string();
    assert!(
        error.contains("request 0") && error.contains("set `rollout.cache_mib` to 1 at least"),
        "{error}"
    );
    assert_eq!(fails(&pages(5)), None);
    assert!(fails(&Limits { cache_bytes: Some(least_bytes - 1), ..Limits::default() }).is_some());
}

#[test]
fn preemptions_are_the_same_at_any_thread_count() {
    let requests = requests(20);
    let limits = pages(requests.iter().map(needs).max().unwrap() + 1);
    let with_threads = |n| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap();
        pool.install(|| run(&MODEL, &requests, &limits))
    };
    let one = with_threads(1);
    assert!(one.1.preemptions > 0);
    for threads in [2, 5] {
        assert_eq!(with_threads(threads), one);
    }
}

#[test]
fn threads_that_go_on_by_themselves_take_the_same_steps_and_the_same_memory() {
    // So few sequences at the end that threads work on each together, from a moment that depends on the number of
    // threads.
    let requests = requests(20);
    let with_threads = |n| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap();
        pool.install(|| run(&MODEL, &requests, &Limits::default()))
    };
    let (answers, stats) = with_threads(1);
    let longest = answers.iter().map(|answer| answer.ids.len()).max().unwrap();
    // One round of steps and one more: the first token of each comes from its prompt.
    assert!(longest > 2 + 16, "{longest}");
    assert_eq!(stats.steps, longest - 1);
    let all: usize = requests.iter().map(needs).sum();
    assert!(stats.cache_bytes <= all * PAGE, "{stats:?}");
    for threads in [2, 3, 5, 8] {
        assert_eq!(with_threads(threads), (answers.clone(), stats));
    }
}

#[test]
fn going_through_sequences_in_parts_changes_nothing() {
    // 48 times some 540 tokens of 512 bytes: one thread goes through them in three parts, two threads in two each.
    let model = Arc::new(model_of(VOCAB, 600, 32));
    let requests: Vec<Request> =
        (0..48).map(|seed| request(prompt(seed, 500), Sampling::at(1.0, 40), seed)).collect();
    let with = |threads, limits: Limits| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| run(&model, &requests, &limits))
    };
    let one = with(1, Limits::default());
    assert_eq!(with(2, Limits::default()), one);
    assert_eq!(with(1, Limits { batch_max: 4, ..Limits::default() }).0, one.0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_bound_changes_an_answer(
        count in 1u64..24,
        spare in 0usize..12,
        batch_max in 1usize..20,
        prefill_tokens_max in 1usize..80,
    ) {
        let requests = requests(count);
        let least = requests.iter().map(needs).max().unwrap();
        let limits = Limits { batch_max, prefill_tokens_max, ..pages(least + spare) };
        assert_same(&requests, &limits, &Limits::default());
    }
}
