//! The page shows what it is given, as text, and needs nothing else.

use std::collections::BTreeMap;

use burnish_eval::{Crossed, Interval, Slice};

use super::*;

fn interval(mean: f64) -> Interval {
    Interval { mean, low: mean - 0.05, high: mean + 0.05 }
}

fn changed(tasks: usize, by: f64) -> Change {
    Change { headline: Measure::Success, tasks, success: Some(interval(by)), reward: Some(interval(by)) }
}

fn evaluated(step: u64, success: f64) -> EvaluatedStep {
    let slice = Slice { tasks: 64, success: Some(interval(success)), reward: None };
    let sizes = ["10", "4", "6"].map(|size| (size.to_owned(), slice));
    let summary = Summary {
        tasks: 200,
        episodes: 396,
        unscored: 4,
        rollouts_max: 2,
        success: Some(interval(success)),
        reward: Some(interval(success + 0.1)),
        rewards: BTreeMap::from([("valid".into(), success), ("short".into(), 0.25)]),
        flags: BTreeMap::from([("parse_error".into(), 0.3 - 0.3 * success), ("vertex_conflict".into(), 0.1)]),
        completion_tokens_mean: Some(61.5),
        truncated_rate: Some(0.02),
        by_label: BTreeMap::from([
            ("size".into(), sizes.into()),
            ("agents".into(), BTreeMap::from([("2".into(), slice)])),
        ]),
        ..Summary::default()
    };
    EvaluatedStep { step, summary }
}

fn said(who: &str, text: &str) -> Said {
    Said { who: who.into(), text: text.into(), is_sampled: false }
}

/// A plausible run.
pub(super) fn example() -> Report {
    let steps: u64 = 120;
    let rows = (1..=steps).map(|step| {
        let x = step as f64 / steps as f64;
        let wave = (step as f64 * 1.7).sin() * (step as f64 * 0.37).cos();
        let values = [
            ("reward", 0.35 + 0.45 * x + 0.08 * wave),
            ("success", 0.3 + 0.4 * x + 0.1 * wave),
            ("entropy", 0.7 - 0.4 * x + 0.02 * wave),
            ("completions/mean_length", 90.0 - 30.0 * x + 5.0 * wave),
            ("grad_norm", 0.8 + 0.3 * wave),
            ("kl", 0.02 * x),
            ("learning_rate", 1e-4 * (1.0 - x)),
            ("flags/parse_error", 0.2 * (1.0 - x)),
        ];
        let values = values.map(|(name, value)| (name.to_owned(), value)).into();
        Row { step, event: "train".into(), values }
    });
    Report {
        title: "starter: GRPO on multi-agent FrozenLake".into(),
        dir: "runs/quickstart".into(),
        standing: Standing::Finished,
        told: "120 steps are done.".into(),
        written: 1_772_368_200,
        facts: vec![("Time".into(), "3 min 5 s".into()), ("Machine".into(), "2 cores of a CPU".into())],
        recipe: "[train]\nmax_steps = 120\n".into(),
        rows: rows.collect(),
        main: Evaluated {
            name: None,
            steps: [0, 40, 80, 120].map(|step| evaluated(step, 0.31 + 0.3 * step as f64 / 120.0)).into(),
            change: Some(changed(200, 0.3)),
        },
        further: Vec::new(),
        rounds: None,
        episodes: vec![
            DrawnEpisode {
                title: "held-out task mapf/12, rollout 0: success, reward 1".into(),
                turns: vec![
                    said("user", "Grid 4x4"),
                    Said {
                        is_sampled: true,
                        ..said("policy", "<think>A goes down, B waits.</think>\nA: D D D\nB: W R")
                    },
                ],
                drawing: "A . # .\n. B # b\n. . . .\na . # .\n".into(),
                feedback: "optimal".into(),
            },
            DrawnEpisode {
                title: "held-out task mapf/13, rollout 0: fell".into(),
                drawing: "A #".into(),
                ..DrawnEpisode::default()
            },
        ],
        notes: vec!["Try `env.config.size=6` next: these boards are nearly solved.".into()],
    }
}

