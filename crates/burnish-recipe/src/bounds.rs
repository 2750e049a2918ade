//! Upper bounds of counts, so that no run starts that would allocate until it is killed.

use serde_json::Value;

use super::{Recipe, RecipeError, Source};

/// Tasks of one set.
pub const TASKS_MAX: u64 = 1_000_000;
/// Threads of one process.
pub const THREADS_MAX: u64 = 1024;
/// Tokens of one answer.
pub const TOKENS_MAX: u64 = 1 << 20;
/// Sequences sampled at once.
pub const BATCH_MAX: u64 = 65_536;
/// Episodes of one step, and of one evaluation.
const EPISODES_MAX: u64 = 1_000_000;
/// Episodes of one task.
pub const ROLLOUTS_MAX: u64 = 4096;

/// The upper bound of each key. `[]` in a key stands for any item of a list.
pub(super) const BOUNDS: &[(&str, u64)] = &[
    ("run.threads", THREADS_MAX),
    ("train.max_steps", 1_000_000_000),
    ("train.epochs", 1000),
    ("train.sequences_per_step", EPISODES_MAX),
    ("train.micro_batch_tokens", 1 << 24),
    ("env.tasks", TASKS_MAX),
    ("data.demonstrations[].tasks", TASKS_MAX),
    ("weights.calibration.tasks", TASKS_MAX),
    ("data.decontaminate.ngram", 1000),
    ("rollout.tasks_per_step", EPISODES_MAX),
    ("rollout.group_size", ROLLOUTS_MAX),
    ("rollout.tokens_max", TOKENS_MAX),
    ("rollout.turns_max", 10_000),
    ("rollout.batch_max", BATCH_MAX),
    ("rollout.cache_mib", 1 << 24),
    ("rollout.policy_lag", 1000),
    ("rollout.dynamic_sampling.max_rounds", 1000),
    ("eval.tasks", TASKS_MAX),
    ("eval.rollouts", ROLLOUTS_MAX),
    ("eval.extra[].tasks", TASKS_MAX),
    ("eval.extra[].rollouts", ROLLOUTS_MAX),
    ("eval.extra[].tokens_max", TOKENS_MAX),
    ("judge.tokens_max", TOKENS_MAX),
    ("user.tokens_max", TOKENS_MAX),
    ("extractor.tokens_max", TOKENS_MAX),
    ("policy.lora.rank", 65_536),
    ("policy.new.vocab_size", 1 << 20),
    ("policy.new.hidden_size", 65_536),
    ("policy.new.intermediate_size", 1 << 20),
    ("policy.new.num_hidden_layers", 1000),
    ("policy.new.num_attention_heads", 4096),
    ("policy.new.num_key_value_heads", 4096),
    ("policy.new.head_dim", 4096),
    ("policy.new.max_position_embeddings", 1 << 24),
    // Whatever a user's own method counts.
    ("advantage.config", 1_000_000),
    ("plan.config", 1_000_000),
    ("selection.config", 1_000_000),
];

/// Pairs of counts whose product is made at once, and the bound of the product.
const PRODUCTS: &[(&str, &str, u64)] = &[
    ("rollout.tasks_per_step", "rollout.group_size", EPISODES_MAX),
    ("eval.tasks", "eval.rollouts", EPISODES_MAX),
];

/// Refuses counts above their bound.
///
/// # Errors
/// Names the key, its value and its bound.
pub(super) fn check(recipe: &Recipe, source: &Source) -> Result<(), RecipeError> {
    let failed = |error: serde_json::Error| source.error("", format!("can't be read: {error}"));
    let value = serde_json::to_value(recipe).map_err(failed)?;
    let mut wrong = None;
    visit(&value, "", "", &mut |key, pattern, count| {
        let bound = bound_of(pattern).filter(|bound| count > *bound);
        if let Some(bound) = bound.filter(|_| wrong.is_none()) {
            wrong = Some((key.to_owned(), count, bound));
        }
    });
    if let Some((key, count, bound)) = wrong {
        return Err(source.error(&key, format!("must be {bound} or less (it is {count})")));
    }
    let count = |key: &str| -> u64 {
        let value = key.split('.').try_fold(&value, |table, part| table.get(part));
        value.and_then(Value::as_u64).unwrap_or(0)
    };
    let mut products: Vec<(String, u64, String, u64, u64)> = PRODUCTS
        .iter()
        .map(|(one, other, bound)| ((*one).to_owned(), count(one), (*other).to_owned(), count(other), *bound))
        .collect();
    products.extend(recipe.further_evaluations().iter().enumerate().map(|(at, plan)| {
        let key = |name: &str| format!("eval.extra[{at}].{name}");
        (key("tasks"), plan.tasks as u64, key("rollouts"), plan.rollouts as u64, EPISODES_MAX)
    }));
    for (one, first, other, second, bound) in products {
        let episodes = first.saturating_mul(second);
        if episodes > bound {
            let problem =
                format!("times `{other}` must be {bound} episodes or less (it is {first} times {second})");
            return Err(source.error(&one, problem));
        }
    }
    Ok(())
}

