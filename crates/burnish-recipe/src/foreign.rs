//! Keys of other frameworks: whoever types one out of habit is told ours.
//!
//! Names of TRL's `GRPOConfig` and `GRPOTrainer`, of PEFT's `LoraConfig`, and of verl's configuration.
//! `docs/coming-from-trl.md` and `docs/coming-from-verl.md` say what they mean here and where that differs; a test
//! compares their tables with these.

use serde_json::Value;

/// TRL's name, and our keys for it.
const TRL: &[(&str, &[&str])] = &[
    ("adam_beta1", &["optimizer.beta1"]),
    ("adam_beta2", &["optimizer.beta2"]),
    ("beta", &["loss.beta", "loss.config.beta"]),
    ("bf16", &["policy.precision"]),
    ("delta", &["loss.config.dual_clip"]),
    ("entropy_coef", &["loss.entropy_coef"]),
    ("epsilon", &["loss.config.epsilon_low"]),
    ("epsilon_high", &["loss.config.epsilon_high"]),
    ("eval_dataset", &["eval.config.path", "eval.extra", "data.held_out_share"]),
    ("eval_steps", &["eval.every"]),
    ("eval_strategy", &["eval.every", "eval.tasks"]),
    ("generation_kwargs", &["rollout.stop", "rollout.min_tokens"]),
    ("gradient_accumulation_steps", &["train.micro_batch_tokens"]),
    ("gradient_checkpointing", &["train.activation_checkpointing"]),
    ("importance_sampling_level", &["loss.objective"]),
    ("learning_rate", &["optimizer.learning_rate"]),
    ("log_completions", &["run.dir"]),
    ("logging_dir", &["run.dir"]),
    ("logging_steps", &["metrics.tensorboard"]),
    ("lora_alpha", &["policy.lora.alpha"]),
    ("lora_dropout", &["policy.lora.dropout"]),
    ("loss_type", &["loss.aggregation", "loss.objective"]),
    ("lr_scheduler_kwargs", &["optimizer.final_share"]),
    ("lr_scheduler_type", &["optimizer.schedule"]),
    ("mask_truncated_completions", &["loss.mask_truncated_completions"]),
    ("max_completion_length", &["rollout.tokens_max"]),
    ("max_grad_norm", &["optimizer.max_grad_norm"]),
    ("max_steps", &["train.max_steps"]),
    ("min_p", &["eval.min_p"]),
    ("model", &["policy.path"]),
    ("multi_objective_aggregation", &["reward.weights"]),
    ("num_generations", &["rollout.group_size"]),
    ("num_generations_eval", &["eval.rollouts", "eval.temperature"]),
    ("num_iterations", &["train.epochs"]),
    ("num_train_epochs", &["train.max_steps", "train.num_train_epochs"]),
    ("off_policy_mask_threshold", &["loss.correction.weight.level"]),
    ("optim", &["optimizer.epsilon"]),
    ("output_dir", &["run.dir"]),
    (
        "peft_config",
        &[
            "policy.lora.rank",
            "policy.lora.alpha",
            "policy.lora.dropout",
            "policy.lora.rslora",
            "policy.lora.target_modules",
        ],
    ),
    ("per_device_train_batch_size", &["rollout.tasks_per_step", "train.sequences_per_step"]),
    ("processing_class", &["policy.path"]),
    ("repetition_penalty", &["rollout.repetition_penalty", "rollout.allow_off_policy"]),
    ("report_to", &["metrics.names"]),
    ("resume_from_checkpoint", &["run.dir"]),
    ("reward_funcs", &["env.config.verifier"]),
    ("reward_weights", &["reward.weights"]),
    ("save_steps", &["checkpoint.every"]),
    ("save_total_limit", &["checkpoint.keep"]),
    ("scale_rewards", &["advantage.config.scale"]),
    ("seed", &["run.seed"]),
    ("shuffle_dataset", &["env.tasks"]),
    ("steps_per_generation", &["train.minibatches"]),
    ("target_modules", &["policy.lora.target_modules"]),
    ("temperature", &["rollout.temperature"]),
    ("top_entropy_quantile", &["loss.top_entropy_quantile"]),
    ("top_k", &["eval.top_k"]),
    ("top_p", &["eval.top_p"]),
    ("train_dataset", &["env.config.path"]),
    ("use_adaptive_entropy", &["loss.adaptive_entropy.target_entropy"]),
    ("use_bias_correction_kl", &["loss.use_bias_correction_kl"]),
    ("use_cpu", &["device"]),
    ("use_rslora", &["policy.lora.rslora"]),
    ("use_vllm", &["engine.kind", "engine.urls"]),
    ("vllm_importance_sampling_correction", &["loss.correction.weight.level"]),
    ("vllm_mode", &["engine.kind", "engine.urls"]),
    ("vllm_server_base_url", &["engine.kind", "engine.urls"]),
    ("warmup_steps", &["optimizer.warmup_updates"]),
    ("weight_decay", &["optimizer.weight_decay"]),
    ("max_length", &["data.max_length"]),
    ("truncation_mode", &["data.overlong"]),
    ("packing", &["data.packing"]),
    ("packing_strategy", &["data.packing"]),
    ("load_best_model_at_end", &["checkpoint.best"]),
    ("metric_for_best_model", &["checkpoint.best"]),
    ("early_stopping_patience", &["train.patience"]),
    ("train_sampling_strategy", &["data.shuffle"]),
    ("vllm_structured_outputs_regex", &["rollout.grammar", "rollout.allow_off_policy"]),
];

