//! The configuration, and the leaderboard's categories.

use burnish_core::names;
use serde::{Deserialize, Serialize};

use crate::EnvError;
use crate::settings::config_error;

/// The configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The folder of the leaderboard's data, with `possible_answer` and `multi_turn_func_doc` in it.
    pub path: String,
    /// Names of the categories whose rows are played.
    pub category: Vec<String>,
}

impl Default for Config {
    /// The categories of `shared/data/bfcl_v4` that can be played.
    fn default() -> Self {
        let absent = [Category::LiveMultiple, Category::LiveIrrelevance];
        let category = Category::ALL.iter().filter(|category| !absent.contains(category));
        Config {
            path: String::new(),
            category: category.map(|category| category.name().to_owned()).collect(),
        }
    }
}

/// A category of the leaderboard that can be played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Category {
    /// One function, one call.
    SimplePython,
    /// Several functions, one call.
    Multiple,
    /// One function, several calls.
    Parallel,
    /// Several functions, several calls.
    ParallelMultiple,
    /// No function fits: there must be no call.
    Irrelevance,
    /// [`Category::SimplePython`], contributed by users.
    LiveSimple,
    /// [`Category::Multiple`], contributed by users.
    LiveMultiple,
    /// [`Category::Parallel`], contributed by users.
    LiveParallel,
    /// [`Category::ParallelMultiple`], contributed by users.
    LiveParallelMultiple,
    /// [`Category::Irrelevance`], contributed by users.
    LiveIrrelevance,
    /// A function fits: there must be some call, whatever it is.
    LiveRelevance,
    /// Several requests on simulated APIs.
    MultiTurnBase,
    /// The same, but functions are held back until one request is told to be asked again.
    MultiTurnMissFunc,
    /// The same, but a request lacks what is needed, and a later one says it.
    MultiTurnMissParam,
}

/// What decides over the verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    /// One call of the only function.
    One,
    /// One call; the gold says of which function.
    Multiple,
    /// Several calls in any order.
    Parallel,
    /// No call.
    NoCall,
    /// Some call.
    SomeCall,
    /// States and results, request by request.
    Turns,
}

impl Category {
    /// Every category, in the leaderboard's order.
    pub const ALL: [Category; 14] = [
        Category::SimplePython,
        Category::Multiple,
        Category::Parallel,
        Category::ParallelMultiple,
        Category::Irrelevance,
        Category::LiveSimple,
        Category::LiveMultiple,
        Category::LiveParallel,
        Category::LiveParallelMultiple,
        Category::LiveIrrelevance,
        Category::LiveRelevance,
        Category::MultiTurnBase,
        Category::MultiTurnMissFunc,
        Category::MultiTurnMissParam,
    ];

    /// The leaderboard's name for it, which is also in the names of its files.
    pub fn name(self) -> &'static str {
        match self {
            Category::SimplePython => "simple_python",
            Category::Multiple => "multiple",
            Category::Parallel => "parallel",
            Category::ParallelMultiple => "parallel_multiple",
            Category::Irrelevance => "irrelevance",
            Category::LiveSimple => "live_simple",
            Category::LiveMultiple => "live_multiple",
            Category::LiveParallel => "live_parallel",
            Category::LiveParallelMultiple => "live_parallel_multiple",
            Category::LiveIrrelevance => "live_irrelevance",
            Category::LiveRelevance => "live_relevance",
            Category::MultiTurnBase => "multi_turn_base",
            Category::MultiTurnMissFunc => "multi_turn_miss_func",
            Category::MultiTurnMissParam => "multi_turn_miss_param",
        }
    }

    pub(super) fn check(self) -> Check {
        match self {
            Category::SimplePython | Category::LiveSimple => Check::One,
            Category::Multiple | Category::LiveMultiple => Check::Multiple,
            Category::Parallel
            | Category::ParallelMultiple
            | Category::LiveParallel
            | Category::LiveParallelMultiple => Check::Parallel,
            Category::Irrelevance | Category::LiveIrrelevance => Check::NoCall,
            Category::LiveRelevance => Check::SomeCall,
            Category::MultiTurnBase | Category::MultiTurnMissFunc | Category::MultiTurnMissParam => {
                Check::Turns
            }
        }
    }
}

/// Categories of the leaderboard that are not played, by the beginning of their names, and why.
const NOT_PLAYED: [(&str, &str); 5] = [
    ("multi_turn_long_context", "the texts that make it long are in the program bfcl-eval, not in the data"),
    ("memory", "its rows need memories that other conversations filled, and a judgement of free text"),
    ("web_search", "it searches the web"),
    ("simple_java", "its arguments are written in Java"),
    ("simple_javascript", "its arguments are written in JavaScript"),
];

impl Config {
    /// The categories.
    ///
    /// # Errors
    /// If one is unknown, named twice, or can't be played, or there is none.
    pub(super) fn categories(&self) -> Result<Vec<Category>, EnvError> {
        if self.path.is_empty() {
            let problem =
                "name the folder of BFCL's data (`bfcl_eval/data` of github.com/ShishirPatil/gorilla)";
            return Err(config_error("path", problem));
        }
        let mut found = Vec::new();
        for name in &self.category {
            let category = named(name).map_err(|problem| config_error("category", &problem))?;
            if found.contains(&category) {
                return Err(config_error("category", &format!("`{name}` is named twice")));
            }
            found.push(category);
        }
        match found.is_empty() {
            true => Err(config_error("category", &format!("none is named; there are {}", known()))),
            false => Ok(found),
        }
    }
}

fn known() -> String {
    Category::ALL.map(Category::name).join(", ")
}

fn named(name: &str) -> Result<Category, String> {
    if let Some(category) = Category::ALL.into_iter().find(|category| category.name() == name) {
        return Ok(category);
    }
    if let Some((_, why)) = NOT_PLAYED.iter().rev().find(|(known, _)| name.starts_with(known)) {
        return Err(format!("`{name}` is not played here: {why}; there are {}", known()));
    }
    let near = names::nearest(name, Category::ALL.map(Category::name));
    let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    Err(format!("there is no category `{name}`{near}; there are {}", known()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn what_is_not_played_is_refused_with_the_reason() {
        let refusal = |category: &[&str]| {
            let category = category.iter().map(|name| (*name).to_owned()).collect();
            Config { path: "x".to_owned(), category }.categories().unwrap_err().to_string()
        };
        assert!(refusal(&["memory_kv"]).contains("free text"));
        assert!(refusal(&["multi_turn_long_context"]).contains("bfcl-eval"));
        assert!(refusal(&["simple_javascript"]).contains("in JavaScript"));
        assert!(refusal(&["simple_pyton"]).contains("did you mean `simple_python`?"));
        assert!(refusal(&["multiple", "multiple"]).contains("twice"));
        assert!(refusal(&[]).contains("none is named"));
        let error = Config::default().categories().unwrap_err().to_string();
        assert!(error.starts_with("path: name the folder"), "{error}");
        let all = Config { path: "x".to_owned(), ..Config::default() };
        assert_eq!(all.categories().unwrap().len(), 12);
    }
}
