//! One scene and its question.

use std::fmt;

use burnish_core::rng::Stream;

use super::config::Config;
use super::scene::{Object, Question, Truth};

/// What kind of task is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cell {
    /// 0 present, 1 colour, 2 caption.
    pub(super) question: usize,
    /// Has the object that is asked about the usual colour of its shape? Of a caption: the first object.
    pub(super) is_usual: bool,
    /// Is the answer yes? Of a question whether something is there.
    pub(super) is_yes: bool,
}

impl Cell {
    /// Is the answer with the prior or against it?
    pub(super) fn prior(self) -> &'static str {
        if self.is_usual { "with" } else { "against" }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let question = ["present", "colour", "caption"][self.question];
        let answer = match (self.question, self.is_yes) {
            (0, true) => " answer=yes",
            (0, false) => " answer=no",
            _ => "",
        };
        write!(f, "question={question} prior={}{answer}", self.prior())
    }
}

/// A task of a cell.
///
/// Where the answer is yes, the object that is asked about is there, with the usual colour or another. Where it is no, a
/// shape that is there is asked about in another colour: against the prior the object has an unusual colour and the
/// question the usual one, so that whoever does not look says yes; with the prior it is the other way round.
pub(super) fn draw(config: &Config, cell: Cell, stream: &mut Stream) -> Truth {
    let mut shapes: Vec<usize> = (0..config.shapes).collect();
    stream.shuffle(&mut shapes);
    let usual = |shape: usize| shape % config.colours;
    let unusual = |shape: usize, stream: &mut Stream| {
        (usual(shape) + 1 + stream.index(config.colours - 1)) % config.colours
    };
    let objects: Vec<Object> = shapes[..config.objects]
        .iter()
        .enumerate()
        .map(|(at, &shape)| {
            let is_usual = if at == 0 { cell.is_usual } else { stream.uniform() < config.usual };
            let colour = if is_usual { usual(shape) } else { unusual(shape, stream) };
            Object { colour, shape }
        })
        .collect();
    let asked = objects[0];
    let question = match cell.question {
        0 if cell.is_yes => Question::Present(asked),
        0 => {
            let colour = if cell.is_usual { unusual(asked.shape, stream) } else { usual(asked.shape) };
            Question::Present(Object { colour, ..asked })
        }
        1 => Question::Colour(asked.shape),
        _ => Question::Caption,
    };
    let mut places: Vec<usize> = (0..config.rows * config.columns).collect();
    stream.shuffle(&mut places);
    let mut grid = vec![vec![None; config.columns]; config.rows];
    for (&place, object) in places.iter().zip(objects) {
        grid[place / config.columns][place % config.columns] = Some(object);
    }
    Truth { grid, question }
}
