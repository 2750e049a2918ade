//! Specifications: what must hold of a function's inputs and output, written in Python and judged by running them on
//! cases with known answers, after CodeSpecBench (github.com/SparksofAGI/CodeSpecBench).
//!
//! A specification is `preconditions(inputs)` and `postconditions(inputs, output)`. It is *correct* if it accepts all
//! that is valid, *complete* if it rejects all that is not, and passes if it is both. Tasks are generated
//! ([`Track::Generated`]), made of EvalPlus's functions ([`Track::Evalplus`]), or are small repositories with a bug
//! ([`Track::Repo`]).

mod config;
mod direct;
mod evalplus;
mod extract;
mod families;
mod generate;
mod judge;
mod mini;
mod play;
mod repo;
mod report;
mod values;

use std::path::PathBuf;

use burnish_core::rng::Stream;
use burnish_core::{Message, Task};
use serde::{Deserialize, Serialize};

use crate::digest::digest;
use crate::one_turn::{OneTurn, text_of};
use crate::settings::{self, config_error, to_value};
use crate::tasks::{self, read, seed_of, unify};
use crate::{CellReport, Demonstrations, EnvError, Environment, Generator, Kind, TaskSet};
use families::{FAMILIES, Family};
use generate::Problem;

pub use config::{Config, Rejects, Track};
pub use judge::{Judge, Reading};
pub use report::{Cases, Pool, PoolReport, Report};

/// Id of the environment.
const ID: &str = "specs";

/// Candidates drawn for one task before its family is considered empty.
const DRAWS_MAX: usize = 100;

/// Names of the reward components: see [`Report`].
const COMPONENTS: [&str; 5] = ["pass", "correct", "complete", "score", "told_apart"];

/// The environment's entry in the catalogue.
pub const KIND: Kind = Kind {
    id: ID,
    title: "writing specifications",
    summary: "Write what must hold of a function's inputs and output, in Python, judged by running it on known cases.",
    axes: Some(["family", "answers"]),
    defaults: || to_value(&Config::default()).unwrap_or_default(),
    build: |config| Ok(Box::new(Specs::new(settings::read(config)?)?)),
};

/// The truth of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Truth {
    /// A function with cases.
    Function {
        /// Number of its inputs.
        inputs: usize,
        /// What a specification is run on.
        cases: Cases,
        /// A strong specification, if one is known.
        strong: Option<String>,
        /// A right program.
        program: String,
    },
    /// A repository of ours, by its name.
    Repo(String),
}

impl Truth {
    fn of(task: &Task) -> Result<Self, EnvError> {
        read(ID, task)
    }
}

/// Makes specification tasks, and judges what is answered.
#[derive(Debug)]
pub struct Specs {
    config: Config,
    judge: Judge,
    /// The problems of the track `evalplus`.
    problems: Vec<evalplus::Problem>,
}

impl Specs {
    /// A generator with this configuration. No sandbox is started yet.
    ///
    /// # Errors
    /// If a key is out of bounds or contradicts another, or a file can't be read.
    pub fn new(config: Config) -> Result<Self, EnvError> {
        config.check()?;
        let judge = Judge::new(&config);
        let problems = evalplus::read(&config.path)?;
        Ok(Specs { config, judge, problems })
    }

    /// The families that take turns.
    fn families(&self) -> Vec<&'static Family> {
        let is_wanted = |family: &&Family| {
            self.config.families.is_empty() || self.config.families.iter().any(|name| name == family.id)
        };
        FAMILIES.iter().filter(is_wanted).collect()
    }

    fn generated(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        let families = self.families();
        let mut cells: Vec<CellReport> =
            families.iter().map(|family| CellReport::new(format!("family={}", family.id))).collect();
        let mut tasks = Vec::with_capacity(count);
        for index in 0..count {
            let at = index % families.len();
            tasks.push(self.one(families[at], seed_of(seed, index), &mut cells[at])?);
        }
        // The name is that of what is asked: other cases of the same function are the same task.
        unify(&mut tasks);
        Ok(TaskSet { tasks, cells })
    }

    fn one(&self, family: &'static Family, seed: u64, report: &mut CellReport) -> Result<Task, EnvError> {
        let mut stream = Stream::new(seed);
        for _ in 0..DRAWS_MAX {
            report.drawn += 1;
            let problem = Problem::draw(family, &mut stream)
                .map_err(|problem| EnvError::Failed(format!("{ID}: family {}: {problem}", family.id)))?;
            if let Some(cases) = problem.cases(self.config.cases as usize, stream.bits()) {
                report.made += 1;
                return task(&problem, cases);
            }
            *report.dropped.entry("a pool without cases".to_owned()).or_default() += 1;
        }
        let problem =
            format!("the family `{}` gave no task in {DRAWS_MAX} draws: take more cases", family.id);
        Err(config_error("cases", &problem))
    }
}

fn task(problem: &Problem, cases: Cases) -> Result<Task, EnvError> {
    let prompt = prompt(&problem.name, &problem.inputs(), &problem.says);
    let truth = Truth::Function {
        inputs: problem.family.inputs.len(),
        cases,
        strong: Some(problem.spec(&problem.pre, &problem.post)),
        program: problem.program(),
    };
    Ok(tasks::task(
        ID,
        digest(prompt.as_bytes()),
        vec![Message::user(prompt)],
        to_value(&truth)?,
        problem.labels(),
    ))
}

/// What the policy reads.
fn prompt(name: &str, inputs: &str, says: &str) -> String {
    format!(
        "{name}({inputs}): {says}\nWrite preconditions({inputs}) and postconditions({inputs}, output) in Python that \
         assert what must hold, in one ```python block."
    )
}

/// A specification as an answer.
fn fenced(spec: &str) -> String {
    format!("```python\n{}\n```", spec.trim_end())
}

impl Generator for Specs {
    crate::configured!(ID, config::BOUNDS);

    fn components(&self) -> Option<Vec<String>> {
        Some(COMPONENTS.map(str::to_owned).into())
    }

    fn ready(&self) -> Result<(), EnvError> {
        self.judge.ready().map_err(EnvError::Failed)
    }

    fn files(&self) -> Vec<PathBuf> {
        evalplus::files(&self.config.path)
    }

    /// Families take turns. The same function may occur twice, as the same task: with the cases of its first
    /// occurrence, because an id stands for one content.
    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        match self.config.track {
            Track::Generated => self.generated(seed, count),
            Track::Evalplus => self.evalplus(seed, count),
            Track::Repo => repo::tasks(seed, count),
        }
    }

    fn environment(&self) -> Box<dyn Environment> {
        let judge = self.judge.clone();
        let verdict =
            move |truth: &Truth, answer: Option<&Message>| Ok(judge.verdict(truth, text_of(answer)));
        Box::new(OneTurn::new(ID, Truth::of, verdict).slow())
    }

    fn evaluation_only(&self) -> Option<&'static str> {
        match self.config.track {
            Track::Generated => None,
            Track::Evalplus => Some(evalplus::TEST_ONLY),
            Track::Repo => Some(repo::TEST_ONLY),
        }
    }

    fn draw(&self, task: &Task, answer: Option<&str>) -> String {
        play::draw(&self.judge, task, answer)
    }

    fn demonstrations(&self) -> Option<&dyn Demonstrations> {
        (self.config.track == Track::Generated).then_some(self)
    }
}

impl Demonstrations for Specs {
    fn demonstrate(&self, task: &Task) -> Option<Message> {
        match Truth::of(task).ok()? {
            Truth::Function { strong: Some(strong), .. } => Some(Message::assistant(fenced(&strong))),
            _ => None,
        }
    }
}
