//! `[make]`: rows, tasks, a strategy or a configuration that a run makes out of its training episodes, for the recipes
//! that follow it.

use burnish_reason::{MakeKind, SettingError};
use burnish_rl::catalogue::no_settings;
use burnish_systems::MakerConfig;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{InPlace, Method, Recipe, RecipeError, Source};

/// `[make]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MakeSection {
    /// The artefact.
    pub kind: MakeKind,
    /// The id of the function that makes it (`docs/programs.md`); without one, filters choose among the episodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The function's own settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Value>,
    /// Whom the function asks as its teacher; the run's policy where nobody is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teacher: Option<InPlace>,
    /// Tasks: the number of steps after which those that the function makes join the run's own, again and again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<u64>,
    /// Rows: the answers that are kept.
    #[serde(default)]
    pub keep: Keep,
    /// Rows: the least reward of a kept answer, with the weights of `[reward]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_reward: Option<f64>,
    /// Rows: the most answers of one task that are kept, those with the highest reward. Pairs: the most pairs of one task.
    #[serde(default = "one")]
    pub max_per_task: usize,
    /// The share of right answers that a task must have had.
    #[serde(default)]
    pub success_rate: SuccessRate,
}

/// The answers that become rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Keep {
    /// Those that succeeded.
    #[default]
    Successes,
    /// All that were judged and not cut off.
    All,
}

/// Bounds of the share of right answers, both included.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SuccessRate {
    /// Least.
    pub min: f64,
    /// Greatest.
    pub max: f64,
}

impl Default for SuccessRate {
    fn default() -> Self {
        SuccessRate { min: 0.0, max: 1.0 }
    }
}

impl SuccessRate {
    /// Is `rate` within the bounds?
    pub fn contains(self, rate: f64) -> bool {
        (self.min..=self.max).contains(&rate)
    }
}

fn one() -> usize {
    1
}

/// The reason why filters of episodes are refused beside a function.
const CHOOSES: &str = "has no use with `make.program`: the function chooses what it makes; `make.success_rate` says for which \
                       tasks it is run";

impl MakeSection {
    /// Which function makes it, if one does.
    pub fn maker(&self) -> Option<MakerConfig> {
        let config = self.config.clone().unwrap_or_else(no_settings);
        self.program.clone().map(|program| MakerConfig { program, config })
    }

    /// Checks what the types don't guarantee.
    ///
    /// # Errors
    /// The key that is wrong, and what it must be.
    fn check(&self) -> Result<(), (&'static str, &'static str)> {
        let SuccessRate { min, max } = self.success_rate;
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        match self {
            _ if !(is_share(min) && is_share(max) && min <= max) => {
                Err(("success_rate", "must be within 0 and 1, and its `min` not above its `max`"))
            }
            Self { program: None, kind: MakeKind::Strategy | MakeKind::Memory, .. } => {
                Err(("program", "is needed: only a function makes a strategy, or notes"))
            }
            Self { program: None, kind: MakeKind::Config, .. } => {
                Err(("program", "is needed: only a function makes a configuration"))
            }
            Self { program: None, config: Some(_), .. } => {
                Err(("config", "has no use: it holds the settings of `make.program`, which is not given"))
            }
            Self { program: None, teacher: Some(_), .. } => {
                Err(("teacher", "has no use: only the function that `make.program` names asks a teacher"))
            }
            Self { every: Some(0), .. } => Err(("every", "must be 1 or more")),
            Self { program: None, every: Some(_), .. } => Err((
                "every",
                "has no use: only the function that `make.program` names is run again and again",
            )),
            Self { kind, every: Some(_), .. } if *kind != MakeKind::Tasks => Err((
                "every",
                "has no use: only `kind = \"tasks\"` makes something that can join the run's own",
            )),
            Self { program: Some(_), keep: Keep::All, .. } => Err(("keep", CHOOSES)),
            Self { program: Some(_), min_reward: Some(_), .. } => Err(("min_reward", CHOOSES)),
            Self { program: Some(_), max_per_task, .. } if *max_per_task != 1 => {
                Err(("max_per_task", CHOOSES))
            }
            Self { max_per_task: 0, .. } => Err(("max_per_task", "must be 1 or more")),
            Self { min_reward: Some(reward), .. } if !reward.is_finite() => {
                Err(("min_reward", "must be a number"))
            }
            Self { kind: MakeKind::Rows, .. } => Ok(()),
            Self { keep: Keep::All, .. } => Err(("keep", "has no use: only `kind = \"rows\"` keeps answers")),
            Self { min_reward: Some(_), .. } => {
                Err(("min_reward", "has no use: only `kind = \"rows\"` keeps answers by their reward"))
            }
            Self { kind: MakeKind::Tasks, max_per_task: 2.., .. } => {
                Err(("max_per_task", "has no use: a task is kept once"))
            }
            _ => Ok(()),
        }
    }
}

