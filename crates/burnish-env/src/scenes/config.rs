//! The configuration of scenes.

use serde::{Deserialize, Serialize};

use super::scene::{COLOURS, SHAPES};
use crate::settings::{check_bounds, config_error};
use crate::{BoundRow, EnvError};

/// How scenes and questions are made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Rows of the grid.
    pub rows: usize,
    /// Columns of the grid.
    pub columns: usize,
    /// Objects in a scene; no two have the same shape.
    pub objects: usize,
    /// Number of shapes.
    pub shapes: usize,
    /// Number of colours. The usual colour of shape `i` is colour `i`, and again from the first.
    pub colours: usize,
    /// Share of objects that have the usual colour of their shape.
    pub usual: f64,
    /// How often each question is asked, in proportion.
    pub questions: Questions,
}

/// How often each question is asked, in proportion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Questions {
    /// `Is there a red square?`, as often yes as no.
    pub present: f64,
    /// `What colour is the square?`
    pub colour: f64,
    /// `What is there?`
    pub caption: f64,
}

impl Default for Questions {
    fn default() -> Self {
        Questions { present: 2.0, colour: 1.0, caption: 1.0 }
    }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            rows: 4,
            columns: 4,
            objects: 4,
            shapes: 6,
            colours: 6,
            usual: 0.85,
            questions: Questions::default(),
        }
    }
}

/// The bounds of the numeric keys that may be changed.
pub(super) const BOUNDS: &[BoundRow] = &[
    ("rows", 1.0, 16.0, "rows of the grid"),
    ("columns", 1.0, 16.0, "columns of the grid"),
    ("objects", 1.0, SHAPES.len() as f64 - 1.0, "objects in a scene"),
    ("shapes", 2.0, SHAPES.len() as f64, "shapes that are used"),
    ("colours", 2.0, COLOURS.len() as f64, "colours that are used"),
    ("usual", 0.0, 1.0, "share of objects with the usual colour of their shape"),
    ("questions.present", 0.0, 1e6, "how often it is asked whether an object is there"),
    ("questions.colour", 0.0, 1e6, "how often the colour of a shape is asked for"),
    ("questions.caption", 0.0, 1e6, "how often everything is asked for"),
];

impl Config {
    /// Checks what the types do not express.
    ///
    /// # Errors
    /// Names the first key that is out of its bounds or contradicts another.
    pub(super) fn check(&self) -> Result<(), EnvError> {
        check_bounds(self, BOUNDS)?;
        let Config { rows, columns, objects, shapes, questions, .. } = self;
        if objects >= shapes {
            let problem = format!(
                "{objects} objects of different shapes, and one shape that is not there, need {} shapes; nearest: {}",
                objects + 1,
                shapes - 1
            );
            return Err(config_error("objects", &problem));
        }
        if *objects > rows * columns {
            let problem = format!(
                "{objects} objects do not fit on {rows} x {columns} places; nearest: {}",
                rows * columns
            );
            return Err(config_error("objects", &problem));
        }
        let Questions { present, colour, caption } = questions;
        if present + colour + caption <= 0.0 {
            let problem = "one of `present`, `colour` and `caption` must be above 0";
            return Err(config_error("questions", problem));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::read;
    use serde_json::json;

    #[test]
    fn a_contradiction_is_named_with_a_value_that_would_do() {
        for (given, expected) in [
            (json!({"usual": 1.5}), "usual: 1.5 is out of range: 0 to 1 are allowed; nearest: 1"),
            (json!({"objects": 4, "shapes": 4}), "objects: 4 objects of different shapes"),
            (json!({"rows": 1, "columns": 3}), "objects: 4 objects do not fit on 1 x 3 places; nearest: 3"),
            (json!({"questions": {"present": 0, "colour": 0, "caption": 0}}), "questions: one of"),
            (json!({"question": {}}), "question: unknown field"),
        ] {
            let found = read::<Config>(&given).and_then(|config| config.check()).unwrap_err().to_string();
            assert!(found.starts_with(expected), "{given}: {found}");
        }
        assert!(read::<Config>(&json!({"objects": 3, "shapes": 4})).unwrap().check().is_ok());
    }
}