#[test]
fn the_page_says_what_came_out() {
    let html = example().html();
    for text in [
        "31.0 % before, <b>61.0 %</b> after",
        "+30.0 points</b> (95 % interval +25.0 – +35.0, paired over 200 tasks)",
        "before (step 0)",
        "after (step 120)",
        "<code>parse_error</code>",
        "<pre>\nA . # .\n. B # b",
        "<div class=\"who\">user</div><div class=\"text\">Grid 4x4</div>",
        "A goes down, B waits.",
        "120 steps are done. <span class=\"soft\">Written 2026-03-01 12:30 UTC.</span>",
        "<dt>Time</dt><dd>3 min 5 s</dd>",
        "<code>runs/quickstart</code>",
        "max_steps = 120",
        "Try <code>env.config.size=6</code> next",
        "All other metrics (1)",
    ] {
        assert!(html.contains(text), "{text} is missing");
    }
    assert_eq!(html.matches("<svg").count(), 9);
    assert_eq!(html.matches("<svg").count(), html.matches("</svg>").count());
}

#[test]
fn label_values_are_in_the_order_of_numbers_and_a_label_with_one_value_is_left_out() {
    let html = example().html();
    let at = |value: &str| html.find(&format!("<code>size</code> = <code>{value}</code>")).unwrap();
    assert!(at("4") < at("6") && at("6") < at("10"));
    assert!(!html.contains("<code>agents</code>"));
}

#[test]
fn the_page_needs_no_network_and_runs_nothing() {
    let html = example().html();
    for needle in ["src=", "href=", "@import", "url(", "<script", "<link"] {
        assert!(!html.contains(needle), "{needle}");
    }
    // The XML namespace of SVG is only a name, never fetched.
    assert_eq!(html.matches("http").count(), html.matches("xmlns=\"http://www.w3.org/2000/svg\"").count());
}

#[test]
fn an_unfinished_run_says_so_to_people_and_to_programs() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("report.html");
    assert!(!is_finished(&path), "there is none");
    let mut report = example();
    for (standing, name, runs_scripts) in [
        (Standing::Running, "running", true),
        (Standing::Stopped, "stopped", false),
        (Standing::Finished, "finished", false),
    ] {
        report.standing = standing;
        report.told = "Step 40 of 120: `burnish train --resume runs/quickstart` goes on.".into();
        report.write(&path).unwrap();
        assert_eq!(is_finished(&path), standing == Standing::Finished);
        let html = report.html();
        let line =
            format!("<b class=\"{name}\">{name}</b> Step 40 of 120: <code>burnish train --resume runs/");
        assert!(html.contains(&line), "{html}");
        // The page of a run that goes on looks for a newer one; nothing else runs, and nothing is fetched.
        assert_eq!(html.contains("<script>"), runs_scripts);
        assert!(!html.contains("src=") && !html.contains("href="));
    }
    // An earlier version wrote reports at the end only.
    std::fs::write(&path, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n").unwrap();
    assert!(is_finished(&path));
}

#[test]
fn a_run_on_rows_leads_with_what_was_held_out() {
    let values = [("eval/loss", 2.0), ("eval/held_out_rows", 9.0)];
    let measured = |step| Row {
        step,
        event: "eval".into(),
        values: values.map(|(name, value)| (name.to_owned(), value)).into(),
    };
    let html = Report { rows: vec![measured(0), measured(4)], ..Report::default() }.html();
    assert!(html.contains("On 9 held-out rows: loss 2 before, <b>2</b> after."), "{html}");
    assert!(html.contains("Results on held-out rows") && html.contains("held-out rows</p>"));
    assert!(!html.contains("No evaluation"));
}

