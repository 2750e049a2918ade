//! `[latent]`: a policy that thinks in latent steps, and how it learns to.

use burnish_core::{Intervention, Latent, LatentInput, LatentPlace};
use burnish_train::Checkpointing;
use serde::{Deserialize, Serialize};

use crate::{ActivationCheckpointing, Method, Recipe, RecipeError, Source};

/// The reward component of answers whose tags are well-formed (`latent.rewards`).
pub const LATENT_FORMAT: &str = "latent_format";
/// The reward component of right answers that have a span (`latent.rewards`).
pub const LATENT_USE: &str = "latent_use";

/// The reward component of short ones of those answers (`latent.brevity`).
pub const LATENT_BREVITY: &str = "latent_brevity";

/// `[latent]`: answers go on in latent steps, which read a hidden state in place of an embedding: SWITCH
/// (arXiv:2606.13106), Coconut (arXiv:2412.06769) with `place = "start"`, and pause tokens (arXiv:2310.02226) with `input =
/// "filler"` as well.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LatentSection {
    /// Where latent steps are: `"spans"`, between `<swi>` and `</swi>`, `"start"` of the answer without tags, or
    /// `"visible"`: nowhere, and what is between the tags is said aloud.
    pub place: LatentPlace,
    /// What they read: `"hidden"`, the hidden state of the position before, or `"filler"`, the embedding of `<latent>`.
    pub input: LatentInput,
    /// Latent steps for each unit of a demonstration that they replace (`c`).
    pub steps_per_unit: usize,
    /// Most units of a span that are replaced (`K_max`). A span has at most `steps_per_unit * units_max` steps.
    pub units_max: usize,
    /// Fewest steps of a span; until then the policy can't leave it (`K_min`).
    pub steps_min: usize,
    /// SFT: what a unit of thought is in a demonstration, as a regular expression; matches that touch each other are one
    /// span. Example: `"\\d+[-+*/]\\d+=\\d+\\n"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// SFT: the stages that the run goes through, from the first to the last, in equal parts of its steps. In stage `k`
    /// the first `k` units of every span are latent.
    /// Default: from 0 to `units_max`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stages: Option<(usize, usize)>,
    /// SFT: the share of demonstrations that are taken from an earlier stage.
    pub earlier: f64,
    /// GRPO: where the gradient goes from a latent step.
    pub gradient: LatentPath,
    /// GRPO: reward components `latent_format` (1 or -1: the tags are well-formed or not) and `latent_use` (1 for a right,
    /// well-formed answer with a span).
    pub rewards: bool,
    /// GRPO, with `rewards`: a third component, `latent_brevity`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub brevity: Option<Brevity>,
    /// Evaluations: what is done to the hidden states before they are read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intervention: Option<Intervention>,
}

/// `latent.brevity`: what a right, well-formed answer with a span earns for being short, by its tokens: 1 for `low` or
/// fewer, 0 for `high` or more, and in between in proportion (SWITCH: 800 and 2,000).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Brevity {
    /// `T_lo`.
    pub low: usize,
    /// `T_hi`.
    pub high: usize,
}

impl Brevity {
    /// `clip((high - tokens) / (high - low), 0, 1)`.
    pub fn of(self, tokens: usize) -> f64 {
        let left = self.high as f64 - tokens as f64;
        (left / self.high.saturating_sub(self.low).max(1) as f64).clamp(0.0, 1.0)
    }
}

/// Where the gradient goes from a latent step of a sampled answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LatentPath {
    /// What it read when it was sampled is a constant (the paper's algorithm).
    #[default]
    Frozen,
    /// Through the whole recurrence, which is computed again (`bptt`).
    Bptt,
}

impl Default for LatentSection {
    fn default() -> Self {
        LatentSection {
            place: LatentPlace::Spans,
            input: LatentInput::Hidden,
            steps_per_unit: 1,
            units_max: 3,
            steps_min: 0,
            unit: None,
            stages: None,
            earlier: 0.1,
            gradient: LatentPath::Frozen,
            rewards: false,
            brevity: None,
            intervention: None,
        }
    }
}

impl LatentSection {
    /// The first and the last stage.
    pub fn stages(&self) -> (usize, usize) {
        self.stages.unwrap_or((0, self.units_max))
    }

