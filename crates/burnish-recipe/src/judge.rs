//! `[judge]`: who compares the answers of a group, for estimators that need comparisons.

use std::path::PathBuf;

use burnish_core::Sampling;
use burnish_reason::StrategyConfig;
use burnish_remote::endpoint::EndpointConfig;
use serde::{Deserialize, Serialize};

use crate::asked;

/// Placeholders of a question for the task and for the two answers.
pub const PLACES: [&str; 3] = ["{task}", "{a}", "{b}"];

/// `[judge]`: one of `path` and `endpoint`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JudgeSection {
    /// A model directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// A server that speaks OpenAI's wire format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EndpointConfig>,
    /// The question, with `{task}`, `{a}` and `{b}` for the task's prompt and the two answers. The judge has to
    /// answer A, B or tie.
    #[serde(default = "prompt")]
    pub prompt: String,
    /// Most tokens of the judge's answer.
    #[serde(default = "tokens_max")]
    pub tokens_max: usize,
    /// A strategy on top of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<StrategyConfig>,
}

fn prompt() -> String {
    "Two answers to a task follow. Which is better? Say A, B or tie, and nothing else.\n\nTask:\n{task}\n\nAnswer A:\n{a}\n\n\
     Answer B:\n{b}"
        .to_owned()
}

fn tokens_max() -> usize {
    16
}

impl JudgeSection {
    /// Checks what the types don't guarantee.
    ///
    /// # Errors
    /// The key that is wrong, and what it must be.
    pub(super) fn check(&self) -> Result<(), (String, String)> {
        if let Some(place) = PLACES.iter().find(|place| !self.prompt.contains(**place)) {
            return Err(("prompt".to_owned(), format!("must have `{place}`")));
        }
        asked::check(self.path.as_deref(), self.endpoint.as_ref(), self.tokens_max)?;
        match &self.strategy {
            // A judge is asked greedily.
            Some(strategy) => asked::check_strategy_of_other(
                strategy,
                &Sampling::greedy(self.tokens_max),
                self.endpoint.as_ref(),
            ),
            None => Ok(()),
        }
    }
}
