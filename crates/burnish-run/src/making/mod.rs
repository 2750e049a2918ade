//! Functions that make rows, pairs, tasks, a strategy or a configuration of a run's training episodes (`make.program`;
//! `burnish_reason::Maker`).
//!
//! ```text
//! journal ─> a task and its episodes, task by task ─> functions, side by side ─> making.jsonl, as answers come in (ledger.rs)
//!            (or all of them: one function)             │                     └─> the artefact, in the order of tasks (written.rs)
//!                                                       └─ policy, teacher, environment (field.rs)
//! ```
//!
//! Every random number comes from the place of a task among those that were played, so the artefact does not depend on which
//! function is over first, or on how often the run was killed: nothing in `making.jsonl` is asked, played or made again.

mod design;
mod field;
mod ledger;
mod written;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::ops::RangeInclusive;
use std::path::Path;

use burnish_core::rng::{Address, Purpose};
use burnish_core::{Policy, Task, TaskId, Trace, json};
use burnish_env::digest;
use burnish_env::rollout::{Partners, SeedPlace, with_cast};
use burnish_episode::{Known, Started, Threads, run_programs};
use burnish_reason::{Bench, Finished, Maker, Outcome, Played, Shop, TEACHER};
use burnish_recipe::{InPlace, MakeSection, Recipe};
use burnish_rundir::files::{FileError, file_digest, write_atomic};
use burnish_rundir::journal::{EpisodeKind, Journal};
use burnish_rundir::run_dir;
use burnish_systems::MakerConfig;
use burnish_tensor::Device;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::RunError;
use crate::artefact::{Artefact, Lineage, file_name, listed, write_lineage};
use crate::asked::Asked;
use crate::learner::Learner;
use crate::model_files::policy_digests;
use crate::model_path::locate;
use crate::seeds::Draws;
use crate::tasks::Tasks;
use field::Field;
use ledger::Log;
use written::Written;

/// The directory of the model that functions ask as their teacher, if it is one.
pub(crate) fn teacher_of(recipe: &Recipe) -> Option<&Path> {
    match recipe.make.as_ref()?.teacher.as_ref()? {
        InPlace::Model(path) => Some(path),
        InPlace::Endpoint(_) => None,
    }
}

/// Some steps of a run, which are done: `from` to `steps`, both included.
#[derive(Clone, Copy)]
pub(crate) struct Over<'a> {
    pub(crate) recipe: &'a Recipe,
    pub(crate) tasks: &'a Tasks,
    pub(crate) learner: &'a Learner,
    pub(crate) journal: &'a Journal,
    pub(crate) from: u64,
    pub(crate) steps: u64,
    pub(crate) dir: &'a Path,
}

/// Makes the artefact of a run by the function `config`.
///
/// # Errors
/// If the function fails or makes nothing, somebody does not answer, or a file can't be written. What functions were told, and
/// what those of other tasks have made, stays.
pub(crate) fn make(run: &Over<'_>, make: &MakeSection, config: &MakerConfig) -> Result<Artefact, RunError> {
    let Over { recipe, dir, .. } = *run;
    let own = named(run, make, config)?;
    let file = dir.join(file_name(make.kind));
    if let Some(count) = made_before(&file, &own) {
        return Ok(Artefact { file, summary: format!("{count} {}, as before", make.kind.name()) });
    }
    let Carried { written, finished, left_out, tasks, chosen, episodes, is_over_all } =
        carried(run, make, config, &own)?;
    if written.count == 0 {
        return Err(RunError::Refused(format!(
            "make.program: `{}` made nothing of {chosen} tasks ({}): change `make.config`, or `make.success_rate`, which says \
             for which tasks it is run",
            config.program,
            listed(&left_out)
        )));
    }
    write_atomic(&file, written.text.as_bytes())?;
    let nothing = written.per_task.values().filter(|count| **count == 0).count();
    let mut program = json!({ "id": config.program, "config": config.config, "teacher": make.teacher });
    program["digest"] = own.into();
    if !is_over_all {
        program["made"] = json!(written.per_task);
        program["made_nothing"] = nothing.into();
    }
    let reports: Vec<&Value> = finished.iter().filter_map(|own| own.report.as_ref()).collect();
    if !reports.is_empty() {
        program["reports"] = json!(reports);
    }
    let count = written.count;
    let lineage = Lineage { tasks, episodes, left_out: &left_out, count, program: Some(program) };
    write_lineage(recipe, make, &lineage, &file)?;
    remove_if_there(&dir.join(run_dir::MAKING))?;
    let (kind, id) = (make.kind.name(), &config.program);
    let summary = match is_over_all {
        true => format!("{count} {kind} by `{id}`, run over {chosen} of {tasks} tasks"),
        false => {
            format!(
                "{count} {kind} by `{id}`, run for {chosen} of {tasks} tasks; {nothing} of them gave nothing"
            )
        }
    };
    Ok(Artefact { file, summary })
}

