//! What a trainer elsewhere promises, against a server that misbehaves.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::path::Path;
use std::sync::Arc;

use burnish_core::{Message, PolicyError, Sampling, Trace, Turn, answer_all};
use burnish_model::Chat;
use serde_json::json;

use super::stand_in::{Clipped, Manner, StandIn, Weights};
use super::{Adam, Bounds, Divides, Saved, Slope, Tinker, TinkerConfig, look};
use crate::tokens::TokenPolicy;

fn config(server: &StandIn) -> TinkerConfig {
    let given = json!({ "kind": "tinker", "url": server.url, "rank": 4, "timeout_seconds": 10.0, "away_seconds": 2.0 });
    serde_json::from_value(given).unwrap()
}

fn connect(server: &StandIn, from: Option<&Saved>) -> Arc<Tinker> {
    Tinker::connect(&config(server), 7, 64, None, from).unwrap()
}

/// With an ε far above the gradient, an update is the gradient times this.
const SHARE: f64 = 1e-2;

fn plain() -> Adam {
    Adam {
        learning_rate: SHARE * 1e6,
        beta1: 0.9,
        beta2: 0.999,
        epsilon: 1e6,
        weight_decay: 0.0,
        grad_norm_max: None,
    }
}

const SHORT: &[u32] = &[40, 41, 42];
const LONG: &[u32] = &[40, 43, 44, 45, 46];

/// One update by derivatives that all differ.
fn update(tinker: &Tinker, scale: f64, adam: &Adam) {
    let known = tinker.score(&[SHORT, LONG]).unwrap();
    let slope = |ids: &[u32]| ids.iter().map(|id| scale * f64::from(*id - 40)).collect::<Vec<f64>>();
    let (short, long) = (slope(SHORT), slope(LONG));
    let slopes = [
        Slope { ids: SHORT, logprobs: &known[0], d_logprobs: &short },
        Slope { ids: LONG, logprobs: &known[1], d_logprobs: &long },
    ];
    tinker.update(&slopes, adam).unwrap();
}

fn assert_close(weights: &Weights, expected: impl Fn(u32) -> f64) {
    for id in 41..47 {
        let (found, expected) = (weights.of_tokens[&id], expected(id));
        assert!((found - expected).abs() < 1e-5 * expected.abs().max(1e-3), "{id}: {found}, not {expected}");
    }
}

/// Every kind of server.
fn manners() -> impl Iterator<Item = Manner> {
    (0..8).map(|bits| Manner {
        divides_tokens: bits & 1 != 0,
        divides_sequences: bits & 2 != 0,
        clips: bits & 4 != 0,
        ..Manner::default()
    })
}

#[test]
fn whatever_a_server_divides_by_an_update_is_the_derivative() {
    for manner in manners() {
        let server = StandIn::start(manner);
        let tinker = connect(&server, None);
        assert_eq!(tinker.clips(), manner.clips, "{}", tinker.habits());
        let tokens = tinker.habits().contains("by tokens");
        let sequences = tinker.habits().contains("sequences");
        assert_eq!((tokens, sequences), (manner.divides_tokens, manner.divides_sequences));
        // Models that were made to find that out are gone.
        assert_eq!(server.asked("unload_model"), server.asked("create_model") - 1);
        update(&tinker, 1.0, &plain());
        assert_close(&server.weights(), |id| -SHARE * f64::from(id - 40));
    }
}

#[test]
fn what_a_server_is_told_to_divide_by_is_not_asked_but_the_rest_is() {
    for clips in [false, true] {
        let server = StandIn::start(Manner { divides_sequences: true, clips, ..Manner::default() });
        // It is believed, right or wrong.
        for (said, share) in [(Divides::Sequences, 1.0), (Divides::Nothing, 0.5)] {
            let told = TinkerConfig { divides: Some(said), ..config(&server) };
            let tinker = Tinker::connect(&told, 7, 64, None, None).unwrap();
            assert_eq!(tinker.clips(), clips, "{}", tinker.habits());
            update(&tinker, 1.0, &plain());
            assert_close(&server.weights(), |id| -share * SHARE * f64::from(id - 40));
        }
    }
}

const BOUNDS: Bounds = Bounds { low: 0.8, high: 1.2 };

