use std::cell::RefCell;

use burnish_core::{Message, PolicyError, Script, StopReason, Task, TaskId, Turn, Verdict};
use burnish_episode::{Handle, Waited};
use burnish_reason::{Finished, Made, MakeKind, Outcome, Played, StrategyConfig, World};
use serde_json::{Value, json};

use super::{Adas, By};
use crate::MAKERS;
use crate::testing::{NOWHERE, left, task};

const TASKS: usize = 40;

/// Task number `n` of [`TASKS`] is solved by a strategy with more than `n` samples, each of 3 tokens. Strategies without samples
/// count as one with none.
#[derive(Default)]
struct Patience {
    /// What was played, once for each strategy.
    played: RefCell<Vec<StrategyConfig>>,
}

impl World for Patience {
    fn fresh(&self, _: u64, _: usize, _: usize) -> Result<Vec<Task>, String> {
        Err(NOWHERE.into())
    }

    fn judge(&self, _: &Task, _: &[Message]) -> Result<Verdict, String> {
        Err(NOWHERE.into())
    }

    fn play<'a>(
        &'a self,
        _: &'a Handle,
        task: &'a Task,
        strategy: &'a StrategyConfig,
    ) -> Waited<'a, Result<Outcome, String>> {
        let number: u64 = task.id.0.parse().unwrap();
        if number == 0 {
            self.played.borrow_mut().push(strategy.clone());
        }
        let samples = strategy.config["samples"].as_u64().unwrap_or_default();
        let success = samples > number;
        let (answers, reward, tokens) = (Vec::new(), f64::from(success), 3 * samples as usize);
        Box::pin(async move { Ok(Outcome { answers, success, reward, tokens }) })
    }
}

fn tasks() -> Vec<Played> {
    let one = |number: usize| Task { id: TaskId(number.to_string()), ..task() };
    (0..TASKS).map(|number| Played { task: one(number), episodes: Vec::new() }).collect()
}

fn samples(samples: usize) -> StrategyConfig {
    StrategyConfig { config: json!({ "samples": samples }), ..StrategyConfig::new("majority") }
}

/// The search of a meta agent that says this, answer by answer; also the last message of everything that it read.
fn asked(adas: &Adas, answers: &[Value]) -> (Result<Finished, String>, Vec<String>) {
    let (mut said, mut read) = (answers.iter(), Vec::new());
    let mut meta = Script::new(|turn: &Turn| {
        read.push(turn.messages.last().map(|last| last.content.clone()).unwrap_or_default());
        let next = said.next().ok_or_else(|| PolicyError::Failed("it has nothing more to say".into()))?;
        Ok((next.as_str().map_or(next.to_string(), str::to_owned), StopReason::EndToken))
    });
    let left = left(adas, MakeKind::Strategy, &tasks(), &Patience::default(), Some(&mut meta), None);
    drop(meta);
    (left, read)
}

/// The search by chance.
fn by_chance(generations: usize, tokens_max: Option<f64>) -> Finished {
    let adas = Adas { by: By::Chance, generations, tokens_max, ..Adas::default() };
    left(&adas, MakeKind::Strategy, &tasks(), &Patience::default(), None, None).unwrap()
}

fn made(finished: &Finished) -> &StrategyConfig {
    match &finished.made[..] {
        [Made::Strategy(strategy)] => strategy,
        other => panic!("one strategy is made, and not {other:?}"),
    }
}

fn archive(finished: &Finished) -> &Vec<Value> {
    finished.report.as_ref().unwrap()["archive"].as_array().unwrap()
}

