//! The generator of timed facts.

use burnish_core::rng::Stream;
use burnish_core::{Message, Task};
use burnish_verify::abstention;

use super::config::Config;
use super::draw::{Cell, draw};
use super::play::{Truth, judge, verdict};
use crate::family::{Drawn, Family, FamilyGenerator, tried};
use crate::one_turn::OneTurn;
use crate::settings::config_error;
use crate::{CellReport, EnvError, Environment, Hints, TaskSet};

/// Candidates drawn for one task before its cell is considered empty.
const DRAWS_MAX: usize = 1_000;

/// Makes tasks of timed facts.
pub type TimedFacts = FamilyGenerator<Config>;

impl Config {
    fn instance(
        &self,
        cell: Cell,
        stream: &mut Stream,
        report: &mut CellReport,
    ) -> Result<Drawn<Truth>, EnvError> {
        let drawn = report.draw(DRAWS_MAX, || draw(self, cell, stream).ok_or("no_gap"));
        let (facts, question) = drawn.ok_or_else(|| {
            let problem = format!(
                "no instance of the cell `{cell}` in {DRAWS_MAX} draws: no gap was wide enough; nearest: {}",
                self.years.last + 1
            );
            config_error("years.last", &problem)
        })?;
        let when = question.when.name();
        let truth = Truth { facts, question };
        Ok(Drawn::new(truth.prompt(self.prompt), truth)
            .label("answerable", if cell.is_answerable { "yes" } else { "no" })
            .label("difficulty", cell.difficulty())
            .label("question", when))
    }

    /// The cells of `count` tasks in order. In each prefix, the shares are met up to rounding.
    fn cells_of(&self, count: usize) -> Vec<Cell> {
        let Config { unanswerable, unknown, hard, .. } = *self;
        let mut unanswerable = Share::new(unanswerable);
        let [mut hard_answerable, mut hard_known, mut hard_unknown] = [hard; 3].map(Share::new);
        let mut unknown = Share::new(unknown);
        (0..count)
            .map(|_| {
                if !unanswerable.next() {
                    return Cell { is_answerable: true, is_hard: hard_answerable.next(), is_unknown: false };
                }
                let is_unknown = unknown.next();
                let is_hard = if is_unknown { hard_unknown.next() } else { hard_known.next() };
                Cell { is_answerable: false, is_hard, is_unknown }
            })
            .collect()
    }
}

/// Says yes so often that, for every `n`, it has done so `round(share * n)` times after `n` questions.
struct Share {
    share: f64,
    asked: f64,
}

impl Share {
    fn new(share: f64) -> Self {
        Share { share, asked: 0.0 }
    }

    fn next(&mut self) -> bool {
        let before = (self.share * self.asked).round();
        self.asked += 1.0;
        (self.share * self.asked).round() > before
    }
}

impl Family for Config {
    const ID: &str = "timed_facts";
    const TITLE: &str = "timed facts";
    const SUMMARY: &str =
        "Answer who held a role when, from stated facts, or say that no answer is known (single turn).";
    const COMPONENTS: &[&str] = &["answer", "format"];
    type Config = Self;
    type Truth = Truth;

    fn new(config: Self) -> Result<Self, EnvError> {
        config.check()?;
        Ok(config)
    }

    /// The shares of unanswerable, unknown and hard questions are met exactly up to rounding, also in each prefix of
    /// the set.
    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        let cells = self.cells_of(count);
        tried::<Self, _>(seed, cells, |cell, stream, report| self.instance(*cell, stream, report))
    }

    fn environment(&self) -> Box<dyn Environment> {
        let reward = self.reward;
        Box::new(OneTurn::new(Self::ID, Self::truth, move |truth: &Truth, answer| {
            let golds = truth.golds();
            Ok(verdict(&judge(&golds, answer), &reward, &golds))
        }))
    }

    fn show(&self, _: &Task, truth: Truth, answer: Option<&str>) -> String {
        let golds = truth.golds();
        let mut facts: Vec<_> = truth.facts.iter().collect();
        facts.sort_by_key(|fact| (&fact.entity, &fact.role, fact.from));
        let mut lines: Vec<String> = facts.into_iter().map(ToString::to_string).collect();
        lines.push(truth.question.to_string());
        lines.push(format!("gold: {}", golds.first().copied().unwrap_or(abstention::NO_ANSWER)));
        if let Some(answer) = answer {
            let verdict = verdict(&abstention::judge(&golds, answer), &self.reward, &golds);
            let earned: Vec<String> =
                verdict.rewards.iter().map(|(name, reward)| format!("{name} {reward}")).collect();
            let feedback = verdict.feedback.map(|text| format!("; {text}")).unwrap_or_default();
            lines.push(format!("judged: {}{feedback}", earned.join(", ")));
        }
        lines.join("\n")
    }

    fn demonstrate(&self, _: &Task, truth: Truth) -> Option<Vec<Message>> {
        Some(vec![Message::assistant(truth.demonstration())])
    }

    fn hints(&self) -> Option<&dyn Hints> {
        Some(self)
    }
}

impl Hints for Config {
    fn reasoning(&self, task: &Task) -> Option<String> {
        Some(Self::truth(task).ok()?.reasoning())
    }
}
