//! Strategies on scripted policies.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::common::{Speaker, strategy, turn};
use burnish_core::{
    Abilities, Message, Policy, PolicyError, Sampling, Script, StopReason, Trace, Turn, answer_all, rng,
};
use burnish_reason::{Considered, REWARD_MODEL, Rates, Role, Strategist, StrategyConfig};
use serde_json::json;

/// Answers `question` with a strategy on top of `policy`.
fn answer(config: &StrategyConfig, policy: impl Policy, question: Turn) -> (String, Trace, Considered) {
    let seed = question.seed;
    let mut strategist = Strategist::new(policy, config.build().unwrap()).recording();
    let (trace, output) = answer_all(&mut strategist, [question]).pop().unwrap();
    let considered = strategist.take().remove(&seed).unwrap();
    (output.unwrap().message.content, trace, considered)
}

/// Says a number that the seed decides: 7 more often than others.
fn number(turn: &Turn) -> String {
    format!("The answer is {}.", [7, 7, 7, 8, 9][(rng::bits(turn.seed, 9) % 5) as usize])
}

fn all() -> Vec<StrategyConfig> {
    vec![
        strategy("best_of_n", json!({"samples": 6})),
        strategy("best_of_n", json!({"samples": 3, "score": {"by": "judge"}})),
        strategy("majority", json!({"samples": 9})),
        strategy("weighted_vote", json!({"samples": 9})),
        strategy("weighted_vote", json!({"samples": 3, "score": {"by": "judge"}})),
        strategy("self_refine", json!({"rounds": 2})),
        strategy("heavyskill", json!({"drafts": 3, "pool": 5, "deliberations": 2, "iterations": 2})),
        strategy("controlled", json!({"controls": [{"shifted": {}}]})),
    ]
}

#[test]
fn one_candidate_is_the_plain_answer_to_the_bit() {
    let (plain, output) = answer_all(&mut Speaker::new(number), [turn("?", 5)]).pop().unwrap();
    let plain_text = output.unwrap().message.content;
    for config in [
        strategy("best_of_n", json!({"samples": 1})),
        strategy("majority", json!({"samples": 1})),
        strategy("weighted_vote", json!({"samples": 1})),
        strategy("heavyskill", json!({"drafts": 0, "deliberations": 1})),
        strategy("controlled", json!({})),
    ] {
        let (text, trace, _) = answer(&config, Speaker::new(number), turn("?", 5));
        assert_eq!((text, trace), (plain_text.clone(), plain.clone()), "{config:?}");
    }
}

#[test]
fn one_draft_and_one_deliberation_are_self_refinement_to_the_bit() {
    for rounds in 1..4 {
        let refine = strategy("self_refine", json!({"rounds": rounds}));
        let heavy = strategy("heavyskill", json!({"drafts": 1, "deliberations": 1, "iterations": rounds}));
        let [one, other] = [refine, heavy].map(|config| answer(&config, Speaker::new(number), turn("?", 5)));
        assert_eq!(one.0, other.0);
        assert_eq!(one.1, other.1);
        assert_eq!(one.2, other.2);
        assert_eq!(one.2.candidates.len(), 1 + rounds);
    }
}

#[test]
fn controls_reach_the_policy_and_nothing_else_of_the_turn_changes() {
    let seen = |turn: &Turn| format!("{:?} {}", turn.sampling.thoughts, turn.sampling.temperature);
    let config = strategy("controlled", json!({"close": "</t>", "controls": [{"budget": {"most": 7}}]}));
    let (text, ..) = answer(&config, Speaker::new(seen), turn("?", 5));
    assert!(text.contains("close: \"</t>\"") && text.contains("most: Some(7)"), "{text}");
    let plain = turn("?", 5).sampling;
    assert!(text.ends_with(&format!(" {}", plain.temperature)));
    let controlled = Sampling { thoughts: Some(burnish_core::Thoughts::default()), ..(*plain).clone() };
    let error = config.build().unwrap().check_sampling(&controlled).unwrap_err().to_string();
    assert!(error.contains("controls") && error.contains("eval.thoughts"), "{error}");
}

