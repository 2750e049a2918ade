//! Functions that make rows, pairs or tasks of a run's training episodes (`make.program`; `burnish_reason::Maker`).
//!
//! ```text
//! journal ─> a task and its episodes, task by task ─> functions, side by side ─> making.jsonl, as each is over
//!                                                       │                     └─> rows.jsonl or tasks.jsonl, in the order of tasks
//!                                                       └─ policy, teacher, environment
//! ```
//!
//! Every random number comes from the place of a task among those that were played, so the artefact does not depend on which
//! function is over first, or on how often the run was killed: what is in `making.jsonl` is not made again.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use burnish_core::rng::{Address, Purpose, Stream};
use burnish_core::{Message, Policy, Task, TaskId, Verdict, json, openai};
use burnish_env::rollout::{Given, SeedPlace, recite};
use burnish_env::{Generator, digest};
use burnish_episode::{Cast, Known, Started, Threads, run_at_most};
use burnish_reason::{Bench, Made, Maker, Outcome, POLICY, Shop, TEACHER, World};
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
use crate::seeds::Draws;
use crate::tasks::{Tasks, as_known, tasks_of};

/// Fewest tasks that are drawn for functions to choose from ([`World::fresh`]).
const STOCK_MIN: usize = 4096;
/// Tasks that are drawn for each one that was played.
const STOCK_PER_TASK: usize = 16;

/// The directory of the model that functions ask as their teacher, if it is one.
pub(crate) fn teacher_of(recipe: &Recipe) -> Option<&Path> {
    match recipe.make.as_ref()?.teacher.as_ref()? {
        InPlace::Model(path) => Some(path),
        InPlace::Endpoint(_) => None,
    }
}

/// A run whose steps are done.
#[derive(Clone, Copy)]
pub(crate) struct Over<'a> {
    pub(crate) recipe: &'a Recipe,
    pub(crate) tasks: &'a Tasks,
    pub(crate) learner: &'a Learner,
    pub(crate) journal: &'a Journal,
    pub(crate) steps: u64,
    pub(crate) dir: &'a Path,
}

