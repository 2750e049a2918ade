//! The evaluations of a recipe: the main one and the extra ones.

use burnish_core::{Contrast, Sampling, Thoughts};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Recipe, RecipeError, Source};
use burnish_rundir::metrics::aliases;

/// `[[eval.extra]]`: an evaluation that is made whenever the main one is, on other held-out tasks or with other
/// settings. Keys that are absent are as in `[eval]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtraEvaluation {
    /// Name of its metrics: `eval/NAME/success`.
    pub name: String,
    /// Id of another environment. Its configuration is then its defaults, unless `config` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<String>,
    /// Configuration of the environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Value>,
    /// Held-out tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<usize>,
    /// Episodes per task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollouts: Option<usize>,
    /// Temperature; 0 is greedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// Most tokens of one answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_max: Option<usize>,
    /// As `eval.contrast`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contrast: Option<Contrast>,
    /// As `eval.thoughts`; without controls there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thoughts: Option<Thoughts>,
    /// As `eval.denoising_steps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denoising_steps: Option<usize>,
}

/// One evaluation with all its settings, including those taken over from elsewhere in the recipe.
#[derive(Debug, Clone)]
pub struct EvalSpec<'a> {
    /// Its name; `None` for the main evaluation.
    pub name: Option<&'a str>,
    /// Id of the environment.
    pub env: &'a str,
    /// Its configuration.
    pub config: &'a Value,
    /// The recipe key of the configuration, for errors.
    pub config_key: String,
    /// Held-out tasks.
    pub tasks: usize,
    /// Episodes per task.
    pub rollouts: usize,
    /// How answers are sampled.
    pub sampling: Sampling,
}

impl Recipe {
    /// The main evaluation.
    pub fn evaluation(&self) -> EvalSpec<'_> {
        let eval = &self.eval;
        let (config, config_key) = match &eval.config {
            Some(config) => (config, "eval.config"),
            None => (&self.env.config, "env.config"),
        };
        EvalSpec {
            name: None,
            env: &self.env.id,
            config,
            config_key: config_key.to_owned(),
            tasks: eval.tasks,
            rollouts: eval.rollouts,
            sampling: self.eval_sampling(),
        }
    }

    /// The extra evaluations, in the order of the recipe; none if the main evaluation has no tasks.
    pub fn further_evaluations(&self) -> Vec<EvalSpec<'_>> {
        let extra = self.eval.extra.iter().filter(|_| self.eval.tasks > 0);
        extra.enumerate().map(|(at, extra)| self.further_evaluation(at, extra)).collect()
    }

    fn further_evaluation<'a>(&'a self, at: usize, extra: &'a ExtraEvaluation) -> EvalSpec<'a> {
        let main = self.evaluation();
        let (config, config_key) = match &extra.config {
            Some(config) => (config, format!("eval.extra[{at}].config")),
            None => (main.config, main.config_key),
        };
        EvalSpec {
            name: Some(&extra.name),
            env: extra.env.as_deref().unwrap_or(main.env),
            config,
            config_key,
            tasks: extra.tasks.unwrap_or(main.tasks),
            rollouts: extra.rollouts.unwrap_or(main.rollouts),
            sampling: Sampling {
                temperature: extra.temperature.unwrap_or(main.sampling.temperature),
                tokens_max: extra.tokens_max.unwrap_or(main.sampling.tokens_max),
                contrast: extra.contrast.clone().or_else(|| main.sampling.contrast.clone()),
                thoughts: extra.thoughts.clone().or_else(|| main.sampling.thoughts.clone()),
                denoising_steps: extra.denoising_steps.or(main.sampling.denoising_steps),
                ..main.sampling
            },
        }
    }
}

