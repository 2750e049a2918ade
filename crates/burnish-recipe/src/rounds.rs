//! `[rounds]`: a list of recipes that is run again and again before the run itself, each with what the others made last.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Recipe, RecipeError, Source, StageUse};

/// The most stages of all rounds together.
const STAGES_MAX: usize = 1000;

/// `[rounds]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoundsSection {
    /// Number of rounds.
    pub count: usize,
    /// `[[rounds.stage]]`: the stages of each round, in their order.
    pub stage: Vec<RoundStage>,
    /// What the run itself takes of the last round: keys such as `policy.from`, each with the name of a stage.
    #[serde(rename = "use")]
    pub uses: BTreeMap<String, String>,
}

/// `[[rounds.stage]]`: a recipe that is run once in each round, with a seed of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoundStage {
    /// Its name, by which others use its result.
    pub name: String,
    /// The recipe.
    pub recipe: PathBuf,
    /// Overrides of that recipe, `key.sub=value`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<String>,
    /// Keys such as `policy.from`, each with the name of the stage whose newest result it takes: that of this round if the
    /// stage comes earlier in the list, else that of the round before. Where there is none yet, the recipe's own value holds.
    #[serde(default, rename = "use", skip_serializing_if = "BTreeMap::is_empty")]
    pub uses: BTreeMap<String, String>,
}

impl RoundsSection {
    /// Does the run itself take what `of` means from a round?
    pub fn gives(&self, of: StageUse) -> bool {
        self.uses.contains_key(&of.key())
    }

    /// Checks what the types don't guarantee.
    ///
    /// # Errors
    /// The key that is wrong, and what it must be.
    fn check(&self) -> Result<(), (String, String)> {
        let wrong = |key: String, rule: &str| Err((key, rule.to_owned()));
        if self.count == 0 {
            return wrong("count".into(), "must be 1 or more");
        }
        if self.stage.is_empty() {
            return wrong("stage".into(), "must not be empty: `[[rounds.stage]]` names a recipe");
        }
        if self.count.saturating_mul(self.stage.len()) > STAGES_MAX {
            return wrong("count".into(), &format!("times the stages must be {STAGES_MAX} or less"));
        }
        let names: Vec<&str> = self.stage.iter().map(|stage| stage.name.as_str()).collect();
        for (at, name) in names.iter().enumerate() {
            if name.trim().is_empty() || names[..at].contains(name) {
                return wrong(format!("stage[{at}].name"), "must be a name that no other stage has");
            }
        }
        if self.uses.is_empty() {
            return wrong(
                "use".into(),
                "must say what the run takes, as in `{ \"policy.from\" = \"NAME\" }`",
            );
        }
        let of_stages = self.stage.iter().enumerate();
        let of_stages = of_stages.map(|(at, stage)| (format!("stage[{at}].use"), &stage.uses));
        for (table, uses) in of_stages.chain([("use".to_owned(), &self.uses)]) {
            for (key, name) in uses {
                if StageUse::named(key).is_none() {
                    let known = StageUse::COPIED.map(StageUse::key).join(", ");
                    return wrong(
                        table,
                        &format!("names `{key}`, which no stage can give; there are: {known}"),
                    );
                }
                if !names.contains(&name.as_str()) {
                    return wrong(
                        table,
                        &format!("names the stage `{name}`; there are: {}", names.join(", ")),
                    );
                }
            }
        }
        Ok(())
    }
}

/// Do rounds give the run what `of` means?
pub(super) fn gives(recipe: &Recipe, of: StageUse) -> bool {
    recipe.rounds.as_ref().is_some_and(|rounds| rounds.gives(of))
}

/// Checks `[rounds]`.
pub(super) fn check(recipe: &Recipe, source: &Source) -> Result<(), RecipeError> {
    let Some(rounds) = &recipe.rounds else { return Ok(()) };
    rounds.check().map_err(|(key, rule)| source.error(&format!("rounds.{key}"), rule))?;
    Ok(())
}
