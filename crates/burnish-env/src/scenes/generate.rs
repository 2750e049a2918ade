//! The generator of scenes.

use burnish_core::rng::Stream;
use burnish_core::{Message, Task};

use super::ID;
use super::config::{Config, Questions};
use super::draw::{Cell, draw};
use super::scene::{Question, Truth};
use crate::family::{Drawn, Family, FamilyGenerator, drawn};
use crate::one_turn::{OneTurn, text_of};
use crate::shares::spread;
use crate::{EnvError, Environment, TaskSet};

/// Makes tasks about scenes.
pub type Scenes = FamilyGenerator<Config>;

impl Config {
    /// The cells of `count` tasks in order.
    fn cells_of(&self, count: usize) -> Vec<Cell> {
        let Questions { present, colour, caption } = self.questions;
        let usual = self.usual;
        // Eight kinds: yes or no, the usual colour or not, of each question that has them.
        let kinds: Vec<(Cell, f64)> = [(0, present), (1, colour), (2, caption)]
            .into_iter()
            .flat_map(|(question, weight)| {
                let answers = if question == 0 { vec![true, false] } else { vec![true] };
                let each = weight / answers.len() as f64;
                answers.into_iter().flat_map(move |is_yes| {
                    let cell = |is_usual| Cell { question, is_usual, is_yes };
                    [(cell(true), each * usual), (cell(false), each * (1.0 - usual))]
                })
            })
            .collect();
        let weights: Vec<f64> = kinds.iter().map(|(_, weight)| *weight).collect();
        spread(&weights, count).into_iter().map(|kind| kinds[kind].0).collect()
    }

    fn task(&self, cell: Cell, stream: &mut Stream) -> Drawn<Truth> {
        let truth = draw(self, cell, stream);
        let answer = match truth.question {
            Question::Present(_) => Some(truth.answer()),
            _ => None,
        };
        let question = truth.question.name();
        let task = Drawn::new(truth.prompt(), truth).label("question", question).label("prior", cell.prior());
        match answer {
            Some(answer) => task.label("answer", answer),
            None => task,
        }
    }
}

impl Family for Config {
    const ID: &str = ID;
    const TITLE: &str = "scenes";
    const SUMMARY: &str = "Answer questions about a toy image whose objects mostly look as usual, or against that (single turn).";
    const AXES: Option<[&'static str; 2]> = Some(["question", "prior"]);
    const COMPONENTS: &[&str] = &["answer"];
    type Config = Self;
    type Truth = Truth;

    fn new(config: Self) -> Result<Self, EnvError> {
        config.check()?;
        Ok(config)
    }

    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        drawn::<Self, _>(seed, self.cells_of(count), |cell, stream| self.task(*cell, stream))
    }

    fn environment(&self) -> Box<dyn Environment> {
        let verdict = |truth: &Truth, answer: Option<&Message>| Ok(truth.verdict(text_of(answer)));
        Box::new(OneTurn::new(Self::ID, Self::truth, verdict))
    }

    fn truth(task: &Task) -> Result<Truth, EnvError> {
        Truth::of(task)
    }

    fn show(&self, _: &Task, truth: Truth, answer: Option<&str>) -> String {
        let mut lines = vec![truth.prompt(), format!("right: {}", truth.answer())];
        if let Some(answer) = answer {
            let verdict = truth.verdict(answer);
            let judged = if verdict.success { "right" } else { "wrong" };
            lines.push(format!("said: {} ({judged})", answer.trim()));
        }
        lines.join("\n")
    }

    fn demonstrate(&self, _: &Task, truth: Truth) -> Option<Vec<Message>> {
        Some(vec![Message::assistant(truth.answer())])
    }
}