#[test]
fn the_number_in_the_corner_is_where_the_drawn_line_ends() {
    let mut report = example();
    for row in &mut report.rows {
        row.values = [("reward".to_owned(), if row.step == 120 { 7.0 } else { 1.0 })].into();
    }
    let html = report.html();
    let corner = html.split("<span>Reward</span>").nth(1).unwrap();
    let number = corner.split("the last step alone: 7\">").nth(1).and_then(|rest| rest.split('<').next());
    assert!(number.is_some_and(|number| (1.0..4.0).contains(&number.parse::<f64>().unwrap())), "{number:?}");
}

#[test]
fn no_text_of_a_run_becomes_markup() {
    let evil = "<img onerror=x>\"'&".to_owned();
    let mut report = example();
    report.title = evil.clone();
    report.recipe = evil.clone();
    report.notes = vec![evil.clone()];
    (report.dir, report.told) = (evil.clone(), evil.clone());
    report.facts = vec![(evil.clone(), evil.clone())];
    report.episodes = vec![DrawnEpisode {
        title: evil.clone(),
        turns: vec![said(&evil, &evil)],
        drawing: evil.clone(),
        feedback: evil.clone(),
    }];
    for row in &mut report.rows {
        row.values.insert(evil.clone(), row.step as f64);
    }
    for evaluated in &mut report.main.steps {
        let slice = evaluated.summary.by_label["size"]["4"];
        evaluated.summary.flags.insert(evil.clone(), 0.5);
        evaluated.summary.rewards.insert(evil.clone(), 0.5);
        let values = BTreeMap::from([(evil.clone(), slice), ("other".into(), slice)]);
        evaluated.summary.by_label.insert(evil.clone(), values);
    }
    let html = report.html();
    assert!(!html.contains("<img"));
    // Title twice, directory, standing, fact twice, recipe, note, episode five times, flag, reward, label twice as a name and once as a value, the
    // curve's title and its label for readers.
    assert_eq!(html.matches("&lt;img onerror=x&gt;&quot;&#39;&amp;").count(), 20);
}

#[test]
fn a_run_with_nothing_to_show_still_has_a_page() {
    let html = Report { title: "empty".into(), ..Report::default() }.html();
    assert!(html.contains("No evaluation on held-out tasks") && html.contains("Where to look"));
    assert!(!html.contains("<table") && !html.contains("<svg"));
    let unscored = EvaluatedStep { step: 0, summary: Summary { unscored: 3, ..Summary::default() } };
    let main = Evaluated { steps: vec![unscored], ..Evaluated::default() };
    let html = Report { main, ..Report::default() }.html();
    assert!(html.contains("<td data-label=\"step 0\">–</td>"));
    assert!(html.contains("No held-out task could be judged: 3 of 3 episodes unscored"), "{html}");
}

#[test]
fn where_the_environment_reports_no_success_the_reward_leads_everywhere() {
    let mut report = example();
    for at in &mut report.main.steps {
        let summary = &mut at.summary;
        (summary.headline, summary.success) = (Measure::Reward, None);
        for slice in summary.by_label.values_mut().flat_map(BTreeMap::values_mut) {
            (slice.reward, slice.success) = (slice.success, None);
        }
    }
    report.main.change = Some(Change { headline: Measure::Reward, success: None, ..changed(200, 1.04) });
    report.main.steps[3].summary.prompt_too_long = 7;
    let html = report.html();
    for text in [
        "Reward on 200 held-out tasks: 0.410 before, <b>0.710</b> after",
        "a change of <b class=\"good\">+1.040</b> (95 % interval +0.990 – +1.090, paired over 200 tasks)",
        "Reward on held-out tasks",
        "Reward by kind of task",
        "7 of 400 episodes without a reward, in no mean of rewards: the prompt does not fit",
        ">0.310 <span",
    ] {
        assert!(html.contains(text), "{text} is missing: {html}");
    }
    for text in ["Success on", "Success by kind", "<th scope=\"row\">Success</th>"] {
        assert!(!html.contains(text), "{text}");
    }
}

#[test]
fn one_evaluation_is_shown_without_a_comparison() {
    let mut report = example();
    report.main.steps.truncate(1);
    report.main.change = None;
    let html = report.html();
    assert!(html.contains("<b>31.0 %</b>") && html.contains(">step 0<"));
    assert!(!html.contains("change"));
}

