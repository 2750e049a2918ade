//! Abilities that only some environments have. [`crate::Generator`] has one method per trait, which returns the ability
//! if the configured environment has it, so that callers can ask before there is a task. A single task may still lack
//! it.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use burnish_core::{Message, Task};
use burnish_data::Row;

use crate::EnvError;
use crate::redesign::Knob;
use crate::skilled::{Library, Rules};

/// Correct answers to imitate.
pub trait Demonstrations {
    /// A correct answer to the task's first turn, if a solver knows one.
    fn demonstrate(&self, task: &Task) -> Option<Message>;

    /// A whole correct episode to imitate: the opening messages, then answers and what the environment said in between;
    /// the last message is an answer. For a task of one turn this is the prompt and [`Demonstrations::demonstrate`].
    fn demonstrate_episode(&self, task: &Task) -> Option<Vec<Message>> {
        let answer = self.demonstrate(task)?;
        Some(task.prompt.iter().cloned().chain([answer]).collect())
    }
}

/// Worked reasoning whose beginning a policy may be shown.
pub trait Hints {
    /// How a demonstration reaches its final answer, without that answer: its text up to where the answer begins.
    /// `None` if there are no steps before it.
    fn reasoning(&self, task: &Task) -> Option<String>;
}

/// Advice for a teacher, which the policy never reads.
pub trait Skills {
    /// Advice that a teacher may read in addition to the task's prompt; it applies to tasks of this kind.
    fn skill(&self, task: &Task) -> Option<String>;
}

/// A library of skills that episodes read, and that training fills between steps.
pub trait SkillLibrary {
    /// Lets episodes that begin from now on read `library`; `explores` says whether rarely used skills are preferred.
    fn share(&self, library: Arc<Library>, explores: bool);

    /// The library that episodes read now.
    fn library(&self) -> Arc<Library>;

    /// How it is used and kept.
    fn rules(&self) -> Rules;

    /// Whether the policy puts in order what it was given.
    fn selects(&self) -> bool;
}

/// Tasks that can be reversed: a value given in the prompt is masked, an answer is stated, and the masked value is
/// asked for. The verdict on a reversed task has the flag [`RECOVERED`](burnish_core::RECOVERED).
pub trait Reversible {
    /// The reversed task, with `answer` stated. `None` if the answer can't be read.
    fn reverse(&self, task: &Task, answer: &str) -> Option<Task>;

    /// The reversed task, with its right answer stated.
    fn counterpart(&self, task: &Task) -> Option<Task>;
}

/// Tasks that are rows of files, to compare them with other data.
pub trait FileRows {
    /// The files, as paths relative to the current directory.
    fn files(&self) -> Vec<PathBuf>;

    /// Number of rows.
    fn count(&self) -> usize;

    /// The file and the row that a task came from.
    fn row(&self, task: &Task) -> Option<(String, Row)>;
}

/// Answers whose steps name cells of the prompt, as plans over a table do, so that they can be compared with what a model
/// looks at.
pub trait Cells {
    /// Where the cells are in `text`, which holds a task's prompt: bytes, in the order of masks.
    fn cells(&self, text: &str) -> Vec<Range<usize>>;

    /// The steps of an answer; `None` if it has none that can be read.
    fn steps(&self, task: &Task, answer: &str) -> Option<Vec<CellStep>>;

    /// What comes of an answer; `None` if nothing does.
    fn outcome(&self, task: &Task, answer: &str) -> Option<String>;

    /// The right outcome; `None` if it is not known, and right cells are proxies by weak supervision.
    fn right_outcome(&self, task: &Task) -> Option<String>;

    /// The id of the task that this one is a version of, with its cells in another order; its own if it is none.
    fn original(&self, task: &Task) -> String;
}

/// A step of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellStep {
    /// Its bytes in the answer.
    pub text: Range<usize>,
    /// The cells that it names.
    pub own: Vec<bool>,
    /// Those that it should name; `None` for a step that the right answer does not have.
    pub right: Option<Vec<bool>>,
}

/// Episodes that find out what somebody wants who has not said all of it.
pub trait Goals {
    /// What is known of a task after these answers of the policy, and what is wanted; `None` for a task without a goal
    /// in words.
    fn wanted(&self, task: &Task, answers: &[Message]) -> Option<Wanted>;
}

/// A goal, and what is known of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Wanted {
    /// What is known, in words, for a model that goes on with the goal.
    pub known: String,
    /// The goal, in words.
    pub goal: String,
}

/// A configuration that says which of its keys may be redesigned between rounds of training.
pub trait Redesign {
    /// The keys, with ranges, menus and meanings; each is in the configuration.
    ///
    /// # Errors
    /// If a program that should name them does not answer.
    fn knobs(&self) -> Result<Vec<Knob>, EnvError>;

    /// Whether a program has to be started to know them.
    fn asks_a_program(&self) -> bool {
        false
    }

    /// What is worth knowing when tasks of this environment are designed, in a few sentences.
    fn guideline(&self) -> &'static str {
        "A policy learns from tasks that it solves sometimes. Tasks that it always solves, or never, teach it nothing."
    }
}
