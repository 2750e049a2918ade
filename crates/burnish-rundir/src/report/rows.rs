//! Results on rows that are held out.

use std::collections::BTreeSet;

use super::chart::short;
use super::html::escape;
use super::panels::held_out_rows;
use crate::metrics::Row;

/// How the numbers are called that a person asks for, in their order, and whether they are shares.
const NAMED: [(&str, &str, bool); 5] = [
    ("eval/loss", "Loss", false),
    ("eval/rewards/accuracies", "Pairs told right", true),
    ("eval/rewards/margins", "Margin of the better answer", false),
    ("eval/accuracy", "Told right", true),
    ("eval/margin", "Margin of the better answer", false),
];

/// What the first and the last evaluation found. `None` if no row is held out.
struct Found<'a> {
    first: &'a Row,
    /// If there are two.
    last: Option<&'a Row>,
}

impl<'a> Found<'a> {
    fn of(rows: &'a [Row]) -> Option<Self> {
        let mut found = held_out_rows(rows);
        let first = found.next()?;
        Some(Found { first, last: found.last() })
    }
}

/// The line under the heading.
pub(super) fn headline(rows: &[Row]) -> Option<String> {
    let Found { first, last } = Found::of(rows)?;
    let count = first.values.get("eval/held_out_rows").copied().unwrap_or_default();
    let told = NAMED.iter().filter_map(|(name, title, is_share)| {
        let before = shown(*first.values.get(*name)?, *is_share);
        let title = title.to_lowercase();
        Some(match last.and_then(|last| last.values.get(*name).map(|after| (last, after))) {
            Some((last, after)) => {
                let change = with_range(last, &format!("{name}/change"), *is_share);
                let change = change.map(|change| format!(" (change {change})")).unwrap_or_default();
                format!("{title} {before} before, <b>{}</b> after{change}", shown(*after, *is_share))
            }
            None => format!("{title} <b>{before}</b>"),
        })
    });
    let told: Vec<String> = told.take(2).collect();
    let end = if told.is_empty() { "no number".to_owned() } else { told.join("; ") };
    Some(format!("<p class=\"lead\">On {count} held-out rows: {end}.</p>"))
}

/// The table of all numbers.
pub(super) fn results(rows: &[Row]) -> String {
    let Some(Found { first, last }) = Found::of(rows) else { return String::new() };
    let names: BTreeSet<&String> =
        first.values.keys().filter(|name| last.is_none_or(|last| last.values.contains_key(*name))).collect();
    let place = |name: &str| NAMED.iter().position(|(known, ..)| *known == name).unwrap_or(NAMED.len());
    let is_own = |name: &str| {
        name != "eval/held_out_rows" && !["/low", "/high", "/change"].iter().any(|end| name.ends_with(end))
    };
    let mut names: Vec<&String> = names.into_iter().filter(|name| is_own(name)).collect();
    names.sort_by_key(|name| place(name));
    let line = |name: &&String| {
        let known = NAMED.iter().find(|(known, ..)| known == *name);
        let is_share = known.is_some_and(|(.., is_share)| *is_share);
        let title = known.map_or_else(
            || format!("<code>{}</code>", escape(name.strip_prefix("eval/").unwrap_or(name))),
            |(_, title, _)| (*title).to_owned(),
        );
        let labels: &[&str] = if last.is_some() { &["before", "after"] } else { &[""] };
        let cells: String = [Some(first), last]
            .into_iter()
            .flatten()
            .zip(labels)
            .map(|(row, label)| {
                let number = with_range(row, name, is_share).unwrap_or_else(|| "–".to_owned());
                format!("<td data-label=\"{label}\">{number}</td>")
            })
            .collect();
        format!("<tr><th scope=\"row\">{title}</th>{cells}</tr>\n")
    };
    let body: String = names.iter().map(line).collect();
    let head = match last {
        Some(last) => format!(
            "<th scope=\"col\">before (step {})</th><th scope=\"col\">after (step {})</th>",
            first.step, last.step
        ),
        None => format!("<th scope=\"col\">step {}</th>", first.step),
    };
    format!(
        "<h2>Results on held-out rows</h2>\n<div class=\"scroll\"><table>\n<thead><tr><th></th>{head}</tr></thead>\n\
         <tbody>\n{body}</tbody>\n</table></div>\n"
    )
}

/// A number of a row, with its interval if it has one.
fn with_range(row: &Row, name: &str, is_share: bool) -> Option<String> {
    let number = shown(*row.values.get(name)?, is_share);
    let end = |end: &str| row.values.get(&format!("{name}/{end}")).map(|value| shown(*value, is_share));
    Some(match end("low").zip(end("high")) {
        Some((low, high)) => format!("{number} [{low}, {high}]"),
        None => number,
    })
}

fn shown(number: f64, is_share: bool) -> String {
    match number {
        number if !number.is_finite() => "–".to_owned(),
        share if is_share => format!("{:.1} %", 100.0 * share),
        number => short(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Values;

    fn measured(step: u64, loss: f64) -> Row {
        let values = [("eval/loss", loss), ("eval/rewards/accuracies", 0.75), ("eval/held_out_rows", 12.0)];
        let values: Values = values.map(|(name, value)| (name.to_owned(), value)).into();
        Row { step, event: "eval".into(), values }
    }

    #[test]
    fn the_first_and_the_last_evaluation_are_compared() {
        let rows = [measured(0, 2.5), measured(5, 1.25), measured(9, f64::NAN), measured(10, 1.0)];
        let said = headline(&rows).unwrap();
        let expected = "On 12 held-out rows: loss 2.5 before, <b>1</b> after; pairs told right 75.0 % before, \
                        <b>75.0 %</b> after.";
        assert!(said.contains(expected), "{said}");
        let table = results(&rows);
        assert!(
            table.contains("after (step 10)") && table.contains(">2.5</td>") && table.contains(">1</td>"),
            "{table}"
        );
        assert!(headline(&rows[..1]).unwrap().contains("loss <b>2.5</b>;"));
        assert!(results(&rows[2..3]).contains(">–</td>"));
        assert!(headline(&[]).is_none() && results(&[]).is_empty());
        // Intervals stand beside their numbers, and in no line of their own.
        let mut after = measured(10, 1.0);
        for (end, value) in
            [("low", 0.5), ("high", 1.5), ("change", -1.5), ("change/low", -2.0), ("change/high", -1.0)]
        {
            after.values.insert(format!("eval/loss/{end}"), value);
        }
        let rows = [measured(0, 2.5), after];
        assert!(
            headline(&rows).unwrap().contains("<b>1</b> after (change -1.5 [-2, -1])"),
            "{:?}",
            headline(&rows)
        );
        let table = results(&rows);
        assert!(table.contains(">1 [0.5, 1.5]</td>") && !table.contains("change"), "{table}");
    }
}
