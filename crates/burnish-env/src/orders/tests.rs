//! Properties of every task and every episode.

use std::collections::BTreeSet;
use std::time::Duration;

use burnish_core::{Ending, Episode, Policy, Role, Sampling, Script, StopReason, Turn};
use burnish_episode::{Cast, Simulated};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::rollout::{
    Overlong, POLICY, RolloutError, RolloutSpec, SeedPlace, Spawn, play, play_with, replay,
};
use crate::{Demonstrations, Generator, Step, settings};

const SEED: u64 = 5;
const SEEDS: SeedPlace = SeedPlace { run: 3, stage: 0, step: 1, task_offset: 0 };

fn generator(config: Value) -> Orders {
    Orders::new(settings::read(&config).unwrap()).unwrap()
}

/// A policy that answers with a function of the turn.
fn speaker(answer: impl Fn(&Turn) -> String) -> impl Policy {
    Script::new(move |turn: &Turn| Ok((answer(turn), StopReason::EndToken)))
}

/// A policy that gives the answers of the conversation whose opening matches the turn's.
fn imitator(conversations: &[Vec<Message>]) -> impl Policy {
    speaker(move |turn| {
        let read = turn.messages.len();
        let known = conversations.iter().find(|it| it.len() > read && it[..read] == turn.messages[..]);
        known.map_or_else(|| "order: what?".to_owned(), |it| it[read].content.clone())
    })
}

/// A user that reads its wish in its system message and answers by the rule.
fn user() -> impl Policy {
    speaker(|turn| {
        assert_eq!(turn.messages[0].role, Role::System);
        let brief = &turn.messages[0].content;
        let wish = match brief.split_once("You want: ") {
            Some((_, rest)) => Wish::parse(rest.split('.').next().unwrap()).unwrap(),
            None => {
                let lines: Vec<&str> = brief.lines().skip(1).take(3).filter(|line| *line != "no").collect();
                Wish::parse(&lines.join(" ")).unwrap()
            }
        };
        reply(&wish, &turn.messages.last().unwrap().content)
    })
}

fn plan<'a>(generator: &'a Orders, spawns: &'a [Spawn<'a>]) -> RolloutSpec<'a> {
    RolloutSpec::new(generator, spawns, 20, Overlong::Refuse)
}

fn spawns(tasks: &[Task]) -> Vec<Spawn<'_>> {
    Spawn::of_tasks(tasks, 1, &Sampling::at(1.0, 16), SEEDS)
}

fn played(generator: &Orders, tasks: &[Task], policy: &mut dyn Policy) -> Vec<Episode> {
    let spawns = spawns(tasks);
    let mut user = user();
    let cast = Cast::default().with(POLICY, policy).with("user", &mut user);
    play_with(cast, &mut Simulated::new(|_| Duration::ZERO), &plan(generator, &spawns)).unwrap()
}

fn demonstrations(generator: &Orders, tasks: &[Task]) -> Vec<Vec<Message>> {
    tasks.iter().map(|task| generator.demonstrate_episode(task).unwrap()).collect()
}

fn clerk(generator: &Orders, wish: &str, is_told: bool) -> Task {
    generator.family().task(&Truth::Clerk { wish: wish.to_owned(), is_told }).unwrap()
}

#[test]
fn an_order_is_taken_like_this() {
    for user in ["policy", "script"] {
        let generator = generator(json!({"phrasings": 1, "user": user}));
        let task = clerk(&generator, "large soup with cheese and corn", false);
        let conversation = generator.demonstrate_episode(&task).unwrap();
        let said: Vec<&str> = conversation.iter().map(|message| message.content.as_str()).collect();
        let wanted = [
            "hello",
            "what would you like?",
            "soup",
            "what size?",
            "large",
            "any extras?",
            "cheese and corn",
            "order: large soup with cheese and corn",
        ];
        assert_eq!(said, wanted);
        let episode = played(&generator, &[task], &mut imitator(&[conversation])).remove(0);
        assert!(episode.verdict.success && episode.verdict.feedback.is_none());
        assert_eq!(episode.turns(), 4);
    }
    let generator = generator(json!({"phrasings": 1}));
    let told = generator.demonstrate_episode(&clerk(&generator, "small pie", true)).unwrap();
    let said: Vec<&str> = told.iter().map(|message| message.content.as_str()).collect();
    let wanted = ["one pie, please", "what size?", "small", "any extras?", "no", "order: small pie"];
    assert_eq!(said, wanted);
}

