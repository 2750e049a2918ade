//! Properties of every task and every episode.

use std::collections::{BTreeMap, BTreeSet};

use burnish_core::{Ending, Episode, FunctionCall, Policy, Role, Sampling, TaskId, ToolCall, Turn};
use burnish_episode::{Cast, Outside, Simulated};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::rollout::{Overlong, POLICY, RolloutSpec, SeedPlace, Spawn, play, play_with, replay};
use crate::scripted::Scripted;
use crate::{Demonstrations, Generator, settings};

const SEED: u64 = 5;
const SEEDS: SeedPlace = SeedPlace { run: 3, stage: 0, step: 1, task_offset: 0 };

fn generator(config: Value) -> Accounts {
    Accounts::new(settings::read(&config).unwrap()).unwrap()
}

fn variants() -> Vec<Value> {
    vec![
        json!({}),
        json!({"accounts": 2, "kinds": {"richer": 0}, "prompt": "full"}),
        json!({"accounts": 12, "steps": {"min": 8, "max": 8}, "amounts": {"unit": 1000, "max": 1000000}}),
        json!({"amounts": {"unit": 10, "max": 40}, "steps": {"max": 4}, "demonstration_errors": 0.5}),
        json!({"kinds": {"fixed": 0, "half": 1, "all": 0, "fill": 0, "richer": 0}, "steps": {"max": 3}}),
    ]
}

/// A policy that gives the answers of the conversation whose opening matches the turn's, and `done` after its end.
fn imitator(conversations: &[Vec<Message>]) -> impl Policy {
    let answer = move |turn: &Turn| {
        let read = turn.messages.len();
        let known = conversations.iter().find(|it| it.len() > read && it[..read] == turn.messages[..]);
        known.map_or_else(|| Message::assistant("done"), |it| it[read].clone())
    };
    Scripted::new(move |turn| (answer(turn), Vec::new()))
}

fn spawns(tasks: &[Task]) -> Vec<Spawn<'_>> {
    Spawn::of_tasks(tasks, 1, &Sampling::at(1.0, 16), SEEDS)
}

fn plan<'a>(generator: &'a Accounts, spawns: &'a [Spawn<'a>]) -> RolloutSpec<'a> {
    RolloutSpec::new(generator, spawns, 20, Overlong::Refuse)
}

/// One episode in which the policy makes these calls, one per answer.
fn played(generator: &Accounts, task: &Task, calls: &[(&str, Value)]) -> Episode {
    let mut said = calls.iter().map(|(name, arguments)| {
        let function = FunctionCall { name: (*name).into(), arguments: arguments.clone() };
        Message { tool_calls: vec![ToolCall { id: None, function }], ..Message::assistant("") }
    });
    let answer = move |_: &Turn| (said.next().unwrap_or_else(|| Message::assistant("done")), Vec::new());
    let spawns = spawns(std::slice::from_ref(task));
    play(&mut Scripted::new(answer), &plan(generator, &spawns)).unwrap().remove(0)
}

/// Ann has 40, Bob 3, and Bob should get half of what Ann has.
fn half(generator: &Accounts) -> Task {
    let account = |name: &str, balance: u64| json!({"name": name, "balance": balance});
    let truth = json!({
        "accounts": [account("Ann", 40), account("Bob", 3)],
        "instructions": [{"kind": "half", "from": 0, "to": 1}],
    });
    generator.family().task(&serde_json::from_value(truth).unwrap()).unwrap()
}

