//! The generator of tables.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use burnish_core::rng::{Address, Purpose, Stream};
use burnish_core::{Message, Task, TaskId};

use super::ID;
use super::config::{Config, Question, Shuffle};
use super::draw::draw;
use super::execute::execute;
use super::judge::judge;
use super::plan::{Plan, STEP_END, Step};
use super::real::{self, Real};
use super::table::{Order, cells};
use super::truth::Truth;
use crate::digest::digest;
use crate::family::{Family, FamilyGenerator};
use crate::one_turn::{OneTurn, text_of};
use crate::settings::to_value;
use crate::shares::spread;
use crate::{CellReport, CellStep, Cells, EnvError, Environment, TaskSet};

/// The last line of a prompt.
pub const FORMAT: &str = "plan: op, a bit per row : a bit per column ; next op";

/// Why nothing may be trained on a test set.
const TEST_ONLY: &str = "its file of questions is a test set: it is for `burnish eval` and never for training; train on \
                         generated tables, or name another `file`";

/// Makes tasks about tables.
pub type Tables = FamilyGenerator<Sources>;

/// Tables that are drawn, or real ones.
#[derive(Debug)]
pub struct Sources {
    config: Config,
    /// Questions about real tables, if the configuration names a directory.
    real: Option<Real>,
}

/// A task in the order in which it was drawn.
struct Original {
    truth: Truth,
    labels: BTreeMap<String, String>,
}

impl Sources {
    /// Every question about a real table once, in the order of the file and of its table; none of generated tables.
    pub fn in_order(&self) -> Result<Vec<Task>, EnvError> {
        let items = self.real.iter().flat_map(|real| &real.items);
        items.map(|item| self.task(item.truth.clone(), item.labels.clone(), 0)).collect()
    }

    fn drawn(&self, op: Question, rows: usize, seed: u64) -> Original {
        let drawn = draw(&self.config, op, rows, &mut Stream::new(seed));
        // Tasks that differ in the order of rows and columns alone have one id, so that no order of a task that is held
        // out is trained on.
        let content = format!("{}\n{}", drawn.table.content(), drawn.question);
        let labels = BTreeMap::from([
            ("op".to_owned(), op.name().to_owned()),
            ("rows".to_owned(), rows.to_string()),
            ("columns".to_owned(), drawn.table.header.len().to_string()),
        ]);
        let truth = Truth {
            order: Order::unchanged(rows, drawn.table.header.len()),
            table: drawn.table,
            question: drawn.question,
            gold: drawn.plan,
            answer: drawn.answer,
            proxy: None,
            original: format!("{ID}/{}", digest(content.as_bytes())),
        };
        Original { truth, labels }
    }

    /// The task of a truth, which is version number `version` of its original.
    fn task(
        &self,
        truth: Truth,
        mut labels: BTreeMap<String, String>,
        version: usize,
    ) -> Result<Task, EnvError> {
        let id = match version {
            0 => truth.original.clone(),
            _ => format!("{}/{version}", truth.original),
        };
        if self.config.permutations > 1 {
            labels.insert("permutation".to_owned(), version.to_string());
        }
        let prompt = format!("{}\n{}\n{FORMAT}", truth.table.text(self.config.numbered), truth.question);
        Ok(Task {
            id: TaskId(id),
            environment: ID.to_owned(),
            prompt: vec![Message::user(prompt)],
            truth: to_value(&truth)?,
            labels,
        })
    }

    /// The versions of an original: itself, and others in random orders.
    fn versions(&self, original: &Original, place: Address) -> Result<Vec<Task>, EnvError> {
        let (rows, columns) = original.truth.size();
        let version = |number: usize| {
            let mut order = Order::unchanged(rows, columns);
            if number > 0 {
                let seed = Address { rollout: number as u64, purpose: Purpose::Shuffle, ..place }.seed();
                let mut stream = Stream::new(seed);
                if self.config.shuffle != Shuffle::Columns {
                    other_order(&mut order.rows, &mut stream);
                }
                if self.config.shuffle != Shuffle::Rows {
                    other_order(&mut order.columns, &mut stream);
                }
            }
            let truth = original.truth.permuted(&order).unwrap_or_else(|| original.truth.clone());
            self.task(truth, original.labels.clone(), number)
        };
        (0..self.config.permutations).map(version).collect()
    }
}

/// Shuffles an order into another one, if there is another.
fn other_order(order: &mut [usize], stream: &mut Stream) {
    stream.shuffle(order);
    if order.is_sorted() && order.len() > 1 {
        order.rotate_left(1);
    }
}

