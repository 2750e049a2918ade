//! The open batch: requests come and go, and beginnings that were read before are not read again. The answers do not
//! show it.

use crate::common::{VOCAB, act, chat, model, model_of, prompt, request, run, turn};
use burnish_core::{Message, Policy, Sampling, Trace, rng};
use burnish_engine::{Generated, Limits, LocalPolicy, Request, RequestId, Sampler};
use burnish_model::Model;
use burnish_tensor::Precision;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// Bytes of a page of [`model`]: two layers of keys and values, 2 heads of 16 columns, 16 tokens, in f32.
const PAGE: usize = 2 * 2 * 32 * 16 * 4;

const LONG: usize = 400;

static MODELS: LazyLock<[Arc<Model>; 2]> = LazyLock::new(|| {
    [Precision::F32, Precision::Bf16].map(|precision| {
        let mut model = model_of(VOCAB, LONG, 32);
        model.params = model.params.in_precision(precision);
        Arc::new(model)
    })
});

/// The answer to a request that has a model to itself.
fn alone(model: &Arc<Model>, request: &Request) -> Generated {
    run(model, std::slice::from_ref(request), &Limits::default()).0.remove(0)
}

fn bits(answer: &Generated) -> (&[u32], Vec<u32>) {
    (&answer.ids, answer.model_logprobs.iter().map(|logprob| logprob.to_bits()).collect())
}

fn drain(sampler: &mut Sampler) -> BTreeMap<RequestId, Generated> {
    let mut answers = BTreeMap::new();
    while !sampler.is_idle() {
        answers.extend(sampler.advance().unwrap().into_iter().map(|(id, answer)| (id, answer.unwrap())));
    }
    answers
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Conversations that grow, fork and share their beginnings, in any order and however split into passes, in a cache
    /// of any size, some cancelled under way: every answer is that of a fresh model, to the bit.
    #[test]
    fn what_was_read_before_changes_no_bit(
        seed in 0u64..1_000, precision in 0usize..2, spare in 0usize..40, batch_max in 1usize..9,
        prefill_tokens_max in 1usize..200, threads in 1usize..4,
    ) {
        let model = &MODELS[precision];
        let cache_bytes = (LONG.div_ceil(16) + 2 + spare) * PAGE;
        let limits = Limits { batch_max, prefill_tokens_max, cache_bytes: Some(cache_bytes), ..Limits::default() };
        let mut stream = rng::Stream::new(seed);
        let mut known: Vec<Vec<u32>> = (0..3).map(|at| prompt(seed + at, 1 + stream.index(120))).collect();
        let mut sampler = Sampler::new(Arc::clone(model), None, limits).unwrap();
        let mut asked: BTreeMap<RequestId, Request> = BTreeMap::new();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            for at in 0..30 {
                // Continues from some tokens of an earlier conversation.
                let from = &known[stream.index(known.len())];
                let kept = 1 + stream.index(from.len());
                let more = prompt(1_000 * seed + at, stream.index(40));
                let prompt: Vec<u32> = from[..kept].iter().copied().chain(more).take(LONG - 20).collect();
                let sampling = Sampling::at(1.0, 1 + stream.index(20));
                let request = Request { end_ids: Arc::from([3]), ..request(prompt, sampling, at) };
                let id = sampler.submit(request.clone()).unwrap();
                asked.insert(id, request);
                if stream.index(6) == 0 {
                    assert!(sampler.cancel(id));
                    asked.remove(&id);
                }
                for _ in 0..stream.index(4) {
                    for (id, answer) in sampler.advance().unwrap() {
                        let (answer, request) = (answer.unwrap(), &asked[&id]);
                        assert_eq!(bits(&answer), bits(&alone(model, request)));
                        known.push([&request.prompt[..], &answer.ids].concat());
                    }
                }
            }
            for (id, answer) in drain(&mut sampler) {
                assert_eq!(bits(&answer), bits(&alone(model, &asked[&id])));
            }
        });
        let stats = sampler.stats();
        prop_assert!(stats.cache_bytes <= cache_bytes);
        prop_assert!(stats.prompt_tokens_read > 0);
    }
}

#[test]
fn a_later_turn_reads_what_is_new_and_siblings_read_what_they_share_once() {
    let model = &MODELS[0];
    let mut sampler = Sampler::new(Arc::clone(model), None, Limits::default()).unwrap();
    let system = prompt(1, 100);
    let with = |tail: u64| [&system[..], &prompt(tail, 20)].concat();
    // Four prompts of 120 tokens begin with the same 100, of which 96 fill pages.
    for tail in 2..6 {
        sampler.submit(request(with(tail), Sampling::at(1.0, 8), tail)).unwrap();
    }
    let answers = drain(&mut sampler);
    let stats = sampler.stats();
    assert_eq!((stats.prompt_tokens, stats.prompt_tokens_read), (480, 120 + 3 * 24));
    // The next turn reads the last answer and what came after it, from the last full page on.
    let next = [&with(2)[..], &answers.values().next().unwrap().ids, &prompt(9, 30)].concat();
    let length = next.len();
    sampler.submit(request(next, Sampling::at(1.0, 2), 0)).unwrap();
    drain(&mut sampler);
    assert_eq!(sampler.stats().prompt_tokens_read - stats.prompt_tokens_read, length - 112);
    // Of a prompt that was read before, only the last token's page is read again.
    sampler.submit(request(with(3), Sampling::at(1.0, 2), 0)).unwrap();
    drain(&mut sampler);
    assert_eq!(sampler.stats().prompt_tokens_read - stats.prompt_tokens_read, length - 112 + 8);
}

