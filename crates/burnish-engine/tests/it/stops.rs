//! Stop strings, stop tokens, `min_tokens`, penalties and details, as a request asks for them.

use crate::common::{VOCAB, chat, full_logits, model, model_of, prompt, request, run};
use burnish_core::{Message, Sampling, Source, StopReason, Trace};
use burnish_engine::{Chooser, EngineError, Limits, LocalPolicy, Past, Request, Seen, generate};
use burnish_model::{Chat, Model};
use std::sync::Arc;

/// A model that samples printable ASCII and `<|im_end|>`.
fn model_of_chat(chat: &Chat) -> Arc<Model> {
    let mut model = model_of(300, 300, 32);
    model.restrict_vocab(|id| {
        let is_text = |text: String| text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        id != 0 && id != 2 && chat.tokenizer.token(id).is_some_and(is_text)
    });
    Arc::new(model)
}

fn act(
    chat: &Arc<Chat>,
    model: &Arc<Model>,
    trace: &mut Trace,
    messages: &[Message],
    sampling: &Sampling,
) -> Acted {
    let mut policy = LocalPolicy::new(model, chat, 0);
    let output = crate::common::act(&mut policy, trace, messages, sampling, 4).unwrap();
    let node = trace.nodes().last().unwrap();
    Acted {
        text: output.message.content.clone(),
        output,
        ids: node.ids.clone(),
        node_text: node.text.clone(),
    }
}

struct Acted {
    output: burnish_core::TurnOutput,
    text: String,
    ids: Vec<u32>,
    node_text: String,
}

#[test]
fn a_stop_string_cuts_the_message_and_not_the_record() {
    let chat = chat();
    let model = model_of_chat(&chat);
    let messages = [Message::user("left")];
    let free = Sampling { ignore_eos: true, ..Sampling::at(1.0, 40) };
    let whole = act(&chat, &model, &mut Trace::new(), &messages, &free);
    assert_eq!(whole.output.stop, StopReason::TokensMax);
    // Across a token boundary: the end of one token and the beginning of the next.
    let borders: Vec<usize> =
        (0..=40).map(|n| chat.tokenizer.decode(&whole.ids[..n], false).unwrap().len()).collect();
    let stop = whole.text[borders[20] - 1..borders[20] + 1].to_owned();
    let at = whole.text.find(&stop).unwrap();
    let tokens = borders.iter().position(|&border| border >= at + stop.len()).unwrap();

    for include_stop in [false, true] {
        let mut trace = Trace::new();
        let sampling =
            Sampling { stop: vec!["no such text".into(), stop.clone()], include_stop, ..free.clone() };
        let cut = act(&chat, &model, &mut trace, &messages, &sampling);
        assert_eq!(cut.output.stop, StopReason::StopString);
        assert!(!cut.output.stop.is_truncated() && !trace.branches()[0].is_truncated);
        assert_eq!(cut.ids, whole.ids[..tokens]);
        assert_eq!(cut.text, whole.text[..at + if include_stop { stop.len() } else { 0 }]);
        assert_eq!(cut.node_text, cut.text);
        assert!(trace.nodes()[1].sources.iter().all(|source| *source == Source::Policy));

        // The next turn reads all that was sampled, and then the template's end of the answer.
        let read_and_said = trace.head_ids();
        let messages = [messages[0].clone(), cut.output.message, Message::user("and then")];
        act(&chat, &model, &mut trace, &messages, &sampling);
        assert_eq!(trace.head_ids()[..read_and_said.len()], read_and_said);
        assert_eq!(trace.branches().len(), 1);
        assert!(trace.nodes()[2].text.starts_with("<|im_end|>\n<|im_start|>user\nand then"));
    }
}

#[test]
fn stop_tokens_end_an_answer_and_the_message_does_not_have_them() {
    let chat = chat();
    let model = model_of_chat(&chat);
    let messages = [Message::user("left")];
    let free = Sampling { ignore_eos: true, ..Sampling::at(1.0, 30) };
    let whole = act(&chat, &model, &mut Trace::new(), &messages, &free);
    let end = whole.ids[9];
    let first = whole.ids.iter().position(|&id| id == end).unwrap();
    let said = |ids: &[u32]| chat.tokenizer.decode(ids, false).unwrap();

    let mut trace = Trace::new();
    let sampling = Sampling { stop_token_ids: vec![1, end], ..free.clone() };
    let cut = act(&chat, &model, &mut trace, &messages, &sampling);
    assert_eq!((cut.output.stop, cut.ids.as_slice()), (StopReason::EndToken, &whole.ids[..=first]));
    assert_eq!(cut.text, said(&whole.ids[..first]));
    let sampling = Sampling { include_stop: true, ..sampling };
    assert_eq!(act(&chat, &model, &mut Trace::new(), &messages, &sampling).text, said(&whole.ids[..=first]));

    let unknown = Sampling { stop_token_ids: vec![300], ..Sampling::at(1.0, 2) };
    let error = generate(&model, None, &[request(vec![5], unknown, 0)], &Limits::default()).unwrap_err();
    assert_eq!(error.to_string(), "request 0: sampling.stop_token_ids must be ids that the model knows");
}

