//! What was planned before the first run: it is written down with the commit that holds it, and it does not change.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Study;
use burnish_recipe::differences;
use burnish_run::{RunError, stages};
use burnish_rundir::files::{FileError, write_atomic};

/// The file in the folder of a study's runs.
const FILE: &str = "plan.json";
/// Keys that may be overridden without changing what is planned.
const FREE: [&str; 3] = ["study.dir", "study.jobs", "study.results"];

/// The plan of a study, as it was before its first run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Registration {
    /// The commit that holds the study's file and its recipes.
    pub commit: String,
    /// The program that began it.
    pub program: String,
    /// Claim, gauges, grid, arms and seeds.
    pub plan: Value,
}

impl Registration {
    /// The plan that is written down in the folder of the study; if there is none, it is written there now. `program`
    /// is the program's version with its commit.
    ///
    /// # Errors
    /// If the plan is in no commit, the program was built from uncommitted code, or the plan has changed since.
    pub fn of(study: &Study, program: &str) -> Result<Self, RunError> {
        if program.contains("-dirty") {
            return Err(refused(
                study,
                "this program was built from code that is not committed, so nobody could build it again: commit, and \
                 build it anew",
            ));
        }
        let file = study.dir.join(FILE);
        if file.is_file() {
            return Self::read(study, &file);
        }
        if has_begun(&study.dir)? {
            return Err(refused(
                study,
                &format!(
                    "`{}` has runs, and no plan was written down before them ({FILE}): move it away, or give the study \
                 another `dir`",
                    study.dir.display()
                ),
            ));
        }
        let registration =
            Registration { commit: committed(study)?, program: program.to_owned(), plan: plan(study) };
        let text = serde_json::to_string_pretty(&registration)
            .map_err(|error| RunError::Refused(format!("the plan can't be written as JSON: {error}")))?;
        std::fs::create_dir_all(&study.dir).map_err(FileError::on("create directory", &study.dir))?;
        write_atomic(&file, format!("{text}\n").as_bytes())?;
        Ok(registration)
    }

    /// Refuses a draft in the folder of a study with a plan: its runs would count as planned ones.
    ///
    /// # Errors
    /// If there is a plan.
    pub fn refuse_draft(study: &Study) -> Result<(), RunError> {
        if !study.dir.join(FILE).is_file() {
            return Ok(());
        }
        Err(RunError::Refused(format!(
            "{}: `{}` holds a study with a plan ({FILE}), and the runs of a draft would be taken for its own: give the \
             draft another folder, `study.dir=DIR`",
            study.file.display(),
            study.dir.display()
        )))
    }

    fn read(study: &Study, file: &Path) -> Result<Self, RunError> {
        let text = std::fs::read_to_string(file).map_err(FileError::on("read", file))?;
        let there: Registration = serde_json::from_str(&text)
            .map_err(|error| RunError::Refused(format!("{}: {error}", file.display())))?;
        let changed = differences(&there.plan, &plan(study));
        if changed.is_empty() {
            return Ok(there);
        }
        Err(refused(
            study,
            &format!(
                "the plan has changed since the first run ({}; it was written down in `{}`): undo that, or give the \
                 study another `dir`, and it begins anew",
                changed.join(", "),
                file.display()
            ),
        ))
    }
}

fn refused(study: &Study, problem: &str) -> RunError {
    RunError::Refused(format!(
        "{}: {problem}. With --draft it runs all the same, and its page gives no verdict",
        study.file.display()
    ))
}

/// What must not change after the first run.
fn plan(study: &Study) -> Value {
    let arms: Vec<Value> = study
        .arms
        .iter()
        .map(|arm| json!({"name": arm.name, "role": arm.role, "set": arm.set, "seeds": arm.seeds}))
        .collect();
    let mut plan = json!({
        "text": study.text,
        "test": study.test,
        "recipe": study.recipe,
        "set": study.set,
        "seeds": study.seeds,
        "arms": arms,
    });
    if !study.ways.is_empty() {
        plan["ways"] = json!(study.ways);
    }
    plan
}

/// Whether the folder of a study has any run in it.
fn has_begun(dir: &Path) -> Result<bool, RunError> {
    if !dir.is_dir() {
        return Ok(false);
    }
    let mut entries = std::fs::read_dir(dir).map_err(FileError::on("read directory", dir))?;
    Ok(entries.any(|entry| entry.is_ok_and(|entry| entry.path().is_dir())))
}

/// The commit that holds the study's file, its recipe and those of its stages as they are now.
fn committed(study: &Study) -> Result<String, RunError> {
    let changing = |change: &&String| {
        let key = change.split('=').next().unwrap_or_default().trim();
        !FREE.contains(&key)
    };
    if let Some(change) = study.overrides.iter().find(changing) {
        let problem =
            format!("the override `{change}` is in no commit: write it into the file and commit that");
        return Err(refused(study, &problem));
    }
    let mut files = vec![study.file.clone(), study.recipe.clone()];
    for arm in &study.arms {
        files.extend(stages::files(&arm.recipe)?);
    }
    let folder = |file: &Path| match file.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let mut commit = None;
    for file in &files {
        let dir = folder(file);
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let is_known = git(&dir, &["ls-files", "--error-unmatch", "--", &name]).is_some();
        let is_changed =
            git(&dir, &["status", "--porcelain", "--", &name]).is_none_or(|said| !said.is_empty());
        if !is_known || is_changed {
            return Err(refused(
                study,
                &format!(
                    "`{}` is not committed: commit it before the first run, so that everyone can see what was planned",
                    file.display()
                ),
            ));
        }
        commit = commit.or_else(|| git(&dir, &["rev-parse", "HEAD"]));
    }
    commit.ok_or_else(|| refused(study, "git does not say which commit this is"))
}

/// What git says; `None` if it fails or is not there.
fn git(dir: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(dir).args(arguments).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| said.trim().to_owned())
}