/// verl's path, and our keys for it.
const VERL: &[(&str, &[&str])] = &[
    ("actor_rollout_ref.actor.clip_ratio_c", &["loss.config.dual_clip"]),
    ("actor_rollout_ref.actor.clip_ratio_high", &["loss.config.epsilon_high"]),
    ("actor_rollout_ref.actor.clip_ratio_low", &["loss.config.epsilon_low"]),
    ("actor_rollout_ref.actor.entropy_coeff", &["loss.entropy_coef"]),
    ("actor_rollout_ref.actor.fsdp_config.dtype", &["policy.precision"]),
    ("actor_rollout_ref.actor.grad_clip", &["optimizer.max_grad_norm"]),
    ("actor_rollout_ref.actor.kl_loss_coef", &["loss.beta"]),
    ("actor_rollout_ref.actor.kl_loss_type", &["loss.kl_estimator", "loss.use_bias_correction_kl"]),
    ("actor_rollout_ref.actor.loss_agg_mode", &["loss.aggregation"]),
    ("actor_rollout_ref.actor.loss_scale_factor", &["loss.loss_scale_factor"]),
    ("actor_rollout_ref.actor.optim.betas", &["optimizer.beta1", "optimizer.beta2"]),
    ("actor_rollout_ref.actor.optim.lr", &["optimizer.learning_rate"]),
    ("actor_rollout_ref.actor.optim.lr_scheduler_type", &["optimizer.schedule"]),
    ("actor_rollout_ref.actor.optim.lr_warmup_steps", &["optimizer.warmup_updates"]),
    ("actor_rollout_ref.actor.optim.min_lr_ratio", &["optimizer.final_share"]),
    ("actor_rollout_ref.actor.optim.weight_decay", &["optimizer.weight_decay"]),
    ("actor_rollout_ref.actor.policy_loss.loss_mode", &["loss.objective"]),
    ("actor_rollout_ref.actor.ppo_epochs", &["train.epochs"]),
    ("actor_rollout_ref.actor.ppo_max_token_len_per_gpu", &["train.micro_batch_tokens"]),
    ("actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu", &["train.micro_batch_tokens"]),
    ("actor_rollout_ref.actor.ppo_mini_batch_size", &["train.minibatches"]),
    ("actor_rollout_ref.actor.use_kl_loss", &["loss.beta"]),
    ("actor_rollout_ref.model.custom_chat_template", &["policy.chat_template"]),
    ("actor_rollout_ref.model.enable_gradient_checkpointing", &["train.activation_checkpointing"]),
    ("actor_rollout_ref.model.lora_alpha", &["policy.lora.alpha"]),
    ("actor_rollout_ref.model.lora_rank", &["policy.lora.rank"]),
    ("actor_rollout_ref.model.path", &["policy.path"]),
    ("actor_rollout_ref.model.target_modules", &["policy.lora.target_modules"]),
    ("actor_rollout_ref.rollout.gpu_memory_utilization", &["rollout.cache_mib"]),
    ("actor_rollout_ref.rollout.logprobs_mode", &["loss.correction.behavior"]),
    ("actor_rollout_ref.rollout.max_num_seqs", &["rollout.batch_max"]),
    ("actor_rollout_ref.rollout.multi_turn.max_assistant_turns", &["rollout.turns_max"]),
    ("actor_rollout_ref.rollout.n", &["rollout.group_size"]),
    ("actor_rollout_ref.rollout.name", &["engine.kind", "engine.urls"]),
    ("actor_rollout_ref.rollout.seed", &["run.seed"]),
    ("actor_rollout_ref.rollout.temperature", &["rollout.temperature"]),
    ("actor_rollout_ref.rollout.top_k", &["eval.top_k"]),
    ("actor_rollout_ref.rollout.top_p", &["eval.top_p"]),
    ("actor_rollout_ref.rollout.val_kwargs.n", &["eval.rollouts"]),
    ("actor_rollout_ref.rollout.val_kwargs.temperature", &["eval.temperature"]),
    ("algorithm.adv_estimator", &["advantage.estimator"]),
    ("algorithm.filter_groups.enable", &["rollout.dynamic_sampling.max_rounds"]),
    ("algorithm.filter_groups.max_num_gen_batches", &["rollout.dynamic_sampling.max_rounds"]),
    ("algorithm.filter_groups.metric", &["rollout.dynamic_sampling.metric"]),
    ("algorithm.kl_ctrl.horizon", &["loss.adaptive_kl.horizon"]),
    ("algorithm.kl_ctrl.kl_coef", &["loss.beta"]),
    ("algorithm.kl_ctrl.target_kl", &["loss.adaptive_kl.target_kl"]),
    ("algorithm.kl_ctrl.type", &["loss.adaptive_kl.target_kl"]),
    ("algorithm.kl_penalty", &["loss.kl_estimator"]),
    ("algorithm.norm_adv_by_std_in_grpo", &["advantage.config.scale"]),
    ("algorithm.rollout_correction", &["loss.correction.weight.level"]),
    ("algorithm.use_kl_in_reward", &["loss.use_kl_in_reward"]),
    ("critic.cliprange_value", &["critic.clip_range"]),
    ("critic.optim.lr", &["critic.learning_rate"]),
    ("data.max_prompt_length", &["rollout.overlong"]),
    ("data.max_response_length", &["rollout.tokens_max"]),
    ("data.prompt_key", &["env.config.columns"]),
    ("data.reward_fn_key", &["env.config.verifier"]),
    ("data.seed", &["run.seed"]),
    ("data.shuffle", &["data.shuffle"]),
    ("data.train_batch_size", &["rollout.tasks_per_step"]),
    ("data.train_files", &["env.config.path"]),
    ("data.train_max_samples", &["env.tasks"]),
    ("data.truncation", &["rollout.overlong"]),
    ("data.val_files", &["eval.config.path", "eval.extra"]),
    ("data.val_max_samples", &["eval.tasks"]),
    ("reward.custom_reward_function.name", &["env.config.verifier"]),
    ("reward.custom_reward_function.path", &["env.config.verifier"]),
    ("trainer.critic_warmup", &["critic.warmup_steps"]),
    ("trainer.default_local_dir", &["run.dir"]),
    ("trainer.device", &["device"]),
    ("trainer.logger", &["metrics.tensorboard", "metrics.names"]),
    ("trainer.max_actor_ckpt_to_keep", &["checkpoint.keep"]),
    ("trainer.resume_mode", &["run.dir"]),
    ("trainer.rollout_data_dir", &["run.dir"]),
    ("trainer.save_freq", &["checkpoint.every"]),
    ("trainer.test_freq", &["eval.every"]),
    ("trainer.total_epochs", &["train.max_steps"]),
    ("trainer.total_training_steps", &["train.max_steps"]),
    ("trainer.val_before_train", &["eval.every"]),
];

