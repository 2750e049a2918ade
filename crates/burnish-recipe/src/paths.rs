//! Which keys of a recipe are paths, and how their values are read.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{RecipeError, Source};

/// What a path points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathKind {
    /// The run directory, or the cache of stages: created if it does not exist.
    Own,
    /// A recipe whose run is a stage.
    Recipe,
    /// A model directory.
    Model,
    /// The file of a chat template.
    Template,
    /// A data file.
    Data,
    /// The model of a controller of thoughts.
    Controller,
    /// The folder that an environment's relative data paths start from.
    Folder,
}

impl PathKind {
    /// Whether an empty text is allowed and means that nothing is given.
    fn may_be_empty(self) -> bool {
        matches!(self, PathKind::Data | PathKind::Folder)
    }
}

/// A path in a recipe.
pub struct PathPlace<'a> {
    /// Its key; the number of a list item is in brackets.
    pub key: String,
    /// What it may point to.
    pub kind: PathKind,
    /// The folder that the path of a data file starts from, if its environment has one.
    pub folder: Option<String>,
    /// The path itself.
    pub value: &'a mut String,
}

/// Keys with one path each.
const SINGLE: [(&[&str], PathKind); 15] = [
    (&["run", "dir"], PathKind::Own),
    (&["run", "cache"], PathKind::Own),
    (&["policy", "path"], PathKind::Model),
    (&["policy", "chat_template"], PathKind::Template),
    (&["teacher", "path"], PathKind::Model),
    (&["critic", "path"], PathKind::Model),
    (&["judge", "path"], PathKind::Model),
    (&["user", "path"], PathKind::Model),
    (&["extractor", "path"], PathKind::Model),
    (&["make", "teacher"], PathKind::Model),
    (&["memory", "path"], PathKind::Data),
    (&["reward", "model", "path"], PathKind::Model),
    (&["env", "split", "scorer", "judge", "path"], PathKind::Model),
    (&["user", "strategy", "config", "score", "path"], PathKind::Model),
    (&["judge", "strategy", "config", "score", "path"], PathKind::Model),
];

/// The key of an environment's configuration with its data files.
pub const ENV_PATH: &str = "path";
/// The key of the folder that relative paths in an environment's configuration start from.
pub const ENV_FOLDER: &str = "base_dir";