#[test]
fn a_user_is_shown_its_wish_and_all_that_was_said() {
    let generator = generator(json!({"phrasings": 1}));
    let task = clerk(&generator, "small pie", false);
    let mut environment = generator.environment();
    environment.reset(&task, 0).unwrap();
    let Step::Ask(first) = environment.step(&Message::assistant("which dish?")).unwrap() else {
        panic!("nobody was asked")
    };
    let brief = Message::system("you want\nsmall\npie\nno\nsay only what you are asked");
    assert_eq!(first.messages, [brief.clone(), Message::user("which dish?")]);
    assert!(matches!(environment.step(&Message::assistant("hey")), Err(EnvError::Failed(_))));
    let heard = environment.hear(&Message::assistant("<think>hm</think> pie\n")).unwrap();
    assert_eq!(heard, Step::Continue(vec![Message::user("pie")]));
    assert!(matches!(environment.hear(&Message::assistant("pie")), Err(EnvError::Failed(_))));
    let Step::Ask(second) = environment.step(&Message::assistant("what size?")).unwrap() else {
        panic!("nobody was asked")
    };
    let so_far =
        [brief, Message::user("which dish?"), Message::assistant("pie"), Message::user("what size?")];
    assert_eq!((second.who.as_str(), &second.messages[..]), ("user", &so_far[..]));
}

#[test]
fn a_user_that_is_trained_reads_what_it_will_read_when_it_is_asked() {
    let clerks = generator(json!({"phrasings": 1}));
    let users = generator(json!({"phrasings": 1, "role": "user"}));
    let wish = "small pie with nuts";
    let questions = ["what would you like?", "what size?", "any extras?"].map(str::to_owned);
    let task =
        users.family().task(&Truth::User { wish: wish.to_owned(), questions: questions.into() }).unwrap();
    let trained = users.demonstrate_episode(&task).unwrap();
    // The same order, taken by a clerk: the last messages to the user, and its reply.
    let order = clerk(&clerks, wish, false);
    let mut sent: Vec<Message> = Vec::new();
    let mut environment = clerks.environment();
    environment.reset(&order, 0).unwrap();
    for message in clerks.demonstrate_episode(&order).unwrap().iter().filter(|it| it.role == Role::Assistant)
    {
        if let Step::Ask(question) = environment.step(message).unwrap() {
            let wish = Wish::parse(wish).unwrap();
            let answer = Message::assistant(reply(&wish, &question.messages.last().unwrap().content));
            environment.hear(&answer).unwrap();
            sent = question.messages.into_iter().chain([answer]).collect();
        }
    }
    assert_eq!(sent, trained);
}

#[test]
fn what_is_wrong_with_an_order_is_said() {
    let generator = generator(json!({"user": "script", "questions_max": 3}));
    let task = clerk(&generator, "small pie with nuts", true);
    let judged = |said: &[&str]| {
        let said: Vec<String> = said.iter().map(|it| (*it).to_owned()).collect();
        let mut policy = speaker(move |turn| {
            let turns = turn.messages.iter().filter(|it| it.role == Role::Assistant).count();
            said.get(turns).cloned().unwrap_or_else(|| "hm?".to_owned())
        });
        let episode = played(&generator, std::slice::from_ref(&task), &mut policy).remove(0);
        let flags = episode.verdict.flags.iter().filter(|(_, flag)| **flag).map(|(name, _)| name.clone());
        let flags: Vec<String> = flags.collect();
        (flags.join(" "), episode.verdict.feedback, episode.verdict.error_turn, episode.ending)
    };
    let ordered = |flags: &str, feedback: Option<&str>, turn| {
        (flags.to_owned(), feedback.map(str::to_owned), turn, Ending::Completed)
    };
    for (said, wanted) in [
        (vec!["Order: nuts with a small PIE."], ordered("", None, None)),
        (vec!["<think>order: pie</think>order: small pie with nuts"], ordered("", None, None)),
        (
            vec!["what size?", "order: large soup with nuts"],
            ordered(
                "wrong_item wrong_size",
                Some("The user wanted small pie with nuts, not large soup with nuts."),
                Some(1),
            ),
        ),
        (
            vec!["order: small pie"],
            ordered("wrong_extras", Some("The user wanted small pie with nuts, not small pie."), Some(0)),
        ),
        (
            vec!["order: pie"],
            ordered("unreadable", Some("The order can't be read: one size, one dish, and extras."), Some(0)),
        ),
        (vec![], ordered("left no_order", Some("The user was asked too much, and left."), None)),
    ] {
        assert_eq!(judged(&said), wanted, "{said:?}");
    }
}

#[test]
fn without_a_user_in_the_cast_the_run_says_so() {
    let generator = generator(json!({}));
    let tasks = generator.tasks(SEED, 1).unwrap().tasks;
    let conversations = demonstrations(&generator, &tasks);
    let spawns = spawns(&tasks);
    let error: RolloutError = play(&mut imitator(&conversations), &plan(&generator, &spawns)).unwrap_err();
    assert!(error.to_string().contains("nobody answers as `user`"), "{error}");
}