#[test]
fn an_episode_reads_like_this() {
    let generator = generator(json!({}));
    let account = |name: &str, balance: u64| json!({"name": name, "balance": balance});
    let truth = json!({
        "accounts": [account("Ann", 40), account("Bob", 3), account("Cid", 50)],
        "instructions": [
            {"kind": "half", "from": 0, "to": 1},
            {"kind": "richer", "first": 0, "second": 1, "to": 2, "amount": 5},
            {"kind": "fill", "from": 2, "to": 0, "target": 30},
            {"kind": "all", "from": 0, "to": 1},
            {"kind": "fixed", "from": 1, "to": 0, "amount": 7},
        ],
    });
    let task = generator.family().task(&serde_json::from_value(truth).unwrap()).unwrap();
    let asked = "Move half of Ann's money to Bob.\nMove 5 from the richer of Ann and Bob to Cid.\nMove from Cid to Ann what Ann needs \
        to have 30.\nMove all of Ann's money to Bob.\nMove 7 from Bob to Ann.";
    let signs = "Ann>Bob:half\nAnn|Bob>Cid:5\nCid>Ann:=30\nAnn>Bob:all\nBob>Ann:7";
    assert_eq!(task.prompt, [Message::user(signs)]);
    let full =
        Accounts::new(AccountsConfig { prompt: PromptStyle::Full, ..generator.family().clone() }).unwrap();
    let (truth, _) = Truth::of(&task).unwrap();
    let told = full.family().task(&truth).unwrap();
    assert_eq!(told.prompt[1], Message::user(asked));
    assert_eq!((&told.id, told.prompt[0].role), (&task.id, Role::System));
    let said: Vec<String> = generator.demonstrate_episode(&task).unwrap()[1..]
        .iter()
        .map(|message| {
            let calls = message.tool_calls.iter().map(|call| {
                let arguments = call.function.arguments.as_object().unwrap().values();
                let arguments = arguments.map(ToString::to_string).collect::<Vec<_>>().join(" ");
                format!("{} {arguments}", call.function.name)
            });
            calls.chain([message.content.clone()]).filter(|it| !it.is_empty()).collect::<Vec<_>>().join("; ")
        })
        .collect();
    let wanted = [
        "balance \"Ann\"",
        "40",
        "transfer \"Ann\" \"Bob\" 20",
        "ok",
        "balance \"Ann\"; balance \"Bob\"",
        "20",
        "23",
        "transfer \"Bob\" \"Cid\" 5",
        "ok",
        "balance \"Ann\"",
        "20",
        "transfer \"Cid\" \"Ann\" 10",
        "ok",
        "balance \"Ann\"",
        "30",
        "transfer \"Ann\" \"Bob\" 30",
        "ok",
        "transfer \"Bob\" \"Ann\" 7",
        "ok",
        "done",
    ];
    assert_eq!(said, wanted);
    let drawn = generator.draw(&task, None);
    assert_eq!(drawn, format!("before: Ann 40, Bob 3, Cid 50\n{asked}\nafter: Ann 7, Bob 41, Cid 45"));
}

#[test]
fn calls_that_do_not_fit_are_told_and_counted_and_refusals_flagged() {
    let generator = generator(json!({}));
    let task = half(&generator);
    let pay = |from: &str, amount: Value| ("transfer", json!({"from": from, "to": "Bob", "amount": amount}));
    let episode = played(&generator, &task, &[pay("Ann", json!(20))]);
    assert!(episode.verdict.success && episode.verdict.feedback.is_none());
    assert!(!episode.verdict.flags.values().any(|flag| *flag), "{:?}", episode.verdict);

    // Calls that do not fit their tool: no tool runs them, and they are counted.
    let unfit = [("balanc", json!({})), ("balance", json!({"nam": "Ann"})), pay("Ann", json!("20"))];
    let episode = played(&generator, &task, &unfit);
    assert_eq!((episode.record.calls.made, episode.record.calls.failed), (3, 3));
    let flags: BTreeMap<&str, bool> =
        episode.verdict.flags.iter().map(|(name, flag)| (name.as_str(), *flag)).collect();
    assert_eq!(flags, BTreeMap::from([("refused", false), ("unfinished", false), ("untouched", true)]));
    assert_eq!(episode.verdict.feedback.as_deref(), Some("Ann has 40, but should have 20."));

    // They fit the tool but are refused; nothing changes, and the policy can recover.
    let refused = [pay("Ann", json!(41)), pay("Zed", json!(1)), pay("Ann", json!(0)), pay("Ann", json!(20))];
    let episode = played(&generator, &task, &refused);
    assert_eq!((episode.record.calls.made, episode.record.calls.failed), (4, 0));
    assert!(episode.verdict.success && episode.verdict.flags["refused"]);
    // So is looking at what is not there, which changes nothing and is not done again on a record.
    let unseen = [("balance", json!({"name": "Zed"})), pay("Ann", json!(20))];
    let episode = played(&generator, &task, &unseen);
    assert!(episode.verdict.success && episode.verdict.flags["refused"]);
    let spawns = spawns(std::slice::from_ref(&task));
    let again = replay(&plan(&generator, &spawns), &spawns[0], &episode).unwrap();
    assert_eq!(again, episode);

    let mut restless = Scripted::new(|_| (half_look(), Vec::new()));
    let cut = play(&mut restless, &plan(&generator, &spawns)).unwrap().remove(0);
    assert_eq!(cut.ending, Ending::TurnsMax);
    assert!(cut.verdict.flags["unfinished"] && !cut.verdict.success);
}

fn half_look() -> Message {
    let function = FunctionCall { name: "balance".into(), arguments: json!({"name": "Ann"}) };
    Message { tool_calls: vec![ToolCall { id: None, function }], ..Message::assistant("") }
}

