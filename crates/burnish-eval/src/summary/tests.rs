//! What counts, what is left out, and how it is summed up.

use super::*;
use burnish_core::{Node, Record, Sampled, Source, StopReason, Trace, Verdict};
use proptest::prelude::*;

pub(crate) fn episode(task: &str, success: bool, reward: f64) -> Episode {
    Episode {
        task: TaskId(task.into()),
        rollout: 0,
        traces: Vec::new(),
        verdict: Verdict::scored("valid", reward, success),
        ending: Ending::Completed,
        answers: Vec::new(),
        partners: Vec::new(),
        record: Record::default(),
    }
}

/// Judged by an environment that gives a reward and no success.
pub(crate) fn bare(task: &str, reward: f64) -> Episode {
    let mut bare = episode(task, reward > 0.0, reward);
    bare.verdict.has_success = false;
    bare
}

/// One that did not begin.
pub(crate) fn too_long(task: &str) -> Episode {
    let verdict = Verdict::unscored("the prompt has 9 tokens, but at most 7 fit");
    Episode { verdict, ending: Ending::ContextOverflow, ..episode(task, false, 0.0) }
}

pub(crate) fn unscored(task: &str) -> Episode {
    Episode { verdict: Verdict::unscored("hung"), ..episode(task, false, 0.0) }
}

pub(crate) fn task(id: &str, labels: &[(&str, &str)]) -> Task {
    Task {
        id: TaskId(id.into()),
        environment: "test".into(),
        prompt: Vec::new(),
        truth: Default::default(),
        labels: labels.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
    }
}

pub(crate) fn sampled_trace(tokens: usize, stop: StopReason) -> Trace {
    let mut trace = Trace::new();
    let context = Node {
        parent: None,
        text: String::new(),
        ids: vec![1; 5],
        sources: vec![Source::User; 5],
        sampled: None,
    };
    let parent = Some(trace.push(context).unwrap());
    let sampled = Sampled {
        model_logprobs: vec![-1.0; tokens],
        sampled_logprobs: None,
        policy_version: 0,
        temperature: 1.0,
        stop,
        latents: Vec::new(),
    };
    let answer = Node {
        parent,
        text: String::new(),
        ids: vec![1; tokens],
        sources: vec![Source::Policy; tokens],
        sampled: Some(sampled),
    };
    trace.push(answer).unwrap();
    trace
}

fn means(summary: &Summary) -> (f64, f64) {
    (summary.success.unwrap().mean, summary.reward.unwrap().mean)
}

#[test]
fn a_task_counts_once_however_many_of_its_episodes_were_scored() {
    let episodes =
        [episode("a", true, 1.0), unscored("a"), episode("b", false, 0.5), episode("b", false, 0.0)];
    let summary = Summary::of(&[], &episodes, &BTreeMap::new(), 1);
    assert_eq!(means(&summary), (0.5, 0.625));
    assert_eq!((summary.tasks, summary.episodes, summary.unscored, summary.rollouts_max), (2, 3, 1, 2));
}

#[test]
fn a_task_without_a_scored_episode_is_left_out_and_its_episodes_are_counted() {
    let episodes = [episode("a", true, 1.0), unscored("b"), unscored("b")];
    let summary = Summary::of(&[task("b", &[("size", "4")])], &episodes, &BTreeMap::new(), 1);
    assert_eq!(means(&summary), (1.0, 1.0));
    assert_eq!((summary.tasks, summary.unscored), (1, 2));
    assert!(summary.by_label.is_empty());
}

#[test]
fn nothing_scored_gives_no_numbers_instead_of_zeros() {
    for episodes in [vec![], vec![unscored("a")]] {
        let summary = Summary::of(&[], &episodes, &BTreeMap::new(), 1);
        let reasons = episodes.iter().map(|_| ("hung".to_owned(), 1)).collect();
        let expected = Summary { unscored: episodes.len(), unscored_reasons: reasons, ..Summary::default() };
        assert_eq!(summary, expected);
    }
}

