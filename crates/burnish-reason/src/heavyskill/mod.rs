//! HeavySkill: think in parallel, then deliberate over what was thought.
//!
//! **What it does.** Stage 1 samples drafts, each in a context of its own, and picks K of them if there is a pool. What they
//! said is serialised within a budget of tokens and put in an order that the seed decides (`cache.rs`). Stage 2 reads the
//! question with them and answers M times; where there are more iterations, its answers are the next drafts. The prompt is in
//! a skill file (`skill.md`), which can be replaced.
//!
//! **Formula.**
//!
//! ```text
//! y_i ~ π(·|x), i = 1..K        C = shuffle(prune(select(y), B))        z_j ~ π'(·|skill(x, C)), j = 1..M
//! N iterations: y ← z           answer: the majority of z, or z_1
//! ```
//!
//! **Reduces to.** The plain answer for `drafts = 0, deliberations = 1`, to the bit; self-refinement for `drafts = 1,
//! deliberations = 1`, to the bit.
//!
//! **Reconstructed.** What the rules of selection do beyond their names (the paper's order of them: max_answer_num best,
//! max_length worst); which part of a draft is kept when the cache is pruned; the wording of the skill file; that a turn's
//! answer is the majority of the deliberations (the paper reports their mean, HM@4).
//!
//! **Differs from the paper.** Temperatures, `top_p` and `top_k` are those of the turn unless they are given (the paper: 1.0,
//! 0.95, 10 for drafts, 0.7 for deliberations). If the prompt does not fit the context window, the cache is pruned further.
//!
//! **References.** HeavySkill, arXiv:2605.02396.

mod cache;
mod pool;
mod skill;

use std::sync::Arc;

use burnish_core::settings::SettingError;
use burnish_core::{PolicyError, Sampling};
use burnish_episode::ContactError;
use burnish_verify::Verifier;
use serde::{Deserialize, Serialize};

pub use cache::{Draft, Kept, Showing, prune};
pub use pool::PoolSelection;
pub use skill::Skill;

use crate::card::{CANDIDATES_MAX, Card, Part, require, require_temperature};
use crate::majority::vote;
use crate::record::{Cached, Role, Selection, text_of};
use crate::sampling::{at, check_spread};
use crate::session::{DELIBERATOR, POLICY, Question, Request, Session};
use crate::strategy::{Answering, Strategy};

/// Which deliberation is the answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choose {
    /// The first of those that most others agree with.
    #[default]
    Majority,
    /// The first.
    First,
}

/// HeavySkill. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Heavyskill {
    /// Drafts that are read, K. Default: 8.
    pub drafts: usize,
    /// Drafts that are sampled, of which K are read. Default: K.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<usize>,
    /// How they are picked from the pool. Default: `max_answer_num`.
    pub selection: PoolSelection,
    /// Most tokens of drafts that a deliberation reads, B. Default: 80 000.
    pub cache_tokens: usize,
    /// Answers of a deliberation, M. Default: 4.
    pub deliberations: usize,
    /// How often deliberation is repeated, N. Default: 1.
    pub iterations: usize,
    /// Which of the last deliberations is the answer. Default: `majority`.
    pub choose: Choose,
    /// The temperature of drafts. Default: that of the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// The temperature of deliberations. Default: that of the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliberation_temperature: Option<f32>,
    /// Most tokens of a deliberation. Default: that of the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliberation_tokens_max: Option<usize>,
    /// The verifier that finds and compares final answers. Default: `math`.
    pub equality: Verifier,
    /// What replaces the last message: `{prompt}` stands for it, `{drafts}` for the drafts. Default: that of the skill file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// How a draft is shown: `{number}` is its place, `{draft}` its text. Default: that of the skill file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft: Option<String>,
}

impl Default for Heavyskill {
    fn default() -> Self {
        Heavyskill {
            drafts: 8,
            pool: None,
            selection: PoolSelection::default(),
            cache_tokens: 80_000,
            deliberations: 4,
            iterations: 1,
            choose: Choose::default(),
            temperature: None,
            deliberation_temperature: None,
            deliberation_tokens_max: None,
            equality: Verifier::Math,
            template: None,
            draft: None,
        }
    }
}

impl Part for Heavyskill {
    const CARD: Card = Card {
        id: "heavyskill",
        title: "HeavySkill: parallel thinking, then deliberation",
        paper: "HeavySkill, arXiv:2605.02396",
        equation: "y_i ~ π(·|x), i = 1..K; C = shuffle(prune(select(y), B)); z_j ~ π'(·|skill(x, C)), j = 1..M; answer: majority of z",
        reads: "its final answer and its length",
        reconstructed: Some(
            "the rules of selection beyond their names, what pruning keeps, the wording of the skill file, the majority of the \
             deliberations as the answer",
        ),
        reduces_to: &[
            "the plain answer, for drafts = 0 and deliberations = 1, to the bit",
            "self_refine, for drafts = 1 and deliberations = 1, to the bit",
        ],
        file: "crates/burnish-reason/src/heavyskill/mod.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("drafts", self.drafts, 0, CANDIDATES_MAX)?;
        if let Some(pool) = self.pool {
            require("pool", pool, self.drafts.max(1), CANDIDATES_MAX)?;
        }
        require("deliberations", self.deliberations, 1, CANDIDATES_MAX)?;
        require("iterations", self.iterations, 1, 64)?;
        require_temperature("temperature", self.temperature)?;
        require_temperature("deliberation_temperature", self.deliberation_temperature)?;
        if let Some(most) = self.deliberation_tokens_max {
            require("deliberation_tokens_max", most, 1, 1 << 20)?;
        }
        self.skill().check()
    }
}

