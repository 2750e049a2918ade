//! The loop: step, record, evaluate, save, until done or stopped. How a run begins and resumes: `begin.rs`.

mod begin;
mod best;
mod growth;
mod reports;

use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use std::{fs, io};

use burnish_core::Episode;
use burnish_data::overlap::OverlapReport;
use burnish_eval::{Change, Summary};
use burnish_rl::advantage::Phase;
use burnish_tensor::Device;
use burnish_train::checkpoint::{Checkpoint, Checkpoints};
use burnish_train::schedule::{Schedule, Warmup};

use crate::RunError;
use crate::artefact;
use crate::decontaminate;
use crate::engine::Engine;
use crate::evaluate::{Evaluation, bootstrap_seed, evaluate, summarise};
use crate::learner::Learner;
use crate::making::{self, Over};
use crate::memory::parameters_of;
use crate::offline::{Corpus, HELD_OUT_ROWS, Measured, OfflineLoop};
use crate::online::{OnlineLoop, PlayedMember};
use crate::policy::named_template;
use crate::split;
use crate::stored::Session;
use crate::summary::{Metrics, summary_metrics};
use crate::tasks::Tasks;
use crate::unread;
use crate::unscored::{Unscored, UnscoredSteps, check_first};
use crate::watch::{Event, Stop, Watch};
use crate::weighed;
use best::Best;
use burnish_recipe::{ComputeType, Method, Recipe};
use burnish_rundir::files;
use burnish_rundir::journal::{EpisodeKind, EpisodeRow, Journal};
use burnish_rundir::metrics::{self, MetricsLog, Row, Values};
use burnish_rundir::run_dir::{self, RunDir};
use growth::Growth;
use reports::Reports;

/// What is said of `policy.precision = "f32"` on a GPU. The rates are those of NVIDIA's data sheet of the H100 SXM: 67
/// TFLOP/s in f32, 989 in bf16 on tensor cores.
const F32_ON_A_GPU: &str = " in f32, without its tensor cores: with `policy.precision = \"bf16\"` an H100 multiplies up to 15 \
                            times as fast (NVIDIA's data sheet), and what a pass holds is half as large";

/// How a run ended.
#[derive(Debug)]
pub enum Finish {
    /// All steps are done.
    Done(Box<Outcome>),
    /// It was stopped on request, and saved.
    Interrupted {
        /// Steps done.
        step: u64,
    },
}

/// The results of a complete run.
#[derive(Debug)]
pub struct Outcome {
    /// The run directory.
    pub dir: PathBuf,
    /// The last checkpoint.
    pub checkpoint: PathBuf,
    /// The trained policy's name on the server that has it; `None` if the checkpoint has it.
    pub on_server: Option<String>,
    /// How the policy learned.
    pub method: Method,
    /// Steps done.
    pub steps: u64,
    /// Updates that the policy has had; 0 if nothing was learnt.
    pub updates: u64,
    /// Training episodes that could not be judged.
    pub unscored: UnscoredSteps,
    /// Results on held-out tasks before training.
    pub before: Option<Summary>,
    /// Results on held-out tasks after training.
    pub after: Option<Summary>,
    /// The difference, paired by task.
    pub change: Option<Change>,
    /// Numbers of the held-out rows before training and after it, of a run that learns from rows.
    pub held_out_rows: Option<[Values; 2]>,
    /// Training rows that overlap with evaluation rows, if both come from files.
    pub overlap: Option<OverlapReport>,
}