#[test]
fn the_order_of_arrival_changes_nothing() {
    for config in all() {
        let first = answer(&config, Speaker::new(number), turn("?", 3));
        let backwards = answer(&config, Speaker::new(number).backwards(), turn("?", 3));
        assert_eq!(first, backwards, "{config:?}");
    }
}

#[test]
fn many_turns_at_once_are_answered_as_each_alone() {
    for config in all() {
        let alone: Vec<_> =
            (0..5).map(|seed| answer(&config, Speaker::new(number), turn("?", seed)).0).collect();
        let mut strategist = Strategist::new(Speaker::new(number).backwards(), config.build().unwrap());
        let together = answer_all(&mut strategist, (0..5).map(|seed| turn("?", seed)));
        let together: Vec<_> =
            together.into_iter().map(|(_, output)| output.unwrap().message.content).collect();
        assert_eq!(together, alone, "{config:?}");
    }
}

#[test]
fn every_choice_follows_from_what_is_on_record() {
    for config in all() {
        for seed in 0..20 {
            let (text, _, considered) = answer(&config, Speaker::new(number), turn("?", seed));
            assert_eq!(considered.candidates[considered.chosen].message.content, text);
            let line = serde_json::to_string(&considered).unwrap();
            assert_eq!(serde_json::from_str::<Considered>(&line).unwrap(), considered);
            let last = considered.selections.last();
            if let Some(selection) = last {
                assert_eq!(selection.chosen, [considered.chosen], "{config:?}");
            }
            let sum = considered.candidates.iter().map(|candidate| candidate.tokens).sum();
            assert_eq!(considered.tokens, sum);
            for selection in considered.selections.iter().filter(|selection| selection.rule == "majority") {
                let votes = |of: Option<usize>| selection.answers.iter().filter(|one| **one == of).count();
                let at = selection.among.iter().position(|at| *at == selection.chosen[0]).unwrap();
                let most = selection.answers.iter().map(|one| votes(*one)).max().unwrap();
                assert_eq!(votes(selection.answers[at]), most);
                // The first of those that say so.
                assert!(!selection.answers[..at].contains(&selection.answers[at]));
            }
        }
    }
}

#[test]
fn what_was_read_and_generated_is_counted_and_drafts_are_isolated() {
    let config = strategy("heavyskill", json!({"drafts": 3, "deliberations": 2}));
    let (_, trace, considered) = answer(&config, Speaker::new(number), turn("what?", 3));
    let prompts: BTreeSet<String> = considered.prompts.iter().cloned().collect();
    assert_eq!((prompts.len(), considered.cache.len()), (1, 3));
    let drafts = considered.of(Role::Draft, None);
    for at in &drafts {
        let candidate = &considered.candidates[*at];
        // Speaker reads one id for each character of the conversation and says one for each of its answer.
        assert_eq!(candidate.tokens.read, "what?".len());
        assert_eq!(candidate.tokens.generated, candidate.message.content.chars().count());
        let shown = &considered.prompts[0];
        assert!(shown.contains(&candidate.message.content));
    }
    for at in considered.of(Role::Deliberation, None) {
        assert_eq!(considered.candidates[at].tokens.read, considered.prompts[0].chars().count());
    }
    assert_eq!(trace.sampled_tokens(), considered.tokens.generated);
}

#[test]
fn the_policy_that_answers_nothing_but_the_question_sees_no_other_draft() {
    let seen = std::cell::RefCell::new(Vec::new());
    let spy = Speaker::new(|turn: &Turn| {
        seen.borrow_mut()
            .push(turn.messages.iter().map(|message| message.content.clone()).collect::<Vec<_>>());
        number(turn)
    });
    answer(&strategy("heavyskill", json!({"drafts": 4, "deliberations": 1})), spy, turn("what?", 3));
    let seen = seen.into_inner();
    assert_eq!(seen.len(), 5);
    assert!(seen[..4].iter().all(|messages| *messages == ["what?"]));
    assert!(seen[4][0].matches("The answer is").count() == 4);
}

