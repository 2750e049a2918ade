//! The hash of everything that decides the result of a stage.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::calibration::Texts;
use super::surgery;
use crate::RunError;
use crate::controllers;
use crate::making::teacher_of;
use crate::model_files::policy_digests;
use crate::model_path;
use crate::reward_model::scores_of;
use burnish_recipe::{MakeKind, Recipe, StageUse, renamed};
use burnish_rundir::files::{FileError, file_digest};

/// Increased when the same recipe leads to other weights than before.
const FORMAT: u32 = 1;

/// Keys that affect no weight: places, speed, logging. Evaluation matters only as far as it decides which tasks are
/// held out.
const IDLE: [(&str, &[&str]); 10] = [
    ("run", &["dir", "cache", "threads"]),
    ("eval", &["every"]),
    ("train", &["unscored_steps_max"]),
    ("policy", &["path", "from", "chat_template"]),
    ("teacher", &["path", "from"]),
    ("data", &["from"]),
    ("memory", &["path", "from"]),
    ("engine", ENGINE),
    ("trainer", &["url", "api_key_env", "requests_max", "timeout_seconds", "away_seconds"]),
    ("", &["metrics", "checkpoint", "rounds"]),
];

/// Where an engine is, and how it is asked.
const ENGINE: &[&str] = &[
    "urls",
    "model",
    "api_key_env",
    "requests_max",
    "adapters",
    "weights_dir",
    "weights_dir_there",
    "timeout_seconds",
    "update_seconds",
    "retries",
    "retry_wait_seconds",
    "tolerance",
];

/// 16 hexadecimal digits for a resolved recipe, the content of the files that it reads, its starting policy and its
/// teacher. The hash of each `from` must be known.
///
/// # Errors
/// If a file can't be read.
pub(crate) fn of(recipe: &Recipe) -> Result<String, RunError> {
    let failed = |error: serde_json::Error| RunError::Refused(format!("the recipe can't be hashed: {error}"));
    let mut value = serde_json::to_value(recipe.with_first_defaults()).map_err(failed)?;
    renamed::to_first(&mut value);
    // A run writes down how many steps its passes are.
    if let (Some(_), Some(Value::Object(train))) = (recipe.train.num_train_epochs, value.get_mut("train")) {
        train.shift_remove("max_steps");
    }
    for (table, keys) in IDLE {
        let table = if table.is_empty() { Some(&mut value) } else { value.get_mut(table) };
        if let Some(Value::Object(table)) = table {
            table.retain(|key, _| !keys.contains(&key.as_str()));
        }
    }
    if let Some(Value::Object(tasks)) = value.get_mut("env").and_then(|env| env.get_mut("tasks")) {
        // A file counts by its content, or by the hash of the recipe that makes it.
        tasks.clear();
    }
    if let (Some(_), Some(Value::Object(env))) = (&recipe.env.config_from, value.get_mut("env")) {
        // As does a configuration, which a run writes down once it is made.
        env.retain(|key, _| !["config", "config_from"].contains(&key.as_str()));
    }
    let chooses = evaluations_decide(recipe);
    if let Some(Value::Object(eval)) = value.get_mut("eval") {
        match eval.get_mut("strategy") {
            Some(Value::Object(strategy)) if chooses => drop(strategy.shift_remove("from")),
            _ => drop(eval.shift_remove("strategy")),
        }
    }
    let mut models = BTreeMap::new();
    // A copy inside a run directory is identified by what it was made from.
    let path =
        recipe.policy.path.as_deref().filter(|_| recipe.policy.from.is_none() && recipe.weights.is_none());
    let critic = recipe.critic.as_ref().and_then(|critic| critic.path.as_deref());
    let teacher = recipe.teacher.as_ref().filter(|teacher| teacher.from.is_none());
    let teacher = teacher.and_then(|teacher| teacher.path.as_deref());
    let judge = recipe.judge.as_ref().and_then(|judge| judge.path.as_deref());
    let user = recipe.user.as_ref().and_then(|user| user.path.as_deref());
    let extractor = recipe.extractor.as_ref().and_then(|extractor| extractor.path.as_deref());
    let makes = teacher_of(recipe);
    let reward = recipe.reward.model.as_ref().map(|model| &*model.path);
    let goal = recipe.reward.goal.as_ref().and_then(|goal| goal.path.as_deref());
    let given = [
        ("policy", path),
        ("critic", critic),
        ("teacher", teacher),
        ("judge", judge),
        ("user", user),
        ("extractor", extractor),
        ("make_teacher", makes),
        ("reward", reward),
        ("goal", goal),
        ("user_scores", scores_of(recipe.user.as_ref().and_then(|user| user.strategy.as_ref()))),
        ("judge_scores", scores_of(recipe.judge.as_ref().and_then(|judge| judge.strategy.as_ref()))),
    ];
    for (name, path) in given {
        if let Some(path) = path {
            models.insert(name, policy_digests(&model_path::locate(path)?.dir)?);
        }
    }
    let texts = Texts::of(recipe)?;
    let decides = |weights| surgery::decides(weights, texts.as_ref().map(|texts| &*texts.digest));
    let weights = recipe.weights.as_ref().map(decides).transpose()?;
    if let (Some(_), Value::Object(value)) = (&weights, &mut value) {
        value.shift_remove("weights");
    }
    let files = files(recipe)?.iter().map(|file| file_digest(file)).collect::<Result<Vec<_>, FileError>>()?;
    let mut whole = json!({
        "format": FORMAT,
        "recipe": value,
        "models": models,
        "files": files,
        "from": recipe.policy.from.as_ref().and_then(|from| from.hash.as_ref()),
    });
    for (of, key) in [
        (StageUse::Teacher, "teacher"),
        (StageUse::Rows, "rows"),
        (StageUse::Tasks, "tasks"),
        (StageUse::Memory, "memory"),
        (StageUse::Config, "config"),
    ] {
        if let Some(hash) = of.made_by(recipe).and_then(|from| from.hash.as_ref()) {
            whole[key] = hash.as_str().into();
        }
    }
    let strategy = StageUse::Strategy.made_by(recipe).and_then(|from| from.hash.as_ref());
    if let Some(hash) = strategy.filter(|_| chooses) {
        whole["strategy"] = hash.as_str().into();
    }
    if let Some(weights) = weights {
        whole["weights"] = weights;
    }
    if let Some(template) = &recipe.policy.chat_template {
        whole["chat_template"] = file_digest(template)?.into();
    }
    Ok(burnish_env::digest(&serde_json::to_vec(&whole).map_err(failed)?))
}

