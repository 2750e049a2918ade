//! MAPF-FrozenLake: several agents cross a frozen lake with holes to their goals, without collisions.
//!
//! The policy reads one board and writes the moves of all agents in one answer. Boards, rules and flags follow "From
//! Trainee to Trainer" (arXiv 2606.17682). That note does not define the cost of a plan; here it is the usual
//! objective of conflict-based search, the sum over the agents of the step of last arrival.
//!
//! ```text
//! config ─> propose (random, crossing, corridor) ─> cbs (solvable? optimal cost? needs a WAIT?) ─> Task
//! Task ─> format::prompt ─> policy ─> format::parse ─> simulate ─> Verdict
//! ```

mod board;
mod cbs;
mod config;
mod draw;
mod format;
mod generate;
mod grid;
mod joint;
mod play;
mod propose;
mod simulate;
mod space_time;
#[cfg(test)]
mod tests;

use crate::digest::digest;
use crate::one_turn::{OneTurn, text_of};
use crate::redesign::Knob;
use crate::tasks::task;
use crate::{Bound, Demonstrations, EnvError, Environment, Generator, Kind, Redesign, TaskSet};
use burnish_core::{Message, Task};

pub use board::{AGENTS_MAX, Board, BoardError, Cell, Move, Plan, SIZE_MAX, SIZE_MIN};
pub use cbs::{Outcome, Solution, analyse, solve};
pub use config::{AGENTS_MIN, HOLE_RATIO_MAX, MapfConfig, PromptStyle, RewardConfig, SizeConfig};
pub use format::{MOVES_MAX, answer, parse, prompt};
pub use generate::DRAWS_MAX;
pub use joint::{Optimum, optimum};
pub use play::Truth;
pub use simulate::{Trial, simulate};

const ID: &str = "mapf-frozenlake";

/// The environment's entry in the catalogue.
pub const KIND: Kind = Kind {
    id: ID,
    title: "multi-agent FrozenLake",
    summary: "Move several agents over a grid with holes to their goals, without collisions (single turn).",
    axes: None,
    defaults: || play::json(&MapfConfig::default()),
    build: |value| Ok(Box::new(Mapf::new(MapfConfig::read(value)?)?)),
};

/// The generator of MAPF-FrozenLake tasks.
#[derive(Debug, Clone)]
pub struct Mapf {
    config: MapfConfig,
}

impl Mapf {
    /// A generator of the boards that `config` describes.
    ///
    /// # Errors
    /// If a value of the configuration is out of range.
    pub fn new(config: MapfConfig) -> Result<Mapf, EnvError> {
        config.check()?;
        Ok(Mapf { config })
    }

    fn task(&self, instance: generate::Instance) -> Task {
        let generate::Instance { board, solution } = instance;
        let text = prompt(&board, self.config.prompt);
        let labels = [
            ("size", board.size().to_string()),
            ("agents", board.agents().to_string()),
            ("holes", board.holes().len().to_string()),
            ("wait", generate::yes_no(solution.needs_wait).to_owned()),
        ];
        let labels = labels.map(|(name, value)| (name.to_owned(), value)).into();
        let truth = play::json(&Truth { board, cost: solution.cost, plan: solution.plan });
        task(ID, digest(text.as_bytes()), vec![Message::user(text)], truth, labels)
    }
}

impl Generator for Mapf {
    fn id(&self) -> &'static str {
        ID
    }

    fn config(&self) -> serde_json::Value {
        play::json(&self.config)
    }

    fn components(&self) -> Option<Vec<String>> {
        Some(vec!["plan".to_owned()])
    }

    fn bounds(&self) -> Vec<Bound> {
        config::bounds()
    }

    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        let (instances, cells) = generate::instances(&self.config, seed, count)?;
        Ok(TaskSet { tasks: instances.into_iter().map(|instance| self.task(instance)).collect(), cells })
    }

    fn environment(&self) -> Box<dyn Environment> {
        let reward = self.config.reward.clone();
        Box::new(OneTurn::new(ID, Truth::of, move |truth, answer| {
            Ok(play::judge(truth, &reward, text_of(answer)).0)
        }))
    }

    fn draw(&self, task: &Task, answer: Option<&str>) -> String {
        let truth = match Truth::of(task) {
            Ok(truth) => truth,
            Err(error) => return format!("{error}\n"),
        };
        let Some(answer) = answer else {
            return format!("{}\nbest cost {}\n", draw::start(&truth.board), truth.cost);
        };
        let (verdict, trial) = play::judge(&truth, &self.config.reward, answer);
        let frames = trial
            .map_or_else(|| draw::start(&truth.board) + "\n", |trial| draw::frames(&truth.board, &trial));
        // Only an optimal plan has no feedback.
        match (verdict.success, verdict.feedback) {
            (false, feedback) => format!("{frames}invalid: {}\n", feedback.unwrap_or_default()),
            (true, Some(feedback)) => format!("{frames}valid: {feedback}\n"),
            (true, None) => format!("{frames}optimal: cost {}\n", truth.cost),
        }
    }

    fn demonstrations(&self) -> Option<&dyn Demonstrations> {
        Some(self)
    }

    fn redesign(&self) -> Option<&dyn Redesign> {
        Some(self)
    }
}

impl Redesign for Mapf {
    fn knobs(&self) -> Result<Vec<Knob>, EnvError> {
        Ok(config::knobs(&self.config))
    }

    fn guideline(&self) -> &'static str {
        "A policy learns from boards that it solves sometimes; boards that it always solves, or never, teach it nothing. \
         Larger boards need longer plans. More holes leave fewer ways, so agents meet more often. A board that needs a WAIT \
         forces one agent to give way. Keep some easy boards, so that what was learnt is not lost."
    }
}

impl Demonstrations for Mapf {
    fn demonstrate(&self, task: &Task) -> Option<Message> {
        let truth = Truth::of(task).ok()?;
        let frames = simulate(&truth.board, &truth.plan).frames;
        Some(Message::assistant(answer(&truth.plan, &frames)))
    }
}
