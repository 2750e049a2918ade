//! The configuration of scenes.

use super::scene::{COLOURS, SHAPES};
use crate::EnvError;
use crate::family::configuration;
use crate::settings::config_error;

configuration! {
    /// The configuration of scenes and their questions.
    #[serde(default)]
    pub struct Config {
        rows: usize = 4, in 1..=16, "rows of the grid";
        columns: usize = 4, in 1..=16, "columns of the grid";
        /// No two have the same shape.
        objects: usize = 4, in 1..=SHAPES.len() - 1, "objects in a scene";
        shapes: usize = 6, in 2..=SHAPES.len(), "shapes that are used";
        /// The usual colour of shape `i` is colour `i`, and again from the first.
        colours: usize = 6, in 2..=COLOURS.len(), "colours that are used";
        usual: f64 = 0.85, in 0.0..=1.0, "share of objects with the usual colour of their shape";
        questions: Questions, "how often each question is asked, in proportion";
    }
}

configuration! {
    /// The shares of the questions, in proportion.
    #[serde(default)]
    pub struct Questions {
        /// `Is there a red square?`, as often yes as no.
        present: f64 = 2.0, in 0.0..=1e6, "how often it is asked whether an object is there";
        /// `What colour is the square?`
        colour: f64 = 1.0, in 0.0..=1e6, "how often the colour of a shape is asked for";
        /// `What is there?`
        caption: f64 = 1.0, in 0.0..=1e6, "how often everything is asked for";
    }
}

impl Config {
    /// Checks what bounds do not express.
    ///
    /// # Errors
    /// Names the first key that contradicts another.
    pub(super) fn check(&self) -> Result<(), EnvError> {
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
    use crate::build;
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
            let found = build("scenes", &given).map(drop).unwrap_err().to_string();
            assert!(found.starts_with(expected), "{given}: {found}");
        }
        assert!(build("scenes", &json!({"objects": 3, "shapes": 4})).is_ok());
    }
}
