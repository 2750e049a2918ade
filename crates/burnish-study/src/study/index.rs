//! One table of all claims whose data is in a folder of results or in the folders of systems: the `README.md`
//! of the first.

use std::fmt::Write;
use std::path::{Component, Path, PathBuf};

use super::findings::FORMAT;
use super::page::{difference, in_cell, in_full, none};
use super::{ClaimFindings, Findings};
use burnish_run::RunError;
use burnish_rundir::files::{FileError, write_atomic};
use serde_json::Value;

const README: &str = "README.md";
/// The beginning of the names of pages in the folder of a system; other files there are code and recipes.
const RESULTS: &str = "results";

const HEAD: &str = "\
<!-- Made by `burnish study --index docs/results systems`. -->
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

/// The table, built from the `*.json` files that studies wrote into `dir` and, as `results*.json`, into the
/// folders in `systems`, and lists of the other pages there.
///
/// # Errors
/// If a file can't be read, or holds no findings of a study.
pub fn index(dir: &Path, systems: &[PathBuf]) -> Result<String, RunError> {
    let pages = pages(dir, systems)?;
    let mut studies = Vec::new();
    for (file, link) in pages.iter().filter(|(file, _)| has_end(file, "json")) {
        studies.push((Data::read(file)?, link.with_extension("md")));
    }
    studies.sort_by(|(one, _), (other, _)| one.id().cmp(other.id()));
    let (mut rows, mut surveys, mut earlier, mut others) =
        (String::new(), String::new(), String::new(), String::new());
    for (study, link) in &studies {
        let page = link.display();
        let _ = match study {
            Data::Findings(findings) => match &findings.claim {
                Some(claim) => {
                    contrasts(&mut rows, findings, claim, link);
                    Ok(())
                }
                None => writeln!(surveys, "- [{}]({page}): {}", findings.title, findings.text),
            },
            Data::Earlier { title, .. } => writeln!(earlier, "- [{title}]({page})"),
        };
    }
    for (file, link) in pages.iter().filter(|(file, _)| has_end(file, "md")) {
        let is_study = studies.iter().any(|(_, page)| page == link);
        if !is_study && link != Path::new(README) {
            let (text, name) = (read(file)?, link.to_string_lossy());
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
pub fn write_index(dir: &Path, systems: &[PathBuf]) -> Result<PathBuf, RunError> {
    let file = dir.join(README);
    write_atomic(&file, index(dir, systems)?.as_bytes())?;
    Ok(file)
}

/// The files of `dir`, then the results in the folders in `systems`, each with its link from `dir`.
fn pages(dir: &Path, systems: &[PathBuf]) -> Result<Vec<(PathBuf, PathBuf)>, RunError> {
    let named = |file: &PathBuf| PathBuf::from(file.file_name().unwrap_or_default());
    let mut pages = Vec::new();
    for file in files(dir)? {
        let link = named(&file);
        pages.push((file, link));
    }
    for folder in systems {
        let way = way(dir, folder)?;
        for system in files(folder)?.into_iter().filter(|system| system.is_dir()) {
            let files = files(&system)?.into_iter();
            for file in files.filter(|file| named(file).to_string_lossy().starts_with(RESULTS)) {
                let link = way.join(named(&system)).join(named(&file));
                pages.push((file, link));
            }
        }
    }
    Ok(pages)
}

/// The relative path from one folder to another.
fn way(from: &Path, to: &Path) -> Result<PathBuf, RunError> {
    let whole = |folder: &Path| folder.canonicalize().map_err(FileError::on("read directory", folder));
    let (from, to) = (whole(from)?, whole(to)?);
    let shared = from.components().zip(to.components()).take_while(|(one, other)| one == other).count();
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    Ok(up.chain(to.components().skip(shared)).collect())
}

fn has_end(file: &Path, end: &str) -> bool {
    file.extension().is_some_and(|own| own == end)
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

fn contrasts(rows: &mut String, findings: &Findings, claim: &ClaimFindings, link: &Path) {
    for found in &claim.contrasts {
        let seeds = found.difference.map_or(0, |found| found.seeds);
        let effect = found.difference.map_or_else(none, |found| difference(found, &claim.metric));
        let unequal = found.budget.map(|budget| budget.unequal()).unwrap_or_default();
        let unequal =
            if unequal.is_empty() { String::new() } else { format!("; budget: {}", unequal.join(", ")) };
        let _ = writeln!(
            rows,
            "| [{}]({}) | `{}` against `{}` | `{}` | {seeds} | {effect} | {}{unequal} |",
            in_cell(&findings.text),
            link.display(),
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
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("docs/results");
        let systems = [scratch.path().join("systems")];
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::create_dir_all(systems[0].join("z")).unwrap();
        let base: Vec<_> = (1..6).map(|seed| measured(seed, 10 + seed as usize, 1000.0)).collect();
        let up: Vec<_> = (1..6).map(|seed| measured(seed, 30 + 2 * seed as usize, 1300.0)).collect();
        let found = claimed(
            &[("base", base.clone()), ("up", up), ("same", base.clone())],
            &[("up", "base"), ("same", "base")],
        );
        let write = |name: &str, text: &str| std::fs::write(dir.join(name), text).unwrap();
        let write_in_system =
            |name: &str, text: &str| std::fs::write(systems[0].join("z").join(name), text).unwrap();
        write("x.json", &serde_json::to_string(&found).unwrap());
        write("x.md", "# X\n");
        let asked = Findings { id: "s".into(), ..survey(&[("base", base.clone()), ("other", base)]) };
        write("s.json", &serde_json::to_string(&asked).unwrap());
        write("old.json", "{\"id\": \"old\", \"title\": \"Old\", \"arms\": []}");
        write("old.md", "# Old\n");
        write("other.md", "<!-- made -->\n# Another page\n");
        write_in_system("results.json", "{\"id\": \"aged\", \"title\": \"Aged\", \"arms\": []}");
        write_in_system("results.md", "# Aged\n");
        write_in_system("results-more.md", "# More\n");
        write_in_system("prompt.md", "# No page\n");
        write_in_system("cards.json", "{}");
        let file = write_index(&dir, &systems).unwrap();
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
        let aged = "\n- [Aged](../../systems/z/results.md)\n- [Old](old.md)\n";
        assert!(text.contains("withdrawn\n") && text.contains(aged), "{text}");
        let others = "- [Another page](other.md)\n- [More](../../systems/z/results-more.md)\n";
        assert!(text.ends_with(&format!("## Other pages\n\n{others}")), "{text}");
        assert_eq!(index(&dir, &systems).unwrap(), text, "its own file changes nothing");
        assert!(!index(&dir, &[]).unwrap().contains("Aged"));

        for (bad, part) in [("{\"id\": 1}", "no `id`"), ("{\"format\": 3}", "its format is 3")] {
            write("bad.json", bad);
            let error = index(&dir, &[]).unwrap_err().to_string();
            assert!(
                error.contains("bad.json") && error.contains("--report-only") && error.contains(part),
                "{error}"
            );
        }
    }

    #[test]
    fn the_index_of_this_repository_is_up_to_date() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let dir = root.join("docs/results");
        let text = std::fs::read_to_string(dir.join(README)).unwrap_or_default();
        let here = index(&dir, &[root.join("systems")]).unwrap();
        assert!(text == here, "run: burnish study --index docs/results systems");
    }
}
