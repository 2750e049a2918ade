//! The configuration of the generator: which boards are made, and with which shares.

use super::board::{AGENTS_MAX, SIZE_MAX, SIZE_MIN};
use crate::redesign::{Harder, Knob, KnobKind};
use crate::settings::{self, config_error};
use crate::{Bound, EnvError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

pub use crate::settings::PromptStyle;

/// Fewest agents in a configuration.
pub const AGENTS_MIN: usize = 2;
/// Largest share of holes.
pub const HOLE_RATIO_MAX: f64 = 0.6;
const NODES: RangeInclusive<usize> = 1..=100_000;
const REWARD_RANGE: RangeInclusive<f64> = -10.0..=10.0;
const RATIO_RANGE: RangeInclusive<f64> = 0.0..=1.0;

/// Which boards are made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MapfConfig {
    /// Number of agents on every board, 2 to 5.
    pub agents: usize,
    /// Boards of each size (cells per side, 2 to 10). Sizes that are not listed are not made.
    pub sizes: BTreeMap<usize, SizeConfig>,
    /// The rewards of a plan.
    pub reward: RewardConfig,
    /// The style of the prompt.
    pub prompt: PromptStyle,
    /// Most nodes that conflict-based search may expand for one board; boards that need more are dropped.
    pub node_budget: usize,
}

/// The boards of one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SizeConfig {
    /// Share of the tasks that have this size, relative to the sum of all shares.
    pub share: f64,
    /// Share of the cells that are holes: `round(hole_ratio * size^2)` holes.
    pub hole_ratio: f64,
    /// Share of the boards whose optimal plan needs a WAIT.
    pub wait_ratio: f64,
}

/// The rewards of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RewardConfig {
    /// For a plan that can't be read or breaks a rule.
    pub invalid: f64,
    /// For a plan that brings every agent to its goal by the rules.
    pub valid: f64,
    /// For a valid plan with the least cost.
    pub optimal: f64,
}

impl Default for MapfConfig {
    fn default() -> Self {
        let size = |share| SizeConfig { share, ..SizeConfig::default() };
        MapfConfig {
            agents: 2,
            sizes: BTreeMap::from([(3, size(0.4)), (4, size(0.4)), (5, size(0.2))]),
            reward: RewardConfig::default(),
            prompt: PromptStyle::Short,
            node_budget: 2000,
        }
    }
}

impl Default for SizeConfig {
    fn default() -> Self {
        SizeConfig { share: 1.0, hole_ratio: 0.2, wait_ratio: 0.25 }
    }
}

impl Default for RewardConfig {
    fn default() -> Self {
        RewardConfig { invalid: 0.0, valid: 0.5, optimal: 1.0 }
    }
}

impl SizeConfig {
    /// Number of holes on a board of side `size`.
    pub fn holes(&self, size: usize) -> usize {
        hole_count(self.hole_ratio, size)
    }
}

fn hole_count(ratio: f64, size: usize) -> usize {
    (ratio * (size * size) as f64).round() as usize
}

/// The largest hundredth that gives `holes` holes on a board of side `size`.
pub(super) fn hole_ratio_for(holes: usize, size: usize) -> f64 {
    let hundredths = (0..=100).rev().map(|n| f64::from(n) / 100.0);
    hundredths.into_iter().find(|&ratio| hole_count(ratio, size) == holes).unwrap_or(0.0)
}

impl MapfConfig {
    /// Reads a configuration; missing keys get their defaults. If `sizes` is given, it replaces the default sizes.
    ///
    /// # Errors
    /// Names the first key that is unknown, of the wrong type or out of range, and what is allowed.
    pub fn read(value: &Value) -> Result<MapfConfig, EnvError> {
        let mut rest = value.clone();
        let sizes = rest.as_object_mut().and_then(|keys| keys.remove("sizes"));
        let mut config: MapfConfig = settings::read(&rest)?;
        match sizes {
            None => {}
            Some(Value::Object(cells)) => config.sizes = read_sizes(&cells)?,
            Some(other) => {
                let problem = format!("{other} is not a table of sizes; sizes are {SIZE_MIN} to {SIZE_MAX}");
                return Err(config_error("sizes", &problem));
            }
        }
        config.check()?;
        Ok(config)
    }

    /// Checks the ranges, and that the agents fit.
    ///
    /// # Errors
    /// Names the first key that is wrong, its value, and what is allowed.
    pub fn check(&self) -> Result<(), EnvError> {
        within("agents", self.agents, &(AGENTS_MIN..=AGENTS_MAX))?;
        within("node_budget", self.node_budget, &NODES)?;
        for (name, value) in
            [("invalid", self.reward.invalid), ("valid", self.reward.valid), ("optimal", self.reward.optimal)]
        {
            within(&format!("reward.{name}"), value, &REWARD_RANGE)?;
        }
        for (&size, cell) in &self.sizes {
            self.check_size(size, cell)?;
        }
        if self.sizes.values().all(|cell| cell.share == 0.0) {
            let problem = "no size has a share above 0; give one, like `sizes.4.share = 1`";
            return Err(config_error("sizes", problem));
        }
        Ok(())
    }

