//! One table of all claims whose data is in a folder of results: its `README.md`.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::findings::FORMAT;
use super::page::{difference, in_cell, in_full, none};
use super::{ClaimFindings, Findings};
use burnish_run::RunError;
use burnish_rundir::files::{FileError, write_atomic};
use serde_json::Value;

const README: &str = "README.md";

const HEAD: &str = "\
<!-- Made by `burnish study --index docs/results`. -->
# Results

What was claimed and tested: one line for each comparison that a claim is about. *Supported* and *contradicted*: the
difference is on the side that was claimed, or on the other (p below 5 %, corrected for the comparisons of the claim).
*Not seen* says nothing about effects below the smallest detectable one. *Not testable here*: what the method is said
to mend was not wrong at this scale. Ablations, controls and everything else that was measured are on the pages, which
say what was run and how to read the numbers. All policies are tiny: nothing here is a claim about large ones.
";

const TABLE: &str = "
| claim | comparison | number | seeds | difference | verdict |
| --- | --- | --- | --- | --- | --- |
";

const SURVEYS: &str = "
## Surveys

Several settings side by side, with intervals. They claim nothing.

";

const EARLIER: &str = "
## Earlier pages, whose verdicts are withdrawn

They were made before a study had to show that there is something to mend, to tune all arms alike and to give each
seed its own start, some of them from code that was not committed. Each page begins with what it would take.

";

/// A file of data: as it is written now, or an older one with its title.
enum Data {
    Findings(Box<Findings>),
    Earlier { id: String, title: String },
}

impl Data {
    fn read(file: &Path) -> Result<Self, RunError> {
        let refused = |problem: String| {
            RunError::Refused(format!(
                "{}: holds no findings of a study ({problem}): `burnish study FILE --report-only` writes them anew",
                file.display()
            ))
        };
        let value: Value = serde_json::from_str(&read(file)?).map_err(|error| refused(error.to_string()))?;
        if value["format"] == FORMAT {
            let findings = serde_json::from_value(value).map_err(|error| refused(error.to_string()))?;
            return Ok(Data::Findings(Box::new(findings)));
        }
        let text =
            |key: &str| value[key].as_str().map(str::to_owned).ok_or_else(|| refused(format!("no `{key}`")));
        if !value["format"].is_null() {
            return Err(refused(format!("its format is {}, and {FORMAT} is known", value["format"])));
        }
        Ok(Data::Earlier { id: text("id")?, title: text("title")? })
    }

    fn id(&self) -> &str {
        match self {
            Data::Findings(findings) => &findings.id,
            Data::Earlier { id, .. } => id,
        }
    }
}