/// Checks names and ranges of `[[eval.extra]]`.
pub(super) fn check(extra: &[ExtraEvaluation], source: &Source) -> Result<(), RecipeError> {
    for (at, section) in extra.iter().enumerate() {
        let refused =
            |key: &str, rule: &str| Err(source.error(&format!("eval.extra[{at}].{key}"), rule.into()));
        let name = &section.name;
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        {
            return refused("name", "must be letters, digits, `-` and `_`: it names metrics");
        }
        if aliases::is_of_evaluation(name) {
            let rule = format!("is `{name}`, but `eval/{name}` already names metrics of the main evaluation");
            return refused("name", &rule);
        }
        if extra[..at].iter().any(|other| other.name == *name) {
            return refused("name", &format!("is `{name}`, the name of another evaluation"));
        }
        for (key, value) in [
            ("tasks", section.tasks),
            ("rollouts", section.rollouts),
            ("tokens_max", section.tokens_max),
            ("denoising_steps", section.denoising_steps),
        ] {
            if value == Some(0) {
                return refused(key, "must be 1 or more");
            }
        }
        if section.temperature.is_some_and(|temperature| !(temperature >= 0.0 && temperature.is_finite())) {
            return refused("temperature", "must be 0 (greedy) or more");
        }
        if let Some(Err(problem)) = section.thoughts.as_ref().map(Thoughts::check) {
            return refused("thoughts", &format!("must be {}", problem.range));
        }
        if let Some(Err(problem)) = section.contrast.as_ref().map(Contrast::check) {
            return refused("contrast", &format!("must be {}", problem.range));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::tests::{SMALL, read};

    #[test]
    fn what_is_not_given_is_as_in_the_main_evaluation() {
        let extra = "eval.extra=[{name=\"sampled\", temperature=1.0, rollouts=8}, {name=\"chains\", env=\"chains\", tasks=5, \
                    tokens_max=9}, {name=\"small\", config={numbers={min=3,max=3}}}]";
        let recipe = read(SMALL, &[extra, "eval.tasks=7", "eval.top_p=0.5"]).unwrap();
        let [sampled, chains, small] = &recipe.further_evaluations()[..] else { panic!() };
        assert_eq!((sampled.name, sampled.env, sampled.tasks), (Some("sampled"), "countdown", 7));
        assert_eq!((sampled.config, sampled.config_key.as_str()), (&recipe.env.config, "env.config"));
        assert_eq!((sampled.rollouts, sampled.sampling.temperature, sampled.sampling.top_p), (8, 1.0, 0.5));
        assert_eq!((chains.env, chains.tasks, chains.rollouts), ("chains", 5, 1));
        assert_eq!((chains.sampling.tokens_max, chains.sampling.temperature), (9, 0.0));
        assert!(chains.config["reverse"].is_number(), "the defaults of that environment: {}", chains.config);
        assert_eq!(small.config_key, "eval.extra[2].config");
        assert_eq!(small.config["numbers"]["max"], 3);
        assert_eq!(small.config["target"], recipe.env.config["target"], "complete with defaults");
        let text = recipe.to_toml().unwrap();
        assert_eq!(read(&text, &[]).unwrap(), recipe, "{text}");
        assert!(read(SMALL, &[extra, "eval.tasks=0"]).unwrap().further_evaluations().is_empty());
        assert!(!read(SMALL, &[]).unwrap().to_toml().unwrap().contains("extra"));
    }

    #[test]
    fn what_is_wrong_is_named_by_its_key() {
        for (extra, parts) in [
            ("{name=\"a/b\"}", &["eval.extra[0].name", "letters, digits"][..]),
            ("{name=\"success\"}", &["eval.extra[0].name", "main evaluation"]),
            ("{name=\"a\"}, {name=\"a\"}", &["eval.extra[1].name", "another evaluation"]),
            ("{name=\"a\", tasks=0}", &["eval.extra[0].tasks", "1 or more"]),
            ("{name=\"a\", temperature=-1.0}", &["eval.extra[0].temperature", "0 (greedy) or more"]),
            ("{name=\"a\", env=\"countdwn\"}", &["eval.extra[0].env", "countdown"]),
            ("{name=\"a\", config={numbrs=3}}", &["eval.extra[0].config.numbrs", "did you mean `numbers`"]),
            ("{name=\"a\", rollout=3}", &["eval.extra[0]", "rollout", "did you mean `rollouts`"]),
        ] {
            let error = read(SMALL, &[&format!("eval.extra=[{extra}]")]).unwrap_err();
            assert!(parts.iter().all(|part| error.contains(part)), "{extra}: {error}");
        }
    }
}
