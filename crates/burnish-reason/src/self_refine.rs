//! Self-refinement: the policy reads its own answer and answers again.
//!
//! **What it does.** Samples an answer, shows it with the question, and takes the answer that follows; again for every
//! round. It is HeavySkill with one draft and one deliberation, and shares its prompt (the skill file).
//!
//! **Formula.**
//!
//! ```text
//! y_0 ~ π(·|x)        y_r ~ π(·|read(x, y_{r-1})), r = 1..R        y = y_R
//! ```
//!
//! **Reduces to.** `heavyskill` with `drafts = 1, deliberations = 1, iterations = R`, to the bit.
//!
//! **Differs from the paper.** Criticism and the better answer are one turn, not two, and the number of rounds is fixed.
//!
//! **References.** Madaan et al. 2023, Self-Refine, arXiv:2303.17651.

use burnish_core::Sampling;
use burnish_core::settings::SettingError;
use serde::{Deserialize, Serialize};

use crate::card::{Card, Part, require};
use crate::heavyskill::{Choose, Heavyskill};
use crate::session::Session;
use crate::strategy::{Answering, Strategy};

/// Self-refinement. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SelfRefine {
    /// How often the answer is read and given again, R. Default: 1.
    pub rounds: usize,
    /// Most tokens of an answer that are shown. Default: 80 000.
    pub cache_tokens: usize,
    /// The temperature of the first answer. Default: that of the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// The temperature of the others. Default: that of the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliberation_temperature: Option<f32>,
    /// As `heavyskill`'s. Default: that of the skill file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// As `heavyskill`'s. Default: that of the skill file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft: Option<String>,
}

impl Default for SelfRefine {
    fn default() -> Self {
        let Heavyskill { cache_tokens, .. } = Heavyskill::default();
        SelfRefine {
            rounds: 1,
            cache_tokens,
            temperature: None,
            deliberation_temperature: None,
            template: None,
            draft: None,
        }
    }
}

impl SelfRefine {
    /// The same as a case of HeavySkill.
    fn as_heavyskill(&self) -> Heavyskill {
        Heavyskill {
            drafts: 1,
            deliberations: 1,
            iterations: self.rounds,
            choose: Choose::First,
            cache_tokens: self.cache_tokens,
            temperature: self.temperature,
            deliberation_temperature: self.deliberation_temperature,
            template: self.template.clone(),
            draft: self.draft.clone(),
            ..Heavyskill::default()
        }
    }
}

impl Part for SelfRefine {
    const CARD: Card = Card {
        id: "self_refine",
        title: "self-refinement",
        paper: "Madaan et al. 2023, arXiv:2303.17651",
        equation: "y_0 ~ π(·|x); y_r ~ π(·|read(x, y_{r-1})), r = 1..R; y = y_R",
        reads: "nothing: the last answer counts",
        reconstructed: None,
        reduces_to: &["heavyskill with drafts = 1, deliberations = 1, iterations = R, to the bit"],
        file: "crates/burnish-reason/src/self_refine.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("rounds", self.rounds, 1, 64)?;
        self.as_heavyskill().check()
    }
}

impl Strategy for SelfRefine {
    fn check_sampling(&self, sampling: &Sampling) -> Result<(), SettingError> {
        self.as_heavyskill().check_sampling(sampling)
    }

    fn answer<'a>(&'a self, session: &'a Session<'_>) -> Answering<'a> {
        Box::pin(async move { self.as_heavyskill().run(session).await })
    }
}
