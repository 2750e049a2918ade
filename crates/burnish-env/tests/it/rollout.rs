//! Rollouts: turns as they finish, seeds by address, and the outcome of every kind of trouble.
#![allow(clippy::unwrap_used, clippy::panic)]

use burnish_core::rng::{Address, Purpose};
use burnish_core::{
    Abilities, Answered, Ending, Episode, Message, Piece, Policy, PolicyError, Role, Said, Sampling, Script,
    StopReason, Task, TaskId, Turn, TurnId, TurnOutput, Validity, Verdict,
};
use burnish_env::rollout::{Overlong, RolloutError, RolloutSpec, SeedPlace, Spawn, Start, play};
use burnish_env::{Bound, EnvError, Environment, Generator, Step, TaskSet};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Counts down from `truth.turns`; the answer `break` makes it fail. The reward is the number of answers.
struct Counting;

#[derive(Default)]
struct CountingGame {
    left: u64,
    answers: usize,
    seed: u64,
}

impl Generator for Counting {
    fn id(&self) -> &'static str {
        "counting"
    }
    fn config(&self) -> Value {
        Value::Null
    }
    fn bounds(&self) -> Vec<Bound> {
        Vec::new()
    }
    fn tasks(&self, _: u64, _: usize) -> Result<TaskSet, EnvError> {
        Err(EnvError::Failed("not needed".into()))
    }
    fn environment(&self) -> Box<dyn Environment> {
        Box::new(CountingGame::default())
    }
    fn draw(&self, _: &Task, _: Option<&str>) -> String {
        String::new()
    }
}

impl Environment for CountingGame {
    fn reset(&mut self, task: &Task, seed: u64) -> Result<Vec<Message>, EnvError> {
        self.left = task.truth["turns"].as_u64().ok_or(EnvError::Foreign("no turns".into()))?;
        self.seed = seed;
        Ok(task.prompt.clone())
    }
    fn step(&mut self, action: &Message) -> Result<Step, EnvError> {
        if action.content == "break" {
            return Err(EnvError::Failed("broken".into()));
        }
        self.answers += 1;
        self.left -= 1;
        Ok(match self.left {
            0 => Step::Done,
            left => Step::Continue(vec![Message::user(format!("{left} left"))]),
        })
    }
    fn verify(&mut self) -> Result<Verdict, EnvError> {
        let mut verdict = Verdict::scored("answers", self.answers as f64, self.left == 0);
        verdict.feedback = Some(self.seed.to_string());
        Ok(verdict)
    }
}

/// What each turn showed (the texts of its messages), and its seed.
type Notes = Rc<RefCell<Vec<(Vec<String>, u64)>>>;

/// A policy that answers by a function of the messages, and what it was asked.
fn scripted(mut answer: impl FnMut(&[Message]) -> Said) -> (impl Policy, Notes) {
    let notes = Notes::default();
    let own = Rc::clone(&notes);
    let policy = Script::recorded_as(vec![7], move |turn: &Turn| {
        let texts = turn.messages.iter().map(|message| message.content.clone()).collect();
        own.borrow_mut().push((texts, turn.seed));
        answer(&turn.messages)
    });
    (policy, notes)
}

fn says(text: &str) -> Said {
    Ok((text.to_owned(), StopReason::EndToken))
}

fn task(name: &str, turns: Value) -> Task {
    Task {
        id: TaskId(format!("counting/{name}")),
        environment: "counting".into(),
        prompt: vec![Message::system("rules"), Message::user(name)],
        truth: json!({ "turns": turns }),
        labels: BTreeMap::new(),
    }
}

const SEEDS: SeedPlace = SeedPlace { run: 11, stage: 1, step: 4, task_offset: 100 };

fn spawns(tasks: &[Task], count: usize) -> Vec<Spawn<'_>> {
    Spawn::of_tasks(tasks, count, &Sampling::at(1.0, 16), SEEDS)
}

