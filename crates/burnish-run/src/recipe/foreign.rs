//! Keys of other frameworks, so that who types one out of habit is told ours.
//!
//! Names of TRL's `GRPOConfig` and `GRPOTrainer`, of PEFT's `LoraConfig`, and the tables of verl. What they mean
//! here, and where that differs, is in `docs/coming-from-trl.md` and `docs/coming-from-verl.md`.

/// The name there, and the key here.
pub(super) const KEYS: [(&str, &str); 39] = [
    ("adam_beta1", "optimizer.beta1"),
    ("adam_beta2", "optimizer.beta2"),
    ("adam_epsilon", "optimizer.epsilon"),
    ("beta", "loss.beta"),
    ("bf16", "policy.precision"),
    ("epsilon_high", "loss.config.epsilon_high"),
    ("eval_dataset", "eval.config"),
    ("eval_steps", "eval.every"),
    ("gradient_accumulation_steps", "train.micro_batch_tokens"),
    ("gradient_checkpointing", "train.activation_checkpointing"),
    ("learning_rate", "optimizer.learning_rate"),
    ("logging_dir", "run.dir"),
    ("lora_alpha", "policy.lora"),
    ("loss_type", "loss.aggregation"),
    ("lr_scheduler_type", "optimizer.schedule"),
    ("mask_truncated_completions", "loss.mask_truncated_completions"),
    ("max_completion_length", "rollout.tokens_max"),
    ("max_grad_norm", "optimizer.max_grad_norm"),
    ("max_steps", "train.max_steps"),
    ("min_p", "eval.min_p"),
    ("model", "policy.path"),
    ("num_generations", "rollout.group_size"),
    ("num_generations_eval", "eval.rollouts"),
    ("num_iterations", "train.epochs"),
    ("output_dir", "run.dir"),
    ("peft_config", "policy.lora"),
    ("per_device_train_batch_size", "rollout.tasks_per_step"),
    ("report_to", "metrics.tensorboard"),
    ("reward_funcs", "env.config"),
    ("save_steps", "checkpoint.every"),
    ("save_total_limit", "checkpoint.keep"),
    ("scale_rewards", "advantage.config.scale"),
    ("seed", "run.seed"),
    ("steps_per_generation", "train.minibatches"),
    ("temperature", "rollout.temperature"),
    ("train_dataset", "env.config"),
    ("use_cpu", "device"),
    ("warmup_steps", "optimizer.warmup_updates"),
    ("weight_decay", "optimizer.weight_decay"),
];

/// Tables at the top of verl's configuration that are none here.
const VERL: [&str; 4] = ["actor_rollout_ref", "algorithm", "critic", "trainer"];

/// What to say about `field`, which is no key of the table that it stands in.
pub(super) fn help(field: &str) -> Option<String> {
    if VERL.contains(&field) {
        return Some("a table of verl; `docs/coming-from-verl.md` names our key for each of its keys".into());
    }
    let (_, key) = KEYS.iter().find(|(name, _)| *name == field)?;
    Some(format!("that is `{key}` here"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::Source;
    use crate::recipe::tests::{SMALL, read};

    #[test]
    fn every_key_that_is_named_exists() {
        let overrides = ["policy.lora={rank=4, alpha=8}", "eval.config={}"];
        let recipe = read(SMALL, &overrides).unwrap().to_toml().unwrap();
        let resolved = Source::parse("resolved", &recipe, &[]).unwrap();
        for (name, key) in KEYS {
            assert!(resolved.get(key).is_some(), "{name}: {key} is in no recipe");
        }
    }

    #[test]
    fn a_habit_of_another_framework_is_answered_with_our_key() {
        for (habit, key) in [
            ("num_generations=8", "`rollout.group_size`"),
            ("train.num_generations=8", "`rollout.group_size`"),
            ("train.learning_rate=1e-5", "`optimizer.learning_rate`"),
            ("loss.loss_type=grpo", "`loss.aggregation`"),
            ("actor_rollout_ref.rollout.n=8", "coming-from-verl.md"),
        ] {
            let error = read(SMALL, &[habit]).unwrap_err();
            assert!(error.contains(key) && error.contains("not a known key"), "{habit}: {error}");
        }
        // Where the name is one of this table's, there is nothing to say.
        assert!(read(SMALL, &["eval.temperature=0.5"]).is_ok());
    }
}
