//! What a fleet and its policy promise, against servers that misbehave.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use burnish_core::{Message, PolicyError, Sampling, Source, StopReason, Trace, Turn, TurnOutput, answer_all};
use burnish_model::Chat;
use serde_json::json;
use tempfile::TempDir;

use super::stand_in::{Manner, StandIn};
use super::{EngineConfig, EngineKind, Fleet, Proof};
use crate::tokens::{TokenPolicy, TokenServer};

fn chat() -> Arc<Chat> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/starter");
    Arc::new(Chat::load(Path::new(dir)).unwrap())
}

fn end() -> u32 {
    chat().end_ids()[0]
}

fn start(manner: Manner) -> StandIn {
    StandIn::start(manner, end())
}

const KINDS: [EngineKind; 2] = [EngineKind::Vllm, EngineKind::Sglang];

fn config(kind: EngineKind, servers: &[&StandIn]) -> EngineConfig {
    let urls: Vec<&str> = servers.iter().map(|server| server.url.as_str()).collect();
    let given = json!({
        "kind": kind, "urls": urls, "timeout_seconds": 5.0, "update_seconds": 5.0, "retries": 0,
        "retry_wait_seconds": 0.01,
    });
    serde_json::from_value(given).unwrap()
}

/// Weights of the stand-in, with their proof.
struct Weights {
    folder: TempDir,
}

impl Weights {
    fn new() -> Self {
        Weights { folder: tempfile::tempdir().unwrap() }
    }

    fn write(&self, w: f64) -> PathBuf {
        let dir = self.folder.path().join(format!("w{w}"));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("w"), w.to_string()).unwrap();
        dir
    }
}

