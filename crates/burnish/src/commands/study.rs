//! `burnish study`

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use burnish_recipe::plain_words::plain;
use burnish_run::watch::{Event, Stop, Watch};
use burnish_study::study::{
    self, ArmRun, Findings, Made, Phase, Ran, Registration, Size, Standing, State, Study,
};
use clap::Args;

use super::Done;
use crate::program::as_called;
use crate::progress::{Progress, evaluation_line, in_time};
use crate::{program, signals};

/// What to study.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The study, a TOML file.
    #[arg(required_unless_present = "index", value_parser = super::path())]
    file: Option<PathBuf>,
    /// Overrides of the study file, for example `study.seeds=1`.
    overrides: Vec<String>,
    /// List the runs, say how long they take and what effect they could show, and stop.
    #[arg(long)]
    dry_run: bool,
    /// Make only the runs of this arm.
    #[arg(long, value_name = "ARM")]
    only: Option<String>,
    /// Number of runs side by side, each with its share of the cores, instead of `study.jobs`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=study::JOBS_MAX as i64))]
    jobs: Option<u16>,
    /// Run a study that is in no commit. Its page gives no verdict, and stays in the folder of its runs.
    #[arg(long, conflicts_with = "dry_run")]
    draft: bool,
    /// Make no run; write the page from the finished runs.
    #[arg(long, conflicts_with_all = ["dry_run", "only", "jobs"])]
    report_only: bool,
    /// Make no run; write `README.md` in the first DIR, one table of all studies whose results are there, or
    /// are `results*` in a folder of a further DIR.
    #[arg(long, value_name = "DIR", num_args = 1.., exclusive = true, value_parser = super::path())]
    index: Vec<PathBuf>,
}

pub(crate) fn run(arguments: Arguments) -> Done {
    if let [dir, systems @ ..] = &arguments.index[..] {
        println!("{}", study::write_index(dir, systems)?.display());
        return Ok(());
    }
    let file = arguments.file.clone().unwrap_or_default();
    let study = Study::read(&file, &arguments.overrides)?;
    if let Some(name) = &arguments.only {
        study.arm(name)?;
    }
    if arguments.dry_run {
        return say_plan(&study, arguments.only.as_deref());
    }
    const VERSION: &str = concat!("burnish ", env!("BURNISH_VERSION"));
    let registration = if arguments.draft {
        Registration::refuse_draft(&study)?;
        None
    } else {
        Some(Registration::of(&study, VERSION)?)
    };
    let ran = if arguments.report_only { Ran::default() } else { make_phases(&study, &arguments)? };
    for failed in &ran.failed {
        let error = as_called(&plain(&failed.error.to_string()));
        eprintln!("error: arm `{}`, seed {}: {error}", failed.arm, failed.seed);
    }
    if let Some(error) = ran.refused {
        return Err(error.into());
    }
    if ran.is_stopped {
        println!("stopped and saved; the same command goes on from here: {}", program::again());
        println!("with --report-only it writes the page of what is finished");
        signals::leave_unfinished();
        return Ok(());
    }
    let findings = Findings::of(&study, &Standing::of(&study)?, arguments.draft)?;
    let made =
        Made { command: study.command(), machine: machine(), version: VERSION.to_owned(), registration };
    let written = findings.write(&study, &made)?;
    println!("\n{}\n", findings.headline_table());
    for warning in &findings.warnings {
        println!("{warning}");
    }
    for path in written {
        println!("{}", path.display());
    }
    match ran.failed.len() {
        0 => Ok(()),
        failed => Err(format!("{failed} runs could not go on, and are not in the table").into()),
    }
}

