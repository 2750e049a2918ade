//! Published systems: what each is composed of, which of its sources could be read, and how a recipe switches it on.
//!
//! A system is a card that composes parts. A system that is only a setting has a card and a recipe, but no code.

mod abstention;
mod aopd;
mod arm;
mod cgrs;
mod codespec;
mod cyclic_reflex;
mod daid;
mod dereason;
mod dgg;
mod dgpo;
mod env_factory;
mod fapo;
mod fg2_gdn;
mod first_try;
mod heavyskill;
mod information_gain;
mod insight;
mod lang;
mod map_then_act;
mod mtr_suite;
mod qk_restore;
mod rdpo;
mod redesign;
mod sdar;
mod skill1;
mod skpo;
mod switch;
mod tabalign;
mod vl_rethinker;

use burnish_rl::Family;
use serde::Serialize;

use super::{Component, member};

/// Every system, sorted by id.
pub const SYSTEMS: &[System] = &[
    abstention::SYSTEM,
    aopd::SYSTEM,
    arm::SYSTEM,
    cgrs::SYSTEM,
    codespec::SYSTEM,
    cyclic_reflex::SYSTEM,
    daid::SYSTEM,
    dereason::SYSTEM,
    dgg::SYSTEM,
    dgpo::SYSTEM,
    env_factory::SYSTEM,
    fapo::SYSTEM,
    fg2_gdn::SYSTEM,
    first_try::SYSTEM,
    heavyskill::SYSTEM,
    information_gain::SYSTEM,
    insight::SYSTEM,
    lang::SYSTEM,
    map_then_act::SYSTEM,
    mtr_suite::SYSTEM,
    qk_restore::SYSTEM,
    rdpo::SYSTEM,
    redesign::SYSTEM,
    sdar::SYSTEM,
    skill1::SYSTEM,
    skpo::SYSTEM,
    switch::SYSTEM,
    tabalign::SYSTEM,
    vl_rethinker::SYSTEM,
];

/// A published system. All paths are relative to the repository.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct System {
    /// Its id, which is also the name of its file in this folder.
    pub id: &'static str,
    /// Its usual name, and what it does.
    pub title: &'static str,
    /// Title or name of the paper, venue, arXiv id, the authors' code.
    pub paper: &'static str,
    /// Which sources could be read.
    pub evidence: Evidence,
    /// What we had to guess because the evidence does not say it.
    pub reconstructed: &'static [&'static str],
    /// The parts of the catalogue that it is composed of.
    pub parts: &'static [PartRef],
    /// Other keys of a recipe that belong to it.
    pub uses: &'static [&'static str],
    /// Ids of environments that suit it.
    pub environments: &'static [&'static str],
    /// Its own recipe, or another that `set` changes. `None` until there is one.
    pub recipe: Option<&'static str>,
    /// Overrides of `recipe` that switch it on, as `key.sub=value`.
    pub set: &'static [&'static str],
    /// Its study.
    pub study: Option<&'static str>,
    /// Pages with measurements.
    pub results: &'static [&'static str],
    /// What the whole system equals, and under which setting. Each is a test.
    pub reduces_to: &'static [&'static str],
    /// The command that runs it, where that is another one than training by its recipe.
    pub run: Option<&'static str>,
    /// Whether it can be used.
    pub status: Status,
}

/// Names a part of the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PartRef {
    /// Its family.
    pub family: Family,
    /// Its id there.
    pub id: &'static str,
}

/// Which sources could be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// The paper's text, or its authors' code.
    Paper,
    /// Other people's notes, with equations or numbers.
    Notes,
    /// Only the abstract and short notes.
    Abstract,
}

/// Whether a recipe can use a system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It can.
    Runs,
    /// It can't yet.
    Planned,
}

impl Evidence {
    /// The wording on pages.
    pub fn said(self) -> &'static str {
        match self {
            Evidence::Paper => "the paper's text or its authors' code was read",
            Evidence::Notes => "detailed notes on the paper were read, not the paper",
            Evidence::Abstract => "the abstract and short notes only",
        }
    }
}

impl Status {
    /// The wording on pages.
    pub fn said(self) -> &'static str {
        match self {
            Status::Runs => "runs",
            Status::Planned => "planned",
        }
    }
}