/// A run in progress.
pub struct Run {
    recipe: Recipe,
    tasks: Tasks,
    learner: Learner,
    schedule: Schedule,
    work: Loop,
    dir: RunDir,
    journal: Journal,
    metrics: MetricsLog,
    checkpoints: Checkpoints,
    /// Steps done.
    step: u64,
    /// Step of the newest checkpoint.
    saved: Option<u64>,
    /// Tokens of prompts and answers trained on so far; a shared prompt counts in every sequence.
    tokens: u64,
    /// When the run first started, in seconds since 1970 (UTC). Chat templates take this as the current time, however
    /// often the run is resumed.
    started: i64,
    /// Training rows that overlap with evaluation rows.
    overlap: Option<OverlapReport>,
    /// Steps in which no episode could be judged.
    unscored: Unscored,
    /// Whether a checkpoint was due in a step in which no episode could be judged.
    owes_save: bool,
    /// The best evaluation so far.
    best: Best,
    /// The report, which is written now and then.
    reports: Reports,
    /// Tasks that join those of the run while it goes on, if they do.
    growth: Option<Growth>,
}

/// The kind of a run's steps.
enum Loop {
    Online(Box<OnlineLoop>),
    Offline(Box<OfflineLoop>),
    /// The policy stays as it is.
    Still,
}

impl Run {
    fn assemble(recipe: Recipe, parts: Parts, dir: RunDir, journal: Journal) -> Result<Self, RunError> {
        let Parts { mut tasks, mut learner, work, step, tokens, started, overlap, unscored, best } = parts;
        if let Learner::Here(here) = &mut learner {
            here.policy.engine = Engine::of_recipe(&recipe, dir.path())?;
        }
        let every = recipe.make.as_ref().and_then(|make| make.every);
        let is_over = step >= recipe.train.max_steps || best.is_out_of_patience();
        let path = dir.path().join(run_dir::GROWN);
        let growth = every.map(|every| Growth::open(path, every, (step, is_over), &mut tasks));
        Ok(Run {
            growth: growth.transpose()?,
            reports: Reports::new(Session::new(step, learner.device())),
            schedule: schedule(&recipe),
            metrics: MetricsLog::open(&dir, recipe.tensorboard_names(), step)?,
            checkpoints: Checkpoints::open(dir.checkpoints(), recipe.checkpoint.keep)?,
            saved: (step > 0).then_some(step),
            recipe,
            tasks,
            learner,
            work,
            dir,
            journal,
            step,
            tokens,
            started,
            overlap,
            unscored,
            owes_save: false,
            best,
        })
    }

    /// The recipe that decides the run.
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// The run directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The model, what it learns from, and where the run is stored, a line each.
    pub fn introduction(&self) -> Vec<String> {
        let policy = &self.recipe.policy;
        let named =
            policy.path.as_ref().map_or_else(|| "a new model".to_owned(), |path| path.display().to_string());
        let size = match &self.learner {
            Learner::Here(here) => {
                let params = &here.policy.model.params;
                let all = params.entries().iter().map(|entry| entry.param.len()).sum();
                format!(", {}", parameters_of(all, params.trained_len()))
            }
            Learner::There(_) => String::new(),
        };
        let learned = match &self.work {
            Loop::Online(_) => format!("{}, {} tasks", self.recipe.env.id, self.tasks.different()),
            Loop::Offline(work) => format!("{} rows", work.rows()),
            Loop::Still => "nothing".to_owned(),
        };
        let evaluated: Vec<String> = (self.tasks.evaluations.iter().filter(|set| !set.tasks.is_empty()))
            .map(|set| format!("{} held-out tasks", set.tasks.len()))
            .collect();
        let dir = self.dir.path().display();
        vec![
            format!("policy    {named}{size}"),
            format!("learns    {}", [vec![learned], evaluated].concat().join(", evaluated on ")),
            format!("run       {dir}; its report.html is written from the first evaluation on"),
        ]
    }

    /// Runs until all steps are done. If `stop` is asked for, finishes the step in progress, saves and returns.
    ///
    /// # Errors
    /// If a step fails. What was saved stays, and the run can be resumed from it.
    pub fn drive(&mut self, watch: &mut dyn Watch, stop: &Stop) -> Result<Finish, RunError> {
        let done = self.go_on(watch, stop);
        match &done {
            Ok(Finish::Done(_)) => {}
            Ok(Finish::Interrupted { .. }) => self.report_stopped(None, watch),
            Err(error) => self.report_stopped(Some(error), watch),
        }
        self.learner.close();
        done
    }

