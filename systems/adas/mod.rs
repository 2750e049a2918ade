//! ADAS: a search over strategies, which an archive of those that were tried guides (Meta Agent Search).
//!
//! **What it does.** A meta agent reads an archive of strategies with their success on the run's tasks, and proposes a further one:
//! which strategy, with which settings. It reads its proposal twice more, for novelty and for correctness. The proposal is played
//! on all tasks. If it can't be played, costs too much or never succeeds, the meta agent is told so and mends it, up to
//! `debug_rounds` times; otherwise it enters the archive. The best of the archive is what the run makes.
//!
//! **Formula.** With `S(a)` the success rate of strategy `a` on the tasks, and `C(a)` its mean number of tokens:
//!
//! ```text
//! A_0 = {(s, S(s)) : s a seed}      a_g ~ meta(· | A_{g-1})      A_g = A_{g-1} ∪ {(a_g, S(a_g))} if C(a_g) ≤ c and S(a_g) > 0
//! made = argmax_{a ∈ A_G} S(a),  the one with fewer tokens where two are equal
//! ```
//!
//! **Reduces to.** The best of the seeds, for `generations = 0`.
//!
//! **Differs from the papers.** An agent is not a Python function, but one of our strategies with its settings: data, which sees no
//! task, label or verdict, so no candidate can read what it is measured by. The seeds are strategies that we have; the paper's
//! include debate, step-back and roles. `by = "chance"` puts random changes and crossings in the place of the meta agent, for
//! policies that can't write proposals, and as a control.
//!
//! **Reconstructed.** The texts of the prompts, the bound on tokens, and that equal rates are told apart by tokens.
//!
//! **References.** Hu, Lu, Clune 2025, Automated Design of Agentic Systems, arXiv:2408.08435.

mod chance;

use std::collections::BTreeSet;

use burnish_core::{Message, PolicyError, Sampling, Task};
use burnish_episode::ContactError;
use burnish_eval::bootstrap::{self, Interval};
use burnish_reason::{
    Bench, Made, MakeKind, Maker, MakerError, Making, Outcome, STRATEGIES, StrategyConfig, TEACHER,
};
use burnish_rl::catalogue::no_settings;
use burnish_rl::{Card, Check, Family, Part, SettingError, require};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{Evidence, PartRef, Status, System};

const PROPOSE: &str = include_str!("propose.md");
const NOVELTY: &str = include_str!("novelty.md");
const CORRECTNESS: &str = include_str!("correctness.md");
const MEND: &str = include_str!("mend.md");

/// Number of the seed of intervals; those of proposals are below it.
const BOOTSTRAP: u64 = 1 << 62;

/// The search. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Adas {
    /// Proposals, G. Default: 30.
    pub generations: usize,
    /// Who proposes. Default: the teacher.
    pub by: By,
    /// Strategies of the archive before the first proposal. Default: one answer, and four strategies with 8 answers or one
    /// correction.
    pub seeds: Vec<StrategyConfig>,
    /// How often a proposal that fails is mended. Default: 3.
    pub debug_rounds: usize,
    /// Most tokens that a proposal may generate for an episode, in the mean, c. Default: as many as it likes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_max: Option<f64>,
    /// The temperature of the meta agent. Default: 0.8.
    pub meta_temperature: f32,
    /// Most tokens of what the meta agent says. Default: 1024.
    pub meta_tokens_max: usize,
}

/// Who proposes strategies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// `make.teacher`, or the run's policy.
    Teacher,
    /// Nobody: members of the archive are changed and crossed at random.
    Chance,
}

impl Default for Adas {
    fn default() -> Self {
        let plain = StrategyConfig { config: json!({ "samples": 1 }), ..StrategyConfig::new("majority") };
        let others = ["majority", "best_of_n", "weighted_vote", "self_refine"].map(StrategyConfig::new);
        Adas {
            generations: 30,
            by: By::Teacher,
            seeds: std::iter::once(plain).chain(others).collect(),
            debug_rounds: 3,
            tokens_max: None,
            meta_temperature: 0.8,
            meta_tokens_max: 1024,
        }
    }
}

