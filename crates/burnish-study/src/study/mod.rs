//! Studies: a claim, tested with arms × seeds from one recipe.
//!
//! ```text
//! Study (file.rs, claim.rs: the study file, every arm's recipe resolved)
//!   -> Size (size.rs: what it takes, and what it could see)
//!   -> Registration (registration.rs: the plan, with the commit that holds it)
//!   -> Standing (standing.rs: the disease, then the grid, then the results) of ArmRun* (runs.rs)
//!   -> run (drive.rs: one after another, or side by side)
//!   -> Measured* (measure.rs: what a finished run came to; metric.rs: numbers by name; budget.rs: what it used)
//!   -> Findings (findings.rs: differences and verdicts) -> data (JSON), page.rs (Markdown), plot.rs (SVG)
//!   -> index.rs (one table over the data of all studies)
//! ```
//!
//! Every run is an ordinary run directory; a study adds nothing to it. Finished runs are never repeated, so a study
//! can be interrupted and reported at any time.

mod budget;
mod claim;
mod drive;
mod file;
mod findings;
mod index;
mod measure;
mod metric;
mod page;
mod plot;
mod registration;
mod runs;
mod size;
mod standing;
mod warnings;

pub use budget::{Budget, BudgetRelative};
pub use burnish_eval::Measure;
pub use claim::{Claim, Contrast, Direction, Disease, Gauge, Role, Test, Tuning};
pub use drive::{Failed, Ran, make_stages, run};
pub use file::{Arm, JOBS_MAX, Study};
pub use findings::{ArmFindings, ClaimFindings, ContrastFindings, Effect, Findings, Verdict};
pub use index::{index, write_index};
pub use measure::Measured;
pub use page::Made;
pub use registration::Registration;
pub use runs::{ArmRun, Phase, State};
pub use size::{PhaseSize, Size};
pub use standing::{Gauged, Standing, Tuned};