/// Keys of TRL and of transformers' `TrainingArguments` that have no counterpart, by their beginnings, and why not.
const WITHOUT: &[(&[&str], &str)] = &[
    (
        &[
            "accelerator_config",
            "ddp_",
            "deepspeed",
            "ds3_",
            "fsdp",
            "local_rank",
            "parallelism_config",
            "full_determinism",
        ],
        "one process computes on one device, always with the same result: there is nothing to set",
    ),
    (
        &[
            "dataloader_",
            "dataset_num_proc",
            "remove_unused_columns",
            "skip_memory_metrics",
            "group_by_length",
        ],
        "rows are read as they are needed: there is nothing to set",
    ),
    (
        &["fp16", "tf32", "bf16_full_eval", "cast_lm_head_to_fp32"],
        "`policy.precision` is \"f32\" or \"bf16\"",
    ),
    (&["hub_", "push_to_hub"], "nothing is uploaded; `hf upload` takes the directory of a checkpoint"),
    (
        &[
            "per_device_eval_batch_size",
            "eval_accumulation_steps",
            "auto_find_batch_size",
            "use_transformers_paged",
        ],
        "answers are sampled together up to `rollout.batch_max`",
    ),
    (&["disable_dropout"], "only adapters have dropout, `policy.lora.dropout`"),
    (&["vllm_"], "`[engine]` names servers; their own settings are given where they are started"),
    (
        &["torch_", "use_liger_kernel", "cache_implementation", "model_init_kwargs"],
        "kernels and caches are burnish's own",
    ),
    (&["chat_template_kwargs"], "`policy.chat_template` names a template; its variables have their defaults"),
    (
        &["dataset_text_field", "dataset_kwargs", "completion_only_loss", "assistant_only_loss"],
        "`docs/data.md` says how columns are found and what is learned of a row",
    ),
    (
        &["logging_", "log_", "disable_tqdm", "run_name", "project", "trackio_"],
        "every step is logged, in `run.dir`",
    ),
    (
        &["do_train", "do_eval", "do_predict", "jit_mode_eval"],
        "`burnish train` trains and evaluates, `burnish eval` evaluates",
    ),
    (
        &["sync_ref_model", "ref_model_"],
        "the reference of `loss.beta` is the policy that the run starts from",
    ),
    (
        &["save_strategy", "save_only_model", "save_on_each_node", "save_safetensors"],
        "`checkpoint.every` and `checkpoint.keep`: checkpoints are whole, in safetensors",
    ),
];

