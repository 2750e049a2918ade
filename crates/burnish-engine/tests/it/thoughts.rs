//! Control of thoughts: what it changes, and that it changes nothing else.

use crate::common::{act, chat, model_of, turn};
use burnish_core::reflection::{self, HeldOut, ReflectionModel};
use burnish_core::{Message, Sampling, Source, Thoughts, Trace, answer_all};
use burnish_engine::LocalPolicy;
use burnish_model::{Chat, Model};
use serde_json::{Value, json};
use std::sync::Arc;

const TOKENS: usize = 40;

fn model(chat: &Chat) -> Arc<Model> {
    let mut model = model_of(400, 200, 32);
    model.restrict_vocab(|id| chat.tokenizer.id_exists(id));
    Arc::new(model)
}

fn with(thoughts: Value) -> Sampling {
    let thoughts: Thoughts = serde_json::from_value(thoughts).unwrap();
    Sampling { thoughts: Some(thoughts), ..Sampling::at(1.0, TOKENS) }
}

/// Ids and sources of an answer, its log-probs, and how many tokens probes took.
type Answer = (Vec<u32>, Vec<Source>, Vec<f32>, usize);

fn answer(sampling: &Sampling, seed: u64) -> Result<Answer, String> {
    answer_to("the goal is left", sampling, seed)
}

fn answer_to(question: &str, sampling: &Sampling, seed: u64) -> Result<Answer, String> {
    let chat = chat();
    let mut policy = LocalPolicy::new(&model(&chat), &chat, 0);
    let mut trace = Trace::new();
    act(&mut policy, &mut trace, &[Message::user(question)], sampling, seed)
        .map_err(|error| error.to_string())?;
    let node = trace.nodes().last().unwrap();
    let logprobs = node.sampled.as_ref().map(|sampled| sampled.model_logprobs.clone()).unwrap_or_default();
    Ok((node.ids.clone(), node.sources.clone(), logprobs, policy.stats().probe_tokens))
}

fn plain(seed: u64) -> Answer {
    answer(&Sampling::at(1.0, TOKENS), seed).unwrap()
}

fn text(ids: &[u32]) -> String {
    ids.iter().map(|id| chat().tokenizer.decode(&[*id], false).unwrap()).collect()
}

#[test]
fn what_changes_nothing_changes_no_bit() {
    for controls in [
        json!([]),
        json!([{"cyclic": {"amplitude": 0.0, "words": ["the"]}}]),
        json!([{"shifted": {"by": 0.0, "words": ["the"]}}]),
        json!([{"certainty": {"threshold": 1.0, "delimiter": "e", "words": ["the"]}}]),
        json!([{"budget": {"most": 1000}}]),
        json!([{"first_try": {"tries": 1000}}]),
        // The prompt has thoughts, so none are forced.
        json!([{"forced": {}}]),
    ] {
        for seed in 0..6 {
            assert_eq!(answer(&with(json!({"open": "", "controls": controls})), seed).unwrap(), plain(seed));
        }
    }
}

#[test]
fn thoughts_end_at_their_budget_and_go_on_below_it() {
    let chat = chat();
    let (close, end) =
        (chat.tokenizer.token_id("<|pad|>").unwrap(), chat.tokenizer.token_id("<|im_end|>").unwrap());
    let mut again = 0;
    for seed in 0..40 {
        let sampling = with(
            json!({"open": "", "close": "<|pad|>", "controls": [{"budget": {"most": 9, "ending": " up<|pad|>"}}]}),
        );
        let (ids, sources, ..) = answer(&sampling, seed).unwrap();
        let unforced = plain(seed).0;
        if unforced.len() > 9 && !unforced[..9].contains(&close) {
            assert_eq!(ids[..9], unforced[..9]);
            let put = chat.tokenizer.encode(" up<|pad|>").unwrap();
            assert_eq!(ids[9..9 + put.len()], put);
            // What a limit puts there is nobody's choice, and is not trained on.
            assert!(sources[9..9 + put.len()].iter().all(|source| *source == Source::Patch), "{sources:?}");
            assert!(sources[..9].iter().all(|source| *source == Source::Policy));
        }

        let sampling = with(
            json!({"open": "", "close": "<|pad|>", "controls": [{"budget": {"least": 12, "again": " up"}}]}),
        );
        let (ids, sources, ..) = answer(&sampling, seed).unwrap();
        assert!(ids.len() >= 12 && !ids[..12].contains(&close) && !ids[..12].contains(&end), "{ids:?}");
        again += sources.iter().filter(|source| **source != Source::Policy).count();
    }
    assert!(again > 0, "no answer wanted to end early");
}

