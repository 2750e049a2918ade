//! The generator of programming tasks.

use std::collections::BTreeMap;
use std::sync::Arc;

use burnish_core::rng::Stream;
use burnish_core::{Message, Task};
use burnish_sandbox::Border;

use super::config::{BOUNDS, Config};
use super::play::{Judge, truth_of};
use super::steps::{End, Step, shown};
use super::{ID, Truth};
use crate::code::COMPONENTS;
use crate::digest::digest;
use crate::one_turn::{OneTurn, text_of};
use crate::settings::{config_error, to_value};
use crate::tasks::{seed_of, task, unify};
use crate::{CellReport, Demonstrations, EnvError, Environment, Generator, TaskSet};

/// Candidates drawn for one task before its cell is considered empty.
const DRAWS_MAX: usize = 1_000;

/// Makes programming tasks, and runs what is answered.
#[derive(Debug)]
pub struct Programs {
    config: Config,
    judge: Judge,
}

/// A chain of steps, with what its program returns for some lists.
struct Drawn {
    steps: Vec<Step>,
    end: End,
    tests: Vec<(Vec<i64>, String)>,
}

impl Programs {
    /// A generator with this configuration. No sandbox is started yet.
    ///
    /// # Errors
    /// If a key is out of bounds or contradicts another.
    pub fn new(config: Config) -> Result<Self, EnvError> {
        config.check()?;
        let judge = Judge { border: Arc::new(Border::new(&config.sandbox)), limits: config.limits };
        Ok(Programs { config, judge })
    }

    /// A chain of `count` steps, all of which matter; counts the candidates.
    fn draw_chain(&self, count: u32, seed: u64, report: &mut CellReport) -> Result<Drawn, EnvError> {
        let mut stream = Stream::new(seed);
        let made = report.draw(DRAWS_MAX, || {
            let steps: Vec<Step> = (0..count).map(|_| Step::draw(&mut stream, self.config.values)).collect();
            let end = End::ALL[stream.index(End::ALL.len())];
            let tests = self.tests(&steps, end, &mut stream);
            let tests =
                tests.filter(|tests| each_matters(&steps, end, tests)).ok_or("a step without effect")?;
            Ok(Drawn { steps, end, tests })
        });
        made.ok_or_else(|| {
            let none = format!("no chain of {count} steps in which each matters in {DRAWS_MAX} draws");
            config_error("steps.max", &format!("{none}: take fewer, or more `tests`"))
        })
    }

    fn tests(&self, steps: &[Step], end: End, stream: &mut Stream) -> Option<Vec<(Vec<i64>, String)>> {
        (0..self.config.tests)
            .map(|_| {
                let list: Vec<i64> = (0..4 + stream.below(4)).map(|_| whole(stream.below(25)) - 6).collect();
                let result = end.of(&run(steps, list.clone()))?;
                Some((list, result))
            })
            .collect()
    }

    fn task(&self, drawn: &Drawn) -> Result<Task, EnvError> {
        let words: Vec<String> = drawn.steps.iter().map(|step| step.words()).collect();
        let prompt = format!("Write f(xs): {}, return {}", words.join(", "), drawn.end.words());
        let tests = drawn
            .tests
            .iter()
            .map(|(list, result)| format!("assert f({}) == {result}", shown(list)))
            .collect();
        let truth = Truth { program: program(&drawn.steps, drawn.end), tests };
        let labels = BTreeMap::from([
            ("steps".to_owned(), drawn.steps.len().to_string()),
            ("returns".to_owned(), drawn.end.words().to_owned()),
        ]);
        // The name is that of what is asked: other tests of the same chain are the same task.
        Ok(task(ID, digest(prompt.as_bytes()), vec![Message::user(prompt)], to_value(&truth)?, labels))
    }
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or_default()
}

fn run(steps: &[Step], list: Vec<i64>) -> Vec<i64> {
    steps.iter().fold(list, |list, step| step.apply(list))
}

/// Does leaving out any one step fail a test?
fn each_matters(steps: &[Step], end: End, tests: &[(Vec<i64>, String)]) -> bool {
    (0..steps.len()).all(|left_out| {
        let mut fewer = steps.to_vec();
        fewer.remove(left_out);
        tests.iter().any(|(list, result)| end.of(&run(&fewer, list.clone())).as_ref() != Some(result))
    })
}

