//! Strategies that play episodes of several turns. Beam search is checked against its own record.
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use burnish_core::rng::{Address, Purpose, bits};
use burnish_core::{
    Ending, Message, Role, Sampling, Script, StopReason, ToolCalls, ToolSpec, Turn, TurnOutput, Verdict,
};
use burnish_episode::{
    Cast, ContactError, Handle, Known, Position, Program, Simulated, Started, Waited, run,
};
use burnish_reason::{Considered, POLICY, Player, StrategyConfig};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::common::Speaker;

/// Repeats what was said; over after `turns` answers, or when one is a multiple of 7.
#[derive(Clone)]
struct Echo {
    turns: usize,
    messages: Arc<Vec<Message>>,
    answers: Vec<Message>,
    sampling: Arc<Sampling>,
    tools: Arc<Vec<ToolSpec>>,
}

impl Echo {
    fn new(turns: usize) -> Self {
        let (messages, sampling) = (Arc::new(vec![Message::user("?")]), Arc::new(Sampling::at(1.0, 8)));
        Echo { turns, messages, answers: Vec::new(), sampling, tools: Arc::default() }
    }
}

fn is_end(said: &str) -> bool {
    said.parse::<u64>().unwrap().is_multiple_of(7)
}

impl<'s> Position<'s> for Echo {
    fn messages(&self) -> &Arc<Vec<Message>> {
        &self.messages
    }
    fn tools(&self) -> &Arc<Vec<ToolSpec>> {
        &self.tools
    }
    fn sampling(&self) -> &Arc<Sampling> {
        &self.sampling
    }
    fn answers(&self) -> &[Message] {
        &self.answers
    }
    fn calls(&self) -> ToolCalls {
        ToolCalls::default()
    }
    fn ending(&self) -> Option<Ending> {
        let is_over = self.answers.last().is_some_and(|said| is_end(&said.content));
        (is_over || self.answers.len() >= self.turns).then_some(Ending::Completed)
    }
    fn fork(&mut self, _: &Handle) -> Box<dyn Position<'s> + 's> {
        Box::new(self.clone())
    }
    fn make_room(&mut self, tokens: usize, _: usize) -> Result<(), ContactError> {
        panic!("{tokens} tokens are too many")
    }
    fn act<'a>(&'a mut self, _: &'a Handle, answer: TurnOutput) -> Waited<'a, Result<(), ContactError>> {
        let again = Message::user(format!("you said {}", answer.message.content));
        Arc::make_mut(&mut self.messages).extend([answer.message.clone(), again]);
        self.answers.push(answer.message);
        Box::pin(std::future::ready(Ok(())))
    }
    fn judge<'a>(&'a mut self, _: &'a Handle) -> Waited<'a, Result<Verdict, ContactError>> {
        Box::pin(std::future::ready(Ok(Verdict::unscored("nothing is judged"))))
    }
}

/// A number of two digits that follows from the turn's seed.
fn number(turn: &Turn) -> String {
    drawn(turn.seed)
}

fn drawn(seed: u64) -> String {
    (bits(seed, 99) % 40 + 10).to_string()
}

/// Plays an episode of `turns` turns; returns the answers and what was considered, in the order of turns.
fn played(strategy: &str, config: Value, turns: usize, seed: u64) -> (Vec<String>, Vec<Considered>) {
    played_within(None, strategy, config, turns, seed)
}

fn turn_seed(seed: u64, turn: usize) -> u64 {
    Address { turn: turn as u64, ..Address::new(seed, Purpose::Sample) }.seed()
}