/// Top-level tables of verl's configuration that we don't have.
const VERL_TABLES: [&str; 3] = ["actor_rollout_ref", "algorithm", "trainer"];

/// Last parts of verl's paths that say too little by themselves.
const VAGUE: [&str; 11] =
    ["path", "name", "enable", "metric", "type", "n", "seed", "device", "dtype", "shuffle", "truncation"];

/// An error about a table of verl's translates at most this many of its keys.
const SHOWN: usize = 4;

/// What to say about the unknown key at path `key`, whose value is `value`.
pub(super) fn help(key: &str, value: Option<&Value>) -> Option<String> {
    let mut leaves = Vec::new();
    match value {
        Some(value) => collect(key, value, &mut leaves),
        None => leaves.push(key.to_owned()),
    }
    let found: Vec<(&String, String)> =
        leaves.iter().filter_map(|leaf| Some((leaf, keys_for(leaf)?))).collect();
    let page = "`docs/coming-from-verl.md` names our key for each of its keys";
    let is_verl = key.split('.').next().is_some_and(|first| VERL_TABLES.contains(&first));
    match &found[..] {
        [] if is_verl => Some(format!("a table of verl; {page}")),
        [] => without(key).map(str::to_owned),
        [(_, ours)] if leaves.len() == 1 => Some(format!("that is {ours} here")),
        all => {
            let said = |(leaf, ours): &(&String, String)| format!("`{leaf}` is {ours} here");
            let mut said: Vec<String> = all.iter().take(SHOWN).map(said).collect();
            if leaves.len() > said.len() {
                said.push(page.to_owned());
            }
            Some(said.join("; "))
        }
    }
}

/// Why a key of TRL's has no counterpart.
fn without(key: &str) -> Option<&'static str> {
    let name = key.rsplit('.').next().unwrap_or(key);
    let has = |beginnings: &[&str]| {
        beginnings.iter().any(|beginning| match beginning.ends_with('_') {
            true => name.starts_with(beginning),
            false => name == *beginning,
        })
    };
    WITHOUT.iter().find(|(beginnings, _)| has(beginnings)).map(|(_, why)| *why)
}

/// Collects the paths of all values below `key` that are not tables.
fn collect(key: &str, value: &Value, leaves: &mut Vec<String>) {
    match value {
        Value::Object(table) => {
            table.iter().for_each(|(name, value)| collect(&format!("{key}.{name}"), value, leaves));
        }
        _ => leaves.push(key.to_owned()),
    }
}

