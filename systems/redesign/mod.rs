//! LLM-as-Environment-Engineer: the environment is redesigned between rounds of training.
//!
//! **What it does.** When a run is over, an *engineer* reads what its last evaluation found, as rates over held-out
//! tasks by label, and says how the environment of the next run is configured. It changes numbers of the configuration,
//! never tasks, so labels and rewards stay exact. Whoever it is, it answers with a text, in which a proposal is read.
//! Values out of range become the nearest that are in it, shares are scaled to the sum 1, and what is no number or no
//! key is refused by name. Without a proposal, or without tasks of what was proposed, the environment stays as it is.
//!
//! **Formula.** With the rate `p` at which the tasks of a share are solved, `failure_guided` moves shares to what is
//! solved sometimes:
//!
//! ```text
//! weight = p (1 - p) + floor      share' = (1 - shift) share + shift weight / sum of weights
//! ```
//!
//! Any other key moves `places` in its menu towards what is harder if the tasks on which it acts are solved more often
//! than `high`, and towards what is easier if they are solved less often than `low`.
//!
//! **Reduces to.** Training in a fixed environment, for `engineer = "identity"`.
//!
//! **Differs from the papers.** In the paper a language model is always the engineer. The rules are ours; `random` and
//! `monotone` are their controls.
//!
//! **Reconstructed.** The wording of what an engineer is told and asked, and the rule of `failure_guided`.
//!
//! **References.** From Trainee to Trainer, arXiv:2606.17682, of which detailed notes were read.

mod model;
mod rules;
mod told;

use burnish_core::knob::{Harder, Knob};
use burnish_reason::design::{Attempt, Configuration, Design, Proposal, revise};
use burnish_reason::{Bench, Made, MakeKind, Maker, Making};
use burnish_rl::{Card, Check, Family, Part, SettingError, require};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Evidence, PartRef, Status, System};

/// Menus may have combinations of which there are no tasks.
const DRAWS_MAX: usize = 50;

/// The engineer. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Redesign {
    /// Who redesigns. Default: a model.
    pub engineer: Engineer,
    /// The keys of `env.config` that may change. Default: all that the environment names.
    pub keys: Vec<String>,
    /// What the engineer is not told. Default: it is told everything.
    pub without: Vec<Module>,
    /// Settings of the engineers that follow a rule.
    pub rule: Rule,
    /// Most tokens of one answer of a model. Default: 4096.
    pub tokens_max: usize,
    /// Temperature of its answers; 0 is greedy. Default: 0.
    pub temperature: f32,
}

/// Who redesigns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Engineer {
    /// Nobody: the environment stays as it is.
    Identity,
    /// Chance: a value of its menu for each key.
    Random,
    /// A curriculum: every key a step towards what is harder, whatever the policy does.
    Monotone,
    /// A rule that reads the failures.
    FailureGuided,
    /// `make.teacher`, or the policy itself.
    Model,
}

/// A part of what an engineer is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Module {
    /// Rates of success and of every flag, by label.
    Breakdown,
    /// What is worth knowing about tasks of the environment.
    Guideline,
    /// Earlier configurations and what came of them.
    History,
    /// What the policy does well and badly, in words.
    Summary,
    /// Numbers of the training steps.
    Training,
}

/// Settings of `monotone` and `failure_guided`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rule {
    /// Places of its menu that a key moves in a round. Default: 1.
    pub places: usize,
    /// How far shares move in a round: 0 not at all, 1 all the way. Default: 0.5.
    pub shift: f64,
    /// Success below this is too hard (`failure_guided`). Default: 0.2.
    pub low: f64,
    /// Success above this is too easy (`failure_guided`). Default: 0.8.
    pub high: f64,
    /// The weight of tasks that are always or never solved, beside those that are solved half the time, which have 0.25
    /// (`failure_guided`). Default: 0.05.
    pub floor: f64,
}

impl Default for Rule {
    fn default() -> Self {
        Rule { places: 1, shift: 0.5, low: 0.2, high: 0.8, floor: 0.05 }
    }
}

impl Default for Redesign {
    fn default() -> Self {
        Redesign {
            engineer: Engineer::Model,
            keys: Vec::new(),
            without: Vec::new(),
            rule: Rule::default(),
            tokens_max: 4096,
            temperature: 0.0,
        }
    }
}

