//! The page itself.

use std::borrow::Cow;

use super::panels::{Panel, main_panels, other_panels};
use super::{Report, chart, episodes, heat, rounds, rows, standing, tables};
use crate::text::visible;

const STYLE: &str = include_str!("style.css");

/// The files beside the report, with what the report leaves out.
const FILES: &str = "\
<ul>
<li><code>metrics.jsonl</code>: every number of every step, one JSON object a line</li>
<li><code>run.db</code>: every task, episode, token and verdict (SQLite; <code>burnish rollout --from</code> shows
them)</li>
<li><code>checkpoints/step_N/</code>: the policy, as <code>transformers</code> loads it, and the optimiser's \
state</li>
<li><code>recipe.toml</code>: the resolved recipe, which makes the same run again</li>
</ul>
";

/// The whole page.
pub(super) fn page(report: &Report) -> String {
    let title = escape(&report.title);
    let further: String = report.further.iter().map(tables::results).collect();
    // Rows are held out where nothing is played, or beside it.
    let on_rows = rows::headline(&report.rows);
    let lead = match on_rows {
        Some(on_rows) if report.main.steps.is_empty() => on_rows,
        on_rows => tables::headline(&report.main) + "\n" + &on_rows.unwrap_or_default(),
    };
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n{}\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>{title}</h1>\n{}{}{lead}\n{}{}{}{}{}{}{}{}</main>\n{}</body>\n</html>\n",
        standing::mark(report.standing),
        dir(&report.dir),
        standing::line(report),
        facts(&report.facts),
        tables::results(&report.main) + &further + &rounds::rounds(report.rounds.as_ref()),
        rows::results(&report.rows),
        curves(report),
        tables::breakdown(&report.main) + &heat::crossed(&report.main),
        episodes::episodes(&report.episodes),
        where_to_look(&report.notes),
        recipe(&report.recipe),
        standing::reload(report.standing),
    )
}

fn dir(dir: &str) -> String {
    if dir.is_empty() {
        String::new()
    } else {
        format!("<p class=\"dir\"><code>{}</code></p>\n", escape(dir))
    }
}

fn facts(facts: &[(String, String)]) -> String {
    if facts.is_empty() {
        return String::new();
    }
    let fact = |(name, value): &(String, String)| {
        format!("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(name), escape(value))
    };
    format!("<dl class=\"facts\">\n{}</dl>\n", facts.iter().map(fact).collect::<String>())
}

/// Escapes text for HTML text or attributes. Characters that HTML must not contain, or that reorder what is read,
/// become visible signs.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in visible(text).chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Preformatted text. HTML drops the first newline after the tag, so one is added to be dropped.
pub(super) fn pre(text: &str) -> String {
    format!("<pre>\n{}</pre>\n", escape(text))
}

fn curves(report: &Report) -> String {
    let (main, other) = (main_panels(report), other_panels(&report.rows));
    let mut html = String::new();
    if !main.is_empty() {
        html.push_str("<h2>Curves over steps</h2>\n");
        html.push_str(&grid(&main));
    }
    if !other.is_empty() {
        let count = other.len();
        html.push_str(&format!(
            "<details id=\"other-metrics\"><summary>All other metrics ({count})</summary>\n{}</details>\n",
            grid(&other)
        ));
    }
    html
}

fn grid(panels: &[Panel]) -> String {
    let figures: String = panels.iter().map(figure).collect();
    format!("<div class=\"grid\">\n{figures}</div>\n")
}

fn figure(panel: &Panel) -> String {
    let title = escape(&panel.title);
    let drawing: Cow<'_, str> = match chart::svg(&panel.curve) {
        Ok(svg) => svg.replacen("<svg", &format!("<svg role=\"img\" aria-label=\"{title}\""), 1).into(),
        Err(error) => format!("<p>This curve could not be drawn: {}</p>", escape(&error)).into(),
    };
    let hint = if panel.hint.is_empty() { String::new() } else { format!("<p>{}</p>\n", escape(panel.hint)) };
    let legend = match panel.curve.held_out.is_empty() {
        true => "",
        false => {
            "<p class=\"legend\"><i class=\"trained\"></i>training <i class=\"held-out\"></i>held-out rows</p>\n"
        }
    };
    format!(
        "<figure>\n<figcaption><span>{title}</span><span class=\"soft\">{}</span></figcaption>\n\
         {drawing}\n{legend}{hint}</figure>\n",
        ends(&panel.curve)
    )
}

/// The numbers in the corner: where the lines of the drawing end.
fn ends(curve: &chart::Curve) -> String {
    let class = if curve.held_out.is_empty() { "" } else { " class=\"trained\"" };
    let own = curve.end().map(|end| {
        let said = end.last_step.map(|last| {
            format!(" title=\"where the smooth line ends; the last step alone: {}\"", chart::short(last))
        });
        format!("<span{class}{}>{}</span>", said.unwrap_or_default(), chart::short(end.value))
    });
    let held_out = curve.held_out.last();
    let held_out =
        held_out.map(|(_, value)| format!("<span class=\"held-out\">{}</span>", chart::short(*value)));
    [own, held_out].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn where_to_look(notes: &[String]) -> String {
    let notes: String = notes.iter().map(|note| format!("<p>{}</p>\n", with_code(note))).collect();
    format!("<h2>Where to look</h2>\n{notes}{FILES}")
}

/// Text in which parts between backticks are shown as code.
pub(super) fn with_code(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        // A backtick without a partner.
        return escape(text);
    }
    let mark = |(at, part): (usize, &&str)| match at % 2 {
        0 => escape(part),
        _ => format!("<code>{}</code>", escape(part)),
    };
    parts.iter().enumerate().map(mark).collect()
}

fn recipe(recipe: &str) -> String {
    if recipe.is_empty() {
        return String::new();
    }
    format!(
        "<h2>Recipe</h2>\n<details id=\"recipe\"><summary>recipe.toml</summary>\n{}</details>\n",
        pre(recipe)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text() {
        assert_eq!(escape("<b a='1' c=\"2\">&amp;"), "&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;amp;");
        assert_eq!(escape("a\n\tb\0\u{1b}c"), "a\n\tb␀␛c");
        assert_eq!(escape("\u{202e}<"), "&lt;U+202E&gt;&lt;");
    }

    #[test]
    fn what_stands_between_backticks_is_code() {
        assert_eq!(with_code("run `a < b` or `c`"), "run <code>a &lt; b</code> or <code>c</code>");
        assert_eq!(with_code("a ` alone"), "a ` alone");
    }

    #[test]
    fn a_drawing_keeps_its_first_empty_line() {
        assert_eq!(pre("\nboard"), "<pre>\n\nboard</pre>\n");
    }
}
