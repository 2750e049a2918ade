//! What is recorded is read back unchanged; what can't be is refused with an error that names the file.

use std::collections::BTreeMap;
use std::fs;

use burnish_core::{
    Contact, Ending, Episode, Fork, FunctionCall, Message, Node, NodeId, Place, Record, Role, Sampled,
    Source, Speaker, StopReason, Task, TaskId, Told, ToolCall, ToolCalls, Trace, Verdict,
};
use proptest::prelude::*;

use super::*;

fn new_journal() -> (tempfile::TempDir, PathBuf, Journal) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.db");
    let journal = Journal::create(&path).unwrap();
    (dir, path, journal)
}

fn task(id: &str) -> Task {
    let mut prompt = Message::assistant("call");
    prompt.tool_calls.push(ToolCall {
        id: Some("7".into()),
        function: FunctionCall {
            name: "move".into(),
            arguments: serde_json::json!({"to": [1, 2.5], "a": null}),
        },
    });
    Task {
        id: TaskId(id.into()),
        environment: "mapf".into(),
        prompt: vec![Message::new(Role::System, "sé\0 <b>"), prompt],
        truth: serde_json::json!({"z": 1, "cost": 0.1, "a": [u64::MAX]}),
        labels: BTreeMap::from([("size".into(), "4".into())]),
    }
}

fn node(parent: Option<usize>, text: &str, tokens: &[(u32, Source)], sampled: Option<Sampled>) -> Node {
    Node {
        parent: parent.map(NodeId),
        text: text.into(),
        ids: tokens.iter().map(|(id, _)| *id).collect(),
        sources: tokens.iter().map(|(_, source)| *source).collect(),
        sampled,
    }
}

fn sampled(logprobs: &[f32], stop: StopReason) -> Sampled {
    Sampled {
        model_logprobs: logprobs.to_vec(),
        sampled_logprobs: None,
        policy_version: 3,
        temperature: 0.7,
        stop,
        latents: Vec::new(),
    }
}

/// An episode with a forked trace, an empty one, and something in every optional place.
fn episode(task: &str, rollout: usize) -> Episode {
    let mut forked = Trace::new();
    let prompt = [(1, Source::Scaffold), (u32::MAX, Source::System), (7, Source::Hint)];
    forked.push(node(None, "prompt\n\0é", &prompt, None)).unwrap();
    let answer = sampled(&[-0.1, f32::MIN_POSITIVE / 4.0], StopReason::EndToken);
    let policy = [(5, Source::Policy), (6, Source::Policy)];
    forked.push(node(Some(0), "answer", &policy, Some(answer))).unwrap();
    let mut cut = sampled(&[-0.0, f32::NEG_INFINITY], StopReason::TokensMax);
    cut.sampled_logprobs = Some(vec![-0.5, -0.0]);
    forked.push(node(Some(0), "other", &policy, Some(cut))).unwrap();
    forked.push(node(None, "", &[], Some(sampled(&[], StopReason::ContextFull)))).unwrap();
    let mut verdict = Verdict::scored("valid", 0.1 + 0.2, true);
    verdict.flags.insert("parse_error".into(), false);
    verdict.feedback = Some("\"quoted\"".into());
    verdict.error_turn = Some(2);
    Episode {
        task: TaskId(task.into()),
        rollout,
        traces: vec![forked, Trace::new()],
        verdict,
        ending: Ending::TurnsMax,
        answers: vec![Message::assistant("one"), Message::assistant("two")],
        partners: Vec::new(),
        record: record_of_one_wait(),
    }
}

fn row(task_index: usize, episode: &Episode) -> EpisodeRow<'_> {
    EpisodeRow { task_index, episode, reward: Some(0.3), advantage: Some(-1.5) }
}

fn record(journal: &mut Journal, step: u64, kind: EpisodeKind, id: &str) -> Result<(), JournalError> {
    journal.record_step(step, kind, &[task(id)], &[row(0, &episode(id, 0))])
}

