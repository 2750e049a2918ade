//! `[metrics]`

use serde::{Deserialize, Serialize};

use burnish_rundir::metrics::aliases::{Aliases, Names};

use super::Recipe;

/// `[metrics]`: what is logged besides `metrics.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsSection {
    /// Write event files for TensorBoard.
    pub tensorboard: bool,
    /// Which framework's names the metrics get there.
    pub names: Names,
    /// Log how far the weights have moved since the start of the run (GRPO). This keeps a copy of the starting
    /// weights.
    pub weight_divergence: bool,
    /// Log how often the policy would have made the teacher's choice. Teacher and policy read each sample once more.
    pub teacher_agreement: bool,
}

impl Default for MetricsSection {
    fn default() -> Self {
        MetricsSection {
            tensorboard: true,
            names: Names::default(),
            weight_divergence: false,
            teacher_agreement: false,
        }
    }
}

impl Recipe {
    /// The run's metric names translated to those of a framework.
    pub fn aliases(&self, names: Names) -> Aliases {
        Aliases::new(names, &self.env.id, self.eval.rollouts)
    }

    /// The names for TensorBoard's event files; `None` if none are written.
    pub fn tensorboard_names(&self) -> Option<Aliases> {
        self.metrics.tensorboard.then(|| self.aliases(self.metrics.names))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Recipe, Source};

    fn section(overrides: &[&str]) -> Result<MetricsSection, String> {
        let text = r#"
run.dir = "runs/x"
policy.path = "models/starter"
train = { method = "grpo", max_steps = 3 }
env.id = "countdown"
"#;
        let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
        Source::parse("r.toml", text, &overrides)
            .and_then(|source| Recipe::resolve(&source))
            .map(|recipe| recipe.metrics)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn tensorboard_is_on_under_trls_names_unless_the_recipe_says_otherwise() {
        let found = section(&[]).unwrap();
        assert_eq!((found.tensorboard, found.names, found.weight_divergence), (true, Names::Trl, false));
        let names = ["trl", "verl", "prime-rl"]
            .map(|names| section(&[&format!("metrics.names={names}")]).unwrap().names);
        assert_eq!(names, [Names::Trl, Names::Verl, Names::PrimeRl]);
        assert!(!section(&["metrics.tensorboard=false"]).unwrap().tensorboard);
    }

    #[test]
    fn unknown_names_and_keys_are_refused_with_what_there_is() {
        let error = section(&["metrics.names=wandb"]).unwrap_err();
        assert!(
            error.contains("metrics.names") && error.contains("verl") && error.contains("prime-rl"),
            "{error}"
        );
        let error = section(&["metrics.tensorbord=true"]).unwrap_err();
        assert!(error.contains("tensorbord") && error.contains("tensorboard"), "{error}");
    }
}
