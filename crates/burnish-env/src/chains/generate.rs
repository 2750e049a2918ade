//! The generator of chains.

use burnish_core::rng::{self, Address, Purpose, Stream};
use burnish_core::{Message, Task, TaskId};
use std::collections::BTreeMap;

use super::answer::{stated, work};
use super::config::{BOUNDS, Config};
use super::draw::{Cell, cells, draw};
use super::facts::Facts;
use super::judge::{Style, judge};
use super::problem::{Direction, Move, Operand, Operator, Part, Problem, Step, TaskKind, carry_out};
use super::{ID, Truth, answer_text, language};
use crate::digest::digest;
use crate::lang::{LANGUAGE, RESOURCE};
use crate::one_turn::{OneTurn, text_of};
use crate::settings::{config_error, to_value};
use crate::tasks::seed_of;
use crate::{
    CellReport, Demonstrations, EnvError, Environment, Generator, Hints, Reversible, Skills, TaskSet,
};

/// Candidates drawn for one task before its cell is considered empty.
const DRAWS_MAX: usize = 1_000;
/// Candidates that are skipped because the set already has them, before one is taken twice.
const REPEATS_MAX: usize = 8;

/// Properties that a task's name alone decides.
#[derive(Clone, Copy)]
enum Decision {
    DemonstrationIsWrong = 1,
    SkillIsWrong = 2,
    Slip = 3,
    SkillSlip = 4,
    DraftIsWrong = 5,
    DraftSlip = 6,
}

/// What a prompt shows besides its task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Shows {
    skill: bool,
    draft: bool,
}

/// Makes chains.
#[derive(Debug, Clone)]
pub struct Chains {
    config: Config,
    facts: Facts,
}

impl Chains {
    /// A generator with this configuration.
    ///
    /// # Errors
    /// If a key is out of bounds or contradicts another.
    pub fn new(config: Config) -> Result<Self, EnvError> {
        config.check()?;
        let facts = Facts::new(config.facts);
        Ok(Chains { config, facts })
    }

    /// The table of facts.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The truth of a problem; `recovers` is the answer itself if `None`.
    fn truth(&self, problem: Problem, recovers: Option<u64>) -> Truth {
        let answer = match (problem.kind, problem.direction) {
            (TaskKind::Recall, Direction::Reverse { stated, .. }) => self.facts.name_of(stated),
            (TaskKind::Recall, Direction::Forward) => {
                problem.operands.first().and_then(|fact| self.facts.value_of(fact.name?))
            }
            _ => problem.solution(),
        };
        Truth { recovers: recovers.or(answer).unwrap_or_default(), problem, answer }
    }

    fn task(&self, truth: &Truth, shows: Shows) -> Result<Task, EnvError> {
        let problem = &truth.problem;
        let bare = language::write(problem.language, &problem.prompt());
        let mut prompt = bare.clone();
        let mut id = name(truth)?;
        if shows.skill {
            prompt = format!("{prompt}\n{}", self.skill_of(truth)?);
        }
        if shows.draft {
            prompt = format!("{prompt}\n{}\n{bare}", self.drafts_of(truth)?);
        }
        if shows != Shows::default() {
            id = format!("{ID}/{}", digest(format!("{id}\n{prompt}").as_bytes()));
        }
        let (language, resource) = self.config.language(problem.language);
        let labels = [
            ("kind", problem.kind.name().to_owned()),
            ("direction", problem.direction.name().to_owned()),
            (LANGUAGE, language),
            (RESOURCE, resource.name().to_owned()),
            ("steps", problem.operations.len().to_string()),
        ];
        Ok(Task {
            id: TaskId(id),
            environment: ID.to_owned(),
            prompt: vec![Message::user(prompt)],
            truth: to_value(truth)?,
            labels: BTreeMap::from(labels.map(|(key, value)| (key.to_owned(), value))),
        })
    }