    fn go_on(&mut self, watch: &mut dyn Watch, stop: &Stop) -> Result<Finish, RunError> {
        let steps_max = self.recipe.train.max_steps;
        if self.step < steps_max {
            // What was there may be of a run that is made longer, or that has stopped.
            self.report_under_way(watch);
        }
        if self.saved.is_none() {
            if let Some(report) = &self.overlap {
                let values = decontaminate::metrics(report);
                self.log("data", values)?;
            }
            // A policy that stays as it is has one result.
            if self.recipe.train.method != Method::None {
                self.evaluate(watch)?;
            }
            self.report_under_way(watch);
        }
        while self.step < steps_max && !self.best.is_out_of_patience() {
            let started = Instant::now();
            self.grow(false, watch)?;
            let mut values = self.one_step(watch)?;
            self.tokens += values.get("tokens/total").copied().unwrap_or_default() as u64;
            values.insert("num_tokens".into(), self.tokens as f64);
            values.insert("step_time".into(), started.elapsed().as_secs_f64());
            watch.event(Event::Step { step: self.step, steps_max, metrics: &values });
            self.log(metrics::TRAIN, values)?;
            if self.unscored.streak() > 0 {
                let most = self.recipe.train.unscored_steps_max;
                self.unscored.check(self.step, steps_max, most, self.saved, self.dir.path())?;
            }
            let is_due_to_evaluate = self.step == steps_max || is_due(self.step, self.recipe.eval.every);
            let is_evaluated = is_due_to_evaluate && self.evaluates();
            if is_evaluated {
                self.evaluate(watch)?;
            }
            // Checked once, so that what is saved and what is reported agree.
            let is_stopping = stop.is_asked();
            // Nothing is saved while nothing can be judged: once the reward works again, these steps are repeated.
            let is_due = self.owes_save || is_due(self.step, self.recipe.checkpoint.every);
            self.owes_save = is_due && self.unscored.streak() > 0;
            if self.step == steps_max || is_stopping || (is_due && !self.owes_save) {
                self.save(watch)?;
                self.owes_save = false;
            }
            if is_stopping && self.step < steps_max {
                return Ok(Finish::Interrupted { step: self.step });
            }
            if self.best.is_out_of_patience() {
                self.save(watch)?;
                watch.event(Event::Note(self.told_of_patience()));
            } else if (is_evaluated || self.saved == Some(self.step)) && self.step < steps_max {
                self.report_under_way(watch);
            }
        }
        self.grow(true, watch)?;
        self.make_artefact(watch)?;
        self.finish().map(|outcome| Finish::Done(Box::new(outcome)))
    }

    /// Are held-out tasks and rows evaluated? Those of a run that only plays to make something are merely left out.
    fn evaluates(&self) -> bool {
        self.recipe.train.method != Method::None || self.recipe.make.is_none()
    }

    /// Lets tasks join that a function makes of the steps since it last did, if that is due.
    fn grow(&mut self, is_over: bool, watch: &mut dyn Watch) -> Result<(), RunError> {
        let Some(growth) = self.growth.as_mut().filter(|growth| growth.is_due(self.step, is_over)) else {
            return Ok(());
        };
        let Some((make, maker)) = self.recipe.make.as_ref().and_then(|make| Some((make, make.maker()?)))
        else {
            return Ok(());
        };
        watch.event(Event::Doing("making tasks of episodes"));
        let (recipe, learner, journal) = (&self.recipe, &self.learner, &self.journal);
        let (from, steps, dir) = (growth.last + 1, self.step, self.dir.path());
        let over = Over { recipe, tasks: &self.tasks, learner, journal, from, steps, dir };
        let made = making::grown(&over, make, &maker)?;
        let (more, known) = (made.tasks.len(), self.tasks.train.len());
        let note = format!("{more} tasks join the {known} that the run has");
        watch.event(Event::Note(note));
        growth.join(self.step, made, &mut self.tasks)
    }

