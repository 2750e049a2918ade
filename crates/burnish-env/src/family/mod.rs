//! Families of tasks: a world gives its names, its configuration, its tasks and their verdicts. Everything else that a
//! [`Generator`] has is here.
//!
//! ```text
//! configuration! ─> Config (defaults, bounds)
//! impl Family for Config: tasks (prompt, truth, labels), environment (verdict), answers to imitate
//! FamilyGenerator<Config> ─> Generator, Kind
//! ```
//!
//! `associative.rs` is the smallest one. `docs/environments/new.md` shows how to write another.

#[cfg(test)]
#[allow(unreachable_pub, reason = "it is written as a world of the crate is")]
mod sums;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;

use burnish_core::rng::Stream;
use burnish_core::{Message, Task};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::digest::digest;
use crate::settings::{self, check_within};
use crate::tasks::{read, seed_of, task};
use crate::{
    Bound, CellReport, Cells, Demonstrations, EnvError, Environment, Generator, Hints, Kind, Redesign,
    Reversible, Skills, Step, TaskSet,
};

/// A table of a configuration whose numbers have bounds. The macro `configuration!` writes it.
pub trait Bounded {
    /// The bounds of its numeric keys, in the order of the keys.
    fn bounds() -> Vec<Bound>;
}

/// Tasks that a configuration describes.
///
/// It is implemented by the configuration itself, or by a type that also holds what was made from the configuration once:
/// files that were read, a sandbox.
pub trait Family: Sized + Send + Sync + 'static {
    /// Id of the environment: its name in recipes, and the prefix of the ids of its tasks.
    const ID: &'static str;
    /// Its name in prose, as in "learning *taking orders*".
    const TITLE: &'static str;
    /// A one-line description.
    const SUMMARY: &'static str;
    /// Two labels of its tasks whose combinations are worth a table of their own: rows, columns.
    const AXES: Option<[&'static str; 2]> = None;
    /// The reward components. A family whose configuration chooses them overrides [`Family::components`] instead.
    const COMPONENTS: &'static [&'static str] = &[];
    /// Correct answers are known: [`Family::demonstrate`] is written.
    const IS_DEMONSTRATED: bool = true;

    /// The configuration; `Self` for most families.
    type Config: Bounded + Clone + Default + Serialize + DeserializeOwned + Send + Sync;
    /// The part of a task that is hidden from the policy.
    type Truth: Serialize + DeserializeOwned;

    /// The family with this configuration, whose numbers are within their bounds.
    ///
    /// # Errors
    /// If keys contradict each other: names the key, the problem and the nearest value that would do.
    fn new(config: Self::Config) -> Result<Self, EnvError>;

    /// The reward components that verdicts have with this configuration.
    fn components(&self) -> Vec<String> {
        Self::COMPONENTS.iter().map(|name| (*name).to_owned()).collect()
    }

    /// Makes `count` tasks, as [`Generator::tasks`] does. [`drawn`] and [`tried`] make them one by one.
    ///
    /// # Errors
    /// If a kind of task can't be made: names the key and the nearest value with which it can.
    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError>;

    /// A fresh environment that plays these tasks.
    fn environment(&self) -> Box<dyn Environment>;

    /// Reads the truth of a task.
    ///
    /// # Errors
    /// If the task is not one of this family.
    fn truth(task: &Task) -> Result<Self::Truth, EnvError> {
        read(Self::ID, task)
    }

    /// Shows a task to a person, with the effect of the answer if one is given.
    fn show(&self, task: &Task, truth: Self::Truth, answer: Option<&str>) -> String {
        let mut lines: Vec<String> = task.prompt.iter().map(|message| message.content.clone()).collect();
        let right = self.demonstrate(task, truth).and_then(|messages| messages.into_iter().next());
        lines.extend(right.map(|right| format!("right: {}", right.content)));
        lines.extend(answer.map(|answer| match judged(&mut *self.environment(), task, answer) {
            Ok(judged) => format!("answer: {} ({judged})", answer.trim()),
            Err(error) => format!("answer: {} ({error})", answer.trim()),
        }));
        lines.join("\n")
    }

    /// A correct continuation of the prompt: answers, and the environment's replies between them. `None` if none is known.
    fn demonstrate(&self, task: &Task, truth: Self::Truth) -> Option<Vec<Message>> {
        let _ = (task, truth);
        None
    }

    /// As [`Generator::ready`].
    ///
    /// # Errors
    /// If verdicts can't be had on this machine.
    fn ready(&self) -> Result<(), EnvError> {
        Ok(())
    }

    /// The files that tasks are made from.
    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// As [`Generator::evaluation_only`].
    fn evaluation_only(&self) -> Option<&'static str> {
        None
    }

    /// As [`Generator::hints`].
    fn hints(&self) -> Option<&dyn Hints> {
        None
    }

    /// As [`Generator::skills`].
    fn skills(&self) -> Option<&dyn Skills> {
        None
    }

    /// As [`Generator::reversible`].
    fn reversible(&self) -> Option<&dyn Reversible> {
        None
    }

    /// As [`Generator::cells`].
    fn cells(&self) -> Option<&dyn Cells> {
        None
    }

    /// As [`Generator::redesign`].
    fn redesign(&self) -> Option<&dyn Redesign> {
        None
    }
}

