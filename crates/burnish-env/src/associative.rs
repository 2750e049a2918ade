//! Associative recall: keys are bound to values once, some are bound again, and then the policy is asked for keys, one
//! per turn.
//!
//! It measures what a memory of fixed size can hold (multi-query associative recall, Arora et al. 2023,
//! arXiv:2312.04927), what it can replace (`rewrites`), whether it can replace a part of what it holds (`parts_kept`),
//! and whether it can tell keys that share parts (`key_parts`). Prompts have no words, so that the smallest policies can
//! read them. `docs/environments/associative.md`.

use burnish_core::rng::Stream;
use burnish_core::{Message, Task, Verdict};
use serde::{Deserialize, Serialize};

use crate::family::{Drawn, Family, FamilyGenerator, configuration, drawn};
use crate::many_turns::{Asked, ManyTurns, Questions};
use crate::settings::at_most;
use crate::tasks::{foreign, read};
use crate::{EnvError, Environment, Kind, TaskSet};

configuration! {
    /// The configuration of tasks of associative recall.
    #[derive(Eq)]
    pub struct Config {
        pairs: usize = 8, in 1..=512, "keys that are bound";
        /// Each has a turn of its own; at most `pairs`.
        queries: usize = 4, in 1..=512, "keys that are asked for";
        /// At most `pairs`, each of another key.
        rewrites: usize = 0, in 0..=512, "bindings of keys that are bound already";
        /// Keys of two letters share them with other keys.
        key_parts: usize = 1, in 1..=3, "letters of a key";
        letters: usize = 26, in 1..=26, "different letters";
        value_parts: usize = 1, in 1..=4, "digits of a value";
        digits: usize = 10, in 2..=10, "different digits";
        /// They are written `-`. Below `value_parts`.
        parts_kept: usize = 0, in 0..=3, "digits of a value that a rewrite keeps";
    }
}

/// Makes tasks of associative recall.
pub type Associative = FamilyGenerator<Config>;

/// The environment's entry in the catalogue.
pub const KIND: Kind = Associative::KIND;

/// The truth of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truth {
    /// The keys that are asked for, in order; the first is in the prompt.
    keys: Vec<String>,
    /// The final value of each of them.
    values: Vec<String>,
    /// For each of them: is it bound more than once?
    rewritten: Vec<bool>,
}

/// A digit that a rewrite keeps, as it is written.
const KEPT: char = '-';

impl Config {
    /// Different keys.
    fn keys(&self) -> usize {
        // Bounds keep both small.
        self.letters.pow(self.key_parts as u32)
    }

    fn key(&self, mut number: usize) -> String {
        let letter = |_| {
            let letter = char::from(b'a' + (number % self.letters) as u8);
            number /= self.letters;
            letter
        };
        (0..self.key_parts).map(letter).collect()
    }

    /// Digits, of which those in `kept` are left as they are.
    fn digits(&self, kept: &[usize], stream: &mut Stream) -> Vec<char> {
        let mut digit = |part| match kept.contains(&part) {
            true => KEPT,
            false => char::from(b'0' + stream.index(self.digits) as u8),
        };
        (0..self.value_parts).map(&mut digit).collect()
    }

    fn draw(&self, stream: &mut Stream) -> Drawn<Truth> {
        let Config { pairs, rewrites, .. } = *self;
        // The numbers 0 to `below` in random order, of which some are taken.
        let some = |below: usize, count: usize, stream: &mut Stream| {
            let mut numbers: Vec<usize> = (0..below).collect();
            stream.shuffle(&mut numbers);
            numbers.truncate(count);
            numbers
        };
        let keys: Vec<String> =
            some(self.keys(), pairs, stream).into_iter().map(|number| self.key(number)).collect();
        // Each key once, then some of them again: a rewrite comes behind all first bindings.
        let again = some(pairs, rewrites, stream);
        let mut values = vec![vec![KEPT; self.value_parts]; pairs];
        let mut written = Vec::with_capacity(pairs + rewrites);
        for (at, key) in (0..pairs).chain(again.iter().copied()).enumerate() {
            let kept = some(self.value_parts, if at < pairs { 0 } else { self.parts_kept }, stream);
            let digits = self.digits(&kept, stream);
            written.push(format!("{}{}", keys[key], digits.iter().collect::<String>()));
            let new = values[key].iter_mut().zip(digits).filter(|(_, digit)| *digit != KEPT);
            new.for_each(|(value, digit)| *value = digit);
        }
        let asked = some(pairs, self.queries, stream);
        let truth = Truth {
            keys: asked.iter().map(|&key| keys[key].clone()).collect(),
            values: asked.iter().map(|&key| values[key].iter().collect()).collect(),
            rewritten: asked.iter().map(|key| again.contains(key)).collect(),
        };
        let prompt = format!("{};{}", written.join(","), truth.keys[0]);
        let content = format!("{prompt} {}", truth.keys.join(" "));
        Drawn::new(prompt, truth).identified_by(content).label("pairs", pairs).label("rewrites", rewrites)
    }
}