fn spec<'a>(spawns: &'a [Spawn<'a>]) -> RolloutSpec<'a> {
    RolloutSpec::new(&Counting, spawns, 5, Overlong::Refuse)
}

#[test]
fn episodes_come_ordered_by_task_then_rollout_with_a_turn_for_each_answer() {
    let tasks = [task("a", json!(3)), task("b", json!(1)), task("c", json!(2))];
    let (mut policy, notes) = scripted(|_| says("ok"));
    let episodes = play(&mut policy, &spec(&spawns(&tasks, 2))).unwrap();
    let names: Vec<(&str, usize, usize)> =
        episodes.iter().map(|e| (e.task.0.as_str(), e.rollout, e.turns())).collect();
    let expected = [
        ("counting/a", 0, 3),
        ("counting/a", 1, 3),
        ("counting/b", 0, 1),
        ("counting/b", 1, 1),
        ("counting/c", 0, 2),
        ("counting/c", 1, 2),
    ];
    assert_eq!(names, expected);
    assert_eq!(notes.borrow().len(), 12);
    assert_eq!(notes.borrow()[10].0, ["rules", "a", "ok", "2 left", "ok", "1 left"]);
    for episode in &episodes {
        assert_eq!(episode.ending, Ending::Completed);
        assert!(episode.verdict.success);
        assert_eq!(episode.sampled_tokens(), episode.turns());
    }
}

#[test]
fn every_seed_is_that_of_its_address() {
    let tasks = [task("a", json!(2)), task("b", json!(2))];
    let (mut policy, notes) = scripted(|_| says("ok"));
    let episodes = play(&mut policy, &spec(&spawns(&tasks, 2))).unwrap();
    let address = |task, rollout, turn, purpose| {
        Address { stage: 1, step: 4, task, rollout, turn, ..Address::new(11, purpose) }.seed()
    };
    for (turn, call) in notes.borrow().chunks(4).enumerate() {
        for (index, (_, seed)) in call.iter().enumerate() {
            let (task, rollout) = (100 + index as u64 / 2, index as u64 % 2);
            assert_eq!(*seed, address(task, rollout, turn as u64, Purpose::Sample));
        }
    }
    for (index, episode) in episodes.iter().enumerate() {
        let seed = address(100 + index as u64 / 2, index as u64 % 2, 0, Purpose::Environment);
        assert_eq!(episode.verdict.feedback, Some(seed.to_string()));
    }
}

#[test]
fn tasks_played_in_parts_have_the_seeds_of_tasks_played_together() {
    let tasks = [task("a", json!(2)), task("b", json!(2))];
    let seeds = |spec: &RolloutSpec<'_>| -> Vec<u64> {
        let (mut policy, notes) = scripted(|_| says("ok"));
        play(&mut policy, spec).unwrap();
        let last = notes.borrow().len() / 2;
        notes.borrow()[last..].iter().map(|note| note.1).collect()
    };
    let second =
        Spawn::of_tasks(&tasks[1..], 2, &Sampling::at(1.0, 16), SeedPlace { task_offset: 101, ..SEEDS });
    assert_eq!(seeds(&spec(&spawns(&tasks, 2)))[2..], seeds(&spec(&second)));
}

#[test]
fn a_start_replaces_what_the_policy_reads_first_and_begins_only_its_first_answer() {
    let tasks = [task("a", json!(2)), task("b", json!(2))];
    let mut spawns = spawns(&tasks, 2);
    spawns[1].start = Start::Messages(vec![Message::user("instead")]);
    spawns[1].prefix = vec![Piece { text: "so: ".into(), ..Piece::default() }];
    let (mut policy, notes) = scripted(|_| says("ok"));
    let episodes = play(&mut policy, &spec(&spawns)).unwrap();
    assert_eq!(notes.borrow()[0].0, ["rules", "a"]);
    assert_eq!(notes.borrow()[2].0, ["instead"]);
    assert_eq!(notes.borrow()[6].0, ["instead", "so: ok", "1 left"]);
    assert_eq!(notes.borrow()[4].0, ["rules", "a", "ok", "1 left"]);
    let answers: Vec<&str> = episodes[2].answers.iter().map(|answer| answer.content.as_str()).collect();
    assert_eq!(answers, ["so: ok", "ok"]);
    assert!(episodes.iter().all(|episode| episode.verdict.success), "the environment judges as ever");
}

#[test]
fn an_environment_that_fails_ends_its_own_episode_unscored() {
    let tasks = [task("a", json!(2)), task("bad", Value::Null), task("b", json!(2))];
    let (mut policy, _) = scripted(|messages| match messages.last().unwrap().content.as_str() {
        "b" => says("break"),
        _ => says("ok"),
    });
    let episodes = play(&mut policy, &spec(&spawns(&tasks, 1))).unwrap();
    let unscored = |reason: &str| Validity::Unscored { reason: reason.into() };
    assert_eq!(episodes[0].ending, Ending::Completed);
    assert_eq!((episodes[1].ending, episodes[1].turns()), (Ending::EnvironmentError, 0));
    assert_eq!(episodes[1].verdict.validity, unscored("no turns"));
    assert_eq!((episodes[2].ending, episodes[2].turns()), (Ending::EnvironmentError, 1));
    assert_eq!(episodes[2].verdict.validity, unscored("broken"));
}

