//! Sums: add a few numbers.

use burnish_core::rng::Stream;
use burnish_core::{Message, Task, Verdict};

use crate::family::{Drawn, Family, FamilyGenerator, configuration, drawn};
use crate::one_turn::{OneTurn, text_of};
use crate::settings::{Range, check_range};
use crate::{EnvError, Environment, Kind, TaskSet};

configuration! {
    /// The configuration of sums.
    pub struct Config {
        /// More of them are harder.
        terms: usize = 2, in 2..=9, "terms of a sum";
        values: Range<u64> = Range { min: 1, max: 9 }, in 0..=99, "least term" | "greatest term";
        sign: char = '+', "sign between terms";
        reward: Reward, "rewards of an answer";
    }
}

configuration! {
    /// The rewards of an answer.
    #[derive(Copy)]
    pub struct Reward {
        right: f64 = 1.0, in -1.0..=1.0, "reward of the right sum";
        wrong: f64 = 0.0, in -1.0..=1.0, "reward of any other answer";
    }
}

/// The environment's entry in the catalogue.
pub const KIND: Kind = FamilyGenerator::<Config>::KIND;

impl Config {
    fn draw(&self, stream: &mut Stream) -> Drawn<u64> {
        let Range { min, max } = self.values;
        let terms: Vec<u64> = (0..self.terms).map(|_| min + stream.below(max - min + 1)).collect();
        let prompt = terms.iter().map(u64::to_string).collect::<Vec<_>>().join(&self.sign.to_string());
        Drawn::new(&prompt, terms.iter().sum()).identified_by(prompt).label("terms", self.terms)
    }
}

impl Family for Config {
    const ID: &str = "sums";
    const TITLE: &str = "sums";
    const SUMMARY: &str = "Add a few numbers.";
    const COMPONENTS: &[&str] = &["sum"];
    type Config = Self;
    type Truth = u64;

    fn new(config: Self) -> Result<Self, EnvError> {
        check_range("values", config.values)?;
        Ok(config)
    }

    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        let cell = format!("terms={}", self.terms);
        drawn::<Self, _>(seed, vec![cell; count], |_, stream| self.draw(stream))
    }

    fn environment(&self) -> Box<dyn Environment> {
        let reward = self.reward;
        Box::new(OneTurn::new(Self::ID, Self::truth, move |truth: &u64, answer| {
            let success = text_of(answer).trim() == truth.to_string();
            Ok(Verdict {
                feedback: (!success).then(|| format!("The sum is {truth}.")),
                ..Verdict::scored("sum", if success { reward.right } else { reward.wrong }, success)
            })
        }))
    }

    fn demonstrate(&self, _: &Task, truth: u64) -> Option<Vec<Message>> {
        Some(vec![Message::assistant(truth.to_string())])
    }
}
