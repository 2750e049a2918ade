//! One design: an engineer is asked, its answer is read, and what comes of it is tried.

use std::path::Path;

use burnish_env::redesign::{Proposal, revise};
use serde_json::Value;

use super::{Attempt, Brief, Context, Design, Engineer};
use crate::RunError;

/// Designs the round after that of `context`, whose environment has `config`. `has_tasks` says why there can be no such
/// round with another configuration. Whatever an engineer says, there is a design: if nothing of it can be taken over, the
/// environment stays as it is.
///
/// # Errors
/// If the engineer can't be asked.
pub(crate) fn design(
    engineer: &mut dyn Engineer,
    context: &Context,
    config: &Value,
    (checkpoint, seed): (&Path, u64),
    has_tasks: &mut dyn FnMut(&Value) -> Result<(), RunError>,
) -> Result<Design, RunError> {
    let saw = context.text();
    let brief = Brief { context, text: &saw, checkpoint, seed };
    let mut attempts = Vec::new();
    for attempt in 0..engineer.attempts() {
        let said = engineer.propose(&brief, attempt)?;
        let (mut attempt, revised) = read(said, context, config);
        if let Some(revised) = revised {
            // What stays as it is was tried before.
            let tried = if revised == *config { Ok(()) } else { has_tasks(&revised) };
            match tried {
                Ok(()) => {
                    attempts.push(attempt);
                    return Ok(Design {
                        round: context.round + 1,
                        saw,
                        attempts,
                        is_taken: true,
                        config: revised,
                    });
                }
                Err(error) => attempt.problem = Some(error.to_string()),
            }
        }
        attempts.push(attempt);
    }
    Ok(Design { round: context.round + 1, saw, attempts, is_taken: false, config: config.clone() })
}

/// An answer, read, and the configuration that it makes.
fn read(said: String, context: &Context, config: &Value) -> (Attempt, Option<Value>) {
    match Proposal::read(&said) {
        Err(problem) => (Attempt { said, problem: Some(problem), ..Attempt::default() }, None),
        Ok(proposal) => {
            let revision = revise(config, &context.knobs, &proposal);
            let attempt = Attempt {
                said,
                reason: proposal.reason,
                changes: revision.changes,
                rejected: revision.rejected,
                problem: None,
            };
            (attempt, Some(revision.config))
        }
    }
}