    /// Draws one task of a cell that is not in `known`, if one comes up soon, and counts the candidates.
    fn instance(
        &self,
        cell: Cell,
        seed: u64,
        known: &BTreeMap<TaskId, Task>,
        report: &mut CellReport,
    ) -> Result<Task, EnvError> {
        let mut stream = Stream::new(seed);
        let mut repeated = None;
        let mut repeats = 0;
        for _ in 0..DRAWS_MAX {
            report.drawn += 1;
            let Some(problem) = draw(&self.config, &self.facts, cell, &mut stream) else {
                *report.dropped.entry("no_operation".to_owned()).or_default() += 1;
                continue;
            };
            let mut truth = self.truth(problem, None);
            if cell.is_reverse {
                let answer = truth.answer.unwrap_or_default();
                truth = self.turned(&truth, answer);
            }
            let task = self.task(&truth, Shows { skill: cell.shows_skill, draft: cell.shows_draft })?;
            if !known.contains_key(&task.id) {
                report.made += 1;
                return Ok(task);
            }
            repeats += 1;
            repeated = Some(task);
            if repeats > REPEATS_MAX {
                break;
            }
            *report.dropped.entry("repeated".to_owned()).or_default() += 1;
        }
        if let Some(task) = repeated {
            report.made += 1;
            return Ok(task);
        }
        let problem = format!(
            "no instance of the cell `{cell}` in {DRAWS_MAX} draws: no operation keeps every result within {} to {}; \
             allow more operations, a wider range of results or values, or fewer steps (nearest: {})",
            self.config.results.min,
            self.config.results.max,
            cell.steps.saturating_sub(1).max(1)
        );
        Err(config_error("steps.max", &problem))
    }

    /// The truth of the reversed task with this answer stated.
    fn turned(&self, truth: &Truth, answer: u64) -> Truth {
        let mut problem = truth.problem.clone();
        match problem.direction {
            Direction::Forward => {
                let masked = problem.mask();
                let hidden =
                    problem.operands.get(masked).copied().unwrap_or(Operand { value: 0, name: None });
                let recovers = match (problem.kind, hidden.name) {
                    (TaskKind::Recall, Some(name)) => name,
                    _ => hidden.value,
                };
                problem.direction = Direction::Reverse { masked, stated: answer };
                self.truth(problem, Some(recovers))
            }
            Direction::Reverse { masked, stated } => {
                problem.direction = Direction::Forward;
                if answer != truth.recovers
                    && let Some(filled) = problem.operands.get_mut(masked)
                {
                    *filled = match problem.kind {
                        TaskKind::Recall => Operand {
                            value: self.facts.value_of(answer).unwrap_or_default(),
                            name: Some(answer),
                        },
                        TaskKind::Chain | TaskKind::Memorised => Operand { value: answer, name: None },
                    };
                }
                self.truth(problem, Some(stated))
            }
        }
    }

    /// The steps and the final answer of the task's demonstration, right or wrong as its name decides. `None` if the
    /// task has no answer.
    fn demonstration(&self, truth: &Truth) -> Option<(Vec<Step>, u64)> {
        let is_wrong =
            chance(&name(truth).ok()?, Decision::DemonstrationIsWrong) < self.config.demonstration_errors;
        let slip = bits(&name(truth).ok()?, Decision::Slip);
        self.attempt(truth, is_wrong.then_some(slip))
    }

    /// The steps and the final answer of an attempt, with one slip that the bits of `slip` choose, if they are given.
    /// `None` if the task has no answer.
    fn attempt(&self, truth: &Truth, slip: Option<u64>) -> Option<(Vec<Step>, u64)> {
        let right = truth.answer?;
        let moves = truth.problem.plan();
        let steps = carry_out(&moves, None)?;
        let Some(bits) = slip else { return Some((steps, right)) };
        let slip = 1 + bits % 3;
        // The low bits choose the size, the others the sign.
        let wrong = |value: u64| if bits & 4 == 4 && value >= slip { value - slip } else { value + slip };
        if steps.is_empty() {
            return Some((steps, wrong(right)));
        }
        // Starting from a step that the name decides, the first whose slip can be carried on to a wrong answer; the
        // last step always can.
        let first = (bits >> 8) as usize % steps.len();
        (first..steps.len()).find_map(|at| {
            let slipped = carry_out(&moves, Some((at, wrong(steps[at].result))))?;
            let answer = slipped.last()?.result;
            (answer != right).then_some((slipped, answer))
        })
    }

