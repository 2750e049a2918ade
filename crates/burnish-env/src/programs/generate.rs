//! The generator of programming tasks.

use std::fmt;
use std::sync::Arc;

use burnish_core::rng::Stream;
use burnish_core::{Message, Task};
use burnish_sandbox::Border;

use super::Truth;
use super::config::Config;
use super::play::Judge;
use super::steps::{End, Step, shown};
use crate::code::COMPONENTS;
use crate::family::{Drawn, Family, tried};
use crate::one_turn::{OneTurn, text_of};
use crate::settings::config_error;
use crate::{CellReport, EnvError, Environment, TaskSet};

/// Candidates drawn for one task before its cell is considered empty.
const DRAWS_MAX: usize = 1_000;

/// Programming tasks, and the sandbox that runs answers.
#[derive(Debug, Clone)]
pub struct Programs {
    config: Config,
    judge: Judge,
}

/// A number of steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cell(u32);

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "steps={}", self.0)
    }
}

/// A chain of steps, with what its program returns for some lists.
struct Chain {
    steps: Vec<Step>,
    end: End,
    tests: Vec<(Vec<i64>, String)>,
}

impl Programs {
    /// A chain of `count` steps, all of which matter; counts the candidates.
    fn draw_chain(
        &self,
        count: u32,
        stream: &mut Stream,
        report: &mut CellReport,
    ) -> Result<Chain, EnvError> {
        let made = report.draw(DRAWS_MAX, || {
            let steps: Vec<Step> = (0..count).map(|_| Step::draw(stream, self.config.values)).collect();
            let end = End::ALL[stream.index(End::ALL.len())];
            let tests = self.tests(&steps, end, stream);
            let tests =
                tests.filter(|tests| each_matters(&steps, end, tests)).ok_or("a step without effect")?;
            Ok(Chain { steps, end, tests })
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
}

fn task(chain: &Chain) -> Drawn<Truth> {
    let words: Vec<String> = chain.steps.iter().map(|step| step.words()).collect();
    let prompt = format!("Write f(xs): {}, return {}", words.join(", "), chain.end.words());
    let test = |(list, result): &(Vec<i64>, String)| format!("assert f({}) == {result}", shown(list));
    let tests = chain.tests.iter().map(test).collect();
    // The name is that of what is asked: other tests of the same chain are the same task.
    Drawn::new(&prompt, Truth { program: program(&chain.steps, chain.end), tests })
        .identified_by(prompt)
        .label("steps", chain.steps.len())
        .label("returns", chain.end.words())
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

impl Family for Programs {
    const ID: &str = "programs";
    const TITLE: &str = "writing small programs";
    const SUMMARY: &str = "A Python function on a list, described in words and judged by running it.";
    const AXES: Option<[&'static str; 2]> = Some(["steps", "returns"]);
    const COMPONENTS: &[&str] = &COMPONENTS;
    type Config = Config;
    type Truth = Truth;

    /// Starts no sandbox yet.
    fn new(config: Config) -> Result<Self, EnvError> {
        config.check()?;
        let judge = Judge { border: Arc::new(Border::new(&config.sandbox)), limits: config.limits };
        Ok(Programs { config, judge })
    }

    fn ready(&self) -> Result<(), EnvError> {
        self.judge.border.ready().map_err(|error| EnvError::Failed(error.to_string()))
    }

    /// Numbers of steps take turns. The same chain may occur twice, as the same task with the tests of its first
    /// occurrence.
    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        let cells = (self.config.steps.min..=self.config.steps.max).map(Cell);
        let set = tried::<Self, _>(seed, cells.clone().cycle().take(count), |cell, stream, report| {
            Ok(task(&self.draw_chain(cell.0, stream, report)?))
        });
        Ok(set?.unified().reporting(cells))
    }

    fn environment(&self) -> Box<dyn Environment> {
        let judge = self.judge.clone();
        let verdict =
            move |truth: &Truth, answer: Option<&Message>| Ok(judge.verdict(truth, text_of(answer)));
        Box::new(OneTurn::new(Self::ID, Self::truth, verdict).slow())
    }

    fn show(&self, task: &Task, truth: Truth, answer: Option<&str>) -> String {
        let asked = task.prompt.iter().map(|message| message.content.as_str()).collect::<Vec<_>>().join("\n");
        let mut drawn = format!("{asked}\n{}", truth.tests.join("\n"));
        if let Some(answer) = answer {
            let verdict = self.judge.verdict(&truth, answer);
            let feedback = verdict.feedback.unwrap_or_else(|| "passes every test".into());
            drawn.push_str(&format!("\n{answer}\n{feedback}"));
        }
        drawn
    }

    fn demonstrate(&self, _: &Task, truth: Truth) -> Option<Vec<Message>> {
        Some(vec![Message::assistant(truth.program)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::FamilyGenerator;

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
            let drawn = programs().draw_chain(3, &mut Stream::new(seed), &mut report).unwrap();
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
        let refused = |config| FamilyGenerator::<Programs>::new(config).unwrap_err().to_string();
        let steps = super::super::Range { min: 3, max: 2 };
        assert!(refused(Config { steps, ..Config::default() }).contains("steps"));
        assert!(refused(Config { tests: 0, ..Config::default() }).contains("tests"));
    }
}