impl Family for Config {
    const ID: &str = "associative";
    const TITLE: &str = "associative recall";
    const SUMMARY: &str = "Recall what keys were bound to last, one per turn.";
    const COMPONENTS: &[&str] = &["recall"];
    type Config = Self;
    type Truth = Truth;

    fn new(config: Self) -> Result<Self, EnvError> {
        let keys = config.keys();
        at_most("pairs", config.pairs, keys, "the number of keys, letters to the power of key_parts")?;
        at_most("queries", config.queries, config.pairs, "pairs")?;
        at_most("rewrites", config.rewrites, config.pairs, "pairs")?;
        at_most("parts_kept", config.parts_kept, config.value_parts - 1, "value_parts less one")?;
        Ok(config)
    }

    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        let cell = format!("pairs={} rewrites={}", self.pairs, self.rewrites);
        Ok(drawn::<Self, _>(seed, vec![&cell; count], |_, stream| self.draw(stream))?.reporting([&cell]))
    }

    fn environment(&self) -> Box<dyn Environment> {
        Box::new(ManyTurns::<Asked<Self>>::new(()))
    }

    fn truth(task: &Task) -> Result<Truth, EnvError> {
        let truth: Truth = read(Self::ID, task)?;
        let asked = truth.keys.len();
        match asked > 0 && truth.values.len() == asked && truth.rewritten.len() == asked {
            true => Ok(truth),
            false => Err(foreign(Self::ID, task, "it has not one value for each key")),
        }
    }

    fn show(&self, task: &Task, truth: Truth, answer: Option<&str>) -> String {
        let mut lines: Vec<String> = task.prompt.iter().map(|message| message.content.clone()).collect();
        for ((key, value), rewritten) in truth.keys.iter().zip(&truth.values).zip(&truth.rewritten) {
            lines.push(format!("{key} {value}{}", if *rewritten { " (rewritten)" } else { "" }));
        }
        lines.extend(answer.map(|answer| format!("answer to {}: {answer}", truth.keys[0])));
        lines.join("\n")
    }

    fn demonstrate(&self, _: &Task, truth: Truth) -> Option<Vec<Message>> {
        let answers = truth.keys.iter().zip(&truth.values);
        let turns = answers.flat_map(|(key, value)| [Message::user(key), Message::assistant(value)]);
        Some(turns.skip(1).collect())
    }
}

/// Replies never depend on whether an answer is right, so later answers depend on the bindings alone.
impl Questions for Truth {
    fn question(&self, at: usize) -> Option<&str> {
        self.keys.get(at).map(String::as_str)
    }

    fn verdict(&self, answers: &[String]) -> Verdict {
        let is_right = |at: &usize| answers.get(*at).is_some_and(|answer| answer.trim() == self.values[*at]);
        let asked = 0..self.keys.len();
        let right = asked.clone().filter(is_right).count();
        let first_wrong = asked.clone().find(|at| !is_right(at));
        let all_of = |rewritten: bool| {
            let mut these = asked.clone().filter(|&at| self.rewritten[at] == rewritten).peekable();
            these.peek().is_some().then(|| these.all(|at| is_right(&at)))
        };
        let flags = [("kept_right", all_of(false)), ("rewritten_right", all_of(true))];
        Verdict {
            flags: flags.into_iter().filter_map(|(name, flag)| Some((name.to_owned(), flag?))).collect(),
            feedback: first_wrong.map(|at| format!("{} was bound to {}", self.keys[at], self.values[at])),
            error_turn: first_wrong,
            ..Verdict::scored("recall", right as f64 / asked.len() as f64, right == asked.len())
        }
    }
}