#[test]
fn an_episode_that_reaches_the_bound_on_turns_is_judged_there() {
    let tasks = [task("a", json!(9))];
    let (mut policy, _) = scripted(|_| says("ok"));
    let episodes = play(&mut policy, &spec(&spawns(&tasks, 2))).unwrap();
    assert_eq!((episodes[0].ending, episodes[0].turns()), (Ending::TurnsMax, 5));
    assert_eq!(episodes[0].verdict.rewards["answers"], 5.0);
    assert!(matches!(
        play(&mut policy, &RolloutSpec { turns_max: 0, ..spec(&spawns(&tasks, 2)) }),
        Err(RolloutError::NoTurns)
    ));
}

#[test]
fn a_truncated_answer_is_judged_and_ends_the_episode() {
    let tasks = [task("a", json!(1)), task("b", json!(3))];
    let (mut policy, _) = scripted(|_| Ok(("cut".to_owned(), StopReason::TokensMax)));
    for episode in play(&mut policy, &spec(&spawns(&tasks, 2))).unwrap() {
        assert_eq!((episode.ending, episode.turns()), (Ending::Truncated, 1));
        assert_eq!(episode.verdict.rewards["answers"], 1.0);
        assert!(episode.traces[0].branches()[0].is_truncated);
    }
}

/// A policy that reads at most `most` messages.
fn short_sighted(most: usize) -> (impl Policy, Notes) {
    scripted(move |messages| match messages.len() {
        tokens if tokens > most => Err(PolicyError::PromptTooLong { tokens, tokens_max: most }),
        _ => says("ok"),
    })
}

/// A long task between two that fit.
fn one_long() -> [Task; 3] {
    let mut long = task("long", json!(1));
    long.prompt.extend([Message::assistant("old answer"), Message::user("old"), Message::user("newest")]);
    [task("a", json!(1)), long, task("b", json!(1))]
}

#[test]
fn an_overlong_prompt_is_refused_by_name_dropped_or_truncated_as_the_plan_says() {
    let tasks = one_long();
    let with = |overlong, most| {
        play(&mut short_sighted(most).0, &RolloutSpec { overlong, ..spec(&spawns(&tasks, 2)) })
    };

    let error = with(Overlong::Refuse, 3).unwrap_err();
    assert!(
        error.to_string().starts_with("task counting/long: the prompt has 5 tokens, but at most 3"),
        "{error}"
    );

    let dropped = with(Overlong::Drop, 3).unwrap();
    assert_eq!((dropped[2].ending, dropped[2].turns()), (Ending::ContextOverflow, 0));
    assert!(!dropped[2].verdict.is_scored());
    assert!(dropped[1].verdict.success && dropped[4].verdict.success);

    assert!(with(Overlong::Truncate, 3).unwrap().iter().all(|episode| episode.ending == Ending::Completed));
    let hopeless = with(Overlong::Truncate, 1).unwrap();
    assert!(hopeless.iter().all(|e| e.ending == Ending::ContextOverflow && !e.verdict.is_scored()));
}