/// Checks `[make]`.
pub(super) fn check(recipe: &Recipe, source: &Source) -> Result<(), RecipeError> {
    let Some(make) = &recipe.make else { return Ok(()) };
    make.check().map_err(|(key, rule)| source.error(&format!("make.{key}"), rule.to_owned()))?;
    let has_pairs = make.kind != MakeKind::Pairs || make.program.is_some() || recipe.rollout.group_size > 1;
    if let Some(InPlace::Endpoint(endpoint)) = &make.teacher {
        endpoint
            .check()
            .map_err(|(key, rule)| source.error(&format!("make.teacher.{key}"), rule.to_owned()))?;
    }
    for (key, holds, rule) in [
        (
            "make",
            matches!(recipe.train.method, Method::Grpo | Method::None),
            "needs episodes, which this method does not play: set `train.method = \"none\"`, or \"grpo\"",
        ),
        ("env", !recipe.env.is_absent(), "is needed: `[make]` plays its tasks"),
        (
            "reward",
            make.kind != MakeKind::Strategy
                || (recipe.reward.model.is_none() && recipe.reward.goal.is_none()),
            "can't have a `model` or a `goal` here: the function plays episodes that only their environment judges",
        ),
        (
            "make.every",
            make.every.is_none() || recipe.train.method == Method::Grpo,
            "has no use: a run that learns nothing plays no tasks that join it; set `train.method = \"grpo\"`",
        ),
        (
            "train.method",
            make.kind != MakeKind::Config || recipe.train.method == Method::Grpo,
            "must be \"grpo\" with `make.kind = \"config\"`: the function reads how training went",
        ),
        (
            "eval.tasks",
            make.kind != MakeKind::Config || recipe.eval.tasks > 0,
            "must be above 0 with `make.kind = \"config\"`: the function reads what the last evaluation found",
        ),
        (
            "plan",
            recipe.plan.is_none() || make.kind == MakeKind::Config,
            "can't be combined with `[make]`: its answers have other prompts than their tasks",
        ),
        (
            "env.split",
            make.program.is_none() || recipe.env.split.is_none(),
            "can't be combined with `make.program`: the tasks that a function draws belong to no part of it",
        ),
        ("rollout.group_size", has_pairs, "must be 2 or more: a pair has two answers"),
    ] {
        if !holds {
            return Err(source.error(key, rule.to_owned()));
        }
    }
    Ok(())
}