#[test]
fn what_was_recorded_is_read_back_the_same_by_another_process() {
    let (_dir, path, mut journal) = new_journal();
    let mut unscored = episode("b", 1);
    unscored.verdict = Verdict::unscored("hung");
    let (first, second) = (episode("a", 0), episode("b", 0));
    let rows =
        [row(0, &first), row(1, &second), EpisodeRow { reward: None, advantage: None, ..row(1, &unscored) }];
    journal.record_step(4, EpisodeKind::Train, &[task("a"), task("b")], &rows).unwrap();

    let journal = Journal::open(&path).unwrap();
    let stored = journal.episodes(4, EpisodeKind::Train).unwrap();
    assert_eq!(stored.len(), rows.len());
    for (stored, row) in stored.iter().zip(rows) {
        assert_eq!(stored.episode, *row.episode);
        assert_eq!(stored.task, task(&row.episode.task.0));
        assert_eq!(
            (stored.task_index, stored.reward, stored.advantage),
            (row.task_index, row.reward, row.advantage)
        );
    }
    assert_eq!(journal.task(&TaskId("a".into())).unwrap(), Some(task("a")));
    assert_eq!(journal.task(&TaskId("c".into())).unwrap(), None);
    assert!(journal.episodes(4, EpisodeKind::Eval).unwrap().is_empty());
}

#[test]
fn a_log_prob_that_is_no_number_keeps_its_bits() {
    let (_dir, _path, mut journal) = new_journal();
    let odd = f32::from_bits(0x7fc0_1234);
    let mut trace = Trace::new();
    let mut answer = sampled(&[odd], StopReason::EndToken);
    answer.sampled_logprobs = Some(vec![odd]);
    trace.push(node(None, "", &[(1, Source::Policy)], Some(answer))).unwrap();
    let recorded = Episode { traces: vec![trace], ..episode("a", 0) };
    journal.record_step(1, EpisodeKind::Train, &[task("a")], &[row(0, &recorded)]).unwrap();
    let stored = journal.episodes(1, EpisodeKind::Train).unwrap();
    let sampled = stored[0].episode.traces[0].nodes()[0].sampled.as_ref().unwrap();
    let drawn = sampled.sampled_logprobs.as_ref().unwrap();
    assert_eq!([sampled.model_logprobs[0], drawn[0]].map(f32::to_bits), [odd.to_bits(); 2]);
}

#[test]
fn steps_are_listed_as_they_were_recorded() {
    let (_dir, _path, mut journal) = new_journal();
    assert!(journal.steps().unwrap().is_empty());
    let also = || EpisodeKind::Extra("other".into());
    let plan = [
        (0, EpisodeKind::Eval),
        (0, also()),
        (1, EpisodeKind::Train),
        (2, EpisodeKind::Train),
        (2, EpisodeKind::Eval),
    ];
    for (step, kind) in plan.clone() {
        record(&mut journal, step, kind, "a").unwrap();
    }
    assert_eq!(journal.episodes(0, also()).unwrap().len(), 1);
    assert!(journal.episodes(0, EpisodeKind::Extra("third".into())).unwrap().is_empty());
    let error = record(&mut journal, 0, also(), "a").unwrap_err().to_string();
    assert!(error.contains("eval/other episodes of step 0"), "{error}");
    let expected: Vec<_> = plan.map(|(step, kind)| StepEntry { step, kind, episodes: 1 }).into();
    assert_eq!(journal.steps().unwrap(), expected);
}

#[test]
fn what_was_done_to_learn_is_counted_without_evaluations() {
    let (_dir, _path, mut journal) = new_journal();
    assert_eq!(journal.tally().unwrap(), Tally { episodes: 0, turns: 0, updates: 0 });
    for step in 1..3 {
        record(&mut journal, step, EpisodeKind::Train, "a").unwrap();
        record(&mut journal, step, EpisodeKind::Eval, "a").unwrap();
        journal.record_update(step, 0, &BTreeMap::new()).unwrap();
    }
    journal.record_update(2, 1, &BTreeMap::new()).unwrap();
    let traces = episode("a", 0).traces;
    let turns = traces.iter().flat_map(Trace::nodes).filter(|node| node.sampled.is_some()).count() as u64;
    assert!(turns > 1);
    assert_eq!(journal.tally().unwrap(), Tally { episodes: 2, turns: 2 * turns, updates: 3 });
}

