//! The table of `burnish eval --strategy`.

use std::path::Path;

use burnish_eval::{Change, Measure};
use burnish_run::strategies::{Arm, Comparison, Row};

use super::Done;
use crate::out;

/// Prints what a strategy is worth.
pub(crate) fn say(comparison: &Comparison, policy: &str, out_dir: Option<&Path>, json: bool) -> Done {
    if json {
        out::json(&serde_json::to_string(comparison)?);
    } else {
        println!("policy   {policy}");
        println!("strategy {} {}", comparison.strategy.strategy, comparison.strategy.config);
        if let Some(row) = comparison.row(Arm::Strategy) {
            println!("tasks    {} ({} episodes)", row.summary.tasks, row.summary.episodes);
        }
        print!("{}", table(comparison));
        if let Some(rates) = &comparison.rates {
            let percent = |share: f64| format!("{:.1} %", 100.0 * share);
            println!(
                "drafts   M@{k} {}, Vote@{k} {}, P@{k} {}",
                percent(rates.mean),
                percent(rates.vote),
                percent(rates.any),
                k = count(rates.drafts)
            );
            println!(
                "answers  HM@{m} {}, HP@{m} {}; against the vote {} rectified, {} regressed",
                percent(rates.hm),
                percent(rates.hp),
                percent(rates.rectified),
                percent(rates.regressed),
                m = count(rates.answers)
            );
        }
        if !comparison.is_counted {
            println!("tokens   of a server are not known: four characters count as one");
        }
        if let Some(dir) = out_dir {
            println!("records  {}", dir.join("items.jsonl").display());
        }
    }
    let left_out = |row: &Row| row.summary.leading().is_none().then(|| row.summary.left_out().join("; "));
    match comparison.rows.iter().find_map(left_out) {
        Some(why) => Err(format!("nothing could be scored: {why}").into()),
        None => Ok(()),
    }
}

/// A mean number of candidates: whole where all turns have the same.
fn count(mean: f64) -> String {
    if mean.fract() == 0.0 { format!("{mean:.0}") } else { format!("{mean:.1}") }
}

/// A line for each arm.
fn table(comparison: &Comparison) -> String {
    let name = |arm: Arm| match arm {
        Arm::Plain => "plain",
        Arm::Strategy => comparison.strategy.strategy.as_str(),
        // A strategy may be a majority itself.
        Arm::Majority if comparison.strategy.strategy == "majority" => "same tokens",
        Arm::Majority => "majority",
    };
    let change = |change: &Option<Change>| match change {
        Some(change) => {
            change.leading().map_or("-".to_owned(), |interval| change.headline.change_with_range(interval))
        }
        None => "-".to_owned(),
    };
    let head = ["", "tokens", "read", "generated", "turns", "result", "over plain", "over majority"];
    let mut lines: Vec<Vec<String>> = vec![head.map(str::to_owned).to_vec()];
    for row in &comparison.rows {
        let measure: Measure = row.summary.headline;
        lines.push(vec![
            name(row.arm).to_owned(),
            format!("{:.1}", row.generated + row.read),
            format!("{:.1}", row.read),
            format!("{:.1}", row.generated),
            format!("{:.1}", row.turns),
            row.summary.leading().map_or("-".to_owned(), |level| measure.level_with_range(level)),
            change(&row.over_plain),
            change(&row.over_majority),
        ]);
    }
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let cells = line.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("  {cell:>width$}"),
        });
        text += &format!("{}\n", cells.collect::<String>().trim_end());
    }
    text
}
