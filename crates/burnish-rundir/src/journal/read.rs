//! Reads a journal.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use burnish_core::{Episode, Node, NodeId, Record, Sampled, Task, TaskId, Trace};
use rusqlite::{Connection, OptionalExtension, Row};

use super::error::{OnPath, value};
use super::{EpisodeKind, Journal, JournalError, JournalProblem, codec};
use crate::metrics::Values;

/// An episode as it was recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredEpisode {
    /// Its task.
    pub task: Task,
    /// Index of the task among the tasks of the step.
    pub task_index: usize,
    /// The episode.
    pub episode: Episode,
    /// Its weighted reward, if it could be judged.
    pub reward: Option<f64>,
    /// Its advantage, if it has one.
    pub advantage: Option<f64>,
}

/// The numbers of one update.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredUpdate {
    /// Index of the minibatch in its step.
    pub minibatch: usize,
    /// Numbers by name; NaN where they were not finite.
    pub metrics: Values,
}

/// How much training a run has done, over all its steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// Episodes that were played to learn from.
    pub episodes: u64,
    /// Answers of the policy in them, which are steps of the environment.
    pub turns: u64,
    /// Updates of the optimiser.
    pub updates: u64,
}

/// Says that a step has episodes of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepEntry {
    /// The step.
    pub step: u64,
    /// What its episodes were played for.
    pub kind: EpisodeKind,
    /// How many.
    pub episodes: usize,
}

impl Journal {
    /// One entry per step and kind that has episodes, in the order in which they were recorded.
    ///
    /// # Errors
    /// If the file can't be read or is damaged.
    pub fn steps(&self) -> Result<Vec<StepEntry>, JournalError> {
        read_steps(&self.db).on(&self.path)
    }

    /// The episodes of one kind in a step, in the order in which they were recorded; may be none.
    ///
    /// # Errors
    /// If the file can't be read or is damaged.
    pub fn episodes(&self, step: u64, kind: EpisodeKind) -> Result<Vec<StoredEpisode>, JournalError> {
        read_episodes(&self.db, step, &kind).on(&self.path)
    }

    /// The task with this id, if it was recorded.
    ///
    /// # Errors
    /// If the file can't be read or is damaged.
    pub fn task(&self, id: &TaskId) -> Result<Option<Task>, JournalError> {
        read_task(&self.db, id).on(&self.path)
    }

    /// How much training was done so far.
    ///
    /// # Errors
    /// If the file can't be read or is damaged.
    pub fn tally(&self) -> Result<Tally, JournalError> {
        read_tally(&self.db).on(&self.path)
    }

    /// Whether nothing is recorded.
    ///
    /// # Errors
    /// If the file can't be read or is damaged.
    pub fn is_empty(&self) -> Result<bool, JournalError> {
        let query = "SELECT NOT EXISTS (SELECT 1 FROM episodes) AND NOT EXISTS (SELECT 1 FROM updates)";
        self.db.query_row(query, [], |row| row.get(0)).on(&self.path)
    }

    /// The updates of a step, in order.
    ///
    /// # Errors
    /// If the file can't be read or is damaged.
    pub fn updates(&self, step: u64) -> Result<Vec<StoredUpdate>, JournalError> {
        read_updates(&self.db, step).on(&self.path)
    }
}

fn read_steps(db: &Connection) -> Result<Vec<StepEntry>, JournalProblem> {
    let mut statement =
        db.prepare_cached("SELECT step, kind, COUNT(*) FROM episodes GROUP BY step, kind ORDER BY MIN(id)")?;
    let mut rows = statement.query([])?;
    let mut steps = Vec::new();
    while let Some(row) = rows.next()? {
        let name: String = row.get(1)?;
        let kind = EpisodeKind::from_name(&name).ok_or_else(|| format!("`{name}` is unknown"));
        let kind = value("kind of episodes", kind)?;
        steps.push(StepEntry { step: row.get(0)?, kind, episodes: row.get(2)? });
    }
    Ok(steps)
}

fn read_episodes(
    db: &Connection,
    step: u64,
    kind: &EpisodeKind,
) -> Result<Vec<StoredEpisode>, JournalProblem> {
    let mut statement = db.prepare_cached(
        "SELECT id, task, task_index, rollout, ending, answers, reward, advantage, verdict, traces, record
         FROM episodes WHERE step = ?1 AND kind = ?2 ORDER BY id",
    )?;
    let mut rows = statement.query((step, kind.name()))?;
    let mut tasks = BTreeMap::new();
    let mut episodes = Vec::new();
    while let Some(row) = rows.next()? {
        episodes.push(read_episode(db, row, &mut tasks)?);
    }
    Ok(episodes)
}

/// `tasks` are those read so far, because the episodes of a group share one.
fn read_episode(
    db: &Connection,
    row: &Row<'_>,
    tasks: &mut BTreeMap<TaskId, Task>,
) -> Result<StoredEpisode, JournalProblem> {
    let id: i64 = row.get("id")?;
    let what = format!("episode {id}:");
    let task_id = TaskId(row.get("task")?);
    let task = match tasks.entry(task_id.clone()) {
        Entry::Occupied(known) => known.get().clone(),
        Entry::Vacant(vacant) => {
            let missing = || format!("its task `{task_id}` is missing");
            vacant.insert(value(&what, read_task(db, &task_id)?.ok_or_else(missing))?).clone()
        }
    };
    let ending: String = row.get("ending")?;
    let verdict: String = row.get("verdict")?;
    let answers: String = row.get("answers")?;
    let record: Option<String> = row.get("record")?;
    let record = record.map(|record| codec::from_json(&record)).transpose();
    let record: Record = value(&what, record)?.unwrap_or_default();
    let mut traces = read_traces(db, id, row.get("traces")?)?;
    let partners = record.are_own().filter(|is_own| !is_own).count();
    let partners = traces.split_off(traces.len().saturating_sub(partners));
    let episode = Episode {
        task: task_id,
        rollout: row.get("rollout")?,
        traces,
        partners,
        verdict: value(&what, codec::from_json(&verdict))?,
        ending: value(&what, codec::from_name(&ending))?,
        answers: value(&what, codec::from_json(&answers))?,
        record,
    };
    Ok(StoredEpisode {
        task,
        task_index: row.get("task_index")?,
        episode,
        reward: row.get("reward")?,
        advantage: row.get("advantage")?,
    })
}