impl Part for Redesign {
    const CARD: Card = Card {
        id: "redesign",
        title: "an engineer redesigns the environment",
        family: Family::Maker,
        paper: "From Trainee to Trainer, arXiv:2606.17682",
        equation: "made = the configuration of the environment, with the values that an engineer proposes after it was told rates",
        scope: "run",
        check: Check::Oracle("proposals worked out by hand, in systems/redesign/tests.rs"),
        reconstructed: Some(
            "the wording of what an engineer is told and asked, and the rule of `failure_guided`",
        ),
        reduces_to: &["training in a fixed environment, for engineer = \"identity\""],
        file: "systems/redesign/mod.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        let twice = self.keys.iter().enumerate().find(|(at, key)| self.keys[..*at].contains(key));
        if let Some((_, key)) = twice {
            return Err(SettingError::new("keys", format!("names `{key}` twice")));
        }
        if self.engineer == Engineer::FailureGuided && !self.tells(Module::Breakdown) {
            let problem = "must not name \"breakdown\" with `engineer = \"failure_guided\"`: it is what that rule reads";
            return Err(SettingError::new("without", problem));
        }
        let Rule { places, shift, low, high, floor } = self.rule;
        let is_share = |number: f64| (0.0..=1.0).contains(&number);
        require(
            "rule.places",
            places as f64,
            |places| (1.0..=1000.0).contains(&places),
            "must be 1 to 1000",
        )?;
        require("rule.shift", shift, is_share, "must be 0 to 1")?;
        require("rule.low", low, is_share, "must be 0 to 1")?;
        require(
            "rule.high",
            high,
            |high| high > low && high <= 1.0,
            "must be above `rule.low`, and 1 at most",
        )?;
        require("rule.floor", floor, |floor| floor > 0.0 && floor <= 1.0, "must be above 0, and 1 at most")?;
        require("tokens_max", self.tokens_max as f64, |most| most >= 1.0, "must be 1 or more")?;
        require("temperature", self.temperature.into(), |own| own >= 0.0, "must be 0 (greedy) or more")
    }
}

impl Maker for Redesign {
    fn kinds(&self) -> &'static [MakeKind] {
        &[MakeKind::Config]
    }

    fn is_over_all(&self) -> bool {
        true
    }

    fn keys(&self) -> &[String] {
        &self.keys
    }

    fn check_knobs(&self, knobs: &[Knob]) -> Result<(), SettingError> {
        let needs_direction = matches!(self.engineer, Engineer::Monotone | Engineer::FailureGuided);
        if needs_direction && knobs.iter().all(|knob| knob.harder == Harder::Unknown) {
            let problem = "needs to know in which direction tasks become harder, which the environment says of no key; take \
                           another one, such as \"random\"";
            return Err(SettingError::new("engineer", problem));
        }
        Ok(())
    }

    fn make<'a>(&'a self, bench: &'a Bench<'a>) -> Making<'a> {
        Box::pin(async move {
            let design = bench.design(&self.keys)?;
            self.check_knobs(&design.knobs)?;
            let told = told::text(&design, self);
            let (mut config, mut reason, mut attempts) = (design.config.clone(), String::new(), Vec::new());
            let often = if self.engineer == Engineer::Random { DRAWS_MAX } else { 1 };
            for number in 0..often {
                let said = match self.engineer {
                    Engineer::Identity => Ok(rules::identity()),
                    Engineer::Random => Ok(rules::random(&design, bench.seed(number as u64))),
                    Engineer::Monotone => Ok(self.rule.monotone(&design)),
                    Engineer::FailureGuided => Ok(self.rule.failure_guided(&design)),
                    Engineer::Model => self.asked(bench, &design, &told).await?,
                };
                let mut attempt = Attempt::default();
                let tried = said.and_then(|said| {
                    attempt.said.clone_from(&said);
                    tried(bench, &design, &said, &mut attempt)
                });
                match tried {
                    Ok(taken) => (config, reason) = taken,
                    Err(problem) => attempt.problem = Some(problem),
                }
                attempts.push(attempt);
                if attempts.last().is_some_and(|last| last.problem.is_none()) {
                    break;
                }
            }
            let Design { environment, round, mut history, .. } = design;
            history.push(round);
            bench.emit(Made::Config(Box::new(Configuration {
                environment,
                config,
                reason,
                told,
                attempts,
                history,
            })))
        })
    }
}

impl Redesign {
    /// Is the engineer told this?
    fn tells(&self, module: Module) -> bool {
        !self.without.contains(&module)
    }
}

/// The configuration that an answer makes, and its reason; or why it makes none.
fn tried(
    bench: &Bench<'_>,
    design: &Design,
    said: &str,
    attempt: &mut Attempt,
) -> Result<(Value, String), String> {
    let proposal = Proposal::read(said)?;
    let revision = revise(&design.config, &design.knobs, &proposal);
    (attempt.changes, attempt.rejected) = (revision.changes, revision.rejected);
    // What stays as it is was tried before.
    let config = match revision.config == design.config {
        true => revision.config,
        false => bench.check_config(&revision.config)?,
    };
    Ok((config, proposal.reason))
}

/// The whole system.
pub(crate) const SYSTEM: System = System {
    id: "redesign",
    title: "LLM-as-Environment-Engineer: an engineer redesigns the environment between rounds of GRPO",
    paper: Redesign::CARD.paper,
    evidence: Evidence::Notes,
    reconstructed: &[
        "MAPF-FrozenLake: the cost of a plan (sum of costs), the rewards (0, 0.5, 1), when a board needs a WAIT",
        "the wording of what an engineer is told and asked",
        "the rule of `failure_guided`",
    ],
    parts: &[PartRef { family: Family::Maker, id: "redesign" }],
    uses: &["rounds", "env.config_from"],
    environments: &["mapf-frozenlake", "countdown"],
    recipe: Some("systems/redesign/round.toml"),
    set: &[],
    study: Some("systems/redesign/study.toml"),
    results: &["systems/redesign/results.md"],
    reduces_to: &["GRPO in a fixed environment, round after round, for engineer = \"identity\""],
    run: None,
    status: Status::Runs,
};

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
