//! One table of all studies whose data is in a folder of results: its `README.md`.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use burnish_eval::Verdict;

use super::page::{count, in_cell, none, shown_detectable, shown_difference};
use super::{ArmFindings, Findings, Measure};
use burnish_run::RunError;
use burnish_rundir::files::{FileError, write_atomic};

const README: &str = "README.md";

const HEAD: &str = "\
<!-- Made by `burnish study --index docs/results`. -->
# Results

Every arm of every study, compared with the study's baseline: the difference in held-out success after training, in points, with its 95 %
interval; the smallest effect that the study would likely have seen; what one run generated, and what that is of the baseline's.
*Helps* and *hurts at this scale*: the interval leaves out 0; of 20 arms without an effect one is expected to. *No difference seen* says
nothing about effects below the smallest detectable one. The pages say what was run, and how to read the numbers. All policies are tiny:
nothing here is a claim about large ones.
";

const TABLE: &str = "
| study | method | baseline | seeds | tokens generated | effect (points) | smallest detectable effect | verdict |
| --- | --- | --- | --- | --- | --- | --- | --- |
";

/// The table, built from the `*.json` files that studies wrote into `dir`, and a list of the other pages there.
///
/// # Errors
/// If a file can't be read, or holds no findings of a study.
pub fn index(dir: &Path) -> Result<String, RunError> {
    let files = files(dir)?;
    let with_end = |end: &str| -> Vec<&PathBuf> {
        files.iter().filter(|file| file.extension().is_some_and(|own| own == end)).collect()
    };
    let mut studies = Vec::new();
    for file in with_end("json") {
        let findings: Findings = serde_json::from_str(&read(file)?).map_err(|error| {
            RunError::Refused(format!(
                "{}: holds no findings of a study ({error}): `burnish study FILE --report-only` writes them anew",
                file.display()
            ))
        })?;
        studies.push(findings);
    }
    let mut text = HEAD.to_owned();
    if !studies.is_empty() {
        text += TABLE;
        studies.iter().for_each(|findings| rows(&mut text, findings));
    }
    let mut others = String::new();
    for file in with_end("md") {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let is_study = studies.iter().any(|findings| *name == format!("{}.md", findings.id));
        if !is_study && name != README {
            let text = read(file)?;
            let title = text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(&name);
            let _ = writeln!(others, "- [{title}]({name})");
        }
    }
    if !others.is_empty() {
        text += "\n## Other pages\n\n";
        text += &others;
    }
    Ok(text)
}

/// Writes [`index`] into `dir`, and returns the path of the file.
///
/// # Errors
/// As [`index`], and if the file can't be written.
pub fn write_index(dir: &Path) -> Result<PathBuf, RunError> {
    let file = dir.join(README);
    write_atomic(&file, index(dir)?.as_bytes())?;
    Ok(file)
}

/// The files of a folder, sorted by name.
fn files(dir: &Path) -> Result<Vec<PathBuf>, RunError> {
    let of = || std::fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>();
    let mut files = of().map_err(FileError::on("read directory", dir))?;
    files.sort();
    Ok(files)
}

fn read(file: &Path) -> Result<String, RunError> {
    Ok(std::fs::read_to_string(file).map_err(FileError::on("read", file))?)
}