impl Strategy for Heavyskill {
    fn check_sampling(&self, sampling: &Sampling) -> Result<(), SettingError> {
        check_spread("temperature", self.pool(), self.temperature, sampling)?;
        check_spread("deliberation_temperature", self.deliberations, self.deliberation_temperature, sampling)
    }

    fn answer<'a>(&'a self, session: &'a Session<'_>) -> Answering<'a> {
        Box::pin(self.run(session))
    }
}

impl Heavyskill {
    fn skill(&self) -> Skill {
        Skill::with(self.template.as_deref(), self.draft.as_deref())
    }

    /// Drafts that are sampled.
    fn pool(&self) -> usize {
        if self.drafts == 0 { 0 } else { self.pool.unwrap_or(self.drafts) }
    }

    pub(crate) async fn run(&self, session: &Session<'_>) -> Result<usize, ContactError> {
        let mut read = self.think(session).await?;
        for iteration in 1..=self.iterations as u32 {
            read = self.deliberate(session, &read, iteration).await?;
        }
        if self.choose == Choose::Majority && read.len() > 1 {
            return Ok(vote(session, read, self.equality));
        }
        Ok(session.choose("first", read, 0, Vec::new(), Vec::new()))
    }

    /// Stage 1: the drafts that are read.
    async fn think(&self, session: &Session<'_>) -> Result<Vec<usize>, ContactError> {
        let questions = vec![session.question(0); self.pool()];
        if questions.is_empty() {
            return Ok(Vec::new());
        }
        let sampling = at(session.sampling(), self.temperature);
        let request = Request { role: Role::Draft, who: POLICY, stage: 0, first: 0, questions, sampling };
        let pool = session.sample(request).await?;
        if pool.len() == self.drafts {
            return Ok(pool);
        }
        let answers = session.answers(&pool, self.equality);
        let lengths: Vec<usize> =
            session.read(|all| pool.iter().map(|at: &usize| all[*at].tokens.generated).collect());
        let seed = session.seed(SELECTION, 0);
        let picked = self.selection.pick(&answers, &lengths, self.drafts, seed);
        let chosen: Vec<usize> = picked.into_iter().map(|at| pool[at]).collect();
        let rule = format!("pool/{}", self.selection.name());
        let scores = match self.selection {
            PoolSelection::MaxLength => lengths.iter().map(|length| Some(*length as f64)).collect(),
            _ => Vec::new(),
        };
        session.note(Selection { rule, among: pool, answers, scores, chosen: chosen.clone() });
        Ok(chosen)
    }

    /// Stage 2: reads earlier answers and gives new ones.
    async fn deliberate(
        &self,
        session: &Session<'_>,
        read: &[usize],
        iteration: u32,
    ) -> Result<Vec<usize>, ContactError> {
        // Where a part of a draft has to hold its answer, the answers are on the record.
        session.answers(read, self.equality);
        let drafts: Vec<Draft> = session.read(|all| {
            let draft = |at: &usize| {
                let (text, tokens) = (text_of(&all[*at].message), all[*at].tokens.generated);
                Draft { text, tokens, answer: all[*at].answer.clone() }
            };
            read.iter().map(draft).collect()
        });
        let mut sampling = at(session.sampling(), self.deliberation_temperature);
        if let Some(most) = self.deliberation_tokens_max {
            sampling = Arc::new(Sampling { tokens_max: most, ..(*sampling).clone() });
        }
        let skill = self.skill();
        let (question, seed) = (session.messages(), session.seed(SELECTION, iteration));
        let mut budget = self.cache_tokens;
        loop {
            let showing = Showing { skill: &skill, budget, equality: self.equality, seed };
            let (messages, kept) = showing.show(&question, &drafts);
            let prompt = messages.last().map_or_else(String::new, |message| message.content.clone());
            let question = Question { at: 0, messages: Arc::new(messages) };
            let questions = vec![question; self.deliberations];
            let (role, who, sampling) = (Role::Deliberation, DELIBERATOR, Arc::clone(&sampling));
            let request = Request { role, who, stage: iteration, first: 0, questions, sampling };
            let tokens: usize = kept.iter().map(|kept| kept.tokens).sum();
            match session.sample(request).await {
                // Less is shown until it fits.
                Err(ContactError::Policy(PolicyError::PromptTooLong { tokens: found, tokens_max }))
                    if !kept.is_empty() =>
                {
                    budget = tokens.saturating_sub(found.saturating_sub(tokens_max).max(1));
                }
                Err(error) => return Err(error),
                Ok(answers) => {
                    let cached = kept.iter().map(|kept| Cached {
                        stage: iteration,
                        candidate: read[kept.draft],
                        tokens: kept.tokens,
                        is_whole: kept.is_whole,
                    });
                    if !kept.is_empty() {
                        session.note_cache(cached, prompt);
                    }
                    return Ok(answers);
                }
            }
        }
    }
}

/// The stage in the seeds of choices.
const SELECTION: u32 = u32::MAX;