    /// Makes what the recipe asks for.
    fn make_artefact(&self, watch: &mut dyn Watch) -> Result<(), RunError> {
        let Some(make) = &self.recipe.make else { return Ok(()) };
        watch.event(Event::Doing("making something of episodes"));
        let (recipe, tasks, learner) = (&self.recipe, &self.tasks, &self.learner);
        let (journal, steps, dir) = (&self.journal, self.step, self.dir.path());
        let over = Over { recipe, tasks, learner, journal, from: 1, steps, dir };
        let made = match (make.maker(), &self.growth) {
            (Some(maker), Some(growth)) => {
                let Some(made) = making::write_grown(&over, make, &maker, growth.grown())? else {
                    return Ok(());
                };
                made
            }
            (Some(maker), None) => making::make(&over, make, &maker)?,
            (None, _) => artefact::make(recipe, make, tasks.generator()?, journal, steps, dir)?,
        };
        watch.event(Event::Note(format!("made {}: {}", made.file.display(), made.summary)));
        Ok(())
    }

    fn one_step(&mut self, watch: &mut dyn Watch) -> Result<Values, RunError> {
        let step = self.step;
        let lr = |updates| self.schedule.lr(updates);
        let Metrics { step: values, updates } = match &mut self.work {
            Loop::Online(work) => {
                let (recipe, tasks) = (&self.recipe, &self.tasks);
                let done = match recipe.train.method {
                    Method::None => work.play(recipe, tasks, &self.learner, step)?,
                    _ => work.step(recipe, tasks, &mut self.learner, &lr, step)?,
                };
                let row = |own: &PlayedMember| (own.task, own.advantage);
                let rows = self.rows(done.played.iter().map(|own| (&*own.episode, row(own))));
                self.journal.record_step(step + 1, EpisodeKind::Train, &done.tasks, &rows)?;
                let judged = done.played.iter().filter(|own| own.phase == Phase::Downstream);
                let judged: Vec<&Episode> = judged.map(|own| &*own.episode).collect();
                if let Some(note) = self.unscored.see(step + 1, &judged) {
                    watch.event(Event::Note(note));
                }
                if step == 0 {
                    let verdicts: Vec<_> = judged.iter().map(|episode| &episode.verdict).collect();
                    let note = weighed::note(&self.recipe.reward.weights, &verdicts);
                    note.into_iter().for_each(|note| watch.event(Event::Note(note)));
                }
                if let Some(note) = done.note {
                    watch.event(Event::Note(format!("step {}: {note}", step + 1)));
                }
                done.metrics
            }
            Loop::Offline(work) => work.step(&self.recipe, &mut self.learner, &lr, step)?,
            Loop::Still => Metrics { step: Values::new(), updates: Vec::new() },
        };
        for note in self.learner.take_notes() {
            watch.event(Event::Note(format!("step {}: {note}", step + 1)));
        }
        self.step += 1;
        for (at, update) in updates.iter().enumerate() {
            self.journal.record_update(self.step, at, update)?;
        }
        Ok(values)
    }

