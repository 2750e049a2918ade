//! Rollouts: lock-step rounds, seeds by address, and how every kind of trouble ends.
#![allow(clippy::unwrap_used, clippy::panic)]

use burnish_core::rng::{Address, Purpose};
use burnish_core::{
    Ending, Message, Node, Policy, PolicyError, Role, Sampled, Sampling, Source, StopReason, Task, TaskId,
    Turn, TurnOutput, Validity, Verdict,
};
use burnish_env::rollout::{Opening, Overlong, Plan, RolloutError, SeedPlace, play};
use burnish_env::{Bound, EnvError, Environment, Generator, Step, TaskSet};
use serde_json::{Value, json};
use std::collections::BTreeMap;

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
    fn demonstrate(&self, _: &Task) -> Option<Message> {
        None
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
    fn snapshot(&self) -> Value {
        Value::Null
    }
    fn restore(&mut self, _: &Value) -> Result<(), EnvError> {
        Ok(())
    }
}

type Answer = Result<(String, StopReason), PolicyError>;

/// A policy that answers by a function of the messages, and notes what it was asked.
struct Scripted<F> {
    answer: F,
    /// For each call: what each turn showed (its messages' texts) and its seed.
    calls: Vec<Vec<(Vec<String>, u64)>>,
}

impl<F: FnMut(&[Message]) -> Answer> Scripted<F> {
    fn new(answer: F) -> Self {
        Scripted { answer, calls: Vec::new() }
    }
}

