//! `[rounds]`: a list of recipes that is run again and again. Each is a stage like any other, in `run.cache` under the hash of
//! everything that decides it; its inputs are what the others made last.
//!
//! ```text
//! round 1: rows ─> policy        round 2: rows ─> policy        the run
//!            └──────┘ └──────────────────┘ └─────┘ └────────────────┘
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;

use burnish_recipe::{Recipe, RoundStage, RoundsSection, StageRecipe, StageUse};

use super::{Before, Made, Origin, Stage, before, below, check_make, hash, held_out, origin, within};
use crate::RunError;
use crate::seeds::of_round;
use crate::watch::{Event, Stop, Watch};

/// All stages of all rounds, in their order.
#[derive(Debug, Clone)]
pub(super) struct Repeated {
    links: Vec<Link>,
    /// What the run takes, with the place of the link that makes it.
    uses: Vec<(StageUse, usize)>,
}

/// A stage of a round.
#[derive(Debug, Clone)]
struct Link {
    title: String,
    recipe: Recipe,
    file: PathBuf,
    hash: String,
    /// Stages that its own recipe names.
    before: Before,
    /// What it takes of earlier links.
    uses: Vec<(StageUse, usize)>,
}

impl Repeated {
    /// The rounds of `recipe`, if it has any; writes their hashes into it. `above` lists the stages that are being resolved.
    ///
    /// # Errors
    /// As [`super::resolve`].
    pub(super) fn of(recipe: &mut Recipe, above: &mut Vec<StageRecipe>) -> Result<Option<Self>, RunError> {
        let Some(rounds) = recipe.rounds.clone() else { return Ok(None) };
        let mut links = Vec::new();
        let mut newest = BTreeMap::new();
        for round in 1..=rounds.count {
            for stage in &rounds.stage {
                let written =
                    StageRecipe { recipe: stage.recipe.clone(), set: stage.set.clone(), hash: None };
                let made = below(written, "rounds.stage", above, |above| {
                    link(recipe, &rounds, round, stage, (&links, &newest), above)
                });
                links.push(made?);
                newest.insert(stage.name.clone(), links.len() - 1);
            }
        }
        let uses = taken(&rounds.uses, &newest);
        for (of, from) in &uses {
            let link = &links[*from];
            within(&link.file, check_make(*of, recipe, &link.recipe))?;
            of.set(recipe, Some(link.named()));
        }
        Ok(Some(Repeated { links, uses }))
    }

    /// Makes all stages, and gives the run what it takes of them. Finished ones are used, and interrupted ones are resumed.
    ///
    /// # Errors
    /// As [`super::make`].
    pub(super) fn make(
        &self,
        recipe: &mut Recipe,
        watch: &mut dyn Watch,
        stop: &Stop,
    ) -> Result<Made, RunError> {
        for at in 0..self.links.len() {
            let stage = self.stage(at, StageUse::Policy)?;
            held_out::refuse(recipe, &stage)?;
            if stage.result()?.is_some() {
                continue;
            }
            for earlier in 0..at {
                within(&stage.file, held_out::refuse(&stage.recipe, &self.bare(earlier, StageUse::Policy)))?;
            }
            let place = format!("{} ({})", self.links[at].title, stage.dir().display());
            watch.event(Event::Note(format!("{place}: begins")));
            if let Some(stopped) = within(&stage.file, stage.run(watch, stop))? {
                return Ok(stopped);
            }
        }
        for (of, from) in &self.uses {
            let made = self.bare(*from, *of).result()?;
            of.path_mut(recipe).into_iter().for_each(|path| path.clone_from(&made));
        }
        Ok(Made::Ready)
    }

    /// Does the run take what `of` means from a round?
    pub(super) fn gives(&self, of: StageUse) -> bool {
        self.uses.iter().any(|(own, _)| *own == of)
    }

