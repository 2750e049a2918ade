//! Objects, questions and what is true of them.

use std::collections::BTreeSet;
use std::fmt;

use burnish_core::{Task, Verdict};
use serde::{Deserialize, Serialize};

use super::ID;
use crate::EnvError;
use crate::tasks::{foreign, read};

/// Names of shapes, and their signs in an image.
pub(super) const SHAPES: [(&str, char); 8] = [
    ("square", 's'),
    ("circle", 'c'),
    ("triangle", 't'),
    ("star", 'r'),
    ("heart", 'h'),
    ("ring", 'o'),
    ("cross", 'x'),
    ("moon", 'm'),
];

/// Names of colours, and their signs in an image.
pub(super) const COLOURS: [(&str, char); 8] = [
    ("red", 'R'),
    ("blue", 'B'),
    ("green", 'G'),
    ("yellow", 'Y'),
    ("black", 'K'),
    ("white", 'W'),
    ("pink", 'P'),
    ("orange", 'O'),
];

/// An object: a colour and a shape, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Object {
    /// Its colour.
    pub colour: usize,
    /// Its shape.
    pub shape: usize,
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", COLOURS[self.colour].0, SHAPES[self.shape].0)
    }
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// Whether the object is there.
    Present(Object),
    /// The colour of the shape, which is there.
    Colour(usize),
    /// Everything that is there.
    Caption,
}

impl Question {
    pub(super) fn name(self) -> &'static str {
        match self {
            Question::Present(_) => "present",
            Question::Colour(_) => "colour",
            Question::Caption => "caption",
        }
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Question::Present(object) => write!(f, "Is there a {object}?"),
            Question::Colour(shape) => write!(f, "What colour is the {}?", SHAPES[*shape].0),
            Question::Caption => write!(f, "What is there?"),
        }
    }
}

/// The truth of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truth {
    /// The grid, row by row; `None` where nothing is.
    pub grid: Vec<Vec<Option<Object>>>,
    /// The question.
    pub question: Question,
}

impl Truth {
    /// Reads the truth of a task.
    ///
    /// # Errors
    /// If the task is not one of this environment.
    pub fn of(task: &Task) -> Result<Self, EnvError> {
        let truth: Truth = read(ID, task)?;
        let asked = match truth.question {
            Question::Present(object) => Some(object),
            Question::Colour(shape) => Some(Object { colour: 0, shape }),
            Question::Caption => None,
        };
        let is_known = |object: Object| object.colour < COLOURS.len() && object.shape < SHAPES.len();
        if !truth.objects().chain(asked).all(is_known) {
            return Err(foreign(ID, task, "it has a colour or a shape that there is not"));
        }
        if let Question::Colour(shape) = truth.question
            && truth.colour_of(shape).is_none()
        {
            return Err(foreign(ID, task, "it asks for the colour of a shape that is not there"));
        }
        Ok(truth)
    }

    /// What is there, in the order of reading.
    pub fn objects(&self) -> impl Iterator<Item = Object> {
        self.grid.iter().flatten().copied().flatten()
    }

    fn colour_of(&self, shape: usize) -> Option<usize> {
        self.objects().find(|object| object.shape == shape).map(|object| object.colour)
    }

    /// The right answer.
    pub fn answer(&self) -> String {
        match self.question {
            Question::Present(object) if self.objects().any(|there| there == object) => "yes".to_owned(),
            Question::Present(_) => "no".to_owned(),
            Question::Colour(shape) => {
                self.colour_of(shape).map_or_else(String::new, |colour| COLOURS[colour].0.to_owned())
            }
            Question::Caption => {
                let names: Vec<String> = self.objects().map(|object| object.to_string()).collect();
                names.join(", ")
            }
        }
    }

    /// The image between `<image>` and `</image>`, two signs for each place, and the question.
    pub(super) fn prompt(&self) -> String {
        let sign = |place: &Option<Object>| match place {
            Some(Object { colour, shape }) => format!("{}{}", COLOURS[*colour].1, SHAPES[*shape].1),
            None => "..".to_owned(),
        };
        let row = |row: &Vec<Option<Object>>| row.iter().map(sign).collect::<Vec<String>>().join(" ");
        let rows: Vec<String> = self.grid.iter().map(row).collect();
        format!("<image>\n{}\n</image>\n{}", rows.join("\n"), self.question)
    }

    /// The verdict on an answer. Upper and lower case, spaces and a full stop at its end do not matter, nor does the order
    /// of a caption. Component `answer`: 1 if it is right; of a caption, the share of what is there and of what is said
    /// that both have (their intersection over their union).
    pub(super) fn verdict(&self, answer: &str) -> Verdict {
        let said = answer.trim().trim_end_matches('.').to_lowercase();
        let right = self.answer();
        let (score, hallucinated) = match self.question {
            Question::Present(_) => (f64::from(said == right), said == "yes" && right == "no"),
            Question::Colour(_) => {
                let is_colour = COLOURS.iter().any(|(name, _)| *name == said);
                (f64::from(said == right), is_colour && said != right)
            }
            Question::Caption => {
                let list = |text: &str| -> BTreeSet<String> {
                    text.split([',', '\n'])
                        .map(|name| name.trim().to_owned())
                        .filter(|name| !name.is_empty())
                        .collect()
                };
                let (said, there) = (list(&said), list(&right));
                let both = said.intersection(&there).count();
                let score = both as f64 / said.union(&there).count().max(1) as f64;
                // CHAIR counts objects that are named and not there.
                (score, said.difference(&there).next().is_some())
            }
        };
        let mut verdict = Verdict::scored("answer", score, score == 1.0);
        verdict.flags = [("hallucinated", hallucinated), ("parse_error", said.is_empty())]
            .map(|(name, is_set)| (name.to_owned(), is_set))
            .into();
        if score < 1.0 {
            verdict.error_turn = Some(0);
            verdict.feedback = Some(format!("The right answer is: {right}."));
        }
        verdict
    }
}