/// Checks which function `[make]` names, and writes all of its settings out.
pub(super) fn complete(recipe: &mut Recipe, source: &Source) -> Result<(), RecipeError> {
    let Some(make) = &mut recipe.make else { return Ok(()) };
    let Some(maker) = make.maker() else { return Ok(()) };
    let wrong = |error: SettingError| source.refused(&format!("make.{}", error.key), error.problem);
    let maker = maker.complete().map_err(wrong)?;
    let kinds = maker.build().map_err(wrong)?.kinds();
    if !kinds.contains(&make.kind) {
        let names: Vec<String> = kinds.iter().map(|kind| format!("\"{}\"", kind.name())).collect();
        let problem = format!("must be {}: `{}` makes nothing else", names.join(" or "), maker.program);
        return Err(source.error("make.kind", problem));
    }
    make.config = Some(maker.config);
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::json;

    use super::*;

    const PLAYS: &str = "[run]\ndir = \"x\"\n[policy]\npath = \"p\"\n[train]\nmethod = \"none\"\nmax_steps = 1\n\
                         [env]\nid = \"countdown\"\ntasks = 9\n[make]\nkind = \"tasks\"\n";

    fn read(changes: &[&str]) -> Result<MakeSection, String> {
        let changes: Vec<String> = changes.iter().map(|change| (*change).to_owned()).collect();
        let source = Source::parse("r.toml", PLAYS, &changes).map_err(|error| error.to_string())?;
        Recipe::resolve(&source).map(|recipe| recipe.make.unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_settings_of_a_function_are_written_out_and_read_back() {
        let plain = serde_json::to_value(read(&[]).unwrap()).unwrap();
        let keys: Vec<&str> = plain.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["kind", "keep", "max_per_task", "success_rate"], "as before there were functions");
        let named =
            ["make.program=from_failures", "make.config.per_failure=3", "make.teacher=models/starter"];
        let make = read(&named).unwrap();
        assert_eq!(make.config.as_ref().map(|config| &config["draws"]), Some(&json!(256)));
        assert_eq!(make.teacher, Some(InPlace::Model("models/starter".into())));
        let again: MakeSection = serde_json::from_value(serde_json::to_value(&make).unwrap()).unwrap();
        assert_eq!(again, make);
    }

    #[test]
    fn what_makes_no_sense_beside_a_function_is_refused() {
        for (change, parts) in [
            ("make.keep=all", ["`make.keep`", "the function chooses"]),
            ("make.min_reward=0.5", ["`make.min_reward`", "the function chooses"]),
            ("make.max_per_task=2", ["`make.max_per_task`", "the function chooses"]),
            ("make.max_per_task=0", ["`make.max_per_task`", "the function chooses"]),
            ("make.kind=pairs", ["`make.kind`", "must be \"tasks\""]),
            ("make.program=from_failurs", ["`make.program`", "did you mean `from_failures`?"]),
            ("make.config.from=some", ["`make.config.from`", "failures"]),
            ("env.split={scorer={rule=\"numbers\"}, keep=\">= 3\"}", ["`env.split`", "belong to no part"]),
        ] {
            let error = read(&["make.program=from_failures", change]).unwrap_err();
            assert!(parts.iter().all(|part| error.contains(part)), "{change}: {error}");
        }
        assert!(read(&["make.config.draws=3"]).unwrap_err().contains("`make.config` has no use"));
        assert!(read(&["make.teacher=models/starter"]).unwrap_err().contains("`make.teacher` has no use"));
        assert!(read(&["make.program=from_failures", "make.success_rate.max=0.5"]).is_ok());
        for (changes, part) in [
            (&["make.every=2"][..], "only the function"),
            (&["make.program=from_failures", "make.every=0"], "1 or more"),
            (&["make.program=from_failures", "make.every=2"], "plays no tasks that join it"),
            (&["make={kind=\"strategy\", program=\"adas\", every=2}"], "only `kind = \"tasks\"`"),
            (&["make={kind=\"strategy\"}"], "only a function makes a strategy"),
            (&["make={kind=\"config\"}"], "only a function makes a configuration"),
        ] {
            let error = read(changes).unwrap_err();
            assert!(error.contains("`make.") && error.contains(part), "{changes:?}: {error}");
        }
        let learns = "train={method=\"grpo\", max_steps=4}";
        assert_eq!(read(&["make.program=from_failures", "make.every=2", learns]).unwrap().every, Some(2));
    }
}
