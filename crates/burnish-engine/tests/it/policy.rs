//! What `LocalPolicy` promises, with ChatML and a small random model.

use crate::common::{act, chat, model_of, turn};
use burnish_core::{
    Message, NodeId, Piece, Policy, PolicyError, Sampled, Sampling, Source, StopReason, Trace, Turn,
    answer_all,
};
use burnish_engine::{Limits, LocalPolicy};
use burnish_model::{Chat, Model};
use std::sync::Arc;

const CONTEXT: usize = 200;

/// The head has more rows than the tokenizer has ids.
fn model(chat: &Chat) -> Arc<Model> {
    let mut model = model_of(400, CONTEXT, 32);
    model.restrict_vocab(|id| chat.tokenizer.id_exists(id));
    Arc::new(model)
}

#[test]
fn a_turn_records_what_was_read_and_what_was_sampled() {
    let chat = chat();
    let model = model(&chat);
    let mut policy = LocalPolicy::new(&model, &chat, 7);
    let mut trace = Trace::new();
    let messages = [Message::user("the goal is left")];
    let output = act(&mut policy, &mut trace, &messages, &Sampling::at(0.8, 12), 1).unwrap();

    assert_eq!(policy.version(), 7);
    let [prompt, answer] = trace.nodes() else { panic!("{} nodes", trace.nodes().len()) };
    assert_eq!(prompt.text, "<|im_start|>user\nthe goal is left<|im_end|>\n<|im_start|>assistant\n");
    assert!(prompt.sampled.is_none());
    let sampled = answer.sampled.as_ref().unwrap();
    assert_eq!((sampled.policy_version, sampled.temperature), (7, 0.8));
    assert_eq!(sampled.model_logprobs.len(), answer.ids.len());
    assert_eq!(sampled.stop, output.stop);
    assert!(answer.sources.iter().all(|source| *source == Source::Policy));
    assert!(answer.ids.iter().all(|&id| chat.tokenizer.id_exists(id)));
    assert_eq!(policy.stats().prompt_tokens_read, prompt.ids.len());
    assert_eq!(policy.stats().sampled_tokens, answer.ids.len());
}

#[test]
fn a_greedy_turn_is_recorded_at_temperature_one() {
    let chat = chat();
    let model = model(&chat);
    let mut trace = Trace::new();
    let mut policy = LocalPolicy::new(&model, &chat, 0);
    act(&mut policy, &mut trace, &[Message::user("up")], &Sampling::greedy(3), 1).unwrap();
    assert_eq!(trace.nodes()[1].sampled.as_ref().unwrap().temperature, 1.0);
}

#[test]
fn the_next_turn_reads_the_very_ids_that_were_sampled() {
    let chat = chat();
    let model = model(&chat);
    let mut policy = LocalPolicy::new(&model, &chat, 0);
    let sampling = Sampling::at(1.0, 15);
    for seed in 0..8 {
        let mut trace = Trace::new();
        let mut messages = vec![Message::user("down or right")];
        let first = act(&mut policy, &mut trace, &messages, &sampling, seed).unwrap();
        let read_and_said = trace.head_ids();
        messages.extend([first.message, Message::user("and then")]);
        act(&mut policy, &mut trace, &messages, &sampling, seed).unwrap();
        assert_eq!(trace.head_ids()[..read_and_said.len()], read_and_said);
        assert_eq!(trace.branches().len(), 1);
    }
}

#[test]
fn the_beginning_of_an_answer_is_read_and_returned_but_never_sampled() {
    let chat = chat();
    let model = model(&chat);
    let mut policy = LocalPolicy::new(&model, &chat, 0);
    let mut messages = vec![Message::user("the goal is left")];
    let sampling = Sampling::at(1.0, 6);
    let prefix = vec![chat.tokenizer.piece_of_text("a hole in ").unwrap()];
    let begun = Turn { prefix, ..turn(Trace::new(), &messages, &sampling, 3) };
    let (mut trace, output) = answer_all(&mut policy, [begun]).pop().unwrap();
    let output = output.unwrap();
    let [prompt, hint, answer] = trace.nodes() else { panic!("{} nodes", trace.nodes().len()) };
    assert!(hint.sources.iter().all(|source| *source == Source::Hint) && hint.sampled.is_none());
    assert_eq!(chat.tokenizer.decode(&hint.ids, false).unwrap(), "a hole in ");
    assert!(output.message.content.starts_with("a hole in ") && output.message.content.len() > 10);
    let branch = &trace.branches()[0];
    let read = prompt.ids.len() + hint.ids.len();
    assert_eq!(branch.ids[read..], answer.ids);
    assert!(branch.sampled_mask[read..].iter().all(|&is_sampled| is_sampled));
    assert!(branch.sampled_mask[..read].iter().all(|&is_sampled| !is_sampled));
    // The next turn reads the given beginning and what was sampled as one answer.
    let before = trace.head_ids();
    messages.extend([output.message, Message::user("and then")]);
    act(&mut policy, &mut trace, &messages, &sampling, 4).unwrap();
    assert_eq!(trace.head_ids()[..before.len()], before);
    assert_eq!(trace.branches().len(), 1);
}

