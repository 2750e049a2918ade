//! RULER's needle tasks, and what each is made of.

use serde::{Deserialize, Serialize};

use super::config::Config;

/// A task of RULER, under its name there (`scripts/synthetic.yaml`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RecallTask {
    /// A number under a word, in repeated sentences.
    #[serde(rename = "niah_single_1")]
    Single1,
    /// A number under a word, in a text.
    #[serde(rename = "niah_single_2")]
    Single2,
    /// A UUID under a word, in a text.
    #[serde(rename = "niah_single_3")]
    Single3,
    /// As the second, with needles under other keys.
    #[serde(rename = "niah_multikey_1")]
    MultiKey1,
    /// The text consists of needles; one is asked for.
    #[serde(rename = "niah_multikey_2")]
    MultiKey2,
    /// As before, with UUIDs as keys and values.
    #[serde(rename = "niah_multikey_3")]
    MultiKey3,
    /// Several numbers under one word.
    #[serde(rename = "niah_multivalue")]
    MultiValue,
    /// Several words are asked for, each with its number.
    #[serde(rename = "niah_multiquery")]
    MultiQuery,
    /// Which variables have a value, over chains of assignments.
    #[serde(rename = "vt")]
    Variables,
}

/// What keys and values look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Words,
    Numbers,
    Uuids,
}

impl Form {
    /// As RULER's wordings name several of them.
    pub(super) fn plural(self) -> &'static str {
        match self {
            Form::Words => "words",
            Form::Numbers => "numbers",
            Form::Uuids => "uuids",
        }
    }
}

/// What surrounds the needles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Surroundings {
    /// The same few sentences again and again.
    Noise,
    /// A text: generated, or from the file of the configuration.
    Text,
    /// Needles under other keys.
    Needles,
}

/// A needle task without its sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) surroundings: Surroundings,
    pub(super) keys: Form,
    pub(super) values: Form,
    /// Keys that needles are placed under, asked for or not.
    pub(super) keys_count: usize,
    /// Needles under each key.
    pub(super) values_count: usize,
    /// Keys that a question names.
    pub(super) queries_count: usize,
    /// Questions, one per turn.
    pub(super) turns_count: usize,
}

impl RecallTask {
    /// All of them, in RULER's order.
    pub const ALL: [RecallTask; 9] = [
        RecallTask::Single1,
        RecallTask::Single2,
        RecallTask::Single3,
        RecallTask::MultiKey1,
        RecallTask::MultiKey2,
        RecallTask::MultiKey3,
        RecallTask::MultiValue,
        RecallTask::MultiQuery,
        RecallTask::Variables,
    ];

    /// RULER's name.
    pub fn name(self) -> &'static str {
        match self {
            RecallTask::Single1 => "niah_single_1",
            RecallTask::Single2 => "niah_single_2",
            RecallTask::Single3 => "niah_single_3",
            RecallTask::MultiKey1 => "niah_multikey_1",
            RecallTask::MultiKey2 => "niah_multikey_2",
            RecallTask::MultiKey3 => "niah_multikey_3",
            RecallTask::MultiValue => "niah_multivalue",
            RecallTask::MultiQuery => "niah_multiquery",
            RecallTask::Variables => "vt",
        }
    }

    /// What it is made of; `None` for variable tracking.
    pub(super) fn shape(self, config: &Config) -> Option<Shape> {
        let single = |surroundings, values| Shape {
            surroundings,
            keys: Form::Words,
            values,
            keys_count: 1,
            values_count: 1,
            queries_count: 1,
            turns_count: 1,
        };
        let in_text = single(Surroundings::Text, Form::Numbers);
        let needles = config.needles;
        Some(match self {
            RecallTask::Single1 => single(Surroundings::Noise, Form::Numbers),
            RecallTask::Single2 => in_text,
            RecallTask::Single3 => single(Surroundings::Text, Form::Uuids),
            RecallTask::MultiKey1 => {
                Shape { keys_count: needles.keys, turns_count: needles.turns, ..in_text }
            }
            RecallTask::MultiKey2 => single(Surroundings::Needles, Form::Numbers),
            RecallTask::MultiKey3 => {
                Shape { keys: Form::Uuids, ..single(Surroundings::Needles, Form::Uuids) }
            }
            RecallTask::MultiValue => Shape { values_count: needles.values, ..in_text },
            RecallTask::MultiQuery => {
                Shape { keys_count: needles.queries, queries_count: needles.queries, ..in_text }
            }
            RecallTask::Variables => return None,
        })
    }

    /// Whether one needle answers the question, so that it has a depth. Several are spread over the text.
    pub(super) fn has_depth(self, config: &Config) -> bool {
        self.shape(config)
            .is_some_and(|shape| shape.values_count * shape.queries_count * shape.turns_count == 1)
    }
}
