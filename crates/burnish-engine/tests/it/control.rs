//! Controls: what is steered, forced, ended and asked beside an answer, and answers constrained by a grammar.

use crate::common::*;
use burnish_core::{Grammar, Message, Sampling, StopReason, Trace};
use burnish_engine::{
    Chooser, Control, Decision, EngineError, Generated, Limits, LocalPolicy, Now, Past, Probe, Request,
    RequestId, Sampler, Steer, check_grammar,
};
use burnish_model::Model;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex};

/// Bytes of a page of [`model`]: two layers of keys and values, 2 heads of 16 columns, 16 tokens, in f32.
const PAGE: usize = 2 * 2 * 32 * 16 * 4;

static MODEL: LazyLock<Arc<Model>> = LazyLock::new(model);

type Decide = dyn Fn(&Now<'_>, &mut Steer) -> Result<Decision, String> + Send + Sync;

/// A control that decides by a function.
struct By(Box<Decide>, usize);

impl std::fmt::Debug for By {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("By")
    }
}

impl Control for By {
    fn decide(&mut self, now: &Now<'_>, steer: &mut Steer) -> Result<Decision, String> {
        (self.0)(now, steer)
    }

    fn probe_tokens_max(&self) -> usize {
        self.1
    }
}

fn by(
    decide: impl Fn(&Now<'_>, &mut Steer) -> Result<Decision, String> + Send + Sync + 'static,
) -> Vec<Box<dyn Control>> {
    vec![Box::new(By(Box::new(decide), 0))]
}

type Ended = BTreeMap<RequestId, Result<Generated, EngineError>>;

/// Samples all requests together, each under its controls.
fn run_under(
    requests: Vec<(Request, Vec<Box<dyn Control>>)>,
    limits: &Limits,
) -> Vec<Result<Generated, EngineError>> {
    let mut sampler = Sampler::new(Arc::clone(&MODEL), None, limits.clone()).unwrap();
    for (request, controls) in requests {
        sampler.submit_under(request, controls).unwrap();
    }
    let mut ended = Ended::new();
    while !sampler.is_idle() {
        ended.extend(sampler.advance().unwrap());
    }
    ended.into_values().collect()
}

fn bits(answer: &Generated) -> (&[u32], Vec<u32>, StopReason) {
    (&answer.ids, answer.model_logprobs.iter().map(|logprob| logprob.to_bits()).collect(), answer.stop)
}

#[test]
fn what_is_steered_is_drawn_from_and_the_record_is_of_the_whole_distribution() {
    let steering = |now: &Now<'_>, steer: &mut Steer| {
        steer.allow_only(&(0..VOCAB as u32).filter(|id| id % 3 == 0).collect::<Vec<_>>());
        steer.forbid([now.answer.last().copied().unwrap_or(0)]);
        steer.bias(9, 2.0);
        Ok(Decision::Choose)
    };
    for temperature in [0.0, 0.8] {
        let sampling = Sampling { logprobs: Some(0), ..Sampling::at(temperature, 20) };
        let asked = request(prompt(4, 9), sampling.clone(), 11);
        let answer = run_under(vec![(asked.clone(), by(steering))], &Limits::default()).remove(0).unwrap();
        assert_eq!(answer.ids.len(), 20);
        let logits = full_logits(&MODEL, &[&asked.prompt[..], &answer.ids].concat());
        let mut chooser = Chooser::default();
        for (at, &id) in answer.ids.iter().enumerate() {
            assert!(id % 3 == 0 && (at == 0 || answer.ids[at - 1] != id));
            let row = &logits[(asked.prompt.len() + at - 1) * VOCAB..][..VOCAB];
            let whole = chooser.choose(row, MODEL.vocab(), &sampling, Past::default(), 0.5).unwrap();
            let before = answer.ids[..at].last().copied().unwrap_or(0) as usize;
            let left = |other: usize| other.is_multiple_of(3) && other != before;
            let weight = |other: usize| {
                let logit = row[other] + if other == 9 { 2.0 } else { 0.0 };
                f64::from(logit / if temperature == 0.0 { 1.0 } else { temperature }).exp()
            };
            let total: f64 = (0..VOCAB).filter(|&other| left(other)).map(weight).sum();
            let drawn = if temperature == 0.0 { 0.0 } else { (weight(id as usize) / total).ln() };
            assert!((f64::from(answer.details[at].sampled) - drawn).abs() < 1e-4);
            // The difference of two log-probs of one distribution is that of their logits.
            let scale = if temperature == 0.0 { 1.0 } else { temperature };
            let expected = whole.model_logprob + (row[id as usize] - row[whole.id as usize]) / scale;
            assert!((answer.model_logprobs[at] - expected).abs() < 1e-4);
        }
    }
}

