//! A strategy as people name it: on the command line, in a file of its own, in a recipe.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use burnish_reason::heavyskill::Skill;
use burnish_reason::{Strategy, StrategyConfig};
use burnish_remote::endpoint::EndpointConfig;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{RecipeError, Source, to_toml};

/// Somebody who is asked in the policy's place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "must be a model directory, or a table with the `url` and `model` of a server")]
pub enum InPlace {
    /// A model directory.
    Model(PathBuf),
    /// A server that speaks OpenAI's wire format.
    Endpoint(EndpointConfig),
}

/// Which strategy, its settings, and who is asked besides the policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StrategySection {
    /// Its id.
    pub strategy: String,
    /// Its own settings.
    #[serde(default = "no_settings")]
    pub config: Value,
    /// The skill file whose prompts take the place of those that come with burnish (`heavyskill`, `self_refine`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill: Option<PathBuf>,
    /// Who reads drafts and decides, if it is not the policy (`heavyskill`, `self_refine`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deliberator: Option<InPlace>,
    /// Who grades answers, if it is not the policy (`score.by = "judge"`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<InPlace>,
}

fn no_settings() -> Value {
    Value::Object(Map::new())
}

/// The keys that stand beside `config`.
const BESIDE: [&str; 3] = ["skill", "deliberator", "judge"];
/// What a strategy's file ends with.
const FILE: &str = "toml";

impl StrategySection {
    /// Reads `NAME`, `NAME:key=value,key=value`, or the path of a TOML file. The keys are those of the strategy's `config`, and
    /// `skill`, `deliberator`, `judge`.
    ///
    /// # Errors
    /// If it names no strategy, or a setting is unknown, of the wrong type or out of range; names the key.
    pub fn parse(text: &str) -> Result<Self, RecipeError> {
        if Path::new(text).extension().is_some_and(|extension| extension == FILE) {
            return StrategySection::read(Path::new(text));
        }
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        let set: Vec<String> = parts(settings).map(in_place).collect();
        let source = Source::parse("--strategy", &format!("strategy = {}", Value::from(name)), &set)?;
        StrategySection::of(&source.of_no_recipe())
    }

    fn of(source: &Source) -> Result<Self, RecipeError> {
        let section: StrategySection = source.decode()?;
        section.complete().map_err(|(key, problem)| source.error(&key, problem))
    }

    /// A strategy whose turns the policy answers.
    pub fn plain(StrategyConfig { strategy, config }: StrategyConfig) -> Self {
        StrategySection { strategy, config, skill: None, deliberator: None, judge: None }
    }

    /// Reads the file of a strategy.
    ///
    /// # Errors
    /// As [`StrategySection::parse`].
    pub fn read(path: &Path) -> Result<Self, RecipeError> {
        StrategySection::of(&Source::read(path, &[])?.of_no_recipe())
    }

    /// The text of a strategy's file.
    ///
    /// # Errors
    /// If a setting has no TOML form.
    pub fn text_of(strategy: &StrategyConfig) -> Result<String, RecipeError> {
        to_toml(strategy, "strategy")
    }

    /// The same, with every setting written out.
    ///
    /// # Errors
    /// The key that is wrong, and what is wrong with it.
    pub fn complete(mut self) -> Result<Self, (String, String)> {
        let StrategyConfig { config, .. } = self.with_skill()?.complete().map_err(wrong)?;
        if self.skill.is_none() {
            self.config = config;
        }
        for (key, who) in [("deliberator", &self.deliberator), ("judge", &self.judge)] {
            if let Some(InPlace::Endpoint(endpoint)) = who {
                endpoint.check().map_err(|(part, rule)| (format!("{key}.{part}"), rule.to_owned()))?;
            }
        }
        if self.deliberator.is_some() && !self.reads_skill() {
            return Err((
                "deliberator".into(),
                "is for `heavyskill` and `self_refine`: nobody deliberates here".into(),
            ));
        }
        let by = self.config.pointer("/score/by").and_then(Value::as_str);
        if self.judge.is_some() && by != Some("judge") {
            return Err((
                "judge".into(),
                "is for strategies with `score.by = \"judge\"`: nobody is judged here".into(),
            ));
        }
        Ok(self)
    }

    /// The strategy itself.
    ///
    /// # Errors
    /// As [`StrategySection::complete`].
    pub fn build(&self) -> Result<Arc<dyn Strategy>, (String, String)> {
        self.with_skill()?.build().map_err(wrong)
    }

    fn reads_skill(&self) -> bool {
        ["heavyskill", "self_refine"].contains(&self.strategy.as_str())
    }

