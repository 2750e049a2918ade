//! The configuration of the environment.

use std::sync::Arc;

use burnish_worlds::accept::complaints;
use burnish_worlds::chain::Sampler;
use burnish_worlds::graph::{Graph, LIKENESS};
use burnish_worlds::query::Refinement;
use burnish_worlds::{World, builtin, builtin_names};
use serde::{Deserialize, Serialize};

use crate::settings::{check_bounds, config_error};
use crate::{BoundRow, EnvError};

pub use crate::settings::PromptStyle;

/// The configuration of tool worlds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorldsConfig {
    /// Names of worlds that come with burnish.
    pub worlds: Vec<String>,
    /// Files of further worlds.
    pub path: Vec<String>,
    /// Calls of a task.
    pub calls: Calls,
    /// Most calls that the user asks for at once.
    pub turn: usize,
    /// How chains of tools are drawn.
    pub sampler: Sampler,
    /// How the user's words are made less explicit.
    pub refinement: Refinement,
    /// Likeness from which an output of a tool is linked to a parameter of another.
    pub likeness: f64,
    /// Tools that are offered beside those that are needed.
    pub distractors: usize,
    /// Weight of the calls against the state in the reward.
    pub tau: f64,
    /// Components of the verdict.
    pub rewards: Vec<Component>,
    /// The style of the prompt.
    pub prompt: PromptStyle,
}

/// Least and most calls of a task.
pub type Calls = crate::settings::Range<usize>;

/// A component of the verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Component {
    /// The whole reward, between 0 and 1.
    Score,
    /// Whether every gold call was made.
    Trace,
    /// Share of the worlds whose state is right.
    State,
}

impl Component {
    pub(super) fn name(self) -> &'static str {
        match self {
            Component::Score => "score",
            Component::Trace => "trace",
            Component::State => "state",
        }
    }
}

impl Default for WorldsConfig {
    fn default() -> Self {
        WorldsConfig {
            worlds: builtin_names().map(str::to_owned).collect(),
            path: Vec::new(),
            calls: Calls { min: 2, max: 4 },
            turn: 3,
            sampler: Sampler::Topology,
            refinement: Refinement::default(),
            likeness: LIKENESS,
            distractors: 4,
            tau: 0.5,
            rewards: vec![Component::Score],
            prompt: PromptStyle::Full,
        }
    }
}

/// The bounds of the numeric keys that may be changed.
pub(super) const BOUNDS: &[BoundRow] = &[
    ("calls.min", 1.0, 12.0, "least calls of a task"),
    ("calls.max", 1.0, 12.0, "most calls of a task"),
    ("turn", 1.0, 12.0, "most calls that the user asks for at once"),
    ("likeness", 0.0, 1.0, "likeness from which an output is linked to a parameter"),
    ("distractors", 0.0, 64.0, "tools that are offered beside those that are needed"),
    ("tau", 0.0, 1.0, "weight of the calls against the state"),
];

impl WorldsConfig {
    /// Checks what the types do not express, and reads the worlds.
    ///
    /// # Errors
    /// Names the first key that is out of its bounds or contradicts another, and the first world that can't be read or
    /// is not accepted.
    pub(super) fn read(&self) -> Result<Arc<Vec<World>>, EnvError> {
        check_bounds(self, BOUNDS)?;
        let Calls { min, max } = self.calls;
        if min > max {
            return Err(config_error("calls.min", &format!("{min} is above calls.max, which is {max}")));
        }
        if self.worlds.is_empty() && self.path.is_empty() {
            return Err(config_error("worlds", "no world is named, and there is none in `path`"));
        }
        if self.rewards.is_empty() {
            return Err(config_error("rewards", "no component is named: `score`, `trace` or `state`"));
        }
        let mut worlds: Vec<World> = Vec::with_capacity(self.worlds.len() + self.path.len());
        let known = self.worlds.iter().map(|name| ("worlds", name, named(name)));
        for (key, name, world) in known.chain(self.path.iter().map(|path| ("path", path, read(path)))) {
            let world = world.map_err(|problem| config_error(key, &problem))?;
            let twice = worlds.iter().find(|other| {
                other.name == world.name || other.tools.iter().any(|tool| world.tool(&tool.name).is_some())
            });
            if let Some(other) = twice {
                let problem = format!("`{name}` has the name or a tool of the world `{}`", other.name);
                return Err(config_error(key, &problem));
            }
            worlds.push(world);
        }
        let graph = Graph::new(&worlds, self.likeness);
        for (at, node) in graph.nodes().iter().enumerate() {
            let mut required = node.tool.parameters.iter().enumerate().filter(|(_, it)| !it.optional);
            let is_lost = |at: usize, parameter: usize| {
                node.tool.parameters[parameter].source == burnish_worlds::Source::Internal
                    && graph.producers(at, parameter).is_empty()
            };
            if let Some((_, parameter)) = required.find(|(parameter, _)| is_lost(at, *parameter)) {
                let problem = format!(
                    "`{}`: no tool returns what its internal parameter `{}` takes, at a likeness of {}",
                    node.tool.name, parameter.name, self.likeness
                );
                return Err(config_error("worlds", &problem));
            }
        }
        Ok(Arc::new(worlds))
    }
}

/// The world of a name that comes with burnish.
fn named(name: &str) -> Result<World, String> {
    let known = || builtin_names().collect::<Vec<_>>().join(", ");
    let world = builtin(name).ok_or_else(|| {
        format!(
            "there is no world `{name}`; there are {}, and files of your own with the key `path`",
            known()
        )
    })?;
    world.map_err(|error| error.to_string())
}

/// Reads a world from a file; one that fails an acceptance test is refused.
fn read(path: &str) -> Result<World, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let world = World::parse(&text).map_err(|error| format!("{path}: {error}"))?;
    match complaints(&world).first() {
        Some(complaint) => Err(format!(
            "{path}: the world is not accepted: {complaint} (`burnish world check {path}` lists all)"
        )),
        None => Ok(world),
    }
}

/// What a policy is told that was not trained on this environment.
pub(super) const RULES: &str = "You help a user by calling tools. Look up identifiers with the tools; never make one up. Do what is \
    asked, and nothing else. When it is done, answer with a sentence and no call.";