#[test]
fn truncation_drops_the_oldest_exchange_and_keeps_system_and_newest_messages() {
    let tasks = one_long();
    let (mut policy, notes) = short_sighted(2);

    play(&mut policy, &RolloutSpec { overlong: Overlong::Truncate, ..spec(&spawns(&tasks, 1)) }).unwrap();
    let notes = notes.borrow();
    let asked: Vec<Vec<&str>> = notes
        .iter()
        .map(|(texts, _)| texts.iter().map(String::as_str).collect::<Vec<_>>())
        .filter(|texts| texts.contains(&"newest"))
        .collect();
    let whole = vec!["rules", "long", "old answer", "old", "newest"];
    assert_eq!(asked, [whole, vec!["rules", "old", "newest"], vec!["rules", "newest"]]);
    let seeds: Vec<u64> =
        notes.iter().filter(|note| note.0.contains(&"newest".into())).map(|note| note.1).collect();
    assert!(seeds.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn an_episode_that_outgrows_the_context_later_is_judged_by_what_it_did() {
    let tasks = [task("a", json!(4))];
    for overlong in [Overlong::Refuse, Overlong::Drop] {
        let episodes =
            play(&mut short_sighted(4).0, &RolloutSpec { overlong, ..spec(&spawns(&tasks, 2)) }).unwrap();
        assert_eq!((episodes[0].ending, episodes[0].turns()), (Ending::ContextOverflow, 2));
        assert_eq!(episodes[0].verdict.rewards["answers"], 2.0);
    }
    let episodes = play(
        &mut short_sighted(4).0,
        &RolloutSpec { overlong: Overlong::Truncate, ..spec(&spawns(&tasks, 2)) },
    )
    .unwrap();
    assert_eq!((episodes[0].ending, episodes[0].turns()), (Ending::Completed, 4));
}

#[test]
fn a_policy_that_fails_is_an_error_of_the_run_with_its_place() {
    let tasks = [task("a", json!(2)), task("b", json!(2))];
    let (mut policy, _) = scripted(|messages: &[Message]| {
        match messages[1].content == "b" && messages.last().unwrap().role == Role::User && messages.len() > 2
        {
            true => Err(PolicyError::Failed("gone".into())),
            false => says("ok"),
        }
    });
    let error = play(&mut policy, &spec(&spawns(&tasks, 2))).unwrap_err();
    assert_eq!(error.to_string(), "task counting/b, rollout 0, turn 1: the policy failed: gone");
}

#[test]
fn a_policy_that_loses_turns_is_an_error() {
    let tasks = [task("a", json!(1))];
    let error = play(&mut Slow::default(), &spec(&spawns(&tasks, 2))).unwrap_err();
    assert_eq!(error.to_string(), "the policy has nothing under way, but 2 turns were not answered");
}

/// Answers one turn at a time, the newest first, as many as it is told to.
#[derive(Default)]
struct Slow {
    left: usize,
    waiting: Vec<(TurnId, Turn)>,
    cancelled: BTreeSet<TurnId>,
    next: u64,
    /// What each turn showed last.
    order: Vec<String>,
}

impl Policy for Slow {
    fn abilities(&self) -> Abilities {
        Abilities::TEXT
    }
    fn version(&self) -> u64 {
        0
    }
    fn submit(&mut self, turn: Turn) -> TurnId {
        let id = TurnId(self.next);
        self.next += 1;
        self.waiting.push((id, turn));
        id
    }
    fn poll(&mut self) -> Vec<Answered> {
        if self.left == 0 {
            return Vec::new();
        }
        self.left -= 1;
        let answer = |(id, turn): (TurnId, Turn)| {
            let asked = turn.messages.last().unwrap().content.clone();
            let result = match asked.as_str() {
                "fails" => Err(PolicyError::Failed("gone".into())),
                _ => Ok(TurnOutput::new(Message::assistant("ok"), StopReason::EndToken)),
            };
            self.order.push(asked);
            Answered { id, trace: turn.trace, result }
        };
        self.waiting.pop().map(answer).into_iter().collect()
    }
    fn wait(&mut self) -> Vec<Answered> {
        self.poll()
    }
    fn cancel(&mut self, id: TurnId) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|(waiting, _)| *waiting != id);
        self.cancelled.insert(id);
        self.waiting.len() < before
    }
}

#[test]
fn an_episode_goes_on_when_its_own_turn_is_over_and_waits_for_no_other() {
    let tasks = [task("a", json!(3)), task("b", json!(2))];
    let mut policy = Slow { left: 5, ..Slow::default() };
    let episodes = play(&mut policy, &spec(&spawns(&tasks, 1))).unwrap();
    assert_eq!(policy.order, ["b", "1 left", "a", "2 left", "1 left"]);
    assert_eq!(episodes.iter().map(Episode::turns).collect::<Vec<_>>(), [3, 2]);
}

#[test]
fn what_is_under_way_is_given_up_when_a_turn_fails() {
    let tasks = [task("a", json!(1)), task("b", json!(1)), task("fails", json!(1))];
    let mut policy = Slow { left: 9, ..Slow::default() };
    let error = play(&mut policy, &spec(&spawns(&tasks, 1))).unwrap_err();
    assert_eq!(error.to_string(), "task counting/fails, rollout 0, turn 0: the policy failed: gone");
    assert_eq!(policy.cancelled, BTreeSet::from([TurnId(0), TurnId(1)]));
    assert!(policy.waiting.is_empty());
}