    /// Journal rows for episodes, each with the index of its task and its advantage.
    fn rows<'a>(
        &self,
        episodes: impl Iterator<Item = (&'a Episode, (usize, Option<f64>))>,
    ) -> Vec<EpisodeRow<'a>> {
        let weights = &self.recipe.reward.weights;
        let row = |(episode, (task_index, advantage)): (&'a Episode, (usize, Option<f64>))| EpisodeRow {
            task_index,
            episode,
            reward: episode.verdict.total(weights),
            advantage,
        };
        episodes.map(row).collect()
    }

    fn evaluate(&mut self, watch: &mut dyn Watch) -> Result<(), RunError> {
        let mut found = Values::new();
        if let Loop::Offline(work) = &self.work
            && let Some(measured) = work.evaluate(&self.recipe, &self.learner)?
        {
            let before = self.held_out_before(&measured)?;
            let values = measured.metrics(before.as_ref(), bootstrap_seed(&self.recipe));
            watch.event(Event::Measured { step: self.step, values: &values });
            found.extend(values.clone());
            self.log("eval", values)?;
        }
        for at in 0..self.tasks.evaluations.len() {
            let set = &self.tasks.evaluations[at];
            if set.tasks.is_empty() {
                continue;
            }
            let Evaluation { episodes, summary } = evaluate(&self.recipe, &self.learner, set)?;
            let places = (0..).map(|at| (at / set.rollouts, None));
            let rows = self.rows(episodes.iter().zip(places));
            self.journal.record_step(self.step, set.kind(), &set.tasks, &rows)?;
            watch.event(Event::Evaluated { step: self.step, name: set.name.as_deref(), summary: &summary });
            if self.step == 0 && matches!(self.work, Loop::Online(_)) {
                check_first(&summary, self.dir.path())?;
            }
            let values = summary_metrics(&summary, set);
            found.extend(values.clone());
            self.log("eval", values)?;
        }
        if !found.is_empty() && self.best.see(&found, self.step)? {
            self.keep_best()?;
        }
        Ok(())
    }

    /// The numbers of the held-out rows before training, with which those of a later evaluation are paired. At step 0,
    /// `measured` is written as such.
    fn held_out_before(&self, measured: &Measured) -> Result<Option<Measured>, RunError> {
        let path = self.dir.held_out();
        let failed = |error| RunError::Refused(format!("`{}`: {error}", path.display()));
        if self.step == 0 {
            let json = serde_json::to_vec(&measured.finite()).map_err(|error| failed(error.to_string()))?;
            files::write_atomic(&path, &json)?;
            return Ok(None);
        }
        match fs::read(&path) {
            // A run that an earlier version began.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error.to_string())),
            Ok(json) => serde_json::from_slice(&json).map(Some).map_err(|error| failed(error.to_string())),
        }
    }

    /// Keeps the policy as that of the best evaluation.
    fn keep_best(&self) -> Result<(), RunError> {
        self.write(&Checkpoints::open(self.dir.best(), 1)?).map(drop)
    }

    fn told_of_patience(&self) -> String {
        let (metric, found) = self.best.found().map_or(("", None), |(metric, found)| (metric, Some(found)));
        let (step, value) = found.map_or((0, f64::NAN), |found| (found.step, found.value));
        format!(
            "ended after step {} by `train.patience`: no evaluation since step {step} was better than {metric} {value:.4}",
            self.step
        )
    }

    fn log(&mut self, event: &str, values: Values) -> Result<(), RunError> {
        Ok(self.metrics.append(&Row { step: self.step, event: event.to_owned(), values })?)
    }

    fn save(&mut self, watch: &mut dyn Watch) -> Result<(), RunError> {
        if self.saved == Some(self.step) {
            return Ok(());
        }
        // No checkpoint may be ahead of the records that explain it.
        self.journal.sync()?;
        self.metrics.sync()?;
        let path = self.write(&self.checkpoints)?;
        self.saved = Some(self.step);
        watch.event(Event::Saved(path));
        Ok(())
    }

    /// Writes a checkpoint of the step.
    fn write(&self, checkpoints: &Checkpoints) -> Result<PathBuf, RunError> {
        let step = self.step;
        let learned = &self.work;
        let mut write_more = |dir: &Path| match learned {
            Loop::Online(work) => work.save(dir, step),
            Loop::Offline(_) | Loop::Still => Ok(()),
        };
        let work = match &self.work {
            Loop::Online(work) => work.state(),
            Loop::Offline(_) | Loop::Still => serde_json::Value::Null,
        };
        let mut state = serde_json::json!({ "tokens": self.tokens, "stage": work, "started": self.started });
        let best = self.best.state();
        if !best.is_null() {
            state["best"] = best;
        }
        if self.unscored.streak() > 0 {
            state["unscored_steps"] = self.unscored.streak().into();
        }
        self.learner.save(checkpoints, step, state, &mut write_more)
    }

    fn finish(&mut self) -> Result<Outcome, RunError> {
        let episodes = |step| -> Result<Vec<Episode>, RunError> {
            let stored = self.journal.episodes(step, EpisodeKind::Eval)?;
            Ok(stored.into_iter().map(|stored| stored.episode).collect())
        };
        let (before, after) = (episodes(0)?, episodes(self.step)?);
        let weights = &self.recipe.reward.weights;
        let seed = bootstrap_seed(&self.recipe);
        let summed = |episodes: &[Episode]| {
            let main = self.tasks.main().filter(|_| !episodes.is_empty())?;
            Some(summarise(&self.recipe, &main.tasks, episodes))
        };
        let rows = metrics::read(&self.dir.metrics())?;
        let outcome = Outcome {
            dir: self.dir.path().to_owned(),
            checkpoint: self.dir.checkpoint(self.step),
            on_server: self.learner.served_as()?,
            method: self.recipe.train.method,
            steps: self.step,
            updates: self.learner.updates(),
            unscored: UnscoredSteps::of(&rows),
            held_out_rows: before_and_after(&rows, self.step),
            change: Change::between(&before, &after, weights, seed),
            before: summed(&before),
            after: summed(&after),
            overlap: self.overlap.clone(),
        };
        self.report_finished()?;
        Ok(outcome)
    }
}

