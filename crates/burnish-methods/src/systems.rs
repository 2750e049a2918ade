//! Published systems beside the catalogue of parts.

use burnish_systems::{PartRef, System};

use super::{Component, member};

/// The members of `parts` that a system is composed of.
pub fn parts_of<'a>(system: &System, parts: &'a [Component]) -> Vec<&'a Component> {
    let named = |part: &PartRef| {
        parts.iter().find(|method| method.card.family == part.family && method.card.id == part.id)
    };
    system.parts.iter().filter_map(named).collect()
}

/// What its parts need besides log-probs and rewards.
pub fn needs(system: &System, parts: &[Component]) -> Vec<&'static str> {
    let mut needs: Vec<&str> = Vec::new();
    for need in parts_of(system, parts).into_iter().flat_map(|part| &part.needs) {
        if !needs.contains(need) {
            needs.push(need);
        }
    }
    needs
}

/// Its parts and its other keys, as pages show them: ``advantage `skpo` ``.
pub fn composition(system: &System) -> Vec<String> {
    let parts = system.parts.iter().map(|part| format!("{} `{}`", member(part.family), part.id));
    parts.chain(system.uses.iter().map(|key| format!("`{key}`"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate as methods;
    use burnish_recipe::Recipe;
    use burnish_systems::{SYSTEMS, Status};
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
            assert!(!runs || !composition(system).is_empty(), "{} is composed of nothing", system.id);
        }
    }

    #[test]
    fn a_study_and_all_pages_with_results_in_a_systems_folder_stand_on_its_card() {
        for system in SYSTEMS {
            let folder = format!("systems/{}", system.id);
            let study = format!("{folder}/study.toml");
            assert_eq!(system.study, root().join(&study).is_file().then_some(&*study), "{}", system.id);
            for entry in std::fs::read_dir(root().join(&folder)).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                if name.starts_with("results") && name.ends_with(".md") {
                    assert!(system.results.contains(&&*format!("{folder}/{name}")), "{}: {name}", system.id);
                }
            }
            let elsewhere = system.results.iter().find(|page| !page.starts_with(&folder));
            assert_eq!(elsewhere, None, "{}", system.id);
        }
    }

    #[test]
    fn parts_and_environments_are_in_their_catalogues() {
        let parts = methods::all();
        for system in SYSTEMS {
            assert_eq!(
                parts_of(system, &parts).len(),
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
            for part in parts_of(system, &parts) {
                let (key, id) = part.recipe.split_once(" = ").unwrap();
                let chosen = &table[key.split('.').next().unwrap()][key.split('.').nth(1).unwrap()];
                assert_eq!(chosen.to_string(), id, "{}: {key}", system.id);
            }
        }
    }
}
