//! The headline by two labels at once.

use std::collections::BTreeMap;

use burnish_eval::{Measure, Slice};

use super::Evaluated;
use super::html::escape;
use super::tables::{capital, code};

/// The headline's measure by two labels at the last evaluation, as a heat map.
pub(super) fn crossed(main: &Evaluated) -> String {
    let last = main.steps.last().and_then(|at| at.summary.crossed.as_ref());
    let Some(crossed) = last.filter(|crossed| crossed.is_table()) else { return String::new() };
    let measure = main.headline();
    let levels = || crossed.cells.values().flat_map(BTreeMap::values).filter_map(Slice::leading);
    let least = levels().map(|level| level.mean).fold(f64::INFINITY, f64::min);
    let most = levels().map(|level| level.mean).fold(f64::NEG_INFINITY, f64::max);
    // A rate has a scale of its own; other numbers are compared with each other.
    let heat = |mean: f64| match measure {
        Measure::Success => mean,
        Measure::Reward if most > least => (mean - least) / (most - least),
        Measure::Reward => 0.5,
    };
    let [rows, columns] = &crossed.labels;
    let head: String =
        crossed.columns().iter().map(|column| format!("<th scope=\"col\">{}</th>", escape(column))).collect();
    let mut body = String::new();
    for row in crossed.rows() {
        body += &format!("<tr><th scope=\"row\">{}</th>", escape(row));
        for column in crossed.columns() {
            let slice = crossed.at(row, column);
            let label = escape(&format!("{columns} {column}"));
            body += &match slice.and_then(|slice| Some((slice.tasks, slice.leading()?.mean))) {
                Some((tasks, mean)) => format!(
                    "<td data-label=\"{label}\" title=\"{tasks} tasks\" style=\"--heat: {:.0}%\">{}</td>",
                    70.0 * heat(mean),
                    measure.level(mean)
                ),
                None => format!("<td data-label=\"{label}\">–</td>"),
            };
        }
        body += "</tr>\n";
    }
    format!(
        "<h2>{} by {} and {}</h2>\n<div class=\"scroll\"><table class=\"heat\">\n<thead><tr><th \
         scope=\"col\">{}</th>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>\n",
        capital(measure),
        code(rows),
        code(columns),
        escape(rows)
    )
}