/// Numbers of the held-out rows after no step and after all of them.
fn before_and_after(rows: &[Row], last: u64) -> Option<[Values; 2]> {
    let of = |step| {
        let mut found = rows.iter().filter(|row| row.step == step && row.values.contains_key(HELD_OUT_ROWS));
        found.next_back().map(|row| row.values.clone())
    };
    Some([of(0)?, of(last)?])
}

/// Seconds since 1970 (UTC).
fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs() as i64)
}

fn is_due(step: u64, every: u64) -> bool {
    every > 0 && step.is_multiple_of(every)
}

fn schedule(recipe: &Recipe) -> Schedule {
    let optimizer = &recipe.optimizer;
    let updates_per_step = match recipe.train.method {
        Method::Grpo => recipe.train.epochs * recipe.train.minibatches,
        Method::Sft | Method::Preference | Method::Reward | Method::None => 1,
    };
    Schedule {
        peak: optimizer.learning_rate,
        warmup: Warmup::Steps(optimizer.warmup_updates),
        decay: optimizer.schedule,
        steps: recipe.train.max_steps * updates_per_step as u64,
        final_share: optimizer.final_share,
    }
}

/// The parts of a run, before it has a directory.
struct Parts {
    tasks: Tasks,
    learner: Learner,
    work: Loop,
    step: u64,
    tokens: u64,
    started: i64,
    overlap: Option<OverlapReport>,
    unscored: Unscored,
    best: Best,
}

impl Parts {
    /// Turns passes over the rows into steps.
    fn settle_steps(&self, recipe: &mut Recipe) {
        if let (Loop::Offline(work), Some(epochs), 0) =
            (&self.work, recipe.train.num_train_epochs, recipe.train.max_steps)
        {
            recipe.train.max_steps = work.steps_of(epochs, recipe);
        }
    }