#[test]
fn a_gain_is_called_good_only_where_its_interval_leaves_out_zero() {
    let class = |mean: f64| {
        let mut report = example();
        report.main.change = Some(changed(9, mean));
        let html = report.html();
        ["good", "bad", "soft"].into_iter().find(|class| html.contains(&format!("<b class=\"{class}\">")))
    };
    assert_eq!(class(0.06), Some("good"));
    assert_eq!(class(0.04), Some("soft"));
    assert_eq!(class(-0.06), Some("bad"));
}

#[test]
fn a_further_evaluation_has_its_own_table_and_curve_and_flags_are_shown_by_label() {
    let mut report = example();
    let curves = |report: &Report| report.html().matches("<svg").count();
    let before = curves(&report);
    let mut last = evaluated(120, 0.8);
    last.summary.pass_at = BTreeMap::from([(8, interval(0.9))]);
    last.summary.distinct_rate = Some(0.25);
    let change = Some(changed(200, 0.4));
    let steps = vec![evaluated(0, 0.4), last];
    report.further = vec![Evaluated { name: Some("retention".into()), steps, change }];
    let rates = BTreeMap::from([("abstained".to_owned(), 0.125)]);
    let sizes = ["4", "6"].map(|size| (size.to_owned(), rates.clone()));
    report.main.steps[3].summary.flags_by_label = BTreeMap::from([("size".into(), sizes.into())]);
    let html = report.html();
    let own = html.split("Further evaluation: <code>retention</code>").nth(1).unwrap();
    for text in [
        "80.0 %",
        "+40.0 points",
        "(pass@8)</th><td data-label=\"before\">–</td><td data-label=\"after\">90.0 %</td>",
        "Different answers",
        "25.0 %",
    ] {
        assert!(own.contains(text), "{text} is missing");
    }
    assert!(html.contains("Success: retention") && html.contains("61.0 %</b> after"));
    assert_eq!(curves(&report), before + 1);
    let flag = "<code>size</code> = <code>4</code>: <code>abstained</code></th><td data-label=\"before\">–</td><td data-label=\"after\">12.5 %</td>";
    assert!(html.contains(flag) && html.contains("Flags by kind of task (2)"), "{html}");
}

#[test]
fn two_labels_at_once_are_a_heat_map_of_the_last_evaluation() {
    let mut report = example();
    assert!(!report.html().contains("class=\"heat\""));
    let slice = |mean: f64| Slice { tasks: 5, success: Some(interval(mean)), reward: None };
    let row = |cells: [f64; 2]| -> BTreeMap<String, Slice> {
        ["0", "0.5"].map(str::to_owned).into_iter().zip(cells.map(slice)).collect()
    };
    let cells = [("1024".to_owned(), row([0.0, 1.0])), ("512".to_owned(), row([0.5, 0.25]))];
    let crossed = Crossed { labels: ["length", "<b>"].map(str::to_owned), cells: cells.into() };
    report.main.steps[3].summary.crossed = Some(crossed);
    let html = report.html();
    let table =
        html.split("<h2>Success by <code>length</code> and <code>&lt;b&gt;</code></h2>").nth(1).unwrap();
    let table = table.split("</table>").next().unwrap();
    let [first, second] =
        ["512", "1024"].map(|row| table.find(&format!("<th scope=\"row\">{row}</th>")).unwrap());
    assert!(first < second, "numbers are in order");
    for text in [
        "style=\"--heat: 70%\">100.0 %<",
        "style=\"--heat: 0%\">0.0 %<",
        "title=\"5 tasks\"",
        "&lt;b&gt; 0.5",
    ] {
        assert!(table.contains(text), "{text} is missing: {table}");
    }
}

#[test]
fn the_report_is_written_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("report.html");
    example().write(&path).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), example().html());
    // Keeps a copy of the page, to look at while working on it.
    if let Some(copy) = std::env::var_os("BURNISH_TEST_REPORT") {
        std::fs::copy(&path, copy).unwrap();
    }
}