/// The runs that are planned, phase by phase, and the size of the study.
fn say_plan(study: &Study, only: Option<&str>) -> Done {
    println!("{}: {} side by side", study.title, study.jobs);
    for arm in &study.arms {
        let changes = if arm.set.is_empty() { "the recipe as it is".to_owned() } else { arm.set.join("  ") };
        println!("{:24} {changes}", arm.name);
    }
    println!();
    let standing = Standing::of(study)?;
    let is_meant = |name: &str| only.is_none_or(|only| only == name);
    for run in standing.runs().filter(|run| is_meant(&run.name)) {
        println!("{:14} {}", said(run.state), run.dir().display());
    }
    // What runs after the grid has its settings only then.
    let later = if standing.reported.is_empty() { &study.arms[..] } else { &[] };
    for at in 0..study.seeds.len() {
        for arm in later.iter().filter(|arm| is_meant(&arm.name)) {
            let Some(seed) = arm.seeds.get(at) else { continue };
            let dir = study.dir_of(Phase::Reported(None), arm, *seed);
            println!("{:14} {}", said(study.state_of(Phase::Reported(None), arm, *seed)), dir.display());
        }
    }
    println!();
    for line in Size::of(study, &standing)?.lines(study) {
        println!("{line}");
    }
    Ok(())
}

fn said(state: State) -> &'static str {
    match state {
        State::New => "to run",
        State::Begun => "to go on with",
        State::Finished => "finished",
    }
}

/// Makes the runs of one phase after the other, until one can't be finished or the disease is not there.
fn make_phases(study: &Study, arguments: &Arguments) -> Result<Ran, Box<dyn std::error::Error>> {
    let jobs = arguments.jobs.map_or(study.jobs, usize::from);
    let stop = Stop::default();
    let mut is_listening = false;
    loop {
        let standing = Standing::of(study)?;
        let mut runs = standing.current().to_vec();
        if let Some(name) = &arguments.only {
            runs.retain(|run| run.name == *name);
        }
        let open = runs.iter().filter(|run| !run.is_finished()).count();
        if open == 0 {
            return Ok(Ran::default());
        }
        if !is_listening {
            signals::listen(stop.clone(), signals::Work::Training)?;
            is_listening = true;
        }
        let ran = make_runs(study, &runs, open, jobs, &stop)?;
        if ran.is_stopped || ran.refused.is_some() || !ran.failed.is_empty() {
            return Ok(ran);
        }
    }
}

fn make_runs(
    study: &Study,
    runs: &[ArmRun],
    open: usize,
    jobs: usize,
    stop: &Stop,
) -> Result<Ran, Box<dyn std::error::Error>> {
    let phase = runs.first().map_or("", |run| run.phase.name());
    println!("{}, {phase}: {} runs, of which {open} are to be made", study.title, runs.len());
    if !study::make_stages(runs, &mut Progress::new(), stop)? {
        return Ok(Ran { is_stopped: true, ..Ran::default() });
    }
    let (begun, start) = (AtomicUsize::new(0), Instant::now());
    let watch_of = |run: &ArmRun| -> Box<dyn Watch + Send> {
        let number = begun.fetch_add(1, Ordering::SeqCst) + 1;
        let done = number.saturating_sub(jobs);
        let left = match done {
            0 => String::new(),
            done => {
                let left = start.elapsed().as_secs_f64() / done as f64 * (open - done) as f64;
                format!(" (about {} left)", in_time(Duration::from_secs_f64(left)))
            }
        };
        println!("run {number} of {open}: {} seed {}{left}", run.name, run.seed);
        if jobs == 1 {
            Box::new(Progress::new())
        } else {
            Box::new(Prefixed { prefix: format!("{} seed {}", run.name, run.seed) })
        }
    };
    Ok(study::run(runs, jobs, &study.named_metrics(), stop, &watch_of))
}

/// Prints the important events, with the name of the run in front.
struct Prefixed {
    prefix: String,
}

impl Watch for Prefixed {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Note(line) => println!("{}: {}", self.prefix, as_called(&plain(&line))),
            Event::Evaluated { step, name: None, summary } => {
                println!("{}: after {step} steps: {}", self.prefix, evaluation_line(summary));
            }
            _ => {}
        }
    }
}

/// Number of cores, and their model if the system reports it.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    match model {
        Some((_, model)) => format!("{cores} cores of {}", model.trim()),
        None => format!("{cores} cores"),
    }
}
