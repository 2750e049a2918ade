//! The rounds before a run, between which its environment was configured anew.

use super::html::{escape, pre};

/// The rounds, of which the run of the report is the last.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rounds {
    /// The keys that may change.
    pub keys: Vec<String>,
    /// The rounds, the last one included.
    pub rounds: Vec<RoundTold>,
    /// How the configuration of the last one came about.
    pub design: DesignTold,
}

/// A round.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RoundTold {
    /// The values of the keys, as texts.
    pub values: Vec<String>,
    /// Why they were chosen.
    pub reason: String,
    /// Tasks that were played.
    pub played: String,
    /// The result of its last evaluation.
    pub result: String,
}

/// How a configuration came about.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DesignTold {
    /// What was changed and what was not taken over, a line each.
    pub changes: Vec<String>,
    /// What whoever chose it was told.
    pub told: String,
    /// The answer.
    pub said: String,
}

/// The section of the page; empty for a run without rounds before it.
pub(super) fn rounds(rounds: Option<&Rounds>) -> String {
    let Some(Rounds { keys, rounds, design }) = rounds else { return String::new() };
    let cells = |tag: &str, texts: &[String]| -> String {
        texts.iter().map(|text| format!("<{tag}>{}</{tag}>", escape(text))).collect()
    };
    let head = [
        vec!["Round".to_owned()],
        keys.clone(),
        ["Tasks played", "Held-out tasks", "Reason"].map(str::to_owned).to_vec(),
    ];
    let row = |(at, round): (usize, &RoundTold)| {
        let RoundTold { values, reason, played, result } = round;
        let texts = [
            vec![(at + 1).to_string()],
            values.clone(),
            vec![played.clone(), result.clone(), reason.clone()],
        ];
        format!("<tr>{}</tr>\n", cells("td", &texts.concat()))
    };
    let lines: String = design.changes.iter().map(|line| format!("<li>{}</li>\n", escape(line))).collect();
    format!(
        "<h2>Rounds</h2>\n<p>The environment was configured anew between them. This run is the last one.</p>\n\
         <table>\n<tr>{}</tr>\n{}</table>\n<details><summary>How the last configuration came about</summary>\n\
         <ul>\n{lines}</ul>\n<p>What was told:</p>\n{}<p>What was said:</p>\n{}</details>\n",
        cells("th", &head.concat()),
        rounds.iter().enumerate().map(row).collect::<String>(),
        pre(&design.told),
        pre(&design.said)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_is_a_row_and_what_is_said_is_text() {
        assert_eq!(rounds(None), "");
        let round = |value: &str, reason: &str| RoundTold {
            values: vec![value.to_owned()],
            reason: reason.to_owned(),
            played: "64".into(),
            result: "success 50.0 %".into(),
        };
        let told = Rounds {
            keys: vec!["sizes.3.share".into()],
            rounds: vec![round("0.4", ""), round("0.6", "<b>harder</b>")],
            design: DesignTold {
                changes: vec!["sizes.3.share: 0.4 to 0.6".into()],
                told: "success 0.5".into(),
                said: "{\"config\": {}}".into(),
            },
        };
        let html = rounds(Some(&told));
        for part in [
            "<th>sizes.3.share</th>",
            "<tr><td>1</td><td>0.4</td><td>64</td><td>success 50.0 %</td><td></td></tr>",
            "<tr><td>2</td><td>0.6</td>",
            "&lt;b&gt;harder&lt;/b&gt;",
            "<li>sizes.3.share: 0.4 to 0.6</li>",
            "success 0.5",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
    }
}