/// What a function made of some steps for the run itself.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Grown {
    /// Tasks that the run did not know.
    pub(crate) tasks: Vec<Task>,
    /// What the functions found out ([`Bench::report`]).
    pub(crate) reports: Vec<Value>,
}

/// What the function `config` makes of some steps for the run itself. What it was told stays on the log, for a run that is resumed
/// from before.
///
/// # Errors
/// As [`make`], except that it may make nothing.
pub(crate) fn grown(run: &Over<'_>, make: &MakeSection, config: &MakerConfig) -> Result<Grown, RunError> {
    let Carried { written, finished, .. } = carried(run, make, config, &named(run, make, config)?)?;
    let known: BTreeSet<&TaskId> = run.tasks.train.iter().map(|task| &task.id).collect();
    let tasks = written.tasks.into_iter().filter(|task| !known.contains(&task.id)).collect();
    Ok(Grown { tasks, reports: finished.into_iter().filter_map(|own| own.report).collect() })
}

/// Writes the artefact of a run whose tasks grew: everything that joined. There is none if nothing did, which is no reason to fail:
/// the run has learned.
///
/// # Errors
/// If the journal can't be read, or a file can't be written or removed.
pub(crate) fn write_grown(
    run: &Over<'_>,
    make: &MakeSection,
    config: &MakerConfig,
    grown: &Grown,
) -> Result<Option<Artefact>, RunError> {
    let (file, count, id) = (run.dir.join(file_name(make.kind)), grown.tasks.len(), &config.program);
    remove_if_there(&run.dir.join(run_dir::MAKING))?;
    if count == 0 {
        // Of a run with fewer steps than it has now.
        remove_if_there(&file.with_file_name(run_dir::MADE))?;
        remove_if_there(&file)?;
        return Ok(None);
    }
    let lines: String = grown.tasks.iter().map(|task| json::line(&json!(task)) + "\n").collect();
    write_atomic(&file, lines.as_bytes())?;
    let (played, left_out) = played(run.journal, run.from..=run.steps)?;
    let (tasks, episodes) = (played.len(), episodes_of(&played, &left_out));
    let mut program =
        json!({ "id": id, "config": config.config, "teacher": make.teacher, "every": make.every });
    if !grown.reports.is_empty() {
        program["reports"] = json!(grown.reports);
    }
    let lineage = Lineage { tasks, episodes, left_out: &left_out, count, program: Some(program) };
    write_lineage(run.recipe, make, &lineage, &file)?;
    Ok(Some(Artefact { file, summary: format!("{count} tasks by `{id}`, which joined the run's own") }))
}

/// The number of episodes that were played, judged or not.
fn episodes_of(played: &[Played], left_out: &LeftOut) -> usize {
    let judged: usize = played.iter().map(|own| own.episodes.len()).sum();
    judged + left_out.get(NOT_JUDGED).unwrap_or(&0)
}

/// Digest of everything that decides what is made, apart from the episodes: of a teacher, who it is, and not how it is asked.
fn named(run: &Over<'_>, make: &MakeSection, config: &MakerConfig) -> Result<String, RunError> {
    let teacher = match &make.teacher {
        Some(InPlace::Endpoint(endpoint)) => json!({ "url": endpoint.url, "model": endpoint.model }),
        Some(InPlace::Model(path)) => json!(policy_digests(&locate(path)?.dir)?),
        None => Value::Null,
    };
    let program = json!({ "id": config.program, "config": config.config, "teacher": teacher });
    let (seed, steps) = (run.recipe.run.seed, run.steps);
    let whole =
        json!({ "program": program, "kind": make.kind, "seed": seed, "from": run.from, "steps": steps });
    Ok(digest(json::line(&whole).as_bytes()))
}