    fn check_size(&self, size: usize, cell: &SizeConfig) -> Result<(), EnvError> {
        within("sizes", size, &(SIZE_MIN..=SIZE_MAX))?;
        within(&format!("sizes.{size}.share"), cell.share, &RATIO_RANGE)?;
        within(&format!("sizes.{size}.hole_ratio"), cell.hole_ratio, &(0.0..=HOLE_RATIO_MAX))?;
        within(&format!("sizes.{size}.wait_ratio"), cell.wait_ratio, &RATIO_RANGE)?;
        let (cells, holes) = (size * size, cell.holes(size));
        if cell.share == 0.0 || cells - holes >= self.agents {
            return Ok(());
        }
        if cells < self.agents {
            let problem =
                format!("{} agents do not fit on a {size}x{size} board; at most {cells} do", self.agents);
            return Err(config_error("agents", &problem));
        }
        let most = hole_ratio_for(cells - self.agents, size);
        let problem = format!(
            "{} leaves {} of {cells} cells free, too few for {} agents; at most {most} is possible",
            cell.hole_ratio,
            cells - holes,
            self.agents
        );
        Err(config_error(&format!("sizes.{size}.hole_ratio"), &problem))
    }
}

/// The bounds of the numeric keys that may be changed.
pub(super) fn bounds() -> Vec<Bound> {
    let bound = |key: &str, range: &RangeInclusive<f64>, help: &str| Bound {
        key: key.to_owned(),
        min: *range.start(),
        max: *range.end(),
        help: help.to_owned(),
    };
    vec![
        bound(
            "sizes.*.share",
            &RATIO_RANGE,
            "share of the tasks with this size, relative to the sum of shares",
        ),
        bound("sizes.*.hole_ratio", &(0.0..=HOLE_RATIO_MAX), "share of the cells that are holes"),
        bound("sizes.*.wait_ratio", &RATIO_RANGE, "share of the boards whose optimal plan needs a WAIT"),
        bound("reward.invalid", &REWARD_RANGE, "reward of a plan that can't be read or breaks a rule"),
        bound("reward.valid", &REWARD_RANGE, "reward of a valid plan that is not optimal"),
        bound("reward.optimal", &REWARD_RANGE, "reward of a valid plan of least cost"),
    ]
}

/// The keys that may be redesigned: share, holes and waits of each size that is listed, from small to large.
pub(super) fn knobs(config: &MapfConfig) -> Vec<Knob> {
    config.sizes.keys().flat_map(|&size| knobs_of(size, config.agents)).collect()
}

fn knobs_of(size: usize, agents: usize) -> [Knob; 3] {
    let key = |name: &str| format!("sizes.{size}.{name}");
    let of_size = BTreeMap::from([("size".to_owned(), size.to_string())]);
    // One free cell more than agents, so that they can move at all.
    let holes_max = (size * size).saturating_sub(agents + 1);
    let holes = hole_ratio_for(holes_max, size).min(HOLE_RATIO_MAX);
    // No 2x2 board with two agents needs a WAIT.
    let waits = if size == SIZE_MIN { 0.0 } else { 1.0 };
    let knob =
        |name: &str, kind, max: f64, menu: &[f64], tasks: &BTreeMap<String, String>, help: &str| Knob {
            key: key(name),
            kind,
            of: if kind == KnobKind::Share { "sizes".to_owned() } else { String::new() },
            min: 0.0,
            max,
            menu: menu.iter().copied().filter(|value| *value <= max).collect(),
            harder: Harder::Up,
            tasks: tasks.clone(),
            help: help.to_owned(),
        };
    let mut waiting = of_size.clone();
    waiting.insert("wait".to_owned(), "yes".to_owned());
    [
        knob(
            "share",
            KnobKind::Share,
            1.0,
            &[0.0, 0.25, 0.5, 0.75, 1.0],
            &of_size,
            "share of the boards that have this size",
        ),
        knob(
            "hole_ratio",
            KnobKind::Number,
            holes,
            &[0.0, 0.1, 0.2, 0.3, 0.4],
            &of_size,
            "share of the cells that are holes",
        ),
        knob(
            "wait_ratio",
            KnobKind::Number,
            waits,
            &[0.0, 0.25, 0.5, 0.75],
            &waiting,
            "share of the boards whose optimal plan needs a WAIT",
        ),
    ]
}

fn read_sizes(cells: &Map<String, Value>) -> Result<BTreeMap<usize, SizeConfig>, EnvError> {
    let read = |(name, cell): (&String, &Value)| {
        // Only the plain spelling is accepted, so that `3` and `03` can't both be given.
        let size = (SIZE_MIN..=SIZE_MAX).find(|size| size.to_string() == *name).ok_or_else(|| {
            config_error("sizes", &format!("`{name}` is not a size; sizes are {SIZE_MIN} to {SIZE_MAX}"))
        })?;
        let cell = settings::read(cell).map_err(|error| below(&format!("sizes.{name}"), error))?;
        Ok((size, cell))
    };
    cells.iter().map(read).collect()
}