/// The same, with a budget for each turn.
fn played_within(
    budget: Option<usize>,
    strategy: &str,
    config: Value,
    turns: usize,
    seed: u64,
) -> (Vec<String>, Vec<Considered>) {
    let strategy = StrategyConfig { strategy: strategy.into(), config }.build().unwrap();
    let budgets =
        budget.into_iter().flat_map(|budget| (0..turns).map(move |turn| (turn_seed(seed, turn), budget)));
    let player = Player::new(strategy, Vec::new()).with_budgets(budgets.collect());
    let policy: Arc<str> = POLICY.into();
    let answers = RefCell::new(Vec::new());
    let episode = Started::new(Address::new(seed, Purpose::Environment), Known::default(), async |handle| {
        let over = player.play(&handle, &policy, Box::new(Echo::new(turns))).await?;
        answers.borrow_mut().extend(over.answers().iter().map(|said| said.content.clone()));
        Ok::<_, ContactError>(())
    });
    let mut speaker = Speaker::new(number);
    run(vec![episode], Cast::default().with(POLICY, &mut speaker), &mut Simulated::new(|_| unreachable!()))
        .unwrap();
    let mut considered = player.take();
    let considered = (0..turns).filter_map(|turn| considered.remove(&turn_seed(seed, turn))).collect();
    (answers.into_inner(), considered)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn the_best_ways_are_followed_and_the_best_of_those_that_are_over_counts(
        width in 2..5_usize, keep in 1..4_usize, turns in 1..5_usize, seed: u64,
    ) {
        let (answers, considered) = played("beam", json!({"width": width, "keep": keep}), turns, seed);
        prop_assert_eq!(considered.len(), 1);
        let Considered { candidates, selections, chosen, .. } = &considered[0];
        // Positions in the order in which they were reached, each with the sum and the number of scores on the way.
        let mut positions: Vec<(f64, f64)> = vec![(0.0, 0.0)];
        let mut ended: Vec<(usize, f64)> = Vec::new();
        let mut open = vec![0];
        let (last, stages) = selections.split_last().unwrap();
        for (stage, selection) in stages.iter().enumerate() {
            let own: Vec<usize> =
                (0..candidates.len()).filter(|at| candidates[*at].stage == stage as u32).collect();
            prop_assert_eq!(&own, &selection.among);
            prop_assert_eq!(own.len(), width * open.len());
            let value = |at: &usize| {
                let (sum, count) = positions[candidates[*at].position];
                (sum + candidates[*at].mean_logprob.unwrap()) / (count + 1.0)
            };
            let scores: Vec<f64> = selection.scores.iter().map(|score| score.unwrap()).collect();
            for (at, score) in own.iter().zip(&scores) {
                prop_assert!((value(at) - score).abs() < 1e-12);
            }
            let mut best = own.clone();
            best.sort_by(|one, other| value(other).total_cmp(&value(one)));
            best.truncate(keep);
            prop_assert_eq!(&best, &selection.chosen);
            open.clear();
            let reached: Vec<(f64, f64)> = best
                .iter()
                .map(|at| {
                    let (sum, count) = positions[candidates[*at].position];
                    (sum + candidates[*at].mean_logprob.unwrap(), count + 1.0)
                })
                .collect();
            for (at, way) in best.iter().zip(reached) {
                let said = &candidates[*at].message.content;
                match is_end(said) || stage + 1 == turns {
                    true => ended.push((*at, way.0 / way.1)),
                    false => open.push(positions.len()),
                }
                positions.push(way);
            }
        }
        let best = ended.iter().copied().reduce(|best, way| if way.1 > best.1 { way } else { best }).unwrap();
        prop_assert_eq!(best.0, *chosen);
        prop_assert_eq!(&last.among, &ended.iter().map(|(at, _)| *at).collect::<Vec<_>>());
        prop_assert_eq!(&last.chosen, &[*chosen]);
        prop_assert_eq!(answers.last(), Some(&candidates[*chosen].message.content));
    }

    #[test]
    fn a_beam_of_one_is_the_plain_policy(turns in 1..5_usize, seed: u64) {
        let (beam, _) = played("beam", json!({"width": 1, "keep": 1}), turns, seed);
        let (plain, considered) = played("majority", json!({"samples": 1}), turns, seed);
        prop_assert_eq!(&beam, &plain);
        prop_assert_eq!(considered.len(), plain.len());
        // As an episode without a program draws.
        let drawn: Vec<String> =
            (0..plain.len()).map(|turn| drawn(turn_seed(seed, turn))).collect();
        prop_assert_eq!(plain, drawn);
    }

    #[test]
    fn where_an_episode_is_one_turn_it_is_best_of_n(width in 2..6_usize, keep in 1..4_usize, seed: u64) {
        let (beam, considered) = played("beam", json!({"width": width, "keep": keep}), 1, seed);
        let (best, of_n) = played("best_of_n", json!({"samples": width}), 1, seed);
        prop_assert_eq!(beam, best);
        prop_assert_eq!(&considered[0].candidates, &of_n[0].candidates);
    }
}

#[test]
fn a_budget_is_reached_and_hardly_passed() {
    for budget in [0, 1, 30, 200, 1000] {
        let (_, considered) = played_within(Some(budget), "majority", json!({"equality": "number"}), 3, 4);
        for own in &considered {
            let total = own.tokens.total();
            let dearest = own.candidates.iter().map(|candidate| candidate.tokens.total()).max().unwrap();
            assert!(total >= budget && total < budget + dearest + 1, "{budget}: {total}");
        }
        // A larger number begins with the same drafts.
        let samples = considered[0].candidates.len();
        let (_, other) = played("majority", json!({"equality": "number", "samples": samples}), 3, 4);
        assert_eq!(other[0].candidates, considered[0].candidates);
    }
}