#[test]
fn no_end_comes_before_min_tokens() {
    let model = model();
    // Half of the vocabulary ends an answer.
    let end_ids: Arc<[u32]> = (0..40).collect();
    for min_tokens in [0, 1, 5] {
        let mut lens = Vec::new();
        for seed in 0..20 {
            let stop_token_ids = (40..50).collect();
            let sampling = Sampling { min_tokens, stop_token_ids, ..Sampling::at(1.0, 30) };
            let request = Request { prompt: prompt(seed, 4), sampling, seed, end_ids: Arc::clone(&end_ids) };
            let (answers, _) = run(&model, &[request], &Limits::default());
            let early = answers[0].ids.iter().take(min_tokens).filter(|&&id| id < 50).count();
            assert_eq!(early, 0, "{min_tokens}: {:?}", answers[0].ids);
            assert_eq!(answers[0].stop, StopReason::EndToken);
            lens.push(answers[0].ids.len());
        }
        assert_eq!(lens.iter().min(), Some(&(min_tokens + 1)));
    }
}

#[test]
fn end_tokens_are_like_others_where_they_are_ignored() {
    let model = model();
    let free = request(prompt(2, 10), Sampling::at(1.0, 20), 6);
    let (expected, _) = run(&model, std::slice::from_ref(&free), &Limits::default());
    let all: Arc<[u32]> = (0..VOCAB as u32).collect();
    let ended = Request { end_ids: Arc::clone(&all), ..free.clone() };
    assert_eq!(run(&model, &[ended], &Limits::default()).0[0].ids.len(), 1);
    let sampling = Sampling { ignore_eos: true, ..free.sampling.clone() };
    let ignored = Request { end_ids: all, sampling, ..free };
    assert_eq!(run(&model, &[ignored], &Limits::default()).0, expected);
}

#[test]
fn stop_strings_without_a_tokenizer_are_refused() {
    let sampling = Sampling { stop: vec!["x".into()], ..Sampling::at(1.0, 2) };
    let error = generate(&model(), None, &[request(vec![1], sampling, 0)], &Limits::default()).unwrap_err();
    assert_eq!(error, EngineError::NoTokenizer { request: 0 });
}

/// Recomputes each token from the logits of one pass over the whole sequence and the tokens before it.
#[test]
fn penalties_go_by_the_prompt_and_the_answer_so_far_and_the_record_by_neither() {
    let model = model();
    let sampling = Sampling {
        repetition_penalty: 1.3,
        presence_penalty: 0.4,
        frequency_penalty: 0.7,
        logprobs: Some(4),
        ..Sampling::at(0.9, 25)
    };
    let requests: Vec<Request> = (0..6).map(|i| request(prompt(i / 2, 9), sampling.clone(), i)).collect();
    let (answers, _) = run(&model, &requests, &Limits::default());
    let plain: Vec<Request> = requests
        .iter()
        .map(|asked| request(asked.prompt.clone(), Sampling::at(0.9, 25), asked.seed))
        .collect();
    assert_ne!(run(&model, &plain, &Limits::default()).0[0].ids, answers[0].ids);
    let mut chooser = Chooser::default();
    for (request, answer) in requests.iter().zip(&answers) {
        let logits = full_logits(&model, &[request.prompt.as_slice(), &answer.ids].concat());
        let mut seen = Seen::in_prompt(&request.prompt);
        for (i, &id) in answer.ids.iter().enumerate() {
            let row = &logits[(request.prompt.len() + i - 1) * VOCAB..][..VOCAB];
            let past = Past { seen: Some(&seen), steer: None };
            let uniform = burnish_core::rng::uniform(request.seed, i as u64);
            let expected = chooser.choose(row, model.vocab(), &sampling, past, uniform).unwrap();
            let details = chooser.details(row, expected, 4);
            assert_eq!(id, expected.id);
            assert!((answer.model_logprobs[i] - expected.model_logprob).abs() < 1e-5);
            let ours = &answer.details[i];
            assert_eq!((ours.rank, ours.top.len()), (details.rank, 4));
            assert!((ours.sampled - details.sampled).abs() < 1e-5);
            assert!(ours.top.iter().zip(&details.top).all(|(x, y)| x.0 == y.0 && (x.1 - y.1).abs() < 1e-5));
            // The recorded log-prob is that of the plain softmax.
            let exp = |logit: f32| f64::from(logit / 0.9).exp();
            let p = exp(row[id as usize]) / row.iter().map(|&logit| exp(logit)).sum::<f64>();
            assert!((f64::from(answer.model_logprobs[i]) - p.ln()).abs() < 1e-5);
            seen.push(id);
        }
    }
}

#[test]
fn a_turn_reports_details_only_when_asked() {
    let chat = chat();
    let model = model_of_chat(&chat);
    let messages = [Message::user("left")];
    let plain = Sampling::at(1.0, 10);
    let without = act(&chat, &model, &mut Trace::new(), &messages, &plain);
    assert!(without.output.logprobs.is_empty());
    let mut trace = Trace::new();
    let with = act(&chat, &model, &mut trace, &messages, &Sampling { logprobs: Some(2), ..plain });
    assert_eq!(with.ids, without.ids);
    assert_eq!(with.output.logprobs.len(), with.ids.len());
    let recorded = &trace.nodes()[1].sampled.as_ref().unwrap().model_logprobs;
    for (details, &logprob) in with.output.logprobs.iter().zip(recorded) {
        assert_eq!(details.sampled, logprob);
        assert_eq!(details.top.len(), 2);
        assert_eq!(details.rank == 1, details.top[0].1 == logprob);
    }
}