#[test]
fn a_prompt_that_does_not_fit_is_a_failure_and_one_that_was_not_judged_is_nothing() {
    let tasks = [task("a", &[("size", "4")]), task("b", &[("size", "4")]), task("c", &[("size", "10")])];
    let mut right = episode("a", true, 1.0);
    right.verdict.flags = BTreeMap::from([("abstained".into(), true)]);
    // It ran, outgrew the window, and then its verifier hung: nothing is known about it.
    let mut outgrown = Episode { ending: Ending::ContextOverflow, ..unscored("b") };
    outgrown.answers = vec![burnish_core::Message::assistant("1")];
    let episodes = [right.clone(), right, too_long("b"), too_long("b"), outgrown, too_long("c")];
    let summary = Summary::of(&tasks, &episodes, &BTreeMap::new(), 1);
    assert_eq!((summary.tasks, summary.episodes, summary.prompt_too_long, summary.unscored), (3, 5, 3, 1));
    assert!((summary.success.unwrap().mean - 1.0 / 3.0).abs() < 1e-12);
    assert!((summary.pass_at[&2].mean - 0.5).abs() < 1e-12, "of a and b, which have two that count");
    assert!((summary.flags["abstained"] - 1.0 / 3.0).abs() < 1e-12);
    assert_eq!(summary.by_label["size"]["4"].success.unwrap().mean, 0.5);
    assert_eq!(summary.by_label["size"]["10"].success.unwrap().mean, 0.0);
    assert_eq!(summary.reward.unwrap().mean, 1.0, "what has no reward is in no mean of rewards");
    let said = summary.left_out();
    assert_eq!(
        said,
        [
            "3 of 6 episodes counted as a failure: the prompt does not fit the context window",
            "1 of 6 episodes unscored, in no mean: hung"
        ]
    );
    let nothing = Summary::of(&tasks, &[too_long("a")], &BTreeMap::new(), 1);
    assert_eq!((nothing.success.unwrap().mean, nothing.reward), (0.0, None));
}

#[test]
fn an_environment_without_success_is_told_by_its_reward() {
    let tasks = [task("a", &[("size", "4")]), task("b", &[("size", "10")])];
    let episodes = [bare("a", 0.5), bare("a", 1.5), bare("b", 2.0), too_long("c")];
    let summary = Summary::of(&tasks, &episodes, &BTreeMap::new(), 1);
    assert_eq!((summary.headline, summary.success, summary.pass_at.len()), (Measure::Reward, None, 0));
    assert_eq!(summary.leading().unwrap().mean, 1.5);
    assert_eq!(summary.by_label["size"]["10"].leading().unwrap().mean, 2.0);
    assert!(summary.left_out()[0].contains("in no mean of rewards"));
    // A single episode that reports success makes success the headline, and the others count as no success.
    let mixed = [bare("a", 0.5), episode("b", true, 1.0)];
    let summary = Summary::of(&tasks, &mixed, &BTreeMap::new(), 1);
    assert_eq!((summary.headline, summary.success.unwrap().mean), (Measure::Success, 0.5));
    let json = serde_json::to_value(Summary::of(&tasks, &episodes, &BTreeMap::new(), 1)).unwrap();
    assert_eq!((json["headline"].as_str(), json["success"].is_null()), (Some("reward"), true));
}

#[test]
fn the_most_frequent_reasons_are_kept_in_short() {
    let failed = |reason: &str| Episode { verdict: Verdict::unscored(reason), ..unscored("a") };
    let long = format!("\u{1b}[31m{}\nTraceback", "x".repeat(500));
    let mut episodes: Vec<Episode> = (0..9).map(|at| failed(&format!("rare {at}"))).collect();
    episodes.extend([failed(&long), failed(&long), failed("no\nsuch file")]);
    let summary = Summary::of(&[], &episodes, &BTreeMap::new(), 1);
    assert_eq!((summary.unscored, summary.unscored_reasons.len()), (12, REASONS_MAX));
    let (most, count) = summary.unscored_reasons.iter().max_by_key(|(_, count)| **count).unwrap();
    assert!(*count == 2 && most.starts_with("\u{fffd}[31mxxx") && most.ends_with("x ..."), "{most}");
    let kept: usize = summary.unscored_reasons.values().sum();
    assert!(summary.left_out()[0].contains("12 of 12 episodes unscored") && kept < 12);
}

#[test]
fn rewards_are_weighted_in_the_total_and_reported_bare_by_name() {
    let mut long = episode("a", true, 1.0);
    long.verdict.rewards.insert("length".into(), 0.5);
    let weights = BTreeMap::from([("length".into(), 4.0)]);
    let summary = Summary::of(&[], &[long, episode("b", true, 1.0)], &weights, 1);
    assert_eq!(summary.reward.unwrap().mean, 2.0);
    assert_eq!(summary.rewards, BTreeMap::from([("length".into(), 0.25), ("valid".into(), 1.0)]));
}

#[test]
fn flags_are_rates_over_tasks_and_a_missing_flag_counts_as_no() {
    let mut wrong = episode("a", false, 0.0);
    wrong.verdict.flags = BTreeMap::from([("parse_error".into(), true), ("hole".into(), false)]);
    let episodes = [wrong, episode("a", true, 1.0), episode("b", true, 1.0)];
    let summary = Summary::of(&[], &episodes, &BTreeMap::new(), 1);
    assert_eq!(summary.flags, BTreeMap::from([("hole".into(), 0.0), ("parse_error".into(), 0.25)]));
}