/// Functions that are over.
struct Carried {
    written: Written,
    finished: Vec<Finished>,
    left_out: LeftOut,
    /// Tasks that were played, and those of them for which a function was run.
    tasks: usize,
    chosen: usize,
    episodes: usize,
    is_over_all: bool,
}

/// Runs the functions. `own` identifies them on the log.
fn carried(run: &Over<'_>, make: &MakeSection, config: &MakerConfig, own: &str) -> Result<Carried, RunError> {
    let Over { recipe, tasks, learner, journal, from, steps, dir } = *run;
    let maker = config.build().map_err(|error| RunError::Refused(format!("make.{error}")))?;
    let (played, mut left_out) = played(journal, from..=steps)?;
    let (count, episodes) = (played.len(), episodes_of(&played, &left_out));
    let known: BTreeSet<&TaskId> =
        tasks.train.iter().map(|task| &task.id).chain(tasks.never_trained()).collect();
    let place = Draws::Making.place(recipe.run.seed, from - 1, 0);
    let field = Field::new(recipe, tasks, &known, place, count)?.of(*run);
    let is_for = |own: &Played| {
        !own.episodes.is_empty() && make.success_rate.contains(Outcome::success_rate(&own.episodes))
    };
    let (places, chosen): (Vec<usize>, Vec<Played>) =
        played.into_iter().enumerate().filter(|(_, own)| is_for(own)).unzip();
    if count > chosen.len() {
        left_out.insert("tasks not judged or outside the success rate", count - chosen.len());
    }
    let is_over_all = maker.is_over_all();
    let functions: Vec<(usize, &[Played])> = match is_over_all {
        true if chosen.is_empty() => Vec::new(),
        true => vec![(0, &chosen)],
        false => places.into_iter().zip(chosen.chunks(1)).collect(),
    };
    let mut teacher = open_teacher(make, &recipe.device)?;
    let sampling = recipe.rollout_sampling();
    let log = Log::open(dir.join(run_dir::MAKING), own.to_owned())?;
    let (kind, has_teacher) = (make.kind, teacher.is_some());
    let memory = tasks.others.memory()?;
    let memory = memory.as_deref();
    let shop = Shop { world: &field, ledger: &log, kind, sampling: &sampling, has_teacher, memory };
    let partners = tasks.others.partners();
    let at_once = recipe.rollout.batch_max;
    let within = field.at_once();
    let work = Work { maker: &*maker, functions: &functions, shop, place, at_once, within, partners };
    let mut sampler = learner.sampler(recipe.rollout.limits())?;
    let finished = work.carry_out(sampler.policy(), teacher.as_deref_mut(), &log)?;
    sampler.finish()?;
    let written =
        Written::of(&functions, &finished, field.environment(), &tasks.never_trained(), &mut left_out)?;
    Ok(Carried { written, finished, left_out, tasks: count, chosen: chosen.len(), episodes, is_over_all })
}

fn remove_if_there(path: &Path) -> Result<(), RunError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(FileError::on("remove", path)(error).into())
        }
        _ => Ok(()),
    }
}

/// The number of things made, if the artefact is there already: a run that is over may be resumed.
fn made_before(file: &Path, own: &str) -> Option<u64> {
    let text = fs::read(file.with_file_name(run_dir::MADE)).ok()?;
    let made: Value = serde_json::from_slice(&text).ok()?;
    let is_own = made["program"]["digest"] == *own && made["digest"] == file_digest(file).ok()?;
    made["count"].as_u64().filter(|_| is_own)
}

fn open_teacher(make: &MakeSection, device: &str) -> Result<Option<Box<dyn Policy>>, RunError> {
    let device = Device::open(device)?;
    let asked = Asked::in_place(make.teacher.as_ref(), &device);
    let asked = asked.map_err(|error| RunError::Refused(format!("make.teacher: {error}")))?;
    Ok(asked.map(|asked| asked.policy))
}