fn read_traces(db: &Connection, episode: i64, count: usize) -> Result<Vec<Trace>, JournalProblem> {
    let mut statement = db.prepare_cached(
        "SELECT trace, node, parent, text, ids, sources, logprobs, policy_version, temperature, stop,
                sampled_logprobs, latents
         FROM nodes WHERE episode = ?1 ORDER BY trace, node",
    )?;
    let mut rows = statement.query([episode])?;
    let mut traces = Vec::new();
    traces.resize_with(count, Trace::new);
    while let Some(row) = rows.next()? {
        let at: usize = row.get("trace")?;
        let what = format!("episode {episode}, trace {at}:");
        let trace =
            value(&what, traces.get_mut(at).ok_or_else(|| format!("there should be {count} traces")))?;
        let node = read_node(&what, row)?;
        value(&what, trace.push(node).map_err(|error| error.to_string()))?;
    }
    Ok(traces)
}

fn read_node(what: &str, row: &Row<'_>) -> Result<Node, JournalProblem> {
    let ids: Vec<u8> = row.get("ids")?;
    let sources: Vec<u8> = row.get("sources")?;
    let logprobs: Option<Vec<u8>> = row.get("logprobs")?;
    let sampled = logprobs.map(|logprobs| read_sampled(what, row, &logprobs)).transpose()?;
    Ok(Node {
        parent: row.get::<_, Option<usize>>("parent")?.map(NodeId),
        text: row.get("text")?,
        ids: value(what, codec::u32_from_blob(&ids))?,
        sources: value(what, codec::sources_from_blob(&sources))?,
        sampled,
    })
}

fn read_sampled(what: &str, row: &Row<'_>, logprobs: &[u8]) -> Result<Sampled, JournalProblem> {
    let stop: String = row.get("stop")?;
    let model_logprobs = value(what, codec::f32_from_blob(logprobs))?;
    let sampled_logprobs: Option<Vec<u8>> = row.get("sampled_logprobs")?;
    let sampled_logprobs =
        sampled_logprobs.map(|blob| codec::sampled_from_blob(&blob, model_logprobs.len())).transpose();
    let latents: Option<Vec<u8>> = row.get("latents")?;
    let latents = latents.map(|blob| codec::f32_from_blob(&blob)).transpose();
    Ok(Sampled {
        model_logprobs,
        sampled_logprobs: value(what, sampled_logprobs)?,
        policy_version: row.get("policy_version")?,
        temperature: row.get("temperature")?,
        stop: value(what, codec::from_name(&stop))?,
        latents: value(what, latents)?.unwrap_or_default(),
    })
}

fn read_task(db: &Connection, id: &TaskId) -> Result<Option<Task>, JournalProblem> {
    let columns = db
        .prepare_cached("SELECT environment, prompt, truth, labels FROM tasks WHERE id = ?1")?
        .query_row([&id.0], |row| {
            Ok((row.get(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?, row.get::<_, String>(3)?))
        })
        .optional()?;
    let Some((environment, prompt, truth, labels)) = columns else { return Ok(None) };
    let what = format!("task `{id}`:");
    Ok(Some(Task {
        id: id.clone(),
        environment,
        prompt: value(&what, codec::from_json(&prompt))?,
        truth: value(&what, codec::from_json(&truth))?,
        labels: value(&what, codec::from_json(&labels))?,
    }))
}

fn read_tally(db: &Connection) -> Result<Tally, JournalProblem> {
    let kind = EpisodeKind::Train.name();
    let of_kind = |query| db.query_row(query, [&kind], |row| row.get(0));
    Ok(Tally {
        episodes: of_kind("SELECT COUNT(*) FROM episodes WHERE kind = ?1")?,
        turns: of_kind(
            "SELECT COUNT(*) FROM nodes JOIN episodes ON nodes.episode = episodes.id
             WHERE kind = ?1 AND logprobs IS NOT NULL",
        )?,
        updates: db.query_row("SELECT COUNT(*) FROM updates", [], |row| row.get(0))?,
    })
}

fn read_updates(db: &Connection, step: u64) -> Result<Vec<StoredUpdate>, JournalProblem> {
    let mut statement =
        db.prepare_cached("SELECT minibatch, metrics FROM updates WHERE step = ?1 ORDER BY minibatch")?;
    let mut rows = statement.query([step])?;
    let mut updates = Vec::new();
    while let Some(row) = rows.next()? {
        let metrics: String = row.get(1)?;
        let metrics: BTreeMap<String, Option<f64>> = value("metrics", codec::from_json(&metrics))?;
        let metrics = metrics.into_iter().map(|(name, number)| (name, number.unwrap_or(f64::NAN))).collect();
        updates.push(StoredUpdate { minibatch: row.get(0)?, metrics });
    }
    Ok(updates)
}