#[test]
fn arrivals_join_at_the_end_of_a_round_and_whoever_is_given_up_is_gone() {
    let model = model();
    let mut sampler = Sampler::new(Arc::clone(&model), None, Limits::default()).unwrap();
    let ask = |seed| request(prompt(seed, 5), Sampling::at(1.0, 40), seed);
    let first = sampler.submit(ask(1)).unwrap();
    assert!(sampler.advance().unwrap().is_empty());
    let (second, third) = (sampler.submit(ask(2)).unwrap(), sampler.submit(ask(3)).unwrap());
    assert!(sampler.advance().unwrap().is_empty());
    assert!(sampler.cancel(first), "it is under way");
    assert!(!sampler.cancel(first), "it is gone");
    assert!(sampler.cancel(third));
    let answers = drain(&mut sampler);
    assert_eq!(answers.keys().collect::<Vec<_>>(), [&second]);
    assert_eq!(bits(&answers[&second]), bits(&alone(&model, &ask(2))));
    assert!(!sampler.cancel(second), "it is over");
    assert!(sampler.is_idle() && sampler.advance().unwrap().is_empty());
}

#[test]
fn one_request_that_fails_takes_no_other_with_it() {
    let mut config = model().config.clone();
    config.tie_word_embeddings = false;
    let mut model = Model::init(config, 5);
    let embedding = model.params.entries()[0].param;
    model.params.get_mut(embedding)[7 * embedding.cols..][..embedding.cols].fill(f32::NAN);
    let mut sampler = Sampler::new(Arc::new(model), None, Limits::default()).unwrap();
    let bad = sampler.submit(request(vec![1, 7], Sampling::at(1.0, 3), 0)).unwrap();
    let good = sampler.submit(request(vec![1, 2], Sampling::greedy(2), 0)).unwrap();
    let mut ended = Vec::new();
    while !sampler.is_idle() {
        ended.extend(sampler.advance().unwrap());
    }
    let of = |id| &ended.iter().find(|(ended, _)| *ended == id).unwrap().1;
    assert!(of(bad).is_err());
    assert_eq!(of(good).as_ref().unwrap().ids.len(), 2);
}

#[test]
fn a_policy_takes_turns_at_any_time_and_reads_no_turn_twice() {
    let chat = chat();
    let mut model = model_of(400, LONG, 32);
    model.restrict_vocab(|id| chat.tokenizer.id_exists(id));
    let model = Arc::new(model);
    let sampling = Sampling::at(1.0, 10);
    let question = |text: &str| vec![Message::user(text)];
    let mut policy = LocalPolicy::new(&model, &chat, 0);
    let first = policy.submit(turn(Trace::new(), &question("the goal is left"), &sampling, 1));
    let given_up = policy.submit(turn(Trace::new(), &question("a hole"), &sampling, 2));
    assert!(policy.cancel(given_up) && !policy.cancel(given_up));
    let second = policy.submit(turn(Trace::new(), &question("up or down"), &sampling, 3));
    let mut answered = BTreeMap::new();
    loop {
        let over = policy.wait();
        if over.is_empty() {
            break;
        }
        answered.extend(over.into_iter().map(|it| (it.id, (it.trace, it.result.unwrap()))));
    }
    assert_eq!(answered.keys().copied().collect::<Vec<_>>(), [first, second]);
    for (id, text, seed) in [(first, "the goal is left", 1), (second, "up or down", 3)] {
        let mut alone = Trace::new();
        let mut other = LocalPolicy::new(&model, &chat, 0);
        let output = act(&mut other, &mut alone, &question(text), &sampling, seed).unwrap();
        assert_eq!((&answered[&id].0, &answered[&id].1), (&alone, &output));
    }
    // Ten turns of one conversation.
    let mut trace = Trace::new();
    let mut messages = question("the robot moves left, right, up or down");
    let before = policy.stats();
    for seed in 0..10 {
        let output = act(&mut policy, &mut trace, &messages, &Sampling::at(1.0, 6), seed).unwrap();
        messages.extend([output.message, Message::user("and then")]);
    }
    let stats = policy.stats();
    let (all, read) =
        (stats.prompt_tokens - before.prompt_tokens, stats.prompt_tokens_read - before.prompt_tokens_read);
    assert!(read * 3 < all, "{read} of {all} tokens were read");
}