/// The proof of `w` after `before`.
fn proof(w: f64, before: Option<f64>) -> Proof {
    let of = |w: f64| vec![-(1.0 + w) as f32; 2];
    Proof { ids: vec![5, 6, 7], new: of(w), before: before.map(of) }
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

type Answer = (Trace, Result<TurnOutput, PolicyError>);

fn policy(fleet: &Arc<Fleet>, missing_ids: &[u32], version: u64) -> TokenPolicy {
    let server = Arc::clone(fleet);
    TokenPolicy::new(server, &chat(), missing_ids, version)
}

fn answer(fleet: &Arc<Fleet>, version: u64, turn: Turn) -> Answer {
    answer_all(&mut policy(fleet, &[901, 902], version), [turn]).remove(0)
}

#[test]
fn ids_go_there_and_come_back_with_their_log_probs() {
    for kind in KINDS {
        let server = start(Manner::default());
        let (fleet, weights) = (Fleet::connect(config(kind, &[&server])).unwrap(), Weights::new());
        // SGLang never samples the last place of a context.
        let context = if kind == EngineKind::Vllm { 64 } else { 63 };
        assert_eq!((fleet.version(), fleet.context_tokens_max()), (None, context));
        assert_eq!(fleet.serve(&weights.write(0.25), 3, proof(0.25, None)).unwrap(), Vec::<String>::new());
        let (trace, output) = answer(&fleet, 3, turn("1 + 1?", Sampling::at(1.0, 9)));
        let output = output.unwrap();
        let chat = chat();
        assert_eq!(output.message, Message::assistant(chat.tokenizer.decode(&[7], false).unwrap()));
        assert_eq!(output.stop, StopReason::EndToken);
        let branch = trace.branches().pop().unwrap();
        let sampled = trace.nodes().last().unwrap().sampled.clone().unwrap();
        assert_eq!((sampled.policy_version, sampled.temperature), (3, 1.0));
        assert_eq!((&sampled.model_logprobs[..], &sampled.sampled_logprobs), (&[-1.25; 2][..], &None));
        assert!(trace.nodes().last().unwrap().sources.iter().all(|source| *source == Source::Policy));

        let asked = server.state().asked.pop().unwrap();
        assert_eq!([&asked.prompt[..], &[7, end()]].concat(), branch.ids);
        assert_eq!(asked.seed, (u64::MAX - 3) & i64::MAX as u64);
        assert_eq!(asked.stop_ids, chat.end_ids());
        let (within, expected) = match kind {
            EngineKind::Vllm => (
                &asked.body,
                json!({
                        "model": "policy", "max_tokens": 9, "temperature": 1.0, "logprobs": 0, "top_p": 1.0, "top_k": 0,
                        "repetition_penalty": 1.0, "ignore_eos": false, "return_token_ids": true,
                "logit_bias": {"901": -100.0, "902": -100.0},
                    }),
            ),
            EngineKind::Sglang => (
                &asked.body["sampling_params"],
                json!({
                        "max_new_tokens": 9, "temperature": 1.0, "top_p": 1.0, "top_k": -1, "ignore_eos": false,
                "logit_bias": {"901": -100.0, "902": -100.0},
                    }),
            ),
        };
        for (key, value) in expected.as_object().unwrap() {
            assert_eq!(within[key], *value, "{key}");
        }
    }
}

#[test]
fn answers_end_as_the_policy_in_this_process_ends_them() {
    for kind in KINDS {
        let chat = chat();
        let ids = chat.tokenizer.encode("one two three").unwrap();
        let (server, weights) = (start(Manner::default()), Weights::new());
        let fleet = Fleet::connect(config(kind, &[&server])).unwrap();
        fleet.serve(&weights.write(0.0), 0, proof(0.0, None)).unwrap();
        let mut probe = Trace::new();
        let prompt = chat.extend(&mut probe, &[Message::user("q")], &[]).unwrap();
        server.state().manner.answers.insert(u64::from(*prompt.last().unwrap()), ids.clone());
        let with = |sampling: Sampling| {
            let (trace, output) = answer(&fleet, 0, turn("q", sampling));
            let ids = trace.nodes().last().unwrap().ids.clone();
            let output = output.unwrap();
            (ids, output.message.content, output.stop)
        };
        let cut = with(Sampling::at(1.0, 2));
        assert_eq!((cut.0, cut.2), (ids[..2].to_vec(), StopReason::TokensMax));
        let stop = Sampling { stop: vec!["three".into()], ..Sampling::at(1.0, 20) };
        // All that was sampled is kept; the text ends before what ended it.
        assert_eq!(with(stop.clone()), (ids.clone(), "one two ".into(), StopReason::StopString));
        let included = Sampling { include_stop: true, ..stop };
        assert_eq!(with(included), (ids.clone(), "one two three".into(), StopReason::StopString));
        let greedy = answer(&fleet, 0, turn("q", Sampling::at(0.0, 20)));
        let sampled = greedy.0.nodes().last().unwrap().sampled.clone().unwrap();
        assert_eq!(sampled.sampled_logprobs, Some(vec![0.0; ids.len()]));
        // The context is full before the answer is as long as it may be.
        let length = |text: &str| chat.extend(&mut Trace::new(), &[Message::user(text)], &[]).unwrap().len();
        let long =
            (1..).map(|count| "one ".repeat(count)).take_while(|text| length(text) < 60).last().unwrap();
        let room = fleet.context_tokens_max() - length(&long);
        let mut all = ids.repeat(20);
        all.truncate(room);
        server.state().manner.answers.insert(u64::from(*prompt.last().unwrap()), all);
        let full = answer(&fleet, 0, turn(&long, Sampling::at(1.0, 60)));
        assert_eq!(full.1.unwrap().stop, StopReason::ContextFull);
        let longer = answer(&fleet, 0, turn(&"word ".repeat(90), Sampling::at(1.0, 60)));
        assert!(matches!(longer.1, Err(PolicyError::PromptTooLong { .. })));
    }
}

#[test]
fn what_no_engine_does_exactly_is_refused_and_not_sent() {
    for kind in KINDS {
        let (server, weights) = (start(Manner::default()), Weights::new());
        let fleet = Fleet::connect(config(kind, &[&server])).unwrap();
        fleet.serve(&weights.write(0.0), 0, proof(0.0, None)).unwrap();
        for (sampling, part) in [
            (Sampling { top_p: 0.9, ..Sampling::at(1.0, 4) }, "`top_p`"),
            (Sampling { presence_penalty: 1.0, ..Sampling::at(1.0, 4) }, "penalties"),
            (Sampling { logprobs: Some(2), ..Sampling::at(1.0, 4) }, "`logprobs`"),
            (Sampling::at(0.7, 4), "processed_logprobs"),
            (Sampling::at(-1.0, 4), "temperature"),
        ] {
            let error = answer(&fleet, 0, turn("q", sampling)).1.unwrap_err().to_string();
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(server.state().asked.is_empty());
        let drawn = start(Manner { gives_drawn: true, ..Manner::default() });
        let fleet = Fleet::connect(config(kind, &[&drawn])).unwrap();
        fleet.serve(&weights.write(0.0), 0, proof(0.0, None)).unwrap();
        assert!(answer(&fleet, 0, turn("q", Sampling::at(0.7, 4))).1.is_ok());
        // Two kinds of log-probs in one fleet would be mixed up.
        let error = Fleet::connect(config(kind, &[&server, &drawn])).unwrap_err().to_string();
        assert!(error.contains("differs") && error.contains(&drawn.url), "{error}");
    }
}

#[test]
fn a_server_that_is_unfit_is_told_at_once() {
    let kind = EngineKind::Vllm;
    let plain = start(Manner { is_plain: true, ..Manner::default() });
    let error = Fleet::connect(config(kind, &[&plain])).unwrap_err().to_string();
    assert!(error.contains("VLLM_SERVER_DEV_MODE=1") && error.contains(&plain.url), "{error}");
    let other = EngineConfig { model: Some("qwen".into()), ..config(kind, &[&start(Manner::default())]) };
    let error = Fleet::connect(other).unwrap_err().to_string();
    assert!(error.contains("`qwen`") && error.contains("policy"), "{error}");
    let dead = start(Manner { is_dead: true, ..Manner::default() });
    assert!(Fleet::connect(config(kind, &[&dead])).unwrap_err().to_string().contains("no answer"));
}

#[test]
fn a_replica_that_keeps_its_old_weights_is_found_and_not_asked() {
    for kind in KINDS {
        let (honest, liar) = (start(Manner::default()), start(Manner { lies: true, ..Manner::default() }));
        let (fleet, weights) = (Fleet::connect(config(kind, &[&honest, &liar])).unwrap(), Weights::new());
        // Less than the tolerance: only the old weights tell.
        liar.state().w = 0.0;
        fleet.serve(&weights.write(0.0), 0, proof(0.0, None)).unwrap();
        let notes = fleet.serve(&weights.write(0.01), 1, proof(0.01, Some(0.0))).unwrap();
        assert!(
            notes.len() == 1 && notes[0].contains(&liar.url) && notes[0].contains("weights before"),
            "{notes:?}"
        );
        let turns = (0..40).map(|at| turn(&format!("q{at}"), Sampling::at(1.0, 4)));
        let answers = answer_all(&mut policy(&fleet, &[], 1), turns);
        assert!(answers.iter().all(|(_, answer)| answer.is_ok()));
        assert_eq!((honest.state().asked.len(), liar.state().asked.len()), (40, 0));
        // Nobody is left who could be asked.
        honest.state().manner.lies = true;
        let error = fleet.serve(&weights.write(2.0), 2, proof(2.0, Some(0.01))).unwrap_err().to_string();
        assert!(
            error.contains("after 2 updates") && error.contains(&honest.url) && error.contains(&liar.url),
            "{error}"
        );
        let (_, late) = answer(&fleet, 1, turn("q", Sampling::at(1.0, 4)));
        assert!(late.unwrap_err().to_string().contains("have not the weights after 1 updates"));
    }
}

#[test]
fn somebody_else_who_changes_the_weights_is_noticed() {
    for kind in KINDS {
        let (server, weights) = (start(Manner::default()), Weights::new());
        let fleet = Fleet::connect(config(kind, &[&server])).unwrap();
        fleet.serve(&weights.write(0.5), 4, proof(0.5, None)).unwrap();
        let policy = policy(&fleet, &[], 4);
        policy.confirm().unwrap();
        // Another run, which happens to be as far.
        Fleet::connect(config(kind, &[&server]))
            .unwrap()
            .serve(&weights.write(0.6), 4, proof(0.6, None))
            .unwrap();
        let error = policy.confirm().unwrap_err().to_string();
        assert!(error.contains("one run at a time") && error.contains(&server.url), "{error}");
    }
}

#[test]
fn adapters_are_added_under_new_names_and_proved_too() {
    for kind in KINDS {
        let (server, liar) = (start(Manner::default()), start(Manner::default()));
        let weights = Weights::new();
        let with_adapters = EngineConfig { adapters: true, ..config(kind, &[&server, &liar]) };
        let fleet = Fleet::connect(with_adapters).unwrap();
        fleet.serve(&weights.write(0.5), 1, proof(0.5, None)).unwrap();
        let first: Vec<String> = server.state().adapters.keys().cloned().collect();
        assert!(first.len() == 1 && first[0].starts_with("update_1_"), "{first:?}");
        let (trace, output) = answer(&fleet, 1, turn("q", Sampling::at(1.0, 4)));
        output.unwrap();
        assert_eq!(trace.nodes().last().unwrap().sampled.as_ref().unwrap().model_logprobs, [-1.5; 2]);
        liar.state().manner.lies = true;
        let notes = fleet.serve(&weights.write(0.75), 2, proof(0.75, Some(0.5))).unwrap();
        assert!(notes.len() == 1 && notes[0].contains(&liar.url), "{notes:?}");
        // The one before is taken away, and the model itself never changes.
        let second: Vec<String> = server.state().adapters.keys().cloned().collect();
        assert!(second.len() == 1 && second[0].starts_with("update_2_"), "{second:?}");
        assert_eq!(server.state().w, -0.5);
        // Lost for a while, it is found again with what it has.
        server.state().manner.is_dead = true;
        assert!(answer(&fleet, 2, turn("q", Sampling::at(1.0, 4))).1.is_err());
        server.state().manner.is_dead = false;
        answer(&fleet, 2, turn("q", Sampling::at(1.0, 4))).1.unwrap();
    }
}

#[test]
fn each_state_of_an_update_is_checked_and_named() {
    let (vllm, sglang) = (EngineKind::Vllm, EngineKind::Sglang);
    for (kind, path, stage) in [
        (vllm, "/pause", "pausing"),
        (vllm, "/collective_rpc", "loading the weights"),
        (vllm, "/update_weight_version", "naming the weights"),
        (vllm, "/resume", "resuming"),
        (vllm, "/v1/completions", "proving the weights"),
        (sglang, "/pause_generation", "pausing"),
        (sglang, "/update_weights_from_disk", "loading the weights"),
        (sglang, "/model_info", "naming the weights"),
        (sglang, "/continue_generation", "resuming"),
        (sglang, "/generate", "proving the weights"),
    ] {
        let (server, weights) = (start(Manner::default()), Weights::new());
        let fleet = Fleet::connect(config(kind, &[&server])).unwrap();
        server.state().manner.fails_at = Some(path);
        let error = fleet.serve(&weights.write(1.0), 1, proof(1.0, None)).unwrap_err().to_string();
        assert!(error.contains(stage) && error.contains("Worker failed"), "{path}: {error}");
        assert_eq!(error.contains("start it again"), path == "/collective_rpc", "{error}");
    }
}

#[test]
fn requests_of_a_group_share_a_replica_and_a_lost_one_is_replaced_and_comes_back() {
    for kind in KINDS {
        let servers = [start(Manner::default()), start(Manner::default())];
        let (fleet, weights) =
            (Fleet::connect(config(kind, &[&servers[0], &servers[1]])).unwrap(), Weights::new());
        fleet.serve(&weights.write(0.0), 0, proof(0.0, None)).unwrap();
        let turns = (0..24).map(|at| turn(&format!("task {}", at % 6), Sampling::at(1.0, 4)));
        let mut policy = policy(&fleet, &[], 0);
        let answers = answer_all(&mut policy, turns);
        assert!(answers.iter().all(|(_, answer)| answer.is_ok()));
        let prompts = |server: &StandIn| {
            let mut prompts: Vec<String> =
                server.state().asked.iter().map(|asked| format!("{:?}", asked.prompt)).collect();
            prompts.sort_unstable();
            prompts.dedup();
            prompts
        };
        let (first, second) = (prompts(&servers[0]), prompts(&servers[1]));
        assert!(
            first.len() + second.len() == 6 && !first.is_empty() && !second.is_empty(),
            "{first:?} {second:?}"
        );

        servers[0].state().manner.is_dead = true;
        let turns = (0..24).map(|at| turn(&format!("task {}", at % 6), Sampling::at(1.0, 4)));
        let answers = answer_all(&mut policy, turns);
        assert!(answers.iter().all(|(_, answer)| answer.is_ok()), "{answers:?}");
        assert_eq!(prompts(&servers[1]).len(), 6);
        // It is back, with other weights than it was given, and is asked once it has proved that it has these.
        servers[0].state().manner.is_dead = false;
        servers[0].state().w = 9.0;
        servers[1].state().manner.is_dead = true;
        let (trace, output) = answer(&fleet, 0, turn("task 0", Sampling::at(1.0, 4)));
        output.unwrap();
        assert_eq!(trace.nodes().last().unwrap().sampled.as_ref().unwrap().model_logprobs, [-1.0; 2]);
        servers[0].state().manner.is_dead = true;
        let error = answer(&fleet, 0, turn("task 0", Sampling::at(1.0, 4))).1.unwrap_err().to_string();
        assert!(error.contains("no engine can be used") && error.contains(&servers[1].url), "{error}");
    }
}

#[test]
fn an_answer_that_was_given_up_is_asked_for_anew() {
    for kind in KINDS {
        let (server, weights) = (start(Manner { aborts: 2, ..Manner::default() }), Weights::new());
        let fleet = Fleet::connect(config(kind, &[&server])).unwrap();
        fleet.serve(&weights.write(0.0), 0, proof(0.0, None)).unwrap();
        answer(&fleet, 0, turn("q", Sampling::at(1.0, 4))).1.unwrap();
        let seeds: Vec<u64> = server.state().asked.iter().map(|asked| asked.seed).collect();
        assert!(seeds.len() == 3 && seeds.iter().all(|seed| *seed == seeds[0]), "{seeds:?}");
        server.state().manner.aborts = 99;
        let error = answer(&fleet, 0, turn("q", Sampling::at(1.0, 4))).1.unwrap_err().to_string();
        assert!(error.contains("gave it up") && error.contains("8 times"), "{error}");
    }
}

#[test]
fn settings_that_cannot_be_are_named() {
    let good = EngineConfig { urls: vec!["http://localhost:8000".into()], ..config(EngineKind::Vllm, &[]) };
    assert_eq!(good.check(), Ok(()));
    for (key, wrong) in [
        ("urls", EngineConfig { urls: Vec::new(), ..good.clone() }),
        ("urls", EngineConfig { urls: vec!["localhost".into()], ..good.clone() }),
        ("requests_max", EngineConfig { requests_max: 0, ..good.clone() }),
        ("timeout_seconds", EngineConfig { timeout_seconds: 0.0, ..good.clone() }),
        ("tolerance", EngineConfig { tolerance: f64::NAN, ..good.clone() }),
    ] {
        assert_eq!(wrong.check().unwrap_err().0, key);
    }
}