/// Makes the artefact of a run by the function `config`.
///
/// # Errors
/// If the function fails or makes nothing, somebody does not answer, or a file can't be written. What the functions of other
/// tasks have made stays.
pub(crate) fn make(run: &Over<'_>, make: &MakeSection, config: &MakerConfig) -> Result<Artefact, RunError> {
    let Over { recipe, tasks, learner, journal, steps, dir } = *run;
    let named = json!({ "id": config.program, "config": config.config, "teacher": make.teacher });
    let whole = json!({ "program": named, "kind": make.kind, "seed": recipe.run.seed, "steps": steps });
    let own = digest(json::line(&whole).as_bytes());
    let file = dir.join(file_name(make.kind));
    if let Some(count) = made_before(&file, &own) {
        return Ok(Artefact { file, summary: format!("{count} {}, as before", make.kind.name()) });
    }
    let maker = config.build().map_err(|error| RunError::Refused(format!("make.{error}")))?;
    let generator = tasks.generator()?;
    let (played, mut left_out) = played(journal, steps)?;
    let known: BTreeSet<&TaskId> =
        tasks.train.iter().map(|task| &task.id).chain(tasks.held_out_ids()).collect();
    let place = Draws::Making.place(recipe.run.seed, 0, 0);
    let stock = (played.len() * STOCK_PER_TASK).max(STOCK_MIN);
    let field = Field { recipe, generator, known: &known, place, stock, drawn: OnceCell::new() };
    let chosen: Vec<(usize, &Played)> =
        played.iter().enumerate().filter(|(_, own)| own.is_for(make)).collect();
    if played.len() > chosen.len() {
        left_out.insert("tasks not judged or outside the success rate", played.len() - chosen.len());
    }
    let mut teacher = open_teacher(make, &recipe.device)?;
    let sampling = recipe.rollout_sampling();
    let shop = Shop { world: &field, kind: make.kind, sampling: &sampling, has_teacher: teacher.is_some() };
    let work = Work { maker: &*maker, tasks: &chosen, shop, place, at_once: recipe.rollout.batch_max };
    let log = RefCell::new(Log::open(dir.join(run_dir::MAKING), own.clone())?);
    let mut sampler = learner.sampler(recipe.rollout.limits())?;
    let made = work.carry_out(sampler.policy(), teacher.as_deref_mut(), &log)?;
    sampler.finish()?;
    let held_out = tasks.held_out_ids();
    let written = Written::of(&chosen, &made, generator.id(), &held_out, &mut left_out)?;
    if written.count == 0 {
        return Err(RunError::Refused(format!(
            "make.program: `{}` made nothing of {} tasks ({}): change `make.config`, or `make.success_rate`, which says for \
             which tasks it is run",
            config.program,
            chosen.len(),
            listed(&left_out)
        )));
    }
    write_atomic(&file, written.lines.as_bytes())?;
    let nothing = written.per_task.values().filter(|count| **count == 0).count();
    let mut program = named;
    program["digest"] = own.into();
    program["made"] = json!(written.per_task);
    program["made_nothing"] = nothing.into();
    let episodes = played.iter().map(|own| own.episodes.len() + own.not_judged).sum();
    let lineage = Lineage {
        tasks: played.len(),
        episodes,
        left_out: &left_out,
        count: written.count,
        program: Some(program),
    };
    write_lineage(recipe, make, &lineage, &file)?;
    log.into_inner().remove()?;
    let summary = format!(
        "{} {} by `{}`, run for {} of {} tasks; {nothing} of them gave nothing",
        written.count,
        make.kind.name(),
        config.program,
        chosen.len(),
        played.len()
    );
    Ok(Artefact { file, summary })
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

/// A task that the run played.
struct Played {
    task: Task,
    /// Its episodes that were judged.
    episodes: Vec<Outcome>,
    not_judged: usize,
}

impl Played {
    /// Is the function run for it?
    fn is_for(&self, make: &MakeSection) -> bool {
        !self.episodes.is_empty() && make.success_rate.contains(Outcome::success_rate(&self.episodes))
    }

    /// What identifies what is made of it, at this place.
    fn key(&self, at: usize) -> Result<String, RunError> {
        let whole = json::text(&(at, &self.task, &self.episodes));
        let whole = whole.map_err(|error| RunError::Refused(format!("task {}: {error}", self.task.id)))?;
        Ok(digest(whole.as_bytes()))
    }
}

/// Numbers of what was left out, by reason.
type LeftOut = BTreeMap<&'static str, usize>;

/// The tasks in the order in which they were first played.
fn played(journal: &Journal, steps: u64) -> Result<(Vec<Played>, LeftOut), RunError> {
    let (mut all, mut places, mut left_out) = (Vec::<Played>::new(), BTreeMap::new(), LeftOut::new());
    for step in 1..=steps {
        for stored in journal.episodes(step, EpisodeKind::Train)? {
            let at = *places.entry(stored.task.id.clone()).or_insert(all.len());
            if at == all.len() {
                all.push(Played { task: stored.task, episodes: Vec::new(), not_judged: 0 });
            }
            let (answers, success) = (stored.episode.answers, stored.episode.verdict.success);
            match stored.reward.filter(|reward| reward.is_finite()) {
                Some(reward) => all[at].episodes.push(Outcome { answers, success, reward }),
                None => {
                    all[at].not_judged += 1;
                    *left_out.entry("not judged").or_default() += 1;
                }
            }
        }
    }
    Ok((all, left_out))
}

/// The environment, for functions.
struct Field<'a> {
    recipe: &'a Recipe,
    generator: &'a dyn Generator,
    /// Tasks that the run plays or holds out.
    known: &'a BTreeSet<&'a TaskId>,
    place: SeedPlace,
    /// The number of tasks that are drawn.
    stock: usize,
    /// Those of them that are not known, drawn at once, since a generator keeps its shares only in a set that is large.
    drawn: OnceCell<Result<Vec<Task>, String>>,
}

impl Field<'_> {
    fn draw(&self) -> Result<Vec<Task>, String> {
        let address = Address { purpose: Purpose::Task, ..self.place.address(0) };
        let drawn = tasks_of(self.generator, address.seed(), self.stock, "env.config");
        let mut drawn = drawn.map_err(|error| error.to_string())?;
        as_known(self.recipe, &mut drawn);
        let mut ids = BTreeSet::new();
        drawn.retain(|task| !self.known.contains(&task.id) && ids.insert(task.id.clone()));
        Ok(drawn)
    }
}