#[test]
fn without_proposals_the_best_seed_is_made_and_the_first_of_equal_ones() {
    let seeds = [4, 8, 2].map(samples).to_vec();
    let finished = asked(&Adas { seeds, generations: 0, ..Adas::default() }, &[]).0.unwrap();
    assert_eq!(made(&finished).config["samples"], 8);
    let solved: Vec<u64> = archive(&finished).iter().map(|own| own["solved"].as_u64().unwrap()).collect();
    assert_eq!(solved, [4, 8, 2]);
    let interval = &archive(&finished)[1]["success"];
    assert!(interval["low"].as_f64() < Some(0.2) && interval["high"].as_f64() > Some(0.2), "{interval}");
    // Both solve all tasks, and the second costs less.
    let seeds = [64, 48].map(samples).to_vec();
    let finished = asked(&Adas { seeds, generations: 0, ..Adas::default() }, &[]).0.unwrap();
    assert_eq!(made(&finished).config["samples"], 48);
    // Both are as good, and cost as much.
    let vote = StrategyConfig { strategy: "weighted_vote".into(), ..samples(8) };
    let finished =
        asked(&Adas { seeds: vec![vote, samples(8)], generations: 0, ..Adas::default() }, &[]).0.unwrap();
    assert_eq!(made(&finished).strategy, "weighted_vote");
}

#[test]
fn a_meta_agent_reads_the_archive_thinks_twice_and_mends_what_fails() {
    let good = |count: usize| json!({ "thought": "more", "name": "many", "strategy": "majority", "config": { "samples": count } });
    let adas = Adas {
        seeds: vec![samples(2)],
        generations: 2,
        debug_rounds: 3,
        tokens_max: Some(60.0),
        ..Adas::default()
    };
    let answers = [
        // Three answers to a proposal, of which the last counts; then what fails is mended, each time in one answer.
        json!("let me think"),
        good(4),
        json!("I have no idea."),
        json!({ "strategy": "majorty" }),
        json!({ "strategy": "beam" }),
        good(16),
        good(1),
        good(1),
        json!(format!("```json\n{}\n```", good(40))),
        good(16),
        good(2),
        good(20),
    ];
    let (finished, read) = asked(&adas, &answers);
    let finished = finished.unwrap();
    assert_eq!(made(&finished).config["samples"], 20);
    let names: Vec<(u64, u64)> = archive(&finished)
        .iter()
        .map(|own| (own["generation"].as_u64().unwrap(), own["config"]["samples"].as_u64().unwrap()))
        .collect();
    assert_eq!(names, [(0, 2), (1, 16), (2, 20)], "what failed never entered");
    let reasons = &finished.report.as_ref().unwrap()["failed"];
    let reasons: Vec<&str> =
        reasons.as_array().unwrap().iter().map(|own| own["reason"].as_str().unwrap()).collect();
    for (reason, part) in reasons.iter().zip([
        "no JSON object",
        "did you mean `majority`",
        "solves no task",
        "120 tokens for an episode, and at most 60",
        "in the archive already",
        "in the archive already",
    ]) {
        assert!(reason.contains(part), "{reason}");
    }
    assert_eq!(reasons.len(), 6);
    assert!(read[0].contains("\"samples\":2") && read[0].contains("at most 60 tokens"), "{}", read[0]);
    assert!(read[0].contains("- `beam`") && !read[0].contains("{archive}"), "{}", read[0]);
    assert!(read[1].contains("proposal again") && read[2].contains("once more"));
    assert!(read[4].contains("did you mean `majority`"), "{}", read[4]);
    assert!(read[6].contains("\"samples\":16"), "the next proposal reads what entered: {}", read[6]);
}