    /// What a prompt shows of attempts, each right as often as wrong, in the task's language: the beginning of one, at least
    /// one sign long, or all of several, each from its own line on. Empty if the task has no work to show.
    fn drafts_of(&self, truth: &Truth) -> Result<String, EnvError> {
        let own = name(truth)?;
        let text = if self.config.drafts == 1 {
            let work = self.attempt_by(truth, &own);
            let length = 1 + bits(&own, Decision::DraftIsWrong) as usize % work.chars().count().max(1);
            work.chars().take(length).collect()
        } else {
            let by_number = |number| self.attempt_by(truth, &format!("{own}#{number}"));
            (0..self.config.drafts).map(by_number).collect::<Vec<_>>().join("\n")
        };
        Ok(language::write(truth.problem.language, &text))
    }

    /// An attempt that is right as often as wrong, as `name` decides.
    fn attempt_by(&self, truth: &Truth, name: &str) -> String {
        let is_wrong = chance(name, Decision::DraftIsWrong) < 0.5;
        let attempt = self.attempt(truth, is_wrong.then_some(bits(name, Decision::DraftSlip)));
        attempt.map(|(steps, answer)| answer_text(&steps, answer)).unwrap_or_default()
    }

    /// The skill in the task's language.
    fn skill_of(&self, truth: &Truth) -> Result<String, EnvError> {
        let problem = &truth.problem;
        let name = name(truth)?;
        let is_wrong = chance(&name, Decision::SkillIsWrong) < self.config.skill_errors;
        let bits = bits(&name, Decision::SkillSlip);
        let plain = if let (TaskKind::Recall, Some(fact)) = (problem.kind, problem.operands.first()) {
            let value = fact.value + if is_wrong { 1 + bits % 3 } else { 0 };
            format!("@{}={value}", fact.name.unwrap_or_default())
        } else {
            let mut plan = problem.plan();
            let at = (bits >> 8) as usize % plan.len().max(1);
            if let Some(one) = plan.get_mut(at).filter(|_| is_wrong) {
                let others: Vec<Operator> =
                    Operator::ALL.into_iter().filter(|other| *other != one.operator).collect();
                one.operator = others[bits as usize % others.len()];
            }
            plan.iter().map(move_text).collect::<Vec<_>>().join(" ")
        };
        Ok(language::write(problem.language, &plain))
    }
}

/// A move in plain signs; `?` stands for the result of an earlier move.
fn move_text(Move { left, operator, right }: &Move) -> String {
    let text = |part: &Part| match part {
        Part::Number(value) => value.to_string(),
        Part::Result(_) => "?".to_owned(),
    };
    format!("{}{}{}", text(left), operator.sign(), text(right))
}

/// The name of a task, from its content without the skill or draft that its prompt may show.
pub(super) fn name(truth: &Truth) -> Result<String, EnvError> {
    Ok(format!("{ID}/{}", digest(to_value(truth)?.to_string().as_bytes())))
}

fn seed(name: &str, decision: Decision) -> u64 {
    let place = Address { stage: decision as u64, ..Address::new(0, Purpose::Perturb) };
    rng::fold_bytes(place.seed(), name.as_bytes())
}

fn chance(name: &str, decision: Decision) -> f64 {
    rng::uniform(seed(name, decision), 0)
}

fn bits(name: &str, decision: Decision) -> u64 {
    rng::bits(seed(name, decision), 1)
}

impl Generator for Chains {
    crate::configured!(ID, BOUNDS);

    fn components(&self) -> Option<Vec<String>> {
        Some(self.config.rewards.iter().map(|component| component.name().to_owned()).collect())
    }