#[test]
fn a_clipped_loss_is_used_where_its_bounds_are_those_that_are_wanted() {
    let near = |low, high| Clipped::Fixed(low, high);
    for (clipped, holds) in [
        (near(0.8, 1.2), true),
        (Clipped::Told, true),
        (Clipped::None, false),
        (near(0.8, 1.28), false),
        (near(0.7, 1.2), false),
        (near(0.0, f64::INFINITY), false),
    ] {
        for manner in manners() {
            let server = StandIn::start(Manner { clipped, ..manner });
            let tinker = Tinker::connect(&config(&server), 7, 64, Some(BOUNDS), None).unwrap();
            assert_eq!(tinker.clips_at(BOUNDS), holds, "{clipped:?}, {manner:?}");
            assert!(!tinker.clips_at(Bounds { low: 0.8, high: 1.3 }));
            assert_eq!(server.asked("unload_model"), server.asked("create_model") - 1);
        }
    }
    // Far ones can be tried too, and bounds that are none can't.
    let server = StandIn::start(Manner { clipped: Clipped::Told, ..Manner::default() });
    for (low, high, holds) in [(0.1, 10.0, true), (0.99, 1.01, true), (0.0, 1.2, false), (0.8, 1e6, false)] {
        let bounds = Bounds { low, high };
        let tinker = Tinker::connect(&config(&server), 7, 64, Some(bounds), None).unwrap();
        assert_eq!(tinker.clips_at(bounds), holds, "{bounds:?}");
    }
}

#[test]
fn an_update_with_a_clipped_loss_tells_what_the_log_probs_were() {
    let server = StandIn::start(Manner { clipped: Clipped::Told, ..Manner::default() });
    let tinker = Tinker::connect(&config(&server), 7, 64, Some(BOUNDS), None).unwrap();
    update(&tinker, 1.0, &plain());
    let known = tinker.score(&[SHORT, LONG]).unwrap();
    let before = server.weights();
    // The ratios of the tokens after the first are 1, 1.1, 1.3, 1/1.1 and 1/1.3, with advantages on either side.
    let old: Vec<f32> = [1.0, 1.0, 1.1, 1.3, 1.0 / 1.3]
        .iter()
        .zip(&known[1])
        .map(|(ratio, own)| own - f32::ln(*ratio))
        .collect();
    let slopes = [
        Slope { ids: SHORT, logprobs: &known[0], d_logprobs: &[0.0, -1.0, 2.0] },
        Slope { ids: LONG, logprobs: &old, d_logprobs: &[0.0, -1.0, -1.0, -1.0, 1.0] },
    ];
    assert_eq!(tinker.update_clipped(BOUNDS, &slopes, &plain()).unwrap(), known);
    let moved = |id: u32| (server.weights().of_tokens[&id] - before.of_tokens[&id]) / SHARE;
    // The first moment has the update before in it, with the share of one that is two updates old.
    let of_before = |id: u32| -0.09 / 0.19 * f64::from(id - 40);
    for (id, gradient) in [(41, 1.0), (42, -2.0), (43, 1.0), (44, 1.1), (45, 0.0), (46, 0.0)] {
        let expected = gradient * 0.1 / 0.19 + of_before(id);
        assert!((moved(id) - expected).abs() < 1e-4, "{id}: {} for {expected}", moved(id));
    }
}

#[test]
fn a_norm_is_limited_where_the_server_does_it() {
    let server = StandIn::start(Manner { clips: true, ..Manner::default() });
    let tinker = connect(&server, None);
    update(&tinker, 1.0, &Adam { grad_norm_max: Some(0.5), ..plain() });
    let norm = (1..7).map(|at| f64::from(at * at)).sum::<f64>().sqrt();
    assert_close(&server.weights(), |id| -SHARE * f64::from(id - 40) * 0.5 / norm);
}

/// Adam as it is usually set, whose moments show an update that is made twice, or on the wrong state.
fn usual() -> Adam {
    Adam { learning_rate: 0.1, epsilon: 1e-8, weight_decay: 0.1, ..plain() }
}

/// The weights after a few updates, with something done between them.
fn trained(disturb: impl Fn(&StandIn, u64)) -> Weights {
    let server = StandIn::start(Manner::default());
    let told = TinkerConfig { divides: Some(Divides::Nothing), ..config(&server) };
    let tinker = Tinker::connect(&told, 7, 64, None, None).unwrap();
    for step in 0..5 {
        update(&tinker, 1.0 - 0.4 * step as f64, &usual());
        disturb(&server, step);
        if step == 2 {
            tinker.save(3).unwrap();
        }
    }
    // If the model was lost after the last update, whoever asks next has it back.
    tinker.score(&[SHORT]).unwrap();
    server.weights()
}