/// Numbers of what was left out, by reason.
type LeftOut = BTreeMap<&'static str, usize>;

const NOT_JUDGED: &str = "not judged";

/// The tasks of some steps, in the order in which they were first played.
fn played(journal: &Journal, steps: RangeInclusive<u64>) -> Result<(Vec<Played>, LeftOut), RunError> {
    let (mut all, mut places, mut left_out) = (Vec::<Played>::new(), BTreeMap::new(), LeftOut::new());
    for step in steps {
        for stored in journal.episodes(step, EpisodeKind::Train)? {
            let at = *places.entry(stored.task.id.clone()).or_insert(all.len());
            if at == all.len() {
                all.push(Played { task: stored.task, episodes: Vec::new() });
            }
            let tokens = stored.episode.traces.iter().map(Trace::sampled_tokens).sum();
            let (answers, success) = (stored.episode.answers, stored.episode.verdict.success);
            match stored.reward.filter(|reward| reward.is_finite()) {
                Some(reward) => all[at].episodes.push(Outcome { answers, success, reward, tokens }),
                None => *left_out.entry(NOT_JUDGED).or_default() += 1,
            }
        }
    }
    Ok((all, left_out))
}

/// The functions to run, and their worlds.
struct Work<'a> {
    maker: &'a dyn Maker,
    /// Each function's tasks, and the place of the first of them among all that were played.
    functions: &'a [(usize, &'a [Played])],
    shop: Shop<'a>,
    place: SeedPlace,
    /// Most functions that run at once, so that some are over early and need not be run again.
    at_once: usize,
    /// Most episodes that all of them play at once.
    within: usize,
    /// The others who take part in episodes.
    partners: Option<&'a Partners>,
}

impl Work<'_> {
    /// What each function leaves, in their order. What is on the log is taken from there.
    fn carry_out(
        &self,
        policy: &mut dyn Policy,
        teacher: Option<&mut (dyn Policy + 'static)>,
        log: &Log,
    ) -> Result<Vec<Finished>, RunError> {
        let keys: Vec<String> = self.functions.iter().map(key).collect::<Result<_, _>>()?;
        let mut open = Vec::new();
        let mut started = Vec::new();
        for ((at, own), key) in self.functions.iter().zip(&keys) {
            if log.is_finished(key) {
                continue;
            }
            open.push(*own);
            let address = Address { purpose: Purpose::Perturb, ..self.place.address(*at) };
            started.push(Started::new(address, Known::default(), async move |handle| {
                let bench = Bench::new(handle, key, own, self.shop);
                let over = self.maker.make(&bench).await;
                over.map_err(|error| failed(own, &error.to_string()))?;
                log.finish(key, bench.finish())
            }));
        }
        let partners: Vec<&Partners> = self.partners.into_iter().collect();
        let others = teacher.map(|teacher| (TEACHER, teacher as &mut dyn Policy)).into_iter().collect();
        let over = with_cast(policy, &partners, others, |cast| {
            run_programs(self.at_once, self.within, started, cast, &mut Threads::default())
        });
        over.map_err(|error| match error {
            burnish_episode::RunError::Episode(error) => error,
            burnish_episode::RunError::Contact { at, source } => failed(open[at], &source.to_string()),
            other => RunError::Refused(format!("make.program: {other}")),
        })?;
        Ok(keys.iter().map(|key| log.take(key)).collect())
    }
}

/// What identifies what is made of tasks, the first of which is at this place.
fn key((at, own): &(usize, &[Played])) -> Result<String, RunError> {
    let whole = json::text(&(at, own)).map_err(|error| failed(own, &error.to_string()))?;
    Ok(digest(whole.as_bytes()))
}