    fn make(
        recipe: &Recipe,
        checkpoint: Option<Checkpoint>,
        watch: &mut dyn Watch,
    ) -> Result<Self, RunError> {
        // A checkpoint has the template that its run began with.
        let template = match &checkpoint {
            Some(_) => None,
            None => named_template(recipe.policy.chat_template.as_deref())?,
        };
        watch.event(Event::Doing("making tasks"));
        let plays = recipe.plays();
        let has_rows = !matches!(recipe.train.method, Method::Grpo | Method::None);
        let mut tasks = Tasks::make(recipe, plays)?.with_others(recipe)?;
        tasks.check_ready()?;
        if tasks.held_out > 0 {
            watch.event(Event::Note(format!(
                "{} of {} training tasks are left out, because they are held out for evaluation",
                tasks.held_out,
                tasks.held_out + tasks.different()
            )));
        }
        let mut held_out = if has_rows { Corpus::held_out(recipe)? } else { None };
        let against = decontaminate::of_evaluation(recipe, &tasks, held_out.as_ref())?;
        let (corpus, overlap) = if plays {
            let overlap = match &against {
                Some(overlap) => tasks.leave_out(|generator, train| {
                    decontaminate::of_tasks(recipe, overlap, generator, train)
                })?,
                None => None,
            };
            (Corpus::default(), overlap)
        } else if !has_rows {
            (Corpus::default(), None)
        } else {
            watch.event(Event::Doing("reading data"));
            let (mut corpus, report) = Corpus::open(recipe, &tasks.held_out_ids(), against.as_ref())?;
            if recipe.data.held_out_share > 0.0 {
                held_out = Some(corpus.split_off(recipe.data.held_out_share, recipe.eval.seed)?);
            }
            let left_out = held_out.as_ref().map_or(Ok(0), |held_out| corpus.leave_out(held_out))?;
            if left_out > 0 {
                let note =
                    format!("{left_out} rows are not trained on, because they equal rows that are held out");
                watch.event(Event::Note(note));
            }
            (corpus, report.filter(|report| report.rows() > 0))
        };
        if let Some(report) = &overlap {
            watch.event(Event::Note(decontaminate::told(recipe, report)));
        }
        let played = recipe.env.split.iter().filter(|_| plays);
        let played = played.map(|_| format!("env.split: {}", split::told(&tasks.train)));
        corpus.parts.iter().cloned().chain(played).for_each(|part| watch.event(Event::Note(part)));
        let device = Device::open(&recipe.device)?;
        if !device.is_cpu() {
            let without = match recipe.policy.precision {
                ComputeType::F32 => F32_ON_A_GPU,
                ComputeType::Bf16 => "",
            };
            watch.event(Event::Note(format!("computing on {}{without}", device.description())));
        }
        let state = checkpoint.as_ref().map_or(&serde_json::Value::Null, Checkpoint::state);
        let mut learner = Learner::load(recipe, checkpoint.as_ref(), template, &corpus, &device, watch)?;
        tasks.others.check(&learner.chat().tokenizer)?;
        let step = checkpoint.as_ref().map_or(0, Checkpoint::step);
        let started = state["started"].as_i64().unwrap_or_else(now);
        let chat = learner.chat_mut();
        chat.template = chat.template.clone().at(started);
        if let Some(note) = unread::tools(&tasks, &corpus, &learner.chat().template) {
            watch.event(Event::Note(note));
        }
        let work = if plays {
            let config = learner.trainer_config(recipe);
            let (schedule, state) = (schedule(recipe), &state["stage"]);
            let mut work = OnlineLoop::new(recipe, &learner, schedule, &config, checkpoint.as_ref(), state)?;
            work.prepare(&tasks);
            Loop::Online(Box::new(work))
        } else if !has_rows {
            Loop::Still
        } else {
            let work = OfflineLoop::new(recipe, corpus, held_out, &learner)?;
            work.notes(recipe, &learner).into_iter().for_each(|note| watch.event(Event::Note(note)));
            Loop::Offline(Box::new(work))
        };
        let tokens = state["tokens"].as_u64().unwrap_or(0);
        let unscored = Unscored::after(state["unscored_steps"].as_u64().unwrap_or(0));
        let best = Best::new(recipe, &state["best"]);
        Ok(Parts { tasks, learner, work, step, tokens, started, overlap, unscored, best })
    }
}