#[test]
fn tokens_and_cut_off_answers_are_read_from_the_traces() {
    let mut long = episode("a", false, 0.0);
    long.traces = vec![sampled_trace(7, StopReason::TokensMax), sampled_trace(4, StopReason::EndToken)];
    let mut short = episode("b", false, 0.0);
    short.traces = vec![sampled_trace(3, StopReason::EndToken)];
    let mut overflow = episode("c", false, 0.0);
    overflow.ending = Ending::ContextOverflow;
    let turns_max = Episode { ending: Ending::TurnsMax, ..episode("d", false, 0.0) };
    let summary = Summary::of(&[], &[long, short, overflow, turns_max], &BTreeMap::new(), 1);
    assert_eq!(summary.completion_tokens_mean, Some(14.0 / 4.0));
    assert_eq!(summary.truncated_rate, Some(0.5));
}

#[test]
fn labels_split_the_tasks() {
    let tasks = [
        task("a", &[("size", "4"), ("agents", "2")]),
        task("b", &[("size", "4"), ("agents", "3")]),
        task("c", &[("size", "10")]),
        task("c", &[("size", "10")]),
    ];
    let episodes = [
        episode("a", true, 1.0),
        episode("b", false, 0.0),
        episode("c", true, 1.0),
        episode("elsewhere", false, 0.0),
    ];
    let by_label = Summary::of(&tasks, &episodes, &BTreeMap::new(), 1).by_label;
    let of = |label: &str, value: &str| {
        let slice: Slice = by_label[label][value];
        (slice.tasks, slice.success.unwrap().mean)
    };
    assert_eq!(of("size", "4"), (2, 0.5));
    assert_eq!(of("size", "10"), (1, 1.0));
    assert_eq!(of("agents", "3"), (1, 0.0));
    assert_eq!(by_label.len(), 2);
}

#[test]
fn one_who_always_abstains_does_so_on_all_unanswerable_and_on_all_answerable_tasks() {
    let abstention = |id: &str, abstained: bool, answerable: bool| {
        let success = abstained != answerable;
        let mut episode = episode(id, success, 0.0);
        episode.verdict.flags = BTreeMap::from([("abstained".into(), abstained)]);
        episode
    };
    let tasks = [
        task("a", &[("answerable", "yes")]),
        task("b", &[("answerable", "yes")]),
        task("c", &[("answerable", "no")]),
        task("never played", &[("answerable", "perhaps")]),
    ];
    let rates = |abstained: [bool; 3]| {
        let episodes = [
            abstention("a", abstained[0], true),
            abstention("b", abstained[1], true),
            abstention("c", abstained[2], false),
            unscored("c"),
        ];
        let summary = Summary::of(&tasks, &episodes, &BTreeMap::new(), 1);
        assert_eq!(summary.flags_by_label["answerable"].len(), 2);
        let rate = |value: &str| summary.flags_by_label["answerable"][value]["abstained"];
        (rate("no"), rate("yes"), summary.by_label["answerable"]["yes"].success.unwrap().mean)
    };
    assert_eq!(rates([true, true, true]), (1.0, 1.0, 0.0));
    assert_eq!(rates([true, false, true]), (1.0, 0.5, 0.5));
    assert_eq!(rates([false, false, false]), (0.0, 0.0, 1.0));
    let bare = Summary::of(&tasks, &[episode("a", true, 1.0)], &BTreeMap::new(), 1);
    assert!(bare.flags_by_label.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn the_order_of_episodes_changes_nothing(
        results in prop::collection::vec((0u8..6, any::<bool>(), 0.0f64..1.0), 1..20), seed: u64,
    ) {
        // The order within a task stays, because floating-point sums are not associative.
        let episodes: Vec<Episode> = results
            .iter()
            .map(|(task, success, reward)| episode(&format!("t{task}"), *success, *reward))
            .collect();
        let mut sorted = episodes.clone();
        sorted.sort_by(|a, b| b.task.cmp(&a.task));
        let weights = BTreeMap::new();
        prop_assert_eq!(
            Summary::of(&[], &episodes, &weights, seed),
            Summary::of(&[], &sorted, &weights, seed)
        );
    }
}

#[test]
fn metrics_are_means_over_the_tasks_that_have_them() {
    let with = |task: &str, value: Option<f64>| {
        let mut episode = episode(task, false, 0.0);
        episode.verdict.metrics = value.map(|value| ("questions".to_owned(), value)).into_iter().collect();
        episode
    };
    let mut lost = unscored("a");
    lost.verdict.metrics = BTreeMap::from([("questions".to_owned(), 100.0)]);
    let episodes = [
        with("a", Some(1.0)),
        with("a", Some(3.0)),
        with("a", None),
        with("b", Some(5.0)),
        with("c", None),
        lost,
    ];
    let summary = Summary::of(&[], &episodes, &BTreeMap::new(), 1);
    assert_eq!(summary.metrics, BTreeMap::from([("questions".to_owned(), 3.5)]));
    let none = Summary::of(&[], &[with("a", None)], &BTreeMap::new(), 1);
    assert!(none.metrics.is_empty() && !serde_json::to_string(&none).unwrap().contains("metrics"));
}