#[test]
fn a_judge_or_a_deliberator_takes_the_place_of_the_policy() {
    let config = strategy("best_of_n", json!({"samples": 3, "score": {"by": "judge", "tokens_max": 2}}));
    let judge = Speaker::new(|turn: &Turn| {
        assert_eq!((turn.sampling.temperature, turn.sampling.tokens_max), (0.0, 2));
        if turn.messages[0].content.contains("is 9") { "10".into() } else { "1".into() }
    });
    let mut drafts = ["The answer is 7.", "The answer is 9.", "The answer is 9!"].iter();
    let policy = Speaker::new(move |_: &Turn| (*drafts.next().unwrap()).to_owned());
    let mut strategist = Strategist::new(policy, config.build().unwrap()).with("judge", judge).recording();
    let (_, output) = answer_all(&mut strategist, [turn("?", 1)]).pop().unwrap();
    assert_eq!(output.unwrap().message.content, "The answer is 9.");
    let considered = strategist.take().remove(&1).unwrap();
    assert_eq!(considered.selections[0].scores, [Some(1.0), Some(10.0), Some(10.0)]);

    let config = strategy("heavyskill", json!({"drafts": 2, "deliberations": 1}));
    let deliberator =
        Speaker::new(|turn: &Turn| turn.messages[0].content.matches("is 7").count().to_string());
    let policy = Speaker::new(|_: &Turn| "The answer is 7.".to_owned());
    let mut strategist = Strategist::new(policy, config.build().unwrap()).with("deliberator", deliberator);
    let (_, output) = answer_all(&mut strategist, [turn("?", 1)]).pop().unwrap();
    assert_eq!(output.unwrap().message.content, "2");
}

/// Answers with a strategy whose reward model gives each answer a number of its own, moved by `by`.
fn ranked(name: &str, seed: u64, by: f64) -> Considered {
    let score = json!({"by": "reward_model", "path": "rm"});
    let config = strategy(name, json!({"samples": 9, "score": score}));
    let model = Script::new(move |turn: &Turn| {
        // It reads what was sampled: the trace ends with the answer that the conversation ends with.
        let said = &turn.messages[turn.messages.len() - 1].content;
        assert_eq!(turn.trace.nodes().last().map(|node| &*node.text), Some(said.as_str()));
        assert_eq!(turn.messages.len(), 2);
        let drawn = said.bytes().fold(seed, |sum, byte| rng::bits(sum, u64::from(byte)));
        let value = (drawn % 1000) as f64 / 100.0 - 5.0 + by;
        // What it can't read has no number.
        let said = if drawn % 7 == 0 { "too long for me".to_owned() } else { value.to_string() };
        Ok((said, StopReason::EndToken))
    });
    let mut strategist =
        Strategist::new(Speaker::new(number), config.build().unwrap()).with(REWARD_MODEL, model).recording();
    answer_all(&mut strategist, [turn("?", seed)]).pop().unwrap().1.unwrap();
    strategist.take().remove(&seed).unwrap()
}

#[test]
fn a_reward_model_ranks_by_its_numbers_and_only_their_differences_weigh_votes() {
    let mut has_none = false;
    for seed in 0..60 {
        let best = ranked("best_of_n", seed, 0.0);
        let scores = &best.selections[0].scores;
        let highest = scores.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max);
        let first = scores.iter().position(|score| *score == Some(highest)).unwrap_or(0);
        assert_eq!((best.chosen, scores.len()), (first, 9));
        has_none |= scores.contains(&None);
        let vote = ranked("weighted_vote", seed, 0.0);
        let selection = &vote.selections[0];
        let weight = |answer: Option<usize>| -> f64 {
            let own = selection.answers.iter().zip(&selection.scores).filter(|(own, _)| **own == answer);
            own.filter_map(|(_, score)| *score).map(|score| (score - highest).exp()).sum()
        };
        let chosen = selection.answers[vote.chosen];
        assert!(selection.answers.iter().all(|answer| weight(*answer) <= weight(chosen) + 1e-12), "{seed}");
        for by in [-3.0, 800.0] {
            assert_eq!(ranked("weighted_vote", seed, by).chosen, vote.chosen, "{seed} {by}");
            assert_eq!(ranked("best_of_n", seed, by).chosen, best.chosen, "{seed} {by}");
        }
    }
    assert!(has_none);
}