/// Do evaluations decide what a run ends with? They do where the best weights are kept, where steps end when they get
/// no better, and where a configuration is made of what they find.
fn evaluations_decide(recipe: &Recipe) -> bool {
    let configures = recipe.make.as_ref().is_some_and(|make| make.kind == MakeKind::Config);
    configures || recipe.checkpoint.best.is_some() || recipe.train.patience.is_some()
}

/// The data files that a run reads.
fn files(recipe: &Recipe) -> Result<Vec<PathBuf>, RunError> {
    let mut files = [&*recipe.data.path.0, &*recipe.data.held_out.0].concat();
    files.extend(recipe.env.tasks.file().and_then(|tasks| tasks.path.clone()));
    files.extend(recipe.memory.as_ref().and_then(|memory| memory.path.clone()));
    let sets = recipe.data.demonstrations.iter().map(|set| (&set.env, &set.config));
    let has_own = !recipe.env.is_absent() && recipe.env.config_from.is_none();
    let env = has_own.then_some((&recipe.env.id, &recipe.env.config));
    let eval = recipe.eval.config.as_ref().map(|config| (&recipe.env.id, config));
    for (id, config) in env.into_iter().chain(eval).chain(sets) {
        files.extend(files_of(id, config)?);
    }
    for extra in &recipe.eval.extra {
        let Some(config) = &extra.config else { continue };
        files.extend(files_of(extra.env.as_ref().unwrap_or(&recipe.env.id), config)?);
    }
    // Those of a user or a judge always count.
    let controllers = controllers::of(recipe)?.into_iter();
    let decides = evaluations_decide(recipe);
    files.extend(controllers.filter(|(key, _)| decides || !key.starts_with("eval.")).map(|(_, file)| file));
    Ok(files)
}