    /// The path of what the run takes as `of`, if it is made.
    ///
    /// # Errors
    /// If its place holds something unexpected.
    pub(super) fn result(&self, of: StageUse) -> Result<Option<PathBuf>, RunError> {
        match self.uses.iter().find(|(own, _)| *own == of) {
            Some((_, from)) => self.bare(*from, of).result(),
            None => Ok(None),
        }
    }

    /// The origin of the model that the run takes as `of`, before it is made.
    ///
    /// # Errors
    /// As [`origin`].
    pub(super) fn origin(&self, of: StageUse) -> Result<Origin, RunError> {
        let place =
            |uses: &[(StageUse, usize)], of| uses.iter().find(|(own, _)| *own == of).map(|(_, from)| *from);
        let mut at = place(&self.uses, of).unwrap_or_default();
        while let Some(earlier) = place(&self.links[at].uses, StageUse::Policy) {
            at = earlier;
        }
        let link = &self.links[at];
        within(&link.file, origin(StageUse::Policy, &link.recipe))
    }

    /// The stages of all rounds.
    pub(super) fn all(&self) -> impl Iterator<Item = Stage> {
        (0..self.links.len()).map(|at| self.bare(at, StageUse::Policy))
    }

    /// The link as a stage whose result is used as `of`, with the paths of its inputs, which are made.
    fn stage(&self, at: usize, of: StageUse) -> Result<Stage, RunError> {
        let mut stage = self.bare(at, of);
        for (own, from) in &self.links[at].uses {
            let made = self.bare(*from, *own).result()?;
            own.path_mut(&mut stage.recipe).into_iter().for_each(|path| path.clone_from(&made));
        }
        Ok(stage)
    }

    /// The link as a stage whose result is used as `of`, without the paths of its inputs.
    fn bare(&self, at: usize, of: StageUse) -> Stage {
        let Link { file, recipe, hash, before, .. } = self.links[at].clone();
        Stage { of, file, recipe, hash, before }
    }
}

impl Link {
    /// The link as another recipe names it.
    fn named(&self) -> StageRecipe {
        StageRecipe { recipe: self.file.clone(), set: Vec::new(), hash: Some(self.hash.clone()) }
    }
}

/// The stage of one round. `earlier` are the links before it, with the place of the newest of each name.
fn link(
    parent: &Recipe,
    rounds: &RoundsSection,
    round: usize,
    stage: &RoundStage,
    earlier: (&[Link], &BTreeMap<String, usize>),
    above: &mut Vec<StageRecipe>,
) -> Result<Link, RunError> {
    let (links, newest) = earlier;
    let mut recipe = Recipe::read(&stage.recipe, &stage.set)?;
    recipe.run.cache.clone_from(&parent.run.cache);
    recipe.run.threads = parent.run.threads;
    recipe.run.seed = of_round(recipe.run.seed, round);
    let uses = taken(&stage.uses, newest);
    let mut others = recipe.clone();
    for (of, from) in &uses {
        check_make(*of, &recipe, &links[*from].recipe)?;
        of.set(&mut others, None);
        of.set(&mut recipe, Some(links[*from].named()));
    }
    let before = before(&mut others, above)?;
    for stage in &before.stages {
        if let (Some(from), Some(known)) = (stage.of.made_by_mut(&mut recipe), stage.of.made_by(&others)) {
            from.hash.clone_from(&known.hash);
        }
    }
    let hash = hash::of(&recipe)?;
    let name = stage.recipe.file_stem().unwrap_or_default().to_string_lossy();
    recipe.run.dir = recipe.run.cache.join(format!("{name}-{hash}"));
    let title = format!("round {round} of {}, {}", rounds.count, stage.name);
    Ok(Link { title, recipe, file: stage.recipe.clone(), hash, before, uses })
}

fn taken(uses: &BTreeMap<String, String>, newest: &BTreeMap<String, usize>) -> Vec<(StageUse, usize)> {
    let places = uses.iter().filter_map(|(key, name)| Some((StageUse::named(key)?, *newest.get(name)?)));
    places.collect()
}