#[test]
fn wrong_demonstrations_leave_a_question_out_as_often_as_is_asked_for() {
    let generator = generator(json!({"demonstration_errors": 0.3}));
    let tasks = generator.tasks(SEED, 1_000).unwrap().tasks;
    let mut wrong = 0;
    for task in &tasks {
        let conversation = generator.demonstrate_episode(task).unwrap();
        let episode =
            played(&generator, std::slice::from_ref(task), &mut imitator(&[conversation])).remove(0);
        let questions = if task.labels["opening"] == "told" { 2 } else { 3 };
        assert_eq!(
            episode.turns(),
            questions + usize::from(episode.verdict.success),
            "{:?}",
            episode.answers
        );
        wrong += usize::from(!episode.verdict.success);
    }
    assert!((250..350).contains(&wrong), "{wrong}");
}

#[test]
fn the_same_configuration_seed_and_count_give_the_same_bytes_and_shares_are_exact() {
    for role in ["clerk", "user"] {
        let generator = generator(json!({"role": role, "told": 0.25}));
        let bytes = |seed| serde_json::to_string(&generator.tasks(seed, 60).unwrap()).unwrap();
        assert_eq!(bytes(SEED), bytes(SEED));
        assert_ne!(bytes(SEED), bytes(SEED + 1));
        let made: Vec<usize> = generator.tasks(SEED, 60).unwrap().cells.iter().map(|it| it.made).collect();
        assert_eq!(made, if role == "clerk" { vec![15, 45] } else { vec![15; 4] });
    }
}

#[test]
fn who_plays_the_user_decides_nothing_about_the_tasks() {
    let tasks = |user| generator(json!({"user": user})).tasks(SEED, 50).unwrap();
    assert_eq!(tasks("policy"), tasks("script"));
}

#[test]
fn tasks_of_the_other_side_and_broken_ones_are_refused() {
    let (clerks, users) = (generator(json!({})), generator(json!({"role": "user"})));
    let clerks_task = clerks.tasks(SEED, 1).unwrap().tasks.remove(0);
    let users_task = users.tasks(SEED, 1).unwrap().tasks.remove(0);
    let refused = |generator: &Orders, task: &Task| {
        let error = generator.environment().reset(task, 0).unwrap_err();
        assert!(matches!(error, EnvError::Foreign(_)), "{error}");
        assert!(generator.demonstrate_episode(task).is_none());
    };
    refused(&clerks, &users_task);
    refused(&users, &clerks_task);
    let with = |task: &Task, key: &str, value: Value| {
        let mut task = task.clone();
        task.truth[key] = value;
        task
    };
    refused(&clerks, &with(&clerks_task, "wish", json!("a pizza")));
    refused(&clerks, &with(&clerks_task, "is_told", json!(7)));
    refused(&users, &with(&users_task, "questions", json!([])));
    let mut environment = users.environment();
    assert!(matches!(environment.verify(), Err(EnvError::Failed(_))));
    assert!(matches!(environment.step(&Message::assistant("no")), Err(EnvError::Failed(_))));
    assert!(clerks.draw(&clerks_task, Some("what size?\norder: huge cake")).contains("> wrong"));
}

proptest! {
    #[test]
    fn every_demonstration_is_played_right_and_played_again_from_its_record(
        seed in any::<u64>(), told in 0.0..=1.0, extras_max in 0..=4_usize, is_full: bool, is_policy: bool,
        is_clerk: bool,
    ) {
        let generator = generator(json!({
            "told": told,
            "extras_max": extras_max,
            "prompt": if is_full { "full" } else { "short" },
            "user": if is_policy { "policy" } else { "script" },
            "role": if is_clerk { "clerk" } else { "user" },
        }));
        let tasks = generator.tasks(seed, 12).unwrap().tasks;
        let conversations = demonstrations(&generator, &tasks);
        let spawns = spawns(&tasks);
        for (at, task) in tasks.iter().enumerate() {
            let mut policy = imitator(&conversations[at..=at]);
            let episode = played(&generator, std::slice::from_ref(task), &mut policy).remove(0);
            prop_assert!(episode.verdict.success, "{:?} {:?}", task.prompt, episode.verdict);
            prop_assert_eq!(episode.ending, Ending::Completed);
            let flags: BTreeSet<bool> = episode.verdict.flags.values().copied().collect();
            prop_assert_eq!(flags, BTreeSet::from([false]));
            // The first task has the same place in the run.
            if at == 0 {
                prop_assert_eq!(&replay(&plan(&generator, &spawns), &spawns[0], &episode).unwrap(), &episode);
            }
        }
    }
}
