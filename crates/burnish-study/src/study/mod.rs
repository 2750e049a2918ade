//! Studies: a claim, tested with arms × seeds from one recipe.
//!
//! ```text
//! Study (file.rs: the study file, every arm's recipe resolved)
//!   -> ArmRun* (plan.rs: which run lies where, and how far it is)
//!   -> run (drive.rs: one after another, or side by side)
//!   -> Measured* (measure.rs: what a finished run came to, and what it used; columns.rs: numbers that the study names)
//!   -> Findings (findings.rs: levels, differences, budgets) -> ID.json, page.rs (Markdown), plot.rs (SVG)
//!   -> index.rs (one table over the ID.json of all studies)
//! ```
//!
//! Every run is an ordinary run directory; a study adds nothing to it. Finished runs are never repeated, so a study
//! can be interrupted, extended by arms or seeds, and reported at any time.

mod columns;
mod drive;
mod file;
mod findings;
mod index;
mod measure;
mod page;
mod plot;
mod reach;
mod runs;

pub use burnish_eval::Measure;
pub use drive::{Failed, Ran, make_stages, run};
pub use file::{Arm, JOBS_MAX, Study};
pub use findings::{ArmFindings, Findings};
pub use index::{index, write_index};
pub use measure::{Budget, Measured};
pub use page::Made;
pub use reach::Reached;
pub use runs::{ArmRun, State};