#[test]
fn an_id_can_be_forced_and_an_answer_ended() {
    let forcing = |now: &Now<'_>, _: &mut Steer| {
        Ok(match now.answer.len() {
            2 => Decision::Force(42),
            6 => Decision::Stop,
            _ => Decision::Choose,
        })
    };
    let sampling = Sampling { logprobs: Some(0), ..Sampling::at(1.0, 20) };
    let asked = request(prompt(4, 9), sampling, 11);
    let answer = run_under(vec![(asked.clone(), by(forcing))], &Limits::default()).remove(0).unwrap();
    let plain = run(&MODEL, std::slice::from_ref(&asked), &Limits::default()).0.remove(0);
    assert_eq!((answer.ids.len(), answer.ids[2], answer.stop), (6, 42, StopReason::Control));
    assert_eq!(answer.ids[..2], plain.ids[..2]);
    assert_eq!(answer.details[2].sampled, 0.0);
    assert!(answer.model_logprobs[2] < 0.0);
    let nothing = by(|_, _| Ok(Decision::Stop));
    let answer = run_under(vec![(asked.clone(), nothing)], &Limits::default()).remove(0).unwrap();
    assert!(answer.ids.is_empty() && answer.stop == StopReason::Control);

    for (control, part) in [
        (by(|_, _| Ok(Decision::Force(VOCAB as u32))), "none of the allowed ids"),
        (
            by(|_, steer| {
                steer.allow_only(&[]);
                Ok(Decision::Choose)
            }),
            "none of the allowed ids",
        ),
        (by(|_, _| Err("no more".into())), "no more"),
        (
            by(|_, _| {
                Ok(Decision::Probe(Box::new(Probe { ids: vec![1], sampling: Sampling::greedy(1), seed: 0 })))
            }),
            "probe_tokens_max",
        ),
    ] {
        let other = (request(prompt(5, 3), Sampling::at(1.0, 5), 1), Vec::new());
        let ended = run_under(vec![(asked.clone(), control), other], &Limits::default());
        let error = ended[0].as_ref().unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
        assert_eq!(ended[1].as_ref().unwrap().ids.len(), 5, "the others go on");
    }
}

/// What was asked beside answers: the answer so far, the probe and its result.
type Asked = Arc<Mutex<Vec<(Vec<u32>, Probe, Vec<u32>, Vec<f32>)>>>;

