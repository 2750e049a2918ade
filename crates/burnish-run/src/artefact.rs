//! Artefacts: what a run makes out of its training episodes (`[make]`), for the recipes that follow it: rows and tasks that are
//! chosen among them. What functions make is in `making`.
//!
//! Everything is read from the journal when the steps are done, so an artefact depends on nothing that a resumed run would
//! not have. Beside the artefact lies `made.json`: how it came about.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use burnish_core::{Episode, Message, Task, TaskId, ToolSpec, Trace, json, openai};
use burnish_env::rollout::{self, RolloutSpec, SeedPlace, Spawn};
use burnish_env::{Generator, digest};
use burnish_reason::design::Configuration;
use burnish_recipe::{Keep, MakeKind, MakeSection, Recipe, StageUse};
use burnish_rundir::files::{FileError, file_digest, write_atomic, write_atomic_with};
use burnish_rundir::journal::{EpisodeKind, Journal, StoredEpisode};
use burnish_rundir::run_dir;
use serde_json::{Value, json};

use crate::RunError;
use crate::{others, stages};

/// Version of `made.json`.
const FORMAT: u32 = 1;

/// An artefact that was made.
pub(crate) struct Artefact {
    /// Its file.
    pub(crate) file: PathBuf,
    /// A line for a person.
    pub(crate) summary: String,
}

/// The name of the file of an artefact in its run directory.
pub(crate) fn file_name(kind: MakeKind) -> &'static str {
    match kind {
        MakeKind::Rows | MakeKind::Pairs => run_dir::ROWS,
        MakeKind::Tasks => run_dir::TASKS,
        MakeKind::Strategy => run_dir::STRATEGY,
        MakeKind::Memory => run_dir::MEMORY,
        MakeKind::Config => run_dir::CONFIG,
    }
}

/// Makes the artefact of the run in `dir`, whose first `steps` steps are in `journal`.
///
/// # Errors
/// If nothing is left to make it of, an episode can't be read, or a file can't be written.
pub(crate) fn make(
    recipe: &Recipe,
    make: &MakeSection,
    generator: &dyn Generator,
    journal: &Journal,
    steps: u64,
    dir: &Path,
) -> Result<Artefact, RunError> {
    let mut played = Played::default();
    for step in 1..=steps {
        played.see(make, step, &journal.episodes(step, EpisodeKind::Train)?);
    }
    let chosen = played.choose(make);
    if chosen.is_empty() {
        return Err(RunError::Refused(format!(
            "make: nothing is left of {} episodes of {} tasks: {}; play more tasks or answers, or keep more of them",
            played.episodes,
            played.tasks.len(),
            listed(&played.left_out)
        )));
    }
    let file = dir.join(file_name(make.kind));
    let writer = Writer { recipe, make, generator, journal };
    let mut problem = None;
    let written = write_atomic_with(&file, |file| {
        let mut lines = BufWriter::new(file);
        for (step, chosen) in &chosen {
            writer.step(*step, chosen, &played, &mut lines).map_err(|error| {
                let text = io::Error::other(error.to_string());
                problem = Some(error);
                text
            })?;
        }
        lines.flush()
    });
    if let Some(problem) = problem {
        return Err(problem);
    }
    written?;
    let count = chosen.values().map(Vec::len).sum();
    let Played { tasks, episodes, left_out } = &played;
    let lineage = Lineage { tasks: tasks.len(), episodes: *episodes, left_out, count, program: None };
    write_lineage(recipe, make, &lineage, &file)?;
    let what = make.kind.name();
    let summary = format!("{count} {what} of {} episodes of {} tasks", played.episodes, played.tasks.len());
    Ok(Artefact { file, summary })
}

/// The lineage of an artefact.
pub(crate) struct Lineage<'a> {
    /// Tasks that were played.
    pub(crate) tasks: usize,
    /// Their episodes.
    pub(crate) episodes: usize,
    /// Counts of everything left out, by reason.
    pub(crate) left_out: &'a BTreeMap<&'static str, usize>,
    /// The number of things made.
    pub(crate) count: usize,
    /// The function that made it, if one did.
    pub(crate) program: Option<Value>,
}

