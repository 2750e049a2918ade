//! Notes: what a program keeps for later ones.

use serde::{Deserialize, Serialize};

use crate::TaskId;

/// Something that a later program may want to read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    /// What it is about: whoever asks about something like it finds it.
    pub about: String,
    /// What it says.
    pub text: String,
    /// The task that it was made of, if it was made of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
}

/// Notes that can be searched.
pub trait Memory {
    /// All of them, in their order.
    fn notes(&self) -> &[Note];

    /// The notes that are nearest to what is asked about, nearest first: at most `count`, none that has nothing in
    /// common with it, and none that was made of the task `except`, whose answer it may give away.
    fn recall(&self, about: &str, count: usize, except: Option<&TaskId>) -> Vec<Note>;
}