#[test]
fn truncating_leaves_the_journal_as_it_was_after_that_step() {
    let content = |journal: &Journal| {
        let tables = ["tasks", "episodes", "nodes", "updates"];
        tables.map(|table| -> Vec<String> {
            let mut statement = journal.db.prepare(&format!("SELECT * FROM {table} ORDER BY 1, 2")).unwrap();
            let columns = statement.column_count();
            let rows = statement.query_map([], |row| {
                Ok((0..columns).map(|at| format!("{:?} ", row.get_ref(at).unwrap())).collect())
            });
            rows.unwrap().map(Result::unwrap).collect()
        })
    };
    let (_dir, _path, mut journal) = new_journal();
    let metrics = BTreeMap::from([("loss".into(), 0.5)]);
    let mut before = content(&journal);
    for step in 1..4 {
        record(&mut journal, step, EpisodeKind::Train, &format!("task {step}")).unwrap();
        record(&mut journal, step, EpisodeKind::Eval, "held out").unwrap();
        journal.record_update(step, 0, &metrics).unwrap();
        if step == 2 {
            before = content(&journal);
        }
    }
    let after = content(&journal);
    assert_ne!(after, before);
    journal.truncate_after(2).unwrap();
    assert_eq!(content(&journal), before);
    record(&mut journal, 3, EpisodeKind::Train, "task 3").unwrap();
    record(&mut journal, 3, EpisodeKind::Eval, "held out").unwrap();
    journal.record_update(3, 0, &metrics).unwrap();
    assert_eq!(content(&journal), after);
    journal.truncate_after(u64::MAX).unwrap();
    assert_eq!(content(&journal), after);
    journal.clear().unwrap();
    assert_eq!(content(&journal), [const { Vec::<String>::new() }; 4]);
}

#[test]
fn updates_are_read_back_with_nan_for_what_is_not_finite() {
    let (_dir, path, mut journal) = new_journal();
    let metrics = BTreeMap::from([("kl".into(), f64::INFINITY), ("loss".into(), 0.1)]);
    journal.record_update(2, 1, &metrics).unwrap();
    journal.record_update(2, 0, &BTreeMap::new()).unwrap();
    let stored = journal.updates(2).unwrap();
    assert_eq!((stored[0].minibatch, stored[0].metrics.len(), stored[1].minibatch), (0, 0, 1));
    assert_eq!(stored[1].metrics["loss"], 0.1);
    assert!(stored[1].metrics["kl"].is_nan());
    let error = journal.record_update(2, 1, &metrics).unwrap_err();
    assert!(error.to_string().contains(&path.display().to_string()), "{error}");
}

#[test]
fn a_step_that_is_refused_leaves_nothing_behind() {
    let (_dir, path, mut journal) = new_journal();
    let good = episode("a", 0);
    let mut infinite = episode("a", 1);
    infinite.verdict.rewards.insert("valid".into(), f64::INFINITY);
    let nan = EpisodeRow { advantage: Some(f64::NAN), ..row(0, &good) };
    let of_other_task = episode("b", 0);
    let tasks = [task("a")];
    for (bad, problem) in [
        (row(0, &infinite), "not a finite number"),
        (nan, "not a finite number"),
        (row(1, &good), "is not its task"),
        (row(0, &of_other_task), "is not its task"),
    ] {
        let error = journal.record_step(1, EpisodeKind::Train, &tasks, &[row(0, &good), bad]).unwrap_err();
        let message = error.to_string();
        assert!(message.contains(problem) && message.contains(&path.display().to_string()), "{message}");
    }
    assert!(journal.steps().unwrap().is_empty());
    assert_eq!(journal.task(&tasks[0].id).unwrap(), None);
}

#[test]
fn an_id_is_refused_for_any_other_content_and_welcome_for_the_same() {
    let (_dir, _path, mut journal) = new_journal();
    journal.record_step(1, EpisodeKind::Train, &[task("a"), task("a")], &[]).unwrap();
    for other in [
        Task { environment: "other".into(), ..task("a") },
        Task { prompt: Vec::new(), ..task("a") },
        Task { truth: serde_json::json!(0), ..task("a") },
        Task { labels: BTreeMap::new(), ..task("a") },
    ] {
        let error = journal.record_step(2, EpisodeKind::Train, &[other], &[]).unwrap_err().to_string();
        assert!(error.contains("task `a` was recorded before with other content"), "{error}");
    }
}