impl World for Field<'_> {
    fn fresh(&self, seed: u64, skip: usize, count: usize) -> Result<Vec<Task>, String> {
        let stock = self.drawn.get_or_init(|| self.draw()).as_ref().map_err(String::clone)?;
        let mut order: Vec<&Task> = stock.iter().collect();
        Stream::new(seed).shuffle(&mut order);
        Ok(order.into_iter().skip(skip).take(count).cloned().collect())
    }

    fn judge(&self, task: &Task, answers: &[Message]) -> Result<Verdict, String> {
        let given = Given { task, place: self.place.address(0), answers };
        let episode = recite(self.generator, &[given]).map_err(|error| error.to_string())?.pop();
        episode.map(|episode| episode.verdict).ok_or_else(|| "no verdict was given".to_owned())
    }
}

/// The functions to run, and their worlds.
struct Work<'a> {
    maker: &'a dyn Maker,
    /// Tasks with their places among all that were played.
    tasks: &'a [(usize, &'a Played)],
    shop: Shop<'a>,
    place: SeedPlace,
    /// Most functions that run at once, so that some are over early and need not be run again.
    at_once: usize,
}

impl Work<'_> {
    /// What the function makes of each task, in their order. What is on the log is taken from there.
    fn carry_out(
        &self,
        policy: &mut dyn Policy,
        teacher: Option<&mut (dyn Policy + 'static)>,
        log: &RefCell<Log>,
    ) -> Result<Vec<Vec<Made>>, RunError> {
        let keys = self.tasks.iter().map(|(at, own)| own.key(*at)).collect::<Result<Vec<_>, _>>()?;
        let mut open = Vec::new();
        let mut started = Vec::new();
        for ((at, own), key) in self.tasks.iter().zip(&keys) {
            if log.borrow().made.contains_key(key) {
                continue;
            }
            open.push(&own.task.id);
            let address = Address { purpose: Purpose::Perturb, ..self.place.address(*at) };
            started.push(Started::new(address, Known::default(), async move |handle| {
                let bench = Bench::new(handle, &own.task, &own.episodes, self.shop);
                let over = self.maker.make(&bench).await;
                over.map_err(|error| failed(&own.task.id, &error.to_string()))?;
                log.borrow_mut().append(key, bench.finish())
            }));
        }
        let mut cast = Cast::default().with(POLICY, policy);
        if let Some(teacher) = teacher {
            cast = cast.with(TEACHER, teacher);
        }
        let over = run_at_most(self.at_once, started, cast, &mut Threads::default());
        over.map_err(|error| match error {
            burnish_episode::RunError::Episode(error) => error,
            burnish_episode::RunError::Contact { at, source } => failed(open[at], &source.to_string()),
            other => RunError::Refused(format!("make.program: {other}")),
        })?;
        let mut log = log.borrow_mut();
        Ok(keys.iter().map(|key| log.made.remove(key).unwrap_or_default()).collect())
    }
}

fn failed(task: &TaskId, problem: &str) -> RunError {
    RunError::Refused(format!("make.program: task {task}: {problem}"))
}

/// Everything made so far: `making.jsonl`, a line for each task whose function is over.
struct Log {
    path: PathBuf,
    maker: String,
    made: BTreeMap<String, Vec<Made>>,
    file: Option<File>,
}

/// A line of it.
#[derive(Serialize, Deserialize)]
struct Line {
    task: String,
    /// Digest of everything else that decides what is made.
    maker: String,
    made: Vec<Made>,
}

impl Log {
    /// Reads what the function `maker` has made. A last line that is not complete is cut off.
    fn open(path: PathBuf, maker: String) -> Result<Self, RunError> {
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            read => read.map_err(FileError::on("read", &path))?,
        };
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        if whole < text.len() {
            let cut = OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(whole as u64));
            cut.map_err(FileError::on("shorten", &path))?;
        }
        let text = String::from_utf8_lossy(&text[..whole]);
        let lines = text.lines().filter_map(|line| json::read::<Line>(line).ok());
        let made = lines.filter(|line| line.maker == maker).map(|line| (line.task, line.made)).collect();
        Ok(Log { path, maker, made, file: None })
    }

    /// Adds what was made of a task. When it returns, that is on the disk.
    fn append(&mut self, task: &str, made: Vec<Made>) -> Result<(), RunError> {
        let failed = || FileError::on("write", &self.path);
        let line = Line { task: task.to_owned(), maker: self.maker.clone(), made };
        let text = json::text(&line).map_err(|error| RunError::Refused(format!("make.program: {error}")))?;
        if self.file.is_none() {
            let file = OpenOptions::new().append(true).create(true).open(&self.path);
            self.file = Some(file.map_err(failed())?);
        }
        if let Some(file) = &mut self.file {
            file.write_all((text + "\n").as_bytes()).and_then(|()| file.sync_data()).map_err(failed())?;
        }
        self.made.insert(line.task, line.made);
        Ok(())
    }

    /// Removes the file: the artefact is complete.
    fn remove(self) -> Result<(), RunError> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(FileError::on("remove", &self.path)(error).into())
            }
            _ => Ok(()),
        }
    }
}