impl System {
    /// The members of `parts` that it is composed of.
    pub fn parts_of<'a>(&self, parts: &'a [Component]) -> Vec<&'a Component> {
        let named = |part: &PartRef| {
            parts.iter().find(|method| method.card.family == part.family && method.card.id == part.id)
        };
        self.parts.iter().filter_map(named).collect()
    }

    /// What its parts need besides log-probs and rewards.
    pub fn needs(&self, parts: &[Component]) -> Vec<&'static str> {
        let mut needs: Vec<&str> = Vec::new();
        for need in self.parts_of(parts).into_iter().flat_map(|part| &part.needs) {
            if !needs.contains(need) {
                needs.push(need);
            }
        }
        needs
    }

    /// Its parts and its other keys, as pages show them: ``advantage `skpo` ``.
    pub fn composition(&self) -> Vec<String> {
        let parts = self.parts.iter().map(|part| format!("{} `{}`", member(part.family), part.id));
        parts.chain(self.uses.iter().map(|key| format!("`{key}`"))).collect()
    }

    /// Commands that run it: what it trains with, and what else there is.
    pub fn commands(&self) -> Vec<String> {
        let changes = self.set.iter().map(|change| format!(" '{change}'")).collect::<String>();
        let trains = self.recipe.map(|recipe| format!("burnish train {recipe}{changes}"));
        trains.into_iter().chain(self.run.map(str::to_owned)).collect()
    }

    /// The path of the file with its card.
    pub fn file(&self) -> String {
        format!("crates/burnish-methods/src/systems/{}.rs", self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate as methods;
    use burnish_recipe::Recipe;
    use std::path::{Path, PathBuf};

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    #[test]
    fn ids_are_sorted_and_every_file_that_a_card_names_is_there() {
        assert!(SYSTEMS.is_sorted_by(|one, other| one.id < other.id));
        for system in SYSTEMS {
            let files =
                [system.recipe, system.study].into_iter().flatten().chain(system.results.iter().copied());
            for file in files.map(str::to_owned).chain([system.file()]) {
                assert!(root().join(&file).is_file(), "{}: {file}", system.id);
            }
            let runs = system.status == Status::Runs;
            assert_eq!(runs, !system.commands().is_empty(), "{}", system.id);
            assert!(!runs || !system.composition().is_empty(), "{} is composed of nothing", system.id);
        }
    }

    #[test]
    fn the_page_of_a_study_stands_on_its_card() {
        for system in SYSTEMS {
            let Some(study) = system.study else { continue };
            // All studies are in this folder: a test resolves each of them.
            let id =
                study.strip_prefix("recipes/studies/").and_then(|name| name.strip_suffix(".toml")).unwrap();
            let page = format!("docs/results/{id}.md");
            assert_eq!(
                root().join(&page).is_file(),
                system.results.contains(&&*page),
                "{}: {page}",
                system.id
            );
        }
    }

    #[test]
    fn parts_and_environments_are_in_their_catalogues() {
        let parts = methods::all();
        for system in SYSTEMS {
            assert_eq!(
                system.parts_of(&parts).len(),
                system.parts.len(),
                "{}: {:?}",
                system.id,
                system.parts
            );
            for id in system.environments {
                assert!(burnish_env::kind(id).is_ok(), "{}: {id}", system.id);
            }
        }
    }

    #[test]
    fn the_recipe_of_a_system_chooses_its_parts() {
        let parts = methods::all();
        for system in SYSTEMS {
            let Some(recipe) = system.recipe else { continue };
            let changes: Vec<String> = system.set.iter().map(|change| (*change).to_owned()).collect();
            let recipe = Recipe::read(&root().join(recipe), &changes).unwrap();
            let table = serde_json::to_value(&recipe).unwrap();
            for part in system.parts_of(&parts) {
                let (key, id) = part.recipe.split_once(" = ").unwrap();
                let chosen = &table[key.split('.').next().unwrap()][key.split('.').nth(1).unwrap()];
                assert_eq!(chosen.to_string(), id, "{}: {key}", system.id);
            }
        }
    }
}