impl Part for Adas {
    const CARD: Card = Card {
        id: "adas",
        title: "ADAS: a search over strategies",
        family: Family::Maker,
        paper: "Hu, Lu, Clune 2025, Automated Design of Agentic Systems, arXiv:2408.08435",
        equation: "made = argmax of success over an archive, to which a meta agent that reads it proposes strategies",
        scope: "run",
        check: Check::Oracle("the archive of a scripted meta agent, in systems/adas/tests.rs"),
        reconstructed: Some(
            "the texts of the prompts, the bound on tokens, and that tokens decide between equal rates",
        ),
        reduces_to: &["the best of the seeds, for generations = 0"],
        file: "systems/adas/mod.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        let within = |error: SettingError| SettingError { key: format!("seeds.{}", error.key), ..error };
        self.seeds.iter().try_for_each(|seed| asks_policy(seed).map_err(within))?;
        require("seeds", self.seeds.len() as f64, |count| count >= 1.0, "must not be empty")?;
        require("tokens_max", self.tokens_max.unwrap_or(1.0), |most| most > 0.0, "must be above 0")?;
        require(
            "meta_temperature",
            self.meta_temperature.into(),
            |own| own >= 0.0,
            "must be 0 (greedy) or more",
        )?;
        require("meta_tokens_max", self.meta_tokens_max as f64, |most| most >= 1.0, "must be 1 or more")
    }
}

/// A strategy that somebody proposes.
#[derive(Debug, Clone, PartialEq)]
struct Proposal {
    thought: String,
    name: String,
    strategy: StrategyConfig,
}

/// A proposal in the words of a meta agent.
#[derive(Deserialize)]
struct Worded {
    #[serde(default)]
    thought: String,
    #[serde(default)]
    name: String,
    strategy: String,
    #[serde(default = "no_settings")]
    config: Value,
}

/// A strategy in the archive.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Member {
    /// 0 for seeds.
    pub generation: usize,
    /// What its author calls it.
    pub name: String,
    /// Why its author expects something of it.
    pub thought: String,
    /// The strategy, with all of its settings.
    #[serde(flatten)]
    pub strategy: StrategyConfig,
    /// Tasks that it solves.
    pub solved: usize,
    /// Their share of all tasks.
    pub success: Interval,
    /// Tokens that it generates for an episode, in the mean.
    pub tokens: f64,
}

impl Maker for Adas {
    fn kinds(&self) -> &'static [MakeKind] {
        &[MakeKind::Strategy]
    }

    fn is_over_all(&self) -> bool {
        true
    }

    fn make<'a>(&'a self, bench: &'a Bench<'a>) -> Making<'a> {
        Box::pin(async move {
            let tasks: Vec<&Task> = bench.all().iter().map(|own| &own.task).collect();
            let (mut archive, mut failed) = (Vec::new(), Vec::new());
            for strategy in &self.seeds {
                let of_seed =
                    |error: SettingError| SettingError { key: format!("seeds.{}", error.key), ..error };
                let strategy = strategy.clone().complete().map_err(of_seed)?;
                check_sampling(bench, &strategy).map_err(of_seed)?;
                let proposal = Proposal { thought: String::new(), name: strategy.strategy.clone(), strategy };
                let outcomes = bench.play(&proposal.strategy, &tasks).await?;
                archive.push(member(0, proposal, &outcomes, bench.seed(BOOTSTRAP)));
            }
            for generation in 1..=self.generations {
                let mut before = None;
                for attempt in 0..=self.debug_rounds {
                    let number = (generation * (self.debug_rounds + 1) + attempt) as u64;
                    let said = match self.by {
                        By::Teacher => self.asked(bench, &archive, before.take()).await?,
                        By::Chance => chance::proposed(&archive, bench.seed(number)),
                    };
                    match self.tried(bench, generation, said.proposal, &tasks, &archive).await? {
                        Ok(member) => {
                            archive.push(member);
                            break;
                        }
                        Err(reason) => {
                            failed.push(json!({ "generation": generation, "reason": reason }));
                            before = Some((said.conversation, reason));
                        }
                    }
                }
            }
            bench.report(json!({ "archive": archive, "failed": failed }));
            let better = |one: &&Member, other: &&Member| {
                one.solved.cmp(&other.solved).then(other.tokens.total_cmp(&one.tokens))
            };
            // `max_by` returns the last of equal ones; the first that was tried is wanted.
            let best = archive.iter().rev().max_by(better).map(|best| best.strategy.clone());
            best.map_or(Ok(()), |best| bench.emit(Made::Strategy(best)))
        })
    }
}