fn failed(of: &[Played], problem: &str) -> RunError {
    let task = match of {
        [own] => format!(" task {}:", own.task.id),
        _ => String::new(),
    };
    RunError::Refused(format!("make.program:{task} {problem}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::cell::Cell;
    use std::fs::OpenOptions;
    use std::io::Write;

    use burnish_core::{Message, PolicyError, Sampling, Script, StopReason, Turn, Verdict};
    use burnish_env::Generator;
    use burnish_episode::{Handle, Waited};
    use burnish_reason::{Made, MakeKind, MakerError, Making, POLICY, StrategyConfig, World};
    use burnish_recipe::Source;

    use super::*;

    /// Asks the policy, and then the teacher about what it said; the answer is a row.
    struct Two;

    impl Maker for Two {
        fn kinds(&self) -> &'static [MakeKind] {
            &[MakeKind::Rows]
        }

        fn make<'a>(&'a self, bench: &'a Bench<'a>) -> Making<'a> {
            Box::pin(async move {
                let mut messages = bench.task().prompt.clone();
                messages.push(bench.ask(POLICY, messages.clone(), bench.sampling()).await?);
                messages.push(bench.ask(TEACHER, messages.clone(), bench.sampling()).await?);
                bench.emit(Made::Row { messages, tools: Vec::new() })
            })
        }
    }

    /// Of the wrong kind.
    struct Wrong;

    impl Maker for Wrong {
        fn kinds(&self) -> &'static [MakeKind] {
            &[MakeKind::Rows]
        }

        fn make<'a>(&'a self, bench: &'a Bench<'a>) -> Making<'a> {
            Box::pin(async move { bench.emit(Made::Task(bench.task().clone())) })
        }
    }

    struct Nowhere;

    impl World for Nowhere {
        fn fresh(&self, _: u64, _: usize, _: usize) -> Result<Vec<Task>, String> {
            Err("there is none".into())
        }

        fn judge(&self, _: &Task, _: &[Message]) -> Result<Verdict, String> {
            Err("there is no judge".into())
        }

        fn play<'a>(
            &'a self,
            _: &'a Handle,
            _: &'a Task,
            _: &'a StrategyConfig,
        ) -> Waited<'a, Result<Outcome, String>> {
            Box::pin(async { Err("nobody plays here".into()) })
        }
    }

    fn task(id: &str) -> Task {
        let prompt = vec![Message::user(id)];
        Task {
            id: TaskId(id.into()),
            environment: "none".into(),
            prompt,
            truth: Value::Null,
            labels: BTreeMap::new(),
        }
    }

    fn tasks() -> Vec<Played> {
        let episodes = vec![Outcome { answers: Vec::new(), success: true, reward: 1.0, tokens: 3 }];
        let each = ["a", "b", "c", "d"].map(task);
        each.map(|task| Played { task, episodes: episodes.clone() }).into()
    }

    fn one_by_one(played: &[Played]) -> Vec<(usize, &[Played])> {
        played.chunks(1).enumerate().collect()
    }

    fn log(dir: &Path) -> Log {
        Log::open(dir.join(run_dir::MAKING), "own".into()).unwrap()
    }

    /// How many functions are over.
    fn finished(dir: &Path) -> usize {
        let (log, played) = (log(dir), tasks());
        one_by_one(&played).iter().filter(|own| log.is_finished(&key(own).unwrap())).count()
    }

    /// What `maker` makes of the tasks, up to which answer of the teacher, and how often somebody was asked.
    fn carried_out(
        maker: &dyn Maker,
        dir: &Path,
        answers: usize,
        at_once: usize,
    ) -> (Result<Vec<Finished>, RunError>, usize) {
        let (played, sampling, asked, log) = (tasks(), Sampling::greedy(4), Cell::new(0), log(dir));
        let functions = one_by_one(&played);
        let kind = MakeKind::Rows;
        let shop = Shop {
            world: &Nowhere,
            ledger: &log,
            kind,
            sampling: &sampling,
            has_teacher: false,
            memory: None,
        };
        let place = Draws::Making.place(1, 0, 0);
        let within = usize::MAX;
        let work = Work { maker, functions: &functions, shop, place, at_once, within, partners: None };
        let mut policy = Script::new(|turn: &Turn| {
            asked.set(asked.get() + 1);
            if turn.messages.len() > 1 && asked.get() > answers {
                return Err(PolicyError::Failed("the lights went out".into()));
            }
            Ok((format!("{}", turn.seed), StopReason::EndToken))
        });
        let made = work.carry_out(&mut policy, None, &log);
        (made, asked.get())
    }

    #[test]
    fn what_is_made_does_not_depend_on_what_is_over_first_and_finished_tasks_are_not_asked_again() {
        let dir = tempfile::tempdir().unwrap();
        let whole = carried_out(&Two, &dir.path().join("."), 99, 1).0.unwrap();
        assert_eq!(whole.len(), 4);
        let file = dir.path().join(run_dir::MAKING);
        fs::remove_file(&file).unwrap();
        assert_eq!(carried_out(&Two, dir.path(), 99, 9).0.unwrap(), whole, "side by side");
        fs::remove_file(&file).unwrap();

        // It breaks off at the third task, in the middle of a line.
        let (broken, _) = carried_out(&Two, dir.path(), 5, 1);
        let error = broken.unwrap_err().to_string();
        assert!(error.contains("task c") && error.contains("the lights went out"), "{error}");
        assert_eq!(finished(dir.path()), 2);
        let mut half = OpenOptions::new().append(true).open(&file).unwrap();
        half.write_all(b"{\"function\": \"c").unwrap();
        let (made, asked) = carried_out(&Two, dir.path(), 99, 9);
        assert_eq!((made.unwrap(), asked), (whole, 3), "of two tasks with two turns each, one turn was told");
        assert_eq!(finished(dir.path()), 4, "the line that was cut off is gone");

        // What another function has made, or the same one of other episodes, counts for nothing.
        let other = Log::open(file, "other".into()).unwrap();
        let mut played = tasks();
        assert!(one_by_one(&played).iter().all(|own| !other.is_finished(&key(own).unwrap())));
        let before = key(&(0, &played)).unwrap();
        played[0].episodes[0].success = false;
        assert_ne!(key(&(0, &played)).unwrap(), before);
        remove_if_there(&dir.path().join(run_dir::MAKING)).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_fails_at_once_names_the_task() {
        let dir = tempfile::tempdir().unwrap();
        let wrong = carried_out(&Wrong, dir.path(), 99, 1).0.unwrap_err().to_string();
        let kind = MakerError::Kind { made: MakeKind::Tasks, asked: MakeKind::Rows };
        assert_eq!(wrong, format!("make.program: task a: {kind}"));
        let (played, sampling, log) = (tasks(), Sampling::greedy(4), log(dir.path()));
        let kind = MakeKind::Rows;
        let shop = Shop {
            world: &Nowhere,
            ledger: &log,
            kind,
            sampling: &sampling,
            has_teacher: true,
            memory: None,
        };
        let (place, functions) = (Draws::Making.place(1, 0, 0), [(0, &played[..1])]);
        let (at_once, within) = (9, 9);
        let work = Work { maker: &Two, functions: &functions, shop, place, at_once, within, partners: None };
        // Nobody listens there.
        let away = json!({ "url": "http://127.0.0.1:9/v1", "model": "m", "retries": 0 });
        let make = json!({ "kind": "rows", "program": "two", "teacher": away });
        let mut away = open_teacher(&serde_json::from_value(make).unwrap(), "cpu").unwrap();
        let mut policy = Script::new(|_: &Turn| Ok(("?".to_owned(), StopReason::EndToken)));
        let unreached = work.carry_out(&mut policy, away.as_deref_mut(), &log).unwrap_err().to_string();
        assert!(unreached.contains("task a") && unreached.contains("127.0.0.1:9"), "{unreached}");
        let unanswered = carried_out(&Two, dir.path(), 0, 9).0.unwrap_err().to_string();
        assert!(unanswered.contains("the lights went out"), "{unanswered}");
        assert_eq!(finished(dir.path()), 0, "only what was told stays");
    }

    #[test]
    fn an_artefact_has_everything_once_and_nothing_that_is_held_out() {
        let (played, row) = (tasks(), |text: &str| Made::Row {
            messages: vec![Message::user("?"), Message::assistant(text)],
            tools: Vec::new(),
        });
        let functions = one_by_one(&played);
        let held_out = task("later");
        let held_out = BTreeSet::from([&held_out.id]);
        let written = |made: [Vec<Made>; 4], left_out: &mut LeftOut| {
            let finished = made.map(|made| Finished { made, report: None });
            Written::of(&functions, &finished, "none", &held_out, left_out)
                .map(|written| {
                    (written.text, written.count, written.per_task.into_values().collect::<Vec<_>>())
                })
                .map_err(|error| error.to_string())
        };
        let mut left_out = LeftOut::new();
        let rows =
            written([vec![row("1"), row("2")], Vec::new(), vec![row("1")], vec![row("3")]], &mut left_out);
        let (lines, count, per_task) = rows.unwrap();
        assert_eq!((count, per_task, left_out), (3, vec![2, 0, 0, 1], LeftOut::from([("made before", 1)])));
        let ids: Vec<Value> =
            lines.lines().map(|line| json::parse(line).unwrap()["task_id"].clone()).collect();
        assert_eq!(ids, ["a", "a", "d"]);

        let mut left_out = LeftOut::new();
        let own = |id: &str| Made::Task(task(id));
        let tasks = written(
            [vec![own("x")], vec![own("later"), own("x")], vec![own("y")], Vec::new()],
            &mut left_out,
        );
        assert_eq!(tasks.unwrap().1, 2);
        assert_eq!(left_out, LeftOut::from([("held out", 1), ("made before", 1)]));
        let elsewhere = Made::Task(Task { environment: "chains".into(), ..task("z") });
        let error =
            written([vec![elsewhere], Vec::new(), Vec::new(), Vec::new()], &mut left_out).unwrap_err();
        assert!(error.contains("task a") && error.contains("`chains`, and not of `none`"), "{error}");

        // A run makes one strategy, as a file that `--strategy` reads.
        let strategy = |samples: usize| {
            let config = json!({ "samples": samples });
            Made::Strategy(StrategyConfig { strategy: "majority".into(), config })
        };
        let one = written([Vec::new(), vec![strategy(4)], Vec::new(), Vec::new()], &mut left_out).unwrap();
        assert_eq!((&*one.0, one.1), ("strategy = \"majority\"\n\n[config]\nsamples = 4\n", 1));
        let two = written([vec![strategy(4)], vec![strategy(8)], Vec::new(), Vec::new()], &mut left_out);
        assert!(two.unwrap_err().contains("two strategies"));
    }

    #[test]
    fn fresh_tasks_are_neither_played_nor_held_out_and_a_given_answer_is_judged() {
        let text = "[run]\ndir = \"x\"\n[policy]\npath = \"p\"\n[train]\nmethod = \"grpo\"\nmax_steps = 1\n[eval]\ntasks = 3\n\
                    [env]\nid = \"chains\"\ntasks = 40\n\
                    config = { steps = { min = 1, max = 1 }, values = { min = 1, max = 3 } }\n";
        let recipe = Recipe::resolve(&Source::parse("r.toml", text, &[]).unwrap()).unwrap();
        let mut tasks = Tasks::make(&recipe, true).unwrap();
        // Two overlap with what is evaluated.
        let overlapping = [0, 1].map(|at| tasks.train[at].id.clone());
        let drop = |_: &dyn Generator, train: &mut Vec<Task>| {
            train.retain(|task| !overlapping.contains(&task.id));
            Ok(Some(()))
        };
        tasks.leave_out(drop).unwrap();
        let held_out = tasks.never_trained();
        assert!(overlapping.iter().all(|id| held_out.contains(id)));
        let known = held_out.iter().copied().chain(tasks.train.iter().take(4).map(|task| &task.id)).collect();
        let (generator, place) = (tasks.generator().unwrap(), Draws::Making.place(1, 0, 0));
        let field = Field::new(&recipe, &tasks, &known, place, 4).unwrap();
        let all = field.fresh(5, 0, 999).unwrap();
        let ids: BTreeSet<&TaskId> = all.iter().map(|task| &task.id).collect();
        assert!(ids.len() > 4 && ids.len() == all.len() && ids.is_disjoint(&known), "{}", all.len());
        assert_eq!(field.fresh(5, 2, 2).unwrap(), all[2..4], "a later call goes on");
        assert_ne!(field.fresh(6, 0, 999).unwrap(), all);
        let right = generator.demonstrations().and_then(|its| its.demonstrate(&all[0])).unwrap();
        let judged = |answer: Message| field.judge(&all[0], &[answer]).unwrap().success;
        assert!(judged(right) && !judged(Message::assistant("no answer")));
    }
}
