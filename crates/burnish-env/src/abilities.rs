//! What only some environments can do. [`crate::Generator`] has one method for each of these traits, which gives it where the
//! environment as it is configured has the ability: so it can be asked before there is a task. A single task may lack it all
//! the same.

use std::path::PathBuf;

use burnish_core::{Message, Task};
use burnish_data::Row;

/// Correct answers to imitate.
pub trait Demonstrations {
    /// A correct answer to the task's first turn, where a solver knows one.
    fn demonstrate(&self, task: &Task) -> Option<Message>;

    /// A whole correct episode to imitate: the messages that open it, then answers with what the environment said between
    /// them, the last one an answer. Where a task takes one turn that is the prompt and [`Demonstrations::demonstrate`].
    fn demonstrate_episode(&self, task: &Task) -> Option<Vec<Message>> {
        let answer = self.demonstrate(task)?;
        Some(task.prompt.iter().cloned().chain([answer]).collect())
    }
}

/// Worked reasoning that a policy may be shown the beginning of.
pub trait Hints {
    /// How a demonstration reaches its final answer, without that answer: its text up to where the answer begins. None
    /// where it has no steps before it.
    fn reasoning(&self, task: &Task) -> Option<String>;
}

/// Advice for a teacher, never the policy's to read.
pub trait Skills {
    /// What a teacher may be told about the task beside its prompt: advice for tasks of its kind.
    fn skill(&self, task: &Task) -> Option<String>;
}

/// Tasks with a second direction: something that the prompt gives is masked, an answer is stated, and what was masked is
/// asked for. The verdict of such a task has the flag [`RECOVERED`](burnish_core::RECOVERED).
pub trait Reversible {
    /// The task turned round with `answer` stated. None where the answer can't be read.
    fn reverse(&self, task: &Task, answer: &str) -> Option<Task>;

    /// The task turned round with its right answer stated.
    fn counterpart(&self, task: &Task) -> Option<Task>;
}

/// Tasks that are rows of files, for comparing them with other data.
pub trait FileRows {
    /// The files, as paths from the current directory.
    fn files(&self) -> Vec<PathBuf>;

    /// The file and the row that a task was taken from.
    fn row(&self, task: &Task) -> Option<(String, Row)>;
}