    /// The strategy and its settings, with the texts of the skill file among them.
    ///
    /// # Errors
    /// As [`StrategySection::complete`].
    pub fn with_skill(&self) -> Result<StrategyConfig, (String, String)> {
        let mut config = StrategyConfig { strategy: self.strategy.clone(), config: self.config.clone() };
        let Some(path) = &self.skill else { return Ok(config) };
        let refuse = |problem: String| ("skill".to_owned(), problem);
        if !self.reads_skill() {
            return Err(refuse("is for `heavyskill` and `self_refine`: no other strategy reads one".into()));
        }
        let text = std::fs::read_to_string(path)
            .map_err(|error| refuse(format!("{} can't be read: {error}", path.display())))?;
        let skill = Skill::read(&text).map_err(|error| refuse(format!("{}: {error}", path.display())))?;
        if let Some(config) = config.config.as_object_mut() {
            for (key, text) in [("template", skill.template), ("draft", skill.draft)] {
                if config.contains_key(key) {
                    return Err(refuse(format!("excludes `config.{key}`: give one of them")));
                }
                config.insert(key.to_owned(), text.into());
            }
        }
        Ok(config)
    }
}

fn wrong(error: burnish_reason::SettingError) -> (String, String) {
    (error.key, error.problem)
}

/// `key=value`, below `config` unless the key stands beside it.
fn in_place(setting: &str) -> String {
    let key = setting.split(['=', '.']).next().unwrap_or_default().trim();
    if BESIDE.contains(&key) { setting.to_owned() } else { format!("config.{setting}") }
}

/// The settings between commas; commas in quotes, brackets and braces are parts of values.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let (mut depth, mut quote) = (0_i32, None);
    let is_border = move |c: char| {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth -= 1,
            (None, ',') => return depth <= 0,
            _ => {}
        }
        false
    };
    text.split(is_border).map(str::trim).filter(|part| !part.is_empty())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_strategy_is_named_with_its_settings() {
        let parsed = StrategySection::parse("majority:samples=16, temperature=0.5,equality=number").unwrap();
        assert_eq!(parsed.config, json!({"samples": 16, "temperature": 0.5, "equality": "number"}));
        let whole = StrategySection::parse("majority").unwrap();
        assert_eq!((&whole.config["samples"], &whole.config["equality"]), (&json!(8), &json!("math")));
        let parsed = StrategySection::parse("heavyskill:template=\"{prompt}, {drafts}\",drafts=2").unwrap();
        assert_eq!(parsed.config["template"], "{prompt}, {drafts}");
        let judged = StrategySection::parse(
            "best_of_n:score.by=judge,judge={url=\"http://localhost:1/v1\",model=\"m\"},samples=2",
        )
        .unwrap();
        assert!(matches!(judged.judge, Some(InPlace::Endpoint(endpoint)) if endpoint.model == "m"));
        let read = StrategySection::parse("heavyskill:deliberator=models/starter").unwrap();
        assert_eq!(read.deliberator, Some(InPlace::Model("models/starter".into())));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, part) in [
            ("majorty", "did you mean `majority`?"),
            ("majority:samples", "samples"),
            ("majority:samples=0", "config.samples"),
            ("majority:sampels=3", "sampels"),
            ("majority:skill=skill.md", "skill"),
            ("majority:judge=models/starter", "judge"),
            ("majority:deliberator=models/starter", "deliberator"),
            ("heavyskill:skill=no/such.md", "no/such.md can't be read"),
            ("best_of_n:score.by=judge,judge={url=\"ftp://x\",model=\"m\"}", "judge.url"),
            ("no_such.toml", "no_such.toml"),
        ] {
            let error = StrategySection::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn a_skill_file_gives_the_prompts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("skill.md");
        let text =
            "## Deliberation prompt\n```\n{prompt}: {drafts}\n```\n## Each draft\n```\n- {draft}\n```\n";
        std::fs::write(&path, text).unwrap();
        let section = StrategySection::parse(&format!("heavyskill:skill='{}'", path.display())).unwrap();
        let config = section.with_skill().unwrap().config;
        assert_eq!(
            (&config["template"], &config["draft"]),
            (&json!("{prompt}: {drafts}"), &json!("- {draft}\n"))
        );
        let both = format!("heavyskill:skill='{}',draft=\"{{draft}}\"", path.display());
        let error = StrategySection::parse(&both).unwrap_err().to_string();
        assert!(error.contains("excludes `config.draft`"), "{error}");
        std::fs::write(&path, "nothing").unwrap();
        let error = StrategySection::parse(&format!("heavyskill:skill='{}'", path.display())).unwrap_err();
        assert!(error.to_string().contains("is missing"), "{error}");
    }
}
