//! Comparison of training rows with the run's evaluation rows, if both come from files.

use burnish_core::Task;
use burnish_data::overlap::{Counter, Overlap, OverlapReport};
use burnish_env::Generator;

use crate::RunError;
use crate::offline::Corpus;
use crate::tasks::Tasks;
use burnish_recipe::{OverlapAction, Recipe};
use burnish_rundir::metrics::{Row, Values};

/// The held-out tasks and rows that are rows of files, hashed; `None` where none is.
///
/// # Errors
/// If a file is no longer what it was.
pub(crate) fn of_evaluation(
    recipe: &Recipe,
    tasks: &Tasks,
    held_out: Option<&Corpus>,
) -> Result<Option<Overlap>, RunError> {
    let mut overlap = Overlap::new(recipe.data.decontaminate.ngram);
    for set in &tasks.evaluations {
        let Some(rows) = set.generator.rows() else { continue };
        for (_, row) in set.tasks.iter().filter_map(|task| rows.row(task)) {
            overlap.add(&row);
        }
    }
    for row in held_out.into_iter().flat_map(Corpus::each_row) {
        overlap.add(&row?);
    }
    Ok((overlap.rows() > 0).then_some(overlap))
}

/// Compares training tasks with evaluation rows, and drops those that overlap if the recipe says so. `None` if the
/// tasks are generated, not read from files.
///
/// # Errors
/// If no task is left.
pub(crate) fn of_tasks(
    recipe: &Recipe,
    overlap: &Overlap,
    generator: &dyn Generator,
    tasks: &mut Vec<Task>,
) -> Result<Option<OverlapReport>, RunError> {
    let Some(rows) = generator.rows() else { return Ok(None) };
    let mut counter = Counter::new(overlap);
    let overlapping: Vec<bool> = tasks
        .iter()
        .map(|task| {
            let Some((file, row)) = rows.row(task) else { return false };
            counter.count(&file, &row, || task.id.to_string())
        })
        .collect();
    if recipe.data.decontaminate.action == OverlapAction::Drop {
        let mut overlapping = overlapping.into_iter();
        tasks.retain(|_| !overlapping.next().unwrap_or(false));
        if tasks.is_empty() {
            return Err(RunError::Refused(
                "data.decontaminate: every training task overlaps with an evaluation row and is dropped; set \
                 data.decontaminate.action = \"report\", or give other rows"
                    .into(),
            ));
        }
    }
    let report = counter.report();
    Ok((report.rows() > 0).then_some(report))
}

/// The result in one line, for people.
pub(crate) fn told(recipe: &Recipe, report: &OverlapReport) -> String {
    match recipe.data.decontaminate.action {
        OverlapAction::Drop if report.overlapping() > 0 => format!("{}: dropped", report.summary()),
        _ => report.summary(),
    }
}

/// The result as numbers for `metrics.jsonl`.
pub(crate) fn metrics(report: &OverlapReport) -> Values {
    Values::from([
        ("data/overlap/rows".into(), report.rows() as f64),
        ("data/overlap/overlapping".into(), report.overlapping() as f64),
        ("data/overlap/evaluation_rows".into(), report.evaluation_rows as f64),
        ("data/overlap/evaluation_rows_found".into(), report.evaluation_rows_found as f64),
    ])
}

/// The result in a sentence, as far as the metrics have it; none if nothing was compared.
pub(crate) fn notes_of_metrics(rows: &[Row]) -> Vec<String> {
    let count = |name: &str| {
        rows.iter()
            .rev()
            .find_map(|row| row.values.get(&format!("data/overlap/{name}")).map(|count| *count as u64))
    };
    let told = || {
        let (of, overlapping, with) =
            (count("rows")?, count("overlapping")?, count("evaluation_rows_found")?);
        Some(format!(
            "Decontamination: {overlapping} of {of} training rows overlap with {with} evaluation rows."
        ))
    };
    told().into_iter().collect()
}

/// The result by file, one sentence each.
pub(crate) fn notes(recipe: &Recipe, report: &OverlapReport) -> Vec<String> {
    let mut notes = vec![format!("Decontamination: {}.", told(recipe, report))];
    for file in report.files.iter().filter(|file| file.overlapping > 0) {
        let examples: Vec<String> = file
            .examples
            .iter()
            .map(|example| {
                format!(
                    "{} with evaluation row {} (\"{}\")",
                    example.place, example.evaluation_row, example.words
                )
            })
            .collect();
        let Some(examples) = (!examples.is_empty()).then(|| examples.join("; ")) else { continue };
        notes.push(format!(
            "{}: {} of {} rows overlap, such as {examples}.",
            file.file, file.overlapping, file.rows
        ));
    }
    notes
}