#[test]
fn no_update_is_lost_or_made_twice_whatever_happens_to_the_server() {
    let undisturbed = trained(|_, _| {});
    let assert_same = |name: &str, weights: Weights| {
        assert_eq!(weights.updates, 5, "{name}");
        assert_eq!(weights.of_tokens, undisturbed.of_tokens, "{name}");
    };
    for at in 0..5 {
        let restarted = |server: &StandIn, step| {
            if step == at {
                server.restart();
            }
        };
        assert_same("restart", trained(restarted));
        for path in
            ["forward_backward", "optim_step", "save_weights", "load_weights", "forward", "create_model"]
        {
            let silent = |server: &StandIn, step| {
                if step == at {
                    server.state().manner.silent_at = Some(path);
                    if ["load_weights", "create_model"].contains(&path) {
                        server.restart();
                    }
                }
            };
            assert_same(path, trained(silent));
        }
    }
}

#[test]
fn a_person_hears_of_a_model_that_was_lost() {
    let server = StandIn::start(Manner::default());
    let tinker = connect(&server, None);
    update(&tinker, 1.0, &usual());
    assert_eq!(tinker.take_notes(), Vec::<String>::new());
    let unloaded = server.asked("unload_model");
    tinker.close();
    assert_eq!(server.asked("unload_model"), unloaded + 1);
    server.restart();
    tinker.score(&[SHORT]).unwrap();
    let note = tinker.take_notes().concat();
    assert!(note.contains("1 updates made once more"), "{note}");
}

#[test]
fn a_run_goes_on_from_what_was_saved() {
    let server = StandIn::start(Manner::default());
    let first = connect(&server, None);
    update(&first, 1.0, &usual());
    let saved = first.save(1).unwrap();
    // Nothing has changed since.
    assert_eq!(first.save(1).unwrap(), saved);
    update(&first, 0.5, &usual());
    let whole = server.weights();
    drop(first);
    server.restart();
    let second = connect(&server, Some(&saved));
    update(&second, 0.5, &usual());
    assert_eq!(server.weights().of_tokens, whole.of_tokens);

    let gone = Saved { path: "tinker://model_1/weights/gone".into(), updates: 1 };
    let error = Tinker::connect(&config(&server), 7, 64, None, Some(&gone)).unwrap_err().to_string();
    assert!(error.contains("load_weights") && error.contains("Checkpoint not found"), "{error}");
}

fn chat() -> Arc<Chat> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/starter");
    Arc::new(Chat::load(Path::new(dir)).unwrap())
}

fn turn(text: &str, sampling: Sampling) -> Turn {
    Turn {
        trace: Trace::new(),
        messages: Arc::new(vec![Message::user(text)]),
        tools: Arc::default(),
        prefix: Vec::new(),
        sampling: Arc::new(sampling),
        seed: u64::MAX - 3,
    }
}

#[test]
fn answers_are_those_of_the_weights_that_are_served() {
    let server = StandIn::start(Manner::default());
    let tinker = connect(&server, None);
    let chat = chat();
    let answer = |version: u64| {
        let tinker: Arc<Tinker> = Arc::clone(&tinker);
        let mut policy = TokenPolicy::new(tinker, &chat, &[], version);
        answer_all(&mut policy, [turn("1 + 1?", Sampling::at(1.0, 9))]).remove(0)
    };
    let (_, refused) = answer(0);
    assert!(refused.unwrap_err().to_string().contains("does not serve the weights after 0 updates"));
    tinker.serve(0).unwrap();
    let (trace, output) = answer(0);
    output.unwrap();
    let sampled = trace.nodes().last().unwrap().sampled.clone().unwrap();
    assert_eq!((&sampled.model_logprobs[..], sampled.policy_version), (&[-6.0_f32; 2][..], 0));
    let asked = server.state().samples.pop().unwrap();
    let prompt = trace.branches().pop().unwrap().ids;
    assert_eq!(asked["prompt"]["chunks"][0]["tokens"], json!(prompt[..prompt.len() - 2]));
    let sampling = &asked["sampling_params"];
    assert_eq!(sampling["max_tokens"], 9);
    assert_eq!(sampling["stop"], json!(chat.end_ids()));
    assert!(sampling["seed"].as_u64().unwrap() < i32::MAX as u64);

    // The end token is sampled, and what it is worth rises.
    let end = chat.end_ids()[0];
    let (ids, slope) = ([5, end], [0.0, -1.0]);
    let known = tinker.score(&[&ids]).unwrap().remove(0);
    tinker.update(&[Slope { ids: &ids, logprobs: &known, d_logprobs: &slope }], &plain()).unwrap();
    assert!(answer(0).1.is_err());
    tinker.serve(1).unwrap();
    let served = server.asked("save_weights_for_sampler");
    tinker.serve(1).unwrap();
    assert_eq!(server.asked("save_weights_for_sampler"), served);
    let logprob = |trace: &Trace| trace.nodes().last().unwrap().sampled.clone().unwrap().model_logprobs[1];
    assert!((logprob(&answer(1).0) - (SHARE as f32 - 6.0)).abs() < 1e-5);
    // A server that was away has the same weights again.
    server.restart();
    assert!((logprob(&answer(1).0) - (SHARE as f32 - 6.0)).abs() < 1e-5);
}