/// Calls `found` with the key, its pattern and the value of every count.
fn visit(value: &Value, key: &str, pattern: &str, found: &mut dyn FnMut(&str, &str, u64)) {
    match value {
        Value::Object(table) => {
            let below =
                |of: &str, name: &str| if of.is_empty() { name.to_owned() } else { format!("{of}.{name}") };
            for (name, value) in table {
                visit(value, &below(key, name), &below(pattern, name), found);
            }
        }
        Value::Array(items) => {
            for (at, value) in items.iter().enumerate() {
                visit(value, &format!("{key}[{at}]"), &format!("{pattern}[]"), found);
            }
        }
        Value::Number(number) => {
            if let Some(count) = number.as_u64() {
                found(key, pattern, count);
            }
        }
        _ => {}
    }
}

fn bound_of(pattern: &str) -> Option<u64> {
    // A seed allocates nothing, however large.
    if pattern.ends_with("seed") {
        return None;
    }
    let holds = |key: &str| {
        let rest = pattern.strip_prefix(key);
        rest.is_some_and(|rest| rest.is_empty() || (key.ends_with(".config") && rest.starts_with('.')))
    };
    BOUNDS.iter().find(|(key, _)| holds(key)).map(|(_, bound)| *bound)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{SFT, SMALL, read};

    /// Every bound is checked before anything is made: a count above it is refused, and the error names key and
    /// bound.
    #[test]
    fn every_count_is_refused_above_its_bound_and_taken_at_it() {
        for (key, bound) in BOUNDS {
            let text = match *key {
                key if key.starts_with("policy.new") || key.starts_with("data.demonstrations") => SFT,
                _ => SMALL,
            };
            let set = |count: u64| -> Vec<String> {
                match key.split_once("[].") {
                    Some(("eval.extra", name)) => {
                        vec![format!("eval.extra=[{{name=\"a\", {name}={count}}}]")]
                    }
                    Some((list, name)) => vec![format!("{list}.0.{name}={count}")],
                    None if key.starts_with("judge") => {
                        vec![format!(
                            "judge={{path=\"x\", prompt=\"{{task}} {{a}} {{b}}\", tokens_max={count}}}"
                        )]
                    }
                    None if key.starts_with("user") => {
                        vec![format!("user={{path=\"x\", tokens_max={count}}}")]
                    }
                    None if key.starts_with("extractor") => {
                        vec![format!("extractor={{path=\"x\", tokens_max={count}}}")]
                    }
                    None if key.starts_with("weights") => {
                        vec![format!(
                            "weights={{method=\"arm\", models=[], calibration={{env=\"chains\", tasks={count}}}}}"
                        )]
                    }
                    None if *key == "policy.lora.rank" => {
                        vec![format!("policy.lora={{rank={count}, alpha=1.0}}")]
                    }
                    None if *key == "advantage.config" => {
                        let config = format!("advantage.config={{every=4, rollouts={count}}}");
                        vec!["advantage.estimator=vineppo".to_owned(), config]
                    }
                    None if *key == "plan.config" => {
                        vec![format!("plan={{plan=\"skpo\", config={{draft_tokens={count}}}}}")]
                    }
                    None if *key == "selection.config" => {
                        vec![
                            "selection.selector=insight".to_owned(),
                            format!("selection.config.pool_factor={count}"),
                        ]
                    }
                    None => vec![format!("{key}={count}")],
                }
            };
            let refused = |count: u64| {
                let overrides = set(count);
                let overrides: Vec<&str> = overrides.iter().map(String::as_str).collect();
                read(text, &overrides).err().unwrap_or_default()
            };
            let last = key.rsplit('.').next().unwrap();
            for count in [bound + 1, 1_000_000_000_000, i64::MAX as u64] {
                let error = refused(count);
                let said = format!("must be {bound} or less (it is {count})");
                let is_named = error.contains(last) || key.ends_with("config");
                assert!(is_named && error.contains(&said), "{key}={count}: {error}");
            }
            let at_it = refused(*bound);
            assert!(!at_it.contains(&format!("must be {bound} or less")), "{key}: {at_it}");
        }
    }

    #[test]
    fn what_is_made_at_once_is_bounded_by_the_product() {
        for (overrides, parts) in [
            (
                &["rollout.tasks_per_step=1000", "rollout.group_size=1001"][..],
                [
                    "`rollout.tasks_per_step` times `rollout.group_size`",
                    "1000000 episodes or less (it is 1000 times 1001)",
                ],
            ),
            (
                &["eval.tasks=1000000", "eval.rollouts=2"],
                ["`eval.tasks` times `eval.rollouts`", "1000000 times 2"],
            ),
            (
                &["eval.extra=[{name=\"a\", tasks=500000, rollouts=3}]"],
                ["`eval.extra[0].tasks` times `eval.extra[0].rollouts`", "500000 times 3"],
            ),
        ] {
            let error = read(SMALL, overrides).unwrap_err();
            assert!(parts.iter().all(|part| error.contains(part)), "{overrides:?}: {error}");
        }
        assert!(read(SMALL, &["run.seed=9223372036854775807", "eval.seed=9223372036854775807"]).is_ok());
    }

    #[test]
    fn the_page_lists_every_bound() {
        let page = include_str!("../../../docs/grpo.md");
        for (key, bound) in BOUNDS {
            assert!(
                page.contains(&format!("| `{key}` | {bound} |")),
                "docs/grpo.md lacks | `{key}` | {bound} |"
            );
        }
    }
}