#[test]
fn a_turn_that_fails_leaves_its_trace_and_the_other_turns_as_they_are() {
    let chat = chat();
    let model = model(&chat);
    let good = Sampling::at(1.0, 10);
    let bad = Sampling { top_p: 0.0, ..good.clone() };
    let short = [Message::user("left")];
    let long = [Message::user("zq".repeat(CONTEXT))];
    let asked = [(&short, &good, 5), (&long, &good, 6), (&short, &bad, 7), (&short, &good, 8)];
    let turns = asked.map(|(messages, sampling, seed)| turn(Trace::new(), messages, sampling, seed));
    let (traces, outputs): (Vec<_>, Vec<_>) =
        answer_all(&mut LocalPolicy::new(&model, &chat, 0), turns).into_iter().unzip();

    assert!(
        matches!(outputs[1], Err(PolicyError::PromptTooLong { tokens, tokens_max: 199 }) if tokens > 400),
        "{outputs:?}"
    );
    assert!(matches!(outputs[2], Err(PolicyError::Sampling(_))));
    assert_eq!((&traces[1], &traces[2]), (&Trace::new(), &Trace::new()));
    for (at, seed) in [(0, 5), (3, 8)] {
        let mut alone = Trace::new();
        let mut policy = LocalPolicy::new(&model, &chat, 0);
        let expected = act(&mut policy, &mut alone, &short, &good, seed).unwrap();
        assert_eq!(outputs[at].as_ref().unwrap(), &expected);
        assert_eq!(traces[at].head_ids(), alone.head_ids());
    }
}

#[test]
fn a_bound_on_the_context_cuts_answers_and_refuses_prompts() {
    let chat = chat();
    let model = model(&chat);
    let messages = [Message::user("left")];
    let mut trace = Trace::new();
    let prompt_len = chat.extend(&mut trace, &messages, &[]).unwrap().len();
    let at_most = |tokens| Limits { context_tokens_max: Some(tokens), ..Limits::default() };

    let mut policy = LocalPolicy::new(&model, &chat, 0).with_limits(at_most(prompt_len + 2));
    let output = act(&mut policy, &mut trace, &messages, &Sampling::at(1.0, 50), 3).unwrap();
    assert_eq!(output.stop, StopReason::ContextFull);
    assert!(trace.branches()[0].is_truncated);
    assert_eq!(trace.sampled_tokens(), 2);

    let mut policy = LocalPolicy::new(&model, &chat, 0).with_limits(at_most(prompt_len));
    let refused = act(&mut policy, &mut Trace::new(), &messages, &Sampling::at(1.0, 50), 3);
    assert!(matches!(refused, Err(PolicyError::PromptTooLong { .. })), "{refused:?}");
}

/// Random bytes are mostly no text, so most cuts fall inside a would-be character.
#[test]
fn an_answer_goes_on_from_any_place_within_another_with_the_others_ids() {
    let chat = chat();
    let model = model(&chat);
    let mut policy = LocalPolicy::new(&model, &chat, 3);
    let sampling = Sampling::at(1.3, 14);
    let question = [Message::user("down or right")];
    let mut inside = 0;
    for seed in 0..6 {
        let mut parent = Trace::new();
        act(&mut policy, &mut parent, &question, &sampling, seed).unwrap();
        let answer = parent.nodes().last().unwrap().clone();
        let own = answer.sampled.clone().unwrap();
        for cut in 1..answer.ids.len() {
            let piece = chat.tokenizer.piece_of_ids(&answer.ids[..cut]).unwrap();
            inside += usize::from(chat.tokenizer.decode(&answer.ids[..cut], false).unwrap() != piece.text);
            let sampled = Sampled { model_logprobs: own.model_logprobs[..cut].to_vec(), ..own.clone() };
            let prefix = vec![Piece { sampled: Some(sampled), ..piece }];
            let before = parent.before(1, Some(NodeId(0))).unwrap();
            let child = Turn { prefix, ..turn(before, &question, &sampling, 100 + seed) };
            let (mut trace, output) = answer_all(&mut policy, [child]).pop().unwrap();
            let output = output.unwrap();
            let read = parent.nodes()[0].ids.len() + cut;
            assert_eq!(trace.head_ids()[..read], parent.head_ids()[..read]);
            let branch = &trace.branches()[0];
            assert_eq!(branch.model_logprobs[read - cut..read], own.model_logprobs[..cut]);
            assert!(branch.sources[read - cut..].iter().all(|source| *source == Source::Policy));
            // The message holds the text of all ids, and the next turn reads them as one answer.
            let said: Vec<u32> = trace.nodes()[1..].iter().flat_map(|node| node.ids.clone()).collect();
            let end = usize::from(output.stop == StopReason::EndToken);
            let whole = chat.tokenizer.decode(&said[..said.len() - end], false).unwrap();
            assert_eq!(output.message.content, whole);
            let so_far = trace.head_ids();
            let messages = [question[0].clone(), output.message, Message::user("and then")];
            act(&mut policy, &mut trace, &messages, &sampling, 7).unwrap();
            assert_eq!(trace.head_ids()[..so_far.len()], so_far);
            assert_eq!(trace.branches().len(), 1);
        }
    }
    assert!(inside > 5, "{inside}");
}