/// The table, built from the `*.json` files that studies wrote into `dir`, and lists of the other pages there.
///
/// # Errors
/// If a file can't be read, or holds no findings of a study.
pub fn index(dir: &Path) -> Result<String, RunError> {
    let files = files(dir)?;
    let with_end = |end: &str| -> Vec<&PathBuf> {
        files.iter().filter(|file| file.extension().is_some_and(|own| own == end)).collect()
    };
    let studies = with_end("json").into_iter().map(|file| Data::read(file)).collect::<Result<Vec<_>, _>>()?;
    let (mut rows, mut surveys, mut earlier, mut others) =
        (String::new(), String::new(), String::new(), String::new());
    for study in &studies {
        let _ = match study {
            Data::Findings(findings) => match &findings.claim {
                Some(claim) => {
                    contrasts(&mut rows, findings, claim);
                    Ok(())
                }
                None => writeln!(surveys, "- [{}]({}.md): {}", findings.title, findings.id, findings.text),
            },
            Data::Earlier { id, title } => writeln!(earlier, "- [{title}]({id}.md)"),
        };
    }
    for file in with_end("md") {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let is_study = studies.iter().any(|study| *name == format!("{}.md", study.id()));
        if !is_study && name != README {
            let text = read(file)?;
            let title = text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(&name);
            let _ = writeln!(others, "- [{title}]({name})");
        }
    }
    let mut text = HEAD.to_owned();
    for (head, part) in
        [(TABLE, rows), (SURVEYS, surveys), (EARLIER, earlier), ("\n## Other pages\n\n", others)]
    {
        if !part.is_empty() {
            text += head;
            text += &part;
        }
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

fn contrasts(rows: &mut String, findings: &Findings, claim: &ClaimFindings) {
    let Findings { id, text, .. } = findings;
    for found in &claim.contrasts {
        let seeds = found.difference.map_or(0, |found| found.seeds);
        let effect = found.difference.map_or_else(none, |found| difference(found, &claim.metric));
        let unequal = found.budget.map(|budget| budget.unequal()).unwrap_or_default();
        let unequal =
            if unequal.is_empty() { String::new() } else { format!("; budget: {}", unequal.join(", ")) };
        let _ = writeln!(
            rows,
            "| [{}]({id}.md) | `{}` against `{}` | `{}` | {seeds} | {effect} | {}{unequal} |",
            in_cell(text),
            found.contrast.arm,
            found.contrast.against,
            in_cell(&claim.metric),
            in_full(found, claim),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::findings::tests::{claimed, measured, survey};
    use super::*;

    #[test]
    fn the_table_has_a_row_a_comparison_and_other_pages_are_listed() {
        let dir = tempfile::tempdir().unwrap();
        let base: Vec<_> = (1..6).map(|seed| measured(seed, 10 + seed as usize, 1000.0)).collect();
        let up: Vec<_> = (1..6).map(|seed| measured(seed, 30 + 2 * seed as usize, 1300.0)).collect();
        let found = claimed(
            &[("base", base.clone()), ("up", up), ("same", base.clone())],
            &[("up", "base"), ("same", "base")],
        );
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("x.json", &serde_json::to_string(&found).unwrap());
        write("x.md", "# X\n");
        let asked = Findings { id: "s".into(), ..survey(&[("base", base.clone()), ("other", base)]) };
        write("s.json", &serde_json::to_string(&asked).unwrap());
        write("old.json", "{\"id\": \"old\", \"title\": \"Old\", \"arms\": []}");
        write("old.md", "# Old\n");
        write("other.md", "<!-- made -->\n# Another page\n");
        let file = write_index(dir.path()).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        let row = |name: &str| {
            text.lines().find(|line| line.contains(&format!("| `{name}` against `base` |"))).unwrap()
        };
        assert!(
            row("up").starts_with("| [Y helps.](x.md) | `up` against `base` | `success` | 5 | +57.5 ["),
            "{text}"
        );
        assert!(row("up").ends_with("| **supported**; budget: +30.0 % tokens generated |"), "{text}");
        assert!(row("same").ends_with("| not seen (all seeds came out alike) |"), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("| [")).count(), 2, "{text}");
        assert!(text.contains("## Surveys\n") && text.contains("\n- [X](s.md): Y helps.\n"), "{text}");
        assert!(text.contains("withdrawn\n") && text.contains("\n- [Old](old.md)\n"), "{text}");
        assert!(text.ends_with("## Other pages\n\n- [Another page](other.md)\n"), "{text}");
        assert_eq!(index(dir.path()).unwrap(), text, "its own file changes nothing");

        for (bad, part) in [("{\"id\": 1}", "no `id`"), ("{\"format\": 3}", "its format is 3")] {
            write("bad.json", bad);
            let error = index(dir.path()).unwrap_err().to_string();
            assert!(
                error.contains("bad.json") && error.contains("--report-only") && error.contains(part),
                "{error}"
            );
        }
    }

    #[test]
    fn the_index_of_this_repository_is_up_to_date() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results");
        let text = std::fs::read_to_string(dir.join(README)).unwrap_or_default();
        assert!(text == index(&dir).unwrap(), "run: burnish study --index docs/results");
    }
}