#[test]
fn a_proposal_that_is_never_mended_is_left_out() {
    let adas = Adas { seeds: vec![samples(2)], generations: 1, debug_rounds: 1, ..Adas::default() };
    let (finished, read) = asked(&adas, &[json!("a"), json!("b"), json!("c"), json!("d")]);
    let finished = finished.unwrap();
    assert_eq!((made(&finished).config["samples"].as_u64(), read.len()), (Some(2), 4));
    // Where the conversation does not fit, the next try begins anew, and the search goes on.
    let mut begun = 0;
    let mut narrow = Script::new(|turn: &Turn| match &turn.messages[..] {
        [first] => {
            begun += usize::from(first.content.contains("- `beam`"));
            Ok(("well".to_owned(), StopReason::EndToken))
        }
        _ => Err(PolicyError::PromptTooLong { tokens: 9, tokens_max: 8 }),
    });
    let finished =
        left(&adas, MakeKind::Strategy, &tasks(), &Patience::default(), Some(&mut narrow), None).unwrap();
    drop(narrow);
    let failed = finished.report.as_ref().unwrap()["failed"].as_array().unwrap().len();
    assert_eq!((made(&finished).config["samples"].as_u64(), failed, begun), (Some(2), 2, 2));
    // Where the meta agent does not answer, nothing is made.
    assert!(asked(&adas, &[json!("a")]).0.unwrap_err().contains("nothing more to say"));
}

#[test]
fn an_archive_only_grows_and_its_best_gets_no_worse() {
    let long = by_chance(40, None);
    assert_eq!(by_chance(40, None), long, "the same search again");
    let mut before = 0;
    for generations in [0, 1, 5, 20, 40] {
        let short = by_chance(generations, None);
        assert!(archive(&long).starts_with(archive(&short)), "{generations}");
        let best = archive(&short).iter().map(|own| own["solved"].as_u64().unwrap()).max().unwrap();
        assert!(best >= before && made(&short).config["samples"] == best);
        before = best;
    }
    assert!(before > 8, "chance finds a better one than the seeds: {before}");
    let known: std::collections::BTreeSet<String> =
        archive(&long).iter().map(|own| format!("{} {}", own["strategy"], own["config"])).collect();
    assert_eq!(known.len(), archive(&long).len(), "no strategy twice");
    let cheap = by_chance(40, Some(60.0));
    let costs = |finished: &Finished| -> f64 {
        archive(finished).iter().map(|own| own["tokens"].as_f64().unwrap()).fold(0.0, f64::max)
    };
    assert!(costs(&cheap) <= 60.0 && costs(&long) > 60.0);
}

#[test]
fn settings_out_of_range_are_named() {
    let entry = MAKERS.iter().find(|entry| entry.card.id == "adas").unwrap();
    for (config, key) in [
        (json!({ "seeds": [] }), "seeds"),
        (json!({ "seeds": [{ "strategy": "majorty" }] }), "seeds.strategy"),
        (
            json!({ "seeds": [{ "strategy": "best_of_n", "config": { "score": { "by": "reward_model", "path": "x" } } }] }),
            "seeds.config.score.by",
        ),
        (json!({ "tokens_max": 0 }), "tokens_max"),
        (json!({ "meta_temperature": -1 }), "meta_temperature"),
        (json!({ "meta_tokens_max": 0 }), "meta_tokens_max"),
        (json!({ "by": "gold" }), "by"),
    ] {
        assert_eq!((entry.build)(&config).err().unwrap().key, key);
    }
}

#[test]
fn what_reads_notes_is_proposed_and_accepted_only_where_there_are_some() {
    let adas = Adas { seeds: vec![samples(2)], generations: 1, debug_rounds: 1, ..Adas::default() };
    let recall = json!({ "strategy": "recall", "config": { "count": 1 } });
    let answers = [
        recall.clone(),
        recall.clone(),
        recall,
        json!({ "strategy": "majority", "config": { "samples": 9 } }),
    ];
    let (finished, read) = asked(&adas, &answers);
    let finished = finished.unwrap();
    assert_eq!(made(&finished).config["samples"], 9);
    assert!(read[0].contains("- `beam`") && !read[0].contains("- `recall`"), "{}", read[0]);
    let failed = &finished.report.as_ref().unwrap()["failed"][0]["reason"];
    assert!(failed.as_str().unwrap().contains("no `[memory]`"), "{failed}");
}