#[test]
fn the_same_configuration_seed_and_count_give_the_same_bytes_and_shares_are_exact() {
    for config in variants() {
        let generator = generator(config);
        let bytes = |seed| serde_json::to_string(&generator.tasks(seed, 60).unwrap()).unwrap();
        assert_eq!(bytes(SEED), bytes(SEED));
        assert_ne!(bytes(SEED), bytes(SEED + 1));
    }
    let set =
        generator(json!({"steps": {"min": 1, "max": 3}, "kinds": {"fixed": 0.5}})).tasks(SEED, 30).unwrap();
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for task in &set.tasks {
        let (truth, _) = Truth::of(task).unwrap();
        truth.instructions.iter().for_each(|it| *kinds.entry(it.kind().name()).or_default() += 1);
    }
    // 60 instructions; each kind has a share of 1 of 4.5, and `fixed` half of that.
    let wanted = [("all", 13), ("fill", 13), ("fixed", 7), ("half", 14), ("richer", 13)];
    assert_eq!(kinds.values().sum::<usize>(), 60);
    for (kind, count) in wanted {
        assert!(kinds[kind].abs_diff(count) <= 1, "{kinds:?}");
    }
    assert_eq!(set.cells.iter().map(|cell| cell.made).collect::<Vec<_>>(), [10, 10, 10]);
    for cell in &set.cells {
        assert_eq!(cell.drawn, cell.made + cell.dropped.values().sum::<usize>(), "{cell:?}");
    }
}

#[test]
fn tasks_whose_right_conversations_are_the_same_text_are_the_same_task() {
    let generator = generator(json!({"amounts": {"unit": 10, "max": 40}}));
    let mut known: BTreeMap<String, TaskId> = BTreeMap::new();
    let mut again = 0;
    for task in generator.tasks(SEED, 3_000).unwrap().tasks {
        let text = serde_json::to_string(&generator.demonstrate_episode(&task).unwrap()).unwrap();
        match known.insert(text, task.id.clone()) {
            Some(before) => {
                assert_eq!(before, task.id);
                again += 1;
            }
            None => continue,
        }
    }
    assert!(again > 100, "{again}");
}

#[test]
fn slow_tools_of_many_episodes_take_the_time_of_one() {
    let generator =
        generator(json!({"latency_ms": 700, "steps": {"min": 2, "max": 2}, "kinds": {"fixed": 0}}));
    let tasks = generator.tasks(SEED, 100).unwrap().tasks;
    let conversations: Vec<_> =
        tasks.iter().map(|task| generator.demonstrate_episode(task).unwrap()).collect();
    let mut policy = imitator(&conversations);
    let spawns = spawns(&tasks);
    let mut outside = Simulated::new(|_| Duration::ZERO);
    let episodes =
        play_with(Cast::default().with(POLICY, &mut policy), &mut outside, &plan(&generator, &spawns))
            .unwrap();
    assert!(episodes.len() == 100 && episodes.iter().all(|episode| episode.verdict.success));
    let most = episodes.iter().map(|episode| episode.record.calls.made).max().unwrap();
    assert!((4..=6).contains(&most));
    assert_eq!(outside.now(), Duration::from_millis(700) * most as u32);
}

#[test]
fn wrong_demonstrations_guess_and_end_wrong_as_often_as_is_asked_for() {
    let errors = generator(json!({"demonstration_errors": 0.4}));
    let tasks = errors.tasks(SEED, 1_000).unwrap().tasks;
    let (mut wrong, mut looks) = (0, 0);
    for task in &tasks {
        let spawns = spawns(std::slice::from_ref(task));
        let conversation = [errors.demonstrate_episode(task).unwrap()];
        let episode = play(&mut imitator(&conversation), &plan(&errors, &spawns)).unwrap().remove(0);
        let (truth, _) = Truth::of(task).unwrap();
        let needs_looks = truth.instructions.iter().any(|it| !it.looks_at().is_empty());
        assert!(episode.verdict.success || needs_looks, "{:?}", task.prompt);
        wrong += usize::from(!episode.verdict.success);
        looks += usize::from(needs_looks);
    }
    let share = wrong as f64 / looks as f64;
    assert!((0.33..0.45).contains(&share), "{share}");
    let sure = generator(json!({}));
    assert_eq!(sure.tasks(SEED, 1_000).unwrap().tasks, tasks, "what is demonstrated changes no task");
}

#[test]
fn what_is_no_task_of_this_environment_is_refused_and_so_is_what_comes_before_or_after_an_episode() {
    let generator = generator(json!({}));
    let task = half(&generator);
    let mut environment = generator.environment();
    assert!(matches!(environment.verify(), Err(EnvError::Failed(_))));
    let call = FunctionCall { name: "accounts".into(), arguments: json!({}) };
    assert!(matches!(environment.call(&call, "1"), Err(EnvError::Failed(_))));
    environment.reset(&task, 0).unwrap();
    assert!(environment.verify().unwrap().flags["unfinished"], "judged where a rollout is cut short");
    assert_eq!(environment.step(&Message::assistant("done")).unwrap(), crate::Step::Done);
    assert!(matches!(environment.step(&Message::assistant("done")), Err(EnvError::Failed(_))));
    for (pointer, value) in [
        ("/accounts/1/name", json!("Ann")),
        ("/accounts/0/balance", json!(41)),
        ("/accounts/0/balance", json!(-1)),
        ("/instructions/0/from", json!(7)),
        ("/instructions/0/kind", json!("third")),
    ] {
        let mut foreign = task.clone();
        *foreign.truth.pointer_mut(pointer).unwrap() = value;
        assert!(matches!(environment.reset(&foreign, 0), Err(EnvError::Foreign(_))), "{pointer}");
        assert!(generator.demonstrate_episode(&foreign).is_none());
        assert!(generator.draw(&foreign, None).contains("is not one of accounts"));
    }
}

