//! Strategies beside the plain policy, and beside the majority of as many samples as their tokens would have bought.
//!
//! ```text
//! tasks ─> plain ─> strategy ─> majority, until its tokens reach the strategy's   (arms.rs)
//!            └─────────┴───────────┴─> a record of each task (records.rs) ─> a table (comparison.rs)
//! ```
//!
//! No arm sees a verdict: every answer is chosen before its environment judges it. What candidates were worth that were not
//! chosen is judged afterwards, for the rates of the table.

mod arms;
mod comparison;
mod on_top;
mod recipe;
mod records;

pub use arms::{Arms, Field, Plays};
pub use comparison::{Comparison, Row};
pub use on_top::OnTop;
pub use recipe::Compared;
pub use records::{Arm, ArmRecord, ArmSample, StrategyRecord, success_rate};