/// Writes `made.json` beside the artefact in `file`.
///
/// # Errors
/// If it can't be written.
pub(crate) fn write_lineage(
    recipe: &Recipe,
    make: &MakeSection,
    lineage: &Lineage<'_>,
    file: &Path,
) -> Result<(), RunError> {
    let failed = |error: serde_json::Error| RunError::Refused(format!("{}: {error}", run_dir::MADE));
    let from = |of: StageUse| {
        let from = of.made_by(recipe)?;
        Some(json!({ "key": of.key(), "recipe": from.recipe, "set": from.set, "hash": from.hash }))
    };
    let mut value = json!({
        "format": FORMAT,
        "kind": make.kind,
        "file": file_name(make.kind),
        "digest": file_digest(file)?,
        "count": lineage.count,
        "recipe": stages::hash_of(recipe)?,
        "policy": recipe.policy.path,
        "from": StageUse::of(recipe).into_iter().filter_map(from).collect::<Vec<_>>(),
        "environment": recipe.env.id,
        "tasks": lineage.tasks,
        "episodes": lineage.episodes,
        "left_out": lineage.left_out,
    });
    if let Some(program) = &lineage.program {
        value["program"] = program.clone();
    }
    let text = serde_json::to_vec_pretty(&value).map_err(failed)?;
    Ok(write_atomic(&file.with_file_name(run_dir::MADE), &text)?)
}

/// The counts of everything left out, in words.
pub(crate) fn listed(left_out: &BTreeMap<&'static str, usize>) -> String {
    let each: Vec<String> = left_out.iter().map(|(why, count)| format!("{count} {why}")).collect();
    if each.is_empty() { "none was played".to_owned() } else { each.join(", ") }
}

/// The episodes of a run, as far as the choice depends on them.
#[derive(Default)]
struct Played {
    tasks: BTreeMap<TaskId, Tally>,
    episodes: usize,
    left_out: BTreeMap<&'static str, usize>,
}

/// The episodes of a task.
#[derive(Default)]
struct Tally {
    scored: usize,
    successes: usize,
    rewards: f64,
    /// Those that may be kept.
    candidates: Vec<Candidate>,
    /// Digests of their answers, so that none is kept twice.
    known: BTreeSet<String>,
}

impl Tally {
    fn success_rate(&self) -> f64 {
        self.successes as f64 / self.scored.max(1) as f64
    }
}

/// An answer or a pair of answers, by places among the episodes of a step.
struct Candidate {
    step: u64,
    /// The answer; of a pair, the better one.
    at: usize,
    /// Of a pair, the worse one.
    rejected: Option<usize>,
    reward: f64,
}

/// What is kept of a step, in the order of its episodes.
type Chosen = BTreeMap<u64, Vec<Candidate>>;

impl Played {
    fn see(&mut self, make: &MakeSection, step: u64, episodes: &[StoredEpisode]) {
        self.episodes += episodes.len();
        let mut group: BTreeMap<&TaskId, Vec<(usize, f64)>> = BTreeMap::new();
        for (at, StoredEpisode { task, episode, reward, .. }) in episodes.iter().enumerate() {
            let tally = self.tasks.entry(task.id.clone()).or_default();
            let Some(reward) = reward.filter(|reward| reward.is_finite()) else {
                *self.left_out.entry("not judged").or_default() += 1;
                continue;
            };
            tally.scored += 1;
            tally.successes += usize::from(episode.verdict.success);
            tally.rewards += reward;
            let fault = match make.kind {
                // Only a function makes one.
                MakeKind::Strategy | MakeKind::Memory | MakeKind::Config => continue,
                MakeKind::Tasks => {
                    if tally.candidates.is_empty() {
                        tally.candidates.push(Candidate { step, at, rejected: None, reward });
                    }
                    continue;
                }
                _ if is_cut_off(episode) => Some("cut off"),
                _ if has_broken_text(episode) => Some("with bytes that are no text"),
                MakeKind::Rows if make.keep == Keep::Successes && !episode.verdict.success => {
                    Some("not successful")
                }
                MakeKind::Rows if make.min_reward.is_some_and(|least| reward < least) => {
                    Some("below the reward")
                }
                MakeKind::Rows if !tally.known.insert(answers(episode)) => Some("given before"),
                MakeKind::Rows => {
                    tally.candidates.push(Candidate { step, at, rejected: None, reward });
                    None
                }
                MakeKind::Pairs => {
                    group.entry(&task.id).or_default().push((at, reward));
                    None
                }
            };
            if let Some(fault) = fault {
                *self.left_out.entry(fault).or_default() += 1;
            }
        }
        for (task, mut answers) in group {
            answers.sort_by(|(_, one), (_, other)| other.total_cmp(one));
            let Some(tally) = self.tasks.get_mut(task) else { continue };
            let mut unpaired = answers.len();
            for rank in 0..answers.len() / 2 {
                let ((at, reward), (rejected, least)) = (answers[rank], answers[answers.len() - 1 - rank]);
                if reward > least {
                    let candidate = Candidate { step, at, rejected: Some(rejected), reward: reward - least };
                    tally.candidates.push(candidate);
                    unpaired -= 2;
                }
            }
            if unpaired > 0 {
                *self.left_out.entry("no better or worse than others of their group").or_default() +=
                    unpaired;
            }
        }
    }