    /// How answers that are trained on are sampled. Without tags there are as many steps as in the last stage.
    pub fn sampling(&self) -> Latent {
        let units = if self.place == LatentPlace::Start { self.stages().1 } else { self.units_max };
        Latent {
            place: self.place,
            input: self.input,
            steps_min: self.steps_min,
            steps_max: self.steps_per_unit.saturating_mul(units),
            intervention: None,
        }
    }

    /// How answers are sampled in evaluations.
    pub fn evaluated(&self) -> Latent {
        Latent { intervention: self.intervention, ..self.sampling() }
    }

    /// The stage of step number `step` of `max_steps`.
    pub fn stage(&self, step: u64, max_steps: u64) -> usize {
        let (first, last) = self.stages();
        let count = (last - first) as u64 + 1;
        first + (step.saturating_mul(count) / max_steps.max(1)).min(count - 1) as usize
    }
}

/// Checks ranges and combinations.
pub(super) fn check(recipe: &Recipe, source: &Source) -> Result<(), RecipeError> {
    let Some(latent) = &recipe.latent else { return Ok(()) };
    let wrong = |key: &str, rule: &str| Err(source.error(&format!("latent.{key}"), rule.to_owned()));
    if latent.steps_per_unit == 0 || latent.units_max == 0 {
        let key = if latent.steps_per_unit == 0 { "steps_per_unit" } else { "units_max" };
        return wrong(key, "must be 1 or more");
    }
    if latent.steps_min > latent.sampling().steps_max {
        return wrong("steps_min", "must be at most `steps_per_unit * units_max`");
    }
    if latent.input == LatentInput::Filler && latent.intervention.is_some() {
        return wrong("intervention", "needs `latent.input = \"hidden\"`: fillers read no hidden state");
    }
    let (first, last) = latent.stages();
    if first > last || last > latent.units_max || (latent.place == LatentPlace::Start && last == 0) {
        return wrong(
            "stages",
            "must be two numbers in ascending order, at most `units_max`; with `place = \"start\"` the last one is 1 or more",
        );
    }
    if let Some(Brevity { low, high }) = latent.brevity {
        if low >= high {
            return wrong("brevity", "must have a `low` below its `high`, both in tokens");
        }
        if !latent.rewards {
            return wrong("brevity", "needs `latent.rewards = true`: it is one of them");
        }
    }
    if !(0.0..=1.0).contains(&latent.earlier) {
        return wrong("earlier", "must be 0 to 1");
    }
    let is_sft = recipe.train.method == Method::Sft;
    match &latent.unit {
        None if is_sft => {
            return wrong(
                "unit",
                "is missing: with `train.method = \"sft\"` it says what a unit of thought is",
            );
        }
        Some(unit) => {
            if let Err(problem) = fancy_regex::Regex::new(unit) {
                return wrong("unit", &format!("is no regular expression: {problem}"));
            }
        }
        None => {}
    }
    for (key, is_there, why) in beside(recipe) {
        if is_there {
            return Err(source.error(key, format!("can't be combined with `[latent]`: {why}")));
        }
    }
    Ok(())
}

