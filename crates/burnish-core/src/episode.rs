//! All that happened in one run of an environment on one task.

use serde::{Deserialize, Serialize};

use crate::{Message, Record, Source, TaskId, Trace, Verdict};

/// Why an episode ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The environment said that the episode is over.
    Completed,
    /// The turn limit was reached.
    TurnsMax,
    /// A turn was cut off at its token limit.
    Truncated,
    /// The conversation no longer fits the context window.
    ContextOverflow,
    /// The environment failed; the episode is unscored.
    EnvironmentError,
    /// One of its actions can't be repeated, or had another result when it was repeated; the episode is unscored.
    Lost,
}

/// All traces of one run of one environment on one task, with the verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Episode {
    /// The task that was played.
    pub task: TaskId,
    /// Which rollout of the task's group this is.
    pub rollout: usize,
    /// One trace per agent of the policy.
    pub traces: Vec<Trace>,
    /// The traces of others who took turns: simulated users, other players. The policy does not learn from them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partners: Vec<Trace>,
    /// What the verifier found.
    pub verdict: Verdict,
    /// Why it ended.
    pub ending: Ending,
    /// The policy's answers, turn by turn, as the environment read them.
    pub answers: Vec<Message>,
    /// What the episode asked of the world and was told; empty for episodes played before records existed.
    #[serde(default)]
    pub record: Record,
}

impl Episode {
    /// The traces of all agents of the record, in the record's order.
    pub fn traces_of_agents(&self) -> Vec<Trace> {
        let (mut own, mut partners) = (self.traces.iter(), self.partners.iter());
        self.record
            .are_own()
            .filter_map(|is_own| if is_own { own.next() } else { partners.next() })
            .cloned()
            .collect()
    }

    /// Did no turn take place because the prompt does not fit the policy's context window?
    pub fn is_prompt_too_long(&self) -> bool {
        self.ending == Ending::ContextOverflow && self.answers.is_empty()
    }

    /// Number of policy turns.
    pub fn turns(&self) -> usize {
        self.answers.len()
    }

    /// Number of tokens that the policy sampled.
    pub fn sampled_tokens(&self) -> usize {
        self.traces.iter().map(Trace::sampled_tokens).sum()
    }

    /// Number of latent steps in the policy's answers.
    pub fn latent_steps(&self) -> usize {
        let sources = self.traces.iter().flat_map(Trace::nodes).flat_map(|node| &node.sources);
        sources.filter(|source| **source == Source::Latent).count()
    }
}
