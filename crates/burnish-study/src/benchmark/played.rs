//! Benchmarks whose items are episodes in an environment: each is a recipe that says how a policy plays them, and that lacks
//! nothing but the data and the policy.

use std::path::{Path, PathBuf};

use burnish_recipe::{Recipe, Source, Use};
use burnish_run::RunError;

use super::source::FOLDER_VARIABLE;

/// A benchmark that is played in an environment.
#[derive(Debug)]
pub struct Played {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its title, with the paper.
    pub title: &'static str,
    /// What it reads; `None` if its tasks come with burnish, or with the package that plays it.
    pub data: Option<Data>,
    /// The recipe without the data.
    recipe: &'static str,
}

/// What a benchmark reads.
#[derive(Debug)]
pub struct Data {
    /// Name of its folder.
    folder: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Its licence.
    pub licence: &'static str,
    /// What has to be in the folder.
    needs: &'static str,
}

/// Every benchmark that is played.
pub const PLAYED: &[Played] = &[
    Played {
        name: "bfcl",
        title: "BFCL v4: calls of functions, single-turn by syntax tree and multi-turn by state (Patil et al. 2025)",
        data: None,
        recipe: include_str!("played/bfcl.toml"),
    },
    Played {
        name: "codespec",
        title: "Specifications of EvalPlus's functions, judged by running them, after CodeSpecBench",
        data: Some(Data {
            folder: "codespec",
            source: "https://github.com/evalplus/evalplus (2023), with HumanEval's own HumanEval.jsonl beside it",
            licence: "Apache-2.0, MIT",
            needs: "HumanEvalPlus.jsonl",
        }),
        recipe: include_str!("played/codespec.toml"),
    },
    Played {
        name: "codespec-repo",
        title: "Specifications of functions in small repositories with a bug, judged by their tests, after CodeSpecBench",
        data: None,
        recipe: include_str!("played/codespec-repo.toml"),
    },
    Played {
        name: "tau2",
        title: "tau2-bench, airline and retail: customers served with tools and a policy (arXiv:2506.07982)",
        data: None,
        recipe: include_str!("played/tau2.toml"),
    },
];

/// The played benchmark called `name`.
pub fn played(name: &str) -> Option<&'static Played> {
    PLAYED.iter().find(|benchmark| benchmark.name == name)
}

impl Played {
    /// The recipe with its data: the folder `data`, or else the benchmark's in `$BURNISH_DATA`. `overrides` have the form
    /// `key.sub=value`.
    ///
    /// # Errors
    /// If the data is not there, or an override is wrong.
    pub fn recipe(&self, data: Option<&Path>, overrides: &[String]) -> Result<Recipe, RunError> {
        let path = match &self.data {
            Some(own) => {
                Some(own.path(self.name, data, std::env::var_os(FOLDER_VARIABLE).map(PathBuf::from))?)
            }
            None if data.is_some() => {
                return Err(RunError::Refused(format!(
                    "--data: the tasks of {} come with burnish, or with the package that its recipe names",
                    self.name
                )));
            }
            None => None,
        };
        let overrides: Vec<String> = path.into_iter().chain(overrides.iter().cloned()).collect();
        let source = Source::parse(&format!("the recipe of {}", self.name), self.recipe, &overrides)?;
        Ok(Recipe::resolve_for(&source, Use::Evaluation)?)
    }

    /// The settings of its recipe, as TOML.
    pub fn settings(&self) -> &'static str {
        self.recipe
    }
}

impl Data {
    /// Where it is, as an override of the recipe of the benchmark called `name`: the folder `given`, or its own in `all`.
    fn path(&self, name: &str, given: Option<&Path>, all: Option<PathBuf>) -> Result<String, RunError> {
        let folder = given.map(Path::to_owned).or_else(|| Some(all?.join(self.folder)));
        let is_there = |folder: &PathBuf| folder.join(self.needs).exists();
        match folder {
            Some(folder) if is_there(&folder) => {
                let folder = std::path::absolute(&folder).unwrap_or(folder);
                // A TOML string is quoted as a JSON string is.
                let path = serde_json::Value::from(folder.display().to_string());
                Ok(format!("env.config.path=[{path}]"))
            }
            folder => {
                let Data { folder: usual, source, licence, needs } = self;
                let place = folder.map(|folder| format!(" in `{}`", folder.display())).unwrap_or_default();
                Err(RunError::Refused(format!(
                    "{name} needs its data: there is no `{needs}`{place}. It comes from {source} (licence: {licence}); nothing \
                     is downloaded here. Give it with --data FOLDER, or lay it into ${FOLDER_VARIABLE}/{usual}/"
                )))
            }
        }
    }
}