#[test]
fn an_answer_with_ids_that_the_tokenizer_lacks_is_asked_for_with_another_seed() {
    let server = StandIn::start(Manner::default());
    let tinker = connect(&server, None);
    tinker.serve(0).unwrap();
    let asked = turn("1 + 1?", Sampling::at(1.0, 9));
    let mut policy = TokenPolicy::new(Arc::<Tinker>::clone(&tinker), &chat(), &[], 0);
    let (trace, _) = answer_all(&mut policy, [asked.clone()]).remove(0);
    // The one that it always answers.
    let missing = [trace.nodes().last().unwrap().ids[0]];
    let mut policy = TokenPolicy::new(Arc::<Tinker>::clone(&tinker), &chat(), &missing, 0);
    let (_, output) = answer_all(&mut policy, [asked]).remove(0);
    assert!(output.unwrap_err().to_string().contains("ids that the tokenizer does not have"));
    let state = server.state();
    let mut seeds: Vec<u64> =
        state.samples.iter().map(|body| body["sampling_params"]["seed"].as_u64().unwrap()).collect();
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!((state.samples.len(), seeds.len()), (9, 8));
}

#[test]
fn many_answers_ask_for_a_lost_model_once() {
    let server = StandIn::start(Manner::default());
    let tinker = connect(&server, None);
    tinker.serve(0).unwrap();
    server.restart();
    let models = server.asked("create_model");
    let mut policy = TokenPolicy::new(Arc::<Tinker>::clone(&tinker), &chat(), &[], 0);
    let turns = (0..20).map(|at| turn(&format!("{at}?"), Sampling::at(1.0, 9)));
    assert!(answer_all(&mut policy, turns).into_iter().all(|(_, output)| output.is_ok()));
    assert_eq!(server.asked("create_model"), models + 1);
    assert_eq!(tinker.take_notes().len(), 1);
}

#[test]
fn the_base_model_scores_whichever_way_a_server_tells_of_the_first_token() {
    for tells_first in [false, true] {
        let server = StandIn::start(Manner { tells_first, ..Manner::default() });
        let tinker = connect(&server, None);
        update(&tinker, 1.0, &plain());
        assert_eq!(
            tinker.score_base(&[SHORT, LONG]).unwrap(),
            [vec![0.0, -6.0, -6.0], vec![0.0, -6.0, -6.0, -6.0, -6.0]]
        );
        assert_ne!(tinker.score(&[SHORT]).unwrap()[0][1], -6.0);
    }
}

#[test]
fn what_such_servers_can_not_do_is_refused() {
    let asks = |change: &dyn Fn(&mut Sampling)| {
        let mut sampling = Sampling::at(1.0, 9);
        change(&mut sampling);
        Tinker::check_sampling(&sampling)
    };
    asks(&|_| {}).unwrap();
    asks(&|sampling| sampling.temperature = 0.0).unwrap();
    for (change, word) in [
        (&(|sampling: &mut Sampling| sampling.temperature = 0.7) as &dyn Fn(&mut Sampling), "temperature"),
        (&|sampling: &mut Sampling| sampling.stop = vec!["\n".into()], "`stop`"),
        (&|sampling: &mut Sampling| sampling.top_p = 0.9, "top_p"),
    ] {
        match asks(change) {
            Err(PolicyError::Unable(problem)) => assert!(problem.contains(word), "{problem}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_server_that_is_not_there_or_serves_something_else_is_named() {
    let server = StandIn::start(Manner::default());
    let told = look(&config(&server)).unwrap();
    assert!(told.contains(&server.url) && told.contains("rank 4 over base"), "{told}");
    let other = TinkerConfig { base_model: Some("other".into()), ..config(&server) };
    let error = look(&other).unwrap_err().to_string();
    assert!(error.contains("`other`") && error.contains("but base"), "{error}");
    let nobody = TinkerConfig { url: "http://127.0.0.1:9".into(), ..config(&server) };
    let error = look(&nobody).unwrap_err().to_string();
    assert!(error.contains("http://127.0.0.1:9/api/v1/get_server_capabilities"), "{error}");
}