/// What a meta agent said: the proposal, or why it is none; with the conversation, so that it can be mended.
struct Said {
    conversation: Vec<Message>,
    proposal: Result<Proposal, String>,
}

impl Adas {
    /// What the meta agent proposes after it has read the archive, or when it has been told how its last proposal failed.
    async fn asked(
        &self,
        bench: &Bench<'_>,
        archive: &[Member],
        before: Option<(Vec<Message>, String)>,
    ) -> Result<Said, MakerError> {
        let sampling = Sampling::at(self.meta_temperature, self.meta_tokens_max);
        // What is too long to be mended is given up.
        let before = before.filter(|(conversation, _)| !conversation.is_empty());
        let questions = match &before {
            Some((_, reason)) => vec![MEND.replace("{reason}", reason)],
            None => vec![
                proposal_prompt(archive, self.tokens_max, bench.has_memory())?,
                NOVELTY.into(),
                CORRECTNESS.into(),
            ],
        };
        let mut conversation = before.map(|(conversation, _)| conversation).unwrap_or_default();
        for question in questions {
            conversation.push(Message::user(question));
            let said = bench.ask(TEACHER, conversation.clone(), &sampling).await;
            if let Err(MakerError::Contact(ContactError::Policy(PolicyError::PromptTooLong { .. }))) = said {
                let proposal =
                    Err("the conversation no longer fits the context of the meta agent".to_owned());
                return Ok(Said { conversation: Vec::new(), proposal });
            }
            conversation.push(said?);
        }
        let text = conversation.last().map(|last| last.content.as_str()).unwrap_or_default();
        let object = text.find('{').zip(text.rfind('}')).and_then(|(from, to)| text.get(from..=to));
        let proposal = match object.map(serde_json::from_str) {
            None => Err("the answer has no JSON object".to_owned()),
            Some(Err(error)) => Err(format!("the answer is no proposal: {error}")),
            Some(Ok(Worded { thought, name, strategy, config })) => {
                Ok(Proposal { thought, name, strategy: StrategyConfig { strategy, config } })
            }
        };
        Ok(Said { conversation, proposal })
    }

    /// The proposal as a member of the archive, or why it does not become one.
    async fn tried(
        &self,
        bench: &Bench<'_>,
        generation: usize,
        proposal: Result<Proposal, String>,
        tasks: &[&Task],
        archive: &[Member],
    ) -> Result<Result<Member, String>, MakerError> {
        let mut proposal = match proposal {
            Ok(proposal) => proposal,
            Err(reason) => return Ok(Err(reason)),
        };
        let complete = proposal.strategy.complete();
        proposal.strategy = match complete.and_then(|own| check_sampling(bench, &own).map(|()| own)) {
            Ok(strategy) => strategy,
            Err(error) => return Ok(Err(error.to_string())),
        };
        if archive.iter().any(|known| known.strategy == proposal.strategy) {
            return Ok(Err("it is in the archive already".into()));
        }
        let outcomes = bench.play(&proposal.strategy, tasks).await?;
        let member = member(generation, proposal, &outcomes, bench.seed(BOOTSTRAP));
        Ok(match self.tokens_max {
            _ if member.solved == 0 => Err("it solves no task".into()),
            Some(most) if member.tokens > most => Err(format!(
                "it generates {:.0} tokens for an episode, and at most {most} are allowed",
                member.tokens
            )),
            _ => Ok(member),
        })
    }
}