type Visit<'a, E> = &'a mut dyn FnMut(PathPlace<'_>) -> Result<(), E>;

/// Visits every path of a recipe. The folder of an environment is visited before its files.
///
/// # Errors
/// The first that `visit` returns.
pub fn each<E>(recipe: &mut Value, visit: Visit<'_, E>) -> Result<(), E> {
    for (keys, kind) in SINGLE {
        let place = keys.iter().try_fold(&mut *recipe, |place, key| place.get_mut(key));
        one(place, keys.join("."), kind, None, visit)?;
    }
    for table in ["policy", "teacher", "data"] {
        from(recipe.get_mut(table), table, visit)?;
    }
    let tasks = recipe.get_mut("env").and_then(|env| env.get_mut("tasks"));
    if let Some(tasks) = tasks.filter(|tasks| tasks.is_object()) {
        one(tasks.get_mut("path"), "env.tasks.path".to_owned(), PathKind::Data, None, visit)?;
        from(Some(tasks), "env.tasks", visit)?;
    }
    let config = recipe.get_mut("env").and_then(|env| env.get_mut("config_from"));
    recipe_at(config, "env.config_from".to_owned(), visit)?;
    from(recipe.get_mut("eval").and_then(|eval| eval.get_mut("strategy")), "eval.strategy", visit)?;
    if let Some(Value::Array(stages)) = recipe.get_mut("rounds").and_then(|rounds| rounds.get_mut("stage")) {
        for (at, stage) in stages.iter_mut().enumerate() {
            let key = format!("rounds.stage[{at}].recipe");
            one(stage.get_mut("recipe"), key, PathKind::Recipe, None, visit)?;
        }
    }
    each_ingredient(recipe, visit)?;
    each_controller(recipe, visit)?;
    for key in ["path", "held_out"] {
        let paths = recipe.get_mut("data").and_then(|data| data.get_mut(key));
        many(paths, &format!("data.{key}"), None, visit)?;
    }
    if let Some(Value::Array(sets)) = recipe.get_mut("data").and_then(|data| data.get_mut("demonstrations")) {
        for (at, set) in sets.iter_mut().enumerate() {
            let judge = ["split", "scorer", "judge", "path"];
            let place = judge.iter().try_fold(set, |place, key| place.get_mut(key));
            let key = format!("data.demonstrations[{at}].split.scorer.judge.path");
            one(place, key, PathKind::Model, None, visit)?;
        }
    }
    each_config(recipe, &mut |key, _, config| {
        let folder = config.get_mut(ENV_FOLDER);
        one(folder, format!("{key}.{ENV_FOLDER}"), PathKind::Folder, None, visit)?;
        let folder = config.get(ENV_FOLDER).and_then(Value::as_str).filter(|folder| !folder.is_empty());
        let folder = folder.map(str::to_owned);
        many(config.get_mut(ENV_PATH), &format!("{key}.{ENV_PATH}"), folder, visit)
    })
}

/// The recipe that makes the model of the table called `key`.
fn from<E>(table: Option<&mut Value>, key: &str, visit: Visit<'_, E>) -> Result<(), E> {
    recipe_at(table.and_then(|table| table.get_mut("from")), format!("{key}.from"), visit)
}

fn recipe_at<E>(from: Option<&mut Value>, key: String, visit: Visit<'_, E>) -> Result<(), E> {
    match from {
        Some(Value::Object(from)) => {
            one(from.get_mut("recipe"), format!("{key}.recipe"), PathKind::Recipe, None, visit)
        }
        from => one(from, key, PathKind::Recipe, None, visit),
    }
}

/// The models of `[weights]`.
fn each_ingredient<E>(recipe: &mut Value, visit: Visit<'_, E>) -> Result<(), E> {
    let Some(weights) = recipe.get_mut("weights") else { return Ok(()) };
    let mut visit_one = |table: &mut Value, key: &str| {
        one(table.get_mut("path"), format!("{key}.path"), PathKind::Model, None, visit)?;
        from(Some(table), key, visit)
    };
    if let Some(base) = weights.get_mut("base_model") {
        visit_one(base, "weights.base_model")?;
    }
    if let Some(Value::Array(models)) = weights.get_mut("models") {
        for (at, model) in models.iter_mut().enumerate() {
            visit_one(model, &format!("weights.models[{at}]"))?;
        }
    }
    Ok(())
}

/// The controllers of thoughts.
fn each_controller<E>(recipe: &mut Value, visit: Visit<'_, E>) -> Result<(), E> {
    let thoughts = ["thoughts", "controls"];
    each_control(recipe.get_mut("eval"), "eval", &thoughts, visit)?;
    if let Some(Value::Array(items)) = recipe.get_mut("eval").and_then(|eval| eval.get_mut("extra")) {
        for (at, item) in items.iter_mut().enumerate() {
            each_control(Some(item), &format!("eval.extra[{at}]"), &thoughts, visit)?;
        }
    }
    for who in ["user", "judge"] {
        each_control(recipe.get_mut(who), who, &["strategy", "config", "controls"], visit)?;
    }
    Ok(())
}

/// The controllers of the controls that a table called `key` holds in the place `below`.
fn each_control<E>(
    table: Option<&mut Value>,
    key: &str,
    below: &[&str],
    visit: Visit<'_, E>,
) -> Result<(), E> {
    let controls = table.and_then(|table| below.iter().try_fold(table, |place, key| place.get_mut(key)));
    let Some(Value::Array(controls)) = controls else { return Ok(()) };
    for (at, control) in controls.iter_mut().enumerate() {
        let path =
            ["first_try", "controller", "path"].iter().try_fold(control, |place, key| place.get_mut(key));
        let key = format!("{key}.{}[{at}].first_try.controller.path", below.join("."));
        one(path, key, PathKind::Controller, None, visit)?;
    }
    Ok(())
}

/// Visits every configuration of an environment, with its key and the environment's id.
///
/// # Errors
/// The first that `visit` returns.
pub fn each_config<E>(
    recipe: &mut Value,
    visit: &mut dyn FnMut(&str, &str, &mut Value) -> Result<(), E>,
) -> Result<(), E> {
    let id = |table: &Value, key: &str| table.get(key).and_then(Value::as_str).map(str::to_owned);
    let main = recipe.get("env").and_then(|env| id(env, "id")).unwrap_or_default();
    for table in ["env", "eval"] {
        if let Some(config) = recipe.get_mut(table).and_then(|table| table.get_mut("config")) {
            visit(&format!("{table}.config"), &main, config)?;
        }
    }
    if let Some(set) = recipe.get_mut("weights").and_then(|weights| weights.get_mut("calibration")) {
        let own = id(set, "env").unwrap_or_default();
        if let Some(config) = set.get_mut("config") {
            visit("weights.calibration.config", &own, config)?;
        }
    }
    for (table, list) in [("eval", "extra"), ("data", "demonstrations")] {
        let items = recipe.get_mut(table).and_then(|table| table.get_mut(list));
        let Some(Value::Array(items)) = items else { continue };
        for (at, item) in items.iter_mut().enumerate() {
            let own = id(item, "env").unwrap_or_else(|| main.clone());
            let Some(config) = item.get_mut("config") else { continue };
            visit(&format!("{table}.{list}[{at}].config"), &own, config)?;
        }
    }
    Ok(())
}

fn one<E>(
    place: Option<&mut Value>,
    key: String,
    kind: PathKind,
    folder: Option<String>,
    visit: Visit<'_, E>,
) -> Result<(), E> {
    match place {
        Some(Value::String(value)) => visit(PathPlace { key, kind, folder, value }),
        _ => Ok(()),
    }
}

fn many<E>(
    place: Option<&mut Value>,
    key: &str,
    folder: Option<String>,
    visit: Visit<'_, E>,
) -> Result<(), E> {
    match place {
        Some(Value::Array(items)) => items.iter_mut().enumerate().try_for_each(|(at, item)| {
            one(Some(item), format!("{key}[{at}]"), PathKind::Data, folder.clone(), visit)
        }),
        place => one(place, key.to_owned(), PathKind::Data, folder, visit),
    }
}

/// Expands every path of a recipe with [`expand`].
///
/// # Errors
/// Names the key, and what to write instead.
pub fn expand_all(source: &mut Source) -> Result<(), RecipeError> {
    let mut values = source.values().clone();
    each(&mut values, &mut |place| {
        if place.value.is_empty() && place.kind.may_be_empty() {
            return Ok(());
        }
        let path = expand(Path::new(&*place.value)).map_err(|problem| source.error(&place.key, problem))?;
        *place.value = path.to_string_lossy().into_owned();
        Ok(())
    })?;
    source.replace(values);
    Ok(())
}

/// Expands a path as a person writes it: `~` is the home directory. Anything else that a shell would have expanded is
/// refused, not taken for a file name.
///
/// # Errors
/// What is wrong with it, and what to write instead.
pub fn expand(path: &Path) -> Result<PathBuf, String> {
    let Some(text) = path.to_str() else { return Ok(path.to_owned()) };
    if text.trim().is_empty() {
        return Err("is empty: write a path, such as `.` for the current folder".into());
    }
    let variable = text.split(['/', '\\']).find(|part| is_variable(part));
    if let Some(part) = variable.filter(|_| !path.exists()) {
        return Err(format!("is `{text}`, where `{part}` is not expanded: write its value instead"));
    }
    let Some(rest) = text.strip_prefix('~') else { return Ok(path.to_owned()) };
    if !rest.is_empty() && !rest.starts_with(['/', '\\']) {
        let user = rest.split(['/', '\\']).next().unwrap_or_default();
        return Err(format!(
            "is `{text}`: other users' home directories are not expanded; write the one of `{user}` in full, or \
             `./{text}` for a name that begins with `~`"
        ));
    }
    let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
    let home =
        home.ok_or_else(|| format!("is `{text}`, but there is no home directory ($HOME): write it out"))?;
    Ok(match rest.trim_start_matches(['/', '\\']) {
        "" => home,
        rest => home.join(rest),
    })
}

/// Whether a part of a path begins with a shell variable.
fn is_variable(part: &str) -> bool {
    let name = part.strip_prefix('$').map(|name| name.trim_start_matches('{'));
    name.is_some_and(|name| name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{SMALL, read};
    use serde_json::json;

    #[test]
    fn every_path_of_a_recipe_is_visited_and_nothing_else() {
        let rows = |name: &str| json!({"path": name, "base_dir": "rows", "id_key": "path"});
        let by = |name: &str| json!({"first_try": {"controller": {"path": name}}});
        let mut recipe = json!({
            "run": {"dir": "run", "cache": "cache"},
            "policy": {"path": "policy", "chat_template": "chat.jinja", "from": "one.toml"},
            "teacher": {"path": "teacher", "from": {"recipe": "two.toml", "set": ["x"]}},
            "weights": {
                "base_model": {"path": "w"}, "models": [{"from": "x.toml"}, {"from": {"recipe": "y.toml"}}],
                "calibration": {"env": "rows", "config": rows("i")},
            },
            "critic": {"path": "critic"}, "judge": {"path": "judge", "prompt": "path", "strategy": {
                "strategy": "controlled", "config": {"controls": [by("strategist")]}
            }},
            "user": {"path": "user", "strategy": {"strategy": "best_of_n", "config": {"score": {"path": "scores"}}}},
            "reward": {"model": {"path": "reward"}},
            "make": {"kind": "rows", "teacher": "better"},
            "env": {"id": "rows", "config": rows("a"), "config_from": {"recipe": "z.toml"}, "split": {"scorer": {"judge": {"path": "scorer"}}}},
            "eval": {
                "config": {"path": ["b", "c"]},
                "thoughts": {"controls": [{"budget": {}}, by("k"), {"first_try": {}}]},
                "extra": [{"name": "x", "config": rows("d"), "thoughts": {"controls": [by("l")]}}],
            },
            "data": {
                "path": ["e", "f"],
                "held_out": "z",
                "demonstrations": [{"env": "rows", "config": rows("g"), "split": {"scorer": {"judge": {"path": "h"}}}}]
            },
        });
        let mut seen = Vec::new();
        each(&mut recipe, &mut |place| {
            let folder = place.folder.as_deref().unwrap_or("");
            seen.push(format!("{}={} {folder}", place.key, place.value).trim_end().to_owned());
            Ok::<(), ()>(())
        })
        .unwrap();
        seen.sort();
        let expected = [
            "critic.path=critic",
            "data.demonstrations[0].config.base_dir=rows",
            "data.demonstrations[0].config.path=g rows",
            "data.demonstrations[0].split.scorer.judge.path=h",
            "data.held_out=z",
            "data.path[0]=e",
            "data.path[1]=f",
            "env.config.base_dir=rows",
            "env.config.path=a rows",
            "env.config_from.recipe=z.toml",
            "env.split.scorer.judge.path=scorer",
            "eval.config.path[0]=b",
            "eval.config.path[1]=c",
            "eval.extra[0].config.base_dir=rows",
            "eval.extra[0].config.path=d rows",
            "eval.extra[0].thoughts.controls[0].first_try.controller.path=l",
            "eval.thoughts.controls[1].first_try.controller.path=k",
            "judge.path=judge",
            "judge.strategy.config.controls[0].first_try.controller.path=strategist",
            "make.teacher=better",
            "policy.chat_template=chat.jinja",
            "policy.from=one.toml",
            "policy.path=policy",
            "reward.model.path=reward",
            "run.cache=cache",
            "run.dir=run",
            "teacher.from.recipe=two.toml",
            "teacher.path=teacher",
            "user.path=user",
            "user.strategy.config.score.path=scores",
            "weights.base_model.path=w",
            "weights.calibration.config.base_dir=rows",
            "weights.calibration.config.path=i rows",
            "weights.models[0].from=x.toml",
            "weights.models[1].from.recipe=y.toml",
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn the_home_directory_is_put_in_and_what_a_shell_would_put_in_is_refused() {
        let home = std::env::home_dir().unwrap();
        let read = |text: &str| expand(Path::new(text));
        assert_eq!(read("~").unwrap(), home);
        assert_eq!(read("~/x/y").unwrap(), home.join("x/y"));
        for plain in ["x", "./~x", "a~", "a/~/b", "a$", "price-$5", "/"] {
            assert_eq!(read(plain).unwrap(), Path::new(plain));
        }
        for (wrong, part) in [
            ("", "is empty"),
            (" ", "is empty"),
            ("~eve/x", "`eve`"),
            ("$HOME/x", "`$HOME`"),
            ("x/${DATA}", "`${DATA}`"),
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains(part), "{wrong}: {error}");
        }
    }

    #[test]
    fn paths_of_recipes_are_read_so_and_errors_name_the_key() {
        let home = std::env::home_dir().unwrap();
        let recipe = read(SMALL, &["run.dir=~/runs/x", "policy.path=~/m"]).unwrap();
        assert_eq!((recipe.run.dir, recipe.policy.path), (home.join("runs/x"), Some(home.join("m"))));
        for (change, parts) in [
            ("run.dir=''", ["`run.dir`", "is empty"]),
            ("run.cache=''", ["`run.cache`", "is empty"]),
            ("policy.path=''", ["`policy.path`", "is empty"]),
            ("policy.chat_template=''", ["`policy.chat_template`", "is empty"]),
            ("policy.path=~eve/m", ["`policy.path`", "`eve`"]),
            ("run.dir=$HOME/x", ["`run.dir`", "`$HOME`"]),
            ("data.path=['~eve/rows.jsonl']", ["`data.path[0]`", "`eve`"]),
        ] {
            let error = read(SMALL, &[change]).unwrap_err();
            assert!(parts.iter().all(|part| error.contains(part)), "{change}: {error}");
        }
    }
}