#[test]
fn a_step_is_recorded_once() {
    let (_dir, _path, mut journal) = new_journal();
    record(&mut journal, 1, EpisodeKind::Train, "a").unwrap();
    record(&mut journal, 1, EpisodeKind::Eval, "a").unwrap();
    let error = record(&mut journal, 1, EpisodeKind::Train, "a").unwrap_err();
    assert!(
        matches!(error.problem, JournalProblem::Recorded { step: 1, kind: EpisodeKind::Train }),
        "{error}"
    );
}

#[test]
fn a_task_may_stand_twice_in_a_step() {
    let (_dir, _path, mut journal) = new_journal();
    let same = episode("a", 0);
    let rows = [row(0, &same), row(1, &same)];
    journal.record_step(1, EpisodeKind::Train, &[task("a"), task("a")], &rows).unwrap();
    let stored = journal.episodes(1, EpisodeKind::Train).unwrap();
    assert_eq!(stored.iter().map(|stored| stored.task_index).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn a_task_first_recorded_late_survives_truncation_when_an_earlier_step_uses_it() {
    let (_dir, _path, mut journal) = new_journal();
    record(&mut journal, 5, EpisodeKind::Train, "a").unwrap();
    record(&mut journal, 3, EpisodeKind::Train, "a").unwrap();
    journal.truncate_after(3).unwrap();
    assert_eq!(journal.task(&TaskId("a".into())).unwrap(), Some(task("a")));
}

#[test]
fn what_is_no_journal_is_refused_with_its_name_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.db");
    let refused = |problem: &str| {
        let before = fs::read(&path).ok();
        let error = Journal::open(&path).unwrap_err().to_string();
        assert!(error.contains(problem) && error.contains("run.db"), "{error}");
        assert_eq!(fs::read(&path).ok(), before);
    };
    refused("no such file");
    fs::write(&path, "").unwrap();
    refused("not a journal of burnish");
    fs::write(&path, "step,reward\n1,0.5\n".repeat(100)).unwrap();
    refused("damaged or not a journal");
    fs::remove_file(&path).unwrap();
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE notes (text TEXT)").unwrap();
    refused("not a journal of burnish");
    let error = Journal::create(&path).unwrap_err();
    assert!(matches!(error.problem, JournalProblem::Exists), "{error}");
}

#[test]
fn a_journal_of_another_version_is_refused() {
    let (_dir, path, journal) = new_journal();
    journal.db.execute("UPDATE burnish_journal SET version = 99", []).unwrap();
    let error = Journal::open(&path).unwrap_err().to_string();
    assert!(error.contains("version 99"), "{error}");
}

fn record_of_one_wait() -> Record {
    let at = Place { branch: vec![Fork::Opened(3), Fork::Named(1)], number: 2 };
    let contact =
        Contact { at, question: "xxh3:0".into(), answer: Some(Told::Value(serde_json::Value::Null)) };
    let agent = Speaker { at: Place { branch: Vec::new(), number: 0 }, policy: "policy".into() };
    Record { agents: vec![agent], contacts: vec![contact], calls: ToolCalls { made: 2, failed: 1 } }
}

/// An episode as version 1 recorded it: without the log-probs with which tokens were drawn, and without a record.
fn of_the_first_version(episode: &Episode) -> Episode {
    let of_trace = |trace: &Trace| {
        let mut before = Trace::new();
        for mut node in trace.nodes().iter().cloned() {
            node.sampled.iter_mut().for_each(|sampled| sampled.sampled_logprobs = None);
            before.push(node).unwrap();
        }
        before
    };
    Episode {
        traces: episode.traces.iter().map(of_trace).collect(),
        record: Record::default(),
        ..episode.clone()
    }
}

/// A journal of version 1 with one step, open in an old burnish.
fn first_version() -> (tempfile::TempDir, PathBuf, Journal) {
    let (dir, path, mut journal) = new_journal();
    record(&mut journal, 1, EpisodeKind::Train, "a").unwrap();
    let before = "ALTER TABLE nodes DROP COLUMN sampled_logprobs; ALTER TABLE nodes DROP COLUMN latents; ALTER TABLE episodes DROP COLUMN record;
                  UPDATE burnish_journal SET version = 1;";
    journal.db.execute_batch(before).unwrap();
    (dir, path, journal)
}

#[test]
fn a_journal_of_the_first_version_is_read_as_it_lies() {
    let (_dir, path, written) = first_version();
    drop(written);
    let before = fs::read(&path).unwrap();
    let journal = Journal::open_to_read(&path).unwrap();
    let stored = journal.episodes(1, EpisodeKind::Train).unwrap();
    assert_eq!(stored[0].episode, of_the_first_version(&episode("a", 0)));
    assert_eq!(journal.tally().unwrap().episodes, 1);
    drop(journal);
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_journal_of_the_first_version_goes_on_with_what_it_lacked() {
    type Open = fn(&Path) -> Result<Journal, JournalError>;
    let ways: [Open; 2] = [Journal::open, |path| Ok(Journal::recover(path)?.0)];
    for open in ways {
        let (_dir, path, _written) = first_version();
        // A reader from before the upgrade goes on reading.
        let reader = Journal::open_to_read(&path).unwrap();
        assert_eq!(reader.episodes(1, EpisodeKind::Train).unwrap().len(), 1);
        let mut journal = open(&path).unwrap();
        record(&mut journal, 2, EpisodeKind::Train, "a").unwrap();
        for journal in [&journal, &reader, &Journal::open(&path).unwrap()] {
            let of_step = |step| journal.episodes(step, EpisodeKind::Train).unwrap()[0].episode.clone();
            assert_eq!(of_step(1), of_the_first_version(&episode("a", 0)));
            assert_eq!(of_step(2), episode("a", 0));
        }
        journal.truncate_after(1).unwrap();
        assert_eq!(journal.steps().unwrap().len(), 1);
    }
}

#[test]
fn damage_is_found_when_it_is_read() {
    let damages = [
        ("UPDATE nodes SET ids = x'000000' WHERE node = 0", "4-byte"),
        ("UPDATE nodes SET sources = x'0000ff' WHERE node = 0", "number 255"),
        ("UPDATE nodes SET sampled_logprobs = x'0000000000' WHERE node = 2", "4-byte"),
        ("UPDATE nodes SET sampled_logprobs = x'00000000' WHERE node = 2", "1 sampled log-probs"),
        ("UPDATE nodes SET parent = 9 WHERE node = 1", "node 9"),
        ("UPDATE nodes SET trace = 5", "2 traces"),
        ("UPDATE nodes SET stop = 'tired' WHERE node = 1", "tired"),
        ("UPDATE episodes SET verdict = '{'", "EOF"),
        ("UPDATE episodes SET answers = '['", "EOF"),
        ("UPDATE episodes SET task = 'gone'", "`gone` is missing"),
    ];
    for (statement, problem) in damages {
        let (_dir, _path, mut journal) = new_journal();
        record(&mut journal, 1, EpisodeKind::Train, "a").unwrap();
        journal.db.pragma_update(None, "foreign_keys", false).unwrap();
        journal.db.execute(statement, []).unwrap();
        let error = journal.episodes(1, EpisodeKind::Train).unwrap_err().to_string();
        assert!(error.contains(problem) && error.contains("run.db"), "{error}");
    }
}

#[test]
fn a_process_that_is_killed_before_it_had_made_the_tables_is_no_obstacle() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.db");
    fs::write(&path, "").unwrap();
    Journal::create(&path).unwrap();
    Journal::open(&path).unwrap();
}

/// The child process of `what_a_killed_process_recorded_is_there`. Does nothing by itself.
#[test]
fn in_a_child_that_records_and_aborts() {
    let Some(path) = std::env::var_os("BURNISH_TEST_JOURNAL") else { return };
    let mut journal = Journal::open(Path::new(&path)).unwrap();
    record(&mut journal, 1, EpisodeKind::Train, "a").unwrap();
    // A transaction that is unfinished when the process ends.
    journal.db.execute_batch("BEGIN; DELETE FROM episodes;").unwrap();
    std::process::abort();
}

#[test]
fn what_a_killed_process_recorded_is_there() {
    let (_dir, path, journal) = new_journal();
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "journal::tests::in_a_child_that_records_and_aborts"])
        .env("BURNISH_TEST_JOURNAL", &path)
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert_eq!(journal.episodes(1, EpisodeKind::Train).unwrap()[0].episode, episode("a", 0));
}