/// The error in a table, with its key put under the table's own path.
fn below(path: &str, error: EnvError) -> EnvError {
    match error {
        // The name that `settings` uses for all that it reads.
        EnvError::Config { key, problem } if key == "configuration" => config_error(path, &problem),
        EnvError::Config { key, problem } => config_error(&format!("{path}.{key}"), &problem),
        other => other,
    }
}

fn within<N>(key: &str, value: N, range: &RangeInclusive<N>) -> Result<(), EnvError>
where
    N: PartialOrd + std::fmt::Display,
{
    if range.contains(&value) {
        return Ok(());
    }
    let (least, most) = (range.start(), range.end());
    let nearest = if value < *least { least } else { most };
    let problem = format!("{value} is out of range: {least} to {most} are allowed; nearest: {nearest}");
    Err(config_error(key, &problem))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn absent_keys_take_their_defaults_and_a_config_survives_json() {
        assert_eq!(MapfConfig::read(&json!({})).unwrap(), MapfConfig::default());
        let given = json!({"sizes": {"10": {"share": 1}}, "reward": {"valid": 1}, "prompt": "full"});
        let config = MapfConfig::read(&given).unwrap();
        assert_eq!(config.sizes, BTreeMap::from([(10, SizeConfig::default())]));
        assert_eq!(config.reward, RewardConfig { valid: 1.0, ..RewardConfig::default() });
        assert_eq!(MapfConfig::read(&serde_json::to_value(&config).unwrap()).unwrap(), config);
    }

    #[test]
    fn errors_name_the_key_the_value_and_what_is_allowed() {
        for (given, key, problem) in [
            (json!([]), "configuration", "must be a table"),
            (json!({"agent": 2}), "agent", "unknown field `agent`, expected one of `agents`"),
            (json!({"agents": 2.5}), "agents", "floating point `2.5`"),
            (json!({"agents": 6}), "agents", "6 is out of range: 2 to 5 are allowed; nearest: 5"),
            (json!({"node_budget": 0}), "node_budget", "1 to 100000"),
            (json!({"prompt": "long"}), "prompt", "`short`"),
            (json!({"prompt": 3}), "prompt", "invalid type"),
            (json!({"reward": {"valid": "x"}}), "reward.valid", "invalid type: string \"x\""),
            (json!({"reward": {"valid": -11}}), "reward.valid", "-11 is out of range: -10 to 10"),
            (json!({"sizes": 3}), "sizes", "3 is not a table"),
            (json!({"sizes": {"4": 3}}), "sizes.4", "must be a table"),
            (json!({"sizes": {}}), "sizes", "no size has a share above 0"),
            (json!({"sizes": {"4": {"share": 0}}}), "sizes", "no size has a share above 0"),
            (json!({"sizes": {"11": {}}}), "sizes", "`11` is not a size; sizes are 2 to 10"),
            (json!({"sizes": {"03": {}}}), "sizes", "`03` is not a size"),
            (
                json!({"sizes": {"4": {"wait": 1}}}),
                "sizes.4.wait",
                "unknown field `wait`, expected one of `share`",
            ),
            (json!({"sizes": {"4": {"share": null}}}), "sizes.4.share", "invalid type: null"),
            (
                json!({"sizes": {"4": {"hole_ratio": 0.61}}}),
                "sizes.4.hole_ratio",
                "0.61 is out of range: 0 to 0.6 are allowed; nearest: 0.6",
            ),
            (
                json!({"sizes": {"4": {"wait_ratio": -0.1}}}),
                "sizes.4.wait_ratio",
                "-0.1 is out of range: 0 to 1 are allowed; nearest: 0",
            ),
            (json!({"agents": 5, "sizes": {"2": {}}}), "agents", "at most 4 do"),
            (
                json!({"agents": 5, "sizes": {"3": {"hole_ratio": 0.6}}}),
                "sizes.3.hole_ratio",
                "0.6 leaves 4 of 9 cells free, too few for 5 agents; at most 0.49",
            ),
        ] {
            match MapfConfig::read(&given) {
                Err(EnvError::Config { key: k, problem: p }) => {
                    assert_eq!(k, key, "{given}: {p}");
                    assert!(p.contains(problem), "{given}: {p}");
                }
                other => panic!("{given}: {other:?}"),
            }
        }
    }

    #[test]
    fn every_number_of_holes_has_a_ratio() {
        for size in SIZE_MIN..=SIZE_MAX {
            for holes in 0..=size * size {
                assert_eq!(hole_count(hole_ratio_for(holes, size), size), holes);
            }
        }
    }
}