/// Is the policy the only one that a strategy asks?
fn asks_policy(strategy: &StrategyConfig) -> Result<(), SettingError> {
    match strategy.build()?.reward_model() {
        Some(_) => Err(SettingError::new("config.score.by", "must not be `reward_model`: none is there")),
        None => Ok(()),
    }
}

/// Can episodes of the run be played by it?
fn check_sampling(bench: &Bench<'_>, strategy: &StrategyConfig) -> Result<(), SettingError> {
    asks_policy(strategy)?;
    let built = strategy.build()?;
    if built.recalls() && !bench.has_memory() {
        return Err(SettingError::new("strategy", "reads notes, and the run has no `[memory]`"));
    }
    built.check_sampling(bench.sampling())
}

fn member(generation: usize, proposal: Proposal, outcomes: &[Outcome], seed: u64) -> Member {
    let successes: Vec<f64> = outcomes.iter().map(|outcome| f64::from(outcome.success)).collect();
    let none = Interval { mean: 0.0, low: 0.0, high: 0.0 };
    let tokens = outcomes.iter().map(|outcome| outcome.tokens as f64).sum::<f64>();
    Member {
        generation,
        name: proposal.name,
        thought: proposal.thought,
        strategy: proposal.strategy,
        solved: outcomes.iter().filter(|outcome| outcome.success).count(),
        success: bootstrap::mean(&successes, seed).unwrap_or(none),
        tokens: tokens / outcomes.len().max(1) as f64,
    }
}

/// The question for a proposal: every strategy with its settings, and the archive.
fn proposal_prompt(
    archive: &[Member],
    tokens_max: Option<f64>,
    has_memory: bool,
) -> Result<String, SettingError> {
    let mut strategies = String::new();
    for entry in STRATEGIES {
        let settings = (entry.complete)(&json!({}))?;
        if !has_memory && (entry.build)(&json!({}))?.recalls() {
            continue;
        }
        strategies += &format!("- `{}` ({}): {settings}\n", entry.card.id, entry.card.title);
    }
    let mut shown = String::new();
    for own in archive {
        shown += &format!("{}\n", json!(own));
    }
    let budget = tokens_max.map_or(String::new(), |most| {
        format!("It may generate at most {most} tokens for a task, in the mean.\n")
    });
    Ok(PROPOSE.replace("{strategies}", &strategies).replace("{archive}", &shown).replace("{budget}", &budget))
}

/// The keys of settings that two strategies share.
fn shared(one: &Value, other: &Value) -> BTreeSet<String> {
    let keys = |of: &Value| -> BTreeSet<String> {
        of.as_object().map(|own| own.keys().cloned().collect()).unwrap_or_default()
    };
    keys(one).intersection(&keys(other)).cloned().collect()
}

/// The whole system.
pub(crate) const SYSTEM: System = System {
    id: "adas",
    title: "ADAS: a search over strategies, guided by an archive",
    paper: Adas::CARD.paper,
    evidence: Evidence::Paper,
    reconstructed: &[
        "the texts of the prompts, the bound on tokens, and that tokens decide between equal rates",
    ],
    parts: &[PartRef { family: Family::Maker, id: "adas" }],
    uses: &["eval.strategy.from"],
    environments: &["household"],
    recipe: Some("systems/adas/search.toml"),
    set: &[],
    study: None,
    results: &[],
    reduces_to: Adas::CARD.reduces_to,
    run: Some("burnish train systems/adas/recipe.toml"),
    status: Status::Runs,
};

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
