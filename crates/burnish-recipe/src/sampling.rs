//! How episodes are sampled, in training and in evaluation.

use burnish_core::{Contrast, Grammar, Sampling, Thoughts};
use burnish_engine::Limits;
use burnish_env::rollout::Overlong;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{DynamicSampling, EvalStrategy, ExtraEvaluation, LatentSection, Recipe};

/// `[rollout]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RolloutSection {
    /// Tasks per step.
    pub tasks_per_step: usize,
    /// Episodes per task: the group whose rewards are compared.
    pub group_size: usize,
    /// Temperature that divides the logits, in sampling and in training.
    pub temperature: f32,
    /// Most tokens of one answer.
    pub tokens_max: usize,
    /// An answer can't end before it has this many tokens.
    pub min_tokens: usize,
    /// Texts that end an answer, in training and in evaluation.
    pub stop: Vec<String>,
    /// Whether an answer keeps the stop string that ended it.
    pub include_stop: bool,
    /// Divides positive logits, and multiplies negative ones, of tokens that occur in the prompt or the answer; 1 is
    /// off.
    pub repetition_penalty: f32,
    /// Subtracted from the logits of tokens that occur in the answer; 0 is off.
    pub presence_penalty: f32,
    /// Subtracted from the logits of tokens that occur in the answer, once per occurrence; 0 is off.
    pub frequency_penalty: f32,
    /// A grammar that answers must follow: `{ json_schema = { ... } }`, `{ regex = "..." }`, or `"tools"` for calls of the
    /// tools that there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grammar: Option<Grammar>,
    /// Lets GRPO train on answers whose distribution is not the policy's own, because of penalties, `min_tokens` or a
    /// grammar. Nothing corrects for the difference, except `loss.correction` with `behavior = "sampled"`.
    pub allow_off_policy: bool,
    /// Most answers in one episode.
    pub turns_max: usize,
    /// What to do with a prompt that does not fit the context window.
    pub overlong: Overlong,
    /// Sequences sampled at once.
    pub batch_max: usize,
    /// Most MiB of KV cache while sampling. Sequences that do not fit wait. If it is not set, the device decides: 4096 on
    /// the CPU, and most of what a GPU has free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_mib: Option<usize>,
    /// How many steps the sampler's weights are behind the trained ones; 0 is on policy. It imitates an asynchronous
    /// pipeline, with a lag that is the same in every step and every run.
    #[serde(skip_serializing_if = "is_zero")]
    pub policy_lag: u64,
    /// What to do with groups in which all episodes have the same reward.
    pub dynamic_sampling: DynamicSampling,
}

/// This key was added later. It is left out at its default, so that older recipes keep their hash.
fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl Default for RolloutSection {
    fn default() -> Self {
        RolloutSection {
            tasks_per_step: 16,
            group_size: 8,
            temperature: 1.0,
            tokens_max: 128,
            min_tokens: 0,
            stop: Vec::new(),
            include_stop: false,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            grammar: None,
            allow_off_policy: false,
            turns_max: 8,
            overlong: Overlong::Refuse,
            batch_max: 256,
            cache_mib: None,
            policy_lag: 0,
            dynamic_sampling: DynamicSampling::default(),
        }
    }
}

impl RolloutSection {
    /// The sampling of training without latent steps; it never truncates the distribution.
    fn sampling(&self) -> Sampling {
        Sampling {
            min_tokens: self.min_tokens,
            stop: self.stop.clone(),
            include_stop: self.include_stop,
            repetition_penalty: self.repetition_penalty,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            grammar: self.grammar.clone(),
            ..Sampling::at(self.temperature, self.tokens_max)
        }
    }

    /// How much is sampled at once, in training and in evaluation.
    pub fn limits(&self) -> Limits {
        Limits {
            batch_max: self.batch_max,
            cache_bytes: self.cache_mib.map(|mib| mib.saturating_mul(1 << 20)),
            ..Limits::default()
        }
    }
}

/// `[eval]`: evaluation on held-out tasks before, during and after training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EvalSection {
    /// Steps between evaluations; 0 evaluates only before and after.
    pub every: u64,
    /// Held-out tasks; 0 evaluates nothing.
    pub tasks: usize,
    /// Seed of the held-out tasks.
    pub seed: u64,
    /// Episodes per task.
    pub rollouts: usize,
    /// Temperature; 0 is greedy.
    pub temperature: f32,
    /// Keep only this many of the likeliest tokens; 0 is off.
    pub top_k: usize,
    /// Keep the likeliest tokens up to this probability; 1 is off.
    pub top_p: f32,
    /// Drop tokens less likely than this times the likeliest; 0 is off.
    pub min_p: f32,
    /// As `rollout.min_tokens`.
    pub min_tokens: usize,
    /// As `rollout.repetition_penalty`.
    pub repetition_penalty: f32,
    /// As `rollout.presence_penalty`.
    pub presence_penalty: f32,
    /// As `rollout.frequency_penalty`.
    pub frequency_penalty: f32,
    /// As `rollout.grammar`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grammar: Option<Grammar>,
    /// Sets the logits against those of earlier layers: `{ daid = { marked = { after = "...", before = "..." } } }` or
    /// `{ dola = {} }`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contrast: Option<Contrast>,
    /// Controls the thoughts of answers: `{ controls = [{ budget = { most = 200 } }] }`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thoughts: Option<Thoughts>,
    /// Of a model of masked diffusion: the steps in which an answer of `rollout.tokens_max` masks becomes known; one for
    /// each token where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub denoising_steps: Option<usize>,
    /// Make a draft first, if the plan has drafts. Its tokens count as the answer's.
    pub draft: bool,
    /// Check for every right answer whether it leads back when the task is reversed and states it. Sets the flag
    /// `cycle`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cycle: bool,
    /// Play episodes by a strategy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<EvalStrategy>,
    /// Configuration of the environment, if it differs from training's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<Value>,
    /// Extra evaluations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extra: Vec<ExtraEvaluation>,
}