/// Asks a probe before every third token.
fn probing(seed: u64, asked: &Asked) -> Vec<Box<dyn Control>> {
    let asked = Arc::clone(asked);
    let decide = move |now: &Now<'_>, _: &mut Steer| {
        let at = now.answer.len() as u64;
        let sampling = Sampling::at(if at.is_multiple_of(2) { 0.0 } else { 1.0 }, 4);
        let probe = Probe { ids: prompt(seed + at, 1 + at as usize % 3), sampling, seed: seed + at };
        Ok(match now.probed {
            Some(probed) => {
                let so_far = [now.prompt, now.answer].concat();
                asked.lock().unwrap().push((
                    so_far,
                    probe,
                    probed.ids.clone(),
                    probed.model_logprobs.clone(),
                ));
                Decision::Choose
            }
            None if at.is_multiple_of(3) => Decision::Probe(Box::new(probe)),
            None => Decision::Choose,
        })
    };
    vec![Box::new(By(Box::new(decide), 7))]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Answers with probes, in batches with others, in a cache of any size: each equals, to the bit, that of a request
    /// without probes, and each probe is answered as if it had been asked alone.
    #[test]
    fn a_probe_leaves_its_answer_as_it_is(seed in 0u64..1_000, spare in 0usize..12, batch_max in 1usize..9) {
        let asked = Asked::default();
        let requests: Vec<Request> = (0..7)
            .map(|at| Request {
                end_ids: Arc::from([3]),
                ..request(prompt(seed + at / 2, 1 + (seed + at) as usize % 20), Sampling::at(1.0, 24), seed + at)
            })
            .collect();
        let expected = run(&MODEL, &requests, &Limits::default()).0;
        let controls = |at: usize| if at % 3 == 2 { Vec::new() } else { probing(seed + 100 * at as u64, &asked) };
        let under = requests.iter().cloned().enumerate().map(|(at, request)| (request, controls(at))).collect();
        let limits = Limits { batch_max, cache_bytes: Some((2 + 2 + 2 + spare) * PAGE), ..Limits::default() };
        let answers = run_under(under, &limits);
        for (answer, expected) in answers.iter().zip(&expected) {
            prop_assert_eq!(bits(answer.as_ref().unwrap()), bits(expected));
        }
        let asked = asked.lock().unwrap();
        prop_assert!(asked.len() >= 5);
        for (so_far, probe, ids, logprobs) in asked.iter() {
            let prompt = [&so_far[..], &probe.ids].concat();
            let alone = Request { prompt, sampling: probe.sampling.clone(), seed: probe.seed, end_ids: Arc::from([3]) };
            let alone = run(&MODEL, &[alone], &Limits::default()).0.remove(0);
            prop_assert_eq!(&alone.ids, ids);
            prop_assert!(alone.model_logprobs.iter().zip(logprobs).all(|(a, b)| (a - b).abs() < 1e-4));
        }
    }
}

#[test]
fn a_control_that_changes_nothing_changes_no_bit() {
    let requests = mixed_requests();
    let expected = run(&MODEL, &requests, &Limits::default()).0;
    let idle = || by(|_, _| Ok(Decision::Choose));
    let answers = run_under(requests.into_iter().map(|asked| (asked, idle())).collect(), &Limits::default());
    for (answer, expected) in answers.iter().zip(&expected) {
        assert_eq!(bits(answer.as_ref().unwrap()), bits(expected));
    }
}

fn chat_model() -> (Arc<Model>, Arc<burnish_model::Chat>) {
    let chat = chat();
    let mut model = model_of(400, 200, 32);
    model.restrict_vocab(|id| chat.tokenizer.id_exists(id));
    (Arc::new(model), chat)
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "move": {"enum": ["left", "right", "up", "down"]},
            "steps": {"$ref": "#/$defs/count"},
            "said": {"type": "string", "maxLength": 6},
        },
        "$defs": {"count": {"type": "integer", "minimum": 1, "maximum": 20}},
        "required": ["move", "steps", "said"],
        "additionalProperties": false,
    })
}

fn is_of_the_schema(text: &str) -> bool {
    let Ok(Value::Object(said)) = serde_json::from_str(text) else { return false };
    let moves = ["left", "right", "up", "down"];
    said.len() == 3
        && said["move"].as_str().is_some_and(|way| moves.contains(&way))
        && said["steps"].as_u64().is_some_and(|steps| (1..=20).contains(&steps))
        && said["said"].as_str().is_some_and(|text| text.chars().count() <= 6)
}

