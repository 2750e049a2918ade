//! Draws bindings, and what is asked of them.

use std::collections::BTreeMap;

use burnish_core::rng::Stream;
use burnish_core::{Message, Task};

use super::config::{BOUNDS, Config};
use super::play::Recall;
use super::{ID, Truth};
use crate::digest::digest;
use crate::many_turns::ManyTurns;
use crate::settings::to_value;
use crate::tasks::{seed_of, task};
use crate::{CellReport, Demonstrations, EnvError, Environment, Generator, TaskSet};

/// A digit that a rewrite keeps, as it is written.
const KEPT: char = '-';

/// Makes tasks of associative recall.
#[derive(Debug, Clone)]
pub struct Associative {
    config: Config,
}

impl Associative {
    /// A generator with this configuration.
    ///
    /// # Errors
    /// If a key is out of bounds or contradicts another.
    pub fn new(config: Config) -> Result<Self, EnvError> {
        config.check()?;
        Ok(Associative { config })
    }

    fn key(&self, mut number: usize) -> String {
        let letter = |_| {
            let letter = char::from(b'a' + (number % self.config.letters) as u8);
            number /= self.config.letters;
            letter
        };
        (0..self.config.key_parts).map(letter).collect()
    }

    /// Digits, of which those in `kept` are left as they are.
    fn digits(&self, kept: &[usize], stream: &mut Stream) -> Vec<char> {
        let mut digit = |part| match kept.contains(&part) {
            true => KEPT,
            false => char::from(b'0' + stream.index(self.config.digits) as u8),
        };
        (0..self.config.value_parts).map(&mut digit).collect()
    }

    fn task(&self, seed: u64) -> Result<Task, EnvError> {
        let Config { pairs, queries, rewrites, value_parts, parts_kept, .. } = self.config;
        let mut stream = Stream::new(seed);
        let mut numbers: Vec<usize> = (0..self.config.keys()).collect();
        stream.shuffle(&mut numbers);
        let keys: Vec<String> = numbers[..pairs].iter().map(|&number| self.key(number)).collect();

        // Each key once, then some of them again: a rewrite comes behind all first bindings.
        let mut again: Vec<usize> = (0..pairs).collect();
        stream.shuffle(&mut again);
        again.truncate(rewrites);
        let mut values = vec![Vec::new(); pairs];
        let mut written = Vec::with_capacity(pairs + rewrites);
        for (at, key) in (0..pairs).chain(again.iter().copied()).enumerate() {
            let mut parts: Vec<usize> = (0..value_parts).collect();
            stream.shuffle(&mut parts);
            parts.truncate(if at < pairs { 0 } else { parts_kept });
            let digits = self.digits(&parts, &mut stream);
            written.push(format!("{}{}", keys[key], digits.iter().collect::<String>()));
            for (part, &digit) in digits.iter().enumerate() {
                match values[key].get_mut(part) {
                    Some(value) if digit != KEPT => *value = digit,
                    Some(_) => {}
                    None => values[key].push(digit),
                }
            }
        }

        let mut asked: Vec<usize> = (0..pairs).collect();
        stream.shuffle(&mut asked);
        asked.truncate(queries);
        let truth = Truth {
            keys: asked.iter().map(|&key| keys[key].clone()).collect(),
            values: asked.iter().map(|&key| values[key].iter().collect()).collect(),
            rewritten: asked.iter().map(|key| again.contains(key)).collect(),
        };
        let prompt = format!("{};{}", written.join(","), truth.keys[0]);
        let content = format!("{prompt} {}", truth.keys.join(" "));
        let labels = BTreeMap::from([
            ("pairs".to_owned(), pairs.to_string()),
            ("rewrites".to_owned(), rewrites.to_string()),
        ]);
        Ok(task(ID, digest(content.as_bytes()), vec![Message::user(prompt)], to_value(&truth)?, labels))
    }
}

impl Generator for Associative {
    crate::configured!(ID, BOUNDS);

    fn components(&self) -> Option<Vec<String>> {
        Some(vec!["recall".to_owned()])
    }

    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        let tasks = (0..count).map(|index| self.task(seed_of(seed, index))).collect::<Result<_, _>>()?;
        let Config { pairs, rewrites, .. } = self.config;
        let cell = format!("pairs={pairs} rewrites={rewrites}");
        Ok(TaskSet { tasks, cells: vec![CellReport::all(cell, count)] })
    }

    fn environment(&self) -> Box<dyn Environment> {
        Box::new(ManyTurns::<Recall>::new(()))
    }

    fn draw(&self, task: &Task, answer: Option<&str>) -> String {
        let truth = match Truth::of(task) {
            Ok(truth) => truth,
            Err(error) => return error.to_string(),
        };
        let mut lines: Vec<String> = task.prompt.iter().map(|message| message.content.clone()).collect();
        let asked = truth.keys.iter().zip(&truth.values).zip(&truth.rewritten);
        lines.extend(asked.map(|((key, value), rewritten)| {
            format!("{key} {value}{}", if *rewritten { " (rewritten)" } else { "" })
        }));
        if let Some(answer) = answer {
            lines.push(format!("answer to {}: {answer}", truth.keys[0]));
        }
        lines.join("\n")
    }

    fn demonstrations(&self) -> Option<&dyn Demonstrations> {
        Some(self)
    }
}

impl Demonstrations for Associative {
    fn demonstrate(&self, task: &Task) -> Option<Message> {
        Some(Message::assistant(Truth::of(task).ok()?.values.swap_remove(0)))
    }

    fn demonstrate_episode(&self, task: &Task) -> Option<Vec<Message>> {
        let truth = Truth::of(task).ok()?;
        let mut episode = task.prompt.clone();
        for (at, (key, value)) in truth.keys.iter().zip(&truth.values).enumerate() {
            if at > 0 {
                episode.push(Message::user(key));
            }
            episode.push(Message::assistant(value));
        }
        Some(episode)
    }
}