#[test]
fn thoughts_are_forced_where_there_are_none() {
    let (ids, sources, ..) =
        answer(&with(json!({"open": "the robot", "controls": [{"forced": {"text": " moves"}}]})), 3).unwrap();
    assert!(text(&ids).starts_with("the robot moves"), "{}", text(&ids));
    assert_ne!(sources[0], Source::Policy);
}

#[test]
fn a_probe_leaves_the_answer_alone_and_what_it_forbids_is_not_said() {
    let word = chat().tokenizer.encode(" the").unwrap();
    assert_eq!(word.len(), 1, "the test needs a word that is one token");
    let certain = |threshold: f32, seed: u64| {
        let control =
            json!({"threshold": threshold, "delimiter": "e", "probe": "up", "tokens": 3, "words": ["the"]});
        answer(&with(json!({"open": "", "controls": [{"certainty": control}]})), seed).unwrap()
    };
    let (mut probed, mut changed) = (0, 0);
    for seed in 0..60 {
        // This model is never that sure: it is asked aside, and the answer is the same to the bit.
        let (unforced, unsure) = (plain(seed), certain(0.9999, seed));
        assert_eq!((&unsure.0, &unsure.2), (&unforced.0, &unforced.2));
        probed += unsure.3;
        // With a threshold of 0 it is often sure enough.
        let guided = certain(0.0, seed);
        assert_eq!(guided, certain(0.0, seed));
        changed += usize::from(guided.0 != unforced.0);
    }
    assert!(probed > 0 && changed > 0, "{probed} {changed}");
}

#[test]
fn a_word_that_is_shifted_out_of_reach_is_not_said_until_thoughts_are_over() {
    let chat = chat();
    let word = chat.tokenizer.encode(" the").unwrap()[0];
    let mut said = 0;
    for seed in 0..40 {
        said += usize::from(plain(seed).0.contains(&word));
        let sampling = with(json!({"open": "", "controls": [{"shifted": {"by": -1e9, "words": ["the"]}}]}));
        assert!(!answer(&sampling, seed).unwrap().0.contains(&word));
        // Thoughts that are over at once leave the rest as it is.
        let over = json!({"open": "", "close": "<|pad|>", "controls": [
            {"budget": {"most": 0}}, {"shifted": {"by": -1e9, "words": ["the"]}}
        ]});
        let alone = json!({"open": "", "close": "<|pad|>", "controls": [{"budget": {"most": 0}}]});
        assert_eq!(answer(&with(over), seed), answer(&with(alone), seed));
    }
    assert!(said > 0);
}

