//! The configuration of the environment.

use burnish_sandbox::{Limits, Settings};
use serde::{Deserialize, Serialize};

use crate::family::Bounded;
use crate::settings::config_error;
use crate::{Bound, EnvError};

/// A range of whole numbers, both ends included.
pub type Range = crate::settings::Range<u32>;

/// The configuration of programming tasks. Tasks are spread evenly over the numbers of steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Steps before the result, which set the difficulty.
    pub steps: Range,
    /// The numbers that steps name (`add 3 to each`).
    pub values: Range,
    /// Calls by which a program is judged.
    pub tests: u32,
    /// The interpreter, and what to do where the system can't isolate.
    pub sandbox: Settings,
    /// What one program may use.
    pub limits: Limits,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            steps: Range { min: 1, max: 3 },
            values: Range { min: 2, max: 9 },
            tests: 4,
            sandbox: Settings::default(),
            limits: Limits {
                wall_seconds: 20.0,
                cpu_seconds: 2.0,
                memory_bytes: 256 << 20,
                ..Limits::default()
            },
        }
    }
}

/// By hand, because the limits are a type of the sandbox, which has no bounds.
impl Bounded for Config {
    fn bounds() -> Vec<Bound> {
        Bound::of(&[
            ("steps.min", 1.0, 8.0, "fewest steps"),
            ("steps.max", 1.0, 8.0, "most steps"),
            ("values.min", 1.0, 1000.0, "least number in a step"),
            ("values.max", 1.0, 1000.0, "greatest number in a step"),
            ("tests", 1.0, 32.0, "calls by which a program is judged"),
            ("limits.wall_seconds", 0.1, 60.0, "seconds that a program may take"),
        ])
    }
}

impl Config {
    /// Checks what bounds do not express.
    ///
    /// # Errors
    /// Names the first key that contradicts another.
    pub(super) fn check(&self) -> Result<(), EnvError> {
        for (key, range) in [("steps", self.steps), ("values", self.values)] {
            if range.min > range.max {
                let problem = format!("min {} is above max {}", range.min, range.max);
                return Err(config_error(key, &problem));
            }
        }
        Ok(())
    }
}
