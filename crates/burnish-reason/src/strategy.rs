//! The seam between strategies and policies.

use std::path::Path;
use std::pin::Pin;

use burnish_core::Sampling;
use burnish_core::settings::SettingError;
use burnish_episode::ContactError;

use crate::scorer::{By, Scoring};
use crate::session::Session;

/// The index of the candidate that is the answer, once it is known.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Result<usize, ContactError>> + 'a>>;

/// Answers a turn by several turns.
///
/// It contacts policies through its session and nothing else, holds no state, and draws random numbers only from
/// [`Session::seed`]. It sees what a policy sees: no task, no verdict, no reference answer.
pub trait Strategy: Send + Sync {
    /// Checks that it makes sense with turns that are sampled in this way.
    ///
    /// # Errors
    /// Names the setting that does not.
    fn check_sampling(&self, sampling: &Sampling) -> Result<(), SettingError>;

    /// The numbers by which it ranks answers, if it does.
    fn scoring(&self) -> Option<&Scoring> {
        None
    }

    /// Does it read log-probs of what the policy sampled?
    fn reads_logprobs(&self) -> bool {
        self.scoring().is_some_and(|score| score.by == By::Logprob)
    }

    /// The reward model that it asks for numbers, if it asks one. Whoever builds it on top of a policy has to load that.
    fn reward_model(&self) -> Option<&Path> {
        self.scoring()?.reward_model()
    }

    /// Does it read notes ([`Session::recall`])? Then there must be a memory.
    fn recalls(&self) -> bool {
        false
    }

    /// Asks, selects and chooses.
    fn answer<'a>(&'a self, session: &'a Session<'_>) -> Answering<'a>;
}