/// The files that the tasks of an environment are made from.
fn files_of(id: &str, config: &Value) -> Result<Vec<PathBuf>, RunError> {
    Ok(burnish_env::build(id, config)?.files())
}

#[cfg(test)]
mod tests {
    use super::*;
    use burnish_recipe::{Source, StageRecipe};

    const SFT: &str = r#"
[run]
dir = "x"
[policy.new]
architecture = "qwen3"
vocab_size = 320
hidden_size = 64
intermediate_size = 128
num_hidden_layers = 2
num_attention_heads = 4
num_key_value_heads = 2
head_dim = 16
max_position_embeddings = 256
rope_theta = 10000.0
tie_word_embeddings = true
dtype = "bf16"
[env]
id = "countdown"
[[data.demonstrations]]
env = "countdown"
tasks = 8
[train]
method = "sft"
max_steps = 3
"#;

    fn read(overrides: &[&str]) -> Recipe {
        let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
        Recipe::resolve(&Source::parse("sft.toml", SFT, &overrides).unwrap()).unwrap()
    }

    fn hash(overrides: &[&str]) -> String {
        of(&read(overrides)).unwrap()
    }

    #[test]
    fn what_decides_the_weights_changes_the_hash_and_nothing_else_does() {
        let plain = hash(&[]);
        assert_eq!(plain.len(), 16);
        for idle in [
            "run.dir=elsewhere",
            "run.cache=other",
            "run.threads=7",
            "metrics.tensorboard=false",
            "checkpoint.every=1",
            "checkpoint.keep=1",
            "eval.every=2",
            "train.unscored_steps_max=9",
            VOTES,
        ] {
            assert_eq!(hash(&[idle]), plain, "{idle}");
        }
        // Where evaluations choose the weights, it matters how they are played.
        let best = "checkpoint.best=\"success\"";
        assert_ne!(hash(&[VOTES, best]), hash(&[best]));
        let configures = |changes: &[&str]| {
            let mut recipe = read(changes);
            let make = json!({ "kind": "config", "program": "redesign" });
            recipe.make = Some(serde_json::from_value(make).unwrap());
            of(&recipe).unwrap()
        };
        assert_ne!(configures(&[VOTES]), configures(&[]));
        let from = |hash: &str| {
            let mut recipe = read(&["eval.strategy.from={recipe=\"search.toml\", hash=\"aa\"}", best]);
            let made = StageUse::Strategy.made_by_mut(&mut recipe).unwrap();
            (made.hash, made.recipe) = (Some(hash.to_owned()), format!("{hash}.toml").into());
            of(&recipe).unwrap()
        };
        assert_ne!(from("aa"), from("bb"));
        // Notes count by what made them, or by what they say, wherever they are.
        let notes = |hash: &str| {
            let mut recipe = read(&["memory.from={recipe=\"notes.toml\", hash=\"aa\"}"]);
            let made = StageUse::Memory.made_by_mut(&mut recipe).unwrap();
            (made.hash, made.recipe) = (Some(hash.to_owned()), format!("{hash}.toml").into());
            of(&recipe).unwrap()
        };
        assert_ne!(notes("aa"), notes("bb"));
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            let mut recipe = read(&["memory.path=Cargo.toml"]);
            *StageUse::Memory.path_mut(&mut recipe).unwrap() = None;
            recipe.memory.as_mut().unwrap().path = Some(path);
            of(&recipe).unwrap()
        };
        assert_eq!(file("a", "one"), file("b", "one"));
        assert_ne!(file("a", "one"), file("a", "two"));
        for decisive in [
            "run.seed=1",
            "train.max_steps=4",
            "policy.new.hidden_size=128",
            "optimizer.learning_rate=2e-6",
            "env.config.numbers.max=3",
            "eval.tasks=3",
            "eval.seed=9",
            "eval.extra=[{name=\"chains\", env=\"chains\"}]",
        ] {
            assert_ne!(hash(&[decisive]), plain, "{decisive}");
        }
    }

    #[test]
    fn a_configuration_that_another_recipe_makes_counts_by_the_hash_of_that_recipe() {
        let playing = |hash: &str, most: u64, recipe: &str| {
            let mut run = read(&[]);
            let made = StageRecipe { recipe: recipe.into(), set: Vec::new(), hash: Some(hash.to_owned()) };
            StageUse::Config.set(&mut run, Some(made));
            // As a run writes it down.
            run.env.config["numbers"]["max"] = most.into();
            of(&run).unwrap()
        };
        let first = playing("aa", 4, "a.toml");
        assert_eq!(playing("aa", 6, "b.toml"), first);
        assert_ne!(playing("bb", 4, "a.toml"), first);
        assert_ne!(first, hash(&[]));
    }

    const VOTES: &str = "eval.strategy={strategy=\"majority\", config={samples=4, temperature=1.0}}";

    /// The hashes are those of version 0.1, so that existing caches stay valid.
    #[test]
    fn hashes_are_those_of_before() {
        assert_eq!(hash(&[]), "2224241dc248091d");
        assert_eq!(hash(&["eval.extra=[{name=\"chains\", env=\"chains\"}]"]), "49144cd33c04bc34");
    }

    const MIXED: &str = r#"
