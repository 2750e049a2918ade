//! Writes a journal.

use burnish_core::{Episode, Node, Record, Task};
use rusqlite::{Connection, Transaction, TransactionBehavior, named_params};

use super::error::{OnPath, value};
use super::{EpisodeKind, Journal, JournalError, JournalProblem, codec};
use crate::metrics::Values;

/// An episode to record, with its reward and advantage.
#[derive(Debug, Clone, Copy)]
pub struct EpisodeRow<'a> {
    /// Index of the episode's task among the tasks of the step.
    pub task_index: usize,
    /// The episode.
    pub episode: &'a Episode,
    /// Its weighted reward; `None` if it could not be judged.
    pub reward: Option<f64>,
    /// Its advantage; `None` if it has none (unscored, or played to measure).
    pub advantage: Option<f64>,
}

impl Journal {
    /// Records the episodes of `step`: all of them or, on an error, nothing.
    ///
    /// A task that was recorded before (same id and content) is stored once.
    ///
    /// # Errors
    /// If the step has episodes of this kind already, an episode does not fit its task, a value would not be read
    /// back the same, or the file can't be written.
    pub fn record_step(
        &mut self,
        step: u64,
        kind: EpisodeKind,
        tasks: &[Task],
        episodes: &[EpisodeRow<'_>],
    ) -> Result<(), JournalError> {
        self.transaction(|db| {
            refuse_recorded(db, step, &kind)?;
            for task in tasks {
                insert_task(db, step, task)?;
            }
            for row in episodes {
                insert_episode(db, step, &kind, tasks, row)?;
            }
            Ok(())
        })
    }

    /// Records one update of the weights: the numbers of minibatch `minibatch` of step `step`. Numbers that are
    /// not finite become null, and are NaN when read back.
    ///
    /// # Errors
    /// If the update is recorded already, or the file can't be written.
    pub fn record_update(
        &mut self,
        step: u64,
        minibatch: usize,
        metrics: &Values,
    ) -> Result<(), JournalError> {
        self.transaction(|db| {
            db.prepare_cached("INSERT INTO updates VALUES (?1, ?2, ?3)")?.execute((
                step,
                minibatch,
                value("metrics", codec::json(metrics))?,
            ))?;
            Ok(())
        })
    }

    /// Removes everything of steps after `step`. A run calls this when it resumes from the checkpoint of `step`.
    ///
    /// # Errors
    /// If the file can't be written; its content is then unchanged.
    pub fn truncate_after(&mut self, step: u64) -> Result<(), JournalError> {
        // A step number too large to store is after all stored ones.
        let step = i64::try_from(step).unwrap_or(i64::MAX);
        self.delete(&format!("WHERE step > {step}"))
    }

    /// Removes everything. A run calls this when it begins again.
    ///
    /// # Errors
    /// If the file can't be written; its content is then unchanged.
    pub fn clear(&mut self) -> Result<(), JournalError> {
        self.delete("")
    }

    fn delete(&mut self, condition: &str) -> Result<(), JournalError> {
        self.transaction(|db| {
            // Deleting an episode also deletes its nodes.
            for table in ["episodes", "tasks", "updates"] {
                db.execute(&format!("DELETE FROM {table} {condition}"), [])?;
            }
            Ok(())
        })
    }

    /// Does all of `work` or, on an error, nothing.
    fn transaction(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> Result<(), JournalProblem>,
    ) -> Result<(), JournalError> {
        let path = &self.path;
        let transaction = self.db.transaction_with_behavior(TransactionBehavior::Immediate).on(path)?;
        work(&transaction).on(path)?;
        transaction.commit().on(path)
    }
}

fn refuse_recorded(db: &Connection, step: u64, kind: &EpisodeKind) -> Result<(), JournalProblem> {
    let mut statement =
        db.prepare_cached("SELECT EXISTS (SELECT 1 FROM episodes WHERE step = ?1 AND kind = ?2)")?;
    if statement.query_row((step, kind.name()), |row| row.get(0))? {
        return Err(JournalProblem::Recorded { step, kind: kind.clone() });
    }
    Ok(())
}

fn insert_task(db: &Connection, step: u64, task: &Task) -> Result<(), JournalProblem> {
    let what = format!("task `{}`", task.id);
    // No row changes exactly when the id belongs to other content.
    let changes = db
        .prepare_cached(
            "INSERT INTO tasks (id, step, environment, prompt, truth, labels)
             VALUES (:id, :step, :environment, :prompt, :truth, :labels)
             ON CONFLICT (id) DO UPDATE SET step = min(step, excluded.step)
             WHERE environment = excluded.environment AND prompt = excluded.prompt
               AND truth = excluded.truth AND labels = excluded.labels",
        )?
        .execute(named_params! {
            ":id": task.id.0,
            ":step": step,
            ":environment": task.environment,
            ":prompt": value(&what, codec::json(&task.prompt))?,
            ":truth": value(&what, codec::json(&task.truth))?,
            ":labels": value(&what, codec::json(&task.labels))?,
        })?;
    match changes {
        0 => value(&what, Err("was recorded before with other content: ids must be unique".into())),
        _ => Ok(()),
    }
}

fn insert_episode(
    db: &Connection,
    step: u64,
    kind: &EpisodeKind,
    tasks: &[Task],
    row: &EpisodeRow<'_>,
) -> Result<(), JournalProblem> {
    let EpisodeRow { task_index, episode, reward, advantage } = *row;
    let what = format!("episode of task `{}`, rollout {}:", episode.task, episode.rollout);
    if tasks.get(task_index).map(|task| &task.id) != Some(&episode.task) {
        return value(&what, Err(format!("task {task_index} of the step is not its task")));
    }
    let mut numbers = episode.verdict.rewards.values().chain(&reward).chain(&advantage);
    if !numbers.all(|number| number.is_finite()) {
        return value(&what, Err("a reward or the advantage is not a finite number".into()));
    }
    let is_recorded = episode.record != Record::default();
    let record = is_recorded.then(|| codec::json(&episode.record)).transpose();
    db.prepare_cached(
        "INSERT INTO episodes (step, kind, task, task_index, rollout, ending, answers, success, reward, advantage,
                               verdict, traces, record)
         VALUES (:step, :kind, :task, :task_index, :rollout, :ending, :answers, :success, :reward, :advantage,
                 :verdict, :traces, :record)",
    )?
    .execute(named_params! {
        ":step": step,
        ":kind": kind.name(),
        ":task": episode.task.0,
        ":task_index": task_index,
        ":rollout": episode.rollout,
        ":ending": value(&what, codec::name(&episode.ending))?,
        ":answers": value(&what, codec::json(&episode.answers))?,
        ":success": burnish_eval::is_success(episode),
        ":reward": reward,
        ":advantage": advantage,
        ":verdict": value(&what, codec::json(&episode.verdict))?,
        ":traces": episode.traces.len() + episode.partners.len(),
        ":record": value(&what, record)?,
    })?;
    let id = db.last_insert_rowid();
    for (at, trace) in episode.traces.iter().chain(&episode.partners).enumerate() {
        // The head of a trace is its last node, so that adding the nodes in order restores it. In the tree of a strategy it may
        // be another, which is not restored.
        for (index, node) in trace.nodes().iter().enumerate() {
            insert_node(db, (id, at, index), node)?;
        }
    }
    Ok(())
}