/// The verdict on one answer, for a person.
fn judged(environment: &mut dyn Environment, task: &Task, answer: &str) -> Result<String, EnvError> {
    environment.reset(task, 0)?;
    let end = environment.step(&Message::assistant(answer))?;
    let verdict = environment.verify()?;
    let judged = match end {
        Step::Done if verdict.success => "right",
        Step::Done => "wrong",
        _ => "the episode continues",
    };
    Ok([Some(judged.to_owned()), verdict.feedback].into_iter().flatten().collect::<Vec<_>>().join("; "))
}

/// A task as it was drawn.
#[derive(Debug, Clone)]
pub struct Drawn<T> {
    prompt: Vec<Message>,
    truth: T,
    labels: BTreeMap<String, String>,
    content: Option<String>,
}

impl<T: Serialize> Drawn<T> {
    /// A task with this text as its prompt.
    pub fn new(prompt: impl Into<String>, truth: T) -> Self {
        Drawn::of(vec![Message::user(prompt)], truth)
    }

    /// A task with this prompt.
    pub fn of(prompt: Vec<Message>, truth: T) -> Self {
        Drawn { prompt, truth, labels: BTreeMap::new(), content: None }
    }

    /// The same with a label, by which results are broken down.
    #[must_use]
    pub fn label(mut self, name: &str, value: impl ToString) -> Self {
        self.labels.insert(name.to_owned(), value.to_string());
        self
    }

    /// The same with an id that depends on `content` alone. Without this, the id depends on the whole truth.
    #[must_use]
    pub fn identified_by(mut self, content: impl Into<String>) -> Self {
        self.content = Some(content.into());
        self
    }

    /// The task of the environment `id`.
    ///
    /// # Errors
    /// If the truth can't be serialised.
    pub fn task(self, id: &str) -> Result<Task, EnvError> {
        let truth = settings::to_value(&self.truth)?;
        let name = digest(self.content.unwrap_or_else(|| truth.to_string()).as_bytes());
        Ok(task(id, name, self.prompt, truth, self.labels))
    }
}

/// A task of each of these cells, with a report on each cell. `draw` makes a task of a cell. The seed decides its random
/// numbers together with the position in the set, so a longer set begins with the shorter one.
///
/// # Errors
/// If a truth can't be serialised.
pub fn drawn<F: Family, C: Ord + Display>(
    seed: u64,
    cells: impl IntoIterator<Item = C>,
    mut draw: impl FnMut(&C, &mut Stream) -> Drawn<F::Truth>,
) -> Result<TaskSet, EnvError> {
    tried::<F, C>(seed, cells, |cell, stream, report| {
        report.drawn += 1;
        report.made += 1;
        Ok(draw(cell, stream))
    })
}

/// As [`drawn`], where a cell may need several candidates: `draw` counts them in the cell's report
/// ([`CellReport::draw`](crate::CellReport)).
///
/// # Errors
/// If `draw` fails.
pub fn tried<F: Family, C: Ord + Display>(
    seed: u64,
    cells: impl IntoIterator<Item = C>,
    mut draw: impl FnMut(&C, &mut Stream, &mut CellReport) -> Result<Drawn<F::Truth>, EnvError>,
) -> Result<TaskSet, EnvError> {
    let mut reports: BTreeMap<C, CellReport> = BTreeMap::new();
    let mut tasks = Vec::new();
    for (index, cell) in cells.into_iter().enumerate() {
        let mut stream = Stream::new(seed_of(seed, index));
        let new = CellReport::new(cell.to_string());
        let mut report = reports.remove(&cell).unwrap_or(new);
        tasks.push(draw(&cell, &mut stream, &mut report)?.task(F::ID)?);
        reports.insert(cell, report);
    }
    Ok(TaskSet { tasks, cells: reports.into_values().collect() })
}

/// Makes the tasks of a family.
#[derive(Debug, Clone)]
pub struct FamilyGenerator<F: Family> {
    config: F::Config,
    family: F,
}

impl<F: Family> FamilyGenerator<F> {
    /// The family's entry in the catalogue.
    pub const KIND: Kind = Kind {
        id: F::ID,
        title: F::TITLE,
        summary: F::SUMMARY,
        axes: F::AXES,
        defaults: || settings::to_value(&F::Config::default()).unwrap_or_default(),
        build: |config| Ok(Box::new(FamilyGenerator::<F>::new(settings::read(config)?)?)),
    };

    /// A generator with this configuration.
    ///
    /// # Errors
    /// If a key is out of bounds or contradicts another.
    pub fn new(config: F::Config) -> Result<Self, EnvError> {
        check_within(&config, &F::Config::bounds())?;
        Ok(FamilyGenerator { family: F::new(config.clone())?, config })
    }

    /// The family.
    pub fn family(&self) -> &F {
        &self.family
    }
}