impl Default for EvalSection {
    fn default() -> Self {
        EvalSection {
            every: 0,
            tasks: 200,
            seed: 1_000_003,
            rollouts: 1,
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            min_tokens: 0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            grammar: None,
            contrast: None,
            thoughts: None,
            denoising_steps: None,
            draft: false,
            cycle: false,
            strategy: None,
            config: None,
            extra: Vec::new(),
        }
    }
}

impl EvalSection {
    /// The sampling of evaluations without latent steps. Answers end by the same rules as in training.
    fn sampling(&self, rollout: &RolloutSection) -> Sampling {
        Sampling {
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            min_tokens: self.min_tokens,
            stop: rollout.stop.clone(),
            include_stop: rollout.include_stop,
            repetition_penalty: self.repetition_penalty,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            grammar: self.grammar.clone(),
            contrast: self.contrast.clone(),
            thoughts: self.thoughts.clone(),
            denoising_steps: self.denoising_steps,
            ..Sampling::at(self.temperature, rollout.tokens_max)
        }
    }
}

impl Recipe {
    /// The sampling of training, which never truncates the distribution.
    pub fn rollout_sampling(&self) -> Sampling {
        let latent = self.latent.as_ref().map(LatentSection::sampling);
        Sampling { latent, ..self.rollout.sampling() }
    }

    /// The sampling of evaluations. Answers end by the same rules as in training.
    pub fn eval_sampling(&self) -> Sampling {
        let latent = self.latent.as_ref().map(LatentSection::evaluated);
        Sampling { latent, ..self.eval.sampling(&self.rollout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{SMALL, read};

    #[test]
    fn the_sampling_keys_reach_the_sampler() {
        let recipe = read(SMALL, &[]).unwrap();
        assert_eq!(recipe.rollout_sampling(), Sampling::at(1.0, 128));
        assert_eq!(recipe.eval_sampling(), Sampling::greedy(128));
        assert_eq!(recipe.rollout.limits(), Limits::default());

        let keys = [
            "rollout.stop=[\"</answer>\", \"\\n\\n\"]",
            "rollout.include_stop=true",
            "rollout.min_tokens=3",
            "rollout.repetition_penalty=1.25",
            "rollout.presence_penalty=0.5",
            "rollout.frequency_penalty=-0.5",
            "rollout.cache_mib=7",
            "eval.temperature=0.5",
            "eval.top_k=20",
            "eval.top_p=0.75",
            "eval.min_p=0.25",
            "eval.min_tokens=1",
            "eval.repetition_penalty=2",
            "eval.presence_penalty=-1",
            "eval.frequency_penalty=1",
            "rollout.grammar={regex=\"[a-z]+\"}",
            "eval.grammar={json_schema={type=\"object\", maxProperties=2}}",
        ];
        let error = read(SMALL, &keys).unwrap_err();
        assert!(error.contains("`rollout.repetition_penalty` must be 1"), "{error}");
        assert!(error.contains("`rollout.allow_off_policy = true`"), "{error}");
        let recipe = read(SMALL, &[&keys[..], &["rollout.allow_off_policy=true"]].concat()).unwrap();
        let stop = vec!["</answer>".to_owned(), "\n\n".to_owned()];
        let ends = Sampling { stop, include_stop: true, ..Sampling::at(1.0, 128) };
        let trained = Sampling {
            min_tokens: 3,
            repetition_penalty: 1.25,
            presence_penalty: 0.5,
            frequency_penalty: -0.5,
            grammar: Some(Grammar::Regex("[a-z]+".into())),
            ..ends.clone()
        };
        assert_eq!(recipe.rollout_sampling(), trained);
        let evaluated = Sampling {
            temperature: 0.5,
            top_k: 20,
            top_p: 0.75,
            min_p: 0.25,
            min_tokens: 1,
            repetition_penalty: 2.0,
            presence_penalty: -1.0,
            frequency_penalty: 1.0,
            grammar: Some(Grammar::JsonSchema(serde_json::json!({"type": "object", "maxProperties": 2}))),
            ..ends
        };
        assert_eq!(recipe.eval_sampling(), evaluated);
        assert_eq!(recipe.rollout.limits().cache_bytes, Some(7 << 20));
        // Stop strings don't change the distribution.
        assert!(read(SMALL, &keys[..2]).is_ok());
        let text = recipe.to_toml().unwrap();
        assert_eq!(read(&text, &[]).unwrap(), recipe, "{text}");
    }
}