    /// Of each task within the bounds, the candidates with the highest reward; of pairs, those that differ most. Earlier ones
    /// come first where they are equal.
    fn choose(&mut self, make: &MakeSection) -> Chosen {
        let mut chosen = Chosen::new();
        for tally in self.tasks.values_mut() {
            let mut candidates = std::mem::take(&mut tally.candidates);
            if !make.success_rate.contains(tally.success_rate()) {
                *self.left_out.entry("of tasks outside the success rate").or_default() += candidates.len();
                continue;
            }
            candidates.sort_by(|one, other| other.reward.total_cmp(&one.reward));
            let more = candidates.len().saturating_sub(make.max_per_task);
            if more > 0 {
                *self.left_out.entry("above the number per task").or_default() += more;
            }
            candidates.truncate(make.max_per_task);
            for candidate in candidates {
                chosen.entry(candidate.step).or_default().push(candidate);
            }
        }
        chosen.values_mut().for_each(|of_step| of_step.sort_by_key(|candidate| candidate.at));
        chosen
    }
}

fn is_cut_off(episode: &Episode) -> bool {
    episode.traces.iter().flat_map(Trace::branches).any(|branch| branch.is_truncated)
}

/// Did the policy sample bytes that are no characters? Its text has replacements there, which would be imitated.
fn has_broken_text(episode: &Episode) -> bool {
    episode.answers.iter().any(|answer| answer.content.contains(char::REPLACEMENT_CHARACTER))
}

fn answers(episode: &Episode) -> String {
    digest(json::text(&episode.answers).unwrap_or_default().as_bytes())
}

struct Writer<'a> {
    recipe: &'a Recipe,
    make: &'a MakeSection,
    generator: &'a dyn Generator,
    journal: &'a Journal,
}

impl Writer<'_> {
    /// Writes what is kept of a step, a line each.
    fn step(
        &self,
        step: u64,
        chosen: &[Candidate],
        played: &Played,
        lines: &mut dyn Write,
    ) -> Result<(), RunError> {
        let episodes = self.journal.episodes(step, EpisodeKind::Train)?;
        for candidate in chosen {
            let stored = &episodes[candidate.at];
            let value = match (self.make.kind, candidate.rejected) {
                (MakeKind::Tasks, _) => {
                    let tally = &played.tasks[&stored.task.id];
                    made_task(&stored.task, tally.success_rate(), tally.rewards / tally.scored.max(1) as f64)?
                }
                (_, Some(rejected)) => self.pair(step, stored, &episodes[rejected])?,
                (_, None) => {
                    let (messages, tools) = self.conversation(step, stored)?;
                    let mut row = json!({ "messages": messages });
                    self.complete(&mut row, &tools, stored);
                    row["reward"] = stored.reward.into();
                    row["success"] = stored.episode.verdict.success.into();
                    row
                }
            };
            let failed =
                |error: io::Error| FileError::on("write", Path::new(file_name(self.make.kind)))(error);
            writeln!(lines, "{}", json::line(&value)).map_err(failed)?;
        }
        Ok(())
    }

    fn pair(&self, step: u64, chosen: &StoredEpisode, rejected: &StoredEpisode) -> Result<Value, RunError> {
        let (mut better, tools) = self.conversation(step, chosen)?;
        let (mut worse, _) = self.conversation(step, rejected)?;
        let own = chosen.task.prompt.len().min(better.len());
        let shared = better[..own].iter().zip(&worse).take_while(|(one, other)| one == other).count();
        let (better, worse) = (better.split_off(shared), worse.split_off(shared));
        let prompt: Vec<Message> = chosen.task.prompt.iter().take(shared).cloned().collect();
        let mut row = json!({ "prompt": prompt, "chosen": better, "rejected": worse });
        self.complete(&mut row, &tools, chosen);
        row["chosen_reward"] = chosen.reward.into();
        row["rejected_reward"] = rejected.reward.into();
        Ok(row)
    }

    fn complete(&self, row: &mut Value, tools: &[ToolSpec], stored: &StoredEpisode) {
        if !tools.is_empty() {
            row["tools"] = openai::tools(tools);
        }
        row["task_id"] = stored.task.id.0.clone().into();
    }

    fn conversation(
        &self,
        step: u64,
        stored: &StoredEpisode,
    ) -> Result<(Vec<Message>, Vec<ToolSpec>), RunError> {
        let recipe = self.recipe;
        let partners = others::recorded(recipe);
        let (turns_max, overlong) = (recipe.rollout.turns_max, recipe.rollout.overlong);
        let spec = RolloutSpec {
            generator: self.generator,
            partners: Some(&partners),
            spawns: &[],
            turns_max,
            overlong,
            program: None,
        };
        let seeds = SeedPlace { run: recipe.run.seed, stage: 0, step, task_offset: 0 };
        let tasks = [stored.task.clone()];
        let spawn = Spawn::of_tasks(&tasks, 1, &recipe.rollout_sampling(), seeds).remove(0);
        Ok(rollout::conversation(&spec, &spawn, &stored.episode)?)
    }
}

