//! The text of an artefact that functions made.

use std::collections::{BTreeMap, BTreeSet};

use burnish_core::{Task, TaskId, json, openai};
use burnish_reason::{Finished, Made, Played};
use burnish_recipe::StrategySection;
use serde_json::{Value, json};

use super::{LeftOut, failed};
use crate::RunError;

/// An artefact: everything once, in the order of the functions' tasks.
pub(super) struct Written {
    pub(super) text: String,
    pub(super) count: usize,
    /// How many are of each task for which a function was run.
    pub(super) per_task: BTreeMap<TaskId, usize>,
    /// Those that are tasks.
    pub(super) tasks: Vec<Task>,
}

impl Written {
    /// Of what each function left. Counts what it leaves out.
    ///
    /// # Errors
    /// Names the task of which something was made that the artefact can't hold.
    pub(super) fn of(
        functions: &[(usize, &[Played])],
        finished: &[Finished],
        environment: &str,
        held_out: &BTreeSet<&TaskId>,
        left_out: &mut LeftOut,
    ) -> Result<Self, RunError> {
        let mut known = BTreeSet::new();
        let mut written =
            Written { text: String::new(), count: 0, per_task: BTreeMap::new(), tasks: Vec::new() };
        for ((_, own), finished) in functions.iter().zip(finished) {
            let mut count = 0;
            for made in &finished.made {
                let (identity, text) = match made {
                    Made::Task(task) if task.environment != environment => {
                        let other =
                            format!("it made a task of `{}`, and not of `{environment}`", task.environment);
                        return Err(failed(own, &other));
                    }
                    Made::Task(task) if held_out.contains(&task.id) => {
                        *left_out.entry("held out").or_default() += 1;
                        continue;
                    }
                    Made::Task(task) => (task.id.0.clone(), json::line(&json!(task)) + "\n"),
                    Made::Strategy(_) if written.count > 0 => {
                        return Err(failed(own, "it made two strategies, and a run makes one"));
                    }
                    Made::Strategy(strategy) => {
                        let text = StrategySection::text_of(strategy).map_err(RunError::Recipe)?;
                        (text.clone(), text)
                    }
                    Made::Note(note) if note.task.as_ref().is_some_and(|task| held_out.contains(task)) => {
                        *left_out.entry("held out").or_default() += 1;
                        continue;
                    }
                    Made::Note(note) => {
                        let line = json::line(&json!(note)) + "\n";
                        (line.clone(), line)
                    }
                    Made::Config(_) if written.count > 0 => {
                        return Err(failed(own, "it made two configurations, and a run makes one"));
                    }
                    Made::Config(config) => {
                        let text = json::text(config).map_err(|error| failed(own, &error.to_string()))?;
                        (text.clone(), text + "\n")
                    }
                    Made::Row { messages, tools } => {
                        let mut row = json!({ "messages": messages });
                        if !tools.is_empty() {
                            row["tools"] = openai::tools(tools);
                        }
                        of_task(row, own)
                    }
                    Made::Pair { prompt, chosen, rejected } => {
                        of_task(json!({ "prompt": prompt, "chosen": chosen, "rejected": rejected }), own)
                    }
                };
                if !known.insert(identity) {
                    *left_out.entry("made before").or_default() += 1;
                    continue;
                }
                if let Made::Task(task) = made {
                    written.tasks.push(task.clone());
                }
                written.text += &text;
                (count, written.count) = (count + 1, written.count + 1);
            }
            written.per_task.insert(own[0].task.id.clone(), count);
        }
        Ok(written)
    }
}

/// The identity of a row, by its content alone, and its line, which names the task if it was made of one.
fn of_task(mut row: Value, own: &[Played]) -> (String, String) {
    let identity = row.to_string();
    if let [own] = own {
        row["task_id"] = own.task.id.0.clone().into();
    }
    (identity, json::line(&row) + "\n")
}