#[test]
fn what_was_sampled_before_is_read_as_it_was() {
    let (_, considered) = played("beam", json!({"width": 3, "keep": 2}), 4, 5);
    let Considered { candidates, .. } = &considered[0];
    let texts: BTreeMap<u32, Vec<usize>> = candidates.iter().fold(BTreeMap::new(), |mut by, candidate| {
        by.entry(candidate.stage).or_insert_with(Vec::new).push(candidate.tokens.read);
        by
    });
    // One token per character: `?`, then each answer and its echo.
    assert!(texts[&0].iter().all(|read| *read == 1));
    assert!(texts.len() > 1 && texts[&1].iter().all(|read| *read > 1 + "you said ".len()));
}

#[test]
fn a_turn_goes_on_where_the_answer_before_it_ends() {
    let strategy = StrategyConfig { strategy: "beam".into(), config: json!({"width": 3, "keep": 2}) };
    let player = Player::new(strategy.build().unwrap(), Vec::new());
    let policy: Arc<str> = POLICY.into();
    let episode = Started::new(Address::new(6, Purpose::Environment), Known::default(), async |handle| {
        player.play(&handle, &policy, Box::new(Echo::new(3))).await.map(|_| ())
    });
    let turns = Cell::new(0);
    let mut speaker = Speaker::new(|turn: &Turn| {
        let said = turn.messages.iter().rfind(|message| message.role == Role::Assistant);
        let head = turn.trace.head().map(|head| turn.trace.nodes()[head.0].text.as_str());
        assert_eq!(head, said.map(|said| said.content.as_str()));
        turns.set(turns.get() + 1);
        format!("{}", 100 * turns.get() + 1)
    });
    run(vec![episode], Cast::default().with(POLICY, &mut speaker), &mut Simulated::new(|_| unreachable!()))
        .unwrap();
    drop(speaker);
    assert!(turns.get() > 3);
}

#[test]
fn a_judge_reads_the_conversation_up_to_the_answer() {
    let strategy = StrategyConfig {
        strategy: "beam".into(),
        config: json!({"width": 2, "keep": 1, "score": {"by": "judge", "prompt": "{task}|{answer}"}}),
    };
    let player = Player::new(strategy.build().unwrap(), vec!["judge"]);
    let policy: Arc<str> = POLICY.into();
    let episode = Started::new(Address::new(3, Purpose::Environment), Known::default(), async |handle| {
        player.play(&handle, &policy, Box::new(Echo::new(2))).await.map(|_| ())
    });
    let read = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&read);
    let mut judge = Script::new(move |turn: &Turn| {
        seen.lock().unwrap().push(turn.messages[0].content.clone());
        Ok(("5".to_owned(), StopReason::EndToken))
    });
    let mut speaker = Speaker::new(|turn: &Turn| (turn.messages.len() + 1).to_string());
    let cast = Cast::default().with(POLICY, &mut speaker).with("judge", &mut judge);
    run(vec![episode], cast, &mut Simulated::new(|_| unreachable!())).unwrap();
    let read = read.lock().unwrap();
    assert_eq!(&read[..2], ["?|2", "?|2"]);
    assert_eq!(&read[2..], ["User: ?\nAssistant: 2\nUser: you said 2|4"; 2]);
}

#[test]
fn a_policy_that_judges_itself_has_one_trace_which_ends_with_the_chosen_answer() {
    let config = json!({"samples": 3, "score": {"by": "judge"}});
    let strategy = StrategyConfig { strategy: "best_of_n".into(), config }.build().unwrap();
    let (player, policy): (_, Arc<str>) = (Player::new(strategy, Vec::new()), POLICY.into());
    let episode = Started::new(Address::new(8, Purpose::Environment), Known::default(), async |handle| {
        let over = player.play(&handle, &policy, Box::new(Echo::new(1))).await?;
        Ok::<_, ContactError>(over.answers()[0].content.clone())
    });
    let mut speaker = Speaker::new(number);
    let cast = Cast::default().with(POLICY, &mut speaker);
    let finished = run(vec![episode], cast, &mut Simulated::new(|_| unreachable!())).unwrap().remove(0);
    let [trace] = &finished.traces[..] else { panic!("{} traces", finished.traces.len()) };
    assert_eq!(trace.nodes()[trace.head().unwrap().0].text, finished.value);
    assert_eq!(
        trace.nodes().iter().filter(|node| node.parent.is_none()).count(),
        4,
        "a question and three grades"
    );
}