/// `place` is the id of the episode, the index of the trace in it, and the index of the node in the trace.
fn insert_node(db: &Connection, place: (i64, usize, usize), node: &Node) -> Result<(), JournalProblem> {
    let what = format!("node {} of trace {}", place.2, place.1);
    let sampled = node.sampled.as_ref();
    if sampled.is_some_and(|sampled| sampled.temperature.is_nan()) {
        return value(&what, Err("was sampled at a temperature that is no number".into()));
    }
    let stop = sampled.map(|sampled| codec::name(&sampled.stop)).transpose();
    db.prepare_cached(
        "INSERT INTO nodes (episode, trace, node, parent, text, ids, sources, logprobs, policy_version,
                            temperature, stop, sampled_logprobs, latents)
         VALUES (:episode, :trace, :node, :parent, :text, :ids, :sources, :logprobs, :policy_version,
                 :temperature, :stop, :sampled_logprobs, :latents)",
    )?
    .execute(named_params! {
        ":episode": place.0,
        ":trace": place.1,
        ":node": place.2,
        ":parent": node.parent.map(|parent| parent.0),
        ":text": node.text,
        ":ids": codec::u32_blob(&node.ids),
        ":sources": codec::sources_blob(&node.sources),
        ":logprobs": sampled.map(|sampled| codec::f32_blob(&sampled.model_logprobs)),
        ":policy_version": sampled.map(|sampled| sampled.policy_version),
        ":temperature": sampled.map(|sampled| sampled.temperature),
        ":stop": value(&what, stop)?,
        ":sampled_logprobs":
            sampled.and_then(|sampled| sampled.sampled_logprobs.as_deref()).map(codec::sampled_blob),
        ":latents": sampled.filter(|sampled| !sampled.latents.is_empty()).map(|sampled| codec::f32_blob(&sampled.latents)),
    })?;
    Ok(())
}