fn made_task(task: &Task, success_rate: f64, reward: f64) -> Result<Value, RunError> {
    let failed = |error: serde_json::Error| RunError::Refused(format!("task {}: {error}", task.id));
    let mut value = serde_json::to_value(task).map_err(failed)?;
    value["success_rate"] = success_rate.into();
    value["mean_reward"] = reward.into();
    Ok(value)
}

/// Reads the tasks of a file, each once.
///
/// # Errors
/// Names the file and the line that is no task of the environment `id`, or says that there is none.
pub(crate) fn read_tasks(file: &Path, id: &str) -> Result<Vec<Task>, RunError> {
    let text = std::fs::read_to_string(file).map_err(FileError::on("read", file))?;
    let (mut tasks, mut known) = (Vec::new(), BTreeSet::new());
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |problem: String| {
            RunError::Refused(format!("env.tasks: `{}`, line {}: {problem}", file.display(), number + 1))
        };
        let task: Task = json::read(line).map_err(|error| wrong(format!("is no task: {error}")))?;
        if task.environment != id {
            let problem = format!(
                "is a task of the environment `{}`, and not of `{id}`, as `env.id` says",
                task.environment
            );
            return Err(wrong(problem));
        }
        if known.insert(task.id.clone()) {
            tasks.push(task);
        }
    }
    if tasks.is_empty() {
        return Err(RunError::Refused(format!("env.tasks: `{}` has no tasks", file.display())));
    }
    Ok(tasks)
}