/// A right program.
fn program(steps: &[Step], end: End) -> String {
    let lines: String = steps.iter().map(|step| format!("    xs = {}\n", step.python())).collect();
    format!("def f(xs):\n{lines}    return {}", end.python())
}

impl Generator for Programs {
    crate::configured!(ID, BOUNDS);

    fn components(&self) -> Option<Vec<String>> {
        Some(COMPONENTS.map(str::to_owned).into())
    }

    fn ready(&self) -> Result<(), EnvError> {
        self.judge.border.ready().map_err(|error| EnvError::Failed(error.to_string()))
    }

    /// Numbers of steps take turns. The same chain may occur twice, as the same task: with the tests of its first
    /// occurrence, because an id stands for one content.
    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        let counts: Vec<u32> = (self.config.steps.min..=self.config.steps.max).collect();
        let mut cells: Vec<CellReport> =
            counts.iter().map(|count| CellReport::new(format!("steps={count}"))).collect();
        let mut tasks = Vec::with_capacity(count);
        for index in 0..count {
            let at = index % counts.len();
            tasks.push(self.task(&self.draw_chain(counts[at], seed_of(seed, index), &mut cells[at])?)?);
        }
        unify(&mut tasks);
        Ok(TaskSet { tasks, cells })
    }

    fn environment(&self) -> Box<dyn Environment> {
        let judge = self.judge.clone();
        let verdict =
            move |truth: &Truth, answer: Option<&Message>| Ok(judge.verdict(truth, text_of(answer)));
        Box::new(OneTurn::new(ID, truth_of, verdict).slow())
    }

    fn draw(&self, task: &Task, answer: Option<&str>) -> String {
        let truth = match truth_of(task) {
            Ok(truth) => truth,
            Err(error) => return error.to_string(),
        };
        let asked = task.prompt.iter().map(|message| message.content.as_str()).collect::<Vec<_>>().join("\n");
        let mut drawn = format!("{asked}\n{}", truth.tests.join("\n"));
        if let Some(answer) = answer {
            let verdict = self.judge.verdict(&truth, answer);
            let feedback = verdict.feedback.unwrap_or_else(|| "passes every test".into());
            drawn.push_str(&format!("\n{answer}\n{feedback}"));
        }
        drawn
    }

    fn demonstrations(&self) -> Option<&dyn Demonstrations> {
        Some(self)
    }
}

impl Demonstrations for Programs {
    fn demonstrate(&self, task: &Task) -> Option<Message> {
        Some(Message::assistant(truth_of(task).ok()?.program))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs() -> Programs {
        Programs::new(Config::default()).unwrap()
    }

    #[test]
    fn the_same_seed_makes_the_same_tasks_and_another_makes_others() {
        let tasks = |seed| programs().tasks(seed, 60).unwrap().tasks;
        assert_eq!(tasks(1), tasks(1));
        assert_ne!(tasks(1), tasks(2));
        for steps in ["1", "2", "3"] {
            assert_eq!(tasks(1).iter().filter(|task| task.labels["steps"] == steps).count(), 20);
        }
    }

    #[test]
    fn a_chain_that_forgets_a_step_fails_a_test() {
        let mut report = CellReport::default();
        for seed in 0..200 {
            let drawn = programs().draw_chain(3, seed, &mut report).unwrap();
            for left_out in 0..3 {
                let mut fewer = drawn.steps.clone();
                fewer.remove(left_out);
                let results = |steps: &[Step]| -> Vec<Option<String>> {
                    drawn.tests.iter().map(|(list, _)| drawn.end.of(&run(steps, list.clone()))).collect()
                };
                assert_ne!(results(&fewer), results(&drawn.steps), "{:?}", drawn.steps);
            }
        }
        assert!(report.drawn > report.made, "nothing was ever dropped: {report:?}");
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let refused = |config: Config| Programs::new(config).unwrap_err().to_string();
        let steps = super::super::Range { min: 3, max: 2 };
        assert!(refused(Config { steps, ..Config::default() }).contains("steps"));
        assert!(refused(Config { tests: 0, ..Config::default() }).contains("tests"));
    }
}