fn rows(text: &mut String, findings: &Findings) {
    let Findings { id, title, baseline, runs_finished, runs_planned, .. } = findings;
    let mut study = format!("[{}]({id}.md)", in_cell(title));
    if runs_finished < runs_planned {
        let _ = write!(study, " ({runs_finished} of {runs_planned} runs)");
    }
    for arm in findings.arms.iter().filter(|arm| arm.name != *baseline) {
        let measure = findings.headline;
        let unit = if measure == Measure::Reward { " of reward" } else { "" };
        let compared = arm.compared(measure);
        let difference = compared.difference.filter(|_| findings.is_compared());
        let [effect, detectable, verdict] = match &difference {
            Some(found) => [
                shown_difference(found.estimate, measure) + unit,
                shown_detectable(found, measure),
                verdict(arm, found.verdict),
            ],
            None if !findings.is_compared() => {
                [none(), none(), "not compared: rewards are weighed differently".to_owned()]
            }
            None => [none(), none(), "not compared yet".to_owned()],
        };
        let seeds = difference.map_or(0, |found| found.estimate.seeds);
        let share = arm.budget_relative.and_then(|budget| budget.generated);
        let share = share.map(|share| format!(" ({:.0} %)", 100.0 * share)).unwrap_or_default();
        let generated = count(arm.budget.generated);
        let _ = writeln!(
            text,
            "| {study} | {} | {baseline} | {seeds} | {generated}{share} | {effect} | {detectable} | {verdict} |",
            arm.name,
        );
    }
}

fn verdict(arm: &ArmFindings, verdict: Verdict) -> String {
    let said = match verdict {
        Verdict::Better => "helps",
        Verdict::Worse => "hurts at this scale",
        Verdict::NoDifferenceSeen => "no difference seen",
    };
    let unequal = arm.budget_relative.map(|budget| budget.unequal()).unwrap_or_default();
    if unequal.is_empty() {
        return said.to_owned();
    }
    format!("{said}; unequal budget: {}", unequal.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::findings::tests::{arm, findings, measured};
    use super::*;

    #[test]
    fn the_table_has_a_row_an_arm_and_other_pages_are_listed() {
        let dir = tempfile::tempdir().unwrap();
        let baseline = [measured(1, 10, 1000.0), measured(2, 12, 1000.0)];
        let mut found = findings(vec![
            arm("base", baseline.to_vec(), None),
            arm("up", vec![measured(1, 38, 1000.0), measured(2, 40, 1000.0)], Some(&baseline)),
            arm("down", vec![measured(1, 1, 1300.0), measured(2, 1, 1300.0)], Some(&baseline)),
            arm("same", vec![measured(1, 11, 1000.0), measured(2, 11, 1000.0)], Some(&baseline)),
            arm("waits", Vec::new(), Some(&baseline)),
        ]);
        found.runs_planned = 6;
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("x.json", &serde_json::to_string(&found).unwrap());
        write("x.md", "# X\n");
        write("other.md", "<!-- made -->\n# Another page\n");
        let file = write_index(dir.path()).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        let row =
            |name: &str| text.lines().find(|line| line.contains(&format!("| {name} | base |"))).unwrap();
        assert!(
            row("up").starts_with("| [X](x.md) (4 of 6 runs) | up | base | 2 | 1000 (100 %) | +70.0 ["),
            "{text}"
        );
        assert!(row("up").ends_with("| helps |"), "{text}");
        let down = "| hurts at this scale; unequal budget: +30.0 % tokens generated |";
        assert!(row("down").ends_with(down), "{text}");
        let difference = found.arms[3].success.difference.unwrap();
        let same = format!("| {:.1} | no difference seen |", 100.0 * difference.smallest_detectable);
        assert!(row("same").ends_with(&same), "{text}");
        assert!(row("waits").ends_with("| 0 | 0 | – | – | not compared yet |"), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("| [")).count(), 4, "{text}");
        assert!(text.ends_with("## Other pages\n\n- [Another page](other.md)\n"), "{text}");
        assert_eq!(index(dir.path()).unwrap(), text, "its own file changes nothing");

        write("bad.json", "{\"id\": 1}");
        let error = index(dir.path()).unwrap_err().to_string();
        assert!(error.contains("bad.json") && error.contains("--report-only"), "{error}");
    }

    #[test]
    fn the_index_of_this_repository_is_up_to_date() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results");
        let text = std::fs::read_to_string(dir.join(README)).unwrap_or_default();
        assert!(text == index(&dir).unwrap(), "run: burnish study --index docs/results");
    }
}