#[test]
fn thoughts_end_behind_the_first_try() {
    let mut ended = 0;
    for seed in 0..60 {
        let control = json!({"tries": 1, "after": ["o", "t", "h"], "until": ["e", " ", "l"]});
        let sampling = with(json!({"open": "", "close": "<|pad|>", "controls": [{"first_try": control}]}));
        let (ids, ..) = answer(&sampling, seed).unwrap();
        let unforced = plain(seed).0;
        // The same, worked out on the answer that nobody controlled.
        let complete = (1..unforced.len()).find(|&count| {
            let so_far = text(&unforced[..count]);
            let newest = text(&unforced[count - 1..count]);
            let ends = ['e', ' ', 'l'];
            let tried = |from: &str| {
                // Each try begins with a letter and ends with another; one without letters does not count.
                let mut rest = from;
                while let Some(at) = rest.find(['o', 't', 'h']) {
                    let Some(length) = rest[at + 1..].find(ends) else { return false };
                    if rest[at + 1..][..length].contains(char::is_alphanumeric) {
                        return true;
                    }
                    rest = &rest[at + 1 + length + 1..];
                }
                false
            };
            tried(&so_far) && newest.contains(ends)
        });
        let pad = chat().tokenizer.token_id("<|pad|>").unwrap();
        match complete.filter(|&count| !unforced[..count].contains(&pad)) {
            Some(count) => {
                assert_eq!((&ids[..count], ids[count]), (&unforced[..count], pad), "{}", text(&unforced));
                ended += 1;
            }
            None if !unforced.contains(&pad) => assert_eq!(ids, unforced),
            None => {}
        }
    }
    assert!(ended > 0);
}

/// The file of a model by which reflection pays with a chance of 0.9 where a question has the word "left", and else of 0.1.
fn controller(name: &str) -> String {
    let [bucket] = reflection::features("left", 4096)[..] else { panic!() };
    let held_out = HeldOut { folds: 2, log_loss: 0.3, constant: 0.6, chances: [0.1, 0.1, 0.5, 0.9, 0.9] };
    // "the goal is left" has 7 features.
    let odds = 9.0_f64.ln();
    let weights = vec![(bucket, 2.0 * odds * 7.0_f64.sqrt())];
    let model = ReflectionModel::new((4096, 0.01), (-odds, weights), (4, 0.5), held_out).unwrap();
    for (question, chance) in [("the goal is left", 0.9), ("the goal is up", 0.1)] {
        assert!((model.chance(question) - chance).abs() < 1e-12, "{question}: {}", model.chance(question));
    }
    let path = format!("{}/{name}", env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(&path, model.text().unwrap()).unwrap();
    path
}

#[test]
fn a_controller_closes_thoughts_after_as_many_tries_as_the_question_is_worth() {
    let path = controller("closes.json");
    let under = |tries: usize, controller: Option<Value>| {
        let mut control = json!({"tries": tries, "after": ["o", "t", "h"], "until": ["e", " ", "l"]});
        if let Some(controller) = controller {
            control["controller"] = controller;
        }
        with(json!({"open": "", "close": "<|pad|>", "controls": [{"first_try": control}]}))
    };
    let by = |more: Value| {
        let mut controller = json!({"path": path});
        more.as_object().unwrap().iter().for_each(|(key, value)| controller[key] = value.clone());
        under(1, Some(controller))
    };
    let (pays, idle) = ("the goal is left", "the goal is up");
    let mut differ = [0; 2];
    for seed in 0..40 {
        let same = |question: &str, one: &Sampling, other: &Sampling| {
            let [one, other] = [one, other].map(|sampling| answer_to(question, sampling, seed).unwrap());
            assert_eq!(one, other, "{question} {seed}");
            one
        };
        let later = by(json!({"otherwise": 3}));
        let closed = same(idle, &later, &under(1, None));
        let opened = same(pays, &later, &under(3, None));
        differ[0] += usize::from(closed != answer_to(idle, &under(3, None), seed).unwrap());
        differ[1] += usize::from(opened != answer_to(pays, &under(1, None), seed).unwrap());
        // Without `otherwise`, nothing closes thoughts where reflection pays.
        let never = by(json!({}));
        same(pays, &never, &Sampling::at(1.0, TOKENS));
        same(idle, &never, &under(1, None));
        // Thresholds that every chance reaches, and that none does.
        same(idle, &by(json!({"threshold": 0.05, "otherwise": 2})), &under(2, None));
        same(pays, &by(json!({"threshold": 0.95, "otherwise": 2})), &under(1, None));
    }
    assert!(differ.iter().all(|count| *count > 0), "{differ:?}");
}

#[test]
fn a_controller_whose_file_can_not_be_used_is_named() {
    let path = controller("broken.json");
    let of = |path: &str| {
        let control = json!({"first_try": {"controller": {"path": path}}});
        answer(&with(json!({"open": "", "close": "<|pad|>", "controls": [control]})), 0)
    };
    assert!(of(&path).is_ok());
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"buckets\":4096", "\"buckets\":0")).unwrap();
    let error = of(&path).unwrap_err();
    assert!(
        error.contains("broken.json`: buckets: must be") && error.contains("sampling.thoughts"),
        "{error}"
    );
    let error = of("absent.json").unwrap_err();
    assert!(error.contains("`absent.json` can't be read"), "{error}");
}

