//! Abilities that only some environments have. [`crate::Generator`] has one method per trait, which returns the ability
//! if the configured environment has it, so that callers can ask before there is a task. A single task may still lack
//! it.

use std::path::PathBuf;

use burnish_core::{Message, Task};
use burnish_data::Row;

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

    /// The file and the row that a task came from.
    fn row(&self, task: &Task) -> Option<(String, Row)>;
}