    /// In a small space the same task may occur twice, with the labels of its first occurrence.
    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        let mut reports: BTreeMap<String, CellReport> = BTreeMap::new();
        let mut known: BTreeMap<TaskId, Task> = BTreeMap::new();
        let mut tasks = Vec::with_capacity(count);
        for (index, cell) in cells(&self.config, seed, count).into_iter().enumerate() {
            let name = cell.to_string();
            let report = reports.entry(name.clone()).or_insert_with(|| CellReport::new(name));
            let task = self.instance(cell, seed_of(seed, index), &known, report)?;
            let task = known.entry(task.id.clone()).or_insert(task).clone();
            tasks.push(task);
        }
        Ok(TaskSet { tasks, cells: reports.into_values().collect() })
    }

    fn environment(&self) -> Box<dyn Environment> {
        let (rewards, correlation) = (self.config.rewards.clone(), self.config.style_correlation);
        Box::new(OneTurn::new(ID, Truth::of, move |truth: &Truth, answer| {
            let text = text_of(answer);
            Ok(judge(truth, text).verdict(&rewards, Style { correlation, name: &name(truth)? }, text))
        }))
    }

    fn draw(&self, task: &Task, answer: Option<&str>) -> String {
        let truth = match Truth::of(task) {
            Ok(truth) => truth,
            Err(error) => return error.to_string(),
        };
        let mut lines = vec![truth.problem.prompt()];
        let steps = truth.answer.and_then(|_| carry_out(&truth.problem.plan(), None)).unwrap_or_default();
        lines.extend(steps.iter().map(Step::to_string));
        lines.push(
            truth.answer.map_or_else(|| "no answer is right".to_owned(), |right| format!("answer {right}")),
        );
        if let Some(text) = answer {
            let finding = judge(&truth, text);
            lines.push(match finding.value {
                Some(value) => format!("given {value}"),
                None => "given no answer".to_owned(),
            });
            lines.push(finding.feedback().unwrap_or_else(|| "solved".to_owned()));
        }
        lines.join("\n")
    }

    fn demonstrations(&self) -> Option<&dyn Demonstrations> {
        Some(self)
    }

    fn hints(&self) -> Option<&dyn Hints> {
        Some(self)
    }

    fn skills(&self) -> Option<&dyn Skills> {
        Some(self)
    }

    fn reversible(&self) -> Option<&dyn Reversible> {
        Some(self)
    }
}

impl Demonstrations for Chains {
    /// Wrong for the share `demonstration_errors` of the tasks.
    fn demonstrate(&self, task: &Task) -> Option<Message> {
        let truth = Truth::of(task).ok()?;
        let (steps, answer) = self.demonstration(&truth)?;
        Some(Message::assistant(language::write(truth.problem.language, &answer_text(&steps, answer))))
    }
}

impl Hints for Chains {
    /// The work, including its last line break; in the demonstration it is followed by the line of the final answer.
    fn reasoning(&self, task: &Task) -> Option<String> {
        let truth = Truth::of(task).ok()?;
        let (steps, _) = self.demonstration(&truth)?;
        (!steps.is_empty()).then(|| language::write(truth.problem.language, &work(&steps)))
    }
}

impl Skills for Chains {
    /// The operations in the order in which they are to be done, with `?` for the result of an earlier one and with the
    /// values of memorised names (`7+5 ?-3`); for a recall, its fact (`@4=31`). Wrong in one place for the share
    /// `skill_errors` of the tasks.
    fn skill(&self, task: &Task) -> Option<String> {
        self.skill_of(&Truth::of(task).ok()?).ok()
    }
}

impl Reversible for Chains {
    /// The numbers of a forward task decide which operand is masked. The answer is the last final answer, or the whole
    /// text if that is a number. A reverse task, filled in with the masked number, is the forward task that it came
    /// from.
    fn reverse(&self, task: &Task, answer: &str) -> Option<Task> {
        let truth = Truth::of(task).ok()?;
        let turned = self.turned(&truth, stated(answer)?);
        self.task(&turned, Shows::default()).ok()
    }

    fn counterpart(&self, task: &Task) -> Option<Task> {
        let truth = Truth::of(task).ok()?;
        let turned = self.turned(&truth, truth.answer?);
        self.task(&turned, Shows::default()).ok()
    }
}