#[test]
fn syncing_empties_the_write_ahead_log_into_the_file() {
    let (_dir, path, mut journal) = new_journal();
    record(&mut journal, 1, EpisodeKind::Train, "a").unwrap();
    journal.sync().unwrap();
    // The file alone, without the log beside it, now holds the step.
    let copy = path.with_file_name("copy.db");
    fs::copy(&path, &copy).unwrap();
    assert_eq!(Journal::open(&copy).unwrap().steps().unwrap().len(), 1);
}

fn any_node(index: usize) -> impl Strategy<Value = Node> {
    let parent = prop::option::of(0..index.max(1)).prop_map(move |parent| parent.filter(|_| index > 0));
    let context = prop::collection::vec((any::<u32>(), 0usize..9), 0..6).prop_map(|tokens| {
        let sources = [
            Source::Scaffold,
            Source::System,
            Source::User,
            Source::Tool,
            Source::History,
            Source::Demonstration,
            Source::Hint,
            Source::Teacher,
            Source::Patch,
        ];
        let tokens: Vec<_> = tokens.into_iter().map(|(id, source)| (id, sources[source])).collect();
        (tokens, None)
    });
    let stops =
        [StopReason::EndToken, StopReason::TokensMax, StopReason::ContextFull, StopReason::StopString];
    let answer = (
        prop::collection::vec((any::<u32>(), -20.0f32..0.0, 0usize..4), 0..6),
        // As the model's, all 0, or other values.
        prop::option::of(prop::sample::select(vec![0.0f32, 0.5])),
        prop::sample::select(stops.to_vec()),
        0..=i64::MAX as u64,
        0.01f32..2.0,
        // Numbers that each latent step read.
        0usize..3,
    );
    let answer = answer.prop_map(|(tokens, drawn, stop, policy_version, temperature, width)| {
        let model_logprobs: Vec<f32> = tokens.iter().map(|(_, logprob, _)| *logprob).collect();
        let sampled_logprobs =
            drawn.map(|share| model_logprobs.iter().map(|logprob| 0.0 - share * logprob.abs()).collect());
        let sources = [Source::Policy, Source::Policy, Source::Latent, Source::Patch];
        let tokens: Vec<_> = tokens.iter().map(|(id, _, source)| (*id, sources[*source])).collect();
        let steps = tokens.iter().filter(|(_, source)| *source == Source::Latent).count();
        let sampled = Sampled {
            model_logprobs,
            sampled_logprobs,
            policy_version,
            temperature,
            stop,
            latents: (0..steps * width).map(|at| at as f32 - 0.5).collect(),
        };
        (tokens, Some(sampled))
    });
    (parent, "\\PC{0,6}", prop_oneof![context, answer])
        .prop_map(|(parent, text, (tokens, sampled))| node(parent, &text, &tokens, sampled))
}