/// Our keys for a path, or for the end of one, as people type it inside a table of ours. A foreign name that is the
/// whole end of the path is preferred to one of which only a part matches.
fn keys_for(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('.').rev().collect();
    let alike = |name: &str| name.split('.').rev().zip(&parts).take_while(|(a, b)| a == *b).count();
    let closeness = |name: &str| {
        let (found, whole) = (alike(name), name.split('.').count());
        let is_vague = name.rsplit('.').next().is_some_and(|last| VAGUE.contains(&last));
        let least = if is_vague { whole.min(2) } else { 1 };
        (found >= least).then_some((found == whole, found))
    };
    let candidates = || TRL.iter().chain(VERL).filter_map(|(name, keys)| Some((closeness(name)?, keys)));
    let best = candidates().map(|(closeness, _)| closeness).max()?;
    let mut keys: Vec<&str> = Vec::new();
    for key in candidates().filter(|(closeness, _)| *closeness == best).flat_map(|(_, keys)| *keys) {
        if !keys.contains(key) {
            keys.push(key);
        }
    }
    Some(keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Source;
    use crate::tests::{SMALL, read};
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;

    /// Recipes that together have every key.
    fn resolved() -> Vec<Source> {
        let changes: [&[&str]; 2] = [
            &["policy.lora={rank=4, alpha=8}", "eval.config={}", "eval.extra=[{name=\"a\"}]"],
            &["advantage.estimator=gae", "critic={}"],
        ];
        let recipe = |changes: &&[&str]| {
            Source::parse("resolved", &read(SMALL, changes).unwrap().to_toml().unwrap(), &[]).unwrap()
        };
        changes.iter().map(recipe).collect()
    }

    #[test]
    fn every_key_that_is_named_exists() {
        let resolved = resolved();
        for (name, key) in
            TRL.iter().chain(VERL).flat_map(|(name, keys)| keys.iter().map(move |key| (name, key)))
        {
            // What `env.id = "rows"` takes needs files; `eval.config` has the same keys.
            if ["path", "verifier", "columns"]
                .iter()
                .any(|of_rows| key.ends_with(&format!(".config.{of_rows}")))
            {
                continue;
            }
            assert!(
                resolved.iter().any(|recipe| recipe.get(key).is_some()) || OPTIONAL.contains(key),
                "{name}: {key} is in no recipe"
            );
        }
    }

    /// Keys that a recipe leaves out by default.
    const OPTIONAL: [&str; 16] = [
        "checkpoint.best",
        "data.held_out_share",
        "data.max_length",
        "data.overlong",
        "data.packing",
        "data.shuffle",
        "engine.kind",
        "engine.urls",
        "loss.config.beta",
        "loss.correction.behavior",
        "policy.chat_template",
        "reward.weights",
        "rollout.cache_mib",
        "rollout.grammar",
        "train.num_train_epochs",
        "train.patience",
    ];

    /// What a page says about each name, collected from all its rows.
    fn page(name: &str) -> BTreeMap<String, BTreeSet<String>> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
        let text = std::fs::read_to_string(path).unwrap();
        let tables =
            text.split("<!-- keys -->").skip(1).map(|rest| rest.split("<!-- end -->").next().unwrap());
        let mut found = BTreeMap::<String, BTreeSet<String>>::new();
        for row in tables.flat_map(|table| table.lines().filter(|line| line.starts_with("| ")).skip(2)) {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            let quoted = |cell: &str| -> Vec<String> {
                cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
            };
            let mut names = quoted(cells[0]);
            if cells[0].starts_with('(') {
                continue;
            }
            if names.is_empty() {
                names.push(cells[0].to_owned());
            }
            for name in names {
                found.entry(name).or_default().extend(quoted(cells[2]));
            }
        }
        assert!(found.len() > 40, "{}", found.len());
        found
    }

    /// The keys that an error suggests for a key, before it lists those of the table.
    fn hinted(typed: &str) -> BTreeSet<String> {
        let error = read(SMALL, &[&format!("{typed}=1")]).unwrap_err();
        assert!(error.contains("is not a known key"), "{typed}: {error}");
        let help = error.split("help: ").nth(1).unwrap_or_default();
        assert!(help.contains("that is `") && error.starts_with("override `"), "{typed}: {error}");
        let hint = help.split(" here").next().unwrap_or_default();
        hint.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    #[test]
    fn every_key_of_the_pages_typed_in_a_recipe_is_answered_as_the_page_does() {
        for name in ["coming-from-trl.md", "coming-from-verl.md"] {
            for (typed, ours) in page(name) {
                if has_key(&typed) {
                    assert!(
                        ours.contains(&typed),
                        "{name}: {typed} is a key here, and the page names {ours:?}"
                    );
                    continue;
                }
                let hint = hinted(&typed);
                assert!(!hint.is_empty() && hint.is_subset(&ours), "{name}: {typed}: {hint:?} for {ours:?}");
                // As a key of the table that it would stand in here, unless that table has such a key.
                for table in ours.iter().filter_map(|key| key.rsplit_once('.')).map(|(table, _)| table) {
                    let last = typed.rsplit('.').next().unwrap_or_default();
                    let is_ours = ours.contains(&format!("{table}.{last}"));
                    let is_table = ["env.config", "eval.config"].contains(&table);
                    if name.contains("trl") && !is_ours && !is_table && !is_known(&format!("{table}.{last}"))
                    {
                        let hint = hinted(&format!("{table}.{last}"));
                        assert!(hint.is_subset(&ours), "{name}: {table}.{last}: {hint:?} for {ours:?}");
                    }
                }
            }
        }
    }

    /// Whether a recipe has this key.
    fn has_key(key: &str) -> bool {
        OPTIONAL.contains(&key) || resolved().iter().any(|recipe| recipe.get(key).is_some())
    }

    /// Whether a recipe has this key, or the key stands in a table that something else checks.
    fn is_known(key: &str) -> bool {
        has_key(key)
            || !resolved()[0]
                .get(key.rsplit_once('.').map_or("", |(table, _)| table))
                .is_some_and(Value::is_object)
    }

    #[test]
    fn every_key_of_ours_that_the_pages_name_is_named_for_what_stands_beside_it() {
        for (name, table) in [("coming-from-trl.md", TRL), ("coming-from-verl.md", VERL)] {
            let known: BTreeMap<&str, &[&str]> = table.iter().copied().collect();
            let all: BTreeSet<&str> = known.values().flat_map(|keys| keys.iter().copied()).collect();
            for (typed, ours) in page(name) {
                assert!(known.contains_key(typed.as_str()), "{name}: {typed}");
                let missing: Vec<&String> = ours.iter().filter(|key| !all.contains(key.as_str())).collect();
                assert!(missing.is_empty(), "{name}: {typed}: {missing:?}");
            }
        }
    }

    #[test]
    fn a_habit_of_another_framework_is_answered_with_our_key() {
        for (habit, key) in [
            ("num_generations=8", "`rollout.group_size`"),
            ("train.num_generations=8", "`rollout.group_size`"),
            ("train.learning_rate=1e-5", "`optimizer.learning_rate`"),
            ("loss.loss_type=grpo", "`loss.aggregation`"),
            ("loss.config.epsilon=0.2", "`loss.config.epsilon_low`"),
            ("actor_rollout_ref.rollout.n=8", "that is `rollout.group_size` here"),
            ("actor_rollout_ref.ref.strategy=fsdp", "coming-from-verl.md"),
            ("rollout.n=8", "`rollout.group_size`"),
            ("optimizer.lr=1e-6", "`optimizer.learning_rate`"),
            (
                "actor_rollout_ref={actor={ppo_epochs=2, clip_ratio_c=3.0}}",
                "`actor_rollout_ref.actor.ppo_epochs` is `train.epochs`",
            ),
            ("data.train_batch_size=64", "`rollout.tasks_per_step`"),
        ] {
            let error = read(SMALL, &[habit]).unwrap_err();
            assert!(error.contains(key) && error.contains("not a known key"), "{habit}: {error}");
        }
        for (habit, why) in [
            ("fp16=true", "policy.precision"),
            ("train.ddp_timeout=1800", "one device"),
            ("dataloader_num_workers=4", "nothing to set"),
            ("push_to_hub=true", "hf upload"),
        ] {
            let error = read(SMALL, &[habit]).unwrap_err();
            assert!(error.contains(why) && error.contains("not a known key"), "{habit}: {error}");
        }
        // A last part that could mean anything gives no hint.
        assert!(!read(SMALL, &["env.path=x.jsonl"]).unwrap_err().contains("that is"));
        // A name that this table itself has needs no hint.
        assert!(read(SMALL, &["eval.temperature=0.5"]).is_ok());
    }
}