#[test]
fn nobody_takes_the_place_of_a_reward_model() {
    let config = strategy("best_of_n", json!({"score": {"by": "reward_model", "path": "rm"}}));
    let mut strategist = Strategist::new(Speaker::new(number), config.build().unwrap());
    let (_, output) = answer_all(&mut strategist, [turn("?", 1)]).pop().unwrap();
    assert!(matches!(output, Err(PolicyError::Unable(problem)) if problem.contains("reward model")));
    let words = Script::new(|_: &Turn| Ok(("7".to_owned(), StopReason::EndToken)));
    let error = Strategist::new(words, config.build().unwrap()).check(&Sampling::at(1.0, 8));
    assert!(error.unwrap_err().to_string().contains("reads tokens"));
}

#[test]
fn oracles_that_deliberate_reproduce_the_vote_and_any() {
    let (right, wrong) = ("The answer is 7.", "The answer is 8.");
    let drafts = |number: usize, seed: u64| {
        let chance = [0.2, 0.5, 0.8][number % 3];
        if burnish_core::rng::uniform(seed, 77) < chance { right } else { wrong }
    };
    for number in 0..3 {
        let (mut majority, mut any) = (Vec::new(), Vec::new());
        for seed in 0..60 {
            // What the deliberator reads: the drafts in its prompt.
            let oracle = |is_any: bool| {
                Speaker::new(move |turn: &Turn| {
                    let prompt = &turn.messages[0].content;
                    if !prompt.starts_with("read") {
                        return drafts(number, turn.seed).to_owned();
                    }
                    let (rights, wrongs) = (prompt.matches(right).count(), prompt.matches(wrong).count());
                    let is_right = if is_any { rights > 0 } else { rights > wrongs };
                    (if is_right { right } else { wrong }).to_owned()
                })
            };
            let config = strategy(
                "heavyskill",
                json!({"drafts": 5, "template": "read {prompt}: {drafts}", "draft": "{draft}\n"}),
            );
            for (is_any, rates) in [(false, &mut majority), (true, &mut any)] {
                let (_, _, considered) = answer(&config, oracle(is_any), turn("?", seed));
                let is_right: Vec<bool> = considered
                    .candidates
                    .iter()
                    .map(|candidate| candidate.message.content == right)
                    .collect();
                let found = Rates::of(&considered, &is_right).unwrap();
                assert!((found.hm - found.vote - (found.rectified - found.regressed)).abs() < 1e-12);
                rates.push(found);
            }
        }
        let (majority, any) = (Rates::mean_of(&majority).unwrap(), Rates::mean_of(&any).unwrap());
        assert_eq!((majority.hm, majority.rectified, majority.regressed), (majority.vote, 0.0, 0.0));
        assert_eq!((any.hm, any.hp, any.regressed), (any.any, any.any, 0.0));
        assert!(
            majority.any > majority.vote && majority.mean > 0.0,
            "the oracle has something to do: {majority:?}"
        );
        assert_eq!((majority.mean, majority.vote, majority.any), (any.mean, any.vote, any.any));
    }
}

#[test]
fn an_order_invariant_deliberator_answers_alike_whatever_the_order() {
    // The drafts are the same for every seed of the order, so the answers must be, too.
    let texts = ["The answer is 7.", "The answer is 8.", "The answer is 7."];
    let answers: BTreeSet<(String, String)> = (0..30)
        .map(|seed| {
            let mut at = 0;
            let policy = Speaker::new(move |turn: &Turn| {
                let prompt = &turn.messages[0].content;
                if prompt == "?" {
                    at += 1;
                    return texts[at - 1].to_owned();
                }
                prompt.matches("is 7").count().to_string()
            });
            let config = strategy("heavyskill", json!({"drafts": 3, "deliberations": 1}));
            let (text, _, considered) = answer(&config, policy, turn("?", seed));
            (text, considered.prompts[0].clone())
        })
        .collect();
    assert_eq!(answers.iter().map(|(text, _)| text.as_str()).collect::<BTreeSet<_>>(), BTreeSet::from(["2"]));
    assert_eq!(answers.len(), 3, "three different orders of two kinds of drafts");
}