impl<F: Family> Generator for FamilyGenerator<F> {
    fn id(&self) -> &'static str {
        F::ID
    }

    fn config(&self) -> Value {
        settings::to_value(&self.config).unwrap_or_default()
    }

    fn bounds(&self) -> Vec<Bound> {
        F::Config::bounds()
    }

    fn components(&self) -> Option<Vec<String>> {
        Some(self.family.components())
    }

    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        self.family.tasks(seed, count)
    }

    fn environment(&self) -> Box<dyn Environment> {
        self.family.environment()
    }

    fn ready(&self) -> Result<(), EnvError> {
        self.family.ready()
    }

    fn files(&self) -> Vec<PathBuf> {
        self.family.files()
    }

    fn evaluation_only(&self) -> Option<&'static str> {
        self.family.evaluation_only()
    }

    fn draw(&self, task: &Task, answer: Option<&str>) -> String {
        match F::truth(task) {
            Ok(truth) => self.family.show(task, truth, answer),
            Err(error) => error.to_string(),
        }
    }

    fn demonstrations(&self) -> Option<&dyn Demonstrations> {
        if F::IS_DEMONSTRATED { Some(self) } else { None }
    }

    fn hints(&self) -> Option<&dyn Hints> {
        self.family.hints()
    }

    fn skills(&self) -> Option<&dyn Skills> {
        self.family.skills()
    }

    fn reversible(&self) -> Option<&dyn Reversible> {
        self.family.reversible()
    }

    fn cells(&self) -> Option<&dyn Cells> {
        self.family.cells()
    }

    fn redesign(&self) -> Option<&dyn Redesign> {
        self.family.redesign()
    }
}

impl<F: Family> Demonstrations for FamilyGenerator<F> {
    fn demonstrate(&self, task: &Task) -> Option<Message> {
        self.family.demonstrate(task, F::truth(task).ok()?)?.into_iter().next()
    }

    fn demonstrate_episode(&self, task: &Task) -> Option<Vec<Message>> {
        let played = self.family.demonstrate(task, F::truth(task).ok()?)?;
        Some(task.prompt.iter().cloned().chain(played).collect())
    }
}

/// Writes a table of a configuration in one place: its fields with their types, defaults, bounds and meanings. It becomes a
/// struct that is read strictly and written in the order of the fields, with [`Default`] and [`Bounded`].
///
/// A field has one of four forms:
///
/// ```text
/// pairs: usize = 8, in 1..=512, "keys that are bound";                                  a number within bounds
/// steps: Range = Range { min: 1, max: 3 }, in 1..=8, "fewest steps" | "most steps";     a range within bounds
/// prompt: PromptStyle = PromptStyle::Short, "style of the prompt";                      any other value
/// reward: Reward, "rewards of an answer";                                               a table with its own bounds
/// ```
///
/// A documentation comment before a field is added to its meaning.
macro_rules! configuration {
    (
        $(#[$on:meta])*
        $visible:vis struct $Name:ident {
            $(
                $(#[$doc:meta])*
                $key:ident: $ty:ty $(= $default:expr $(, in $bounds:expr)?)?, $help:literal $(| $most:literal)?;
            )*
        }
    ) => {
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        $(#[$on])*
        $visible struct $Name {
            $(
                #[doc = concat!($help, $("; ", $most,)? ".")]
                $(#[$doc])*
                $(#[doc = concat!(
                    "\n\nDefault: `", stringify!($default), "`." $(, " Allowed: `", stringify!($bounds), "`.")?
                )])?
                pub $key: $ty,
            )*
        }

        impl Default for $Name {
            fn default() -> Self {
                $Name { $($key: $crate::family::configuration!(@default $ty $(= $default)?),)* }
            }
        }

        impl $crate::family::Bounded for $Name {
            fn bounds() -> Vec<$crate::Bound> {
                [$($crate::family::configuration!(
                    @bounds $key, $ty $(= $default $(, in $bounds)?)?, $help $(| $most)?
                )),*].concat()
            }
        }
    };
    (@default $ty:ty = $default:expr) => { $default };
    (@default $ty:ty) => { <$ty>::default() };
    (@bounds $key:ident, $ty:ty = $default:expr, in $bounds:expr, $help:literal) => {
        $crate::family::configuration!(@rows $bounds, [stringify!($key), $help])
    };
    (@bounds $key:ident, $ty:ty = $default:expr, in $bounds:expr, $least:literal | $most:literal) => {
        $crate::family::configuration!(
            @rows $bounds, [concat!(stringify!($key), ".min"), $least], [concat!(stringify!($key), ".max"), $most]
        )
    };
    (@bounds $key:ident, $ty:ty = $default:expr, $help:literal) => { Vec::new() };
    (@bounds $key:ident, $ty:ty, $help:literal) => {
        $crate::Bound::below(stringify!($key), <$ty as $crate::family::Bounded>::bounds())
    };
    (@rows $bounds:expr, $([$key:expr, $help:expr]),*) => {{
        let bounds = $bounds;
        $crate::Bound::of(&[$(($key, *bounds.start() as f64, *bounds.end() as f64, $help)),*])
    }};
}
pub(crate) use configuration;