#[test]
fn instructions_that_no_ledger_fits_name_the_key() {
    // Small even numbers can't be halved repeatedly.
    let kinds = json!({"fixed": 0, "half": 1, "all": 0, "fill": 0, "richer": 0});
    let config = json!({"accounts": 2, "amounts": {"max": 4}, "kinds": kinds, "steps": {"min": 8, "max": 8}});
    let error = generator(config).tasks(SEED, 8).unwrap_err().to_string();
    assert!(error.starts_with("amounts.max: 4: no task with the instructions half, half"), "{error}");
    assert!(error.ends_with("nearest: 6"), "{error}");
}

proptest! {
    #[test]
    fn every_demonstration_is_played_right_and_played_again_from_its_record(
        seed in any::<u64>(), variant in 0..5_usize,
    ) {
        let mut config = variants()[variant].clone();
        config["demonstration_errors"] = json!(0);
        let generator = generator(config);
        let tasks = generator.tasks(seed, 12).unwrap().tasks;
        let conversations: Vec<_> =
            tasks.iter().map(|task| generator.demonstrate_episode(task).unwrap()).collect();
        let spawns = spawns(&tasks);
        let plan = plan(&generator, &spawns);
        let episodes = play(&mut imitator(&conversations), &plan).unwrap();
        for (at, episode) in episodes.iter().enumerate() {
            prop_assert!(episode.verdict.success, "{:?} {:?}", tasks[at].prompt, episode.verdict);
            prop_assert_eq!(episode.ending, Ending::Completed);
            prop_assert_eq!(episode.record.calls.failed, 0);
            let flags: BTreeSet<bool> = episode.verdict.flags.values().copied().collect();
            prop_assert_eq!(flags, BTreeSet::from([false]));
            prop_assert_eq!(&replay(&plan, &spawns[at], episode).unwrap(), episode);
            let unit = generator.family().amounts.unit;
            let (truth, end) = Truth::of(&tasks[at]).unwrap();
            let balances = truth.accounts.accounts.iter().chain(&end.accounts).map(|it| it.balance);
            prop_assert!(balances.into_iter().all(|balance| balance.is_multiple_of(unit)));
            let most = generator.family().amounts.max;
            prop_assert!(truth.accounts.accounts.iter().all(|it| it.balance <= most));
        }
    }

    #[test]
    fn money_is_neither_made_nor_lost_whatever_is_called(
        seed in 0..50_u64, calls in prop::collection::vec((0..4_usize, 0..5_usize, 0..5_usize, -5..60_i64), 0..12),
    ) {
        let generator = generator(json!({}));
        let task = generator.tasks(seed, 1).unwrap().tasks.remove(0);
        let (truth, end) = Truth::of(&task).unwrap();
        let mut ledger = truth.accounts.clone();
        let name = |at: usize| ["Ann", "Bob", "Cid", "Dee", ""][at];
        for (tool, from, to, amount) in calls {
            let arguments = json!({"name": name(from), "from": name(from), "to": name(to), "amount": amount});
            let before = ledger.clone();
            let tool = ["transfer", "balance", "accounts", "rob"][tool].to_owned();
            if ledger.call(&FunctionCall { name: tool, arguments }).is_err() {
                prop_assert_eq!(&ledger, &before, "what is refused changes nothing");
            }
        }
        let sum = |ledger: &ledger::Ledger| ledger.accounts.iter().map(|it| it.balance).sum::<u64>();
        prop_assert_eq!(sum(&ledger), sum(&truth.accounts));
        prop_assert_eq!(sum(&end), sum(&truth.accounts));
    }
}

#[test]
fn a_tools_result_is_a_message_of_that_tool() {
    let generator = generator(json!({}));
    let messages = generator.demonstrate_episode(&half(&generator)).unwrap();
    let roles: Vec<(Role, Option<&str>)> =
        messages.iter().map(|message| (message.role, message.name.as_deref())).collect();
    let (assistant, tool) = ((Role::Assistant, None), |name| (Role::Tool, Some(name)));
    assert_eq!(
        roles,
        [(Role::User, None), assistant, tool("balance"), assistant, tool("transfer"), assistant]
    );
}
