//! What a person would call a run: `starter: GRPO on multi-agent FrozenLake`.

use std::path::Path;

use burnish_recipe::{Method, Recipe};
use burnish_rl::catalogue::cards;
use serde_json::Value;

/// The title of a recipe's run.
pub(super) fn of(recipe: &Recipe) -> String {
    let (method, source) = (method(recipe), source(recipe));
    let what = if source.is_empty() { method } else { format!("{method} {source}") };
    match model(recipe) {
        Some(model) => format!("{model}: {what}"),
        None => {
            let mut letters = what.chars();
            letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
        }
    }
}

fn method(recipe: &Recipe) -> String {
    let loss = recipe.loss.objective.as_str();
    match recipe.train.method {
        Method::Sft => "imitation (SFT)".to_owned(),
        Method::None => match &recipe.weights {
            Some(weights) => format!("surgery ({})", weights.method),
            None if recipe.make.is_some() => "playing".to_owned(),
            None => "no training".to_owned(),
        },
        Method::Preference if loss == "simpo" => "preferences (SimPO)".to_owned(),
        Method::Preference => format!("preferences ({})", loss.to_uppercase().replace('_', " ")),
        Method::Reward if loss == "bradley_terry" => "reward model (Bradley–Terry)".to_owned(),
        Method::Reward => format!("reward model ({})", loss.replace('_', " ")),
        Method::Grpo if recipe.critic.is_some() => "PPO".to_owned(),
        Method::Grpo if loss == "ppo_clip" && recipe.advantage.estimator == "grpo" => "GRPO".to_owned(),
        // PPO's loss is the usual one: then the advantages are what the run is about.
        Method::Grpo if loss == "ppo_clip" => named(&recipe.advantage.estimator),
        Method::Grpo => named(loss),
    }
}

/// The name in a card's title, which goes on behind it to explain.
fn named(id: &str) -> String {
    let title = cards().into_iter().find(|card| card.id == id).map_or(id, |card| card.title);
    let end = [":", " (", ","].iter().filter_map(|end| title.find(end)).min().unwrap_or(title.len());
    title[..end].to_owned()
}

/// What is learned from, with its preposition.
fn source(recipe: &Recipe) -> String {
    if recipe.plays() {
        let files = files(recipe.env.config.get(burnish_recipe::paths::ENV_PATH));
        let title = burnish_env::kind(&recipe.env.id).map_or(&*recipe.env.id, |kind| kind.title);
        return if files.is_empty() {
            format!("on {title}")
        } else {
            format!("on the rows of {}", listed(&files))
        };
    }
    let mut sources: Vec<String> = recipe.data.files().iter().map(|path| file_name(path)).collect();
    for given in &recipe.data.demonstrations {
        let title = burnish_env::kind(&given.env).map_or(&*given.env, |kind| kind.title);
        let from = files(given.config.get(burnish_recipe::paths::ENV_PATH));
        sources.push(if from.is_empty() { format!("demonstrations of {title}") } else { listed(&from) });
    }
    if sources.is_empty() { String::new() } else { format!("from {}", listed(&sources)) }
}

/// The names of a path or of a list of paths.
fn files(path: Option<&Value>) -> Vec<String> {
    let name = |path: &Value| path.as_str().map(|path| file_name(Path::new(path)));
    match path {
        Some(Value::Array(paths)) => paths.iter().filter_map(name).collect(),
        Some(path) => name(path).into_iter().collect(),
        None => Vec::new(),
    }
}

fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [one, other] => format!("{one} and {other}"),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// The model that the run starts from.
fn model(recipe: &Recipe) -> Option<String> {
    let policy = &recipe.policy;
    if let Some(from) = &policy.from {
        return Some(from.recipe.file_stem()?.to_string_lossy().into_owned());
    }
    if policy.new.is_some() {
        return Some("New policy".to_owned());
    }
    if let Some(weights) = &recipe.weights {
        // The last model is the one that most methods change.
        let from = weights.models.last()?;
        let of_recipe = from.from.as_ref().and_then(|from| from.recipe.file_stem());
        let name = of_recipe.map(|name| name.to_string_lossy().into_owned());
        return name.or_else(|| from.path.as_deref().and_then(model_name));
    }
    policy.path.as_deref().and_then(model_name)
}

/// A model's name: that of its directory, of its run, or of the hub's repository in whose cache it lies.
fn model_name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    let above = |levels: usize| {
        let above = path.ancestors().nth(levels)?.file_name()?;
        Some(above.to_string_lossy().into_owned())
    };
    let (parent, grandparent) = (above(1).unwrap_or_default(), above(2));
    if name.starts_with("step_") && ["checkpoints", "best"].contains(&parent.as_str()) {
        return grandparent.or(Some(name));
    }
    if parent == "snapshots"
        && let Some(repository) = grandparent.as_deref().and_then(|folder| folder.strip_prefix("models--"))
    {
        return repository.rsplit("--").next().map(str::to_owned);
    }
    Some(name)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use burnish_recipe::Source;

    fn title(more: &str) -> String {
        let text = format!("[run]\ndir = \"x\"\n[eval]\ntasks = 0\n{more}");
        of(&Source::parse("r.toml", &text, &[]).unwrap().decode().unwrap())
    }

    #[test]
    fn a_title_is_what_a_person_would_write() {
        let starter = "[policy]\npath = \"models/starter\"\n[train]\nmax_steps = 9\nmethod = ";
        for (more, expected) in [
            ("\"grpo\"\n[env]\nid = \"mapf-frozenlake\"", "starter: GRPO on multi-agent FrozenLake"),
            (
                "\"grpo\"\n[env]\nid = \"rows\"\nconfig = {path = \"data/problems.jsonl\"}",
                "starter: GRPO on the rows of problems.jsonl",
            ),
            (
                "\"grpo\"\n[env]\nid = \"orders\"\n[loss]\nobjective = \"gspo\"",
                "starter: GSPO on taking orders",
            ),
            (
                "\"sft\"\n[data]\npath = [\"a.jsonl\", \"b.csv\"]",
                "starter: imitation (SFT) from a.jsonl and b.csv",
            ),
            (
                "\"preference\"\n[data]\npath = \"pairs.jsonl\"\n[loss]\nobjective = \"dpo\"",
                "starter: preferences (DPO) from pairs.jsonl",
            ),
            (
                "\"reward\"\n[data]\npath = \"pairs.jsonl\"\n[loss]\nobjective = \"bradley_terry\"",
                "starter: reward model (Bradley–Terry) from pairs.jsonl",
            ),
            (
                "\"sft\"\n[[data.demonstrations]]\nenv = \"orders\"\ntasks = 9",
                "starter: imitation (SFT) from demonstrations of taking orders",
            ),
        ] {
            assert_eq!(title(&format!("{starter}{more}\n")), expected);
        }
    }

    #[test]
    fn a_model_has_the_name_that_people_know() {
        for (path, name) in [
            ("models/starter", "starter"),
            ("runs/sft/checkpoints/step_800", "sft"),
            ("/c/hub/models--Qwen--Qwen3-0.6B/snapshots/0123abc", "Qwen3-0.6B"),
        ] {
            assert_eq!(model_name(Path::new(path)).as_deref(), Some(name));
        }
    }
}
