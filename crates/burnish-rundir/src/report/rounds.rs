//! The rounds before a run, between which an engineer redesigned its environment.

use super::html::{escape, pre};

/// The rounds of a recipe whose last round is the run of the report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rounds {
    /// Who redesigned.
    pub engineer: String,
    /// The keys that may change.
    pub keys: Vec<String>,
    /// The rounds, the last one included.
    pub rounds: Vec<RoundTold>,
    /// How the environments of the second round, the third ... came about.
    pub designs: Vec<DesignTold>,
}

/// A round.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RoundTold {
    /// The values of the keys, as texts.
    pub values: Vec<String>,
    /// Tasks that were played.
    pub played: String,
    /// The result of its last evaluation.
    pub result: String,
    /// Its run directory; of the last round, this one.
    pub dir: String,
}

/// What an engineer said.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DesignTold {
    /// Which design it is, and what came of it.
    pub title: String,
    /// Its reason.
    pub reason: String,
    /// What was changed and what was not taken over, a line each.
    pub changes: Vec<String>,
    /// What it was told.
    pub saw: String,
    /// What it answered.
    pub said: String,
}

/// The section of the page; empty for a run without rounds before it.
pub(super) fn rounds(rounds: Option<&Rounds>) -> String {
    let Some(Rounds { engineer, keys, rounds, designs }) = rounds else { return String::new() };
    let cells = |tag: &str, texts: &[String]| -> String {
        texts.iter().map(|text| format!("<{tag}>{}</{tag}>", escape(text))).collect()
    };
    let head = [
        vec!["Round".to_owned()],
        keys.clone(),
        ["Tasks played", "Held-out tasks", "Run"].map(str::to_owned).to_vec(),
    ];
    let row = |(at, round): (usize, &RoundTold)| {
        let RoundTold { values, played, result, dir } = round;
        let texts =
            [vec![(at + 1).to_string()], values.clone(), vec![played.clone(), result.clone(), dir.clone()]];
        format!("<tr>{}</tr>\n", cells("td", &texts.concat()))
    };
    let design = |design: &DesignTold| {
        let lines: String =
            design.changes.iter().map(|line| format!("<li>{}</li>\n", escape(line))).collect();
        let reason = match design.reason.is_empty() {
            true => String::new(),
            false => format!("<p>{}</p>\n", escape(&design.reason)),
        };
        format!(
            "<details><summary>{}</summary>\n{reason}<ul>\n{lines}</ul>\n<p>What it was told:</p>\n{}<p>What it said:</p>\n\
             {}</details>\n",
            escape(&design.title),
            pre(&design.saw),
            pre(&design.said)
        )
    };
    format!(
        "<h2>Rounds</h2>\n<p>The environment was redesigned between them by the engineer <code>{}</code>.</p>\n\
         <table>\n<tr>{}</tr>\n{}</table>\n{}",
        escape(engineer),
        cells("th", &head.concat()),
        rounds.iter().enumerate().map(row).collect::<String>(),
        designs.iter().map(design).collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_is_a_row_and_what_an_engineer_says_is_text() {
        assert_eq!(rounds(None), "");
        let round = |values: &[&str], dir: &str| RoundTold {
            values: values.iter().map(|value| (*value).to_owned()).collect(),
            played: "64".into(),
            result: "success 50.0 %".into(),
            dir: dir.into(),
        };
        let told = Rounds {
            engineer: "endpoint".into(),
            keys: vec!["sizes.3.share".into()],
            rounds: vec![round(&["0.4"], "runs/cache/round1"), round(&["0.6"], "this run")],
            designs: vec![DesignTold {
                title: "Round 2".into(),
                reason: "<b>harder</b>".into(),
                changes: vec!["sizes.3.share: 0.4 to 0.6".into()],
                saw: "success 0.5".into(),
                said: "{\"config\": {}}".into(),
            }],
        };
        let html = rounds(Some(&told));
        for part in [
            "<th>sizes.3.share</th>",
            "<tr><td>1</td><td>0.4</td><td>64</td><td>success 50.0 %</td><td>runs/cache/round1</td></tr>",
            "<tr><td>2</td><td>0.6</td>",
            "&lt;b&gt;harder&lt;/b&gt;",
            "<li>sizes.3.share: 0.4 to 0.6</li>",
            "success 0.5",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
    }
}