#[test]
fn a_cache_that_does_not_fit_the_context_is_cut_until_it_does() {
    let config = strategy(
        "heavyskill",
        json!({"drafts": 2, "deliberations": 1, "template": "{prompt}|{drafts}", "draft": "{draft};"}),
    );
    let long = |_: &Turn| format!("{}. The answer is 7.", "so it is and so on ".repeat(10));
    let policy = Speaker::new(long).with_room(250);
    let (_, _, considered) = answer(&config, policy, turn("?", 1));
    assert!(considered.prompts[0].chars().count() <= 250);
    assert!(considered.cache.iter().all(|cached| !cached.is_whole) && !considered.cache.is_empty());
    assert!(considered.prompts[0].matches("The answer is 7.").count() == considered.cache.len());
    // The question itself does not fit: that is an error of the turn.
    let mut strategist = Strategist::new(Speaker::new(long).with_room(2), config.build().unwrap());
    let (_, output) = answer_all(&mut strategist, [turn("what?", 1)]).pop().unwrap();
    assert!(matches!(output.unwrap_err(), PolicyError::PromptTooLong { .. }));
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_asked() {
    let refused = |config: serde_json::Value, name: &str, sampling: &Sampling, logprobs: bool| {
        let policy = Speaker::new(|_: &Turn| panic!("it was asked"));
        let policy = if logprobs { policy } else { policy.without_logprobs() };
        let strategist = Strategist::new(policy, strategy(name, config).build().unwrap());
        strategist.check(sampling).unwrap_err().to_string()
    };
    let greedy = Sampling::greedy(8);
    for name in ["majority", "best_of_n", "weighted_vote", "heavyskill"] {
        let error = refused(json!({}), name, &greedy, true);
        assert!(error.starts_with("temperature: 8 answers are sampled greedily"), "{error}");
    }
    let error = refused(json!({"temperature": 1.0}), "heavyskill", &greedy, true);
    assert!(error.starts_with("deliberation_temperature: 4 answers"), "{error}");
    let error = refused(json!({}), "best_of_n", &Sampling::at(1.0, 8), false);
    assert!(error.contains("reports none"), "{error}");
    // Nobody is trained on it.
    let strategist = Strategist::new(Speaker::new(number), strategy("majority", json!({})).build().unwrap());
    assert!(strategist.abilities().check_trainable().is_err());
    assert_eq!(
        strategist.abilities(),
        Abilities { token_ids: false, logprobs: false, prefix: false, ..Abilities::ALL }
    );
}

#[test]
fn a_conversation_goes_on_after_an_answer_that_was_chosen() {
    let config = strategy("majority", json!({"samples": 3}));
    let mut strategist = Strategist::new(Speaker::new(number), config.build().unwrap()).recording();
    let (trace, output) = answer_all(&mut strategist, [turn("one", 1)]).pop().unwrap();
    let said = output.unwrap().message;
    let messages = Arc::new(vec![Message::user("one"), said.clone(), Message::user("two")]);
    let next = Turn { trace: trace.clone(), messages, ..turn("", 2) };
    let (after, _) = answer_all(&mut strategist, [next]).pop().unwrap();
    assert_eq!(&after.nodes()[..trace.nodes().len()], trace.nodes());
    let considered = strategist.take();
    let read = "one".len() + said.content.chars().count() + "two".len();
    assert!(considered[&2].candidates.iter().all(|candidate| candidate.tokens.read == read));
    assert_eq!(StopReason::EndToken, considered[&2].candidates[0].stop);
}

#[test]
fn a_turn_that_is_cancelled_cancels_what_it_asked_for() {
    let config = strategy("majority", json!({"samples": 3}));
    let mut strategist = Strategist::new(Speaker::new(number), config.build().unwrap());
    let id = strategist.submit(turn("?", 1));
    assert!(strategist.cancel(id));
    assert!(strategist.wait().is_empty());
    assert!(!strategist.cancel(id));
}