#[test]
fn answers_side_by_side_are_what_they_are_alone() {
    let controls = [
        json!([{"forced": {}}, {"budget": {"most": 6}}]),
        json!([{"cyclic": {"period": 7, "words": ["the"]}}]),
        json!([{"certainty": {"threshold": 0.2, "delimiter": "e", "probe": "up", "tokens": 2, "words": ["the"]}}]),
        json!([]),
    ];
    let chat = chat();
    let model = model(&chat);
    let turns = || {
        (0..12u64).map(|seed| {
            let sampling = with(json!({"open": "the", "controls": controls[seed as usize % 4]}));
            turn(Trace::new(), &[Message::user("the goal is left")], &sampling, seed)
        })
    };
    let said = |trace: &Trace| {
        let node = trace.nodes().last().unwrap();
        (node.ids.clone(), node.sources.clone(), node.sampled.clone())
    };
    let together = answer_all(&mut LocalPolicy::new(&model, &chat, 0), turns());
    for (turn, (trace, _)) in turns().zip(&together) {
        let alone = answer_all(&mut LocalPolicy::new(&model, &chat, 0), [turn]);
        assert_eq!(said(&alone[0].0), said(trace));
    }
}

#[test]
fn the_first_control_that_puts_something_is_the_one_that_is_heard() {
    let ending = |text: &str| json!({"budget": {"most": 0, "ending": text}});
    let (one, other) = (" up<|pad|>", " left<|pad|>");
    for (first, second) in [(one, other), (other, one)] {
        let controls = json!([ending(first), ending(second)]);
        let (ids, ..) =
            answer(&with(json!({"open": "", "close": "<|pad|>", "controls": controls})), 1).unwrap();
        let put = chat().tokenizer.encode(first).unwrap();
        assert_eq!(ids[..put.len()], put);
    }
}

#[test]
fn a_prompt_whose_thoughts_are_closed_gets_none() {
    // The prompt ends with this.
    let sampling = with(json!({"close": "assistant", "controls": [
        {"forced": {}}, {"shifted": {"by": -1e9, "words": ["the"]}}
    ]}));
    for seed in 0..6 {
        assert_eq!(answer(&sampling, seed).unwrap().0, plain(seed).0);
    }
}

#[test]
fn nothing_is_asked_where_the_context_has_no_room() {
    let control = json!({"threshold": 0.5, "delimiter": "e", "probe": "up", "tokens": 200, "words": ["the"]});
    let sampling = with(json!({"open": "", "controls": [{"certainty": control}]}));
    for seed in 0..12 {
        assert_eq!(answer(&sampling, seed).unwrap().3, 0);
    }
}

#[test]
fn what_can_not_be_done_is_named() {
    for (thoughts, said) in [
        (json!({"controls": [{"cyclic": {"words": ["Alternatively"]}}]}), "none of Alternatively is a token"),
        (
            json!({"close": "the end", "controls": [{"budget": {"least": 3}}]}),
            "`budget.least` needs a `close` that is one token",
        ),
        (json!({"controls": [{"cyclic": {"period": 0}}]}), "cyclic.period"),
    ] {
        let error = answer(&with(thoughts), 0).unwrap_err();
        assert!(error.contains("sampling.thoughts") && error.contains(said), "{error}");
    }
}
