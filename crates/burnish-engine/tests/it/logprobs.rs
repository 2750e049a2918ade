//! The two log-probs of an answer: the model's, and the one with which each token was drawn.

use crate::common::{act, chat, model, model_of, prompt, run};
use burnish_core::{Message, Sampling, Trace};
use burnish_engine::{Limits, LocalPolicy, Request};
use std::sync::Arc;

/// Ways to sample, each with whether it can draw a token from a distribution other than the model's.
fn ways() -> Vec<(Sampling, bool)> {
    let plain = Sampling { logprobs: Some(0), ..Sampling::at(0.8, 12) };
    let with = |change: fn(&mut Sampling)| {
        let mut sampling = plain.clone();
        change(&mut sampling);
        sampling
    };
    vec![
        (plain.clone(), false),
        (with(|it| it.temperature = 1.0), false),
        (with(|it| it.ignore_eos = true), false),
        (with(|it| it.stop_token_ids = vec![4]), false),
        (with(|it| it.temperature = 0.0), true),
        (with(|it| it.top_k = 5), true),
        (with(|it| it.top_p = 0.7), true),
        (with(|it| it.min_p = 0.1), true),
        (with(|it| it.repetition_penalty = 1.3), true),
        (with(|it| it.presence_penalty = 0.5), true),
        (with(|it| it.frequency_penalty = -0.5), true),
        (with(|it| it.min_tokens = 3), true),
        (with(|it| (it.top_k, it.top_p, it.frequency_penalty) = (30, 0.9, 0.7)), true),
    ]
}

#[test]
fn what_a_token_was_drawn_with_is_kept_where_it_can_differ_from_the_models_and_nowhere_else() {
    let model = model();
    for (sampling, is_altering) in ways() {
        let requests: Vec<Request> = (0..6)
            .map(|seed| Request {
                prompt: prompt(seed, 9),
                sampling: sampling.clone(),
                seed,
                end_ids: Arc::from([3]),
            })
            .collect();
        let mut differs = false;
        for answer in run(&model, &requests, &Limits::default()).0 {
            let drawn: Vec<f32> = answer.details.iter().map(|details| details.sampled).collect();
            assert_eq!(answer.model_logprobs.len(), answer.ids.len());
            assert_eq!(answer.sampled_logprobs.is_some(), is_altering, "{sampling:?}");
            differs |= drawn != answer.model_logprobs;
            assert_eq!(answer.sampled_logprobs.unwrap_or(answer.model_logprobs), drawn, "{sampling:?}");
            assert!(sampling.temperature > 0.0 || drawn.iter().all(|logprob| *logprob == 0.0));
        }
        assert_eq!(differs, is_altering, "{sampling:?}");
    }
}

#[test]
fn where_nothing_ends_an_answer_min_tokens_forbids_nothing() {
    let sampling = Sampling { min_tokens: 3, ..Sampling::at(1.0, 6) };
    let request = Request { prompt: prompt(1, 4), sampling, seed: 2, end_ids: Arc::from([]) };
    let (answers, _) = run(&model(), std::slice::from_ref(&request), &Limits::default());
    assert_eq!(answers[0].sampled_logprobs, None);
    let sampling = Sampling { stop_token_ids: vec![4], ..request.sampling.clone() };
    let (answers, _) = run(&model(), &[Request { sampling, ..request }], &Limits::default());
    assert!(answers[0].sampled_logprobs.is_some());
}

#[test]
fn both_are_in_the_record_of_a_turn() {
    let chat = chat();
    let mut model = model_of(300, 200, 32);
    model.restrict_vocab(|id| chat.tokenizer.id_exists(id));
    let model = Arc::new(model);
    let mut policy = LocalPolicy::new(&model, &chat, 0);
    for (sampling, is_altering) in ways() {
        let mut trace = Trace::new();
        let output = act(&mut policy, &mut trace, &[Message::user("left")], &sampling, 5).unwrap();
        let sampled = trace.nodes()[1].sampled.as_ref().unwrap();
        assert_eq!(sampled.sampled_logprobs.is_some(), is_altering, "{sampling:?}");
        let drawn: Vec<f32> = output.logprobs.iter().map(|details| details.sampled).collect();
        let branch = trace.branches().remove(0);
        let answer = branch.ids.len() - drawn.len()..;
        assert_eq!(branch.sampled_logprobs[answer.clone()], drawn);
        assert_eq!(branch.model_logprobs[answer], sampled.model_logprobs);
    }
}