[run]
dir = "x"
[weights]
method = "wise_ft"
base_model = { from = { recipe = "a.toml", hash = "aaaa" } }
models = [{ from = { recipe = "b.toml", hash = "bbbb" } }]
parameters = { alpha = 0.5 }
[train]
method = "none"
"#;

    #[test]
    fn surgery_counts_by_its_settings_and_by_what_its_models_are() {
        let hash = |changes: &[&str]| {
            let changes: Vec<String> = changes.iter().map(|text| (*text).to_owned()).collect();
            of(&Recipe::resolve(&Source::parse("mixed.toml", MIXED, &changes).unwrap()).unwrap()).unwrap()
        };
        let plain = hash(&[]);
        assert_eq!(hash(&["weights.models.0.from.recipe=elsewhere/b.toml"]), plain);
        for decisive in [
            "weights.parameters.alpha=0.25",
            "weights.models.0.from.hash=cccc",
            "weights.base_model.from.hash=bbbb",
            "weights.dtype=float32",
            "weights.seed=1",
            "weights.method=extrapolate",
        ] {
            assert_ne!(hash(&[decisive]), plain, "{decisive}");
        }
        let other = ["weights.base_model.from.hash=bbbb", "weights.models.0.from.hash=aaaa"];
        assert_ne!(hash(&other), plain, "base and model are not the same place");
    }

    #[test]
    fn a_chat_template_counts_by_what_it_says_and_not_by_where_it_lies() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            hash(&[&format!("policy.chat_template={}", path.display())])
        };
        let first = write("a.jinja", "{{ messages }}");
        assert_ne!(first, hash(&[]));
        assert_eq!(write("b.jinja", "{{ messages }}"), first);
        assert_ne!(write("a.jinja", "{{ messages[0] }}"), first);
    }

    #[test]
    fn a_judges_controllers_count_and_those_of_evaluations_do_not() {
        let controls = |path: &str| serde_json::json!([{"first_try": {"controller": {"path": path}}}]);
        let mut recipe = serde_json::to_value(read(&[])).unwrap();
        recipe["eval"]["thoughts"] = serde_json::json!({"controls": controls("eval.json")});
        let strategy =
            serde_json::json!({"strategy": "controlled", "config": {"controls": controls("judge.json")}});
        recipe["judge"] = serde_json::json!({"path": "judge", "strategy": strategy});
        let recipe: Recipe = serde_json::from_value(recipe).unwrap();
        assert_eq!(files(&recipe).unwrap(), [PathBuf::from("judge.json")]);
    }

    #[test]
    fn data_files_count_by_what_is_in_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.jsonl");
        let read = || hash(&[&format!("data.path={}", path.display())]);
        std::fs::write(&path, "{\"prompt\": \"a\", \"completion\": \"b\"}\n").unwrap();
        let first = read();
        assert_eq!(read(), first);
        std::fs::write(&path, "{\"prompt\": \"a\", \"completion\": \"c\"}\n").unwrap();
        assert_ne!(read(), first);
    }
}