impl<F: FnMut(&[Message]) -> Answer> Policy for Scripted<F> {
    fn act(&mut self, turns: &mut [Turn<'_>]) -> Vec<Result<TurnOutput, PolicyError>> {
        let texts = |turn: &Turn<'_>| turn.messages.iter().map(|m| m.content.clone()).collect();
        self.calls.push(turns.iter().map(|turn| (texts(turn), turn.seed)).collect());
        turns
            .iter_mut()
            .map(|turn| {
                let (text, stop) = (self.answer)(turn.messages)?;
                let sampled = Sampled { logprobs: vec![-1.0], policy_version: 0, temperature: 1.0, stop };
                let node = Node {
                    parent: turn.trace.head(),
                    text: text.clone(),
                    ids: vec![7],
                    sources: vec![Source::Policy],
                    sampled: Some(sampled),
                };
                turn.trace.push(node).unwrap();
                Ok(TurnOutput {
                    message: Message::assistant(format!("{}{text}", turn.prefix)),
                    stop,
                    logprobs: Vec::new(),
                })
            })
            .collect()
    }

    fn version(&self) -> u64 {
        0
    }
}

fn says(text: &str) -> Answer {
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

fn plan<'a>(tasks: &'a [Task], sampling: &'a Sampling) -> Plan<'a> {
    Plan {
        generator: &Counting,
        tasks,
        rollouts: 2,
        sampling,
        turns_max: 5,
        overlong: Overlong::Refuse,
        openings: &[],
        seeds: SeedPlace { run: 11, stage: 1, step: 4, task_offset: 100 },
    }
}

fn sampling() -> Sampling {
    Sampling::at(1.0, 16)
}

#[test]
fn episodes_come_ordered_by_task_then_rollout_and_each_round_is_one_call() {
    let tasks = [task("a", json!(3)), task("b", json!(1)), task("c", json!(2))];
    let mut policy = Scripted::new(|_| says("ok"));
    let episodes = play(&mut policy, &plan(&tasks, &sampling())).unwrap();
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
    assert_eq!(policy.calls.iter().map(Vec::len).collect::<Vec<_>>(), [6, 4, 2]);
    assert_eq!(policy.calls[2][0].0, ["rules", "a", "ok", "2 left", "ok", "1 left"]);
    for episode in &episodes {
        assert_eq!(episode.ending, Ending::Completed);
        assert!(episode.verdict.success);
        assert_eq!(episode.sampled_tokens(), episode.turns());
    }
}

#[test]
fn every_seed_is_that_of_its_address() {
    let tasks = [task("a", json!(2)), task("b", json!(2))];
    let mut policy = Scripted::new(|_| says("ok"));
    let episodes = play(&mut policy, &plan(&tasks, &sampling())).unwrap();
    let address = |task, rollout, turn, purpose| {
        Address { stage: 1, step: 4, task, rollout, turn, ..Address::new(11, purpose) }.seed()
    };
    for (turn, call) in policy.calls.iter().enumerate() {
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
    let seeds = |plan: &Plan<'_>| -> Vec<u64> {
        let mut policy = Scripted::new(|_| says("ok"));
        play(&mut policy, plan).unwrap();
        policy.calls[1].iter().map(|call| call.1).collect()
    };
    let sampling = sampling();
    let whole = plan(&tasks, &sampling);
    let second = Plan { tasks: &tasks[1..], seeds: SeedPlace { task_offset: 101, ..whole.seeds }, ..whole };
    assert_eq!(seeds(&whole)[2..], seeds(&second));
}

#[test]
fn an_opening_replaces_what_the_policy_reads_first_and_begins_only_its_first_answer() {
    let tasks = [task("a", json!(2)), task("b", json!(2))];
    let opened = Opening { messages: Some(vec![Message::user("instead")]), prefix: "so: ".into() };
    let openings = [Opening::default(), opened];
    let mut policy = Scripted::new(|_| says("ok"));
    let episodes = play(&mut policy, &Plan { openings: &openings, ..plan(&tasks, &sampling()) }).unwrap();
    assert_eq!(policy.calls[0][0].0, ["rules", "a"]);
    assert_eq!(policy.calls[0][2].0, ["instead"]);
    assert_eq!(policy.calls[1][2].0, ["instead", "so: ok", "1 left"]);
    assert_eq!(policy.calls[1][0].0, ["rules", "a", "ok", "1 left"]);
    let answers: Vec<&str> = episodes[2].answers.iter().map(|answer| answer.content.as_str()).collect();
    assert_eq!(answers, ["so: ok", "ok"]);
    assert!(episodes.iter().all(|episode| episode.verdict.success), "the environment judges as ever");
}

#[test]
fn an_environment_that_fails_ends_its_own_episode_unscored() {
    let tasks = [task("a", json!(2)), task("bad", Value::Null), task("b", json!(2))];
    let mut policy = Scripted::new(|messages| match messages.last().unwrap().content.as_str() {
        "b" => says("break"),
        _ => says("ok"),
    });
    let episodes = play(&mut policy, &Plan { rollouts: 1, ..plan(&tasks, &sampling()) }).unwrap();
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
    let mut policy = Scripted::new(|_| says("ok"));
    let episodes = play(&mut policy, &plan(&tasks, &sampling())).unwrap();
    assert_eq!((episodes[0].ending, episodes[0].turns()), (Ending::TurnsMax, 5));
    assert_eq!(episodes[0].verdict.rewards["answers"], 5.0);
    assert!(matches!(
        play(&mut policy, &Plan { turns_max: 0, ..plan(&tasks, &sampling()) }),
        Err(RolloutError::NoTurns)
    ));
}

#[test]
fn a_truncated_answer_is_judged_and_ends_the_episode() {
    let tasks = [task("a", json!(1)), task("b", json!(3))];
    let mut policy = Scripted::new(|_| Ok(("cut".to_owned(), StopReason::TokensMax)));
    for episode in play(&mut policy, &plan(&tasks, &sampling())).unwrap() {
        assert_eq!((episode.ending, episode.turns()), (Ending::Truncated, 1));
        assert_eq!(episode.verdict.rewards["answers"], 1.0);
        assert!(episode.traces[0].branches()[0].is_truncated);
    }
}

/// A policy that reads at most `most` messages.
fn short_sighted(most: usize) -> Scripted<impl FnMut(&[Message]) -> Answer> {
    Scripted::new(move |messages| match messages.len() {
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
    let sampling = sampling();
    let with = |overlong, most| play(&mut short_sighted(most), &Plan { overlong, ..plan(&tasks, &sampling) });

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
    let mut policy = short_sighted(2);
    play(&mut policy, &Plan { overlong: Overlong::Truncate, rollouts: 1, ..plan(&tasks, &sampling()) })
        .unwrap();
    let asked: Vec<Vec<&str>> = policy
        .calls
        .iter()
        .flatten()
        .map(|(texts, _)| texts.iter().map(String::as_str).collect::<Vec<_>>())
        .filter(|texts| texts.contains(&"newest"))
        .collect();
    let whole = vec!["rules", "long", "old answer", "old", "newest"];
    assert_eq!(asked, [whole, vec!["rules", "old", "newest"], vec!["rules", "newest"]]);
    let seeds: Vec<u64> =
        policy.calls.iter().flatten().filter(|call| call.0.contains(&"newest".into())).map(|c| c.1).collect();
    assert!(seeds.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn an_episode_that_outgrows_the_context_later_is_judged_by_what_it_did() {
    let tasks = [task("a", json!(4))];
    let sampling = sampling();
    for overlong in [Overlong::Refuse, Overlong::Drop] {
        let episodes = play(&mut short_sighted(4), &Plan { overlong, ..plan(&tasks, &sampling) }).unwrap();
        assert_eq!((episodes[0].ending, episodes[0].turns()), (Ending::ContextOverflow, 2));
        assert_eq!(episodes[0].verdict.rewards["answers"], 2.0);
    }
    let episodes =
        play(&mut short_sighted(4), &Plan { overlong: Overlong::Truncate, ..plan(&tasks, &sampling) })
            .unwrap();
    assert_eq!((episodes[0].ending, episodes[0].turns()), (Ending::Completed, 4));
}

#[test]
fn a_policy_that_fails_is_an_error_of_the_run_with_its_place() {
    let tasks = [task("a", json!(2)), task("b", json!(2))];
    let mut policy = Scripted::new(|messages: &[Message]| {
        match messages[1].content == "b" && messages.last().unwrap().role == Role::User && messages.len() > 2
        {
            true => Err(PolicyError::Failed("gone".into())),
            false => says("ok"),
        }
    });
    let error = play(&mut policy, &plan(&tasks, &sampling())).unwrap_err();
    assert_eq!(error.to_string(), "task counting/b, rollout 0, turn 1: the policy failed: gone");
}

#[test]
fn a_policy_that_gives_too_few_results_is_an_error() {
    struct Mute;
    impl Policy for Mute {
        fn act(&mut self, _: &mut [Turn<'_>]) -> Vec<Result<TurnOutput, PolicyError>> {
            Vec::new()
        }
        fn version(&self) -> u64 {
            0
        }
    }
    let tasks = [task("a", json!(1))];
    let error = play(&mut Mute, &plan(&tasks, &sampling())).unwrap_err();
    assert_eq!(error.to_string(), "the policy was asked for 2 turns and gave 0 results");
}