/// A random model says only what its grammar allows, whatever the seed, and both log-probs are right.
#[test]
fn an_answer_is_held_to_its_grammar() {
    let (model, chat) = chat_model();
    let regex = Grammar::Regex("(left|right) [1-9][0-9]{0,2}(, (up|down) [0-9]+){1,2}!?".into());
    let is_move = |text: &str| {
        let parts: Vec<&str> = text.trim_end_matches('!').split(", ").collect();
        let is_count = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let first = parts[0].split_once(' ').unwrap();
        ["left", "right"].contains(&first.0)
            && is_count(first.1)
            && (2..=3).contains(&parts.len())
            && parts[1..].iter().all(|part| {
                part.split_once(' ')
                    .is_some_and(|(way, count)| ["up", "down"].contains(&way) && is_count(count))
            })
    };
    let mut whole = [0; 2];
    for seed in 0..20 {
        for (kind, grammar) in [regex.clone(), Grammar::JsonSchema(schema())].into_iter().enumerate() {
            let sampling = Sampling { grammar: Some(grammar), logprobs: Some(0), ..Sampling::at(0.7, 120) };
            let mut policy = LocalPolicy::new(&model, &chat, 0);
            let mut trace = Trace::new();
            let output =
                act(&mut policy, &mut trace, &[Message::user("which way?")], &sampling, seed).unwrap();
            if output.stop == StopReason::EndToken {
                whole[kind] += 1;
                let text = &output.message.content;
                let holds = if kind == 0 { is_move(text) } else { is_of_the_schema(text) };
                assert!(holds, "{text:?}");
            } else {
                assert_eq!(output.stop, StopReason::TokensMax);
            }
            let sampled = trace.nodes()[1].sampled.as_ref().unwrap();
            let logits = full_logits(&model, &trace.head_ids());
            let start = trace.nodes()[0].ids.len();
            let drawn: Vec<f32> = output.logprobs.iter().map(|details| details.sampled).collect();
            assert_eq!(sampled.sampled_logprobs.as_ref(), Some(&drawn));
            let pairs = trace.nodes()[1].ids.iter().zip(&sampled.model_logprobs).zip(&output.logprobs);
            for (at, ((&id, &logprob), details)) in pairs.enumerate() {
                let row = &logits[(start + at - 1) * 400..][..400];
                let exp = |id: u32| f64::from(row[id as usize] / 0.7).exp();
                let all: f64 = (0..400).filter(|&id| chat.tokenizer.id_exists(id)).map(exp).sum();
                assert!((f64::from(logprob) - (exp(id) / all).ln()).abs() < 1e-4);
                assert!(details.sampled >= logprob - 1e-5, "the same, of less");
            }
        }
    }
    assert!(whole[0] >= 10 && whole[1] >= 10, "{whole:?} of 20 and 20 were whole");
}

#[test]
fn a_grammar_that_is_none_is_refused_with_the_reason() {
    for (grammar, part) in [
        (Grammar::Regex("(a".into()), "unclosed group"),
        (Grammar::JsonSchema(json!({"type": "nothing"})), "nothing"),
        (Grammar::JsonSchema(json!({"type": "object", "minProperties": "x"})), "minProperties"),
    ] {
        let error = check_grammar(&grammar).unwrap_err().to_string();
        assert!(error.contains(part) && error.len() < 400, "{error}");
        let (model, chat) = chat_model();
        let sampling = Sampling { grammar: Some(grammar), ..Sampling::at(1.0, 5) };
        let mut policy = LocalPolicy::new(&model, &chat, 0);
        let error = act(&mut policy, &mut Trace::new(), &[Message::user("a")], &sampling, 1).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
    assert_eq!(check_grammar(&Grammar::Regex("[a-z]+".into())), Ok(()));
    assert_eq!(check_grammar(&Grammar::JsonSchema(schema())), Ok(()));
}

#[test]
fn many_turns_under_a_grammar_are_given_what_each_is_given_alone() {
    let (model, chat) = chat_model();
    let sampling = Sampling { grammar: Some(Grammar::JsonSchema(schema())), ..Sampling::at(1.0, 60) };
    let turns = || (0..12).map(|seed| turn(Trace::new(), &[Message::user("on")], &sampling, seed));
    let together = burnish_core::answer_all(&mut LocalPolicy::new(&model, &chat, 0), turns());
    for (seed, (turn, (trace, answer))) in turns().zip(&together).enumerate() {
        let mut policy = LocalPolicy::new(&model, &chat, 0);
        let (alone, _) = burnish_core::answer_all(&mut policy, [turn]).remove(0);
        assert_eq!(&alone, trace, "{seed}");
        assert!(answer.is_ok());
    }
}