/// Reads a configuration that a run made.
///
/// # Errors
/// Names the file that is none of the environment `id`.
pub(crate) fn read_config(file: &Path, id: &str) -> Result<Configuration, RunError> {
    let wrong =
        |problem: String| RunError::Refused(format!("env.config_from: `{}` {problem}", file.display()));
    let text = std::fs::read_to_string(file).map_err(FileError::on("read", file))?;
    let made: Configuration =
        json::read(&text).map_err(|error| wrong(format!("is no configuration: {error}")))?;
    if made.environment != id {
        let problem =
            format!("is of the environment `{}`, and not of `{id}`, as `env.id` says", made.environment);
        return Err(wrong(problem));
    }
    Ok(made)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use burnish_core::{Ending, Record, Verdict};

    use super::*;

    /// An episode of the task `task` with this answer and reward; it succeeds from 0.5 on.
    fn stored(task: &str, answer: &str, reward: f64) -> StoredEpisode {
        let id = TaskId(task.into());
        let verdict = if reward.is_nan() {
            Verdict::unscored("hung")
        } else {
            Verdict::scored("right", reward, reward >= 0.5)
        };
        let episode = Episode {
            task: id.clone(),
            rollout: 0,
            traces: Vec::new(),
            partners: Vec::new(),
            verdict,
            ending: Ending::Completed,
            answers: vec![Message::assistant(answer)],
            record: Record::default(),
        };
        let (environment, truth) = ("none".to_owned(), Value::Null);
        let task = Task { id, environment, prompt: Vec::new(), truth, labels: BTreeMap::new() };
        let reward = Some(reward).filter(|reward| !reward.is_nan());
        StoredEpisode { task, task_index: 0, episode, reward, advantage: None }
    }

    /// The step, the place, and the place of the worse answer of a pair.
    type Place = (u64, usize, Option<usize>);

    /// What is kept of two steps, and what is left out.
    fn kept(make: Value) -> (Vec<Place>, BTreeMap<&'static str, usize>) {
        let make: MakeSection = serde_json::from_value(make).unwrap();
        let mut played = Played::default();
        let first = [("a", "1", 1.0), ("a", "2", 0.0), ("b", "3", 0.6), ("b", "4", 0.9), ("b", "5", 0.7)];
        let second = [("a", "1", 1.0), ("a", "7", f64::NAN), ("c", "8", 0.2), ("c", "\u{FFFD}", 0.8)];
        for (step, episodes) in [(1, &first[..]), (2, &second[..])] {
            let episodes: Vec<StoredEpisode> =
                episodes.iter().map(|(task, answer, reward)| stored(task, answer, *reward)).collect();
            played.see(&make, step, &episodes);
        }
        assert_eq!(played.episodes, 9);
        let chosen = played.choose(&make);
        let each = |(step, of_step): (u64, Vec<Candidate>)| {
            of_step.into_iter().map(move |own| (step, own.at, own.rejected)).collect::<Vec<_>>()
        };
        (chosen.into_iter().flat_map(each).collect(), played.left_out)
    }

    #[test]
    fn the_best_successes_of_each_task_are_kept_once() {
        let (rows, left_out) = kept(json!({ "kind": "rows", "max_per_task": 2 }));
        assert_eq!(rows, [(1, 0, None), (1, 3, None), (1, 4, None)]);
        let expected = [
            ("above the number per task", 1),
            ("given before", 1),
            ("not judged", 1),
            ("not successful", 2),
            ("with bytes that are no text", 1),
        ];
        assert_eq!(left_out, BTreeMap::from(expected));
        let of = |make: Value| kept(make).0;
        assert_eq!(of(json!({ "kind": "rows" })), [(1, 0, None), (1, 3, None)]);
        let all = json!({ "kind": "rows", "keep": "all", "max_per_task": 9 });
        assert_eq!(of(all).len(), 6);
        let rewarded = json!({ "kind": "rows", "keep": "all", "max_per_task": 9, "min_reward": 0.7 });
        assert_eq!(of(rewarded), [(1, 0, None), (1, 3, None), (1, 4, None)]);
        // Of `a`, two of three were right; of `b` all, of `c` one of two.
        let medium = json!({ "kind": "rows", "success_rate": { "min": 0.4, "max": 0.9 } });
        assert_eq!(of(medium), [(1, 0, None)]);
    }

    #[test]
    fn the_answers_of_a_group_that_differ_most_are_paired() {
        let (pairs, left_out) = kept(json!({ "kind": "pairs", "max_per_task": 2 }));
        assert_eq!(pairs, [(1, 0, Some(1)), (1, 3, Some(2))]);
        assert_eq!(left_out["no better or worse than others of their group"], 3);
    }

    #[test]
    fn tasks_are_kept_once_by_their_success_rate() {
        let of = |min: f64, max: f64| {
            kept(json!({ "kind": "tasks", "success_rate": { "min": min, "max": max } })).0
        };
        assert_eq!(of(0.0, 1.0), [(1, 0, None), (1, 2, None), (2, 2, None)]);
        assert_eq!(of(0.6, 0.7), [(1, 0, None)]);
        assert_eq!(of(0.9, 1.0), [(1, 2, None)]);
    }

    #[test]
    fn a_line_that_is_no_task_of_the_environment_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tasks.jsonl");
        let task = made_task(&stored("a", "1", 1.0).task, 0.5, 1.0).unwrap().to_string();
        let read = |text: String, id: &str| {
            std::fs::write(&file, text).unwrap();
            read_tasks(&file, id).map(|tasks| tasks.len()).map_err(|error| error.to_string())
        };
        assert_eq!(read(format!("{task}\n\n{task}\n"), "none"), Ok(1));
        let elsewhere = read(format!("{task}\n"), "chains").unwrap_err();
        assert!(elsewhere.contains("line 1") && elsewhere.contains("`none`"), "{elsewhere}");
        assert!(read(format!("{task}\n3\n"), "none").unwrap_err().contains("line 2"));
        assert!(read("\n".into(), "none").unwrap_err().contains("has no tasks"));
    }
}