fn any_trace() -> impl Strategy<Value = Trace> {
    (0usize..5).prop_flat_map(|count| {
        (0..count).map(any_node).collect::<Vec<_>>().prop_map(|nodes| {
            let mut trace = Trace::new();
            for node in nodes {
                trace.push(node).unwrap();
            }
            trace
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_episode_is_read_back_the_same(
        traces in prop::collection::vec(any_trace(), 0..3),
        reward in prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL | prop::num::f64::ZERO,
        texts in prop::collection::vec("\\PC{0,8}", 0..3),
        ending in prop::sample::select(vec![
            Ending::Completed, Ending::Truncated, Ending::ContextOverflow, Ending::EnvironmentError,
        ]),
    ) {
        let verdict = Verdict::scored("reward", reward, reward > 0.0);
        let answers = texts.into_iter().map(Message::assistant).collect();
        let recorded = Episode { traces, verdict, ending, answers, ..episode("a", 3) };
        let (_dir, _path, mut journal) = new_journal();
        let row = EpisodeRow { task_index: 0, episode: &recorded, reward: Some(reward), advantage: None };
        journal.record_step(1, EpisodeKind::Eval, &[task("a")], &[row]).unwrap();
        let expected = StoredEpisode {
            task: task("a"),
            task_index: 0,
            episode: recorded.clone(),
            reward: Some(reward),
            advantage: None,
        };
        prop_assert_eq!(journal.episodes(1, EpisodeKind::Eval).unwrap(), vec![expected]);
    }
}
