//! Answers that are read, or ended, while they are sampled.

use crate::common::{chat, mixed_requests, model, model_of, run, turn};
use burnish_core::{Answered, Message, Piece, Policy, Sampling, StopReason, Streaming, Trace, Turn, TurnId};
use burnish_engine::{Limits, LocalPolicy};
use burnish_model::{Chat, Model};
use std::sync::Arc;
use std::time::Duration;

fn one_step() -> Limits {
    Limits { round_steps_max: 1, ..Limits::default() }
}

fn policy(chat: &Arc<Chat>) -> LocalPolicy {
    let mut model = model_of(400, 300, 32);
    model.restrict_vocab(|id| chat.tokenizer.id_exists(id));
    let model: Arc<Model> = Arc::new(model);
    LocalPolicy::new(&model, chat, 0).with_limits(one_step())
}

/// Follows a turn to its end; returns what it had said after each step.
fn follow(policy: &mut LocalPolicy, turn: Turn) -> (Vec<String>, Answered) {
    let id = policy.submit(turn);
    let mut said = Vec::new();
    loop {
        if let Some(answered) = policy.progress(Duration::ZERO).pop() {
            assert!(policy.partial(id).is_none());
            return (said, answered);
        }
        said.push(policy.partial(id).unwrap().text.to_owned());
    }
}

#[test]
fn a_round_of_one_step_samples_the_same_bits() {
    let (model, requests) = (model(), mixed_requests());
    let (expected, stats) = run(&model, &requests, &Limits::default());
    let (answers, slow) = run(&model, &requests, &one_step());
    assert_eq!(answers, expected);
    assert_eq!(slow.sampled_tokens, stats.sampled_tokens);
    assert!(
        LocalPolicy::new(&model, &chat(), 0)
            .with_limits(Limits { round_steps_max: 0, ..one_step() })
            .poll()
            .is_empty()
    );
    let none = Limits { round_steps_max: 0, ..Limits::default() };
    let error = burnish_engine::generate(&model, None, &requests, &none).unwrap_err().to_string();
    assert!(error.contains("round_steps_max"), "{error}");
}

#[test]
fn what_was_said_so_far_only_grows_and_is_a_beginning_of_the_answer() {
    let chat = chat();
    let mut policy = policy(&chat);
    for seed in 0..20 {
        // Bytes that are no text, and characters in pieces, are likely from such a model.
        let sampling = Sampling { ignore_eos: seed % 2 == 0, ..Sampling::at(1.5, 60) };
        let prefix = if seed % 3 == 0 {
            vec![chat.tokenizer.piece_of_text("a hole in ").unwrap()]
        } else {
            Vec::new()
        };
        let begun: String = prefix.iter().map(|piece: &Piece| piece.text.as_str()).collect();
        let asked = Turn { prefix, ..turn(Trace::new(), &[Message::user("up")], &sampling, seed) };
        let (said, answered) = follow(&mut policy, asked.clone());
        let content = answered.result.unwrap().message.content;
        let mut before = "";
        for text in &said {
            assert!(text.starts_with(before), "{before:?} {text:?}");
            before = text;
        }
        assert!(content.starts_with(&format!("{begun}{before}")), "{content:?} {before:?}");
        // The same answer as without anybody reading it.
        policy.submit(asked);
        assert_eq!(policy.wait().remove(0).result.unwrap().message.content, content);
        assert!(said.len() < 10 || said.windows(2).filter(|pair| pair[0] != pair[1]).count() > 3, "{said:?}");
    }
}

#[test]
fn what_may_become_a_stop_string_is_held_back() {
    let chat = chat();
    let mut policy = policy(&chat);
    let asks = |sampling: &Sampling| turn(Trace::new(), &[Message::user("left")], sampling, 3);
    let plain = Sampling { ignore_eos: true, ..Sampling::at(1.0, 40) };
    let (_, answered) = follow(&mut policy, asks(&plain));
    let content = answered.result.unwrap().message.content;
    // A stop string of several characters, from the middle of the answer.
    let mut ends = content.char_indices().map(|(at, _)| at).skip(content.chars().count() / 2);
    let (from, to) = (ends.next().unwrap(), ends.nth(5).unwrap());
    let stop = content[from..to].to_owned();
    let at = content.find(&stop).unwrap();
    let (said, answered) = follow(&mut policy, asks(&Sampling { stop: vec![stop], ..plain }));
    let output = answered.result.unwrap();
    assert_eq!((output.stop, output.message.content.as_str()), (StopReason::StopString, &content[..at]));
    assert!(said.iter().all(|text| content[..at].starts_with(text.as_str())), "{said:?}");
}

#[test]
fn a_turn_that_is_ended_comes_back_with_what_it_has_said_and_can_be_gone_on_from() {
    let chat = chat();
    let mut policy = policy(&chat);
    let sampling = Sampling { ignore_eos: true, ..Sampling::at(1.0, 100) };
    let asks = |trace, messages: &[Message]| turn(trace, messages, &sampling, 3);
    let mut messages = vec![Message::user("left")];
    let id = policy.submit(asks(Trace::new(), &messages));
    // Nothing was said: nothing comes back.
    assert!(!policy.stop(id) && policy.wait().is_empty());
    let id = policy.submit(asks(Trace::new(), &messages));
    for _ in 0..7 {
        assert!(policy.progress(Duration::ZERO).is_empty());
    }
    let said = policy.partial(id).unwrap().text.to_owned();
    assert!(policy.stop(id) && !policy.stop(id));
    let Answered { id: ended, trace, result } = policy.progress(Duration::ZERO).remove(0);
    let output = result.unwrap();
    assert_eq!((ended, output.stop), (id, StopReason::Control));
    assert!(output.message.content.starts_with(&said) && !said.is_empty(), "{said:?}");
    let read = trace.head_ids();
    messages.extend([output.message, Message::user("and then")]);
    policy.submit(asks(trace, &messages));
    let after = policy.wait().remove(0).trace;
    assert_eq!(after.head_ids()[..read.len()], read, "what was sampled is not tokenised again");
    assert!(policy.partial(TurnId(99)).is_none() && !policy.stop(TurnId(99)));
}