impl Family for Sources {
    const ID: &str = ID;
    const TITLE: &str = "tables";
    const SUMMARY: &str = "Plan which cells of a table to look at, step by step, so that an executor finds the answer \
         (single turn).";
    const AXES: Option<[&'static str; 2]> = Some(["op", "rows"]);
    type Config = Config;
    type Truth = Truth;

    /// Also reads real tables.
    fn new(config: Config) -> Result<Self, EnvError> {
        config.check()?;
        let real = if config.is_real() { Some(real::read(&config)?) } else { None };
        Ok(Sources { config, real })
    }

    fn components(&self) -> Vec<String> {
        let is_proxy = self.config.is_real();
        self.config.rewards.iter().map(|component| component.name(is_proxy).to_owned()).collect()
    }

    /// Versions of one task follow each other; the last task may have fewer. Questions about real tables are in shuffled
    /// order; if `count` exceeds their number, they are repeated.
    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        let originals = count.div_ceil(self.config.permutations);
        let place = |at: usize| Address { task: at as u64, ..Address::new(seed, Purpose::Task) };
        let mut tasks = Vec::with_capacity(count);
        let mut made: BTreeMap<(Question, usize), usize> = BTreeMap::new();
        let mut cells = Vec::new();
        if let Some(real) = &self.real {
            let seed = Address::new(seed, Purpose::Shuffle).seed();
            for index in burnish_data::passes(real.items.len(), seed).take(originals) {
                let item = &real.items[index];
                let original = Original { truth: item.truth.clone(), labels: item.labels.clone() };
                tasks.extend(self.versions(&original, place(index))?);
            }
            cells.push(real.report.clone());
        } else {
            let rows = self.config.rows.min..=self.config.rows.max;
            let kinds: Vec<(Question, usize)> =
                rows.flat_map(|rows| self.config.ops.iter().map(move |&op| (op, rows))).collect();
            for (at, kind) in spread(&vec![1.0; kinds.len()], originals).into_iter().enumerate() {
                let (op, rows) = kinds[kind];
                tasks.extend(self.versions(&self.drawn(op, rows, place(at).seed()), place(at))?);
                *made.entry((op, rows)).or_default() += 1;
            }
        }
        tasks.truncate(count);
        cells.extend(made.into_iter().map(|((op, rows), made)| {
            let cell = format!("op={} rows={rows}", op.name());
            CellReport::all(cell, made)
        }));
        Ok(TaskSet { tasks, cells })
    }

    fn environment(&self) -> Box<dyn Environment> {
        let rewards = self.config.rewards.clone();
        Box::new(OneTurn::new(ID, Truth::of, move |truth: &Truth, answer| {
            Ok(judge(truth, text_of(answer), &rewards))
        }))
    }

    fn files(&self) -> Vec<PathBuf> {
        self.real.as_ref().map(|real| real.files.clone()).unwrap_or_default()
    }

    fn evaluation_only(&self) -> Option<&'static str> {
        self.real.as_ref().filter(|real| real.is_test).map(|_| TEST_ONLY)
    }

    fn truth(task: &Task) -> Result<Truth, EnvError> {
        Truth::of(task)
    }

    fn show(&self, task: &Task, truth: Truth, answer: Option<&str>) -> String {
        let mut lines: Vec<String> = task.prompt.iter().map(|message| message.content.clone()).collect();
        lines.push(match truth.is_proxy() {
            true => format!("proxy, not a human standard: {} (answer: {})", truth.gold, truth.answer),
            false => format!("right: {} (answer: {})", truth.gold, truth.answer),
        });
        if let Some(answer) = answer {
            let verdict = judge(&truth, answer, &self.config.rewards);
            let judged = if verdict.success { "right" } else { "wrong" };
            lines.push(format!("said: {} ({judged})", answer.trim()));
            lines.extend(verdict.feedback);
        }
        lines.join("\n")
    }

    fn demonstrate(&self, _: &Task, truth: Truth) -> Option<Vec<Message>> {
        Some(vec![Message::assistant(truth.gold.to_string())])
    }

    fn cells(&self) -> Option<&dyn Cells> {
        Some(self)
    }
}

impl Cells for Sources {
    fn cells(&self, text: &str) -> Vec<Range<usize>> {
        cells(text).into_iter().map(|cell| cell.bytes).collect()
    }

    fn steps(&self, task: &Task, answer: &str) -> Option<Vec<CellStep>> {
        let truth = Truth::of(task).ok()?;
        let (rows, columns) = truth.size();
        let plan = Plan::parse(answer, rows, columns).ok()?;
        let mut right = truth.masks().into_iter();
        let mut at = 0;
        let texts = answer.split_inclusive(STEP_END).map(|text| {
            let start = at;
            at += text.len();
            start..start + text.trim_end_matches(STEP_END).len()
        });
        let step =
            |(text, step): (Range<usize>, Step)| CellStep { text, own: step.mask(), right: right.next() };
        Some(texts.zip(plan.0).map(step).collect())
    }

    fn outcome(&self, task: &Task, answer: &str) -> Option<String> {
        let truth = Truth::of(task).ok()?;
        let (rows, columns) = truth.size();
        execute(&Plan::parse(answer, rows, columns).ok()?, &truth.table).ok()
    }

    fn right_outcome(&self, task: &Task) -> Option<String> {
        Truth::of(task).ok().filter(|truth| !truth.is_proxy()).map(|truth| truth.answer)
    }

    fn original(&self, task: &Task) -> String {
        Truth::of(task).map_or_else(|_| task.id.0.clone(), |truth| truth.original)
    }
}