/// What latent steps can't be combined with, whether the recipe asks for it, and why not.
fn beside(recipe: &Recipe) -> [(&'static str, bool, &'static str); 10] {
    use ActivationCheckpointing::Always;
    use Checkpointing::{Full, Selective};
    let Recipe { train, policy, data, .. } = recipe;
    let compares = matches!(train.method, Method::Preference | Method::Reward);
    let is_masked = policy.new.as_ref().is_some_and(|new| new.masked);
    [
        ("train.method", compares, "no log-prob of a given answer is known whose thoughts are latent"),
        ("engine", recipe.engine.is_some(), "no engine can go on in latent steps"),
        ("trainer", recipe.trainer.is_some(), "no server learns latent steps"),
        ("data.packing", data.packing, "lengths change from stage to stage"),
        ("plan", recipe.plan.is_some(), "plans make prompts of parts of answers"),
        ("replay", recipe.replay.is_some(), "what latent steps read is not stored"),
        ("teacher", recipe.teacher.is_some(), "a teacher has no hidden state for a latent step"),
        ("critic", recipe.critic.is_some(), "a critic would have to read the policy's hidden states"),
        ("policy.new.masked", is_masked, "latent steps go from left to right"),
        (
            "train.activation_checkpointing",
            matches!(train.activation_checkpointing, Always(Selective | Full)),
            "layers with latent steps are not computed again",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{SFT, SMALL, read};

    #[test]
    fn latent_steps_reach_the_sampler_and_interventions_only_evaluations() {
        let plain = read(SMALL, &[]).unwrap();
        assert_eq!((plain.rollout_sampling().latent, plain.eval_sampling().latent), (None, None));
        let keys = ["latent.steps_min=2", "latent.steps_per_unit=2", "latent.intervention=zero"];
        let recipe = read(SMALL, &keys).unwrap();
        let expected = Latent {
            place: LatentPlace::Spans,
            input: LatentInput::Hidden,
            steps_min: 2,
            steps_max: 6,
            intervention: None,
        };
        assert_eq!(recipe.rollout_sampling().latent, Some(expected.clone()));
        let zero = Latent { intervention: Some(Intervention::Zero), ..expected };
        assert_eq!(recipe.eval_sampling().latent, Some(zero.clone()));
        assert_eq!(recipe.evaluation().sampling.latent, Some(zero));
        assert_eq!(read(&recipe.to_toml().unwrap(), &[]).unwrap(), recipe);
    }

    #[test]
    fn short_answers_earn_all_and_long_ones_nothing() {
        let brevity = Brevity { low: 800, high: 2000 };
        let of = [0, 800, 1100, 1400, 2000, 9000].map(|tokens| brevity.of(tokens));
        assert_eq!(of, [1.0, 1.0, 0.75, 0.5, 0.0, 0.0]);
    }

    #[test]
    fn stages_divide_the_steps_evenly() {
        let latent = LatentSection { stages: Some((0, 3)), ..LatentSection::default() };
        let stages: Vec<usize> = (0..8).map(|step| latent.stage(step, 8)).collect();
        assert_eq!(stages, [0, 0, 1, 1, 2, 2, 3, 3]);
        assert_eq!(latent.stage(8, 8), 3);
        let last = LatentSection { stages: Some((2, 2)), ..LatentSection::default() };
        assert!((0..8).all(|step| last.stage(step, 8) == 2));
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        for (text, keys, key, reason) in [
            (SMALL, &["latent.units_max=0"][..], "latent.units_max", "1 or more"),
            (SMALL, &["latent.steps_min=4"], "latent.steps_min", "at most"),
            (SMALL, &["latent.input=filler", "latent.intervention=zero"], "latent.intervention", "hidden"),
            (SMALL, &["latent.stages=[2, 1]"], "latent.stages", "ascending"),
            (SMALL, &["latent.stages=[0, 4]"], "latent.stages", "units_max"),
            (SMALL, &["latent.earlier=2"], "latent.earlier", "0 to 1"),
            (SFT, &["latent.units_max=3"], "latent.unit", "missing"),
            (SFT, &["latent.unit=\"(\""], "latent.unit", "regular expression"),
            (SFT, &["latent.unit=\"a\"", "policy.new.masked=true"], "policy.new.masked", "left to right"),
            (
                SFT,
                &["latent.unit=\"a\"", "data.packing=true", "data.max_length=99"],
                "data.packing",
                "lengths",
            ),
            (
                SMALL,
                &["latent.units_max=3", "train.activation_checkpointing=true"],
                "activation_checkpointing",
                "latent",
            ),
            (SMALL, &["latent.units_max=3", "plan={plan=\"skpo\"}"], "plan", "parts of answers"),
            (SMALL, &["latent.units_max=3", "train.method=preference"], "train.method", "given answer"),
            (SMALL, &["latent.units_max=3", "replay={replay=\"ssr\"}"], "replay", "not stored"),
            (SMALL, &["latent.brevity={low=9, high=9}", "latent.rewards=true"], "latent.brevity", "below"),
            (SMALL, &["latent.brevity={low=1, high=9}"], "latent.brevity", "latent.rewards"),
            (SMALL, &["latent.units_max=3", "latent.stepz=1"], "stepz", "steps_min"),
        ] {
            let error = read(text, keys).unwrap_err();
            assert!(error.contains(key) && error.contains(reason), "{key}: {error}");
        }
    }
}