/// The lines of an artefact.
struct Written<'a> {
    lines: String,
    count: usize,
    /// How many are of each task for which the function was run.
    per_task: BTreeMap<&'a TaskId, usize>,
}

impl<'a> Written<'a> {
    fn of(
        tasks: &[(usize, &'a Played)],
        made: &[Vec<Made>],
        environment: &str,
        held_out: &BTreeSet<&TaskId>,
        left_out: &mut LeftOut,
    ) -> Result<Self, RunError> {
        let mut known = BTreeSet::new();
        let mut written = Written { lines: String::new(), count: 0, per_task: BTreeMap::new() };
        for ((_, own), made) in tasks.iter().zip(made) {
            let id = &own.task.id;
            let count = written.per_task.entry(id).or_default();
            for made in made {
                let identity = match made {
                    Made::Task(task) if task.environment != environment => {
                        let other =
                            format!("it made a task of `{}`, and not of `{environment}`", task.environment);
                        return Err(failed(id, &other));
                    }
                    Made::Task(task) if held_out.contains(&task.id) => {
                        *left_out.entry("held out").or_default() += 1;
                        continue;
                    }
                    Made::Task(task) => task.id.0.clone(),
                    made => line_of(made).to_string(),
                };
                if !known.insert(identity) {
                    *left_out.entry("made before").or_default() += 1;
                    continue;
                }
                let mut value = line_of(made);
                if !matches!(made, Made::Task(_)) {
                    value["task_id"] = id.0.clone().into();
                }
                written.lines += &(json::line(&value) + "\n");
                (*count, written.count) = (*count + 1, written.count + 1);
            }
        }
        Ok(written)
    }
}

fn line_of(made: &Made) -> Value {
    match made {
        Made::Row { messages, tools } => {
            let mut row = json!({ "messages": messages });
            if !tools.is_empty() {
                row["tools"] = openai::tools(tools);
            }
            row
        }
        Made::Pair { prompt, chosen, rejected } => {
            json!({ "prompt": prompt, "chosen": chosen, "rejected": rejected })
        }
        Made::Task(task) => json!(task),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::cell::Cell;

    use burnish_core::{PolicyError, Sampling, Script, StopReason, Turn};
    use burnish_reason::{MakeKind, MakerError, Making};
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
        let episodes = vec![Outcome { answers: Vec::new(), success: true, reward: 1.0 }];
        let each = ["a", "b", "c", "d"].map(task);
        each.map(|task| Played { task, episodes: episodes.clone(), not_judged: 0 }).into()
    }

    fn log(dir: &Path) -> Log {
        Log::open(dir.join(run_dir::MAKING), "own".into()).unwrap()
    }

    /// What `maker` makes of the tasks, up to which answer of the teacher, and how often somebody was asked.
    fn carried_out(
        maker: &dyn Maker,
        dir: &Path,
        answers: usize,
        at_once: usize,
    ) -> (Result<Vec<Vec<Made>>, RunError>, usize) {
        let (played, sampling, asked) = (tasks(), Sampling::greedy(4), Cell::new(0));
        let numbered: Vec<(usize, &Played)> = played.iter().enumerate().collect();
        let shop = Shop { world: &Nowhere, kind: MakeKind::Rows, sampling: &sampling, has_teacher: false };
        let place = Draws::Making.place(1, 0, 0);
        let work = Work { maker, tasks: &numbered, shop, place, at_once };
        let mut policy = Script::new(|turn: &Turn| {
            asked.set(asked.get() + 1);
            if turn.messages.len() > 1 && asked.get() > answers {
                return Err(PolicyError::Failed("the lights went out".into()));
            }
            Ok((format!("{}", turn.seed), StopReason::EndToken))
        });
        let made = work.carry_out(&mut policy, None, &RefCell::new(log(dir)));
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
        assert_eq!(log(dir.path()).made.len(), 2);
        let mut half = OpenOptions::new().append(true).open(&file).unwrap();
        half.write_all(b"{\"task\": \"c").unwrap();
        let (made, asked) = carried_out(&Two, dir.path(), 99, 9);
        assert_eq!((made.unwrap(), asked), (whole, 4), "two tasks of two turns each were left");
        assert_eq!(log(dir.path()).made.len(), 4, "the line that was cut off is gone");

        // What another function has made, or the same one of other episodes, counts for nothing.
        assert!(Log::open(file, "other".into()).unwrap().made.is_empty());
        let mut other = tasks().remove(0);
        let before = other.key(0).unwrap();
        other.episodes[0].success = false;
        assert_ne!(other.key(0).unwrap(), before);
        log(dir.path()).remove().unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_fails_at_once_names_the_task_and_leaves_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let wrong = carried_out(&Wrong, dir.path(), 99, 1).0.unwrap_err().to_string();
        let kind = MakerError::Kind { made: MakeKind::Tasks, asked: MakeKind::Rows };
        assert_eq!(wrong, format!("make.program: task a: {kind}"));
        let (numbered, sampling) = ([(0, &tasks()[0])], Sampling::greedy(4));
        let shop = Shop { world: &Nowhere, kind: MakeKind::Rows, sampling: &sampling, has_teacher: true };
        let place = Draws::Making.place(1, 0, 0);
        let work = Work { maker: &Two, tasks: &numbered, shop, place, at_once: 9 };
        // Nobody listens there.
        let away = json!({ "url": "http://127.0.0.1:9/v1", "model": "m", "retries": 0 });
        let make = json!({ "kind": "rows", "program": "two", "teacher": away });
        let mut away = open_teacher(&serde_json::from_value(make).unwrap(), "cpu").unwrap();
        let mut policy = Script::new(|_: &Turn| Ok(("?".to_owned(), StopReason::EndToken)));
        let log = RefCell::new(log(dir.path()));
        let unreached = work.carry_out(&mut policy, away.as_deref_mut(), &log).unwrap_err().to_string();
        assert!(unreached.contains("task a") && unreached.contains("127.0.0.1:9"), "{unreached}");
        let unanswered = carried_out(&Two, dir.path(), 0, 9).0.unwrap_err().to_string();
        assert!(unanswered.contains("the lights went out"), "{unanswered}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_artefact_has_everything_once_and_nothing_that_is_held_out() {
        let (played, row) = (tasks(), |text: &str| Made::Row {
            messages: vec![Message::user("?"), Message::assistant(text)],
            tools: Vec::new(),
        });
        let numbered: Vec<(usize, &Played)> = played.iter().enumerate().collect();
        let held_out = task("later");
        let held_out = BTreeSet::from([&held_out.id]);
        let written = |made: [Vec<Made>; 4], left_out: &mut LeftOut| {
            Written::of(&numbered, &made, "none", &held_out, left_out)
                .map(|written| {
                    (written.lines, written.count, written.per_task.into_values().collect::<Vec<_>>())
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
    }

    #[test]
    fn fresh_tasks_are_neither_played_nor_held_out_and_a_given_answer_is_judged() {
        let text = "[run]\ndir = \"x\"\n[policy]\npath = \"p\"\n[train]\nmethod = \"grpo\"\nmax_steps = 1\n[eval]\ntasks = 3\n\
                    [env]\nid = \"chains\"\ntasks = 40\n\
                    config = { steps = { min = 1, max = 1 }, values = { min = 1, max = 3 } }\n";
        let recipe = Recipe::resolve(&Source::parse("r.toml", text, &[]).unwrap()).unwrap();
        let tasks = Tasks::make(&recipe, true).unwrap();
        let held_out = tasks.held_out_ids();
        let known = held_out.iter().copied().chain(tasks.train.iter().take(4).map(|task| &task.id)).collect();
        let (generator, place) = (tasks.generator().unwrap(), Draws::Making.place(1, 0, 0));
        let field =
            Field { recipe: &recipe, generator, known: &known, place, stock: 200, drawn: OnceCell::new() };
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
